"""Consumers of one group on a real broker: in threads of a test, and in processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any, Literal, Self

import attrs

from kafka_marshal import FENCED
from kafka_marshal.client.api.consumer import Claim, Consumer, Lost
from kafka_marshal.client.connect.admin_client import ClusterClient
from kafka_marshal.client.connect.coordination_topic import TopicSpec, ensure, init
from kafka_marshal.client.connect.metadata import ClusterMetadata
from kafka_marshal.client.connect.settings import settings_of
from kafka_marshal.testing import Broker
from kafka_marshal.testing import Cluster as Brokers
from tests.client.appender import Appender
from tests.client.broken import MISTAKES
from tests.client.hands import new_name

INTERVAL_S = 1.0
"""So that an owner is stale after 2 s."""
RULES = attrs.evolve(FENCED, heartbeat_interval_ms=1_000 * INTERVAL_S)


class Stage:
    """A coordination topic, data topics and a group of one test."""

    def __init__(self, broker: Broker | Brokers, copies: int = 1) -> None:
        self.bootstrap = broker.bootstrap
        self._copies = copies
        self.errors: IO[str] | None = None
        """Where consumers in processes of their own write their log; with that of the test."""
        self.cluster = ClusterClient(settings_of(broker.bootstrap))
        self.coordination = new_name("marshal")
        self.group = new_name("g")
        init(self.cluster, TopicSpec(self.coordination, 4))

    def topic(self, partitions: int, messages: int) -> str:
        """A topic with this many messages in all, numbered in their values."""
        name = new_name("events")
        self.cluster.create_topic(name, partitions, self._copies, {})
        self.produce(name, partitions, range(messages))
        return name

    def produce(self, topic: str, partitions: int, numbers: range) -> None:
        """One message for each number."""
        with Appender(self.bootstrap, linger_ms=5) as appender:
            for number in numbers:
                appender.produce(topic, b"%d" % number, partition=number % partitions)

    def committed(self, topic: str, partitions: int) -> dict[int, int]:
        """The group's committed offsets of the topic; a partition that has none is left out."""
        places = [(topic, number) for number in range(partitions)]
        found = ClusterMetadata(self.cluster.settings).committed(self.group, places)
        return {number: offset for (_, number), offset in found.items()}

    def make_log_anew(self) -> None:
        """The coordination topic is deleted, and made again."""
        self.cluster.delete_topic(self.coordination)
        # A broker that has not heard of its end answers that it is there.
        until(lambda: ensure(self.cluster, TopicSpec(self.coordination, 4))[1])

    def consumer(self, client_id: str, **options: Any) -> Consumer:
        """A consumer of the group."""
        given: dict[str, Any] = {"heartbeat_interval_s": INTERVAL_S, **options}
        return Consumer(
            self.bootstrap,
            group_id=self.group,
            client_id=client_id,
            coordination_topic=self.coordination,
            **given,
        )

    @contextmanager
    def worker(self, client_id: str, topic: str, **options: Any) -> Iterator[Worker]:
        """A consumer in a thread, until the end of the block."""
        share, pause_s = options.pop("share", "partitions"), options.pop("pause_s", 0.0)
        worker = Worker(self.consumer(client_id, **options), topic, pause_s, share)
        try:
            yield worker
        finally:
            worker.end()

    def process(self, client_id: str, topic: str, **options: Any) -> Process:
        """A consumer in a process of its own."""
        return Process(self, client_id, topic, options)


class Worker:
    """A consumer that notes the numbers it got, in a thread of its own."""

    def __init__(
        self,
        consumer: Consumer,
        topic: str,
        pause_s: float = 0.0,
        share: Literal["partitions", "ranges"] = "partitions",
    ) -> None:
        self.consumer = consumer
        self.got: list[int] = []
        self.failure: BaseException | None = None
        self._pause_s = pause_s
        consumer.add_topic(topic, share=share)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            for message in self.consumer:
                assert message.value is not None
                self.got.append(int(message.value))
                if self._pause_s:
                    time.sleep(self._pause_s)
        except BaseException as error:
            self.failure = error

    def stop(self) -> None:
        """In order: the loop ends with what it has in hand."""
        self.consumer.stop()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def end(self) -> None:
        self.consumer.stop()
        self._thread.join(60)
        self.consumer.close()


class Process:
    """A consumer in a process of its own, that prints a line for whatever it gets."""

    def __init__(self, stage: Stage, client_id: str, topic: str, options: dict[str, Any]) -> None:
        told = {
            "bootstrap": stage.bootstrap,
            "group": stage.group,
            "client_id": client_id,
            "coordination_topic": stage.coordination,
            "heartbeat_interval_s": INTERVAL_S,
            "topic": topic,
            **options,
        }
        self._process = subprocess.Popen(
            [sys.executable, "-u", "-m", "tests.client.crew", json.dumps(told)],
            stdout=subprocess.PIPE,
            stderr=stage.errors,
            text=True,
        )
        self.lines: list[str] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.strip())

    @property
    def got(self) -> list[int]:
        """The numbers that it got."""
        return [int(line) for line in list(self.lines) if line.isdecimal()]

    def told(self, word: str) -> list[str]:
        """Its lines that begin so."""
        return [line for line in list(self.lines) if line.startswith(word)]

    def send(self, number: signal.Signals) -> None:
        os.kill(self._process.pid, number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.send(signal.SIGCONT)
        self._process.kill()
        self._process.wait(10)
        self._thread.join(10)

    def kill(self) -> None:
        """kill -9, and all that it printed."""
        self._process.kill()
        self._process.wait(10)
        self._thread.join(10)

    def ended(self, within_s: float) -> bool:
        """Whether it ends by itself in that time, with all that it printed."""
        try:
            self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            return False
        self._thread.join(10)
        return True


def until(true: Callable[[], object], within_s: float = 60.0) -> None:
    """Wait for it."""
    deadline = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.02)


def twice(*got: list[int]) -> int:
    """How many were got more than once."""
    return sum(count - 1 for count in Counter(number for each in got for number in each).values())


def tell(line: str) -> None:
    """In one piece: two threads tell."""
    os.write(1, f"{line}\n".encode())


def main(text: str) -> None:
    """What `Process` runs."""
    told = json.loads(text)
    topic, pause_s = told.pop("topic"), told.pop("pause_s", 0.0)
    share = told.pop("share", "partitions")
    mistake = told.pop("mistake", None)
    if mistake is not None:
        MISTAKES[mistake]()

    def lost(claim: Claim, reason: Lost) -> None:
        tell(f"lost {claim.partition} {reason.value}")

    def claimed(claim: Claim) -> None:
        tell(f"claimed {claim.partition} {claim.epoch}")

    with Consumer(**told, on_lost=lost, on_claimed=claimed) as consumer:
        signal.signal(signal.SIGTERM, lambda *_: consumer.stop())
        consumer.add_topic(topic, share=share)
        try:
            for batch in consumer.batches():
                for message in batch.messages:
                    if batch.claim.owned or told.get("semantics") == "at_most_once":
                        tell((message.value or b"").decode())
                        time.sleep(pause_s)
        except Exception as error:
            tell(f"failed {type(error).__name__}")
            raise


if __name__ == "__main__":
    main(sys.argv[1])

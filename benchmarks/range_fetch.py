"""What consumers that share a partition fetch in vain: `python -m benchmarks.range_fetch`.

Consumers hold ranges of one partition, each two: one in hand, and the next. Kafka's client fetches
ahead, far beyond the end of a range, and a range that was claimed before its messages exist is
waited for at the end of the log. Both bring messages of others. Here real fetchers work on a real
broker, and librdkafka's statistics count all bytes that it sent to them. The table divides them by
the bytes that one plain consumer receives for the same messages.

- backlog: the messages are there; ranges are granted as they are worked off.
- live: messages arrive at a steady rate, in ranges that were claimed before. The table also has the
  time from the append of a message until it is handed over.

A handler sleeps, so that the machine is not what is measured. Ranges are granted by a counter, at
once: how long the log needs for that is not measured here.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, Final

import attrs
import confluent_kafka as kafka
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kafka_marshal.client.connect.environment import Deadline
from kafka_marshal.client.connect.metadata import ClusterMetadata
from kafka_marshal.client.connect.settings import Settings
from kafka_marshal.client.fetch.fetched_partition import FetchedPartition
from kafka_marshal.client.fetch.fetcher import SHARED_SETTINGS, Fetcher
from kafka_marshal.client.message import Claim
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.testing import Broker

NAMES: Final = count()
AHEAD: Final = 2
"""Ranges of a consumer: one in hand, and the next."""
CHUNK: Final = 100
"""The most messages that a consumer takes at once."""
APPEND_TIME: Final = {"message.timestamp.type": "LogAppendTime"}
LIBRDKAFKA: Final = {"fetch.message.max.bytes": "1048576", "queued.min.messages": "100000"}
"""What the client does by itself."""


@attrs.frozen
class Case:
    """One run."""

    consumers: int
    messages: int
    size: int
    """Bytes of a message."""
    range_messages: int
    batch: int
    """The most messages in a batch of the producer."""
    handler_ms: float
    """How long a message takes."""
    rate: float
    """Messages that arrive in a second; 0: they are there before."""
    settings: Mapping[str, str]


@attrs.define
class Grants:
    """Grants ranges in their order."""

    messages: int
    size: int
    lock: Any = attrs.field(factory=threading.Lock)
    frontier: int = 0

    def next(self) -> range | None:
        """The next range; None when there are no more."""
        with self.lock:
            begin = self.frontier
            self.frontier = min(self.messages, begin + self.size)
            return range(begin, self.frontier) if begin < self.frontier else None


class Worker:
    """One consumer: a fetcher, and a thread that takes what it fetches."""

    def __init__(self, bootstrap: str, topic: str, case: Case, grants: Grants) -> None:
        self._topic, self._case, self._grants = topic, case, grants
        self.handed_over = 0
        self.latencies_ms: list[float] = []
        self.received: dict[str, Any] = {}
        settings = Settings(
            {"bootstrap.servers": bootstrap, "statistics.interval.ms": "500", **case.settings}
        )
        self._fetcher = Fetcher(
            ClusterMetadata(settings),
            "g",
            "c",
            ahead=False,
            on_fetched=lambda *_: None,
            on_gone=lambda *gone: print("gone:", *gone, file=sys.stderr),
            on_error=lambda sentence: print(sentence, file=sys.stderr),
            on_failure=lambda error: print(repr(error), file=sys.stderr),
            on_statistics=self._statistics,
        )
        self._open: list[tuple[FetchedPartition, int]] = []
        self._thread = threading.Thread(target=self._work, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._fetcher.start()
        self._thread.start()

    def finish(self) -> None:
        """Wait until all is done, and for what the client says about that."""
        self._thread.join()
        self.received = {}
        while not self.received:
            time.sleep(0.05)
        self._fetcher.close(Deadline(time.monotonic, time.monotonic() + 30))

    @property
    def bytes(self) -> int:
        """All bytes that the brokers sent to it."""
        return sum(broker["rxbytes"] for broker in self.received["brokers"].values())

    @property
    def messages(self) -> int:
        """All messages that it got of the topic."""
        topic = self.received["topics"].get(self._topic, {"partitions": {}})
        return sum(one["rxmsgs"] for one in topic["partitions"].values())

    def _statistics(self, text: str) -> None:
        self.received = json.loads(text)

    def _claim(self) -> None:
        while len(self._open) < AHEAD and (granted := self._grants.next()) is not None:
            key = ClaimKey("g", self._topic, 0)
            claim = Claim(key, self._topic, 0, granted.start, granted.start)
            one = self._fetcher.open(claim, granted.start, granted.stop)
            self._fetcher.allow(one, granted)
            self._open.append((one, granted.stop))

    def _work(self) -> None:
        self._claim()
        while self._open:
            chunk = self._fetcher.take(CHUNK, 1.0)
            if chunk is None:
                continue
            if self._case.rate:
                now_ms = time.time() * 1000
                self.latencies_ms += [now_ms - one.timestamp()[1] for one in chunk.messages]
            self.handed_over += len(chunk.messages)
            time.sleep(self._case.handler_ms / 1000 * len(chunk.messages))
            if chunk.end == self._open[0][1]:
                self._fetcher.drop(self._open.pop(0)[0])
                self._claim()


@attrs.frozen
class Measured:
    """What a run came to."""

    seconds: float
    bytes_ratio: float
    messages_ratio: float
    latencies_ms: Sequence[float]


def produce(bootstrap: str, topic: str, case: Case) -> None:
    """Append the messages, at once or at the rate."""
    producer = kafka.Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 5, "batch.num.messages": case.batch}
    )
    began = time.monotonic()
    for number in range(case.messages):
        if case.rate:
            while (early_s := began + number / case.rate - time.monotonic()) > 0:
                producer.poll(0)
                time.sleep(max(0.001, early_s))
        while True:
            try:
                producer.produce(topic, b"x" * case.size, partition=0)
                break
            except BufferError:
                producer.poll(0.05)
    producer.flush(60)


def plain_bytes(bootstrap: str, topic: str, messages: int) -> int:
    """The bytes that one consumer receives for all messages."""
    seen: dict[str, Any] = {}
    consumer = kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "plain",
            "statistics.interval.ms": 200,
            "stats_cb": lambda text: seen.update(json.loads(text)),
        }
    )
    consumer.assign([kafka.TopicPartition(topic, 0, 0)])
    got = 0
    while got < messages:
        got += len(consumer.consume(1_000, 0.5))
    seen.clear()
    while not seen:
        consumer.poll(0.1)
    consumer.close()
    return sum(int(broker["rxbytes"]) for broker in seen["brokers"].values())


def run(bootstrap: str, case: Case) -> Measured:
    """One case, on a topic of its own."""
    topic = f"ranges-{next(NAMES)}"
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(topic, 1, 1, config=APPEND_TIME)])[topic].result(30)
    grants = Grants(case.messages, case.range_messages)
    workers = [Worker(bootstrap, topic, case, grants) for _ in range(case.consumers)]
    if not case.rate:
        produce(bootstrap, topic, case)
    began = time.monotonic()
    for worker in workers:
        worker.start()
    if case.rate:
        time.sleep(1.0)  # everybody has claimed its ranges, and waits
        produce(bootstrap, topic, case)
    for worker in workers:
        worker.finish()
    seconds = time.monotonic() - began
    handed_over = sum(worker.handed_over for worker in workers)
    assert handed_over == case.messages, f"{handed_over} of {case.messages} were handed over"
    whole = plain_bytes(bootstrap, topic, case.messages)
    return Measured(
        seconds,
        sum(worker.bytes for worker in workers) / whole,
        sum(worker.messages for worker in workers) / case.messages,
        sorted(latency for worker in workers for latency in worker.latencies_ms),
    )


@contextmanager
def broker_at(bootstrap: str | None) -> Iterator[str]:
    """That broker, or a new one."""
    if bootstrap is not None:
        yield bootstrap
        return
    with Broker() as broker:
        yield broker.bootstrap


def at(latencies_ms: Sequence[float], part: float) -> str:
    """This quantile of them."""
    if not latencies_ms:
        return "-"
    return f"{latencies_ms[min(len(latencies_ms) - 1, int(part * len(latencies_ms)))]:.1f}"


def settings_of(given: str) -> Mapping[str, str]:
    """`default`, `librdkafka`, or `fetch.message.max.bytes/queued.min.messages`, as 65536/1."""
    if given == "default":
        return SHARED_SETTINGS
    if given == "librdkafka":
        return LIBRDKAFKA
    return dict(zip(LIBRDKAFKA, given.split("/"), strict=True))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the cases and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--bootstrap", help="a broker; without it one is started")
    parser.add_argument("--consumers", type=int, default=16)
    parser.add_argument("--messages", type=int, default=160_000)
    parser.add_argument("--size", type=int, default=100, help="bytes of a message")
    parser.add_argument("--ranges", type=int, nargs="+", default=[500, 1_000, 5_000])
    parser.add_argument("--batch", type=int, nargs="+", default=[93])
    parser.add_argument("--handler-ms", type=float, default=1.0)
    parser.add_argument("--rate", type=float, nargs="+", default=[0.0, 10_000.0])
    parser.add_argument("--settings", nargs="+", default=["librdkafka", "default"])
    given = parser.parse_args(arguments)
    print(f"{given.consumers} consumers, {given.messages:,} messages of {given.size} bytes")
    print("| settings | rate/s | range | batch | s | bytes x | messages x | p50 ms | p99 ms |")
    print("|---|---|---|---|---|---|---|---|---|")
    with broker_at(given.bootstrap) as bootstrap:
        for settings in given.settings:
            for rate in given.rate:
                for batch in given.batch:
                    for size in given.ranges:
                        case = Case(
                            given.consumers,
                            given.messages,
                            given.size,
                            size,
                            batch,
                            given.handler_ms,
                            rate,
                            settings_of(settings),
                        )
                        found = run(bootstrap, case)
                        late = found.latencies_ms
                        print(
                            f"| {settings} | {rate:,.0f} | {size:,} | {batch:,} "
                            f"| {found.seconds:.1f} | {found.bytes_ratio:.2f} "
                            f"| {found.messages_ratio:.2f} | {at(late, 0.5)} | {at(late, 0.99)} |",
                            flush=True,
                        )


if __name__ == "__main__":
    main()

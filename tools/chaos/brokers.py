"""Faults of brokers and of the links to them: one object does them and knows which still hold."""

from __future__ import annotations

import json
import random
import resource
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from tools.chaos.clocks import Clocks
from tools.chaos.proxy import Direction, LinkFault, Proxy

from kafka_marshal.testing import BrokerError, Cluster
from kafka_marshal.testing.kafka import run_tool

FULL_S: Final = 20.0
"""A broker whose disk is full ends within this time, or is killed."""
START_AGAIN: Final = 3
"""How often a broker is started that does not come up on a busy machine."""


class BrokerFaults:
    """Does what the dice say to brokers and links. Each fault returns whether it was possible."""

    def __init__(
        self,
        cluster: Cluster,
        proxy: Proxy,
        pids: dict[str, int],
        dice: random.Random,
        tell: Callable[[str], None],
        clocks: Clocks,
    ) -> None:
        self.cluster, self.proxy, self._clocks = cluster, proxy, clocks
        self.down: set[int] = set()
        """Brokers that are dead, or stand still."""
        self.failed: list[str] = []
        """What went wrong with a fault itself."""
        self._pids, self._dice, self._tell = pids, dice, tell
        self._under_way: set[threading.Thread] = set()
        for number in cluster.numbers:
            self._names(number)

    def wait(self) -> None:
        """Until all that was broken is mended."""
        while self._under_way:
            self._under_way.pop().join()

    def _names(self, number: int) -> None:
        self._pids[f"broker {number}"] = self.cluster.server(number).pid

    def then(self, seconds: float, do: Callable[[], object]) -> None:
        """Do it then, whatever the run is doing at that time: a command may wait for it."""
        timer = threading.Timer(seconds, do)
        timer.daemon = True
        self._under_way.add(timer)
        timer.start()

    def _one_of_three(self) -> int | None:
        """A broker whose loss leaves a majority; None if there is none."""
        if self.down or len(self.cluster.numbers) == 1:
            return None
        return self._dice.choice(self.cluster.running)

    # --- brokers ----------------------------------------------------------------------------------

    def kill_broker(self) -> bool:
        """One of three, and it comes back."""
        if (number := self._one_of_three()) is None:
            return False
        gone_s = self._dice.uniform(1, 8)
        self.down.add(number)
        self.cluster.kill(number)
        self._tell(f"broker {number} is killed for {gone_s:.1f} s")
        self.then(gone_s, lambda: self._start(number))
        return True

    def _start(self, number: int) -> None:
        for attempt in range(START_AGAIN):
            try:
                self.cluster.start(number)
                break
            except BrokerError as error:
                if attempt == START_AGAIN - 1:
                    self.failed.append(f"broker {number} did not come back: {error}")
        self._names(number)
        self.down.discard(number)
        self._tell(f"broker {number} is back")

    def pause_broker(self) -> bool:
        """One of three stands still: its connections stay open."""
        if (number := self._one_of_three()) is None:
            return False
        still_s = self._dice.uniform(0.5, 8)
        self.down.add(number)
        self.cluster.pause(number)
        self._tell(f"broker {number} stands still for {still_s:.1f} s")

        def goes_on() -> None:
            self.cluster.resume(number)
            self.down.discard(number)

        self.then(still_s, goes_on)
        return True

    def pause_brokers(self, outcome_s: float) -> bool:
        """All of them stand still."""
        if self.down:
            return False
        still_s = self._dice.uniform(0.5, 2.5 + outcome_s)
        self._tell(f"all brokers stand still for {still_s:.1f} s")
        self.cluster.pause()
        time.sleep(still_s)
        self.cluster.resume()
        return True

    def fill_disk(self) -> bool:
        """One of three can write no more, until it is started again.

        No file of its process may grow, by RLIMIT_FSIZE, which takes no rights. Kafka gives up a
        log folder that it cannot write to; it has only one, so it ends.
        """
        if (number := self._one_of_three()) is None:
            return False
        server, gone_s = self.cluster.server(number), self._dice.uniform(1, 8)
        self.down.add(number)
        self._tell(f"the disk of broker {number} is full")
        _, hard = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (1, hard))

        def ends() -> None:
            deadline = time.monotonic() + FULL_S
            while server.running and time.monotonic() < deadline:
                time.sleep(0.1)
            self._tell(f"broker {number} has {'not ' if server.running else ''}ended by itself")
            self.cluster.kill(number)
            time.sleep(gone_s)
            self._start(number)

        self.then(0.0, ends)
        return True

    def set_clock(self, most_s: float) -> bool:
        """The date of one that runs is ahead, behind, or right again.

        What it leads gets its timestamps: they step, and step again when the leader moves.
        """
        running = [number for number in self.cluster.running if number not in self.down]
        number, ahead_s = self._dice.choice(running), self._dice.uniform(-most_s, most_s)
        ahead_s = self._dice.choice((ahead_s, abs(ahead_s), 0.0))
        self._clocks.set(self.cluster.server(number).pid, round(1000 * ahead_s))
        self._tell(f"the clock of broker {number} is {ahead_s:+.1f} s ahead")
        return True

    def move_leader(self, topic: str, folder: Path) -> bool:
        """The leader of one partition of the topic becomes another broker."""
        if self.down or len(self.cluster.numbers) == 1:
            return False
        chosen = self._dice.random()
        self.then(0.0, lambda: self._move_leader(topic, folder, chosen))
        return True

    def _move_leader(self, topic: str, folder: Path, chosen: float) -> None:
        try:
            admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap, "log_level": 0})
            partitions = admin.list_topics(topic, timeout=30).topics[topic].partitions
            number = int(chosen * len(partitions))
            first, *others = partitions[number].replicas
            plan = {"topic": topic, "partition": number, "replicas": [*others, first]}
            file = folder / f"reassign-{time.monotonic_ns()}.json"
            file.write_text(json.dumps({"version": 1, "partitions": [plan]}))
            run_tool(
                "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
                *("--bootstrap-server", self.cluster.bootstrap, "--execute"),
                *("--reassignment-json-file", str(file)),
            )
            place = TopicPartition(topic, number)
            elected = admin.elect_leaders(ElectionType.PREFERRED, [place]).result(30)
            words = "; ".join(str(error.str()) for error in elected.values() if error) or "moved"
            self._tell(f"the leader of {topic}:{number} goes from {first} to {others[0]}: {words}")
        except (BrokerError, KafkaException) as error:  # other faults are under way
            self._tell(f"no leader of {topic} could be moved: {str(error).splitlines()[0]}")

    def set_clocks_right(self) -> None:
        """Of all that run."""
        for number in self.cluster.running:
            self._clocks.set(self.cluster.server(number).pid, 0)

    # --- links ------------------------------------------------------------------------------------

    def fail_link(self, consumers: Collection[str]) -> bool:
        """Some links are cut, late or slow, for some seconds; in one direction, or in both."""
        broker, peer = self._link(consumers)
        ways = self._dice.choice([(one,) for one in Direction] + 2 * [tuple(Direction)])
        [kind] = self._dice.choices(("cut", "late", "slow"), (3, 1, 1))
        fault = LinkFault(
            *(broker, peer, ways),
            cut=kind == "cut",
            delay_s=self._dice.uniform(0.05, 2) if kind == "late" else 0.0,
            bytes_per_s=self._dice.choice((500, 5_000, 50_000)) if kind == "slow" else None,
        )
        lasts_s = self._dice.uniform(1, 10)
        self._tell(f"link for {lasts_s:.1f} s: {fault.sentence()}")
        self.proxy.begin(fault)
        self.then(lasts_s, lambda: self.proxy.end(fault))
        return True

    def reset_links(self, consumers: Collection[str]) -> bool:
        """Some connections are reset."""
        broker, peer = self._link(consumers)
        number = self.proxy.reset(broker, peer)
        self._tell(f"{number} connections reset: {LinkFault(broker, peer).ends()}")
        return number > 0

    def _link(self, consumers: Collection[str]) -> tuple[int | None, str | None]:
        """One broker or all, and one consumer, one broker's replication, or everybody."""
        broker = self._dice.choice((None, *self.cluster.numbers))
        brokers = [name for name in self._pids if name.startswith("broker ")]
        if len(brokers) == 1:
            brokers = sorted(consumers)
        peers: list[list[str | None]] = [[*sorted(consumers)], [*sorted(brokers)], [None]]
        [among] = self._dice.choices(peers, (5, 2, 2))
        return broker, self._dice.choice(among)

"""Marshal promises the same of consumers whose every step a seed has chosen, and the seed repeats.

The shipped consumers run on one thread, against a Kafka in memory and a clock that only the walk
moves. They are killed and started again, cut off from the log, and lose what they sent.
"""

from __future__ import annotations

import hashlib
import logging
import os
import subprocess
import sys
from collections import Counter, defaultdict
from functools import partial
from typing import Any, Final

import attrs
import pytest
from attrs import define, field

from kafka_marshal import Consumer
from kafka_marshal.admin.fold import ClaimsFold
from kafka_marshal.admin.receipts import Receipts
from kafka_marshal.client.coordinate.configuration import Semantics
from kafka_marshal.client.coordinate.owned_partition import OwnedPartition
from kafka_marshal.client.message import Message
from kafka_marshal.codec import decode, decode_headers
from kafka_marshal.core.claims import fenced
from kafka_marshal.core.messages import Record
from kafka_marshal.core.state import FENCED, Claim
from kafka_marshal.errors import COORDINATION_TOPIC
from kafka_marshal.testing.in_memory import (
    LANDS,
    LANDS_SOMEWHERE,
    LANDS_UNKNOWN,
    LOST,
    InMemoryKafka,
    ScheduledThread,
    Scheduler,
)

ALO: Final[Semantics] = "at_least_once"
AMO: Final[Semantics] = "at_most_once"
PARTITIONS: Final = 3
CLIENTS: Final = 3
INTERVAL_S: Final = 5.0
RULES: Final = attrs.evolve(FENCED, heartbeat_interval_ms=int(1_000 * INTERVAL_S))
FAULTS_EACH: Final = 15
"""Faults of a walk."""
FAULT_EVERY_S: Final = 3.0
BURST_EVERY_S: Final = 0.5
BURST_MAX: Final = 20
UNKNOWN_AFTER_S: Final = (0.5, 2.0, 30.0)
WORK_S: Final = (0.001, 0.02, 0.3)
WAYS: Final = {
    "at_least_once": ("loops", "polls", "consumes", "batches", "runs"),
    "at_most_once": ("loops", "polls", "consumes", "batches"),
}
"""Ways of consuming, by semantics."""
ENDS_WITHIN_S: Final = 120.0
"""After the last fault: two intervals until claims are stale, and time to consume."""
IDLE_ROUNDS: Final = 20
"""Rounds in which nobody is given anything, until nothing that was granted is left in hand."""
FAULTS: Final = ("kill", "kill", "close", "append", "cut", "stall", "wait", "mend")
AMO_LOSES: Final = (LANDS, LANDS, LANDS, LANDS, LANDS, LANDS_SOMEWHERE, LANDS_UNKNOWN, LOST)


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """A walk logs a line for each fault."""
    caplog.set_level(logging.CRITICAL, logger="kafka_marshal")


@define
class Process:
    """A consumer, and the application around it."""

    name: str
    thread: ScheduledThread | None = None
    consumer: Consumer | None = None


@define
class Walk:
    """Consumers of one group, and what their applications were given."""

    seed: int
    semantics: Semantics
    scheduler: Scheduler = field(init=False)
    kafka: InMemoryKafka = field(init=False)
    processes: dict[str, Process] = field(factory=dict)
    """By their clients."""
    given: list[tuple[str, int, int, int]] = field(factory=list)
    """Instance, partition, epoch and offset of each message, in the order of the applications."""
    faults: Counter[str] = field(factory=Counter)
    ways: Counter[str] = field(factory=Counter)
    calm: bool = False
    """There are no more faults."""
    finished: bool = False
    """In the end the log had everything as processed, or granted."""

    def __attrs_post_init__(self) -> None:
        self.scheduler = Scheduler(self.seed)
        self.kafka = InMemoryKafka(2, scheduler=self.scheduler)
        self.kafka.create("orders", partitions=PARTITIONS, messages=60)

    def start(self, client_id: str) -> None:
        process = self.processes[client_id] = Process(f"{client_id}, {self.ways.total()}")
        way = self.scheduler.chance.choice(WAYS[self.semantics])
        self.ways[way] += 1
        process.thread = self.scheduler.begin(
            process.name, partial(self.application, process, client_id, way)
        )

    def application(self, process: Process, client_id: str, way: str) -> None:
        with Consumer(
            settings=self.kafka.settings(),
            group_id="g",
            client_id=client_id,
            semantics=self.semantics,
            heartbeat_interval_s=INTERVAL_S,
        ) as consumer:
            process.consumer = consumer
            consumer.add_topic("orders")
            getattr(self, way)(consumer)

    def produces(self) -> None:
        """Somebody orders, in bursts, while there are faults."""
        chance = self.scheduler.chance
        while not self.calm:
            self.scheduler.sleep(chance.expovariate(1 / BURST_EVERY_S))
            self.kafka.produce("orders", chance.randrange(BURST_MAX), chance.randrange(PARTITIONS))

    def takes(self, consumer: Consumer, message: Message) -> None:
        """The application processes a message, and that takes a while."""
        place = message.partition, message.claim.epoch, message.offset
        self.given.append((consumer.instance_id, *place))
        if self.scheduler.chance.random() < 0.1:
            self.scheduler.sleep(self.scheduler.chance.choice(WORK_S))

    def loops(self, consumer: Consumer) -> None:
        for message in consumer:
            self.takes(consumer, message)
            if self.scheduler.chance.random() < 0.1:
                consumer.commit(message, asynchronous=True)

    def polls(self, consumer: Consumer) -> None:
        while not consumer.delivery.ended:
            message = consumer.poll(timeout_s=self.scheduler.chance.choice((0.0, 0.1, 1.0)))
            if message is None:
                self.scheduler.sleep(0.01)
                continue
            self.takes(consumer, message)
            if self.scheduler.chance.random() < 0.2:
                consumer.commit(message, asynchronous=True)
            else:
                consumer.ack(message)

    def consumes(self, consumer: Consumer) -> None:
        while not consumer.delivery.ended:
            for message in consumer.consume(self.scheduler.chance.choice((1, 7, 100)), 0.5):
                self.takes(consumer, message)

    def batches(self, consumer: Consumer) -> None:
        for batch in consumer.batches():
            for message in batch.messages:
                self.takes(consumer, message)

    def runs(self, consumer: Consumer) -> None:
        consumer.run(partial(self.takes, consumer), workers=3)

    def disturbs(self) -> None:
        """One of what may happen to consumers, their log and their topic."""
        chance = self.scheduler.chance
        client_id = chance.choice(sorted(self.processes))
        process = self.processes[client_id]
        fault = chance.choice(FAULTS)
        self.faults[fault] += 1
        match fault:
            case "kill":
                del self.processes[client_id]
                self.scheduler.kill(process.name)
                self.start(chance.choice((client_id, client_id + "'")))
            case "close":
                self.ends(client_id)
                self.start(client_id)
            case "stall":
                self.scheduler.stop(process.name)
            case "wait":
                self.scheduler.sleep(chance.choice((INTERVAL_S, 3 * INTERVAL_S)))
            case "append":
                became = chance.choice(AMO_LOSES)
                if became.error is not None:
                    became = attrs.evolve(became, after_s=chance.choice(UNKNOWN_AFTER_S))
                self.kafka.appends = lambda _: became
            case "cut":
                self.kafka.hold_log()
            case _:
                self.mends()

    def ends(self, client_id: str) -> None:
        """The application is asked to end, and does, or is closed where its log is cut."""
        process = self.processes.pop(client_id)
        assert process.thread is not None
        self.scheduler.stop(process.name, stands=False)
        while process.consumer is None and process.thread.is_alive():
            self.scheduler.sleep(0.1)
        if process.consumer is not None:
            process.consumer.stop()
            process.thread.join(2 * INTERVAL_S)
            process.consumer.close(timeout_s=2.0)
        process.thread.join()

    def mends(self) -> None:
        self.kafka.appends = lambda _: LANDS
        self.kafka.flow()
        for process in self.processes.values():
            self.scheduler.stop(process.name, stands=False)

    def goes(self, faults: int = FAULTS_EACH) -> Walk:
        """Walk; then mend everything, and consume to the end."""
        chance = self.scheduler.chance
        for number in range(CLIENTS):
            self.start(f"c{number}")
        if faults:
            self.scheduler.begin("producer", self.produces)
        for _ in range(faults):
            self.scheduler.sleep(chance.expovariate(1 / FAULT_EVERY_S))
            self.disturbs()
        self.calm = True
        self.mends()
        until_s = self.scheduler.clock.monotonic() + ENDS_WITHIN_S
        idle = 0
        while self.scheduler.clock.monotonic() < until_s and idle < IDLE_ROUNDS:
            before = len(self.given)
            self.scheduler.sleep(0.5)
            idle = idle + 1 if self.done and len(self.given) == before else 0
        self.finished = self.done
        for client_id in list(self.processes):
            self.ends(client_id)
        return self

    @property
    def done(self) -> bool:
        """The log has everything as processed, or granted."""
        claims = [
            claim
            for each in self.processes.values()
            if each.consumer
            for claim in each.consumer.claims
        ]
        left = {claim.partition: claim.committed for claim in claims if claim.owned}
        return all(left.get(number) == self.end(number) for number in range(PARTITIONS))

    def end(self, partition: int) -> int:
        return self.kafka.topics["orders"][partition].high

    @property
    def log(self) -> list[tuple[object, ...]]:
        return [
            (partition, record.value, record.headers, record.timestamp_ms)
            for partition in range(2)
            for record in self.kafka.records(partition, COORDINATION_TOPIC)
        ]

    @property
    def digest(self) -> str:
        """Changes with any byte of the log, its times, and with what was given to whom."""
        return hashlib.sha256(repr((self.log, self.given)).encode()).hexdigest()


def skipped(walk: Walk) -> list[tuple[str, int, int]]:
    """Messages below which, in one tenure, something was passed over."""
    latest: dict[tuple[str, int, int], int] = {}
    found = []
    for instance, partition, epoch, offset in walk.given:
        tenure = instance, partition, epoch
        if tenure in latest and offset > latest[tenure] + 1:
            found.append(tenure)
        latest[tenure] = max(offset, latest.get(tenure, offset))
    return found


def of_nobody(walk: Walk) -> set[tuple[int, int]]:
    """Messages that no application was given."""
    there = {(number, at) for number in range(PARTITIONS) for at in range(walk.end(number))}
    return there - {(partition, offset) for _, partition, _, offset in walk.given}


def twice(walk: Walk) -> list[tuple[int, int]]:
    """Messages that were given more than once."""
    times = Counter((partition, offset) for _, partition, _, offset in walk.given)
    return [place for place, count in times.items() if count > 1]


def listed(walk: Walk) -> set[tuple[int, int]]:
    """Messages that `marshal receipts` would list when every owner has been silent for long."""
    found = set()
    for partition in range(2):
        fold, receipts = ClaimsFold(0, RULES), Receipts("g", "orders")
        for offset, one in enumerate(walk.kafka.records(partition)):
            headers = decode_headers(one.headers)
            record = Record(partition, offset, one.timestamp_ms, decode(one.value), headers)
            receipts.read(record, fold.apply(record))
        later_ms = walk.scheduler.clock.unix_ms() + 1_000_000
        for each in receipts.receipts(later_ms, int(RULES.stale_after_ms)):
            found |= {(each.topic_partition, at) for at in range(each.start or 0, each.end)}
    return found


@pytest.mark.parametrize("seed", range(8))
def test_at_least_once_every_message_is_given(seed: int) -> None:
    walk = Walk(seed, ALO).goes()
    assert walk.finished, walk.faults
    assert of_nobody(walk) == set()
    assert skipped(walk) == []


@pytest.mark.parametrize("seed", range(8))
def test_at_most_once_no_message_is_given_twice(seed: int) -> None:
    walk = Walk(seed, AMO).goes()
    assert walk.finished, walk.faults
    assert twice(walk) == []
    assert skipped(walk) == []
    assert of_nobody(walk) <= listed(walk)


def test_a_walk_that_kills_nobody_gives_every_message_once() -> None:
    for semantics in (ALO, AMO):
        walk = Walk(1, semantics).goes(faults=0)
        assert of_nobody(walk) == set()
        assert twice(walk) == []


def test_an_application_that_counts_as_done_what_it_was_given_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reached = OwnedPartition.reached
    monkeypatch.setattr(
        OwnedPartition,
        "reached",
        lambda owned: max([reached(owned), *[hand.end for hand in owned.hands]]),
    )
    assert any(of_nobody(Walk(seed, ALO).goes()) for seed in range(24))


def test_a_grant_that_does_not_move_the_position_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    claiming_messages = fenced.claiming_messages

    def kept(claim: Claim, *of: Any) -> tuple[Claim, Any]:
        after, verdict = claiming_messages(claim, *of)
        return attrs.evolve(after, position=claim.position), verdict

    monkeypatch.setattr(fenced, "claiming_messages", kept)
    walk = Walk(0, AMO)
    walk.start("c0")
    walk.scheduler.sleep(INTERVAL_S)
    walk.scheduler.kill(walk.processes["c0"].name)
    walk.start("c1")
    walk.scheduler.sleep(3 * INTERVAL_S)
    assert twice(walk)


def test_a_call_that_waits_lets_only_the_clock_of_the_run_go_on() -> None:
    scheduler = Scheduler(1)
    kafka = InMemoryKafka(scheduler=scheduler)
    kafka.create("orders", partitions=2, messages=5)
    with Consumer(settings=kafka.settings(), group_id="g", client_id="c1") as consumer:
        consumer.add_topic("orders")
        polled = [consumer.poll(timeout_s=10.0) for _ in range(10)]
        assert [one and one.offset for one in polled] == [*range(5), *range(5)]
        consumer.commit()
        began_s = scheduler.clock.monotonic()
        assert consumer.poll(timeout_s=60.0) is None
        assert scheduler.clock.monotonic() >= began_s + 60.0
        kafka.produce("orders", 3)
        for number, message in enumerate(consumer, start=5):
            assert message.offset == number
            if number == 7:
                consumer.stop()
    assert [kafka.committed["g", "orders", number] for number in range(2)] == [8, 5]


def test_a_seed_repeats_a_walk_whatever_the_process_hashes_with() -> None:
    code = "from tests.client.fleet.test_by_seed import *; print(Walk(3, ALO).goes().digest)"
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": str(number)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        for number in (1, 2)
    }
    assert digests == {Walk(3, ALO).goes().digest}
    assert Walk(4, ALO).goes(1).digest not in digests


def test_walks_meet_every_fault_and_lose_what_was_granted() -> None:
    assert any(of_nobody(Walk(seed, AMO).goes()) for seed in range(8)), "receipts list something"
    met: dict[str, int] = defaultdict(int)
    for seed in range(3):
        for fault, count in Walk(seed, ALO).goes().faults.items():
            met[fault] += count
    assert met.keys() == set(FAULTS)

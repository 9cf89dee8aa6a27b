"""Marshal promises that nobody takes a log with missing records for a whole one.

Kafka's low watermark stays 0 where compaction removed records. Only the offsets show it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from attrs import define, field

from kafka_marshal import ClaimKey, Consumer
from kafka_marshal.admin.view import View
from kafka_marshal.core.messages import Heartbeat
from kafka_marshal.errors import COORDINATION_TOPIC
from kafka_marshal.machines.consumer.effects import Lost
from kafka_marshal.testing.in_memory import InMemoryKafka, Scheduler, Transaction

INTERVAL_S = 5.0
WITHIN_S = 60.0


@define
class Fleet:
    """Consumers of one topic, and who was given what."""

    scheduler: Scheduler = field(factory=lambda: Scheduler(seed=1))
    kafka: InMemoryKafka = field(init=False)
    given: list[tuple[str, int]] = field(factory=list)
    """Client and offset of each message."""
    lost: list[tuple[str, Lost]] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.kafka = InMemoryKafka(scheduler=self.scheduler)
        self.kafka.create("orders", messages=10)

    @contextmanager
    def consumes(self, client: str, **options: Any) -> Iterator[Consumer]:
        """A consumer reads while the test goes on."""
        opened: list[Consumer] = []

        def run() -> None:
            with Consumer(
                settings=self.kafka.settings(),
                group_id="g",
                client_id=client,
                heartbeat_interval_s=INTERVAL_S,
                on_lost=lambda claim, why: self.lost.append((client, why)),
                **options,
            ) as consumer:
                consumer.add_topic("orders")
                opened.append(consumer)
                self.given += ((client, message.offset) for message in consumer)

        process = self.scheduler.begin(client, run)
        self.until(lambda: opened)
        yield opened[0]
        opened[0].stop()
        process.join(WITHIN_S)

    def until(self, true: Callable[[], object], within_s: float = WITHIN_S) -> None:
        """Wait for it."""
        ends_s = self.scheduler.clock.monotonic() + within_s
        while not true():
            assert self.scheduler.clock.monotonic() < ends_s, "it did not come true in time"
            self.scheduler.sleep(0.05)

    def offsets_of(self, client: str) -> list[int]:
        """What one consumer was given."""
        return [offset for each, offset in self.given if each == client]

    def compact(self) -> None:
        """Only the last record stays, and the log begins at 0 as before."""
        partition = self.kafka.topics[COORDINATION_TOPIC][0]
        self.kafka.compact(COORDINATION_TOPIC, 0, partition.high)
        assert partition.low == 0
        assert partition.records[0] is None

    def heartbeats(self) -> int:
        """How many heartbeats lie in the log."""
        return len(self.kafka.said(Heartbeat))


@pytest.mark.parametrize("semantics", ["at_least_once", "at_most_once"])
def test_who_comes_when_the_log_was_compacted_leaves_an_owner_its_claim(semantics: str) -> None:
    fleet = Fleet()
    with fleet.consumes("owner", semantics=semantics):
        fleet.until(lambda: fleet.offsets_of("owner") == [*range(10)])
        fleet.until(lambda: fleet.heartbeats() >= 3)
        fleet.compact()
        with fleet.consumes("late", semantics=semantics) as late:
            fleet.scheduler.sleep(2 * INTERVAL_S)
            fleet.kafka.produce("orders", 5)
            fleet.until(lambda: fleet.offsets_of("owner") == [*range(15)])
            assert not late.claims
            assert not fleet.lost
        assert not fleet.offsets_of("late")


def test_who_comes_when_nothing_is_left_of_the_log_leaves_an_owner_its_claim() -> None:
    """The log is empty and does not end at 0: its end shows that there was something."""
    fleet = Fleet()
    with fleet.consumes("owner"):
        fleet.until(lambda: fleet.offsets_of("owner") == [*range(10)])
        fleet.until(lambda: fleet.heartbeats() >= 3)
        fleet.scheduler.sleep(1.0)  # the owner has read them: what it has not, it would miss
        partition = fleet.kafka.topics[COORDINATION_TOPIC][0]
        partition.records[:] = [None] * partition.high
        with fleet.consumes("late") as late:
            fleet.scheduler.sleep(3 * INTERVAL_S)
            assert not late.claims
            assert not fleet.lost


def test_an_owner_that_stood_still_and_missed_a_takeover_does_not_go_on() -> None:
    """Nothing that it reads afterwards says that it was replaced: that record is gone."""
    fleet = Fleet()
    with fleet.consumes("stalled"):
        fleet.until(lambda: fleet.offsets_of("stalled") == [*range(10)])
        fleet.until(lambda: fleet.heartbeats() >= 3)
        fleet.scheduler.stop("stalled")
        with fleet.consumes("next") as following:
            fleet.until(lambda: following.claims)
            fleet.until(lambda: fleet.kafka.said(Heartbeat)[-1].client_id == "next")
            fleet.compact()
            fleet.scheduler.stop("stalled", stands=False)
            fleet.scheduler.sleep(2 * INTERVAL_S)
            fleet.kafka.produce("orders", 5)
            fleet.until(lambda: fleet.offsets_of("next") == [*range(10, 15)])
            assert fleet.lost == [("stalled", Lost.UNCERTAIN)]
    assert fleet.offsets_of("stalled") == [*range(10)]


def test_what_was_written_in_a_transaction_makes_everybody_uncertain() -> None:
    """A control record is a gap like any other, since no reader can tell. That is the price."""
    fleet = Fleet()
    with fleet.consumes("owner") as owner:
        fleet.until(lambda: fleet.offsets_of("owner") == [*range(10)])
        transaction = Transaction()
        fleet.kafka.append(COORDINATION_TOPIC, 0, b"no message", transaction=transaction)
        fleet.kafka.end_transaction(transaction, commit=False)
        fleet.until(lambda: fleet.lost == [("owner", Lost.UNCERTAIN)])
        fleet.scheduler.sleep(4 * INTERVAL_S)
        assert not owner.claims


@pytest.mark.parametrize("group", ["g", None])
@pytest.mark.parametrize("all_gone", [False, True])
def test_who_looks_at_a_compacted_log_knows_what_is_left_of_it(
    group: str | None, all_gone: bool
) -> None:
    """The last heartbeat says that its sender had read what is gone: the owner is certain."""
    fleet = Fleet()
    with fleet.consumes("owner"):
        fleet.until(lambda: fleet.offsets_of("owner") == [*range(10)])
        fleet.until(lambda: fleet.heartbeats() >= 3)
        records = fleet.kafka.topics[COORDINATION_TOPIC][0].records
        first = len(records) - (not all_gone)
        records[:first] = [None] * first
        with View(fleet.kafka.settings(), COORDINATION_TOPIC, group=group) as view:
            fold = view.read().folds[0]
        assert (fold.first, view.headless) == (first, (0,))
        assert fold.claim(ClaimKey("g", "orders", 0)).known is not all_gone

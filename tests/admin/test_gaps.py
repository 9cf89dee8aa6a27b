"""Marshal promises that an administrator sees the same log with gaps, whatever it filters."""

from __future__ import annotations

import pytest

from kafka_marshal.admin.receipts import Receipts
from kafka_marshal.admin.set_positions import SetPositionsOperation
from kafka_marshal.admin.view import View
from kafka_marshal.core.state import FENCED
from kafka_marshal.errors import COORDINATION_TOPIC
from kafka_marshal.testing.in_memory import InMemoryKafka, Scheduler, Transaction
from tests.client.log.test_compacted_log import INTERVAL_S, Fleet

HEARTBEAT = "Heartbeat/1/0/i1/c1/g/orders/{}/5"
PAUSE = "ReleaseGroup/1/0/x2/x/g//0/2000000000"


def log_of(*values: str | None) -> InMemoryKafka:
    """A log with these records; None: one that is gone."""
    kafka = InMemoryKafka(1, Scheduler(1))
    kafka.create("orders", 3, messages=100)
    for value in values:
        kafka.append(COORDINATION_TOPIC, 0, (value or "gone").encode())
    records = kafka.topics[COORDINATION_TOPIC][0].records
    records[:] = [each if value else None for each, value in zip(records, values, strict=True)]
    return kafka


def test_a_view_of_one_group_shows_the_claims_between_two_gaps() -> None:
    other = "Heartbeat/1/0/i1/c1/other/orders/0/5"
    kafka = log_of(None, HEARTBEAT.format(1), HEARTBEAT.format(2), None, other)
    seen = []
    for group in (None, "g"):
        with View(kafka.settings(), COORDINATION_TOPIC, FENCED, group=group) as view:
            view.read()
            seen.append([claim.topic_partition for _, claim in view.claims("g")])
    assert seen == [[1, 2]] * 2


def receipts(fleet: Fleet, group: str | None) -> tuple[int, list[tuple[int | None, int]]]:
    with View(fleet.kafka.settings(), COORDINATION_TOPIC, group=group) as view:
        found = Receipts("g", "orders")
        for batch in view.changes(view.ends):
            for record, changes in batch:
                found.read(record, changes)
        return found.grants, [(each.start, each.end) for each in found.receipts(10**15, 1)]


@pytest.mark.parametrize("gaps", [0, 1, 2])
def test_receipts_list_what_was_granted_between_two_gaps(gaps: int) -> None:
    fleet = Fleet()
    kafka = fleet.kafka
    with fleet.consumes("owner", semantics="at_most_once"):
        fleet.until(lambda: fleet.offsets_of("owner") == [*range(10)])
        fleet.until(lambda: fleet.heartbeats() >= 6)
        records = kafka.topics[COORDINATION_TOPIC][0].records
        hole = len(records) - 2
        fleet.scheduler.sleep(2 * INTERVAL_S)
        kafka.produce("orders", 5)
        fleet.until(lambda: fleet.offsets_of("owner") == [*range(15)])
        fleet.scheduler.sleep(2)
        fleet.scheduler.stop("owner")
        if gaps > 0:
            records[hole] = None
        if gaps > 1:
            transaction = Transaction()
            kafka.append(COORDINATION_TOPIC, 0, b"x", transaction=transaction)
            kafka.end_transaction(transaction, commit=False)
        of_all, of_group = receipts(fleet, None), receipts(fleet, "g")
        fleet.scheduler.stop("owner", stands=False)
    assert of_all == of_group
    assert of_all[1][-1][1] == 15


def test_an_administrator_knows_nothing_certain_of_before_a_gap() -> None:
    kafka = log_of(HEARTBEAT.format(1), PAUSE, None, HEARTBEAT.format(1))
    with View(kafka.settings(), COORDINATION_TOPIC, FENCED) as view:
        operation = SetPositionsOperation(view, "g", ["orders"], 15_000)
        for batch in view.changes(view.ends):
            operation.read(batch)
        known = operation._operators[0].administrator.operation
        assert known.work == view.folds[0].work("g")
        assert known.consumers.newborn("g").reader == view.folds[0].newborn("g")

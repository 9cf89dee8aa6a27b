"""Marshal promises that a log that lies unread for a while keeps nobody waiting."""

from __future__ import annotations

from collections import Counter

import pytest

from kafka_marshal import Consumer
from kafka_marshal.client.connect.reader import ReadResult
from kafka_marshal.client.coordinate.consumer_loop import ConsumerLoop
from kafka_marshal.client.coordinate.session import Session
from kafka_marshal.client.ranges.shared_claims import SharedClaims
from kafka_marshal.testing.in_memory import InMemoryKafka, Scheduler
from tests.client.ranges.test_scaling import Fleet
from tests.client.ranges.test_topics_added_later import consumer, polled


@pytest.mark.parametrize(("workers", "together"), [(16, True), (8, False)])
def test_far_behind_the_end_many_read_several_records_at_once(
    monkeypatch: pytest.MonkeyPatch, workers: int, together: bool
) -> None:
    read, found = ConsumerLoop._read, Counter[str]()

    def counted(loop: ConsumerLoop, session: Session, result: ReadResult) -> None:
        if result.records:
            found.update(batches=1, records=len(result.records))
        read(loop, session, result)

    fleet = Fleet("at_least_once", messages=150 * workers)
    with fleet.scheduler:
        fleet.start(workers)
        monkeypatch.setattr(ConsumerLoop, "_read", counted)
        fleet.scheduler.sleep(1.0)  # of virtual time
        monkeypatch.undo()
        fleet.until(lambda: not fleet.missing)
        fleet.stop(fleet.workers)
    print(f"{found['records'] / found['batches']:.1f} records at once")
    assert (found["records"] > 2 * found["batches"]) is together
    assert fleet.repeated == set()


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> InMemoryKafka:
    """Nobody reads what lies in its log for ten minutes, unless something else is waited for."""
    monkeypatch.setattr(SharedClaims, "log_may_wait_ms", 600_000)
    kafka = InMemoryKafka(1, Scheduler(1))
    kafka.create("orders", messages=20)
    kafka.create("invoices", messages=20)
    return kafka


def rests(one: Consumer, kafka: InMemoryKafka) -> float:
    """Until it has done everything, and reads no more. Returns the time."""
    one.add_topic("orders", share="ranges")
    one.add_topic("invoices")
    assert len(polled(one, 40)) == 40
    one.remove_topic("invoices")
    kafka.sleep(5.0)
    return kafka.clock.monotonic()


@pytest.mark.parametrize("semantics", ["at_least_once", "at_most_once"])
def test_who_stops_reads_the_log_at_once(kafka: InMemoryKafka, semantics: str) -> None:
    with consumer(kafka, "c1", semantics=semantics) as one:
        began_s = rests(one, kafka)
        one.stop()
        assert polled(one, 1) == []
        assert kafka.clock.monotonic() < began_s + 2.0  # simulated


def test_who_keeps_its_claims_when_it_closes_waits_for_no_reader(kafka: InMemoryKafka) -> None:
    with consumer(kafka, "c1") as one:
        began_s = rests(one, kafka)
        one.close(release=False)
        assert kafka.clock.monotonic() < began_s + 2.0  # simulated


def test_who_claims_another_topic_reads_the_log_at_once(kafka: InMemoryKafka) -> None:
    with consumer(kafka, "c1") as one:
        began_s = kafka.clock.monotonic()
        one.add_topic("orders", share="ranges")
        one.add_topic("invoices")
        assert len(polled(one, 40)) == 40
        assert kafka.clock.monotonic() < began_s + 10.0  # simulated

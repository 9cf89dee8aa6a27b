"""The head of a topic is gone before it was consumed: its claims go on with what there is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafka_marshal.client.api.consumer import Consumer
from kafka_marshal.client.coordinate.recording import write_log
from kafka_marshal.core.messages import ClaimingMessages, Heartbeat
from kafka_marshal.machines.consumer.consumer import Forbidden
from kafka_marshal.validate import read_folder, validate
from tests.client.doubles import LOG, Kafka, until

LOW, HIGH = 100, 120


@pytest.fixture
def kafka() -> Kafka:
    kafka = Kafka()
    kafka.create("orders", messages=10)
    return kafka


def trim(kafka: Kafka) -> None:
    """More messages come, and retention removes all but the last of them."""
    with kafka.changed:
        kafka.produce("orders", HIGH - 10)
        kafka.topics["orders"][0].low = LOW


def offsets(consumer: Consumer, count: int) -> list[int]:
    """Of the next messages, which are not done yet."""
    found: list[int] = []

    def came() -> bool:
        message = consumer.poll(0.05)
        found.extend([] if message is None else [message.offset])
        return len(found) >= count

    until(came)
    return found


def told(kafka: Kafka) -> int:
    """How far the log knows the claim to be."""
    return max((int(beat.offset) for beat in kafka.said(Heartbeat)), default=-1)


def test_at_least_once_it_goes_on_behind_what_is_gone_and_tells_the_log(kafka: Kafka) -> None:
    """The log had not heard of the window before, so none of what is gone was in the next one."""
    with kafka.consumer(window=10) as consumer:
        consumer.add_topic("orders")
        assert offsets(consumer, 10) == list(range(10))
        kafka.hold_log()
        consumer.ack()
        until(lambda: told(kafka) == 10)
        trim(kafka)
        until(lambda: told(kafka) == LOW)
        kafka.flow()
        assert offsets(consumer, 10) == list(range(LOW, LOW + 10))
        consumer.ack()
        assert offsets(consumer, 10) == list(range(LOW + 10, HIGH))


@pytest.mark.parametrize("semantics", ["at_least_once", "at_most_once"])
def test_what_was_fetched_before_it_was_gone_is_handed_over(
    kafka: Kafka, semantics: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It was dropped from its buffer, granted or not, and counted as done."""
    with kafka.consumer(semantics=semantics, batch=10, window=10) as consumer:
        consumer.add_topic("orders")
        taken = consumer.consume(3, 10.0)
        assert [message.offset for message in taken] == [0, 1, 2]
        trim(kafka)
        until(lambda: f"messages 10 to {LOW - 1} are gone" in caplog.text)
        found: list[int] = []

        def came() -> bool:
            found.extend(message.offset for message in consumer.consume(3, 0.05))
            return len(found) >= 7 + HIGH - LOW

        until(came)
        assert found == [*range(3, 10), *range(LOW, HIGH)]


def test_what_is_gone_is_logged_for_each_partition(
    kafka: Kafka, caplog: pytest.LogCaptureFixture
) -> None:
    """One line stood for all that differed by their numbers, and named the first of them."""
    kafka.create("payments-1", 3)
    for topic, number, low in (("orders", 0, 5), ("payments-1", 0, 2), ("payments-1", 2, 4)):
        with kafka.changed:
            kafka.produce(topic, 6, number)
            kafka.topics[topic][number].low = low
    with kafka.consumer() as consumer:
        consumer.add_topic("orders")
        consumer.add_topic("payments-1")
        until(lambda: "orders/0: messages 0 to 4 are gone" in caplog.text)
        until(lambda: "payments-1/0: messages 0 to 1 are gone" in caplog.text)
        until(lambda: "payments-1/2: messages 0 to 3 are gone" in caplog.text)


def test_at_most_once_it_goes_on_behind_what_is_gone(kafka: Kafka) -> None:
    trim(kafka)
    with kafka.consumer(semantics="at_most_once", batch=10) as consumer:
        consumer.add_topic("orders")
        for begin in (LOW, LOW + 10):
            assert offsets(consumer, 10) == list(range(begin, begin + 10))
            consumer.ack()
    asked = [request.offset for request in kafka.said(ClaimingMessages)]
    assert asked == [LOW, LOW + 10, HIGH]


BEYOND = {
    "at_least_once": Forbidden.BEYOND_WINDOW,
    "at_most_once": Forbidden.BEYOND_BATCH,
}
"""Why a consumer may not do what it does where the head is gone, if nobody says that it is."""


@pytest.mark.parametrize("semantics", BEYOND)
def test_a_recorded_run_is_explained_by_what_the_consumer_found(
    kafka: Kafka, semantics: str, tmp_path: Path
) -> None:
    """No event recorded that anything was gone, so nothing explained the run of a faultless
    consumer."""
    options: dict[str, Any] = {
        "semantics": semantics,
        "batch": 10,
        "window": 10,
        "record_to": tmp_path,
    }
    with kafka.consumer(**options) as consumer:
        consumer.add_topic("orders")
        assert offsets(consumer, 10) == list(range(10))
        trim(kafka)
        consumer.ack()
        assert offsets(consumer, 10) == list(range(LOW, LOW + 10))
        consumer.ack()
    write_log(kafka.settings(), LOG, tmp_path)
    judgement = validate(read_folder(tmp_path))
    assert judgement.unexplained is None, judgement.unexplained
    assert judgement.kinds["Gone"] == 1
    [recorded] = set(tmp_path.iterdir()) - {tmp_path / "log.jsonl"}
    lines = recorded.read_text().splitlines()
    [found] = [line for line in lines if '"event": "gone"' in line]

    def judged(instead: list[str]) -> Forbidden | object:
        at = lines.index(found)
        recorded.write_text("\n".join([*lines[:at], *instead, *lines[at + 1 :], ""]))
        unexplained = validate(read_folder(tmp_path)).unexplained
        return None if unexplained is None else unexplained.guard

    # As older versions record it, and if less had been gone than it passed over.
    assert judged([]) is BEYOND[semantics]
    assert judged([found.replace(f'"below": {LOW}', f'"below": {LOW - 1}')]) is BEYOND[semantics]
    assert judged([found]) is None

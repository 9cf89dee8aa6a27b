"""What is decided while the application takes a chunk holds for that chunk, too."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from kafka_marshal.client.api.consumer import Consumer, Message
from kafka_marshal.client.coordinate.configuration import Semantics
from kafka_marshal.client.fetch.in_flight import InFlight
from kafka_marshal.errors import MarshalError
from tests.client.api.test_at_most_once import abandoned, ranges, receipts
from tests.client.doubles import WITHIN_S, Broken, Kafka, until

ALO: Final = "at_least_once"
AMO: Final = "at_most_once"


class Taker:
    """Polls in a thread of its own, which stands still right after it took a chunk."""

    def __init__(self, consumer: Consumer, patch: pytest.MonkeyPatch) -> None:
        self.got: list[Message] = []
        took, self._goes_on = threading.Event(), threading.Event()

        def held(*args: Any, **options: Any) -> InFlight:
            took.set()
            assert self._goes_on.wait(WITHIN_S)
            return InFlight(*args, **options)

        patch.setattr("kafka_marshal.client.api.delivery.InFlight", held)
        self._consumer = consumer
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        assert took.wait(WITHIN_S)

    def _run(self) -> None:
        try:
            message = self._consumer.poll(0.0 if self._goes_on.is_set() else WITHIN_S)
            self.got += [] if message is None else [message]
        except MarshalError:
            pass

    def goes_on(self) -> list[int]:
        """The offsets that it gets."""
        self._goes_on.set()
        self._thread.join(WITHIN_S)
        assert not self._thread.is_alive()
        return [message.offset for message in self.got]


@contextmanager
def taking(
    semantics: Semantics, patch: pytest.MonkeyPatch
) -> Iterator[tuple[Kafka, Consumer, Taker]]:
    """A consumer of which a thread has just taken a chunk: four messages."""
    kafka = Kafka()
    kafka.create("events", messages=4)
    with kafka.consumer(semantics=semantics) as consumer:
        consumer.add_topic("events")
        yield kafka, consumer, Taker(consumer, patch)


@contextmanager
def in_a_thread(do: Callable[[], object]) -> Iterator[None]:
    thread = threading.Thread(target=do)
    thread.start()
    yield
    thread.join(WITHIN_S)
    assert not thread.is_alive()


def test_what_was_reported_as_abandoned_is_given_to_nobody(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """`close` while a batch is taken: receipts listed it as not processed, and it was given out."""
    with taking(AMO, monkeypatch) as (kafka, consumer, taker), in_a_thread(consumer.close):
        until(lambda: abandoned(caplog))
        assert taker.goes_on() == []
    assert ranges(receipts(kafka)) == [(0, 4, "released")]


@pytest.mark.parametrize("semantics", [ALO, AMO])
def test_after_a_failure_nothing_is_given_out(
    semantics: Semantics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most once it was reported as abandoned before."""
    with taking(semantics, monkeypatch) as (_, consumer, taker):
        consumer._coordinator.failed(Broken("the disk is full"))
        until(lambda: not consumer._coordinator._thread.is_alive())  # type: ignore[union-attr]
        assert taker.goes_on() == []


@pytest.mark.parametrize("semantics", [ALO, AMO])
def test_what_was_taken_when_its_claim_was_paused_is_given_out_after_that(
    semantics: Semantics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was given out after `pause` had returned."""
    with taking(semantics, monkeypatch) as (kafka, consumer, taker):
        consumer.pause("events")
        kafka.clock.ahead_s += WITHIN_S  # nobody waits any longer
        assert taker.goes_on() == []
        monkeypatch.undo()
        consumer.resume("events")
        assert [message.offset for message in consumer.consume(4, WITHIN_S)] == [*range(4)]


def test_what_is_taken_while_the_application_stops_is_not_given_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also before the coordinator, which may be busy, has heard of the stop."""
    with taking(ALO, monkeypatch) as (kafka, consumer, taker):
        consumer.delivery.stop()
        kafka.clock.ahead_s += WITHIN_S
        assert taker.goes_on() == []
        monkeypatch.undo()

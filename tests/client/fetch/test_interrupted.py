"""A signal's handler raises an exception within a call that takes messages, and is survived.

That is a Ctrl-C in a notebook, or a limit of time by `SIGALRM`. Python runs such a handler when a
function is called or has returned. Here it raises at one of these places after the other.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from types import FrameType
from typing import Any

import pytest
from tools.simulate.interrupts import Interrupted, interrupted_at

from kafka_marshal.client.api.consumer import Consumer
from kafka_marshal.client.fetch.fetcher import Fetcher
from kafka_marshal.client.fetch.in_flight import InFlight
from kafka_marshal.client.message import Message
from tests.client.api.test_at_most_once import ranges, receipts
from tests.client.doubles import Kafka, until

CLIENT = "kafka_marshal/client/"
MESSAGE = "kafka_marshal/client/message.py"
"""Where the application is that looks at a message."""
MESSAGES = 12
BATCH = 4


@contextmanager
def interrupted_coarsely(place: int) -> Iterator[None]:
    """Raise at this place among those that this thread comes to."""
    left = place

    def look(frame: FrameType, event: str, _: Any) -> None:
        nonlocal left
        file = frame.f_code.co_filename
        if event in ("call", "c_return") and CLIENT in file and not file.endswith(MESSAGE):
            left -= 1
            if not left:
                sys.setprofile(None)
                raise Interrupted

    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(None)


def interrupted_in(function: Callable[..., Any], place: int) -> AbstractContextManager[None]:
    """Raise at this place among those in this function."""
    return interrupted_at(place, lambda frame: frame.f_code is function.__code__)


def test_what_another_partition_delivered_at_the_same_offset_does_not_count() -> None:
    kafka = Kafka()
    kafka.create("events", messages=1)
    kafka.create("others", messages=1)
    with kafka.consumer() as consumer:
        consumer.add_topic("events")
        consumer.add_topic("others")
        first = consumer.poll(10.0)
        assert first is not None
        left = 2  # the first finds that the chunk of `first` is at its end

        def look(frame: FrameType, event: str, function: Any) -> None:
            nonlocal left
            if frame.f_code is Consumer.poll.__code__ and event == "c_return" and function is next:
                left -= 1
                if not left:
                    sys.setprofile(None)
                    raise Interrupted

        sys.setprofile(look)
        with pytest.raises(Interrupted):
            consumer.poll(10.0)
        found = consumer.poll(10.0)
        while found is not None and found.topic == first.topic:
            found = consumer.poll(10.0)
        assert found is not None


def by_poll(consumer: Consumer) -> Sequence[int]:
    message = consumer.poll(0.02)
    return [] if message is None else [message.offset]


def by_list(consumer: Consumer) -> Sequence[int]:
    return [message.offset for message in consumer.consume(3, 0.02)]


def by_batch(consumer: Consumer) -> Sequence[int]:
    for batch in consumer.batches(0.02):
        return [message.offset for message in batch.messages]
    return []


def by_all(consumer: Consumer) -> Iterator[int]:
    yield from by_poll(consumer)
    yield from by_list(consumer)
    yield from by_poll(consumer)


WAYS: dict[str, Callable[[Consumer], Iterable[int]]] = {
    "poll": by_poll,
    "list": by_list,
    "batch": by_batch,
    "all": by_all,
}


def lost(kafka: Kafka) -> set[int]:
    """What receipts list."""
    listed = ranges(receipts(kafka))
    return {offset for begin, end, _ in listed for offset in range(begin, end)}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("semantics", ["at_least_once", "at_most_once"])
@pytest.mark.parametrize("way", ["poll", "list", "batch"])
@pytest.mark.parametrize("place", [1, 5, 12, 20, 33, 47, 60, 80])
def test_nothing_is_skipped_in_silence(place: int, way: str, semantics: str) -> None:
    found_by(way, semantics, interrupted_coarsely(place))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("semantics", ["at_least_once", "at_most_once"])
@pytest.mark.parametrize(
    ("way", "function", "place"),
    [
        ("list", InFlight.take, 2),
        ("list", InFlight._finish, 1),
        ("all", InFlight.give_back, 1),
        ("all", InFlight._cut, 3),
    ],
    ids=["take", "finish", "give_back", "cut"],
)
def test_nothing_is_skipped_between_two_steps_of_a_chunk(
    way: str, function: Callable[..., Any], place: int, semantics: str
) -> None:
    found_by(way, semantics, interrupted_in(function, place), acks=way == "all")


def found_by(
    way: str, semantics: str, interrupted: AbstractContextManager[None], *, acks: bool = True
) -> None:
    """Consume everything, in which this happens; nothing is skipped."""
    kafka = Kafka()
    kafka.create("events", messages=MESSAGES)
    found: list[int] = []
    with kafka.consumer(semantics=semantics, batch=BATCH, window=BATCH) as consumer:
        consumer.add_topic("events")
        until(lambda: bool(consumer.claims))
        with suppress(Interrupted), interrupted:
            while len(found) < MESSAGES:
                found.extend(WAYS[way](consumer))
                if acks:
                    consumer.ack()

        def came() -> bool:
            found.extend(WAYS[way](consumer))
            if acks:
                consumer.ack()
            return MESSAGES - 1 in found or not consumer.claims  # released

        until(came)
    missing = set(range(MESSAGES)) - set(found)
    if semantics == "at_most_once":
        assert missing <= lost(kafka) | set(range(max([BATCH - 1, *found]) + 1, MESSAGES))
        assert len(set(found)) == len(found)
    else:
        assert not missing


def test_a_loop_gives_the_message_that_it_was_interrupted_at() -> None:
    kafka = Kafka()
    kafka.create("events", messages=MESSAGES)
    found: list[int] = []
    with kafka.consumer() as consumer:
        consumer.add_topic("events")

        def loop() -> None:
            for message in consumer:
                found.append(message.offset)
                if message.offset == MESSAGES - 1:
                    break

        with suppress(Interrupted), interrupted_in(Message.__init__, 3):
            loop()
        assert found == [0, 1]
        loop()
    assert found == [*range(MESSAGES)]


def test_another_thread_goes_on_fetching_where_a_call_was_interrupted() -> None:
    kafka = Kafka()
    kafka.create("events", messages=MESSAGES)
    with kafka.consumer() as consumer:
        consumer.add_topic("events")
        until(lambda: consumer.poll(0.01) is not None)
        with suppress(Interrupted):
            while True:
                consumer.pause("events")
                consumer.resume("events")
                with interrupted_in(Fetcher._unassign, 2):
                    consumer.poll(0.01)

        def obeyed() -> bool:  # by our own thread
            consumer._coordinator.raise_failure()
            return not consumer._fetcher._commands

        until(obeyed)
        until(lambda: getattr(consumer.poll(0.1), "offset", None) == MESSAGES - 1)


def test_of_a_range_only_what_was_being_delivered_is_lost_and_the_rest_goes_on() -> None:
    kafka = Kafka()
    kafka.create("events", messages=MESSAGES)
    found: list[int] = []
    with kafka.consumer(semantics="at_most_once", batch=BATCH) as consumer:
        consumer.add_topic("events", share="ranges")

        def came() -> bool:
            found.extend(by_poll(consumer))
            consumer.ack()
            return MESSAGES - 1 in found

        with suppress(Interrupted), interrupted_in(Message.__init__, 3):
            until(came)
        assert found == [0, 1]
        until(came)
    assert found == [0, 1, *range(3, MESSAGES)]

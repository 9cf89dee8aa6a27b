"""Claims take turns in the application's hand, and one that waits for its turn is not wedged."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from kafka_marshal.client.api.aio import AsyncConsumer
from kafka_marshal.client.api.consumer import Claim, Consumer, Message, Observer
from kafka_marshal.client.observe.health import ClaimProgress, Wedged, WedgedCause
from tests.client.doubles import Kafka, until

ALO, AMO = "at_least_once", "at_most_once"


class Watching(Observer):
    """How often it heard how claims stand, what waits in buffers, and what is wedged."""

    def __init__(self) -> None:
        self.told = 0
        self.buffered: dict[int, int] = {}
        self.stuck: list[tuple[int, WedgedCause]] = []
        self.given = 0
        self.position: dict[int, int] = {}

    def standing(self, claim: Claim, standing: ClaimProgress) -> None:
        self.buffered[claim.partition] = standing.buffered
        self.told += claim.partition == 0

    def done(self, claim: Claim, position: int, offsets: int) -> None:
        self.position[claim.partition] = position

    def wedged(self, claim: Claim, wedged: Wedged) -> None:
        self.stuck.append((claim.partition, wedged.cause))

    def handed_over(self, claim: Claim, messages: int) -> None:
        self.given += messages


def passes(kafka: Kafka, watching: Watching, seconds: int = 2) -> None:
    """So much time passes, and the consumer has looked at least so often."""
    for _ in range(seconds):
        told = watching.told
        kafka.clock.ahead_s += 1.0
        until(lambda told=told: watching.told > told)  # type: ignore[misc]


def beat(consumer: Consumer, kafka: Kafka) -> None:
    """A heartbeat of each of the six claims is due, is sent and is read back.

    The clock may not go on before that, since two turns are longer. A consumer does
    not act on claims of which it heard nothing for an interval.
    """
    kafka.clock.ahead_s += 31.0
    due_ms = consumer._environment.steady_ms()
    watched = consumer._coordinator._health_monitor._watched
    until(lambda: sum(one.heartbeats.heard_ms >= due_ms for one in watched.copy()) == 6)


def looping(consumer: Consumer) -> Iterator[Message]:
    return iter(consumer)


def polling(consumer: Consumer) -> Iterator[Message]:
    while (message := consumer.poll(5.0)) is not None:
        yield message
        consumer.ack(message)


def polling_without_commits(consumer: Consumer) -> Iterator[Message]:
    while (message := consumer.poll(5.0)) is not None:
        yield message


def awaiting(consumer: Consumer) -> Iterator[Message]:
    """What an event loop gets, one by one."""
    of_loop = AsyncConsumer(group_id="g", client_id="c1")
    of_loop._made = consumer
    loop = asyncio.new_event_loop()
    messages: AsyncIterator[Message] = of_loop.__aiter__()
    try:
        while True:
            yield loop.run_until_complete(anext(messages))
    finally:
        loop.close()
        of_loop._taking.shutdown(wait=False)


@pytest.mark.parametrize(
    ("way", "semantics"),
    [
        (looping, ALO),
        (looping, AMO),
        (polling, AMO),
        (polling_without_commits, ALO),
        (awaiting, ALO),
    ],
)
def test_partitions_take_turns_within_a_second_and_nothing_is_passed_over(
    way: Callable[[Consumer], Iterator[Message]], semantics: str
) -> None:
    """A chunk of 1,000 messages went first, however long the handler took for each."""
    kafka, watching = Kafka(), Watching()
    kafka.create("events", partitions=3, messages=900)
    with kafka.consumer(semantics=semantics, observers=[watching]) as consumer:
        consumer.add_topic("events")
        # A turn ends as soon as one other claim waits: the third may be ready only after that.
        until(lambda: len(consumer._fetcher._buffers._ready) == 3)
        messages = way(consumer)
        message = first = next(messages)
        got = defaultdict(list, {first.partition: [first.offset]})
        turns = [first.partition]
        for _ in range(5):
            passes(kafka, watching)
            message = next(messages)
            got[message.partition].append(message.offset)
            turns.append(message.partition)
        while sum(map(len, got.values())) < 2_700:
            message = next(messages)
            got[message.partition].append(message.offset)
        assert turns == 2 * turns[:3]
        assert len({*turns}) == 3
        assert got == {number: [*range(900)] for number in range(3)}
        passes(kafka, watching)
        assert watching.given == 2_700
        consumer.ack()
        # Of what is given out one by one, the last message is done when the next is asked for.
        last = message.partition if way in (looping, awaiting) else None
        ends = {number: 900 - (number == last) for number in range(3)}
        until(lambda: watching.position == ends)


def test_who_is_alone_keeps_its_turn() -> None:
    kafka, watching = Kafka(), Watching()
    kafka.create("events", messages=20)
    with kafka.consumer(observers=[watching]) as consumer:
        consumer.add_topic("events")
        messages = iter(consumer)
        assert next(messages).offset == 0
        in_flight = consumer.delivery.in_flight
        passes(kafka, watching)
        assert next(messages).offset == 1
        assert consumer.delivery.in_flight is in_flight


def test_a_claim_that_waits_for_its_turn_is_not_wedged_and_one_that_is_stuck_is() -> None:
    """With 31 s a message, five claims wait for longer than four heartbeats."""
    kafka, watching = Kafka(), Watching()
    kafka.create("events", partitions=6, messages=100)
    with kafka.consumer(observers=[watching]) as consumer:
        consumer.add_topic("events")
        messages = iter(consumer)
        stuck = next(messages)
        until(lambda: sum(waiting > 0 for waiting in [*watching.buffered.values()]) >= 5)

        for _ in range(12):
            beat(consumer, kafka)
            passes(kafka, watching, 1)
            stuck = next(messages)
        assert watching.stuck == []
        for _ in range(6):
            beat(consumer, kafka)
        assert {*watching.stuck} == {(stuck.partition, WedgedCause.IN_HAND)}


def test_workers_get_something_of_every_claim_and_those_that_wait_are_not_wedged() -> None:
    """One worker, six claims, each message a heartbeat long: all of them wait for five."""
    kafka, watching = Kafka(), Watching()
    kafka.create("events", partitions=6, messages=100)
    begun: list[int] = []
    go_on = threading.Semaphore(0)

    def handle(message: Message) -> None:
        begun.append(message.partition)
        go_on.acquire()

    with kafka.consumer(observers=[watching]) as consumer:
        consumer.add_topic("events")
        until(lambda: [*watching.buffered.values()] == 6 * [100])
        running = threading.Thread(target=lambda: consumer.run(handle, workers=1))
        running.start()
        for number in range(1, 13):
            until(lambda number=number: len(begun) == number)  # type: ignore[misc]
            passes(kafka, watching, 1)
            beat(consumer, kafka)
            go_on.release()
        found = list(watching.stuck)
        consumer.stop()
        go_on.release(1000)
        running.join(20)
        assert found == []
        assert begun[6:12] == begun[:6]
        assert len({*begun[:6]}) == 6

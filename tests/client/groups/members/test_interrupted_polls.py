"""Marshal promises that a member survives what a signal's handler raises, wherever that happens.

An application catches Ctrl-C in a notebook, or SIGALRM raises its timeout. No signal is sent here:
a trace function raises at a place where Python runs handlers.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from itertools import cycle, pairwise
from pathlib import Path
from random import Random
from types import CodeType, FrameType
from typing import Any, Final, cast

import attrs
import pytest

from kafka_marshal import GroupConsumer
from kafka_marshal.client.groups import assigned_fetch, connection, group_consumer
from kafka_marshal.client.groups.assigned_fetch import AssignedFetch
from kafka_marshal.client.groups.controller import ControllerOptions, ControllerService
from kafka_marshal.client.message import Message
from kafka_marshal.machines.groups import group_member, membership
from kafka_marshal.machines.groups.membership import Membership
from kafka_marshal.testing.in_memory import InMemoryKafka, Scheduler

PARTITIONS: Final = 2
FILES: Final = frozenset(
    str(Path(str(module.__file__)))
    for module in (assigned_fetch, connection, group_consumer, group_member, membership)
)
HANDLES: Final = ("RESUME", "JUMP_BACKWARD")
"""Opcodes before which Python runs the handlers of signals; it also does so after a call."""


@cache
def places(code: CodeType) -> frozenset[int]:
    """The offsets of the opcodes before which the handlers of signals may run."""
    steps = [*dis.get_instructions(code)]
    after_calls = {after.offset for one, after in pairwise(steps) if one.opname.startswith("CALL")}
    return frozenset(after_calls | {one.offset for one in steps if one.opname in HANDLES})


@contextmanager
def interrupted(after: int) -> Iterator[None]:
    """Raise KeyboardInterrupt at the place with this number, and catch it."""
    left = after

    def opcode(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if event == "opcode" and frame.f_lasti in places(frame.f_code):
            left -= 1
            if left < 0:
                raise KeyboardInterrupt
        return opcode

    def call(frame: FrameType, _: str, __: Any) -> Any:
        if frame.f_code.co_filename not in FILES:
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return opcode

    before = sys.gettrace()
    sys.settrace(call)
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)


@contextmanager
def controlled(seed: int = 1) -> Iterator[InMemoryKafka]:
    """A Kafka in memory with a topic, and a controller at a:1."""
    with Scheduler(seed) as scheduler:
        kafka, stop = InMemoryKafka(1, scheduler), list[bool]()
        kafka.create("orders", PARTITIONS)
        service = ControllerService(kafka.settings(), ControllerOptions(host="a", port=1))
        controller = scheduler.begin("controller", partial(service.run, lambda: bool(stop)))
        yield kafka
        stop.append(True)
        controller.join()


def member(kafka: InMemoryKafka, name: str, **options: Any) -> GroupConsumer:
    consumer = GroupConsumer(
        settings=kafka.settings(), controllers="a:1", group_id="g", client_id=name, **options
    )
    consumer.add_topic("orders")
    return consumer


class Delivered:
    """What members got, in this order."""

    def __init__(self) -> None:
        self.offsets: dict[int, set[int]] = {number: set() for number in range(PARTITIONS)}
        self.tenures = dict.fromkeys(range(PARTITIONS), 0)

    def take(self, messages: list[Message]) -> None:
        for one in messages:
            assert one.tenure >= self.tenures[one.partition], "another member owns it since"
            self.tenures[one.partition] = one.tenure
            done = self.offsets[one.partition]
            assert one.offset <= len(done), f"{one.partition}: {one.offset} after {len(done)}"
            done.add(one.offset)


def test_messages_that_a_signal_dropped_are_fetched_again() -> None:
    """confluent-kafka drops what it fetched if a handler raises during `consume`."""
    with controlled() as kafka, member(kafka, "m") as consumer:
        client, delivered = cast("Any", consumer._fetch._client), Delivered()
        consume, interruptions = client.consume, iter([False, True] * 10)

        def interrupted_consume(*arguments: Any) -> list[Any]:
            found: list[Any] = consume(*arguments)
            interrupts = bool(found) and next(interruptions, False)
            if interrupts:
                raise KeyboardInterrupt
            return found

        client.consume = interrupted_consume
        for number in range(40):
            kafka.append("orders", 0, b"%d" % number)

        def polls() -> None:
            try:
                delivered.take(consumer.poll(0.1, max_messages=1))
            except KeyboardInterrupt:
                consumer.commit()

        poll_until(polls, lambda: len(delivered.offsets[0]) == 40)
        assert next(interruptions, None) is None


def poll_until(polls: Callable[[], object], done: Callable[[], bool], times: int = 1_000) -> None:
    for _ in range(times):
        if done():
            return
        polls()
    assert done()


def test_wherever_a_poll_is_interrupted_nothing_is_skipped_and_no_released_is_delivered() -> None:
    with controlled() as kafka, member(kafka, "m") as consumer:
        chance, delivered, sent = Random(7), Delivered(), 0
        for _ in range(5):
            # Another member comes and goes, so partitions are taken away and given back.
            with member(kafka, "other") as other:
                for number in range(60):
                    kafka.append("orders", number % PARTITIONS, b"")
                    sent += 1
                    with interrupted(chance.randrange(chance.choice((20, 100, 400)))):
                        delivered.take(consumer.poll(0.1))
                    if number < 30:
                        delivered.take(other.poll(0.1))
                    if chance.random() < 0.2:
                        with interrupted(chance.randrange(200)):
                            consumer.commit()
                        other.commit()
        poll_until(
            lambda: delivered.take(consumer.poll(0.1)),
            lambda: sum(len(each) for each in delivered.offsets.values()) == sent,
        )
        assert consumer.is_current


def test_a_member_whose_connecting_was_interrupted_connects_again() -> None:
    with controlled() as kafka, member(kafka, "m") as consumer:
        environment = consumer._environment
        calls: list[str] = []

        def connect(host: str, *arguments: Any) -> Any:
            calls.append(host)
            if len(calls) == 1:
                raise KeyboardInterrupt
            return environment.connect(host, *arguments)

        consumer._environment = attrs.evolve(environment, connect=connect)
        with pytest.raises(KeyboardInterrupt):
            consumer.poll(0.1)
        poll_until(lambda: consumer.poll(0.1), lambda: consumer.is_current, times=50)


@pytest.mark.parametrize("is_done", [False, True], ids=["before it", "after it"])
@pytest.mark.parametrize(
    ("of", "name"),
    [(AssignedFetch, "begin"), (AssignedFetch, "stop"), (Membership, "_changes")],
    ids=lambda value: str(getattr(value, "__name__", value)),
)
def test_what_an_answer_begins_and_stops_is_done_though_it_was_interrupted(
    monkeypatch: pytest.MonkeyPatch, of: type, name: str, is_done: bool
) -> None:
    original, interruptions = getattr(of, name), cycle([True, False])

    def interrupted_call(*arguments: Any, **options: Any) -> Any:
        raises = polling and next(interruptions)
        found = None if raises and not is_done else original(*arguments, **options)
        if raises:
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr(of, name, interrupted_call)
    delivered, sent, polling = Delivered(), 0, False

    def polls() -> None:
        nonlocal sent, polling
        polling = True
        kafka.append("orders", sent % PARTITIONS, b"")
        sent += 1
        for each in members:
            with suppress(KeyboardInterrupt):
                delivered.take(each.poll(0.1))
            with suppress(KeyboardInterrupt):
                each.commit()
        polling = False

    with controlled() as kafka, member(kafka, "m") as consumer:
        members = [consumer]
        poll_until(polls, lambda: len(consumer.claims) == 2, times=50)
        with member(kafka, "other") as other:
            members = [consumer, other]
            poll_until(polls, lambda: len(consumer.claims) == len(other.claims) == 1, times=50)
            before = sent
            poll_until(polls, lambda: sent == before + 20)
        members = [consumer]
        poll_until(polls, lambda: len(consumer.claims) == 2, times=50)
        poll_until(polls, lambda: sum(map(len, delivered.offsets.values())) == sent, times=50)

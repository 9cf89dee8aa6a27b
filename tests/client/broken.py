"""Mistakes that a real consumer can be started with, to see that a recorded run shows them.

Each replaces something in the process that calls it, for good.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from kafka_marshal.client.connect.log_filter import LogFilter
from kafka_marshal.core.ranges.messages import RangesRecord
from kafka_marshal.core.ranges.state import Ranges
from kafka_marshal.core.ranges.verdicts import RangeAccepted
from kafka_marshal.machines.consumer import consumer as moves
from kafka_marshal.machines.consumer.consumer import ConsumerState, InstanceConfig
from kafka_marshal.machines.consumer.driver import Driver
from kafka_marshal.machines.ranges import participant as machine
from kafka_marshal.machines.ranges.participant import (
    Done,
    HeldRange,
    Participant,
    ParticipantConfig,
)


def grants_itself() -> None:
    """It takes what it has only asked for (R4)."""

    def after(me: InstanceConfig, consumer: ConsumerState, offset: int) -> ConsumerState:
        return attrs.evolve(consumer, granted=(range(consumer.known.position, offset),))

    moves.after_claiming_messages = after


def runs_ahead() -> None:
    """Its window has no end (R5)."""
    hand_over = Driver._hand_over

    def unbounded(driver: Driver, now_ms: int) -> list[Any]:
        me = driver.me
        driver.me = attrs.evolve(me, window=1_000_000)
        try:
            return hand_over(driver, now_ms)
        finally:
            driver.me = me

    Driver._hand_over = unbounded  # type: ignore[method-assign, assignment]
    moves.in_window = lambda me, consumer: True


def asks_twice() -> None:
    """It does not wait to read its request back (R6)."""
    request = Driver._request_claim

    def twice(driver: Driver) -> list[Any]:
        return 2 * request(driver)

    Driver._request_claim = twice  # type: ignore[method-assign, assignment]


def forgets_its_release() -> None:
    """It goes on under an epoch for which it sent its release (R7)."""
    moves.after_release = lambda me, consumer: consumer
    hand_over = Driver._release

    def beats_on(driver: Driver, now_ms: int) -> list[Any]:
        effects = hand_over(driver, now_ms)
        if not effects:
            return []
        driver.wants = True
        return [effects[0], moves.heartbeat_sent(driver.me, driver.consumer, driver.key, 0)]

    Driver._release = beats_on  # type: ignore[method-assign, assignment]


def deaf() -> None:
    """It does not hear that another one asks for its claim."""
    given = LogFilter.given

    def fewer(log_filter: LogFilter[Any], places: Any) -> list[Any]:
        return [
            each
            for each in given(log_filter, places)
            if not each.value().startswith(b"ClaimingPartition") or b"/deaf/" in each.value()
        ]

    LogFilter.given = fewer  # type: ignore[method-assign, assignment]


MISTAKES: Final[Mapping[str, Callable[[], None]]] = {
    each.__name__: each
    for each in (grants_itself, runs_ahead, asks_twice, forgets_its_release, deaf)
}


# --- of those who share a topic by ranges ---------------------------------------------------------


def takes_what_others_are_granted() -> None:
    """It holds every range that anybody is granted."""

    def granted(
        me: ParticipantConfig, record: RangesRecord, ranges: Ranges, verdict: object
    ) -> tuple[HeldRange, ...]:
        if verdict is not RangeAccepted.RANGE_GRANTED or ranges.window != me.window:
            return ()
        new = ranges.open[-1]
        return (HeldRange(new.id, new.from_, new.to, new.from_, new.from_),)

    machine.grant_read = granted


def calls_begun_done() -> None:
    """It reports as done what it has only begun: if it dies, nobody gets that."""
    done_to_send = machine.done_to_send

    def begun(me: ParticipantConfig, participant: Participant) -> Done | None:
        held = tuple(attrs.evolve(each, done=each.begun) for each in participant.held)
        return done_to_send(me, attrs.evolve(participant, held=held))

    machine.done_to_send = begun


RANGE_MISTAKES: Final[Mapping[str, Callable[[], None]]] = {
    each.__name__: each for each in (takes_what_others_are_granted, calls_begun_done)
}

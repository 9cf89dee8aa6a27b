"""What an instance notices about its claims."""

from __future__ import annotations

import pytest
from attrs import evolve

from kafka_marshal.client.observe.health import (
    ClaimProgress,
    HealthChecks,
    Heartbeats,
    LateCause,
    Wedged,
    WedgedCause,
)

STUCK = ClaimProgress(position=7, end=9, in_hand=1)


@pytest.fixture
def heartbeats() -> Heartbeats:
    return HealthChecks(heartbeat_every_ms=500, interval_ms=1_000, wedged_after=3).won(0)


def wedged(heartbeats: Heartbeats, *standings: ClaimProgress) -> list[bool]:
    return [heartbeats.beat(each, 0) is not None for each in standings]


def test_a_position_that_does_not_move_is_wedged_for_as_long_as_that_lasts(
    heartbeats: Heartbeats,
) -> None:
    moved = evolve(STUCK, position=8)
    assert wedged(heartbeats, *[STUCK] * 6, moved, moved) == [False] * 3 + [True] * 3 + [False] * 2


@pytest.mark.parametrize(
    "fine",
    [
        evolve(STUCK, end=7),
        evolve(STUCK, paused=True),
        evolve(STUCK, awaits_turn=True),
        evolve(STUCK, in_hand=0, buffered=3, awaits_turn=True),
    ],
    ids=["no lag", "paused", "waits for workers", "waits for its turn"],
)
def test_who_has_nothing_to_do_is_not_wedged(heartbeats: Heartbeats, fine: ClaimProgress) -> None:
    assert not any(wedged(heartbeats, *[fine] * 9))
    assert wedged(heartbeats, *[STUCK] * 3) == [False, False, True]


@pytest.mark.parametrize(
    ("standing", "cause"),
    [
        (evolve(STUCK, buffered=3), WedgedCause.IN_HAND),
        (evolve(STUCK, in_hand=0, buffered=3), WedgedCause.NOT_TAKEN),
        (evolve(STUCK, in_hand=0), WedgedCause.NOT_FETCHED),
        (evolve(STUCK, in_hand=0, awaits_turn=True), WedgedCause.NOT_FETCHED),
    ],
)
def test_it_is_said_where_a_claim_is_stuck(
    heartbeats: Heartbeats, standing: ClaimProgress, cause: WedgedCause
) -> None:
    found = [heartbeats.beat(standing, 0) for _ in range(4)][-1]
    assert found is not None
    assert found == Wedged(cause, beats=3, first=3, standing=standing)


def test_a_heartbeat_that_was_never_sent_is_late_once_until_one_is_read_back(
    heartbeats: Heartbeats,
) -> None:
    assert heartbeats.look(1_500) is None
    late = heartbeats.look(1_501)
    assert late is not None
    assert (late.cause, late.silent_ms, late.late_ms) == (LateCause.NOT_SENT, 1_501, 1)
    assert heartbeats.look(9_000) is None
    assert heartbeats.heard(9_001) is None
    late = heartbeats.look(11_000)
    assert late is not None
    assert late.late_ms == 499


def test_a_heartbeat_that_was_sent_and_comes_back_late_is_late_when_it_comes(
    heartbeats: Heartbeats,
) -> None:
    heartbeats.beat(STUCK, 1_000)
    late = heartbeats.heard(1_700)
    assert late is not None
    assert (late.cause, late.late_ms) == (LateCause.NOT_READ_BACK, 200)
    assert heartbeats.heard(1_800) is None


def test_a_heartbeat_that_was_sent_an_interval_after_it_was_due_was_sent(
    heartbeats: Heartbeats,
) -> None:
    heartbeats.beat(STUCK, 1_000)
    late = heartbeats.look(2_500)
    assert late is not None
    assert late.cause is LateCause.NOT_READ_BACK


def test_silence_begins_with_the_last_heartbeat_that_was_read_back(heartbeats: Heartbeats) -> None:
    assert heartbeats.silent_ms(700) == 700
    heartbeats.heard(800)
    assert heartbeats.silent_ms(1_000) == 200

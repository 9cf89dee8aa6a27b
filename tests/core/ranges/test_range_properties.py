"""Random logs of a claim that is shared: the properties of ranges hold, and can fail.

Honest logs hold late, doubled and overtaken records of participants, an older consumer and an
administrator. Hostile ones hold anything. Each is folded twice: by `core.ranges`, and offset by
offset. `model_tests/ranges` has a mistake for each rule, which these walks notice.
"""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_marshal import Claim
from kafka_marshal.core.claims.invariants import Property
from kafka_marshal.core.claims.verdicts import Accepted
from kafka_marshal.core.ranges.claiming_range import RangeOutcome
from kafka_marshal.core.ranges.invariants import (
    STEP_CHECKS,
    RangesProperty,
    RangesStep,
    broken_by,
    position_is_low,
)
from kafka_marshal.core.ranges.messages import RangesRecord
from kafka_marshal.core.ranges.state import Interval, OpenRange, Ranges, SignOfLife
from kafka_marshal.core.ranges.verdicts import RangeAccepted, RangeRefused, Unmet
from tests.core.ranges.walking import LIMITS, RULES, claiming_range, walk

AT_MOST_ONCE, AT_LEAST_ONCE = 0, 12
SEEDS = range(8)


@pytest.mark.parametrize("honest", [True, False], ids=["honest", "hostile"])
@pytest.mark.parametrize("window", [AT_MOST_ONCE, AT_LEAST_ONCE])
@pytest.mark.parametrize("seed", SEEDS)
def test_no_walk_breaks_a_property(seed: int, window: int, honest: bool) -> None:
    for number, broken in enumerate(walk(seed, window, honest=honest).steps(200)):
        assert broken == set(), f"walk({seed}, {window}, honest={honest}), record {number}"


@settings(max_examples=30)
@given(st.integers(0, 2**32), st.integers(0, 30), st.booleans())
def test_no_seed_breaks_a_property(seed: int, window: int, honest: bool) -> None:
    for broken in walk(seed, window, honest=honest).steps(60):
        assert broken == set()


def test_walks_meet_every_verdict() -> None:
    met: set[object] = set()
    for seed in SEEDS:
        walked = walk(seed, AT_LEAST_ONCE, honest=False)
        for _ in walked.steps(200):
            pass
        met |= walked.verdicts
    assert met >= {*RangeAccepted, *RangeRefused, *Unmet}
    assert met >= {Accepted.POSITION_SET, Accepted.TOOK_OVER, Accepted.GROUP_RELEASED}


# --- each property has been seen to fail ----------------------------------------------------------

HELD = OpenRange(3, 2, 6, "p")
OWNED = Claim("anchor", "ranges", 1, 2, 1000, 1000, won_with_headers=True, position_set=True)
SHARED = Ranges(10, 6, (HELD,), (), (SignOfLife("p", 1000),), 1000)


def broken(**changes: Any) -> list[RangesProperty | Property]:
    """What a step breaks that is right but for these changes."""
    record = RangesRecord(0, 5, 1500, claiming_range("q", 0))
    ranges_after = changes.pop("ranges_after", attrs.evolve(SHARED, clock_ms=1500))
    verdict = changes.pop("verdict", RangeAccepted.RANGE_REFRESHED)
    outcome = RangeOutcome(ranges_after, verdict)
    right = RangesStep(SHARED, OWNED, record, outcome, OWNED, RULES, LIMITS)
    return broken_by(attrs.evolve(right, **changes))


def pooled(*pool: Interval, **changes: Any) -> Ranges:
    return attrs.evolve(SHARED, pool=pool, **changes)


BROKEN: dict[RangesProperty | Property, list[dict[str, Any]]] = {
    Property.PAUSE_HOLDS: [{"claim": Claim(), "verdict": RangeAccepted.RANGE_GRANTED}],
    RangesProperty.VERSIONS_AGREE: [{"claim_after": attrs.evolve(OWNED, clock_ms=1500)}],
    RangesProperty.RANGES_DISJOINT: [
        {"ranges_after": pooled(Interval(5, 6))},
        {"ranges_after": pooled(Interval(6, 7))},
        {"ranges_after": pooled(Interval(0, 0))},
    ],
    RangesProperty.BOUNDED: [
        {"ranges_after": pooled(*(Interval(n, n + 1) for n in range(6, 12)), frontier=12)}
    ],
    RangesProperty.WINDOW_HOLDS: [
        {"ranges_after": attrs.evolve(SHARED, frontier=13)},
        {"ranges_after": attrs.evolve(SHARED, window=0)},
    ],
    RangesProperty.FRONTIER_MONOTONE: [{"ranges_after": attrs.evolve(SHARED, frontier=5)}],
    RangesProperty.REFINES_LEASES: [
        {"ranges_after": pooled(Interval(1, 2))},
        {"ranges_after": Ranges(10, 6, (), (Interval(2, 6),))},
        {"ranges_after": Ranges(10, 6, (OpenRange(5, 2, 6, "q"),))},
    ],
}


def test_a_right_step_breaks_nothing() -> None:
    assert broken() == []


@pytest.mark.parametrize("prop", STEP_CHECKS, ids=lambda prop: prop.value)
def test_a_broken_step_breaks_it(prop: RangesProperty | Property) -> None:
    for changes in BROKEN[prop]:
        assert prop in broken(**changes)


def test_what_was_held_gets_free_if_its_holder_was_silent_for_more_than_two_intervals() -> None:
    freed = {"ranges_after": Ranges(10, 6, (), (Interval(2, 6),))}
    late = {at_ms: RangesRecord(0, 5, at_ms, claiming_range("q", 0)) for at_ms in (3000, 3001)}
    assert broken(record=late[3001], **freed) == []
    assert broken(record=late[3000], **freed) == [RangesProperty.REFINES_LEASES]
    ahead = attrs.evolve(OWNED, position=3)
    assert RangesProperty.REFINES_LEASES in broken(
        record=late[3001], claim=ahead, claim_after=ahead, **freed
    )


def test_what_began_anew_under_another_window_did_not_go_on() -> None:
    anew = Ranges(3, 2, clock_ms=1500)
    assert broken(ranges_after=anew) == []
    assert broken(ranges_after=attrs.evolve(anew, window=10)) == [RangesProperty.FRONTIER_MONOTONE]


def test_at_least_once_the_position_is_no_higher_than_what_is_done() -> None:
    assert position_is_low(OWNED, SHARED)
    beyond = attrs.evolve(OWNED, position=3)
    assert not position_is_low(beyond, SHARED)
    assert position_is_low(beyond, attrs.evolve(SHARED, window=0))
    assert position_is_low(beyond, Ranges())
    assert not position_is_low(beyond, Ranges(5, 6, (), (Interval(1, 2),)))

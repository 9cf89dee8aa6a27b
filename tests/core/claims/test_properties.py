"""Random logs of one claim: the properties of a step hold under the fenced rules, and can fail."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_marshal import (
    FENCED,
    ORIGINAL,
    Accepted,
    Claim,
    ClaimingPartition,
    Headers,
    Heartbeat,
    Message,
    Record,
    Refused,
    step,
)
from kafka_marshal.core import wire
from kafka_marshal.core.claims.invariants import STEP_CHECKS, Property, broken_by
from kafka_marshal.core.messages import NOT_DECIMAL

SENDERS = st.sampled_from([("i1", "c1"), ("i1b", "c1"), ("i2", "c2"), ("a1", "admin")])
SMALL = st.integers(-1, 9)
EPOCHS = st.one_of(st.none(), st.integers(0, 12), st.just(NOT_DECIMAL))
HEADERS = st.one_of(
    st.just(Headers()),
    st.builds(Headers, st.just(True), EPOCHS, EPOCHS, EPOCHS, st.none() | st.integers(0, 3)),
)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    instance, client = draw(SENDERS)
    version = draw(st.sampled_from([1, 1, 1, 1, 0, 7]))
    unix_s = draw(SMALL)
    base = (version, unix_s, instance, client, "g")
    layout = draw(st.sampled_from(wire.MESSAGES))
    number = () if layout.number is None else (draw(SMALL),)
    return layout.message(*base, "t" if layout.keyed else "", 0, *number)  # type: ignore[arg-type]


RECORDS = st.lists(st.tuples(messages(), HEADERS, st.integers(0, 9000)), max_size=14)
RULES = attrs.evolve(FENCED, heartbeat_interval_ms=1000, pause_max_ms=5000)


@settings(max_examples=400)
@given(RECORDS)
def test_no_log_breaks_a_property_under_the_fenced_rules(
    log: list[tuple[Message, Headers, int]],
) -> None:
    claim = Claim()
    for offset, (message, headers, at_ms) in enumerate(log):
        record = Record(0, offset, at_ms, message, headers)
        after, verdict = step(claim, record, RULES)
        assert broken_by(claim, record, after, verdict) == []
        assert after.clock_ms >= claim.clock_ms
        assert not (after.paused and after.owned)
        claim = after


OWNED = Claim("i1", "c1", 1, 5, 1000, 1000)
OWNED_AHEAD = attrs.evolve(OWNED, position=6)
WON_WITH_HEADERS = attrs.evolve(OWNED, won_with_headers=True)
PAUSED = Claim(None, None, 1, 5, None, 1000, False, "a1", 9000)
THEIRS = (1, 1, "i2", "c2", "g", "t", 0)
HB_AHEAD = Heartbeat(*THEIRS, 6)  # type: ignore[arg-type]
HB_BEHIND = Heartbeat(*THEIRS, 4)  # type: ignore[arg-type]
LATER_VERSION = Heartbeat(7, 1, "i1", "c1", "g", "t", 0, 6)  # type: ignore[arg-type]
SUCCESSOR = ClaimingPartition(1, 1, "i1b", "c1", "g", "t", 0)  # type: ignore[arg-type]

BY_THE_ORIGINAL: dict[Property, tuple[Claim, Message]] = {
    Property.FENCED: (OWNED, HB_AHEAD),
    Property.MONOTONE_POSITION: (OWNED, HB_BEHIND),
    Property.SET_STAYS_SET: (OWNED, HB_AHEAD),
    Property.MONOTONE_EPOCH: (OWNED, HB_AHEAD),
    Property.SET_POSITION_STICKS: (PAUSED, HB_AHEAD),
    Property.PAUSE_HOLDS: (PAUSED, HB_AHEAD),
}
BY_A_BROKEN_STEP: dict[Property, tuple[Claim, Message, Claim, Accepted | Refused]] = {
    Property.HEADERS_OUTRANK: (WON_WITH_HEADERS, SUCCESSOR, OWNED, Accepted.RESTARTED),
    Property.WIN_KEEPS_POSITION: (PAUSED, SUCCESSOR, OWNED_AHEAD, Accepted.CLAIMED),
    Property.REFUSED_CHANGES_NOTHING: (OWNED, HB_AHEAD, PAUSED, Refused.NOT_OWNER),
    Property.RESTART_TAKES_OVER: (OWNED, SUCCESSOR, OWNED, Refused.DOES_NOT_SUPERSEDE),
    Property.ODD_RECORDS_REFUSED: (OWNED, LATER_VERSION, OWNED_AHEAD, Accepted.REFRESHED),
    Property.CLOCK_IS_MAXIMUM: (OWNED, HB_AHEAD, OWNED, Refused.NOT_OWNER),
}


def test_every_check_is_seen_to_fail() -> None:
    assert BY_THE_ORIGINAL.keys() | BY_A_BROKEN_STEP.keys() == STEP_CHECKS.keys()


@pytest.mark.parametrize("broken", BY_THE_ORIGINAL, ids=lambda prop: prop.value)
def test_the_originals_rules_break_it(broken: Property) -> None:
    claim, message = BY_THE_ORIGINAL[broken]
    record = Record(0, 2, 2000, message)
    after, verdict = step(claim, record, ORIGINAL)
    assert broken in broken_by(claim, record, after, verdict)


@pytest.mark.parametrize("broken", BY_A_BROKEN_STEP, ids=lambda prop: prop.value)
def test_a_broken_step_breaks_it(broken: Property) -> None:
    before, message, after, verdict = BY_A_BROKEN_STEP[broken]
    assert broken in broken_by(before, Record(0, 2, 2000, message), after, verdict)


def test_a_win_that_does_not_raise_the_epoch_breaks_monotone_epoch() -> None:
    """The offset of a win is above every earlier one: at the same offset it would win twice."""
    before = Claim(epoch=2, position=5, clock_ms=1000)
    after = attrs.evolve(OWNED, epoch=2)
    record = Record(0, 2, 2000, SUCCESSOR)
    assert Property.MONOTONE_EPOCH in broken_by(before, record, after, Accepted.CLAIMED)

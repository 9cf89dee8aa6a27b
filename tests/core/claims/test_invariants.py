"""What each property of a step allows and what it does not, case by case.

`test_properties.py` says that no log of the fenced rules breaks any, `make mutants` that mistakes
do.
"""

from __future__ import annotations

import attrs
import pytest

from kafka_marshal import (
    Accepted,
    Claim,
    ClaimingMessages,
    ClaimingPartition,
    Headers,
    Heartbeat,
    Message,
    Record,
    Refused,
    ReleaseGroup,
    ReleasingPartition,
    Verdict,
)
from kafka_marshal.core.claims.invariants import (
    clock_is_maximum,
    fenced,
    monotone_position,
    odd_records_refused,
    restart_takes_over,
    set_stays_set,
)
from kafka_marshal.core.claims.verdicts import ODD_HEADERS
from kafka_marshal.core.messages import AMENDMENTS, NO_HEADERS, NOT_DECIMAL

OFFSET = 9
BARE = Claim("a1", "a", 3, 5, 1000, 1000)
OURS = attrs.evolve(BARE, won_with_headers=True)
FREE = Claim(None, None, 3, 5, None, 1000)
PRESENT = Headers(present=True)
EPOCH = Headers(present=True, epoch=3)


def beats(instance: str, version: int = 1) -> Heartbeat:
    return Heartbeat(version, 1, instance, instance[0], "g", "t", 0, 6)  # type: ignore[arg-type]


def asks(instance: str, version: int = 1) -> ClaimingPartition:
    return ClaimingPartition(version, 1, instance, instance[0], "g", "t", 0)  # type: ignore[arg-type]


def wants(instance: str) -> ClaimingMessages:
    return ClaimingMessages(1, 1, instance, instance[0], "g", "t", 0, 6)  # type: ignore[arg-type]


def pauses(version: int = 0) -> ReleaseGroup:
    return ReleaseGroup(version, 1, "x1", "x", "g", "", 0, 9)  # type: ignore[arg-type]


def record(message: Message, headers: Headers = NO_HEADERS) -> Record:
    return Record(0, OFFSET, 2000, message, headers)


def owned_by(claim: Claim, instance: str) -> Claim:
    return attrs.evolve(claim, owner_instance=instance, clock_ms=2000)


OBEYED = Accepted.REFRESHED
FENCED_CASES: list[tuple[Claim, Message, Headers, Verdict, bool]] = [
    (BARE, beats("a1"), NO_HEADERS, OBEYED, True),
    (BARE, beats("a1"), EPOCH, OBEYED, True),
    (BARE, beats("a1"), Headers(True, epoch=2), OBEYED, False),
    (BARE, beats("a2"), NO_HEADERS, OBEYED, False),
    (BARE, beats("a2"), EPOCH, OBEYED, False),
    (BARE, beats("b1"), NO_HEADERS, Refused.NOT_OWNER, True),
    (BARE, wants("b1"), NO_HEADERS, Accepted.IGNORED, True),
    (OURS, beats("a1"), NO_HEADERS, OBEYED, False),
    (OURS, beats("a1"), EPOCH, OBEYED, True),
    (FREE, beats("a1"), EPOCH, OBEYED, False),
    (attrs.evolve(FREE, owner_instance="a1"), beats("a1"), EPOCH, OBEYED, False),
    (OURS, asks("b1"), PRESENT, Accepted.TOOK_OVER, True),
    (OURS, pauses(), NO_HEADERS, Accepted.GROUP_RELEASED, True),
    (BARE, beats("a2"), NO_HEADERS, Accepted.FAST_RECLAIMED, True),
    (BARE, beats("b2"), NO_HEADERS, Accepted.FAST_RECLAIMED, False),
    (BARE, beats("a2"), PRESENT, Accepted.FAST_RECLAIMED, False),
    (OURS, beats("a2"), NO_HEADERS, Accepted.FAST_RECLAIMED, False),
]


@pytest.mark.parametrize(("claim", "message", "headers", "verdict", "holds"), FENCED_CASES)
def test_only_the_owner_is_obeyed_and_under_its_epoch(
    claim: Claim, message: Message, headers: Headers, verdict: Verdict, holds: bool
) -> None:
    assert fenced(claim, record(message, headers), claim, verdict) is holds


ENDS_IT = Headers(True, supersedes=3)
WAITS: list[tuple[Claim, Message, Headers, bool]] = [
    (BARE, asks("a2"), NO_HEADERS, False),
    (BARE, asks("a2", version=0), NO_HEADERS, False),
    (BARE, asks("a2", version=7), NO_HEADERS, True),
    (BARE, asks("a2"), PRESENT, True),
    (BARE, asks("a2"), ENDS_IT, False),
    (OURS, asks("a2"), ENDS_IT, False),
    (OURS, asks("a2"), NO_HEADERS, True),
    (OURS, asks("a2"), Headers(True, supersedes=2), True),
    (OURS, asks("b1"), ENDS_IT, True),
    (OURS, asks("a1"), ENDS_IT, True),
    (OURS, asks("a2"), attrs.evolve(ENDS_IT, clock=NOT_DECIMAL), True),
    (OURS, asks("a2"), attrs.evolve(ENDS_IT, epoch=OFFSET), True),
    (OURS, asks("a2"), attrs.evolve(ENDS_IT, seen=OFFSET), True),
    (OURS, asks("a2"), attrs.evolve(ENDS_IT, seen=OFFSET - 1, epoch=OFFSET - 1), False),
    (BARE, beats("a2"), NO_HEADERS, False),
    (BARE, beats("a2"), ENDS_IT, True),
    (OURS, beats("a2"), NO_HEADERS, True),
    (BARE, wants("a2"), NO_HEADERS, True),
    (attrs.evolve(OURS, epoch=None), asks("a2"), PRESENT, True),
]


@pytest.mark.parametrize(("claim", "message", "headers", "may_wait"), WAITS)
def test_a_restart_that_says_so_wins_at_once(
    claim: Claim, message: Message, headers: Headers, may_wait: bool
) -> None:
    sent = record(message, headers)
    waits = owned_by(claim, "a1")
    assert restart_takes_over(claim, sent, waits, Refused.DOES_NOT_SUPERSEDE) is may_wait
    won = owned_by(claim, message.instance_id)
    assert restart_takes_over(claim, sent, won, Accepted.RESTARTED)


NUMBERS = {field.name for field in attrs.fields(Headers)} - {"present", *AMENDMENTS}
ODD = [
    *(attrs.evolve(PRESENT, **{name: NOT_DECIMAL}) for name in sorted(NUMBERS)),  # type: ignore[arg-type]
    *(attrs.evolve(PRESENT, **{name: OFFSET}) for name in ("epoch", "seen")),  # type: ignore[arg-type]
]
RIGHT = attrs.evolve(PRESENT, epoch=OFFSET - 1, seen=OFFSET - 1, clock=OFFSET, supersedes=OFFSET)


@pytest.mark.parametrize("headers", ODD)
def test_odd_headers_are_refused_except_of_a_release_group(headers: Headers) -> None:
    sent = record(beats("a1"), headers)
    assert not odd_records_refused(OURS, sent, OURS, OBEYED)
    assert odd_records_refused(OURS, sent, OURS, Refused.HEADER_NOT_DECIMAL)
    assert odd_records_refused(OURS, sent, OURS, Refused.NOT_OWNER)
    assert odd_records_refused(OURS, record(pauses(), headers), FREE, Accepted.GROUP_RELEASED)


@pytest.mark.parametrize("headers", [NO_HEADERS, PRESENT, RIGHT])
def test_nobody_is_refused_for_headers_that_are_not_odd(headers: Headers) -> None:
    sent = record(beats("a1"), headers)
    assert odd_records_refused(OURS, sent, OURS, OBEYED)
    assert odd_records_refused(OURS, sent, OURS, Refused.EPOCH_MISSING)
    for guard in ODD_HEADERS:
        assert not odd_records_refused(OURS, sent, OURS, guard)


@pytest.mark.parametrize(("version", "is_known"), [(0, True), (1, True), (2, False), (-1, False)])
def test_versions_0_and_1_are_known_and_no_others(version: int, is_known: bool) -> None:
    for message in (beats("a1", version), pauses(version)):
        sent = record(message)
        assert odd_records_refused(OURS, sent, OURS, OBEYED) is is_known
        assert odd_records_refused(OURS, sent, OURS, Refused.UNKNOWN_VERSION) is not is_known


@pytest.mark.parametrize(("before_ms", "after_ms"), [(1000, 2000), (2000, 2000), (3000, 3000)])
def test_the_clock_is_the_latest_timestamp(before_ms: int, after_ms: int) -> None:
    before = attrs.evolve(BARE, clock_ms=before_ms)
    for clock_ms in (1000, 2000, 3000):
        after = attrs.evolve(before, clock_ms=clock_ms)
        holds = clock_is_maximum(before, record(beats("a1")), after, OBEYED)
        assert holds is (clock_ms == after_ms)


SAYS_IT_SETS = Headers(True, epoch=3, set_position=0)


def releases(instance: str, offset: int = 0) -> ReleasingPartition:
    return ReleasingPartition(1, 1, instance, instance[0], "g", "t", 0, offset)  # type: ignore[arg-type]


BACK_CASES: list[tuple[str | None, Headers, int, int, bool]] = [
    # pauser, headers, offset of the release, position after
    (None, EPOCH, 0, 0, False),
    (None, SAYS_IT_SETS, 0, 0, True),
    (None, SAYS_IT_SETS, 0, 1, False),
    (None, SAYS_IT_SETS, -1, -1, False),
    ("a1", EPOCH, 0, 0, True),
    ("a1", NO_HEADERS, 0, 0, True),
    ("b1", EPOCH, 0, 0, False),
]


@pytest.mark.parametrize(("pauser", "headers", "offset", "position", "holds"), BACK_CASES)
def test_only_an_administrators_release_moves_the_position_back_to_where_it_says(
    pauser: str | None, headers: Headers, offset: int, position: int, holds: bool
) -> None:
    """Judged by sender, pauser and header: every verdict's name excuses as little."""
    was = attrs.evolve(OURS, position=2, pauser=pauser)
    becomes = attrs.evolve(was, position=position)
    sent = record(releases("a1", offset), headers)
    for verdict in (Accepted.POSITION_SET, Accepted.RELEASED):
        assert monotone_position(was, sent, becomes, verdict) is holds
    assert not monotone_position(was, record(beats("a1"), headers), becomes, Accepted.POSITION_SET)


SET_CASES: list[tuple[bool, int, bool, Headers, Message, bool]] = [
    # set before, position after, set after
    (False, 0, False, EPOCH, beats("a1"), True),
    (False, 0, True, EPOCH, beats("a1"), False),
    (False, 0, True, NO_HEADERS, beats("a1"), False),
    (False, 0, True, attrs.evolve(EPOCH, start=0), beats("a1"), True),
    (False, 0, True, SAYS_IT_SETS, releases("a1"), True),
    (False, 0, True, SAYS_IT_SETS, beats("a1"), False),
    (False, 0, True, NO_HEADERS, releases("x1"), True),
    (False, 0, True, NO_HEADERS, releases("a1"), False),
    (False, 0, True, EPOCH, releases("x1"), False),
    (False, 1, False, EPOCH, beats("a1"), False),
    (False, 1, True, EPOCH, beats("a1"), True),
    (True, 0, True, EPOCH, beats("a1"), True),
    (True, 0, False, EPOCH, beats("a1"), False),
]


@pytest.mark.parametrize(("before", "position", "after", "headers", "message", "holds"), SET_CASES)
def test_a_position_above_0_is_set_and_at_0_only_who_says_so_sets_it(
    before: bool, position: int, after: bool, headers: Headers, message: Message, holds: bool
) -> None:
    was = attrs.evolve(OURS, position=0, position_set=before, pauser="x1")
    becomes = attrs.evolve(was, position=position, position_set=after)
    assert set_stays_set(was, record(message, headers), becomes, OBEYED) is holds

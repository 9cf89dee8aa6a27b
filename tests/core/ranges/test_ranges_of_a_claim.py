"""Stories of one claim that several share, a record a line. Offsets in the log count from 0."""

from __future__ import annotations

import attrs
import pytest

from kafka_marshal import (
    Claim,
    ClaimingMessages,
    ClaimingPartition,
    Headers,
    Heartbeat,
    ReleaseGroup,
    ReleasingPartition,
)
from kafka_marshal.core.claims.verdicts import Accepted
from kafka_marshal.core.messages import NO_HEADERS, NOT_DECIMAL, Message, Partition
from kafka_marshal.core.ranges.claiming_range import RangeOutcome
from kafka_marshal.core.ranges.messages import NO_RANGE_HEADERS, RangeHeaders, RangesRecord
from kafka_marshal.core.ranges.reducer import claim_outcome, step
from kafka_marshal.core.ranges.state import (
    LIMITS,
    OFFSET_MAX,
    Interval,
    Limits,
    OpenRange,
    Ranges,
    SignOfLife,
)
from kafka_marshal.core.ranges.verdicts import RangeAccepted, RangeRefused, RangeVerdict, Unmet
from tests.core.ranges.walking import ANCHOR, RULES, claiming_range, message

PRESENT = Headers(present=True)
GRANTED, REFRESHED = RangeAccepted.RANGE_GRANTED, RangeAccepted.RANGE_REFRESHED
SMALL = Limits(intervals_max=3, open_ranges_max=2, range_messages_max=10)


@attrs.define
class Board:
    """A whiteboard: the claim, its ranges, and the time."""

    claim: Claim = attrs.field(factory=Claim)
    ranges: Ranges = attrs.field(factory=Ranges)
    offset: int = 0
    now_ms: int = 1000
    limits: Limits = SMALL

    def old(
        self,
        message: Message,
        headers: Headers = PRESENT,
        window: int | None = None,
        after_ms: int = 0,
    ) -> RangeVerdict:
        """One of the five messages."""
        headers_of_ranges = RangeHeaders(window=window)
        self.now_ms += after_ms
        record = RangesRecord(0, self.offset, self.now_ms, message, headers, headers_of_ranges)
        outcome = step(self.ranges, self.claim, record, RULES, self.limits)
        self.claim, verdict = claim_outcome(self.claim, record, message, RULES)
        assert outcome.verdict is verdict
        return self._next(outcome)

    def asks(
        self,
        who: str,
        count: int,
        *,
        after_ms: int = 0,
        seen: int | None = None,
        said: RangeHeaders = NO_RANGE_HEADERS,
        headers: Headers = PRESENT,
        version: int = 1,
    ) -> RangeVerdict | tuple[RangeVerdict, Unmet]:
        """A ClaimingRange: its verdict, and why nothing was granted if it was not."""
        self.now_ms += after_ms
        asked = attrs.evolve(claiming_range(who, count), version=version)
        headers = headers if seen is None else attrs.evolve(headers, seen=seen)
        record = RangesRecord(0, self.offset, self.now_ms, asked, headers, said)
        before = self.claim
        outcome = step(self.ranges, self.claim, record, RULES, self.limits)
        assert self.claim is before
        verdict = self._next(outcome)
        return verdict if outcome.guard is None else (verdict, outcome.guard)

    def _next(self, outcome: RangeOutcome) -> RangeVerdict:
        self.ranges = outcome.ranges
        self.offset += 1
        return outcome.verdict

    def anchored(self, window: int) -> Board:
        """The participants win the claim together."""
        self.old(message(ClaimingPartition, ANCHOR), window=window)
        return self

    def reserved(self, to: int) -> RangeVerdict:
        epoch = attrs.evolve(PRESENT, epoch=self.claim.epoch)
        return self.old(message(ClaimingMessages, ANCHOR, to), epoch)

    def released(self, at: int) -> RangeVerdict:
        epoch = attrs.evolve(PRESENT, epoch=self.claim.epoch)
        return self.old(message(ReleasingPartition, ANCHOR, at), epoch)

    @property
    def held(self) -> list[tuple[str, int, int]]:
        """Who holds what, in the order of the log."""
        return [(each.instance, each.from_, each.to) for each in self.ranges.open]

    @property
    def free(self) -> list[tuple[int, int]]:
        """What is in the pool."""
        return [(each.from_, each.to) for each in self.ranges.pool]


def test_two_share_a_claim_at_least_once() -> None:
    board = Board().anchored(window=10)
    assert board.asks("p", 4) is GRANTED
    assert board.asks("q", 4) is GRANTED
    assert board.asks("p", 4) is GRANTED, "what is left of the window"
    assert board.held == [("p", 0, 4), ("q", 4, 8), ("p", 8, 10)]
    assert board.asks("q", 4) == (REFRESHED, Unmet.WINDOW_FULL)
    assert [each.id for each in board.ranges.open] == [1, 2, 3]


def test_at_most_once_ranges_are_cut_from_what_is_reserved() -> None:
    board = Board().anchored(window=0)
    assert board.asks("p", 4) == (REFRESHED, Unmet.WINDOW_FULL)
    assert board.reserved(6) is Accepted.GRANTED
    assert board.asks("p", 4) is GRANTED
    assert board.asks("q", 4) is GRANTED
    assert board.held == [("p", 0, 4), ("q", 4, 6)]


def test_a_double_of_a_request_grants_its_sender_a_second_range() -> None:
    board = Board().anchored(window=10)
    assert board.asks("p", 3) is board.asks("p", 3) is GRANTED
    assert board.held == [("p", 0, 3), ("p", 3, 6)]


def test_a_request_is_cut_to_the_longest_range() -> None:
    board = Board().anchored(window=100)
    board.asks("p", OFFSET_MAX)
    assert board.held == [("p", 0, 10)]


def test_what_is_done_is_nobodys_any_more() -> None:
    board = Board().anchored(window=10)
    board.asks("p", 4)
    board.asks("p", 4)
    assert board.asks("p", 0, seen=1, said=RangeHeaders(done=3)) is REFRESHED
    assert board.held == [("p", 3, 4), ("p", 4, 8)]
    board.asks("p", 0, seen=2, said=RangeHeaders(done=4))
    assert board.held == [("p", 4, 8)]
    assert board.ranges.low == 4


def test_what_a_record_says_it_does_not_say_of_ranges_that_came_later() -> None:
    board = Board().anchored(window=10)
    board.asks("p", 4)
    board.asks("p", 0, seen=0, said=RangeHeaders(done=4))
    assert board.held == [("p", 0, 4)]


def test_what_is_given_back_goes_to_the_next_that_asks_whole() -> None:
    board = Board().anchored(window=10)
    board.asks("p", 8)
    board.asks("p", 0, seen=1, said=RangeHeaders(keep=2))
    assert (board.held, board.free) == ([("p", 0, 2)], [(2, 8)])
    assert board.asks("q", 1) is GRANTED
    assert board.held == [("p", 0, 2), ("q", 2, 8)]


def test_a_range_stays_whole_where_its_cut_has_no_room() -> None:
    board = Board().anchored(window=100)
    board.asks("p", 5)
    board.asks("q", 5)
    board.asks("r", 5)
    board.asks("p", 0, seen=3, said=RangeHeaders(keep=2))
    assert board.held[0] == ("p", 0, 5), "three intervals are the most"
    board.asks("p", 0, seen=3, said=RangeHeaders(keep=0))
    assert board.free == [(0, 5)], "a whole one needs no room"


def test_the_limit_of_an_instance_does_not_count_for_the_pool() -> None:
    board = Board(limits=attrs.evolve(SMALL, intervals_max=9)).anchored(window=100)
    board.asks("q", 5)
    board.asks("p", 1)
    board.asks("p", 1)
    assert board.asks("p", 1) == (REFRESHED, Unmet.TOO_MANY_OPEN)
    board.asks("q", 0, seen=1, said=RangeHeaders(keep=0))
    assert board.asks("p", 1) is GRANTED
    assert board.held[-1] == ("p", 0, 5)


def test_the_silent_lose_what_they_hold_at_least_once() -> None:
    board = Board().anchored(window=10)
    board.asks("p", 4)
    assert board.asks("q", 0, after_ms=2000) is REFRESHED
    assert board.held == [("p", 0, 4)], "exactly twice the interval is not silent"
    assert board.asks("q", 1, after_ms=1) is GRANTED
    assert board.held == [("q", 0, 4)]
    assert [sign.instance for sign in board.ranges.alive] == ["q"]


def test_at_most_once_what_the_silent_held_is_forgotten() -> None:
    board = Board().anchored(window=0)
    board.reserved(8)
    board.asks("p", 4)
    assert board.asks("q", 4, after_ms=2001) is GRANTED
    assert (board.held, board.free) == ([("q", 4, 8)], [])


def test_a_silent_holder_that_speaks_first_still_holds() -> None:
    board = Board().anchored(window=10)
    board.asks("p", 4)
    board.asks("p", 0, after_ms=9000)
    board.asks("q", 0)
    assert board.held == [("p", 0, 4)]


def test_ranges_sleep_while_nobody_owns_and_their_holders_stay_alive() -> None:
    board = Board().anchored(window=10)
    board.asks("p", 4)
    assert board.released(0) is Accepted.RELEASED
    assert board.asks("p", 1, after_ms=1500) is RangeRefused.NO_RANGE_TENURE
    board.anchored(window=10)
    board.asks("q", 0, after_ms=1500)
    assert board.held == [("p", 0, 4)], "it spoke in its sleep"


def test_who_holds_nothing_is_not_remembered_while_they_sleep() -> None:
    board = Board().anchored(window=10)
    board.released(0)
    assert board.asks("p", 1) is RangeRefused.NO_RANGE_TENURE
    assert board.ranges.alive == ()


def test_another_window_ends_the_ranges_and_the_next_begin_at_the_position() -> None:
    """What was cut beyond the position must not be granted twice at most once."""
    board = Board().anchored(window=10)
    board.asks("p", 4)
    board.anchored(window=0)
    assert board.ranges == Ranges(window=0, frontier=0, clock_ms=board.now_ms)


def test_a_request_makes_no_claim() -> None:
    board = Board()
    assert board.asks("p", 1) is RangeRefused.NO_RANGE_TENURE
    assert board.ranges == Ranges()
    board.old(ReleaseGroup(0, 0, "a", "a", "g", "", Partition(0), 0), NO_HEADERS)
    board.asks("p", 1, after_ms=5)
    assert board.ranges == Ranges(clock_ms=1005)


def test_a_pause_only_lets_them_sleep() -> None:
    board = Board().anchored(window=10)
    board.asks("p", 4)
    board.old(ReleaseGroup(0, 0, "a", "a", "g", "", Partition(0), 3), NO_HEADERS)
    assert board.asks("p", 1) is RangeRefused.NO_RANGE_TENURE
    assert board.held == [("p", 0, 4)]
    board.old(message(ClaimingPartition, ANCHOR), window=10, after_ms=3000)
    assert board.asks("p", 1) is GRANTED


def test_who_wins_without_the_header_ends_all_ranges() -> None:
    board = Board().anchored(window=10)
    board.asks("p", 4)
    win = message(ClaimingPartition, "other")
    assert board.old(win, after_ms=9000) is Accepted.TOOK_OVER
    assert board.ranges == Ranges(clock_ms=board.now_ms)
    assert board.asks("p", 1) is RangeRefused.NO_RANGE_TENURE


def test_a_header_that_is_not_decimal_is_none_on_an_old_message() -> None:
    board = Board().anchored(window=NOT_DECIMAL)
    assert board.claim.owned
    assert not board.ranges.has_begun


def test_an_original_that_restarts_by_a_heartbeat_shares_nothing() -> None:
    """R9 is a win without the header, also with one: only ClaimingPartition begins a tenure."""
    board = Board()
    bare = attrs.evolve(message(ClaimingPartition, ANCHOR), client_id="c")
    board.old(bare, NO_HEADERS, window=10)
    assert board.ranges.has_begun
    heartbeat = attrs.evolve(message(Heartbeat, "next", 3), client_id="c")
    assert board.old(heartbeat, NO_HEADERS, window=10) is Accepted.FAST_RECLAIMED
    assert not board.ranges.has_begun


def test_who_sets_the_position_ends_all_ranges_and_the_next_begin_there() -> None:
    board = Board().anchored(window=10)
    board.asks("p", 4)
    sets = attrs.evolve(PRESENT, epoch=board.claim.epoch, set_position=7)
    release = message(ReleasingPartition, ANCHOR, 7)
    assert board.old(release, sets) is Accepted.POSITION_SET
    assert not board.ranges.has_begun
    board.anchored(window=10)
    board.asks("p", 2)
    assert board.held == [("p", 7, 9)]


def test_the_ranges_of_the_last_tenure_go_on() -> None:
    board = Board().anchored(window=10)
    board.asks("p", 4)
    board.old(message(ClaimingPartition, "anchor2"), window=10, after_ms=9000)
    assert board.held == [("p", 0, 4)]
    assert board.ranges.frontier == 4


@pytest.mark.parametrize(
    ("said", "refusal"),
    [
        ({"version": 2, "headers": Headers(True, seen=NOT_DECIMAL)}, "unknown_version"),
        ({"headers": Headers(True, clock=NOT_DECIMAL, epoch=9)}, "header_not_decimal"),
        ({"said": RangeHeaders(window=NOT_DECIMAL)}, "header_not_decimal"),
        ({"said": RangeHeaders(keep=NOT_DECIMAL), "seen": 9}, "header_not_decimal"),
        ({"seen": 1, "said": RangeHeaders(done=1)}, "header_from_the_future"),
        ({"headers": Headers(True, epoch=1)}, "header_from_the_future"),
        ({"said": RangeHeaders(done=1), "count": -1}, "seen_missing"),
        ({"said": RangeHeaders(keep=1)}, "seen_missing"),
        ({"count": -1}, "negative_count"),
    ],
)
def test_a_request_is_refused_by_the_first_guard_and_moves_only_the_clock(
    said: dict[str, object], refusal: str
) -> None:
    board = Board().anchored(window=10)
    before = board.ranges
    asked = {"who": "p", "count": 1, "after_ms": 5, **said}
    assert board.asks(**asked) is RangeRefused(refusal)  # type: ignore[arg-type]
    assert board.ranges == attrs.evolve(before, clock_ms=before.clock_ms + 5)


def test_an_owner_that_does_not_share_has_no_range_tenure() -> None:
    board = Board()
    board.old(message(ClaimingPartition, "other"))
    assert board.asks("p", -1) is RangeRefused.NO_RANGE_TENURE
    assert board.ranges.alive == ()


def test_the_clock_of_ranges_is_their_own_and_never_steps_back() -> None:
    board = Board().anchored(window=10)
    board.asks("p", 1, after_ms=500)
    assert (board.claim.clock_ms, board.ranges.clock_ms) == (1000, 1500)
    board.asks("p", 0, after_ms=-400)
    assert board.ranges.clock_ms == 1500
    assert board.ranges.alive == (SignOfLife("p", 1500),)


def test_no_range_ends_beyond_the_last_offset() -> None:
    claim = Claim("anchor", "ranges", 0, OFFSET_MAX - 3, 1000, 1000, True)
    board = Board(claim, Ranges(OFFSET_MAX, OFFSET_MAX - 5, clock_ms=1000), offset=1)
    assert board.asks("p", 9) is GRANTED
    assert board.held == [("p", OFFSET_MAX - 5, OFFSET_MAX)]
    assert board.asks("p", 9) == (REFRESHED, Unmet.WINDOW_FULL)


def test_ranges_know_what_they_are_asked() -> None:
    ranges = Ranges(5, 9, (OpenRange(1, 4, 6, "p"), OpenRange(2, 6, 7, "q")), (Interval(3, 4),))
    assert ranges.has_begun
    assert not Ranges().has_begun
    assert ranges.intervals == 3
    assert ranges.low == 3
    assert [each.id for each in ranges.open_of("q")] == [2]
    assert attrs.evolve(ranges, open=(), pool=()).low == 9


@pytest.mark.parametrize("name", [field.name for field in attrs.fields(Limits)])
def test_a_limit_is_positive(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be greater than 0"):
        attrs.evolve(LIMITS, **{name: 0})

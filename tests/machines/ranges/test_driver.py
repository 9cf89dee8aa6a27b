"""Marshal promises that a participant does what is due when it is due: each story by hand."""

from __future__ import annotations

import attrs
import pytest

from kafka_marshal import ClaimingMessages, ClaimingPartition, Heartbeat, ReleaseGroup
from kafka_marshal.core.messages import (
    ClaimingRange,
    Headers,
    Offset,
    Partition,
    ReleasingPartition,
)
from kafka_marshal.core.ranges.messages import RangeHeaders, RangesRecord
from kafka_marshal.core.state import FENCED, ClaimKey
from kafka_marshal.machines.ranges.driver import Identity, ParticipantDriver, RangesTiming
from kafka_marshal.machines.ranges.effects import (
    Effect,
    HandlerHangs,
    Left,
    LossReason,
    RangeCut,
    RangeGranted,
    RangeLost,
    SendRecord,
    TenureBegan,
    TenureEnded,
    WindowDiffers,
)
from kafka_marshal.machines.ranges.participant import ParticipantForbidden

KEY = ClaimKey("g", "events", 0)
RULES = attrs.evolve(FENCED, heartbeat_interval_ms=10_000)
TIMING = RangesTiming(heartbeat_every_ms=10_000, stuck_after_ms=60_000)
AHEAD_MS = 1_700_000_000_000


class Desk:
    """One participant, and the log: what it sends lands at once, unless it is held up."""

    def __init__(self, window: int = 100, start: int = 0, name: str = "i1") -> None:
        self.driver = ParticipantDriver(
            Identity(name, f"client of {name}"), KEY, window, start, RULES, TIMING
        )
        self.log: list[RangesRecord] = []
        self.now_ms = 0
        self.lands = True
        self.sent: list[SendRecord] = []
        self.effects: list[Effect] = []

    def do(self, effects: list[Effect]) -> None:
        for effect in effects:
            self.effects.append(effect)
            if isinstance(effect, SendRecord):
                self.sent.append(effect)
                if self.lands:
                    self.land(effect)

    def land(self, sent: SendRecord) -> None:
        record = RangesRecord(
            *(0, len(self.log), AHEAD_MS + self.now_ms, sent.message),
            *(sent.headers, sent.range_headers),
        )
        self.log.append(record)
        self.do(self.driver.record(record, self.now_ms, sent.checkpoint))
        self.do(self.driver.caught_up(self.now_ms))

    def others(self, message: object, said: RangeHeaders | None = None, **headers: int) -> None:
        """Somebody else's record lands."""
        assert isinstance(
            message,
            ClaimingRange | ClaimingPartition | Heartbeat | ReleasingPartition | ReleaseGroup,
        )
        more = said or RangeHeaders()
        self.land(SendRecord(message, Headers(True, **headers), more))

    def pass_ms(self, ms: int) -> None:
        end_ms = self.now_ms + ms
        while (at_ms := self.driver.next_timer_ms) is not None and at_ms <= end_ms:
            self.now_ms = max(self.now_ms, at_ms)
            self.do(self.driver.timer(self.now_ms))
        self.now_ms = end_ms

    def begins(self) -> Desk:
        """Until it holds a range."""
        self.do(self.driver.caught_up(self.now_ms))
        self.pass_ms(2_000)
        assert self.driver.held
        return self

    def took(self, kind: type[Effect]) -> list[Effect]:
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def work(self, count: int) -> None:
        """Begin and finish as many messages of the lowest range."""
        [held, *_] = self.driver.held
        for offset in range(held.begun, held.begun + count):
            self.do(self.driver.begun(held.id, offset, self.now_ms))
            self.do(self.driver.finished(held.id, offset, self.now_ms))


def ranging(name: str, count: int) -> ClaimingRange:
    return ClaimingRange(1, 0, name, name, "g", "events", Partition(0), count)


def claiming(name: str) -> ClaimingPartition:
    return ClaimingPartition(1, 0, name, name, "g", "events", Partition(0))


def release_group(seconds: int) -> ReleaseGroup:
    expires_s = AHEAD_MS // 1_000 + seconds
    return ReleaseGroup(0, 0, "admin", "admin", "g", "", Partition(0), expires_s)


def test_where_nobody_set_a_position_it_says_first_where_to_begin() -> None:
    desk = Desk(start=500).begins()
    began, start, shared, *_ = list(desk.sent)
    assert isinstance(began.message, ClaimingPartition)
    assert began.range_headers.window is None
    assert isinstance(start.message, ReleasingPartition)
    assert (start.message.offset, start.headers.start) == (500, 500)
    assert isinstance(shared.message, ClaimingPartition)
    assert shared.range_headers.window == 100
    assert desk.took(TenureBegan) == [TenureBegan(2, 500)]
    [granted] = desk.took(RangeGranted)
    assert isinstance(granted, RangeGranted)
    assert granted.from_ == 500


@pytest.mark.parametrize("window", [0, 100])
def test_a_claim_to_say_where_to_begin_ends_no_ranges_however_late_it_lands(window: int) -> None:
    desk = Desk(window=window).begins()
    held = desk.driver.held
    assert held
    desk.others(claiming("i2"))
    assert desk.driver.shares
    assert desk.driver.held == held
    assert not desk.took(RangeLost)


def test_a_claim_that_somebody_won_with_a_window_under_another_name_is_not_shared() -> None:
    desk = Desk().begins()
    other = Desk()
    other.others(claiming("x"), RangeHeaders(window=100))
    assert desk.driver.shares
    assert not other.driver.shares


def test_who_says_where_to_begin_is_not_waited_for_as_one_that_does_not_share() -> None:
    desk = Desk()
    desk.others(claiming("i2"))
    assert desk.driver.waits_for(desk.now_ms) is None
    says = Heartbeat(1, 0, "i2", "i2", "g", "events", Partition(0), Offset(7))
    desk.others(says, epoch=0)
    assert desk.driver.waits_for(desk.now_ms) == "i2"


def asking_alone(start: int = 0) -> tuple[Desk, SendRecord]:
    """It claims alone, and that has not landed yet."""
    desk = Desk(start=start)
    desk.lands = False
    desk.do(desk.driver.caught_up(0))
    desk.pass_ms(1_000)
    [asked] = desk.sent
    desk.lands = True
    return desk, asked


def test_a_claim_that_is_won_alone_after_others_said_where_to_begin_is_released_there() -> None:
    desk, asked = asking_alone(start=500)
    desk.others(claiming("i2"))
    release = ReleasingPartition(1, 0, "i2", "i2", "g", "events", Partition(0), Offset(700))
    desk.others(release, epoch=0)
    desk.land(asked)
    _, released, shared, *_ = desk.sent
    assert isinstance(released.message, ReleasingPartition)
    assert (released.message.offset, released.headers.start) == (700, None)
    assert shared.range_headers.window == 100
    assert desk.took(TenureBegan) == [TenureBegan(4, 700)]


def test_who_leaves_releases_what_it_has_claimed_alone() -> None:
    desk, asked = asking_alone()
    desk.do(desk.driver.leave(desk.now_ms))
    assert not desk.took(Left)
    desk.land(asked)
    assert isinstance(desk.sent[-1].message, ReleasingPartition)
    assert desk.took(Left)
    assert not desk.driver.participant.claim.owned


def test_at_most_once_it_reserves_before_it_asks() -> None:
    desk = Desk(window=0).begins()
    kinds = [type(each.message) for each in desk.sent]
    assert kinds.index(ClaimingMessages) < kinds.index(ClaimingRange)
    reserved = kinds.index(ClaimingMessages)
    assert Heartbeat in kinds[reserved + 1 :], "the original reads positions in heartbeats alone"


def test_it_has_one_request_on_the_way() -> None:
    desk = Desk().begins()
    desk.lands = False
    desk.work(6)
    before = len(desk.sent)
    desk.work(4)
    desk.pass_ms(500)
    asked = [each for each in desk.sent if isinstance(each.message, ClaimingRange)]
    assert sum(each.message.count > 0 for each in asked) == 2  # type: ignore[union-attr]
    assert len(desk.sent) == before


def test_a_request_that_was_not_read_back_is_repeated() -> None:
    desk = Desk().begins()
    desk.lands = False
    desk.work(10)
    asked = len(desk.sent)
    desk.pass_ms(TIMING.ask_again_after_ms + 1_100)
    assert len(desk.sent) > asked
    assert isinstance(desk.sent[-1].message, ClaimingRange)


@pytest.mark.parametrize(("others", "behind", "times"), [(15, 10**6, 2), (15, 0, 1), (7, 10**6, 1)])
def test_ranges_of_many_are_longer_far_behind_the_end(others: int, behind: int, times: int) -> None:
    desk = Desk(window=10**6).begins()
    for number in range(others):
        desk.others(ranging(f"other{number}", 10))
    [held, *_] = desk.driver.held
    desk.do(desk.driver.begun(held.id, held.from_, desk.now_ms))
    desk.now_ms += 250
    desk.do(desk.driver.finished(held.id, held.from_ + 9, desk.now_ms))
    alone = desk.driver.messages_wanted
    assert alone > 1
    desk.do(desk.driver.end(desk.driver.participant.ranges.frontier + behind, desk.now_ms))
    assert desk.driver.messages_wanted == times * alone


def one_of_many(others: int, behind: int) -> Desk:
    """It works at 200 messages a second, and has a range of 250 in hand or more."""
    desk = Desk(window=10**6).begins()
    for number in range(others):
        desk.others(ranging(f"other{number}", 10))
    [first, *_] = desk.driver.held
    desk.do(desk.driver.begun(first.id, first.from_, desk.now_ms))
    desk.now_ms += 50
    desk.do(desk.driver.finished(first.id, first.from_ + 9, desk.now_ms))
    desk.do(desk.driver.end(desk.driver.participant.ranges.frontier + behind, desk.now_ms))
    for held in desk.driver.held:
        desk.do(desk.driver.begun(held.id, held.to - 1, desk.now_ms))
    return desk


@pytest.mark.parametrize(
    ("others", "behind", "wait_ms"), [(31, 10**6, 200), (15, 10**6, 100), (31, 0, 0), (7, 10**6, 0)]
)
def test_far_behind_the_end_many_leave_the_log_unread_for_a_while(
    others: int, behind: int, wait_ms: int
) -> None:
    assert one_of_many(others, behind).driver.log_may_wait_ms == wait_ms


def test_the_log_is_read_at_once_where_work_runs_short() -> None:
    desk = one_of_many(31, 10**6)
    desk.lands = False
    *_, last = desk.driver.held
    for held in desk.driver.held[:-1]:
        desk.do(desk.driver.finished(held.id, held.to - 1, desk.now_ms))
    desk.do(desk.driver.finished(last.id, last.to - 81, desk.now_ms))
    assert desk.driver.log_may_wait_ms == 200
    desk.do(desk.driver.finished(last.id, last.to - 80, desk.now_ms))
    assert desk.driver.log_may_wait_ms == 0


def test_the_log_is_read_at_once_while_a_commit_is_waited_for() -> None:
    desk = one_of_many(31, 10**6)
    desk.lands = False
    held = desk.driver.held[0]
    desk.do(desk.driver.finished(held.id, held.from_, desk.now_ms))
    desk.do(desk.driver.commit(desk.now_ms))
    assert desk.driver.log_may_wait_ms == 0
    desk.land(desk.sent[-1])
    assert desk.driver.log_may_wait_ms == 200


def test_who_leaves_reads_the_log_at_once() -> None:
    desk = one_of_many(31, 10**6)
    desk.do(desk.driver.leave(desk.now_ms))
    assert desk.driver.log_may_wait_ms == 0


def test_a_holder_says_that_it_lives_once_an_interval_also_while_ranges_sleep() -> None:
    desk = Desk().begins()
    desk.others(release_group(3_600))
    assert desk.took(TenureEnded) == [TenureEnded.PAUSED]
    before = len(desk.sent)
    desk.pass_ms(60_000)
    said = desk.sent[before:]
    assert [type(each.message) for each in said] == [ClaimingRange] * 6
    [held] = desk.driver.held
    assert desk.driver.may_begin(held.id, held.begun) is ParticipantForbidden.ASLEEP


def test_what_is_done_is_said_after_a_while_or_after_many() -> None:
    desk = Desk(window=10_000).begins()
    desk.work(2)
    before = len(desk.sent)
    desk.pass_ms(TIMING.say_done_after_ms)
    [sent] = desk.sent[before:]
    assert sent.range_headers.done == 2


def test_the_anchor_beats_once_an_interval_with_a_checkpoint() -> None:
    desk = Desk().begins()
    before = len(desk.sent)
    desk.pass_ms(60_000)
    beats = [each for each in desk.sent[before:] if isinstance(each.message, Heartbeat)]
    assert 5 <= len(beats) <= 6
    assert all(each.checkpoint is not None for each in beats)


def test_who_leaves_gives_back_waits_for_what_is_in_hand_and_is_silent() -> None:
    desk = Desk().begins()
    [held] = desk.driver.held
    desk.do(desk.driver.begun(held.id, held.from_, desk.now_ms))
    desk.do(desk.driver.leave(desk.now_ms))
    assert desk.took(RangeCut) == [RangeCut(held.id, held.from_ + 1)]
    assert desk.sent[-1].range_headers.keep == held.from_ + 1
    assert not desk.driver.left
    desk.do(desk.driver.finished(held.id, held.from_, desk.now_ms))
    assert desk.took(Left) == [Left()]
    assert desk.driver.next_timer_ms is None
    assert not any(isinstance(r.message, ClaimingRange) for r in desk.log[len(desk.sent) :])


def test_a_handler_that_hangs_costs_its_holder_the_rest_and_then_all() -> None:
    desk = Desk().begins()
    [held] = desk.driver.held
    desk.do(desk.driver.begun(held.id, held.from_, desk.now_ms))
    desk.pass_ms(TIMING.stuck_after_ms + 1_000)
    assert desk.took(RangeCut) == [RangeCut(held.id, held.from_ + 1)]
    desk.pass_ms(TIMING.stuck_after_ms + 1_000)
    before = len(desk.sent)
    desk.pass_ms(60_000)
    assert not any(isinstance(each.message, ClaimingRange) for each in desk.sent[before:])


def test_at_most_once_who_has_begun_a_range_before_it_exists_does_not_hang() -> None:
    desk = Desk(window=0).begins()
    [held, *_] = desk.driver.held
    desk.do(desk.driver.begun(held.id, held.to - 1, desk.now_ms))
    desk.pass_ms(3 * TIMING.stuck_after_ms)
    assert desk.took(HandlerHangs) == []
    came_ms = desk.now_ms
    desk.do(desk.driver.end(held.from_ + 1, desk.now_ms))
    assert not desk.driver.hangs(came_ms + TIMING.stuck_after_ms - 1)
    desk.pass_ms(TIMING.stuck_after_ms)
    assert desk.driver.hangs(desk.now_ms)
    assert desk.took(HandlerHangs) == [HandlerHangs()]


def test_at_most_once_what_a_hanging_handler_has_not_begun_is_given_back_when_it_is_known() -> None:
    desk = Desk(window=0).begins()
    desk.do(desk.driver.end(1_000, desk.now_ms))
    [held, *_] = desk.driver.held
    desk.do(desk.driver.begun(held.id, held.to - 1, desk.now_ms))
    desk.pass_ms(TIMING.stuck_after_ms)
    assert desk.took(HandlerHangs) == [HandlerHangs()]
    assert RangeCut(held.id, held.from_ + 1) not in desk.took(RangeCut)
    desk.do(desk.driver.take_back(held.id, held.from_ + 1, desk.now_ms))
    assert RangeCut(held.id, held.from_ + 1) in desk.took(RangeCut)


def test_at_most_once_time_without_messages_does_not_slow_the_measured_pace() -> None:
    desk = Desk(window=0).begins()
    [held, *_] = desk.driver.held
    desk.do(desk.driver.begun(held.id, held.to - 1, desk.now_ms))
    desk.pass_ms(5_000)
    desk.do(desk.driver.end(held.to, desk.now_ms))
    desk.pass_ms(20)
    desk.do(desk.driver.finished(held.id, held.to - 1, desk.now_ms))
    assert desk.driver.messages_wanted == (held.to - held.from_) * 250 // 20


def test_what_a_silent_holder_had_is_lost_at_least_once() -> None:
    desk = Desk().begins()
    [held] = desk.driver.held
    desk.work(2)
    desk.lands = False
    desk.now_ms += 21_000
    desk.others(ranging("other", 5))
    assert desk.took(RangeLost) == [RangeLost(held.id, 2, held.to, LossReason.TAKEN)]
    assert desk.driver.may_begin(held.id, 2) is ParticipantForbidden.NOT_GRANTED
    assert desk.driver.finished(held.id, 3, desk.now_ms) == []


def test_at_most_once_it_may_finish_what_others_forgot() -> None:
    desk = Desk(window=0).begins()
    [held] = desk.driver.held
    desk.lands = False
    desk.now_ms += 21_000
    desk.others(claiming("old"))
    assert desk.took(TenureEnded) == [TenureEnded.TAKEN]
    assert desk.took(RangeLost) == []
    assert desk.driver.may_begin(held.id, held.from_) is None


def test_a_tenure_under_another_window_is_none_of_its_own() -> None:
    desk = Desk(window=50)
    other = Desk(window=100, name="other").begins()
    for record in other.log:
        desk.do(desk.driver.record(record, 0))
    desk.do(desk.driver.caught_up(0))
    desk.pass_ms(5_000)
    assert desk.took(WindowDiffers) == [WindowDiffers(100)]
    assert desk.sent == []


def test_who_begins_in_the_middle_goes_on_from_a_checkpoint() -> None:
    other = Desk(name="other").begins()
    other.pass_ms(30_000)
    late = ParticipantDriver(Identity("late", "late"), KEY, 100, 0, RULES, TIMING, first=4)
    before = late.known
    checkpoints = {each.headers.seen: each for each in other.sent if each.checkpoint}
    for record in other.log[4:]:
        found = None
        if isinstance(record.message, Heartbeat) and record.headers.seen in checkpoints:
            found = checkpoints[record.headers.seen].checkpoint
        late.record(record, 0, found)
    assert (before, late.known) == (False, True)
    assert late.participant.ranges == other.driver.participant.ranges
    assert late.participant.claim == other.driver.participant.claim
    assert late.shares


def test_a_log_that_loses_its_end_takes_everything() -> None:
    desk = Desk().begins()
    [held] = desk.driver.held
    lost = desk.driver.truncated()
    assert lost == [RangeLost(held.id, 0, held.to, LossReason.LOG_LOST_RECORDS)]
    assert desk.driver.next_timer_ms is None


def test_what_is_not_allowed_cannot_begin() -> None:
    desk = Desk().begins()
    [held] = desk.driver.held
    with pytest.raises(ValueError, match="not_granted"):
        desk.driver.begun(held.id, held.to, 0)


@pytest.mark.parametrize(
    ("client", "window", "every_ms", "says"),
    [
        ("ranges", 0, 10_000, "participants share"),
        ("c1", -1, 10_000, "window is -1"),
        ("c1", 0, 10_001, "more than the heartbeat interval"),
    ],
)
def test_what_makes_no_sense_is_refused(client: str, window: int, every_ms: int, says: str) -> None:
    timing = RangesTiming(heartbeat_every_ms=every_ms)
    with pytest.raises(ValueError, match=says):
        ParticipantDriver(Identity("i1", client), KEY, window, 0, RULES, timing)

"""Marshal promises that who shares a claim says what it must, not more often, and then leaves."""

from __future__ import annotations

import pytest

from kafka_marshal.core.messages import NO_HEADERS, ClaimingRange, Headers, Partition
from kafka_marshal.core.ranges.messages import NO_RANGE_HEADERS, RangeHeaders, RangesRecord
from kafka_marshal.core.ranges.state import Interval
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.machines.ranges.driver import Identity, ParticipantDriver
from kafka_marshal.machines.ranges.effects import Effect, Left, RangeLost, SendRecord

KEY = ClaimKey("g", "orders", 0)
LOG_MS = 1_000_000


class Desk:
    """One driver, whose records land at once, and another participant's, which the test writes."""

    def __init__(self, window: int) -> None:
        self.now_ms = 0
        self.offset = self.sent = 0
        self.effects: list[Effect] = []
        self.unknown = False
        """Nothing lands, and that is heard at once."""
        self.deaf = False
        """Nothing lands, and nothing is heard of it; others read on."""
        self.driver = ParticipantDriver(Identity("i1", "c1"), KEY, window, 0)
        self.driver.end(1_000, 0)
        self.do(self.driver.caught_up(0))
        self.wait(2_000)

    def do(self, effects: list[Effect]) -> None:
        self.effects += effects
        for each in effects:
            if not isinstance(each, SendRecord):
                continue
            self.sent += 1
            if self.deaf:
                self.do(self.driver.caught_up(self.now_ms))
            elif self.unknown:
                self.do(self.driver.outcome_unknown(each, self.now_ms))
            else:
                self.land(RangesRecord(0, 0, 0, each.message, each.headers, each.range_headers))

    def land(self, record: RangesRecord) -> None:
        self.now_ms += 5
        landed = RangesRecord(
            *(0, self.offset, LOG_MS + self.now_ms, record.message),
            *(record.headers, record.range_headers),
        )
        self.offset += 1
        self.do(self.driver.record(landed, self.now_ms))
        self.do(self.driver.caught_up(self.now_ms))

    def ranging(self, instance: str, count: int, keep: int | None = None) -> None:
        """A ClaimingRange of the other one, or one of ours that landed twice."""
        address = (1, 0, instance, instance, "g", "orders", Partition(0))
        headers = NO_HEADERS if keep is None else Headers(True, seen=self.offset - 1)
        more = NO_RANGE_HEADERS if keep is None else RangeHeaders(keep=keep)
        message = ClaimingRange(*address, count)
        self.land(RangesRecord(0, 0, 0, message, headers, more))

    def wait(self, ms: int) -> None:
        until_ms = self.now_ms + ms
        while (due_ms := self.driver.next_timer_ms) is not None and due_ms <= until_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self.do(self.driver.timer(self.now_ms))
        self.now_ms = max(self.now_ms, until_ms)

    def works(self, upto: int) -> None:
        """Everything of its lowest range below this is begun and finished."""
        held = next(each for each in self.driver.held if not each.finished)
        self.do(self.driver.begun(held.id, upto - 1, self.now_ms))
        self.do(self.driver.finished(held.id, upto - 1, self.now_ms))


@pytest.mark.parametrize("window", [0, 1_000])
def test_who_leaves_gives_back_a_range_below_what_it_has_finished(window: int) -> None:
    desk = Desk(window)
    driver = desk.driver
    desk.ranging("i2", 10)
    first = next(each for each in driver.participant.ranges.open if each.instance == "i2")
    desk.wait(100)
    while driver.held[-1].from_ < first.to:
        desk.ranging("i1", 10)  # above what the other one has
    while next(each for each in driver.held if not each.finished).from_ < first.from_:
        desk.works(next(each for each in driver.held if not each.finished).to)
    above = next(each for each in driver.held if not each.finished)
    desk.works(above.from_ + 3)
    desk.ranging("i2", 0, keep=first.from_)  # and what it had goes to the pool
    desk.ranging("i1", 10)
    assert next(each for each in driver.held if not each.finished).from_ == first.from_
    desk.do(driver.leave(desk.now_ms))
    desk.wait(10_000)
    assert driver.left
    ranges = driver.participant.ranges
    assert ranges.open_of("i1") == ()
    assert Interval(first.from_, first.to) in ranges.pool
    assert not any(each.from_ < above.from_ + 3 <= each.to for each in ranges.pool)


@pytest.mark.parametrize("window", [0, 1_000])
def test_what_has_no_outcome_is_not_sent_again_at_once(window: int) -> None:
    desk = Desk(window)
    held = desk.driver.held[0]
    desk.works(held.to)
    desk.unknown, desk.sent = True, 0
    desk.wait(60_000)
    # Of each of four kinds one in `ask_again_after_ms`.
    assert 12 <= desk.sent <= 60


def test_a_range_that_was_taken_is_lost_though_all_of_it_was_processed() -> None:
    desk = Desk(window=1_000)
    held = desk.driver.held[0]
    desk.works(held.to)
    desk.now_ms += 130_000  # it stands still, and others take what the log still gives it
    desk.ranging("i2", 1)
    lost = [each for each in desk.effects if isinstance(each, RangeLost)]
    assert held.id in {each.id for each in lost}


@pytest.mark.parametrize("window", [0, 1_000])
def test_what_is_taken_back_after_leaving_is_given_back_without_waiting(window: int) -> None:
    desk = Desk(window)
    driver, held = desk.driver, desk.driver.held[0]
    desk.do(driver.begun(held.id, held.from_ + 6, desk.now_ms))
    desk.do(driver.leave(desk.now_ms))
    began_ms, desk.sent = desk.now_ms, 0
    for upto in (4, 2, 0):
        assert not driver.left
        desk.do(driver.take_back(held.id, held.from_ + upto, desk.now_ms))
    assert driver.left
    assert desk.now_ms - began_ms < driver.timing.ask_again_after_ms
    assert driver.participant.ranges.open_of("i1") == ()
    assert Interval(held.from_, held.from_ + 2) in driver.participant.ranges.pool
    assert desk.sent <= 4  # one for each, and perhaps a last heartbeat


def test_what_the_log_refuses_to_take_back_is_said_again_only_after_a_while() -> None:
    desk = Desk(window=1_000)
    driver, held = desk.driver, desk.driver.held[0]
    desk.do(driver.begun(held.id, held.from_ + 3, desk.now_ms))
    desk.deaf = True
    desk.sent = 0
    desk.do(driver.leave(desk.now_ms))
    desk.wait(3 * driver.timing.ask_again_after_ms - 1)
    assert desk.sent == 3


def test_who_does_not_know_the_claim_yet_has_nothing_to_give_back() -> None:
    driver = ParticipantDriver(Identity("i1", "c1"), KEY, 100, 0, first=10)
    assert driver.caught_up(0) == []
    assert driver.leave(1) == [Left()]
    assert driver.left

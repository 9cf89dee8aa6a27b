"""By which heartbeat interval a group is judged from outside: what its log says, as it goes on."""

from __future__ import annotations

from kafka_marshal import decode
from kafka_marshal.core.group_intervals import GroupIntervals
from kafka_marshal.core.messages import Headers, Record

S = 1_000


class Told:
    """A log that is read record by record."""

    def __init__(self, default_s: float = 60, *, forced: bool = False) -> None:
        self.intervals = GroupIntervals(default_s * S, forced=forced)
        self.offset = -1

    def reads(
        self,
        kind: str,
        who: str,
        at_s: float,
        says_s: int | None = None,
        *,
        epoch: int | None = None,
        accepted: bool = True,
        partition: int = 0,
    ) -> float:
        """By which interval it is judged, in seconds."""
        self.offset += 1
        tail = "" if kind == "ClaimingPartition" else "/0"
        message = decode(f"{kind}/1/0/{who}i/{who}/g/t/{partition}{tail}".encode())
        headers = Headers(True, epoch=epoch, interval_ms=None if says_s is None else says_s * S)
        record = Record(0, self.offset, int(at_s * S), message, headers)
        judged_by = self.intervals.judging(record)
        self.intervals.judged(record, accepted=accepted)
        return judged_by / S

    @property
    def now_s(self) -> float:
        return self.intervals.of("g") / S


def test_what_the_log_does_not_say_is_the_default() -> None:
    told = Told(default_s=30)
    assert told.reads("ClaimingPartition", "a", 0) == 30
    assert told.reads("Heartbeat", "a", 10, epoch=0) == 30
    assert told.intervals.lived_under("g") == ()


def test_a_claim_that_is_won_says_the_interval_from_then_on() -> None:
    told = Told()
    assert told.reads("ClaimingPartition", "a", 0, 10) == 10
    assert told.reads("ClaimingPartition", "old", 15, accepted=False) == 10
    [lived] = told.intervals.lived_under("g")
    assert (lived.interval_ms, lived.client_id, lived.offset) == (10 * S, "a", 0)


def test_a_refused_claim_says_nothing_of_the_group_but_is_judged_as_its_sender_judges() -> None:
    told = Told()
    assert told.reads("ClaimingPartition", "a", 0, 10, accepted=False) == 10
    assert told.now_s == 60


def test_a_heartbeat_of_an_owner_says_it_where_the_head_is_gone() -> None:
    told = Told()
    told.offset = 100
    told.reads("Heartbeat", "a", 0, 10, accepted=False)
    assert told.now_s == 60, "it names no epoch"
    told.reads("Heartbeat", "a", 0, 10, epoch=7, accepted=False)
    assert told.now_s == 10


def test_a_newcomer_of_another_interval_is_judged_by_that_of_those_who_live() -> None:
    told = Told()
    told.reads("ClaimingPartition", "holder", 0, 60)
    assert told.reads("ClaimingPartition", "newcomer", 25, 10, accepted=False) == 60
    assert told.reads("ClaimingPartition", "newcomer", 120, 10, accepted=False) == 60
    assert told.reads("ClaimingPartition", "newcomer", 120, 10, partition=1) == 60
    assert told.reads("Heartbeat", "newcomer", 120, 10, epoch=3, partition=1) == 60
    assert told.now_s == 60


def test_when_nobody_lives_by_the_larger_of_both_the_newcomer_s_holds() -> None:
    told = Told()
    told.reads("ClaimingPartition", "a", 0, 10)
    assert told.reads("ClaimingPartition", "b", 120, 60) == 10, "not twice 60 s have passed"
    assert told.now_s == 10
    assert told.reads("ClaimingPartition", "b", 121, 60) == 60
    assert told.now_s == 60
    assert [lived.interval_ms for lived in told.intervals.lived_under("g")] == [10 * S, 60 * S]


def test_after_everything_was_given_back_another_interval_may_begin_at_once() -> None:
    told = Told()
    told.reads("ClaimingPartition", "a", 0, 60)
    told.reads("ClaimingPartition", "a", 0, 60, partition=1)
    told.reads("ReleasingPartition", "a", 1, epoch=0)
    assert told.reads("ClaimingPartition", "b", 2, 10) == 60, "the other one is still owned"
    told.reads("ReleasingPartition", "a", 3, epoch=1, partition=1)
    assert told.reads("ClaimingPartition", "b", 4, 10, partition=1) == 10
    assert told.now_s == 10


def test_what_is_forced_holds_whatever_the_log_says() -> None:
    told = Told(default_s=5, forced=True)
    assert told.reads("ClaimingPartition", "a", 0, 60) == 5
    assert told.now_s == 5
    [lived] = told.intervals.lived_under("g")
    assert lived.interval_ms == 60 * S

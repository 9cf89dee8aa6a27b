"""By which heartbeat interval a group is judged from outside: what its log says, as it goes on."""

from __future__ import annotations

import attrs
import pytest

from kafka_marshal import FENCED, decode
from kafka_marshal.core.group_intervals import GroupIntervals, LivedUnder, RulesByInterval
from kafka_marshal.core.messages import NOT_DECIMAL, Headers, Record

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
        group: str = "g",
        topic: str = "t",
    ) -> float:
        """By which interval it is judged, in seconds."""
        self.offset += 1
        tail = "" if kind == "ClaimingPartition" else "/0"
        message = decode(f"{kind}/1/0/{who}i/{who}/{group}/{topic}/{partition}{tail}".encode())
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


def test_those_whose_claims_a_pause_ends_count_as_alive() -> None:
    told = Told()
    told.reads("ClaimingPartition", "a", 0, 60)
    told.reads("ReleaseGroup", "x", 1, topic="")
    assert told.reads("ClaimingPartition", "b", 2, 10) == 60


def test_only_the_owner_s_release_gives_a_claim_back() -> None:
    told = Told()
    told.reads("ClaimingPartition", "a", 0, 60)
    told.reads("ReleasingPartition", "b", 1, epoch=0, accepted=False)
    told.reads("ReleasingPartition", "a", 1, epoch=0, partition=1, accepted=False)
    told.reads("ReleasingPartition", "a", 1, epoch=0, topic="u", accepted=False)
    assert told.reads("ClaimingPartition", "b", 2, 10, accepted=False) == 60
    told.reads("ReleasingPartition", "a", 3, epoch=0)
    assert told.reads("ClaimingPartition", "b", 4, 10) == 10


def test_a_release_of_a_group_that_says_nothing_says_nothing() -> None:
    told = Told()
    assert told.reads("ReleasingPartition", "a", 0, epoch=0) == 60
    assert told.reads("ReleasingPartition", "a", 1, 10, epoch=0) == 10
    assert told.reads("ClaimingMessages", "a", 2, 10, epoch=0) == 10
    assert told.intervals.groups == ()


@pytest.mark.parametrize(
    ("epoch", "says"), [(None, False), (-1, False), (0, True), (100, True), (101, False)]
)
def test_an_epoch_is_an_offset_before_the_heartbeat_that_names_it(
    epoch: int | None, says: bool
) -> None:
    told = Told()
    told.offset = 100
    told.reads("Heartbeat", "a", 0, 10, epoch=epoch, accepted=False)
    assert told.now_s == (10 if says else 60)


def test_a_refused_request_under_an_epoch_says_nothing() -> None:
    told = Told()
    told.offset = 100
    told.reads("ClaimingPartition", "a", 0, 10, epoch=7, accepted=False)
    assert told.now_s == 60


def test_what_is_refused_keeps_nobody_alive() -> None:
    told = Told()
    told.reads("ClaimingPartition", "a", 0, 10)
    told.reads("Heartbeat", "a", 15, 10, epoch=99, accepted=False)
    assert told.reads("ClaimingPartition", "b", 20, 10) == 10
    told.reads("Heartbeat", "b", 25, 10, epoch=2)
    told.reads("Heartbeat", "b", 22, 10, epoch=2)
    assert told.reads("ClaimingPartition", "c", 45, 5, accepted=False) == 10, "since 25 s, not 22 s"
    assert told.reads("ClaimingPartition", "c", 45.001, 5) == 5
    assert told.now_s == 5


def test_who_lived_under_the_interval_before_gives_nothing_back_of_the_one_now() -> None:
    told = Told()
    told.reads("ClaimingPartition", "a", 0, 10, partition=1)
    told.reads("ClaimingPartition", "b", 200, 60)
    told.reads("ReleasingPartition", "b", 201, epoch=1)
    assert told.reads("ClaimingPartition", "c", 202, 30) == 30, "nobody of 60 s owns anything"
    assert told.reads("ClaimingPartition", "d", 300, 10, accepted=False) == 10, "since 202 s"


def test_each_group_says_its_own() -> None:
    told = Told()
    told.reads("ClaimingPartition", "a", 0, 10, group="h")
    told.reads("ClaimingPartition", "b", 0, 20)
    assert told.intervals.groups == ("h", "g")
    assert [told.intervals.of(group) for group in ("f", "g", "h")] == [60 * S, 20 * S, 10 * S]
    assert told.intervals.lived_under("h") == (LivedUnder(10 * S, "a", 0),)


def test_a_group_of_another_interval_than_was_given_is_refused_by_name() -> None:
    told = Told(default_s=10)
    assert told.intervals.other("g") is None
    told.reads("ClaimingPartition", "a", 0, 10)
    assert told.intervals.other("g") is None
    told.reads("ClaimingPartition", "b", 121, 60)
    other = told.intervals.other("g")
    assert str(other) == "group g says 60s in the log (client b), not 10s"
    told.reads("ClaimingPartition", "c", 300, 30)
    assert told.intervals.lived_under("g") == (
        LivedUnder(10 * S, "a", 0),
        LivedUnder(60 * S, "b", 1),
        LivedUnder(30 * S, "c", 2),
    )
    assert str(told.intervals.other("g")).startswith("group g says 30s in the log (client c)")


def test_rules_are_made_once_for_each_interval() -> None:
    rules = attrs.evolve(FENCED, pause_max_ms=5)
    by_interval = RulesByInterval(rules)
    assert by_interval[rules.heartbeat_interval_ms] is rules
    assert by_interval[4000] == attrs.evolve(rules, heartbeat_interval_ms=4000)
    assert by_interval[4000] is by_interval[4000]


def test_nothing_is_forced_unless_it_is_asked_for() -> None:
    assert not GroupIntervals(60 * S).forced


def test_a_record_whose_interval_is_no_number_is_judged_by_the_groups() -> None:
    """A reader of ranges reads one so: it refuses the record, whatever the interval."""
    told = Told(default_s=60)
    message = decode(b"Heartbeat/1/0/i/i/g/t/0/0")
    record = Record(0, 0, 0, message, Headers(True, interval_ms=NOT_DECIMAL))
    assert told.intervals.judging(record) == 60 * S

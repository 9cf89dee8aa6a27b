"""Marshal promises to say of a group who held up what, who was taken for dead, and what moved.

Each finding has a story that shows it, and one that comes close and does not.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafka_marshal.codec import coordinating_partition
from kafka_marshal.core.groups.events import (
    ControllershipSnapshot,
    GroupCreated,
    GroupDeleted,
    MemberLeft,
    Rebalanced,
    UnknownEvent,
)
from kafka_marshal.core.groups.state import Rebalance
from kafka_marshal.replay.groups.catalogue import GROUP_CATALOGUE, OF_THE_INPUT
from kafka_marshal.replay.groups.groups_fold import GroupsJudging
from kafka_marshal.replay.groups.storms import STORM_REBALANCES
from kafka_marshal.replay.model.tables import FINDINGS
from tests.replay.groups.stories import GroupLog, shared, tp


def lets_go_at(second: float) -> GroupLog:
    log = GroupLog().at(1).joins("m1").target(*["m1"] * 4)
    return log.at(2).joins("m2").target("m1", "m1", "m2", "m2").at(second).lets_go("m1")


def returns(reason: str, member: str = "m2") -> GroupLog:
    log = shared().at(20).expires("m2", reason).target(*["m1"] * 4)
    return log.at(24).joins(member)


def stormy(rebalances: int, apart_s: float = 4) -> GroupLog:
    log = GroupLog().joins("m1").target(*["m1"] * 4)
    for n in range(rebalances - 1):
        log.at(1 + apart_s * n)
        if n % 2:
            log.expires("m2").target(*["m1"] * 4)
        else:
            log.joins("m2").target("m1", "m1", "m2", "m2").lets_go("m1")
    return log


def commits_late(tenure: int | None) -> GroupLog:
    log = shared().commits("m1", 0, 10)
    return log.rewinds(0, 5).commits("m1", 0, 12, tenure)


def absent(second: float, between: float | None = None) -> GroupLog:
    log = GroupLog().at(1).joins("m1")
    if between is not None:
        log.at(between).joins("m2")
        return log.at(second).starts(2)
    return log.at(second).starts(2).target(*["m1"] * 4)


def without_owner(second: float) -> GroupLog:
    log = shared().at(10).leaves("m2")
    return log.at(second).target(*["m1"] * 4)


def deposed(late: bool) -> GroupLog:
    log = shared()
    old = log.now.epoch
    log.at(4).starts(2)
    return log.at(5).writes(MemberLeft("m1", "closed"), epoch=old if late else None)


def alternating(*controllers: int, every_s: float) -> GroupLog:
    log = shared()
    for number, controller in enumerate(controllers):
        log.at(10 + number * every_s).starts(controller)
    return log


def differing(host: str) -> GroupLog:
    return shared().writes(ControllershipSnapshot(1, host, 9_000), "")


STORIES: dict[str, tuple[Callable[[], GroupLog], Callable[[], GroupLog]]] = {
    "rebalance_held_up": (lambda: lets_go_at(7.1), lambda: lets_go_at(7)),
    "false_expiry": (lambda: returns("silent"), lambda: returns("unreleased")),
    "zombie_commit": (lambda: commits_late(1), lambda: commits_late(None)),
    "rewound": (lambda: shared().rewinds(0, 5), lambda: shared().commits("m1", 0, 5)),
    "without_owner": (lambda: without_owner(20.1), lambda: without_owner(20)),
    "rebalance_storm": (
        lambda: stormy(STORM_REBALANCES),
        lambda: stormy(STORM_REBALANCES - 1),
    ),
    "snapshot_differs": (lambda: differing("elsewhere"), lambda: differing("localhost")),
    "deposed_controller": (lambda: deposed(True), lambda: deposed(False)),
    "controllers_alternate": (
        lambda: alternating(2, 1, 2, every_s=1.9),
        lambda: alternating(2, 1, 2, every_s=2.0),
    ),
    "controller_absent": (lambda: absent(11.1), lambda: absent(11)),
    "uneven_target": (
        lambda: shared().joins("m3").target("m1", "m1", "m1", "m2"),
        lambda: shared().joins("m3").target("m1", "m1", "m3", "m2"),
    ),
    "controller_mistake": (
        lambda: shared().writes(Rebalanced({tp(0): "m1"})),
        lambda: shared().writes(Rebalanced({tp(0): "m1"}), number=99),
    ),
    "out_of_number": (
        lambda: shared().writes(MemberLeft("m1", ""), number=99),
        lambda: shared().writes(MemberLeft("m1", "")),
    ),
    "log_lost_events": (
        lambda: shared().writes(MemberLeft("m1", ""), epoch=99),
        lambda: shared().writes(MemberLeft("m1", ""), epoch=-2),
    ),
    "event_without_fence": (
        lambda: shared().writes(MemberLeft("m1", ""), epoch=-2),
        lambda: shared().writes(MemberLeft("m1", ""), epoch=99),
    ),
    "later_version": (
        lambda: shared().writes(UnknownEvent("MemberMoved", 1)),
        lambda: shared().writes(UnknownEvent("MemberMoved", 1), number=99),
    ),
    "state_not_known": (lambda: shared().writes(UnknownEvent("MemberMoved", 1)), shared),
}
"""By code, the story that shows it and the near miss."""


def test_every_code_has_its_story() -> None:
    assert STORIES.keys() | {*OF_THE_INPUT} == GROUP_CATALOGUE.keys()


@pytest.mark.parametrize("code", STORIES)
def test_a_story_shows_it_and_a_near_miss_does_not(code: str) -> None:
    story, near_miss = STORIES[code]
    [row] = story().found(code)
    assert row.severity == GROUP_CATALOGUE[code].severity
    assert row.sentence.endswith(".")
    assert near_miss().found(code) == []


@pytest.mark.parametrize("controllers", [(2, 3, 4, 5), (2, 1), (1, 1, 2, 2, 1, 1)])
def test_controllers_that_follow_each_other_do_not_fight(controllers: tuple[int, ...]) -> None:
    """A rolling restart; one that gives the claim back; and some that begin anew."""
    assert alternating(*controllers, every_s=0.5).found("controllers_alternate") == []


def test_a_fight_names_the_controllers_and_is_over_when_one_stays() -> None:
    log = alternating(2, 1, 2, 1, 3, every_s=1.5)
    first = sentence("controllers_alternate", log)
    assert "1 at localhost:9000 and 3 at localhost:9000 took the partition from each" in first
    assert "other 5 times in 6.0 s, from offset 7 " in first
    log.at(60).starts(2).at(61).starts(3).at(62).starts(2)
    assert [row.count for row in log.found("controllers_alternate")] == [5, 3]


def test_a_fight_of_many_controllers_names_the_last_ones() -> None:
    told = sentence("controllers_alternate", alternating(*range(2, 99), 97, 98, every_s=0.1))
    assert told.count("localhost") == 8


def test_events_of_a_group_on_another_partition_than_its_own_are_found() -> None:
    log = shared().writes(GroupCreated(10_000, {}, Rebalance.EAGER, "sticky", False), "elsewhere")
    places = {name: coordinating_partition(name, 7) for name in ("g", "elsewhere")}
    assert places == {"g": 0, "elsewhere": 6}
    judged = GroupsJudging(coordination_partitions=7)
    [row] = [one for one in log.rows(judged)[FINDINGS] if one.code in OF_THE_INPUT]
    assert (row.code, row.group, row.count) == ("wrong_coordinating_partition", "elsewhere", 1)
    assert "by its name the group belongs to partition 6 of 7: its members ask" in row.sentence
    assert log.found("wrong_coordinating_partition") == []


def test_a_quiet_group_has_no_finding() -> None:
    log = shared().commits("m1", 0, 10).at(4).starts(2).at(5).commits("m2", 3, 7).snapshots()
    assert log.rows()[FINDINGS] == []


def sentence(code: str, log: GroupLog) -> str:
    [row] = log.found(code)
    return row.sentence


def test_who_held_a_rebalance_up_is_named_with_the_time_and_the_others() -> None:
    log = GroupLog(6).at(1).joins("m1").target(*["m1"] * 6)
    log.at(2).joins("m2").target(*["m1"] * 3, *["m2"] * 3).lets_go("m1")
    log.at(10).joins("m3").target("m1", "m1", "m3", "m2", "m2", "m3")
    log.at(12).lets_go("m2").at(17).lets_go("m1")
    told = sentence("rebalance_held_up", log)
    assert told.startswith("client-m1 (member m1) held up the rebalance of group g")
    assert "to let 1 partition go, and did so 7.0 s after" in told
    assert "The slowest of 1 other member needed 2.0 s." in told


def test_a_member_that_is_waited_for_over_several_targets_is_counted_from_the_first() -> None:
    log = GroupLog().at(1).joins("m1").target(*["m1"] * 4)
    log.at(2).joins("m2").target("m1", "m1", "m2", "m2")
    log.at(5).joins("m3").target("m1", "m1", "m2", "m3")
    assert "did so 6.0 s after" in sentence("rebalance_held_up", log.at(8).lets_go("m1"))


def test_a_member_that_still_holds_when_the_log_ends_held_up_its_rebalance() -> None:
    log = GroupLog().at(1).joins("m1").target(*["m1"] * 4)
    log.at(2).joins("m2").target("m1", "m1", "m2", "m2").at(9).commits("m1", 0, 1)
    assert "had not done so 7.0 s after" in sentence("rebalance_held_up", log)


def test_a_member_that_was_taken_for_dead_and_speaks_again_says_when_and_what_it_lost() -> None:
    told = sentence("false_expiry", returns("silent"))
    assert "after 10.3 s of silence, and lost 2 partitions" in told
    assert "registered again 4.0 s later" in told


def test_another_member_of_that_client_is_no_false_expiry() -> None:
    assert returns("silent", "m3").found("false_expiry") == []


def test_a_group_that_was_made_again_knows_nothing_of_who_expired_before() -> None:
    log = GroupLog().joins("m1").target(*["m1"] * 4).expires("m1").writes(GroupDeleted())
    again = log.records[1].event
    assert log.writes(again).joins("m1").found("false_expiry") == []


def test_a_storm_says_who_came_and_went() -> None:
    told = sentence("rebalance_storm", stormy(8))
    assert "rebalanced 8 times in 25.0 s" in told
    assert "joined: client-m2 4 times (as m2), client-m1 once (as m1)" in told
    assert "expired: client-m2 3 times (as m2)" in told


def test_rebalances_far_apart_are_no_storm() -> None:
    assert stormy(12, apart_s=25.1).found("rebalance_storm") == []


def test_two_storms_are_two_findings() -> None:
    log = stormy(STORM_REBALANCES)
    log.at(1_000).joins("m3").target("m1", "m2", "m3", "m1")
    for n in range(STORM_REBALANCES):
        log.at(2_000 + n)
        if n % 2:
            log.joins("m3").target("m1", "m2", "m3", "m1")
        else:
            log.leaves("m3").target("m1", "m2", "m2", "m1")
    assert len(log.found("rebalance_storm")) == 2


def test_an_old_commit_names_who_owns_and_which_tenure_it_has() -> None:
    log = shared().at(4).expires("m2").target(*["m1"] * 4).at(5).joins("m2")
    told = sentence("zombie_commit", log.commits("m2", 3, 12, tenure=4))
    assert "under tenure 4" in told
    assert "but client-m1 (member m1) owned it" in told


def test_a_copy_of_a_commit_is_no_zombie() -> None:
    assert shared().commits("m1", 0, 10).commits("m1", 0, 10).found("zombie_commit") == []


def test_a_rewind_says_from_where_to_where_and_how_much() -> None:
    told = sentence("rewound", shared().commits("m1", 0, 100).rewinds(0, 40))
    assert told.startswith("admin set 1 position of group g")
    assert "orders/0 from 100 to 40. 60 offsets are consumed again." in told


def test_partitions_that_are_free_say_why_and_how_long() -> None:
    told = sentence("without_owner", without_owner(25))
    assert told.startswith("2 partitions of group g had no owner for 15.0 s")
    assert "client-m2 (member m2) left" in told
    assert "orders/2, orders/3" in told


def test_a_partition_that_nobody_wants_needs_no_owner() -> None:
    log = GroupLog().at(1).joins("m1", "payments").at(90).joins("m2", "payments")
    assert log.found("without_owner") == []


def test_whoever_writes_is_not_absent() -> None:
    assert absent(18, between=9).found("controller_absent") == []


def test_a_rebalance_that_nobody_writes_until_the_log_ends_is_absence_if_another_log_goes_on() -> (
    None
):
    log = GroupLog().at(1).joins("m1").at(30)
    log.writes(MemberLeft("m1", ""), epoch=99)
    assert "until the log ends" in sentence("controller_absent", log)


def test_under_eager_everybody_lets_go_and_the_last_one_holds_up_all() -> None:
    log = GroupLog(how=Rebalance.EAGER).at(1).joins("m1").target(*["m1"] * 4)
    log.at(2).joins("m2").target("m1", "m1", "m2", "m2").at(2.5).lets_go("m1")
    log.at(10).joins("m3").target("m1", "m3", "m2", "m2").at(10.5).lets_go("m2")
    log.at(16).lets_go("m1")
    told = sentence("rebalance_held_up", log)
    assert "client-m1" in told
    assert "2 partitions go, and did so 6.0 s after" in told

"""Marshal promises that an administrator sets all positions, or none, or says which."""

from __future__ import annotations

from textwrap import dedent

import attrs
import pytest

from kafka_marshal import FENCED, ClaimKey
from kafka_marshal.core.claims.pause_work import NO_WORK, PauseWork
from kafka_marshal.core.messages import (
    ClaimingPartition,
    Heartbeat,
    Partition,
    Record,
    ReleaseGroup,
)
from kafka_marshal.machines.admin import admin
from kafka_marshal.machines.admin.administrator import (
    Administrator,
    AdministratorTiming,
    OperationForbidden,
)
from kafka_marshal.machines.admin.operation import (
    AdminForbidden,
    AllSet,
    NoneSet,
    PartlySet,
    Phase,
    Reason,
    consumer_of,
    remembering,
)
from kafka_marshal.machines.consumer.consumer import (
    ConsumerState,
    Forbidden,
    InstanceConfig,
    Mode,
    after_read,
)
from kafka_marshal.machines.consumer.effects import Send
from tests.machines.admin.desk import BOTH, ONE, PATIENCE, RULES, TWO, Desk, administrator


def told(desk: Desk, story: str) -> None:
    assert desk.story() == dedent(story).strip()


def consumed() -> Desk:
    """A consumer owns both claims and has got to 5 and 7."""
    desk = Desk(now_ms=100)
    desk.say("ClaimingPartition/1/0/c1/c/g/t/1", supersedes=0)
    desk.say("ClaimingPartition/1/0/c1/c/g/t/2", supersedes=0)
    desk.say("Heartbeat/1/0/c1/c/g/t/1/5", epoch=0)
    desk.say("Heartbeat/1/0/c1/c/g/t/2/7", epoch=1)
    return desk


def claimed_and_one_written(desk: Desk, name: str = "x1") -> None:
    """Until the first position is set and the second is on its way."""
    desk.begin(name)
    for _ in range(3):
        desk.append(name)
        desk.read(name)
        desk.read(name)
    desk.append(name)
    desk.read(name)


def test_all_positions_are_set_while_consumers_keep_talking() -> None:
    desk = consumed()
    desk.sit("x1")
    desk.read("x1")
    desk.now_ms = 200
    desk.begin("x1")
    desk.append("x1")
    desk.say("ClaimingPartition/1/0/d1/d/g/t/1", supersedes=0)
    desk.say("Heartbeat/1/0/c1/c/g/t/1/6", epoch=0)
    desk.go("x1")
    desk.say("Heartbeat/1/0/c1/c/g/t/2/8", epoch=1)
    told(
        desk,
        """
        @0 100 ms c1 ClaimingPartition t/1: claimed
        @1 100 ms c1 ClaimingPartition t/2: claimed
        @2 100 ms c1 Heartbeat t/1 at 5: refreshed
        @3 100 ms c1 Heartbeat t/2 at 7: refreshed
        @4 200 ms x1 ReleaseGroup until 6000 ms: group released
        @5 200 ms d1 ClaimingPartition t/1: refused, is paused
        @6 200 ms c1 Heartbeat t/1 at 6: refused, nobody owns
        @7 200 ms x1 ClaimingPartition t/1: claimed
        @8 200 ms x1 ClaimingPartition t/2: claimed
        @9 200 ms x1 ReleasingPartition t/1 at 3, sets it: position set
        @10 200 ms x1 ReleasingPartition t/2 at 3, sets it: position set
        x1 tells: all set: t/1, t/2
        @11 200 ms c1 Heartbeat t/2 at 8: refused, superseded
        """,
    )
    assert (desk.position(ONE), desk.position(TWO)) == (3, 3)


def test_none_is_set_when_a_consumer_has_a_claim_before_the_first_write() -> None:
    desk = consumed()
    desk.sit("x1")
    desk.begin("x1")
    desk.append("x1")
    desk.read("x1")
    desk.append("x1")
    desk.read("x1")
    desk.now_ms = 6500
    desk.say("ClaimingPartition/1/0/d1/d/g/t/2", supersedes=0)
    desk.now_ms = 5900  # its own clock is behind: it does not know yet that the pause ran out
    desk.go("x1")
    told(
        desk,
        """
        @0 100 ms c1 ClaimingPartition t/1: claimed
        @1 100 ms c1 ClaimingPartition t/2: claimed
        @2 100 ms c1 Heartbeat t/1 at 5: refreshed
        @3 100 ms c1 Heartbeat t/2 at 7: refreshed
        @4 100 ms x1 ReleaseGroup until 6000 ms: group released
        @5 100 ms x1 ClaimingPartition t/1: claimed
        @6 6500 ms d1 ClaimingPartition t/2: claimed
        x1 tells: none set, claim taken
        @7 5900 ms x1 ClaimingPartition t/2: refused, live owner
        @8 5900 ms x1 ReleasingPartition t/1 at 5: position set
        """,
    )
    assert (desk.position(ONE), desk.position(TWO)) == (5, 7)


def test_none_is_set_when_the_pause_runs_out_before_the_first_write() -> None:
    desk = consumed()
    desk.sit("x1")
    desk.begin("x1")
    desk.append("x1")
    desk.read("x1")
    desk.append("x1")
    desk.read("x1")
    desk.lose("x1")
    assert desk.timer_of("x1") == 1100, "a heartbeat for what it owns"
    desk.wait(1100)
    desk.append("x1")
    desk.read("x1")
    desk.wait(6000)
    assert desk.told["x1"] == NoneSet(frozenset(BOTH), Reason.PAUSE_EXPIRED)
    assert desk.timer_of("x1") is None
    desk.go("x1")
    assert desk.lines[-4:] == [
        "@5 100 ms x1 ClaimingPartition t/1: claimed",
        "@6 1100 ms x1 Heartbeat t/1 at 5: refreshed",
        "x1 tells: none set, pause expired",
        "@7 6000 ms x1 ReleasingPartition t/1 at 5: position set",
    ]


def test_a_crash_between_two_writes_is_told_by_the_next_administrator() -> None:
    desk = consumed()
    desk.sit("x1")
    claimed_and_one_written(desk)
    desk.outbox["x1"].clear()
    del desk.administrators["x1"]
    assert (desk.position(ONE), desk.position(TWO)) == (3, 7)
    desk.lines.clear()
    desk.now_ms = 300
    desk.sit("y1")
    desk.read("y1")
    assert desk.administrators["y1"].left_undone.by == "x1", "told before it does anything"
    desk.begin("y1")
    desk.go("y1")
    told(
        desk,
        """
        @8 300 ms y1 ReleaseGroup until 6000 ms: group released
        y1 warns: x1 set t/1 and left t/2
        @9 300 ms y1 ClaimingPartition t/1: claimed
        @10 300 ms y1 ClaimingPartition t/2: claimed
        @11 300 ms y1 ReleasingPartition t/1 at 3, sets it: position set
        @12 300 ms y1 ReleasingPartition t/2 at 3, sets it: position set
        y1 tells: all set: t/1, t/2
        """,
    )


def test_nothing_is_warned_of_after_an_operation_that_ended_well() -> None:
    desk = consumed()
    desk.sit("x1")
    desk.begin("x1")
    desk.go("x1")
    desk.sit("y1")
    desk.read("y1")
    assert desk.administrators["y1"].left_undone == NO_WORK
    desk.lines.clear()
    desk.begin("y1")
    desk.go("y1")
    assert not [line for line in desk.lines if "warns" in line]


def test_a_write_of_unknown_outcome_is_made_void_before_it_is_repeated() -> None:
    desk = consumed()
    desk.sit("x1")
    claimed_and_one_written(desk)
    late = desk.lose("x1")
    desk.do("x1", desk.administrators["x1"].outcome_unknown(late.message, desk.now_ms))
    epoch = desk.world.claim(TWO).epoch
    assert desk.outbox["x1"][0].headers.supersedes == epoch
    desk.append("x1")  # it claims anew
    desk.outbox["x1"].insert(0, late)
    desk.append("x1")  # what was unknown lands after all
    desk.go("x1")
    assert desk.lines[-5:] == [
        "@7 100 ms x1 ReleasingPartition t/1 at 3, sets it: position set",
        "@8 100 ms x1 ClaimingPartition t/2: reclaimed",
        "@9 100 ms x1 ReleasingPartition t/2 at 3, sets it: refused, superseded",
        "@10 100 ms x1 ReleasingPartition t/2 at 3, sets it: position set",
        "x1 tells: all set: t/1, t/2",
    ]


def test_a_write_that_lands_before_it_is_repeated_is_not_repeated() -> None:
    desk = consumed()
    desk.sit("x1")
    claimed_and_one_written(desk)
    late = desk.lose("x1")
    desk.do("x1", desk.administrators["x1"].outcome_unknown(late.message, desk.now_ms))
    desk.outbox["x1"].insert(0, late)
    desk.go("x1")
    assert desk.lines[-4:] == [
        "@8 100 ms x1 ReleasingPartition t/2 at 3, sets it: position set",
        "x1 tells: all set: t/1, t/2",
        "@9 100 ms x1 ClaimingPartition t/2: claimed",
        "@10 100 ms x1 ReleasingPartition t/2 at 3: position set",
    ]
    assert desk.position(TWO) == 3


def test_the_operator_is_told_what_is_set_what_is_not_and_what_may_be_yet() -> None:
    desk = consumed()
    desk.sit("x1")
    claimed_and_one_written(desk)
    desk.wait(7999)
    assert "x1" not in desk.told, "after the first write it has more patience"
    desk.wait(8000)
    assert desk.told["x1"] == PartlySet(
        frozenset({ONE}), frozenset(), frozenset({TWO}), Reason.PAUSE_EXPIRED
    )
    assert desk.administrators["x1"].operation.phase is Phase.PARTLY_SET
    desk.append("x1")
    desk.read("x1")
    assert desk.position(TWO) == 3, "it was in doubt, and it landed"


def test_a_claim_that_is_taken_after_the_first_write_is_claimed_again() -> None:
    desk = consumed()
    desk.sit("x1")
    claimed_and_one_written(desk)
    held = desk.lose("x1")
    desk.now_ms = 2200
    desk.say("ClaimingPartition/1/0/d1/d/g/t/2", supersedes=0)
    desk.outbox["x1"].insert(0, held)
    desk.go("x1")
    assert "x1" not in desk.told
    desk.wait(2700)
    desk.go("x1")
    desk.wait(4300)
    desk.go("x1")
    assert desk.lines[-7:] == [
        "@8 2200 ms d1 ClaimingPartition t/2: took over",
        "@9 2200 ms x1 ReleasingPartition t/2 at 3, sets it: refused, superseded",
        "@10 2200 ms x1 ClaimingPartition t/2: refused, live owner",
        "@11 2700 ms x1 ClaimingPartition t/2: refused, live owner",
        "@12 4300 ms x1 ClaimingPartition t/2: took over",
        "@13 4300 ms x1 ReleasingPartition t/2 at 3, sets it: position set",
        "x1 tells: all set: t/1, t/2",
    ]


def test_of_two_at_once_the_later_pause_wins_and_the_loser_is_told() -> None:
    desk = consumed()
    desk.sit("x1")
    desk.sit("y1")
    desk.read("y1")
    claimed_and_one_written(desk)
    desk.begin("y1", {ONE: 9, TWO: 9})
    desk.append("y1")
    desk.append("x1")
    desk.read("x1")
    desk.go("y1")
    assert desk.told == {
        "x1": PartlySet(frozenset({ONE}), frozenset({TWO}), frozenset(), Reason.PAUSED_BY_ANOTHER),
        "y1": AllSet(frozenset(BOTH)),
    }
    assert "y1 warns: x1 set t/1 and left t/2" in desk.lines
    assert (desk.position(ONE), desk.position(TWO)) == (9, 9)


def test_a_pause_that_never_arrives_sets_nothing() -> None:
    desk = consumed()
    desk.sit("x1")
    desk.begin("x1")
    desk.do("x1", desk.administrators["x1"].outcome_unknown(desk.lose("x1").message, desk.now_ms))
    assert desk.outbox["x1"] == [], "a second pause would end what was won under the first"
    desk.wait(6000)
    assert desk.told["x1"] == NoneSet(frozenset(BOTH), Reason.PAUSE_EXPIRED)


def test_what_the_producer_says_was_appended_means_nothing_yet() -> None:
    desk = consumed()
    one = desk.sit("x1")
    desk.begin("x1")
    before = one.operation
    assert one.appended(desk.outbox["x1"][0].message, desk.now_ms) == []
    assert one.operation == before


def test_an_operator_may_call_it_off() -> None:
    desk = consumed()
    one = desk.sit("x1")
    assert one.call_off(desk.now_ms) == [], "nothing is under way"
    desk.begin("x1")
    desk.append("x1")
    desk.read("x1")
    desk.do("x1", one.call_off(desk.now_ms))
    assert desk.told["x1"] == NoneSet(frozenset(BOTH), Reason.CALLED_OFF)
    assert one.call_off(desk.now_ms) == []
    desk.go("x1")
    assert desk.lines[-5:] == [
        "x1 tells: none set, called off",
        "@5 100 ms x1 ClaimingPartition t/1: claimed",
        "@6 100 ms x1 ClaimingPartition t/2: claimed",
        "@7 100 ms x1 ReleasingPartition t/1 at 5: position set",
        "@8 100 ms x1 ReleasingPartition t/2 at 7: position set",
    ]


def test_what_is_not_allowed_is_refused_with_a_reason() -> None:
    desk = consumed()
    one = desk.sit("x1")
    for targets, against in (
        ({}, AdminForbidden.NOTHING_TO_SET),
        ({ONE: -1}, AdminForbidden.NEGATIVE_TARGET),
    ):
        with pytest.raises(OperationForbidden) as refused:
            one.begin(targets, 0)
        assert refused.value.against is against
    desk.begin("x1")
    with pytest.raises(OperationForbidden, match="already begun"):
        one.begin(BOTH, 0)
    consumer = Administrator(InstanceConfig("c1", "c", Mode.AT_MOST_ONCE), "g")
    with pytest.raises(OperationForbidden) as refused:
        consumer.begin(BOTH, 0)
    assert refused.value.against is Forbidden.NOT_ADMIN


def test_an_administrator_that_does_not_know_a_position_does_not_release_at_it() -> None:
    desk = consumed()
    desk.sit("x1", first=4)
    desk.begin("x1")
    desk.append("x1")
    desk.read("x1")
    desk.append("x1")
    desk.read("x1")
    desk.do("x1", desk.administrators["x1"].call_off(desk.now_ms))
    assert [type(sent.message) for sent in desk.outbox["x1"]] == [ClaimingPartition]
    desk.outbox["x1"].clear()
    desk.wait(7000)
    assert desk.outbox["x1"] == [], "its release would set the position to what it does not know"
    assert desk.position(ONE) == 5


def test_an_administrator_that_began_in_the_middle_sets_positions_that_nobody_knows() -> None:
    desk = consumed()
    desk.sit("x1", first=4)
    desk.begin("x1")
    desk.go("x1")
    assert desk.told["x1"] == AllSet(frozenset(BOTH))


def test_an_administrator_that_finds_records_gone_is_certain_of_nothing() -> None:
    at_work = administrator("x1")
    pause = ReleaseGroup(0, 0, "x2", "x", "g", "", Partition(0), 100)
    claim = ClaimingPartition(1, 0, "a1", "a", "g", "events", Partition(0))
    at_work.record(Record(0, 0, 5, claim), 0)
    at_work.record(Record(0, 1, 6, pause), 0)
    assert at_work.left_undone == NO_WORK
    key = ClaimKey("g", "events", 0)
    before = attrs.evolve(at_work.operation.consumers[key], resigned=3, asked=True)
    at_work.operation = remembering(at_work.operation, key, before)
    at_work.pass_gap(7)
    operation, anew = at_work.operation, ConsumerState.beginning_at(7)
    assert (operation.view, operation.work) == (7, NO_WORK)
    assert operation.consumers[key] == attrs.evolve(anew, resigned=3), "R7"
    assert operation.consumers.newborn("g") == ConsumerState.beginning_at(7)


def test_another_group_is_no_concern() -> None:
    desk = consumed()
    one = desk.sit("x1")
    desk.begin("x1")
    desk.append("x1")
    desk.read("x1")
    before = one.operation
    desk.say("ReleaseGroup/0/0/z1/z/other//0/60")
    desk.say("ClaimingPartition/1/0/z1/z/other/t/1", supersedes=0)
    desk.read("x1")
    assert one.operation == attrs.evolve(before, view=before.view + 2)
    desk.go("x1")
    assert desk.told["x1"] == AllSet(frozenset(BOTH))


def test_a_claim_that_is_seen_late_has_the_groups_pauses_behind_it() -> None:
    desk = consumed()
    desk.say("ReleaseGroup/0/0/z1/z/g//0/60")
    desk.say("ClaimingPartition/1/0/d1/d/g/t/3", supersedes=0)
    third = ClaimKey("g", "t", 3)
    for first in (0, 3):
        one = administrator("x1", first)
        alone = ConsumerState.beginning_at(first)
        for record in desk.log[first:]:
            one.record(record, desk.now_ms)
            if admin.key_of(record) in (None, third):
                alone = after_read(one.me, alone, record)
            assert consumer_of(one.operation, third) == attrs.evolve(alone, view=record.offset + 1)


def test_an_administrator_begins_to_read_where_it_was_told() -> None:
    operation = administrator("x1", first=4).operation
    assert operation.view == 4
    assert consumer_of(operation, ONE) == ConsumerState.beginning_at(4)


def test_an_administrator_is_as_patient_as_the_rules_unless_told_otherwise() -> None:
    me = administrator("x1").me
    one = Administrator(me, "g")
    assert one.patience == AdministratorTiming(heartbeat_every_ms=1000)
    assert one.operation.view == 0
    quick = attrs.evolve(me, rules=attrs.evolve(FENCED, heartbeat_interval_ms=0.5))
    assert Administrator(quick, "g").patience.heartbeat_every_ms == 1


@pytest.mark.parametrize(("now_ms", "until_s"), [(0, 5), (1, 6), (999, 6), (1000, 6), (1001, 7)])
def test_a_pause_is_never_shorter_than_the_patience(now_ms: int, until_s: int) -> None:
    one = administrator("x1")
    [pause] = one.begin(BOTH, now_ms)
    assert isinstance(pause, Send)
    assert isinstance(pause.message, ReleaseGroup)
    assert pause.message.expires_unix_s == until_s
    assert one.next_timer_ms == until_s * 1000


def test_what_is_owned_is_kept_by_heartbeats_until_all_are_won() -> None:
    desk = consumed()
    desk.sit("x1")
    desk.begin("x1")
    for _ in range(2):
        desk.append("x1")
        desk.read("x1")
    desk.lose("x1")
    for at_ms in (1100, 2100, 3100):
        assert desk.timer_of("x1") == at_ms
        desk.wait(at_ms - 1)
        assert desk.outbox["x1"] == []
        desk.wait(at_ms)
        assert [type(sent.message) for sent in desk.outbox["x1"]] == [Heartbeat]
        desk.append("x1")
        desk.read("x1")


def test_what_others_say_puts_off_no_heartbeat() -> None:
    desk = consumed()
    desk.sit("x1")
    desk.begin("x1")
    for _ in range(2):
        desk.append("x1")
        desk.read("x1")
    desk.now_ms = 900
    desk.say("Heartbeat/1/0/c1/c/g/t/1/6", epoch=0)
    desk.read("x1")
    assert desk.timer_of("x1") == 1100


def test_a_request_whose_outcome_is_unknown_is_sent_anew_at_once() -> None:
    desk = consumed()
    desk.sit("x1")
    desk.begin("x1")
    desk.append("x1")
    desk.read("x1")
    sent = desk.lose("x1")
    desk.do("x1", desk.administrators["x1"].outcome_unknown(sent.message, desk.now_ms))
    assert [sent.message for sent in desk.outbox["x1"]][1] == sent.message
    desk.go("x1")
    assert desk.told["x1"] == AllSet(frozenset(BOTH))


def test_heartbeats_of_one_claim_do_not_wait_for_another() -> None:
    desk = consumed()
    desk.sit("x1")
    desk.begin("x1")
    desk.append("x1")
    desk.read("x1")
    desk.lose("x1")
    desk.append("x1")
    desk.read("x1")
    assert desk.timer_of("x1") == 1100


def test_the_log_may_say_that_the_pause_is_over_when_its_own_clock_does_not() -> None:
    desk = consumed()
    desk.sit("x1")
    desk.begin("x1")
    desk.append("x1")
    desk.read("x1")
    for log_ms, told_now in ((5999, False), (6000, True)):
        desk.now_ms = log_ms
        desk.say("Heartbeat/1/0/c1/c/g/t/2/9", epoch=1)
        desk.now_ms = 200
        desk.read("x1")
        assert ("x1" in desk.told) is told_now
    assert desk.told["x1"] == NoneSet(frozenset(BOTH), Reason.PAUSE_EXPIRED)


def test_an_older_pause_that_is_over_ends_nothing() -> None:
    desk = consumed()
    desk.sit("x1")
    desk.now_ms = 2000
    desk.say("ReleaseGroup/0/0/z1/z/g//0/3")
    desk.now_ms = 3500
    desk.begin("x1")
    desk.say("Heartbeat/1/0/c1/c/g/t/1/9", epoch=0)
    desk.go("x1")
    assert desk.told["x1"] == AllSet(frozenset(BOTH))


def test_a_position_may_be_set_to_the_beginning() -> None:
    desk = consumed()
    desk.sit("x1")
    desk.begin("x1", {ONE: 0})
    desk.go("x1")
    assert desk.position(ONE) == 0


def test_a_heartbeat_is_for_targets_of_an_operation_under_way() -> None:
    one = administrator("x1")
    against = admin.may_heartbeat_target(one.me, one.operation, ONE)
    assert against is AdminForbidden.NOT_UNDER_WAY


def test_a_request_that_was_refused_is_repeated_after_a_while() -> None:
    desk = consumed()
    desk.sit("x1")
    claimed_and_one_written(desk)
    held = desk.lose("x1")
    desk.now_ms = 2200
    desk.say("ClaimingPartition/1/0/d1/d/g/t/2", supersedes=0)
    desk.outbox["x1"].insert(0, held)
    desk.go("x1")
    assert desk.timer_of("x1") == 2700
    desk.wait(2699)
    assert desk.outbox["x1"] == []
    desk.do("x1", desk.administrators["x1"].timer(2699))
    assert desk.outbox["x1"] == [], "a timer that goes off early does no harm"
    desk.wait(2700)
    assert len(desk.outbox["x1"]) == 1
    assert desk.timer_of("x1") == 8000, "while it waits for the answer only its patience counts"


def test_a_write_may_land_for_as_long_as_nothing_rules_it_out() -> None:
    me = administrator("x1").me
    unknowing = attrs.evolve(ConsumerState.beginning_at(3), resigned=5)
    assert admin.write_may_land(me, unknowing)
    assert not admin.write_may_land(me, ConsumerState(resigned=5))


def test_a_claim_that_was_given_back_is_not_given_back_twice() -> None:
    desk = consumed()
    one = desk.sit("x1")
    desk.begin("x1")
    for _ in range(2):
        desk.append("x1")
        desk.read("x1")
    desk.do("x1", one.call_off(desk.now_ms))
    given_back = consumer_of(one.operation, ONE)
    assert given_back.resigned == given_back.known.epoch == desk.world.claim(ONE).epoch
    assert admin.may_let_go(one.me, one.operation, ONE) is Forbidden.RESIGNED


def test_a_pause_that_the_log_refuses_is_none() -> None:
    desk = consumed()
    one = desk.sit("x1")
    desk.begin("x1")
    desk.append("x1")
    desk.read("x1")
    desk.say("ReleaseGroup/7/0/z1/z/g//0/60")
    assert desk.lines[-1].endswith("refused, unknown version")
    desk.read("x1")
    assert one.operation.work == PauseWork("x1")
    assert [admin.is_pause(record) for record in desk.log] == [False] * 4 + [True, False]
    desk.go("x1")
    assert desk.told["x1"] == AllSet(frozenset(BOTH))


def test_a_claim_whose_owner_nobody_can_know_may_be_taken() -> None:
    me = administrator("x1").me
    assert admin.is_taken(me, ConsumerState.beginning_at(3))
    assert not admin.is_taken(me, ConsumerState())


def test_what_was_won_while_the_owner_was_not_certain_is_no_work() -> None:
    desk = consumed()
    one = desk.sit("x1", first=4)
    desk.now_ms = 2000
    desk.say("ReleaseGroup/0/0/z1/z/g//0/1")
    desk.say("ClaimingPartition/1/0/c1/c/g/t/1", supersedes=0)
    desk.say("ClaimingPartition/1/0/d1/d/g/t/1", supersedes=0)
    desk.read("x1")
    assert not consumer_of(one.operation, ONE).reader.known
    desk.now_ms = 130_000
    desk.say("ClaimingPartition/1/0/z1/z/g/t/1", supersedes=0)
    desk.read("x1")
    assert consumer_of(one.operation, ONE).known.owner_instance == "z1"
    assert one.operation.work == PauseWork("z1")


def test_only_its_own_release_is_the_answer_to_a_write() -> None:
    desk = consumed()
    one = desk.sit("x1")
    claimed_and_one_written(desk)
    desk.say("ReleasingPartition/1/0/c1/c/g/t/2/9", epoch=1)
    desk.read("x1")
    assert one.operation.awaits == {TWO}
    desk.append("x1")
    desk.read("x1")
    assert one.operation.awaits == frozenset()


def test_patience_is_counted_in_positive_milliseconds() -> None:
    with pytest.raises(ValueError, match="pause_ms must be greater than 0"):
        attrs.evolve(PATIENCE, pause_ms=0)
    assert RULES.stale_after_ms == 2000
    assert FENCED.heartbeat_interval_ms == 60_000


def test_a_pause_lasts_as_long_by_the_logs_clock_as_the_administrator_waits_by_its_own() -> None:
    one = administrator("x1")
    [pause] = one.begin({ONE: 3}, now_ms=7, log_ms=100_000)
    assert isinstance(pause, Send)
    assert isinstance(pause.message, ReleaseGroup)
    assert pause.message.expires_unix_s == 105
    assert one.next_timer_ms == 5_007

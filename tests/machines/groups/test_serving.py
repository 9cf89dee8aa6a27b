"""Marshal promises of a controller that it decides by the log, and answers what has landed."""

from __future__ import annotations

import pytest

from kafka_marshal.core.groups.events import (
    ControllershipSnapshot,
    ControllerStarted,
    EventRecord,
    MemberExpired,
    MemberLeft,
    PartitionsRewound,
    UnknownEvent,
)
from kafka_marshal.core.groups.state import Controllership
from kafka_marshal.core.groups.verdicts import GroupAccepted, GroupRefused
from kafka_marshal.machines.groups.control.controlled_log import LogKnowledge
from kafka_marshal.rpc.error_codes import ErrorCode as Code
from tests.machines.groups.desk import GROUP, SESSION_MS, Desk, at, held, place


def test_a_member_joins_and_is_told_what_it_owns() -> None:
    desk = Desk().serve().create()
    connection, generation = desk.join("m1")
    beat = desk.ask("Heartbeat", connection, Generation=generation, MaxWaitMs=1_000)
    assert desk.code(beat) is None
    desk.pass_ms(100)
    assert desk.code(beat) is Code.REBALANCE_IN_PROGRESS
    told = desk.told("RegisterConsumer", connection, Generation=generation)
    tenure = desk.group.generation
    assert told["PartitionsToOwnV1"] == [
        {"Topic": "t", "Partition": number, "Offset": -1, "Tenure": tenure} for number in (0, 1)
    ]
    assert (told["Generation"], told["SessionTimeout"]) == (tenure, SESSION_MS)


def owner() -> tuple[Desk, int, int]:
    """A server, and a member of it that owns everything: its connection and tenure."""
    desk = Desk(2).serve().create()
    connection, _ = desk.join("m1")
    desk.pass_ms(100)
    return desk, connection, desk.group.generation


def test_nothing_is_answered_before_it_has_landed_and_was_read() -> None:
    desk, connection, tenure = owner()
    asked = desk.ask("CommitOffsets", connection, PositionsV1=at(t0=(tenure, 5)))
    follower = desk.ask("Heartbeat", connection, Generation=tenure)
    desk.confirm()
    assert desk.code(asked) is None
    desk.land()
    assert (desk.code(asked), desk.code(follower)) == (None, None)
    desk.settled()
    assert (desk.code(asked), desk.code(follower)) == (Code.NONE, Code.NONE)


def test_a_commit_is_answered_for_each_partition() -> None:
    desk, connection, tenure = owner()
    positions = at(t0=(tenure, 5), t1=(tenure - 1, 5), t9=(tenure, 5))
    told = desk.told("CommitOffsets", connection, PositionsV1=positions)
    codes = [row["ErrorCode"] for row in told["PositionsV1"]]
    assert codes == [Code.NONE, Code.ILLEGAL_GENERATION, Code.UNKNOWN_TOPIC_OR_PARTITION]
    again = desk.told("CommitOffsets", connection, PositionsV1=at(t0=(tenure, 4)))
    assert again["PositionsV1"][0]["ErrorCode"] is Code.NONE
    assert again["PositionsV1"][0]["Offset"] == 5


def test_an_answer_is_confirmed_by_an_end_that_was_asked_for_after_the_request() -> None:
    desk, connection, tenure = owner()
    desk.ask("Heartbeat", connection, Generation=tenure)
    later = desk.ask("Heartbeat", connection, Generation=tenure)
    desk.confirm()
    assert desk.code(later) is None
    desk.confirm()
    assert desk.code(later) is Code.NONE


def test_a_deposed_controller_answers_no_heartbeat() -> None:
    desk, connection, tenure = owner()
    desk.do(1, desk.servers[1].claimed(0, desk.now_ms))
    desk.settled(1)
    asked = desk.ask("Heartbeat", connection, Generation=tenure)
    desk.confirm()
    assert desk.code(asked) is None
    desk.read()
    assert desk.code(asked) is Code.NOT_COORDINATOR


def test_a_member_whose_end_is_on_its_way_is_not_answered() -> None:
    desk, connection, tenure = owner()
    asked = desk.ask("Heartbeat", connection, Generation=tenure)
    for _ in range(40):
        desk.now_ms += 100
        desk.tick()
    assert isinstance(desk.sent[0][-2].event, MemberExpired)
    desk.confirm()
    assert desk.code(asked) is None
    desk.settled()
    assert desk.code(asked) is Code.UNKNOWN_MEMBER_ID
    assert connection in desk.closed


def test_a_request_that_waits_for_its_answer_keeps_the_session() -> None:
    desk, connection, tenure = owner()
    desk.pass_ms(SESSION_MS - 300)
    beat = desk.ask("Heartbeat", connection, Generation=tenure)
    for _ in range(6):
        desk.now_ms += 100
        desk.tick()
    desk.settled()
    assert desk.code(beat) is Code.NONE


def test_an_answer_that_prolongs_no_session_waits_for_no_confirmation() -> None:
    desk, _, _ = owner()
    asked = desk.ask("CreateGroup", desk.connect())
    assert desk.code(asked) is Code.NONE


def test_a_failover_is_no_rebalance() -> None:
    desk, _, tenure = owner()
    before = desk.group
    desk.serve(1)
    assert desk.group == before
    connection = desk.connect(1)
    beat = desk.ask("Heartbeat", connection, 1, Generation=tenure)
    commit = desk.ask("CommitOffsets", connection, 1, PositionsV1=at(t1=(tenure, 3)))
    desk.settled()
    assert (desk.code(beat), desk.code(commit)) == (Code.NONE, Code.NONE)
    desk.pass_ms(SESSION_MS - 200)
    assert "m1" in desk.group.members


def test_everybody_has_a_session_from_when_the_start_was_read_back() -> None:
    desk, connection, tenure = owner()
    desk.do(1, desk.servers[1].claimed(0, desk.now_ms))
    desk.confirm(1)
    [_] = desk.sent[1]
    for _ in range(25):
        desk.now_ms += 100
        desk.tick(1)
    beat = desk.ask("Heartbeat", connection, Generation=tenure)
    desk.confirm(0)
    assert desk.code(beat) is Code.NONE
    desk.land(1)
    desk.read(1)
    desk.pass_ms(SESSION_MS - 300, 1)
    assert "m1" in desk.group.members
    desk.pass_ms(600, 1)
    assert "m1" not in desk.group.members


def test_who_serves_again_counts_nothing_from_before() -> None:
    desk, _, tenure = owner()
    desk.do(0, desk.servers[0].unclaimed(0, desk.now_ms))
    desk.serve(1)
    connection = desk.connect(1)
    for _ in range(4):
        desk.told("Heartbeat", connection, 1, Generation=tenure)
        desk.pass_ms(1_000)
    desk.do(1, desk.servers[1].unclaimed(0, desk.now_ms))
    desk.serve(0)
    assert "m1" in desk.group.members


def test_a_pause_of_the_controller_is_nobodys_silence() -> None:
    desk, connection, tenure = owner()
    desk.pass_ms(SESSION_MS // 2)
    desk.now_ms += 60_000
    desk.pass_ms(500)
    beat = desk.ask("Heartbeat", connection, Generation=tenure)
    desk.settled()
    assert desk.code(beat) is Code.NONE
    desk.pass_ms(SESSION_MS - 300)
    assert "m1" in desk.group.members
    desk.pass_ms(600)
    assert "m1" not in desk.group.members


def test_a_connection_from_before_the_start_says_nothing_of_what_is_held() -> None:
    desk, _, _ = owner()
    old = desk.connect(1)
    desk.do(1, desk.servers[1].claimed(0, desk.now_ms))
    desk.settled()
    late = desk.connect(1)  # connected before, perhaps, and accepted only now
    for _ in range(3):
        for connection in {old, late} - desk.closed.keys():
            asked = desk.ask("RegisterConsumer", connection, 1, Generation=-1)
            desk.settled()
            assert desk.code(asked) is Code.COORDINATOR_LOAD_IN_PROGRESS
            assert connection in desk.closed
        late = desk.connect(1)
        desk.pass_ms(100, 1)
    desk.join("m1", 1)


def test_what_comes_over_an_older_connection_of_a_member_is_void() -> None:
    desk, first, tenure = owner()
    beat = desk.ask("Heartbeat", first, Generation=tenure, MaxWaitMs=1_000)
    desk.settled()
    _, generation = desk.join("m1")
    assert desk.code(beat) is Code.FENCED_INSTANCE_ID
    assert desk.closed[first] == "its member has registered over another connection"
    desk.do(0, desk.servers[0].disconnected(first, desk.now_ms))  # it was closed here
    older = desk.ask("RegisterConsumer", first, Generation=-1)
    desk.settled()
    assert desk.code(older) is None  # it is closed
    assert desk.group.generation == generation


@pytest.mark.parametrize("is_parked", [False, True])
def test_a_connection_of_two_members_stays_when_one_connects_again(is_parked: bool) -> None:
    desk, first, _ = owner()
    desk.told("RegisterConsumer", first, ConsumerId="m2", Generation=-1)
    beat = desk.ask("Heartbeat", first, ConsumerId="m2", Generation=99, MaxWaitMs=1_000)
    if is_parked:
        desk.settled()
    assert desk.code(beat) is None
    desk.join("m2")
    assert desk.code(beat) is Code.FENCED_INSTANCE_ID
    desk.pass_ms(1_200)  # each is answered once
    assert first not in desk.closed


def test_a_heartbeat_that_waits_hears_of_a_change() -> None:
    desk, connection, tenure = owner()
    beat = desk.ask("Heartbeat", connection, Generation=tenure, MaxWaitMs=1_000)
    desk.settled()
    assert desk.code(beat) is None
    desk.join("m2")
    desk.pass_ms(100)
    assert desk.code(beat) is Code.REBALANCE_IN_PROGRESS


def test_a_heartbeat_that_hears_of_no_change_is_answered_when_it_has_waited() -> None:
    desk, connection, tenure = owner()
    beat = desk.ask("Heartbeat", connection, Generation=tenure, MaxWaitMs=200)
    desk.settled()
    other = desk.ask("Heartbeat", connection, Generation=tenure)
    codes = []
    for _ in range(2):
        desk.now_ms += 100
        desk.tick()
        codes.append((desk.code(beat), desk.code(other)))
    assert codes == [(None, None), (Code.NONE, None)]
    desk.pass_ms(100)  # each is answered once
    assert desk.code(other) is Code.NONE


def test_a_heartbeat_waits_for_a_third_of_the_session_in_whole_milliseconds() -> None:
    desk = Desk().serve().create(SessionTimeout=1_000)
    connection, _ = desk.join("m1")
    desk.pass_ms(100)
    beat = desk.ask("Heartbeat", connection, Generation=desk.group.generation, MaxWaitMs=1_000)
    desk.settled()
    for waited_ms, code in ((332, None), (1, Code.NONE)):
        desk.now_ms += waited_ms
        desk.tick()
        assert desk.code(beat) is code


def test_the_first_heartbeat_over_a_connection_is_answered_at_once() -> None:
    """Who was a member before a failover shows it by that, and is a stranger no more."""
    desk, _, tenure = owner()
    again = desk.connect()
    for code in (Code.NONE, None):
        beat = desk.ask("Heartbeat", again, Generation=tenure, MaxWaitMs=1_000)
        desk.settled()
        assert desk.code(beat) is code


@pytest.mark.parametrize("max_wait_ms", [0, 1_000])
def test_others_are_answered_when_a_connection_ends(max_wait_ms: int) -> None:
    desk, connection, tenure = owner()
    ends = desk.connect()
    desk.told("Heartbeat", ends, Generation=tenure)
    desk.ask("Heartbeat", ends, Generation=tenure, MaxWaitMs=max_wait_ms)
    beat = desk.ask("Heartbeat", connection, Generation=tenure, MaxWaitMs=max_wait_ms)
    if max_wait_ms:
        desk.settled()
    desk.do(0, desk.servers[0].disconnected(ends, desk.now_ms))
    assert desk.code(beat) is None
    desk.pass_ms(1_200)
    assert desk.code(beat) is Code.NONE


def test_an_event_that_was_refused_gives_nobody_up() -> None:
    desk, connection, _ = owner()
    left, epoch = MemberLeft("m1", ""), desk.state.epoch - 1
    late = EventRecord(0, 0, 0, left, GROUP, epoch=epoch, number=desk.state.number + 1)
    assert desk.append(late) is GroupRefused.DEPOSED
    desk.read()
    told = desk.told("RegisterConsumer", connection, Generation=-1)
    assert told["ErrorCode"] is Code.NONE


def test_one_register_of_a_member_is_under_way() -> None:
    desk, connection, tenure = owner()
    desk.ask("RegisterConsumer", connection, Generation=tenure)
    second = desk.ask("RegisterConsumer", connection, Generation=tenure)
    desk.settled()
    assert desk.code(second) is Code.INVALID_REQUEST


def test_who_lives_and_lets_nothing_go_is_answered_no_more_and_then_given_up() -> None:
    desk, connection, tenure = owner()
    second, _ = desk.join("m2")
    desk.pass_ms(100)
    codes = []
    for _ in range(70):
        codes.append(desk.ask("Heartbeat", connection, Generation=tenure))
        other = desk.ask("Heartbeat", second, ConsumerId="m2", Generation=99)
        desk.pass_ms(100)
        assert desk.code(other) is Code.NONE
    answered = [desk.code(each) for each in codes]
    assert answered[:29] == [Code.REBALANCE_IN_PROGRESS] * 29
    assert set(answered[31:]) <= {Code.UNKNOWN_MEMBER_ID, None}
    expired = [each.event for each in desk.log if isinstance(each.event, MemberExpired)]
    assert [(each.member, each.reason) for each in expired] == [("m1", "unreleased")]
    assert expired[0].silent_ms >= SESSION_MS
    assert desk.owned() == {"m2": [0, 1]}


def test_who_need_not_let_go_any_more_is_answered_and_stays() -> None:
    desk, connection, tenure = owner()
    second, _ = desk.join("m2")
    desk.pass_ms(100)
    for _ in range(30):
        desk.ask("Heartbeat", connection, Generation=tenure)
        desk.ask("Heartbeat", second, ConsumerId="m2", Generation=99)
        desk.pass_ms(100)
    desk.pass_ms(1_500)
    beat = desk.ask("Heartbeat", connection, Generation=tenure)
    desk.settled()
    assert desk.code(beat) is None
    desk.told("DeregisterConsumer", second, ConsumerId="m2")
    desk.pass_ms(100)
    assert desk.code(beat) is Code.REBALANCE_IN_PROGRESS
    desk.pass_ms(SESSION_MS - 300)
    assert "m1" in desk.group.members


def test_a_member_that_lets_go_stays() -> None:
    desk, connection, tenure = owner()
    desk.join("m2")
    desk.pass_ms(100)
    known = desk.group.generation
    told = desk.told("RegisterConsumer", connection, Generation=tenure, Held=held(0, 1))
    assert [row["Partition"] for row in told["PartitionsToOwnV1"]] == [0]
    desk.told("RegisterConsumer", connection, Generation=known, Held=held(0))
    assert desk.owned() == {"m1": [0], "m2": [1]}


def test_a_partition_that_moved_on_before_its_owner_heard_of_it_is_let_go() -> None:
    desk, connection, tenure = owner()
    desk.join("m2")
    desk.pass_ms(100)
    told = desk.told("RegisterConsumer", connection, Generation=tenure - 1)
    assert [row["Partition"] for row in told["PartitionsToOwnV1"]] == [0]
    known = told["Generation"]
    beat = desk.told("Heartbeat", connection, Generation=known)
    assert beat["ErrorCode"] is Code.REBALANCE_IN_PROGRESS
    desk.told("RegisterConsumer", connection, Generation=known, Held=held(0))
    assert desk.owned() == {"m1": [0], "m2": [1]}
    beat = desk.told("Heartbeat", connection, Generation=desk.group.generation)
    assert beat["ErrorCode"] is Code.NONE


def test_a_controller_that_does_not_know_what_landed_begins_anew() -> None:
    desk, connection, tenure = owner()
    asked = desk.ask("CommitOffsets", connection, PositionsV1=at(t0=(tenure, 5)))
    beat = desk.ask("Heartbeat", connection, Generation=tenure)
    [lost] = desk.sent[0]
    desk.sent[0].clear()
    desk.do(0, desk.servers[0].append_failed(lost, desk.now_ms))
    assert desk.code(asked) is Code.REQUEST_TIMED_OUT
    assert desk.code(beat) is Code.NOT_COORDINATOR
    assert not desk.servers[0].serves(0)
    desk.pass_ms(1_200)
    assert desk.servers[0].serves(0)
    beat = desk.ask("Heartbeat", connection, Generation=tenure)
    desk.do(0, desk.servers[0].append_failed(lost, desk.now_ms))  # once more: nothing changes
    desk.settled()
    assert desk.code(beat) is Code.NONE
    assert desk.append(lost) is not GroupAccepted.RECONCILED


@pytest.mark.parametrize("something_is_on_its_way", [False, True])
def test_a_controller_in_whose_epoch_somebody_else_writes_begins_anew(
    something_is_on_its_way: bool,
) -> None:
    desk, connection, tenure = owner()
    if something_is_on_its_way:
        desk.ask("CommitOffsets", connection, PositionsV1=at(t0=(tenure, 5)))
    epoch, number = desk.state.epoch, desk.state.number + 1
    rewound = PartitionsRewound({place(0): 1}, "somebody")
    stranger = EventRecord(0, 0, 0, rewound, GROUP, epoch=epoch, number=number)
    assert desk.append(stranger) is GroupAccepted.REWOUND
    desk.read()
    assert desk.servers[0].view(0) == desk.state
    assert not desk.servers[0].serves(0)
    desk.pass_ms(1_200)
    assert desk.servers[0].serves(0)
    assert desk.state.epoch > epoch


def test_of_two_that_compete_the_first_in_the_log_serves() -> None:
    desk = Desk(2)
    for number in (0, 1):
        desk.do(number, desk.servers[number].claimed(0, desk.now_ms))
        desk.confirm(number)
        desk.confirm(number)
    assert [len(sent) for sent in desk.sent] == [1, 1]
    desk.settled()
    assert [server.serves(0) for server in desk.servers] == [True, False]
    desk.do(0, desk.servers[0].unclaimed(0, desk.now_ms))
    desk.pass_ms(1_200)
    assert [server.serves(0) for server in desk.servers] == [False, True]


def test_who_begins_anew_answers_nothing_of_before() -> None:
    desk, connection, tenure = owner()
    beat = desk.ask("Heartbeat", connection, Generation=tenure)
    desk.do(0, desk.servers[0].begins(0, 0, desk.now_ms, at_position=False))
    assert desk.code(beat) is Code.NOT_COORDINATOR


def test_who_may_not_compete_any_more_answers_nothing() -> None:
    desk, connection, tenure = owner()
    beat = desk.ask("Heartbeat", connection, Generation=tenure, MaxWaitMs=1_000)
    desk.do(0, desk.servers[0].unclaimed(0, desk.now_ms))
    assert desk.code(beat) is Code.NOT_COORDINATOR
    desk.pass_ms(3_000)
    assert not desk.servers[0].serves(0)


def test_an_event_of_a_later_version_stops_a_server() -> None:
    desk, connection, tenure = owner()
    later = UnknownEvent("GroupRenamed", 1)
    number = desk.state.number + 1
    desk.append(EventRecord(0, 0, 0, later, GROUP, epoch=desk.state.epoch, number=number))
    desk.read()
    assert desk.servers[0].knowledge(0) is LogKnowledge.LOST
    beat = desk.ask("Heartbeat", connection, Generation=tenure)
    assert desk.code(beat) is Code.COORDINATOR_NOT_AVAILABLE
    [detail] = desk.told("ListGroups", connection)["GroupsInfoV1"]
    assert detail["ErrorCode"] is Code.COORDINATOR_NOT_AVAILABLE
    desk.pass_ms(3_000, 0)
    assert desk.sent[0] == []


def test_who_begins_at_the_claims_position_knows_what_others_know() -> None:
    desk, connection, tenure = owner()
    desk.told("CommitOffsets", connection, PositionsV1=at(t0=(tenure, 5)))
    for _ in range(70):
        desk.ask("Heartbeat", connection, Generation=tenure)
        desk.pass_ms(1_000)
    assert len(desk.positions) == 1
    late = desk.start(desk.positions[0], at_position=True)
    desk.settled(late)
    assert desk.servers[late].view(0) == desk.state
    desk.serve(late)


def test_snapshots_are_of_what_will_be_and_nothing_lies_between_them() -> None:
    desk, connection, tenure = owner()
    for _ in range(59):
        desk.told("Heartbeat", connection, Generation=tenure)
        desk.pass_ms(1_000)
    desk.ask("CommitOffsets", connection, PositionsV1=at(t0=(tenure, 5)))
    while len(desk.sent[0]) < 3:
        desk.now_ms += 100
        desk.tick()
    desk.ask("CommitOffsets", connection, PositionsV1=at(t0=(tenure, 6)))
    desk.land()
    assert desk.verdicts[-3:-1] == [GroupAccepted.SNAPSHOT_AGREES] * 2
    for at_end in (False, True):
        assert desk.positions == []
        desk.read_next(0, 1 if at_end else 2)
    assert desk.positions == [len(desk.log) - 3]


def test_a_server_folds_up_to_the_end_before_it_competes() -> None:
    desk, connection, tenure = owner()
    desk.ask("CommitOffsets", connection, PositionsV1=at(t0=(tenure, 5)))
    desk.land()
    desk.do(1, desk.servers[1].claimed(0, desk.now_ms))
    desk.confirm(1)
    assert desk.sent[1] == []
    desk.read(1)
    desk.settled()
    assert desk.servers[1].serves(0)


def test_a_head_that_was_cut_off_is_not_guessed() -> None:
    desk, _, _ = owner()
    for begin in (3, len(desk.log)):
        late = desk.start(begin, at_position=True)
        desk.do(late, desk.servers[late].claimed(0, desk.now_ms))
        desk.settled(late)
        assert desk.servers[late].knowledge(0) is LogKnowledge.LOST
        forgets = desk.start(begin, forget=True)
        desk.do(forgets, desk.servers[forgets].claimed(0, desk.now_ms))
        desk.read(forgets)
        desk.confirm(forgets)
        desk.confirm(forgets)
        [start] = desk.sent[forgets]
        assert isinstance(start.event, ControllerStarted)
        assert start.event.supersedes == -1
        desk.sent[forgets].clear()


def test_the_snapshot_of_a_deposed_controller_does_not_deceive() -> None:
    """Spec: SuffixExact. Retention cut the log right before it."""
    desk, _, _ = owner()
    of_type: list[type] = []
    while ControllershipSnapshot not in of_type:
        desk.now_ms += 100
        desk.tick()
        of_type = [type(record.event) for record in desk.sent[0]]
    sent, desk.sent[0] = desk.sent[0], []
    desk.serve(1)
    begin = len(desk.log) + of_type.index(ControllershipSnapshot)
    assert {desk.append(record) for record in sent} == {GroupRefused.DEPOSED}
    late = desk.start(begin)
    desk.settled(late)
    assert desk.servers[late].knowledge(0) is LogKnowledge.LOST
    assert desk.servers[late].view(0) == Controllership()


@pytest.mark.parametrize("count", [3, 1])
def test_topics_grow_and_never_shrink(count: int) -> None:
    desk, _, _ = owner()
    desk.topics["t"] = desk.topics["t"].__class__(count, "first")
    desk.pass_ms(61_000)
    assert desk.group.topics["t"].count == max(count, 2)


def test_a_topic_that_was_made_anew_begins_anew_once_nobody_owns_the_old_one() -> None:
    desk, connection, tenure = owner()
    desk.told("CommitOffsets", connection, PositionsV1=at(t0=(tenure, 5)))
    desk.topics["t"] = desk.topics["t"].__class__(2, "second")
    generation, told = tenure, {"Generation": tenure}
    for _ in range(140):
        told = desk.told("RegisterConsumer", connection, Generation=generation, Held=held(0, 1))
        if not told["PartitionsToOwnV1"]:
            break
        generation = told["Generation"]
        desk.pass_ms(500)
    assert "t" not in desk.group.topics
    desk.told("RegisterConsumer", connection, Generation=told["Generation"])
    desk.pass_ms(300)
    assert desk.group.topics["t"].topic_id == "second"
    assert desk.group.partitions[place(0)].position == 0

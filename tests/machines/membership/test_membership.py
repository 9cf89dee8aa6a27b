"""Marshal promises that a member goes by its own clock, and obeys the controller of its group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import pytest

from kafka_marshal.core.groups.events import At
from kafka_marshal.core.groups.state import NO_POSITION, TopicPartition
from kafka_marshal.machines.groups.group_member import (
    NO_CONNECTION,
    GroupMemberState,
    MemberAnswer,
    after_answer,
    says,
)
from kafka_marshal.machines.groups.membership import (
    ConnectTo,
    MemberEffect,
    Membership,
    MembershipSettings,
    PartitionStarted,
    PartitionStopped,
    QuestionAnswered,
    SendRequest,
)
from kafka_marshal.rpc.codec import BY_NAME, RpcAnswer, RpcRequest, encode_request, refusal
from kafka_marshal.rpc.error_codes import ErrorCode

SESSION_MS: Final = 10_000
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
FIRST, SECOND = ("a", 1), ("b", 2)


def answer(api: str, code: ErrorCode = ErrorCode.NONE, /, **body: Any) -> RpcAnswer:
    """An answer that holds these fields; the others are empty."""
    empty = refusal(BY_NAME[api], 1, 1, code)
    return RpcAnswer(empty.api, 1, 1, {**empty.body, **body})


def controller_at(host: str, port: int) -> RpcAnswer:
    broker = {"BrokerId": 1, "Host": host, "Port": port}
    info = {"GroupName": "g", "ControllerBroker": broker}
    return answer("ListGroups", GroupsInfo=[info], GroupsInfoV1=[{"Port": port}])


def owns(
    generation: int, own: Mapping[TopicPartition, At], session_ms: int = SESSION_MS
) -> RpcAnswer:
    rows = [
        {"Topic": tp.topic, "Partition": tp.partition, "Offset": at.offset, "Tenure": at.tenure}
        for tp, at in own.items()
    ]
    return answer(
        "RegisterConsumer",
        Generation=generation,
        SessionTimeout=session_ms,
        PartitionsToOwnV1=rows,
    )


def beats(code: ErrorCode = ErrorCode.NONE, generation: int = 99) -> RpcAnswer:
    return answer("Heartbeat", code, ControllerGeneration=generation)


ITS_OWN: Final = {"ListGroups", "CreateGroup", "RegisterConsumer", "Heartbeat"}
"""What a member asks that no application asks."""


def sent(effects: Iterable[MemberEffect]) -> dict[str, Mapping[str, Any]]:
    """The requests among effects, by api. They can be written."""
    asked = {each.api: each.body for each in effects if isinstance(each, SendRequest)}
    for api in asked.keys() & ITS_OWN:
        assert encode_request(RpcRequest(BY_NAME[api], 1, 1, "client", {**asked[api]}))
    return asked


class Story:
    """A member, and what came of it so far."""

    def __init__(self) -> None:
        self.member = Membership(MembershipSettings("g", "m1", (FIRST, SECOND), SESSION_MS))
        self.member.wants({"t"}, ())
        self.now_ms = 1_000_000

    def after(self, ms: int, *, may_let_go: bool = True) -> list[MemberEffect]:
        self.now_ms += ms
        return self.member.tick(self.now_ms, may_let_go=may_let_go)

    def hears(self, told: RpcAnswer) -> list[MemberEffect]:
        return self.member.answered(told, self.now_ms)

    def connects(self, ms: int = 0) -> ConnectTo:
        [connect] = self.after(ms)
        assert isinstance(connect, ConnectTo)
        self.member.connected()
        return connect

    def at_the_controller(self) -> Story:
        """Connected to it, and nothing asked yet."""
        self.connects()
        assert "ListGroups" in sent(self.after(0))
        assert self.hears(controller_at(*FIRST)) == []
        return self

    def owning(self, *tps: TopicPartition, tenure: int = 4, offset: int = 7) -> Story:
        """Registered, and the owner of these."""
        self.at_the_controller()
        assert sent(self.after(0)).keys() == {"RegisterConsumer"}
        told = self.hears(owns(tenure, dict.fromkeys(tps, At(tenure, offset))))
        assert told == [PartitionStarted(tp, At(tenure, offset)) for tp in tps]
        assert sent(self.after(0)).keys() == {"Heartbeat"}
        return self

    def hands_out(self) -> bool:
        return self.member.may_hand_out(self.now_ms)


# --- finding the controller -----------------------------------------------------------------------


def test_a_member_makes_the_group_where_there_is_none_and_registers_without_memory() -> None:
    story = Story()
    assert story.connects() == ConnectTo(*FIRST)
    assert sent(story.after(0)) == {"ListGroups": {"ConsumerGroups": ["g"], "Describe": 0}}
    [created] = story.hears(answer("ListGroups", ErrorCode.GROUP_ID_NOT_FOUND))
    assert sent([created])["CreateGroup"] == {
        "ConsumerGroup": "g",
        "SessionTimeout": SESSION_MS,
        "Topics": ["t"],
        "Ephemeral": False,
        "Rebalance": "incremental",
        "Strategy": "sticky",
    }
    assert story.after(0) == []
    assert story.hears(answer("CreateGroup", ErrorCode.INCONSISTENT_GROUP_PROTOCOL)) == []
    assert sent(story.after(0)).keys() == {"ListGroups"}
    assert story.hears(controller_at(*SECOND)) == [ConnectTo(*SECOND)]
    story.member.connected()
    registered = sent(story.after(0))["RegisterConsumer"]
    assert (registered["Generation"], registered["Held"], registered["Positions"]) == (-1, [], [])
    assert registered["Topics"] == ["t"]


def test_a_member_that_finds_nobody_asks_one_server_after_the_other() -> None:
    story = Story()
    assert story.after(0) == [ConnectTo(*FIRST)]
    story.member.connection_lost(story.now_ms)
    assert story.after(99) == []
    assert story.after(1) == [ConnectTo(*SECOND)]
    story.member.connected()
    story.after(0)
    story.hears(controller_at("", 0))
    assert story.connects(100) == ConnectTo(*FIRST)
    story.after(0)
    assert story.after(5_001) == []  # nobody answered
    assert story.connects(100) == ConnectTo(*SECOND)


def test_a_member_waits_where_it_will_hear_who_follows_a_controller_that_died() -> None:
    """Once it knows that the old one accepts nothing, it leaves that alone for a second."""
    story = Story().owning(T0)
    story.member.connection_lost(story.now_ms)
    assert story.connects(100) == ConnectTo(*SECOND)
    story.after(0)
    assert story.hears(controller_at(*FIRST)) == [ConnectTo(*FIRST)]  # perhaps it lives
    story.member.connection_lost(story.now_ms)
    died_ms = story.now_ms
    assert story.connects(100) == ConnectTo(*SECOND)
    asked = 0
    while story.now_ms < died_ms + 1_000:
        assert sent(story.after(0)).keys() == {"ListGroups"}
        assert story.hears(controller_at(*FIRST)) == []
        assert story.after(99) == []
        story.now_ms, asked = story.now_ms + 1, asked + 1
    assert asked == 9
    story.after(0)
    assert story.hears(controller_at(*FIRST)) == [ConnectTo(*FIRST)]
    story.member.connection_lost(story.now_ms)
    assert story.connects(100) == ConnectTo(*SECOND)
    story.after(0)
    assert story.hears(controller_at(*FIRST)) == []
    story.after(100)
    assert story.hears(controller_at(*SECOND)) == []
    assert sent(story.after(0)).keys() == {"Heartbeat"}


def test_a_server_that_was_of_no_use_is_asked_last() -> None:
    story = Story()
    story.connects()
    story.after(0)
    assert story.hears(controller_at(*SECOND)) == [ConnectTo(*SECOND)]
    story.member.connected()
    story.member.connection_lost(story.now_ms)
    assert story.connects(100) == ConnectTo(*FIRST)


@pytest.mark.parametrize("api", ["ListGroups", "CreateGroup", "RegisterConsumer"])
def test_a_member_that_may_not_enter_asks_no_more(api: str) -> None:
    story = Story()
    story.connects()
    story.after(0)
    if api == "CreateGroup":
        story.hears(answer("ListGroups", ErrorCode.GROUP_ID_NOT_FOUND))
    elif api == "RegisterConsumer":
        story.hears(controller_at(*FIRST))
        story.after(0)
    story.hears(answer(api, ErrorCode.GROUP_AUTHORIZATION_FAILED))
    assert story.member.failure is ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert story.after(60_000) == []


@pytest.mark.parametrize(
    "told",
    [
        [answer("ListGroups", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)],
        [answer("ListGroups", GroupsInfo=controller_at(*FIRST).body["GroupsInfo"])],
        [
            answer("ListGroups", ErrorCode.GROUP_ID_NOT_FOUND),
            answer("CreateGroup", ErrorCode.COORDINATOR_NOT_AVAILABLE),
        ],
    ],
    ids=["not yet", "without its port", "none that creates"],
)
def test_a_server_that_does_not_say_who_is_controller_is_left(told: list[RpcAnswer]) -> None:
    story = Story()
    story.connects()
    story.after(0)
    *before, last = told
    for each in before:
        assert sent(story.hears(each)).keys() == {"CreateGroup"}
    assert story.hears(last) == []
    assert story.connects(100) == ConnectTo(*SECOND)


def test_a_member_that_wants_nothing_yet_registers_all_the_same() -> None:
    story = Story()
    story.member = Membership(story.member.settings)
    registered = sent(story.at_the_controller().after(0))["RegisterConsumer"]
    assert (registered["Topics"], registered["Static"]) == ([], [])


def test_one_that_is_not_let_in_asks_again_after_a_tenth_of_a_second() -> None:
    story = Story().at_the_controller()
    story.after(0)
    assert story.hears(answer("RegisterConsumer", ErrorCode.UNKNOWN_MEMBER_ID)) == []
    assert story.after(99) == []
    assert story.connects(1) == ConnectTo(*FIRST)


# --- the lease ------------------------------------------------------------------------------------


def test_a_member_hands_nothing_out_0_9_session_timeouts_after_it_sent_what_was_answered() -> None:
    story = Story().at_the_controller()
    story.after(0)
    story.now_ms += 3_000  # the answer takes its time, and the lease counts from the request
    story.hears(owns(4, {T0: At(4, 0)}))
    assert story.hands_out()
    story.now_ms += 5_999
    assert story.hands_out()
    story.now_ms += 1
    assert not story.hands_out()


def test_a_member_keeps_asking_and_goes_on_when_it_is_answered() -> None:
    story = Story().owning(T0)
    story.member.processed(T0, 4, 9)
    story.now_ms += 3_400
    assert story.after(0) == []  # the heartbeat was not answered: it looks elsewhere
    assert story.connects(100) == ConnectTo(*SECOND)
    story.now_ms += 5_500
    assert not story.hands_out()
    story.after(0)
    story.hears(controller_at(*SECOND))
    assert sent(story.after(0))["Heartbeat"]["Generation"] == 4
    assert not story.hands_out()
    assert story.hears(beats(generation=4)) == []
    assert story.hands_out()
    assert story.member.member.at[T0] == At(4, 9)


def test_a_heartbeat_that_is_older_than_what_is_known_prolongs_nothing() -> None:
    story = Story().owning(T0)
    story.hears(beats())
    assert sent(story.after(1_000)).keys() == {"Heartbeat"}
    story.hears(beats(generation=3))
    story.now_ms += 8_000
    assert not story.hands_out()


def test_an_answer_that_comes_late_takes_nothing_back() -> None:
    story = Story().owning(T0)  # its heartbeat is not answered yet
    story.now_ms += 1_000
    story.member.wants({"t", "u"}, ())
    assert sent(story.after(0)).keys() == {"RegisterConsumer"}
    story.hears(owns(4, {T0: At(4, 7)}))
    story.hears(beats())
    story.now_ms += 8_999
    assert story.hands_out()


def test_a_request_is_missed_after_a_third_of_the_session() -> None:
    story = Story().owning(T0)
    assert story.after(3_333) == []
    assert story.after(1) == []  # it looks elsewhere, in a moment
    assert story.after(99) == []
    assert story.connects(1) == ConnectTo(*SECOND)


def test_a_member_that_nobody_let_in_hands_nothing_out() -> None:
    assert not Story().at_the_controller().hands_out()


def test_heartbeats_come_once_a_second_where_the_answer_does_not_wait() -> None:
    story = Story().owning(T0)
    story.hears(beats())
    assert story.hears(beats()) == []  # nobody asked for it
    assert story.after(999) == []
    assert sent(story.after(1)).keys() == {"Heartbeat"}


def test_heartbeats_come_ten_times_a_session_that_is_short() -> None:
    story = Story().at_the_controller()
    story.after(0)
    story.hears(owns(4, {}, session_ms=5_009))
    first = sent(story.after(0))["Heartbeat"]
    assert (first["SessionTimeout"], first["MaxWaitMs"]) == (5_009, 834)
    story.hears(beats())
    assert story.after(499) == []
    assert sent(story.after(1)).keys() == {"Heartbeat"}


# --- answers --------------------------------------------------------------------------------------


def test_what_moves_is_stopped_before_the_member_says_that_it_holds_it_no_more() -> None:
    story = Story().owning(T0, T1)
    story.member.processed(T0, 4, 8)
    story.member.processed(T1, 4, 9)
    story.hears(beats(ErrorCode.REBALANCE_IN_PROGRESS))
    first = sent(story.after(0))["RegisterConsumer"]
    assert (first["Generation"], len(first["Held"])) == (4, 2)
    assert story.hears(owns(6, {T0: At(4, 7)})) == [PartitionStopped(T1, At(4, 9), given_up=False)]
    second = sent(story.after(0))["RegisterConsumer"]
    assert (second["Generation"], second["Held"]) == (6, [{"Topic": "t", "Partition": 0}])
    # What it keeps it goes on with, although the answer names an earlier position.
    assert second["Positions"] == [
        {"Topic": "t", "Partition": 0, "Offset": 8, "Tenure": 4},
        {"Topic": "t", "Partition": 1, "Offset": 9, "Tenure": 4},
    ]
    assert story.member.positions() == second["Positions"]
    assert story.hears(owns(7, {T0: At(4, 7)})) == []
    assert sent(story.after(100)).keys() == {"Heartbeat"}
    story.hears(beats(ErrorCode.REBALANCE_IN_PROGRESS))
    third = sent(story.after(0))["RegisterConsumer"]
    assert [row["Partition"] for row in third["Positions"]] == [0]


def test_nothing_is_let_go_in_the_middle_of_a_message() -> None:
    story = Story().owning(T0)
    story.hears(beats(ErrorCode.REBALANCE_IN_PROGRESS))
    assert story.after(999, may_let_go=False) == []
    assert sent(story.after(1, may_let_go=False)).keys() == {"Heartbeat"}
    assert sent(story.after(0)).keys() == {"RegisterConsumer"}


def test_a_partition_of_another_tenure_is_stopped_and_begun_anew() -> None:
    story = Story().owning(T0)
    story.member.processed(T0, 4, 9)
    story.hears(beats(ErrorCode.REBALANCE_IN_PROGRESS))
    story.after(0)
    assert story.after(1_000) == []  # it is asked, and not answered
    assert story.hears(owns(5, {T0: At(5, 2)})) == [
        PartitionStopped(T0, At(4, 9), given_up=False),
        PartitionStarted(T0, At(5, 2)),
    ]
    story.member.processed(T0, 4, 10)  # what was in hand says nothing of the new tenure
    assert story.member.member.at[T0] == At(5, 2)


def test_an_older_answer_is_ignored_and_its_server_left() -> None:
    story = Story().owning(T0)
    story.hears(beats(ErrorCode.REBALANCE_IN_PROGRESS))
    story.after(0)
    assert story.hears(owns(3, {})) == []
    assert story.member.member.holds == {T0}
    assert story.connects(100) == ConnectTo(*SECOND)


def test_one_that_was_given_up_stops_at_once_and_begins_over_another_connection() -> None:
    story = Story().owning(T0)
    told = story.hears(beats(ErrorCode.UNKNOWN_MEMBER_ID, generation=8))
    assert told == [PartitionStopped(T0, At(4, 7), given_up=True)]
    assert not story.hands_out()
    assert story.connects() == ConnectTo(*FIRST)
    registered = sent(story.after(0, may_let_go=False))["RegisterConsumer"]
    assert (registered["Generation"], registered["Held"], registered["Positions"]) == (-1, [], [])


@pytest.mark.parametrize("code", [ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_ID_NOT_FOUND])
def test_one_whose_place_is_gone_stops_at_once(code: ErrorCode) -> None:
    story = Story().owning(T0)
    told = story.hears(beats(code, generation=-1))
    assert told == [PartitionStopped(T0, At(4, 7), given_up=True)]
    assert story.connects(100) == ConnectTo(*SECOND)


def test_one_that_was_given_up_by_a_controller_of_before_goes_on() -> None:
    story = Story().owning(T0)
    assert story.hears(beats(ErrorCode.UNKNOWN_MEMBER_ID, generation=3)) == []
    assert story.member.member.holds == {T0}
    assert story.connects(100) == ConnectTo(*SECOND)


def test_a_registration_whose_answer_is_lost_is_sent_again() -> None:
    story = Story().owning(T0)
    story.hears(beats(ErrorCode.REBALANCE_IN_PROGRESS))
    assert sent(story.after(0)).keys() == {"RegisterConsumer"}
    story.member.connection_lost(story.now_ms)
    story.connects(100)
    story.after(0)
    story.hears(controller_at(*SECOND))
    assert sent(story.after(0)).keys() == {"RegisterConsumer"}


def test_a_registration_that_another_controller_must_take_is_sent_again() -> None:
    story = Story().owning(T0)
    story.hears(beats(ErrorCode.REBALANCE_IN_PROGRESS))
    story.after(0)
    assert story.hears(answer("RegisterConsumer", ErrorCode.NOT_COORDINATOR)) == []
    story.connects(100)
    story.after(0)
    story.hears(controller_at(*SECOND))
    assert sent(story.after(0)).keys() == {"RegisterConsumer"}


def test_one_that_is_asked_to_register_all_the_time_asks_ten_times_a_second() -> None:
    story = Story().owning(T0)
    story.hears(beats(ErrorCode.REBALANCE_IN_PROGRESS))
    assert sent(story.after(0)).keys() == {"RegisterConsumer"}
    story.hears(owns(4, {T0: At(4, 7)}))
    assert story.after(99) == []
    assert sent(story.after(1)).keys() == {"Heartbeat"}


def test_other_wishes_are_told_beside_a_heartbeat_that_waits() -> None:
    story = Story().owning(T0)
    story.member.wants({"t", "u"}, {T1})
    asked = sent(story.after(0))["RegisterConsumer"]
    assert asked["Topics"] == ["t", "u"]
    assert asked["Static"] == [{"Topic": "t", "Partition": 1}]
    story.hears(owns(5, {T0: At(4, 7)}))
    assert story.after(0) == []


# --- questions ------------------------------------------------------------------------------------


def test_what_the_application_asks_is_asked_again_at_the_next_controller() -> None:
    story = Story().owning(T0)
    story.member.ask("CommitOffsets", {"ConsumerGroup": "g"})
    assert sent(story.after(0)) == {"CommitOffsets": {"ConsumerGroup": "g"}}
    assert story.hears(answer("CommitOffsets", ErrorCode.NOT_COORDINATOR)) == []
    assert story.connects(100) == ConnectTo(*SECOND)
    story.after(0)
    story.hears(controller_at(*SECOND))
    assert "CommitOffsets" in sent(story.after(0))
    told = answer("CommitOffsets")
    assert story.hears(told) == [QuestionAnswered(told)]
    assert "CommitOffsets" not in sent(story.after(1_000))


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND])
def test_a_commit_of_one_that_was_given_up_is_answered_and_stops_it(code: ErrorCode) -> None:
    story = Story().owning(T0)
    story.member.ask("CommitOffsets", {})
    story.after(0)
    told = answer("CommitOffsets", code)
    assert story.hears(told) == [
        PartitionStopped(T0, At(4, 7), given_up=True),
        QuestionAnswered(told),
    ]


def test_a_question_that_was_withdrawn_is_asked_no_more() -> None:
    story = Story().owning(T0)
    story.member.ask("CommitOffsets", {})
    story.member.withdraw()
    assert story.after(0) == []


def test_the_answer_to_a_withdrawn_question_does_not_answer_the_next_one() -> None:
    story = Story().owning(T0)
    story.member.ask("CommitOffsets", {"number": 1})
    story.after(0)
    story.member.withdraw()
    story.member.ask("CommitOffsets", {"number": 2})
    assert story.after(0) == []
    assert story.hears(answer("CommitOffsets")) == []
    assert sent(story.after(0)) == {"CommitOffsets": {"number": 2}}


def test_a_goodbye_that_was_carried_out_before_gives_nobody_up() -> None:
    story = Story().owning(T0)
    story.member.ask("DeregisterConsumer", {})
    story.after(0)
    told = answer("DeregisterConsumer", ErrorCode.UNKNOWN_MEMBER_ID)
    assert story.hears(told) == [QuestionAnswered(told)]


def test_a_member_that_says_goodbye_asks_for_nothing_else() -> None:
    story = Story().owning(T0)
    story.member.ask("DeregisterConsumer", {})
    assert sent(story.after(0)).keys() == {"DeregisterConsumer"}
    assert story.hears(beats(ErrorCode.UNKNOWN_MEMBER_ID)) == [
        PartitionStopped(T0, At(4, 7), given_up=True)
    ]
    story.member.connection_lost(story.now_ms)
    story.connects(100)
    story.after(0)
    story.hears(controller_at(*SECOND))
    assert sent(story.after(5_000)).keys() == {"DeregisterConsumer"}
    told = answer("DeregisterConsumer", ErrorCode.UNKNOWN_MEMBER_ID)
    assert story.hears(told) == [QuestionAnswered(told)]


# --- what it knows --------------------------------------------------------------------------------


def test_a_position_at_the_very_start_is_one_and_none_is_not_said() -> None:
    member = GroupMemberState(at={T0: At(4, 0), T1: At(4, NO_POSITION)})
    assert says(member) == {T0: At(4, 0)}


def test_one_that_is_no_member_any_more_remembers_the_generation_that_said_so() -> None:
    member = GroupMemberState(generation=4, fresh=False, holds=frozenset({T0}))
    gone = after_answer(member, MemberAnswer(NO_CONNECTION, 9, unknown=True))
    assert (gone.generation, gone.fresh, gone.holds) == (9, True, frozenset())

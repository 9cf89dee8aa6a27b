"""Marshal promises that a member does what `GroupMember.tla` does, in every state of its models."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from kafka_marshal.core.groups.events import At
from kafka_marshal.core.groups.state import TopicPartition
from kafka_marshal.core.values import evolved
from kafka_marshal.machines.groups import group_member
from kafka_marshal.machines.groups.group_member import (
    GroupMemberState,
    MemberAnswer,
    MemberRequest,
)
from kafka_marshal.modelcheck import models
from model_tests.groups import exports, members
from model_tests.mutants.hand_made import HandMade


def test_a_member_does_what_the_specification_does() -> None:
    for deed in members.sample():
        assert deed.taken() == deed.said


def test_the_sample_shows_every_kind_of_deed() -> None:
    shown = {(old, closed) for old in (True, False) for closed in (True, False)}
    of_answers = {("Hear", each) for each in shown}
    assert members.kinds(members.sample()).keys() == {("Ask", None), ("Process", None)} | of_answers


right = group_member.after_answer


def never(member: GroupMemberState, answer: MemberAnswer) -> bool:
    return False


def wherever_it_is(member: GroupMemberState, answer: MemberAnswer, tp: TopicPartition) -> bool:
    return tp in member.holds


def nowhere(member: GroupMemberState, answer: MemberAnswer, tp: TopicPartition) -> bool:
    return False


def keeps_what_it_held(member: GroupMemberState, answer: MemberAnswer) -> GroupMemberState:
    after = right(member, answer)
    return evolved(after, holds=after.holds | member.holds)


def forgets_where_it_was(member: GroupMemberState, answer: MemberAnswer) -> GroupMemberState:
    after = right(member, answer)
    return evolved(after, at={tp: at for tp, at in after.at.items() if tp in after.holds})


def on_one_connection(member: GroupMemberState) -> GroupMemberState:
    return member


def always_remembering(member: GroupMemberState) -> MemberRequest:
    return MemberRequest(0, member.generation, member.holds, group_member.says(member))


def under_tenure_0(member: GroupMemberState) -> dict[TopicPartition, At]:
    return {tp: At(0, at.offset) for tp, at in member.at.items()}


MUTANTS = [
    HandMade(name, about, group_member, attribute, instead)
    for name, about, attribute, instead in (
        ("ObeysTheOld", "an answer that is older than what it knows counts", "is_old", never),
        ("HearsClosed", "an answer over a connection before counts", "is_closed", never),
        ("KeepsItsPlace", "it goes on under another tenure", "goes_on", wherever_it_is),
        ("AlwaysAnew", "it starts anew under its own tenure", "goes_on", nowhere),
        ("HoldsOn", "it keeps what is not its own", "after_answer", keeps_what_it_held),
        ("Forgets", "it cannot commit what it let go", "after_answer", forgets_where_it_was),
        ("OneConnection", "it asks again as if on the same one", "after_asking", on_one_connection),
        ("NeverFresh", "it registers with memory", "request_of", always_remembering),
        ("NoTenure", "it commits under no tenure", "says", under_tenure_0),
    )
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_of_a_member_parts_from_the_specification(mutant: HandMade) -> None:
    with mutant.made():
        assert any(deed.taken() != deed.said for deed in members.sample())


def test_a_member_says_nothing_of_a_position_that_it_does_not_know() -> None:
    at = {TopicPartition("t", 0): At(4, -1), TopicPartition("t", 1): At(4, 0)}
    member = attrs.evolve(GroupMemberState(), fresh=False, holds=frozenset(at), at=at)
    assert group_member.request_of(member).positions == {TopicPartition("t", 1): At(4, 0)}


@pytest.mark.tlc
def test_a_member_does_what_a_model_does(tmp_path: Path) -> None:
    model = models.find("MCGroupWorld_Move", models.read())
    lines = exports.lines_of(members.exported(model, tmp_path))
    deeds = [members.deed(value) for _, value in lines]
    assert deeds
    assert [deed for deed in deeds if deed.taken() != deed.said] == []


@pytest.mark.tlc
@pytest.mark.night
def test_the_sample_is_what_all_models_do() -> None:
    assert exports.sample_lines(members.SAMPLE) == members.all_lines(), (
        "python -m model_tests.groups.members writes it anew"
    )

"""Marshal promises that groups have one vocabulary: `Group.tla`'s, compared in both directions."""

from __future__ import annotations

import enum
import re

import attrs
import pytest

from kafka_marshal.core.groups import guards, invariants, reducer, settling, state, transitions
from kafka_marshal.core.groups.events import At, EventRecord
from kafka_marshal.core.groups.invariants import GroupProperty
from kafka_marshal.core.groups.reducer import GroupOutcome
from kafka_marshal.core.groups.state import (
    Controllership,
    Group,
    GroupMember,
    GroupPartition,
    TargetOf,
    Topic,
    TopicPartition,
    Wish,
)
from kafka_marshal.core.groups.verdicts import GroupAccepted, GroupRefused, OfAPosition, OfARelease
from kafka_marshal.group_codec.events import FORMS
from kafka_marshal.machines.groups import group_member
from kafka_marshal.machines.groups.control.holdings import Holdings
from kafka_marshal.machines.groups.group_member import (
    GroupMemberState,
    MemberAnswer,
    MemberRequest,
)
from model_tests.from_tla import snake
from model_tests.names.test_names import definition, module, operators, record_fields, strings

MEMBER = re.sub(" +==", " ==", module("GroupMember"))
GROUP, EVENTS = re.sub(" +==", " ==", module("Group")), module("GroupEvents")


def fields(kind: type[attrs.AttrsInstance]) -> list[str]:
    return [field.name for field in attrs.fields(kind)]


@pytest.mark.parametrize(
    ("where", "kind"),
    [
        ("NewControllership", Controllership),
        ("NewPartition", GroupPartition),
        ("MemberOf", GroupMember),
        ("Wishes", Wish),
        ("IsDue", TargetOf),
        ("Outcome", GroupOutcome),
    ],
)
def test_a_value_has_the_same_fields_in_the_same_order(
    where: str, kind: type[attrs.AttrsInstance]
) -> None:
    assert record_fields(definition(GROUP, where)) == fields(kind)


def test_a_group_has_the_same_fields_in_the_same_order() -> None:
    found = record_fields(definition(GROUP, "NewGroup"))
    within = found.index("members", found.index("target_of"))
    assert found[within : within + 2] == fields(TargetOf)
    assert found[:within] + found[within + 2 :] == fields(Group)


def test_a_topic_a_partition_and_a_record_have_the_same_fields() -> None:
    assert record_fields(definition(EVENTS, "Topic")) == fields(Topic)
    assert tuple(record_fields(definition(EVENTS, "Tp"))) == TopicPartition._fields
    ours = {*fields(EventRecord)} - {"partition", "timestamp_ms"}
    assert {*record_fields(definition(EVENTS, "Record"))} == ours
    assert {*At._fields} <= {*re.findall(r"\bat\.(\w+)", GROUP)}


ONLY_IN_THE_SPECIFICATION = {"commits_only"}
"""In Python `held` is None."""


def test_every_event_has_one_name_and_the_same_fields() -> None:
    kinds = {kind.__name__: kind for kind in FORMS}
    assert {*strings(definition(GROUP, "EventTypes"))} == kinds.keys()
    made = re.findall(r'\[type \|-> "(\w+)",(.*?)\]', EVENTS, re.DOTALL)
    assert {name for name, _ in made} == kinds.keys()
    for name, text in made:
        named = {*record_fields(text)} - {"version"} - ONLY_IN_THE_SPECIFICATION
        assert named == {*fields(kinds[name])}, name


def values(kind: type[enum.Enum]) -> list[str]:
    return [member.value for member in kind]


def test_every_verdict_has_one_name_and_every_guard_one_place() -> None:
    assert {*map(snake, strings(definition(GROUP, "Accepted")))} == {*values(GroupAccepted)}
    for kind in (GroupRefused, OfAPosition, OfARelease):
        name = kind.__name__.removeprefix("Group")
        assert [*map(snake, strings(definition(GROUP, name)))] == values(kind)


@pytest.mark.parametrize("kind", [GroupAccepted, GroupRefused, OfAPosition, OfARelease])
def test_a_verdict_on_an_event_is_called_as_it_is_printed(kind: type[enum.Enum]) -> None:
    assert [member.name.lower() for member in kind] == values(kind)


NOT_A_FUNCTION = {
    *("NONE", "NOT_DECIMAL", "NOBODY", "PASSES", "NO_PARTITIONS"),  # constants
    *("EventTypes", "Accepted", "Refused", "OfAPosition", "OfARelease"),  # enums
    *("NewControllership", "NewPartition"),  # default values
    *("Max", "Members", "IsMember", "IsKnown", "GroupOf", "HasTopic", "Named"),  # one expression
    *("Owns", "IsOwned", "IsRevoking", "IsFree", "Askers", "IsWanted"),
    *("NoSuchGroup", "GroupExists", "UnknownVersion", "MemberGuard"),  # in `step`
}
METHODS = {"Exists", "OwnedBy"}
OF_ALL_MEMBERS = {"ToOwn", "MustRegister"}
"""Worked out for all members at once."""
CALLED = {"Outcome": "GroupOutcome"}


def test_every_rule_of_groups_is_a_function_of_that_name() -> None:
    rooms = (state, guards, settling, transitions, reducer)
    in_python = {name for room in rooms for name in vars(room)}
    rules = operators("Group") - NOT_A_FUNCTION - METHODS - OF_ALL_MEMBERS - {"_"}
    assert {name for name in rules if CALLED.get(name, snake(name)) not in in_python} == set()
    assert operators("Group") >= NOT_A_FUNCTION | METHODS | OF_ALL_MEMBERS
    assert {snake(name) for name in METHODS} <= {*vars(Group)}
    assert {snake(name) for name in OF_ALL_MEMBERS} <= {*fields(Holdings), *vars(Holdings)}


ONLY_IN_PYTHON = {
    GroupProperty.KEPT_BY_ITS_TARGET,
    GroupProperty.NOTHING_UNASSIGNED,
    GroupProperty.GROUPS_APART,
}
"""A model has one group; and what is promised at rest it promises of members, too."""


def test_every_property_of_a_group_is_one_of_the_model() -> None:
    judged = {*invariants.STATE_CHECKS, *invariants.STEP_CHECKS} - ONLY_IN_PYTHON
    assert {each.value for each in judged} <= operators("MCGroupEvents")


# --- members --------------------------------------------------------------------------------------


def test_a_member_has_the_same_fields_in_the_same_order() -> None:
    assert record_fields(definition(MEMBER, "NewMember")) == fields(GroupMemberState)
    asked = record_fields(definition(MEMBER, "RequestOf"))
    assert [name for name in asked if name not in {"member", "to", "sent"}] == fields(MemberRequest)
    answer = record_fields(definition(module("Controller"), "AnswerTo"))
    assert [name for name in answer if name in {*fields(MemberAnswer)}] == fields(MemberAnswer)


IN_AFTER_ANSWER = {"ToldAt"}
ONLY_IN_MODELS = {"MemberAt"}


def test_every_rule_of_a_member_is_a_function_of_that_name() -> None:
    beyond = {"NewMember"} | IN_AFTER_ANSWER | ONLY_IN_MODELS
    assert {snake(name) for name in operators("GroupMember") - beyond} <= {*vars(group_member)}
    assert operators("GroupMember") >= beyond

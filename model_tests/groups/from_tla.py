"""TLA+ values of Group to Python, field by field, as `model_tests.from_tla` does for claims.

An empty function is an empty sequence to TLC, so `<<>>` is an empty mapping wherever one stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar

import attrs

from kafka_marshal.core.groups.events import (
    KNOWN_VERSION,
    At,
    Event,
    EventRecord,
    Reconciled,
    UnknownEvent,
)
from kafka_marshal.core.groups.reducer import GroupOutcome
from kafka_marshal.core.groups.state import (
    Controllership,
    Group,
    GroupMember,
    GroupPartition,
    Rebalance,
    TargetOf,
    Topic,
    TopicPartition,
    Wish,
)
from kafka_marshal.core.groups.verdicts import (
    GroupAccepted,
    GroupRefused,
    OfAPosition,
    OfARelease,
    Verdict,
)
from kafka_marshal.group_codec.events import FORMS
from kafka_marshal.modelcheck.tlc.values import Value
from model_tests import from_tla
from model_tests.from_tla import NOBODY, NONE, snake

KINDS: Mapping[str, type[Event]] = {kind.__name__: kind for kind in FORMS}
T = TypeVar("T")


def _mapping(value: Value) -> Mapping[Any, Any]:
    """A function; the empty one is `<<>>`."""
    if value == ():
        return {}
    assert isinstance(value, Mapping)
    return value


def _all(value: Value, kind: Callable[[Value], T]) -> Mapping[str, T]:
    """A function of ids."""
    return {str(name): kind(each) for name, each in _mapping(value).items()}


def by_partition(value: Value, kind: Callable[[Value], T]) -> Mapping[TopicPartition, T]:
    """A function of partitions."""
    return {_tp(tp): kind(each) for tp, each in _mapping(value).items()}


@cache
def _tp(value: Value) -> TopicPartition:
    given = from_tla.fields(value)
    assert set(given) == {*TopicPartition._fields}
    return TopicPartition(**given)


def _number(value: Value) -> int:
    assert isinstance(value, int)
    return value


def _nobody(value: Value) -> str | None:
    return None if value == NOBODY else str(value)


def partitions(value: Any) -> frozenset[TopicPartition]:
    """A set of partitions."""
    return frozenset(map(_tp, value))


def _fields(value: Value, kind: type[Any]) -> Mapping[str, Any]:
    """The fields of a record; fails if one is missing or new."""
    given = from_tla.fields(value)
    assert set(given) == {field.name for field in attrs.fields(kind)}, kind
    return given


@cache
def topic(value: Value) -> Topic:
    """A topic as it was counted."""
    return Topic(**_fields(value, Topic))


def topics(value: Value) -> Mapping[str, Topic]:
    """Topics by name."""
    return _all(value, topic)


@cache
def wish(value: Value) -> Wish:
    """What a member wants."""
    given = _fields(value, Wish)
    return Wish(frozenset(given["topics"]), by_partition(given["static"], _number))


@cache
def member(value: Value) -> GroupMember:
    """A member."""
    given = _fields(value, GroupMember)
    wants = frozenset(given["topics"]), by_partition(given["static"], _number)
    return GroupMember(given["client_id"], *wants, given["joined_at"])


@cache
def partition(value: Value) -> GroupPartition:
    """A partition of a group."""
    given = _fields(value, GroupPartition)
    who = {name: _nobody(given[name]) for name in ("owner", "target")}
    return GroupPartition(**{**given, **who})


@cache
def group(value: Value) -> Group:
    """A group."""
    given = _fields(value, Group)
    of = _fields(given["target_of"], TargetOf)
    return Group(
        **{
            **given,
            "rebalance": Rebalance(given["rebalance"]),
            "topics": topics(given["topics"]),
            "members": _all(given["members"], member),
            "target_of": TargetOf(_all(of["members"], wish), topics(of["topics"])),
            "partitions": by_partition(given["partitions"], partition),
        }
    )


@cache
def controllership(value: Value) -> Controllership:
    """The controllership of a partition of the log."""
    given = _fields(value, Controllership)
    controller_id = None if given["controller_id"] == NONE else given["controller_id"]
    who = {"controller_id": controller_id, "host": _nobody(given["host"])}
    return Controllership(**{**given, **who, "groups": _all(given["groups"], group)})


READS: Mapping[str, Callable[[Any], object]] = {
    "topics": frozenset,
    "static": partitions,
    "held": partitions,
    "target": lambda value: by_partition(value, str),
    "rebalance": Rebalance,
    "state": group,
}
"""By the name of an event's field, where Python's value is not TLA+'s."""


@cache
def event(value: Value) -> Event | UnknownEvent:
    """An event; fails if a field is missing or new."""
    given = dict(from_tla.fields(value))
    kind, version = given.pop("type"), given.pop("version")
    if kind not in KINDS or version != KNOWN_VERSION:
        return UnknownEvent(kind, version)
    commits_only = given.pop("commits_only", False)
    assert set(given) == {field.name for field in attrs.fields(KINDS[kind])}, kind
    read: dict[str, Any] = {
        name: READS[name](each) if name in READS else each for name, each in given.items()
    }
    if kind == "GroupCreated":
        read["topics"] = topics(given["topics"])
    if kind == "PartitionsRewound":
        read["positions"] = by_partition(given["positions"], _number)
    if kind == "Reconciled":
        read["positions"] = by_partition(given["positions"], at)
        if commits_only:
            read["held"] = None
    made = KINDS[kind](**read)
    assert not isinstance(made, Reconciled) or made.commits_only == commits_only
    return made


def at(value: Value) -> At:
    """How far a member got."""
    given = from_tla.fields(value)
    assert set(given) == {*At._fields}
    return At(**given)


@cache
def record(value: Value) -> EventRecord:
    """A record; the specification's has neither partition nor timestamp."""
    given = from_tla.fields(value)
    names = {field.name for field in attrs.fields(EventRecord)}
    assert set(given) == names - {"partition", "timestamp_ms"}
    return EventRecord(
        **{**given, "partition": 0, "timestamp_ms": 0, "event": event(given["event"])}
    )


@cache
def verdict(name: Value) -> Verdict:
    """The verdict of that name; fails if Python has none."""
    text = snake(str(name))
    return (
        GroupAccepted(text)
        if text in {each.value for each in GroupAccepted}
        else GroupRefused(text)
    )


@cache
def outcome(value: Value) -> GroupOutcome:
    """What became of a record."""
    given = _fields(value, GroupOutcome)
    return GroupOutcome(
        controllership(given["controllership"]),
        verdict(given["verdict"]),
        by_partition(given["positions"], lambda name: OfAPosition(snake(str(name)))),
        by_partition(given["releases"], lambda name: OfARelease(snake(str(name)))),
    )


def positions(value: Value) -> Mapping[TopicPartition, At]:
    """Where somebody is in partitions, under which tenures."""
    return by_partition(value, at)

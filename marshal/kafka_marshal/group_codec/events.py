"""Each event as a table: which fields it has, and in which form.

An event is a JSON object, `{"event": "MemberLeft", "version": 1, ...}`, so that Spark's `from_json`
and a person with a console consumer can read it. Fields that nobody here knows are passed over.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from kafka_marshal.codec import MalformedRecord, UnsendableMessage
from kafka_marshal.core.groups.events import (
    KNOWN_VERSION,
    At,
    ControllershipSnapshot,
    ControllerStarted,
    Event,
    GroupCreated,
    GroupDeleted,
    GroupSnapshot,
    MemberExpired,
    MemberLeft,
    MemberRegistered,
    PartitionsCounted,
    PartitionsRewound,
    Rebalanced,
    Reconciled,
    UnknownEvent,
)
from kafka_marshal.core.groups.invariants import impossible
from kafka_marshal.core.groups.state import (
    NEVER_STARTED_EPOCH,
    NO_POSITION,
    PARTITIONS_MAX,
    Group,
    GroupMember,
    GroupPartition,
    Rebalance,
    TargetOf,
    Topic,
    Wish,
)
from kafka_marshal.group_codec.forms import (
    FLAG,
    NAME,
    NAMES,
    PARTITIONS,
    TEXT,
    Form,
    Json,
    by_name,
    fields_of,
    malformed,
    number,
    of_object,
    one_of,
    optional,
    partition_of,
    partition_to,
)

CONTROLLER: Final[Mapping[str, Form[Any]]] = {
    "controller_id": number(most=2**31 - 1),
    "host": TEXT,
    "port": number(most=2**16 - 1),
}
"""Who is controller, and where."""


def _counts(where: str, given: Json) -> Mapping[str, Topic]:
    topics = _TOPICS.read(where, given)
    if sum(topic.count for topic in topics.values()) > PARTITIONS_MAX:
        malformed(where, f"more than {PARTITIONS_MAX} partitions")
    return topics


_TOPICS: Final = by_name(
    fields_of(Topic, count=number(least=1, most=PARTITIONS_MAX), topic_id=TEXT)
)
TOPICS: Final[Form[Mapping[str, Topic]]] = Form(_counts, _TOPICS.write)
"""Topics by name, of not too many partitions: a record of a few bytes must not fill the memory."""
_REBALANCE: Final = one_of(Rebalance, lambda value: value.value)
_STATIC: Final = partition_to("number", number(least=1))
_WISH: Final[Mapping[str, Form[Any]]] = {"topics": NAMES, "static": _STATIC}

GROUP: Final = fields_of(
    Group,
    session_timeout_ms=number(least=1),
    rebalance=_REBALANCE,
    strategy=TEXT,
    ephemeral=FLAG,
    topics=TOPICS,
    members=by_name(fields_of(GroupMember, client_id=TEXT, **_WISH, joined_at=number(least=1))),
    generation=number(least=1),
    rebalanced_at=number(),
    target_of=fields_of(TargetOf, members=by_name(fields_of(Wish, **_WISH)), topics=TOPICS),
    partitions=partition_of(
        GroupPartition,
        owner=optional(NAME),
        tenure=number(),
        target=optional(NAME),
        revoking=number(),
        position=number(least=NO_POSITION),
    ),
)
"""A whole group, as a snapshot has it."""


def _possible(where: str, given: Json) -> Group:
    """A group that a fold can have: no other may be what a reader begins with."""
    group = GROUP.read(where, given)
    broken = impossible(group)
    if broken is not None:
        malformed(where, f"no group is like that: {broken.value}")
    return group


FORMS: Final[Mapping[type[Event], Form[Any]]] = {
    ControllerStarted: fields_of(
        ControllerStarted, supersedes=number(least=NEVER_STARTED_EPOCH), **CONTROLLER
    ),
    ControllershipSnapshot: fields_of(ControllershipSnapshot, **CONTROLLER),
    GroupCreated: fields_of(
        GroupCreated,
        session_timeout_ms=number(least=1),
        topics=TOPICS,
        rebalance=_REBALANCE,
        strategy=TEXT,
        ephemeral=FLAG,
    ),
    GroupDeleted: fields_of(GroupDeleted),
    GroupSnapshot: fields_of(GroupSnapshot, state=Form(_possible, GROUP.write)),
    MemberRegistered: fields_of(
        MemberRegistered, member=NAME, client_id=TEXT, topics=NAMES, static=PARTITIONS, fresh=FLAG
    ),
    MemberLeft: fields_of(MemberLeft, member=NAME, reason=TEXT),
    MemberExpired: fields_of(MemberExpired, member=NAME, reason=TEXT, silent_ms=number()),
    PartitionsCounted: fields_of(
        PartitionsCounted, topic=NAME, count=number(most=PARTITIONS_MAX), topic_id=TEXT
    ),
    Rebalanced: fields_of(Rebalanced, target=partition_to("member", NAME)),
    Reconciled: fields_of(
        Reconciled,
        member=NAME,
        as_of=number(least=-1),
        held=optional(PARTITIONS),
        positions=partition_of(At, tenure=number(), offset=number()),
    ),
    PartitionsRewound: fields_of(
        PartitionsRewound, positions=partition_to("offset", number()), by=TEXT
    ),
}
"""Every event that is known here."""

BY_NAME: Final = {kind.__name__: form for kind, form in FORMS.items()}
_EVENT, _VERSION = "event", "version"


def decode_event(value: bytes | None) -> Event | UnknownEvent:
    """The event in a record's value.

    Raises:
        MalformedRecord: it is none, naming the field; no other exception, whatever the bytes.

    >>> decode_event(b'{"event": "MemberLeft", "version": 1, "member": "m1", "reason": "done"}')
    MemberLeft(member='m1', reason='done')
    >>> decode_event(b'{"event": "MemberLeft", "version": 2}')
    UnknownEvent(name='MemberLeft', version=2)
    >>> decode_event(b'{"event": "MemberLeft", "version": 1, "member": 7, "reason": "done"}')
    Traceback (most recent call last):
    kafka_marshal.codec.MalformedRecord: malformed member: a number is no text
    """
    given = _parsed(value)
    name = of_object(given, "", _EVENT, NAME)
    version = of_object(given, "", _VERSION, number())
    form = BY_NAME.get(name)
    if form is None or version != KNOWN_VERSION:
        return UnknownEvent(name, version)
    event: Event = form.read("", given)
    return event


def _parsed(value: bytes | None) -> Mapping[str, Json]:
    if not value:
        raise MalformedRecord("value", "null" if value is None else "empty")
    try:
        given = json.loads(value.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError):  # not UTF-8, no JSON, a number of thousands of digits
        raise MalformedRecord("value", "it is no JSON in UTF-8") from None
    if not isinstance(given, dict):
        raise MalformedRecord("value", "it is no JSON object")
    return given


def _no_constant(name: str) -> Json:
    """`NaN` and `Infinity` are no JSON, though Python's parser takes them."""
    raise ValueError(name)


def encode_event(event: Event) -> bytes:
    """The record value of an event.

    Raises:
        UnsendableMessage: it would not decode to itself; `field` says where.

    >>> encode_event(MemberLeft("m1", "done"))
    b'{"event":"MemberLeft","version":1,"member":"m1","reason":"done"}'
    """
    kind = type(event)
    written = {_EVENT: kind.__name__, _VERSION: KNOWN_VERSION, **FORMS[kind].write(event)}
    try:
        value = json.dumps(written, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
        if decode_event(value) != event:
            raise UnsendableMessage("event", "it would decode to another one")
    except UnicodeEncodeError as error:
        raise UnsendableMessage("event", f"something in it is no text: {error.reason}") from None
    except MalformedRecord as error:
        raise UnsendableMessage(error.field, error.reason) from None
    return value

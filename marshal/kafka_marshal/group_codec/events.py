"""The table of events: the fields of each, and the form of each field.

An event is a JSON object, `{"event": "MemberLeft", "version": 1, ...}`, readable by Spark's
`from_json` and by a user with a console consumer. Unknown fields are ignored.
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
    ByName,
    ByPartition,
    Checked,
    Fields,
    Form,
    Json,
    OneOf,
    OnlyField,
    OrNull,
    Whole,
    malformed,
    of_object,
)

CONTROLLER: Final[Mapping[str, Form[Any]]] = {
    "controller_id": Whole(most=2**31 - 1),
    "host": TEXT,
    "port": Whole(most=2**16 - 1),
}
"""The controller, and its address."""


def _expect_few(where: str, topics: Mapping[str, Topic]) -> None:
    """A record of a few bytes must not fill the memory."""
    if sum(topic.count for topic in topics.values()) > PARTITIONS_MAX:
        malformed(where, f"more than {PARTITIONS_MAX} partitions")


def _expect_possible(where: str, group: Group) -> None:
    """Check that a fold can have this group: a reader must not begin with any other."""
    broken = impossible(group)
    if broken is not None:
        malformed(where, f"no group is like that: {broken.value}")


_TOPIC: Final = Fields(Topic, {"count": Whole(least=1, most=PARTITIONS_MAX), "topic_id": TEXT})
TOPICS: Final = Checked(ByName(_TOPIC), _expect_few)
"""Topics by name, of not too many partitions."""
_WISH: Final[Mapping[str, Form[Any]]] = {
    "topics": NAMES,
    "static": ByPartition(OnlyField("number", Whole(least=1))),
}
_MEMBER: Final = Fields(GroupMember, {"client_id": TEXT, **_WISH, "joined_at": Whole(least=1)})

GROUP: Final = Fields(
    Group,
    {
        "session_timeout_ms": Whole(least=1),
        "rebalance": OneOf(Rebalance),
        "strategy": TEXT,
        "ephemeral": FLAG,
        "topics": TOPICS,
        "members": ByName(_MEMBER),
        "generation": Whole(least=1),
        "rebalanced_at": Whole(),
        "target_of": Fields(TargetOf, {"members": ByName(Fields(Wish, _WISH)), "topics": TOPICS}),
        "partitions": ByPartition(
            Fields(
                GroupPartition,
                {
                    "owner": OrNull(NAME),
                    "tenure": Whole(),
                    "target": OrNull(NAME),
                    "revoking": Whole(),
                    "position": Whole(least=NO_POSITION),
                },
            )
        ),
    },
)
"""A whole group, as a snapshot has it."""

_FIELDS: Final[Mapping[type[Event], Mapping[str, Form[Any]]]] = {
    ControllerStarted: {"supersedes": Whole(least=NEVER_STARTED_EPOCH), **CONTROLLER},
    ControllershipSnapshot: CONTROLLER,
    GroupCreated: {
        "session_timeout_ms": Whole(least=1),
        "topics": TOPICS,
        "rebalance": OneOf(Rebalance),
        "strategy": TEXT,
        "ephemeral": FLAG,
    },
    GroupDeleted: {},
    GroupSnapshot: {"state": Checked(GROUP, _expect_possible)},
    MemberRegistered: {
        "member": NAME,
        "client_id": TEXT,
        "topics": NAMES,
        "static": PARTITIONS,
        "fresh": FLAG,
    },
    MemberLeft: {"member": NAME, "reason": TEXT},
    MemberExpired: {"member": NAME, "reason": TEXT, "silent_ms": Whole()},
    PartitionsCounted: {"topic": NAME, "count": Whole(most=PARTITIONS_MAX), "topic_id": TEXT},
    Rebalanced: {"target": ByPartition(OnlyField("member", NAME))},
    Reconciled: {
        "member": NAME,
        "as_of": Whole(least=-1),
        "held": OrNull(PARTITIONS),
        "positions": ByPartition(Fields(At, {"tenure": Whole(), "offset": Whole()})),
    },
    PartitionsRewound: {"positions": ByPartition(OnlyField("offset", Whole())), "by": TEXT},
}
FORMS: Final[Mapping[type[Event], Form[Any]]] = {
    kind: Fields(kind, fields) for kind, fields in _FIELDS.items()
}
"""Every event that is known here."""

BY_NAME: Final = {kind.__name__: form for kind, form in FORMS.items()}
_EVENT, _VERSION = "event", "version"


def _no_constant(_: str) -> Json:
    """Refuse `NaN` and `Infinity`, which are not JSON, though Python's parser accepts them."""
    raise ValueError


_DECODER: Final = json.JSONDecoder(parse_constant=_no_constant)
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


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
    version = of_object(given, "", _VERSION, Whole())
    form = BY_NAME.get(name)
    if form is None or version != KNOWN_VERSION:
        return UnknownEvent(name, version)
    event: Event = form.read("", given)
    return event


def _parsed(value: bytes | None) -> Mapping[str, Json]:
    if not value:
        raise MalformedRecord("value", "null" if value is None else "empty")
    try:
        given = _DECODER.decode(value.decode())
    except (ValueError, RecursionError):  # not UTF-8, no JSON, a number of thousands of digits
        raise MalformedRecord("value", "it is no JSON in UTF-8") from None
    if not isinstance(given, dict):
        raise MalformedRecord("value", "it is no JSON object")
    return given


def encode_event(event: Event) -> bytes:
    """The record value of an event.

    Raises:
        UnsendableMessage: it would not decode to itself; `field` names the place.

    >>> encode_event(MemberLeft("m1", "done"))
    b'{"event":"MemberLeft","version":1,"member":"m1","reason":"done"}'
    """
    kind = type(event)
    written = {_EVENT: kind.__name__, _VERSION: KNOWN_VERSION, **FORMS[kind].write(event)}
    try:
        value = _ENCODER.encode(written).encode()
        if decode_event(value) != event:
            raise UnsendableMessage("event", "it would decode to another one")
    except UnicodeEncodeError as error:
        raise UnsendableMessage("event", f"something in it is no text: {error.reason}") from None
    except MalformedRecord as error:
        raise UnsendableMessage(error.field, error.reason) from None
    return value

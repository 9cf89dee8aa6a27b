"""A recorded run: the log, and what each consumer did, in the order in which it happened.

This room knows the form (docs/validate.md) and what an event says. It does not know what may
happen: it takes every event that is well-formed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

import attrs
from attrs import field, frozen

from kafka_marshal.codec import encode, encode_headers
from kafka_marshal.core.messages import NO_HEADERS, Headers, Message, Record
from kafka_marshal.core.state import FENCED, ClaimKey, Rules, milliseconds
from kafka_marshal.machines.consumer.consumer import InstanceConfig, Mode

FORM: Final = 1
"""The version of the form."""

Content: TypeAlias = tuple[int, Message | None, Headers]
"""What an instance makes of a record: its partition, its message without `unix_s`, its headers."""

Fields: TypeAlias = dict[str, object]
"""A line of a run, as JSON."""


def unstamped(message: Message) -> Message:
    """The message without the time of sending, which only its sender's machine knows.

    No rule of the specification looks at it, and who records may do so before the stamp is made.
    """
    return attrs.evolve(message, unix_s=0)


@frozen
class RecordedInstance:
    """One instance of which the run has recorded everything."""

    me: InstanceConfig
    group: str


@frozen(slots=False)
class RunEvent:
    """One line of a run."""

    where: str
    """File and line."""
    fields: Fields = field(repr=False, eq=False)
    """The line itself, so that a slice of a run is made of the same lines."""


@frozen(slots=False)
class Started(RunEvent):
    """An instance began to read: at these offsets of the partitions, and of the others at 0."""

    instance: str
    first: Mapping[int, int]


@frozen(slots=False)
class Crashed(RunEvent):
    """An instance is gone, in whatever way; what it produced may still land."""

    instance: str


@frozen(slots=False)
class GaveUp(RunEvent):
    """It no longer waits for the outcome of its ClaimingPartition."""

    instance: str
    topic: str
    topic_partition: int


@frozen(slots=False)
class BeginsAt(RunEvent):
    """Where its start policy begins with a claim, where nobody ever set a position."""

    instance: str
    topic: str
    topic_partition: int
    offset: int


@frozen(slots=False)
class Gone(RunEvent):
    """The data partition holds no messages below this any more: retention has removed them."""

    instance: str
    topic: str
    topic_partition: int
    below: int


@frozen(slots=False)
class Sent(RunEvent):
    """It produced a record, which may land later or never."""

    instance: str
    partition: int
    """The coordinating partition."""
    message: Message | None
    """None where the value is not a message."""
    headers: Headers

    @property
    def content(self) -> Content:
        """By this it is found again in the log."""
        message = self.message
        return self.partition, None if message is None else unstamped(message), self.headers


@frozen(slots=False)
class Appended(RunEvent):
    """The broker stored a record."""

    partition: int
    offset: int
    record: Record | None
    """None where the value is not a message."""

    @property
    def content(self) -> Content:
        """By this it is known which `Sent` it was."""
        record = self.record
        if record is None:
            return self.partition, None, NO_HEADERS
        return self.partition, unstamped(record.message), record.headers


@frozen(slots=False)
class Read(RunEvent):
    """An instance folded a record."""

    instance: str
    partition: int
    offset: int


@frozen(slots=False)
class Gap(RunEvent):
    """An instance found that records are gone, and goes on here as one that joins late."""

    instance: str
    partition: int
    """The coordinating partition."""
    offset: int


@frozen(slots=False)
class Processed(RunEvent):
    """It processed the messages [start, stop) of a data partition."""

    instance: str
    topic: str
    topic_partition: int
    start: int
    stop: int


@frozen
class Setting:
    """What is true of a run from its beginning to its end: its first line."""

    rules: Rules = FENCED
    members: Mapping[str, RecordedInstance] = field(factory=dict)
    """Every instance that was recorded, by its id. Records of others are folded, not explained."""
    partitions: int = 1
    """How many partitions the coordination topic has: it says where a claim lives."""
    idempotent: bool = True
    """Records of one instance land in the order in which they were sent, and once."""


@frozen
class Run:
    """A setting, and the events in it."""

    setting: Setting
    events: Iterable[RunEvent]
    """May be read once only."""


# --- written --------------------------------------------------------------------------------------


def header(setting: Setting) -> Fields:
    """The first line of a run."""
    rules = setting.rules
    return {
        "run": FORM,
        "rules": {
            "heartbeat_interval_s": _seconds(rules.heartbeat_interval_ms),
            "pause_max_s": _seconds(rules.pause_max_ms),
            "clock_rewind_max_s": _seconds(rules.clock_rewind_max_ms),
        },
        "coordination_partitions": setting.partitions,
        "idempotent": setting.idempotent,
        "instances": [
            {
                "instance_id": member.me.instance_id,
                "client_id": member.me.client_id,
                "group_id": member.group,
                "mode": member.me.mode.value,
                "window": member.me.window,
                "batch": member.me.batch,
                "start": member.me.start,
                "admin": member.me.admin,
                "certifies": member.me.certifies,
            }
            for member in setting.members.values()
        ],
    }


def _seconds(duration_ms: float) -> float:
    seconds = duration_ms / 1000
    return int(seconds) if seconds == int(seconds) else seconds


def started(instance: str, first: Mapping[int, int] | None = None) -> Fields:
    """A line of a run; so are the following."""
    starts = {str(partition): offset for partition, offset in (first or {}).items()}
    return {"event": "started", "instance": instance, "first": starts}


def crashed(instance: str) -> Fields:
    """An instance is gone."""
    return {"event": "crashed", "instance": instance}


def gave_up(instance: str, key: ClaimKey) -> Fields:
    """It no longer waits for the outcome of its request."""
    return _of_claim("gave_up", instance, key)


def begins_at(instance: str, key: ClaimKey, offset: int) -> Fields:
    """Its start policy begins there."""
    return {**_of_claim("begins_at", instance, key), "offset": offset}


def gone(instance: str, key: ClaimKey, below: int) -> Fields:
    """Its topic holds nothing below this offset any more."""
    return {**_of_claim("gone", instance, key), "below": below}


def sent(instance: str, partition: int, message: Message, headers: Headers) -> Fields:
    """It produced this."""
    return {"event": "sent", "instance": instance, "partition": partition} | _content(
        message, headers
    )


def appended(record: Record) -> Fields:
    """The broker stored this; its stamp is the broker's."""
    return {
        "event": "appended",
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "timestamp_type": 2,
    } | _content(record.message, record.headers)


def _of_claim(event: str, instance: str, key: ClaimKey) -> Fields:
    data = {"topic": key.topic, "topic_partition": key.topic_partition}
    return {"event": event, "instance": instance, **data}


def _content(message: Message, headers: Headers) -> Fields:
    content: Fields = {"value": encode(message).decode("utf-8", "surrogateescape")}
    if headers.present:
        content["headers"] = {name: value.decode() for name, value in encode_headers(headers)}
    return content


def read(instance: str, partition: int, offset: int) -> Fields:
    """It folded this record."""
    return {"event": "read", "instance": instance, "partition": partition, "offset": offset}


def gap(instance: str, partition: int, offset: int) -> Fields:
    """It found that records are gone, and goes on at this offset."""
    return {"event": "gap", "instance": instance, "partition": partition, "offset": offset}


def processed(instance: str, key: ClaimKey, start: int, stop: int) -> Fields:
    """It processed these messages."""
    return {**_of_claim("processed", instance, key), "from": start, "to": stop}


def without(setting: Setting, instances: Iterable[str]) -> Setting:
    """The same setting without these: their records become strangers'."""
    gone = set(instances)
    members = {name: who for name, who in setting.members.items() if name not in gone}
    return attrs.evolve(setting, members=members)


def rules_of(heartbeat_interval_s: float, pause_max_s: float, clock_rewind_max_s: float) -> Rules:
    """The fenced rules with these durations; ValueError if one is none."""
    return attrs.evolve(
        FENCED,
        heartbeat_interval_ms=milliseconds(heartbeat_interval_s),
        pause_max_ms=int(milliseconds(pause_max_s)),
        clock_rewind_max_ms=int(milliseconds(clock_rewind_max_s)),
    )


def lines(setting: Setting, events: Iterable[Fields]) -> Iterator[Fields]:
    """A whole run, line by line."""
    yield header(setting)
    yield from events


MODES: Final = {mode.value: mode for mode in Mode}

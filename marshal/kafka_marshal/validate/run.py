"""A recorded run: the log, and the actions of each consumer, in the order in which they happened.

This module knows the file format (docs/validate.md) and the meaning of events. It does not know
which events are allowed: it accepts every event that is well-formed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import attrs
from attrs import field, frozen

from kafka_marshal.codec import encode, encode_headers
from kafka_marshal.core.messages import NO_HEADERS, Headers, Message, Record
from kafka_marshal.core.ranges.messages import NO_RANGE_HEADERS, RangeHeaders, RangesMessage
from kafka_marshal.core.ranges.reader import FoldedState, LogEntry
from kafka_marshal.core.state import FENCED, ClaimKey, Rules, milliseconds
from kafka_marshal.machines.consumer.consumer import InstanceConfig, Mode
from kafka_marshal.machines.ranges.effects import SendRecord
from kafka_marshal.range_codec import encode_range, encode_range_headers

FORM: Final = 1
"""The version of the format."""

Content: TypeAlias = tuple[int, Message | None, Headers] | tuple[int, SendRecord]
"""An instance's content of a record: its partition, its message without `unix_s`, its headers.

For participants of a shared claim: all that a reader of ranges decodes."""

Fields: TypeAlias = dict[str, object]
"""A line of a run, as JSON."""


def unstamped(message: Message) -> Message:
    """The message without the time of sending, which only its sender's machine knows.

    No rule of the specification depends on it, and a run may be recorded before the time is set.
    """
    return attrs.evolve(message, unix_s=0)


def of_ranges(
    message: RangesMessage,
    headers: Headers,
    range_headers: RangeHeaders = NO_RANGE_HEADERS,
    checkpoint: FoldedState | None = None,
) -> SendRecord:
    """A participant's record, as its machine makes it, and without the time of sending.

    `marshal-done` is decoded twice, since both kinds of headers have it.
    """
    if headers.done is not None and headers.done == range_headers.done:
        headers = attrs.evolve(headers, done=None)
    return SendRecord(attrs.evolve(message, unix_s=0), headers, range_headers, checkpoint)


@frozen
class RecordedInstance:
    """One instance whose actions were all recorded."""

    me: InstanceConfig
    group: str


@frozen(slots=False)
class RunEvent:
    """One line of a run."""

    where: str
    """File and line."""
    fields: Fields = field(repr=False, eq=False)
    """The line itself, so that a slice of a run consists of the same lines."""


@frozen(slots=False)
class Started(RunEvent):
    """An instance began to read: at these offsets of the partitions, at 0 of all others."""

    instance: str
    first: Mapping[int, int]


@frozen(slots=False)
class Crashed(RunEvent):
    """An instance ended, in any way; records that it sent may still land."""

    instance: str


@frozen(slots=False)
class GaveUp(RunEvent):
    """It stopped waiting for the outcome of its ClaimingPartition, or of a request for a range."""

    instance: str
    topic: str
    topic_partition: int
    shared: bool = False
    """Whether it did so as a participant of the shared claim."""


@frozen(slots=False)
class BeginsAt(RunEvent):
    """The start policy's offset of a claim, for positions that were never set."""

    instance: str
    topic: str
    topic_partition: int
    offset: int


@frozen(slots=False)
class Gone(RunEvent):
    """Retention has removed the messages of the data partition below this offset."""

    instance: str
    topic: str
    topic_partition: int
    below: int


@frozen(slots=False)
class Sent(RunEvent):
    """It sent a record, which may land later, or never."""

    instance: str
    partition: int
    """The coordinating partition."""
    message: Message | None
    """None if the value is no message, or a ClaimingRange."""
    headers: Headers
    shared: SendRecord | None = None
    """The record of a participant: a ClaimingRange, or a message of the anchor.

    Records of a claim that it owns alone have the same form as other members'."""

    @property
    def said(self) -> RangesMessage | None:
        """The message as a reader of ranges decodes it; None if the value is none."""
        return self.message if self.shared is None else self.shared.message

    @property
    def content(self) -> Content:
        """Identifies the record in the log."""
        if self.shared is not None:
            return self.partition, self.shared
        message = self.message
        return self.partition, None if message is None else unstamped(message), self.headers


@frozen(slots=False)
class Appended(RunEvent):
    """The broker appended a record."""

    partition: int
    offset: int
    record: Record | None
    """None if the value is no message, or a ClaimingRange."""
    ranged: LogEntry | None = None
    """The record as a reader of ranges decodes it, if that is more than `record`, or if
    participants of a shared claim may have sent it."""
    shared: SendRecord | None = None
    """As in `Sent`."""

    @property
    def said(self) -> RangesMessage | None:
        """The message as a reader of ranges decodes it; None if the value is none."""
        if self.ranged is not None:
            return self.ranged.record.message
        return None if self.record is None else self.record.message

    @property
    def sender(self) -> str | None:
        """The instance in the record; None if the value is no message."""
        said = self.said
        return None if said is None else said.instance_id

    @property
    def content(self) -> Content:
        """Identifies the matching `Sent`."""
        if self.shared is not None:
            return self.partition, self.shared
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
    """An instance found that records are gone, and continues here like one that joins late."""

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


@frozen(slots=False)
class Shares(RunEvent):
    """It shares a data partition from here on."""

    instance: str
    topic: str
    topic_partition: int
    view: int
    """It has read every record of the claim below this coordinating offset."""
    start: int
    """The start policy's offset, for a position that was never set."""
    known: bool
    """Whether it knows the claim and its ranges: it read the log from its beginning."""


@frozen(slots=False)
class Begun(RunEvent):
    """It may hand over the messages [start, stop) of a range, so they count as begun."""

    instance: str
    topic: str
    topic_partition: int
    id: int
    start: int
    stop: int


@frozen(slots=False)
class Finished(RunEvent):
    """The messages [start, stop) of a range are processed, or do not exist."""

    instance: str
    topic: str
    topic_partition: int
    id: int
    start: int
    stop: int


@frozen(slots=False)
class TookBack(RunEvent):
    """No message of a range at or above `start` was begun after all."""

    instance: str
    topic: str
    topic_partition: int
    id: int
    start: int


@frozen(slots=False)
class Leaves(RunEvent):
    """As a participant, it requests no more ranges."""

    instance: str
    topic: str
    topic_partition: int


@frozen(slots=False)
class HandedOver(RunEvent):
    """At most once: all messages of a range that the application received."""

    instance: str
    topic: str
    topic_partition: int
    id: int
    pieces: tuple[tuple[int, int], ...]
    """Each [start, stop), in the order of delivery."""


ShareEvent: TypeAlias = Shares | Begun | Finished | TookBack | Leaves | HandedOver
"""The events of a participant of a shared claim, except sending and giving up."""
SHARE_EVENTS: Final = (Shares, Begun, Finished, TookBack, Leaves, HandedOver)


@frozen
class Setting:
    """The constant facts of a run: its first line."""

    rules: Rules = FENCED
    members: Mapping[str, RecordedInstance] = field(factory=dict)
    """Every recorded instance, by its id. Records of others are folded, not explained."""
    partitions: int = 1
    """The number of partitions of the coordination topic, which determines a claim's partition."""
    idempotent: bool = True
    """Whether records of one instance land once, and in the order in which they were sent."""


@frozen
class Run:
    """A setting, and its events."""

    setting: Setting
    events: Iterable[RunEvent]
    """May be iterated only once."""
    starts: Sequence[Mapping[int, int]] | None = None
    """The offsets at which instances begin to read, by partition, in the order of their `started`.

    With it, records that no instance will read need not be kept. None if unknown beforehand, or if
    an instance shares a partition: then all of the log is needed."""


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
    """A line of a run, like the following functions."""
    starts = {str(partition): offset for partition, offset in (first or {}).items()}
    return {"event": "started", "instance": instance, "first": starts}


def crashed(instance: str) -> Fields:
    """An instance ended."""
    return {"event": "crashed", "instance": instance}


def gave_up(instance: str, key: ClaimKey, *, shared: bool = False) -> Fields:
    """It stopped waiting for the outcome of its request."""
    fields = _of_claim("gave_up", instance, key)
    return {**fields, "shared": True} if shared else fields


def begins_at(instance: str, key: ClaimKey, offset: int) -> Fields:
    """The start policy's offset of a claim."""
    return {**_of_claim("begins_at", instance, key), "offset": offset}


def gone(instance: str, key: ClaimKey, below: int) -> Fields:
    """The messages of its topic below this offset were removed."""
    return {**_of_claim("gone", instance, key), "below": below}


def sent(instance: str, partition: int, message: Message, headers: Headers) -> Fields:
    """It sent this record."""
    return {"event": "sent", "instance": instance, "partition": partition} | _content(
        message, headers
    )


def sent_of_ranges(instance: str, partition: int, send: SendRecord) -> Fields:
    """It sent this record as a participant of a shared claim."""
    pairs = encode_range_headers(send.headers, send.range_headers, send.checkpoint)
    return {
        "event": "sent",
        "instance": instance,
        "partition": partition,
        "value": encode_range(send.message).decode("utf-8", "surrogateescape"),
        "headers": {name: value.decode("utf-8", "surrogateescape") for name, value in pairs},
    }


def shares(instance: str, key: ClaimKey, view: int, start: int, known: bool) -> Fields:
    """It shares this claim from here on."""
    more = {"view": view, "start": start, "known": known}
    return {**_of_claim("shares", instance, key), **more}


def begun(instance: str, key: ClaimKey, id_: int, start: int, stop: int) -> Fields:
    """It may hand over these messages of a range."""
    return _of_messages("begun", instance, key, id_, start, stop)


def finished(instance: str, key: ClaimKey, id_: int, start: int, stop: int) -> Fields:
    """These messages of a range are processed."""
    return _of_messages("finished", instance, key, id_, start, stop)


def took_back(instance: str, key: ClaimKey, id_: int, start: int) -> Fields:
    """No message of a range from here on was begun after all."""
    return {**_of_claim("took_back", instance, key), "range": id_, "from": start}


def leaves(instance: str, key: ClaimKey) -> Fields:
    """As a participant, it requests no more ranges."""
    return _of_claim("leaves", instance, key)


def handed_over(
    instance: str, key: ClaimKey, id_: int, pieces: Iterable[tuple[int, int]]
) -> Fields:
    """The application received these messages of a range, and receives no others."""
    messages = [[start, stop] for start, stop in pieces]
    return {**_of_claim("handed_over", instance, key), "range": id_, "messages": messages}


def appended(record: Record) -> Fields:
    """The broker appended this; the timestamp is the broker's."""
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


def _of_messages(
    event: str, instance: str, key: ClaimKey, id_: int, start: int, stop: int
) -> Fields:
    return {**_of_claim(event, instance, key), "range": id_, "from": start, "to": stop}


def _content(message: Message, headers: Headers) -> Fields:
    content: Fields = {"value": encode(message).decode("utf-8", "surrogateescape")}
    if headers.present:
        content["headers"] = {name: value.decode() for name, value in encode_headers(headers)}
    return content


def read(instance: str, partition: int, offset: int) -> Fields:
    """It read this record."""
    return {"event": "read", "instance": instance, "partition": partition, "offset": offset}


def gap(instance: str, partition: int, offset: int) -> Fields:
    """It found that records are gone, and continues at this offset."""
    return {"event": "gap", "instance": instance, "partition": partition, "offset": offset}


def processed(instance: str, key: ClaimKey, start: int, stop: int) -> Fields:
    """It processed these messages."""
    return {**_of_claim("processed", instance, key), "from": start, "to": stop}


def without(setting: Setting, instances: Iterable[str]) -> Setting:
    """The same setting without these instances: their records become strangers'."""
    gone = set(instances)
    members = {name: who for name, who in setting.members.items() if name not in gone}
    return attrs.evolve(setting, members=members)


def rules_of(heartbeat_interval_s: float, pause_max_s: float, clock_rewind_max_s: float) -> Rules:
    """The fenced rules with these durations; raises ValueError if one is invalid."""
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

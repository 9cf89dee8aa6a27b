"""Logs of `__marshal_groups` as a source gives them, and what a fold makes of them."""

from __future__ import annotations

from collections.abc import Iterable

from kafka_marshal.capture import RawRecord, TimestampType
from kafka_marshal.core.groups.events import ControllerStarted, EventRecord, UnknownEvent
from kafka_marshal.core.messages import NOT_DECIMAL
from kafka_marshal.group_codec.events import encode_event
from kafka_marshal.group_codec.records import encode_headers
from kafka_marshal.replay.groups.groups_fold import GroupsFold, GroupsJudging
from kafka_marshal.replay.model.events import LogPartition
from kafka_marshal.replay.model.tables import Rows


def raw_of(record: EventRecord) -> RawRecord:
    """The record's bytes, also of one that no controller would send."""
    event = record.event
    if isinstance(event, UnknownEvent):
        value = f'{{"event": "{event.name}", "version": {event.version}}}'.encode()
    else:
        value = encode_event(event)
    fenced = not isinstance(event, ControllerStarted)
    headers = encode_headers(record.epoch, record.number) if fenced else []
    kept = tuple(pair for pair in headers if pair[1] != str(NOT_DECIMAL).encode())
    return RawRecord(
        record.partition,
        record.offset,
        record.timestamp_ms,
        value,
        kept,
        TimestampType.LOG_APPEND_TIME,
        record.group.encode() or None,
    )


def folded(raws: Iterable[RawRecord], judging: GroupsJudging | None = None) -> Rows:
    """All rows of a log."""
    fold = GroupsFold(LogPartition("log", 0), judging)
    for raw in raws:
        fold.feed(raw)
    fold.close()
    return fold.drain()

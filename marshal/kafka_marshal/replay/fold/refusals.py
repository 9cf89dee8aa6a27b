"""The rows of the table `refusals`: refused records, and the guard that refused each."""

from __future__ import annotations

from kafka_marshal.core.messages import Record, ReleaseGroup
from kafka_marshal.core.ranges.messages import RangesRecord
from kafka_marshal.core.state import Claim
from kafka_marshal.replay.model.events import JudgedRecord, Judgement
from kafka_marshal.replay.model.published import RefusalRow
from kafka_marshal.replay.model.rows import readable_bytes


def refusal_row(
    sighting: JudgedRecord,
    record: Record | RangesRecord,
    verdict: Judgement,
    before: Claim | None,
) -> RefusalRow:
    """The row of one record; `before` is its claim, if it has one that is certain."""
    message = record.message
    of_group = isinstance(message, ReleaseGroup)
    owned = before is not None and before.owned
    return RefusalRow(
        group=message.group_id,
        topic=None if of_group else message.topic,
        topic_partition=None if of_group else message.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp_ms,
        type=type(message).__name__,
        guard=verdict.value,
        sender_instance=message.instance_id,
        sender_client=message.client_id,
        sender_unix_s=message.unix_s,
        message_offset=getattr(message, "offset", None),
        owner_instance=before.owner_instance if before and owned else None,
        owner_client=before.owner_client if before and owned else None,
        owner_epoch=before.epoch if before else None,
        position=before.position if before else None,
        value=readable_bytes(sighting.raw.value),
    )

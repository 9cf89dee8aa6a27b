"""Builds a finding about a group: its severity, its evidence, its location.

It does not know the meaning of codes: the observer that finds something writes the sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kafka_marshal.core.groups.state import TopicPartition
from kafka_marshal.replay.groups.catalogue import GROUP_CATALOGUE
from kafka_marshal.replay.groups.seen import SeenEvent
from kafka_marshal.replay.model.published import FindingRow

PROOFS_MAX: Final = 8
"""Records shown for one finding: the first ones and the last."""


def member_name(member: str | None, client: str | None) -> str:
    """A member: its client id, and its member id.

    >>> member_name("6cd48aa5", "c1")
    'c1 (member 6cd48aa5)'
    """
    return f"{client or 'a client that is not known'} (member {member or 'without id'})"


def finding(
    code: str,
    sentence: str,
    proofs: Sequence[SeenEvent],
    *,
    group: str | None = None,
    at: TopicPartition | None = None,
    member: str | None = None,
    client: str | None = None,
    count: int = 1,
    place: SeenEvent | None = None,
) -> FindingRow:
    """Make the row of a finding.

    Args:
        code: as in the catalogue.
        sentence: who, what, when, at which offsets.
        proofs: events that prove it, in log order; of many, the first few and the last are shown.
        group: the group; None for the controllership.
        at: the group's partition.
        member: the member; `client` is its client id.
        client: see `member`.
        count: the number of such events or partitions.
        place: the event of its mark on a timeline; None: the last of `proofs`.
    """
    kind = GROUP_CATALOGUE[code]
    first, last = proofs[0], proofs[-1]
    where = place or last
    shown = [*proofs[: PROOFS_MAX - 1], *proofs[PROOFS_MAX - 1 :][-1:]]
    return FindingRow(
        code=code,
        severity=kind.severity,
        property=kind.property,
        group=group,
        topic=None if at is None else at.topic,
        topic_partition=None if at is None else at.partition,
        offset=where.offset if place is not None else first.offset,
        timestamp_ms=where.raw.timestamp_ms if place is not None else first.raw.timestamp_ms,
        last_offset=last.offset,
        last_timestamp_ms=last.raw.timestamp_ms,
        count=count,
        instance=member,
        client=client,
        sentence=sentence,
        records=tuple(each.proof() for each in shown),
    )


def of_the_input(code: str, sentence: str, proofs: Sequence[SeenEvent], count: int) -> FindingRow:
    """The row of a finding about the input, which may have no proof at all."""
    kind = GROUP_CATALOGUE[code]
    place = proofs[0] if proofs else None
    return FindingRow(
        code=kind.code,
        severity=kind.severity,
        property=kind.property,
        offset=None if place is None else place.offset,
        timestamp_ms=None if place is None else place.raw.timestamp_ms,
        last_offset=None if place is None else place.offset,
        last_timestamp_ms=None if place is None else place.raw.timestamp_ms,
        count=count,
        sentence=sentence,
        records=tuple(each.proof() for each in proofs),
    )

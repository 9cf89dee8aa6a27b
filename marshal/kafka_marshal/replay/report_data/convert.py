"""Converts table rows to the values of a page, one function per kind.

This module knows columns and values; it does not know which rows a page shows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Final

from kafka_marshal.replay.findings.catalogue import CATALOGUE, FindingKind
from kafka_marshal.replay.model.folded_log import CLAIM, ClaimName, CountedClaim
from kafka_marshal.replay.model.internal import MarkRow, PartitionRow, RangeRow
from kafka_marshal.replay.model.published import (
    ClaimRow,
    DivergenceRow,
    FindingRow,
    ProofRow,
    TenureRow,
)
from kafka_marshal.replay.model.tables import LANES, MARKS, RANGES, TENURES, Rows
from kafka_marshal.replay.report.base import data as page

LANE_MAX: Final = 2000
"""The most tenures or marks of one lane to draw; the first ones are kept."""
_NAME: Final = attrgetter(*CLAIM)


def name_of(row: ClaimRow | FindingRow | DivergenceRow | CountedClaim) -> ClaimName:
    """The claim of a row."""
    return _NAME(row)


def claim_id(name: ClaimName) -> page.ClaimId:
    """The claim of that name."""
    return page.ClaimId(*name)


def logs_of(partitions: Iterable[PartitionRow], names: Iterable[str]) -> Iterator[page.ReportLog]:
    """Yield the logs with these names, from the rows of all their partitions."""
    by_log: dict[str, list[PartitionRow]] = defaultdict(list)
    for row in partitions:
        by_log[row.log].append(row)
    for name in names:
        rows = by_log[name]
        yield page.ReportLog(
            name=name,
            records=sum(row.records for row in rows),
            from_ms=min((row.from_ms for row in rows), default=None),
            to_ms=max((row.to_ms for row in rows), default=None),
            partitions=len(rows),
            malformed=sum(row.malformed for row in rows),
            create_time=any(row.create_time for row in rows),
        )


def lane_of(rules: str, rows: Rows) -> page.Lane:
    """The lane of a claim under one rule set, from its rows."""
    drawn = rows[LANES][0] if rows[LANES] else None
    pauses: tuple[page.Pause, ...] = ()
    if drawn is not None:
        senders = drawn.pauses_by.split("\n")
        spans = zip(drawn.pauses_from_ms, drawn.pauses_until_ms, senders, strict=False)
        pauses = tuple(page.Pause(begin, until, by) for begin, until, by in spans)
    return page.Lane(
        rules=rules,
        tenures=tuple(tenure_of(row) for row in rows[TENURES][:LANE_MAX]),
        marks=tuple(mark_of(row) for row in rows[MARKS][:LANE_MAX]),
        pauses=pauses,
        beats_ms=() if drawn is None else drawn.beats_ms,
        ranges=tuple(range_of(row) for row in rows[RANGES][:LANE_MAX]),
    )


def range_of(row: RangeRow) -> page.RangeBar:
    """From a row of `ranges`."""
    return page.RangeBar(
        offset=row.offset,
        start=row.start,
        end=row.end,
        instance=row.instance,
        client=row.client,
        from_ms=row.from_ms,
        to_ms=row.to_ms,
        ended=row.ended,
    )


def tenure_of(row: TenureRow) -> page.TenureBar:
    """From a row of `tenures`."""
    return page.TenureBar(
        owner_instance=row.owner_instance,
        owner_client=row.owner_client,
        from_offset=row.from_offset,
        to_offset=row.to_offset,
        from_ms=row.from_ms,
        to_ms=row.to_ms,
        position_from=row.position_from,
        position_to=row.position_to,
        began=row.began,
        ended=None if row.to_offset is None else row.ended,
    )


def mark_of(row: MarkRow) -> page.RecordGlyph:
    """From a row of `marks`."""
    return page.RecordGlyph(
        offset=row.offset,
        at_ms=row.timestamp_ms,
        kind=page.MarkKind(row.kind),
        sender_instance=row.sender_instance,
        sender_client=row.sender_client,
        guard=row.guard,
        position=row.position,
    )


def finding_of(row: FindingRow, catalogue: Mapping[str, FindingKind] = CATALOGUE) -> page.Finding:
    """From a row of `findings`; the advice comes from the catalogue."""
    return page.Finding(
        rules=row.rules,
        code=row.code,
        severity=page.Severity(row.severity),
        property=row.property,
        sentence=row.sentence,
        log=row.log,
        coordinating_partition=row.coordinating_partition,
        group=row.group,
        topic=row.topic,
        topic_partition=row.topic_partition,
        offset=row.offset,
        at_ms=row.timestamp_ms,
        records=tuple(proof_of(proof) for proof in row.records),
        what_to_do=catalogue[row.code].what_to_do,
    )


def proof_of(row: ProofRow) -> page.FindingRecord:
    """A record that proves a finding."""
    return page.FindingRecord(
        offset=row.offset,
        at_ms=row.timestamp_ms,
        type=row.type or "malformed",
        sender_instance=row.sender_instance or "",
        sender_client=row.sender_client or "",
        verdict=row.verdict or "",
        text=row.value or "",
    )


def divergence_of(row: DivergenceRow) -> page.Divergence:
    """From a row of `divergences`."""
    return page.Divergence(
        claim=claim_id(name_of(row)),
        offset=row.offset,
        at_ms=row.timestamp_ms,
        until_offset=row.until_offset,
        until_ms=row.until_ms,
        original_instance=row.original_instance,
        original_client=row.original_client,
        original_position=row.original_position,
        fenced_instance=row.fenced_instance,
        fenced_client=row.fenced_client,
        fenced_position=row.fenced_position,
        text=row.value or "",
    )

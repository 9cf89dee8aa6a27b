"""Properties of the input: gaps, duplicates, a missing head, the timestamps' origin.

A fold sees one coordinating partition and counts; a finding about a whole log is made when all its
partitions are in.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, Literal

from attrs import frozen

from kafka_marshal.capture import RawRecord, TimestampType
from kafka_marshal.codec import MalformedRecord, coordinating_partition
from kafka_marshal.replay.errors import SourcesOverlap
from kafka_marshal.replay.findings.catalogue import CATALOGUE
from kafka_marshal.replay.model.chunk_items import LISTED_MAX, ChunkFacts, PlainRecord
from kafka_marshal.replay.model.internal import PartitionRow
from kafka_marshal.replay.model.phrasing import times
from kafka_marshal.replay.model.published import FindingRow, MalformedRow, ProofRow
from kafka_marshal.replay.model.rows import readable_bytes

_GAP_MEANS: Final = (
    "If records were lost there, who won or released a claim in them is not known, and a record of "
    "such an owner may be refused here although it was not."
)


@frozen
class Placed:
    """What has its records on one partition, by its name."""

    kind: Literal["topic", "group"]
    otherwise: str
    """What comes of records elsewhere."""


_TOPICS: Final = Placed("topic", "its consumers do not see each other's claims")


class Inputs:
    """What one coordinating partition of the input holds, before anything is decoded."""

    def __init__(
        self,
        coordination_partitions: int | None,
        gap_means: str = _GAP_MEANS,
        placed: Placed = _TOPICS,
    ) -> None:
        """`gap_means` says what records would have done that were lost in a gap."""
        self._gap_means = gap_means
        self._what = placed
        self._coordination_partitions = coordination_partitions
        self._last: RawRecord | None = None
        self._first_offset = 0
        self._last_offset = -1
        self._records = 0
        self._malformed: list[PlainRecord] = []
        self._malformed_count = 0
        self._from_ms = 0
        self._to_ms = 0
        self._types: dict[TimestampType, int] = defaultdict(int)
        self._gaps: list[tuple[int, int]] = []
        self._gaps_count = 0
        self._missing = 0
        self._same: list[PlainRecord] = []
        self._same_count = 0
        self._other: list[PlainRecord] = []
        self._other_count = 0
        self._misplaced: dict[str, tuple[int, RawRecord, int]] = {}
        self._placed: set[str] = set()
        self._begun = 0
        """How many misplaced names `begun` has given."""

    def observe(self, raw: RawRecord) -> None:
        """Count one record; they come in offset order."""
        self._types[raw.timestamp_type] += 1
        last = self._last
        if not self._records:
            self._first_offset = raw.offset
            self._from_ms = self._to_ms = raw.timestamp_ms
        self._records += 1
        self._from_ms = min(self._from_ms, raw.timestamp_ms)
        self._to_ms = max(self._to_ms, raw.timestamp_ms)
        if last is not None and raw.offset == last.offset:
            self._twice(raw, last)
            return
        if self._records > 1 and raw.offset > self._last_offset + 1:
            self._gap(self._last_offset + 1, raw.offset - 1)
        self._last = raw
        self._last_offset = raw.offset

    def went_on(self, last: RawRecord, count: int, from_ms: int, to_ms: int) -> None:
        """Count some records without a gap between them, stamped as the last of them is.

        They are not the first.
        """
        self._types[last.timestamp_type] += count
        self._records += count
        self._from_ms = min(self._from_ms, from_ms)
        self._to_ms = max(self._to_ms, to_ms)
        self._last = last
        self._last_offset = last.offset

    def forked(self, raw: RawRecord) -> None:
        """Note a record at an offset where an earlier run folded another one."""
        self._other_count += 1
        if len(self._other) < LISTED_MAX:
            self._other.append(PlainRecord.of(raw))

    def facts(self, facts: ChunkFacts) -> None:
        """Count a whole chunk of which nothing else is counted one by one.

        Raises:
            SourcesOverlap: it does not lie behind what was counted.
        """
        if not facts.ordered or facts.first_offset <= self._last_offset:
            raise SourcesOverlap(
                f"coordinating partition {facts.partition}: offset {facts.first_offset} after "
                f"{self._last_offset}"
            )
        if not self._records:
            self._first_offset = facts.first_offset
            self._from_ms, self._to_ms = facts.from_ms, facts.to_ms
        elif facts.first_offset > self._last_offset + 1:
            self._gap(self._last_offset + 1, facts.first_offset - 1)
        self._from_ms = min(self._from_ms, facts.from_ms)
        self._to_ms = max(self._to_ms, facts.to_ms)
        for kind, count in zip(TimestampType, facts.types, strict=True):
            self._types[kind] += count
        self._records += facts.records
        for begin, end in facts.first_gaps[: LISTED_MAX - len(self._gaps)]:
            self._gaps.append((begin, end))
        self._gaps_count += facts.gaps
        self._missing += facts.missing
        self._last_offset = facts.last_offset
        self._same_count += facts.same
        self._same += facts.first_same[: LISTED_MAX - len(self._same)]
        self._other_count += facts.other
        self._other += facts.first_other[: LISTED_MAX - len(self._other)]

    def _gap(self, begin: int, end: int) -> None:
        self._gaps_count += 1
        self._missing += end - begin + 1
        if len(self._gaps) < LISTED_MAX:
            self._gaps.append((begin, end))

    def _twice(self, raw: RawRecord, last: RawRecord) -> None:
        if (raw.timestamp_ms, raw.value, raw.headers) == (
            last.timestamp_ms,
            last.value,
            last.headers,
        ):
            self._same_count += 1
            if len(self._same) < LISTED_MAX:
                self._same.append(PlainRecord.of(raw))
        else:
            self.forked(raw)

    def malformed(self, raw: RawRecord, error: MalformedRecord) -> MalformedRow:
        """The value is no message; the row that says why."""
        self._malformed_count += 1
        if len(self._malformed) < LISTED_MAX:
            self._malformed.append(PlainRecord.of(raw))
        return MalformedRow(
            offset=raw.offset,
            timestamp_ms=raw.timestamp_ms,
            field=error.field,
            reason=error.reason,
            value=readable_bytes(raw.value),
        )

    def more_about(self, name: str, count: int) -> None:
        """Note more records that speak of what one spoke of before."""
        known = self._misplaced.get(name)
        if known is not None:
            self._misplaced[name] = (known[0], known[1], known[2] + count)

    def about(self, name: str, raw: RawRecord, count: int = 1) -> None:
        """Note a data topic, or a group, that records speak of, if it does not belong here."""
        if self._coordination_partitions is None or name in self._placed:
            return
        known = self._misplaced.get(name)
        if known is not None:
            self._misplaced[name] = (known[0], known[1], known[2] + count)
            return
        belongs = coordinating_partition(name, self._coordination_partitions)
        if belongs == raw.partition:
            self._placed.add(name)
        else:
            self._misplaced[name] = (belongs, raw, count)

    def is_placed(self, name: str, partition: int) -> bool:
        """Whether a topic's or a group's records belong on this partition, as far as is known."""
        count = self._coordination_partitions
        return count is None or coordinating_partition(name, count) == partition

    def partition_row(self) -> PartitionRow:
        """The row of the table `partitions`."""
        return PartitionRow(
            records=self._records,
            malformed=self._malformed_count,
            first_offset=self._first_offset,
            last_offset=self._last_offset,
            from_ms=self._from_ms,
            to_ms=self._to_ms,
            create_time=self._types[TimestampType.CREATE_TIME],
            type_not_stated=self._types[TimestampType.NOT_STATED],
            duplicates=self._same_count,
            conflicting=self._other_count,
            gaps=self._gaps_count,
            missing=self._missing,
        )

    def at_the_end(self) -> Iterator[FindingRow]:
        """The findings about this coordinating partition."""
        if self._gaps_count:
            spans = (f"{a}" if a == b else f"{a} to {b}" for a, b in self._gaps)
            yield _finding(
                "offset_gap",
                f"{times(self._missing, 'offset')} {'is' if self._missing == 1 else 'are'} missing "
                f"inside the log, in {times(self._gaps_count, 'gap')}: "
                f"{_listed(spans, self._gaps_count)}. Transactions and control records leave such "
                f"gaps. {self._gap_means}",
                self._gaps_count,
                offset=self._gaps[0][0],
            )
        if self._same_count:
            offsets = (str(raw.offset) for raw in self._same)
            yield _finding(
                "duplicate_record",
                f"The input holds {times(self._same_count, 'record')} more than once; each was "
                f"folded once: offset {_listed(offsets, self._same_count)}.",
                self._same_count,
                proofs=self._same,
            )
        if self._other_count:
            offsets = (str(raw.offset) for raw in self._other)
            yield _finding(
                "conflicting_duplicate",
                f"The input holds different records at one offset, "
                f"{times(self._other_count, 'time')}: offset "
                f"{_listed(offsets, self._other_count)}. The log was forked, or two logs were "
                f"taken for one; the first record of each was folded.",
                self._other_count,
                proofs=self._other,
            )
        if self._malformed_count:
            offsets = (str(raw.offset) for raw in self._malformed)
            yield _finding(
                "malformed_record",
                f"{times(self._malformed_count, 'record')} "
                f"{'holds' if self._malformed_count == 1 else 'hold'} no message: offset "
                f"{_listed(offsets, self._malformed_count)}.",
                self._malformed_count,
                proofs=self._malformed,
            )
        yield from self._misplaced_rows()

    def begun(self) -> Iterator[FindingRow]:
        """The findings that began since this was last asked, as they stand now."""
        if len(self._misplaced) > self._begun:
            fresh = itertools.islice(self._misplaced_rows(), self._begun, None)
            self._begun = len(self._misplaced)
            yield from fresh

    def _misplaced_rows(self) -> Iterator[FindingRow]:
        kind = self._what.kind
        for name, (belongs, raw, count) in self._misplaced.items():
            yield _finding(
                "wrong_coordinating_partition",
                f"{times(count, 'record')} about {kind} {name} "
                f"{'lies' if count == 1 else 'lie'} on coordinating partition {raw.partition}, "
                f"from offset {raw.offset} on, but by its name the {kind} belongs to partition "
                f"{belongs} of {self._coordination_partitions}: {self._what.otherwise}.",
                count,
                proofs=[PlainRecord.of(raw)],
                group=name if kind == "group" else None,
                topic=name if kind == "topic" else None,
            )


def _listed(names: Iterable[str], count: int) -> str:
    listed = list(names)
    more = count - len(listed)
    return ", ".join(listed) + (f" and {more} more" if more > 0 else "")


def _finding(
    code: str,
    sentence: str,
    count: int,
    *,
    proofs: Iterable[PlainRecord] = (),
    offset: int | None = None,
    group: str | None = None,
    topic: str | None = None,
    log: str = "",
) -> FindingRow:
    kind = CATALOGUE[code]
    shown = [
        ProofRow(offset=proof.offset, timestamp_ms=proof.timestamp_ms, value=proof.value)
        for proof in proofs
    ]
    return FindingRow(
        log=log,
        code=code,
        severity=kind.severity,
        property=kind.property,
        group=group,
        topic=topic,
        offset=shown[0].offset if shown else offset,
        timestamp_ms=shown[0].timestamp_ms if shown else None,
        last_offset=shown[-1].offset if shown else offset,
        last_timestamp_ms=shown[-1].timestamp_ms if shown else None,
        count=count,
        sentence=sentence,
        records=shown,
    )


def log_findings(partitions: Iterable[PartitionRow]) -> Iterator[FindingRow]:
    """The findings about whole logs, from the table `partitions`."""
    logs: dict[str, list[PartitionRow]] = defaultdict(list)
    for row in partitions:
        logs[row.log].append(row)
    for log, rows in sorted(logs.items()):
        rows.sort(key=lambda row: row.coordinating_partition)
        stamped = sum(row.create_time for row in rows)
        records = sum(row.records for row in rows)
        if stamped:
            yield _finding(
                "create_time",
                f"{stamped:,} of {times(records, 'record')} carry CreateTime, the producer's "
                f"clock: who was stale when is judged by the senders' clocks. Set "
                f"message.timestamp.type=LogAppendTime on the coordination topic.",
                stamped,
                log=log,
            )
        headless = [row for row in rows if row.first_offset > 0]
        if headless:
            where = (f"{row.coordinating_partition} at {row.first_offset}" for row in headless)
            shown = _listed(list(where)[:LISTED_MAX], len(headless))
            yield _finding(
                "head_missing",
                f"The log does not begin at offset 0 (coordinating partition {shown}): whoever "
                f"won a claim before that is not known. {_certainty(headless)}",
                len(headless),
                log=log,
            )


def _certainty(headless: list[PartitionRow]) -> str:
    """From where on what is reported is certain."""
    judged = [row for row in headless if row.unknowable is not None]
    if not judged:
        return (
            "Under the original's rules, and without headers, nothing makes up for it: the log is "
            "judged as if it began here, so a record of an owner of before may be refused or "
            "obeyed although it was not, until every claim was won or released once more."
        )
    known = sum(row.claims_known_later or 0 for row in judged)
    never = sum(row.claims_never_known or 0 for row in judged)
    unknowable = sum(row.unknowable or 0 for row in judged)
    sentence = (
        "Under the fenced rules a claim is reported from where it is certain (known_from_offset): "
    )
    sentence += f"{known:,} of {times(known + never, 'claim')}"
    if known:
        first = min(row.known_from_first for row in judged if row.known_from_first is not None)
        last = max(row.known_from_last for row in judged if row.known_from_last is not None)
        sentence += f", from offset {first} to {last} on"
    sentence += (
        f"; {never:,} never. {times(unknowable, 'record')} came before, of which nobody can "
    )
    sentence += "know what they did. "
    if never:
        sentence += (
            "A claim becomes certain by a record of its owner that says it saw the log so far "
            "(marshal-seen and marshal-clock), if nothing since then may have won. "
        )
    shared = sum(row.claims_ranges_unjudged or 0 for row in judged)
    if shared:
        sentence += (
            f"{times(shared, 'claim')} {'is' if shared == 1 else 'are'} shared: who held which "
            "messages, and which of them were lost, is not known. "
        )
    return sentence + "What the original's rules say, if asked, is judged as if the log began here."

"""Finds the smallest part of a log that still shows a finding.

Records are left out, and the others keep their offset and timestamp. First those of other groups
and claims, then larger and smaller portions, then single records, until every one is needed.
`partition_fold` finds what a part shows, without Spark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final

import attrs
import pyarrow as pa
from attrs import frozen

from kafka_marshal.capture import RawRecord
from kafka_marshal.codec import MalformedRecord
from kafka_marshal.core.messages import Heartbeat, ReleaseGroup
from kafka_marshal.core.ranges.messages import RangesMessage
from kafka_marshal.core.state import RuleSet
from kafka_marshal.range_codec import decode_range
from kafka_marshal.replay.errors import InvalidOption, ReplayError
from kafka_marshal.replay.findings.catalogue import CATALOGUE, OF_ONE_RECORD
from kafka_marshal.replay.findings.records.inputs import log_findings
from kafka_marshal.replay.findings.records.senders import clock_findings, merged
from kafka_marshal.replay.fold.partition_fold import JudgingOptions, PartitionFold
from kafka_marshal.replay.fold.reading import read_chunk, records_of
from kafka_marshal.replay.groups.catalogue import GROUP_CATALOGUE
from kafka_marshal.replay.model.events import LogPartition
from kafka_marshal.replay.model.published import FindingRow
from kafka_marshal.replay.model.tables import FINDINGS, GROUPS, PARTITIONS, SENDERS
from kafka_marshal.replay.sources import FoundSources

_WANTED: Final = re.compile(r"(\w+)(?:@(\d+))?")
_PROGRESS_EVERY: Final = 25
"""Slices judged from one word of progress to the next."""
OF_WHOLE_LOGS: Final = ("sender_clock_off", "create_time", "head_missing")
"""Codes whose findings are made when all partitions of a log are in."""


class NoSuchFinding(ReplayError):
    """The log has no such finding."""


@frozen
class WantedFinding:
    """The wanted finding: its code, and optionally the offset of its first record."""

    code: str
    offset: int | None = None

    @classmethod
    def parsed(cls, text: str) -> WantedFinding:
        """Parse CODE or CODE@OFFSET.

        Raises:
            InvalidOption: the text has another form, or there is no such code of claims.

        >>> WantedFinding.parsed("late_heartbeat_stole@82")
        WantedFinding(code='late_heartbeat_stole', offset=82)
        """
        match = _WANTED.fullmatch(text)
        if match is None:
            raise InvalidOption(f"FINDING must be CODE or CODE@OFFSET, not {text!r}")
        if match[1] in GROUP_CATALOGUE.keys() - CATALOGUE.keys():
            raise InvalidOption(
                f"{match[1]} is about groups with a controller, whose events are numbered: without "
                f"one of them all that follow are refused, so such a log cannot be shrunk"
            )
        if match[1] not in CATALOGUE:
            raise InvalidOption(
                f"there is no finding {match[1]!r}; docs/reference/findings.md lists all codes"
            )
        return cls(match[1], None if match[2] is None else int(match[2]))

    def __str__(self) -> str:
        return self.code if self.offset is None else f"{self.code}@{self.offset}"


@frozen
class Part:
    """Records of one coordinating partition of one log, in offset order."""

    log_partition: LogPartition
    records: tuple[RawRecord, ...]


@frozen
class ShrunkLog:
    """A part of a log that still shows the finding, and in which every record is needed."""

    part: Part
    finding: FindingRow
    """As this part has it."""
    judging: JudgingOptions
    """With the one rule set that reports it."""
    records_before: int
    judged: int
    """How many parts were looked at."""


def findings_of(part: Part, judging: JudgingOptions) -> list[FindingRow]:
    """All findings of some records, those that are about a whole log among them."""
    partition_fold = PartitionFold(part.log_partition, judging)
    for raw in part.records:
        partition_fold.feed(raw)
    partition_fold.close()
    rows = partition_fold.drain()
    return [
        *rows[FINDINGS],
        *log_findings(rows[PARTITIONS]),
        *clock_findings(merged(rows[SENDERS]), judging.heartbeat_interval_ms, rows[GROUPS]),
    ]


def parts_of(found: FoundSources, on_progress: Callable[[str], None]) -> Iterator[Part]:
    """The coordinating partitions of the sources, one after the other.

    Raises:
        UnreadableSource: a line or a row is no record.
    """
    batches: list[pa.RecordBatch] = []
    for number, chunk in enumerate(found.chunks):
        on_progress(f"reading chunk {number + 1} of {len(found.chunks)}")
        batches += read_chunk(number, chunk)
    if not batches:
        return
    keys = [(name, "ascending") for name in ("log", "partition", "offset", "input_order")]
    table = pa.Table.from_batches(batches).sort_by(keys)
    rows = ((log, raw) for batch in table.to_batches() for log, raw in records_of(batch))
    for (log, partition), of_partition in groupby(rows, key=lambda row: (row[0], row[1].partition)):
        yield Part(LogPartition(log, partition), tuple(map(itemgetter(1), of_partition)))


def shrink(
    parts: Iterable[Part],
    wanted: WantedFinding,
    judging: JudgingOptions,
    on_progress: Callable[[str], None] = lambda _: None,
) -> ShrunkLog:
    """The smallest part of the first of these that shows the finding.

    With an offset, the finding must begin there; without, any finding of its code counts.

    Raises:
        NoSuchFinding: none shows it, or one record alone would.
    """
    if wanted.code in OF_ONE_RECORD:
        raise NoSuchFinding(
            f"{wanted.code} is found in one record alone, so there is nothing to shrink: the "
            f"finding names it"
        )
    for part in parts:
        at = part.log_partition
        where = f"coordinating partition {at.coordinating_partition} of {at.log}"
        on_progress(f"judging {len(part.records):,} records of {where}")
        findings = [
            row
            for row in findings_of(part, judging)
            if row.code == wanted.code and wanted.offset in (None, row.offset)
        ]
        if findings:
            first = min(findings, key=lambda row: row.offset or 0)
            return _Search(part, first, wanted, judging, on_progress).smallest()
    raise NoSuchFinding(f"the log has no finding {wanted} under these rules")


class _Search:
    """Leaves out records as long as the finding is the same."""

    def __init__(
        self,
        part: Part,
        finding: FindingRow,
        wanted: WantedFinding,
        judging: JudgingOptions,
        on_progress: Callable[[str], None],
    ) -> None:
        rules = finding.rules
        rule_set = judging.rule_sets[0] if rules is None else RuleSet(rules)
        # Records that are left out at the beginning are not unknown. `given=False`, since a part
        # may contradict a given interval that the whole log did not contradict.
        begins = part.records[0].offset if judging.log_begins is None else judging.log_begins
        # So are records that contradict a given interval: there was no contradiction in the whole
        # log.
        self._judging = attrs.evolve(judging, rule_sets=(rule_set,), log_begins=begins, given=False)
        self._part = part
        self._finding = finding
        self._same: dict[str, object] = {"code": wanted.code, "severity": finding.severity}
        if wanted.offset is not None:
            self._same["offset"] = wanted.offset
        self._on_progress = on_progress
        self._judged = 0
        self._left = len(part.records)

    def smallest(self) -> ShrunkLog:
        """First leave out other groups and claims, then everything else that is not needed."""
        for records in self._guesses():
            if len(records) < self._left and self._shows(records):
                break
        else:
            records = self._part.records
        records = self._one_by_one(records)
        finding = self._shows(records)
        assert finding is not None
        return ShrunkLog(
            attrs.evolve(self._part, records=tuple(records)),
            finding,
            self._judging,
            len(self._part.records),
            self._judged,
        )

    def _guesses(self) -> Iterator[Sequence[RawRecord]]:
        """Parts that may be enough, the smallest first: its proofs, its claim, its group."""
        finding = self._finding
        proofs = {proof.offset for proof in finding.records}
        claim = finding.topic, finding.topic_partition
        group = finding.group
        of_group: list[tuple[RawRecord, RangesMessage]] = []
        of_claim: list[tuple[RawRecord, RangesMessage]] = []
        for raw in self._part.records:
            message = _message(raw)
            if message is not None and group in (None, message.group_id):
                of_group.append((raw, message))
                if isinstance(message, ReleaseGroup) or _matches(claim, message):
                    of_claim.append((raw, message))
        yield [raw for raw in self._part.records if raw.offset in proofs]
        for members in (of_claim, of_group):
            yield [
                raw for raw, m in members if raw.offset in proofs or not isinstance(m, Heartbeat)
            ]
        for members in (of_claim, of_group):
            yield [raw for raw, _ in members]

    def _shows(self, records: Sequence[RawRecord]) -> FindingRow | None:
        """The finding, if these records still show it."""
        if not records:
            return None
        self._judged += 1
        if self._judged % _PROGRESS_EVERY == 0:
            self._on_progress(f"{self._left:,} records left, {self._judged:,} parts judged")
        for row in findings_of(attrs.evolve(self._part, records=tuple(records)), self._judging):
            if all(getattr(row, name) == value for name, value in self._same.items()):
                return row
        return None

    def _one_by_one(self, records: Sequence[RawRecord]) -> Sequence[RawRecord]:
        """Leave out portions, ever smaller ones, until no single record can be left out."""
        size = max(1, len(records) // 2)
        while True:
            self._left = len(records)
            start, fewer = 0, False
            while start < len(records):
                rest = [*records[:start], *records[start + size :]]
                if self._shows(rest):
                    records, fewer = rest, True
                    self._left = len(records)
                else:
                    start += size
            if size == 1 and not fewer:
                return records
            size = max(1, min(size // 2, len(records) // 2))


def _message(raw: RawRecord) -> RangesMessage | None:
    try:
        return decode_range(raw.value)
    except MalformedRecord:
        return None


def _matches(claim: tuple[object, object], message: RangesMessage) -> bool:
    topic, partition = claim
    return topic in (None, message.topic) and partition in (None, message.partition)

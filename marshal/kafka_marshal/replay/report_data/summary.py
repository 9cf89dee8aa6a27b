"""The counts of a replay: `summary.json`, and what `run` returns.

Nothing in it depends on when or where the replay ran, so two replays of one input are equal.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeAlias

import attrs
from attrs import field, frozen

from kafka_marshal.replay.findings.catalogue import ERROR, WARNING, FindingKind
from kafka_marshal.replay.model.folded_log import CountedFindings
from kafka_marshal.replay.model.internal import ClockStatistics, GroupCountsRow, PartitionRow
from kafka_marshal.replay.model.phrasing import times
from kafka_marshal.replay.report_data.whatif import WhatIf

Json: TypeAlias = dict[str, object]


@frozen
class FindingCount:
    """The number of findings of one code under one rule set."""

    code: str
    rules: str | None
    """None for a fact of the log."""
    severity: str
    """The worst severity among them."""
    findings: int
    logs: tuple[str, ...]


@frozen(kw_only=True)
class ReplaySummary:
    """The result of a replay of any protocol."""

    protocol: str
    """The protocol's name, the value of `--protocol`."""
    out: Path
    """The folder with the tables, `summary.json` and `report.html`."""
    sources: tuple[str, ...]
    logs: tuple[str, ...]
    left_out: tuple[str, ...]
    """Files in folders that were not read, each with the reason."""
    from_ms: int | None
    to_ms: int | None
    records: int
    rows: Mapping[str, int]
    """Rows of every table."""
    findings: tuple[FindingCount, ...]
    rules: tuple[str, ...] = ()
    """The rule sets, if the protocol has several."""
    partitions: tuple[PartitionRow, ...]
    caveats: tuple[str, ...]
    version: str
    checkpoint: Mapping[str, int] | None = None
    """For a run with a checkpoint: its number, records it folded, records it skipped."""
    not_looked_at: Mapping[str, Mapping[str, str]] = field(factory=dict)
    """By log, the finding codes that were not looked for, with the reason. Not in the JSON."""

    @property
    def errors(self) -> int:
        """The number of findings about a violated property."""
        return sum(count.findings for count in self.findings if count.severity == ERROR)

    @property
    def report(self) -> Path:
        """The page."""
        return self.out / "report.html"

    @property
    def found_something(self) -> bool:
        """Whether there is an error or a warning: exit code 1."""
        return any(count.severity in (ERROR, WARNING) for count in self.findings)

    @property
    def judged(self) -> str:
        """What was judged, with its number."""
        return times(self.records, "record")

    def json(self) -> str:
        """The text of `summary.json`."""
        return json.dumps(self._fields(), indent=1, ensure_ascii=True) + "\n"

    def _fields(self) -> Json:
        return self._head() | self._counts() | self._tail()

    def _head(self) -> Json:
        return {
            "version": self.version,
            "sources": list(self.sources),
            "left_out": list(self.left_out),
        }

    def _counts(self) -> Json:
        return {
            "from_ms": self.from_ms,
            "to_ms": self.to_ms,
            "records": self.records,
            "rows": dict(self.rows),
            "findings": [attrs.asdict(count) for count in self.findings],
            "logs": [self._log(name) for name in self.logs],
        }

    def _tail(self) -> Json:
        return {
            "caveats": list(self.caveats),
            "checkpoint": None if self.checkpoint is None else dict(self.checkpoint),
        }

    def _log(self, name: str) -> Json:
        known = attrs.filters.exclude("log", type(None))  # what is counted of a whole log alone
        partitions = [attrs.asdict(row, filter=known) for row in self.partitions if row.log == name]
        return {"log": name, "partitions": partitions}


@frozen(kw_only=True)
class Summary(ReplaySummary):
    """The result of a replay of claims."""

    heartbeat_intervals_s: tuple[float, ...]
    """The heartbeat intervals of groups at the end of the log; distinct, the longest last."""
    groups: tuple[GroupCountsRow, ...]
    senders: tuple[ClockStatistics, ...]
    what_if: WhatIf | None = None
    """The result of other settings for the same log, if requested."""

    @classmethod
    def of(cls, basic: ReplaySummary, **more: Any) -> Self:
        """Made from the common fields of all summaries, and the fields of this one."""
        return cls(**(attrs.asdict(basic, recurse=False) | more))

    @property
    def heartbeat_interval_s(self) -> float:
        """The longest heartbeat interval."""
        return self.heartbeat_intervals_s[-1]

    @property
    def judged(self) -> str:
        """How many of the claims were judged, in words."""
        claims, unjudged = self.rows["claims"] // len(self.rules), self.claims_unjudged
        return f"{claims - unjudged:,} of " * bool(unjudged) + times(claims, "claim")

    @property
    def claims_unjudged(self) -> int:
        """Claims that were uncertain when the log ended: of the fenced rules, without its head."""
        return sum(row.claims_never_known or 0 for row in self.partitions)

    def _fields(self) -> Json:
        setting: Json = {
            "rules": list(self.rules),
            "heartbeat_interval_s": self.heartbeat_interval_s,
            "heartbeat_intervals_s": list(self.heartbeat_intervals_s),
        }
        of_claims: Json = {
            "groups": [attrs.asdict(group) for group in self.groups],
            "senders": [attrs.asdict(sender) for sender in self.senders],
        }
        what_if: Json = {"what_if": None if self.what_if is None else self.what_if.json()}
        return self._head() | setting | self._counts() | of_claims | self._tail() | what_if


def count_findings(
    counted: Sequence[CountedFindings], catalogue: Mapping[str, FindingKind]
) -> tuple[FindingCount, ...]:
    """The counts over all logs, in the catalogue's order."""
    together: dict[tuple[str, str | None], Counter[str]] = {}
    logs: dict[tuple[str, str | None], set[str]] = {}
    for row in counted:
        name = row.code, row.rules
        together.setdefault(name, Counter())[row.severity] += row.count
        logs.setdefault(name, set()).add(row.log)
    order = list(catalogue)
    return tuple(
        FindingCount(
            code,
            rules,
            min(severities, key=("error", "warning", "info").index),
            severities.total(),
            tuple(sorted(logs[code, rules])),
        )
        for (code, rules), severities in sorted(
            together.items(), key=lambda item: (order.index(item[0][0]), item[0][1] or "")
        )
    )

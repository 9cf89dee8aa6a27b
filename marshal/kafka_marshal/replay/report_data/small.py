"""Selects the content of `report.html` from the tables.

A page shows some hundreds of findings and divergences, the worst first, and draws the claims of a
small replay. For a large one, `large` has totals. The tables hold the rest, and a caveat says so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import Final
from urllib.parse import urlsplit

from kafka_marshal.replay.model import tables
from kafka_marshal.replay.model.folded_log import ClaimName, FoldedLog
from kafka_marshal.replay.model.phrasing import times
from kafka_marshal.replay.model.published import ClaimRow, FindingRow
from kafka_marshal.replay.model.tables import Rows
from kafka_marshal.replay.report.base import data as page
from kafka_marshal.replay.report_data.convert import (
    claim_id,
    divergence_of,
    finding_of,
    lane_of,
    logs_of,
    name_of,
)
from kafka_marshal.replay.report_data.large import scale
from kafka_marshal.replay.report_data.summary import Summary

NAMED_MAX: Final = 3
"""The most sources in the title."""
LIVE_TOPIC: Final = "__marshal"
"""The topic of a live source that names none."""
CLAIMS_MAX: Final = 200
DRAWN_MAX: Final = 10_000
"""With more claims, or more tenures and marks, the page shows totals and draws on demand."""
FINDINGS_MAX: Final = 300
DIVERGENCES_MAX: Final = 300


def report_data(
    fold: FoldedLog, summary: Summary, log_findings: Sequence[FindingRow], topic: str | None
) -> page.ReportData:
    """The content of the page.

    `log_findings` are those that only the driver knows; `topic` is the value of `--topic`.
    """
    findings = _worst_findings(fold, log_findings)
    divergences = fold.first(tables.DIVERGENCES, DIVERGENCES_MAX)
    distinct = fold.counts["claims"] // len(summary.rules)
    drawn = fold.counts["tenures"] + fold.counts["marks"]
    many = distinct > CLAIMS_MAX or drawn > DRAWN_MAX
    names = set() if many else {name_of(row) for row in fold.first(tables.CLAIMS, 2 * CLAIMS_MAX)}
    return page.ReportData(
        title=title_of(summary.sources, summary.logs, topic),
        sources=summary.sources,
        rules=summary.rules,
        heartbeat_interval_s=summary.heartbeat_interval_s,
        heartbeat_intervals_s=summary.heartbeat_intervals_s,
        from_ms=summary.from_ms,
        to_ms=summary.to_ms,
        counts=page.Counts(
            records=summary.records,
            malformed=summary.rows["malformed"],
            claims=distinct,
            groups=len({(g.log, g.group) for g in summary.groups}),
            senders=len({(s.log, s.instance) for s in summary.senders}),
            findings=summary.rows["findings"],
            divergences=summary.rows["divergences"],
            claims_unjudged=summary.claims_unjudged,
        ),
        logs=tuple(logs_of(summary.partitions, summary.logs)),
        caveats=summary.caveats,
        groups=summary.groups,
        claims=tuple(_timelines(fold, names, summary.rules)),
        findings=tuple(finding_of(row) for row in findings),
        senders=summary.senders,
        divergences=tuple(divergence_of(row) for row in divergences),
        scale=scale(fold, summary, log_findings) if many else None,
    )


def title_of(sources: Sequence[str], logs: Sequence[str], topic: str | None = None) -> str:
    """The replayed topic and its cluster, or files; only what is known for certain.

    >>> title_of(["kafka://one:9092,two:9092/claims"], ["claims"])
    'claims on one:9092,two:9092'
    >>> title_of(["kafka://one:9092"], ["__marshal"])
    '__marshal on one:9092'
    >>> title_of(["dumps/day.parquet/"], ["day"], "claims"), title_of(["a", "b"], ["a", "b"])
    ('claims in day.parquet', 'a, b')
    >>> title_of(["captures"], ["monday", "tuesday"])
    'captures (2 logs)'
    """
    live = [_live(source) for source in sources if source.startswith("kafka://")]
    files = [PurePath(source).name or source for source in sources if "://" not in source]
    stored = [source for source in sources if "://" in source and not source.startswith("kafka://")]
    shown = [*files, *stored]
    listed = ", ".join(shown[:NAMED_MAX])
    if len(shown) > NAMED_MAX:
        listed += f" and {len(shown) - NAMED_MAX:,} more"
    if topic is not None and listed:
        listed = f"{topic} in {listed}"
    if len(logs) > len(sources):
        listed += f" ({times(len(logs), 'log')})"
    return ", ".join(filter(None, [*live, listed]))


def _live(source: str) -> str:
    address = urlsplit(source)
    return f"{address.path.strip('/') or LIVE_TOPIC} on {address.netloc.rpartition('@')[2]}"


def _worst_findings(fold: FoldedLog, log_findings: Iterable[FindingRow]) -> list[FindingRow]:
    """Some hundreds of findings, ordered by severity first."""
    return [*log_findings, *fold.first(tables.FINDINGS, FINDINGS_MAX, worst=True)]


def _timelines(
    fold: FoldedLog, names: set[ClaimName], rules: Sequence[str]
) -> Iterable[page.ClaimTimeline]:
    if not names:
        return
    of_lane: dict[tuple[ClaimName, str], Rows] = defaultdict(Rows)
    drawn = (tables.TENURES, tables.MARKS, tables.LANES, tables.CLAIMS, tables.RANGES)
    for row in fold.collect_claims(drawn, names):
        assert isinstance(row, ClaimRow)
        of_lane[name_of(row), row.rules].add(row)
    for name in sorted(names, key=lambda name: tuple(map(str, name))):
        lanes = []
        records = None
        for rule_set in rules:
            rows = of_lane[name, rule_set]
            for claim in rows[tables.CLAIMS]:
                records = claim.records
                lanes.append(lane_of(rule_set, rows))
        yield page.ClaimTimeline(claim_id(name), tuple(lanes), records)

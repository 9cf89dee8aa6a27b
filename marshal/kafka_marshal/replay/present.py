"""From tables to the page: what is collected for `report.html`, and how much of it.

A page shows some hundreds of claims, findings and divergences, the worst first; the tables hold
the rest, and a caveat says so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, cast

from pyspark.sql import functions as sf

from kafka_marshal.replay import tables
from kafka_marshal.replay.findings.catalogue import CATALOGUE, ERROR, WARNING
from kafka_marshal.replay.findings.senders import SenderClock
from kafka_marshal.replay.pipeline import ClaimName, Fold
from kafka_marshal.replay.report import data as page
from kafka_marshal.replay.rows import Row
from kafka_marshal.replay.summary import Summary

CLAIMS_MAX: Final = 200
FINDINGS_MAX: Final = 300
DIVERGENCES_MAX: Final = 300
LANE_MAX: Final = 2000
"""So many tenures or marks of one lane are drawn, the first ones."""

_KEY: Final = ("log", "coordinating_partition", "group", "topic", "topic_partition")


def _int(value: object) -> int:
    return cast("int", value)


def _optional(value: object) -> int | None:
    return cast("int | None", value)


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _name(row: Row) -> ClaimName:
    return tuple(row[column] for column in _KEY)


def report_data(
    fold: Fold, summary: Summary, log_findings: Sequence[Row], title: str
) -> page.ReportData:
    """Everything the page says. `log_findings` are those that only the driver knows."""
    findings = _worst_findings(fold, log_findings)
    divergences = fold.first(tables.DIVERGENCES, DIVERGENCES_MAX)
    names = _claims_to_draw(fold, (*findings, *divergences))
    caveats = list(summary.caveats)
    distinct = fold.counts["claims"] // len(summary.rules)
    if distinct > len(names):
        caveats.append(
            f"{len(names):,} of {distinct:,} claims are drawn, those with findings first; the "
            f"table tenures holds all."
        )
    return page.ReportData(
        title=title,
        sources=summary.sources,
        rules=summary.rules,
        heartbeat_interval_s=summary.heartbeat_interval_s,
        from_ms=summary.from_ms,
        to_ms=summary.to_ms,
        counts=page.Counts(
            records=summary.records,
            malformed=summary.rows["malformed"],
            claims=distinct,
            groups=len({(g["log"], g["group"]) for g in summary.groups}),
            senders=len({(s.log, s.instance) for s in summary.senders}),
            findings=summary.rows["findings"],
            divergences=summary.rows["divergences"],
        ),
        logs=tuple(_logs(summary)),
        caveats=tuple(caveats),
        groups=tuple(_group(row) for row in summary.groups),
        claims=tuple(_timelines(fold, names, summary.rules)),
        findings=tuple(_finding(row) for row in findings),
        senders=tuple(_sender(sender) for sender in summary.senders),
        divergences=tuple(_divergence(row) for row in divergences),
    )


def _worst_findings(fold: Fold, log_findings: Iterable[Row]) -> list[Row]:
    """Some hundreds, every severity's first before the next."""
    severity = sf.col("severity")
    worst_first = sf.when(severity == ERROR, 0).when(severity == WARNING, 1).otherwise(2)
    return [*log_findings, *fold.first(tables.FINDINGS, FINDINGS_MAX, worst_first)]


def _claims_to_draw(fold: Fold, told: Iterable[Row]) -> set[ClaimName]:
    """Claims that a finding or a divergence is about, then others while there is room."""
    names: dict[ClaimName, None] = {}
    for row in told:
        if row.get("topic") is not None and row.get("topic_partition") is not None:
            names[_name(row)] = None
    if len(names) < CLAIMS_MAX:
        for row in fold.first(tables.CLAIMS, 2 * CLAIMS_MAX):
            names.setdefault(_name(row))
    return set(list(names)[:CLAIMS_MAX])


def _timelines(
    fold: Fold, names: set[ClaimName], rules: Sequence[str]
) -> Iterable[page.ClaimTimeline]:
    by_lane: dict[str, dict[tuple[ClaimName, object], list[Row]]] = {}
    if not names:
        return
    drawn = (tables.TENURES, tables.MARKS, tables.LANES, tables.CLAIMS)
    for table, rows in fold.collect_claims(drawn, names).items():
        of_table: dict[tuple[ClaimName, object], list[Row]] = defaultdict(list)
        for row in rows:
            of_table[_name(row), row["rules"]].append(row)
        by_lane[table] = of_table
    for name in sorted(names, key=lambda name: tuple(map(str, name))):
        lanes = []
        records = None
        for rule_set in rules:
            claims = by_lane["claims"].get((name, rule_set))
            if claims is None:
                continue
            records = _int(claims[0]["records"])
            of_lane = {table: lane.get((name, rule_set), []) for table, lane in by_lane.items()}
            lanes.append(_lane(rule_set, of_lane))
        log, partition, group, topic, topic_partition = name
        claim = page.ClaimId(
            _text(log), _int(partition), _text(group), _text(topic), _int(topic_partition)
        )
        yield page.ClaimTimeline(claim, tuple(lanes), records)


def _lane(rules: str, rows: Mapping[str, list[Row]]) -> page.Lane:
    drawn = rows["lanes"][0] if rows["lanes"] else None
    pauses: tuple[page.Pause, ...] = ()
    beats: tuple[int, ...] = ()
    if drawn is not None:
        beats = tuple(cast("list[int]", drawn["beats_ms"]))
        senders = _text(drawn["pauses_by"]).split("\n")
        spans = zip(
            cast("list[int]", drawn["pauses_from_ms"]),
            cast("list[int]", drawn["pauses_until_ms"]),
            senders,
            strict=False,
        )
        pauses = tuple(page.Pause(begin, until, by) for begin, until, by in spans)
    return page.Lane(
        rules=rules,
        tenures=tuple(_tenure(row) for row in rows["tenures"][:LANE_MAX]),
        marks=tuple(_mark(row) for row in rows["marks"][:LANE_MAX]),
        pauses=pauses,
        beats_ms=beats,
    )


def _tenure(row: Row) -> page.Tenure:
    lasts = row["to_offset"] is None
    return page.Tenure(
        owner_instance=_text(row["owner_instance"]),
        owner_client=_text(row["owner_client"]),
        from_offset=_int(row["from_offset"]),
        to_offset=_optional(row["to_offset"]),
        from_ms=_int(row["from_ms"]),
        to_ms=_optional(row["to_ms"]),
        position_from=_optional(row["position_from"]),
        position_to=_optional(row["position_to"]),
        began=_text(row["began"]),
        ended=None if lasts else _text(row["ended"]),
    )


def _mark(row: Row) -> page.Mark:
    return page.Mark(
        offset=_int(row["offset"]),
        at_ms=_int(row["timestamp_ms"]),
        kind=page.MarkKind(_text(row["kind"])),
        sender_instance=_text(row["sender_instance"]),
        sender_client=_text(row["sender_client"]),
        guard=None if row["guard"] is None else _text(row["guard"]),
        position=_optional(row["position"]),
    )


def _finding(row: Row) -> page.Finding:
    proofs = cast("list[Row]", row.get("records") or [])
    rules, text = row.get("rules"), row.get
    return page.Finding(
        rules=None if rules is None else _text(rules),
        code=_text(row["code"]),
        severity=page.Severity(_text(row["severity"])),
        property=None if text("property") is None else _text(text("property")),
        sentence=_text(row["sentence"]),
        log=_text(row["log"]),
        coordinating_partition=_optional(row.get("coordinating_partition")),
        group=None if text("group") is None else _text(text("group")),
        topic=None if text("topic") is None else _text(text("topic")),
        topic_partition=_optional(row.get("topic_partition")),
        offset=_optional(row.get("offset")),
        at_ms=_optional(row.get("timestamp_ms")),
        records=tuple(_proof(proof) for proof in proofs),
        what_to_do=CATALOGUE[_text(row["code"])].what_to_do,
    )


def _proof(row: Row) -> page.FindingRecord:
    return page.FindingRecord(
        offset=_int(row["offset"]),
        at_ms=_int(row["timestamp_ms"]),
        type=_text(row.get("type")) or "malformed",
        sender_instance=_text(row.get("sender_instance")),
        sender_client=_text(row.get("sender_client")),
        verdict=_text(row.get("verdict")),
        text=_text(row.get("value")),
    )


def _sender(sender: SenderClock) -> page.SenderClock:
    return page.SenderClock(
        sender.log,
        sender.instance,
        sender.client,
        sender.group,
        sender.records,
        sender.offset_min_ms,
        sender.offset_median_ms,
        sender.offset_max_ms,
    )


def _group(row: Row) -> page.GroupSummary:
    return page.GroupSummary(
        log=_text(row["log"]),
        coordinating_partition=_int(row["coordinating_partition"]),
        group=_text(row["group"]),
        rules=_text(row["rules"]),
        claims=_int(row["claims"]),
        clients=_int(row["clients"]),
        instances=_int(row["instances"]),
        records=_int(row["records"]),
        tenures=_int(row["tenures"]),
        takeovers=_int(row["takeovers"]),
        refusals=_int(row["refusals"]),
        thefts=_int(row["thefts"]),
        unowned_longest_ms=_optional(row["unowned_longest_ms"]),
    )


def _divergence(row: Row) -> page.Divergence:
    def text(name: str) -> str | None:
        return None if row[name] is None else _text(row[name])

    claim = page.ClaimId(
        _text(row["log"]),
        _int(row["coordinating_partition"]),
        _text(row["group"]),
        _text(row["topic"]),
        _int(row["topic_partition"]),
    )
    return page.Divergence(
        claim=claim,
        offset=_int(row["offset"]),
        at_ms=_int(row["timestamp_ms"]),
        until_offset=_optional(row["until_offset"]),
        until_ms=_optional(row["until_ms"]),
        original_instance=text("original_instance"),
        original_client=text("original_client"),
        original_position=_optional(row["original_position"]),
        fenced_instance=text("fenced_instance"),
        fenced_client=text("fenced_client"),
        fenced_position=_optional(row["fenced_position"]),
        text=_text(row["value"]),
    )


def _logs(summary: Summary) -> Iterable[page.Log]:
    by_log: dict[str, list[Row]] = defaultdict(list)
    for row in summary.partitions:
        by_log[_text(row["log"])].append(row)
    for name in summary.logs:
        rows = by_log[name]
        yield page.Log(
            name=name,
            records=sum(_int(row["records"]) for row in rows),
            from_ms=min((_int(row["from_ms"]) for row in rows), default=None),
            to_ms=max((_int(row["to_ms"]) for row in rows), default=None),
            partitions=len(rows),
            malformed=sum(_int(row["malformed"]) for row in rows),
            create_time=any(row["create_time"] for row in rows),
        )

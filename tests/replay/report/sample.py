"""Report data of bundled captures, folded here with the pure core: no Spark, seconds.

It is what the pages of these tests are made of, and not what the pipeline computes: fewer findings,
the simplest way to each.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any

import attrs

from kafka_marshal import (
    FENCED,
    ORIGINAL,
    Accepted,
    Claim,
    ClaimKey,
    Heartbeat,
    Record,
    Refused,
    ReleaseGroup,
    ReleasingPartition,
    Rules,
    Verdict,
    World,
)
from kafka_marshal.capture import read_capture
from kafka_marshal.core.claims import original
from kafka_marshal.core.claims.verdicts import OWNER_STAYS, WINS
from kafka_marshal.replay.model.internal import ClockStatistics, GroupCountsRow
from kafka_marshal.replay.report.base import data as d

CAPTURES = Path(__file__).parents[2] / "data" / "captures" / "original"


COUNTED = (
    *("claims", "clients", "instances", "records", "tenures"),
    *("takeovers", "refusals", "thefts", "unowned_longest_ms"),
)


def group_row(
    log: str, partition: int, group: str, rules: str, *counts: int | None
) -> GroupCountsRow:
    """A row of `groups`, its counts in the order of `COUNTED`."""
    counted: dict[str, Any] = dict(zip(COUNTED, counts, strict=True))
    return GroupCountsRow(
        log=log,
        coordinating_partition=partition,
        group=group,
        rules=rules,
        heartbeat_interval_ms=4000,
        intervals_said_ms=(),
        **counted,
    )


def report(*names: str, rules: tuple[str, ...] = (d.ORIGINAL, d.FENCED)) -> d.ReportData:
    """The captures `names` (all of them when none is given), each one log."""
    names = names or tuple(
        sorted(p.stem for p in CAPTURES.glob("*.jsonl") if ".trace" not in p.name)
    )
    folds = [_LogFold(f"{name}.jsonl", CAPTURES / f"{name}.jsonl", rules) for name in names]
    findings = tuple(f for fold in folds for f in fold.findings)
    divergences = tuple(v for fold in folds for v in fold.divergences())
    claims = tuple(c for fold in folds for c in fold.timelines())
    times = [r.timestamp_ms for fold in folds for r in fold.records]
    return d.ReportData(
        title="Replay of recorded captures",
        sources=tuple(f"captures/{name}.jsonl" for name in names),
        rules=rules,
        heartbeat_interval_s=4,
        from_ms=min(times),
        to_ms=max(times),
        counts=d.Counts(
            records=len(times),
            malformed=0,
            claims=len(claims),
            groups=len({(c.claim.log, c.claim.group) for c in claims}),
            senders=len({r.message.instance_id for fold in folds for r in fold.records}),
            findings=len(findings),
            divergences=len(divergences),
        ),
        logs=tuple(fold.log() for fold in folds),
        caveats=(
            "Headers are absent: ownership under the fenced rules rests on instance ids alone.",
        ),
        groups=tuple(g for fold in folds for g in fold.groups()),
        claims=claims,
        findings=findings,
        senders=tuple(s for fold in folds for s in fold.senders()),
        divergences=divergences,
    )


class _LaneFold:
    def __init__(self) -> None:
        self.tenures: list[d.TenureBar] = []
        self.marks: list[d.RecordGlyph] = []
        self.pauses: list[d.Pause] = []
        self.beats: list[int] = []

    def lane(self, rules: str) -> d.Lane:
        return d.Lane(
            rules, tuple(self.tenures), tuple(self.marks), tuple(self.pauses), tuple(self.beats)
        )


class _LogFold:
    def __init__(self, name: str, path: Path, rules: tuple[str, ...]) -> None:
        self.name = name
        self.records = [raw.decoded() for raw in read_capture(path)]
        self.rules = rules
        self.lanes: dict[tuple[int, ClaimKey], dict[str, _LaneFold]] = defaultdict(dict)
        self.count: dict[tuple[int, ClaimKey], int] = defaultdict(int)
        self.states: dict[str, list[tuple[Record, ClaimKey, Claim]]] = defaultdict(list)
        self.findings: list[d.Finding] = []
        for name_ in rules:
            base = FENCED if name_ == d.FENCED else ORIGINAL
            self._fold(name_, attrs.evolve(base, heartbeat_interval_ms=4000))

    def _fold(self, name: str, rules: Rules) -> None:
        worlds: dict[int, World] = defaultdict(lambda: World(rules))
        for record in self.records:
            outcome = worlds[record.partition].apply(record)
            assert isinstance(outcome.verdict, Accepted | Refused)
            for t in outcome.transitions:
                where = (record.partition, t.key)
                lane = self.lanes[where].setdefault(name, _LaneFold())
                self.count[where] += name == self.rules[0]
                self.states[name].append((record, t.key, t.after))
                self._tenure(lane, record, outcome.verdict, t.before, t.after)
                self._mark(name, rules, lane, record, outcome.verdict, t.key, t.before, t.after)

    def _tenure(
        self, lane: _LaneFold, record: Record, verdict: Verdict, before: Claim, after: Claim
    ) -> None:
        running = lane.tenures and lane.tenures[-1].to_ms is None
        if running and after.owned and verdict not in WINS:
            lane.tenures[-1] = attrs.evolve(lane.tenures[-1], position_to=after.position)
        if running and (verdict in WINS or not after.owned):
            lane.tenures[-1] = attrs.evolve(
                lane.tenures[-1],
                to_offset=record.offset,
                to_ms=record.timestamp_ms,
                position_to=before.position if after.owned else after.position,
                ended=verdict.value,
            )
        if verdict in WINS and after.owner_instance is not None:
            lane.tenures.append(
                d.TenureBar(
                    owner_instance=after.owner_instance,
                    owner_client=after.owner_client or "",
                    from_offset=record.offset,
                    to_offset=None,
                    from_ms=record.timestamp_ms,
                    to_ms=None,
                    position_from=after.position,
                    position_to=after.position,
                    began=verdict.value,
                    ended=None,
                )
            )
        if verdict in WINS or verdict in OWNER_STAYS:
            lane.beats.append(record.timestamp_ms)

    def _mark(
        self,
        name: str,
        rules: Rules,
        lane: _LaneFold,
        record: Record,
        verdict: Verdict,
        key: ClaimKey,
        before: Claim,
        after: Claim,
    ) -> None:
        message = record.message
        kind: d.MarkKind | None = None
        if isinstance(verdict, Refused):
            kind = d.MarkKind.REFUSAL
            if isinstance(message, Heartbeat):
                self._find(
                    name,
                    record,
                    key,
                    verdict,
                    "late_heartbeat_refused",
                    d.Severity.WARNING,
                    "Fenced",
                    f"A heartbeat of {message.client_id} arrived after it had lost "
                    f"{key.topic}/{key.topic_partition}, and was refused.",
                )
        elif verdict is Accepted.TOOK_OVER:
            kind = d.MarkKind.TAKEOVER
        elif verdict in (Accepted.RESTARTED, Accepted.FAST_RECLAIMED):
            kind = d.MarkKind.RESTART
        elif verdict is Accepted.OVERWRITTEN and before.owned:
            live = original.claimed(before, record.timestamp_ms, rules)
            if before.owner_client == message.client_id:
                kind = d.MarkKind.RESTART
            elif live:
                kind = d.MarkKind.THEFT
                self._find(
                    name,
                    record,
                    key,
                    verdict,
                    "late_heartbeat_stole",
                    d.Severity.ERROR,
                    "Fenced",
                    f"A late heartbeat of {message.client_id} took {key.topic}/"
                    f"{key.topic_partition} from {before.owner_client}, which was alive.",
                )
            else:
                kind = d.MarkKind.TAKEOVER
        elif verdict is Accepted.GROUP_RELEASED and isinstance(message, ReleaseGroup):
            kind = d.MarkKind.PAUSE
            lane.pauses.append(
                d.Pause(record.timestamp_ms, message.expires_unix_s * 1000, message.instance_id)
            )
        elif verdict is Accepted.POSITION_SET or (
            isinstance(message, ReleasingPartition) and before.pauser == message.instance_id
        ):
            kind = d.MarkKind.POSITION_SET
        elif after.position < before.position:
            kind = d.MarkKind.POSITION_BACK
        if kind is not None:
            lane.marks.append(
                d.RecordGlyph(
                    offset=record.offset,
                    at_ms=record.timestamp_ms,
                    kind=kind,
                    sender_instance=message.instance_id,
                    sender_client=message.client_id,
                    guard=verdict.value if isinstance(verdict, Refused) else None,
                    position=after.position,
                )
            )

    def _find(
        self,
        rules: str,
        record: Record,
        key: ClaimKey,
        verdict: Verdict,
        code: str,
        severity: d.Severity,
        broken: str,
        sentence: str,
    ) -> None:
        proof = d.FindingRecord(
            record.offset,
            record.timestamp_ms,
            type(record.message).__name__,
            record.message.instance_id,
            record.message.client_id,
            verdict.value,
            _text(record),
        )
        self.findings.append(
            d.Finding(
                rules,
                code,
                severity,
                broken,
                sentence,
                self.name,
                record.partition,
                key.group,
                key.topic,
                key.topic_partition,
                records=(proof,),
            )
        )

    def _id(self, partition: int, key: ClaimKey) -> d.ClaimId:
        return d.ClaimId(self.name, partition, key.group, key.topic, key.topic_partition)

    def log(self) -> d.ReportLog:
        times = [r.timestamp_ms for r in self.records]
        partitions = len({r.partition for r in self.records})
        return d.ReportLog(self.name, len(times), min(times), max(times), partitions)

    def timelines(self) -> list[d.ClaimTimeline]:
        return [
            d.ClaimTimeline(
                self._id(partition, key),
                tuple(lane.lane(name) for name, lane in lanes.items()),
                self.count[partition, key],
            )
            for (partition, key), lanes in self.lanes.items()
        ]

    def senders(self) -> list[ClockStatistics]:
        by_sender: dict[tuple[str, str, str], list[int]] = defaultdict(list)
        for record in self.records:
            m = record.message
            by_sender[m.group_id, m.instance_id, m.client_id].append(
                m.unix_s * 1000 - record.timestamp_ms
            )
        return [
            ClockStatistics(
                self.name,
                *sender,
                records=len(ms),
                offset_min_ms=min(ms),
                offset_median_ms=round(statistics.median(ms)),
                offset_max_ms=max(ms),
            )
            for sender, ms in by_sender.items()
        ]

    def groups(self) -> list[GroupCountsRow]:
        summaries = []
        where = sorted({(partition, key.group) for partition, key in self.lanes})
        for partition, group in where:
            messages = [r.message for r in self.records if r.message.group_id == group]
            for name in self.rules:
                lanes = [
                    lanes[name]
                    for (p, key), lanes in self.lanes.items()
                    if (p, key.group) == (partition, group)
                ]
                kinds = [mark.kind for lane in lanes for mark in lane.marks]
                gaps = [
                    b.from_ms - a.to_ms
                    for lane in lanes
                    for a, b in zip(lane.tenures, lane.tenures[1:], strict=False)
                    if a.to_ms is not None and b.from_ms > a.to_ms
                ]
                summaries.append(
                    group_row(
                        self.name,
                        partition,
                        group,
                        name,
                        len(lanes),
                        len({m.client_id for m in messages}),
                        len({m.instance_id for m in messages}),
                        len(messages),
                        sum(len(lane.tenures) for lane in lanes),
                        kinds.count(d.MarkKind.TAKEOVER),
                        kinds.count(d.MarkKind.REFUSAL),
                        kinds.count(d.MarkKind.THEFT),
                        max(gaps, default=None),
                    )
                )
        return summaries

    def divergences(self) -> list[d.Divergence]:
        found: dict[tuple[int, ClaimKey], list[d.Divergence]] = defaultdict(list)
        if len(self.rules) < 2:
            return []
        for (record, key, ours), (_, _, theirs) in zip(
            self.states[d.FENCED], self.states[d.ORIGINAL], strict=True
        ):
            rows = found[record.partition, key]
            now = d.Divergence(
                claim=self._id(record.partition, key),
                offset=record.offset,
                at_ms=record.timestamp_ms,
                until_offset=None,
                until_ms=None,
                original_instance=theirs.owner_instance if theirs.owned else None,
                original_client=theirs.owner_client if theirs.owned else None,
                original_position=theirs.position,
                fenced_instance=ours.owner_instance,
                fenced_client=ours.owner_client,
                fenced_position=ours.position,
                text=_text(record),
            )
            if rows and rows[-1].until_ms is None:
                if _difference(rows[-1]) == _difference(now):
                    continue
                rows[-1] = attrs.evolve(
                    rows[-1], until_offset=record.offset, until_ms=record.timestamp_ms
                )
            if now.owners_differ or now.original_position != now.fenced_position:
                rows.append(now)
        return [row for rows in found.values() for row in rows]


def _difference(row: d.Divergence) -> tuple[object, ...]:
    return (
        row.original_instance,
        row.fenced_instance,
        row.original_position,
        row.fenced_position,
    )


def _text(record: Record) -> str:
    m = record.message
    parts = [type(m).__name__, m.version, m.unix_s, m.instance_id, m.client_id, m.group_id, m.topic]
    last = getattr(m, "offset", getattr(m, "expires_unix_s", None))
    return "/".join(map(str, [*parts, m.partition, *([] if last is None else [last])]))

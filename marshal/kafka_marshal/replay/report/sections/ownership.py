"""The ownership section: a legend, a figure per log, a block per group, a row per claim.

This module chooses the order and the time spans. `timeline` draws the lanes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Final

from kafka_marshal.markup import Html, el, name
from kafka_marshal.replay.report.base import document
from kafka_marshal.replay.report.base.clock import Axis, span
from kafka_marshal.replay.report.base.data import ClaimTimeline, MarkKind, ReportData, ReportLog
from kafka_marshal.replay.report.base.palette import Palette
from kafka_marshal.replay.report.sections.causes import Group, worst_groups
from kafka_marshal.replay.report.sections.timeline import Timeline

ROWS_PER_AXIS: Final = 12
"""A longer block of claims repeats its time axis."""


def legend(
    data: ReportData, claims: Sequence[ClaimTimeline], palette: Palette, flags: bool = False
) -> Html:
    """The meaning of colours and glyphs; only those that occur."""
    kinds = {mark.kind for c in claims for lane in c.lanes for mark in lane.marks}
    glyphs = [(kind.value, kind.sentence) for kind in MarkKind if kind in kinds]
    if flags:
        glyphs.append(("finding", "a finding that is none of these"))
    spans = [("stale", "owner stale"), ("nobody", "nobody owns")]
    if any(lane.pauses for c in claims for lane in c.lanes):
        spans.append(("paused", "paused"))
    if data.divergences and data.scale is None:
        spans.append(("owners", "the rule sets name different owners"))
        if any(not d.owners_differ for d in data.divergences):
            spans.append(("positions", "different positions"))
    return document.legend(palette, "its instances in shades of the colour", glyphs, spans)


def ownership(
    data: ReportData,
    timeline: Timeline,
    log_anchors: dict[str, str],
    palette: Palette,
    overview: Html | None,
) -> Html:
    """A figure per log, a block per group, a row per claim, the worst first."""
    by_log: dict[str, list[ClaimTimeline]] = defaultdict(list)
    for claim in data.claims:
        by_log[claim.claim.log].append(claim)
    ranks = worst_groups(data)
    worst = {
        log: min((ranks[log, c.claim.group] for c in of_log), default=(0, 0))
        for log, of_log in by_log.items()
    }
    figures = [
        _figure(log, by_log[log.name], timeline, log_anchors[log.name], ranks)
        for log in sorted(_all_logs(data), key=lambda log: worst.get(log.name, (0, 0)))
        if by_log[log.name]
    ]
    both = len(data.rules) > 1
    return el(
        "section",
        {"id": "ownership"},
        el("h2", None, "Who owned what"),
        el(
            "p",
            {"class": "note"},
            "A row is a claim"
            + (
                ", its upper lane the original’s rules, its lower lane the fenced ones"
                if both
                else ""
            )
            + ". A bar is one owner’s tenure, the ticks in it its heartbeats. Times are UTC.",
        ),
        overview,
        legend(data, data.claims, palette, bool(timeline.drawn.flagged)) if data.claims else None,
        *(figures or [el("p", {"class": "none"}, "There is no claim to draw.")]),
    )


def _all_logs(data: ReportData) -> list[ReportLog]:
    """The given logs, and further ones that only claims name, so that nothing is omitted."""
    known = {log.name for log in data.logs}
    others = dict.fromkeys(c.claim.log for c in data.claims if c.claim.log not in known)
    return [*data.logs, *(ReportLog(log, 0, None, None, 0) for log in others)]


def anchors_of_logs(data: ReportData) -> dict[str, str]:
    """By log name, the id of its figure, if it has one."""
    drawn = {c.claim.log for c in data.claims}
    names = dict.fromkeys(log.name for log in _all_logs(data) if log.name in drawn)
    return {log: f"log-{n}" for n, log in enumerate(names, start=1)}


def _figure(
    log: ReportLog,
    claims: Sequence[ClaimTimeline],
    timeline: Timeline,
    anchor: str,
    ranks: Mapping[Group, tuple[int, int]],
) -> Html:
    axis = _axis(log, claims)
    blocks: list[Html] = []

    def block_of(c: ClaimTimeline) -> tuple[int, str]:
        return (c.claim.coordinating_partition, c.claim.group)

    def order(c: ClaimTimeline) -> tuple[object, ...]:
        rank = ranks[log.name, c.claim.group]
        return (rank, *block_of(c), c.claim.topic, c.claim.topic_partition)

    for (partition, group), members in groupby(sorted(claims, key=order), key=block_of):
        rows = [timeline.row(claim, axis) for claim in members]
        head = el(
            "h4",
            None,
            "group ",
            el("bdi", None, name(group)),
            el("span", None, f" coordinating partition {partition}"),
        )
        blocks.append(head)
        blocks.extend(
            el(
                "div",
                {"class": "block"},
                timeline.axis(axis),
                *rows[start : start + ROWS_PER_AXIS],
            )
            for start in range(0, len(rows), ROWS_PER_AXIS)
        )
    return el(
        "figure",
        {"id": anchor, "class": "log"},
        el(
            "figcaption",
            None,
            el("h3", None, el("bdi", None, name(log.name, 100))),
            el("p", None, span(log.from_ms, log.to_ms)) if log.from_ms is not None else None,
            el("div", {"class": "zoom", "hidden": True}),
        ),
        el("div", {"class": "scroll"}, el("div", {"class": "wide-plot"}, *blocks)),
    )


def _axis(log: ReportLog, claims: Sequence[ClaimTimeline]) -> Axis:
    """The log's time span, extended to all that is drawn: a pause may expire after the end."""
    times = [ms for ms in (log.from_ms, log.to_ms) if ms is not None]
    if len(times) < 2:
        for lane in (lane for claim in claims for lane in claim.lanes):
            times += [t.from_ms for t in lane.tenures]
            times += [t.to_ms for t in lane.tenures if t.to_ms is not None]
            times += [mark.at_ms for mark in lane.marks]
            times += lane.beats_ms
    times = times or [0]
    return Axis.around(min(times), max(times))

"""The page: its sections in order, and the data that they share."""

from __future__ import annotations

from kafka_marshal.markup import Html, Json, el
from kafka_marshal.replay.report.base import glyphs, pieces
from kafka_marshal.replay.report.base.data import ClaimTimeline, ReportData
from kafka_marshal.replay.report.base.document import document
from kafka_marshal.replay.report.base.palette import Palette
from kafka_marshal.replay.report.base.scale import Scale
from kafka_marshal.replay.report.sections import (
    causes,
    claims,
    comparison,
    details,
    findings,
    heat,
    ownership,
    ranges,
    senders,
    summary,
    timeline,
)


def render(data: ReportData) -> str:
    """Render one HTML file with embedded style, drawing, data and script; it loads nothing.

    The text has no lone surrogates, so it encodes to UTF-8 whatever the records contain. The page
    is complete without scripts; the script adds tooltips, zoom and keys.
    """
    scale = data.scale
    palette = Palette(data.claims if scale is None else _detailed(scale))
    found = causes.causes(data)
    drawing = timeline.Timeline(
        data.claims,
        [mark for cause in found for mark in cause.marks],
        data.divergences,
        palette,
        2000 * data.heartbeat_interval_s,
    )
    log_anchors = ownership.anchors_of_logs(data)
    overview = summary.overview(data, log_anchors)
    drawn = drawing.drawn
    parts: dict[str, Html | None]
    scripts: list[Html] = []
    if scale is None:
        # Drawn first: findings and divergences link to their place in the drawing.
        owned = ownership.ownership(data, drawing, log_anchors, palette, overview)
        parts = {
            "ownership": owned,
            "ranges": ranges.section(data, palette),
            "findings": findings.findings(found, drawn, log_anchors, len(data.logs)),
            "divergences": comparison.divergences(data, drawn),
            "groups": comparison.groups(data),
            "clocks": senders.section(data, palette),
            "replayed": summary.replayed(data),
        }
    else:
        parts = {
            "divergences": comparison.divergences(data, drawn),
            "groups": comparison.groups(data),
            "clocks": senders.section(data, palette),
            "replayed": summary.replayed(data),
        }
        # Findings link to claims, and the number of claims with details depends on the remaining
        # space.
        others = sum(len(part.encode()) for part in parts.values() if part is not None)
        others += len(findings.findings(found, drawn, log_anchors, len(data.logs)).encode())
        held = details.embedded(scale, data.logs, palette, 2000 * data.heartbeat_interval_s, others)
        drawn.details.update(held.indices)
        scripts = [*held.scripts, el("script", None, pieces.asset("explore.js"))]
        parts = {
            "claims": claims.section(data, scale, held, palette, overview),
            "heat": heat.section(scale, len(data.logs)),
            "findings": findings.findings(found, drawn, log_anchors, len(data.logs)),
            **parts,
        }
    first_error = findings.first_error(data, found, drawn, log_anchors)
    embedded: Json = {"tenures": drawn.tenures, "marks": drawn.marks}
    return document(
        summary.title(data),
        glyphs.definitions(),
        summary.header(data, first_error),
        parts,
        _CONTENTS,
        embedded,
        styles=() if scale is None else ("explore.css",),
        scripts=scripts,
    )


_CONTENTS = {
    "ownership": "Who owned what",
    "ranges": "Who held which offsets",
    "claims": "Who owned what",
    "heat": "Findings over time",
    "findings": "Findings",
    "divergences": "Where the rule sets part",
    "groups": "Groups",
    "clocks": "Senders’ clocks",
    "replayed": "What was replayed",
}


def _detailed(scale: Scale) -> list[ClaimTimeline]:
    return [detail.timeline for detail in scale.details.values()]

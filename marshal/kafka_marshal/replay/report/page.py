"""The page as a whole: sections in order, and everything it needs inside it."""

from __future__ import annotations

from importlib import resources

from kafka_marshal.markup import Html, Json, base_style, el, embedded_json, join, visible
from kafka_marshal.replay.report import (
    claims,
    comparison,
    details,
    findings,
    glyphs,
    heat,
    ownership,
    senders,
    summary,
    timeline,
)
from kafka_marshal.replay.report.data import ClaimTimeline, ReportData
from kafka_marshal.replay.report.palette import Palette
from kafka_marshal.replay.report.scale import Scale


def render(data: ReportData) -> str:
    """One HTML file: style, drawing, data and script inside, nothing fetched from anywhere.

    The text holds no lone surrogate, so it encodes to UTF-8 whatever the records held. Without
    scripts the page says the same; the script adds tooltips, zoom and keys.
    """
    scale = data.scale
    palette = Palette(data.claims if scale is None else _detailed(scale))
    numbered = findings.places(data)
    drawing = timeline.Timeline(
        data.claims, numbered, data.divergences, palette, 2000 * data.heartbeat_interval_s
    )
    log_anchors = ownership.anchors_of_logs(data)
    drawn = drawing.drawn
    parts: dict[str, Html | None]
    scripts: list[Html] = []
    if scale is None:
        # Drawn first: findings and divergences link to where they are drawn.
        owned = ownership.ownership(data, drawing, log_anchors, palette)
        parts = {
            "findings": findings.findings(numbered, drawn, log_anchors),
            "ownership": owned,
            "divergences": comparison.divergences(data, drawn),
            "clocks": senders.section(data, palette),
            "groups": comparison.groups(data),
        }
    else:
        parts = {
            "divergences": comparison.divergences(data, drawn),
            "clocks": senders.section(data, palette),
            "groups": comparison.groups(data),
        }
        # Findings link to claims, and which those are depends on the room that is left.
        others = sum(len(part.encode()) for part in parts.values() if part is not None)
        others += len(findings.findings(numbered, drawn, log_anchors).encode())
        held = details.embedded(scale, data.logs, palette, 2000 * data.heartbeat_interval_s, others)
        drawn.details.update(held.places)
        scripts = [*held.scripts, el("script", None, _asset("explore.js"))]
        parts = {
            "heat": heat.section(scale, len(data.logs)),
            "groups": parts["groups"],
            "claims": claims.section(data, scale, held, palette),
            "findings": findings.findings(numbered, drawn, log_anchors),
            "divergences": parts["divergences"],
            "clocks": parts["clocks"],
        }
    embedded: Json = {"tenures": drawn.tenures, "marks": drawn.marks}
    head = el(
        "head",
        None,
        el("meta", {"charset": "utf-8"}),
        el("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        el("meta", {"name": "color-scheme", "content": "light dark"}),
        el("title", None, visible(data.title, 160)),
        el("style", None, base_style(), _asset("style.css")),
        el("style", None, _asset("explore.css")) if scale is not None else None,
    )
    body = el(
        "body",
        None,
        glyphs.definitions(),
        el(
            "main",
            None,
            summary.header(data),
            summary.caveats(data),
            _contents([anchor for anchor, part in parts.items() if part is not None]),
            summary.overview(data, log_anchors),
            *parts.values(),
            el(
                "footer",
                None,
                el(
                    "p",
                    None,
                    "Written by kafka-marshal. The tables beside this file hold every row.",
                ),
            ),
        ),
        el("div", {"id": "tip", "role": "tooltip", "hidden": True}),
        el("script", {"type": "application/json", "id": "data"}, embedded_json(embedded)),
        el("script", None, _asset("report.js")),
        *scripts,
    )
    return "<!doctype html>\n" + el("html", {"lang": "en"}, head, body) + "\n"


_CONTENTS = {
    "findings": "Findings",
    "heat": "Findings over time",
    "claims": "Claims",
    "ownership": "Who owned what",
    "divergences": "Where the rule sets part",
    "clocks": "Senders’ clocks",
    "groups": "Groups",
}


def _detailed(scale: Scale) -> list[ClaimTimeline]:
    return [detail.timeline for detail in scale.details.values()]


def _contents(anchors: list[str]) -> Html:
    links = (el("a", {"href": f"#{anchor}"}, _CONTENTS[anchor]) for anchor in anchors)
    return el("nav", {"aria-label": "Contents"}, join(links, " "))


def _asset(file: str) -> Html:
    """A file of this package as it stands: ours, so it is markup already."""
    return Html(resources.files(__package__).joinpath(file).read_text(encoding="utf-8"))

"""The claims of a large replay: a table of the worst, and space for what the script draws."""

from __future__ import annotations

from typing import Final

from kafka_marshal.markup import Html, el, name
from kafka_marshal.replay.report.base import pieces, words
from kafka_marshal.replay.report.base.clock import duration
from kafka_marshal.replay.report.base.data import ReportData
from kafka_marshal.replay.report.base.palette import Palette
from kafka_marshal.replay.report.base.scale import ClaimCounts, Scale
from kafka_marshal.replay.report.sections import ownership
from kafka_marshal.replay.report.sections.details import PAGE_BYTES_MAX, Embedded

ROWS: Final = 30
"""The most claims in the page's own table, the worst first; the script shows the others."""
_HEADS: Final = (
    ("claim", "name"),
    ("records", "records"),
    ("errors", "errors"),
    ("warnings", "warnings"),
    ("tenures", "tenures"),
    ("takeovers", "takeovers"),
    ("unowned", "unowned"),
)


def section(
    data: ReportData, scale: Scale, held: Embedded, palette: Palette, overview: Html | None
) -> Html:
    """The drawing of the worst claims, their list, and a note on the others."""
    heads = [
        el(
            "th",
            {"scope": "col", "class": "n" if n else None, "data-by": by},
            head,
        )
        for n, (head, by) in enumerate(_HEADS)
    ]
    rows = [_row(claim, index) for index, claim in enumerate(scale.claims[:ROWS])]
    return el(
        "section",
        {"id": "claims"},
        el("h2", None, "Who owned what"),
        overview,
        el("noscript", None, el("p", None, "Timelines are drawn by a script, which is off.")),
        el(
            "div",
            {"id": "detail", "hidden": True, "tabindex": "-1"},
            el("h3", {"class": "chosen"}),
            ownership.legend(data, [d.timeline for d in scale.details.values()], palette),
            el("div", {"class": "drawn"}),
        ),
        el("h3", {"class": "list"}, "Claims"),
        el("p", {"class": "note"}, _note(data)),
        el("p", {"class": "note"}, _held(data, scale, held)),
        el("div", {"class": "find", "hidden": True}),
        el(
            "div",
            {
                "class": "wide",
                "tabindex": "0",
                "role": "region",
                "aria-label": "table: claims",
            },
            el(
                "table",
                {"class": "claims"},
                el("thead", None, el("tr", None, *heads)),
                el("tbody", None, *rows),
            ),
        ),
    )


def _note(data: ReportData) -> str:
    both = " Of two rule sets the larger number." if len(data.rules) > 1 else ""
    return (
        "First those that are the worst by errors, by takeovers, or by the time in which nobody "
        f"owned them after somebody had.{both}"
    )


def _held(data: ReportData, scale: Scale, held: Embedded) -> str:
    """What the page leaves out, and where to find it."""
    parts = [
        f"This page holds the timelines of {words.plural(held.whole, 'claim')}"
        f", of {held.tenures_only:,} the tenures without marks and heartbeats"
        f", of {held.counts_only:,} numbers only"
    ]
    unlisted = data.counts.claims - len(scale.claims)
    if unlisted > 0:
        parts.append(f", and nothing of {unlisted:,}")
    parts.append(
        f" (it stays below {PAGE_BYTES_MAX // 10**6} MB). The Parquet tables beside it hold all: "
        "claims, tenures, refusals and findings."
    )
    return "".join(parts)


def _row(claim: ClaimCounts, index: int) -> Html:
    key = claim.claim
    about = f"{name(key.log, 60)} · {name(key.group, 48)}"
    return el(
        "tr",
        {"data-claim": index},
        el(
            "th",
            {"scope": "row"},
            el("bdi", None, pieces.topic(key.topic, key.topic_partition)),
            el("small", None, el("bdi", None, about)),
        ),
        pieces.number(claim.records),
        pieces.number(claim.errors, "error"),
        pieces.number(claim.warnings, "warning"),
        pieces.number(claim.tenures),
        pieces.number(claim.takeovers),
        el(
            "td",
            {"class": "n" if claim.unowned_ms else "n zero"},
            duration(claim.unowned_ms) if claim.unowned_ms else "0",
        ),
    )

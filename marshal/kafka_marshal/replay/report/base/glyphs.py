"""The shapes of the marks, once per page; the timeline and the legend use them by id."""

from __future__ import annotations

from kafka_marshal.markup import Html, el
from kafka_marshal.replay.report.base.data import MarkKind


def definitions() -> Html:
    """The marks' shapes and the patterns, once per page. Each is drawn around 0, 0."""
    hit = el("rect", {"class": "hit", "x": -7, "y": -7, "width": 14, "height": 14})

    def shape(kind: str, *paths: Html) -> Html:
        return el("g", {"id": f"g-{kind}"}, hit, *paths)

    def path(d: str, kind: str = "fill") -> Html:
        return el("path", {"d": d, "class": kind})

    drawn: dict[MarkKind, tuple[Html, ...]] = {
        MarkKind.THEFT: (
            el("circle", {"r": 7, "class": "fill"}),
            path("M1.6-5.2 -2.6 .8H-.2L-1.6 5.2 2.8-1.2H.3Z", "cut"),
        ),
        MarkKind.TAKEOVER: (path("M0-4.6 4.8 3.6H-4.8Z"),),
        MarkKind.RESTART: (el("circle", {"r": 3.4, "class": "line"}),),
        MarkKind.REFUSAL: (path("M-2.9-2.9 2.9 2.9M-2.9 2.9 2.9-2.9", "line"),),
        MarkKind.PAUSE: (path("M-3.6-4.4H-1V4.4H-3.6ZM1-4.4H3.6V4.4H1Z"),),
        MarkKind.PAUSE_BROKEN: (
            el("rect", {"x": -6.5, "y": -6.5, "width": 13, "height": 13, "class": "fill"}),
            path("M-3.2-3.6H-1.2V3.6H-3.2ZM1.2-3.6H3.2V3.6H1.2ZM-6 6 6-6 6.6-5 -5 6.6Z", "cut"),
        ),
        MarkKind.POSITION_SET: (path("M0-4.8 4.8 0 0 4.8-4.8 0Z"),),
        MarkKind.POSITION_BACK: (path("M-5 0 3.4-4.6V4.6Z"),),
    }
    dot = (el("circle", {"r": 2.4, "class": "fill"}),)  # a mark without a shape of its own
    hatch = el(
        "pattern",
        {
            "id": "hatch",
            "width": 5,
            "height": 5,
            "patternUnits": "userSpaceOnUse",
            "patternTransform": "rotate(45)",
        },
        el("line", {"x1": 0, "x2": 0, "y1": 0, "y2": 5}),
    )
    return el(
        "svg",
        {"class": "defs", "width": 0, "height": 0, "aria-hidden": "true"},
        el(
            "defs",
            None,
            hatch,
            *(shape(kind, *drawn.get(kind, dot)) for kind in MarkKind),
            shape("finding", path("M-3.4-4.4H3.4V1.2L0 4.8-3.4 1.2Z", "line")),
        ),
    )

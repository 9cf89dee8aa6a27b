"""The shapes of a group's events, once per page, and their names."""

from __future__ import annotations

from typing import Final

from kafka_marshal.markup import Html, el

MARKS: Final = {
    "joined": "a member joined",
    "left": "a member left",
    "expired": "a member was expired",
    "rewound": "positions were set",
    "counted": "a topic was counted",
    "started": "another controller took over",
}
"""The kinds of marks that are drawn, with their wording."""

_SHAPES: Final = {
    "joined": ("M-.9-4H.9V-.9H4V.9H.9V4H-.9V.9H-4V-.9H-.9Z", "fill"),
    "left": ("M-4-.9H4V.9H-4Z", "fill"),
    "expired": ("M-3.2-3.2 3.2 3.2M-3.2 3.2 3.2-3.2", "line"),
    "rewound": ("M-5 0 3.4-4.6V4.6Z", "fill"),
    "counted": ("M-3.2-3.2H3.2V3.2H-3.2Z", "line"),
    "started": ("M0-4.8 4.8 0 0 4.8-4.8 0Z", "fill"),
}


def definitions() -> Html:
    """The marks' shapes. Each is drawn around 0, 0."""
    hit = el("rect", {"class": "hit", "x": -7, "y": -7, "width": 14, "height": 14})
    flag = el("path", {"d": "M-3.4-4.4H3.4V1.2L0 4.8-3.4 1.2Z", "class": "line"})
    return el(
        "svg",
        {"class": "defs", "width": 0, "height": 0, "aria-hidden": "true"},
        el(
            "defs",
            None,
            *(
                el("g", {"id": f"g-{kind}"}, hit, el("path", {"d": d, "class": how}))
                for kind, (d, how) in _SHAPES.items()
            ),
            el("g", {"id": "g-finding"}, hit, flag),
        ),
    )

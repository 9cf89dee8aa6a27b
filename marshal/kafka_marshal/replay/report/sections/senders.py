"""The clock offset of each sender from the broker: a dot and a range around zero."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from kafka_marshal.markup import Html, el, join, name
from kafka_marshal.replay.model.internal import ClockStatistics
from kafka_marshal.replay.report.base import pieces
from kafka_marshal.replay.report.base.clock import duration
from kafka_marshal.replay.report.base.data import ReportData
from kafka_marshal.replay.report.base.palette import Palette

LINEAR_UP_TO_MS: Final = 30_000
"""Larger offsets have a logarithmic scale, so that a day and a second are both visible."""
HONEST_FROM_MS: Final = -1000
"""Offsets from here to 0 are explained by the whole seconds in messages."""
SENDERS_MAX: Final = 200
_TICKS_MS: Final = (1, 2, 5, 10, 20, 60, 600, 3600, 86_400, 31_536_000)


def section(data: ReportData, palette: Palette) -> Html | None:
    """One line per sender, the largest offset first."""
    if not data.senders:
        return None
    ordered = sorted(data.senders, key=_farthest, reverse=True)
    shown = ordered[:SENDERS_MAX]
    fraction, ticks = _scale(shown)
    left_out = len(ordered) - len(shown)
    return el(
        "section",
        {"id": "clocks"},
        el("h2", None, "Senders’ clocks"),
        el(
            "p",
            {"class": "note"},
            "A sender’s clock minus the broker’s, over all its records: the dot is the median, the "
            "line the range. Messages hold whole seconds, which explains the grey band of −1 s to "
            "0. Far left: the clock is behind, or the record was long on its way.",
        ),
        el(
            "div",
            {"class": "clocks", "role": "list"},
            el(
                "div",
                {"class": "clock head", "aria-hidden": "true"},
                el("span", None, "sender"),
                el("svg", {"height": 18}, *(_tick_label(fraction(ms), ms) for ms in ticks)),
                el("span", {"class": "n"}, "median"),
                el("span", {"class": "n"}, "range"),
            ),
            *(_line(sender, fraction, ticks, palette) for sender in shown),
        ),
        el("p", {"class": "note"}, f"{left_out:,} more, nearer to the broker’s clock.")
        if left_out
        else None,
    )


def _farthest(sender: ClockStatistics) -> int:
    return max(sender.offset_max_ms, HONEST_FROM_MS - sender.offset_min_ms)


def _scale(senders: Sequence[ClockStatistics]) -> tuple[Callable[[int], float], list[int]]:
    """The scale: position of an offset, 0 to 1, and the offsets to mark."""
    low = min(-1500, *(s.offset_min_ms for s in senders))
    high = max(500, *(s.offset_max_ms for s in senders))

    def bend(ms: int) -> float:
        return math.asinh(ms / 1000) if max(high, -low) > LINEAR_UP_TO_MS else float(ms)

    left, right = bend(low), bend(high)
    margin = (right - left) * 0.03
    left, right = left - margin, right + margin
    marked: list[int] = [0]
    candidates = [sign * s * 1000 for s in _TICKS_MS for sign in (-1, 1)]
    # The outermost round values first, so that the ends of the scale have labels.
    for ms in sorted(candidates, key=abs, reverse=True):
        at = (bend(ms) - left) / (right - left)
        if 0.03 <= at <= 0.97 and all(
            abs(at - (bend(other) - left) / (right - left)) > 0.11 for other in marked
        ):
            marked.append(ms)

    return (lambda ms: (bend(ms) - left) / (right - left)), sorted(marked)


def _percent(at: float) -> str:
    return f"{100 * at:.2f}%"


def _tick_label(at: float, ms: int) -> Html:
    text = "0" if ms == 0 else ("+" if ms > 0 else "") + duration(ms).replace(".0 ", " ")
    return el("text", {"x": _percent(at), "y": 13}, text)


def _line(
    sender: ClockStatistics,
    fraction: Callable[[int], float],
    ticks: Sequence[int],
    palette: Palette,
) -> Html:
    low, middle, high = (
        fraction(ms) for ms in (sender.offset_min_ms, sender.offset_median_ms, sender.offset_max_ms)
    )
    honest = (fraction(HONEST_FROM_MS), fraction(0))
    outside = sender.offset_min_ms < HONEST_FROM_MS - 500 or sender.offset_max_ms > 500
    grid = join(
        el(
            "line",
            {
                "x1": _percent(fraction(ms)),
                "x2": _percent(fraction(ms)),
                "y1": 0,
                "y2": "100%",
                "class": "zero" if ms == 0 else "grid",
            },
        )
        for ms in ticks
    )
    label = f"{duration(sender.offset_min_ms)} to {duration(sender.offset_max_ms)}"
    return el(
        "div",
        {"class": "clock off" if outside else "clock", "role": "listitem"},
        el(
            "span",
            {"class": "who"},
            el("i", {"class": f"swatch {palette.owner(sender.client, sender.instance)}"}),
            pieces.sender(sender.client, sender.instance),
            " ",
            el(
                "small",
                None,
                el("bdi", None, name(sender.log, 40)),
                f" · {sender.records:,}",
            ),
        ),
        el(
            "svg",
            {"height": 18, "role": "img", "aria-label": label},
            el(
                "rect",
                {
                    "class": "honest",
                    "x": _percent(honest[0]),
                    "width": _percent(honest[1] - honest[0]),
                    "y": 0,
                    "height": "100%",
                },
            ),
            grid,
            el(
                "line",
                {"class": "range", "x1": _percent(low), "x2": _percent(high), "y1": 9, "y2": 9},
            ),
            el("circle", {"cx": _percent(middle), "cy": 9, "r": 3.5}),
        ),
        el("span", {"class": "n"}, duration(sender.offset_median_ms)),
        el("span", {"class": "n range"}, label),
    )

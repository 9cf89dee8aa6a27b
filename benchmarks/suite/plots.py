"""The plots of the page: SVG that takes its colours from the page's style.

Each plot is a function of values. Nothing here knows where they come from, or what is good.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from attrs import frozen
from benchmarks.suite.figures import TARGET, Figure, number

from kafka_marshal.markup import Attribute, Html, el

Attributes: TypeAlias = dict[str, Attribute]
WIDTH: Final = 860
ROW: Final = 24
LABEL: Final = 250
"""Labels end here, and bars begin."""
BARS: Final = 270
RATIO_END: Final = 690
HISTORY: Final = (708, 80)
"""Where a history begins, and its width; its first value stands behind it."""
SPAN_MIN: Final = 0.2
"""The least part above and below its middle that a history shows: noise must not look big."""


@frozen
class Dot:
    """A ratio in the overview."""

    label: str
    now: float
    before: float | None
    """The median of the last stored ones; None without one."""
    target: float | None
    fell: bool


def _text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> Html:
    place: Attributes = {"x": f"{x:g}", "y": f"{y:g}", "text-anchor": anchor}
    return el("text", place | {"class": kind or None}, words)


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Html:
    ends = {"x1": x1, "y1": y1, "x2": x2, "y2": y2}
    return el("line", {"class": kind, **{name: f"{value:.1f}" for name, value in ends.items()}})


def _svg(height: float, title: str, *shapes: Html) -> Html:
    box = f"0 0 {WIDTH} {height:g}"
    return el("svg", {"viewBox": box, "role": "img"}, el("title", None, title), *shapes)


def bars(figure: Figure, histories: dict[str, Sequence[float]]) -> Html:
    """A figure: ours, and each peer with its ratio and the history of it. The target is dashed."""
    target = figure.target_value
    rows = {"ours": figure.ours, **figure.peers}
    most = max(*rows.values(), target or 0.0, 1e-12)
    shapes = [_text(RATIO_END, 12, "ours better by", "faint", "end")] if figure.ratios else []
    for at, (name, value) in enumerate(rows.items()):
        y = 18 + at * ROW
        length = max(1.0, value / most * BARS)
        kind = "ours" if at == 0 else "peer"
        size: Attributes = {"x": LABEL, "y": y + 4, "width": f"{length:.1f}", "height": ROW - 8}
        shapes.append(_text(LABEL - 8, y + 16, name, "strong" if at == 0 else "", "end"))
        shapes.append(el("rect", {"class": kind, **size}))
        words = f"{number(value)} {figure.unit}" if at == 0 else number(value)
        shapes.append(_text(LABEL + length + 6, y + 16, words, "value"))
        peer = name if at else TARGET
        if peer in figure.ratios:
            shapes.append(_text(RATIO_END, y + 16, f"{figure.ratios[peer]:.2f} ×", "strong", "end"))
            shapes.extend(_history(y, histories.get(peer, ())))
    bottom = 18 + len(rows) * ROW
    if target is not None:
        x = LABEL + target / most * BARS
        shapes.append(_line(x, 18, x, bottom, "target"))
        anchor = "start" if target < most / 2 else "end"
        shapes.append(_text(x, bottom + 14, f"target {figure.target_words}", "faint", anchor))
    return _svg(bottom + (20 if target is not None else 4), figure.name, *shapes)


def _history(y: float, ratios: Sequence[float]) -> Iterator[Html]:
    """The stored ratios and the last one: a line, and its first and last value."""
    if len(ratios) < 2:
        return
    left, width = HISTORY
    middle = (max(ratios) + min(ratios)) / 2
    half = max(middle * SPAN_MIN, (max(ratios) - min(ratios)) / 2) or 1.0
    step, top, tall = width / (len(ratios) - 1), y + 4, ROW - 8
    points = [
        (left + at * step, top + tall / 2 - (ratio - middle) / half * tall / 2)
        for at, ratio in enumerate(ratios)
    ]
    path = " ".join(f"{x:.1f},{place:.1f}" for x, place in points)
    yield _line(left, top + tall / 2, left + width, top + tall / 2, "rule")
    words = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    yield el("polyline", {"class": "history", "points": path}, el("title", None, words))
    x, last = points[-1]
    yield el("circle", {"class": "now", "cx": f"{x:.1f}", "cy": f"{last:.1f}", "r": 3})
    yield _text(left + width + 8, y + 16, f"from {ratios[0]:.2f}", "faint")


def overview(dots: Sequence[Dot]) -> Html:
    """Every ratio on one logarithmic axis: above 1 ours is better."""
    if not dots:
        return Html("")
    left, right, row = 420, WIDTH - 50, 17
    values = [value for dot in dots for value in (dot.now, dot.before, dot.target) if value]
    low, high = (math.log10(limit) for limit in (min(0.5, *values) / 1.1, max(2.0, *values) * 1.1))

    def place(ratio: float) -> float:
        log = math.log10(ratio) if ratio > 0 else low
        return left + (log - low) / (high - low) * (right - left)

    bottom = 22 + len(dots) * row
    shapes, wide = [], high - low < 2.5
    for tick in (base * 10.0**power for power in range(-6, 7) for base in (1, 2, 5)):
        if low <= math.log10(tick) <= high:
            kind = "one" if tick == 1 else "rule"
            shapes.append(_line(place(tick), 18, place(tick), bottom, kind))
            if wide or f"{tick:g}".strip("0.") == "1":
                shapes.append(_text(place(tick), 12, f"{tick:g}", "faint", "middle"))
    for at, dot in enumerate(dots):
        y = 22 + at * row + row / 2
        shapes.append(
            _text(left - 14, y + 4, dot.label, "label bad" if dot.fell else "label", "end")
        )
        if dot.target:
            x = place(dot.target)
            shapes.append(_line(x, y - 7, x, y + 7, "target"))
        if dot.before:
            from_x = place(dot.before)
            shapes.append(_line(from_x, y, place(dot.now), y, "fell" if dot.fell else "moved"))
            shapes.append(el("circle", {"class": "before", "cx": f"{from_x:.1f}", "cy": y, "r": 4}))
        kind = "bad" if dot.fell else "now"
        words = f"{dot.now:.2f}" + (f", stored {dot.before:.2f}" if dot.before else "")
        round_: Attributes = {"class": kind, "cx": f"{place(dot.now):.1f}", "cy": y, "r": 4}
        shapes.append(el("circle", round_, el("title", None, words)))
        shapes.append(_text(WIDTH, y + 4, f"{dot.now:.2f}", "value", "end"))
    return _svg(bottom + 6, "All ratios", *shapes)

"""The ranges of shared claims and their holders: a plot per claim, time against offset.

A rectangle is a range, from the request that was granted it to the record that ended it. The
section is omitted if no claim is shared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from kafka_marshal.markup import Html, el, name, visible
from kafka_marshal.replay.report.base import pieces, words
from kafka_marshal.replay.report.base.clock import Axis, moment, span
from kafka_marshal.replay.report.base.data import ClaimId, ClaimTimeline, RangeBar, ReportData
from kafka_marshal.replay.report.base.palette import Palette

HEIGHT_PX: Final = 180
LABEL_PX: Final = 12
"""The minimum height of a rectangle with a label."""
WIDTH_PX: Final = 960
LETTER_PX: Final = 5.9
_ENDED: Final = {
    "done": "done",
    "given_back": "given back",
    "taken": "taken from a silent holder",
    "lost": "forgotten with a silent holder",
    "void": "ended with all ranges of the claim",
    "held": "held when the log ends",
}
_OUTLINED: Final = ("taken", "lost", "void")


def section(data: ReportData, palette: Palette) -> Html | None:
    """A plot for each shared claim; None if there is none."""
    shared = [
        (claim, held)
        for claim in data.claims
        if (held := [bar for lane in claim.lanes for bar in lane.ranges])
    ]
    if not shared:
        return None
    endings = {bar.ended for _, held in shared for bar in held}
    legend = [
        el("li", None, el("i", {"class": f"swatch {ended}"}), _ENDED[ended])
        for ended in _OUTLINED
        if ended in endings
    ]
    return el(
        "section",
        {"id": "ranges", "class": "ranges"},
        el("h2", None, "Who held which offsets"),
        el(
            "p",
            {"class": "note"},
            "Of claims that several consumers share. A rectangle is a range that one instance "
            "held: its offsets upwards, its time to the right, in the colour of its client.",
        ),
        el("div", {"class": "legend"}, el("ul", None, *legend)) if legend else None,
        *(_figure(claim, held, palette) for claim, held in shared),
    )


def _figure(claim: ClaimTimeline, held: Sequence[RangeBar], palette: Palette) -> Html:
    low, high = min(bar.start for bar in held), max(bar.end for bar in held)
    offsets = f"offsets {low:,} to {high - 1:,}"
    times = [bar.from_ms for bar in held] + [bar.to_ms for bar in held if bar.to_ms is not None]
    for lane in claim.lanes:
        times += [*lane.beats_ms, *(mark.at_ms for mark in lane.marks)]
    axis = Axis.around(min(times), max(times))
    drawn = [_bar(bar, axis, low, high, palette) for bar in held]
    return el(
        "figure",
        None,
        el(
            "figcaption",
            None,
            el("h3", None, *_title(claim.claim)),
            el("p", None, f"{span(min(times), max(times))}: {offsets}, {_summary(held)}"),
        ),
        el(
            "div",
            {"class": "plot"},
            el(
                "svg",
                {
                    "class": "axis",
                    "data-axis": ",".join(str(end) for end in axis.json),
                    "aria-hidden": "true",
                },
                *_ticks(axis),
            ),
            el(
                "div",
                {"class": "label"},
                el("span", None, f"{high - 1:,}"),
                el("span", None, f"{low:,}"),
            ),
            el(
                "svg",
                {
                    "class": "offsets",
                    "height": HEIGHT_PX,
                    "role": "img",
                    "aria-label": f"{visible(claim.claim.topic)}/{claim.claim.topic_partition}: "
                    f"{words.plural(len(held), 'range')}",
                },
                *drawn,
            ),
        ),
    )


def _title(claim: ClaimId) -> Iterator[Html | str]:
    yield el("bdi", None, name(claim.topic, 40))
    yield f"/{claim.topic_partition} of group "
    yield el("bdi", None, name(claim.group, 40))


def _summary(held: Sequence[RangeBar]) -> str:
    """The number of ranges by how they ended.

    >>> bar = RangeBar(3, 0, 4, "p", "P", 0, 9, "done")
    >>> _summary([bar, bar])
    '2 ranges of 1 instance, 2 done'
    """
    count = Counter(bar.ended for bar in held)
    instances = words.plural(len({bar.instance for bar in held}), "instance")
    parts = [f"{count[ended]:,} {how}" for ended, how in _ENDED.items() if count[ended]]
    return ", ".join([f"{words.plural(len(held), 'range')} of {instances}", *parts])


def _ticks(axis: Axis) -> Iterator[Html]:
    for ms, label in axis.ticks():
        x = axis.percent(ms)
        yield el("line", {"x1": x, "x2": x, "y1": 20, "y2": "100%"})
        style = "text-anchor:end" if axis.fraction(ms) > 0.96 else None
        yield el("text", {"x": x, "y": 13, "style": style}, label)


def _bar(bar: RangeBar, axis: Axis, low: int, high: int, palette: Palette) -> Html:
    to_ms = axis.to_ms if bar.to_ms is None else bar.to_ms
    each = HEIGHT_PX / (high - low)
    height = max(1.0, each * (bar.end - bar.start))
    left, right = axis.fraction(bar.from_ms), axis.fraction(max(to_ms, bar.from_ms))
    offsets = f"{bar.start:,}" if bar.end - bar.start == 1 else f"{bar.start:,} to {bar.end - 1:,}"
    label = pieces.short(bar.instance)
    fits = height >= LABEL_PX and len(label) * LETTER_PX + 8 <= WIDTH_PX * (right - left)
    tooltip = (
        f"{visible(bar.client)} · {visible(bar.instance)}: offsets {offsets}, by the request at "
        f"log offset {bar.offset}, {moment(bar.from_ms)} to {moment(bar.to_ms)}: "
        f"{_ENDED[bar.ended]}"
    )
    return el(
        "svg",
        {
            "class": f"held {bar.ended} {palette.owner(bar.client, bar.instance)}",
            "x": f"{100 * left:.3f}%",
            "width": f"{max(100 * (right - left), 0.1):.3f}%",
            "y": f"{each * (high - bar.end):.2f}",
            "height": f"{height:.2f}",
        },
        el("title", None, tooltip),
        el("rect", {"width": "100%", "height": "100%"}),
        el("text", {"x": 4, "y": 11}, label) if fits else None,
    )

"""Findings over time as a heat map: a column per time span, a row per code and per group.

This module draws; the counts are in `scale`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from kafka_marshal.markup import Html, el, join, name
from kafka_marshal.replay.report.base import words
from kafka_marshal.replay.report.base.clock import Axis, duration, moment, span
from kafka_marshal.replay.report.base.scale import COLUMNS, Heat, HeatRow, Scale

SHADES: Final = 5
CELL_PX: Final = 16


def section(scale: Scale, logs: int) -> Html:
    """A figure per log."""
    shown = [heat for heat in scale.heats if heat.codes]
    note = (
        "The stronger the colour, the more: each shade is about four times as many as the one "
        "before. A finding stands where its first record does."
    )
    if logs > len(scale.heats):
        note += (
            f" The {len(scale.heats)} logs with most records are shown, of {logs:,}; the table "
            f"findings has all."
        )
    return el(
        "section",
        {"id": "heat"},
        el("h2", None, "Findings over time"),
        el("p", {"class": "note"}, note) if shown else None,
        *(_figure(heat) for heat in shown),
        None if shown else el("p", {"class": "none"}, "No finding has a time."),
    )


def _figure(heat: Heat) -> Html:
    to_ms = heat.from_ms + COLUMNS * heat.step_ms
    most = max(
        (count for row in (*heat.codes, *heat.groups) for count in row.counts.values()), default=1
    )
    left_out = heat.groups_left_out
    return el(
        "figure",
        {"class": "heat"},
        el(
            "figcaption",
            None,
            el("h3", None, el("bdi", None, name(heat.log, 100))),
            el("p", None, f"{span(heat.from_ms, to_ms)}, a column is {duration(heat.step_ms)}"),
        ),
        el("div", {"class": "heat-row head", "aria-hidden": "true"}, el("span"), _axis(heat)),
        *_rows(heat, heat.codes, most, "by kind"),
        *(_rows(heat, heat.groups, most, "errors and warnings by group") if heat.groups else ()),
        el("p", {"class": "note"}, f"{words.plural(left_out, 'more group')} with fewer of them.")
        if left_out
        else None,
    )


def _axis(heat: Heat) -> Html:
    axis = Axis(heat.from_ms, heat.from_ms + COLUMNS * heat.step_ms)
    labels = [
        el("text", {"x": axis.percent(ms), "y": 12, "class": "odd" if n % 2 else None}, label)
        for n, (ms, label) in enumerate(axis.ticks(8))
        if 0.03 < axis.fraction(ms) < 0.97
    ]
    return el("svg", {"height": CELL_PX}, *labels)


def _rows(heat: Heat, rows: Sequence[HeatRow], most: int, kind: str) -> list[Html]:
    is_code = kind == "by kind"
    return [
        el("h4", None, kind[:1].upper() + kind[1:]),
        *(
            el(
                "div",
                {"class": f"heat-row {row.severity.value}"},
                el(
                    "span",
                    {"class": "what", "data-group": None if is_code else name(row.name, 160)},
                    el(
                        "bdi",
                        None,
                        words.code_title(name(row.name, 60)) if is_code else name(row.name, 60),
                    ),
                ),
                _cells(heat, row, most),
                el("span", {"class": "n"}, f"{row.total:,}"),
            )
            for row in rows
        ),
    ]


def _cells(heat: Heat, row: HeatRow, most: int) -> Html:
    cells = []
    for at, count in sorted(row.counts.items()):
        begin = heat.from_ms + at * heat.step_ms
        tooltip = f"{count:,} from {moment(begin)[:19]}"
        cells.append(
            el(
                "rect",
                {
                    "x": f"{100 * at / COLUMNS:.2f}%",
                    "width": f"{100 / COLUMNS:.2f}%",
                    "height": CELL_PX - 2,
                    "y": 1,
                    "class": f"q{_shade(count, most)}",
                },
                el("title", None, tooltip),
            )
        )
    peak = max(row.counts, key=lambda at: row.counts[at])
    label = (
        f"{row.total:,} in {words.plural(len(row.counts), 'column')}, most of them from "
        f"{moment(heat.from_ms + peak * heat.step_ms)[:19]}"
    )
    return el(
        "svg",
        {"height": CELL_PX, "role": "img", "aria-label": label, "class": "cells"},
        join(cells),
    )


def _shade(count: int, most: int) -> int:
    """A shade from 0 to `SHADES` - 1, in steps of a factor of four; the darkest is the maximum.

    >>> [_shade(count, 1000) for count in (1, 4, 16, 64, 1000)]
    [0, 1, 2, 3, 4]
    """
    below = math.floor(math.log(most / count, 4)) if count < most else 0
    return max(0, SHADES - 1 - below)

"""The ownership timeline: one row per claim, one lane per rule set, drawn as SVG.

Every x is a percentage of the time axis and every y is in pixels. So the page zooms by widening a
box, and glyphs and letters keep their size. This module draws a lane; the sections choose the
claims and their order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from attrs import field, frozen

from kafka_marshal.markup import Html, Json, el, join, js_int, name, visible
from kafka_marshal.replay.report.base import pieces, words
from kafka_marshal.replay.report.base.clock import Axis, moment
from kafka_marshal.replay.report.base.data import (
    ORIGINAL,
    ClaimId,
    ClaimTimeline,
    Divergence,
    Finding,
    Lane,
    MarkKind,
    RecordGlyph,
    TenureBar,
)
from kafka_marshal.replay.report.base.palette import Palette

BAR_PX: Final = 15
STRIP_PX: Final = 13
LANE_PX: Final = BAR_PX + STRIP_PX
PAD_PX: Final = 5
WIDTH_PX: Final = 960
"""The assumed width for choosing labels; the script adapts them to the real one."""
LETTER_PX: Final = 5.9
BRIEF_PX: Final = 2.5
"""A narrower tenure gets an outline, since it would be invisible otherwise."""
BEAT_UNITS: Final = 20_000
"""Heartbeats closer together than this part of the axis are drawn as one hairline."""
MARKS_PER_LANE: Final = 250
"""If a lane has more marks, adjacent equal ones are merged."""
TITLES_MAX: Final = 4_000
"""If there are more bars and marks, only the script's tooltips are available."""


@frozen
class _FindingMark:
    """A finding with its number, and the record that it is about."""

    number: int
    finding: Finding

    @property
    def offset(self) -> int | None:
        """The record's offset; None if the finding names no record."""
        f = self.finding
        return f.offset if f.offset is not None else f.records[0].offset if f.records else None

    @property
    def at_ms(self) -> int | None:
        """The record's time."""
        f = self.finding
        return f.at_ms if f.at_ms is not None else f.records[0].at_ms if f.records else None

    @property
    def claim(self) -> ClaimId | None:
        """The claim it is about; None for a group, a sender or the input."""
        f = self.finding
        if f.coordinating_partition is None or f.group is None:
            return None
        if f.topic is None or f.topic_partition is None:
            return None
        return ClaimId(f.log, f.coordinating_partition, f.group, f.topic, f.topic_partition)


@frozen
class Drawn:
    """The results of the drawing that other sections use."""

    tenures: list[Json] = field(factory=list)
    marks: list[Json] = field(factory=list)
    anchors: dict[int, str] = field(factory=dict)
    """By finding number, the id of its mark on the timeline."""
    divergence_anchors: dict[int, str] = field(factory=dict)
    """By index in `ReportData.divergences`, the id of its band."""
    claim_anchors: dict[ClaimId, str] = field(factory=dict)
    details: dict[ClaimId, int] = field(factory=dict)
    """Claims that the script draws on demand, by index in the list of claims."""
    flagged: set[int] = field(factory=set)
    """Numbers of the findings that have a flag, because no mark shows them."""


class Timeline:
    """Draws claims, and records where each mark is."""

    def __init__(
        self,
        claims: Sequence[ClaimTimeline],
        finding_marks: Iterable[_FindingMark],
        divergences: Sequence[Divergence],
        palette: Palette,
        stale_after_ms: float,
    ) -> None:
        self.palette = palette
        self.stale_after_ms = stale_after_ms
        self.drawn = Drawn()
        self._finding_marks: dict[ClaimId, list[_FindingMark]] = defaultdict(list)
        for finding_mark in finding_marks:
            if finding_mark.claim is not None:
                self._finding_marks[finding_mark.claim].append(finding_mark)
        self._divergences: dict[ClaimId, list[tuple[int, Divergence]]] = defaultdict(list)
        for index, divergence in enumerate(divergences):
            self._divergences[divergence.claim].append((index, divergence))
        items = sum(len(lane.tenures) + len(lane.marks) for c in claims for lane in c.lanes)
        self._titles = items <= TITLES_MAX

    def row(self, timeline: ClaimTimeline, axis: Axis) -> Html:
        """One claim: its label and its lanes."""
        claim = timeline.claim
        anchor = f"claim-{len(self.drawn.claim_anchors) + 1}"
        self.drawn.claim_anchors[claim] = anchor
        lanes = sorted(timeline.lanes, key=lambda lane: lane.rules != ORIGINAL)
        finding_marks = list(self._finding_marks[claim])
        divergences = self._divergences[claim]
        height = len(lanes) * LANE_PX + 2 * PAD_PX
        drawn: list[Html] = [self._divergence(*each, axis, height) for each in divergences]
        for n, lane in enumerate(lanes):
            last = n == len(lanes) - 1
            mine = [p for p in finding_marks if p.finding.rules == lane.rules]
            if last:
                known = {lane.rules for lane in lanes}
                mine += [p for p in finding_marks if p.finding.rules not in known]
            drawn.append(self._lane(lane, axis, PAD_PX + n * LANE_PX, mine))
        eventful = bool(finding_marks or divergences or self._is_eventful(timeline))
        full = f"{claim.topic}/{claim.topic_partition}"
        label = f"{name(full)}: {words.plural(len(finding_marks), 'finding')}"
        return el(
            "div",
            {"class": "row" if eventful else "row quiet", "id": anchor},
            el(
                "div",
                {"class": "label", "title": visible(full)},
                _claim_name(claim),
                el("span", {"class": "lanes"}, join(el("i", None, lane.rules) for lane in lanes)),
            ),
            el(
                "svg",
                {
                    "class": "track",
                    "height": height,
                    "role": "group",
                    "aria-label": label,
                    "tabindex": "0",
                },
                *drawn,
            ),
        )

    def _is_eventful(self, timeline: ClaimTimeline) -> bool:
        """Whether a claim has an event worth showing; a finding always is one."""
        return any(lane.marks for lane in timeline.lanes)

    def axis(self, axis: Axis) -> Html:
        """The ticks and the vertical lines behind the rows below."""
        marks = []
        for n, (ms, label) in enumerate(axis.ticks()):
            x = axis.percent(ms)
            odd = "odd" if n % 2 else None
            marks.append(el("line", {"x1": x, "x2": x, "y1": 20, "y2": "100%", "class": odd}))
            anchor = "end" if axis.fraction(ms) > 0.96 else None
            style = f"text-anchor:{anchor}" if anchor else None
            marks.append(el("text", {"x": x, "y": 13, "class": odd, "style": style}, label))
        ends = ",".join(str(end) for end in axis.json)
        return el("svg", {"class": "axis", "data-axis": ends, "aria-hidden": "true"}, *marks)

    def _lane(self, lane: Lane, axis: Axis, top: int, finding_marks: list[_FindingMark]) -> Html:
        middle = top + BAR_PX / 2
        parts = [
            el("line", {"class": "nobody", "x1": "0", "x2": "100%", "y1": middle, "y2": middle})
        ]
        for pause in lane.pauses:
            until = axis.to_ms if pause.until_ms is None else pause.until_ms
            box = _box(axis, pause.from_ms, until)
            tooltip = f"paused by {name(pause.by)} until {moment(pause.until_ms)}"
            size = {"y": top - 2, "height": BAR_PX + 4}
            parts.append(el("rect", {"class": "paused", **box, **size}, el("title", None, tooltip)))
        parts.extend(self._tenure(lane, tenure, axis, top) for tenure in lane.tenures)
        if lane.beats_ms:
            parts.append(_beats(lane.beats_ms, axis, top))
        placed: set[int] = set()
        for mark, count in merged(lane.marks, axis):
            at_mark = [p for p in finding_marks if p.offset == mark.offset]
            placed.update(p.number for p in at_mark)
            parts.append(self._mark(lane, mark, count, axis, top, at_mark))
        for finding_mark in finding_marks:
            if finding_mark.number not in placed:
                parts.append(self._flag(finding_mark, axis, top))
        return join(parts)

    def _tenure(self, lane: Lane, tenure: TenureBar, axis: Axis, top: int) -> Html:
        index = len(self.drawn.tenures)
        self.drawn.tenures.append(tenure_json(lane.rules, tenure))
        to_ms = axis.to_ms if tenure.to_ms is None else tenure.to_ms
        box = _box(axis, tenure.from_ms, to_ms)
        short = name(tenure.owner_client, 24)
        full = f"{short} · {pieces.short(tenure.owner_instance)}"
        whole = f"{visible(tenure.owner_client)} · {visible(tenure.owner_instance)}"
        room = WIDTH_PX * (axis.fraction(to_ms) - axis.fraction(tenure.from_ms)) - 8
        label = next((t for t in (full, short) if len(t) * LETTER_PX <= room), "")
        owner = self.palette.owner(tenure.owner_client, tenure.owner_instance)
        kind = "brief" if room < BRIEF_PX - 8 else "lasts" if tenure.to_ms is None else ""
        faded = [
            el(
                "rect",
                {
                    "class": "stale",
                    **_box(axis, start, end, tenure.from_ms, to_ms),
                    "height": "100%",
                },
            )
            for start, end in stale(lane.beats_ms, tenure.from_ms, to_ms, self.stale_after_ms)
        ]
        return el(
            "svg",
            {
                "class": f"tenure {owner} {kind}".rstrip(),
                **box,
                "y": top,
                "height": BAR_PX,
                "data-t": index,
                "data-l": full,
            },
            self._title(
                f"{whole}, offset {tenure.from_offset} to "
                f"{'the end' if tenure.to_offset is None else tenure.to_offset}"
            ),
            el("rect", {"width": "100%", "height": "100%"}),
            *faded,
            el("text", {"x": 5, "y": BAR_PX - 4}, label),
        )

    def _mark(
        self,
        lane: Lane,
        mark: RecordGlyph,
        count: int,
        axis: Axis,
        top: int,
        finding_marks: list[_FindingMark],
    ) -> Html:
        index = len(self.drawn.marks)
        guard = guard_in_words(mark)
        of_mark = [(p.number, p.finding.sentence) for p in finding_marks]
        self.drawn.marks.append(mark_json(lane.rules, mark, count, of_mark))
        # Several marks may share an offset: the first of them is the findings' mark.
        new = [p.number for p in finding_marks if p.number not in self.drawn.anchors]
        anchor = f"at-{new[0]}" if new else None
        for number in new:
            self.drawn.anchors[number] = f"at-{new[0]}"
        loud = mark.kind in (MarkKind.THEFT, MarkKind.PAUSE_BROKEN)
        x = axis.percent(mark.at_ms)
        tooltip = f"{mark.kind.sentence}{f': {guard}' if guard else ''}, offset {mark.offset}"
        use = el(
            "use",
            {
                "href": f"#g-{mark.kind.value}",
                "class": f"mark {mark.kind.value}",
                "id": anchor,
                "x": x,
                "y": top + BAR_PX + STRIP_PX / 2 - 0.5,
                "data-m": index,
            },
            self._title(tooltip),
        )
        if not loud:
            return use
        stem = {"class": f"stem {mark.kind.value}", "x1": x, "x2": x}
        return join([el("line", {**stem, "y1": top - 3, "y2": top + BAR_PX + 1}), use])

    def _flag(self, finding_mark: _FindingMark, axis: Axis, top: int) -> Html:
        """The flag of a finding that has no mark."""
        if finding_mark.at_ms is None:
            return Html()
        index = len(self.drawn.marks)
        finding = finding_mark.finding
        self.drawn.marks.append(
            [
                "finding",
                finding.rules,
                js_int(finding_mark.offset),
                js_int(finding_mark.at_ms),
                visible(finding.records[0].sender_client, 80) if finding.records else None,
                visible(finding.records[0].sender_instance, 80) if finding.records else None,
                None,
                None,
                words.code_title(visible(finding.code, 80)),
                1,
                [[finding_mark.number, visible(finding.sentence, 300)]],
            ]
        )
        anchor = f"at-{finding_mark.number}"
        self.drawn.anchors[finding_mark.number] = anchor
        self.drawn.flagged.add(finding_mark.number)
        return el(
            "use",
            {
                "href": "#g-finding",
                "class": f"mark finding {finding.severity.value}",
                "id": anchor,
                "x": axis.percent(finding_mark.at_ms),
                "y": top + BAR_PX + STRIP_PX / 2 - 0.5,
                "data-m": index,
            },
            self._title(f"finding {finding_mark.number}: {visible(finding.sentence, 160)}"),
        )

    def _divergence(self, index: int, row: Divergence, axis: Axis, height: int) -> Html:
        anchor = f"parts-{index + 1}"
        self.drawn.divergence_anchors[index] = anchor
        until = axis.to_ms if row.until_ms is None else row.until_ms
        kind = "owners" if row.owners_differ else "positions"
        return el(
            "rect",
            {
                "class": f"parts {kind}",
                "id": anchor,
                **_box(axis, row.at_ms, until),
                "y": 0,
                "height": height,
            },
            self._title(f"the rule sets name different {kind} from offset {row.offset}"),
        )

    def _title(self, text: str) -> Html | None:
        return el("title", None, text) if self._titles else None


def _claim_name(claim: ClaimId) -> Html:
    topic = el("bdi", {"class": "topic"}, name(claim.topic, 40))
    return el("b", None, topic, f"/{claim.topic_partition}")


def _box(
    axis: Axis, from_ms: int, to_ms: int, outer_from: int | None = None, outer_to: int | None = None
) -> dict[str, str]:
    """Left end and width of a time span, as parts of the axis or of an outer span."""
    left, right = axis.fraction(from_ms), axis.fraction(max(to_ms, from_ms))
    if outer_from is not None and outer_to is not None:
        low, high = axis.fraction(outer_from), axis.fraction(outer_to)
        length = (high - low) or 1.0
        left, right = (left - low) / length, (right - low) / length
    return {"x": _percent(left), "width": _percent(right - left)}


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.3f}".rstrip("0").rstrip(".") + "%"


def tenure_json(rules: str, tenure: TenureBar) -> list[Json]:
    """The data of a bar for the script."""
    return [
        rules,
        visible(tenure.owner_client, 80),
        visible(tenure.owner_instance, 80),
        js_int(tenure.from_offset),
        js_int(tenure.to_offset),
        js_int(tenure.from_ms),
        js_int(tenure.to_ms),
        js_int(tenure.position_from),
        js_int(tenure.position_to),
        words.BEGAN.get(tenure.began, visible(tenure.began, 80)),
        None if tenure.ended is None else words.ENDED.get(tenure.ended, visible(tenure.ended, 80)),
    ]


def mark_json(
    rules: str, mark: RecordGlyph, count: int, findings: Sequence[tuple[int, str]] = ()
) -> list[Json]:
    """The data of a glyph for the script; `findings` holds numbers and sentences."""
    return [
        mark.kind.value,
        rules,
        js_int(mark.offset),
        js_int(mark.at_ms),
        visible(mark.sender_client, 80),
        visible(mark.sender_instance, 80),
        guard_in_words(mark),
        js_int(mark.position),
        visible(mark.text or mark.kind.sentence, 300),
        count,
        [[number, visible(sentence, 300)] for number, sentence in findings],
    ]


def guard_in_words(mark: RecordGlyph) -> str | None:
    """The guard that refused the record, in words."""
    return mark.guard and words.GUARDS.get(mark.guard, visible(mark.guard, 160))


def stale(
    beats_ms: Sequence[int], from_ms: int, to_ms: int, stale_after_ms: float
) -> list[tuple[int, int]]:
    """The time spans of a tenure in which its owner was stale."""
    beats = [ms for ms in beats_ms if from_ms <= ms <= to_ms]
    if not beats:
        return []  # not known; or the records' times and the claim's clock lie apart
    found = []
    for beat, following in zip(beats, [*beats[1:], to_ms], strict=True):
        stale_at = int(beat + stale_after_ms)
        if following > stale_at:
            found.append((stale_at, following))
    return found


def beats_path(beats_ms: Sequence[int], axis: Axis) -> str:
    """The owner's heartbeats as a path of hairlines, in `BEAT_UNITS` of the axis.

    >>> beats_path([-7, 7, 8, 90_000], Axis(0, 80_000))
    'M0 0v3m2-3v3m19998-3v3'
    """
    if not beats_ms:
        return ""
    # The same as `Axis.fraction`, but for all at once: a page may have two million.
    fractions = (np.array(beats_ms, np.float64) - axis.from_ms) / (axis.to_ms - axis.from_ms)
    units = np.unique(np.rint(BEAT_UNITS * fractions.clip(0, 1))).astype(np.int64)
    steps = [f"m{step}-3v3" for step in np.diff(units).tolist()]
    return "".join([f"M{units[0]} 0v3", *steps])


def _beats(beats_ms: Sequence[int], axis: Axis, top: int) -> Html:
    return el(
        "svg",
        {
            "class": "beats",
            "x": 0,
            "y": top + BAR_PX - 3,
            "width": "100%",
            "height": 3,
            "viewBox": f"0 0 {BEAT_UNITS} 3",
            "preserveAspectRatio": "none",
        },
        el("path", {"d": beats_path(beats_ms, axis)}),
    )


def merged(marks: Sequence[RecordGlyph], axis: Axis) -> list[tuple[RecordGlyph, int]]:
    """Marks with a count. Only in a crowded lane, equal neighbours that overlap are merged."""
    if len(marks) <= MARKS_PER_LANE:
        return [(mark, 1) for mark in marks]
    found: list[tuple[RecordGlyph, int]] = []
    latest: dict[tuple[object, ...], int] = {}
    for mark in marks:
        what = (mark.kind, mark.sender_instance, mark.sender_client, mark.guard)
        at = latest.get(what)
        if at is not None:
            first, count = found[at]
            if axis.fraction(mark.at_ms) - axis.fraction(first.at_ms) < 1 / MARKS_PER_LANE:
                found[at] = (first, count + 1)
                continue
        latest[what] = len(found)
        found.append((mark, 1))
    return found

"""The timeline of a group: a lane for its rebalances, and one for each partition.

Bars, colours and flags are those of claims (`sections.timeline`). This module adds what claims do
not have: the span of a rebalance, partitions that an owner must release, and silent members.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from kafka_marshal.markup import Html, Json, el, join, js_int, name, visible
from kafka_marshal.replay.model.groups.rows import (
    FinalGroupRow,
    GroupMarkRow,
    PartitionTenureRow,
    RebalanceRow,
)
from kafka_marshal.replay.report.base import words
from kafka_marshal.replay.report.base.clock import Axis, duration
from kafka_marshal.replay.report.base.data import ClaimId, ClaimTimeline, Lane, TenureBar
from kafka_marshal.replay.report.base.palette import Palette
from kafka_marshal.replay.report.groups.glyphs import MARKS
from kafka_marshal.replay.report.sections.timeline import (
    BAR_PX,
    PAD_PX,
    STRIP_PX,
    Timeline,
    _box,
    _FindingMark,
)

STRIPE_PX: Final = 3
CUTS_MAX: Final = 60
"""If there are more rebalances, their lines do not extend through the partitions' lanes."""

BEGAN: Final = {
    "rebalanced": "it was free when the target was written",
    "released": "it was let go",
    "left": "its owner left",
    "expired": "its owner was expired",
    "joined": "its target joined again",
    "renewed": "its owner began anew",
    "rewound": "it was rewound",
    "snapshot": "it was owned where the log begins",
}
ENDED: Final = {
    "released": "let go for a rebalance",
    "left": "the member left",
    "expired": "the member was expired",
    "renewed": "the member began anew",
    "rewound": "it was rewound",
    "topic_gone": "the topic is gone",
    "unknown": "what came of it is not known",
}
CAUSES: Final = {
    "joined": "joined",
    "left": "left",
    "expired": "expired",
    "wish": "wants other topics",
    "static": "wants other partitions",
    "counted": "was counted",
}
"""The wording of events that made a rebalance due."""


def why(row: RebalanceRow) -> str:
    """The causes of a rebalance, by members."""
    if not row.causes:
        return "what made it due lies before the log"
    told: dict[str, list[str]] = defaultdict(list)
    for cause in row.causes:
        who = cause.topic if cause.what == "counted" else cause.client or cause.member
        told[cause.what].append(name(who or "", 32))
    return "; ".join(
        f"{', '.join(dict.fromkeys(whos))} {CAUSES.get(what, visible(what, 40))}"
        for what, whos in told.items()
    )


def took_ms(row: RebalanceRow) -> int | None:
    """The time from when it was due, or written, until it was settled; None if it never was."""
    since_ms = row.timestamp_ms if row.due_ms is None else row.due_ms
    return None if row.settled_ms is None else row.settled_ms - since_ms


class GroupTimeline(Timeline):
    """Draws groups, and records where each mark is."""

    def __init__(self, finding_marks: Iterable[_FindingMark], palette: Palette) -> None:
        marks = [*finding_marks]
        super().__init__((), marks, (), palette, 0)
        self._of_group: dict[tuple[str, int | None, str | None], list[_FindingMark]] = defaultdict(
            list
        )
        for mark in marks:
            f = mark.finding
            if mark.claim is None and f.group is not None:
                self._of_group[f.log, f.coordinating_partition, f.group].append(mark)
        self._tenures: Sequence[PartitionTenureRow] = ()
        self._cuts: Sequence[RebalanceRow] = ()

    def _is_eventful(self, timeline: ClaimTimeline) -> bool:
        return any(len(lane.tenures) > 1 for lane in timeline.lanes)

    # --- the partitions ---------------------------------------------------------------------------

    def partitions(
        self,
        group: FinalGroupRow,
        tenures: Sequence[PartitionTenureRow],
        rebalances: Sequence[RebalanceRow],
        axis: Axis,
    ) -> list[Html]:
        """A row for each partition of a group, in order."""
        self._cuts = rebalances if len(rebalances) <= CUTS_MAX else ()
        by_partition: dict[tuple[str, int], list[PartitionTenureRow]] = defaultdict(list)
        for row in tenures:
            by_partition[row.topic, row.topic_partition].append(row)
        rows = []
        for (topic, partition), of_it in sorted(by_partition.items()):
            self._tenures = sorted(of_it, key=lambda row: row.from_offset)
            claim = ClaimId(group.log, group.coordinating_partition, group.group, topic, partition)
            rows.append(self.row(ClaimTimeline(claim, (lane_of(self._tenures),)), axis))
        return rows

    def _lane(self, lane: Lane, axis: Axis, top: int, finding_marks: list[_FindingMark]) -> Html:
        """The bars, lines where targets were written, and stripes where an owner must release."""
        first = len(self.drawn.tenures)
        cuts = [
            el("line", {"class": "cut", "x1": x, "x2": x, "y1": 0, "y2": "100%"})
            for x in (axis.percent(row.timestamp_ms) for row in self._cuts)
        ]
        drawn = super()._lane(lane, axis, top, finding_marks)
        for told in self.drawn.tenures[first:]:
            assert isinstance(told, list)
            told[0] = None  # no rule set
        stripes = []
        for row in self._tenures:
            if row.revoked_ms is not None:
                to_ms = axis.to_ms if row.to_ms is None else row.to_ms
                size = {"y": top + BAR_PX + 1, "height": STRIPE_PX}
                box = _box(axis, row.revoked_ms, to_ms)
                stripes.append(el("rect", {"class": "revoking", **box, **size}))
        return join([*cuts, drawn, *stripes])

    # --- the rebalances ---------------------------------------------------------------------------

    def rebalances(
        self,
        group: FinalGroupRow,
        rebalances: Sequence[RebalanceRow],
        marks: Sequence[GroupMarkRow],
        axis: Axis,
    ) -> Html:
        """The lane of a group's rebalances, with joins and departures below it."""
        height = BAR_PX + 2 * STRIP_PX + 2 * PAD_PX
        flags = self._of_group[group.log, group.coordinating_partition, group.group]
        late = {f.finding.offset for f in flags if f.finding.code == "rebalance_held_up"}
        parts = [self._rebalance(row, axis, held_up=row.offset in late) for row in rebalances]
        parts += [self._event(mark, axis) for mark in marks if mark.kind in MARKS]
        top = PAD_PX + STRIP_PX - 1
        parts += [self._flag(mark, axis, top) for mark in flags]
        return el(
            "div",
            {"class": "row rebalances"},
            el("div", {"class": "label"}, el("b", None, "rebalances")),
            el(
                "svg",
                {
                    "class": "track",
                    "height": height,
                    "role": "group",
                    "aria-label": f"rebalances of {name(group.group)}: {len(rebalances):,}",
                    "tabindex": "0",
                },
                *parts,
            ),
        )

    def _rebalance(self, row: RebalanceRow, axis: Axis, *, held_up: bool) -> Html:
        """A bar from when it was due to when it was settled; the target is written in between."""
        due_ms = row.timestamp_ms if row.due_ms is None else row.due_ms
        kind = "late" if held_up else row.state
        anchor = f"rebalance-{js_int(row.coordinating_partition)}-{js_int(row.offset)}"
        to_ms = axis.to_ms if row.ended_ms is None else row.ended_ms
        index = self._told(row, rebalance_in_words(row))
        written = axis.percent(row.timestamp_ms)
        return el(
            "g",
            {"class": f"rebalance {kind}", "data-m": index, "id": anchor},
            el("title", None, rebalance_in_words(row)),
            el(
                "rect",
                {
                    "class": "due",
                    **_box(axis, due_ms, row.timestamp_ms),
                    "y": PAD_PX,
                    "height": BAR_PX,
                },
            ),
            el(
                "rect",
                {
                    "class": "letting-go",
                    **_box(axis, row.timestamp_ms, to_ms),
                    "y": PAD_PX,
                    "height": BAR_PX,
                },
            ),
            el(
                "line",
                {
                    "class": "at-once",
                    "x1": written,
                    "x2": written,
                    "y1": PAD_PX,
                    "y2": PAD_PX + BAR_PX,
                },
            ),
        )

    def _told(self, row: RebalanceRow, told: str) -> int:
        index = len(self.drawn.marks)
        held: list[Json] = [
            "rebalance",
            None,
            js_int(row.offset),
            js_int(row.timestamp_ms),
            None,
            None,
            None,
            None,
            told,
            1,
            [],
        ]
        self.drawn.marks.append(held)
        return index

    def _event(self, mark: GroupMarkRow, axis: Axis) -> Html:
        index = len(self.drawn.marks)
        said = MARKS[mark.kind]
        told = f"{said}: {visible(mark.note, 80)}" if mark.note else said
        self.drawn.marks.append(
            [
                mark.kind,
                None,
                js_int(mark.offset),
                js_int(mark.timestamp_ms),
                None if mark.member is None else visible(mark.client or "", 80),
                None if mark.member is None else visible(mark.member, 80),
                None,
                None,
                told,
                1,
                [],
            ]
        )
        return el(
            "use",
            {
                "href": f"#g-{mark.kind}",
                "class": f"mark {mark.kind}",
                "x": axis.percent(mark.timestamp_ms),
                "y": PAD_PX + BAR_PX + STRIP_PX / 2,
                "data-m": index,
            },
            el("title", None, f"{told}, offset {mark.offset}"),
        )


def lane_of(tenures: Sequence[PartitionTenureRow]) -> Lane:
    """A partition's tenures as bars. A silent owner's bar fades from its last message on."""
    spoke = [
        row.to_ms - row.silent_ms
        for row in tenures
        if row.silent_ms and row.to_ms is not None and row.to_ms - row.silent_ms >= row.from_ms
    ]
    return Lane("", tuple(map(bar_of, tenures)), beats_ms=tuple(sorted(spoke)))


def bar_of(row: PartitionTenureRow) -> TenureBar:
    """A tenure as a bar, with words for its beginning and end."""
    ended = None
    if row.ended != "open":
        ended = ENDED.get(row.ended, visible(row.ended, 40))
        if row.silent_ms is not None:
            ended += f" after {duration(row.silent_ms)} of silence"
    return TenureBar(
        owner_instance=row.member,
        owner_client=row.client,
        from_offset=row.from_offset,
        to_offset=row.to_offset,
        from_ms=row.from_ms,
        to_ms=row.to_ms,
        position_from=row.position_from if row.position_from >= 0 else None,
        position_to=row.position_to if row.position_to >= 0 else None,
        began=f"tenure {row.tenure}: {BEGAN.get(row.began, visible(row.began, 40))}",
        ended=ended,
    )


def rebalance_in_words(row: RebalanceRow) -> str:
    """A rebalance for a tooltip."""
    told = [f"rebalance, due because {why(row)}" if row.causes else "rebalance"]
    told.append(f"{words.plural(row.moves, 'partition')} moved")
    if row.settled_ms is None:
        told.append(row.state)
    else:
        took = took_ms(row)
        assert took is not None
        told.append(f"settled after {duration(took)}")
    if row.held_up_by is not None and row.held_up_ms is not None:
        who = name(row.held_up_client or row.held_up_by, 32)
        told.append(f"{who} let go last, after {duration(row.held_up_ms)}")
    return "; ".join(told)

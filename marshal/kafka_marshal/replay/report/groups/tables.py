"""The tables of the page of groups: groups, rebalances, controllers, other strategies."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Final

from kafka_marshal.markup import Html, el, join, name
from kafka_marshal.replay.model.groups.rows import RebalanceRow, ReleaseRow
from kafka_marshal.replay.report.base import pieces
from kafka_marshal.replay.report.base.clock import duration
from kafka_marshal.replay.report.base.groups import GroupsReportData
from kafka_marshal.replay.report.groups.timeline import took_ms, why

OPEN_MAX: Final = 40
"""The number of open rebalances of a group; the others are folded."""

_HOW: Final = {
    "released": "",
    "left": ", left",
    "expired": ", expired",
    "renewed": ", began anew",
    "holds": ", still holds it",
}


def groups(data: GroupsReportData) -> Html | None:
    """Every group with its counts."""
    if not data.groups:
        return None
    heads = (
        *("group", "strategy", "members", "partitions", "rebalances", "moves", "joined", "left"),
        *("expired", "rewinds", "longest without owner"),
    )
    rows = [
        el(
            "tr",
            None,
            el(
                "th",
                {"scope": "row"},
                el("bdi", None, name(row.group)),
                el("small", None, "deleted") if row.deleted else None,
                el("small", None, el("bdi", None, name(row.log, 40)))
                if len(data.logs) > 1
                else None,
            ),
            el("td", None, f"{name(row.strategy, 24)}, {name(row.rebalance, 24)}"),
            pieces.number(len(row.members)),
            _partitions(row.owned, row.partitions),
            pieces.number(row.rebalances),
            pieces.number(row.moves),
            pieces.number(row.joined),
            pieces.number(row.left),
            pieces.number(row.expired),
            pieces.number(row.rewinds),
            _time(row.unowned_longest_ms),
        )
        for row in data.groups
    ]
    return el(
        "section",
        {"id": "groups"},
        el("h2", None, "Groups"),
        pieces.table("groups", heads, rows, 2),
    )


def _partitions(owned: int, all_of_them: int) -> Html:
    text = f"{all_of_them:,}" if owned == all_of_them else f"{owned:,} of {all_of_them:,} owned"
    return el("td", {"class": "n"}, text)


def _time(ms: int | None, loud: bool = False) -> Html:
    kind = "n loud" if loud else "n" if ms else "n zero"
    return el("td", {"class": kind}, "–" if ms is None else duration(ms))


def rebalances(data: GroupsReportData) -> Html | None:
    """Every rebalance: causes, moves, duration, and the members that released last."""
    if not data.rebalances:
        return None
    late = {
        (f.log, f.coordinating_partition, f.offset)
        for f in data.findings
        if f.code == "rebalance_held_up"
    }
    drawn = {(row.log, row.coordinating_partition, row.group) for row in data.drawn}
    parts: list[Html] = []
    for (log, partition, group), of_group in groupby(
        data.rebalances, key=lambda row: (row.log, row.coordinating_partition, row.group)
    ):
        linked = (log, partition, group) in drawn
        lines = [
            _rebalance(
                row,
                linked=linked,
                late=(row.log, row.coordinating_partition, row.offset) in late,
            )
            for row in of_group
        ]
        parts.append(el("h3", None, "group ", el("bdi", None, name(group))))
        parts.append(_table(lines[:OPEN_MAX]))
        if len(lines) > OPEN_MAX:
            more = len(lines) - OPEN_MAX
            parts.append(pieces.folded(f"{more:,} more", _table(lines[OPEN_MAX:])))
    return el(
        "section",
        {"id": "rebalances"},
        el("h2", None, "Rebalances"),
        el(
            "p",
            {"class": "note"},
            "A rebalance takes from the event that made it due until everything is owned as its "
            "target says. Who let go last held it up.",
        ),
        *parts,
    )


def _table(lines: Iterable[Html]) -> Html:
    heads = (
        *("offset", "time", "due because", "who let go last", "moved", "let go", "granted"),
        *("took", "without owner"),
    )
    return pieces.table("rebalances", heads, lines, 4)


def _rebalance(row: RebalanceRow, *, linked: bool, late: bool) -> Html:
    anchor = f"rebalance-{row.coordinating_partition}-{row.offset}" if linked else None
    took = took_ms(row)
    unowned = row.unowned_longest_ms if row.unowned else None
    return el(
        "tr",
        {"class": "late" if late else None},
        el("td", {"class": "n"}, pieces.link(anchor, str(row.offset))),
        pieces.time(row.timestamp_ms),
        el("td", None, why(row)),
        el("td", {"class": "held-up"}, _held_up(row.releases)),
        pieces.number(row.moves),
        pieces.number(row.revoked),
        pieces.number(row.granted),
        _time(took, late) if took is not None else el("td", {"class": "n state"}, name(row.state)),
        _time(unowned),
    )


def _held_up(releases: tuple[ReleaseRow, ...]) -> Html:
    """The member that released last, and the earlier ones on demand."""
    if not releases:
        return el("span", {"class": "zero"}, "nobody had to")
    shown = [
        join(
            [
                pieces.sender(each.client, each.member),
                f" after {duration(each.took_ms)}{_HOW.get(each.how, '')}",
            ]
        )
        for each in releases[::-1]
    ]
    others = "".join(
        f"{'; ' if n else ''}{_plain(each)}" for n, each in enumerate(releases[-2::-1])
    )
    return join(
        [
            shown[0],
            el("small", {"title": others}, f"{len(shown) - 1} before") if len(shown) > 1 else None,
        ]
    )


def _plain(each: ReleaseRow) -> str:
    return f"{name(each.client or each.member, 32)} after {duration(each.took_ms)}"


def controllers(data: GroupsReportData) -> Html | None:
    """The controllers of each partition of the log, with begin and end."""
    if not data.controllerships:
        return None
    heads = (
        *("partition", "controller", "from", "to", "how long", "events"),
        *("refused", "of these when deposed"),
    )
    rows = []
    for row in data.controllerships:
        lasted = None if row.to_ms is None else row.to_ms - row.from_ms
        began = None if row.began == "started" else el("small", None, "from a snapshot")
        rows.append(
            el(
                "tr",
                None,
                el("td", {"class": "n"}, str(row.coordinating_partition)),
                el(
                    "td",
                    None,
                    el("bdi", None, f"{row.controller} at {name(row.host or '', 40)}:{row.port}"),
                ),
                el("td", {"class": "time"}, pieces.time_text(row.from_ms), began),
                el(
                    "td",
                    {"class": "time"},
                    "the end of the log" if row.to_ms is None else pieces.time_text(row.to_ms),
                ),
                _time(lasted),
                pieces.number(row.events),
                pieces.number(row.refused),
                pieces.number(row.refused_late),
            )
        )
    return el(
        "section",
        {"id": "controllers"},
        el("h2", None, "Controllers"),
        pieces.table("controllers", heads, rows, 4),
    )


def strategies(data: GroupsReportData) -> Html | None:
    """The number of moves under other strategies."""
    if not data.instead:
        return None
    heads = (
        *("group", "strategy", "instead", "rebalances", "moves", "instead", "saved"),
        *("largest share", "instead"),
    )
    rows = [
        el(
            "tr",
            None,
            el("th", {"scope": "row"}, el("bdi", None, name(row.group))),
            el("td", None, name(row.strategy, 24)),
            el("td", None, name(row.instead, 24)),
            pieces.number(row.rebalances),
            pieces.number(row.moves),
            pieces.number(row.moves_instead),
            el("td", {"class": "n"}, f"{row.moves - row.moves_instead:,}".replace("-", "−")),
            pieces.number(row.largest_share),
            pieces.number(row.largest_share_instead),
        )
        for row in data.instead
    ]
    return el(
        "section",
        {"id": "strategies"},
        el("h2", None, "Under another strategy"),
        el(
            "p",
            {"class": "note"},
            "Each target is made anew from the one before it, of the members that there were. The "
            "targets that were written are compared in the same way.",
        ),
        pieces.table("strategies", heads, rows, 3),
    )

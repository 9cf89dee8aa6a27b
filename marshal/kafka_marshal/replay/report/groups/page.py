"""The page of groups: its sections in order, and the data that they share."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Final

from kafka_marshal.markup import Html, Json, el, join, name, visible
from kafka_marshal.replay.model.groups.rows import (
    FinalGroupRow,
    GroupMarkRow,
    PartitionTenureRow,
    RebalanceRow,
)
from kafka_marshal.replay.report.base import words
from kafka_marshal.replay.report.base.clock import Axis, span
from kafka_marshal.replay.report.base.data import (
    ClaimId,
    ClaimTimeline,
    Counts,
    ReportData,
    Severity,
)
from kafka_marshal.replay.report.base.document import document, legend
from kafka_marshal.replay.report.base.groups import GroupsReportData
from kafka_marshal.replay.report.base.palette import Palette
from kafka_marshal.replay.report.groups import glyphs, tables
from kafka_marshal.replay.report.groups.timeline import (
    GroupTimeline,
    lane_of,
)
from kafka_marshal.replay.report.sections import causes, findings

ROWS_PER_AXIS: Final = 24
NEAR_SESSIONS: Final = 10
"""The most session timeouts between findings of one code that are shown together."""
_CONTENTS: Final = {
    "ownership": "Who owned what",
    "findings": "Findings",
    "rebalances": "Rebalances",
    "strategies": "Under another strategy",
    "groups": "Groups",
    "controllers": "Controllers",
    "replayed": "What was replayed",
}
_GroupKey = tuple[str, int, str]


def render(data: GroupsReportData) -> str:
    """Render one HTML file with embedded style, drawing, data and script; it loads nothing."""
    as_claims = _as_claims(data)
    found = causes.causes(as_claims)
    marks = [mark for cause in found for mark in cause.marks]
    palette = Palette(_bars(data))
    drawing = GroupTimeline(marks, palette)
    logs = {log.name: f"log-{n}" for n, log in enumerate(data.logs, start=1)}
    owned = _ownership(data, drawing, palette, logs)
    drawn = drawing.drawn
    parts: dict[str, Html | None] = {
        "ownership": owned,
        "findings": findings.findings(found, drawn, logs, len(data.logs)),
        "rebalances": tables.rebalances(data),
        "strategies": tables.strategies(data),
        "groups": tables.groups(data),
        "controllers": tables.controllers(data),
        "replayed": _replayed(data),
    }
    first_error = findings.first_error(as_claims, found, drawn, logs)
    embedded: Json = {"tenures": drawn.tenures, "marks": drawn.marks}
    return document(
        f"{visible(data.title, 160)}, {span(data.from_ms, data.to_ms)}",
        glyphs.definitions(),
        _header(data, first_error),
        parts,
        _CONTENTS,
        embedded,
        styles=("groups.css",),
    )


def _as_claims(data: GroupsReportData) -> ReportData:
    """The findings in the form that the sections of claims use."""
    session_s = max((row.session_timeout_ms for row in data.groups), default=0) / 1000
    counts = Counts(data.records, data.malformed, 0, len(data.groups), 0, data.findings_count, 0)
    return ReportData(
        data.title,
        data.sources,
        (),
        NEAR_SESSIONS / 2 * session_s,
        data.from_ms,
        data.to_ms,
        counts,
        logs=data.logs,
        findings=data.findings,
    )


def _bars(data: GroupsReportData) -> list[ClaimTimeline]:
    """The tenures by partition, for choosing colours."""
    by_partition: dict[ClaimId, list[PartitionTenureRow]] = defaultdict(list)
    for row in data.tenures:
        place = (row.log, row.coordinating_partition, row.group, row.topic, row.topic_partition)
        by_partition[ClaimId(*place)].append(row)
    return [ClaimTimeline(claim, (lane_of(rows),)) for claim, rows in by_partition.items()]


# --- the top --------------------------------------------------------------------------------------


def _header(data: GroupsReportData, first_error: Html | None) -> Html:
    caveats = len(data.caveats)
    return el(
        "header",
        None,
        el("p", {"class": "kicker"}, "kafka-marshal replay of groups"),
        el(
            "h1",
            None,
            visible(data.title, 160),
            " ",
            el("small", None, span(data.from_ms, data.to_ms)),
        ),
        el("p", {"class": "verdict"}, _verdict(data)),
        el("p", {"class": "jump"}, first_error) if first_error is not None else None,
        el(
            "p",
            {"class": "limits"},
            el(
                "a", {"href": "#caveats"}, f"Read it with {words.plural(caveats, 'caveat')} in mind"
            ),
        )
        if caveats
        else None,
    )


def _verdict(data: GroupsReportData) -> Html:
    """The result in a sentence or two."""
    if not data.records:
        return join(["There was no record to replay."])
    rebalances = sum(row.rebalances for row in data.groups)
    moves = sum(row.moves for row in data.groups)
    expired = sum(row.expired for row in data.groups)
    sentences: list[str | Html] = []
    if data.groups:
        sentences.append(
            f"{'As far as their state is known, ' if data.state_not_known else ''}"
            f"{words.plural(len(data.groups), 'group')} had "
            f"{words.plural(rebalances, 'rebalance')}, "
            f"whose targets gave {words.plural(moves, 'partition')} to another member; "
            f"{words.plural(expired, 'member')} {'was' if expired == 1 else 'were'} expired. "
        )
    elif data.state_not_known:
        sentences.append("The state of no group is known, so nothing could be judged. ")
    else:
        sentences.append("No record is about a group, so nothing could be judged. ")
    errors = Counter(f.code for f in data.findings if f.severity is Severity.ERROR)
    warnings = Counter(f.code for f in data.findings if f.severity is Severity.WARNING)
    if errors:
        told = ", ".join(f"{words.code_title(code).lower()} ({n:,})" for code, n in errors.items())
        sentences.append(el("strong", None, f"Errors: {told}. "))
    if warnings:
        told = ", ".join(
            f"{words.code_title(code).lower()}{f' ({n:,})' if n > 1 else ''}"
            for code, n in warnings.most_common()
        )
        sentences.append(f"To look at: {told}.")
    elif not errors:
        sentences.append("Nothing was found that needs a look.")
    return join(sentences)


# --- who owned what -------------------------------------------------------------------------------


def _ownership(
    data: GroupsReportData, drawing: GroupTimeline, palette: Palette, logs: dict[str, str]
) -> Html:
    figures = []
    for log in data.logs:
        of_log = [row for row in data.drawn if row.log == log.name]
        if not of_log:
            continue
        axis = Axis.around(log.from_ms or 0, log.to_ms or 0)
        blocks: list[Html] = []
        for group in of_log:
            blocks += _group(data, group, drawing, axis)
        figures.append(
            el(
                "figure",
                {"id": logs[log.name], "class": "log"},
                el(
                    "figcaption",
                    None,
                    el("h3", None, el("bdi", None, name(log.name, 100))),
                    el("p", None, span(log.from_ms, log.to_ms)),
                    el("div", {"class": "zoom", "hidden": True}),
                ),
                el("div", {"class": "scroll"}, el("div", {"class": "wide-plot"}, *blocks)),
            )
        )
    return el(
        "section",
        {"id": "ownership"},
        el("h2", None, "Who owned what"),
        el(
            "p",
            {"class": "note"},
            "A row is a partition, a bar one member’s tenure. Above them a group’s rebalances: "
            "hollow from when one was due, filled from when its target was written until it was "
            "settled. Times are UTC.",
        ),
        _legend(data, palette),
        *(figures or [el("p", {"class": "none"}, "There is no group to draw.")]),
    )


def _key(row: FinalGroupRow | PartitionTenureRow | RebalanceRow | GroupMarkRow) -> _GroupKey:
    return row.log, row.coordinating_partition, row.group


def _group(
    data: GroupsReportData, group: FinalGroupRow, drawing: GroupTimeline, axis: Axis
) -> list[Html]:
    """A group's heading, its rebalances, and its partitions."""
    key = _key(group)
    rebalances = [row for row in data.rebalances if _key(row) == key]
    marks = [row for row in data.marks if _key(row) == key]
    tenures = [row for row in data.tenures if _key(row) == key]
    rows = [drawing.rebalances(group, rebalances, marks, axis)]
    rows += drawing.partitions(group, tenures, rebalances, axis)
    members = words.plural(len(group.members), "member")
    head = el(
        "h4",
        None,
        "group ",
        el("bdi", None, name(group.group)),
        el(
            "span",
            None,
            f" partition {group.coordinating_partition} of the log; {name(group.strategy, 24)}, "
            f"{name(group.rebalance, 24)}; {members} in the end",
        ),
    )
    return [
        head,
        *(
            el("div", {"class": "block"}, drawing.axis(axis), *rows[start : start + ROWS_PER_AXIS])
            for start in range(0, len(rows), ROWS_PER_AXIS)
        ),
    ]


def _legend(data: GroupsReportData, palette: Palette) -> Html:
    kinds: dict[str, str] = {
        kind: told
        for kind, told in glyphs.MARKS.items()
        if any(mark.kind == kind for mark in data.marks)
    }
    if data.findings:
        kinds["finding"] = "a finding"
    stretches = [
        ("nobody", "nobody owns"),
        ("stale", "nothing was heard of the owner"),
        ("revoking", "the owner is to let it go"),
        ("due", "a rebalance is due"),
        ("letting-go", "its target is written"),
        ("late", "somebody held it up"),
    ]
    return legend(palette, "its members in shades of the colour", kinds.items(), stretches)


# --- what was replayed ----------------------------------------------------------------------------


def _replayed(data: GroupsReportData) -> Html:
    facts = [
        ("records", data.records),
        ("logs", len(data.logs)),
        ("groups", len(data.groups)),
        ("refused", data.refused),
        ("malformed", data.malformed),
    ]
    caveats = (
        el(
            "div",
            {"class": "caveats", "id": "caveats"},
            el("h3", None, "Caveats"),
            el("ul", None, *(el("li", None, visible(each)) for each in data.caveats)),
        )
        if data.caveats
        else None
    )
    sources = ", ".join(name(source, 120) for source in data.sources[:12])
    if len(data.sources) > 12:
        sources += f" and {len(data.sources) - 12:,} more"
    told: Sequence[tuple[str, str]] = [
        ("Time", span(data.from_ms, data.to_ms)),
        ("Sources", sources),
    ]
    return el(
        "section",
        {"id": "replayed"},
        el("h2", None, "What was replayed"),
        caveats,
        el(
            "dl",
            {"class": "facts"},
            *(el("div", None, el("dt", None, k), el("dd", None, f"{v:,}")) for k, v in facts),
        ),
        el(
            "dl",
            {"class": "told"},
            *(el("div", None, el("dt", None, k), el("dd", None, v)) for k, v in told),
        ),
    )

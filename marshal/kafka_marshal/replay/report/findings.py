"""Every finding with the records that prove it, the worst first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby
from typing import Final

from kafka_marshal.markup import Html, el, join, name, visible
from kafka_marshal.replay.report import pieces, words
from kafka_marshal.replay.report.data import FENCED, ORIGINAL, Finding, ReportData, Severity
from kafka_marshal.replay.report.timeline import Drawn, Place

OPEN_PER_CODE: Final = 4
"""Findings of one code that stand open; the others of it unfold."""


_SEVERITY_HEADS: Final = {
    Severity.ERROR: "Errors",
    Severity.WARNING: "Warnings",
    Severity.INFO: "Worth knowing",
}


def places(data: ReportData) -> list[Place]:
    """The findings in the order of the page, numbered."""
    severities = list(Severity)

    def order(finding: Finding) -> tuple[object, ...]:
        first = finding.records[0] if finding.records else None
        offset = finding.offset if finding.offset is not None else first.offset if first else -1
        return (
            severities.index(finding.severity),
            ("", ORIGINAL, FENCED).index(finding.rules)
            if finding.rules in (ORIGINAL, FENCED)
            else 0,
            finding.rules is not None,
            finding.rules or "",
            finding.code,
            finding.log,
            finding.group or "",
            finding.topic or "",
            -1 if finding.topic_partition is None else finding.topic_partition,
            offset,
        )

    ordered = sorted(data.findings, key=order)
    return [Place(number, finding) for number, finding in enumerate(ordered, start=1)]


def findings(numbered: Sequence[Place], drawn: Drawn, log_anchors: dict[str, str]) -> Html:
    """Every finding with the records that prove it, the worst first."""
    parts: list[Html] = []
    if not numbered:
        parts.append(el("p", {"class": "none"}, "Nothing was found."))
    for severity, of_severity in groupby(numbered, key=lambda place: place.finding.severity):
        blocks = [
            _code(list(of_code), drawn, log_anchors)
            for _, of_code in groupby(
                of_severity, key=lambda place: (place.finding.rules, place.finding.code)
            )
        ]
        head = el("h3", {"class": severity.value}, _SEVERITY_HEADS[severity])
        parts.append(el("div", {"class": f"severity {severity.value}"}, head, *blocks))
    return el("section", {"id": "findings"}, el("h2", None, "Findings"), *parts)


def _code(of_code: Sequence[Place], drawn: Drawn, log_anchors: dict[str, str]) -> Html:
    """All findings of one code: one item per claim and sentence, with the records of each."""
    first = of_code[0].finding
    items: dict[tuple[object, ...], list[Place]] = defaultdict(list)
    for place in of_code:
        f = place.finding
        about = (f.log, f.coordinating_partition, f.group, f.topic, f.topic_partition)
        items[*about, f.sentence].append(place)
    told = [_finding(alike, drawn, log_anchors) for alike in items.values()]
    opened = told if len(told) <= OPEN_PER_CODE + 1 else told[:OPEN_PER_CODE]
    broken = "breaks" if first.severity is Severity.ERROR else "about"
    return el(
        "article",
        {"class": f"code {first.severity.value}"},
        el(
            "h4",
            None,
            words.code_title(visible(first.code, 80)),
            el("span", {"class": "count"}, f"{len(of_code):,}×") if len(of_code) > 1 else None,
            el("span", {"class": "under"}, f"under the {name(first.rules)} rules")
            if first.rules is not None
            else None,
            el("span", {"class": "property"}, broken, " ", el("b", None, name(first.property)))
            if first.property is not None
            else None,
        ),
        el("p", {"class": "advice"}, el("b", None, "What to do: "), visible(first.what_to_do))
        if first.what_to_do
        else None,
        el("ol", None, *opened),
        pieces.folded(f"{len(told) - len(opened):,} more", el("ol", None, *told[len(opened) :]))
        if len(told) > len(opened)
        else None,
    )


def _finding(alike: Sequence[Place], drawn: Drawn, log_anchors: dict[str, str]) -> Html:
    """One sentence, where it is true, and a line for each record that proves it."""
    finding = alike[0].finding
    claim = alike[0].claim
    row = drawn.claim_anchors.get(claim) if claim else None
    anchor = drawn.anchors.get(alike[0].number) or row or log_anchors.get(finding.log)
    where = [
        name(finding.log, 60),
        None if finding.group is None else f"group {name(finding.group)}",
        None if finding.topic is None else pieces.topic(finding.topic, finding.topic_partition),
    ]
    place = None if claim is None else drawn.details.get(claim)
    if place is not None:
        anchor = "claims"
    link = {"href": f"#{anchor}", "class": "show", "data-open": place}
    show = el("a", link, "show on the timeline")
    lines = [_records(place, drawn.anchors.get(place.number)) for place in alike]
    opened = lines if len(lines) <= OPEN_PER_CODE + 1 else lines[:OPEN_PER_CODE]
    rest = lines[len(opened) :]
    return el(
        "li",
        {"class": "finding"},
        el("p", {"class": "sentence"}, visible(finding.sentence)),
        el(
            "p",
            {"class": "where"},
            join((el("bdi", None, part) for part in where if part is not None), " · "),
            show if anchor else None,
        ),
        _record_table(opened),
        pieces.folded(f"{len(rest):,} more like it", _record_table(rest)) if rest else None,
    )


def _records(place: Place, anchor: str | None) -> Html:
    """The records of one finding; the one that is its place links to it."""
    rows = [
        el(
            "tr",
            {"class": "place" if record.offset == place.offset else None},
            el(
                "td",
                {"class": "n"},
                pieces.link(anchor if record.offset == place.offset else None, str(record.offset)),
            ),
            pieces.time(record.at_ms),
            el(
                "td",
                None,
                el("bdi", None, pieces.sender(record.sender_client, record.sender_instance)),
            ),
            el("td", {"class": "said"}, visible(record.verdict, 60).replace("_", " ")),
            el("td", {"class": "text"}, el("code", None, visible(record.text))),
        )
        for record in place.finding.records
    ]
    return el("tbody", {"id": f"finding-{place.number}"}, *rows)


def _record_table(lines: Sequence[Html]) -> Html:
    heads = (("offset", "n"), ("time", None), ("sender", None), ("verdict", None), ("record", None))
    head = el("tr", None, *(el("th", {"scope": "col", "class": kind}, h) for h, kind in heads))
    return el("table", {"class": "records"}, el("thead", None, head), *lines)

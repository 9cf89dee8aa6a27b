"""Every finding with its evidence: one block per cause, the worst first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby
from typing import Final, TypeAlias

from attrs import define, field

from kafka_marshal.markup import Html, el, join, name, visible
from kafka_marshal.replay.report.base import pieces, words
from kafka_marshal.replay.report.base.clock import between, moment
from kafka_marshal.replay.report.base.data import ReportData, Severity
from kafka_marshal.replay.report.sections.causes import Cause
from kafka_marshal.replay.report.sections.timeline import Drawn, _FindingMark

OPEN_PER_CODE: Final = 4
"""The number of open records per code; more of one claim and sentence are folded."""
CLAIMS_NAMED: Final = 6
"""The number of claims that a folded list names in its summary."""

_SEVERITY_HEADS: Final = {
    Severity.ERROR: "Errors",
    Severity.WARNING: "Warnings",
    Severity.INFO: "Worth knowing",
}

_Alike: TypeAlias = Sequence[_FindingMark]
"""Findings of one code with the same sentence about one claim."""


def findings(causes: Sequence[Cause], drawn: Drawn, log_anchors: dict[str, str], logs: int) -> Html:
    """Every finding with the records that prove it, one block per cause.

    Args:
        causes: in the order of the page.
        drawn: where the timeline shows findings and claims.
        log_anchors: ids of the logs' figures.
        logs: the number of logs; if it is 1, blocks do not name the log.
    """
    by_cause = _Blocks(drawn, log_anchors, logs)
    parts: list[Html] = []
    if not causes:
        parts.append(el("p", {"class": "none"}, "Nothing was found."))
    for severity, of_severity in groupby(causes, key=lambda cause: cause.severity):
        blocks = [by_cause.cause(cause) for cause in of_severity]
        head = el("h3", {"class": severity.value}, _SEVERITY_HEADS[severity])
        parts.append(el("div", {"class": f"severity {severity.value}"}, head, *blocks))
    return el("section", {"id": "findings"}, el("h2", None, "Findings"), *parts)


def first_error(
    data: ReportData, causes: Sequence[Cause], drawn: Drawn, log_anchors: dict[str, str]
) -> Html | None:
    """Links to the first error's mark on the timeline, and to its finding; None without errors."""
    errors = [
        mark for cause in causes for mark in cause.marks if mark.finding.severity is Severity.ERROR
    ]
    if not errors:
        return None
    first = min(errors, key=lambda p: (p.at_ms is None, p.at_ms or 0, p.number))
    finding = first.finding
    where = [
        None if first.at_ms is None else f"{moment(first.at_ms)} UTC",
        None if finding.topic is None else pieces.topic(finding.topic, finding.topic_partition),
        None if finding.group is None else f"group {name(finding.group)}",
        name(finding.log, 60) if len(data.logs) > 1 else None,
    ]
    head = "First error" if len(data.findings) >= data.counts.findings else "First error shown here"
    link = _to_timeline(first, drawn, log_anchors) or {"href": f"#finding-{first.number}"}
    return join(
        [
            el(
                "a",
                {**link, "class": "first-error"},
                f"{head}: ",
                join((el("bdi", None, part) for part in where if part is not None), ", "),
            ),
            el("a", {"href": f"#finding-{first.number}"}, "what happened"),
        ]
    )


def _to_timeline(
    mark: _FindingMark, drawn: Drawn, log_anchors: dict[str, str]
) -> dict[str, str | int | None] | None:
    """The attributes of a link to a finding's mark; None if it is not drawn."""
    claim = mark.claim
    detail = None if claim is None else drawn.details.get(claim)
    if detail is not None:
        return {"href": "#claims", "data-open": detail}
    row = drawn.claim_anchors.get(claim) if claim else None
    anchor = drawn.anchors.get(mark.number) or row or log_anchors.get(mark.finding.log)
    return {"href": f"#{anchor}", "data-open": None} if anchor else None


@define
class _Blocks:
    """Writes causes one after the other; a code's advice is written at its first finding."""

    drawn: Drawn
    log_anchors: dict[str, str]
    logs: int
    causes: int = 0
    advised: dict[str, str] = field(factory=dict)
    """By code, the id of its advice."""

    def cause(self, cause: Cause) -> Html:
        """The block of one cause: its time and group, then code by code."""
        self.causes += 1
        log, group = cause.group
        claims = {mark.claim for mark in cause.marks if mark.claim is not None}
        count = words.plural(len(cause.marks), "finding")
        if claims:
            count += f" on {words.plural(len(claims), 'claim')}"
        when = None
        if cause.from_ms is not None and cause.to_ms is not None:
            title = f"{moment(cause.from_ms)} to {moment(cause.to_ms)} UTC"
            when = el("time", {"title": title}, between(cause.from_ms, cause.to_ms))
        return el(
            "article",
            {"class": f"cause {cause.severity.value}", "id": f"cause-{self.causes}"},
            el(
                "h4",
                None,
                when,
                None if group is None else el("bdi", None, f"group {name(group)}"),
                el("bdi", None, name(log, 60)) if self.logs > 1 or group is None else None,
                el("span", {"class": "count"}, count),
            ),
            *(self._code(of_code) for of_code in cause.by_code()),
        )

    def _code(self, of_code: Sequence[_FindingMark]) -> Html:
        """All findings of one code and rule set: the first sentence, then the folded claims."""
        first = of_code[0].finding
        items: dict[tuple[object, ...], list[_FindingMark]] = defaultdict(list)
        for mark in of_code:
            f = mark.finding
            about = (f.log, f.coordinating_partition, f.group, f.topic, f.topic_partition)
            items[*about, f.sentence].append(mark)
        alike = list(items.values())
        broken = "breaks" if first.severity is Severity.ERROR else "about"
        show = self._show(of_code[0])
        again, advice = self._advice(first.code, first.what_to_do)
        return el(
            "div",
            {"class": f"code {first.severity.value}"},
            el(
                "h5",
                None,
                words.code_title(visible(first.code, 80)),
                el("span", {"class": "count"}, f"{len(of_code):,}×") if len(of_code) > 1 else None,
                el("span", {"class": "under"}, f"under the {name(first.rules)} rules")
                if first.rules is not None
                else None,
                el("span", {"class": "property"}, broken, " ", pieces.property_name(first.property))
                if first.property is not None
                else None,
            ),
            el("p", {"class": "sentence"}, pieces.sentence(first.sentence), show, again),
            advice,
            pieces.folded(
                _folded_name(alike),
                el("ol", None, *(self._item(n, a) for n, a in enumerate(alike))),
            ),
        )

    def _advice(self, code: str, what_to_do: str) -> tuple[Html | None, Html | None]:
        """The advice at its first use; then a link to it."""
        if not what_to_do:
            return None, None
        if code in self.advised:
            link = {"href": f"#{self.advised[code]}", "class": "show"}
            return el("a", link, "what to do"), None
        anchor = f"do-{len(self.advised) + 1}"
        self.advised[code] = anchor
        label = el("b", None, "What to do: ")
        return None, el("p", {"class": "advice", "id": anchor}, label, visible(what_to_do))

    def _show(self, mark: _FindingMark) -> Html | None:
        link = _to_timeline(mark, self.drawn, self.log_anchors)
        return el("a", {**link, "class": "show"}, "show on the timeline") if link else None

    def _item(self, index: int, alike: _Alike) -> Html:
        """One claim: the sentence, unless it is visible already, and the records that prove it."""
        finding = alike[0].finding
        where = [
            name(finding.log, 60),
            None if finding.group is None else f"group {name(finding.group)}",
            None if finding.topic is None else pieces.topic(finding.topic, finding.topic_partition),
        ]
        lines = [_records(mark, self.drawn.anchors.get(mark.number)) for mark in alike]
        opened = lines if len(lines) <= OPEN_PER_CODE + 1 else lines[:OPEN_PER_CODE]
        rest = lines[len(opened) :]
        return el(
            "li",
            {"class": "finding"},
            el("p", {"class": "sentence"}, pieces.sentence(finding.sentence)) if index else None,
            el(
                "p",
                {"class": "where"},
                join((el("bdi", None, part) for part in where if part is not None), " · "),
                self._show(alike[0]) if index else None,
            ),
            _record_table(opened),
            pieces.folded(f"{len(rest):,} more like it", _record_table(rest)) if rest else None,
        )


def _folded_name(alike: Sequence[_Alike]) -> str:
    """The summary of a folded list: the number of records, and their claims."""
    found = [a[0].finding for a in alike]
    topics = [pieces.topic(f.topic, f.topic_partition) for f in found if f.topic is not None]
    claims = list(dict.fromkeys(topics))
    records = sum(len(mark.finding.records) for a in alike for mark in a)
    if not claims:
        return words.plural(records, "record")
    shown = ", ".join(claims[:CLAIMS_NAMED])
    if len(claims) > CLAIMS_NAMED:
        shown += f" and {len(claims) - CLAIMS_NAMED:,} more"
    return f"{words.plural(len(claims), 'claim')}: {shown}; {words.plural(records, 'record')}"


def _records(mark: _FindingMark, anchor: str | None) -> Html:
    """The records of one finding; the record in question links to it."""
    rows = [
        el(
            "tr",
            {"class": "place" if record.offset == mark.offset else None},
            el(
                "td",
                {"class": "n"},
                pieces.link(anchor if record.offset == mark.offset else None, str(record.offset)),
            ),
            pieces.time(record.at_ms),
            el("td", None, pieces.sender(record.sender_client, record.sender_instance)),
            el("td", {"class": "said"}, visible(record.verdict, 60).replace("_", " ")),
            el("td", {"class": "text"}, el("code", None, visible(record.text))),
        )
        for record in mark.finding.records
    ]
    return el("tbody", {"id": f"finding-{mark.number}"}, *rows)


def _record_table(lines: Sequence[Html]) -> Html:
    heads = (("offset", "n"), ("time", None), ("sender", None), ("verdict", None), ("record", None))
    head = el("tr", None, *(el("th", {"scope": "col", "class": kind}, h) for h, kind in heads))
    return el("table", {"class": "records"}, el("thead", None, head), *lines)

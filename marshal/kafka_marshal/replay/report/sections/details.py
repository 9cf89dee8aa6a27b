"""What the page can draw on demand, as JSON, within a limit of bytes.

Every claim of the list has its counts. Within the limit, the worst claims have their lanes, and the
next ones only their tenures. For all others the page refers to the tables. Each text is stored
once, in a list, and used by its index.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import attrs
from attrs import field, frozen

from kafka_marshal.markup import Html, Json, el, embedded_json, js_int, visible
from kafka_marshal.replay.report.base import words
from kafka_marshal.replay.report.base.clock import Axis
from kafka_marshal.replay.report.base.data import ORIGINAL, ClaimId, Lane, ReportLog, Severity
from kafka_marshal.replay.report.base.palette import Palette
from kafka_marshal.replay.report.base.scale import ClaimCounts, ClaimDetail, Scale
from kafka_marshal.replay.report.sections.timeline import (
    beats_path,
    mark_json,
    merged,
    stale,
    tenure_json,
)

PAGE_BYTES_MAX: Final = 20_000_000
"""The maximum size of any page."""
DETAILS_BYTES_MAX: Final = 14_000_000
"""The maximum size of details that are drawn on demand."""
CHUNK_CLAIMS: Final = 50
"""The number of claims per piece of JSON, which is parsed when one of them is opened."""
_SLACK_BYTES: Final = 200_000
_SEVERITIES: Final = tuple(Severity)


@frozen
class Embedded:
    """The details as script elements, with the numbers of claims in each form."""

    scripts: tuple[Html, ...]
    whole: int
    tenures_only: int
    counts_only: int
    indices: Mapping[ClaimId, int]
    """The claims that can be drawn, with their index in the list."""


class _Texts:
    """A list of texts, each stored once."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.bytes = 0

    def number(self, text: str | None) -> int | None:
        if text is None:
            return None
        if text not in self.numbers:
            self.numbers[text] = len(self.numbers)
            self.bytes += len(embedded_json(text)) + 1
        return self.numbers[text]


def embedded(
    scale: Scale,
    logs: Iterable[ReportLog],
    palette: Palette,
    stale_after_ms: float,
    others_bytes: int,
) -> Embedded:
    """The details that fit, if the rest of the page has `others_bytes`."""
    texts = _Texts()
    encoder = _Encoder(texts, {log.name: _axis(log) for log in logs}, palette, stale_after_ms)
    budget = min(DETAILS_BYTES_MAX, PAGE_BYTES_MAX - others_bytes - _SLACK_BYTES)
    listed: list[Html] = []
    used = 0
    for claim in scale.claims:
        text = embedded_json(encoder.counts(claim))
        if used + texts.bytes + len(text) > budget:
            break
        listed.append(text)
        used += len(text) + 1
    chunks: list[list[Html]] = []
    whole = tenures_only = 0
    indices: dict[ClaimId, int] = {}
    for index, detail in scale.details.items():
        if index >= len(listed) or index != len(indices):
            break
        text, brief = encoder.detail(detail), detail.tenures_only
        # The last part of the budget is for tenures only, of as many claims as possible.
        if not brief and used + texts.bytes + len(text) > 0.75 * budget:
            text, brief = encoder.detail(_brief(detail)), True
        if used + texts.bytes + len(text) > budget:
            break
        used += len(text) + 1
        if index % CHUNK_CLAIMS == 0:
            chunks.append([])
        chunks[-1].append(text)
        whole, tenures_only = whole + (not brief), tenures_only + brief
        indices[detail.timeline.claim] = index
    index_json = encoder.index(listed)
    scripts = [_script("claims", index_json)]
    scripts += [_script(f"claims-{n}", f"[{','.join(chunk)}]") for n, chunk in enumerate(chunks)]
    return Embedded(
        tuple(scripts), whole, tenures_only, len(scale.claims) - whole - tenures_only, indices
    )


def _script(name: str, text: str) -> Html:
    return el("script", {"type": "application/json", "id": f"data-{name}"}, Html(text))


def _axis(log: ReportLog) -> Axis:
    return Axis.around(log.from_ms or 0, log.to_ms or 0)


def _brief(detail: ClaimDetail) -> ClaimDetail:
    lanes = tuple(Lane(lane.rules, lane.tenures) for lane in detail.timeline.lanes)
    timeline = attrs.evolve(detail.timeline, lanes=lanes)
    return attrs.evolve(detail, timeline=timeline, tenures_only=True)


@frozen
class _Encoder:
    texts: _Texts
    axes: Mapping[str, Axis]
    palette: Palette
    stale_after_ms: float
    _nowhere: Axis = field(factory=lambda: Axis(0, 1))

    def index(self, listed: list[Html]) -> str:
        """The list of claims, the axes of the logs, and the texts of everything."""
        logs: dict[str, Json] = {
            str(number): list[Json](axis.json)
            for name, axis in self.axes.items()
            if (number := self.texts.numbers.get(visible(name, 160))) is not None
        }
        head = embedded_json({"axes": logs, "texts": list(self.texts.numbers)})
        return f'{head[:-1]},"claims":[{",".join(listed)}],"chunk":{CHUNK_CLAIMS}}}'

    def counts(self, claim: ClaimCounts) -> list[Json]:
        """A claim's key and its counts."""
        key = claim.claim
        return [
            self.texts.number(visible(key.log, 160)),
            js_int(key.coordinating_partition),
            self.texts.number(visible(key.group, 160)),
            self.texts.number(visible(key.topic, 160)),
            js_int(key.topic_partition),
            *(
                js_int(number)
                for number in (
                    claim.records,
                    claim.errors,
                    claim.warnings,
                    claim.tenures,
                    claim.takeovers,
                    claim.unowned_ms,
                )
            ),
        ]

    def detail(self, detail: ClaimDetail) -> Html:
        """A claim's lanes and findings."""
        axis = self.axes.get(detail.timeline.claim.log, self._nowhere)
        lanes = sorted(detail.timeline.lanes, key=lambda lane: lane.rules != ORIGINAL)
        findings: list[Json] = [
            [
                self.texts.number(None if f.rules is None else visible(f.rules, 40)),
                self.texts.number(words.code_title(visible(f.code, 80))),
                _SEVERITIES.index(f.severity),
                js_int(f.offset),
                js_int(f.at_ms),
                visible(f.sentence, 400),
            ]
            for f in detail.findings
        ]
        value: Json = {
            "lanes": [self._lane(lane, axis) for lane in lanes],
            "findings": findings,
            "brief": int(detail.tenures_only),
            "cut": int(detail.cut),
        }
        return embedded_json(value)

    def _lane(self, lane: Lane, axis: Axis) -> Json:
        tenures: list[Json] = []
        for tenure in lane.tenures:
            row = tenure_json(lane.rules, tenure)
            for column in (1, 2, 9, 10):
                row[column] = self._number(row[column])
            to_ms = axis.to_ms if tenure.to_ms is None else tenure.to_ms
            faded: list[Json] = [
                [js_int(begin), js_int(end)]
                for begin, end in stale(lane.beats_ms, tenure.from_ms, to_ms, self.stale_after_ms)
            ]
            owner = self.palette.owner(tenure.owner_client, tenure.owner_instance)
            tenures.append([*row[1:], self.texts.number(owner), *([faded] if faded else [])])
        marks: list[Json] = []
        for mark, count in merged(lane.marks, axis):
            row = mark_json(lane.rules, mark, count)
            for column in (0, 4, 5, 6, 8):
                row[column] = self._number(row[column])
            marks.append([row[0], *row[2:10]])
        pauses: list[Json] = [
            [js_int(p.from_ms), js_int(p.until_ms), self.texts.number(visible(p.by, 80))]
            for p in lane.pauses
        ]
        rules = self.texts.number(visible(lane.rules, 40))
        return [rules, tenures, marks, pauses, beats_path(lane.beats_ms, axis)]

    def _number(self, text: Json) -> int | None:
        return self.texts.number(None if text is None else str(text))

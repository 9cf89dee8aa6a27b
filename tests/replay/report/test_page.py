from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser

import attrs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.replay.report import sample

from kafka_marshal import markup
from kafka_marshal.core.claims.invariants import Property
from kafka_marshal.replay.findings.catalogue import CATALOGUE
from kafka_marshal.replay.model.internal import ClockStatistics
from kafka_marshal.replay.report import render
from kafka_marshal.replay.report.base import data as d
from kafka_marshal.replay.report.base import pieces, words
from kafka_marshal.replay.report.base.scale import Scale
from kafka_marshal.replay.report.sections import summary
from kafka_marshal.replay.report.sections.causes import causes

HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    "<!--",
    "]]>",
    "</style>",
    "</title>",
    "</svg><p>",
    '" onload="alert(1)',
    "' onclick='alert(1)",
    "&lt;b&gt;",
    "\x00\x07\x1b[31m",
    "\u202egnp.exe",
    "\u2028\u2029",
    "\udc80\udcff",
    "\ud800",
    "\udbff\udfff",
    "",
    " ",
    "a\\x00",
    "x" * 100_000,
    "\N{COMBINING ACUTE ACCENT}" * 5_000,
    "https://elsewhere.example/x.png",
    "javascript:alert(1)",
    "url(https://elsewhere.example/)",
)
HUGE = (0, -1, 1, 999, 10**15, 2**53 + 1, 2**63 - 1, -(2**63), 10**30)


class Page(HTMLParser):
    """A page taken apart: every element with its attributes, in order, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.comments: list[str] = []
        self.texts: list[tuple[str, str]] = []
        self.above: list[tuple[str, ...]] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == [], f"never closed: {self._open}"

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))
        self.above.append(tuple(self._open))
        assert len(dict(attributes)) == len(attributes), f"an attribute twice: {attributes}"
        if tag not in ("meta", "br", "hr", "input"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, text: str) -> None:
        self.texts.append((self._open[-1] if self._open else "", text))

    def handle_comment(self, text: str) -> None:
        self.comments.append(text)

    def of_class(self, name: str) -> Iterator[dict[str, str | None]]:
        for _, attributes in self.elements:
            if name in (attributes.get("class") or "").split():
                yield attributes

    @property
    def tags(self) -> list[tuple[str, tuple[str, ...]]]:
        return [(tag, tuple(attributes)) for tag, attributes in self.elements]

    @property
    def skeleton(self) -> list[tuple[str, tuple[str, ...]]]:
        """The tags but those of what is explained on hover: ids and names of properties are."""
        return sorted(tag for tag in self.tags if tag != ("abbr", ("title",)))

    @property
    def embedded(self) -> dict[str, list[list[object]]]:
        after = [text for tag, text in self.texts if tag == "script"]
        found: dict[str, list[list[object]]] = json.loads(after[0])
        return found

    @property
    def read(self) -> str:
        return " ".join(text for tag, text in self.texts if tag not in ("script", "style"))


def a_report(text: str = "x", number: int = 5) -> d.ReportData:
    """A report with one of everything; every text is `text`, and every number is `number`."""
    claim = d.ClaimId(text, number, text, text, number)
    tenures = (
        d.TenureBar(text, text, number, number, number, number, number, number, text, text),
        d.TenureBar(text, text, number, None, number, None, None, None, "claimed", None),
    )
    marks = tuple(
        d.RecordGlyph(number, number, kind, text, text, guard=text, position=number, text=text)
        for kind in d.MarkKind
    )
    lanes = tuple(
        d.Lane(rules, tenures, marks, (d.Pause(number, number, text),), (number, number))
        for rules in (d.ORIGINAL, d.FENCED)
    )
    record = d.FindingRecord(number, number, text, text, text, text, text)
    of_claim = d.Finding(
        None, text, d.Severity.INFO, text, text, text, number, text, text, number, records=(record,)
    )
    of_group = attrs.evolve(of_claim, topic=None, topic_partition=None)
    abouts = (of_claim, of_group, attrs.evolve(of_group, group=None, coordinating_partition=None))
    findings = tuple(
        attrs.evolve(about, rules=rules, severity=severity)
        for severity in d.Severity
        for rules in (d.ORIGINAL, d.FENCED, None, text)
        for about in abouts
    )
    parting = d.Divergence(
        claim, number, number, number, number, text, text, number, None, None, None, text
    )
    return d.ReportData(
        title=text,
        sources=(text, text),
        rules=(d.ORIGINAL, d.FENCED),
        heartbeat_interval_s=4,
        from_ms=number,
        to_ms=number,
        counts=d.Counts(*(abs(number) for _ in range(7))),
        logs=(
            d.ReportLog(text, number, number, number, number),
            d.ReportLog("other", 0, None, None, 0),
        ),
        caveats=(text,),
        groups=tuple(
            sample.group_row(text, number, text, rules, *(number for _ in range(9)))
            for rules in (d.ORIGINAL, d.FENCED)
        ),
        claims=(d.ClaimTimeline(claim, lanes, number),),
        findings=findings,
        senders=(ClockStatistics(text, text, text, text, number, number, number, number),),
        divergences=(parting, attrs.evolve(parting, until_ms=None, until_offset=None)),
    )


EMPTY = d.ReportData(
    title="Nothing",
    sources=(),
    rules=(d.FENCED,),
    heartbeat_interval_s=60,
    from_ms=None,
    to_ms=None,
    counts=d.Counts(0, 0, 0, 0, 0, 0, 0),
)


@functools.cache
def plain() -> Page:
    return Page(render(a_report()))


def promise_that_it_is_only_text(text: str) -> None:
    written = render(a_report(text))
    page = Page(written.encode("utf-8").decode("utf-8"))
    # The same elements with the same attributes; their order may change with the text's.
    assert page.skeleton == plain().skeleton
    assert page.comments == []
    assert "\x00" not in written
    for _, attributes in page.elements:
        for name, value in attributes.items():
            if name == "href":
                assert (value or "").startswith("#")
            if name in ("class", "id", "style"):
                assert re.fullmatch(r"[\w :%.-]*", value or ""), (name, value)
    assert set(page.embedded) == {"tenures", "marks"}
    assert not {"<", ">", "&"} & set(next(data for tag, data in page.texts if tag == "script"))


@pytest.mark.parametrize("text", HOSTILE, ids=[f"{t[:12]!a}" for t in HOSTILE])
def test_text_from_records_stays_text(text: str) -> None:
    promise_that_it_is_only_text(text)


@settings(max_examples=60, deadline=None)
@given(
    st.one_of(
        st.text(st.characters(), min_size=1),
        st.text(st.sampled_from("<>&\"'/!-\\ `=;scriptSCRIPT\x00\n\u2028\ud800\udcff"), min_size=1),
    ).filter(lambda text: text not in (d.ORIGINAL, d.FENCED, "other"))
)
def test_any_text_stays_text(text: str) -> None:
    promise_that_it_is_only_text(text)


def test_text_that_nobody_made_visible_is_still_safe_to_write() -> None:
    written = markup.el("p", {"title": "\ud800"}, "\x00", "\u202e<b>")
    assert written == '<p title="\\ud800">\\x00\\u202e&lt;b&gt;</p>'


@given(st.text(st.characters()))
def test_what_is_shown_can_be_printed_and_written(text: str) -> None:
    shown = markup.visible(text)
    assert shown.isprintable()
    shown.encode("utf-8")
    # Half the page's promise is that different ids look different.
    assert shown == text or shown != markup.visible(shown)


@example("\udc80", "\udcff")
@example("\x80", "\udc80")
@example("\x00", "\\x00")
@example("\u202e", "\u202d")
@given(st.text(st.characters(), max_size=40), st.text(st.characters(), max_size=40))
def test_different_texts_look_different(one: str, other: str) -> None:
    assert (markup.visible(one) == markup.visible(other)) == (one == other)


@pytest.mark.parametrize("number", HUGE)
def test_any_number_is_shown(number: int) -> None:
    page = Page(render(a_report(number=number)))
    assert {tag for tag, _ in page.elements} <= {tag for tag, _ in plain().elements} | {
        "span",
        "strong",
    }
    assert str(number) in page.read
    lengths = [
        value
        for _, attributes in page.elements
        for name, value in attributes.items()
        if name in ("x", "width", "x1", "x2", "cx") and value and value.endswith("%")
    ]
    assert lengths
    assert all(0 <= float(length[:-1]) <= 100 for length in lengths)


def test_a_number_that_javascript_would_round_travels_as_text() -> None:
    page = Page(render(a_report(number=2**53 + 1)))
    assert page.embedded["tenures"][0][3] == str(2**53 + 1)
    assert Page(render(a_report(number=7))).embedded["tenures"][0][3] == 7


def test_the_page_fetches_nothing() -> None:
    written = render(sample.report())
    page = Page(written)
    assert not [a for _, a in page.elements if {"src", "srcset", "data", "action"} & a.keys()]
    assert not [tag for tag, _ in page.elements if tag in ("link", "iframe", "object", "img")]
    for code in (text for tag, text in page.texts if tag in ("script", "style")):
        fetched = re.findall(r"https?://[^\s\"']+|@import|fetch\(|XMLHttp|url\((?!#)", code)
        assert set(fetched) <= {"http://www.w3.org/2000/svg"}  # the name of SVG, not an address
    assert "http://" not in page.read
    assert "https://" not in page.read


@pytest.mark.parametrize(
    "report", [sample.report(), a_report(), EMPTY], ids=["real", "odd", "empty"]
)
def test_ids_are_given_once_and_every_link_arrives(report: d.ReportData) -> None:
    page = Page(render(report))
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    links = {(a["href"] or "")[1:] for _, a in page.elements if "href" in a}
    assert links <= set(ids)


def test_every_tenure_and_every_mark_is_drawn() -> None:
    report = sample.report()
    page = Page(render(report))
    lanes = [lane for claim in report.claims for lane in claim.lanes]
    tenures = [tenure for lane in lanes for tenure in lane.tenures]
    marks = [mark for lane in lanes for mark in lane.marks]
    assert len(list(page.of_class("tenure"))) == len(tenures) == len(page.embedded["tenures"])
    drawn = [a for a in page.of_class("mark") if "data-m" in a]
    assert len(drawn) == len(marks) == len(page.embedded["marks"])
    told = {(row[3], row[4], row[2]) for row in page.embedded["tenures"]}
    assert told == {(t.from_offset, t.to_offset, t.owner_instance) for t in tenures}


def test_every_finding_is_told_with_its_records_and_its_place() -> None:
    report = sample.report()
    page = Page(render(report))
    ids = {a.get("id") for _, a in page.elements}
    assert {f"finding-{n}" for n in range(1, len(report.findings) + 1)} <= ids
    assert {f"at-{n}" for n in range(1, len(report.findings) + 1)} <= ids
    for finding in report.findings:
        assert finding.sentence in page.read
        assert all(record.text in page.read for record in finding.records)


def test_both_thefts_are_drawn_under_the_original_rules_and_none_under_the_fenced() -> None:
    page = Page(render(sample.report("d3_late_heartbeat_theft")))
    thefts = [row for row in page.embedded["marks"] if row[0] == "theft"]
    assert [(row[1], row[2]) for row in thefts] == [("original", 82), ("original", 176)]
    assert "stole a claim from its live owner twice" in page.read
    assert "no promise was broken under the fenced rules" in page.read
    fenced = Page(render(sample.report("d3_late_heartbeat_theft", rules=(d.FENCED,))))
    assert not [row for row in fenced.embedded["marks"] if row[0] == "theft"]
    assert "stole" not in fenced.read


def test_under_both_rule_sets_the_original_stands_above() -> None:
    report = sample.report("d3_late_heartbeat_theft")
    swapped = attrs.evolve(
        report, claims=tuple(attrs.evolve(c, lanes=c.lanes[::-1]) for c in report.claims)
    )
    rows = Page(render(swapped)).embedded["tenures"]
    assert [row[0] for row in rows[:2]] == ["original", "fenced"]


def test_every_divergence_is_a_band_and_a_line() -> None:
    report = sample.report()
    page = Page(render(report))
    bands = {a.get("id") for a in page.of_class("parts")}
    assert bands == {f"parts-{n}" for n in range(1, len(report.divergences) + 1)}


def test_time_without_an_owner_is_left_empty() -> None:
    claim = d.ClaimId("l", 0, "g", "t", 0)
    tenures = tuple(
        d.TenureBar("i", "c", ms, ms + 1, ms, ms + 2_000, 0, 0, "claimed", "released")
        for ms in (0, 8_000)
    )
    timeline = d.ClaimTimeline(claim, (d.Lane(d.FENCED, tenures),))
    log = d.ReportLog("l", 4, 0, 10_000, 1)
    page = Page(render(attrs.evolve(EMPTY, logs=(log,), claims=(timeline,))))
    first, second = (
        (float((a["x"] or "")[:-1]), float((a["width"] or "")[:-1]))
        for a in page.of_class("tenure")
    )
    assert first[0] + first[1] == pytest.approx(100 * 2_200 / 10_400, abs=0.01)
    assert second[0] == pytest.approx(100 * 8_200 / 10_400, abs=0.01)


def test_an_owner_that_fell_silent_fades_after_two_intervals() -> None:
    claim = d.ClaimId("l", 0, "g", "t", 0)
    tenure = d.TenureBar("i", "c", 0, 1, 0, 40_000, 0, 0, "claimed", "released")
    lane = d.Lane(d.FENCED, (tenure,), beats_ms=(0, 4_000, 8_000))
    report = attrs.evolve(EMPTY, heartbeat_interval_s=4, claims=(d.ClaimTimeline(claim, (lane,)),))
    page = Page(render(report))
    faded = [a for a in page.of_class("stale") if "x" in a]
    assert [(a["x"], a["width"]) for a in faded] == [("40%", "60%")]


def test_a_tenure_without_a_heartbeat_in_its_time_is_drawn() -> None:
    claim = d.ClaimId("l", 0, "g", "t", 0)
    tenure = d.TenureBar("i", "c", 0, 1, 1_000, 2_000, 0, 0, "claimed", "released")
    lane = d.Lane(d.FENCED, (tenure,), beats_ms=(5_000,))
    page = Page(render(attrs.evolve(EMPTY, claims=(d.ClaimTimeline(claim, (lane,)),))))
    assert len(list(page.of_class("tenure"))) == 1


def test_what_lies_outside_the_log_stands_at_its_edge() -> None:
    claim = d.ClaimId("l", 0, "g", "t", 0)
    tenure = d.TenureBar("i", "c", 0, 1, -5_000, 90_000, 0, 0, "claimed", "released")
    mark = d.RecordGlyph(1, 90_000, d.MarkKind.TAKEOVER, "i", "c")
    lane = d.Lane(d.FENCED, (tenure,), (mark,), (d.Pause(5_000, None, "i"),), (-5_000, 90_000))
    log = d.ReportLog("l", 4, 0, 10_000, 1)
    page = Page(render(attrs.evolve(EMPTY, logs=(log,), claims=(d.ClaimTimeline(claim, (lane,)),))))
    (bar,) = page.of_class("tenure")
    assert (bar["x"], bar["width"]) == ("0%", "100%")
    (glyph,) = (a for a in page.of_class("takeover") if "data-m" in a)
    assert glyph["x"] == "100%"


def test_a_finding_that_no_mark_shows_gets_a_flag_of_its_own() -> None:
    claim = d.ClaimId("l", 0, "g", "t", 0)
    lanes = tuple(d.Lane(rules) for rules in (d.ORIGINAL, d.FENCED))
    finding = d.Finding(
        d.FENCED,
        "missed_heartbeat",
        d.Severity.INFO,
        None,
        "Silent.",
        "l",
        0,
        "g",
        "t",
        0,
        7,
        7_000,
    )
    report = attrs.evolve(EMPTY, claims=(d.ClaimTimeline(claim, lanes),), findings=(finding,))
    page = Page(render(report))
    (row,) = page.embedded["marks"]
    assert row[:4] == ["finding", "fenced", 7, 7_000]
    assert [a["id"] for a in page.of_class("finding") if "data-m" in a] == ["at-1"]
    assert "#at-1" in {a.get("href") for _, a in page.elements}


def test_nothing_replayed_is_a_page_that_says_so() -> None:
    page = Page(render(EMPTY))
    assert "There was no record to replay." in page.read
    assert "Nothing was found." in page.read


def test_one_record_is_a_page() -> None:
    claim = d.ClaimId("l", 0, "g", "t", 0)
    tenure = d.TenureBar("i", "c", 0, None, 1_000, None, 0, 0, "claimed", None)
    report = attrs.evolve(
        EMPTY,
        from_ms=1_000,
        to_ms=1_000,
        counts=d.Counts(1, 0, 1, 1, 1, 0, 0),
        logs=(d.ReportLog("l", 1, 1_000, 1_000, 1),),
        claims=(d.ClaimTimeline(claim, (d.Lane(d.FENCED, (tenure,), beats_ms=(1_000,)),)),),
    )
    page = Page(render(report))
    assert len(list(page.of_class("tenure"))) == 1
    assert "no promise was broken" in page.read


@pytest.mark.parametrize(
    ("rules", "unjudged", "verdict"),
    [
        ([d.FENCED], 4, "Under the fenced rules nothing could be judged."),
        (
            [d.FENCED],
            1,
            "Under the fenced rules no promise was broken on the 3 of 4 claims that could be "
            "judged.",
        ),
        ([d.ORIGINAL], 0, "Under the original’s rules no promise was broken."),
        (
            [d.FENCED, d.ORIGINAL],
            4,
            "Under the original’s rules no promise was broken. Under the fenced rules nothing "
            "could be judged. The two rule sets could not be compared.",
        ),
        (
            [d.FENCED, d.ORIGINAL],
            0,
            "No promise was broken, under either rule set. The two rule sets agree on every owner "
            "and position, record by record.",
        ),
    ],
)
def test_the_headline_promises_nothing_of_claims_that_could_not_be_judged(
    rules: list[str], unjudged: int, verdict: str
) -> None:
    counts = d.Counts(9, 0, 4, 1, 1, 0, 0, unjudged)
    report = attrs.evolve(EMPTY, rules=tuple(rules), counts=counts)
    page = Page(f"<p>{summary.verdict(report)}</p>")
    assert "".join(text for _, text in page.texts) == verdict


def test_errors_are_told_with_how_many_claims_could_be_judged() -> None:
    report = sample.report("d3_late_heartbeat_theft", rules=(d.ORIGINAL,))
    findings = [attrs.evolve(found, rules=d.FENCED) for found in report.findings]
    counts = attrs.evolve(report.counts, claims_unjudged=report.counts.claims - 2)
    report = attrs.evolve(report, rules=(d.FENCED,), findings=tuple(findings), counts=counts)
    told = f"; 2 of {counts.claims} claims could be judged."
    assert told in summary.verdict(report)


def test_of_a_log_without_a_claim_nothing_is_judged() -> None:
    counts = d.Counts(1, 1, 0, 0, 0, 1, 0)
    for rules in ((d.FENCED,), (d.ORIGINAL,), (d.FENCED, d.ORIGINAL)):
        page = Page(render(attrs.evolve(EMPTY, rules=rules, counts=counts)))
        assert "No record is about a claim, so nothing could be judged." in page.read
        assert "no promise was broken" not in page.read.lower()


def test_the_page_says_when_it_shows_only_some() -> None:
    report = sample.report("d3_late_heartbeat_theft")
    counts = attrs.evolve(report.counts, claims=9_000, findings=70_000)
    page = Page(render(attrs.evolve(report, counts=counts)))
    assert "8 of 9,000 claims" in page.read
    assert "17 of 70,000 findings" in page.read


def test_a_finding_on_a_claim_that_is_not_drawn_has_no_dead_link() -> None:
    report = sample.report("d3_late_heartbeat_theft")
    page = Page(render(attrs.evolve(report, claims=())))
    ids = {a.get("id") for _, a in page.elements}
    assert {(a["href"] or "")[1:] for _, a in page.elements if "href" in a} <= ids
    assert report.findings[0].sentence in page.read


def test_seventy_busy_claims_stay_below_a_megabyte() -> None:
    start = 1_795_219_114_000
    beats = tuple(start + 4_000 * n for n in range(250))
    tenures = tuple(
        d.TenureBar(
            f"i{n % 3}", f"c{n % 2}", n, n + 1, beats[n], beats[n + 25], n, n, "took_over", "x"
        )
        for n in range(0, 225, 25)
    )
    marks = tuple(
        d.RecordGlyph(n, beats[n], d.MarkKind.REFUSAL, "i1", "c1", "not_owner")
        for n in range(0, 250, 10)
    )
    claims = tuple(
        d.ClaimTimeline(
            d.ClaimId("l", 0, "g", "events", partition),
            tuple(d.Lane(rules, tenures, marks, (), beats) for rules in (d.ORIGINAL, d.FENCED)),
        )
        for partition in range(70)
    )
    report = attrs.evolve(EMPTY, rules=(d.ORIGINAL, d.FENCED), claims=claims)
    assert len(render(report).encode()) < 2**20 * 1.5


def test_a_crowded_lane_merges_what_would_overlap_and_counts_it() -> None:
    marks = tuple(
        d.RecordGlyph(n, 1_000 * n, d.MarkKind.REFUSAL, "i", "c", "not_owner")
        for n in range(10_000)
    )
    claim = d.ClaimTimeline(d.ClaimId("l", 0, "g", "t", 0), (d.Lane(d.FENCED, (), marks),))
    rows = Page(render(attrs.evolve(EMPTY, claims=(claim,)))).embedded["marks"]
    assert len(rows) <= 260
    counts = [row[9] for row in rows]
    assert sum(count for count in counts if isinstance(count, int)) == 10_000


def test_an_owner_has_one_colour_on_the_whole_page() -> None:
    page = Page(render(sample.report()))
    colours: dict[str, set[str]] = {}
    for a in page.of_class("tenure"):
        of_owner = colours.setdefault(a["data-l"] or "", set())
        of_owner.add(re.sub(" (lasts|brief)$", "", a["class"] or ""))
    assert len(colours) > 10
    assert all(len(classes) == 1 for classes in colours.values())


# --- what stands where ---


def order_of_sections(page: Page) -> list[str | None]:
    return [a.get("id") for tag, a in page.elements if tag == "section"]


def test_who_owned_what_comes_right_after_the_headline() -> None:
    sections = order_of_sections(Page(render(sample.report())))
    assert sections == ["ownership", "findings", "divergences", "groups", "clocks", "replayed"]
    assert order_of_sections(Page(render(EMPTY)))[:2] == ["ownership", "findings"]


def finding(
    at_ms: int,
    partition: int | None = 0,
    group: str = "g",
    code: str = "late_heartbeat_stole",
    severity: d.Severity = d.Severity.ERROR,
    log: str = "l",
) -> d.Finding:
    """One about a claim, or about the whole group without a partition."""
    topic = None if partition is None else "t"
    what = f"{code} {at_ms} {group} {partition}."
    record = d.FindingRecord(at_ms, at_ms, "Heartbeat", "i", "c", "overwritten", f"r{at_ms}")
    return d.Finding(
        d.ORIGINAL, code, severity, "Fenced", what, log, 0, group, topic, partition,
        records=(record,),
    )  # fmt: skip


def with_findings(*findings: d.Finding) -> d.ReportData:
    """A report of them, with intervals of 4 s and a claim for each that is about one."""
    claims = dict.fromkeys(
        d.ClaimId(f.log, 0, f.group or "", f.topic, f.topic_partition)
        for f in findings
        if f.topic is not None and f.topic_partition is not None
    )
    return attrs.evolve(
        EMPTY,
        rules=(d.ORIGINAL,),
        heartbeat_interval_s=4,
        from_ms=0,
        to_ms=100_000,
        counts=d.Counts(9, 0, len(claims), 1, 1, len(findings), 0),
        logs=tuple(
            d.ReportLog(log, 9, 0, 100_000, 1) for log in dict.fromkeys(f.log for f in findings)
        ),
        claims=tuple(d.ClaimTimeline(claim, (d.Lane(d.ORIGINAL),)) for claim in claims),
        findings=findings,
    )


def test_the_headline_leads_to_the_first_error_in_time() -> None:
    page = Page(render(sample.report("d3_late_heartbeat_theft")))
    (link,) = page.of_class("first-error")
    (mark,) = (a for _, a in page.elements if a.get("id") == (link["href"] or "")[1:])
    assert page.embedded["marks"][int(mark["data-m"] or "")][:3] == ["theft", "original", 82]
    # The worst group comes first on the page, and its error second in time.
    report = with_findings(finding(9_000), finding(9_001), finding(500, group="h"))
    page = Page(render(report))
    (link,) = page.of_class("first-error")
    (flag,) = (a for _, a in page.elements if a.get("id") == (link["href"] or "")[1:])
    assert page.embedded["marks"][int(flag["data-m"] or "")][3] == 500
    assert "First error: 1970-01-01 00:00:00.500 UTC" in re.sub(r" +", " ", page.read)
    cut = attrs.evolve(report, counts=attrs.evolve(report.counts, findings=900))
    assert "First error shown here: " in Page(render(cut)).read


def test_without_an_error_there_is_nothing_to_jump_to() -> None:
    warning = finding(1, severity=d.Severity.WARNING)
    assert not list(Page(render(with_findings(warning))).of_class("first-error"))
    assert not list(Page(render(EMPTY)).of_class("first-error"))


def blocks(report: d.ReportData) -> list[list[int | None]]:
    """The times of the findings, by block."""
    return [[mark.at_ms for mark in cause.marks] for cause in causes(report)]


def test_what_happens_to_a_group_at_one_time_is_one_block() -> None:
    stolen = [finding(1_000 * n, partition=n) for n in range(5)]
    refused = finding(6_000, 0, code="late_heartbeat_refused", severity=d.Severity.WARNING)
    later = finding(14_001, 1)
    other = finding(3_000, 0, group="h")
    report = with_findings(*stolen, refused, later, other)
    assert blocks(report) == [[0, 1_000, 2_000, 3_000, 4_000, 6_000], [14_001], [3_000]]
    page = Page(render(report))
    assert len(list(page.of_class("cause"))) == 3
    assert "6 findings on 5 claims" in page.read
    assert "5 claims: t/0, t/1, t/2, t/3, t/4; 5 records" in page.read


def test_what_is_about_a_whole_group_stands_by_itself() -> None:
    report = with_findings(
        finding(1_000),
        finding(1_000, None, code="two_instances_of_one_client"),
        finding(50_000, None, code="two_instances_of_one_client"),
        finding(2_000, None, code="failover_times", severity=d.Severity.INFO),
        finding(60_000, None, code="failover_times", severity=d.Severity.INFO),
    )
    assert blocks(report) == [[1_000], [1_000], [50_000], [2_000, 60_000]]


def test_a_block_keeps_its_claims_folded_and_loses_none() -> None:
    report = sample.report()
    page = Page(render(report))
    depth = {number: "details" in page.above[number] for number in range(len(page.elements))}
    tables = [n for n, (_, a) in enumerate(page.elements) if a.get("class") == "records"]
    assert tables
    assert all(depth[n] for n in tables)
    ids = [a["id"] or "" for _, a in page.elements if "id" in a]
    told = [int(i[8:]) for i in ids if i.startswith("finding-")]
    assert told == list(range(1, len(report.findings) + 1))


def test_the_advice_of_a_code_is_given_once_and_linked_to_then() -> None:
    advised = [attrs.evolve(finding(30_000 * n), what_to_do="Do this.") for n in range(3)]
    page = Page(render(with_findings(*advised)))
    assert page.read.count("Do this.") == 1
    assert [a["href"] for _, a in page.elements if a.get("href") == "#do-1"] == ["#do-1"] * 2


def test_the_worst_groups_come_first_everywhere() -> None:
    warning = finding(0, 0, "a", severity=d.Severity.WARNING)
    report = with_findings(
        warning,
        finding(10, 0, "b"),
        *(finding(20 + n, n, "c") for n in range(3)),
        finding(5, 0, "z", log="m"),
        *(finding(20 + n, n, "y", log="m") for n in range(7)),
    )
    groups = tuple(
        sample.group_row(log, 0, group, d.ORIGINAL, 1, 1, 1, 1, 1, 0, 0, 0, None)
        for log, group in (("l", "a"), ("l", "b"), ("l", "c"), ("m", "y"), ("m", "z"))
    )
    page = Page(render(attrs.evolve(report, groups=groups)))
    texts = [text for tag, text in page.texts if tag == "bdi"]
    told = " ".join(texts)
    figures = [t for t in texts if t in ("a", "b", "c", "y", "z")]
    # A block for each group in the drawing, then a row for each in the table of groups.
    assert figures == ["y", "z", "c", "b", "a", "y", "c", "b", "z", "a"]
    found = re.findall(r"group (\w)", told.partition("group y")[2])
    assert list(dict.fromkeys(found))[-1] == "a"
    assert [c.group for c in causes(report)] == [
        ("m", "y"), ("l", "c"), ("l", "b"), ("m", "z"), ("l", "a"),
    ]  # fmt: skip


WHOLE = "db67903e8c1f4c0e9b4be1b76a0f1a2c"


@pytest.mark.parametrize("whole", [WHOLE, "db67903e-8c1f-4c0e-9b4b-e1b76a0f1a2c"])
def test_a_random_id_is_cut_to_eight_digits_and_whole_on_hover(whole: str) -> None:
    report = a_report(whole)
    said = f"c1 (instance {whole}) spoke at offset 123456789012345678."
    findings = tuple(attrs.evolve(f, sentence=said, records=()) for f in report.findings)
    report = attrs.evolve(
        report, findings=findings, title="t", sources=(), caveats=(), divergences=()
    )
    for shown in (report, attrs.evolve(report, scale=Scale())):
        page = Page(render(shown))
        assert "(instance  db67903e )" in page.read
        assert "123456789012345678" in page.read
        titles = [a["title"] or "" for _, a in page.elements if "title" in a]
        assert whole in titles
        assert f"{whole} · {whole}" in titles
        assert f"(instance  {whole}" not in page.read
    bars = list(Page(render(report)).of_class("tenure"))
    assert bars
    assert all((bar["data-l"] or "").endswith(" · db67903e") for bar in bars)


def test_an_id_that_nobody_made_by_chance_is_left_as_it_is() -> None:
    for text in ("i1", "db67903e", "worker-orders-eu-0", "1795219134206000000", "g" * 20):
        assert pieces.short(text) == text
        assert "abbr" not in pieces.sentence(text)


def test_a_property_is_explained_on_hover() -> None:
    page = Page(render(sample.report("d3_late_heartbeat_theft")))
    told = {a["title"] for tag, a in page.elements if tag == "abbr"}
    assert told == {Property.FENCED.sentence}
    codes = {kind.property for kind in CATALOGUE.values() if kind.property is not None}
    assert codes <= words.PROMISES.keys()


def test_the_title_says_what_and_when() -> None:
    report = attrs.evolve(sample.report("a_clean"), title="claims on one:9092")
    page = Page(render(report))
    title = next(text for tag, text in page.texts if tag == "title")
    assert re.fullmatch(
        r"claims on one:9092, \d{4}-\d\d-\d\d \d\d:\d\d:\d\d to .* UTC \(.*\)", title
    )


def test_text_is_as_wide_as_the_page() -> None:
    (style,) = (text for tag, text in Page(render(EMPTY)).texts if tag == "style")
    narrow = re.findall(r"^([^\n{}@]*)\{[^}]*max-width: [\d.]+r?em", style, re.MULTILINE)
    cells = {"th, td", ".divergences .said", ".divergences td:first-child"}
    assert {each.strip() for each in narrow} - cells == {"main"}


def test_in_the_label_of_a_row_a_long_topic_is_cut_and_its_partition_stays() -> None:
    text = render(sample.report("a_clean"))
    assert re.search(r'<div class="label"[^>]*><b><bdi[^>]*>[^<]*</bdi>/\d+</b>', text)
    cut = re.findall(r"(?m)^(\.label [^{]*) \{[^}]*ellipsis", text)
    assert cut == [".label bdi"]

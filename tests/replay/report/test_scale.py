"""Marshal promises that a report of a big replay is one page that opens, and says what it lacks."""

from __future__ import annotations

import json
import re
from typing import Any

import attrs
import pytest
from tests.replay.report.test_page import EMPTY, HOSTILE, Page, a_report
from tools.runs.by_day import one_of_each

from kafka_marshal.replay.report import render
from kafka_marshal.replay.report.base import data as d
from kafka_marshal.replay.report.base import scale as s
from kafka_marshal.replay.report.sections import details

ERROR, WARNING = d.Severity.ERROR, d.Severity.WARNING


def big(text: str = "x", claims: int = 60, tenures: int = 3) -> d.ReportData:
    """One log of many claims, every text `text`; of the last claim there is no detail."""
    ids = [d.ClaimId(text, 0, text, text, n) for n in range(claims)]
    beats = tuple(range(0, 10_000, 500))
    lane = d.Lane(
        d.FENCED,
        tuple(
            d.TenureBar(text, text, n, n + 1, 10 * n, 10 * n + 5, 0, 1, "took_over", "released")
            for n in range(tenures)
        ),
        tuple(d.RecordGlyph(7, 70, kind, text, text, "not_owner") for kind in d.MarkKind),
        (d.Pause(20, None, text),),
        beats,
    )
    told = s.ClaimFinding(d.FENCED, "late_heartbeat_refused", WARNING, 7, 70, text)
    heat = s.HeatRow(text, ERROR, {0: 1, 71: 400})
    code = attrs.evolve(heat, name="late_heartbeat_stole")
    return attrs.evolve(
        a_report(text),
        logs=(d.ReportLog(text, 10, 0, 10_000, 1),),
        counts=d.Counts(10, 0, claims + 5, 1, 1, 900, 0),
        claims=(),
        scale=s.Scale(
            totals=(s.FindingTotal(text, d.FENCED, "late_heartbeat_stole", ERROR, "Fenced", 401),),
            heats=(s.Heat(text, 0, 140, (code,), (heat,), 3),),
            claims=tuple(s.ClaimCounts(claim, 9, 4, 3, 2, tenures, 1, 5_000) for claim in ids),
            details={
                n: s.ClaimDetail(d.ClaimTimeline(claim, (lane,), 9), (told,), n % 2 == 1)
                for n, claim in enumerate(ids[:-1])
            },
            logs={text: s.LogCounts(claims + 5, 2, 1)},
        ),
    )


def held(written: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The list of claims and the details, as the script reads them."""
    found = re.findall(
        r'<script type="application/json" id="data-([\w-]+)">(.*?)</script>', written
    )
    (index,) = (json.loads(text) for name, text in found if name == "claims")
    chunks = [json.loads(text) for name, text in found if name != "claims"]
    return index, [detail for chunk in chunks for detail in chunk]


def test_a_big_replay_tells_totals_first_and_holds_what_is_drawn_when_asked() -> None:
    written = render(big())
    page = Page(written)
    assert "stole a claim from its live owner 401 times" in page.read
    assert "30 claims, of 29 the tenures without marks and heartbeats, of 1 numbers only" in (
        page.read
    )
    assert "nothing of 5" in page.read
    assert len(list(page.of_class("q4"))) == 2
    assert not list(page.of_class("tenure"))
    index, drawn = held(written)
    texts, listed = index["texts"], index["claims"]
    assert len(listed) == 60
    assert len(drawn) == 59
    assert listed[3][4:] == [3, 9, 4, 3, 3, 1, 5_000]
    ((rules, tenures, marks, pauses, beats),) = drawn[0]["lanes"]
    assert texts[rules] == d.FENCED
    assert [row[2:6] for row in tenures] == [[n, n + 1, 10 * n, 10 * n + 5] for n in range(3)]
    assert len(marks) == len(d.MarkKind)
    assert (len(pauses), bool(beats)) == (1, True)


def test_beyond_the_budget_the_first_claims_keep_their_lanes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(details, "DETAILS_BYTES_MAX", 60_000)
    report = big(claims=100, tenures=30)
    assert report.scale is not None
    whole = {n: attrs.evolve(e, tenures_only=False) for n, e in report.scale.details.items()}
    report = attrs.evolve(report, scale=attrs.evolve(report.scale, details=whole))
    written = render(report)
    index, drawn = held(written)
    assert len(index["claims"]) == 100
    brief = [detail["brief"] for detail in drawn]
    assert brief == sorted(brief)
    assert 0 < brief.count(0) < brief.count(0) + brief.count(1) < 99
    counted = f"{brief.count(0)} claims, of {brief.count(1)} the tenures"
    assert counted in Page(written).read
    scripts = re.findall(r'id="data-[\w-]+">(.*?)</script>', written)
    assert sum(map(len, scripts)) <= 60_000


def broken(text: str) -> str:
    """What it would break: a script, a comment, an attribute, an encoding, or anything else."""
    each = ("</script", "<!--", '"', "'", "\x00", "\ud800", "\u2028")
    return next((beginning for beginning in each if text.startswith(beginning)), "")


def test_no_page_is_larger_than_its_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(details, "PAGE_BYTES_MAX", 600_000)
    report = big("é" * 300, claims=2_000, tenures=20)
    assert len(render(report).encode()) < 600_000


@pytest.mark.parametrize("text", one_of_each(HOSTILE, broken), ids=[f"{t[:12]!a}" for t in HOSTILE])
def test_text_from_records_stays_text_in_a_big_report(text: str) -> None:
    plain, written = Page(render(big())), render(big(text))
    page = Page(written.encode("utf-8").decode("utf-8"))
    assert page.skeleton == plain.skeleton
    assert page.comments == []
    assert "\x00" not in written
    for _, attributes in page.elements:
        for name, value in attributes.items():
            if name in ("class", "id"):
                assert re.fullmatch(r"[\w :%.-]*", value or "")
    for _, content in re.findall(r'id="(data-[\w-]+)">(.*?)</script>', written):
        assert not {"<", ">", "&"} & set(content)
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    assert {(a["href"] or "")[1:] for _, a in page.elements if "href" in a} <= set(ids)


def test_a_finding_leads_to_its_claim_where_that_can_be_drawn() -> None:
    report = big()
    finding = d.Finding(d.FENCED, "c", ERROR, None, "Lost.", "x", 0, "x", "x", 4)
    gone = attrs.evolve(finding, topic_partition=99)
    page = Page(render(attrs.evolve(report, findings=(finding, gone))))
    assert [a["data-open"] for _, a in page.elements if "data-open" in a] == ["4"] * 2


def test_a_small_report_carries_nothing_of_this() -> None:
    written = render(EMPTY)
    assert "marshalReport;" not in written
    assert 'id="data-claims"' not in written


def test_who_owned_what_comes_first_in_a_big_report() -> None:
    page = Page(render(big()))
    sections = [a["id"] for tag, a in page.elements if tag == "section"]
    assert sections[:3] == ["claims", "heat", "findings"]
    # What the script draws of the worst claims stands above their list.
    places = [n for n, (_, a) in enumerate(page.elements) if a.get("id") == "detail"]
    assert places[0] < next(
        n for n, (_, a) in enumerate(page.elements) if a.get("class") == "claims"
    )


def test_the_first_error_of_a_big_report_opens_its_claim() -> None:
    finding = d.Finding(d.FENCED, "c", ERROR, None, "Lost.", "x", 0, "x", "x", 4, 7, 70)
    (link,) = Page(render(attrs.evolve(big(), findings=(finding,)))).of_class("first-error")
    assert (link["href"], link["data-open"]) == ("#claims", "4")

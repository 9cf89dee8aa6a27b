"""Marshal promises a page of a group's log: what happened, who held it up, in one file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from kafka_marshal.capture import RawRecord, read_capture
from kafka_marshal.core.groups.events import MemberRegistered, Rebalanced
from kafka_marshal.replay.groups.whatif import what_if
from kafka_marshal.replay.model.groups.tables import OF_GROUPS, REBALANCES, TARGETS
from kafka_marshal.replay.model.tables import FINDINGS, Rows
from kafka_marshal.replay.one_process.local_fold import GatheredRows, LocalFoldedLog
from kafka_marshal.replay.report.base.groups import GroupsReportData
from kafka_marshal.replay.report.groups.page import render
from kafka_marshal.replay.report_data import groups as report_data
from tests.replay.groups.logs import folded, raw_of
from tests.replay.groups.stories import GroupLog, shared, tp
from tests.replay.groups.storm import storm
from tests.replay.report.test_page import HOSTILE, Page

CAPTURE = Path(__file__).parents[2] / "data/captures/groups/rebalance_storm.jsonl"
ENCODABLE = [text for text in HOSTILE if text and not any("\ud800" <= c <= "\udfff" for c in text)]
"""Names that the codec of groups takes; lone surrogates it does not."""


def page_of(rows: Rows, caveats: Sequence[str] = (), strategy: str | None = None) -> Page:
    with GatheredRows(OF_GROUPS) as gathered:
        gathered.add(rows)
        instead = [] if strategy is None else what_if(rows[TARGETS], strategy)
        data = report_data.groups_report_data(
            LocalFoldedLog.of(gathered), "a title", ["a source"], caveats=caveats, instead=instead
        )
    text = render(data)
    text.encode()
    return Page(text)


@pytest.fixture(scope="module")
def recorded() -> Rows:
    return folded(read_capture(CAPTURE))


def test_a_recorded_storm_is_told_with_who_came_and_went(recorded: Rows) -> None:
    found = {row.code: row for row in recorded[FINDINGS]}
    assert found.keys() == {
        "rebalance_storm",
        "rebalance_held_up",
        "false_expiry",
        "deposed_controller",
        "controllers_alternate",
    }
    assert "expired: client-m3 6 times (as m3)" in found["rebalance_storm"].sentence
    assert found["rebalance_held_up"].client == "client-m3"


def test_a_storm_can_be_made_again() -> None:
    raws: list[RawRecord] = storm()
    assert "rebalance_storm" in {row.code for row in folded(raws)[FINDINGS]}


def test_the_page_has_a_lane_for_each_partition_and_one_for_rebalances(recorded: Rows) -> None:
    page = page_of(recorded, strategy="round_robin")
    assert len([*page.of_class("row")]) == 13
    assert len([*page.of_class("rebalance")]) == len(recorded[REBALANCES])
    assert len([*page.of_class("late")]) == 3  # in the lane, in the table, in the legend
    assert "Under another strategy" in page.read
    assert "client-m3 · m3 after 2.0 s, expired" in page.read.replace("  ", " ")


def test_the_page_fetches_nothing_and_its_links_lead_somewhere(recorded: Rows) -> None:
    page = page_of(recorded, ["a caveat"])
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len({*ids})
    for tag, attributes in page.elements:
        assert tag not in ("link", "img", "iframe")
        assert "src" not in attributes
        href = attributes.get("href")
        assert href is None or (href.startswith("#") and href[1:] in ids)
    for _, attributes in page.elements:
        for name, kind in (("data-t", "tenures"), ("data-m", "marks")):
            at = attributes.get(name)
            assert at is None or int(at) < len(page.embedded[kind])


def test_of_a_bar_the_page_says_why_it_began_and_ended_and_no_rule_set() -> None:
    page = page_of(shared().at(20).expires("m2").rows())
    told = page.embedded["tenures"]
    assert {each[0] for each in told} == {None}
    ended = {each[10] for each in told}
    assert ended == {None, "let go for a rebalance", "the member was expired after 10 s of silence"}
    faded = [each for each in page.of_class("stale") if "width" in each]
    assert len(faded) == 2  # the other one is in the legend


@pytest.mark.parametrize("text", ENCODABLE)
def test_no_name_in_a_log_breaks_the_page(text: str) -> None:
    def log(name: str) -> GroupLog:
        story = GroupLog()
        story.writes(story.records[1].event, name)
        story.writes(MemberRegistered(name, name, frozenset({"orders"}), frozenset(), True), name)
        return story.writes(Rebalanced({tp(n): name for n in range(4)}), name)

    plain, hostile = page_of(log("x").rows()), page_of(log(text).rows())
    assert hostile.comments == []
    assert hostile.skeleton == plain.skeleton


def test_an_empty_log_has_a_page_that_says_so() -> None:
    page = Page(render(GroupsReportData("a title", (), None, None, 0, 0, 0)))
    assert "There was no record to replay." in page.read


def test_what_nobody_can_know_is_not_told_as_if_nothing_had_happened() -> None:
    page = page_of(shared().rows(first=3))  # no snapshot
    assert "The state of no group is known, so nothing could be judged." in page.read
    assert "expired" not in page.read
    log = shared()
    first = len(log.records)
    page = page_of(log.at(10).snapshots().at(11).expires("m2").rows(first=first - 2))
    assert "As far as their state is known, 1 group had " in page.read
    page = Page(render(GroupsReportData("a title", (), None, None, 1, 1, 0)))
    assert "No record is about a group, so nothing could be judged." in page.read


def test_what_is_left_out_for_size_is_a_caveat(
    recorded: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_data, "TENURES_MAX", 10)
    monkeypatch.setattr(report_data, "REBALANCES_MAX", 3)
    page = page_of(recorded)
    assert "0 of 1 groups are drawn" in page.read
    assert f"3 of {len(recorded[REBALANCES])} rows of the table rebalances" in page.read
    assert len([*page.of_class("row")]) == 0


def test_two_groups_in_one_log_are_drawn_apart() -> None:
    log = shared()
    log.writes(log.records[1].event, "h")
    log.writes(MemberRegistered("n1", "other", frozenset({"orders"}), frozenset(), True), "h")
    log.writes(Rebalanced({tp(n): "n1" for n in range(4)}), "h")
    page = page_of(folded(map(raw_of, log.records)))
    assert len([*page.of_class("row")]) == 10
    assert len([*page.of_class("rebalance")]) == 3
    titles = [text for tag, text in page.texts if tag == "title" and "member joined" in text]
    assert len(titles) == 3

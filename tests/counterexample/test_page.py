from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import attrs
import pytest
from hypothesis import given, settings

from kafka_marshal.core.claims.invariants import Property
from kafka_marshal.counterexample import Counterexample, Participant, Step, StepKind, itf, write
from kafka_marshal.counterexample.diagram import ROW
from kafka_marshal.counterexample.page import render
from kafka_marshal.modelcheck import models, traces
from kafka_marshal.modelcheck.stories import counterexamples
from tests.counterexample.sample import HOSTILE, LATE_HEARTBEAT
from tests.counterexample.sample import counterexamples as any_counterexample

KEPT = [model for model in models.read() if traces.is_kept(model)]


class Page(HTMLParser):
    """A page taken apart: every element with its attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.nested: list[tuple[int, str, dict[str, str | None]]] = []
        self.inside: list[tuple[tuple[str, dict[str, str | None]], str]] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == [], f"never closed: {self._open}"

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))
        self.nested.append((len(self._open) + 1, tag, dict(attributes)))
        if tag != "meta":
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] not in ("script", "style"):
            self.text += data
            self.inside.append((self.elements[-1], data))

    def having(self, name: str) -> list[str]:
        """Every value of an attribute."""
        return [value for _, found in self.elements if (value := found.get(name)) is not None]

    def of_class(self, word: str) -> list[dict[str, str | None]]:
        """Elements of a class, as their attributes."""
        return [a for _, a in self.elements if word in (a.get("class") or "").split()]


TAGS = {
    *("html", "head", "meta", "title", "style", "body", "main", "p", "h1", "h2", "div", "section"),
    *("ol", "li", "span", "b", "a", "footer", "script", "svg", "g", "rect", "text", "line", "path"),
    "circle",
}


@settings(deadline=None)
@given(any_counterexample())
def test_any_counterexample_gives_a_whole_page(one: Counterexample) -> None:
    text = render(one)
    text.encode("utf-8")
    page = Page(text)
    # A record that lands at anybody but the log has its box in the way of others.
    assert set(crossed(one)) <= {str(step.offset) for step in one.steps}
    assert {tag for tag, _ in page.elements} <= TAGS
    assert not any(name.startswith("on") for _, found in page.elements for name in found)
    ids = page.having("id")
    assert len(ids) == len(set(ids))
    for link in page.having("href"):
        assert link.removeprefix("#") in ids
    assert page.having("src") == []


def test_text_stays_text() -> None:
    for text in HOSTILE:
        steps = (Step(0), Step(1, text, StepKind.OTHER, f"x{text}", text, label=text, time=text))
        one = Counterexample(text, text, (Participant(text, text),), steps, about=text)
        assert {tag for tag, _ in Page(render(one)).elements} <= TAGS


def test_every_step_of_the_story_has_its_row_in_the_drawing() -> None:
    page = Page(render(LATE_HEARTBEAT))
    told = [step.number for step in LATE_HEARTBEAT.steps_shown]
    assert [f"step-{number}" for number in told] == [i for i in page.having("id") if "step" in i]
    assert [f"at-{number}" for number in told] == [i for i in page.having("id") if "at-" in i]
    for step in LATE_HEARTBEAT.steps_shown:
        assert step.sentence in page.text


def test_the_page_fetches_nothing() -> None:
    text = render(LATE_HEARTBEAT)
    assert not re.search(r"https?:|@import|url\(|\bfetch\b|\bimport\b", text)


def test_a_late_arrow_starts_where_its_record_was_sent() -> None:
    page = Page(render(LATE_HEARTBEAT))
    place = next(n for n, (_, a) in enumerate(page.elements) if "late" in (a.get("class") or ""))
    line = page.elements[place + 1][1]
    fall = float(line["y2"] or 0) - float(line["y1"] or 0)
    # Three rows, for the steps 2, 4 and 5, less what the tip takes.
    assert 2.8 * ROW < fall <= 3 * ROW


def test_a_record_that_lands_at_once_is_not_late() -> None:
    steps = LATE_HEARTBEAT.steps
    prompt = attrs.evolve(steps[5], number=2)
    page = Page(render(attrs.evolve(LATE_HEARTBEAT, steps=(*steps[:2], prompt), violated_at=None)))
    assert page.of_class("late") == []
    assert page.of_class("open") == []


def test_what_is_still_under_way_at_the_end_is_drawn_open() -> None:
    ended = attrs.evolve(LATE_HEARTBEAT, steps=LATE_HEARTBEAT.steps[:3], violated_at=None)
    assert len(Page(render(ended)).of_class("open")) == 1
    assert Page(render(LATE_HEARTBEAT)).of_class("open") == []


def test_a_lost_record_goes_nowhere() -> None:
    lost = attrs.evolve(LATE_HEARTBEAT.steps[5], kind=StepKind.LOST, target=None, verdict=None)
    page = Page(render(attrs.evolve(LATE_HEARTBEAT, steps=(*LATE_HEARTBEAT.steps[:5], lost))))
    assert len(page.of_class("open")) == 1
    assert page.of_class("record") == []


def test_the_violated_step_stands_out_in_both() -> None:
    page = Page(render(LATE_HEARTBEAT))
    marked = [a.get("id") for a in page.of_class("wrong") if a.get("id")]
    assert marked == ["at-5", "step-5"]
    assert len(page.of_class("band")) == 1


def test_a_stalled_instance_has_a_broken_lifeline_and_a_crashed_one_none() -> None:
    assert len(Page(render(LATE_HEARTBEAT)).of_class("stalled")) == 2  # the lifeline, the mark
    crash = attrs.evolve(LATE_HEARTBEAT.steps[2], kind=StepKind.CRASHED, sentence="a1 crashes")
    steps = (*LATE_HEARTBEAT.steps[:2], crash, *LATE_HEARTBEAT.steps[3:])
    crashed = Page(render(attrs.evolve(LATE_HEARTBEAT, steps=steps)))
    ends = sorted(float(a["y2"] or 0) for a in crashed.of_class("life"))
    assert len(ends) == 3
    assert ends[0] < ends[1] == ends[2]


def test_a_loop_is_drawn_only_if_something_happens_in_it() -> None:
    assert Page(render(attrs.evolve(LATE_HEARTBEAT, loop_back_to=2))).of_class("loop")
    assert not Page(render(attrs.evolve(LATE_HEARTBEAT, loop_back_to=5))).of_class("loop")


def test_three_files_are_written_and_one_can_be_read_back(tmp_path: Path) -> None:
    paths = write(tmp_path / "new", "X", LATE_HEARTBEAT)
    assert [path.name for path in paths] == ["X.txt", "X.itf.json", "X.html"]
    text, trace, page = (path.read_text(encoding="utf-8") for path in paths)
    assert "Fenced does not hold." in text
    assert itf.loads(trace) == LATE_HEARTBEAT
    assert page == render(LATE_HEARTBEAT)


LETTER_PX = {"label": 7.2, "verdict": 6.9, "number": 7.2, "clock": 6.6, "offset": 7.0, "end": 8.0}
"""What a letter takes at most on average, by the class of its text: its size times 0.6."""

Box = tuple[float, float, float, float]


def words_of(page: Page) -> list[tuple[str, Box]]:
    """Every text of the drawing below the names, with the box that it takes."""
    found = []
    for (tag, a), text in page.inside:
        if tag == "text" and a["class"] not in ("name", "about"):
            kind, x, y = a["class"] or "", float(a["x"] or 0), float(a["y"] or 0)
            width = len(text) * LETTER_PX[kind]
            anchor = a.get("text-anchor") or {"offset": "middle", "number": "end"}.get(kind)
            left = x - {"end": width, "middle": width / 2}.get(anchor or "", 0)
            found.append((text, (left, y - 9, left + width, y + 3)))
    return found


def ways_of(page: Page) -> list[Box]:
    """Every arrow, and what is under way, from its start to its end."""
    ways, inside = [], 0
    for depth, tag, a in page.nested:
        if "way" in (a.get("class") or "").split():
            inside = depth
        elif depth <= inside:
            inside = 0
        if inside and tag == "line":
            x1, y1, x2, y2 = (float(a[end] or 0) for end in ("x1", "y1", "x2", "y2"))
            ways.append((x1, y1, x2, y2))
    return ways


def crosses(way: Box, box: Box) -> bool:
    """Whether a straight line has a point within a box."""
    x1, y1, x2, y2 = way
    begin, end = 0.0, 1.0
    for start, run, low, high in ((x1, x2 - x1, box[0], box[2]), (y1, y2 - y1, box[1], box[3])):
        if run == 0:
            if not low < start < high:
                return False
            continue
        one, other = sorted(((low - start) / run, (high - start) / run))
        begin, end = max(begin, one), min(end, other)
    return begin < end


def test_a_line_through_a_box_is_seen_to_cross_it() -> None:
    box = (10.0, 10.0, 20.0, 20.0)
    assert crosses((0, 0, 30, 30), box)
    assert crosses((0, 15, 30, 15), box)
    assert crosses((15, 12, 15, 40), box)
    assert not crosses((0, 0, 9, 30), box)
    assert not crosses((0, 25, 25, 0), (20, 20, 30, 30))
    assert not crosses((0, 0, 5, 5), box)


def crossed(one: Counterexample) -> list[str]:
    """The texts that an arrow runs through."""
    page = Page(render(one))
    ways = ways_of(page)
    return [text for text, box in words_of(page) if any(crosses(way, box) for way in ways)]


def test_no_arrow_of_a_kept_counterexample_runs_through_a_label(
    pytestconfig: pytest.Config,
) -> None:
    """By night of every one, and by day of every fourth."""
    for model in KEPT[:: 1 if pytestconfig.getoption("all") else 4]:
        trace = traces.stored(models.spec_folder(), model)
        assert trace is not None
        found = counterexamples.of_trace(trace, model.violates, model.name, model.about)
        assert crossed(found) == [], model.name


def test_no_arrow_of_a_late_record_runs_through_a_label() -> None:
    page = Page(render(LATE_HEARTBEAT))
    assert len(ways_of(page)) == 1
    assert {text for text, _ in words_of(page)} >= {"Overwritten", "0"}
    assert crossed(LATE_HEARTBEAT) == []


def test_no_arrow_runs_through_a_time_that_is_longer_as_shown() -> None:
    """A letter that nobody knows is shown as an escape."""
    strange = attrs.evolve(LATE_HEARTBEAT.steps[1], time="\U0001239a" * 3)
    steps = (LATE_HEARTBEAT.steps[0], strange, *LATE_HEARTBEAT.steps[2:])
    assert crossed(attrs.evolve(LATE_HEARTBEAT, steps=steps)) == []


def test_the_property_is_told_in_a_sentence() -> None:
    known = {p.value for p in Property}
    named = {kept.violates for kept in KEPT if kept.violates is not None} & known
    assert len(named) > 30
    for violated in named:
        page = Page(render(attrs.evolve(LATE_HEARTBEAT, violated=violated)))
        assert f"{violated}: {Property(violated).sentence}" in page.text
    unknown = attrs.evolve(LATE_HEARTBEAT, violated="LiveOwner")
    assert not Page(render(unknown)).of_class("promise")


def test_every_property_promises_one_sentence() -> None:
    for each in Property:
        assert re.fullmatch(r"[A-Z][^.]+\.", each.sentence), each

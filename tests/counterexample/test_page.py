from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import attrs
from hypothesis import given, settings

from kafka_marshal.counterexample import Counterexample, Kind, Participant, Step, itf, write
from kafka_marshal.counterexample.diagram import ROW
from kafka_marshal.counterexample.page import render
from tests.counterexample.sample import HOSTILE, LATE_HEARTBEAT, counterexamples


class Page(HTMLParser):
    """A page taken apart: every element with its attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == [], f"never closed: {self._open}"

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))
        if tag != "meta":
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] not in ("script", "style"):
            self.text += data

    def having(self, name: str) -> list[str]:
        """Every value of an attribute."""
        return [value for _, found in self.elements if (value := found.get(name)) is not None]

    def of_class(self, word: str) -> list[dict[str, str | None]]:
        """Elements of a class, as their attributes."""
        return [a for _, a in self.elements if word in (a.get("class") or "").split()]


TAGS = {
    *("html", "head", "meta", "title", "style", "body", "main", "p", "h1", "h2", "div", "section"),
    *("ol", "li", "span", "a", "footer", "script", "svg", "g", "rect", "text", "line", "path"),
    "circle",
}


@settings(deadline=None)
@given(counterexamples())
def test_any_counterexample_gives_a_whole_page(one: Counterexample) -> None:
    text = render(one)
    text.encode("utf-8")
    page = Page(text)
    assert {tag for tag, _ in page.elements} <= TAGS
    assert not any(name.startswith("on") for _, found in page.elements for name in found)
    ids = page.having("id")
    assert len(ids) == len(set(ids))
    for link in page.having("href"):
        assert link.removeprefix("#") in ids
    assert page.having("src") == []


def test_text_stays_text() -> None:
    for text in HOSTILE:
        steps = (Step(0), Step(1, text, Kind.OTHER, f"x{text}", text, label=text, time=text))
        one = Counterexample(text, text, (Participant(text, text),), steps, about=text)
        assert {tag for tag, _ in Page(render(one)).elements} <= TAGS


def test_every_step_of_the_story_has_its_row_in_the_drawing() -> None:
    page = Page(render(LATE_HEARTBEAT))
    told = [step.number for step in LATE_HEARTBEAT.told]
    assert [f"step-{number}" for number in told] == [i for i in page.having("id") if "step" in i]
    assert [f"at-{number}" for number in told] == [i for i in page.having("id") if "at-" in i]
    for step in LATE_HEARTBEAT.told:
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
    lost = attrs.evolve(LATE_HEARTBEAT.steps[5], kind=Kind.LOST, target=None, verdict=None)
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
    crash = attrs.evolve(LATE_HEARTBEAT.steps[2], kind=Kind.CRASHED, sentence="a1 crashes")
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

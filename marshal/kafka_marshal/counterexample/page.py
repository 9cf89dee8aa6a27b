"""A counterexample as one HTML page: the diagram, and the story below it.

The file is self-contained. Without scripts, the numbers link each step to its row and back; the
script highlights both together.
"""

from __future__ import annotations

from importlib import resources
from typing import Final

from kafka_marshal.counterexample.diagram import diagram
from kafka_marshal.counterexample.model import Counterexample, Step
from kafka_marshal.counterexample.story import ending, promise, wrong
from kafka_marshal.markup import Html, base_style, el, join, visible

SENTENCE_MAX: Final = 2000
"""Longer sentences are those of a whole state; the trace has it."""

TIME_SHORT: Final = 6
"""On a narrow page, a longer time has a line of its own."""


def render(counterexample: Counterexample) -> str:
    """The page; its text holds no lone surrogate, so it encodes to UTF-8."""
    drawn = diagram(counterexample)
    title = wrong(counterexample).removesuffix(".")
    promised = promise(counterexample)
    head = el(
        "head",
        None,
        el("meta", {"charset": "utf-8"}),
        el("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        el("meta", {"name": "color-scheme", "content": "light dark"}),
        el("title", None, visible(f"{title}: {counterexample.source}", 160)),
        el("style", None, base_style(), _asset("style.css")),
    )
    body = el(
        "body",
        None,
        el(
            "main",
            None,
            el("p", {"class": "kicker"}, visible(f"Counterexample · {counterexample.source}")),
            el("h1", None, visible(title, 160)),
            el("p", {"class": "promise"}, el("b", None, counterexample.violated), ": ", promised)
            if promised
            else None,
            el("p", {"class": "verdict"}, visible(counterexample.about))
            if counterexample.about
            else None,
            _legend() if drawn is not None else None,
            el("div", {"class": "scroll", "tabindex": 0}, drawn) if drawn is not None else None,
            _story(counterexample),
            el("footer", None, el("p", None, "Written by kafka-marshal.")),
        ),
        el("script", None, _asset("page.js")),
    )
    return f"<!doctype html>\n{el('html', {'lang': 'en'}, head, body)}\n"


def _legend() -> Html:
    words = (
        "Time runs downwards. An arrow to the log starts where its record was sent and ends where "
        "it landed: the steeper, the later. A box is a record in the log at its offset, hollow if "
        "it was refused; a dashed arrow is a record being read. On the right stands what became of "
        "the record."
    )
    return el("p", {"class": "note"}, words)


def _story(counterexample: Counterexample) -> Html:
    has_dates = any(len(step.time or "") > TIME_SHORT for step in counterexample.steps_shown)
    return el(
        "section",
        None,
        el("h2", None, "Step by step"),
        el(
            "ol",
            {"class": "story dated" if has_dates else "story"},
            *(_item(counterexample, s) for s in counterexample.steps_shown),
        ),
        join(el("p", {"class": "ending"}, line) for line in ending(counterexample)),
    )


def _item(counterexample: Counterexample, step: Step) -> Html:
    is_wrong = step.number == counterexample.violated_at
    number: Html | str = str(step.number)
    if counterexample.participants:
        number = el("a", {"href": f"#at-{step.number}"}, number)
    return el(
        "li",
        {
            "id": f"step-{step.number}",
            "class": "wrong" if is_wrong else None,
            "data-step": step.number,
        },
        el("span", {"class": "number"}, number),
        el("span", {"class": "clock"}, step.time) if step.time else None,
        el("span", {"class": "sentence"}, step.sentence[:SENTENCE_MAX]),
    )


def _asset(file: str) -> Html:
    return Html(resources.files(__package__).joinpath(file).read_text(encoding="utf-8"))

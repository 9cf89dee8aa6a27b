"""Small building blocks of several sections: cells, tables, links, senders."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from importlib import resources
from typing import Final

from kafka_marshal.markup import Html, el, escape, join, name, visible
from kafka_marshal.replay.report.base import words
from kafka_marshal.replay.report.base.clock import moment, time_of_day

DIGITS: Final = 8
"""The number of digits shown of a random id."""
_RANDOM_ID: Final = re.compile(
    r"(?<![\w-])(?=[\da-f-]*[a-f])(?=[\da-f-]{16})[\da-f]{8}(?:-?[\da-f])+(?![\w-])", re.ASCII
)
"""A random id, with or without hyphens; not a number."""


def link(anchor: str | None, text: str) -> Html:
    """A link within the page; only the text if there is no target."""
    return el("a", {"href": f"#{anchor}"}, text) if anchor else escape(text)


def number(count: int | None, loud: str | None = None) -> Html:
    """A cell with a count; zeros are faint, and others may have the class `loud`."""
    if count is None:
        return el("td", {"class": "n zero"}, "–")
    kind = "n zero" if not count else f"n {loud}" if loud else "n"
    return el("td", {"class": kind}, f"{count:,}")


def table(kind: str, heads: Sequence[str], rows: Iterable[Html], text_columns: int) -> Html:
    """A table that scrolls if the page is too narrow for it."""
    cells = [
        el("th", {"scope": "col", "class": None if n < text_columns else "n"}, head)
        for n, head in enumerate(heads)
    ]
    return el(
        "div",
        {"class": "wide", "tabindex": "0", "role": "region", "aria-label": f"table: {kind}"},
        el(
            "table",
            {"class": kind},
            el("thead", None, el("tr", None, *cells)),
            el("tbody", None, join(rows)),
        ),
    )


def time(at_ms: int) -> Html:
    """A cell with the time of day; the date is in its title."""
    return el("td", {"class": "time", "title": f"{moment(at_ms)} UTC"}, time_of_day(at_ms))


def time_text(at_ms: int) -> Html:
    """A time of day within a cell; the date is in its title."""
    return el("time", {"title": f"{moment(at_ms)} UTC"}, time_of_day(at_ms))


def topic(of: str, partition: int | None) -> str:
    """A topic, with its partition if there is one."""
    return name(of) if partition is None else f"{name(of)}/{partition}"


def short(instance: str) -> str:
    """An instance id for a narrow place: the first eight digits of a random one.

    >>> short("db67903e8c1f4c0e9b4be1b76a0f1a2c"), short("db67903e"), short("worker-1")
    ('db67903e', 'db67903e', 'worker-1')
    """
    return instance[:DIGITS] if _RANDOM_ID.fullmatch(instance) else name(instance, 24)


def sender(client: str, instance: str) -> Html:
    """Client and instance of a sender, with the whole id on hover."""
    if not client and not instance:
        return el("bdi", {"title": "no sender"}, "–")
    whole = f"{visible(client)} · {visible(instance)}"
    return el("bdi", {"title": whole}, f"{name(client)} · {short(instance)}")


def sentence(text: str) -> Html:
    """A finding's sentence; random ids in it are shortened, with the whole id on hover."""
    shown, parts, at = visible(text), [], 0
    for found in _RANDOM_ID.finditer(shown):
        parts += [shown[at : found.start()], el("abbr", {"title": found[0]}, found[0][:DIGITS])]
        at = found.end()
    return join([*parts, shown[at:]])


def property_name(of: str) -> Html:
    """A property's name, with its promise on hover."""
    promised = words.PROMISES.get(of)
    return el("b", None, name(of) if promised is None else el("abbr", {"title": promised}, of))


def folded(summary: str, content: Html) -> Html:
    """Content that unfolds on demand."""
    return el("details", None, el("summary", None, summary), content)


def asset(file: str) -> Html:
    """An asset file of the report, as markup: it is our own, so it is not escaped."""
    of_report = resources.files(__package__.rpartition(".")[0])
    return Html(of_report.joinpath(file).read_text(encoding="utf-8"))

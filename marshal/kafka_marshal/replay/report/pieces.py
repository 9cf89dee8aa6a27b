"""Small pieces that several sections are made of: cells, tables, links, senders."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kafka_marshal.markup import Html, el, escape, join, name
from kafka_marshal.replay.report.clock import moment, time_of_day


def link(anchor: str | None, text: str) -> Html:
    """A link into the page; only the text when there is nowhere to go."""
    return el("a", {"href": f"#{anchor}"}, text) if anchor else escape(text)


def number(count: int | None, loud: str | None = None) -> Html:
    """A cell with a count; zeros are faint, and what is not may be loud."""
    if count is None:
        return el("td", {"class": "n zero"}, "–")
    kind = "n zero" if not count else f"n {loud}" if loud else "n"
    return el("td", {"class": kind}, f"{count:,}")


def table(kind: str, heads: Sequence[str], rows: Iterable[Html], text_columns: int) -> Html:
    """A table that scrolls by itself when the page is too narrow for it."""
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


def topic(of: str, partition: int | None) -> str:
    """A topic, and its partition where there is one."""
    return name(of) if partition is None else f"{name(of)}/{partition}"


def sender(client: str, instance: str) -> str:
    """Client and instance of a sender."""
    return f"{name(client)} · {name(instance)}" if client or instance else "–"


def folded(summary: str, content: Html) -> Html:
    """What unfolds on demand."""
    return el("details", None, el("summary", None, summary), content)

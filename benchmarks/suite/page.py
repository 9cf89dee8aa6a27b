"""The page of `make bench`: one file without scripts, which needs nothing beside it.

It is a function of a run, of what came of each part, and of the stored runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks.suite.figures import TARGET, Figure
from benchmarks.suite.parts import Ran
from benchmarks.suite.plots import Dot, bars, overview
from benchmarks.suite.ratios import FALL_MAX, Comparison, Run, history, value_before

from kafka_marshal.markup import Html, base_style, el, join

LOAD_MAX: Final = 1.0
"""A machine with a higher load average at the start did other work."""


def page(run: Run, ran: Sequence[Ran], found: Comparison, stored: Sequence[Run]) -> str:
    """The page; `stored` are the runs before this one."""
    style = base_style() + Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    head = join(
        [
            el("meta", {"charset": "utf-8"}),
            el("meta", {"name": "viewport", "content": "width=device-width"}),
            el("title", None, f"Benchmarks, {run.date}"),
            el("style", None, Html(style)),
        ]
    )
    same = [each for each in stored if each.scale == run.scale]
    body = el(
        "main",
        None,
        *_top(run),
        *_news(ran, found),
        el("h2", None, "All ratios"),
        el("p", {"class": "note"}, _LEGEND),
        overview(_dots(ran, found, same)),
        *(_part(each, same) for each in ran),
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{body}</body></html>\n'


_LEGEND: Final = (
    "How many times better ours is than a peer, on a logarithmic axis; right of 1 ours is better. "
    "A hollow dot is the median of the last five stored ratios, a dashed mark the target."
)


def _top(run: Run) -> list[Html]:
    machine = run.machine
    words = (
        f"{run.date} UTC, commit {run.commit}, scale {run.scale}. {machine['cpu']}, "
        f"{machine['cores']} cores, Python {machine['python']}. Load at the start: {run.load:.1f}."
    )
    shown = [el("h1", None, "Benchmarks"), el("p", {"class": "kicker"}, words)]
    if run.load > LOAD_MAX:
        rough = f"The load was {run.load:.1f} at the start: other work ran beside this, "
        shown.append(el("div", {"class": "banner"}, rough + "and all figures are rough."))
    return shown


def _news(ran: Sequence[Ran], found: Comparison) -> list[Html]:
    shown = []
    failed = [f"{each.part}: {each.failure}" for each in ran if each.failure]
    if failed:
        shown.append(_banner("These parts failed:", failed))
    for title, changes in (
        (f"Ratios that fell by more than {FALL_MAX:.0%}:", found.fell),
        ("Stored ratios that are missing:", found.vanished),
    ):
        if changes:
            shown.append(_banner(title, [change.line() for change in changes]))
    words = f"{found.compared} ratios were compared with stored ones. {len(found.new)} are new."
    if found.elsewhere:
        words += f" {len(found.elsewhere)} were not compared, since another machine stored them."
    if found.once:
        words += " A second run of their parts did not confirm these falls:"
    lines = (el("li", None, change.line()) for change in found.once)
    return [*shown, el("p", None, words), el("ul", None, *lines)]


def _banner(title: str, lines: Sequence[str]) -> Html:
    items = (el("li", None, line) for line in lines)
    return el("div", {"class": "banner bad-news"}, title, el("ul", None, *items))


def _dots(ran: Sequence[Ran], found: Comparison, stored: Sequence[Run]) -> list[Dot]:
    fell = {(change.name, change.peer) for change in found.fell}
    dots = []
    for figure in (figure for each in ran for figure in each.figures):
        for peer, ratio in figure.ratios.items():
            target = figure.target
            aimed = target is not None and target.peer == (None if peer == TARGET else peer)
            dots.append(
                Dot(
                    f"{figure.name} × {peer}",
                    ratio,
                    value_before(stored, figure.name, peer),
                    (1.0 if peer == TARGET else target.value) if target and aimed else None,
                    (figure.name, peer) in fell,
                )
            )
    return dots


def _part(ran: Ran, stored: Sequence[Run]) -> Html:
    shown = [el("h2", None, ran.part)]
    if ran.failure:
        shown.append(el("p", {"class": "missed"}, f"Failed: {ran.failure}"))
    for figure in ran.figures:
        histories: Mapping[str, Sequence[float]] = {
            peer: [*history(stored, figure.name, peer), ratio]
            for peer, ratio in figure.ratios.items()
        }
        shown += [*_words(figure), bars(figure, {**histories})]
    return el("section", None, *shown)


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."


def _words(figure: Figure) -> list[Html]:
    around, reached = figure.around, figure.reached
    better = f"{figure.unit}, {figure.better.value} is better. {_sentence(figure.given)}"
    notes = [el("p", {"class": "note"}, better)]
    if figure.note:
        notes.append(el("p", {"class": "note"}, _sentence(figure.note)))
    if reached is not None:
        words, kind = ("reached", "reached") if reached else ("not reached", "missed")
        mark = el("span", {"class": kind}, words)
        notes.append(el("p", {"class": "note"}, f"Target {figure.target_words}: ", mark, "."))
    measured = (
        f"{around.seconds:.0f} s with peers and preparation, {around.cpu_s:.0f} s of CPU; load "
        f"{around.load_before:.1f} to {around.load_after:.1f}; other work took "
        f"{around.others:.2f} cores"
    )
    rough = ": a rough figure." if around.rough else "."
    kind = "note rough" if around.rough else "note"
    return [el("h3", None, figure.name), *notes, el("p", {"class": kind}, measured + rough)]

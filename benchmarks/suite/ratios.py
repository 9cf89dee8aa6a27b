"""Ratios of earlier runs, which are stored, and what a run shows beside them.

`ratios.json` holds every stored run, the oldest first. A run is compared part by part: with the
last stored run of the same scale that holds this part. Of each ratio of that run the median of its
last five stored values counts, so one lucky day is no measure. A part with a ratio that fell is run
twice, and only what fell in both runs is a fall. It does not know how a figure is measured.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import attrs
from benchmarks.suite.figures import TARGET, Figure

STORED: Final = Path(__file__).with_name("ratios.json")
FALL_MAX: Final = 0.15
"""A ratio that falls by a larger part is reported."""
COMPARED_MAX: Final = 5
"""Number of stored values of a ratio whose median is its value before."""
Ratios: TypeAlias = Mapping[str, Mapping[str, float]]
"""By the figure's name and the peer."""


@attrs.frozen
class Run:
    """One run: where and when, and the ratios of each part."""

    date: str
    """UTC, as 2026-11-26 14:05."""
    commit: str
    """With a plus at its end if the tree held changes."""
    scale: str
    machine: Mapping[str, str | int]
    load: float
    """Load average of one minute at the start."""
    parts: Mapping[str, Ratios]

    @property
    def where(self) -> tuple[str | int | None, ...]:
        """What a ratio to a target depends on."""
        return tuple(self.machine.get(key) for key in ("cpu", "cores"))


@attrs.frozen
class Change:
    """A ratio, before and now; None where it was or is missing."""

    name: str
    peer: str
    before: float | None
    """The median of the last stored ones."""
    now: float | None
    again: float | None = None
    """In a second run of its part; None if there was none, or it gave none."""

    @property
    def fall(self) -> float:
        """Which part of it is gone; less than 0 if it has risen, 0 where one is missing.

        >>> Change("a", "b", 2.0, 1.5).fall
        0.25
        """
        if self.before is None or self.now is None or not self.before:
            return 0.0
        return 0.0 if self.before == self.now else 1 - self.now / self.before

    def line(self) -> str:
        """A sentence without its end."""
        what = f"{self.name} × {self.peer}"
        if self.before is None:
            return f"{what}: {self.now:.2f}, which no stored run has"
        if self.now is None:
            return f"{what}: {self.before:.2f} is stored, and this run has none"
        again = "" if self.again is None else f", {self.again:.2f} in a second run"
        return f"{what}: {self.before:.2f} before, {self.now:.2f} now ({-self.fall:+.1%}){again}"


@attrs.frozen
class Comparison:
    """What a run shows beside the stored ones."""

    fell: Sequence[Change] = ()
    """By more than FALL_MAX."""
    once: Sequence[Change] = ()
    """By more than FALL_MAX in one run, and by less in a second one."""
    vanished: Sequence[Change] = ()
    """Stored ratios that a part did not give; or the last run's of a part that is gone."""
    new: Sequence[Change] = ()
    elsewhere: Sequence[Change] = ()
    """Ratios to a target, which another machine stored: they are not compared."""
    compared: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing fell and nothing is missing."""
        return not self.fell and not self.vanished

    def lines(self) -> list[str]:
        """All of it for a terminal."""
        counted = f"{self.compared} ratios compared, {len(self.fell)} fell by more than"
        lines = [f"{counted} {FALL_MAX:.0%}, {len(self.vanished)} vanished, {len(self.new)} new"]
        for title, changes in (
            ("FELL", self.fell),
            ("fell once", self.once),
            ("VANISHED", self.vanished),
            # Where nothing was compared, everything is new.
            ("new", self.new if self.compared else ()),
            ("elsewhere", self.elsewhere),
        ):
            lines += [f"{title:10} {change.line()}" for change in changes]
        return lines


def compared(stored: Sequence[Run], now: Run, known: Sequence[str]) -> Comparison:
    """Compare a run with the stored ones; `known` are all parts that there are."""
    fell, vanished, new, elsewhere, count = [], [], [], [], 0
    same = [run for run in stored if run.scale == now.scale]
    latest = {part: run for run in same for part in run.parts}
    gone = [part for part in (same[-1].parts if same else {}) if part not in known]
    for part in [*now.parts, *gone]:
        before = latest[part].parts[part] if part in latest else {}
        after = now.parts.get(part, {})
        for name, peer in _keys(before, after):
            was, is_ = (ratios.get(name, {}).get(peer) for ratios in (before, after))
            if was is not None:
                alike = [run for run in same if peer != TARGET or run.where == latest[part].where]
                was = value_before(alike, name, peer)
            change = Change(name, peer, was, is_)
            if change.now is None:
                vanished.append(change)
            elif change.before is None:
                new.append(change)
            elif peer == TARGET and latest[part].where != now.where:
                elsewhere.append(change)
            else:
                count += 1
                if change.fall > FALL_MAX:
                    fell.append(change)
    fell.sort(key=lambda change: -change.fall)
    return Comparison(fell, (), vanished, new, elsewhere, count)


def confirmed(found: Comparison, again: Mapping[str, Ratios]) -> Comparison:
    """The comparison after a second run of the parts with a fall; `again` are its ratios.

    A ratio that the second run does not give has fallen.
    """
    second = {
        (name, peer): ratio
        for figures in again.values()
        for name, peers in figures.items()
        for peer, ratio in peers.items()
    }
    fell: list[Change] = []
    once: list[Change] = []
    for change in found.fell:
        ratio = second.get((change.name, change.peer))
        held = ratio is not None and attrs.evolve(change, now=ratio).fall <= FALL_MAX
        (once if held else fell).append(attrs.evolve(change, again=ratio))
    return attrs.evolve(found, fell=fell, once=once)


def history(stored: Sequence[Run], name: str, peer: str) -> list[float]:
    """The stored values of a ratio, the oldest first."""
    found = (figures.get(name, {}).get(peer) for run in stored for figures in run.parts.values())
    return [ratio for ratio in found if ratio is not None]


def value_before(stored: Sequence[Run], name: str, peer: str) -> float | None:
    """The median of the last stored values of a ratio; None without one."""
    found = history(stored, name, peer)[-COMPARED_MAX:]
    return statistics.median(found) if found else None


def _keys(*each: Ratios) -> list[tuple[str, str]]:
    return [
        *dict.fromkeys(
            (name, peer) for ratios in each for name, peers in ratios.items() for peer in peers
        )
    ]


def of_figures(figures: Mapping[str, Sequence[Figure]]) -> dict[str, dict[str, dict[str, float]]]:
    """The ratios of each part, rounded: what a run stores. Figures without any are left out."""
    return {
        part: {
            figure.name: {peer: float(f"{ratio:.4g}") for peer, ratio in figure.ratios.items()}
            for figure in each
            if figure.ratios
        }
        for part, each in figures.items()
    }


def read(path: Path = STORED) -> list[Run]:
    """The stored runs, the oldest first; none if there is no such file."""
    if not path.exists():
        return []
    rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["runs"]
    return [Run(**row) for row in rows]


def store(run: Run, path: Path = STORED) -> None:
    """Append a run."""
    rows = [attrs.asdict(each) for each in (*read(path), run)]
    text = json.dumps({"runs": rows}, indent=1, ensure_ascii=False, allow_nan=False)
    path.write_text(f"{text}\n", encoding="utf-8")

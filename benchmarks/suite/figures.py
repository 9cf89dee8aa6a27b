"""What a benchmark measured, in one form: printed as it comes, and written for `make bench`.

A figure stands beside its peers, which were measured in the same run. A ratio is how many times
better ours is than a peer, whichever direction is better, so more is always better. A figure
without peers that has a target has one ratio, to the target. It does not know what is measured.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Self

import attrs
from benchmarks.meter import machine_s, spent_s

TARGET: Final = "target"
"""In the place of a peer, where there is none: such a ratio holds for one machine only."""
OTHERS_MAX: Final = 0.1
"""With more cores than that at other work, a figure is rough."""


AT_ONCE_S: Final = 0.1
"""In less time nothing is measured."""


class Better(StrEnum):
    """Which direction is better."""

    HIGHER = "higher"
    LOWER = "lower"

    def ratio(self, ours: float, theirs: float) -> float:
        """How many times better ours is; infinite where one of them is nothing.

        >>> Better.HIGHER.ratio(3, 2), Better.LOWER.ratio(3, 6)
        (1.5, 2.0)
        """
        above, below = (ours, theirs) if self is Better.HIGHER else (theirs, ours)
        return above / below if below else float("inf")


@attrs.frozen
class Target:
    """What ours is to reach: a value in the figure's unit, or a ratio to a peer."""

    value: float
    peer: str | None = None
    """None: the value is in the figure's unit."""


@attrs.frozen
class Around:
    """What else went on while a figure was measured, its peers and its preparation included."""

    seconds: float = 0.0
    load_before: float = 0.0
    """Load average of one minute; the benchmark itself is in it."""
    load_after: float = 0.0
    cpu_s: float = 0.0
    """Processor seconds of the benchmark and of all that it started."""
    others: float = 0.0
    """Cores that everything else on the machine took, on average."""

    @property
    def rough(self) -> bool:
        """Whether other work was in the way."""
        return self.others > OTHERS_MAX


@attrs.frozen
class Figure:
    """Something that was measured."""

    name: str
    """`benchmark.part.what`, unique among all."""
    unit: str
    better: Better
    ours: float
    given: str
    """The input, in words, and which of several rounds counts."""
    peers: Mapping[str, float] = attrs.Factory(dict)
    """In the same unit, by name; none if nothing else does the same."""
    target: Target | None = None
    note: str = ""
    """What else is known of it, such as its spread."""
    around: Around = Around()

    @property
    def ratios(self) -> dict[str, float]:
        """How many times better ours is, by peer; to the target where there is no peer.

        A peer that did nothing has none.
        """
        beside = {**self.peers}
        if not beside and self.target is not None:
            beside[TARGET] = self.target.value
        ratios = {peer: self.better.ratio(self.ours, theirs) for peer, theirs in beside.items()}
        return {peer: ratio for peer, ratio in ratios.items() if math.isfinite(ratio)}

    @property
    def target_value(self) -> float | None:
        """The target in the unit of the figure; None without one, or if its peer is missing."""
        if self.target is None:
            return None
        if self.target.peer is None:
            return self.target.value
        theirs = self.peers.get(self.target.peer)
        if theirs is None:
            return None
        by = self.target.value
        return theirs * by if self.better is Better.HIGHER else theirs / by

    @property
    def reached(self) -> bool | None:
        """Whether ours reaches the target; None if there is none."""
        target = self.target_value
        if target is None:
            return None
        return self.ours >= target if self.better is Better.HIGHER else self.ours <= target

    @property
    def target_words(self) -> str:
        """The target as a phrase; empty without one."""
        match self.target:
            case None:
                return ""
            case Target(value, None):
                return f"{number(value)} {self.unit}"
            case Target(value, peer):
                return f"{value:g} × {peer}"

    def lines(self) -> list[str]:
        """Two lines for a terminal."""
        words = [f"{self.name:32} {number(self.ours):>10} {self.unit:14}"]
        words += [f"{ratio:.2f} × {peer}" for peer, ratio in self.ratios.items() if peer != TARGET]
        if self.target:
            missed = {True: "reached", False: "MISSED", None: "not measured"}[self.reached]
            words.append(f"target {self.target_words}: {missed}")
        beside = [self.given, *([self.note] if self.note else [])]
        beside.append(f"load {self.around.load_before:.1f} to {self.around.load_after:.1f}")
        beside.append(f"{self.around.cpu_s:.1f} s of CPU, others {self.around.others:.2f} cores")
        return ["  ".join(words).rstrip(), f"    {'; '.join(beside)}"]

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**attrs.asdict(self), "ratios": self.ratios}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """The figure that `as_json` wrote."""
        fields = {**values}
        del fields["ratios"]
        target = fields["target"]
        return cls(
            **fields
            | {
                "better": Better(fields["better"]),
                "target": None if target is None else Target(**target),
                "around": Around(**fields["around"]),
            }
        )


def number(value: float) -> str:
    """Three digits at least, and no more behind the point than these.

    >>> number(1234567.8), number(12.345), number(0.01234), number(0)
    ('1,234,568', '12.3', '0.0123', '0')
    """
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


class Report:
    """Figures as they come: two lines each, and a line of JSON in a file if one is named."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._began_s, self._cpu_s, self._machine_s = time.monotonic(), spent_s(), machine_s()
        self._load = os.getloadavg()[0]
        self._last: Around | None = None

    @staticmethod
    def add_option(parser: argparse.ArgumentParser) -> None:
        """`--figures FILE`, for the report's path."""
        parser.add_argument("--figures", type=Path, metavar="FILE", help="write them there, too")

    def add(
        self,
        name: str,
        unit: str,
        better: Better,
        ours: float,
        given: str,
        peers: Mapping[str, float | None] | None = None,
        target: Target | None = None,
        note: str = "",
    ) -> Figure:
        """Print a figure, and what went on since the last one. A peer that gave None is left out.

        Figures that come at once share what went on.
        """
        measured = {peer: value for peer, value in (peers or {}).items() if value is not None}
        around = self._around()
        figure = Figure(name, unit, better, ours, given, measured, target, note, around)
        say(*figure.lines())
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(figure.as_json()) + "\n")
        return figure

    def _around(self) -> Around:
        now_s = time.monotonic()
        seconds = now_s - self._began_s
        if self._last is not None and seconds < AT_ONCE_S:
            return self._last
        cpu_s, all_s = spent_s(), machine_s()
        own_s = cpu_s - self._cpu_s
        others = max(0.0, (all_s - self._machine_s - own_s) / max(1e-9, seconds))
        before, self._load = self._load, os.getloadavg()[0]
        self._began_s, self._cpu_s, self._machine_s = now_s, cpu_s, all_s
        each = (seconds, before, self._load, own_s, others)
        self._last = Around(*(round(value, 2) for value in each))
        return self._last


def read(path: Path) -> list[Figure]:
    """All that were written; a line that was cut off by a kill is left out."""
    if not path.exists():
        return []
    whole = path.read_text(encoding="utf-8").split("\n")[:-1]
    return [Figure.from_json(json.loads(line)) for line in whole]


def say(*lines: str) -> None:
    """Print at once."""
    print(*lines, sep="\n", flush=True)


def machine() -> dict[str, str | int]:
    """The machine as far as figures depend on it."""
    return {"cpu": _cpu(), "cores": os.cpu_count() or 1, "python": sys.version.split()[0]}


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return "unknown"


def chosen(asked: Sequence[str], known: Sequence[str]) -> list[str]:
    """What was asked for of what there is, in its order; all if nothing was.

    A name stands for all that begin with it and a point.

    >>> chosen(["client"], ["client.noop", "client.amo", "watch"])
    ['client.noop', 'client.amo']
    """
    unknown = [one for one in asked if not any(_is_of(each, one) for each in known)]
    if unknown:
        raise LookupError(f"no such part: {', '.join(unknown)}; there are {', '.join(known)}")
    return [each for each in known if not asked or any(_is_of(each, one) for one in asked)]


def _is_of(name: str, one: str) -> bool:
    return name == one or name.startswith(f"{one}.")

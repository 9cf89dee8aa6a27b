"""Plots of a chaos run, from its folder alone: `python -m tools.chaos.plots build/chaos/SEED`.

Throughput with the faults below it, and failovers: how long a partition stood still after its owner
was killed. Writes PNG, SVG and a page beside them.
"""

from __future__ import annotations

import html
import json
import sys
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from attrs import define, field, frozen

RUN_FILE: Final = "run.json"
COLOURS: Final = {
    "at_least_once": "#0072b2",
    "at_most_once": "#d55e00",
    "at_least_once_ranges": "#56b4e9",
    "at_most_once_ranges": "#e69f00",
}
"""By group, of those that were in the run."""
SHARED: Final = "_ranges"
"""Partitions of these groups have several consumers, so none stands still with one of them."""
KINDS: Final = {
    "consumers": "#009e73",
    "links": "#cc79a7",
    "brokers": "#e69f00",
    "operators": "#56b4e9",
}
"""What a fault hits, and its colour."""


@define
class RunFacts:
    """What the run knows and consumers do not; in a file of its folder."""

    seed: int = 0
    began_ms: int = 0
    ended_ms: int = 0
    """When the last fault was over."""
    interval_s: float = 0.0
    a_second: int = 0
    """Messages that were produced, for each group."""
    faults: list[tuple[int, str, str]] = field(factory=list)
    """When, what it hit, and its name."""
    killed: dict[str, int] = field(factory=dict)
    """When a worker was killed with -9, by group and name: `at_least_once c0-0-poll`."""
    table: str = ""

    def write(self, folder: Path) -> None:
        """Put it into the run's folder."""
        values = {name: getattr(self, name) for name in self.__slots__ if name != "__weakref__"}
        (folder / RUN_FILE).write_text(json.dumps(values, indent=1))


@frozen
class Done:
    """A message that was processed."""

    at_ms: int
    worker: str
    partition: int


def done_in(folder: Path, semantics: str) -> list[Done]:
    """Everything that the workers of a group processed, in the order of time."""
    found = []
    for path in (folder / semantics).glob("*.txt"):
        if path.name.endswith(".errors.txt"):
            continue
        worker = f"{semantics} {path.stem}"
        for line in path.read_text().split("\n")[:-1]:
            match line.split(" "):
                case ["-", partition, _, at_ms]:
                    found.append(Done(int(at_ms), worker, int(partition)))
                case _:
                    pass
    return sorted(found, key=lambda one: one.at_ms)


def failovers(done: Sequence[Done], killed: Mapping[str, int]) -> list[float]:
    """How long each partition of a dead owner stood still, in seconds.

    From the last message of the owner that was killed to the first one of its successor.

    >>> failovers([Done(0, "a", 1), Done(10, "a", 1), Done(2510, "b", 1)], {"a": 300})
    [2.5]
    """
    of_partition: dict[int, list[Done]] = defaultdict(list)
    for one in done:
        of_partition[one.partition].append(one)
    found = []
    for worker, killed_ms in killed.items():
        for each in of_partition.values():
            # What it began before it died may be written down a moment later.
            before = bisect_right(each, killed_ms + 50, key=lambda one: one.at_ms)
            if before and each[before - 1].worker == worker and before < len(each):
                found.append((each[before].at_ms - each[before - 1].at_ms) / 1000)
    return sorted(found)


def _throughput(facts: RunFacts, done: Mapping[str, Sequence[Done]], path: Path) -> None:
    from matplotlib import pyplot

    figure, (above, below) = pyplot.subplots(
        2, 1, sharex=True, figsize=(12, 6), height_ratios=(3, 1), layout="constrained"
    )
    end_s = (facts.ended_ms - facts.began_ms) // 1000 + 1
    for semantics, each in done.items():
        counts = Counter((one.at_ms - facts.began_ms) // 1000 for one in each)
        last = max([end_s, *counts])
        above.step(
            range(last + 1),
            [counts[second] for second in range(last + 1)],
            where="post",
            color=COLOURS[semantics],
            linewidth=0.9,
            label=semantics.replace("_", " "),
        )
    above.axhline(
        facts.a_second, color="0.4", linestyle="--", linewidth=1, label="produced, at most"
    )
    above.set_ylabel("messages processed per second")
    above.set_ylim(bottom=0)
    above.set_title(f"Throughput under {len(facts.faults)} faults, seed {facts.seed}", loc="left")
    above.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=3, frameon=False)
    times = [
        [(at_ms - facts.began_ms) / 1000 for at_ms, hit, _ in facts.faults if hit == kind]
        for kind in KINDS
    ]
    labels = [f"{kind} ({len(each)})" for kind, each in zip(KINDS, times, strict=True)]
    below.eventplot(times, colors=list(KINDS.values()), linelengths=0.8, linewidths=1.2)
    below.set_yticks(range(len(KINDS)), labels)
    below.invert_yaxis()
    begun_s = min((at_ms - facts.began_ms for at_ms, _, _ in facts.faults), default=0) / 1000
    for axes in (above, below):
        axes.axvspan(begun_s, end_s, color="0.95", zorder=-1)
    below.set_xlabel("seconds since the run began (grey: while there are faults)")
    for axes in (above, below):
        axes.spines[["top", "right"]].set_visible(False)
        axes.margins(x=0.01)
    _save(figure, path)


def _failovers(facts: RunFacts, times: Mapping[str, Sequence[float]], path: Path) -> None:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(12, 5), layout="constrained")
    for semantics, each in times.items():
        if each:
            name = (
                f"{semantics.replace('_', ' ')}: {len(each)}, median {each[len(each) // 2]:.1f} s"
            )
            axes.ecdf(each, color=COLOURS[semantics], linewidth=1.8, label=name)
            axes.plot(each, [0.0] * len(each), "|", color=COLOURS[semantics], alpha=0.6)
    stale_s = 2 * facts.interval_s
    axes.axvline(stale_s, color="0.4", linestyle="--", linewidth=1)
    axes.annotate(
        f"an owner is stale\nafter {stale_s:g} s",
        (stale_s, 0.97), xytext=(6, 0), textcoords="offset points", va="top", color="0.3",
    )  # fmt: skip
    axes.set_xlim(left=0)
    axes.set_ylim(-0.03, 1.03)
    axes.set_xlabel("seconds from the last message of a killed owner to the first of its successor")
    axes.set_ylabel("part of failovers that took no longer")
    axes.set_title(f"Failovers after kill -9, seed {facts.seed}", loc="left")
    if any(times.values()):
        axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    _save(figure, path)


def _save(figure: Any, path: Path) -> None:
    from matplotlib import pyplot

    for suffix in (".png", ".svg"):
        figure.savefig(path.with_suffix(suffix), dpi=110)
    pyplot.close(figure)


def plot(folder: Path) -> Path:
    """Plot the run in this folder; the page that shows it."""
    import matplotlib as mpl

    mpl.use("agg")
    facts = RunFacts(**json.loads((folder / RUN_FILE).read_text()))
    done = {name: done_in(folder, name) for name in COLOURS if (folder / name).is_dir()}
    times = {
        name: failovers(each, facts.killed)
        for name, each in done.items()
        if not name.endswith(SHARED)
    }
    _throughput(facts, done, folder / "throughput")
    _failovers(facts, times, folder / "failovers")
    page = folder / "index.html"
    page.write_text(
        "<!doctype html><meta charset=utf-8><title>chaos</title>"
        "<style>body{font:15px sans-serif;max-width:1200px;margin:2em auto}img{width:100%}</style>"
        f"<h1>A chaos run, seed {facts.seed}</h1>"
        "<img src=throughput.svg alt='messages per second, and faults'>"
        "<img src=failovers.svg alt='how long failovers took'>"
        f"<pre>{html.escape(facts.table)}</pre>",
        encoding="utf-8",
    )
    return page


if __name__ == "__main__":
    print(plot(Path(sys.argv[1])))

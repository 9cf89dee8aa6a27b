"""`make model-full`: every model by TLC's figures and by the Python machines, and one table.

For each model that must hold: as many states and edges. For each that must fail, where the Python
makes the same mistake: the same property, after as many states. Then every edge of an instance, as
TLC exports it, driven through the machine, and every edge of ranges and of groups through their
reducers. Exit code 1 on any difference.

A model of which nothing changed since it passed is not run again, without `--fresh`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence, Set
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeVar

from attrs import frozen
from tools.runs.passed import Passed, imported, texts, with_imports

from kafka_marshal.modelcheck import edges, models
from kafka_marshal.modelcheck.errors import ModelCheckError
from kafka_marshal.modelcheck.models import Model
from model_tests.edges import consumer_edges, driven
from model_tests.edges.driven import Driven
from model_tests.explorer import compare
from model_tests.explorer.compare import Compared
from model_tests.groups import edges as group_edges
from model_tests.ranges import edges as range_edges

EDGES_MAX = 600_000
"""Of a larger model the edges of instances are not exported: TLC would take too long."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; the exit code."""
    parser = argparse.ArgumentParser(prog="make model-full", description=__doc__)
    parser.add_argument("--graphs", action="store_true", help="leave out what TLC exports")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="models at a time")
    parser.add_argument("--fresh", action="store_true", help="run also what has not changed")
    parser.add_argument("names", nargs="*", metavar="NAME", help="models; all, if none is named")
    asked = parser.parse_args(arguments)
    known = models.read()
    chosen = [models.find(name, known) for name in asked.names] or list(known)
    started = time.monotonic()
    wrong = []
    tables: Sequence[Table[Any]] = (GRAPHS, INSTANCES, RANGES, GROUPS)
    for table in tables[:1] if asked.graphs else tables:
        wrong += show(table, chosen, asked.processes, asked.fresh)
    print(f"\n{time.monotonic() - started:.0f} s in all")
    for sentence in wrong:
        print(f"WRONG {sentence}")
    return 1 if wrong else 0


class Row(Protocol):
    """What came of one model."""

    @property
    def name(self) -> str:
        """The model's name."""
        ...


Result = TypeVar("Result", bound=Row)


@frozen
class Table(Generic[Result]):
    """A table, and how its rows are made."""

    kind: str
    """Name of its results among those that are kept."""
    heading: str
    has: Callable[[Model], bool]
    """Which models have a row."""
    work: Callable[[Model], Result]
    line: Callable[[Result], str]
    wrong: Callable[[Model, Result], list[str]]
    """What is not as it must be, in words."""
    beside: tuple[Path, ...] = ()
    """Modules of TLA+ that a model's own do not name."""


def show(
    table: Table[Result], chosen: Sequence[Model], processes: int | None, fresh: bool
) -> list[str]:
    """Print a table; a sentence about everything that is wrong.

    A model of which nothing changed since it passed is not run again, unless `fresh`: its line
    ends with `unchanged`. Nothing means the specification that it reaches and every module of
    Python that this one imports.
    """
    print(f"\n{table.heading}", flush=True)
    began, wrong = time.monotonic(), list[str]()
    passed = Passed(f"model-full-{table.kind}", {**imported(), **texts([edges.SOURCE])})
    begun = {
        model: passed.fingerprint(model, *table.beside) for model in chosen if table.has(model)
    }
    kept = {} if fresh else {model: line for model in begun if (line := passed.find(begun[model]))}
    for line in kept.values():
        print(f"{line}  unchanged", flush=True)
    for model, result, imports in each(table.work, [*begun.keys() - kept], processes, wrong):
        line = table.line(result)
        print(line, flush=True)
        sentences = table.wrong(model, result)
        wrong += sentences
        if not sentences and imports <= passed.beside.keys():
            passed.keep(begun[model], line)
    seconds = time.monotonic() - began
    print(f"\n{len(begun)} models, {len(kept)} of them unchanged, {seconds:.0f} s")
    return wrong


def _unequal(_: Model, row: Compared) -> list[str]:
    return [] if row.equal else [f"{row.name}: {row.difference}"]


def _held_line(row: Driven | range_edges.Held | group_edges.Held) -> str:
    return f"{row.name:42}{row.edges:11,}{row.rows:9,}{row.partings:6,}"


def _parted(_: Model, row: Driven | range_edges.Held | group_edges.Held) -> list[str]:
    return [f"{row.name}: {row.partings} rows, the first: {row.first}"] if row.partings else []


def _not_held(model: Model, row: range_edges.Held | group_edges.Held) -> list[str]:
    recorded = model.edges or 0
    other = [f"{row.name}: {row.edges:,} edges, recorded are {recorded:,}"]
    return [*(other if row.edges != recorded else []), *_parted(model, row)]


def _has_instances(model: Model) -> bool:
    return consumer_edges.of_marshal(model) and (model.edges or 0) <= EDGES_MAX


def _edges_of(whose: str) -> str:
    return f"Edges of {whose}, as TLC exports them\n\n{'':42}{'edges':>11}{'rows':>9}{'part':>6}"


GRAPHS: Final = Table(
    "graphs",
    f"Equal graphs: TLC's figures and what the Python machines give\n\n{compare.HEADING}",
    compare.is_compared,
    compare.compare,
    Compared.line,
    _unequal,
)
INSTANCES: Final = Table(
    "instances",
    _edges_of("instances"),
    _has_instances,
    driven.of_model,
    _held_line,
    _parted,
    (models.spec_folder() / "claims" / "Edges.tla",),
)
RANGES: Final = Table(
    "ranges",
    _edges_of("ranges"),
    range_edges.of_ranges,
    range_edges.held,
    _held_line,
    _not_held,
    (range_edges.MODULE,),
)
GROUPS: Final = Table(
    "groups", _edges_of("groups"), group_edges.of_groups, group_edges.held, _held_line, _not_held
)


def each(
    work: Callable[[Model], Result],
    chosen: Sequence[Model],
    processes: int | None,
    wrong: list[str],
) -> Iterator[tuple[Model, Result, Set[str]]]:
    """The work of every model as it ends, in a number of processes; the long ones begin first.

    With each come the modules of this project that its process has imported. A model that TLC
    cannot run is a sentence in `wrong`: the others go on.
    """
    context = multiprocessing.get_context("spawn")
    ordered = sorted(chosen, key=lambda model: -(model.edges or 0))
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        begun = {pool.submit(with_imports, work, model): model for model in ordered}
        for ended in as_completed(begun):
            try:
                result, imports = ended.result()
            except ModelCheckError as error:
                wrong.append(f"{begun[ended].name}: {error}")
            else:
                yield begun[ended], result, imports


if __name__ == "__main__":
    sys.exit(main())

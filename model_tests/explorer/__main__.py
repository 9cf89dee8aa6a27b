"""`make model-full`: every model by TLC's figures and by the Python machines, and one table.

For each model that must hold: as many states and edges. For each that must fail, where the Python
makes the same mistake: the same property, after as many states. Then every edge of an instance, as
TLC exports it, driven through the machine, and every edge of ranges and of groups through their
reducers. Exit code 1 on any difference.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import TypeVar

from kafka_marshal.modelcheck import models
from kafka_marshal.modelcheck.errors import ModelCheckError
from kafka_marshal.modelcheck.models import Model
from model_tests.edges import consumer_edges, driven
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
    parser.add_argument("names", nargs="*", metavar="NAME", help="models; all, if none is named")
    asked = parser.parse_args(arguments)
    known = models.read()
    chosen = [models.find(name, known) for name in asked.names] or list(known)
    started = time.monotonic()
    wrong = graphs(chosen, asked.processes)
    if not asked.graphs:
        wrong += instances(chosen, asked.processes)
        wrong += reducers(chosen, asked.processes)
    print(f"\n{time.monotonic() - started:.0f} s in all")
    for sentence in wrong:
        print(f"WRONG {sentence}")
    return 1 if wrong else 0


def graphs(chosen: Sequence[Model], processes: int | None) -> list[str]:
    """The table of equal graphs; a sentence about each difference."""
    begun = [model for model in chosen if compare.is_compared(model)]
    began = time.monotonic()
    print("Equal graphs: TLC's figures and what the Python machines give\n")
    print(compare.HEADING, flush=True)
    done: list[Compared] = []
    wrong: list[str] = []
    for compared in each(compare.compare, begun, processes, wrong):
        print(compared.line(), flush=True)
        done.append(compared)
    seconds = time.monotonic() - began
    found = sum(compared.python_edges for compared in done)
    equal = sum(compared.equal for compared in done)
    print(
        f"\n{equal} of {len(begun)} are equal; {found:,} edges in {seconds:.0f} s, "
        f"{found / seconds:,.0f} a second"
    )
    return wrong + [f"{one.name}: {one.difference}" for one in done if not one.equal]


def instances(chosen: Sequence[Model], processes: int | None) -> list[str]:
    """The table of edges driven through the machine; a sentence about each that parts."""
    begun = [
        model
        for model in chosen
        if consumer_edges.of_marshal(model) and (model.edges or 0) <= EDGES_MAX
    ]
    print(
        f"\nEdges of instances, as TLC exports them\n\n{'':42}{'edges':>11}{'rows':>9}{'part':>6}"
    )
    wrong: list[str] = []
    for row in each(driven.of_model, begun, processes, wrong):
        print(f"{row.name:42}{row.edges:11,}{row.rows:9,}{row.partings:6,}", flush=True)
        if row.partings:
            wrong.append(f"{row.name}: {row.partings} rows, the first: {row.first}")
    return wrong


def reducers(chosen: Sequence[Model], processes: int | None) -> list[str]:
    """The tables of edges held against the reducers of ranges and groups; what parts, in words."""
    wrong: list[str] = []
    for of, room, held in (
        ("ranges", range_edges.of_ranges, range_edges.held),
        ("groups", group_edges.of_groups, group_edges.held),
    ):
        begun = [model for model in chosen if room(model)]
        print(f"\nEdges of {of}, as TLC exports them\n\n{'':42}{'edges':>11}{'rows':>9}{'part':>6}")
        recorded = {model.name: model.edges for model in begun}
        work: Callable[[Model], range_edges.Held | group_edges.Held] = held
        for row in each(work, begun, processes, wrong):
            print(f"{row.name:42}{row.edges:11,}{row.rows:9,}{row.partings:6,}", flush=True)
            known = recorded[row.name]
            if row.edges != known:
                wrong.append(f"{row.name}: {row.edges:,} edges, recorded are {known:,}")
            if row.partings:
                wrong.append(f"{row.name}: {row.partings} rows, the first: {row.first}")
    return wrong


Result = TypeVar("Result")


def each(
    work: Callable[[Model], Result],
    chosen: Sequence[Model],
    processes: int | None,
    wrong: list[str],
) -> Iterator[Result]:
    """The work of every model as it ends, in a number of processes; the long ones begin first.

    A model that TLC cannot run is a sentence in `wrong`: the others go on.
    """
    context = multiprocessing.get_context("spawn")
    ordered = sorted(chosen, key=lambda model: -(model.edges or 0))
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        begun = {pool.submit(work, model): model for model in ordered}
        for ended in as_completed(begun):
            try:
                result = ended.result()
            except ModelCheckError as error:
                wrong.append(f"{begun[ended].name}: {error}")
            else:
                yield result


if __name__ == "__main__":
    sys.exit(main())

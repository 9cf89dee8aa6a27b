"""Recorded runs of consumers that share a topic, and what is done to them."""

from __future__ import annotations

import copy
import functools
import itertools
import random
from collections.abc import Callable, Iterator

import attrs
from tools.simulate.setting import SHARED
from tools.simulate.world import World

from kafka_marshal.client.coordinate.configuration import Semantics
from kafka_marshal.client.coordinate.recording import write_log
from kafka_marshal.errors import COORDINATION_TOPIC
from kafka_marshal.scratch import Scratch
from kafka_marshal.validate import Validator, read_folder, run_of
from kafka_marshal.validate.run import Begun, Fields, Read, begun, header

Change = Callable[[list[Fields], int], None]

SIMULATED_S = 30.0
SEED: dict[Semantics, int] = {"at_least_once": 9, "at_most_once": 5}
"""Where the search for a run begins in which all of this happens."""
SEED_LOST = 0
"""And for one in which a range is lost, at least once."""
HAPPENS: dict[Semantics, frozenset[str]] = {
    "at_least_once": frozenset({"shares", "begun", "finished", "leaves", "took_back"}),
    "at_most_once": frozenset({"shares", "begun", "finished", "leaves", "gave_up"}),
}


def recorded(semantics: Semantics, seed: int, simulated_s: float = SIMULATED_S) -> list[Fields]:
    """What shipped consumers recorded in a simulated world, in one order that fits."""
    random.seed(seed)
    setting = attrs.evolve(
        SHARED, semantics=semantics, recorded=True, simulated_s=simulated_s, messages_per_s=30.0
    )
    world = World(seed, setting)
    with Scratch("shared") as folder:
        world.folder = folder
        world.run()
        write_log(world.kafka.settings(), COORDINATION_TOPIC, folder)
        run = read_folder(folder)
        return [header(run.setting), *(event.fields for event in run.events)]


def _runs(semantics: Semantics, seed: int) -> Iterator[list[Fields]]:
    return (recorded(semantics, each) for each in itertools.count(seed))


@functools.cache
def _rows(semantics: Semantics) -> list[Fields]:
    runs = _runs(semantics, SEED[semantics])
    return next(run for run in runs if HAPPENS[semantics] <= {line.get("event") for line in run})


@functools.cache
def begun_after_it_was_lost() -> list[Fields]:
    """A run with a message begun of a range that its holder has read to be another's by then."""
    found = (_begun_after_it_was_lost(run) for run in _runs("at_least_once", SEED_LOST))
    return next(lines for lines in found if lines is not None)


def rows(semantics: Semantics) -> list[Fields]:
    """One such run. Its list may be changed, its lines may not."""
    return list(_rows(semantics))


def changed(lines: list[Fields], place: int, change: Change) -> list[Fields]:
    """The run with one line changed, or what lies beside it."""
    lines = list(lines)
    lines[place] = copy.deepcopy(lines[place])
    change(lines, place)
    return lines


def places(lines: list[Fields], event: str, holds: str = "") -> Iterator[int]:
    """Where there are such events."""
    for place in range(1, len(lines)):
        line = lines[place]
        headers: dict[str, str] = dict(line.get("headers", {}))  # type: ignore[call-overload]
        text = " ".join([str(line.get("value")), *headers, ""])
        if line["event"] == event and holds in text:
            yield place


def _begun_after_it_was_lost(lines: list[Fields]) -> list[Fields] | None:
    run = run_of(lines)
    validator = Validator(run.setting)
    for number, event in enumerate(run.events, start=1):
        before = {}
        if isinstance(event, Read):
            parts = validator.instances[event.instance].parts
            before = {key: part.participant.held for key, part in parts.items()}
        assert validator.take(event) is None
        for key, held in before.items():
            assert isinstance(event, Read)
            part = validator.instances[event.instance].parts.get(key)
            for each in held:
                if part and part.participant.holding(each.id) is None and not each.finished:
                    first = min(each.begun, each.to - 1)
                    line = begun(event.instance, key, each.id, first, first + 1)
                    return [*lines[: number + 1], line, *lines[number + 1 :]]
    return None


def begun_by_another(lines: list[Fields]) -> list[Fields]:
    """The run with a message begun by two, of which the second was never granted it."""
    run = run_of(lines)
    first: Begun | None = None
    for number, event in enumerate(run.events, start=1):
        if not isinstance(event, Begun):
            continue
        if first is None:
            first = event
        elif event.instance != first.instance:
            where = (first.topic, first.topic_partition)
            if where == (event.topic, event.topic_partition):
                line = {**lines[number], "from": first.start, "to": first.stop}
                return [*lines[:number], line, *lines[number:]]
    raise AssertionError("nobody shares a partition in this run")

"""Runs by their seeds: what is reported of one, its digest, and the sum of many."""

from __future__ import annotations

import hashlib
import itertools
import multiprocessing
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol, TypeVar

import attrs
from attrs import define, field, frozen
from tools.simulate.checkers import violations
from tools.simulate.faults import Happening
from tools.simulate.history import History
from tools.simulate.judged.claims import Judged
from tools.simulate.setting import Setting, limited
from tools.simulate.story import story
from tools.simulate.world import World

from kafka_marshal.client.coordinate.configuration import Semantics
from kafka_marshal.client.coordinate.recording import write_log
from kafka_marshal.errors import COORDINATION_TOPIC
from kafka_marshal.scratch import Scratch
from kafka_marshal.validate import read_folder, validate
from kafka_marshal.validate.run import RunEvent
from kafka_marshal.validate.validator import action_of

SIGNING: Final = {2: "some", 4: "required"}


@frozen
class Report:
    """What is kept of one run."""

    seed: int
    setting: Setting
    plan: tuple[Happening, ...]
    digest: str
    """Changes with any byte of the log, its times, and with what was given to whom."""
    violations: tuple[str, ...]
    simulated_s: float
    cpu_s: float
    records: int
    given: int
    processes: int
    switched: int
    faults: Counter[str]
    overlaps: Counter[tuple[str, str]]
    """Pairs of faults that happened within two intervals."""
    ways: Counter[str]
    verdicts: Counter[str]
    """What records did, by the names of the specification."""
    actions: Counter[str]
    """What recorded instances did, by the names of the specification; none where none is."""
    story: tuple[str, ...]
    """The faults, and what led to the first violation, in words."""


def simulate(
    seed: int, setting: Setting | None = None, plan: tuple[Happening, ...] | None = None
) -> Report:
    """Run one world, and judge it."""
    began_s = time.process_time()
    random.seed(seed)
    world = World(seed, setting or Setting(), plan)
    recorded, actions = None, Counter[str]()
    with Scratch("simulate") as folder:
        world.folder = folder
        history = world.run()
        if world.setting.recorded:
            write_log(world.kafka.settings(), COORDINATION_TOPIC, folder)
            run = read_folder(folder)
            recorded = validate(attrs.evolve(run, events=counted(run.events, actions)))
    judged = Judged(history, world.setting, recorded)
    wrong = violations(judged)
    return Report(
        seed,
        world.setting,
        world.plan or (),
        digest(history),
        tuple(wrong),
        history.simulated_s,
        time.process_time() - began_s,
        len(history.log),
        len(history.given) + len(history.given_of_ranges),
        sum(history.ways.values()),
        history.switched,
        Counter(name for _, name, _ in history.faults),
        overlaps(world.plan or (), 2 * world.setting.heartbeat_interval_s),
        history.ways,
        Counter(
            str(change.verdict)
            for _, _, changes in judged.changes
            for change in changes
            if change.verdict is not None
        )
        + Counter(str(each.verdict) for each in judged.shared.changes),
        actions,
        story(judged, world.began_s, wrong),
    )


def counted(events: Iterable[RunEvent], actions: Counter[str]) -> Iterator[RunEvent]:
    """These events; counts what is done in each."""
    for event in events:
        actions[action_of(event)] += 1
        yield event


def digest(history: History) -> str:
    """Of everything that a consumer did that anybody else can see."""
    seen = (
        [(one.partition, one.offset, one.stored, one.at_s) for one in history.log],
        history.given,
        history.given_of_ranges,
        history.called,
    )
    return hashlib.sha256(repr(seen).encode()).hexdigest()


def overlaps(plan: tuple[Happening, ...], within_s: float) -> Counter[tuple[str, str]]:
    """Which faults happened beside which."""
    found: Counter[tuple[str, str]] = Counter()
    for index, one in enumerate(plan):
        for other in plan[index + 1 :]:
            if other.at_s - one.at_s > within_s:
                break
            found[min(one.fault, other.fault), max(one.fault, other.fault)] += 1
    return found


@define
class Total:
    """The sum of many runs."""

    runs: int = 0
    simulated_s: float = 0.0
    cpu_s: float = 0.0
    records: int = 0
    given: int = 0
    processes: int = 0
    switched: int = 0
    faults: Counter[str] = field(factory=Counter)
    overlaps: Counter[tuple[str, str]] = field(factory=Counter)
    ways: Counter[str] = field(factory=Counter)
    verdicts: Counter[str] = field(factory=Counter)
    failed: list[Report] = field(factory=list)

    def add(self, report: Report) -> None:
        """Count one more run."""
        self.runs += 1
        for each in ("simulated_s", "cpu_s", "records", "given", "processes", "switched"):
            setattr(self, each, getattr(self, each) + getattr(report, each))
        for each in ("faults", "overlaps", "ways", "verdicts"):
            getattr(self, each).update(getattr(report, each))
        if report.violations:
            self.failed.append(report)


def shrunk(report: Report, tries: int = 200) -> Report:
    """The same seed with as few faults as still give a violation by the same checker."""

    def repeat(best: Report, plan: tuple[Happening, ...], is_last: bool) -> Report:
        setting = best.setting
        if is_last and plan:  # nothing happens after it
            setting = attrs.evolve(setting, simulated_s=min(setting.simulated_s, plan[-1].at_s + 1))
        return simulate(best.seed, setting, plan)

    return with_fewer_faults(report, repeat, tries)


class Repeatable(Protocol):
    """What is kept of a run of any world."""

    @property
    def plan(self) -> tuple[Happening, ...]:
        """Its faults."""

    @property
    def violations(self) -> tuple[str, ...]:
        """What was wrong, each after the name of its checker."""

    @property
    def simulated_s(self) -> float:
        """How long it lasted in its own time, in seconds."""


ReportT = TypeVar("ReportT", bound=Repeatable)


def with_fewer_faults(
    report: ReportT,
    repeat: Callable[[ReportT, tuple[Happening, ...], bool], ReportT],
    tries: int,
) -> ReportT:
    """The run with as few faults as still give a violation by the same checker.

    Takes away halves of the plan, then quarters, down to single faults. `repeat` runs the best one
    so far with another plan; its last argument says that the last faults were taken away.
    """

    def by(one: ReportT) -> set[str]:
        return {each.partition(":")[0] for each in one.violations}

    best, size = report, max(1, len(report.plan) // 2)
    while tries and size:
        for begin in range(0, len(best.plan), size):
            plan = best.plan[:begin] + best.plan[begin + size :]
            is_last = begin + size >= len(best.plan)
            tries -= 1
            again = repeat(best, plan, is_last)
            if by(again) & by(report):
                best = again
                break
            if not tries:
                break
        else:
            size //= 2
    return best


def settings(seed: int, base: Setting) -> Setting:
    """Half are at most once.

    Of each sixteen two are recorded, two mixed, four sign, four are replayed. Where processes
    share, half are recorded.
    """
    semantics: Semantics = "at_most_once" if seed % 2 else "at_least_once"
    if base.shared:
        return attrs.evolve(base, semantics=semantics, recorded=seed % 4 < 2)
    recorded, signing = seed % 16 < 2, SIGNING.get(seed % 16 // 2, base.signing)
    replayed = seed % 8 // 2 == 3
    return attrs.evolve(
        base,
        semantics=semantics,
        recorded=recorded,
        mixed=seed % 16 // 2 == 1,
        signing=signing,
        replayed=replayed,
    )


def run_of(seed: int, base: Setting) -> Report:
    """The run of a seed, in the world that it has: of three, one has limits that are near."""
    setting = settings(seed, base)
    return simulate(seed, limited(seed, setting) if seed % 3 == 2 else setting)


def of_seeds(
    run: Callable[[int], ReportT], first: int, hours: float, jobs: int, simulated_s: float
) -> Iterator[ReportT]:
    """Runs from this seed on, until this many hours are simulated, `simulated_s` by each."""
    left_s, seeds = 3600 * hours, itertools.count(first)
    with multiprocessing.get_context("fork").Pool(jobs, maxtasksperchild=20) as pool:
        pending = [pool.apply_async(run, (next(seeds),)) for _ in range(2 * jobs)]
        while pending:
            report = pending.pop(0).get()
            left_s -= report.simulated_s
            if left_s > simulated_s * len(pending):
                pending.append(pool.apply_async(run, (next(seeds),)))
            yield report

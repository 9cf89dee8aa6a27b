"""All states of one model, breadth first: how many there are, how many edges, and what they break.

Counted as TLC counts: a state once, an edge for every way to take an action, also into states that
a constraint looks away from.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from attrs import field, frozen

from kafka_marshal.modelcheck.models import Model
from model_tests.explorer import configuration, substitutions
from model_tests.explorer.admins import environment as environment_of_admins
from model_tests.explorer.admins.environment import BoundsOfAdmins, EnvironmentOfAdmins
from model_tests.explorer.admins.properties import JudgesOfAdmins
from model_tests.explorer.claims import world
from model_tests.explorer.claims.environment import Environment
from model_tests.explorer.claims.parts import State
from model_tests.explorer.claims.properties import Judges
from model_tests.explorer.claims.world import Bounds
from model_tests.explorer.intervals import environment as environment_of_intervals
from model_tests.explorer.intervals.environment import (
    EnvironmentOfIntervals,
    JudgesOfIntervals,
    WorldOfIntervals,
)
from model_tests.explorer.shares import environment as environment_of_shares
from model_tests.explorer.shares.environment import (
    EnvironmentOfShares,
    JudgesOfShares,
    WorldOfShares,
)


@frozen
class Graph:
    """What an exploration found."""

    states: int
    edges: int
    depth: int
    """States on the longest shortest path."""
    seconds: float = field(eq=False)
    broken: str | None = None
    """The first invariant that a state broke; nothing more was then explored."""
    length: int | None = None
    """States on the shortest way there."""

    @property
    def edges_per_second(self) -> float:
        """How fast it went."""
        return self.edges / self.seconds


def explore(model: Model) -> Graph:
    """The graph of one model of `Marshal.tla`, by the Python machines."""
    cfg = configuration.read(model.cfg)
    return explore_bounds(world.bounds(model), substitutions.of(cfg), cfg.names("INVARIANTS"))


def explore_bounds(
    bounds: Bounds,
    replaced: substitutions.Replaced,
    invariants: Sequence[str] = (),
) -> Graph:
    """The graph of one world, up to the first state that breaks one of these invariants."""

    def begun() -> tuple[Environment, Judges]:
        environment = Environment(bounds)
        return environment, Judges(environment, invariants)

    return all_states(begun, replaced)


def explore_admins(model: Model) -> Graph:
    """The graph of one model of `SetPosition.tla`, by the Python machines."""
    cfg = configuration.read(model.cfg)
    promised = (*cfg.names("INVARIANTS"), *cfg.names("PROPERTIES"))
    bounds = environment_of_admins.bounds(model)
    return explore_bounds_of_admins(bounds, substitutions.of(cfg), promised)


def explore_bounds_of_admins(
    bounds: BoundsOfAdmins,
    replaced: substitutions.Replaced,
    promised: Sequence[str] = (),
) -> Graph:
    """The graph of one world, up to the first state that breaks one of these properties."""

    def begun() -> tuple[EnvironmentOfAdmins, JudgesOfAdmins]:
        environment = EnvironmentOfAdmins(bounds)
        return environment, JudgesOfAdmins(environment, promised)

    return all_states(begun, replaced)


def explore_shares(model: Model) -> Graph:
    """The graph of one model of `FairShare.tla`, by the rules of the package."""
    cfg = configuration.read(model.cfg)
    promised = (*cfg.names("INVARIANTS"), *cfg.names("PROPERTIES"))
    return explore_world_of_shares(
        environment_of_shares.bounds(model), substitutions.of(cfg), promised
    )


def explore_world_of_shares(
    shares: WorldOfShares, replaced: substitutions.Replaced, promised: tuple[str, ...] = ()
) -> Graph:
    """The graph of one world, up to the first state that breaks one of these properties."""

    def begun() -> tuple[EnvironmentOfShares, JudgesOfShares]:
        environment = EnvironmentOfShares(shares)
        return environment, JudgesOfShares(environment, promised)

    return all_states(begun, replaced)


def explore_intervals(model: Model) -> Graph:
    """The graph of one model of `Interval.tla`, over `machines.consumer.intervals`."""
    cfg = configuration.read(model.cfg)
    return explore_world_of_intervals(
        environment_of_intervals.bounds(model), cfg.names("INVARIANTS")
    )


def explore_world_of_intervals(given: WorldOfIntervals, invariants: tuple[str, ...] = ()) -> Graph:
    """The graph of one world, up to the first state that breaks one of these invariants."""

    def begun() -> tuple[EnvironmentOfIntervals, JudgesOfIntervals]:
        environment = EnvironmentOfIntervals(given)
        return environment, JudgesOfIntervals(environment, invariants)

    return all_states(begun, substitutions.Replaced())


S = TypeVar("S", bound=State)
S_contra = TypeVar("S_contra", bound=State, contravariant=True)


class Steps(Protocol[S]):
    """An environment: where it begins, and what can follow."""

    def initial(self) -> S:
        """Spec: Init."""

    def successors(self, state: S) -> list[S]:
        """Every state that can follow, once for each way. Spec: Next."""


class Judging(Protocol[S_contra]):
    """The properties of one model."""

    def broken(self, state: S_contra) -> Iterable[str]:
        """The names of those that this state breaks."""


def all_states(
    begun: Callable[[], tuple[Steps[S], Judging[S]]], replaced: substitutions.Replaced
) -> Graph:
    """The graph of an environment, up to the first state that breaks a property."""
    started = time.monotonic()
    collects = gc.isenabled()
    gc.disable()  # what is made here stays until the end
    try:
        with replaced.made():
            return _all_states(*begun(), replaced, started)
    finally:
        if collects:
            gc.enable()


def _all_states(
    environment: Steps[S],
    judges: Judging[S],
    replaced: substitutions.Replaced,
    started: float,
) -> Graph:
    initial = environment.initial()
    seen: set[S] = {initial}
    frontier, edges, depth = [initial], 0, 0
    successors, constrained = environment.successors, replaced.looks_away
    while frontier:
        depth += 1
        found: list[S] = []
        for state in frontier:
            after = successors(state)
            edges += len(after)
            if constrained:
                after = [each for each in after if replaced.stays(environment, state, each)]
            for each in after:
                if each not in seen:
                    seen.add(each)
                    found.append(each)
                    for name in judges.broken(each):
                        spent = time.monotonic() - started
                        return Graph(len(seen), edges, depth + 1, spent, name, depth + 1)
        frontier = found
    return Graph(len(seen), edges, depth, time.monotonic() - started)

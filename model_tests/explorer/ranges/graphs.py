"""The graphs of `MCRanges.tla` and of the modules beside it, by the reducer of ranges."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set

from kafka_marshal.modelcheck.models import Model
from model_tests.explorer import configuration, explore, substitutions
from model_tests.explorer.configuration import Configuration
from model_tests.explorer.explore import Graph
from model_tests.explorer.ranges import cut, liveness, properties, suffix, world
from model_tests.explorer.ranges.cut import EnvironmentOfCuts, JudgesOfCuts
from model_tests.explorer.ranges.environment import EnvironmentOfRanges
from model_tests.explorer.ranges.liveness import EnvironmentOfFairness, JudgesOfFairness
from model_tests.explorer.ranges.properties import JudgesOfRanges, step_judges
from model_tests.explorer.ranges.suffix import EnvironmentOfSuffixes, JudgesOfSuffixes
from model_tests.explorer.substitutions import Replaced


def _promised(cfg: Configuration) -> tuple[str, ...]:
    return (*cfg.names("INVARIANTS"), *cfg.names("PROPERTIES"))


def explore_ranges(model: Model) -> Graph:
    """The graph of one model of `MCRanges.tla`."""
    cfg = configuration.read(model.cfg)
    return explore_world(world.world_of(cfg), substitutions.of(cfg), _promised(cfg))


def explore_world(
    given: world.WorldOfRanges, replaced: Replaced, promised: Sequence[str] = ()
) -> Graph:
    """The graph of one world, up to the first step that breaks one of these properties."""

    def begun() -> tuple[EnvironmentOfRanges, JudgesOfRanges]:
        environment = EnvironmentOfRanges(given, step_judges(promised))
        return environment, JudgesOfRanges(given, promised)

    return explore.all_states(begun, replaced)


def explore_cuts(model: Model) -> Graph:
    """The graph of one model of `MCRangesCut.tla`."""
    cfg = configuration.read(model.cfg)
    given, promised = world.world_of(cfg), _promised(cfg)

    def begun() -> tuple[EnvironmentOfCuts, JudgesOfCuts]:
        return EnvironmentOfCuts(given, promised), JudgesOfCuts(given, promised)

    return explore.all_states(begun, substitutions.of(cfg))


def explore_suffixes(model: Model) -> Graph:
    """The graph of one model of `MCRangesSuffix.tla`."""
    cfg = configuration.read(model.cfg)
    given = world.world_of(cfg)

    def begun() -> tuple[EnvironmentOfSuffixes, JudgesOfSuffixes]:
        environment = EnvironmentOfSuffixes(given)
        return environment, JudgesOfSuffixes(environment, _promised(cfg))

    return explore.all_states(begun, substitutions.of(cfg))


def explore_fairness(model: Model) -> Graph:
    """The graph of one model of `MCRangesLiveness.tla`."""
    cfg = configuration.read(model.cfg)
    given, promised = liveness.world_of(cfg), _promised(cfg)

    def begun() -> tuple[EnvironmentOfFairness, JudgesOfFairness]:
        environment = EnvironmentOfFairness(given, promised)
        return environment, JudgesOfFairness(environment, promised)

    return explore.all_states(begun, substitutions.of(cfg))


EXPLORERS: Mapping[str, Callable[[Model], Graph]] = {
    "MCRanges": explore_ranges,
    "MCRangesCut": explore_cuts,
    "MCRangesLiveness": explore_fairness,
    "MCRangesSuffix": explore_suffixes,
}
"""By module."""

JUDGED: Mapping[str, Set[str]] = {
    "MCRanges": properties.JUDGED,
    "MCRangesCut": {*properties.OF_STATE, cut.NONE_GRANTED_LATE},
    "MCRangesLiveness": {*liveness.OF_STEP, liveness.EVERYTHING_PROCESSED},
    "MCRangesSuffix": suffix.OF_SUFFIX.keys(),
}
"""By module: the names of the properties that Python judges."""

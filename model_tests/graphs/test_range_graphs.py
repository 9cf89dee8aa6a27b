"""Marshal promises that ranges, in the specification's environment, do neither more nor less.

The worlds of `MCRanges`, `MCRangesCut`, `MCRangesSuffix` and `MCRangesLiveness`, over the shipped
reducer. `make model-full` explores all of them; here are small ones, and broken ones. By day of
those that break the same property one is explored.
"""

from __future__ import annotations

from graphlib import TopologicalSorter

import pytest
from tools.runs import spec
from tools.runs.by_day import one_of_each

from kafka_marshal.core.ranges.invariants import RangesProperty
from kafka_marshal.modelcheck import models
from kafka_marshal.modelcheck.models import Model, ModelKind
from model_tests.edges import consumer_edges
from model_tests.explorer import compare, configuration, substitutions
from model_tests.explorer.ranges import graphs, liveness, world
from model_tests.explorer.ranges import mistakes as mistakes_of_ranges
from model_tests.explorer.ranges.liveness import EnvironmentOfFairness, FairState
from model_tests.explorer.substitutions import Replaced
from model_tests.names.test_names import operators
from model_tests.ranges.mutants import MUTANTS

OF_RANGES = [m for m in models.read() if m.module.stem in graphs.EXPLORERS]
MUST_FAIL = [m for m in OF_RANGES if m.must_fail]
SMALL = (
    *("MCRanges_AloStart", "MCRanges_AmoOriginal", "MCRanges_AloFull", "MCRanges_AloBadHeader"),
    *("MCRangesCut_Amo", "MCRangesSuffix_Alo", "MCRangesLiveness_Alo"),
)
LONG = {
    *("MCRanges_Broken_LiveHolderKept_SleepRobs", "MCRanges_Broken_NoneSkipped_DoneBeyondItsView"),
    *("MCRangesCut_Limit_NoneSkipped", "MCRangesCut_Limit_PositionIsLow"),
}
"""Many states until they fail."""


@pytest.mark.parametrize("name", SMALL)
def test_ranges_give_the_graph_of_the_specification(name: str) -> None:
    compared = compare.compare(consumer_edges.find(name))
    assert compared.equal, compared.difference


@pytest.mark.parametrize(
    "model",
    [
        *one_of_each(
            [m for m in MUST_FAIL if m.name not in LONG], lambda m: (m.module.stem, m.violates)
        ),
        *(pytest.param(m, marks=pytest.mark.night) for m in MUST_FAIL if m.name in LONG),
    ],
    ids=lambda model: model.name,
)
def test_a_rule_of_ranges_left_out_breaks_the_same_property(model: Model) -> None:
    compared = compare.compare(model)
    assert compared.equal, compared.difference


def test_every_model_of_ranges_is_explored() -> None:
    assert [model.name for model in OF_RANGES if not compare.is_compared(model)] == []
    for model in OF_RANGES:
        substitutions.of(configuration.read(model.cfg))  # raises UnknownName


def test_every_property_of_ranges_has_been_seen_to_fail() -> None:
    assert {model.violates for model in MUST_FAIL} >= {prop.value for prop in RangesProperty}


def constants(model: Model) -> tuple[frozenset[tuple[str, str]], ...]:
    """What makes a model's world: all of its cfg but what it judges."""
    cfg = configuration.read(model.cfg)
    return frozenset(cfg.assigned.items()), frozenset(cfg.substituted.items())


def test_every_world_that_must_hold_reaches_what_it_is_about() -> None:
    reaching = [constants(m) for m in OF_RANGES if m.kind is ModelKind.REACHABILITY]
    hold = [m for m in OF_RANGES if not m.must_fail and spec.ONLY_IF_NAMED not in m.tags]
    assert [model.name for model in hold if constants(model) not in reaching] == []


NOTICED_IN = {
    "MCRanges_AloStart": (
        *("ReleaseEndsThem", "BeginsAtZero", "EachTenureIsNew", "NeverSleeps", "NotAlive"),
        *("EverybodyIsHeardAsleep", "EverybodyIsHeard", "NotTheLastSeen", "NothingIsDone"),
        *("NothingIsGivenBack", "KeepCountsForDone", "StaysOpen", "AllThatThereIs"),
        *("OnlyTheLimit", "GivesWhoOnlyLives", "HeldByTheOwner", "LeavesTheFrontier"),
    ),
    "MCRanges_AloBadHeader": (
        *("SurviveAnExclusiveTenure", "SurviveASet", "AnyHeaderShares", "VoidKeepsThem"),
        *("TenureBeginsAtThePosition", "NeedsNoAnchor"),
    ),
}
"""Mutants of the reducer, by the model whose graph they change. `make mutants` has all of them."""


@pytest.mark.parametrize("name", NOTICED_IN)
def test_a_mutant_of_ranges_gives_another_graph(name: str) -> None:
    model = consumer_edges.find(name)
    given = world.world_of(configuration.read(model.cfg))
    mutants = {each.mistake.name: each.mistake for each in MUTANTS}
    for mutant in NOTICED_IN[name]:
        found = graphs.explore_world(given, Replaced(machines=(mutants[mutant],)))
        assert (found.states, found.edges) != (model.states, model.edges), mutant


def test_every_substitution_of_ranges_is_one_of_the_specification() -> None:
    modules = ("Ranges", "RangesReader", "Participant", *graphs.EXPLORERS)
    known = {name for module in modules for name in operators(module)}
    for pair in mistakes_of_ranges.AS_SPECIFIED:
        assert known.issuperset(pair), pair


def test_no_step_leads_back_where_liveness_is_judged_by_where_a_behaviour_ends() -> None:
    model = consumer_edges.find("MCRangesLiveness_Alo")
    environment = EnvironmentOfFairness(liveness.world_of(configuration.read(model.cfg)))
    first = environment.initial()
    leads_to: dict[FairState, list[FairState]] = {}
    left = [first]
    while left:
        state = left.pop()
        if state not in leads_to:
            leads_to[state] = environment.successors(state)
            left += leads_to[state]
    assert len(leads_to) == model.states
    TopologicalSorter(leads_to).prepare()  # raises CycleError

"""Marshal promises that its machines, in the specification's environment, do neither more nor less.

A Python explorer over the reducer and the machines finds as many states and edges as TLC, and with
a broken rule the same property broken after as many states. `make model-full` does it for every
model; here are small ones.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import attrs
import pytest
from tools.runs.by_day import one_of_each, sampled

from kafka_marshal.core.claims.invariants import Property
from kafka_marshal.machines.consumer.intervals import Intervals
from kafka_marshal.modelcheck import models
from kafka_marshal.modelcheck.models import ModelKind
from model_tests.edges import consumer_edges
from model_tests.explorer import compare, configuration, explore, substitutions
from model_tests.explorer.admins import environment as environment_of_admins
from model_tests.explorer.admins import mistakes as mistakes_of_admins
from model_tests.explorer.admins import properties as properties_of_admins
from model_tests.explorer.claims import mistakes, properties, world
from model_tests.explorer.intervals import environment as environment_of_intervals
from model_tests.explorer.ranges import graphs as graphs_of_ranges
from model_tests.explorer.substitutions import Replaced, UnknownName
from model_tests.mutants.hand_made import HandMade

SMALL = (
    "MCFenced_LivenessReleased",
    "MCFenced_AloMixed",
    "MCFenced_AmoTwo",
    "MCRecords_FencedDeep",
    "MCSuffix_Joins",
    "MCSuffix_Clock",
    "MCSetPosition_OneAfterOther",
)
LARGER = ("MCSetPosition_Two",)


@pytest.mark.tlc
@pytest.mark.parametrize(
    "name", [*SMALL, *(pytest.param(name, marks=pytest.mark.night) for name in LARGER)]
)
def test_the_machines_give_the_graph_of_the_specification(name: str) -> None:
    compared = compare.compare(consumer_edges.find(name))
    assert compared.equal, compared.difference


BROKEN = [
    model
    for model in models.read()
    if model.kind is ModelKind.BROKEN
    and compare.is_compared(model)
    and model.module.stem not in {*graphs_of_ranges.EXPLORERS, "MCGroupWorld"}  # in their rooms
]


@pytest.mark.tlc
@pytest.mark.parametrize(
    "model",
    one_of_each(BROKEN, lambda model: (model.module.stem, model.violates)),
    ids=lambda model: model.name,
)
def test_a_broken_rule_breaks_the_same_property_after_as_many_states(model: models.Model) -> None:
    compared = compare.compare(model)
    assert compared.equal, compared.difference


def test_the_properties_that_machines_can_break_have_been_seen_to_fail() -> None:
    assert {model.violates for model in BROKEN} >= {
        *(Property.AT_MOST_ONCE.value, Property.MUTEX.value, Property.NONE_SKIPPED.value),
        *(Property.REPROCESSING_BOUND.value, Property.RELEASE_REPEATS_NOTHING.value),
        *(Property.MONOTONE_POSITION.value, Property.MONOTONE_EPOCH.value, "SuffixExact"),
        Property.BEGINS_WHERE_THE_LOG_SAYS.value,
        *(Property.WRITES_ALL_OR_NONE.value, Property.NEVER_HALF_SET_SILENTLY.value),
        *(Property.LATER_PAUSE_WINS.value, Property.LOSER_IS_TOLD.value),
        *(Property.NEXT_IS_WARNED.value, Property.PAUSE_HOLDS.value),
        Property.SET_POSITION_STICKS.value,
    }


def test_every_mistake_that_the_specification_makes_too_is_explored() -> None:
    explored = {
        mutant
        for model in BROKEN
        for mutant in substitutions.of(configuration.read(model.cfg)).machines
    }
    assert explored >= {
        *(*mistakes.AS_SPECIFIED, *mistakes.READERS),
        *mistakes_of_admins.AS_SPECIFIED,
    }


WITHOUT_A_PROPERTY = {
    "AsksAgain": "MCFenced_LivenessReleased",
    "NeverReadBack": "MCFenced_Liveness",
    "NeverStops": "MCFull_AloTwinsAgain",
    "NamesNobody": "MCFenced_AloRestart",
    "SeesTooMuch": "MCSuffix_Admin",
}


@pytest.mark.tlc
@pytest.mark.parametrize("name", WITHOUT_A_PROPERTY)
def test_a_machine_with_a_slip_gives_another_graph(name: str) -> None:
    [mutant] = [each for each in mistakes.SLIPS if each.name == name]
    model = consumer_edges.find(WITHOUT_A_PROPERTY[name])
    found = graph_with(mutant, model)
    assert (found.states, found.edges) != (model.states, model.edges)


ADMINISTRATORS_WITHOUT_A_PROPERTY = {
    "SetsWherever": "MCSetPosition_OneAfterOther",
    "TakesItsTime": "MCSetPosition_OneAfterOther",
    "EverythingMayLand": "MCSetPosition_LossyOfOne",
}


@pytest.mark.tlc
@pytest.mark.parametrize("name", ADMINISTRATORS_WITHOUT_A_PROPERTY)
def test_an_administrator_with_a_slip_gives_another_graph(name: str) -> None:
    [mutant] = [each for each in mistakes_of_admins.SLIPS if each.name == name]
    model = consumer_edges.find(ADMINISTRATORS_WITHOUT_A_PROPERTY[name])
    bounds = environment_of_admins.bounds(model)
    found = explore.explore_bounds_of_admins(bounds, Replaced(machines=(mutant,)))
    assert (found.states, found.edges) != (model.states, model.edges)


def hears_no_win(patch: pytest.MonkeyPatch) -> None:
    """A win says nothing before its first heartbeat."""
    patch.setattr(Intervals, "won", lambda *_: None)


def waits_by_its_own(patch: pytest.MonkeyPatch) -> None:
    """Others live by our interval, though theirs is longer."""
    patch.setattr(
        Intervals, "_lived", lambda it, line, at_ms: at_ms - line.last.at_ms <= 2 * it.own_ms
    )


def forgets_who_came_first(patch: pytest.MonkeyPatch) -> None:
    """Others stand, also where we came first."""
    patch.setattr(Intervals, "_those_before_us", lambda it, _: others(it))


def others(it: Intervals) -> list[object]:
    return [line for own_ms, line in it._lineages.items() if own_ms != it.own_ms]


@functools.cache
def graph_of_intervals() -> explore.Graph:
    """In the world of one that came first and may stop, with a shorter log."""
    bounds = environment_of_intervals.bounds(consumer_edges.find("MCInterval_Change"))
    return explore.explore_world_of_intervals(attrs.evolve(bounds, log_max=3))


SLIPS = [hears_no_win, waits_by_its_own, forgets_who_came_first]


@pytest.mark.tlc
@pytest.mark.parametrize("slip", sampled(SLIPS, 3))
def test_an_interval_rule_with_a_slip_gives_another_graph(
    slip: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = graph_of_intervals()
    slip(monkeypatch)
    found = graph_of_intervals.__wrapped__()
    assert (found.states, found.edges) != (right.states, right.edges)


def test_every_model_of_a_world_that_must_hold_can_be_explored() -> None:
    held = [model for model in models.read() if not model.must_fail]
    cfgs = [configuration.read(model.cfg) for model in held if compare.is_compared(model)]
    for cfg in cfgs:
        if "World" in cfg.substituted:
            substitutions.of(cfg)  # raises UnknownName


def graph_with(mutant: HandMade, model: models.Model) -> explore.Graph:
    return explore.explore_bounds(world.bounds(model), Replaced(machines=(mutant,)))


@pytest.mark.tlc
def test_a_machine_that_does_not_read_back_its_grant_breaks_at_most_once() -> None:
    """Without the configuration that breaks the specification: by the mutant's own doing."""
    [mutant] = [each for each in mistakes.AS_SPECIFIED if each.name == "GrantsItself"]
    bounds = world.bounds(consumer_edges.find("MCFenced_AmoTwoDeep"))
    found = explore.explore_bounds(bounds, Replaced(machines=(mutant,)), ["AtMostOnce", "Mutex"])
    assert found.broken == Property.AT_MOST_ONCE.value


def test_a_substitution_that_the_explorer_does_not_know_is_an_error() -> None:
    cfg = configuration.parse("CONSTANTS\n  World <- AmoTwo\n  Moved <- Somewhere")
    with pytest.raises(UnknownName, match="Moved <- Somewhere"):
        substitutions.of(cfg)


@pytest.mark.parametrize(
    "text", ["CONSTRAINT OnlyTheFirst", "ACTION_CONSTRAINT Never", "VIEW OnlyTheLog"]
)
def test_a_constraint_that_the_explorer_does_not_know_is_an_error(text: str) -> None:
    with pytest.raises(UnknownName, match=text.split()[1]):
        substitutions.of(configuration.parse(text))


def test_what_only_judges_or_exports_changes_no_graph() -> None:
    cfg = configuration.parse(
        "CONSTANTS\n  SomebodyStaysUp <- B1StaysUp\nACTION_CONSTRAINT ExportStep"
    )
    assert substitutions.of(cfg) == Replaced()


def test_every_invariant_that_is_judged_is_one_of_the_specification() -> None:
    known = {prop.value for prop in Property}
    assert known >= properties.JUDGED
    reachable = {m.violates for m in models.read() if m.kind is ModelKind.REACHABILITY}
    assert known | reachable >= properties_of_admins.JUDGED

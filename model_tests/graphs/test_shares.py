"""Marshal promises that members share by the specified rules, and that each rule is needed.

That the package gives TLC's graphs is `test_equal_graphs`, for the mistakes of the specification;
here are the graphs that must hold, slips that no property forbids, and the names.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import attrs
import pytest
from tests.machines.share.sharing import Group, claims, comes_to_rest, moves_needed

from kafka_marshal.machines.share import rules as fairness
from kafka_marshal.machines.share.rules import ShareMemory
from kafka_marshal.modelcheck import models
from model_tests.edges import consumer_edges
from model_tests.explorer import compare, explore
from model_tests.explorer.shares import environment
from model_tests.explorer.shares import mistakes as mistakes_of_shares
from model_tests.explorer.shares.environment import WorldOfShares
from model_tests.explorer.substitutions import Replaced
from model_tests.from_tla import snake
from model_tests.names.test_names import definition, module, operators, record_fields

SHARE = module("Share")
HOLD = [m for m in models.read() if m.module.stem == "MCFairShare" and not m.must_fail]


@pytest.mark.tlc
@pytest.mark.parametrize("model", HOLD, ids=lambda model: model.name)
def test_members_give_the_graph_of_the_specification(model: models.Model) -> None:
    compared = compare.compare(model)
    assert compared.equal, compared.difference


@pytest.mark.tlc
@pytest.mark.parametrize("name", mistakes_of_shares.SLIPS)
def test_a_member_with_a_slip_gives_another_graph(name: str) -> None:
    model = consumer_edges.find(name)
    replaced = Replaced(machines=mistakes_of_shares.SLIPS[name])
    world = environment.bounds(model)
    # Some of these graphs have no end: what comes back is given back again.
    found = explore.explore_world_of_shares(world, replaced, ("FewMoves",))
    assert (found.states, found.edges, found.broken) != (model.states, model.edges, None)


def test_every_substitution_of_a_model_is_a_mistake_of_that_name() -> None:
    broken = operators("MCFairShare")
    for (replaced, by), mistakes in mistakes_of_shares.AS_SPECIFIED.items():
        assert replaced in operators("Share")
        assert by in broken
        assert [mistake.module for mistake in mistakes] == [fairness]


ONLY_IN_THE_SPECIFICATION = {
    *("NewMemory", "NOBODY"),  # a class; nothing
    *("FreeClaims", "OwnedBy", "CountOf", "KnownMembers", "CanOwn", "Asks"),  # of Seen
    *("IsNamed", "IsBetter", "Best", "IsRicher", "IsPoorer"),  # Seen.named; keys of `min`, of heaps
    *("Lowest", "InOrder", "Offered", "AskedFor"),  # loops
    "IsForPoorer",  # by topic: topics_for_poorer
}


def test_every_rule_is_a_function_of_that_name() -> None:
    names = operators("Share") - ONLY_IN_THE_SPECIFICATION
    in_python = set(vars(fairness))
    missing = {
        name
        for name in names
        if not {snake(name), f"_{snake(name)}", snake(name).upper()} & in_python
    }
    assert missing == set()
    assert operators("Share") >= ONLY_IN_THE_SPECIFICATION


def test_a_memory_and_a_world_have_the_fields_of_the_specification() -> None:
    assert record_fields(definition(SHARE, "NewMemory")) == [
        f.name for f in attrs.fields(ShareMemory)
    ]
    base = record_fields(definition(module("MCFairShare"), "Base"))
    fields = [name for name in base if name not in {"member", "keys"}]
    assert fields == [f.name for f in attrs.fields(WorldOfShares)]


# --- each rule is needed where time passes, too ---------------------------------------------------


def _join(keys: int, first: int, more: int) -> None:
    """Some settle down, more join, and no move is one too many."""
    group = Group(claims(keys), Random(1))
    for n in range(first):
        group.join(f"c{n}")
    group.run(15)
    group.moves = 0
    for n in range(more):
        group.join(f"d{n}")
    comes_to_rest(group, moves_needed(group))


def _one_joins_four() -> None:
    _join(12, 4, 1)


def _four_join_one() -> None:
    _join(6, 1, 4)


def _start_together() -> None:
    group = Group(claims(12), Random(1))
    for n in range(4):
        group.join(f"c{n}")
    comes_to_rest(group, 0)


def _one_keeps_what_is_static() -> None:
    group = Group(claims(12), Random(1))
    group.join("c0", static=sorted(claims(12))[:5])
    group.run(10)
    group.join("c1")
    comes_to_rest(group, 6)


NOTICED_BY: dict[tuple[str, str], Callable[[], None]] = {
    ("Difference", "One"): _one_joins_four,
    ("OfferedToMe", "AllFree"): _start_together,
    ("IsAnnounced", "NeedNotAnnounce"): _start_together,
    ("ClaimsToGive", "GivesAnything"): _one_joins_four,
    ("ClaimsToGive", "GivesNothing"): _four_join_one,
    ("OnTheWay", "NothingUnderWay"): _four_join_one,
    ("IsForPoorer", "NobodyIsPoorer"): _four_join_one,
    ("WantsToName", "NamesNothing"): _four_join_one,
    ("Untried", "AllAnew"): _one_keeps_what_is_static,
}


@pytest.mark.parametrize(
    "story", [_one_joins_four, _four_join_one, _start_together, _one_keeps_what_is_static]
)
def test_a_group_with_the_right_rules_comes_to_rest(story: Callable[[], None]) -> None:
    story()


@pytest.mark.parametrize("substitution", NOTICED_BY, ids="-".join)
def test_a_group_with_a_broken_rule_is_noticed(substitution: tuple[str, str]) -> None:
    [mutant] = mistakes_of_shares.AS_SPECIFIED[substitution]
    with mutant.made(), pytest.raises(AssertionError):
        NOTICED_BY[substitution]()

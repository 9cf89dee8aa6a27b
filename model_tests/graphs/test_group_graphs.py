"""Marshal promises that groups, in the specification's environment, do neither more nor less.

The worlds of `MCGroupWorld.tla`, over the shipped reducer, controllers and members. `make
model-full` explores all of them; here are small ones, and every mistake that the machines can make.
"""

from __future__ import annotations

import pytest

from kafka_marshal.modelcheck import models
from kafka_marshal.modelcheck.models import Model
from model_tests.edges import consumer_edges
from model_tests.explorer import compare
from model_tests.explorer.groups import graphs, world
from model_tests.explorer.substitutions import UnknownName

OF_GROUPS = [m for m in models.read() if m.module.stem == "MCGroupWorld"]
COMPARED = [m for m in OF_GROUPS if compare.is_compared(m)]
SMALL = ("MCGroupWorld_Move", "MCGroupWorld_Eager", "MCGroupWorld_Again")


@pytest.mark.parametrize("name", SMALL)
def test_groups_give_the_graph_of_the_specification(name: str) -> None:
    compared = compare.compare(consumer_edges.find(name))
    assert compared.equal, compared.difference


@pytest.mark.parametrize(
    "model", [m for m in COMPARED if m.must_fail], ids=lambda model: model.name
)
def test_a_rule_of_groups_left_out_breaks_the_same_property(model: Model) -> None:
    compared = compare.compare(model)
    assert compared.equal, compared.difference


def test_every_world_of_groups_that_must_hold_is_explored() -> None:
    edges = sum(model.edges or 0 for model in COMPARED)
    assert {m.name for m in OF_GROUPS if not m.must_fail} <= {m.name for m in COMPARED}
    assert edges >= 1_000_000
    made = {each.name for model in COMPARED for each in graphs.mistakes(model)}
    assert made == {each.name for each in graphs.MISTAKES.values()}


def test_a_cfg_that_says_more_is_not_explored() -> None:
    model = next(m for m in OF_GROUPS if m.name.endswith("NoBarrier"))
    with pytest.raises(UnknownName, match="BarrierHolds"):
        world.world_of(model)

"""What the models must give; `make spec` runs all of them, this only those in `test`."""

from __future__ import annotations

import re

import pytest
from tools.runs import spec

from kafka_marshal import Accepted, Refused
from kafka_marshal.core.claims.invariants import Property
from kafka_marshal.modelcheck import models
from kafka_marshal.modelcheck.models import Model, ModelKind
from model_tests.names.test_names import MARSHAL, SPEC, definition

KNOWN = models.read()


def of_kind(*kinds: ModelKind) -> list[Model]:
    return [model for model in KNOWN if model.kind in kinds]


@pytest.mark.tlc
def test_the_models_in_test_give_what_is_recorded(pytestconfig: pytest.Config) -> None:
    """By day one of each kind, if it changed since it last did; with `--all` TLC runs every one."""
    chosen = [model for model in KNOWN if "test" in model.tags]
    assert {model.must_fail for model in chosen} == {False, True}
    if pytestconfig.getoption("all"):
        fresh = ["--fresh"]
    else:
        fresh, chosen = [], [*{model.kind: model for model in reversed(chosen)}.values()]
    assert spec.main([*fresh, *(model.name for model in chosen)]) == 0


def test_every_model_has_its_figures() -> None:
    for model in KNOWN:
        if model.must_fail:
            assert model.length, model.name
        else:
            assert model.states, model.name
            assert model.edges, model.name


def test_every_configuration_is_a_model_and_every_model_a_configuration() -> None:
    assert {model.cfg.name for model in KNOWN} == {
        path.name for path in SPEC.glob("models/*/*.cfg")
    }


def test_every_property_is_broken_by_some_variant() -> None:
    broken = {model.violates for model in of_kind(ModelKind.BROKEN)}
    assert broken >= {prop.value for prop in Property}


def actions() -> set[str]:
    """The actions of Next: what the world can do."""
    return set(re.findall(r"\b(?!E\b)([A-Z]\w+)(?=\(i\)|\n|$)", definition(MARSHAL, "Next"))) - {
        "Instances"
    }


def test_every_action_is_reachable() -> None:
    violated = {model.violates for model in of_kind(ModelKind.REACHABILITY)}
    assert {f"Never{action}" for action in actions()} <= violated


def test_every_verdict_is_reachable() -> None:
    violated = {str(model.violates) for model in of_kind(ModelKind.REACHABILITY)}
    names = {member.value for kind in (Accepted, Refused) for member in kind}
    camel = {"".join(part.capitalize() for part in name.split("_")) for name in names}
    assert {f"Never{name}" for name in camel} <= violated


def test_every_fault_of_the_original_is_a_model_that_must_fail() -> None:
    letters = {
        match[1] for m in of_kind(ModelKind.FAULT) if (match := re.search(r"_([a-i])_", m.name))
    }
    assert letters == set("abcdefghi")
    assert all(model.must_fail for model in of_kind(ModelKind.FAULT))


def test_the_actions_are_those_of_the_architecture() -> None:
    page = (SPEC.parent / "ARCHITECTURE.md").read_text(encoding="utf-8")
    [sentence] = re.findall(r"\*\*Actions of the environment\*\*:(.*?)\n\n", page, re.DOTALL)
    named = {name for names in re.findall(r"`([\w,\s]+)`", sentence) for name in names.split(",")}
    assert {name.strip() for name in named} == actions()

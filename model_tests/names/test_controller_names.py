"""Marshal promises that a controller has the vocabulary of `Controller.tla`."""

from __future__ import annotations

import re

import attrs

from kafka_marshal.machines.groups import controller
from kafka_marshal.machines.groups.controller import ControllerState
from model_tests.from_tla import snake
from model_tests.names.test_names import definition, module, operators, record_fields

CONTROLLER = re.sub(" +==", " ==", module("Controller"))
OF_THE_DRIVERS = {"read", "waiting"}
"""Fields that `controlled_log` and `waiting` keep."""
ELSEWHERE = {
    "NewController",  # the default ControllerState
    "HasGroup",
    "TheGroup",
    "AnswersFrom",
    "AnswerTo",  # `bodies.register_answer`
    "EndIs",  # `controlled_log`
    "Owes",  # `Holdings.owed`
    "IsToRegister",  # `answering`, of a heartbeat
}
PYTHON_ONLY = {
    "ahead",  # `Speculative`, kept
}


def test_a_controller_has_the_same_fields_in_the_same_order() -> None:
    said = record_fields(definition(CONTROLLER, "NewController"))
    has = [field.name for field in attrs.fields(ControllerState)]
    assert [name for name in said if name not in OF_THE_DRIVERS] == [
        name for name in has if name not in PYTHON_ONLY
    ]


def test_every_rule_of_a_controller_is_a_function_of_that_name() -> None:
    assert {snake(name) for name in operators("Controller") - ELSEWHERE} <= {*vars(controller)}
    assert operators("Controller") >= ELSEWHERE

"""One vocabulary for administrators: the names of Admin.tla and of Python, in both directions."""

from __future__ import annotations

import re

import attrs

from kafka_marshal.core.claims import pause_work as work
from kafka_marshal.core.claims.pause_work import PauseWork
from kafka_marshal.machines.admin import admin, operation
from kafka_marshal.machines.admin.operation import AdminForbidden, Operation, Phase, Reason
from model_tests.from_tla import snake
from model_tests.names.test_names import definition, module, operators, record_fields, strings

ADMIN = module("Admin")


def test_every_phase_reason_and_guard_has_one_name_and_one_place() -> None:
    for name, enum in (("Phases", Phase), ("AdminForbidden", AdminForbidden), ("Reasons", Reason)):
        specified = [snake(each) for each in strings(definition(ADMIN, name))]
        assert specified == [member.value for member in enum]
        assert specified == [member.name.lower() for member in enum]


def test_an_operation_and_a_work_have_the_same_fields_in_the_same_order() -> None:
    only_in_python = {"group", "view"}
    ours = [f.name for f in attrs.fields(Operation) if f.name not in only_in_python]
    inner = {"key", "keys"}  # of functions
    fields = [f for f in record_fields(definition(ADMIN, "NewAdministrator")) if f not in inner]
    assert fields == ours
    works = [f.name for f in attrs.fields(PauseWork)]
    assert record_fields(definition(ADMIN, "NoWork")) == works


ONLY_IN_THE_SPECIFICATION = {
    *("Phases", "AdminForbidden", "Reasons", "NewAdministrator"),  # enums and classes
    *("NoWork", "NoResult"),  # values
    *("Targets", "ResultOf", "PhaseToldBy"),  # `operation.targets`; both in after_ending
    *("Concerns", "PassedOver", "ConsumersAfter", "WorkRead"),  # consumer_of, _folded
    *("AwaitsAfter", "WarnedAfter"),  # after_reading
}


def test_every_operator_of_an_administrator_is_a_function_of_that_name() -> None:
    rooms = (admin, operation, work)
    missing = {
        name
        for name in operators("Admin") - ONLY_IN_THE_SPECIFICATION
        if not any(hasattr(room, snake(name)) for room in rooms)
    }
    assert missing == set()


def test_every_guard_is_asked_somewhere_in_its_order() -> None:
    order = strings(definition(ADMIN, "AdminForbidden"))
    given = re.findall(r'THEN "(\w+)"', ADMIN)
    assert set(order) <= set(given)

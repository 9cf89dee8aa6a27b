"""One vocabulary, of machines and readers: names in Consumer.tla, Reader.tla and in Python."""

from __future__ import annotations

import inspect
import re

import attrs

from kafka_marshal.core.claims import suffix_reader as knowledge
from kafka_marshal.core.claims.suffix_reader import EVERYTHING, Knowledge, Reader
from kafka_marshal.machines.consumer import consumer as machine
from kafka_marshal.machines.consumer.consumer import ConsumerState, Forbidden, InstanceConfig, Mode
from model_tests.explorer.claims.world import World
from model_tests.from_tla import ONLY_IN_PYTHON, ONLY_IN_THE_SPECIFICATION, snake
from model_tests.names.test_names import (
    CONSUMER,
    MARSHAL,
    definition,
    module,
    operators,
    record_fields,
    strings,
)

READER = module("Reader")


def functions(room: object, pattern: str) -> set[str]:
    """The functions of a module whose whole name is like this."""
    found = inspect.getmembers(room, inspect.isfunction)
    return {name for name, _ in found if re.fullmatch(pattern, name)}


def named(pattern: str) -> set[str]:
    """The operators of Consumer.tla whose whole name is like this, as Python writes them."""
    return {snake(name) for name in operators("Consumer") if re.fullmatch(pattern, name)}


def test_every_reason_against_has_one_name_and_one_place() -> None:
    assert [snake(name) for name in strings(definition(CONSUMER, "Forbidden"))] == [
        reason.value for reason in Forbidden
    ]
    assert [reason.name.lower() for reason in Forbidden] == [reason.value for reason in Forbidden]


def test_a_consumer_has_the_same_fields_in_the_same_order() -> None:
    ours = [field.name for field in attrs.fields(ConsumerState)]
    assert record_fields(definition(CONSUMER, "NewConsumer")) == ours


def test_a_reader_has_the_same_fields_in_the_same_order() -> None:
    ours = [field.name for field in attrs.fields(Reader)]
    assert record_fields(definition(READER, "NewReader")) == ours


def test_what_can_be_certain_has_one_name() -> None:
    assert set(strings(definition(READER, "Fields"))) == EVERYTHING.names


def test_how_well_a_reader_knows_has_one_name() -> None:
    assert {snake(name) for name in strings(definition(READER, "Knowledge"))} == {
        each.value for each in Knowledge
    }


def test_who_an_instance_is_has_the_same_fields() -> None:
    ours = {field.name for field in attrs.fields(InstanceConfig)} - ONLY_IN_PYTHON
    assert set(record_fields(definition(MARSHAL, "Me"))) - ONLY_IN_THE_SPECIFICATION == ours


def test_modes_are_called_as_the_specification_calls_them() -> None:
    text = (definition(CONSUMER, "MayClaim"), definition(CONSUMER, "MayProcess"))
    assert {mode.value for mode in Mode} == set(re.findall(r'mode #? ?=? ?"(\w+)"', "".join(text)))


def test_every_guard_is_a_function_and_every_such_function_a_guard() -> None:
    assert named(r"May\w+") == functions(machine, r"may_\w+")


ONLY_THE_ORIGINAL_S = {"fast_reclaim_sent"}
"""The machine is ours; the explorer has the original's restart."""


def test_everything_sent_is_a_function_and_the_reverse() -> None:
    assert named(r"\w+Sent") - ONLY_THE_ORIGINAL_S == functions(machine, r"[a-z]\w+_sent")


WITH_A_FOLD = {"after_fold"}
"""`after_read` for a reader that has folded the record already."""


def test_everything_remembered_is_a_function_and_the_reverse() -> None:
    assert named(r"After\w+") == functions(machine, r"after_\w+") - WITH_A_FOLD


def test_what_it_believes_is_called_the_same() -> None:
    names = {"Owns", "HasResigned", "ActsOn", "Acts", "OffsetToSend", "InWindow", "CanCertify"}
    names |= {"SupersedesOf", "GrantRead", "LostToOwnClient", "Floor"}
    assert names <= operators("Consumer")
    assert {snake(name) for name in names} <= functions(machine, r"\w+")


def test_a_world_has_the_fields_of_the_base_world() -> None:
    base = record_fields(definition(module("MCFenced"), "Base"))
    assert {field.name for field in attrs.fields(World)} == set(base)


def test_readers_are_read_by_the_function_of_that_name() -> None:
    assert "ReadRecord" in operators("Reader")
    assert callable(knowledge.read_record)

"""Marshal promises one vocabulary for participants: `Participant.tla`'s, in both directions."""

from __future__ import annotations

import re

import attrs

from kafka_marshal.machines.ranges import participant as machine
from kafka_marshal.machines.ranges.participant import (
    ANCHOR,
    HeldRange,
    Participant,
    ParticipantConfig,
    ParticipantForbidden,
)
from model_tests.from_tla import snake
from model_tests.names.test_machine_names import functions
from model_tests.names.test_names import definition, module, operators, record_fields, strings

PARTICIPANT = module("Participant")


def named(pattern: str) -> set[str]:
    """The operators of Participant.tla whose whole name is like this, as Python writes them."""
    return {snake(name) for name in operators("Participant") if re.fullmatch(pattern, name)}


def fields(kind: type[attrs.AttrsInstance]) -> list[str]:
    return [field.name.rstrip("_") for field in attrs.fields(kind)]


def test_every_reason_against_has_one_name_and_one_place() -> None:
    specified = [snake(name) for name in strings(definition(PARTICIPANT, "ParticipantForbidden"))]
    assert specified == [reason.value for reason in ParticipantForbidden]
    assert specified == [reason.name.lower() for reason in ParticipantForbidden]


def test_every_reason_against_is_given_by_a_guard() -> None:
    order = strings(definition(PARTICIPANT, "ParticipantForbidden"))
    given = re.findall(r'(?:THEN|ELSE) "(\w+)"', PARTICIPANT)
    assert set(order) == set(given) - {"ReleaseGroup"}


def test_a_participant_and_what_it_holds_have_the_same_fields_in_the_same_order() -> None:
    assert record_fields(definition(PARTICIPANT, "NewParticipant")) == fields(Participant)
    assert record_fields(definition(PARTICIPANT, "HeldRange")) == fields(HeldRange)


ONLY_IN_PYTHON = {"rules", "limits", "says_interval"}
"""Constants of a model; an interval decides nothing."""


def test_who_a_participant_is_has_the_same_fields() -> None:
    specified = record_fields(definition(module("MCRanges"), "Who"))
    assert specified == [name for name in fields(ParticipantConfig) if name not in ONLY_IN_PYTHON]


def test_the_anchor_has_one_name() -> None:
    assert strings(definition(PARTICIPANT, "ANCHOR")) == [ANCHOR]


OF_HOLDING = {"may_still_process_to"}


def test_every_guard_is_a_function_and_every_such_function_a_guard() -> None:
    assert named(r"May\w+") == functions(machine, r"may_\w+")
    assert named(r"May\w+") >= OF_HOLDING


def test_everything_sent_is_a_function_and_the_reverse() -> None:
    inner = {"ranging_sent"}  # `_ranging`
    assert named(r"\w+Sent") - inner == functions(machine, r"[a-z]\w+_sent")


def test_everything_remembered_is_a_function_and_the_reverse() -> None:
    assert named(r"After\w+") == functions(machine, r"after_\w+")


def test_what_it_believes_is_called_the_same() -> None:
    names = {"IsAnchored", "Shares", "OwnOpen", "DoneToSend", "KeepToSend", "AnchorAt", "Room"}
    names |= {"HasRoomFor", "StillHolds", "GrantRead"}
    assert names <= operators("Participant")
    assert {snake(name) for name in names} <= functions(machine, r"\w+")
    assert "Owed" in operators("Participant")
    assert callable(machine.owed_from)

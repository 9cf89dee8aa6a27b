"""Marshal promises that ranges have one vocabulary: `Ranges.tla`'s, compared in both directions."""

from __future__ import annotations

import enum
import re

import attrs
import pytest

from kafka_marshal.core import wire
from kafka_marshal.core.claims.verdicts import FENCED_WINS, Refused
from kafka_marshal.core.messages import ClaimingRange
from kafka_marshal.core.ranges import claiming_range, deliveries, invariants, reader, reducer
from kafka_marshal.core.ranges.claiming_range import RangeOutcome
from kafka_marshal.core.ranges.messages import RangeHeaders, RangesRecord
from kafka_marshal.core.ranges.state import Interval, Limits, OpenRange, Ranges, SignOfLife
from kafka_marshal.core.ranges.verdicts import RangeAccepted, RangeRefused, Unmet
from kafka_marshal.counterexample.model import spec_name
from model_tests.from_tla import snake
from model_tests.names.test_names import definition, module, operators, record_fields, strings

RANGES = module("Ranges")
MC = module("MCRanges")


def fields(kind: type[attrs.AttrsInstance]) -> list[str]:
    return [field.name.rstrip("_") for field in attrs.fields(kind)]


def test_the_ranges_of_a_claim_have_the_same_fields_in_the_same_order() -> None:
    assert record_fields(definition(RANGES, "NewRanges")) == fields(Ranges)


@pytest.mark.parametrize(
    ("where", "kind"),
    [("Holding", OpenRange), ("Interval", Interval), ("Alive", SignOfLife)],
)
def test_a_part_of_them_has_the_same_fields(where: str, kind: type[attrs.AttrsInstance]) -> None:
    assert record_fields(definition(RANGES, where)) == fields(kind)


def test_an_outcome_and_the_headers_have_the_same_fields() -> None:
    assert record_fields(definition(RANGES, "RangeOutcome")) == fields(RangeOutcome)
    assert record_fields(definition(RANGES, "NoRangeHeaders")) == fields(RangeHeaders)
    assert [header.field for header in wire.RANGE_HEADERS] == fields(RangeHeaders)


def test_a_record_of_ranges_has_the_same_fields() -> None:
    free_choices = {"stale", "pause_over", "silent"}
    ours = {*fields(RangesRecord)} - {"partition"}
    assert {*record_fields(definition(MC, "Record"))} - free_choices == ours


def test_a_claiming_range_says_a_count_and_no_offset() -> None:
    assert "count" in record_fields(definition(module("Participant"), "Message"))
    address = [*wire.TIME, *wire.ADDRESS]
    assert fields(ClaimingRange) == [*address, "count"]


def test_the_limits_are_called_as_the_constants() -> None:
    assert [snake(name) for name in re.findall(r"\w+Max\b", declared())] == fields(Limits)


def declared() -> str:
    found = re.search(r"^CONSTANTS\b(.*?)(?=^\S)", RANGES, re.DOTALL | re.MULTILINE)
    assert found
    return found[1]


def values(kind: type[enum.Enum]) -> list[str]:
    return [member.value for member in kind]


def test_every_verdict_has_one_name_and_every_guard_one_place() -> None:
    accepted = {snake(name) for name in strings(definition(RANGES, "RangeVerdicts"))}
    assert accepted == {*values(RangeAccepted)}
    refused = [snake(name) for name in strings(definition(RANGES, "RangeRefused"))]
    assert refused == values(RangeRefused)
    asked = {snake(name) for name in strings(definition(RANGES, "Asked"))}
    assert asked == accepted | {*values(Unmet)}


@pytest.mark.parametrize("kind", [RangeAccepted, RangeRefused, Unmet])
def test_a_member_is_called_as_it_is_printed(kind: type[enum.Enum]) -> None:
    assert [member.name.lower() for member in kind] == values(kind)


def test_what_every_message_is_asked_has_the_claims_names() -> None:
    shared = [member for member in RangeRefused if member.name in Refused.__members__]
    assert [member.value for member in shared] == values(RangeRefused)[:3]


def test_a_win_of_the_claim_is_a_win_up_here() -> None:
    assert {spec_name(each) for each in FENCED_WINS} == {*strings(definition(RANGES, "RangeWins"))}


ONLY_IN_THE_SPECIFICATION = {
    *("NewRanges", "NoRangeHeaders", "RangeVerdicts", "RangeRefused", "RangeWins"),  # values
    *("Interval", "RangeOutcome"),  # classes
    *("Sender", "NotEmpty", "IsRangeMessage"),  # a field; a condition; a `match`
    *("IsSilent", "RecordSaysSilent"),  # a parameter, and free time
    *("InPool", "IntervalsMax", "OpenRangesMax", "RangeMessagesMax"),  # a place; fields
}
CALLED = {"RangesStep": "step", "ClockSaysSilent": "is_silent"}


def test_every_rule_is_a_function_of_that_name() -> None:
    in_python = {*vars(claiming_range), *vars(reducer), *vars(Ranges)}
    missing = {
        name
        for name in operators("Ranges") - ONLY_IN_THE_SPECIFICATION - {"_"}
        if CALLED.get(name, snake(name)) not in in_python
    }
    assert missing == set()
    assert operators("Ranges") >= ONLY_IN_THE_SPECIFICATION | CALLED.keys()


def test_every_property_that_is_judged_is_a_property_of_the_model() -> None:
    names = {prop.value for prop in (*invariants.RangesProperty, *invariants.STEP_CHECKS)}
    assert names <= operators("MCRanges")


def test_every_rule_of_a_late_reader_is_a_function_or_a_class_of_that_name() -> None:
    rules = operators("RangesReader") - {"_"}
    assert len(rules) > 8
    in_python = {*vars(reader)}
    assert {name for name in rules if not in_python & {name, snake(name)}} == set()


@pytest.mark.parametrize("kind", [reader.LogEntry, reader.FoldedState])
def test_a_late_reader_keeps_the_same_fields(kind: type[attrs.AttrsInstance]) -> None:
    assert record_fields(definition(module("RangesReader"), kind.__name__)) == fields(kind)


def test_every_rule_of_who_counts_deliveries_is_a_function_or_a_value_of_that_name() -> None:
    rules = operators("Deliveries") - {"_"}
    assert len(rules) > 4
    in_python = {name.lower() for name in vars(deliveries)}
    assert {name for name in rules if snake(name) not in in_python} == set()
    assert record_fields(definition(module("Deliveries"), "AfterTaken")) == fields(deliveries.Taken)

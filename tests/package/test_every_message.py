"""What knows one message of the protocol knows all of them, or raises an error for the others."""

from __future__ import annotations

import re
import typing
from pathlib import Path

import attrs
import numpy as np
import pytest

from kafka_marshal import FENCED, ORIGINAL, Record, Rules, World, codec
from kafka_marshal.capture import RawRecord
from kafka_marshal.core import wire
from kafka_marshal.core.messages import (
    AMENDMENTS,
    ClaimingRange,
    Headers,
    KeyedMessage,
    Message,
)
from kafka_marshal.core.ranges.invariants import RangesProperty
from kafka_marshal.core.ranges.state import Interval, Limits, OpenRange, Ranges, SignOfLife
from kafka_marshal.core.ranges.verdicts import RangeAccepted, RangeRefused, Unmet
from kafka_marshal.counterexample.words import described
from kafka_marshal.kernel.columns import NameCodes
from kafka_marshal.kernel.fold import KernelFold
from kafka_marshal.kernel.steps import VERDICTS
from kafka_marshal.modelcheck.stories import stories
from kafka_marshal.validate.instances import content
from tests.kernel import hostile
from tests.kernel.kernel import arrays

MESSAGES: tuple[type[Message], ...] = typing.get_args(Message)
each_message = pytest.mark.parametrize("kind", MESSAGES)


def one_of(kind: type[Message], instance: str = "i1") -> Message:
    """One message of a kind; of i1, which owns the claim, unless it says otherwise."""
    keyed = kind in typing.get_args(KeyedMessage)
    content = {
        **{"version": 1, "unix_s": 1_700_000_000, "instance_id": instance, "client_id": "c1"},
        **{"group_id": "g", "topic": "t" if keyed else "", "partition": 0},
    }
    names = [field.name for field in attrs.fields(kind)]
    more = {name: 1_700_000_100 for name in names if name not in content}
    return typing.cast("Message", typing.cast("typing.Any", kind)(**content, **more))


def test_the_wire_table_holds_every_message_and_every_header() -> None:
    assert len({layout.message for layout in wire.MESSAGES}) == len(wire.MESSAGES)
    assert {*wire.BY_CLASS} == {*MESSAGES}
    assert [field.name for field in attrs.fields(Headers)] == [
        "present",
        *(header.field for header in wire.HEADERS),
    ]
    amendments = [header.field for header in wire.HEADERS if header.amends]
    assert tuple(amendments) == AMENDMENTS
    assert [header.amends for header in wire.HEADERS] == sorted(h.amends for h in wire.HEADERS)


@each_message
def test_a_message_is_made_of_its_fields_in_the_order_of_the_wire(kind: type[Message]) -> None:
    layout = wire.BY_CLASS[kind]
    number = () if layout.number is None else (layout.number,)
    fields = [field.name for field in attrs.fields(kind)]
    assert fields == [*wire.TIME, *wire.ADDRESS, *number]
    assert layout.keyed == hasattr(kind, "key")


@each_message
def test_it_survives_its_encoding(kind: type[Message]) -> None:
    message = one_of(kind)
    value = codec.encode(message)
    assert value.startswith(kind.__name__.encode() + b"/")
    assert codec.decode(value) == message


@each_message
@pytest.mark.parametrize("rules", [FENCED, ORIGINAL], ids=["fenced", "original"])
@pytest.mark.parametrize("others", [False, True])
def test_the_kernel_does_with_it_what_the_reducer_does(
    kind: type[Message], rules: Rules, others: bool
) -> None:
    owner = RawRecord(0, 0, 1_700_000_000_000, b"ClaimingPartition/1/1700000000/i1/c1/g/t/0")
    message = codec.encode(one_of(kind, "i2" if others else "i1"))
    raws = [owner, RawRecord(0, 1, 1_700_000_000_001, message)]
    folded, world = KernelFold(rules), World(rules)
    verdicts = folded.apply(
        np.array([raw.offset for raw in raws], np.int64),
        np.array([raw.timestamp_ms for raw in raws], np.int64),
        folded.names.decoded(*arrays(raws)),
    )
    expected = [world.apply(raw.decoded()).verdict for raw in raws]
    assert [VERDICTS[number] for number in verdicts] == expected
    assert folded.claims() == world.claims


@each_message
def test_it_is_told_with_its_number(kind: type[Message]) -> None:
    message = one_of(kind)
    record = Record(0, 1, 0, message)
    numbers = [*attrs.astuple(message)][7:]
    for words in (described(record), content(message, record.headers)):
        assert kind.__name__ in words
        assert not numbers or any(str(n) in words or "22:1" in words for n in numbers)


@each_message
def test_a_story_of_the_specification_can_tell_it(kind: type[Message]) -> None:
    headers = dict.fromkeys(
        ("epoch", "seen", "clock", "supersedes", "set_position", "start"), stories.NONE
    )
    message = {"type": kind.__name__, "offset": 7, "expires_unix_s": 1_700_000_100}
    assert stories._described({"message": message, "headers": headers}).startswith(kind.__name__)


def test_a_message_that_a_story_does_not_know_is_no_story() -> None:
    with pytest.raises(KeyError, match="Whatever"):
        stories._described({"message": {"type": "Whatever"}, "headers": {}})


def test_logs_made_by_chance_hold_all_of_them() -> None:
    assert {*hostile.TYPES} == {kind.__name__ for kind in MESSAGES}
    found = {type(raw.decoded().message) for raw in readable(hostile.log(1, 500))}
    assert found == {*MESSAGES}


def readable(raws: typing.Iterable[RawRecord]) -> typing.Iterator[RawRecord]:
    for raw in raws:
        try:
            raw.decoded()
        except codec.MalformedRecord:
            continue
        yield raw


def test_a_number_that_is_no_message_is_no_other_one() -> None:
    """The kernel is compiled, so nothing but this can find what it leaves out."""
    raw = RawRecord(0, 0, 0, codec.encode(one_of(MESSAGES[0])))
    for rules in (FENCED, ORIGINAL):
        folded = KernelFold(rules, NameCodes())
        columns = folded.names.decoded(*arrays([raw]))
        columns.kind[0] = len(MESSAGES)
        with pytest.raises(NotImplementedError, match=r"kernel.steps knows no such message"):
            folded.apply(np.array([0], np.int64), np.array([0], np.int64), columns)


def test_the_vocabulary_has_every_message_and_verdict() -> None:
    page = (Path(__file__).parent.parent.parent / "ARCHITECTURE.md").read_text(encoding="utf-8")
    [types] = re.findall(r"Types: `([\w,\s]+)`", page)
    assert {name.strip() for name in types.split(",")} == {kind.__name__ for kind in MESSAGES}
    claims, ranges = page.split("**Ranges**")
    explained = set(re.findall(r"(?m)^\| ([A-Z_]+) \|", claims))
    assert explained == {verdict.name for verdict in VERDICTS}
    of_ranges = re.findall(r"(?m)^\| ([A-Z_]+) \|", ranges)
    assert of_ranges == [member.name for member in (*RangeAccepted, *RangeRefused, *Unmet)]
    for kind in (Ranges, OpenRange, Interval, SignOfLife, Limits):
        names = ", ".join(field.name.rstrip("_") for field in attrs.fields(kind))
        assert names in ranges.replace("\n", " ")


def test_the_vocabulary_has_every_property_of_ranges() -> None:
    page = (Path(__file__).parent.parent.parent / "ARCHITECTURE.md").read_text(encoding="utf-8")
    listed = page.split("RangesProperty`: `")[1].split("`")[0]
    assert [*map(str.strip, listed.split(","))] == [prop.value for prop in RangesProperty]


def test_a_message_of_ranges_is_no_message_of_a_claim() -> None:
    """Older versions do not know it, so what computes a claim must not either."""
    assert not issubclass(ClaimingRange, MESSAGES)
    assert ClaimingRange.__name__ not in wire.BY_NAME
    fields = [field.name for field in attrs.fields(ClaimingRange)]
    assert fields == [*wire.TIME, *wire.ADDRESS, "count"]


def test_the_page_on_a_new_message_lists_every_file_that_names_all_of_them() -> None:
    root = Path(__file__).parent.parent.parent
    page = (root / "docs" / "how-to" / "add-a-message.md").read_text(encoding="utf-8")
    package = root / "marshal" / "kafka_marshal"
    naming = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if {kind.__name__ for kind in MESSAGES}
        <= set(re.findall(r"\w+", path.read_text(encoding="utf-8")))
    }
    table = page.split("## The package")[1].split("## ")[0]
    files = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    listed = set(re.findall(r"`([\w/]+\.py)`", " ".join(files)))
    assert naming <= listed
    assert {name for name in listed if not (package / name).is_file()} == set()

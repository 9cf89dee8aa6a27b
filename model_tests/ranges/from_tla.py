"""TLA+ values of Ranges to Python, field by field, as `model_tests.from_tla` does for claims.

Sets become tuples in the order in which the Python keeps them.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import attrs

from kafka_marshal.core.messages import ClaimingRange, Partition
from kafka_marshal.core.ranges.messages import RangeHeaders, RangesMessage, RangesRecord
from kafka_marshal.core.ranges.state import Interval, Limits, OpenRange, Ranges, SignOfLife
from kafka_marshal.core.ranges.verdicts import RangeAccepted, RangeRefused, RangeVerdict, Unmet
from kafka_marshal.modelcheck.tlc.values import Value
from model_tests import from_tla
from model_tests.from_tla import NONE, PASSES, snake

FREE_CHOICES = ("stale", "pause_over", "silent")


@attrs.frozen
class Landed:
    """A record of `MCRanges.tla`: in free time it carries three judgements. Spec: Record."""

    record: RangesRecord
    stale: bool = False
    """The owner had been silent for too long. Spec: RecordSaysStale."""
    pause_over: bool = False
    """The pause had ended. Spec: RecordSaysPaused."""
    silent: frozenset[str] = frozenset()
    """Instances that had been silent for too long. Spec: RecordSaysSilent."""


@cache
def ranges(value: Value) -> Ranges:
    """The ranges of a claim; fails if a field is missing or new."""
    given = from_tla.fields(value)
    assert set(given) == {field.name for field in attrs.fields(Ranges)}
    held = [_part(OpenRange, each) for each in given["open"]]
    free = [_part(Interval, each) for each in given["pool"]]
    signs = [_part(SignOfLife, each) for each in given["alive"]]
    return Ranges(
        window=_or_none(given["window"]),
        frontier=given["frontier"],
        open=_in_order(held, "id"),
        pool=_in_order(free, "from_"),
        alive=_in_order(signs, "instance"),
        clock_ms=given["clock_ms"],
    )


def _or_none(number: int) -> int | None:
    return None if number == NONE else number


def _part(kind: type[Any], value: Value) -> Any:
    given = from_tla.fields(value)
    assert set(given) == {field.name.rstrip("_") for field in attrs.fields(kind)}
    return kind(**{"from_" if name == "from" else name: each for name, each in given.items()})


def _in_order(parts: Iterable[Any], field: str) -> tuple[Any, ...]:
    return tuple(sorted(parts, key=lambda part: getattr(part, field)))


@cache
def landed(value: Value) -> Landed:
    """A record of the one key, and what it says of time."""
    given = from_tla.fields(value)
    expected = {field.name for field in attrs.fields(RangesRecord)} - {"partition"}
    assert set(given) - set(FREE_CHOICES) == expected
    record = RangesRecord(
        partition=0,
        offset=given["offset"],
        timestamp_ms=given["timestamp_ms"],
        message=message(given["message"]),
        headers=from_tla.headers(given["headers"]),
        range_headers=range_headers(given["range_headers"]),
    )
    return Landed(record, given["stale"], given["pause_over"], frozenset(given["silent"]))


@cache
def message(value: Value) -> RangesMessage:
    """A message; the specification's has every field, whatever its type."""
    given = from_tla.fields(value)
    if given["type"] != ClaimingRange.__name__:
        return from_tla.message(value)
    sender = {name: given[name] for name in ("version", "unix_s", "instance_id", "client_id")}
    return ClaimingRange(
        **sender, group_id="g", topic="t", partition=Partition(0), count=given["count"]
    )


@cache
def range_headers(value: Value) -> RangeHeaders:
    """The headers of ranges; fails if one is missing or new."""
    given = from_tla.fields(value)
    assert set(given) == {field.name for field in attrs.fields(RangeHeaders)}
    return RangeHeaders(**{name: _or_none(number) for name, number in given.items()})


@cache
def verdict(name: Value, of_a_range: bool) -> RangeVerdict:
    """The verdict of that name; fails if Python has none."""
    if not of_a_range:
        return from_tla.verdict(name)
    text = snake(str(name))
    return RangeAccepted(text) if text in {a.value for a in RangeAccepted} else RangeRefused(text)


def unmet(name: Value) -> Unmet | None:
    """Why nothing was granted; fails if Python has no such reason."""
    return None if name == PASSES else Unmet(snake(str(name)))


def limits(intervals_max: int, open_ranges_max: int, range_messages_max: int) -> Limits:
    """The limits of a model."""
    return Limits(intervals_max, open_ranges_max, range_messages_max)

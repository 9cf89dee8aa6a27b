"""TLA+ values of Claim, Reader and Consumer to Python, field by field.

Nothing is -1 in TLA+ where a number could stand and "none" where an id could; in Python it is None.
Names need no table: they are the same. Rows repeat their parts, so a part is translated once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import attrs

from kafka_marshal import (
    FENCED,
    ORIGINAL,
    Accepted,
    Claim,
    Headers,
    Message,
    Record,
    Refused,
    ReleaseGroup,
    Rules,
    Verdict,
)
from kafka_marshal.core import wire
from kafka_marshal.core.claims.suffix_reader import NOTHING, Field, Reader
from kafka_marshal.core.messages import UNSPECIFIED
from kafka_marshal.machines.consumer.consumer import ConsumerState, Forbidden, InstanceConfig, Mode
from kafka_marshal.machines.consumer.effects import Send
from kafka_marshal.modelcheck.tlc.values import Value

NONE = -1
NOBODY = "none"
PASSES = "Passes"
MAY_BE_NOTHING = {
    field.name
    for field in attrs.fields(Claim)
    if "None" in str(field.type) or field.default is None
}
MESSAGES: dict[str, type[Message]] = {layout.name: layout.message for layout in wire.MESSAGES}


def snake(camel: str) -> str:
    """`LiveOwner` to `live_owner`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", camel).lower()


@cache
def verdict(name: Value) -> Verdict:
    """The verdict of that name; fails if Python has none."""
    text = snake(str(name))
    return Accepted(text) if text in {a.value for a in Accepted} else Refused(text)


def fields(value: Value) -> Mapping[str, Any]:
    """A TLA+ record as a mapping."""
    assert isinstance(value, Mapping)
    return {str(name): field for name, field in value.items()}


def _nothing(value: Any) -> Any:
    return None if value in (NONE, NOBODY) and not isinstance(value, bool) else value


@cache
def claim(value: Value) -> Claim:
    """A claim; fails if a field is missing or new."""
    given = fields(value)
    assert set(given) == {field.name for field in attrs.fields(Claim)}
    return Claim(**{n: _nothing(v) if n in MAY_BE_NOTHING else v for n, v in given.items()})


@cache
def record(value: Value) -> Record:
    """A record of the one key that the models have."""
    given = fields(value)
    return Record(
        partition=0,
        offset=given["offset"],
        timestamp_ms=given["timestamp_ms"],
        message=message(given["message"]),
        headers=headers(given["headers"]),
    )


@cache
def headers(value: Value) -> Headers:
    """Headers; fails if one is missing or new."""
    given = fields(value)
    assert set(given) == {field.name for field in attrs.fields(Headers)} - set(UNSPECIFIED)
    return Headers(**{name: _nothing(field) for name, field in given.items()})


@cache
def sent(value: Value) -> Send:
    """What an instance produced, and nobody has given an offset yet."""
    given = fields(value)
    return Send(message(given["message"]), headers(given["headers"]))


@cache
def message(value: Value) -> Message:
    """A message; the specification's has every field, whatever its type."""
    given = fields(value)
    kind = MESSAGES[given["type"]]
    names = {field.name for field in attrs.fields(kind)}
    is_group = kind is ReleaseGroup
    addressed: dict[str, Any] = {"group_id": "g", "topic": "" if is_group else "t", "partition": 0}
    return kind(**addressed, **{name: given[name] for name in names if name in given})


@cache
def rules(name: Value, heartbeat_interval_ms: Value, pause_max_ms: Value) -> Rules:
    """A rule set at a model's durations."""
    base = {"fenced": FENCED, "original": ORIGINAL}[str(name)]
    assert isinstance(heartbeat_interval_ms, int)
    assert isinstance(pause_max_ms, int)
    return attrs.evolve(
        base, heartbeat_interval_ms=heartbeat_interval_ms, pause_max_ms=pause_max_ms
    )


def forbidden(name: Value) -> Forbidden | None:
    """What a guard says: nothing against, or the reason of that name; fails if Python has none."""
    return None if name == PASSES else Forbidden(snake(str(name)))


@cache
def reader(value: Value) -> Reader:
    """A reader; fails if a field is missing or new."""
    given = fields(value)
    assert set(given) == {field.name for field in attrs.fields(Reader)}
    certain = NOTHING
    for name in given["certain"]:
        certain |= Field[name.upper()]
    numbers = {n: _nothing(v) for n, v in given.items() if n not in ("claim", "certain")}
    return Reader(claim=claim(given["claim"]), certain=certain, **numbers)


@cache
def consumer(value: Value) -> ConsumerState:
    """A consumer; fails if a field is missing or new."""
    given = fields(value)
    assert set(given) == {field.name for field in attrs.fields(ConsumerState)}
    return ConsumerState(
        reader=reader(given["reader"]),
        view=given["view"],
        resigned=_nothing(given["resigned"]),
        asked=given["asked"],
        stopped=given["stopped"],
        next=given["next"],
        granted=ranges(given["granted"]),
    )


def ranges(messages: Iterable[int]) -> tuple[range, ...]:
    """A set of messages as ranges that do not touch, in order.

    >>> ranges({7, 2, 3})
    (range(2, 4), range(7, 8))
    """
    apart: list[range] = []
    for number in sorted(messages):
        if apart and apart[-1].stop == number:
            apart[-1] = range(apart[-1].start, number + 1)
        else:
            apart.append(range(number, number + 1))
    return tuple(apart)


ONLY_IN_THE_SPECIFICATION = {"headerless", "now_ms", "log_ms"}
"""Fields of `me` that no machine knows: of the original's instances, and what a driver measures."""
ONLY_IN_PYTHON = {"says_interval"}
"""Fields of `InstanceConfig` by which nothing is decided about one claim."""


@cache
def me(value: Value, rules: Rules) -> InstanceConfig:
    """Who an instance is, at a model's durations; fails if a field is missing or new."""
    given = dict(fields(value))
    assert set(given) - ONLY_IN_THE_SPECIFICATION == (
        {f.name for f in attrs.fields(InstanceConfig)} - ONLY_IN_PYTHON
    )
    assert given["rules"] == rules.rule_set.value
    named = {
        f.name: given[f.name] for f in attrs.fields(InstanceConfig) if f.name not in ONLY_IN_PYTHON
    }
    return InstanceConfig(**{**named, "mode": Mode(given["mode"]), "rules": rules})

"""TLA+ values of `Claim.tla` to the Python of `kafka_marshal.core`, field by field.

Nothing is -1 in TLA+ where a number could stand and "none" where an id could; in Python it is None.
Names need no table: they are the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import attrs

from kafka_marshal import (
    FENCED,
    ORIGINAL,
    Accepted,
    Claim,
    ClaimingMessages,
    ClaimingPartition,
    Headers,
    Heartbeat,
    Message,
    Record,
    Refused,
    ReleaseGroup,
    ReleasingPartition,
    Rules,
    Verdict,
)
from kafka_marshal.modelcheck.values import Value

NONE = -1
NOBODY = "none"
MAY_BE_NOTHING = {
    field.name
    for field in attrs.fields(Claim)
    if "None" in str(field.type) or field.default is None
}
MESSAGES: dict[str, type[Message]] = {
    kind.__name__: kind
    for kind in (
        *(Heartbeat, ClaimingPartition, ReleasingPartition),
        *(ClaimingMessages, ReleaseGroup),
    )
}


def snake(camel: str) -> str:
    """`LiveOwner` to `live_owner`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", camel).lower()


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


def claim(value: Value) -> Claim:
    """A claim; fails if a field is missing or new."""
    given = fields(value)
    assert set(given) == {field.name for field in attrs.fields(Claim)}
    return Claim(**{n: _nothing(v) if n in MAY_BE_NOTHING else v for n, v in given.items()})


def record(value: Value) -> Record:
    """A record of the one key that the models have."""
    given = fields(value)
    headers = {name: _nothing(field) for name, field in fields(given["headers"]).items()}
    return Record(
        partition=0,
        offset=given["offset"],
        timestamp_ms=given["timestamp_ms"],
        message=message(given["message"]),
        headers=Headers(**headers),
    )


def message(value: Value) -> Message:
    """A message; the specification's has every field, whatever its type."""
    given = fields(value)
    kind = MESSAGES[given["type"]]
    names = {field.name for field in attrs.fields(kind)}
    is_group = kind is ReleaseGroup
    addressed: dict[str, Any] = {"group_id": "g", "topic": "" if is_group else "t", "partition": 0}
    return kind(**addressed, **{name: given[name] for name in names if name in given})


def rules(name: Value, heartbeat_interval_ms: Value, pause_max_ms: Value) -> Rules:
    """A rule set at a model's durations."""
    base = {"fenced": FENCED, "original": ORIGINAL}[str(name)]
    assert isinstance(heartbeat_interval_ms, int)
    assert isinstance(pause_max_ms, int)
    return attrs.evolve(
        base, heartbeat_interval_ms=heartbeat_interval_ms, pause_max_ms=pause_max_ms
    )

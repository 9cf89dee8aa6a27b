"""Headers that came later decide nothing: older versions read the same log beside us.

Every header there is, and one that there is not, is added to every record that has headers. What
the reducer, the kernel and a reader that began in the middle make of the log must stay the same.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs
import numpy as np
import pytest

from kafka_marshal import FENCED, World
from kafka_marshal.capture import RawRecord
from kafka_marshal.codec import HEADER_FIELDS, MalformedRecord
from kafka_marshal.core.claims.suffix_reader import Reader, read_record
from kafka_marshal.core.messages import AMENDMENTS, Record, ReleaseGroup
from kafka_marshal.core.state import Claim, ClaimKey
from kafka_marshal.core.wire import HEADER_PREFIX
from kafka_marshal.kernel.fold import KernelFold
from tests.kernel import hostile
from tests.kernel.kernel import arrays

RULES = attrs.evolve(FENCED, heartbeat_interval_ms=4000, pause_max_ms=30_000)
STRICT = {name for name, field in HEADER_FIELDS.items() if field not in AMENDMENTS}
LATER = [*(name for name in HEADER_FIELDS if name not in STRICT), "marshal-whatever"]
VALUES = (b"0", b"7", b"007", b"9" * 18, b"9" * 30, b"x", b"", None, b"-1", b"\xff", b" 1")
OLDER = (
    *("owner_instance", "owner_client", "epoch", "position", "last_heartbeat_ms", "clock_ms"),
    *("won_with_headers", "pauser", "paused_until_ms", "last_release_ms"),
)
"""The fields of a claim in the first version that wrote headers."""


def log() -> list[RawRecord]:
    """Hostile, with nothing but the headers of the first version."""
    raws = {raw.offset: raw for raw in hostile.log(5, 1_500, epochs={})}
    return [
        attrs.evolve(raw, headers=tuple(p for p in raw.headers if p[0] not in LATER))
        for raw in raws.values()
    ]


def with_header(raws: Iterable[RawRecord], name: str, value: bytes | None) -> list[RawRecord]:
    """Where there are headers of ours; the first one of a record would make it one of ours."""
    return [
        attrs.evolve(raw, headers=(*raw.headers, (name, value)))
        if any(given.startswith(HEADER_PREFIX) for given, _ in raw.headers)
        else raw
        for raw in raws
    ]


def older(claim: Claim) -> tuple[object, ...]:
    return tuple(getattr(claim, name) for name in OLDER)


def decoded(raws: Iterable[RawRecord]) -> list[Record]:
    found = []
    for raw in raws:
        try:
            found.append(raw.decoded())
        except MalformedRecord:
            continue
    return found


def by_reducer(raws: list[RawRecord]) -> list[object]:
    world, told = World(RULES), list[object]()
    for record in decoded(raws):
        told.append(world.apply(record).verdict)
        message = record.message
        new = ClaimKey(message.group_id, "", 0)  # as ReleaseGroups make it
        key = new if isinstance(message, ReleaseGroup) else message.key
        told.append(older(world.claim(key)))
    return told


def by_kernel(raws: list[RawRecord]) -> list[object]:
    folded = KernelFold(RULES)
    verdicts = folded.apply(
        np.array([raw.offset for raw in raws], np.int64),
        np.array([raw.timestamp_ms for raw in raws], np.int64),
        folded.names.decoded(*arrays(raws)),
    )
    return [verdicts.tolist(), {key: older(claim) for key, claim in folded.claims().items()}]


def by_readers(raws: list[RawRecord]) -> list[object]:
    """Of one claim, by readers that began here and there."""
    about = ClaimKey("g", "t", 0)
    records = [
        record
        for record in decoded(raws)
        if (
            record.message.group_id == about.group
            if isinstance(record.message, ReleaseGroup)
            else record.message.key == about
        )
    ]
    told = list[object]()
    for begin in range(0, len(records), 60):
        reader = Reader.beginning_at(records[begin].offset)
        for record in records[begin : begin + 120]:
            reader, verdict = read_record(reader, record, RULES)
            certain = reader.certain.names - {"position_set"}
            rest = attrs.asdict(reader, recurse=False, filter=lambda f, _: f.name not in _NOT)
            told.append((verdict, older(reader.claim), certain, rest))
    return told


_NOT = {"claim", "certain"}
WAYS = (by_reducer, by_kernel, by_readers)


@pytest.mark.parametrize("name", LATER)
def test_a_header_that_came_later_decides_nothing(name: str) -> None:
    raws = log()
    plain = [way(raws) for way in WAYS]
    for value in VALUES:
        amended = with_header(raws, name, value)
        assert amended != raws
        for way, expected in zip(WAYS, plain, strict=True):
            assert way(amended) == expected, (way.__name__, value)


@pytest.mark.parametrize("name", sorted(STRICT))
@pytest.mark.parametrize("way", WAYS)
def test_a_header_of_the_first_version_decides(name: str, way: type) -> None:
    """Or the test above would prove little."""
    raws = log()
    assert way(with_header(raws, name, b"x")) != way(raws)

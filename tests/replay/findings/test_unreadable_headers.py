"""A header that came later and cannot be read counts as absent, and is found."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import pytest
from attrs import evolve
from tools.runs.by_day import seeds

from kafka_marshal.capture import RawRecord
from kafka_marshal.codec import HEADER_FIELDS
from kafka_marshal.core.messages import AMENDMENTS
from kafka_marshal.replay.model.published import FindingRow
from kafka_marshal.replay.model.tables import FINDINGS, PUBLISHED, Rows
from tests.replay.fleets import fleet
from tests.replay.fold.test_run_length import alike, judging
from tests.replay.told import records, replayed

LOG = [
    "0 CP a1/A",
    "1 HB a1/A 5 epoch=0 {}",
    "1.5 CM a1/A 9 epoch=0 {}",
    "2 HB a1/A 9 epoch=0 {}",
    "3 RP a1/A 9 epoch=0 {}",
]


def told(raws: Iterable[RawRecord]) -> tuple[list[FindingRow], Rows]:
    """The findings about malformed headers, and all other rows."""
    rows = replayed(raws)
    return [row for row in rows[FINDINGS] if row.code == "malformed_header"], rows


def with_header(name: str, value: bytes | None) -> list[RawRecord]:
    return [
        evolve(raw, headers=(*raw.headers, (name, value))) if raw.offset else raw
        for raw in records(line.format("") for line in LOG)
    ]


@pytest.mark.parametrize("value", [b"x", b"", None, b"-1", b"1.5", b"9" * 30])
@pytest.mark.parametrize("name", [*HEADER_FIELDS, "marshal-version", "marshal-else", "trace-id"])
def test_of_all_headers_those_that_came_later_are_found_and_decide_nothing(
    name: str, value: bytes | None
) -> None:
    found, rest = told(with_header(name, value))
    if HEADER_FIELDS.get(name) not in AMENDMENTS:
        assert found == []
        return
    [row] = found
    assert (row.count, row.offset, row.severity) == (4, 1, "warning")
    assert (row.group, row.client, row.rules) == ("g", "A", None)
    assert f"wrote {name} so that it cannot be read in 4 records" in row.sentence
    without = told(records(line.format("") for line in LOG))[1]
    for table in set(PUBLISHED) - {FINDINGS}:
        assert rest[table] == without[table]


@pytest.mark.parametrize("name", [name for name, one in HEADER_FIELDS.items() if one in AMENDMENTS])
def test_one_that_can_be_read_is_no_finding_nor_one_whose_last_word_can(name: str) -> None:
    assert told(with_header(name, b"4000"))[0] == []
    twice = [
        evolve(raw, headers=((name, b"x"), *raw.headers)) for raw in with_header(name, b"7000")
    ]
    assert len(told(twice)[0]) == 1, "the first record says it once, and badly"
    assert told(twice[1:])[0] == []


@pytest.mark.parametrize("seed", seeds(1, 2))
def test_every_one_is_counted_where_runs_of_heartbeats_are_folded_in_one_step(seed: int) -> None:
    chance = Random(seed)
    names = [name for name, one in HEADER_FIELDS.items() if one in AMENDMENTS]
    raws = [
        evolve(raw, headers=(*raw.headers, (chance.choice(names), b"x")))
        if chance.random() < 0.02
        else raw
        for raw in fleet(seed, 3_000)
    ]
    assert sum(row.count for row in told(raws)[0]) > 30
    alike(raws, judging(), 500)

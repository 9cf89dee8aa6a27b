"""What is in a dump, what is reported of it, and why it was refused: for tests of formats."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from kafka_marshal.capture import RawRecord, UnreadableSource
from kafka_marshal.replay.fold.reading import read_chunk, records_of
from kafka_marshal.replay.sources import FoundSources, find
from tests.replay.told import records

DUMPS = Path(__file__).parent.parent.parent / "data" / "dumps"
REAL = {
    "segment": DUMPS / "__marshal-3",
    "kcat": DUMPS / "kcat.json",
    "console": DUMPS / "console.txt",
    "dump-log": DUMPS / "dump-log.txt",
}
GIVEN = records(
    ["0 CP a1/A", "1.25 HB a1/A 5 epoch=0 seen=0", "2 garbage", "3 RP a1/A 5", "4 CP b1/B"]
)
BARE = [attrs.evolve(raw, headers=()) for raw in GIVEN]
AT_ONCE = [attrs.evolve(raw, timestamp_ms=GIVEN[0].timestamp_ms) for raw in GIVEN]


def records_in(found: FoundSources) -> list[RawRecord]:
    return [
        raw
        for number, chunk in enumerate(found.chunks)
        for batch in read_chunk(number, chunk)
        for _, raw in records_of(batch)
    ]


def read(
    *paths: Path, source_format: str | None = None, topic: str | None = None, keys: bool = False
) -> list[RawRecord]:
    given = [str(path) for path in paths]
    return records_in(find(given, source_format=source_format, topic=topic, keys=keys))


def told(*paths: Path, topic: str | None = None, keys: bool = False) -> str:
    given = [str(path) for path in paths]
    return "\n".join(one.sentence for one in find(given, topic=topic, keys=keys).limitations)


def refused(
    *paths: Path, source_format: str | None = None, topic: str | None = None, keys: bool = False
) -> str:
    with pytest.raises(UnreadableSource) as caught:
        read(*paths, source_format=source_format, topic=topic, keys=keys)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def write(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path

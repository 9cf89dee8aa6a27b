"""The keys of records: read from every format that has them, and only where they are asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import attrs
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_marshal.capture import RawRecord, capture_line
from kafka_marshal.replay.fold.reading import ARROW_SCHEMA, read_chunk
from kafka_marshal.replay.sources import find
from tests.replay import dumps
from tests.replay.sources import texts
from tests.replay.sources.readers import BARE, REAL, read, refused, told, write

KEYS: list[bytes | None] = [None, b"", b"g1", b"a b", "gr\u00fcn".encode()]
KEYED = [
    attrs.evolve(raw, key=key, timestamp_ms=BARE[0].timestamp_ms)
    for raw, key in zip(BARE, KEYS, strict=True)
]


def of_capture(folder: Path) -> Path:
    text = "".join(capture_line(raw) + "\n" for raw in KEYED)
    return write(folder / "x.jsonl", text.encode())


def of_capture_line_by_line(folder: Path) -> Path:
    text = "".join(capture_line(raw) + "\n\n" for raw in KEYED)
    return write(folder / "x.jsonl", text.encode())


def of_parquet(folder: Path) -> Path:
    return dumps.write(folder / "x.parquet", dumps.table(KEYED))


def of_segment(folder: Path) -> Path:
    return texts.segment(folder / f"__marshal-{KEYED[0].partition}", texts.batch(KEYED, codec=1))


SOURCES: dict[str, Callable[[Path], Path]] = {
    "capture": of_capture,
    "capture, line by line": of_capture_line_by_line,
    "kcat": lambda folder: write(folder / "x", texts.kcat(KEYED)),
    "kcat, line by line": lambda folder: write(folder / "x", b"% hello\n" + texts.kcat(KEYED)),
    "console": lambda folder: write(folder / "x", texts.console(KEYED)),
    "dump-log": lambda folder: write(folder / "x", texts.dump_log(KEYED)),
    "segment": of_segment,
    "parquet": of_parquet,
}


def keys_of(records: list[RawRecord]) -> list[bytes | None]:
    return [raw.key for raw in records]


@pytest.mark.parametrize("name", SOURCES)
def test_a_key_is_read_where_it_is_asked_for(tmp_path: Path, name: str) -> None:
    path = SOURCES[name](tmp_path)
    assert read(path, keys=True) == KEYED
    assert read(path) == [attrs.evolve(raw, key=None) for raw in KEYED]


def test_without_keys_a_batch_has_no_column_for_them(tmp_path: Path) -> None:
    [chunk] = find([str(of_parquet(tmp_path))]).chunks
    assert all(batch.schema == ARROW_SCHEMA for batch in read_chunk(0, chunk))


@pytest.mark.parametrize("name", ["kcat", "console", "dump-log"])
def test_real_dumps_give_the_keys_that_the_segment_has(name: str) -> None:
    of_segment = {raw.offset: raw.key for raw in read(REAL["segment"], keys=True)}
    assert {b"k1", None} <= set(of_segment.values())
    found = read(REAL[name], keys=True)
    assert {raw.offset: raw.key for raw in found} == {
        raw.offset: of_segment[raw.offset] for raw in found
    }


@pytest.mark.parametrize("ending", ["json", "avro", "parquet"])
def test_a_sink_that_puts_the_key_beside_the_value_is_believed(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"__marshal_groups+2+0000000000.{ending}"
    rows = [{"value": "x", "key": None if key is None else key.decode()} for key in KEYS]
    if ending == "json":
        write(path, "".join(json.dumps(row) + "\n" for row in rows).encode())
    elif ending == "avro":
        kinds = {"value": "string", "key": ["null", "string"]}
        fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
        with path.open("wb") as file:
            fastavro.writer(file, {"type": "record", "name": "r", "fields": fields}, rows)
    else:
        pq.write_table(pa.Table.from_pylist(rows), path)
    assert keys_of(read(path, keys=True)) == KEYS
    assert keys_of(read(path)) == [None] * len(KEYS)
    assert "no key" not in told(path, keys=True)


def test_a_source_without_keys_says_so_to_who_asks(tmp_path: Path) -> None:
    console = write(tmp_path / "x.txt", texts.console(KEYED, "key"))
    parquet = tmp_path / "x.parquet"
    dumps.write(parquet, dumps.table(KEYED).drop_columns(["key"]))
    sink = write(tmp_path / "__marshal+2+0000000000.json", b'"x"\n')
    for path, why in (
        (console, "print.key=true"),
        (parquet, "column 'key'"),
        (sink, "field 'key'"),
    ):
        assert keys_of(read(path, keys=True)) == [None] * len(read(path))
        assert why in told(path, keys=True)
        assert why not in told(path)


def test_a_bad_key_is_named_to_who_asks(tmp_path: Path) -> None:
    line = '{"partition":0,"offset":0,"timestamp_ms":1,"value":"x","key":7}'
    capture = write(tmp_path / "x.jsonl", line.encode())
    assert refused(capture, keys=True).startswith(f"{capture}:1: field 'key' is neither")
    assert len(read(capture)) == 1
    kcat = write(tmp_path / "k", b'{"partition":0,"offset":0,"ts":1,"payload":"x","key":7}')
    assert refused(kcat, keys=True).startswith(f"{kcat}:1: field 'key' is neither")
    sink = write(tmp_path / "__marshal+2+0000000000.json", b'{"value":"x","key":7}\n')
    assert "the key is neither text nor null" in refused(sink, keys=True)
    numbers = dumps.table(KEYED).set_column(0, "key", pa.array([1] * len(KEYED)))
    parquet = dumps.write(tmp_path / "n.parquet", numbers)
    assert "column 'key' is int64" in refused(parquet, keys=True)
    assert len(read(parquet)) == len(KEYED)

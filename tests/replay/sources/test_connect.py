from __future__ import annotations

import gzip
import json
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_marshal.replay.sources import find
from tests.replay.sources.readers import (
    GIVEN,
    read,
    records_in,
    refused,
    told,
    write,
)


def sink(folder: Path, ending: str, start: int = 0) -> Path:
    return folder / "topics" / "__marshal" / "partition=2" / f"__marshal+2+{start:010}.{ending}"


def values() -> list[str | None]:
    return [None if raw.value is None else raw.value.decode() for raw in GIVEN]


@pytest.mark.parametrize("ending", ["json", "json.gz", "bin", "avro", "parquet"])
def test_a_sinks_file_gives_values_with_offsets_from_its_name(tmp_path: Path, ending: str) -> None:
    path = sink(tmp_path, ending, 40)
    path.parent.mkdir(parents=True)
    lines = "".join(json.dumps(value) + "\n" for value in values()).encode()
    if ending == "bin":
        path.write_bytes(b"".join((raw.value or b"") + b"\n" for raw in GIVEN))
    elif ending == "avro":
        with path.open("wb") as file:
            fastavro.writer(file, ["null", "string"], values())
    elif ending == "parquet":
        pq.write_table(pa.table({"value": values()}), path)
    else:
        path.write_bytes(gzip.compress(lines) if ending.endswith("gz") else lines)
    found = find([str(tmp_path)])
    assert found.logs == ("__marshal",)
    assert [
        (r.partition, r.offset, r.value, r.timestamp_ms // 1000) for r in records_in(found)
    ] == [
        (2, 40 + index, raw.value, 1_700_000_000 + second)
        for index, (raw, second) in enumerate(zip(GIVEN, (0, 1, 1, 3, 4), strict=True))
    ]
    sentences = told(tmp_path)
    assert "no offset is missing" in sentences
    assert "each message's own time was taken" in sentences
    assert "without headers" in sentences


@pytest.mark.parametrize("ending", ["json", "avro", "parquet"])
def test_a_sink_that_was_told_to_keep_offsets_and_times_is_believed(
    tmp_path: Path, ending: str
) -> None:
    path = sink(tmp_path, ending)
    path.parent.mkdir(parents=True)
    rows = [
        {"value": value, "offset": raw.offset * 10, "timestamp": raw.timestamp_ms}
        for value, raw in zip(values(), GIVEN, strict=True)
    ]
    if ending == "json":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif ending == "avro":
        moment = {"type": "long", "logicalType": "timestamp-millis"}
        kinds = {"value": ["null", "bytes"], "offset": "long", "timestamp": moment}
        fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
        as_bytes = [{**row, "value": str(row["value"]).encode()} for row in rows]
        with path.open("wb") as file:
            fastavro.writer(file, {"type": "record", "name": "r", "fields": fields}, as_bytes)
    else:
        table = pa.Table.from_pylist(rows)
        moments = table["timestamp"].cast(pa.timestamp("ms"))
        pq.write_table(table.set_column(2, "timestamp", moments), path)
    assert [(raw.offset, raw.timestamp_ms, raw.value) for raw in read(path)] == [
        (raw.offset * 10, raw.timestamp_ms, raw.value) for raw in GIVEN
    ]
    sentences = told(path)
    assert "no offset is missing" not in sentences
    assert "own time was taken" not in sentences


def test_a_bad_file_of_a_sink_is_named(tmp_path: Path) -> None:
    path = write(sink(tmp_path, "json"), b'"x"\n{oops\n')
    assert refused(path).startswith(f"{path}:2: not JSON")
    assert "neither text nor null" in refused(write(path, b'"x"\n7\n'))
    assert "'value' is missing" in refused(write(path, b'{"x": 1}\n'))
    assert "not readable Avro" in refused(write(sink(tmp_path, "avro"), b"Obj\x01nonsense"))
    assert "not a readable Parquet" in refused(write(sink(tmp_path, "parquet"), b"PAR1nonsense"))
    named_otherwise = write(tmp_path / "part-0.json", b'"x"\n')
    assert "TOPIC+PARTITION+OFFSET" in refused(named_otherwise, source_format="connect")

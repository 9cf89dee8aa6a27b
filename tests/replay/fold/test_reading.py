"""Marshal promises that batches are long, and that long values do not make them huge."""

from __future__ import annotations

import io
from itertools import pairwise
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_marshal.replay.fold import reading
from kafka_marshal.replay.fold.reading import read_chunk
from kafka_marshal.replay.sources import Chunk, columns, find
from tests.replay import dumps
from tests.replay.sources.readers import GIVEN

ROWS, VALUE_BYTES = 4_000, 1_000


def written(folder: Path, kind: str) -> Path:
    values = ["x" * VALUE_BYTES] * ROWS
    if kind == "avro":
        path, file = folder / "t+0+0.avro", io.BytesIO()
        fastavro.writer(file, "string", values)
        path.write_bytes(file.getvalue())
        return path
    path = folder / "dump.parquet"
    table = dumps.table([GIVEN[0]] * ROWS)
    at = table.schema.get_field_index("value")
    table = table.set_column(at, "value", [[value.encode() for value in values]])
    pq.write_table(table, path, row_group_size=100, use_dictionary=False)
    return path


def rows_of_batches(path: Path) -> list[int]:
    batches = list(read_chunk(0, find([str(path)]).chunks[0]))
    orders = [order for batch in batches for order in batch.column("input_order").to_pylist()]
    assert all(after == before + 1 for before, after in pairwise(orders))
    return [batch.num_rows for batch in batches]


@pytest.mark.parametrize("kind", ["avro", "parquet"])
def test_small_batches_are_put_together(tmp_path: Path, kind: str) -> None:
    assert rows_of_batches(written(tmp_path, kind)) == [ROWS]


@pytest.mark.parametrize("kind", ["avro", "parquet"])
def test_a_batch_of_long_values_ends_before_it_has_many_rows(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, kind)
    monkeypatch.setattr(reading, "_BATCH_BYTES", 500 * VALUE_BYTES)
    monkeypatch.setattr(columns, "_BATCH_BYTES", 100 * VALUE_BYTES)
    counts = rows_of_batches(path)
    assert sum(counts) == ROWS
    assert max(counts) == 500


def test_one_batch_is_made_of_no_more_bytes_than_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "_BATCH_BYTES", 250)
    rows = (
        (0, n, 0, columns.NOT_STATED, b"x" * 100 if n < 5 else None, (), None) for n in range(10)
    )
    chunk = Chunk(format="segment", path="x", log="log", records=10)
    batches = list(columns.batches_of(chunk, 7, rows))
    assert [batch.num_rows for batch in batches] == [3, 7]
    assert [batch.column("input_order")[0].as_py() for batch in batches] == [7, 10]


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        ([b"one", b"", b"\xff", b"four"], pa.binary()),
        ([b"one", None, b"three", None], pa.binary()),
        ([b"", b"", b"", b""], pa.binary()),
        (["one", None, "one", ""], pa.string()),
        ([1, 2, None, 4], pa.int64()),
        ([1, -2, 3, 4], pa.int32()),
        ([[1], [], [2, 3], [4]], pa.list_(pa.int64())),
        ([None, None, None, None], pa.string()),
    ],
    ids=str,
)
def test_columns_of_any_part_of_a_table_are_read_as_they_are(
    cells: list[Any], kind: pa.DataType
) -> None:
    whole = pa.array(cells, kind)
    for begin in range(4):
        for count in range(5 - begin):
            as_told = [tuple(each) if isinstance(each, list) else each for each in cells]
            told = columns.values_of(whole.slice(begin, count))
            assert told == as_told[begin : begin + count]
    empty = [() if pa.types.is_list(kind) else None] * 2
    assert columns.values_of(pa.nulls(2, kind)) == empty


def test_of_a_batch_that_is_part_of_a_table_only_its_own_headers_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lists = [
        None if row % 7 == 3 else [{"key": f"k{row}", "value": b"v"}] * (row % 4)
        for row in range(400)
    ]
    whole = pa.array(lists, columns.HEADERS)
    looked_at: list[int] = []
    right = columns.values_of

    def values_of(column: pa.Array) -> list[Any]:
        looked_at.append(len(column))
        return right(column)

    monkeypatch.setattr(columns, "values_of", values_of)
    cut = [pairs for begin in range(0, 400, 10) for pairs in right(whole.slice(begin, 10))]
    assert cut == [tuple((p["key"], p["value"]) for p in pairs or ()) for pairs in lists]
    members = len(whole.flatten())
    assert sum(looked_at) == 3 * members  # each as a struct, a key and a value

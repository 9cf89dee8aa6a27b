"""Marshal promises that a small file is refused that unpacks to far more, before it takes memory.

Each bomb is made as an attacker would make it, and the memory that its refusal takes is measured.
"""

from __future__ import annotations

import contextlib
import io
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tools.fuzz.oracle import peak_bytes
from tools.runs.by_day import sampled

from kafka_marshal.capture import UnreadableSource
from kafka_marshal.kernel.entries import longest_entry
from kafka_marshal.replay.fold.reading import read_chunk
from kafka_marshal.replay.sources import find
from kafka_marshal.replay.sources.shapes import UNPACKED_BYTES_MAX
from tests.cli.run import marshal
from tests.replay import dumps
from tests.replay.sources.readers import GIVEN, read, refused, write

BOMB_BYTES = 320 << 20
MEMORY_BYTES = 160 << 20
SYNC = b"0123456789abcdef"
AVRO_CODECS = ("deflate", "bzip2", "xz", "snappy")


@contextlib.contextmanager
def little_memory() -> Iterator[None]:
    """Fail if the process takes more than half of a bomb meanwhile."""
    longest_entry(memoryview(bytes(4)))  # loads the compiler, which takes 100 MB
    pa.default_memory_pool().release_unused()  # what made the bomb
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the mark begins anew
    before = peak_bytes()
    yield
    assert peak_bytes() - before < MEMORY_BYTES


def long(number: int) -> bytes:
    """As Avro writes a number."""
    file = io.BytesIO()
    fastavro.schemaless_writer(file, "long", number)
    return file.getvalue()


def avro(codec: str, values: list[str]) -> bytes:
    file = io.BytesIO()
    fastavro.writer(file, "string", values, codec=codec, sync_marker=SYNC)
    return file.getvalue()


def avro_block(packed: bytes) -> bytes:
    return long(1) + long(len(packed)) + packed + SYNC


@pytest.mark.parametrize("codec", AVRO_CODECS)
def test_avro_in_any_compression_is_read(tmp_path: Path, codec: str) -> None:
    values = [f"Heartbeat/1/1700000000/i/c/g/t/0/{offset}" for offset in range(3000)]
    path = write(tmp_path / "t+3+0007.avro", avro(codec, values))
    assert [raw.value for raw in read(path)] == [value.encode() for value in values]


def test_zstandard_in_avro_is_read_without_a_further_library(tmp_path: Path) -> None:
    head = avro("null", []).replace(b"\x08null", long(9) + b"zstandard")
    block = avro_block(pa.compress(b"\x02x", codec="zstd", asbytes=True))
    assert [raw.value for raw in read(write(tmp_path / "t+3+0007.avro", head + block))] == [b"x"]


def test_damaged_avro_names_the_file(tmp_path: Path) -> None:
    path, whole = tmp_path / "t+3+0007.avro", avro("deflate", ["x"] * 100)
    for cut in range(len(whole) - 20, len(whole) - 1):
        assert refused(write(path, whole[:cut])).startswith(f"{path}: ")
    unknown = whole.replace(b"\x0edeflate", b"\x0ebeflate")
    assert refused(write(path, unknown)).endswith("no codec is named b'beflate'")


def test_an_avro_block_that_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    packing = zlib.compressobj(wbits=-15)
    zeros = bytes(1 << 20)
    packed = packing.compress(long(BOMB_BYTES))
    packed += b"".join(packing.compress(zeros) for _ in range(BOMB_BYTES >> 20)) + packing.flush()
    bomb = avro("deflate", ["x"]) + avro_block(packed)
    assert len(bomb) < 600_000
    path = write(tmp_path / "t+3+0007.avro", bomb)
    with little_memory():
        said = refused(path)
    assert said == f"{path}: block 2: its records unpack to more than {UNPACKED_BYTES_MAX:,} bytes"


@pytest.mark.parametrize("codec", sampled(AVRO_CODECS[1:], 2))
def test_an_avro_block_is_held_to_the_limit_in_any_compression(tmp_path: Path, codec: str) -> None:
    bomb = avro(codec, ["x" * (UNPACKED_BYTES_MAX + 1)])
    path = write(tmp_path / "t+3+0007.avro", bomb)
    with little_memory():
        said = refused(path)
    assert said == f"{path}: block 1: its records unpack to more than {UNPACKED_BYTES_MAX:,} bytes"


def test_a_length_that_lies_takes_no_memory(tmp_path: Path) -> None:
    lie = long(1) + long(2**40) + b"x"
    path = write(tmp_path / "t+3+0007.avro", avro("null", ["x"]) + lie)
    assert refused(path).startswith(f"{path}: block 2: its records unpack to more than ")


# --- Parquet --------------------------------------------------------------------------------------


def of_rows(count: int, **columns: Any) -> pa.Table:
    """Rows as Spark's Kafka source writes them, some columns of them replaced."""
    row = dumps.table(GIVEN[:1], with_headers=False).drop(["key"])
    rows = row.take(pa.array([0] * count, pa.int64()))
    for name, column in columns.items():
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, name, column) if at >= 0 else rows.append_column(name, column)
    return rows


def repeated(entry: pa.Array, count: int) -> pa.Array:
    """One entry, many times, without taking their memory."""
    return pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), entry)


def large_value() -> pa.Table:
    return of_rows(1, value=pa.array([bytes(BOMB_BYTES)], pa.binary()))


def long_entry() -> pa.Table:
    return of_rows(320, value=repeated(pa.array([bytes(1 << 20)], pa.binary()), 320))


def topic_entry() -> pa.Table:
    return of_rows(320, topic=repeated(pa.array(["x" * (1 << 20)]), 320))


def shared_beginning() -> pa.Table:
    return of_rows(320, value=pa.array([bytes(1 << 20)] * 320, pa.binary()))


def many_headers() -> pa.Table:
    count = BOMB_BYTES // 16
    struct = pa.StructArray.from_arrays(
        [pa.nulls(count, pa.string()), pa.nulls(count, pa.binary())], names=["key", "value"]
    )
    lists = pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), struct)
    return of_rows(1, headers=lists)


def headers_of(values: Any, rows: int) -> pa.Table:
    """Each row with one header, whose value is one of these."""
    struct = pa.StructArray.from_arrays([pa.array(["h"] * rows), values], names=["key", "value"])
    lists = pa.ListArray.from_arrays(pa.array(range(rows + 1), pa.int32()), struct)
    return of_rows(rows, headers=lists)


def long_headers() -> pa.Table:
    return headers_of(pa.array([bytes(1 << 20)] * 320, pa.binary()), 320)


BOMBS: dict[str, tuple[Callable[[], pa.Table], dict[str, Any]]] = {
    "a plain page": (large_value, {"use_dictionary": False}),
    "a page of version 2": (large_value, {"use_dictionary": False, "data_page_version": "2.0"}),
    "a dictionary": (large_value, {"dictionary_pagesize_limit": 2 * BOMB_BYTES}),
    "a long entry of a dictionary": (long_entry, {"dictionary_pagesize_limit": 2 << 20}),
    "a beginning that rows share": (
        shared_beginning,
        {"use_dictionary": False, "column_encoding": {"value": "DELTA_BYTE_ARRAY"}},
    ),
    "one row's headers": (many_headers, {}),
    "a long header": (long_headers, {"dictionary_pagesize_limit": 2 << 20}),
    "a beginning that headers share": (
        long_headers,
        {
            "use_dictionary": False,
            "column_encoding": {"headers.list.element.value": "DELTA_BYTE_ARRAY"},
        },
    ),
}


@pytest.fixture(scope="module", params=BOMBS)
def bomb(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small file whose one row group is a bomb."""
    made, more = BOMBS[request.param]
    path = tmp_path_factory.mktemp("bomb") / "t+0+0.parquet"
    pq.write_table(
        made(), path, compression="zstd", store_schema=False, write_statistics=False, **more
    )
    assert path.stat().st_size < BOMB_BYTES // 1000
    return path


def test_a_row_group_that_unpacks_to_too_much_is_refused(bomb: Path, tmp_path: Path) -> None:
    ours = tmp_path / "dump.parquet"
    ours.symlink_to(bomb)
    with little_memory():
        said = refused(ours)
    assert said.startswith(f"{ours}: row group 0: its records unpack to more than ")


def test_a_sinks_row_group_that_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t+0+0.parquet"
    pq.write_table(long_entry(), path, compression="zstd", store_schema=False)
    with little_memory():
        said = refused(path)
    assert said.startswith(f"{path}: row group 0: its records unpack to more than ")


def test_a_topic_that_unpacks_to_too_much_is_refused_before_topics_are_read(tmp_path: Path) -> None:
    path = tmp_path / "dump.parquet"
    pq.write_table(
        topic_entry(), path, use_dictionary=False, compression="zstd", store_schema=False
    )
    with little_memory():
        said = refused(path, topic="__marshal")
    assert said.startswith(f"{path}: row group 0: its records unpack to more than ")


def test_a_command_ends_with_code_2_at_a_bomb(tmp_path: Path) -> None:
    path = tmp_path / "dump.parquet"
    pq.write_table(long_entry(), path, compression="zstd", store_schema=False)
    ran = marshal("replay", path, "--out", tmp_path / "out")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert f"{path}: row group 0: its records unpack to more than " in ran.stderr
    assert not (tmp_path / "out").exists()


HONEST: dict[str, dict[str, Any]] = {
    "snappy": {"compression": "snappy"},
    "gzip": {"compression": "gzip"},
    "brotli": {"compression": "brotli"},
    "lz4": {"compression": "lz4"},
    "none": {"compression": "none"},
    "version 2": {"compression": "zstd", "version": "2.6", "data_page_version": "2.0"},
    "delta": {
        "compression": "zstd",
        "use_dictionary": False,
        "column_encoding": {"value": "DELTA_BYTE_ARRAY", "offset": "DELTA_BINARY_PACKED"},
    },
}


@pytest.mark.parametrize("name", sampled(HONEST, 2))
def test_a_log_that_repeats_itself_is_no_bomb(tmp_path: Path, name: str) -> None:
    """Owners' heartbeats differ in a second and a position: as small as a log can be packed."""
    count = 200_000
    values = [
        f"Heartbeat/1/{1_700_000_000 + at // 8}/instance-{at % 8}/client-{at % 8}/g/t/{at % 8}/{at}"
        for at in range(count)
    ]
    table = of_rows(
        count, value=pa.array(values).cast(pa.binary()), offset=pa.array(range(count), pa.int64())
    )
    path = tmp_path / "dump.parquet"
    pq.write_table(table, path, **HONEST[name])
    read_in = read_chunk(0, find([str(path)]).chunks[0])
    assert sum(batch.num_rows for batch in read_in) == count


@pytest.mark.parametrize("name", ["snappy", "none", "version 2"])
def test_a_log_with_one_long_header_is_no_bomb(tmp_path: Path, name: str) -> None:
    """Its length times the number of headers would be one."""
    count = 100_000
    values = pa.array([b"x" * 20_000, *[b"5"] * (count - 1)], pa.binary())
    path = tmp_path / "dump.parquet"
    pq.write_table(headers_of(values, count), path, **HONEST[name])
    read_in = read_chunk(0, find([str(path)]).chunks[0])
    assert sum(batch.num_rows for batch in read_in) == count


def test_the_header_of_a_page_that_is_damaged_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "dump.parquet"
    pq.write_table(of_rows(5), path)
    whole, at = (
        path.read_bytes(),
        pq.read_metadata(path).row_group(0).column(0).dictionary_page_offset,
    )
    said = refused(write(path, whole[:at] + bytes(20) + whole[at + 20 :]))
    assert said == f"{path}: not a readable Parquet file: no header of a page at byte {at}"
    for byte in range(at, at + 20):
        with contextlib.suppress(UnreadableSource):  # no other error
            read(write(path, whole[:byte] + b"\xff" + whole[byte + 1 :]))

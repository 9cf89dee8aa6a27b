from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_marshal.capture import RawRecord, UnreadableSource, read_capture
from kafka_marshal.replay.fold.reading import read_chunk, records_of
from kafka_marshal.replay.sources import find, text
from tests.replay import dumps
from tests.replay.told import records

CAPTURES = Path(__file__).parent.parent.parent / "data" / "captures" / "original"
GIVEN = records(["0 CP a1/A", "1.25 HB a1/A 5 epoch=0 seen=0", "2 garbage", "3 RP a1/A 5"])


def read(*paths: Path, one_log: bool = False) -> list[tuple[str, RawRecord]]:
    found = find([str(path) for path in paths], one_log=one_log)
    return [
        pair
        for number, chunk in enumerate(found.chunks)
        for batch in read_chunk(number, chunk)
        for pair in records_of(batch)
    ]


def logs(*paths: Path) -> set[str]:
    return set(find([str(path) for path in paths]).logs)


def test_a_folder_of_captures_is_one_log_each_and_traces_are_left_out() -> None:
    found = find([str(CAPTURES)])
    assert found.logs == tuple(
        sorted(p.stem for p in CAPTURES.glob("*.jsonl") if ".trace" not in p.name)
    )
    assert len([place for place in found.left_out if "output of a trace" in place]) == 8


@pytest.mark.parametrize("chunk_bytes", [1, 50, 151, 10_000, 10_000_000])
def test_a_capture_read_in_pieces_is_the_capture(
    chunk_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "CHUNK_BYTES", chunk_bytes)
    path = CAPTURES / "h_entire_topic.jsonl"
    assert [raw for _, raw in read(path)] == list(read_capture(path))


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_parquet_gives_the_records_that_were_written(tmp_path: Path, unit: str) -> None:
    path = dumps.write(tmp_path / "dump.parquet", dumps.table(GIVEN, unit))
    assert [raw for _, raw in read(path)] == GIVEN


def test_parquet_without_headers_a_key_or_a_topic_is_read(tmp_path: Path) -> None:
    plain = records(["0 CP a1/A", "1 HB a1/A 5"])
    bare = dumps.table(plain, with_headers=False).drop_columns(["key", "topic"])
    assert [raw for _, raw in read(dumps.write(tmp_path / "d.parquet", bare))] == plain


def test_a_timestamp_without_a_zone_is_utc(tmp_path: Path) -> None:
    given = dumps.table(GIVEN)
    naive = given.set_column(
        5, "timestamp", given["timestamp"].cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us"))
    )
    assert [raw for _, raw in read(dumps.write(tmp_path / "d.parquet", naive))] == GIVEN


def test_a_null_value_is_a_record(tmp_path: Path) -> None:
    given = [RawRecord(0, 0, 5, None)]
    assert [
        raw for _, raw in read(dumps.write(tmp_path / "d.parquet", dumps.table(given)))
    ] == given


def test_part_files_of_one_folder_are_one_log(tmp_path: Path) -> None:
    for number, part in enumerate((GIVEN[:2], GIVEN[2:])):
        dumps.write(tmp_path / "dump" / f"part-{number}.parquet", dumps.table(part))
    assert logs(tmp_path / "dump") == {"dump"}
    assert logs(*sorted((tmp_path / "dump").iterdir())) == {"dump"}
    assert logs(tmp_path / "dump" / "*.parquet") == {"dump"}


def test_folders_named_parquet_are_logs_of_their_own(tmp_path: Path) -> None:
    for name in ("east.parquet", "west.parquet"):
        dumps.write(tmp_path / name / "part-0.parquet", dumps.table(GIVEN))
        (tmp_path / name / "_SUCCESS").touch()
    assert logs(tmp_path) == {"east", "west"}


def test_a_folder_can_stand_in_for_the_partition(tmp_path: Path) -> None:
    bare = dumps.table(GIVEN).drop_columns(["partition"])
    dumps.write(tmp_path / "dump" / "partition=7" / "p.parquet", bare)
    dumps.write(tmp_path / "dump" / "partition=8" / "p.parquet", bare)
    found = read(tmp_path / "dump")
    assert {(log, raw.partition) for log, raw in found} == {("dump", 7), ("dump", 8)}


def test_captures_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    for name in ("east", "west"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "marshal.jsonl").write_text(
            (CAPTURES / "a_clean.jsonl").read_text(encoding="utf-8"), encoding="utf-8"
        )
    assert logs(tmp_path) == {"east/marshal", "west/marshal"}


def test_everything_can_be_taken_for_one_log() -> None:
    both = (CAPTURES / "a_clean.jsonl", CAPTURES / "d_zombie.jsonl")
    assert len({log for log, _ in read(*both, one_log=True)}) == 1


def test_a_source_given_twice_is_read_once() -> None:
    path = CAPTURES / "a_clean.jsonl"
    assert len(read(path, path, CAPTURES / "a_*.jsonl")) == 267


def refused(*given: Path | str) -> str:
    with pytest.raises(UnreadableSource) as caught:
        read(*(Path(path) for path in given))
    return str(caught.value)


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    assert refused(tmp_path / "nothing.jsonl").endswith("nothing.jsonl: no such file or folder")
    assert refused(tmp_path / "*.jsonl").endswith("*.jsonl: no file matches")
    assert "holds no file of a format that is known" in refused(tmp_path)


def test_an_empty_source_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text("\n \n")
    assert refused(tmp_path / "x.jsonl").endswith("x.jsonl: the source is empty")
    (tmp_path / "x.jsonl").write_text("")
    assert refused(tmp_path).endswith("the source is empty")
    dumps.write(tmp_path / "d.parquet", dumps.table([]))
    assert refused(tmp_path / "d.parquet").endswith("the source is empty")


@pytest.mark.parametrize("given", ["dump.jsonl", "dump.*"])
def test_a_pipe_is_refused_before_it_is_opened(tmp_path: Path, given: str) -> None:
    """To open one without a writer waits for ever, and what is read of one is gone."""
    os.mkfifo(tmp_path / "dump.jsonl")
    said = "dump.jsonl: it is a pipe, and would be read more than once: write it to a file"
    assert refused(tmp_path / given).endswith(said)


def test_an_empty_part_beside_a_full_one_is_no_trouble(tmp_path: Path) -> None:
    dumps.write(tmp_path / "a.parquet", dumps.table([]))
    dumps.write(tmp_path / "b.parquet", dumps.table(GIVEN))
    assert len(read(tmp_path)) == len(GIVEN)


@pytest.mark.parametrize("column", ["value", "partition", "offset", "timestamp", "timestampType"])
def test_a_missing_column_is_named(tmp_path: Path, column: str) -> None:
    path = dumps.write(tmp_path / "d.parquet", dumps.table(GIVEN).drop_columns([column]))
    assert refused(path) == f"{path}: column {column!r} is missing"


@pytest.mark.parametrize(
    "column", ["value", "partition", "offset", "timestamp", "timestampType", "headers"]
)
def test_a_column_of_a_wrong_type_is_named(tmp_path: Path, column: str) -> None:
    given = dumps.table(GIVEN)
    place = given.schema.get_field_index(column)
    wrong = given.set_column(place, column, pa.array([True] * len(GIVEN)))
    path = dumps.write(tmp_path / "d.parquet", wrong)
    assert f"{path}: column {column!r} is bool, not " in refused(path)


def test_a_dump_of_several_topics_is_not_taken_for_one_log(tmp_path: Path) -> None:
    one = dumps.table(GIVEN)
    topics = pa.array(["__marshal", *["events"] * (len(GIVEN) - 1)])
    both = one.set_column(one.schema.get_field_index("topic"), "topic", topics)
    complaint = refused(dumps.write(tmp_path / "d.parquet", both))
    assert "several topics (__marshal, events)" in complaint


@pytest.mark.parametrize("column", ["partition", "offset", "timestamp"])
def test_a_null_where_a_number_must_be_is_named_with_its_row(tmp_path: Path, column: str) -> None:
    given = dumps.table(GIVEN)
    place = given.schema.get_field_index(column)
    cells = given[column].to_pylist()
    cells[2] = None
    wrong = given.set_column(place, column, pa.array(cells, given[column].type))
    path = dumps.write(tmp_path / "d.parquet", wrong)
    assert refused(path) == f"{path}: row 3: column {column!r} is null"


@pytest.mark.parametrize("column", ["partition", "offset"])
def test_the_first_row_that_is_wrong_is_named(tmp_path: Path, column: str) -> None:
    given = dumps.table([RawRecord(0, offset, 5, b"x") for offset in range(250)])
    place = given.schema.get_field_index(column)
    cells = given[column].to_pylist()
    cells[120], cells[130], cells[240] = -7, -8, None
    wrong = given.set_column(place, column, pa.array(cells, given[column].type))
    path = dumps.write(tmp_path / "d.parquet", wrong)
    assert refused(path) == f"{path}: row 121: column {column!r} is negative: -7"
    before = [raw.timestamp_ms - 10 for raw in GIVEN]
    early = [attrs.evolve(raw, timestamp_ms=ms) for raw, ms in zip(GIVEN, before, strict=True)]
    early[0] = attrs.evolve(early[0], timestamp_ms=-1)  # a time before 1970 is a time
    path = dumps.write(tmp_path / "e.parquet", dumps.table(early))
    assert [raw for _, raw in read(path)] == early


def test_a_partition_that_kafka_cannot_name_is_no_partition(tmp_path: Path) -> None:
    given = dumps.table(GIVEN)
    place = given.schema.get_field_index("partition")
    wide = given.set_column(place, "partition", pa.array([2**31] * len(GIVEN), pa.int64()))
    path = dumps.write(tmp_path / "d.parquet", wide)
    assert refused(path) == f"{path}: row 1: column 'partition' is not in 0..2147483647: 2147483648"
    for name in (str(2**31), "9" * 30):
        path = dumps.write(tmp_path / f"partition={name}" / "p", given.drop_columns(["partition"]))
        assert refused(path) == f"{path}: column 'partition' is missing"


def test_a_type_of_timestamp_that_is_none_of_kafkas_is_not_stated(tmp_path: Path) -> None:
    given = dumps.table([RawRecord(0, offset, 5, b"x") for offset in range(5)])
    place = given.schema.get_field_index("timestampType")
    wrong = given.set_column(place, "timestampType", pa.array([0, 1, 2, -1, None], pa.int32()))
    found = read(dumps.write(tmp_path / "d.parquet", wrong))
    assert [raw.timestamp_type.value for _, raw in found] == [
        "create_time",
        "log_append_time",
        *["not_stated"] * 3,
    ]


def test_headers_are_read_in_whatever_way_they_are_written(tmp_path: Path) -> None:
    given = dumps.table(GIVEN[:3])
    pairs = [None, [{"key": "a", "value": b"1"}, {"key": "a", "value": None}], []]
    wanted = [(), (("a", b"1"), ("a", None)), ()]
    text, other = pa.string(), pa.large_string()
    for key, value in ((text, pa.binary()), (pa.binary(), text), (other, pa.large_binary())):
        for kind in (
            pa.list_(pa.struct([("key", key), ("value", value)])),
            pa.list_(pa.struct([("value", value), ("key", key), ("more", text)])),
            pa.large_list(pa.struct([("key", key), ("value", value)])),
        ):
            headers = pa.array(pairs, pa.list_(pa.struct([("key", text), ("value", pa.binary())])))
            written = pa.array(_cast(headers.to_pylist(), key, value), kind)
            path = dumps.write(
                tmp_path / "d.parquet",
                given.drop_columns(["headers"]).append_column("headers", written),
            )
            assert [raw.headers for _, raw in read(path)] == wanted
    odd = [[None, {"key": None, "value": b"1"}], None, [{"key": "a", "value": b"2"}]]
    headers = pa.array(odd, dumps.HEADERS)
    table = given.drop_columns(["headers"]).append_column("headers", headers)
    path = dumps.write(tmp_path / "d.parquet", table)
    assert [raw.headers for _, raw in read(path)] == [(("", b"1"),), (), (("a", b"2"),)]


def _cast(rows: list[Any], key: pa.DataType, value: pa.DataType) -> list[Any]:
    """Cells of the Python type that the column's type asks for."""

    def cell(text: object, kind: pa.DataType) -> object:
        if isinstance(text, bytes) and not pa.types.is_binary(kind) and kind != pa.large_binary():
            return text.decode()
        if isinstance(text, str) and pa.types.is_binary(kind):
            return text.encode()
        return text

    return [
        pairs and [{"key": cell(p["key"], key), "value": cell(p["value"], value)} for p in pairs]
        for pairs in rows
    ]


def test_an_unreadable_line_is_named_with_its_number(tmp_path: Path) -> None:
    lines = (CAPTURES / "a_clean.jsonl").read_text(encoding="utf-8").splitlines()[:3]
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join([*lines, "", "{oops"]), encoding="utf-8")
    assert refused(path).startswith(f"{path}:5: not a JSON object")
    path.write_bytes(b"\n".join(line.encode() for line in lines) + b'\n{"a": "\xff"}')
    assert refused(path).startswith(f"{path}:4: not UTF-8 text")


def test_what_only_looks_like_parquet_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"hello")
    assert refused(tmp_path / "a.parquet").endswith("a.parquet: not a Parquet file")
    (tmp_path / "a.parquet").write_bytes(b"PAR1hello")
    assert "not a readable Parquet file" in refused(tmp_path / "a.parquet")


def test_a_header_of_parquet_that_is_no_text_is_refused(tmp_path: Path) -> None:
    keys = pa.array([b"marshal-\xff"]).view(pa.string())  # a damaged page: nothing checked it
    pairs = pa.StructArray.from_arrays([keys, pa.array([b"1"])], ["key", "value"])
    rows = {
        "value": pa.array([b"x"]),
        "partition": pa.array([0], pa.int32()),
        "offset": pa.array([0], pa.int64()),
        "timestamp": pa.array([0], pa.timestamp("ms", "UTC")),
        "timestampType": pa.array([1], pa.int32()),
        "headers": pa.ListArray.from_arrays([0, 1], pairs),
    }
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(rows), path)
    assert "a.parquet: not a readable Parquet file: Invalid" in refused(path)

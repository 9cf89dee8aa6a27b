"""Each kind of dump: the records in it, what it cannot prove, and what is told of a bad one.

`tests/data/dumps` holds what real tools wrote; where that does not show something, `texts` writes
what they would have.
"""

from __future__ import annotations

import gzip
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import attrs
import cramjam
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from aiokafka.record.default_records import DefaultRecordBatch
from pyspark.sql import SparkSession

from kafka_marshal.capture import RawRecord, TimestampType, UnreadableSource, read_capture
from kafka_marshal.replay import run
from kafka_marshal.replay.reading import read_chunk, records_of
from kafka_marshal.replay.sources import Found, find, segment, text
from tests.replay import dumps, texts
from tests.replay.told import records

DUMPS = Path(__file__).parent.parent / "data" / "dumps"
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
TEXTS: dict[str, Callable[[list[RawRecord]], bytes]] = {
    "kcat": texts.kcat,
    "console": texts.console,
    "dump-log": texts.dump_log,
}


def records_in(found: Found) -> list[RawRecord]:
    return [
        raw
        for number, chunk in enumerate(found.chunks)
        for batch in read_chunk(number, chunk)
        for _, raw in records_of(batch)
    ]


def read(
    *paths: Path, source_format: str | None = None, topic: str | None = None
) -> list[RawRecord]:
    given = [str(path) for path in paths]
    return records_in(find(given, source_format=source_format, topic=topic))


def told(*paths: Path, topic: str | None = None) -> str:
    return "\n".join(one.sentence for one in find([str(path) for path in paths], topic=topic).told)


def refused(*paths: Path, source_format: str | None = None, topic: str | None = None) -> str:
    with pytest.raises(UnreadableSource) as caught:
        read(*paths, source_format=source_format, topic=topic)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def write(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


# Real files


def produced() -> list[tuple[int, bytes | None, tuple[tuple[str, bytes | None], ...]]]:
    """Offset, value and headers of what was sent when the real files were made."""
    of_third = (("marshal-epoch", b"5"), ("x", b"a,b"))
    sent: list[tuple[bytes | None, tuple[tuple[str, bytes | None], ...]]] = []
    for number in range(20):
        value = f"Heartbeat/1/17000000{number:02}/i1/c1/g/events/{number % 4}/{number}"
        sent.append((value.encode(), of_third if number % 4 == 2 else ()))
        if number % 4 == 3:
            sent += [(None, ()), (b"caf\xe9\tx", (("marshal-seen", None),))]
            sent += [(b"two\nlines payload: q", ()), (b"", ())]
    rows = [(offset, value, headers) for offset, (value, headers) in enumerate(sent)]
    in_transactions = ((40, b"9"), (42, b"10"))
    rows += [
        (offset, b"Heartbeat/1/1700000099/i1/c1/g/events/0/" + number, ())
        for offset, number in in_transactions
    ]
    return rows


@pytest.mark.parametrize("name", REAL)
def test_real_dumps_give_what_was_produced(name: str) -> None:
    wanted = produced()
    if name == "kcat":
        wanted = wanted[:-1]  # what was aborted it does not show
    if name == "dump-log":
        replaced = "caf\ufffd\tx".encode()
        wanted = [(o, replaced if v == b"caf\xe9\tx" else v, ()) for o, v, _ in wanted]
    found = read(REAL[name])
    assert [(raw.offset, raw.value, raw.headers) for raw in found] == wanted
    assert {raw.partition for raw in found} == {3}
    assert {raw.timestamp_type for raw in found} == {TimestampType.LOG_APPEND_TIME}
    of_segment = {raw.offset: raw.timestamp_ms for raw in read(REAL["segment"])}
    assert all(raw.timestamp_ms == of_segment[raw.offset] for raw in found)


@pytest.mark.parametrize("chunk_bytes", [1, 50, 151, 1000, 10_000_000])
@pytest.mark.parametrize("name", REAL)
def test_real_dumps_read_in_pieces_are_the_same(
    name: str, chunk_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = read(REAL[name])
    monkeypatch.setattr(text, "CHUNK_BYTES", chunk_bytes)
    monkeypatch.setattr(text, "BLOCK_BYTES", 100)
    found = find([str(REAL[name])])
    assert chunk_bytes > 1000 or len(found.chunks) > 1
    assert records_in(found) == whole


@pytest.mark.parametrize("name", ["kcat", "console", "dump-log"])
@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_real_dumps_may_be_compressed(tmp_path: Path, name: str, suffix: str) -> None:
    plain = REAL[name].read_bytes()
    half = len(plain) // 2
    pack: Callable[[bytes], bytes] = (
        gzip.compress if suffix == ".gz" else lambda data: bytes(cramjam.zstd.compress(data))
    )
    packed = pack(plain[:half]) + pack(plain[half:])  # as with `cat a.gz b.gz`
    path = write(tmp_path / f"dump.txt{suffix}", packed)
    found = find([str(path)])
    assert records_in(found) == read(REAL[name])
    assert found.logs == ("dump",)
    assert refused(write(tmp_path / f"cut{suffix}", packed[:-20])).startswith(
        f"{tmp_path}/cut{suffix}: "
    )


def test_a_packed_text_that_is_cut_far_behind_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "SCAN_BYTES", 1000)  # so that its head is fine
    order = random.Random(7)  # so that it does not shrink to nothing
    given = [attrs.evolve(BARE[0], offset=at, value=order.randbytes(40)) for at in range(5000)]
    as_text = [attrs.evolve(raw, value=(raw.value or b"").hex().encode()) for raw in given]
    path = write(tmp_path / "d.gz", gzip.compress(texts.kcat(as_text))[:-20])
    assert refused(path) == f"{path}: Truncated compressed stream"


def test_a_folder_of_everything_is_read_and_captures_in_gzip_too(tmp_path: Path) -> None:
    shutil.copytree(DUMPS, tmp_path / "all")
    lines = json.dumps(
        {"partition": 1, "offset": 0, "timestamp_ms": 5, "timestamp_type": 2, "value": "x"}
    )
    write(tmp_path / "all" / "c.jsonl.gz", gzip.compress(lines.encode()))
    found = find([str(tmp_path / "all")])
    assert set(found.logs) == {"__marshal", "kcat", "console", "all", "c"}
    assert found.left_out == (f"{tmp_path}/all/README.md: of no format that is known",)


def test_what_a_dump_cannot_prove_is_told_where_it_matters() -> None:
    assert "aborted" in told(REAL["segment"])
    assert told(REAL["dump-log"]).startswith("EPOCHS ARE LOST")
    assert "not UTF-8 were replaced" in told(REAL["dump-log"])
    assert "aborted" in told(REAL["dump-log"])
    assert "null as the word null" in told(REAL["console"])
    assert "EPOCHS" not in told(REAL["console"])


# Texts as the tools would have written them


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_gives_the_records_that_were_written(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "dump.txt", TEXTS[name](GIVEN))
    assert read(path) == (BARE if name == "dump-log" else GIVEN)


@pytest.mark.parametrize("block_bytes", [100, 100_000])
@pytest.mark.parametrize("name", TEXTS)
def test_a_bad_line_is_named_with_its_number(
    tmp_path: Path, name: str, block_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "BLOCK_BYTES", block_bytes)
    monkeypatch.setattr(text, "CHUNK_BYTES", 3 * block_bytes)
    lines = TEXTS[name](GIVEN).splitlines(keepends=True)
    bad = {
        "kcat": b'{"topic":"__marshal","partition":2,"offset":"x","ts":1,"payload":""}\n',
        "console": b"CreateTime:x\tPartition:2\tOffset:1\tNO_HEADERS\tnull\tx\n",
        "dump-log": b"| offset: 7 nonsense\n",
    }[name]
    data = b"".join([*lines[:-1], bad, lines[-1]])
    assert refused(write(tmp_path / "d", data)).startswith(f"{tmp_path}/d:{len(lines)}: ")
    packed = write(tmp_path / "d.gz", gzip.compress(data))
    assert refused(packed).startswith(f"{tmp_path}/d.gz:{len(lines)}: ")


def test_without_headers_a_dump_log_proves_that_there_were_none(tmp_path: Path) -> None:
    assert told(write(tmp_path / "d", texts.dump_log(BARE))) == ""
    other = [attrs.evolve(raw, headers=(("x", b"1"),)) for raw in GIVEN]
    sentence = told(write(tmp_path / "d", texts.dump_log(other)))
    assert "names of headers" in sentence
    assert "EPOCHS" not in sentence


def test_a_dump_log_needs_a_partition_and_values(tmp_path: Path) -> None:
    nameless = texts.dump_log(BARE).split(b"\n", 1)[1]
    assert "no partition is known" in refused(write(tmp_path / "d", nameless))
    assert read(write(tmp_path / "__marshal-2" / "d", nameless)) == BARE
    silent = b"\n".join(texts.dump_log(BARE).splitlines()[:3])
    assert "--print-data-log" in refused(write(tmp_path / "e", silent))


@pytest.mark.parametrize("name", ["partition", "offset"])
def test_a_console_text_that_cannot_be_replayed_names_the_option(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "d", texts.console(GIVEN, name))
    assert f"--property print.{name}=true" in refused(path)
    bare = write(tmp_path / "e", b"Heartbeat/1/1/a/b/c/d/0/1\n")
    assert "--property print.partition=true" in refused(bare, source_format="console")


@pytest.mark.parametrize("without", [(), ("key",), ("headers",), ("headers", "key")])
def test_a_console_text_may_lack_headers_and_keys(tmp_path: Path, without: tuple[str, ...]) -> None:
    path = write(tmp_path / "d", texts.console(GIVEN, *without))
    assert read(path) == (BARE if "headers" in without else GIVEN)
    assert ("print.headers=true" in told(path)) == ("headers" in without)


def test_without_a_timestamp_the_message_says_when(tmp_path: Path) -> None:
    path = write(tmp_path / "d", texts.console(GIVEN, "timestamp"))
    found = read(path)
    assert [raw.timestamp_ms for raw in found] == [
        1_700_000_000_000,
        1_700_000_001_000,
        1_700_000_001_000,  # garbage has no time of its own
        1_700_000_003_000,
        1_700_000_004_000,
    ]
    assert {raw.timestamp_type for raw in found} == {TimestampType.NOT_STATED}
    assert "each message's own time was taken" in told(path)
    only_garbage = write(tmp_path / "e", texts.console(GIVEN[2:4], "timestamp"))
    assert [raw.timestamp_ms for raw in read(only_garbage)] == [1_700_000_003_000] * 2


def test_kcat_may_write_headers_as_a_map_and_talk_between(tmp_path: Path) -> None:
    line = json.loads(texts.kcat(GIVEN[1:2]))
    line["headers"] = {"marshal-epoch": "0", "marshal-seen": "0"}
    said = "% Reached end of topic __marshal [2] at offset 5\n"
    assert read(write(tmp_path / "d", f"{said}{json.dumps(line)}\n{said}".encode())) == GIVEN[1:2]


def test_a_name_of_a_header_without_a_value_is_told(tmp_path: Path) -> None:
    line = json.loads(texts.kcat(GIVEN[1:2]))
    line["headers"] = ["marshal-epoch", "0", "marshal-seen"]
    path = write(tmp_path / "d", json.dumps(line).encode())
    assert refused(path) == f"{path}:1: field 'headers' holds a name without a value"


def test_kcat_is_known_by_a_line_that_is_not_utf_8(tmp_path: Path) -> None:
    odd = next(line for line in REAL["kcat"].read_bytes().splitlines() if b"caf\xe9" in line)
    assert [raw.value for raw in read(write(tmp_path / "d", odd))] == [b"caf\xe9\tx"]


NASTY = [
    '{"partition":0,"offset":1,"timestamp_ms":2,"value":"caf\\udce9"}',
    '{"partition":0,"offset":1,"timestamp_ms":2,"value":null,"timestamp_type":true}',
    '{"partition":0,"offset":1,"timestamp_ms":-2,"value":"","timestamp_type":1}',
    '{"partition":0,"offset":1,"timestamp_ms":2,"value":"é","headers":{"a":"\\udcff","b":null}}',
    '{"partition":0,"offset":1,"timestamp_ms":2,"value":"x","headers":[["a","1"],["a","2"]]}',
    '{"partition":0,"offset":9223372036854775807,"timestamp_ms":2,"value":"x","headers":[]}',
    '{"partition":0,"offset":1,"timestamp_ms":2,"value":"a","value":"b","timestamp_type":2}',
    '{"partition":0,"offset":1,"timestamp_ms":2,"value":"x","headers":null,"timestamp_type":"2"}',
    '{"partition":0,"offset":1,"timestamp_ms":2,"value":"x","timestamp_type":1.0}',
]
BAD = [
    '{"partition":0,"offset":1.0,"timestamp_ms":2,"value":"x"}',
    '{"partition":true,"offset":1,"timestamp_ms":2,"value":"x"}',
    '{"partition":-1,"offset":1,"timestamp_ms":2,"value":"x"}',
    '{"partition":2147483648,"offset":1,"timestamp_ms":2,"value":"x"}',
    '{"partition":0,"offset":-1,"timestamp_ms":2,"value":"x"}',
    '{"partition":0,"offset":9223372036854775808,"timestamp_ms":2,"value":"x"}',
    '{"partition":0,"offset":1,"timestamp_ms":2}',
    '{"partition":0,"offset":1,"timestamp_ms":2,"value":7}',
    '{"partition":0,"offset":1,"timestamp_ms":2,"value":"x","state":{}}',
    '{"partition":0,"offset":1,"timestamp_ms":2,"value":"x","headers":""}',
    '{"partition":0,"offset":1,"timestamp_ms":2,"value":"x","headers":["a","b"]}',
    '{"partition":0,"offset":1,"timestamp_ms":2,"value":"x","headers":["ab"]}',
    '{"partition":0,"offset":1,"timestamp_ms":2,"value":"x","headers":{"a":1}}',
    "[1]",
]


@pytest.mark.parametrize("blank", ["", "\n"])
@pytest.mark.parametrize("line", NASTY)
def test_lines_read_together_are_what_they_are_one_by_one(
    tmp_path: Path, line: str, blank: str
) -> None:
    fine = '{"partition":0,"offset":0,"timestamp_ms":1,"timestamp_type":2,"value":"fine"}'
    path = write(tmp_path / "x.jsonl", f"{fine}\n{blank}{line}\n{fine}".encode())
    assert read(path) == list(read_capture(path))


@pytest.mark.parametrize("line", BAD)
def test_a_bad_line_among_good_ones_is_told_as_if_it_were_alone(tmp_path: Path, line: str) -> None:
    fine = '{"partition":0,"offset":0,"timestamp_ms":1,"timestamp_type":2,"value":"fine"}'
    path = write(tmp_path / "x.jsonl", f"{fine}\n{line}\n{fine}\n".encode())
    with pytest.raises(UnreadableSource) as alone:
        list(read_capture(path))
    assert refused(path) == str(alone.value)


# Segments


@pytest.mark.parametrize("codec", range(5))
def test_a_segment_keeps_everything_in_any_compression(tmp_path: Path, codec: int) -> None:
    data = texts.batch(AT_ONCE * 20, codec)
    path = texts.segment(tmp_path / "__marshal-2", data)
    assert data[22] & 7 == codec
    assert [(r.value, r.headers, r.timestamp_ms) for r in read(path)] == [
        (r.value, r.headers, r.timestamp_ms) for r in AT_ONCE * 20
    ]
    assert told(path) == ""
    created = [attrs.evolve(r, timestamp_type=TimestampType.CREATE_TIME) for r in AT_ONCE]
    path = texts.segment(tmp_path / "__marshal-2", texts.batch(created, codec))
    assert read(path) == created


def test_control_batches_are_no_records(tmp_path: Path) -> None:
    marker = texts.batch(AT_ONCE[2:3], attributes=0x30)
    data = (texts.batch(AT_ONCE[:2]), marker, texts.batch(AT_ONCE[3:]))
    path = texts.segment(tmp_path / "__marshal-2", *data)
    assert read(path) == [*AT_ONCE[:2], *AT_ONCE[3:]]
    assert told(path) == ""  # a marker alone is no record that could have been aborted


def test_a_cut_last_batch_is_left_out_and_told(tmp_path: Path) -> None:
    first, last = texts.batch(AT_ONCE[:2]), texts.batch(AT_ONCE[2:])
    for cut in (1, 30, 61, len(last) - 1):
        path = texts.segment(tmp_path / "__marshal-2", first, last[:cut])
        assert read(path) == AT_ONCE[:2]
        assert f"cut at byte {len(first)}" in told(path)
    path = texts.segment(tmp_path / "__marshal-2", first, bytes(4096))
    assert read(path) == AT_ONCE[:2]  # preallocated, not yet written
    assert told(path) == ""


def test_a_damaged_batch_is_named_with_its_byte(tmp_path: Path) -> None:
    first, last = texts.batch(AT_ONCE[:2]), bytearray(texts.batch(AT_ONCE[2:]))
    last[-3] ^= 1
    path = texts.segment(tmp_path / "__marshal-2", first, bytes(last))
    assert refused(path) == f"{path}: byte {len(first)}: the checksum of a record batch is wrong"
    path = texts.segment(tmp_path / "__marshal-2", first, b"hello, world" * 20)
    assert refused(path) == f"{path}: byte {len(first)}: not a record batch"
    old = bytearray(first)
    old[16] = 1
    assert "format v1" in refused(texts.segment(tmp_path / "__marshal-2", bytes(old)))


def test_a_segment_needs_the_name_of_its_folder(tmp_path: Path) -> None:
    path = texts.segment(tmp_path / "somewhere", texts.batch(AT_ONCE))
    assert "TOPIC-PARTITION" in refused(path)


def test_the_folders_of_a_data_folder_are_one_log_per_topic(tmp_path: Path) -> None:
    for name in ("__marshal-2", "__marshal-11", "events-0"):
        texts.segment(tmp_path / "data" / name, texts.batch(AT_ONCE))
        write(tmp_path / "data" / name / "00000000000000000000.index", bytes(8))
    write(tmp_path / "data" / "__marshal-2" / "00000000000000000005.log", b"")
    deleted = write(tmp_path / "data" / "__marshal-2" / "0.log.deleted", texts.batch(AT_ONCE))
    complaint = refused(tmp_path / "data")
    assert "several topics (__marshal, events); --topic" in complaint
    alone = find([str(tmp_path / "data" / "events-0" / "00000000000000000000.log")])
    assert alone.logs == ("events",)
    found = find([str(tmp_path / "data")], topic="__marshal")
    assert found.logs == ("__marshal",)
    assert found.told == ()  # what limits the others does not matter
    assert {raw.partition for raw in records_in(found)} == {2, 11}
    assert f"{tmp_path}/data/__marshal-2/00000000000000000005.log: empty" in found.left_out
    assert f"{deleted}: not the records of a segment" in found.left_out
    assert "no record of the topic 'nobody'" in refused(tmp_path / "data", topic="nobody")


# Several topics


def both(name: str, folder: Path) -> Path:
    """A dump of GIVEN in `__marshal`, between others' records."""
    if name == "kcat":
        mine, others = texts.kcat(GIVEN), texts.kcat(BARE, "events")
        return write(folder / "d", mine + others)
    if name == "dump-log":
        mine, others = texts.dump_log(BARE), texts.dump_log(BARE, "events")
        return write(folder / "d", others + mine)
    table = dumps.table(GIVEN)
    others_table = table.set_column(2, "topic", pa.array(["events"] * len(GIVEN)))
    return dumps.write(folder / "d.parquet", pa.concat_tables([others_table, table]))


@pytest.mark.parametrize("chunk_bytes", [1, 10_000_000])
@pytest.mark.parametrize("name", ["kcat", "dump-log", "parquet"])
def test_a_dump_of_several_topics_needs_a_choice(
    tmp_path: Path, name: str, chunk_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "CHUNK_BYTES", chunk_bytes)
    path = both(name, tmp_path)
    complaint = refused(path)
    assert "several topics (__marshal, events)" in complaint
    assert "--topic" in complaint
    assert read(path, topic="__marshal") == (BARE if name == "dump-log" else GIVEN)


def test_packed_texts_of_several_topics_are_no_different(tmp_path: Path) -> None:
    for name in ("kcat", "dump-log"):
        path = write(tmp_path / f"{name}.gz", gzip.compress(both(name, tmp_path).read_bytes()))
        assert "several topics (__marshal, events)" in refused(path)
        assert read(path, topic="__marshal") == (BARE if name == "dump-log" else GIVEN)


def test_topics_are_seen_where_a_footer_does_not_say_them(tmp_path: Path) -> None:
    path = both("parquet", tmp_path)
    pq.write_table(pq.read_table(path), path, write_statistics=False)
    assert "several topics (__marshal, events)" in refused(path)
    assert read(path, topic="__marshal") == GIVEN


def test_a_dump_that_names_no_topics_says_that_it_was_not_filtered(tmp_path: Path) -> None:
    path = write(tmp_path / "d", texts.console(GIVEN))
    assert read(path, topic="__marshal") == GIVEN
    assert "--topic chose nothing here" in told(path, topic="__marshal")


def test_parquet_without_headers_says_so(tmp_path: Path) -> None:
    assert told(dumps.write(tmp_path / "d.parquet", dumps.table(BARE))) == ""
    bare = dumps.table(BARE, with_headers=False)
    assert "includeHeaders" in told(dumps.write(tmp_path / "d.parquet", bare))


# Connect


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


# Which format


def test_a_file_of_no_format_that_is_known_tells_what_was_looked_for(tmp_path: Path) -> None:
    path = write(tmp_path / "notes", b"hello\n")
    complaint = refused(path)
    assert complaint.startswith(f"{path}: of no format that is known; --format says which it is")
    for name in ("capture", "kcat", "console", "dump-log", "segment", "connect", "parquet"):
        assert f"{name}: " in complaint
    assert refused(tmp_path).startswith(f"{tmp_path}: the folder holds no file of a format")


def test_a_format_may_be_said(tmp_path: Path) -> None:
    path = write(tmp_path / "d", b"[main] INFO hello\n\n" + texts.console(GIVEN))
    assert read(path, source_format="console") == GIVEN
    assert "not a JSON object" in refused(path, source_format="capture")
    assert "--format tea: there are capture, kcat" in refused(path, source_format="tea")
    shutil.copytree(DUMPS, tmp_path / "all")
    assert read(tmp_path / "all", source_format="segment") == read(REAL["segment"])


def test_what_the_checksum_is_for_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the check a flipped bit would be a record: so it is the check that finds it."""
    data = bytearray(texts.batch(AT_ONCE))
    data[-1 - len(b"/5")] ^= 1

    class Believing:
        def __init__(self, buffer: bytes) -> None:
            self._batch = DefaultRecordBatch(buffer)

        def __getattr__(self, name: str) -> object:
            return getattr(self._batch, name)

        def __iter__(self) -> object:
            return iter(self._batch)

        def validate_crc(self) -> bool:
            return True

    path = texts.segment(tmp_path / "__marshal-2", bytes(data))
    assert "checksum" in refused(path)
    monkeypatch.setattr(segment, "DefaultRecordBatch", Believing)
    assert len(read(path)) == len(AT_ONCE)


@pytest.mark.spark
def test_a_replay_repeats_what_its_formats_cannot_prove(
    spark: SparkSession, tmp_path: Path
) -> None:
    summary = run(
        [str(REAL["dump-log"]), str(REAL["segment"])],
        out=tmp_path / "out",
        heartbeat_interval_s=4,
        spark=spark,
    )
    assert summary.records == 84
    assert set(summary.logs) == {"dump-log", "__marshal"}
    assert summary.caveats[0].startswith("dump-log (1 file): EPOCHS ARE LOST")
    assert any(caveat.startswith("segment (1 file): ") for caveat in summary.caveats)
    written = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    assert written["caveats"] == list(summary.caveats)
    assert "EPOCHS ARE LOST" in summary.report.read_text(encoding="utf-8")


@pytest.mark.spark
def test_damage_that_only_a_task_sees_is_told_as_any_other(
    spark: SparkSession, tmp_path: Path
) -> None:
    data = bytearray(texts.batch(AT_ONCE))
    data[-1] ^= 1
    path = texts.segment(tmp_path / "in" / "__marshal-2", bytes(data))
    with pytest.raises(UnreadableSource) as caught:
        run([str(path)], out=tmp_path / "out", heartbeat_interval_s=4, spark=spark)
    assert str(caught.value) == f"{path}: byte 0: the checksum of a record batch is wrong"
    assert not (tmp_path / "out").exists()

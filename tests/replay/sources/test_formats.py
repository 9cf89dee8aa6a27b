"""Each kind of dump: the records in it, what it cannot prove, and the errors of a bad one.

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
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from kafka_marshal.capture import RawRecord, TimestampType, UnreadableSource, read_capture
from kafka_marshal.replay import run
from kafka_marshal.replay.sources import find, text
from tests.replay import dumps
from tests.replay.sources import texts
from tests.replay.sources.readers import (
    AT_ONCE,
    BARE,
    DUMPS,
    GIVEN,
    REAL,
    read,
    records_in,
    refused,
    told,
    write,
)

TEXTS: dict[str, Callable[[list[RawRecord]], bytes]] = {
    "kcat": texts.kcat,
    "console": texts.console,
    "dump-log": texts.dump_log,
}


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


@pytest.mark.parametrize("name", TEXTS)
def test_a_number_of_any_length_is_told(tmp_path: Path, name: str) -> None:
    """Python refuses to read a number of 5,000 digits, with an error of its own."""
    for number in (b"Partition:2", b"offset: 3", b'"offset":3', b"Offset:3", b"valueSize: "):
        data = TEXTS[name](GIVEN).replace(number, number + b"9" * 5000)
        if data != TEXTS[name](GIVEN):
            assert refused(write(tmp_path / "d", data)).startswith(f"{tmp_path}/d")


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("filler", [b"x", b"\n x"])
def test_a_packed_text_that_unpacks_to_one_endless_record_is_refused(
    tmp_path: Path, name: str, filler: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A megabyte of gzip unpacks to a gigabyte, and of zstandard to much more."""
    monkeypatch.setattr(text, "UNPACKED_BYTES_MAX", 500_000)
    bomb = TEXTS[name](GIVEN) + filler * 600_000
    said = refused(write(tmp_path / "d.gz", gzip.compress(bomb)))
    assert "500,000 bytes" in said or "not a" in said
    bomb = filler * 600_000
    assert refused(write(tmp_path / "e.gz", gzip.compress(bomb)), source_format=name)


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


def test_a_replay_repeats_what_its_formats_cannot_prove(tmp_path: Path) -> None:
    summary = run(
        [str(REAL["dump-log"]), str(REAL["segment"])],
        out=tmp_path / "out",
        heartbeat_interval_s=4,
        engine="local",
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

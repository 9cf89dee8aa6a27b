"""Every format that a replay reads: records that can be, or one sentence that names the file."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from aiokafka.record.util import calc_crc32c
from tests.kernel import hostile
from tests.replay.sources import texts
from tests.replay.sources.readers import AT_ONCE, DUMPS, GIVEN
from tools.fuzz.oracle import Finding, differs, refused_by
from tools.fuzz.target import Target

from kafka_marshal.capture import (
    RawRecord,
    UnreadableSource,
    capture_line,
    parse_line,
    read_capture,
)
from kafka_marshal.codec import PARTITION_MAX, MalformedRecord
from kafka_marshal.replay.fold.reading import read_chunk, records_of
from kafka_marshal.replay.sources import find

INT64 = range(-(2**63), 2**63)
WORDS = (
    *(b'"partition":', b'"offset":', b'"timestamp_ms":', b'"timestamp_type":', b'"value":null'),
    *(b'"headers":[["marshal-epoch","1"]]', b'"headers":{"a":null}', b'"headers":', b'"state":1'),
    *(b'"payload":', b'"ts":', b'"tstype":"create"', b'"topic":"t"', b"% ", b"NO_HEADERS", b"\t"),
    *(b"CreateTime:", b"LogAppendTime:1", b"NO_TIMESTAMP", b"Partition:0", b"Offset:1", b"Epoch:0"),
    *(b"Dumping /d/t-0/0.log\n", b"| offset: 1 ", b" payload: ", b"keySize: -1 valueSize: 3"),
    *(b"headerKeys: [a]", b"baseOffset: 1", b"Obj\x01", b"PAR1", b"\x1f\x8b", b"\x28\xb5\x2f\xfd"),
)


def read(path: Path) -> list[RawRecord]:
    """All records of a file."""
    found = find([str(path)])
    return [
        raw
        for number, chunk in enumerate(found.chunks)
        for batch in read_chunk(number, chunk)
        for _, raw in records_of(batch)
    ]


def check_records(raws: list[RawRecord]) -> None:
    """Kafka could have held them; a capture holds them; each is a message or malformed."""
    for raw in raws:
        if not 0 <= raw.partition <= PARTITION_MAX:
            raise Finding("range", f"partition {raw.partition}")
        if not 0 <= raw.offset < 2**63 or raw.timestamp_ms not in INT64:
            raise Finding("range", f"offset {raw.offset} at {raw.timestamp_ms}")
        if parse_line(capture_line(raw), "x:1") != raw:
            raise differs("a capture's line", capture_line(raw), raw)
        with refused_by(MalformedRecord):
            raw.decoded()


def in_file(name: str) -> Callable[[bytes, Path], None]:
    """Check an input that lies in a file of that name."""

    def check(data: bytes, desk: Path) -> None:
        path = desk / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        with refused_by(UnreadableSource, naming=str(desk)):
            check_records(read(path))

    return check


def check_capture(data: bytes, desk: Path) -> None:
    """Read at once or line by line, a capture says the same."""
    path = desk / "capture.jsonl"
    path.write_bytes(data)
    if data[:2] == b"\x1f\x8b" or data[:4] == b"\x28\xb5\x2f\xfd":
        return
    by_line: list[RawRecord] | None = None
    with refused_by(UnreadableSource, naming=str(desk)):
        by_line = list(read_capture(path))
        check_records(by_line)
    at_once: list[RawRecord] | None = None
    with refused_by(UnreadableSource, naming=str(desk)):
        at_once = read(path)
    if by_line != at_once and data.lstrip()[:1] == b"{":
        raise differs("line by line and at once", by_line, at_once)


def captures() -> Iterator[bytes]:
    """Hostile logs as captures, and one of everything."""
    for seed in range(3):
        yield "".join(f"{capture_line(raw)}\n" for raw in hostile.log(seed, 12)).encode()
    yield "".join(f"{capture_line(raw)}\n" for raw in GIVEN).encode()
    yield (
        b'{"partition":2147483647,"offset":9223372036854775807,"timestamp_ms":-1,"value":"\\udcff",'
        b'"headers":{"marshal-epoch":"1","x":null},"timestamp_type":1}\n'
    )


def packed() -> Iterator[bytes]:
    """Texts in gzip and in zstandard."""
    for data in captures():
        yield gzip.compress(data, mtime=0)
        yield pa.compress(data, codec="zstd", asbytes=True)


def kcats() -> Iterator[bytes]:
    """What kcat prints."""
    yield texts.kcat(GIVEN)
    yield (DUMPS / "kcat.json").read_bytes()[:1500]
    yield b'{"partition":0,"offset":1,"ts":5,"payload":"x","headers":{"a":"b"}}\n% end\n'


def consoles() -> Iterator[bytes]:
    """What the console consumer prints."""
    yield texts.console(GIVEN)
    yield texts.console(GIVEN, "timestamp", "headers", "key")
    yield (DUMPS / "console.txt").read_bytes()[:1500]


def dump_logs() -> Iterator[bytes]:
    """What kafka-dump-log prints."""
    yield texts.dump_log(GIVEN)
    yield (DUMPS / "dump-log.txt").read_bytes()[:2500]


def segments() -> Iterator[bytes]:
    """Record batches, in every compression."""
    for codec in range(5):
        yield texts.batch(AT_ONCE, codec)
    yield texts.batch(AT_ONCE[:2]) + texts.batch(AT_ONCE[2:], attributes=0x30)


def with_checksums(data: bytes) -> bytes:
    """Batches whose lengths and checksums are right, as far as lengths lead."""
    whole, at = bytearray(data), 0
    while at + 61 <= len(whole):
        length = int.from_bytes(whole[at + 8 : at + 12], "big")
        end = at + 12 + length
        if length < 49 or end > len(whole):
            end = len(whole)
            whole[at + 8 : at + 12] = (end - at - 12).to_bytes(4, "big")
        whole[at + 17 : at + 21] = calc_crc32c(bytes(whole[at + 21 : end])).to_bytes(4, "big")
        at = end
    return bytes(whole)


def connect_lines() -> Iterator[bytes]:
    """What a sink writes as JSON."""
    for raw in GIVEN:
        assert raw.value is not None
        yield json.dumps(raw.value.decode()).encode() + b"\n"
    item = {"value": "Heartbeat/1/5/i/c/g/t/0/4", "offset": 7, "timestamp": 1000}
    yield json.dumps(item).encode() + b"\nnull\n"


def avros() -> Iterator[bytes]:
    """What a sink writes as Avro."""
    fields = [{"name": "value", "type": ["null", "bytes"]}, {"name": "offset", "type": "long"}]
    schema = fastavro.parse_schema({"type": "record", "name": "r", "fields": fields})
    rows = [{"value": raw.value, "offset": raw.offset} for raw in GIVEN]
    for codec in ("null", "deflate"):
        file = io.BytesIO()
        fastavro.writer(file, schema, rows, codec=codec, sync_marker=b"0123456789abcdef")
        yield file.getvalue()
    file = io.BytesIO()
    fastavro.writer(file, "string", ["a", "b"], sync_marker=b"0123456789abcdef")
    yield file.getvalue()


def parquets() -> Iterator[bytes]:
    """Parquet as Spark's Kafka source has it, in some types."""
    pairs = [[{"key": name, "value": value} for name, value in raw.headers] for raw in GIVEN]
    header = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    for kind, integer, packing in (
        (pa.binary(), pa.int32(), "none"),
        (pa.large_string(), pa.int64(), "zstd"),
        (pa.binary(), pa.int64(), "snappy"),
    ):
        table = pa.table(
            {
                "value": pa.array([raw.value for raw in GIVEN], kind),
                "topic": pa.array(["t"] * len(GIVEN)),
                "partition": pa.array([raw.partition for raw in GIVEN], integer),
                "offset": pa.array([raw.offset for raw in GIVEN], pa.int64()),
                "timestamp": pa.array([raw.timestamp_ms for raw in GIVEN], pa.timestamp("ms")),
                "timestampType": pa.array([1] * len(GIVEN), pa.int32()),
                "headers": pa.array(pairs, header),
            }
        )
        file = io.BytesIO()
        pq.write_table(table, file, compression=packing, row_group_size=3)
        yield file.getvalue()


def _source(
    name: str, file: str, seeds: Callable[[], Iterator[bytes]], *rooms: str, **more: object
) -> Target:
    return Target(
        name=name,
        rooms=(
            *(f"kafka_marshal.replay.sources.{room}" for room in rooms),
            "kafka_marshal.capture",
        ),
        seeds=seeds,
        check=in_file(file),
        words=WORDS,
        **more,  # type: ignore[arg-type]
    )


TARGETS = (
    Target(
        name="capture",
        rooms=("kafka_marshal.capture", "kafka_marshal.replay.sources"),
        seeds=captures,
        check=check_capture,
        words=WORDS,
    ),
    _source("packed", "capture.jsonl", packed, "text", "json_lines", "files", "formats"),
    _source("kcat", "kcat.json", kcats, "json_lines", "text", "formats"),
    _source("console", "console.txt", consoles, "console", "text", "guessed_time"),
    _source("dump_log", "dump.txt", dump_logs, "dump_log", "text"),
    _source(
        "segment",
        "t-3/0.log",
        segments,
        "segment",
        "text",
        "unpacking",
        repaired=with_checksums,
        size_max=4096,
    ),
    _source("connect_json", "t+3+0007.json", connect_lines, "connect", "guessed_time"),
    _source("connect_avro", "t+3+0007.avro", avros, "connect", "unpacking", size_max=4096),
    _source("connect_parquet", "t+3+0007.parquet", parquets, "connect", "unpacking", size_max=8192),
    _source("parquet", "x.parquet", parquets, "parquet", "columns", "unpacking", size_max=8192),
)

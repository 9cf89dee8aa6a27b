"""Records as the tools of the trade would have dumped them: for what real files do not show."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

from kafka_marshal.capture import RawRecord, TimestampType

_STAMPS = {TimestampType.CREATE_TIME: "CreateTime", TimestampType.LOG_APPEND_TIME: "LogAppendTime"}


def kcat(given: Sequence[RawRecord], topic: str = "__marshal") -> bytes:
    lines = []
    for raw in given:
        flat = [cell for n, v in raw.headers for cell in (n, None if v is None else v.decode())]
        fields = {
            "topic": topic,
            "partition": raw.partition,
            "offset": raw.offset,
            "tstype": {"CreateTime": "create", "LogAppendTime": "logappend"}[
                _STAMPS[raw.timestamp_type]
            ],
            "ts": raw.timestamp_ms,
            "broker": 1,
            **({"headers": flat} if flat else {}),
            "key": None if raw.key is None else raw.key.decode(),
            "payload": None if raw.value is None else raw.value.decode(),
        }
        lines.append(json.dumps(fields, separators=(",", ":")))
    return ("\n".join(lines) + "\n").encode()


def console(given: Sequence[RawRecord], *without: str) -> bytes:
    lines = []
    for raw in given:
        headers = ",".join(f"{n}:{(v or b'null').decode()}" for n, v in raw.headers)
        cells = {
            "timestamp": f"{_STAMPS[raw.timestamp_type]}:{raw.timestamp_ms}",
            "partition": f"Partition:{raw.partition}",
            "offset": f"Offset:{raw.offset}",
            "headers": headers or "NO_HEADERS",
            "key": "null" if raw.key is None else raw.key.decode(),
            "value": "null" if raw.value is None else raw.value.decode(),
        }
        lines.append("\t".join(cell for name, cell in cells.items() if name not in without))
    return ("\n".join(lines) + "\n").encode()


def dump_log(given: Sequence[RawRecord], topic: str = "__marshal") -> bytes:
    lines = [
        f"Dumping /var/lib/kafka/{topic}-{given[0].partition}/00000000000000000000.log",
        "Log starting offset: 0",
        f"baseOffset: {given[0].offset} lastOffset: {given[-1].offset} count: {len(given)} "
        "isTransactional: false isControl: false position: 0 magic: 2 isvalid: true",
    ]
    for raw in given:
        size = -1 if raw.value is None else len(raw.value)
        payload = "" if raw.value is None else f" payload: {raw.value.decode()}"
        key_size = -1 if raw.key is None else len(raw.key)
        key = "" if raw.key is None else f" key: {raw.key.decode()}"
        lines.append(
            f"| offset: {raw.offset} {_STAMPS[raw.timestamp_type]}: {raw.timestamp_ms} "
            f"keySize: {key_size} valueSize: {size} sequence: -1 "
            f"headerKeys: [{','.join(n for n, _ in raw.headers)}]{key}{payload}"
        )
    return ("\n".join(lines) + "\n").encode()


def batch(given: Sequence[RawRecord], codec: int = 0, attributes: int = 0) -> bytes:
    """One record batch; all its records have the time of the first, as with LogAppendTime."""
    builder = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 1 << 30)
    base = given[0].offset
    for raw in given:
        at, headers = raw.offset - base, list(raw.headers)
        builder.append(at, given[0].timestamp_ms, raw.key, raw.value, headers)
    data = bytearray(builder.build())
    data[0:8] = base.to_bytes(8, "big")
    stamped = 8 if given[0].timestamp_type is TimestampType.LOG_APPEND_TIME else 0
    data[22] |= attributes | stamped  # the low byte of the attributes
    data[17:21] = calc_crc32c(bytes(data[21:])).to_bytes(4, "big")
    return bytes(data)


def segment(folder: Path, *batches: bytes, name: str = "00000000000000000000.log") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(b"".join(batches))
    return folder / name

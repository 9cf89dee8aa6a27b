from __future__ import annotations

import gzip
import struct
from pathlib import Path

import attrs
import pytest
from aiokafka.record import default_records
from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.record.util import calc_crc32c

from kafka_marshal.capture import UNREADABLE_NAME, TimestampType
from kafka_marshal.replay.sources import find, segment
from tests.replay.sources import texts
from tests.replay.sources.readers import (
    AT_ONCE,
    read,
    records_in,
    refused,
    told,
    write,
)


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


@pytest.mark.parametrize("codec", [0, 1])
def test_a_name_that_is_no_utf8_hides_no_record(tmp_path: Path, codec: int) -> None:
    """Brokers take it from anybody; then the whole segment could not be replayed."""
    named = attrs.evolve(AT_ONCE[0], headers=(("odd-name", b"1"), *AT_ONCE[0].headers))
    data = bytearray(texts.batch([named, *AT_ONCE[1:]], 0))
    data[data.index(b"odd-name")] = 0xFF
    if codec:
        data[22] |= codec
        data = bytearray(struct.pack(">qi", 0, 0)) + data[12:61] + gzip.compress(data[61:])
        data[8:12] = struct.pack(">i", len(data) - 12)
    data[17:21] = struct.pack(">I", calc_crc32c(bytes(data[21:])))
    path = texts.segment(tmp_path / "__marshal-2", bytes(data))
    first, *others = read(path)
    assert first == attrs.evolve(named, headers=((UNREADABLE_NAME, b"1"), *AT_ONCE[0].headers))
    assert others == AT_ONCE[1:]


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


@pytest.mark.parametrize("codec", range(1, 5))
def test_a_batch_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, codec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A megabyte of gzip unpacks to a gigabyte; a length in it may promise four at once."""
    long = attrs.evolve(AT_ONCE[0], value=b"x" * 1_000_000)
    path = texts.segment(tmp_path / "__marshal-2", texts.batch([long], codec))
    assert read(path) == [long]
    monkeypatch.setattr(segment, "UNPACKED_BYTES_MAX", 999_999)
    assert refused(path) == f"{path}: byte 0: its records unpack to more than 999,999 bytes"


@pytest.mark.parametrize("codec", range(1, 8))
def test_a_batch_that_cannot_be_unpacked_is_named(tmp_path: Path, codec: int) -> None:
    whole = texts.batch(AT_ONCE * 20, codec if codec < 5 else 1)
    for damaged in (whole[:70], whole[:90], whole[:61] + bytes(40), whole[:61] + b"\xff" * 40):
        data = bytearray(damaged)
        data[8:12] = (len(data) - 12).to_bytes(4, "big")
        data[22] = codec | 8
        data[17:21] = calc_crc32c(bytes(data[21:])).to_bytes(4, "big")
        path = texts.segment(tmp_path / "__marshal-2", bytes(data))
        assert refused(path).startswith(f"{path}: byte 0: ")


def test_a_folder_may_not_name_a_partition_that_kafka_cannot(tmp_path: Path) -> None:
    path = texts.segment(tmp_path / "__marshal-2147483648", texts.batch(AT_ONCE))
    assert "TOPIC-PARTITION" in refused(path)


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
    assert found.limitations == ()  # what limits the others does not matter
    assert {raw.partition for raw in records_in(found)} == {2, 11}
    assert f"{tmp_path}/data/__marshal-2/00000000000000000005.log: empty" in found.left_out
    assert f"{deleted}: not the records of a segment" in found.left_out
    assert "no record of the topic 'nobody'" in refused(tmp_path / "data", topic="nobody")


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
    monkeypatch.setattr(default_records, "DefaultRecordBatch", Believing)
    assert len(read(path)) == len(AT_ONCE)

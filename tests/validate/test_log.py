"""A log folds for all of its readers, and each of them knows what it would know by itself."""

from __future__ import annotations

import attrs
import pytest
from tools.runs.simulate import Fleet, simulate

from kafka_marshal.core.claims.suffix_reader import Reader, read_record
from kafka_marshal.core.messages import (
    ClaimingPartition,
    Headers,
    Heartbeat,
    Offset,
    Partition,
    Record,
    ReleaseGroup,
)
from kafka_marshal.core.state import FENCED, ClaimKey
from kafka_marshal.machines.consumer.consumer import Mode
from kafka_marshal.validate.log import PartitionLog
from kafka_marshal.validate.reading import run_of
from kafka_marshal.validate.run import Appended, lines


def logged(records: list[Record]) -> PartitionLog:
    log = PartitionLog(FENCED)
    for record in records:
        log.append(record.offset, record)
    return log


def simulated(seed: int, mode: Mode) -> list[Record]:
    setting, events = simulate(seed, 3_000, Fleet(mode=mode, consumers=4, topics=1))
    appended = [e for e in run_of(lines(setting, events)).events if isinstance(e, Appended)]
    home = appended[0].partition
    return [e.record for e in appended if e.record is not None and e.partition == home]


def lied_about(records: list[Record]) -> list[Record]:
    """Every seventh record with headers claims a clock from the future."""
    return [
        attrs.evolve(record, headers=attrs.evolve(record.headers, clock=record.timestamp_ms + 900))
        if record.offset % 7 == 0 and record.headers.present
        else record
        for record in records
    ]


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("lies", [False, True])
def test_whoever_shares_a_fold_knows_what_it_would_know_alone(
    mode: Mode, seed: int, lies: bool
) -> None:
    records = simulated(seed, mode)
    records = lied_about(records) if lies else records
    log = logged(records)
    shared = 0
    for first in range(0, len(records), 23):
        late = Reader.beginning_at(records[first].offset)
        readers: dict[ClaimKey, Reader] = {}
        for entry in log.entries[first:]:
            if entry.key is None or entry.fold is None or entry.record is None:
                continue  # a ReleaseGroup
            reader = readers.get(entry.key, late)
            after, verdict = entry.folded(reader, FENCED)
            assert (after, verdict) == read_record(reader, entry.record, FENCED)
            shared += after.claim is entry.fold.after.claim
            readers[entry.key] = after
    assert shared  # less of it once there was a pause, whose sender the late never learn


ADDRESS = ("i1", "c1", "g", "events", Partition(0))


def test_a_clock_from_the_future_moves_only_whoever_believes_it() -> None:
    """Who saw all of the log does not; who began in the middle has nothing else to go by."""
    records = [
        Record(0, 1, 10, ClaimingPartition(1, 0, *ADDRESS), Headers(True)),
        Record(
            0, 2, 20, Heartbeat(1, 0, *ADDRESS, Offset(5)), Headers(True, epoch=1, seen=1, clock=10)
        ),
        Record(
            0, 3, 30, Heartbeat(1, 0, *ADDRESS, Offset(6)), Headers(True, epoch=1, seen=2, clock=20)
        ),
        Record(
            0,
            4,
            40,
            Heartbeat(1, 0, *ADDRESS, Offset(7)),
            Headers(True, epoch=1, seen=3, clock=900),
        ),
    ]
    log = logged(
        [Record(0, 0, 5, ReleaseGroup(0, 0, "a", "a", "g", "", Partition(0), 0)), *records]
    )
    reader = Reader.beginning_at(2)
    for entry in log.entries[2:]:
        reader, _ = entry.folded(reader, FENCED)
    assert reader.claim.clock_ms == 900
    assert log.entries[-1].fold is not None
    assert log.entries[-1].fold.after.claim.clock_ms == 40


def test_folds_are_forgotten_and_records_dropped_by_their_places_in_all_of_the_log() -> None:
    log = logged(
        [Record(0, n, n, Heartbeat(1, 0, *ADDRESS, Offset(n)), Headers(True)) for n in range(10)]
    )
    log.drop_before(3)
    log.forget_before(6)
    assert [log.entry(n).offset for n in range(3, 10)] == [*range(3, 10)]
    assert [log.entry(n).fold is None for n in range(3, 10)] == [n < 6 for n in range(3, 10)]
    log.drop_before(8)
    log.forget_before(9)
    assert [log.entry(n).fold is None for n in range(8, 10)] == [True, False]
    assert (log.index_at(9), log.end) == (9, 10)
    log.drop_before(10)
    assert (log.dropped, log.last_offset) == (9, 9)

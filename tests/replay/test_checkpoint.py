from __future__ import annotations

import hashlib
import json
import pickle
import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kafka_marshal.capture import RawRecord, read_capture
from kafka_marshal.core.state import RuleSet
from kafka_marshal.replay.findings.cases import Cases
from kafka_marshal.replay.fold.partition_fold import JudgingOptions, PartitionFold
from kafka_marshal.replay.live.live_findings import LivePartitionFold
from kafka_marshal.replay.model.events import LogPartition
from kafka_marshal.replay.model.tables import Rows
from kafka_marshal.replay.state import checkpoint as room
from kafka_marshal.replay.state.checkpoint import Checkpoint, CheckpointRefused
from tests.replay.live.feeding import CAPTURES, many_nights

JUDGING = JudgingOptions(tuple(RuleSet), 4000.0, coordination_partitions=17)
OPTIONS = {"heartbeat_interval_ms": 4000.0}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Iterator[Checkpoint]:
    made = Checkpoint(tmp_path / "checkpoint", OPTIONS)
    yield made
    made.close()


def all_rows(partition_fold: PartitionFold) -> Rows:
    partition_fold.close()
    return partition_fold.drain()


def merged(*parts: Rows) -> Rows:
    return Rows(row for part in parts for row in part)


def put_aside(
    checkpoint: Checkpoint, partition_fold: PartitionFold, next_offset: int
) -> PartitionFold:
    checkpoint.put(2, partition_fold, next_offset)
    checkpoint.commit({})
    resumed = checkpoint.load()
    assert resumed is not None
    assert resumed.partitions[2].next_offset == next_offset
    return resumed.partitions[2].partition_fold


def nights() -> dict[str, list[RawRecord]]:
    """Every capture, and all of them in one log."""
    logs = {path.stem: list(read_capture(path)) for path in CAPTURES}
    return logs | {"many": list(offsets_anew(many_nights(1, 1)))}


def offsets_anew(records: Iterator[RawRecord]) -> Iterator[RawRecord]:
    for offset, raw in enumerate(records):
        yield RawRecord(2, offset, raw.timestamp_ms, raw.value, raw.headers, raw.timestamp_type)


NIGHTS = nights()


@pytest.mark.parametrize("name", NIGHTS)
def test_a_fold_put_aside_at_any_point_comes_to_the_same(name: str, checkpoint: Checkpoint) -> None:
    records = NIGHTS[name]
    whole, parted = (PartitionFold(LogPartition("log", 2), JUDGING) for _ in range(2))
    chance = random.Random(name)
    rows: list[Rows] = []
    for raw in records:
        whole.feed(raw)
        parted.feed(raw)
        if chance.random() < 30 / len(records):
            rows.append(parted.drain())
            parted = put_aside(checkpoint, parted, raw.offset + 1)
    assert merged(*rows, all_rows(parted)) == merged(all_rows(whole))


def test_a_live_account_put_aside_at_any_point_tells_the_same(checkpoint: Checkpoint) -> None:
    whole, parted = (LivePartitionFold(LogPartition("log", 2), JUDGING) for _ in range(2))
    chance = random.Random(7)
    told = 0
    for raw in NIGHTS["many"]:
        expected = whole.tell(raw)
        assert parted.tell(raw) == expected
        told += len(expected)
        if chance.random() < 0.01:
            aside = put_aside(checkpoint, parted, raw.offset + 1)
            assert isinstance(aside, LivePartitionFold)
            parted = aside
    assert told > 100


def test_one_forgotten_field_is_noticed(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tests above can fail: cases that forget what is open tell other findings."""

    def forgetful(cases: Cases) -> dict[str, Any]:
        return {**vars(cases), "_open": {}, "_by_key": {}}

    monkeypatch.setattr(Cases, "__getstate__", forgetful)
    with pytest.raises(AssertionError):
        test_a_fold_put_aside_at_any_point_comes_to_the_same("d_zombie", checkpoint)


def some_account() -> PartitionFold:
    partition_fold = PartitionFold(LogPartition("log", 2), JUDGING)
    for raw in NIGHTS["d_zombie"]:
        partition_fold.feed(raw)
    partition_fold.drain()
    return partition_fold


def test_only_what_was_committed_counts(tmp_path: Path, checkpoint: Checkpoint) -> None:
    assert checkpoint.load() is None
    checkpoint.put(2, some_account(), 7)
    assert checkpoint.load() is None
    checkpoint.commit({"out_bytes": 5})
    checkpoint.put(2, some_account(), 9)
    resumed = checkpoint.load()
    assert resumed is not None
    assert (resumed.partitions[2].next_offset, resumed.beside) == (7, {"out_bytes": 5})
    checkpoint.put(3, some_account(), 1)
    checkpoint.commit({"out_bytes": 6})
    resumed = checkpoint.load()
    assert resumed is not None
    assert {n: one.next_offset for n, one in resumed.partitions.items()} == {2: 7, 3: 1}
    kept = sorted(path.name for path in checkpoint.folder.iterdir())
    assert kept == ["checkpoint.json", "lock", "partition-2.1", "partition-3.2"]


def refused(folder: Path, options: dict[str, Any]) -> str:
    with pytest.raises(CheckpointRefused) as told, closing(Checkpoint(folder, options)) as made:
        made.load()
    return str(told.value)


def test_a_checkpoint_that_does_not_fit_is_refused_with_a_sentence(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = checkpoint.folder
    assert "another process goes on with it" in refused(folder, OPTIONS)
    put_aside(checkpoint, some_account(), 7)
    checkpoint.close()
    assert refused(folder, {"heartbeat_interval_ms": 5000.0}).endswith(
        "the checkpoint was made with heartbeat_interval_ms 4000.0, and this is 5000.0: give the "
        "same options, or another folder"
    )
    with monkeypatch.context() as patched:
        patched.setattr(room, "package_version", lambda: "99.0")
        assert "was made by kafka-marshal" in refused(folder, OPTIONS)
    with monkeypatch.context() as patched:
        patched.setattr(room, "FORMAT", room.FORMAT + 1)
        assert f"has the format {room.FORMAT - 1}, this is {room.FORMAT}" in refused(
            folder, OPTIONS
        )
    state = folder / "partition-2.1"
    whole = state.read_bytes()
    state.write_bytes(whole[:-1])
    assert refused(folder, OPTIONS).endswith(
        "partition-2.1 is damaged: begin anew in another folder"
    )
    state.unlink()
    assert "partition-2.1 is damaged" in refused(folder, OPTIONS)
    (folder / "checkpoint.json").write_text("{}")
    assert "checkpoint.json is damaged" in refused(folder, OPTIONS)


class Evil:
    def __init__(self, call: Any, *arguments: Any) -> None:
        self.call, self.arguments = call, arguments

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return self.call, self.arguments


def test_a_state_makes_nothing_but_accounts(checkpoint: Checkpoint) -> None:
    import os
    import subprocess

    from kafka_marshal.replay.exports.output import placed

    put_aside(checkpoint, some_account(), 7)
    manifest = json.loads((checkpoint.folder / "checkpoint.json").read_text())
    for evil in (
        Evil(os.system, "true"),
        Evil(subprocess.Popen, ["true"]),
        Evil(eval, "1"),
        Evil(placed, Path()),
        Evil(getattr, some_account(), "__class__"),
    ):
        state = pickle.dumps(evil)
        (checkpoint.folder / "partition-2.1").write_bytes(state)
        manifest["partitions"]["2"]["sha256"] = hashlib.sha256(state).hexdigest()
        (checkpoint.folder / "checkpoint.json").write_text(json.dumps(manifest))
        with pytest.raises(
            CheckpointRefused, match=r"is not a state of this version: .* is no part"
        ):
            checkpoint.load()

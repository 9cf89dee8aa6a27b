from __future__ import annotations

import errno
import hashlib
import json
import os
import pickle
import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tools.runs.by_day import sampled

from kafka_marshal.capture import RawRecord, read_capture
from kafka_marshal.core.state import RuleSet
from kafka_marshal.replay.errors import CheckpointRefused
from kafka_marshal.replay.findings.cases import Cases
from kafka_marshal.replay.fold.partition_fold import JudgingOptions
from kafka_marshal.replay.live import folding as live
from kafka_marshal.replay.model.events import LogPartition
from kafka_marshal.replay.model.tables import Rows
from kafka_marshal.replay.state import checkpoint as room
from kafka_marshal.replay.state import partition_state
from kafka_marshal.replay.state.checkpoint import Checkpoint, replace_whole
from kafka_marshal.replay.state.partition_state import PartitionState, read_head, take_up
from tests.replay.live.feeding import CAPTURES, many_nights

JUDGING = JudgingOptions(tuple(RuleSet), 4000.0, coordination_partitions=17)
OPTIONS = {"heartbeat_interval_ms": 4000.0}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Iterator[Checkpoint]:
    made = Checkpoint(tmp_path / "checkpoint", OPTIONS)
    yield made
    made.close()


def merged(*parts: Rows) -> Rows:
    return Rows(row for part in parts for row in part)


def put(checkpoint: Checkpoint, state: PartitionState, partition: int = 2) -> None:
    name = checkpoint.name_for(partition)
    live.put_aside(state, checkpoint.folder / name)
    checkpoint.adopt(partition, name)


def next_offsets(checkpoint: Checkpoint) -> dict[int, int] | None:
    known = checkpoint.known()
    if known is None:
        return None
    folder = checkpoint.folder
    return {number: take_up(folder / file).next_offset for number, file in known.states.items()}


def put_aside(checkpoint: Checkpoint, state: PartitionState) -> PartitionState:
    put(checkpoint, state)
    checkpoint.commit({})
    known = checkpoint.known()
    assert known is not None
    aside = take_up(checkpoint.folder / known.states[2])
    assert aside.next_offset == state.next_offset
    return aside


def nights() -> dict[str, list[RawRecord]]:
    """Every capture, and all of them in one log."""
    logs = {path.stem: list(read_capture(path)) for path in CAPTURES}
    return logs | {"many": list(offsets_anew(many_nights(1, 1)))}


def offsets_anew(records: Iterator[RawRecord]) -> Iterator[RawRecord]:
    for offset, raw in enumerate(records):
        yield RawRecord(2, offset, raw.timestamp_ms, raw.value, raw.headers, raw.timestamp_type)


NIGHTS = nights()


@pytest.mark.parametrize("name", sampled(NIGHTS, 3))
def test_a_fold_put_aside_at_any_point_comes_to_the_same(name: str, checkpoint: Checkpoint) -> None:
    records = NIGHTS[name]
    whole, parted = (PartitionState.of("log", 2, JUDGING) for _ in range(2))
    chance = random.Random(name)
    rows: list[Rows] = []
    for raw in records:
        whole.feed(raw)
        parted.feed(raw)
        if chance.random() < 30 / len(records):
            rows.append(parted.place_fold.drain())
            parted = put_aside(checkpoint, parted)
    assert merged(*rows, parted.ended()) == merged(whole.ended())


@pytest.mark.night
def test_a_live_account_put_aside_at_any_point_tells_the_same(checkpoint: Checkpoint) -> None:
    whole, parted = (live.taken_up(None, LogPartition("log", 2), JUDGING) for _ in range(2))
    chance = random.Random(7)
    told = 0
    for raw in NIGHTS["many"]:
        expected = live.events_of(whole, raw)
        assert live.events_of(parted, raw) == expected
        told += len(expected)
        if chance.random() < 0.01:
            parted = put_aside(checkpoint, parted)
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


def some_state(records: int) -> PartitionState:
    state = PartitionState.of("log", 2, JUDGING)
    for raw in NIGHTS["d_zombie"][:records]:
        state.feed(raw)
    state.place_fold.drain()
    return state


def test_only_what_was_committed_counts(tmp_path: Path, checkpoint: Checkpoint) -> None:
    first, second, third = (some_state(records) for records in (7, 9, 1))
    assert next_offsets(checkpoint) is None
    put(checkpoint, first)
    assert next_offsets(checkpoint) is None
    checkpoint.commit({"out_bytes": 5})
    put(checkpoint, second)
    known = checkpoint.known()
    assert known is not None
    assert known.beside == {"out_bytes": 5}
    assert next_offsets(checkpoint) == {2: first.next_offset}
    put(checkpoint, third, 3)
    checkpoint.commit({"out_bytes": 6})
    assert next_offsets(checkpoint) == {2: first.next_offset, 3: third.next_offset}
    kept = sorted(path.name for path in checkpoint.folder.iterdir())
    assert kept == ["checkpoint.json", "lock", "partition-2.1", "partition-3.2"]


def test_what_could_not_be_written_is_named_and_leaves_nothing(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watch that was started again and again beside a full disk filled it with its tries."""

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    put(checkpoint, some_state(7))
    checkpoint.commit({})
    killed = checkpoint.folder / f".partition-2.2.{'0' * 32}"
    killed.write_bytes(b"half of it")
    assert checkpoint.known() is not None
    assert not killed.exists()
    there = sorted(checkpoint.folder.iterdir())
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*/partition-2.2'"):
        replace_whole(checkpoint.folder / "partition-2.2", b"state")
    assert sorted(checkpoint.folder.iterdir()) == there


def refused(folder: Path, options: dict[str, Any]) -> str:
    with pytest.raises(CheckpointRefused) as told, closing(Checkpoint(folder, options)) as made:
        next_offsets(made)
    return str(told.value)


def test_a_checkpoint_that_does_not_fit_is_refused_with_a_sentence(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = checkpoint.folder
    assert "another process goes on with it" in refused(folder, OPTIONS)
    put_aside(checkpoint, some_state(7))
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
    manifest = json.loads((folder / "checkpoint.json").read_text())
    for text in (
        "{}",
        "[" * 100_000,
        json.dumps(manifest | {"generation": float("inf")}),
        json.dumps(manifest | {"partitions": {"2": "../partition-2.1"}}),
        json.dumps(manifest | {"partitions": {"2": "partition-3.1"}}),
        json.dumps(manifest | {"partitions": {"-2": "partition--2.1"}}),
        json.dumps(manifest | {"partitions": {"2": 5}}),
    ):
        (folder / "checkpoint.json").write_text(text)
        assert "checkpoint.json is damaged" in refused(folder, OPTIONS), text
    long = json.dumps(manifest | {"version": "9" * 4000})
    (folder / "checkpoint.json").write_text(long)
    assert len(refused(folder, OPTIONS)) < 400


def test_a_digit_that_changed_in_the_first_line_of_a_state_is_noticed(
    checkpoint: Checkpoint,
) -> None:
    """It says where a run goes on: what lies below is passed over."""
    put_aside(checkpoint, some_state(7))
    state = checkpoint.folder / "partition-2.1"
    whole = state.read_bytes()
    offset = read_head(state).next_offset
    changed = whole.replace(b'"next_offset": %d' % offset, b'"next_offset": %d' % (offset + 1))
    assert changed != whole
    state.write_bytes(changed)
    for reads in (read_head, take_up):
        with pytest.raises(CheckpointRefused, match="is damaged"):
            reads(state)


class Evil:
    def __init__(self, call: Any, *arguments: Any) -> None:
        self.call, self.arguments = call, arguments

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return self.call, self.arguments


def test_a_state_makes_nothing_but_accounts(checkpoint: Checkpoint) -> None:
    import os
    import subprocess

    from kafka_marshal.replay.exports.output import placed

    put_aside(checkpoint, some_state(7))
    path = checkpoint.folder / "partition-2.1"
    line = json.loads(path.read_bytes().split(b"\n")[0])
    for evil in (
        Evil(os.system, "true"),
        Evil(subprocess.Popen, ["true"]),
        Evil(eval, "1"),
        Evil(placed, Path()),
        Evil(getattr, some_state(1).place_fold, "__class__"),
    ):
        state = pickle.dumps(evil)
        line["sha256"] = hashlib.sha256(state).hexdigest()
        del line["head_sha256"]
        line["head_sha256"] = partition_state._digest(line)
        path.write_bytes(json.dumps(line).encode() + b"\n" + state)
        with pytest.raises(
            CheckpointRefused, match=r"is not a state of this version: .* is no part"
        ):
            take_up(path)

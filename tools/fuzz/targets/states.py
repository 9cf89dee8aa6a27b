"""Files that the package writes for itself: checkpoints, their states, and a client's snapshots.

A damaged one is refused with a sentence. One whose checksum was made right is refused, or says
something that can be gone on with.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import attrs
from tests.kernel import hostile
from tools.fuzz.oracle import Finding, differs, refused_by
from tools.fuzz.target import Target

from kafka_marshal import FENCED, MalformedRecord
from kafka_marshal.capture import RawRecord
from kafka_marshal.client.connect.reader import Watermarks
from kafka_marshal.client.coordinate import snapshot
from kafka_marshal.client.coordinate.snapshot import (
    PartitionSnapshot,
    RecordMark,
    SnapshotOrigin,
    SnapshotRefused,
    parsed,
    unfit,
    written,
)
from kafka_marshal.machines.consumer.consumer import InstanceConfig, Mode
from kafka_marshal.machines.consumer.member import Member
from kafka_marshal.replay.errors import CheckpointRefused
from kafka_marshal.replay.options import judging_of
from kafka_marshal.replay.state import checkpoint
from kafka_marshal.replay.state.checkpoint import MANIFEST, Checkpoint
from kafka_marshal.replay.state.partition_state import PartitionState, read_head, take_up
from kafka_marshal.version import package_version

OPTIONS = {"heartbeat_interval_ms": 4000.0}
ORIGIN = SnapshotOrigin("cluster", "__marshal", "topic-id", 1, "g", FENCED)
WORDS = (
    *(
        b'"partitions": {',
        b'"generation": ',
        b'"beside": {',
        b'"sha256": ',
        b'"claims": [',
        b"1e999",
    ),
    *(
        b'"first": ',
        b'"last": {',
        b'"requests": [',
        b"partition-2.1",
        b'"format": 3',
        b"[[]]",
        b".",
    ),
)


def of_this_version(data: bytes, number: int) -> bytes:
    """The input as if this version had written it: what is kept is to reach the code for good."""
    head = b'"format": %d,\\1"version": "%b"' % (number, package_version().encode())
    return re.sub(rb'"format": \d+,(\s+)"version": "[^"]*"', head, data, count=1)


# --- checkpoints ----------------------------------------------------------------------------------


def manifests() -> Iterator[bytes]:
    """What lies in a folder after a commit."""
    from kafka_marshal.scratch import Scratch

    with Scratch("fuzz") as folder, closing(Checkpoint(folder / "c", OPTIONS)) as made:
        made.adopt(2, made.name_for(2))
        made.commit({"log": "x"})
        yield (folder / "c" / MANIFEST).read_bytes()


def check_manifest(data: bytes, desk: Path) -> None:
    """A manifest is what a commit wrote, or refused."""
    folder = desk / "checkpoint"
    folder.mkdir()
    (folder / MANIFEST).write_bytes(of_this_version(data, checkpoint.FORMAT))
    with (
        closing(Checkpoint(folder, OPTIONS)) as held,
        refused_by(CheckpointRefused, naming=str(folder)),
    ):
        known = held.known()
        assert known is not None
        for number, file in known.states.items():
            if not file.startswith(f"partition-{number}."):
                raise Finding("range", f"the state of {number} is {file!r}")
        held.commit(known.beside)


def states() -> Iterator[bytes]:
    """What lies in a state."""
    from kafka_marshal.scratch import Scratch

    with Scratch("fuzz") as folder:
        for seed, count in ((0, 3), (1, 25)):
            state = PartitionState.of("log", 0, judging_of("both", 4, 30, None))
            for raw in sorted(hostile.log(seed, count), key=lambda raw: raw.offset):
                state.feed(raw)
            state.put_aside(folder / "state")
            yield (folder / "state").read_bytes()


def check_state(data: bytes, desk: Path) -> None:
    """A state is what was written, or refused.

    Its checksum is not made right: a pickle can take forever, and the folder is to be trusted as
    the program is.
    """
    path = desk / "partition-0.1"
    path.write_bytes(data)
    with refused_by(CheckpointRefused, naming=str(desk)):
        read_head(path)
    with refused_by(CheckpointRefused, naming=str(desk)):
        take_up(path)


# --- snapshots ------------------------------------------------------------------------------------


def snapshots() -> Iterator[bytes]:
    """What a client writes, of one who read whatever may stand in a log."""
    for seed in range(3):
        member = Member(InstanceConfig("i", "c", Mode.AT_LEAST_ONCE), "g", 1, firsts={0: 20 * seed})
        member.add_topic("t", 1, now_ms=0)
        last = -1
        for each in hostile.log(seed, 60):
            try:
                record = each.decoded()
            except MalformedRecord:
                continue
            if 20 * seed <= record.offset > last:
                last = record.offset
                member.record(record, now_ms=0)
        mark = RecordMark.of(RawRecord(0, 7, 1007, b"x"))
        kept = PartitionSnapshot(0, mark, member.memory()[0])
        yield written(ORIGIN, {0: kept}).encode()


def with_body_digest(data: bytes) -> bytes:
    """A snapshot whose checksum is right."""
    head, newline, body = data.partition(b"\n")
    try:
        fields = json.loads(head)
        fields["sha256"] = hashlib.sha256(body.rstrip(b"\n")).hexdigest()
    except (ValueError, TypeError, RecursionError):
        return data
    return json.dumps(fields).encode() + newline + body


def check_snapshot(data: bytes, _: Path) -> None:
    """A snapshot is refused, or is one that could have been written."""
    with refused_by(SnapshotRefused, naming="it "):
        current = of_this_version(data, snapshot.FORMAT)
        found = parsed(current.decode("utf-8", "replace"), ORIGIN)
        for partition, kept in found.items():
            if partition not in range(ORIGIN.partitions):
                raise Finding("range", f"partition {partition}")
            unfit(kept, Watermarks(0, 10), 0)
        again = parsed(written(ORIGIN, found), ORIGIN)
        if again != found:
            raise differs("a round trip", again, found)
        for partition, kept in found.items():
            me = InstanceConfig("i", "c", Mode.AT_LEAST_ONCE)
            member = Member(
                me, "g", 1, firsts={partition: kept.first}, memory={partition: kept.memory}
            )
            member.add_topic("t", 1, now_ms=0)
            for raw in hostile.log(5, 9):
                try:
                    record = raw.decoded()
                except MalformedRecord:
                    continue
                member.record(attrs.evolve(record, offset=record.offset + 2**62), now_ms=0)


TARGETS = (
    Target(
        name="checkpoint",
        rooms=("kafka_marshal.replay.state.checkpoint",),
        seeds=manifests,
        check=check_manifest,
        words=WORDS,
    ),
    Target(
        name="state",
        rooms=("kafka_marshal.replay.state", "kafka_marshal.replay.model.tenures"),
        seeds=states,
        check=check_state,
        words=WORDS,
    ),
    Target(
        name="snapshot",
        rooms=("kafka_marshal.client.coordinate.snapshot",),
        seeds=snapshots,
        check=check_snapshot,
        words=WORDS,
        repaired=with_body_digest,
    ),
)

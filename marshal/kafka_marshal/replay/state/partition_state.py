"""The saved state of one coordinating partition, as a file that executors write and read.

A file is one line of JSON, for the driver, and the pickled state. It is written under a temporary
name and moved into place, so a repeated task replaces it as a whole. This module knows neither
Spark, nor which files belong together (`checkpoint`).
"""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import attrs
from attrs import define, frozen

from kafka_marshal.capture import RawRecord
from kafka_marshal.replay.fold.judging import Judging, PlaceFold
from kafka_marshal.replay.model.chunk_items import ChunkFacts, RowItem, SingleRecord
from kafka_marshal.replay.model.events import LogPartition
from kafka_marshal.replay.model.tables import Rows
from kafka_marshal.replay.state.checkpoint import damaged, replace_whole, thawed


@frozen
class StateHead:
    """The driver's information about a state."""

    partition: int
    next_offset: int
    """The first offset that is not folded."""
    folded: int
    """How many records the last run folded."""
    skipped: int
    """How many it passed over, because an earlier run had folded their offsets."""
    forked: bool
    """Whether its input had a different record at the end of earlier runs."""


@define
class PartitionState:
    """One coordinating partition on its way through a run."""

    partition: int
    place_fold: PlaceFold
    last: RawRecord | None = None
    """The record with the highest offset that was folded."""
    folded: int = 0
    skipped: int = 0
    forked: bool = False

    @classmethod
    def of(cls, log: str, partition: int, judging: Judging) -> PartitionState:
        """Nothing was folded yet."""
        return cls(partition, judging.begin(LogPartition(log, partition)))

    @property
    def next_offset(self) -> int:
        """The first offset that is not folded."""
        return 0 if self.last is None else self.last.offset + 1

    def feed(self, raw: RawRecord) -> None:
        """The next record by itself."""
        self.place_fold.feed(raw)
        self.fed(raw)

    def fed(self, raw: RawRecord) -> None:
        """Count a record that was folded individually."""
        self.folded += 1
        self._took(raw)

    def went_on(self, last: RawRecord, count: int) -> None:
        """Count records whose sum the fold took; `last` is the last of them."""
        self.folded += count
        self._took(last)

    def take(self, item: RowItem, give: Callable[[RowItem], None]) -> None:
        """Take the next item of a collapsed log; `give` folds it."""
        give(item)
        if isinstance(item, ChunkFacts):
            self.folded += item.records
        else:
            self._took(item.raw if isinstance(item, SingleRecord) else item.last)

    def _took(self, raw: RawRecord) -> None:
        if self.last is None or raw.offset > self.last.offset:
            self.last = raw

    def again(self, raw: RawRecord) -> None:
        """The input repeats the offset where the last run ended, with that record or another."""
        self.skipped += 1
        last = self.last
        assert last is not None
        assert raw.offset == last.offset
        if (raw.timestamp_ms, raw.value, raw.headers) != (
            last.timestamp_ms,
            last.value,
            last.headers,
        ):
            self.forked = True
            self.place_fold.forked(raw)

    def put_aside(self, path: Path) -> Rows:
        """Write the state; return the final rows.

        Raises:
            OSError: it cannot be written, or its run's folder does not exist any more.
        """
        state, rows = self.pickled()
        replace_whole(path, state)
        return rows

    def pickled(self) -> tuple[bytes, Rows]:
        """The state as a file holds it, and the rows that nothing can change any more."""
        self.place_fold.settle()
        rows = self.place_fold.drain()
        head = StateHead(self.partition, self.next_offset, self.folded, self.skipped, self.forked)
        state = pickle.dumps(self, protocol=5)
        line = {**attrs.asdict(head), "sha256": hashlib.sha256(state).hexdigest()}
        line["head_sha256"] = _digest(line)
        return json.dumps(line).encode() + b"\n" + state, rows

    def ended(self) -> Rows:
        """The rows to report if the log ends here; nothing may follow."""
        self.place_fold.close()
        return self.place_fold.drain()


_Read = TypeVar("_Read")


def _digest(line: dict[str, Any]) -> str:
    """A checksum of the first line, since resuming uses it without the state."""
    return hashlib.sha256(json.dumps(line).encode()).hexdigest()


def read_head(path: Path) -> StateHead:
    """Return the contents of a state's first line.

    Raises:
        CheckpointRefused: it is damaged.
    """

    def head(line: dict[str, Any], _: Path) -> StateHead:
        del line["sha256"]
        return StateHead(**line)

    return _read(path, head)


def take_up(path: Path) -> PartitionState:
    """The state, as if a new run began with it.

    Raises:
        CheckpointRefused: it is damaged.
    """

    def standing(line: dict[str, Any], path: Path) -> PartitionState:
        _, state = path.read_bytes().split(b"\n", 1)
        if hashlib.sha256(state).hexdigest() != line["sha256"]:
            raise ValueError
        found = thawed(state, str(path))
        if not isinstance(found, PartitionState):
            raise TypeError
        return attrs.evolve(found, folded=0, skipped=0, forked=False)

    return _read(path, standing)


def _read(path: Path, how: Callable[[dict[str, Any], Path], _Read]) -> _Read:
    try:
        with path.open("rb") as file:
            line = json.loads(file.readline())
        if line.pop("head_sha256") != _digest(line):
            raise ValueError
        return how(line, path)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise damaged(path.parent, path.name) from None

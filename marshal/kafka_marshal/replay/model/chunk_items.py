"""Part of one coordinating partition's log, prepared for the fold: facts, runs, records.

`run_length` makes these values, and the observers receive them. A log that is continued is not
prepared ahead. There an account returns a claim's `Standing`, and receives the sum of its next
heartbeats, which the kernel computes (`kernel.ordinary`). This module knows neither Arrow nor
findings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
from attrs import evolve, frozen

from kafka_marshal.capture import RawRecord
from kafka_marshal.core.messages import Record
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.core.values import value
from kafka_marshal.kernel.request_table import ADDRESS, CLOCK, OFFSET, ROW
from kafka_marshal.replay.model.internal import SenderRow
from kafka_marshal.replay.model.position_progress import PositionReport
from kafka_marshal.replay.model.rows import readable_bytes

if TYPE_CHECKING:
    from kafka_marshal.kernel.columns import NameCodes

Ints: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

LISTED_MAX: Final = 5
"""The most places that a sentence lists; further ones are counted."""
BUCKET_MS: Final = 50
"""The resolution of a sender's clock histogram."""


@frozen
class PlainRecord:
    """A record used as a proof, in the form that tables store."""

    offset: int
    timestamp_ms: int
    value: str | None

    @classmethod
    def of(cls, raw: RawRecord) -> PlainRecord:
        """The stored form of a record."""
        return cls(raw.offset, raw.timestamp_ms, readable_bytes(raw.value))


@frozen
class ChunkFacts:
    """Facts about one chunk of one coordinating partition, independent of earlier chunks."""

    partition: int
    ordered: bool
    """Whether offsets are in order. If not, nothing was collapsed, and the chunk is read record by
    record."""
    records: int
    first_offset: int
    last_offset: int
    from_ms: int
    to_ms: int
    """The latest timestamp: a lower bound of the clock at the end of the chunk."""
    types: tuple[int, ...]
    """The number of records of each `TimestampType`."""
    gaps: int
    missing: int
    first_gaps: tuple[tuple[int, int], ...]
    same: int
    """The number of repeated records: same offset, same content."""
    first_same: tuple[PlainRecord, ...]
    other: int
    """The number of conflicting records: same offset, other content."""
    first_other: tuple[PlainRecord, ...]
    clocks: tuple[SenderRow, ...]


@frozen
class HeartbeatRun:
    """Heartbeats of one sender about one claim, with no other record about it in between.

    If the last one is accepted, and none falls behind the position before it, all are accepted.
    """

    last: RawRecord
    offsets: Ints
    clocks_ms: Ints
    """The clock of the coordinating partition at each of them, as far as the chunk knows."""
    position: int
    """The position in the first one."""
    first_move: int
    """The index of the first one whose position differs from the one before it; -1 if there is
    none."""
    moved_to: int
    """The position of that one."""
    last_move: int
    """The index of the last one whose position differs from the one before it; -1 if there is
    none."""
    chunk: int

    @property
    def first_offset(self) -> int:
        """The offset of the first one."""
        return int(self.offsets[0])

    def __len__(self) -> int:
        return len(self.offsets)


def rest_of(run: HeartbeatRun, positions: Iterable[int]) -> HeartbeatRun:
    """The run without its first heartbeat; `positions` are those from its third one on.

    The run has at least two heartbeats. `positions` is consumed up to the first one that moves.
    """
    offsets, clocks_ms = run.offsets[1:], run.clocks_ms[1:]
    first_move, moved_to, last_move = run.first_move - 1, run.moved_to, run.last_move - 1
    if run.first_move == 1:
        position = run.moved_to
        moves = ((at, stated) for at, stated in enumerate(positions, 1) if stated != position)
        first_move, moved_to = next(moves, (-1, position)) if last_move > 0 else (-1, position)
        if first_move < 0:
            last_move = -1
    else:
        position = run.position
        first_move, last_move = max(first_move, -1), max(last_move, -1)
    return HeartbeatRun(
        run.last, offsets, clocks_ms, position, first_move, moved_to, last_move, chunk=run.chunk
    )


@value
class SingleRecord:
    """A record by itself."""

    raw: RawRecord
    clock_ms: int
    """The clock of the coordinating partition, as far as the chunk knows."""


@frozen(eq=False)
class RequestRun:
    """ClaimingRanges of one claim, with no other record about it in between.

    Nothing in between changes the heartbeat interval of their group either, provided that it is the
    one that the group's heartbeats state.
    """

    key: ClaimKey
    table: Ints
    """One row per request, with the columns of `kernel.request_table`."""
    names: NameCodes
    record: Callable[[int], RawRecord]
    """Returns a record, by its index in the table."""
    said: int
    """The heartbeat interval that each of them states, in milliseconds; negative if they state
    none."""
    group_said: int
    """The same of the group's last heartbeat before them; negative if it states none, or is not
    known."""
    hopeless: bool = False
    """Whether the two requests before them were both not ordinary."""

    @property
    def first_offset(self) -> int:
        """The offset of the first one."""
        return int(self.table[0, OFFSET])

    def sender(self, number: int) -> tuple[str, str]:
        """Instance id and client id of one request."""
        return self.names.sender(int(self.table[number, ADDRESS]))

    def senders(self, count: int) -> list[tuple[str, str]]:
        """The distinct senders of the first `count` requests."""
        return [self.names.sender(code) for code in set(self.table[:count, ADDRESS].tolist())]

    def single(self, number: int) -> SingleRecord:
        """One of the requests as a single record."""
        record = self.record(int(self.table[number, ROW]))
        return SingleRecord(record, int(self.table[number, CLOCK]))

    def not_before(self, clock_ms: int) -> RequestRun:
        """The same run, with clocks that are at least `clock_ms`."""
        if self.table[0, CLOCK] >= clock_ms:
            return self
        table = self.table.copy()
        np.maximum(table[:, CLOCK], clock_ms, out=table[:, CLOCK])
        return evolve(self, table=table)

    def rest(self, begin: int) -> RequestRun:
        """The requests from index `begin` on."""
        return evolve(self, table=self.table[begin:])

    def __len__(self) -> int:
        return len(self.table)


class JoinedRun(Protocol):
    """Several consecutive rows, each a run or a record, as if one chunk had held all of them."""

    @property
    def first_offset(self) -> int:
        """The offset of the first one."""

    @property
    def late_clock_ms(self) -> int:
        """The clock at the first record of the chunks after the first one.

        If the first chunk ends with a later clock, its other rows may lie apart in time.
        """

    @property
    def hopeless(self) -> bool:
        """Whether the two rows before them could both not be joined."""

    def run(self) -> HeartbeatRun:
        """All rows as one run. It has no chunk, so its records cannot be read again."""

    def parts(self) -> list[HeartbeatRun | SingleRecord]:
        """The rows one by one."""

    def split(self) -> tuple[HeartbeatRun | SingleRecord, JoinedRun | None]:
        """The first row, and the remaining ones."""


@frozen
class BookStanding:
    """A claim's state in the accounts of one rule set, after a heartbeat of its owner."""

    rest_ms: float
    """A position that stood still for at least this time ends a standstill when it moves."""
    moved_ms: int
    """The clock at the last move of the position."""
    beat_ms: int | None
    """The clock at the last heartbeat to draw; None if no more are drawn."""


@frozen
class Standing:
    """A claim's state after a heartbeat, if its owner's next ones may be ordinary."""

    interval_ms: float
    """The heartbeat interval that the rules use."""
    counts_silences: bool
    """Whether its silences count in the statistics of intervals."""
    missed_ms: float
    """A longer silence is reported."""
    grain_ms: float
    """Heartbeats that are closer together are drawn as one."""
    clock_ms: int
    books: tuple[BookStanding, ...]


@frozen
class WentOn:
    """The sum of ordinary heartbeats about one claim."""

    raw: RawRecord
    """The last one."""
    record: Record
    clock_ms: int
    """The clock at the last one."""
    count: int
    longest_ms: int
    """The longest silence, including the one before the first heartbeat."""
    interval_ms: float
    moved: PositionReport | None
    """The last one that moved the position; None if none did."""


RowItem: TypeAlias = ChunkFacts | HeartbeatRun | SingleRecord
"""An item that is not joined with others."""
Item: TypeAlias = RowItem | RequestRun | JoinedRun

"""Part of one coordinating partition's log, prepared for the fold: facts, runs, records.

`run_length` makes them, the observers take them. In a log that goes on nothing is read ahead. There
an account says how a claim stands, and takes the sum of its next heartbeats, which the kernel adds
up (`kernel.ordinary`). This room knows neither Arrow nor what is found.
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
"""The most places that a sentence lists; it counts the rest."""
BUCKET_MS: Final = 50
"""How finely a sender's clock is measured."""


@frozen
class PlainRecord:
    """A record that proves something, as tables store it."""

    offset: int
    timestamp_ms: int
    value: str | None

    @classmethod
    def of(cls, raw: RawRecord) -> PlainRecord:
        """What of a record is shown."""
        return cls(raw.offset, raw.timestamp_ms, readable_bytes(raw.value))


@frozen
class ChunkFacts:
    """What one chunk holds of one coordinating partition, whatever its records did before."""

    partition: int
    ordered: bool
    """If not, nothing was collapsed, and the sources must be read as records."""
    records: int
    first_offset: int
    last_offset: int
    from_ms: int
    to_ms: int
    """The latest timestamp: what the clock is, at least, when the chunk is over."""
    types: tuple[int, ...]
    """How many are of each `TimestampType`."""
    gaps: int
    missing: int
    first_gaps: tuple[tuple[int, int], ...]
    same: int
    """How many records lie at an offset where the same one lay before."""
    first_same: tuple[PlainRecord, ...]
    other: int
    """How many lie at an offset where another one lay before."""
    first_other: tuple[PlainRecord, ...]
    clocks: tuple[SenderRow, ...]


@frozen
class HeartbeatRun:
    """Heartbeats of one sender about one claim, with nothing in between that is about it too.

    If the fold obeys the last, and none falls behind what came before, it would obey all.
    """

    last: RawRecord
    offsets: Ints
    clocks_ms: Ints
    """The clock of the coordinating partition at every one of them, as far as the chunk knows."""
    position: int
    """What the first of them says."""
    first_move: int
    """Which of them is the first to say another position than the one before it, or -1."""
    moved_to: int
    """The position that this one says."""
    last_move: int
    """Which of them is the last to say another, or -1."""
    chunk: int

    @property
    def first_offset(self) -> int:
        """Where it begins."""
        return int(self.offsets[0])

    def __len__(self) -> int:
        return len(self.offsets)


def rest_of(run: HeartbeatRun, positions: Iterable[int]) -> HeartbeatRun:
    """A run of at least two, without its first; what those from its third on say.

    Only as many are asked as do not move the position.
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
    """As far as the chunk knows."""


@frozen(eq=False)
class RequestRun:
    """ClaimingRanges about one claim, with nothing in between that is about it too.

    Nothing in between changes the heartbeat interval of their group either, if that is the one that
    the group's heartbeats say.
    """

    key: ClaimKey
    table: Ints
    """A row for each, of the columns of `kernel.request_table`."""
    names: NameCodes
    record: Callable[[int], RawRecord]
    """A record, by its number in the table."""
    said: int
    """The heartbeat interval that each of them says, in milliseconds; negative if they say none."""
    group_said: int
    """The same of the group's last heartbeat before them; negative if it states none, or if none is
    known."""
    hopeless: bool = False
    """The request before them was not ordinary, and neither was the one before that."""

    @property
    def first_offset(self) -> int:
        """Where it begins."""
        return int(self.table[0, OFFSET])

    def sender(self, number: int) -> tuple[str, str]:
        """Instance id and client id of one of them."""
        return self.names.sender(int(self.table[number, ADDRESS]))

    def senders(self, count: int) -> list[tuple[str, str]]:
        """Those of the first ones, each once."""
        return [self.names.sender(code) for code in set(self.table[:count, ADDRESS].tolist())]

    def single(self, number: int) -> SingleRecord:
        """One of them by itself."""
        record = self.record(int(self.table[number, ROW]))
        return SingleRecord(record, int(self.table[number, CLOCK]))

    def not_before(self, clock_ms: int) -> RequestRun:
        """The same, with clocks that are at least this."""
        if self.table[0, CLOCK] >= clock_ms:
            return self
        table = self.table.copy()
        np.maximum(table[:, CLOCK], clock_ms, out=table[:, CLOCK])
        return evolve(self, table=table)

    def rest(self, begin: int) -> RequestRun:
        """Those from here on."""
        return evolve(self, table=self.table[begin:])

    def __len__(self) -> int:
        return len(self.table)


class JoinedRun(Protocol):
    """A run of several rows, each a run or a record: as if one chunk had held all of them."""

    @property
    def first_offset(self) -> int:
        """Where it begins."""

    @property
    def hopeless(self) -> bool:
        """The row before the first did not go on, and neither did the one before that."""

    def run(self) -> HeartbeatRun:
        """All of it. It has no chunk, so its records cannot be read again."""

    def parts(self) -> list[HeartbeatRun | SingleRecord]:
        """The rows one by one."""

    def split(self) -> tuple[HeartbeatRun | SingleRecord, JoinedRun | None]:
        """The first row, and what is left."""


@frozen
class BookStanding:
    """How a claim stands in the books of one rule set, after a heartbeat that its owner sent."""

    rest_ms: float
    """A position that moves again after it stood still for this time ended a standstill."""
    moved_ms: int
    """The clock when the position moved last."""
    beat_ms: int | None
    """The clock at the last heartbeat to be drawn; None: no more are drawn."""


@frozen
class Standing:
    """How a claim stands after a heartbeat, where its owner's next ones may be ordinary."""

    interval_ms: float
    """By which it is judged."""
    counts_silences: bool
    """Whether its silences say how well the interval fits."""
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
    """The last of them."""
    record: Record
    clock_ms: int
    """The clock at the last of them."""
    count: int
    longest_ms: int
    """The longest silence, that before the first among them."""
    interval_ms: float
    moved: PositionReport | None
    """The last to move the position; None: none did."""


RowItem: TypeAlias = ChunkFacts | HeartbeatRun | SingleRecord
"""What a row is by itself."""
Item: TypeAlias = RowItem | RequestRun | JoinedRun

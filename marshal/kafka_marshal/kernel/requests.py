"""Finds and folds runs of ClaimingRanges about one claim, in columns. Compiled.

`core.ranges` defines the effect of an ordinary request on ranges, and `core.ranges.ordinary`
computes it in one pass. This module does the same over rows of numbers. It stops before the first
request that is not ordinary. It also returns what observers need of each: the ranges that ended or
were granted, and whether the lowest one stands still.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Final

import numba
import numpy as np
from attrs import define, frozen

from kafka_marshal.core.ranges.state import Interval, Limits, OpenRange, Ranges, SignOfLife
from kafka_marshal.kernel.columns import (
    HEADER_COLUMNS,
    MALFORMED,
    Flags,
    Ints,
    NameCodes,
    RecordColumns,
)
from kafka_marshal.kernel.parsing import REQUEST
from kafka_marshal.kernel.request_table import (
    ADDRESS,
    CLOCK,
    COUNT,
    DONE,
    EPOCH,
    FIELDS,
    INSTANCE,
    OFFSET,
    ROW,
    SEEN,
    TIMESTAMP,
    VERSION,
)
from kafka_marshal.kernel.runs import NO_RUN
from kafka_marshal.kernel.steps import BOUND, HEARTBEAT, RELEASE_GROUP

NOTHING_SAID: Final = -3
"""The group has had no heartbeat yet."""

(_ID, _FROM, _TO, _HOLDER) = range(4)
(_OPEN, _POOL, _POOL_END, _ALIVE, _FRONTIER, _NOW) = range(6)
(REACHED, STANDS, PIECE_ID, PIECE_FROM, PIECE_TO, SINCE, SINCE_MS, WORDS, SPOKEN_MS) = range(9)
"""The state of a standstill. `REACHED`: the highest finished offset. `STANDS`: whether there is a
lowest range that stands still; its id (or `IN_POOL`) and bounds follow. Then come the number of the
request since which it does so, or -1, and the time since then. The last two are the number of
requests since then, and the time of the last one."""
IN_POOL: Final = -1
_NO_PIECE: Final = -2
GOES_ON, STARVED, STUCK = range(3)
"""Why a run stopped: before a request that is not ordinary, or at its end; or after one which
proves that the claim stands still."""
AT, RANGE, BEGIN, END = range(4)
"""The columns of an event: the index of the request, the range, and its bounds. `BEGIN` is `ENDED`
for a finished range."""
ENDED: Final = -1
_KNOWN_VERSIONS: Final = 1
_INTERVAL: Final = HEADER_COLUMNS.index("interval_ms")
_SEEN_COLUMN: Final = HEADER_COLUMNS.index("seen")
_EPOCH_COLUMN: Final = HEADER_COLUMNS.index("epoch")
_DONE_COLUMN: Final = HEADER_COLUMNS.index("done")

_compiled = numba.njit(cache=True, nogil=True)


@frozen(eq=False)
class FoundRequests:
    """The runs among some records."""

    leader: Ints
    """The first row of each row's run, or NO_RUN."""
    said: Ints
    """The heartbeat interval in the group's last heartbeat before each row, in ms.

    ABSENT: it states none. NOTHING_SAID: there is none. All requests of a run have the same value.
    At a partition's first rows this may be the interval from another partition."""


def find(
    offsets: Ints,
    timestamps_ms: Ints,
    clocks_ms: Ints,
    columns: RecordColumns,
    names: NameCodes,
    plain: Flags,
    breaks: Flags,
) -> FoundRequests:
    """Find the runs in records that are sorted by offset.

    A run ends at any other record of its claim, at one of its group that may change the group's
    heartbeat interval, and if the sender states another interval.

    Args:
        offsets: log offsets. If two are equal, neither is in a run.
        timestamps_ms: unix milliseconds.
        clocks_ms: the latest timestamp so far.
        columns: the records, decoded with `names`, including requests.
        names: the codes of senders and claims.
        plain: whether a request may be in a run, as far as the caller knows.
        breaks: no run continues over this row: another partition or chunk begins, or the
            row's claim is unknown.
    """
    leader = np.full(len(offsets), NO_RUN, np.int64)
    said = np.full(len(offsets), NOTHING_SAID, np.int64)
    _find(
        offsets, timestamps_ms, clocks_ms, columns.kind, columns.address,
        columns.headers, names.table, plain, breaks,
        np.full(len(names.claims), -1, np.int64),
        np.zeros(len(names.claims), np.int64),
        np.zeros(len(names.groups), np.int64),
        np.full(len(names.groups), NOTHING_SAID, np.int64),
        leader, said,
    )  # fmt: skip
    return FoundRequests(leader, said)


@_compiled
def _find(  # type: ignore[no-untyped-def]
    offsets, timestamps_ms, clocks_ms, kinds, addresses, headers, table, plain, breaks,
    last_row, of_claim, of_group, group_said, leader, said,
):  # fmt: skip
    everywhere = 0
    # The state at a claim's last row, to be compared with that at its next row.
    stirred = np.empty(len(offsets), np.int64)
    for row in range(len(offsets)):
        if breaks[row]:
            everywhere += 1
            continue
        kind = kinds[row]
        if kind == MALFORMED:
            continue
        group, claim = table[addresses[row], 2], table[addresses[row], 3]
        if kind == RELEASE_GROUP:
            of_group[group] += 1
            continue
        if kind != REQUEST:
            of_claim[claim] += 1
            states = headers[row, _INTERVAL]
            if kind != HEARTBEAT or group_said[group] != states:
                of_group[group] += 1
                group_said[group] = states
            continue
        alone = (
            row == 0
            or row == len(offsets) - 1
            or offsets[row - 1] == offsets[row]
            or offsets[row + 1] == offsets[row]
        )
        if (
            alone
            or not plain[row]
            or not (-BOUND < timestamps_ms[row] < BOUND)
            or not (-BOUND < clocks_ms[row] < BOUND)
        ):
            of_claim[claim] += 1
            continue
        stirred[row] = everywhere + of_claim[claim] + of_group[group]
        said[row] = group_said[group]
        before = last_row[claim]
        last_row[claim] = row
        if (
            before >= 0
            and stirred[before] == stirred[row]
            and headers[before, _INTERVAL] == headers[row, _INTERVAL]
        ):
            leader[row] = leader[before]
        else:
            leader[row] = row


def table_of(
    rows: Ints, offsets: Ints, timestamps_ms: Ints, clocks_ms: Ints, columns: RecordColumns,
    names: NameCodes,
) -> Ints:  # fmt: skip
    """Requests as a table of numbers, one a row."""
    table = np.empty((len(rows), FIELDS), np.int64)
    table[:, OFFSET] = offsets[rows]
    table[:, TIMESTAMP] = timestamps_ms[rows]
    table[:, CLOCK] = clocks_ms[rows]
    table[:, VERSION] = columns.version[rows]
    table[:, COUNT] = columns.number[rows]
    headers = columns.headers[rows]
    table[:, SEEN] = headers[:, _SEEN_COLUMN]
    table[:, EPOCH] = headers[:, _EPOCH_COLUMN]
    table[:, DONE] = headers[:, _DONE_COLUMN]
    table[:, ADDRESS] = columns.address[rows]
    table[:, INSTANCE] = names.table[columns.address[rows], 0]
    table[:, ROW] = rows
    return table


def interval_said(columns: RecordColumns, row: int) -> int:
    """The heartbeat interval that a record states, in milliseconds, or ABSENT."""
    return int(columns.headers[row, _INTERVAL])


@frozen
class RequestJudging:
    """The arguments for folding a run of requests: rules, and the claim, which is constant."""

    position: int
    frontier_max: int
    claim_clock_ms: int
    stale_after_ms: float
    watched: bool
    """At least once: whether to detect that the lowest range stands still."""
    rest_words: int
    rest_ms: float
    limits: Limits


@frozen(eq=False)
class TakenRequests:
    """The result of folding a run of requests."""

    count: int
    """The number of folded requests."""
    stopped: int
    """GOES_ON, or STARVED or STUCK if the last one proves that the claim stands still."""
    events: Ints
    """Ranges that ended or were granted, in order."""

    def granted(self, number: int) -> bool:
        """Whether this request was granted a range."""
        behind = int(np.searchsorted(self.events[:, AT], number, side="right"))
        if not behind:
            return False
        at, _, begin, _ = self.events[behind - 1].tolist()  # it is the last thing that happens
        return bool(at == number and begin != ENDED)


@define(eq=False)
class NumberedRanges:
    """The ranges of one claim as numbers; instances are codes of `names`."""

    names: NameCodes
    window: int
    open: Ints
    pool: Ints
    alive: Ints
    heads: Ints
    """The used length of each, the frontier and the clock."""

    @classmethod
    def of(cls, ranges: Ranges, names: NameCodes) -> NumberedRanges:
        """Convert ranges. There must be a window, and every holder must be alive."""
        assert ranges.window is not None
        code = names.instances.code
        held = [(each.id, each.from_, each.to, code(each.instance)) for each in ranges.open]
        signs = [(code(each.instance), each.ms) for each in ranges.alive]
        pool = [(each.from_, each.to) for each in ranges.pool]
        heads = [len(held), 0, len(pool), len(signs), ranges.frontier, ranges.clock_ms]
        return cls(
            names,
            ranges.window,
            np.array(held, np.int64).reshape(-1, 4),
            np.array(pool, np.int64).reshape(-1, 2),
            np.array(signs, np.int64).reshape(-1, 2),
            np.array(heads, np.int64),
        )

    def copy(self) -> NumberedRanges:
        """An independent copy."""
        return NumberedRanges(
            self.names, self.window,
            self.open[: self.heads[_OPEN]].copy(),
            self.pool.copy(),
            self.alive[: self.heads[_ALIVE]].copy(),
            self.heads.copy(),
        )  # fmt: skip

    def ranges(self) -> Ranges:
        """Convert back."""
        open_count, at, end, alive_count, frontier, clock_ms = self.heads.tolist()
        name = self.names.instances.names()
        signs = [SignOfLife(name[who], ms) for who, ms in self.alive[:alive_count].tolist()]
        signs.sort(key=attrgetter("instance"))
        return Ranges(
            self.window,
            frontier,
            tuple(
                [
                    OpenRange(id_, begin, to, name[who])
                    for id_, begin, to, who in self.open[:open_count].tolist()
                ]
            ),
            tuple([Interval(*each) for each in self.pool[at:end].tolist()]),
            tuple(signs),
            clock_ms,
        )

    def fold(
        self, table: Ints, judging: RequestJudging, standing: Ints | None = None
    ) -> TakenRequests:
        """Fold requests up to the first that is not ordinary, or that proves a standstill.

        `standing` is the state of a standstill, and is updated. It is ignored unless
        `judging.watched`.
        """
        more, limits = len(table), judging.limits
        if standing is None:
            standing = np.zeros(SPOKEN_MS + 1, np.int64)
        self.open = _room(self.open, int(self.heads[_OPEN]) + more)
        self.alive = _room(self.alive, int(self.heads[_ALIVE]) + more)
        events = np.empty((int(self.heads[_OPEN]) + 2 * more, 4), np.int64)
        count, stopped, happened = _fold(
            table, self.open, self.pool, self.alive, self.heads, standing, events,
            judging.position, judging.frontier_max, judging.claim_clock_ms,
            float(judging.stale_after_ms), judging.watched, judging.rest_words,
            float(judging.rest_ms),
            limits.intervals_max, limits.open_ranges_max, limits.range_messages_max,
        )  # fmt: skip
        return TakenRequests(count, stopped, events[:happened])


def _room(array: Ints, rows: int) -> Ints:
    if len(array) >= rows:
        return array
    longer = np.empty((2 * rows, array.shape[1]), np.int64)
    longer[: len(array)] = array
    return longer


@_compiled
def _lowest(open_, pool, heads):  # type: ignore[no-untyped-def]
    """The start of the lowest piece, and its index among the open ones, IN_POOL, or _NO_PIECE."""
    low, piece = heads[_FRONTIER], np.int64(_NO_PIECE)
    for index in range(heads[_OPEN]):
        if piece == _NO_PIECE or open_[index, _FROM] < low:
            low, piece = open_[index, _FROM], np.int64(index)
    if heads[_POOL] < heads[_POOL_END] and (piece == _NO_PIECE or pool[heads[_POOL], 0] < low):
        low, piece = pool[heads[_POOL], 0], np.int64(IN_POOL)
    return low, piece


@_compiled
def _stands(open_, pool, heads, standing, me, at, clock_ms, rest_words, rest_ms, full, position):  # type: ignore[no-untyped-def]
    """`Standstills.seen`, for a request that was folded."""
    low, piece = _lowest(open_, pool, heads)
    if piece == _NO_PIECE or standing[REACHED] <= low:
        standing[STANDS] = 0
        return GOES_ON
    id_ = open_[piece, _ID] if piece >= 0 else np.int64(IN_POOL)
    end = open_[piece, _TO] if piece >= 0 else pool[heads[_POOL], 1]
    if (
        not standing[STANDS]
        or standing[PIECE_ID] != id_
        or standing[PIECE_FROM] != low
        or standing[PIECE_TO] != end
    ):
        standing[STANDS] = 1
        standing[PIECE_ID], standing[PIECE_FROM], standing[PIECE_TO] = id_, low, end
        standing[SINCE], standing[SINCE_MS] = at, clock_ms
        standing[WORDS] = standing[SPOKEN_MS] = 0
        return GOES_ON
    if piece < 0 or open_[piece, _HOLDER] == me:
        standing[WORDS] += 1
        standing[SPOKEN_MS] = clock_ms
    rested_ms = standing[SPOKEN_MS] - standing[SINCE_MS]
    if standing[WORDS] < rest_words or rested_ms < rest_ms:
        return GOES_ON
    if piece < 0:
        return STARVED
    return STUCK if full and position == low else GOES_ON


@_compiled
def _fold(  # type: ignore[no-untyped-def]
    table, open_, pool, alive, heads, standing, events,
    position, frontier_max, claim_clock_ms, stale_ms, watched, rest_words, rest_ms,
    intervals_max, open_max, messages_max,
):  # fmt: skip
    """`ordinary_request` for each request, and its events for observers."""
    happened = 0
    low, _ = _lowest(open_, pool, heads)
    for at in range(len(table)):
        offset, seen, done = table[at, OFFSET], table[at, SEEN], table[at, DONE]
        me, count = table[at, INSTANCE], table[at, COUNT]
        if (
            table[at, VERSION] > _KNOWN_VERSIONS
            or seen >= offset
            or (seen < 0 and done >= 0)
            or table[at, EPOCH] >= offset
            or (watched and position > low)
        ):
            return at, GOES_ON, happened
        clock_ms = max(heads[_NOW], claim_clock_ms, table[at, TIMESTAMP])
        mine, silent = heads[_ALIVE], False
        for index in range(heads[_ALIVE]):
            if clock_ms - alive[index, 1] > stale_ms:
                silent = True
            if alive[index, 0] == me:
                mine = index
        if silent:
            return at, GOES_ON, happened
        heads[_NOW] = clock_ms
        if mine == heads[_ALIVE]:
            heads[_ALIVE] += 1
            alive[mine, 0] = me
        alive[mine, 1] = clock_ms

        held = left = 0
        for index in range(heads[_OPEN]):
            if open_[index, _HOLDER] == me:
                held += 1
                if open_[index, _ID] <= seen and done > open_[index, _FROM]:
                    standing[REACHED] = max(standing[REACHED], min(done, open_[index, _TO]))
                    if done >= open_[index, _TO]:
                        held -= 1
                        events[happened, AT], events[happened, RANGE] = at, open_[index, _ID]
                        events[happened, BEGIN], events[happened, END] = ENDED, open_[index, _TO]
                        happened += 1
                        continue
                    open_[index, _FROM] = done
            if left != index:
                open_[left] = open_[index]
            left += 1
        heads[_OPEN] = left

        full, begin, end = False, np.int64(0), np.int64(0)
        if count == 0:
            pass
        elif heads[_POOL] < heads[_POOL_END]:
            begin, end = pool[heads[_POOL], 0], pool[heads[_POOL], 1]
            heads[_POOL] += 1
        elif held >= open_max:
            pass
        elif left >= intervals_max or heads[_FRONTIER] >= frontier_max:
            full = heads[_FRONTIER] >= frontier_max
        else:
            begin = heads[_FRONTIER]
            end = begin + min(count, messages_max, frontier_max - begin)
            heads[_FRONTIER] = end
        if begin < end:
            open_[left, _ID], open_[left, _FROM] = offset, begin
            open_[left, _TO], open_[left, _HOLDER] = end, me
            heads[_OPEN] += 1
            events[happened, AT], events[happened, RANGE] = at, offset
            events[happened, BEGIN], events[happened, END] = begin, end
            happened += 1
        if watched:
            stopped = _stands(
                open_, pool, heads, standing, me, at, table[at, CLOCK], rest_words, rest_ms, full,
                position,
            )  # fmt: skip
            if stopped != GOES_ON:
                return at + 1, stopped, happened
            low, _ = _lowest(open_, pool, heads)
    return len(table), GOES_ON, happened

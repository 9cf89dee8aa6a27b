"""A watch's folds of claims: the kernel sums ordinary heartbeats, others go one by one.

Nearly every record is the heartbeat of a live owner, and changes only its own claim. The kernel
sums these (`kernel.ordinary`). An account receives a sum before it folds a record whose result
depends on it, and before it is saved. So its reports are the same as if it had folded every record.
This module knows which sums a record depends on. It does not know where records come from, nor
where reports go.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
from attrs import frozen

from kafka_marshal.capture import RawRecord, TimestampType
from kafka_marshal.codec import MalformedRecord
from kafka_marshal.core import wire
from kafka_marshal.core.messages import ClaimingRange
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.kernel import ordinary as kernel
from kafka_marshal.kernel.columns import HEADER_COLUMNS, MALFORMED, NameCodes
from kafka_marshal.kernel.ordinary import LiveColumns
from kafka_marshal.kernel.steps import BOUND, HEARTBEAT, RELEASE_GROUP
from kafka_marshal.range_codec import CLAIMING_RANGE, decode_range
from kafka_marshal.replay.fold.partition_fold import PartitionFold
from kafka_marshal.replay.live.folding import events_of, live_fold
from kafka_marshal.replay.live.live_findings import LiveEvent
from kafka_marshal.replay.model.chunk_items import BUCKET_MS, Flags, Ints, WentOn
from kafka_marshal.replay.model.position_progress import PositionReport
from kafka_marshal.replay.sources.columns import LEAN_HEADERS, header_lists
from kafka_marshal.replay.state.partition_state import PartitionState

_Of = TypeVar("_Of")

LOGGED_MAX: Final = 1 << 16
"""The most ordinary heartbeats whose silences and clocks are logged before accounts receive
them."""
ADDRESSES_MAX: Final = 1 << 16
"""The most senders to remember; beyond that, accounts receive all sums, and everything starts
again."""
_NUMBERS: Final = {TimestampType.of_kafka_client(number): number for number in range(3)}
_APPENDED: Final = _NUMBERS[TimestampType.LOG_APPEND_TIME]
_EPOCH, _INTERVAL, _START = map(HEADER_COLUMNS.index, ("epoch", "interval_ms", "start"))


@frozen(eq=False)
class LiveBatch:
    """Records of several coordinating partitions, each in offset order."""

    partitions: Sequence[int]
    offsets: Sequence[int]
    timestamps_ms: Sequence[int]
    stamped: Sequence[int]
    """Their timestamp types, as Kafka's clients number them: see `TimestampType`."""
    values: Sequence[bytes | None]
    header_counts: Sequence[int]
    """The number of headers of each record."""
    header_keys: Sequence[int]
    """For the headers of all records in order: the indexes of their names in `header_names`, and
    their values."""
    header_values: Sequence[bytes | None]
    header_names: Sequence[str]
    kept: Sequence[Any]
    """The data from which a record can be made again."""
    raw: Callable[[Any], RawRecord]
    """Makes a record from an item of `kept`."""

    @classmethod
    def of(cls, raws: Sequence[RawRecord]) -> LiveBatch:
        """A batch of existing records."""
        names = HeaderNames()
        keys = [names[name] for raw in raws for name, _ in raw.headers]
        return cls(
            [raw.partition for raw in raws],
            [raw.offset for raw in raws],
            [raw.timestamp_ms for raw in raws],
            [_NUMBERS[raw.timestamp_type] for raw in raws],
            [raw.value for raw in raws],
            [len(raw.headers) for raw in raws],
            keys,
            [value for raw in raws for _, value in raw.headers],
            [*names],
            raws,
            _itself,
        )

    def __len__(self) -> int:
        return len(self.offsets)


class HeaderNames(dict[str, int]):
    """The names of headers, which are few, with their indexes in order of occurrence."""

    def __missing__(self, name: str) -> int:
        place = self[name] = len(self)
        return place


def _itself(raw: RawRecord) -> RawRecord:
    return raw


class WatchedClaims:
    """The accounts of all coordinating partitions."""

    def __init__(self, states: Mapping[int, PartitionState]) -> None:
        self._states = [states[number] for number in sorted(states)]
        self._place_of = {number: place for place, number in enumerate(sorted(states))}
        self._accounts = [_account(state) for state in self._states]
        self._begin()

    def _begin(self) -> None:
        self._names = NameCodes()
        self._open = kernel.OpenClaims(len(self._states), LOGGED_MAX)
        self._last: dict[int, Any] = {}
        """By claim, the data of its last ordinary heartbeat, if that is not in the batch."""
        self._raw: Callable[[Any], RawRecord] = _itself
        self._of_member: dict[tuple[int, int, int], set[int]] = {}
        """By coordinating partition, group and client: the open claims."""
        self._of_group: dict[tuple[int, int], set[int]] = {}
        self._group_rows: dict[tuple[int, str], int] = {}
        self._intervals_ms: dict[int, float] = {}
        self._senders: list[tuple[str, str, str]] = []
        self._sender_numbers: dict[tuple[str, str, str], int] = {}
        self._sender_of = np.zeros(0, np.int64)
        self._kept: Sequence[Any] = ()

    def fold(self, batch: LiveBatch) -> Iterator[tuple[RawRecord, list[LiveEvent]]]:
        """Fold a batch of at most `LOGGED_MAX`; yield the records that caused events, and these.

        Raises:
            ReplayError: a record is not the next one; the message names the partition.
            InvalidOption: the log contradicts the heartbeat interval that the user gave.
        """
        assert len(batch) <= LOGGED_MAX, len(batch)
        if len(self._names.table) > ADDRESSES_MAX:
            self.settle()
            self._begin()
        opened = self._open
        if opened.logged + len(batch) > LOGGED_MAX:
            self._drain()
        columns = self._columns(batch)
        self._kept, self._raw = batch.kept, batch.raw
        table = self._names.table
        opened.make_room(len(self._names.claims), len(self._group_rows) + len(columns))
        opened.touches = 0
        row = opened.take(columns, 0, table)
        while row < len(columns):
            raw = batch.raw(batch.kept[row])
            events = self._fold_one(columns, row, raw)
            if events:
                yield raw, events
            row = opened.take(columns, row + 1, table)
        touched = opened.touched[: opened.touches]
        rows = opened.claims[touched, kernel.ROW]
        opened.claims[touched, kernel.ROW] = -1
        last = self._last
        for claim, at in zip(touched.tolist(), rows.tolist(), strict=True):
            if at >= 0:
                last[claim] = batch.kept[at]
        self._kept = ()

    def _columns(self, batch: LiveBatch) -> LiveColumns:
        values = pa.array(batch.values, pa.binary())
        headers, singly = _headers(batch)
        place_of = self._place_of
        return LiveColumns(
            np.array([place_of[number] for number in batch.partitions], np.int32),
            np.array(batch.offsets, np.int64),
            np.array(batch.timestamps_ms, np.int64),
            np.array(batch.stamped, np.int8),
            self._names.decoded(values, headers),
            singly,
        )

    def _fold_one(self, columns: LiveColumns, row: int, raw: RawRecord) -> list[LiveEvent]:
        """Fold a record by itself, after the sums that it depends on."""
        decoded, opened, names = columns.columns, self._open, self._names
        place, kind = int(columns.places[row]), int(decoded.kind[row])
        account, of_place = self._accounts[place], opened.places[place]
        if raw.offset <= of_place[kernel.LAST_OFFSET] and of_place[kernel.LAST_CLAIM] >= 0:
            self._flush(int(of_place[kernel.LAST_CLAIM]))  # it may be the same record again
        self._flush_place(place)
        group = client = claim = -1
        group_name = client_name = ""
        if kind != MALFORMED:
            _, client, group, claim = names.table[decoded.address[row]].tolist()
            group_name = names.groups.names()[group]
            client_name = names.clients.names()[client]
        elif raw.value is not None and raw.value.startswith(CLAIMING_RANGE):
            key = _key_of(raw)
            if key is not None:
                claim, group_name = names.known_claim(key), key.group
        if kind == RELEASE_GROUP:
            self._close(*self._of_group.get((place, group), ()))
        elif claim >= 0:
            self._close(claim)
        self._flush_heard(place, group_name)
        lived = account.intervals_of(group_name)
        newest = account.newest_instance(group_name, client_name)
        events = events_of(self._states[place], raw)
        of_place[kernel.LAST_OFFSET] = raw.offset
        of_place[kernel.LOG_CLOCK] = account.clock_ms
        of_place[kernel.STAMPED] = columns.stamped[row]
        of_place[kernel.LAST_CLAIM] = -1
        if kind != MALFORMED:
            if account.intervals_of(group_name) != lived:
                self._close(*self._of_group.get((place, group), ()))
            if account.newest_instance(group_name, client_name) != newest:
                self._close(*self._of_member.get((place, group, client), ()))
            if kind == HEARTBEAT:
                self._try_to_open(columns, row, raw)
        return events

    def _try_to_open(self, columns: LiveColumns, row: int, raw: RawRecord) -> None:
        """Open the claim, if the sender's next heartbeats may be ordinary."""
        decoded, opened = columns.columns, self._open
        if decoded.amended_badly[row]:
            return
        address, said = int(decoded.address[row]), int(decoded.headers[row, _INTERVAL])
        _, client, group, claim = self._names.table[address].tolist()
        place, key = int(columns.places[row]), self._names.claim_keys()[claim]
        standing = self._accounts[place].standing(key, raw, None if said < 0 else said)
        if standing is None:
            return
        first, last = standing.books[0], standing.books[-1]
        clocks = [standing.clock_ms, raw.timestamp_ms]
        clocks += [book.moved_ms for book in standing.books]
        clocks += [book.beat_ms for book in standing.books if book.beat_ms is not None]
        if max(clocks) >= BOUND or min(clocks) <= -BOUND:
            return
        long_ms = _at_most(math.floor(standing.interval_ms)) if standing.counts_silences else -1
        beats_ms = [
            kernel.NEVER if each.beat_ms is None else each.beat_ms for each in (first, last)
        ]
        if first is last:
            beats_ms[1] = kernel.NEVER
        opened.claims[claim] = (
            True, place, address, decoded.present[row], decoded.headers[row, _EPOCH], said,
            decoded.headers[row, _START] >= 0,
            _at_most(math.floor(standing.missed_ms)), long_ms,
            _at_most(math.ceil(standing.grain_ms)), self._group_row(place, key.group),
            decoded.number[row], raw.timestamp_ms, standing.clock_ms,
            0, 0, 0, -1, -1,
            _at_most(math.ceil(first.rest_ms)), _at_most(math.ceil(last.rest_ms)),
            first.moved_ms, last.moved_ms, *beats_ms,
        )  # fmt: skip
        self._intervals_ms[claim] = standing.interval_ms
        self._of_member.setdefault((place, group, client), set()).add(claim)
        self._of_group.setdefault((place, group), set()).add(claim)

    def _close(self, *claims: int) -> None:
        """Flush some claims; their next heartbeats are not ordinary."""
        for claim in claims:
            of_claim = self._open.claims[claim]
            if not of_claim[kernel.IS_OPEN]:
                continue
            self._flush(claim)
            place = int(of_claim[kernel.PLACE])
            if self._open.places[place, kernel.LAST_CLAIM] == claim:
                self._flush_place(place)
            of_claim[kernel.IS_OPEN] = 0
            self._last.pop(claim, None)
            _, client, group, _ = self._names.table[of_claim[kernel.ADDRESS]].tolist()
            _without(self._of_member, (place, group, client), claim)
            _without(self._of_group, (place, group), claim)

    def _flush(self, claim: int) -> None:
        """Pass the sum of a claim's pending heartbeats to its account."""
        of_claim = self._open.claims[claim]
        count = int(of_claim[kernel.COUNT])
        if not count:
            return
        self._draw()
        raw = self._last_of(claim)
        moved = None
        if of_claim[kernel.MOVED_OFFSET] >= 0:
            moved = PositionReport(
                *of_claim[[kernel.NUMBER, kernel.MOVED_MS, kernel.MOVED_OFFSET]].tolist()
            )
        pending = WentOn(
            raw,
            raw.decoded(),
            int(of_claim[kernel.CLOCK]),
            count,
            int(of_claim[kernel.LONGEST_MS]),
            self._intervals_ms[claim],
            moved,
        )
        self._accounts[of_claim[kernel.PLACE]].went_on(self._names.claim_keys()[claim], pending)
        of_claim[kernel.COUNT] = of_claim[kernel.LONGEST_MS] = 0
        of_claim[kernel.MOVED_OFFSET] = -1

    def _last_of(self, claim: int) -> RawRecord:
        """The last ordinary heartbeat of a claim."""
        row = int(self._open.claims[claim, kernel.ROW])
        return self._raw(self._last[claim] if row < 0 else self._kept[row])

    def _flush_place(self, place: int) -> None:
        """Pass the number of pending heartbeats, and other sums without a claim, to an account."""
        of_place = self._open.places[place]
        count = int(of_place[kernel.RECORDS])
        if not count:
            return
        account, state = self._accounts[place], self._states[place]
        raw = self._last_of(int(of_place[kernel.LAST_CLAIM]))
        stamps_ms = int(of_place[kernel.FROM_MS]), int(of_place[kernel.TO_MS])
        account.records_went_on(raw, count, stamps_ms, int(of_place[kernel.LOG_CLOCK]))
        account.silences_went_on(int(of_place[kernel.SILENCES]), int(of_place[kernel.LONG]))
        of_place[[kernel.RECORDS, kernel.SILENCES, kernel.LONG]] = 0
        state.went_on(raw, count)

    def _flush_heard(self, place: int, group: str) -> None:
        """Pass the time of the last record of a group's owners to an account."""
        row = self._group_rows.get((place, group))
        if row is not None and self._open.heard_ms[row] > -kernel.NEVER:
            self._accounts[place].heard(group, int(self._open.heard_ms[row]))
            self._open.heard_ms[row] = -kernel.NEVER

    def _group_row(self, place: int, group: str) -> int:
        return self._group_rows.setdefault((place, group), len(self._group_rows))

    def settle(self) -> None:
        """Flush everything: the accounts' states are the same as if they had folded each record."""
        self._drain()
        for claim in np.flatnonzero(self._open.claims[:, kernel.COUNT]).tolist():
            self._flush(claim)
        for place in range(len(self._states)):
            self._flush_place(place)
        for place, group in self._group_rows:
            self._flush_heard(place, group)

    def _draw(self) -> None:
        """Pass the heartbeats to draw to the accounts."""
        opened = self._open
        for book, claim, clock_ms in opened.beats[: opened.drawn].tolist():
            account = self._accounts[opened.claims[claim, kernel.PLACE]]
            if not account.draw(book, self._names.claim_keys()[claim], clock_ms):
                opened.claims[claim, kernel.BEAT_MS + book] = kernel.NEVER
        opened.drawn = 0

    def _drain(self) -> None:
        """Pass the silences and the senders' clocks to the accounts, and empty the logs."""
        self._draw()
        opened = self._open
        log = opened.log[: opened.logged]
        opened.logged = 0
        for place in np.unique(log[:, kernel.LOG_PLACE]).tolist():
            account = self._accounts[place]
            rows = log[log[:, kernel.LOG_PLACE] == place]
            silences = rows[rows[:, kernel.LOG_SILENCE_MS] >= 0, kernel.LOG_SILENCE_MS]
            account.silences_measured(_counted(silences))
            stamped = rows[rows[:, kernel.LOG_STAMPED] == _APPENDED]
            if not len(stamped):
                continue
            senders = self._sender_codes()[stamped[:, kernel.LOG_ADDRESS]]
            order = np.argsort(senders, kind="stable")
            senders, off_ms = senders[order], stamped[order, kernel.LOG_OFF_MS]
            begins = np.flatnonzero(np.diff(senders, prepend=-1))
            for begin, end in zip(begins, [*begins[1:], len(senders)], strict=True):
                of_sender = off_ms[begin:end]
                account.clock_went_on(
                    self._senders[senders[begin]],
                    int(of_sender.min()),
                    int(of_sender.max()),
                    _counted(of_sender // BUCKET_MS),
                )

    def _sender_codes(self) -> Ints:
        """By address, the index of group, instance and client in `_senders`."""
        known, table = len(self._sender_of), self._names.table
        if known < len(table):
            names = self._names
            instances, clients = names.instances.names(), names.clients.names()
            groups = names.groups.names()
            fresh = []
            for instance, client, group, _ in table[known:].tolist():
                name = groups[group], instances[instance], clients[client]
                code = self._sender_numbers.setdefault(name, len(self._sender_numbers))
                if code == len(self._senders):
                    self._senders.append(name)
                fresh.append(code)
            self._sender_of = np.concatenate([self._sender_of, np.array(fresh, np.int64)])
        return self._sender_of


def _headers(batch: LiveBatch) -> tuple[pa.Array | None, Flags]:
    """The headers of a batch, if there are any; and which records have a checkpoint."""
    holds = np.zeros(len(batch), np.bool_)
    if not batch.header_keys:
        return None, holds
    known = batch.header_names
    # A name that is not UTF-8 is shown with escapes.
    names = header_lists([len(known)], known, pa.nulls(len(known), pa.binary())).values
    keys = np.array(batch.header_keys, np.int32)
    ends = np.cumsum([0, *batch.header_counts], dtype=np.int32)
    if wire.CHECKPOINT_HEADER in known:
        entries = np.flatnonzero(keys == known.index(wire.CHECKPOINT_HEADER))
        holds[np.searchsorted(ends, entries, side="right") - 1] = True
    coded = pa.DictionaryArray.from_arrays(keys, names.field("key"))
    values = pa.array(batch.header_values, pa.binary())
    members = pa.StructArray.from_arrays([coded, values], fields=list(LEAN_HEADERS.value_type))
    return pa.ListArray.from_arrays(pa.array(ends), members), holds


def _without(sets: dict[_Of, set[int]], name: _Of, claim: int) -> None:
    sets[name].discard(claim)
    if not sets[name]:
        del sets[name]


def _counted(numbers: Ints) -> dict[int, int]:
    found, counts = np.unique(numbers, return_counts=True)
    return dict(zip(found.tolist(), counts.tolist(), strict=True))


def _at_most(duration_ms: int) -> int:
    """Limit a duration: all durations beyond that are equivalent."""
    return min(duration_ms, kernel.NEVER)


def _account(state: PartitionState) -> PartitionFold:
    account = live_fold(state).account
    assert isinstance(account, PartitionFold)
    return account


def _key_of(raw: RawRecord) -> ClaimKey | None:
    """The claim of a ClaimingRange; None if it is no message."""
    try:
        message = decode_range(raw.value)
    except MalformedRecord:
        return None
    return message.key if isinstance(message, ClaimingRange) else None

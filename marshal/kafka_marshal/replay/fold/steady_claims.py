"""Steady claims: won once, by one request, and then only spoken for by the winner.

Where a log has many claims, most are steady. A fold keeps what it knows of them in columns, and
makes their rows of the tables column by column. Something else may happen to one of them later.
Then the books that keep objects take it up, as if they had kept it all along
(`RulesetFold.take_up`). This room does not know how steady claims are found (`joined_runs`), nor
what is counted of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, field, frozen

from kafka_marshal.capture import RawRecord
from kafka_marshal.core.claims.verdicts import Accepted
from kafka_marshal.core.state import ClaimKey, Rules, RuleSet
from kafka_marshal.replay.findings.groups.sharing import Wins
from kafka_marshal.replay.fold.lanes import BEATS_MAX
from kafka_marshal.replay.fold.reading import made_in_blocks
from kafka_marshal.replay.model.chunk_items import (
    Flags,
    HeartbeatRun,
    Ints,
    JoinedRun,
    SingleRecord,
)
from kafka_marshal.replay.model.events import JudgedRecord, LogPartition
from kafka_marshal.replay.model.position_progress import PositionReport
from kafka_marshal.replay.model.rows import Table, stored
from kafka_marshal.replay.model.tables import CLAIMS, LANES, TENURES

if TYPE_CHECKING:
    from kafka_marshal.kernel.columns import NameCodes

Parts = Sequence[SingleRecord | HeartbeatRun | JoinedRun]
"""A claim's records, as a fold takes them that keeps objects."""
NEVER_LATE: Final = 2**63 - 1
_MADE_TOGETHER: Final = 32
"""Records of steady claims."""
_NOT_BY_CLAIM: Final = {"names", "beats_ms", "clocks_ms", "wins", "lasts", "parts"}


@frozen(eq=False, slots=False, kw_only=True)
class SteadyClaims:
    """Steady claims of one coordinating partition. Arrays have a number for each claim."""

    names: NameCodes
    numbers: Ints
    """What `parts` knows it by."""
    claims: Ints
    addresses: Ints
    """Codes of `names`: the claim, and its owner and the claim together."""
    said: Ints
    """The heartbeat interval that each record states, in milliseconds; negative: none."""
    interval_ms: npt.NDArray[np.float64]
    """That by which its records were put together."""
    begins_group: Flags
    """No record of its group is before the win, as far as was looked."""
    records: Ints
    first_offset: Ints
    """Of the win, which is the epoch, too."""
    first_clock_ms: Ints
    first_timestamp_ms: Ints
    late_clock_ms: Ints
    """Of the first record for which the fold knows a later clock; NEVER_LATE: of none."""
    last_offset: Ints
    last_clock_ms: Ints
    last_timestamp_ms: Ints
    last_unix_s: Ints
    position: Ints
    position_set: Flags
    """The last heartbeat sets it."""
    began: Ints
    """The first heartbeat; its position, clock and offset. Of a claim without one it says nothing.
    """
    moved: Ints
    """The same of the last heartbeat that says another position than the one before it."""
    longest_ms: Ints
    """The longest silence."""
    beats: Ints
    """How many numbers of `beats_ms` are its."""
    beats_ms: Ints
    """The clocks that are drawn, claim by claim."""
    clocks_ms: Ints
    """Of all records, claim by claim; empty once they were counted."""
    wins: pa.RecordBatch
    lasts: pa.RecordBatch
    """The first and the last records."""
    parts: Callable[[int], Parts]
    """The records of a claim, by its number."""

    def __len__(self) -> int:
        return len(self.claims)

    def chosen(self, mask: Flags) -> SteadyClaims:
        """Some of them."""
        if mask.all():
            return self
        by_claim = {
            each.name: getattr(self, each.name)[mask]
            for each in attrs.fields(SteadyClaims)
            if each.name not in _NOT_BY_CLAIM
        }
        clocks_ms = self.clocks_ms
        if len(clocks_ms):
            clocks_ms = clocks_ms[np.repeat(mask, self.records)]
        kept = pa.array(mask)
        return attrs.evolve(
            self,
            **by_claim,
            beats_ms=self.beats_ms[np.repeat(mask, self.beats)],
            clocks_ms=clocks_ms,
            wins=self.wins.filter(kept),
            lasts=self.lasts.filter(kept),
        )

    def counted(self) -> SteadyClaims:
        """The same without what is only needed to count them."""
        return attrs.evolve(self, clocks_ms=np.zeros(0, np.int64), parts=_no_parts)

    @cached_property
    def keys(self) -> list[ClaimKey]:
        """Their keys."""
        known = self.names.claim_keys()
        return [known[claim] for claim in self.claims.tolist()]

    @cached_property
    def senders(self) -> Ints:
        """Codes of `names` for each: instance, client, group."""
        return self.names.table[self.addresses, :3].astype(np.int64)

    @cached_property
    def in_group(self) -> Sequence[tuple[str, npt.NDArray[np.intp]]]:
        """The groups, in order of their first record, and which claims are theirs."""
        names = self.names.groups.names()
        return [(names[group], which) for group, which in _by_number(self.senders[:, 2])]

    def by_sender(
        self, among: npt.NDArray[np.intp]
    ) -> Iterator[tuple[str, str, npt.NDArray[np.intp]]]:
        """Instance id and client id, and which claims of one group are theirs."""
        of = self.senders[among]
        together = of[:, 0] * (int(of[:, 1].max()) + 1) + of[:, 1]
        for _, which in _by_number(together):
            instance, client, _ = of[which[0]].tolist()
            yield (
                self.names.instances.names()[instance],
                self.names.clients.names()[client],
                among[which],
            )

    def won_by(self, number: int) -> JudgedRecord:
        """The win."""
        raw = self._win(number)
        return _judged(raw, Accepted.CLAIMED, int(self.first_clock_ms[number]))

    def last(self, number: int) -> JudgedRecord:
        """The last record."""
        if self.records[number] == 1:
            return self.won_by(number)
        raw = self._last(number)
        return _judged(raw, Accepted.REFRESHED, int(self.last_clock_ms[number]))

    @cached_property
    def _win(self) -> Callable[[int], RawRecord]:
        return made_in_blocks(self.wins.__getitem__, _MADE_TOGETHER)

    @cached_property
    def _last(self) -> Callable[[int], RawRecord]:
        return made_in_blocks(self.lasts.__getitem__, _MADE_TOGETHER)

    def reports(self, number: int) -> tuple[PositionReport, PositionReport] | None:
        """The first heartbeat, and the last to move the position; None without a heartbeat."""
        if self.records[number] == 1:
            return None
        began, moved = self.began[number].tolist(), self.moved[number].tolist()
        return PositionReport(*began), PositionReport(*moved)

    @cached_property
    def _beats_end(self) -> Ints:
        return np.cumsum(self.beats)

    def beats_of(self, number: int) -> list[int] | None:
        """The clocks that are drawn; None if they are too many."""
        end, count = int(self._beats_end[number]), int(self.beats[number])
        return None if count > BEATS_MAX else self.beats_ms[end - count : end].tolist()


@frozen
class Silent:
    """The silences of claims whose owners do not state by which interval they are judged."""

    seen: int
    long: int
    """How many are longer than the interval."""
    lengths: Mapping[int, int]
    """How many have which length, in milliseconds."""

    @classmethod
    def of(cls, claims: SteadyClaims) -> Silent:
        """Those of claims that are not counted yet."""
        gaps_ms = np.diff(claims.clocks_ms, prepend=0)
        judged_ms = np.repeat(claims.interval_ms, claims.records)
        counts = np.repeat(claims.said != claims.interval_ms, claims.records)
        counts[np.cumsum(claims.records) - claims.records] = False  # before a win there is none
        gaps_ms, judged_ms = gaps_ms[counts], judged_ms[counts]
        lengths, of_length = np.unique(gaps_ms, return_counts=True)
        by_length = dict(zip(lengths.tolist(), of_length.tolist(), strict=True))
        return cls(len(gaps_ms), int((gaps_ms > judged_ms).sum()), by_length)


@define(eq=False)
class SteadyWins:
    """Wins of one group, and which of them were seen by those who look at its shares."""

    _claims: SteadyClaims
    _group: str
    clients: list[str]
    """Those that won, each once."""
    instances: set[str]
    _client: Ints
    _order: npt.NDArray[np.intp]
    """The claims in the order of their wins."""
    _offsets: Ints
    _seen: int = 0

    @classmethod
    def of(cls, claims: SteadyClaims, group: str, which: npt.NDArray[np.intp]) -> SteadyWins:
        """Those of one group, which are `which`."""
        order = which[np.argsort(claims.first_offset[which], kind="stable")]
        names = claims.names
        codes, client = np.unique(claims.senders[order, 1], return_inverse=True)
        instances = np.unique(claims.senders[order, 0]).tolist()
        return cls(
            claims.counted(),
            group,
            [names.clients.names()[code] for code in codes.tolist()],
            {names.instances.names()[code] for code in instances},
            client.reshape(-1),
            order,
            claims.first_offset[order],
        )

    @property
    def is_over(self) -> bool:
        """All were seen."""
        return self._seen == len(self._order)

    def before(self, offset: int | None) -> Wins | None:
        """Those before an offset that were not seen, if there are any; None: of all."""
        begin, end = self._seen, len(self._order)
        if offset is not None:
            if self._offsets[begin] >= offset:
                return None
            end = int(np.searchsorted(self._offsets, offset))
        self._seen = end
        order = self._order[begin:end]
        return Wins(
            self._group,
            self.clients,
            self._client[begin:end],
            self._claims.first_clock_ms[order],
            lambda number: self._claims.won_by(int(order[number])),
        )


def _no_parts(number: int) -> Parts:
    raise AssertionError("they were counted, so their records are not looked at again")


def _by_number(numbers: Ints) -> Iterator[tuple[int, npt.NDArray[np.intp]]]:
    """The different numbers in order of first sight, and where each is."""
    order = np.argsort(numbers, kind="stable")
    begins = np.flatnonzero(np.diff(numbers[order], prepend=-1))
    found = np.split(order, begins[1:])
    for which in sorted(found, key=lambda which: int(which[0])):
        if len(which):
            yield int(numbers[which[0]]), which


def _judged(raw: RawRecord, verdict: Accepted, clock_ms: int) -> JudgedRecord:
    return JudgedRecord(raw, raw.decoded().message, verdict, clock_ms)


@define(slots=False)
class SteadyBook:
    """The steady claims of one coordinating partition, and which of them are no longer steady."""

    place: LogPartition
    _stretches: list[SteadyClaims] = field(factory=list)
    _left: list[Flags] = field(factory=list)
    """Which claims of each stretch are still kept here."""
    _where: dict[str, dict[ClaimKey, tuple[int, int]]] = field(factory=dict)
    """By group."""

    def add(self, claims: SteadyClaims) -> None:
        """Some more, which are counted."""
        stretch = len(self._stretches)
        self._stretches.append(claims)
        self._left.append(np.ones(len(claims), np.bool_))
        keys = claims.keys
        for group, which in claims.in_group:
            of_group = self._where.setdefault(group, {})
            of_group.update((keys[number], (stretch, number)) for number in which.tolist())

    def __contains__(self, key: ClaimKey) -> bool:
        return key in self._where.get(key.group, ())

    def __bool__(self) -> bool:
        return bool(self._where)

    def pop(self, key: ClaimKey) -> tuple[SteadyClaims, int] | None:
        """Give a claim away, if it is here: where it stands."""
        of_group = self._where.get(key.group)
        found = of_group.pop(key, None) if of_group else None
        if found is None:
            return None
        if not of_group:
            del self._where[key.group]
        stretch, number = found
        self._left[stretch][number] = False
        return self._stretches[stretch], number

    def keys_of(self, group: str) -> list[ClaimKey]:
        """Of all claims of a group that are still here."""
        return list(self._where.get(group, ()))

    def all_keys(self) -> list[ClaimKey]:
        """Of all that are still here."""
        return [key for of_group in self._where.values() for key in of_group]

    def kept(self) -> Iterator[SteadyClaims]:
        """What is left."""
        for claims, left in zip(self._stretches, self._left, strict=True):
            if left.any():
                yield claims.chosen(left)

    def ever(self) -> Iterator[SteadyClaims]:
        """All that were ever here."""
        return iter(self._stretches)


# --- rows -----------------------------------------------------------------------------------------


def steady_rows(
    place: LogPartition, claims: SteadyClaims, rules: Rules, stale_after_ms: npt.NDArray[np.float64]
) -> Iterator[tuple[Table[Any], pa.StructArray]]:
    """The rows of all tables that say something of each claim, when the log ends.

    The owners of all are alive. `stale_after_ms` is by claim.
    """
    count = len(claims)
    keys = claims.keys
    fenced = rules.rule_set is RuleSet.FENCED
    name: Mapping[str, pa.Array] = {
        "log": _same(count, place.log, pa.string()),
        "coordinating_partition": _same(count, place.coordinating_partition, pa.int64()),
        "rules": _same(count, rules.rule_set.value, pa.string()),
        "group": stored([key.group for key in keys], pa.string()),
        "topic": stored([key.topic for key in keys], pa.string()),
        "topic_partition": stored([key.topic_partition for key in keys], pa.int64()),
    }
    instances = _texts(claims.names.instances.names(), claims.senders[:, 0])
    clients = _texts(claims.names.clients.names(), claims.senders[:, 1])
    epoch = pa.array(claims.first_offset) if fenced else pa.nulls(count, pa.int64())
    position, records = pa.array(claims.position), pa.array(claims.records)
    first_offset, last_offset = pa.array(claims.first_offset), pa.array(claims.last_offset)
    if fenced:
        owned = np.ones(count, np.bool_)
        clock_ms = np.maximum(np.maximum(claims.first_timestamp_ms, claims.last_timestamp_ms), -1)
        spoken_ms = clock_ms
        position_set = pa.array(claims.position_set)
    else:
        clock_ms, spoken_ms = claims.last_timestamp_ms, claims.last_unix_s * 1000
        age_ms = (clock_ms // 1000 - claims.last_unix_s) * 1000
        owned = (age_ms >= 0) & (age_ms < stale_after_ms)
        position_set = pa.nulls(count, pa.bool_())
    gone = pa.array(~owned)
    yield _rows_of(
        CLAIMS,
        count,
        **name,
        owner_instance=_null_where(gone, instances),
        owner_client=_null_where(gone, clients),
        epoch=epoch,
        position=position,
        position_set=position_set,
        last_heartbeat_ms=pa.array(spoken_ms),
        stale=_same(count, False, pa.bool_()),
        clock_ms=pa.array(clock_ms),
        records=records,
        first_offset=first_offset,
        last_offset=last_offset,
    )
    yield _rows_of(
        TENURES,
        count,
        **name,
        owner_instance=instances,
        owner_client=clients,
        epoch=epoch,
        began=_same(count, Accepted.CLAIMED.value, pa.string()),
        from_offset=first_offset,
        from_ms=pa.array(claims.first_timestamp_ms),
        position_from=_same(count, 0, pa.int64()),
        ended=_same(count, "open", pa.string()),
        position_to=position,
        records=records,
        last_offset=last_offset,
        last_ms=pa.array(claims.last_timestamp_ms),
        longest_silence_ms=pa.array(claims.longest_ms),
    )
    nothing = _same(count, 0, pa.int64())
    drawn = claims.beats <= BEATS_MAX
    beats_ms = claims.beats_ms
    if not drawn.all():
        beats_ms = beats_ms[np.repeat(drawn, claims.beats)]
    ends = np.cumsum(np.append(0, np.where(drawn, claims.beats, 0)))
    empty = pa.ListArray.from_arrays(
        pa.array(np.zeros(count + 1, np.int32)), pa.array([], pa.int64())
    )
    yield _rows_of(
        LANES,
        count,
        **name,
        records=records,
        tenures=_same(count, 1, pa.int64()),
        takeovers=nothing,
        marks=nothing,
        unowned_ms=nothing,
        beats_ms=pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.array(beats_ms)),
        pauses_from_ms=empty,
        pauses_until_ms=empty,
        pauses_by=_same(count, "", pa.string()),
    )


def _rows_of(
    table: Table[Any], count: int, **columns: pa.Array
) -> tuple[Table[Any], pa.StructArray]:
    """Rows of a table; what is not given is null."""
    arrays = [
        columns[each.name].cast(each.arrow_type)
        if each.name in columns
        else pa.nulls(count, each.arrow_type)
        for each in table.columns
    ]
    return table, pa.StructArray.from_arrays(arrays, fields=list(table.arrow_type))


def _same(count: int, value: object, arrow_type: pa.DataType) -> pa.Array:
    [cell] = stored([value], arrow_type)
    return pa.repeat(cell, count)


def _null_where(mask: pa.Array, texts: pa.Array) -> pa.Array:
    return texts if not mask.true_count else pc.if_else(mask, None, texts)


def _texts(names: Sequence[str], codes: Ints) -> pa.Array:
    known, of_each = np.unique(codes, return_inverse=True)
    return stored([names[code] for code in known.tolist()], pa.string()).take(
        pa.array(of_each.reshape(-1))
    )

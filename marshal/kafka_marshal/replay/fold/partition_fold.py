"""Folds one coordinating partition of one log into rows of tables.

This is a whole replay except for reading, shuffling and writing. It takes records in offset order
and returns rows, and knows nothing of Spark. With `--rules both`, one pass folds under both rule
sets and compares the results.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import ClassVar, Final, TypeAlias

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from attrs import field, frozen

from kafka_marshal.capture import RawRecord
from kafka_marshal.codec import MalformedRecord
from kafka_marshal.core.claims.verdicts import Accepted, ReadTwice
from kafka_marshal.core.group_intervals import GroupIntervals
from kafka_marshal.core.messages import ClaimingRange, Heartbeat, Record, ReleaseGroup
from kafka_marshal.core.ranges.messages import RangesMessage
from kafka_marshal.core.state import FENCED, ORIGINAL, ClaimKey, Rules, RuleSet
from kafka_marshal.errors import OR_FORCE, contradicted
from kafka_marshal.range_codec import CLAIMING_RANGE
from kafka_marshal.replay.findings.claims.movement import WEDGED_INTERVALS
from kafka_marshal.replay.findings.claims.silence import MISSED_AFTER_INTERVALS
from kafka_marshal.replay.findings.records.headers import MalformedHeaders
from kafka_marshal.replay.findings.records.inputs import Inputs
from kafka_marshal.replay.findings.records.senders import Clocks, Instances
from kafka_marshal.replay.fold.divergences import Divergences
from kafka_marshal.replay.fold.judging import Placed, Read
from kafka_marshal.replay.fold.lanes import GRAIN_INTERVALS
from kafka_marshal.replay.fold.reading import read_chunk
from kafka_marshal.replay.fold.ruleset_fold import RulesetFold
from kafka_marshal.replay.fold.steady_claims import Silent, SteadyBook, SteadyClaims, steady_rows
from kafka_marshal.replay.model.chunk_items import (
    ChunkFacts,
    Flags,
    HeartbeatRun,
    Item,
    JoinedRun,
    RequestRun,
    SingleRecord,
    Standing,
    WentOn,
    rest_of,
)
from kafka_marshal.replay.model.events import JudgedRecord, LogPartition
from kafka_marshal.replay.model.published import FindingRow
from kafka_marshal.replay.model.rows import Row, RowT
from kafka_marshal.replay.model.tables import OF_CLAIMS, Rows, TableSet
from kafka_marshal.replay.sources import Chunk

Expand: TypeAlias = Callable[[HeartbeatRun], Iterable[SingleRecord]]
"""Returns the records of a run."""
ROWS_WAITING_MAX: Final = 50_000
"""The limit of waiting rows: a ReleaseGroup may produce a row for every claim, so not only records
are limited."""


@frozen
class CollapsedHeartbeats:
    """Collapses runs of heartbeats to one row each (`run_length`); see `Collapse`.

    The kernel loads slowly, so the module that uses it is only imported for a long log.
    """

    interval_ms: float
    forced: bool

    @property
    def schema(self) -> pa.Schema:
        """As `Collapse`."""
        from kafka_marshal.replay.fold.collapsed.run_length import COLLAPSED_SCHEMA

        return COLLAPSED_SCHEMA

    def read(self, number: int, chunk: Chunk) -> Iterator[pa.RecordBatch]:
        """As `Collapse`, by the heartbeat intervals that records state."""
        from kafka_marshal.replay.fold.collapsed.run_length import collapsed

        return collapsed(number, chunk, self.interval_ms, forced=self.forced)

    def rows_of(self, number: int, batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """As `Collapse`."""
        from kafka_marshal.replay.fold.collapsed.run_length import rows_of

        return rows_of(number, batches, self.interval_ms, forced=self.forced)

    def taking(
        self, chunks: tuple[Chunk, ...], read: Read = read_chunk, *, by_row: bool = False
    ) -> tuple[
        Callable[[pa.RecordBatch], Placed], Callable[[PartitionFold], Callable[[Item], None]]
    ]:
        """As `Collapse`; the records of a run that cannot be folded in one step are read again."""
        from kafka_marshal.replay.fold.collapsed.request_runs import items_in_runs
        from kafka_marshal.replay.fold.collapsed.run_length import Expander, items_of

        expand = Expander(chunks, read).records
        items: Callable[[pa.RecordBatch], Placed] = items_of
        if not by_row:
            items = partial(items_in_runs, interval_ms=self.interval_ms, forced=self.forced)
        return items, lambda partition_fold: partial(partition_fold.take, expand=expand)


@frozen
class JudgingOptions:
    """The settings for folding a log of claims: a `Judging`."""

    tables: ClassVar[TableSet] = OF_CLAIMS
    keys: ClassVar[bool] = False
    gauges: ClassVar[Mapping[str, str]] = {"owned_claims": "Claims with an owner."}
    outlives_gaps: ClassVar[bool] = True
    rule_sets: tuple[RuleSet, ...]
    heartbeat_interval_ms: float
    """The interval of groups whose log states none."""
    pause_max_ms: int = FENCED.pause_max_ms
    coordination_partitions: int | None = field(default=None)
    """The partition count of the coordination topic; None: placement of topics is not checked."""
    log_begins: int | None = field(default=None)
    """The offset where the log begins, if later records were left out on purpose; None: the offset
    of the first record. If it is 0, everything is known; see `suffix`."""
    forced: bool = field(default=False)
    """Whether the heartbeat interval applies to all groups, whatever the log states."""
    given: bool = field(default=False)
    """Whether the user gave the heartbeat interval: then a log with another one is refused."""

    @property
    def options(self) -> Mapping[str, object]:
        """As `Judging`."""
        return {
            "protocol": "claims",
            "rules": [rule_set.value for rule_set in self.rule_sets],
            "heartbeat_interval_ms": self.heartbeat_interval_ms,
            "force_interval": self.forced,
            "pause_max_ms": self.pause_max_ms,
            "coordination_partitions": self.coordination_partitions,
        }

    @property
    def log_clock(self) -> Rules:
        """As `LiveJudging`."""
        return self.rules()[0]

    def without_head(self, partition: int) -> str:
        """As `LiveJudging`."""
        return (
            "nobody knows who won a claim before that; it is reported from where it is certain, "
            "and nothing is reported of ranges of shared claims"
        )

    def of_topic(self, partitions: int) -> JudgingOptions:
        """As `LiveJudging`."""
        if self.coordination_partitions is not None:
            return self
        return attrs.evolve(self, coordination_partitions=partitions)

    @property
    def collapse(self) -> CollapsedHeartbeats:
        """As `Judging`."""
        return CollapsedHeartbeats(self.heartbeat_interval_ms, self.forced)

    def begin(self, place: LogPartition) -> PartitionFold:
        """As `Judging`."""
        return PartitionFold(place, self)

    def rules(self) -> tuple[Rules, ...]:
        """The rule sets with their durations, the fenced one first."""
        chosen = {RuleSet.FENCED: FENCED, RuleSet.ORIGINAL: ORIGINAL}
        return tuple(
            attrs.evolve(
                rules,
                heartbeat_interval_ms=self.heartbeat_interval_ms,
                pause_max_ms=self.pause_max_ms,
            )
            for rule_set, rules in chosen.items()
            if rule_set in self.rule_sets
        )


class PartitionFold:
    """The account of one coordinating partition.

    Feed records in offset order, drain rows at any time, close at the end, and drain again.
    """

    def __init__(self, place: LogPartition, judging: JudgingOptions) -> None:
        self._place = place
        self._rows = Rows()
        self._intervals = GroupIntervals(judging.heartbeat_interval_ms, forced=judging.forced)
        self._books = tuple(
            RulesetFold(rules, self._emit, self._intervals) for rules in judging.rules()
        )
        self._divergences = Divergences() if len(self._books) > 1 else None
        self._inputs = Inputs(judging.coordination_partitions)
        self._instances = Instances()
        self._headers = MalformedHeaders()
        self._clocks = Clocks()
        self._interval_given = judging.given and not judging.forced
        self._clock_ms: int | None = None
        self._chunk_ms: int | None = None
        self._waiting: list[tuple[int, Callable[[], None]]] = []
        """The items after the current record: the offset of each, and the function that folds
        it."""
        self._steady = SteadyBook(place)
        self._fed = False
        self._log_begins = judging.log_begins

    def feed(self, raw: RawRecord) -> None:
        """Fold the next record.

        Raises:
            OutOfOrder: its offset is lower than one already fed.
            InvalidOption: the log contradicts the heartbeat interval that the user gave.
        """
        self._begin(raw.offset)
        self._inputs.observe(raw)
        if self._clock_ms is None or raw.timestamp_ms > self._clock_ms:
            self._clock_ms = raw.timestamp_ms
        judged = self._judge(raw, self._clock_ms)
        if judged is not None:
            self._clocks.observe(judged)

    def take(self, item: Item | SteadyClaims, expand: Expand) -> None:
        """Fold the next item of a collapsed log, by offset.

        A run comes in place of its first record.

        Raises:
            SourcesOverlap: chunks do not follow each other.
            InvalidOption: as `feed`.
        """
        if isinstance(item, SingleRecord):
            if self._waiting:
                self._take_waiting(item.raw.offset)
            self._take_single(item)
            return
        if isinstance(item, ChunkFacts):
            self._take_waiting(item.first_offset)
            self._inputs.facts(item)
            self._begin(item.first_offset)
            self._clocks.facts(item)
            self._clock_ms = self._chunk_ms
            self._chunk_ms = self._now_ms(item.to_ms)
            return
        if isinstance(item, SteadyClaims):
            self._take_steady(item, expand)
            return
        self._take_waiting(item.first_offset)
        if isinstance(item, RequestRun):
            self._take_requests(item)
        elif isinstance(item, HeartbeatRun):
            self._take_run(item, expand)
        else:
            self._take_joined(item, expand)

    def _take_steady(self, claims: SteadyClaims, expand: Expand) -> None:
        """Keep claims in columns that are new here; fold the others' records where they lie."""
        fit = self._fit(claims)
        for number in claims.numbers[~fit].tolist():
            for part in claims.parts(number):
                if isinstance(part, SingleRecord | HeartbeatRun):
                    self._wait_for(part, expand)
                else:
                    self._wait(part.first_offset, partial(self._take_joined, part, expand))
        if not fit.any():
            return
        claims = claims.chosen(fit)
        for group, which in claims.in_group:
            for _, client, of_sender in claims.by_sender(which):
                # When a client's first instance began, nobody asks.
                if self._instances.newest(group, client) is None:
                    self._instances.observe(claims.won_by(int(of_sender[0])))
            if claims.said[which[0]] >= 0:
                self._state_interval(group, claims, which)
        silences = Silent.of(claims)
        for ruleset_fold in self._books:
            ruleset_fold.count_steady(claims, silences)
        self._steady.add(claims.counted())

    def _state_interval(
        self, group: str, claims: SteadyClaims, which: npt.NDArray[np.intp]
    ) -> None:
        """Their owners state their group's interval, as `GroupIntervals.judged` learns it."""
        if not self._intervals.lived_under(group):
            first = int(which[claims.begins_group[which]][0])
            self._intervals.judged(claims.won_by(first).raw.decoded(), accepted=True)
        owners = {
            claims.keys[number]: instance
            for instance, _, of_sender in claims.by_sender(which)
            for number in of_sender.tolist()
        }
        self._intervals.owned(group, owners)
        self._intervals.heard(group, int(claims.last_timestamp_ms[which].max()))

    def _fit(self, claims: SteadyClaims) -> Flags:
        """Which of them nobody has heard of, so that what happened to them is what it seems."""
        fit = np.zeros(len(claims), np.bool_)
        first, *_ = self._books
        if not self._fed or not all(each.takes_steady for each in self._books):
            return fit
        fit[:] = True
        if self._clock_ms is not None:
            fit &= claims.first_clock_ms >= self._clock_ms
        if self._chunk_ms is not None:
            fit &= claims.late_clock_ms >= self._chunk_ms
        topics = {key.topic for key in claims.keys}
        partition = self._place.coordinating_partition
        wrong = {topic for topic in topics if not self._inputs.is_placed(topic, partition)}
        for number, key in enumerate(claims.keys):
            if key in self._steady or first.knows(key) or key.topic in wrong:
                fit[number] = False
        for group, which in claims.in_group:
            if not all(each.world.is_untouched(group) for each in self._books):
                fit[which] = False
                continue
            for instance, client, of_sender in claims.by_sender(which):
                if self._instances.newest(group, client) not in (None, instance):
                    fit[of_sender] = False
            if not self._interval_fits(group, claims, which[fit[which]]):
                fit[which] = False
        return fit

    def _interval_fits(self, group: str, claims: SteadyClaims, which: npt.NDArray[np.intp]) -> bool:
        """Whether claims of one group are judged by the interval that they were put together by."""
        if not len(which):
            return True
        intervals, said = self._intervals, int(claims.said[which[0]])
        lived = intervals.lived_under(group)
        if said < 0:
            return not lived
        if (intervals.forced or self._interval_given) and said != intervals.default_ms:
            return False
        if not lived:
            return bool(claims.begins_group[which].any())
        return lived[-1].interval_ms == said

    def _take_up(self, key: ClaimKey) -> None:
        """A record is about this claim: from now on its state is kept in objects."""
        found = self._steady.pop(key)
        if found is not None:
            for ruleset_fold in self._books:
                ruleset_fold.take_up(key, *found)

    def _take_up_of(self, message: RangesMessage) -> None:
        """The same for all claims that a message affects."""
        if not isinstance(message, ReleaseGroup):
            self._take_up(message.key)
            return
        for key in self._steady.keys_of(message.group_id):
            self._take_up(key)

    def _take_run(self, run: HeartbeatRun, expand: Expand) -> None:
        if not self._goes_on(run):
            self._expanded(run, list(expand(run)))

    def _take_joined(self, joined: JoinedRun, expand: Expand) -> None:
        """Fold a run of several rows in one step, or else its first row by itself.

        If two in a row cannot be folded in one step, the sender is probably not the owner; then no
        third one is tried.
        """
        is_late = self._chunk_ms is not None and joined.late_clock_ms < self._chunk_ms
        if not is_late and self._goes_on(joined.run()):
            return
        if is_late or joined.hopeless:
            for part in joined.parts():
                self._wait_for(part, expand)
            return
        first, rest = joined.split()
        self._wait_for(first, expand)
        if rest is not None:
            self._wait(rest.first_offset, partial(self._take_joined, rest, expand))

    def _wait_for(self, part: HeartbeatRun | SingleRecord, expand: Expand) -> None:
        if isinstance(part, SingleRecord):
            self._wait(part.raw.offset, partial(self._take_single, part))
        else:
            self._wait(part.first_offset, partial(self._take_run, part, expand))

    def _wait(self, offset: int, take: Callable[[], None]) -> None:
        heapq.heappush(self._waiting, (offset, take))

    def _expanded(self, run: HeartbeatRun, singles: list[SingleRecord]) -> None:
        """Fold a run's first record by itself, then the rest in one step if that is possible.

        It is possible if the first record ended a silence, including one caused by a clock far
        ahead, or made the owner certain. It is not if the sender does not own the claim.
        """
        self._take_single(singles[0])
        if len(run) > 1:
            positions = (_position(single.raw) for single in singles[2:])
            if self._goes_on(rest_of(run, positions)):
                return
        for single in singles[1:]:
            self._wait(single.raw.offset, partial(self._take_single, single))

    def _take_single(self, single: SingleRecord) -> None:
        self._judge(single.raw, self._now_ms(single.clock_ms))

    def _begin(self, first: int) -> None:
        """Note the offset of the first record, which shows whether the log's head is there."""
        if self._fed:
            return
        self._fed = True
        begins = first if self._log_begins is None else self._log_begins
        if begins > 0:
            for ruleset_fold in self._books:
                ruleset_fold.begin_at(begins)

    def _take_waiting(self, before: int | None) -> None:
        """Fold the waiting records of expanded runs before an offset; None: all of them."""
        while self._waiting and (before is None or self._waiting[0][0] < before):
            _, take = heapq.heappop(self._waiting)
            take()

    def _take_requests(self, run: RequestRun) -> None:
        """Fold requests in one step up to one that is not ordinary, which waits with the rest."""
        self._take_up(run.key)
        if self._clock_ms is not None:
            run = run.not_before(self._clock_ms)
        takes_runs = self._books[0].takes_runs_of(run.key)
        interval_ms = self._interval_of(run) if takes_runs else None
        taken = 0
        if interval_ms is not None:
            counts = [ruleset_fold.requests(run, interval_ms) for ruleset_fold in self._books]
            taken = min(counts)
        self._inputs.more_about(run.key.topic, taken)
        hopeless = not taken and (run.hopeless or interval_ms is None)
        singles = range(taken, len(run) if hopeless else min(taken + 1, len(run)))
        for number in singles:
            single = run.single(number)
            self._wait(single.raw.offset, partial(self._take_single, single))
        if singles.stop < len(run):
            rest = attrs.evolve(run.rest(singles.stop), hopeless=not taken)
            self._wait(rest.first_offset, partial(self._take_requests, rest))

    def _interval_of(self, run: RequestRun) -> float | None:
        """The heartbeat interval for all requests of a run; None if it may change in between."""
        intervals, group, said = self._intervals, run.key.group, run.said
        if intervals.forced:
            return intervals.default_ms
        if not intervals.lived_under(group):
            if run.group_said >= 0:
                return None
            return intervals.default_ms if said < 0 else said
        interval_ms = intervals.of(group)
        known = all(each < 0 or each == interval_ms for each in (said, run.group_said))
        return interval_ms if known else None

    def _now_ms(self, clock_ms: int) -> int:
        return clock_ms if self._clock_ms is None else max(self._clock_ms, clock_ms)

    def _goes_on(self, run: HeartbeatRun) -> bool:
        """Fold a run in one step if it is ordinary for every observer; return whether it was."""
        record = run.last.decoded()
        message = record.message
        assert isinstance(message, Heartbeat)
        if self._clock_ms is not None and self._clock_ms > run.clocks_ms[0]:
            run = attrs.evolve(run, clocks_ms=np.maximum(run.clocks_ms, self._clock_ms))
        key = message.key
        self._take_up(key)
        interval_ms = self._intervals.judging(record)
        if not self._collapsed_by(interval_ms, record) or not self._instances.goes_on(message):
            return False
        if self._divergences is not None:
            fenced, original = (ruleset_fold.world.claim(key) for ruleset_fold in self._books)
            if not self._divergences.go_on(key, fenced, original):
                return False
        after = [
            ruleset_fold.after_run(key, record, run, interval_ms) for ruleset_fold in self._books
        ]
        if None in after:
            return False
        from kafka_marshal.kernel.gaps import gaps_of  # only here: numba takes its time to load

        gaps = gaps_of(run.clocks_ms, interval_ms)
        for ruleset_fold, claim in zip(self._books, after, strict=True):
            assert claim is not None
            ruleset_fold.run_goes_on(key, claim, record, run, gaps, interval_ms)
        self._intervals.judged(record, accepted=True)
        self._inputs.about(message.topic, run.last, len(run))
        return True

    # --- ordinary heartbeats that were added up elsewhere (`live.watched_claims`) ---

    @property
    def clock_ms(self) -> int:
        """The latest timestamp so far; there must have been a record."""
        assert self._clock_ms is not None
        return self._clock_ms

    def intervals_of(self, group: str) -> int:
        """The number of heartbeat intervals a group has stated; if it grows, results may change."""
        return len(self._intervals.lived_under(group))

    def newest_instance(self, group: str, client: str) -> str | None:
        """The instance of a client that began last; None before the first."""
        return self._instances.newest(group, client)

    def standing(self, key: ClaimKey, raw: RawRecord, said_ms: int | None) -> Standing | None:
        """The claim's state after a heartbeat, if the sender's next ones may be ordinary.

        `said_ms` is the interval that it states. None also if the heartbeat was refused.
        """
        last = self._books[0].last_word(key)
        if last is None or last.raw is not raw:
            return None
        message = last.message
        assert isinstance(message, Heartbeat)
        intervals = self._intervals
        if said_ms is not None:
            lived = intervals.lived_under(key.group)
            if not lived or lived[-1].interval_ms != said_ms:
                return None
        if not self._instances.goes_on(message):
            return None
        claims = [ruleset_fold.world.claim(key) for ruleset_fold in self._books]
        if any(claim.position != message.offset for claim in claims):
            return None
        if self._divergences is not None and not self._divergences.go_on(key, *claims):
            return None
        words = [ruleset_fold.last_word(key) for ruleset_fold in self._books]
        if any(word is None or word.raw is not raw for word in words):
            return None
        books = [ruleset_fold.standing(key) for ruleset_fold in self._books]
        if None in books:
            return None
        interval_ms = intervals.of(key.group)
        return Standing(
            interval_ms,
            said_ms != interval_ms,
            MISSED_AFTER_INTERVALS * interval_ms,
            interval_ms * GRAIN_INTERVALS,
            last.clock_ms,
            tuple(filter(None, books)),
        )

    def went_on(self, key: ClaimKey, pending: WentOn) -> None:
        """Apply the sum of ordinary heartbeats about one claim."""
        self._inputs.more_about(key.topic, pending.count)
        for ruleset_fold in self._books:
            ruleset_fold.went_on(key, pending)

    def records_went_on(
        self, last: RawRecord, count: int, stamps_ms: tuple[int, int], clock_ms: int
    ) -> None:
        """Count ordinary heartbeats since the last record; `stamps_ms`: first and last stamp."""
        self._inputs.went_on(last, count, *stamps_ms)
        self._clock_ms = clock_ms

    def silences_went_on(self, seen: int, long: int) -> None:
        """As `RulesetFold.count_silences`."""
        for ruleset_fold in self._books:
            ruleset_fold.count_silences(seen, long)

    def silences_measured(self, lengths: Mapping[int, int]) -> None:
        """As `RulesetFold.measure_silences`."""
        for ruleset_fold in self._books:
            ruleset_fold.measure_silences(lengths)

    def heard(self, group: str, timestamp_ms: int) -> None:
        """An owner that stated the group's interval sent a record at this time."""
        self._intervals.heard(group, timestamp_ms)

    def clock_went_on(
        self, sender: tuple[str, str, str], least_ms: int, most_ms: int, buckets: Mapping[int, int]
    ) -> None:
        """As `Clocks.went_on`."""
        self._clocks.went_on(sender, least_ms, most_ms, buckets)

    def draw(self, book: int, key: ClaimKey, clock_ms: int) -> bool:
        """As `RulesetFold.draw`."""
        return self._books[book].draw(key, clock_ms)

    def _collapsed_by(self, interval_ms: float, record: Record) -> bool:
        """Whether a run has no silence in it that is too long by this interval.

        It was collapsed by the interval in its heartbeats, or by that of groups that state none.
        The first run of a group, and one with a new interval, are folded record by record.
        """
        stated = record.headers.interval_ms
        if self._intervals.forced or stated is None:
            return interval_ms >= self._intervals.default_ms
        return stated == self._intervals.of(record.message.group_id)

    def _judge(self, raw: RawRecord, clock_ms: int) -> JudgedRecord | None:
        """Fold one record; return its first verdict, or None if it repeats an earlier record."""
        if raw.value is not None and raw.value.startswith(CLAIMING_RANGE):
            self._claiming_range(raw, clock_ms)
            return None
        try:
            record = raw.decoded()
        except MalformedRecord as error:
            self._emit(self._inputs.malformed(raw, error))
            return None
        if self._steady:
            self._take_up_of(record.message)
        interval_ms = self._intervals.judging(record)
        judged = [
            ruleset_fold.observe(raw, record, clock_ms, interval_ms) for ruleset_fold in self._books
        ]
        if isinstance(judged[0].verdict, ReadTwice):
            return None
        self._intervals.judged(record, accepted=isinstance(judged[0].verdict, Accepted))
        if self._interval_given and record.headers.interval_ms is not None:
            other = self._intervals.other(record.message.group_id)
            if other is not None:
                raise contradicted(other, OR_FORCE)
        self._instances.observe(judged[0])
        if raw.headers:
            self._headers.observe(judged[0])
        if not isinstance(record.message, ReleaseGroup):
            self._inputs.about(record.message.topic, raw)
        if self._divergences is not None:
            self._compare(self._divergences, record, (judged[0], judged[1]))
        return judged[0]

    def _claiming_range(self, raw: RawRecord, clock_ms: int) -> None:
        """Fold a ClaimingRange: no claim changes, so most observers do not receive it."""
        try:
            record = raw.decoded_with_ranges()
        except MalformedRecord:
            try:
                raw.decoded()
            except MalformedRecord as error:  # as to who knows no ranges
                self._emit(self._inputs.malformed(raw, error))
            return
        message = record.message
        assert isinstance(message, ClaimingRange)
        self._take_up(message.key)
        interval_ms = self._intervals.judging(record)
        for ruleset_fold in self._books:
            ruleset_fold.claiming_range(raw, record, message, clock_ms, interval_ms)
        self._inputs.about(message.topic, raw)

    def _compare(
        self, divergences: Divergences, record: Record, judged: tuple[JudgedRecord, JudgedRecord]
    ) -> None:
        fenced, original = (ruleset_fold.world for ruleset_fold in self._books)
        message = record.message
        if isinstance(message, ReleaseGroup):
            keys = tuple(fenced.group(message.group_id))
        else:
            keys = (message.key,)
        suffix = self._books[0].suffix
        for key in keys:
            if suffix is not None and key not in suffix.known_from:
                continue
            row = divergences.observe(key, fenced.claim(key), original.claim(key), judged)
            if row is not None:
                self._emit(row)

    def forked(self, raw: RawRecord) -> None:
        """Note that the input has a different record where this account folded one earlier."""
        self._inputs.forked(raw)

    def settle(self) -> None:
        """The input ends, but not the log: the next records may come in either form."""
        self._take_waiting(None)
        self._note_who_spoke()
        for key in self._steady.all_keys():
            self._take_up(key)
        self._steady = SteadyBook(self._place)
        for ruleset_fold in self._books:
            ruleset_fold.settle()
        known = [ms for ms in (self._clock_ms, self._chunk_ms) if ms is not None]
        if known:
            self._clock_ms = self._chunk_ms = max(known)

    def close(self) -> None:
        """The log ends."""
        self._take_waiting(None)
        if not self._fed:
            return
        steady = self._steady_at_the_end()
        for ruleset_fold in self._books:
            ruleset_fold.at_the_end(self._intervals, steady)
            for claims in steady:
                for table, rows in steady_rows(
                    self._place, claims, ruleset_fold.rules, _of_groups(self._stale_ms, claims)
                ):
                    self._rows.add_columns(table, rows)
        if self._divergences is not None:
            for row in self._divergences.at_the_end():
                self._emit(row)
        observers = (self._instances, self._headers, self._inputs)
        for finding in itertools.chain.from_iterable(each.at_the_end() for each in observers):
            self._emit(finding)
        for sender in self._clocks.at_the_end():
            self._emit(sender)
        suffix = self._books[0].suffix
        counted = self._inputs.partition_row()
        self._emit(counted if suffix is None else suffix.counted_in(counted))
        self._books = ()  # they point back here: without them nobody needs to look for a cycle

    def _steady_at_the_end(self) -> list[SteadyClaims]:
        """The claims that are kept in columns until the log is over.

        Objects are kept of those whose owners are silent then: there is something to report. So it
        may be of those whose position stands still for long.
        """
        if self._instances.at_once:
            self._note_who_spoke()
        end_ms = self._books[0].end_ms if self._steady else 0
        for claims in list(self._steady.kept()):
            silent = claims.last_clock_ms + _of_groups(self._stale_ms, claims).astype(np.int64)
            still_ms = claims.last_clock_ms - claims.moved[:, 1]
            wedged_ms = _of_groups(self._wedged_ms, claims)
            wedged = (claims.records > 1) & (claims.position > 0) & (still_ms >= wedged_ms)
            for number in np.flatnonzero((end_ms > silent) | wedged).tolist():
                self._take_up(claims.keys[number])
        return list(self._steady.kept())

    def _note_who_spoke(self) -> None:
        """For which claims each instance spoke, of those that were ever kept in columns."""
        for claims in self._steady.ever():
            for group, which in claims.in_group:
                for instance, client, of_sender in claims.by_sender(which):
                    keys = (claims.keys[number] for number in of_sender.tolist())
                    self._instances.spoke(group, client, instance, keys)

    def _stale_ms(self, group: str) -> float:
        return self._books[0].stale_after_ms(self._intervals.of(group))

    def _wedged_ms(self, group: str) -> float:
        return WEDGED_INTERVALS * self._intervals.of(group)

    @property
    def is_full(self) -> bool:
        """Whether to drain rows before the next record, because many wait."""
        return len(self._rows) > ROWS_WAITING_MAX

    def drain(self) -> Rows:
        """The rows since the last call."""
        rows, self._rows = self._rows, Rows()
        return rows

    @property
    def waiting(self) -> int:
        """As `LiveAccount`."""
        return len(self._rows)

    def gauges(self) -> tuple[int]:
        """As `LiveAccount`: the number of claims with an owner, under the first rule set."""
        return (self._books[0].owned,)

    def begun(self) -> Iterator[FindingRow]:
        """Yield the findings that began since the last call, in their current state."""
        for ruleset_fold in self._books:
            for row in ruleset_fold.begun():
                yield self._placed(row, ruleset_fold.rules.rule_set.value)
        for row in itertools.chain(self._instances.begun(), self._inputs.begun()):
            yield self._placed(row)

    def _emit(self, row: Row, rules: str | None = None) -> None:
        self._rows.add(self._placed(row, rules))

    def _placed(self, row: RowT, rules: str | None = None) -> RowT:
        """The row, with its place and, if it depends on one, its rule set.

        The row is new, and its observer does not use it again. So it is changed in place: a copy
        takes ten times as long, and a hostile log has several rows for each record.
        """
        fill = object.__setattr__
        fill(row, "log", self._place.log)
        fill(row, "coordinating_partition", self._place.coordinating_partition)
        if rules is not None:
            fill(row, "rules", rules)
        return row


def _of_groups(of_group: Callable[[str], float], claims: SteadyClaims) -> npt.NDArray[np.float64]:
    """A number of each claim's group."""
    found = np.zeros(len(claims))
    for group, which in claims.in_group:
        found[which] = of_group(group)
    return found


def _position(raw: RawRecord) -> int:
    """The position in a heartbeat of a run."""
    message = raw.decoded().message
    assert isinstance(message, Heartbeat)
    return message.offset

"""The fold of one coordinating partition under one rule set, and its observers.

It folds the log into a `World` and passes each event to the observers: tenures, findings, lanes,
counts. It returns rows of tables. It does not know where records come from, nor where rows go.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import attrs
import numpy as np
from attrs import define, field

from kafka_marshal.capture import RawRecord
from kafka_marshal.core import wire
from kafka_marshal.core.claims.reducer import step
from kafka_marshal.core.claims.verdicts import WINS, Accepted, ReadTwice, Refused
from kafka_marshal.core.claims.world import Outcome, Transition, World
from kafka_marshal.core.group_intervals import GroupIntervals, RulesByInterval
from kafka_marshal.core.messages import ClaimingRange, Heartbeat, Record, ReleaseGroup
from kafka_marshal.core.ranges.messages import RangesMessage, RangesRecord
from kafka_marshal.core.ranges.verdicts import RangeRefused
from kafka_marshal.core.state import Claim, ClaimKey, Rules, RuleSet
from kafka_marshal.kernel.silences import Gaps
from kafka_marshal.range_codec import RANGE_HEADER_FIELDS, decode_range
from kafka_marshal.replay.findings.claims.failovers import Failovers
from kafka_marshal.replay.findings.claims.grants import GrantedTwice
from kafka_marshal.replay.findings.claims.movement import LagMovement, WedgedClaims
from kafka_marshal.replay.findings.claims.ownership import (
    ActsWithoutOwning,
    OddRecords,
    Thefts,
    UnownedReleases,
    steals,
)
from kafka_marshal.replay.findings.claims.positions import Pauses, Positions
from kafka_marshal.replay.findings.claims.ranges import SharedRanges
from kafka_marshal.replay.findings.claims.silence import (
    Silences,
    missed_after_ms,
    says_its_interval,
)
from kafka_marshal.replay.findings.groups.half_set import HalfSet
from kafka_marshal.replay.findings.groups.intervals import IntervalMismatches, RefusedClaims
from kafka_marshal.replay.findings.groups.overrun import PauseRanOut
from kafka_marshal.replay.findings.groups.sharing import Churn, Imbalance, LostRaces, Starvation
from kafka_marshal.replay.findings.observer import FindingObserver, LogEnd
from kafka_marshal.replay.fold.claims import ClaimCount, claim_row, uncertain_row
from kafka_marshal.replay.fold.lanes import Lanes
from kafka_marshal.replay.fold.refusals import refusal_row
from kafka_marshal.replay.fold.steady_claims import Silent, SteadyClaims, SteadyWins
from kafka_marshal.replay.fold.suffix import Suffix, UncertainRecord
from kafka_marshal.replay.model.chunk_items import BookStanding, HeartbeatRun, RequestRun, WentOn
from kafka_marshal.replay.model.events import Event, JudgedRecord, Judgement, Tenure, Unknowable
from kafka_marshal.replay.model.internal import GroupCountsRow
from kafka_marshal.replay.model.position_progress import REST_INTERVALS, PositionProgress
from kafka_marshal.replay.model.published import FinalClaimRow, FindingRow
from kafka_marshal.replay.model.rows import Row
from kafka_marshal.replay.model.tenures import Tenures

Emit: TypeAlias = Callable[[Row, str], None]
"""Takes a row and its rule set."""
_OF_RANGES: Final = frozenset({*RANGE_HEADER_FIELDS, wire.CHECKPOINT_HEADER})
"""Headers that only records of shared claims have."""


@define
class _GroupCount:
    first_offset: int
    clients: set[str] = field(factory=set)
    instances: set[str] = field(factory=set)
    records: int = 0
    tenures: int = 0
    takeovers: int = 0
    refusals: int = 0
    thefts: int = 0


class RulesetFold:
    """One rule set's view of one coordinating partition."""

    shortcut = True
    """Whether ordinary heartbeats use `_goes_on`; a test compares it with the long way."""

    def __init__(self, rules: Rules, emit: Emit, intervals: GroupIntervals) -> None:
        self.rules = rules
        """With the heartbeat interval of groups that state none."""
        self._compares = not intervals.forced
        """Whether checkpoints were made with the same heartbeat intervals."""
        self._rules = RulesByInterval(rules)
        self.world = World(rules)
        self._emit = emit
        self._tenures = Tenures()
        self._positions, self._pauses = Positions(), Pauses()
        self._silences = Silences(intervals)
        self._lanes = Lanes(self._positions, self._pauses)
        self._acts, self._half_set = ActsWithoutOwning(), HalfSet()
        self._shared = SharedRanges(self.world)
        refused = RefusedClaims()
        self._mismatches = IntervalMismatches(refused)
        owning: tuple[FindingObserver, ...] = (
            (Thefts(), UnownedReleases())
            if rules.rule_set is RuleSet.ORIGINAL
            else (
                self._acts,
                UnownedReleases(),
                OddRecords(refused),
                self._mismatches,
                self._shared,
            )
        )
        self._races, self._starvation, self._imbalance = LostRaces(), Starvation(), Imbalance()
        self._churn = Churn()
        self._observers: tuple[FindingObserver, ...] = (
            *owning,
            self._positions,
            self._pauses,
            self._half_set,
            self._silences,
            GrantedTwice(),
            PauseRanOut(),
            WedgedClaims(),
            LagMovement(),
            Failovers(),
            self._races,
            self._starvation,
            self._imbalance,
            self._churn,
        )
        self._without_change = tuple(o for o in self._observers if not o.only_changes)
        self._of_releases = tuple(o for o in self._without_change if not o.passes_over_releases)
        self._claims: dict[ClaimKey, ClaimCount] = {}
        self._groups: dict[str, _GroupCount] = {}
        self._last: JudgedRecord | None = None
        self._wins: dict[str, deque[SteadyWins]] = {}
        """By group, the wins that the observers of its shares have not seen yet."""
        self._suffix: Suffix | None = None
        self._observed = False
        """Whether an observer received an event since the last call of `begun`."""

    def begin_at(self, first: int) -> None:
        """The log's head is missing. Under the original's rules nothing becomes certain then."""
        if self.rules.rule_set is RuleSet.FENCED:
            self._suffix = Suffix(first)
            self._acts.known_from = self._suffix.known_from

    @property
    def suffix(self) -> Suffix | None:
        """The uncertain claims, if the log's head is missing and the rules allow certainty."""
        return self._suffix

    @property
    def owned(self) -> int:
        """The number of claims with an owner."""
        return len(self._tenures.open)

    def begun(self) -> Iterator[FindingRow]:
        """Yield the findings that began since the last call, in their current state."""
        if self._observed:  # by an ordinary heartbeat nothing begins
            self._observed = False
            for observer in self._observers:
                yield from observer.begun(self.rules)

    def observe(
        self, raw: RawRecord, record: Record, clock_ms: int, interval_ms: float
    ) -> JudgedRecord:
        """Fold one record, by its group's heartbeat interval, and show it to all observers."""
        rules = self._rules[interval_ms]
        suffix = self._suffix
        if suffix is not None and not _OF_RANGES.isdisjoint(name for name, _ in raw.headers):
            message = record.message
            if not isinstance(message, ReleaseGroup):
                suffix.shared.add(message.key)
        if suffix is not None and self.world.read_before(record) is None:
            uncertain = self._read(suffix, raw, record, clock_ms, rules)
            if uncertain is not None:
                return uncertain
        outcome = self.world.apply(record, rules)
        verdict = outcome.verdict
        sighting = JudgedRecord(raw, record.message, verdict, clock_ms)
        if isinstance(verdict, ReadTwice):
            self._refusal(sighting, record, verdict, self._claim_now(record))
            return sighting
        if self._last is None or record.offset > self._last.offset:
            self._last = sighting
        group = self._count(record)
        if isinstance(record.message, ReleaseGroup) and verdict is Accepted.GROUP_RELEASED:
            self._half_set.paused(record.message)
        if isinstance(verdict, Refused):
            before = outcome.transitions[0].before if outcome.transitions else None
            if isinstance(record.message, ReleaseGroup):
                before = None
            self._refusal(sighting, record, verdict, before)
            group.refusals += 1
        elif verdict is Accepted.REFRESHED and self._goes_on(
            outcome.transitions[0], record, sighting, rules
        ):
            self._after(outcome, record, sighting)
            return sighting
        for transition in outcome.transitions:
            key = transition.key
            self._see(
                Event(
                    rules,
                    record,
                    sighting,
                    verdict,
                    key,
                    transition.before,
                    transition.after,
                    self._tenures.open.get(key),
                ),
                group,
            )
        self._after(outcome, record, sighting)
        self._report_drained()
        return sighting

    def _after(self, outcome: Outcome, record: Record, sighting: JudgedRecord) -> None:
        """Record the states that checkpoints of shared claims are compared with."""
        if self._suffix is not None or self.rules.rule_set is RuleSet.ORIGINAL:
            return
        message = record.message
        if isinstance(message, Heartbeat) and self._compares:
            self._observed |= self._shared.compare(sighting, record, message)
        for transition in outcome.transitions:
            self._shared.keep(record.offset, transition.key)

    def claiming_range(
        self,
        raw: RawRecord,
        record: RangesRecord,
        message: ClaimingRange,
        clock_ms: int,
        interval_ms: float,
    ) -> None:
        """Fold a ClaimingRange. The original ignores it, like any value that it does not know.

        In a log without its head, its effect cannot be known.
        """
        if self.rules.rule_set is RuleSet.ORIGINAL:
            return
        key = message.key
        known = self._claims.get(key)
        if self._suffix is None:
            rules = self._rules[interval_ms]
            judged = self._shared.claiming_range(raw, record, message, key, clock_ms, rules)
            self._observed = True
            for held in self._shared.held():
                self._row(held)
        else:
            judged = JudgedRecord(raw, message, Unknowable.UNKNOWABLE, clock_ms)
            self._suffix.shared.add(key)
            twice = self.world.read_before(record)
            if twice is None:
                self.world.pass_over(record)
                self._suffix.unknowable += 1
            else:
                judged.verdict = twice
        verdict = judged.verdict
        is_refused = isinstance(verdict, RangeRefused)
        if is_refused or isinstance(verdict, ReadTwice):
            # A request does not change the claim: its state is that before the record.
            before = None if known is None else self._claim_now(record)
            self._refusal(judged, record, verdict, before)
            if not is_refused:
                return
        group = self._count_group(message, record.offset)
        group.refusals += is_refused
        if known is not None:
            known.records += 1
            known.last_offset = record.offset
        if self._last is None or record.offset > self._last.raw.offset:
            self._last = judged

    def takes_runs_of(self, key: ClaimKey) -> bool:
        """Whether requests about this claim may come in runs: it has had a record before."""
        return self.shortcut and key in self._claims

    def requests(self, run: RequestRun, interval_ms: float) -> int:
        """Fold the first requests of a run in one step, while they are ordinary; return how many.

        The result is the same as of `claiming_range` for each of them.
        """
        if self.rules.rule_set is RuleSet.ORIGINAL:
            return len(run)
        known = self._claims[run.key]
        if self._suffix is None:
            taken, last = self._shared.requests(run, self._rules[interval_ms])
            if last is None:
                return 0
            self._observed = True
            for held in self._shared.held():
                self._row(held)
        else:
            taken = len(run)
            single = run.single(taken - 1)
            message = decode_range(single.raw.value)
            last = JudgedRecord(single.raw, message, Unknowable.UNKNOWABLE, single.clock_ms)
            self._suffix.unknowable += taken
            self._suffix.shared.add(run.key)
        group = self._count_group(last.message, run.first_offset)
        group.records += taken - 1
        for instance, client in run.senders(taken):
            group.instances.add(instance)
            group.clients.add(client)
        known.records += taken
        known.last_offset = last.offset
        if self._last is None or last.offset > self._last.offset:
            self._last = last
        return taken

    def _report_drained(self) -> None:
        for observer in self._observers:
            for row in observer.drain():
                self._row(row)

    def _read(
        self, suffix: Suffix, raw: RawRecord, record: Record, clock_ms: int, rules: Rules
    ) -> JudgedRecord | None:
        """Fold a record into uncertain claims; None if `world` has to fold it."""
        message = record.message
        sighting = JudgedRecord(raw, message, Unknowable.UNKNOWABLE, clock_ms)
        if isinstance(message, ReleaseGroup):
            for each in suffix.release_group(record, message.group_id, rules):
                self._work(each, record, sighting, rules)
            return None
        reading = suffix.read(record, self.world, rules)
        if reading is None:
            return None
        self.world.pass_over(record)
        group = self._count(record)
        key, claim = reading.key, reading.after.claim
        self._lanes.begin(key)
        if reading.lost:
            self._lose(reading, record, sighting, group, rules)
        elif reading.seeded:
            self.world.seed(key, claim)
        if reading.seeded and claim.owned:
            won = reading.verdict
            if won in WINS and isinstance(won, Accepted):
                before, sighting.verdict = reading.before.claim, won
            else:
                before, won = claim, Accepted.REFRESHED
                sighting.verdict = Unknowable.BECAME_CERTAIN
            self._see(Event(rules, record, sighting, won, key, before, claim, None), group)
        else:
            self._work(reading, record, sighting, rules)
        if self._last is None or record.offset > self._last.offset:
            self._last = sighting
        self._report_drained()
        return sighting

    def _work(
        self, reading: UncertainRecord, record: Record, sighting: JudgedRecord, rules: Rules
    ) -> None:
        """Count an administrator's work even if only the owner is certain."""
        if isinstance(reading.verdict, Accepted) and reading.before.known and reading.after.known:
            before, after = reading.before.claim, reading.after.claim
            self._observed = True
            self._half_set.observe(
                Event(rules, record, sighting, reading.verdict, reading.key, before, after, None)
            )

    def _lose(
        self,
        reading: UncertainRecord,
        record: Record,
        sighting: JudgedRecord,
        group: _GroupCount,
        rules: Rules,
    ) -> None:
        """Fold a release whose position, or whose effect as such, is unknown."""
        key = reading.key
        before = self.world.claim(key)
        after = attrs.evolve(before, owner_instance=None, owner_client=None, last_heartbeat_ms=None)
        certain = reading.verdict is not None
        ended = {} if certain else {"ended": sighting.verdict.value}
        self._see(
            Event(
                rules,
                record,
                attrs.evolve(sighting, verdict=Accepted.RELEASED),
                Accepted.RELEASED,
                key,
                before,
                after,
                self._tenures.open.get(key),
            ),
            group,
            {**ended, "position_to": None},
        )
        self._positions.forget(key)
        self.world.forget(key)

    def _goes_on(
        self, transition: Transition, record: Record, sighting: JudgedRecord, rules: Rules
    ) -> bool:
        """Fold the ordinary heartbeat of a live owner, which no observer would report.

        Nearly every record of a log is one. All others, and all records of a group that was ever
        paused, are folded by `_see`, with the same result.
        """
        key = transition.key
        tenure = self._tenures.open.get(key)
        if (
            tenure is None
            or not self.shortcut
            or sighting.clock_ms - tenure.last.clock_ms > missed_after_ms(rules)
            or not transition.after.owned
            or self._pauses.known(key.group)
            or not self._positions.goes_on(key, transition.after.position, sighting)
        ):
            return False
        silence_ms = self._tenures.go_on(tenure, sighting, transition.after.position)
        if not says_its_interval(record, rules):
            self._silences.count(silence_ms, rules.heartbeat_interval_ms)
        self._lanes.goes_on(key, sighting.clock_ms, rules)
        return True

    def after_run(
        self, key: ClaimKey, record: Record, run: HeartbeatRun, interval_ms: float
    ) -> Claim | None:
        """The claim after a run of ordinary heartbeats; None if one of them is not ordinary.

        `record` is the last of them, and its clocks are those of the coordinating partition. If the
        result is not None, `run_goes_on` is equivalent to folding every record.
        """
        rules = self._rules[interval_ms]
        tenure = self._tenures.open.get(key)
        claim = self.world.claim(key)
        if (
            tenure is None
            or not self.shortcut
            or claim.position > run.position
            or run.clocks_ms[0] - tenure.last.clock_ms > missed_after_ms(rules)
            or self._pauses.known(key.group)
            or self._shared.of(key) is not None
        ):
            return None
        # The heartbeats have one sender, and each position is at least the one before it: all have
        # the same verdict as the last one.
        after, verdict = step(claim, record, rules)
        ordinary = (
            verdict is Accepted.REFRESHED
            and after.owned
            and self._positions.may_go_on(key, run.position)
        )
        return after if ordinary else None

    def run_goes_on(
        self,
        key: ClaimKey,
        after: Claim,
        record: Record,
        run: HeartbeatRun,
        gaps: Gaps,
        interval_ms: float,
    ) -> None:
        """Note a run of ordinary heartbeats; `after` is the claim after it, `gaps` its silences."""
        rules = self._rules[interval_ms]
        self.world.seed(key, after)
        tenure = self._tenures.open[key]
        sighting = JudgedRecord(
            run.last, record.message, Accepted.REFRESHED, int(run.clocks_ms[-1])
        )
        silence_ms = int(run.clocks_ms[0]) - tenure.last.clock_ms
        if not says_its_interval(record, rules):
            self._silences.count(silence_ms, rules.heartbeat_interval_ms)
            self._silences.count_run(gaps)
        self._tenures.run_goes_on(tenure, run, max(silence_ms, gaps.longest_ms), sighting)
        self._positions.goes_on(key, after.position, sighting)
        self._lanes.run_goes_on(key, run.clocks_ms, gaps.shortest_ms, rules)
        self._groups[key.group].records += len(run)
        count = self._claims[key]
        count.records += len(run)
        count.last_offset = record.offset
        if self._last is None or record.offset > self._last.offset:
            self._last = sighting

    def last_word(self, key: ClaimKey) -> JudgedRecord | None:
        """The last accepted record of a claim's owner."""
        tenure = self._tenures.open.get(key)
        return None if tenure is None else tenure.last

    def standing(self, key: ClaimKey) -> BookStanding | None:
        """A claim's state after a heartbeat of its owner; None if its next one is not ordinary."""
        tenure = self._tenures.open.get(key)
        if tenure is None or not self.shortcut or tenure.last.verdict is not Accepted.REFRESHED:
            return None
        claim, moved, suffix = self.world.claim(key), tenure.pace.moved, self._suffix
        if (
            not claim.owned
            or moved is None
            or moved.position != claim.position
            or not self._positions.may_go_on(key, claim.position)
            or self._pauses.known(key.group)
            or self._shared.was_shared(key)
            or (suffix is not None and key not in suffix.known_from)
        ):
            return None
        return BookStanding(tenure.pace.rest_ms, moved.clock_ms, self._lanes.last_beat_ms(key))

    def went_on(self, key: ClaimKey, pending: WentOn) -> None:
        """Apply ordinary heartbeats of a live owner: the effect of `_goes_on` for each of them.

        Their silences were counted before (`count_silences`), and so were those to draw (`draw`).
        """
        record = pending.record
        # All have the same verdict as the last one, and the claim's state is that after the last
        # one.
        after, verdict = step(self.world.claim(key), record, self._rules[pending.interval_ms])
        assert verdict is Accepted.REFRESHED, verdict
        self.world.seed(key, after)
        sighting = JudgedRecord(pending.raw, record.message, verdict, pending.clock_ms)
        tenure = self._tenures.open[key]
        tenure.longest_silence_ms = max(tenure.longest_silence_ms, pending.longest_ms)
        tenure.records += pending.count
        tenure.last = sighting
        if pending.moved is not None:
            tenure.pace.moved = pending.moved
        self._positions.goes_on(key, after.position, sighting)
        self._groups[key.group].records += pending.count
        count = self._claims[key]
        count.records += pending.count
        count.last_offset = record.offset
        if self._last is None or record.offset > self._last.offset:
            self._last = sighting
        if record.offset > self.world.last_offset:
            self.world.pass_over(record)

    def count_silences(self, seen: int, long: int) -> None:
        """Count silences of ordinary heartbeats, and how many are longer than the interval."""
        self._silences.count_some(seen, long)

    def measure_silences(self, lengths: Mapping[int, int]) -> None:
        """Add the number of silences of each length, in milliseconds."""
        self._silences.measure(lengths)

    def draw(self, key: ClaimKey, clock_ms: int) -> bool:
        """Draw an ordinary heartbeat; return whether more of them will be drawn."""
        return self._lanes.draw(key, clock_ms)

    # --- claims that are kept in columns (`steady_claims`) ---

    @property
    def takes_steady(self) -> bool:
        """Whether claims may be kept in columns: not if nobody knows what was before them."""
        return self.shortcut and self._suffix is None

    def knows(self, key: ClaimKey) -> bool:
        """A claim had a record, and it is kept here."""
        return key in self._claims

    def count_steady(self, claims: SteadyClaims, silences: Silent) -> None:
        """Count claims of which all records were ordinary: a win, and the winner's heartbeats."""
        self._observed = True
        latest = int(np.argmax(claims.last_offset))
        if self._last is None or int(claims.last_offset[latest]) > self._last.offset:
            self._last = claims.last(latest)
        self._silences.count_some(silences.seen, silences.long)
        self._silences.measure(silences.lengths)
        for name, which in claims.in_group:
            group = self._group(name, int(claims.first_offset[which].min()))
            group.records += int(claims.records[which].sum())
            group.tenures += len(which)
            wins = SteadyWins.of(claims, name, which)
            group.clients.update(wins.clients)
            group.instances.update(wins.instances)
            self._races.won(name, len(which))
            said = int(claims.said[which[0]])
            if said >= 0 and self.rules.fenced:
                self._mismatches.stated(name, said, wins.clients)
            self._wins.setdefault(name, deque()).append(wins)

    def _catch_up(self, group: str, before: int | None) -> None:
        """Show the wins of a group to those who weigh its shares, as far as an offset."""
        waiting = self._wins.get(group)
        while waiting:
            wins = waiting[0].before(before)
            if wins is not None:
                self._starvation.won(wins)
                self._imbalance.won(wins)
            if not waiting[0].is_over:
                return
            waiting.popleft()
        self._wins.pop(group, None)

    def settle(self) -> None:
        """Nothing is to be folded that lies before what was."""
        for group in [*self._wins]:
            self._catch_up(group, None)

    def take_up(self, key: ClaimKey, claims: SteadyClaims, number: int) -> None:
        """Keep a claim here from now on, which was kept in columns: it stands as it would."""
        rules = self._rules[float(claims.interval_ms[number])]
        won_by = last = claims.won_by(number)
        claim, _ = step(self.world.claim(key), won_by.raw.decoded(), rules)
        epoch = claim.epoch
        if claims.records[number] > 1:
            last = claims.last(number)
            claim, _ = step(claim, last.raw.decoded(), rules)
            self._positions.goes_on(key, claim.position, last)
        self.world.seed(key, claim)
        pace = PositionProgress(REST_INTERVALS * rules.heartbeat_interval_ms)
        reports = claims.reports(number)
        if reports is not None:
            pace.began, pace.moved = reports
            pace.brisk_from_ms = pace.began.clock_ms
        self._tenures.take_up(
            Tenure(
                key=key,
                instance=won_by.message.instance_id,
                client=won_by.message.client_id,
                epoch=epoch,
                won_by=won_by,
                last=last,
                position_from=0,
                pace=pace,
                records=int(claims.records[number]),
                longest_silence_ms=int(claims.longest_ms[number]),
            )
        )
        self._lanes.take_up(key, claims.beats_of(number))
        self._churn.take_up(key, won_by)
        self._claims[key] = ClaimCount(
            int(claims.records[number]),
            int(claims.first_offset[number]),
            int(claims.last_offset[number]),
        )

    def stale_after_ms(self, interval_ms: float) -> float:
        """The time after which an owner is stale, by a heartbeat interval."""
        return self._rules[interval_ms].stale_after_ms

    @property
    def end_ms(self) -> int:
        """The clock at the last record; there must have been one."""
        assert self._last is not None
        return self._last.clock_ms

    def _see(
        self, event: Event, group: _GroupCount, otherwise: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        """Show an event to all observers; `otherwise` replaces columns of the tenure that ends."""
        if self._wins:
            self._catch_up(event.key.group, event.sighting.offset)
        ended = self._tenures.observe(event)
        if ended is not None:
            self._row(attrs.evolve(ended, **otherwise) if otherwise else ended)
        group.tenures += event.began
        group.takeovers += event.verdict is Accepted.TOOK_OVER
        group.thefts += event.verdict is Accepted.OVERWRITTEN and steals(event)
        for mark in self._lanes.observe(event):
            self._row(mark)
        self._observed = True
        if event.tenure is not event.tenure_after:
            observers = self._observers
        elif isinstance(event.message, ReleaseGroup):
            observers = self._of_releases
        else:
            observers = self._without_change
        for observer in observers:
            observer.observe(event)

    def _count_group(self, message: RangesMessage, offset: int) -> _GroupCount:
        group = self._group(message.group_id, offset)
        group.records += 1
        group.clients.add(message.client_id)
        group.instances.add(message.instance_id)
        return group

    def _group(self, name: str, offset: int) -> _GroupCount:
        """The counts of a group with a record at this offset."""
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = _GroupCount(offset)
        elif offset < group.first_offset:
            group.first_offset = offset
        return group

    def _count(self, record: Record) -> _GroupCount:
        message = record.message
        group = self._count_group(message, record.offset)
        if not isinstance(message, ReleaseGroup):
            key = message.key
            claim = self._claims.get(key)
            if claim is None:
                claim = self._claims[key] = ClaimCount(first_offset=record.offset)
            claim.records += 1
            claim.last_offset = record.offset
        return group

    def _claim_now(self, record: Record | RangesRecord) -> Claim | None:
        message = record.message
        if isinstance(message, ReleaseGroup):
            return None
        key = message.key
        if self._suffix is not None and key not in self._suffix.known_from:
            return None
        return self.world.claim(key)

    def _refusal(
        self,
        sighting: JudgedRecord,
        record: Record | RangesRecord,
        verdict: Judgement,
        before: Claim | None,
    ) -> None:
        self._row(refusal_row(sighting, record, verdict, before))

    def at_the_end(self, intervals: GroupIntervals, steady: Sequence[SteadyClaims]) -> None:
        """The log ends: final claims, open tenures, remaining findings, counts.

        The rows of claims that are kept in columns are made elsewhere.
        """
        self.settle()
        last = self._last
        if last is None:
            return

        def rules_of(group: str) -> Rules:
            return self._rules[intervals.of(group)]

        claims = self.world.claims
        positions = {key: claim.position for key, claim in claims.items()}
        for row in self._tenures.at_the_end(last.clock_ms, positions, rules_of):
            self._row(row)
        end = LogEnd(self.rules, last, self._tenures.open, rules_of, self._silences.fits, steady)
        for observer in self._observers:
            for finding in observer.at_the_end(end):
                self._row(finding)
        claim_records = {key: count.records for key, count in self._claims.items()}
        for lane in self._lanes.at_the_end(claim_records, self._tenures.tally):
            self._row(lane)
        for held in self._shared.held_at_the_end():
            self._row(held)
        for claim in self._claim_rows(end):
            self._row(claim)
        claims_of = Counter(key.group for key in self._claims)
        for in_columns in steady:
            claims_of.update({name: len(which) for name, which in in_columns.in_group})
        groups = sorted(self._groups.items(), key=lambda each: each[1].first_offset)
        for name, group in groups:
            self._row(
                GroupCountsRow(
                    group=name,
                    claims=claims_of[name],
                    clients=len(group.clients),
                    instances=len(group.instances),
                    records=group.records,
                    tenures=group.tenures,
                    takeovers=group.takeovers,
                    refusals=group.refusals,
                    thefts=group.thefts,
                    unowned_longest_ms=self._silences.longest_unowned_ms.get(name),
                    heartbeat_interval_ms=float(intervals.of(name)),
                    intervals_said_ms=(
                        int(lived.interval_ms) for lived in intervals.lived_under(name)
                    ),
                )
            )

    def _claim_rows(self, end: LogEnd) -> Iterator[FinalClaimRow]:
        suffix = self._suffix
        known_from = {} if suffix is None else suffix.known_from
        for key, claim in self.world.claims.items():
            tenure, rules = end.tenures.get(key), end.rules_of(key.group)
            silent = tenure and end.clock_ms - tenure.last_ms > rules.stale_after_ms
            yield claim_row(
                rules,
                key,
                claim,
                self._claims[key],
                stale=bool(silent),
                known_from=known_from.get(key),
                ranges=self._shared.of(key) if suffix is None else None,
            )
        for key, reader in ({} if suffix is None else suffix.uncertain).items():
            rules = end.rules_of(key.group)
            yield uncertain_row(rules, key, reader, self._claims[key], end.clock_ms)

    def _row(self, row: Row) -> None:
        self._emit(row, self.rules.rule_set.value)

"""The books that one rule set keeps over one coordinating partition.

A book folds the log into a `World` and lets everybody watch: tenures, findings, lanes, counts. It
hands out rows of tables. It does not know where records come from, nor where rows go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from attrs import define, field

from kafka_marshal.capture import RawRecord
from kafka_marshal.core import original
from kafka_marshal.core.messages import ClaimingPartition, Record, ReleaseGroup
from kafka_marshal.core.reducer import step
from kafka_marshal.core.state import Claim, ClaimKey, Rules, RuleSet
from kafka_marshal.core.verdicts import Accepted, ReadTwice, Refused
from kafka_marshal.core.world import Transition, World
from kafka_marshal.kernel.gaps import Gaps
from kafka_marshal.replay.events import Event, Judgement, Sighting, key_columns
from kafka_marshal.replay.findings.failovers import Failovers
from kafka_marshal.replay.findings.grants import GrantedTwice
from kafka_marshal.replay.findings.half_set import HalfSet
from kafka_marshal.replay.findings.movement import LagMovement, Wedged
from kafka_marshal.replay.findings.observer import End, Observer
from kafka_marshal.replay.findings.overrun import PauseRanOut
from kafka_marshal.replay.findings.ownership import (
    ActsWithoutOwning,
    OddRecords,
    Thefts,
    UnownedReleases,
    steals,
)
from kafka_marshal.replay.findings.positions import Pauses, Positions
from kafka_marshal.replay.findings.sharing import Churn, Imbalance, LostRaces, Starvation
from kafka_marshal.replay.findings.silence import Silences, missed_after_ms
from kafka_marshal.replay.lanes import Lanes
from kafka_marshal.replay.rows import Row, readable_bytes
from kafka_marshal.replay.stretch import Run
from kafka_marshal.replay.tenures import Tenures

Emit: TypeAlias = Callable[[str, Row], None]
"""Takes a row of the named table."""

_OFFSETLESS: Final = (ClaimingPartition, ReleaseGroup)


@define
class _ClaimCount:
    records: int = 0
    first_offset: int = 0
    last_offset: int = 0


@define
class _GroupCount:
    clients: set[str] = field(factory=set)
    instances: set[str] = field(factory=set)
    records: int = 0
    tenures: int = 0
    takeovers: int = 0
    refusals: int = 0
    thefts: int = 0


class Book:
    """One rule set's view of one coordinating partition."""

    shortcut = True
    """Whether ordinary heartbeats take `_goes_on`; a test holds it to the long way."""

    def __init__(self, rules: Rules, emit: Emit) -> None:
        self.rules = rules
        self.world = World(rules)
        self._name = rules.rule_set.value
        self._emit = emit
        self._tenures = Tenures()
        self._positions, self._pauses = Positions(), Pauses()
        self._silences = Silences()
        self._lanes = Lanes(rules, self._positions, self._pauses)
        owning: tuple[Observer, ...] = (
            (Thefts(), UnownedReleases())
            if rules.rule_set is RuleSet.ORIGINAL
            else (ActsWithoutOwning(), UnownedReleases(), OddRecords())
        )
        self._observers: tuple[Observer, ...] = (
            *owning,
            self._positions,
            self._pauses,
            HalfSet(),
            self._silences,
            GrantedTwice(),
            PauseRanOut(),
            Wedged(),
            LagMovement(),
            Failovers(),
            LostRaces(),
            Starvation(),
            Imbalance(),
            Churn(),
        )
        self._claims: dict[ClaimKey, _ClaimCount] = {}
        self._groups: dict[str, _GroupCount] = {}
        self._last: Sighting | None = None

    def observe(self, raw: RawRecord, record: Record, clock_ms: int) -> Sighting:
        """Fold one record and tell everybody what it did."""
        outcome = self.world.apply(record)
        verdict = outcome.verdict
        sighting = Sighting(raw, record.message, verdict, clock_ms)
        if isinstance(verdict, ReadTwice):
            self._refusal(sighting, record, verdict, self._claim_now(record))
            return sighting
        if self._last is None or record.offset > self._last.offset:
            self._last = sighting
        group = self._count(record)
        if isinstance(verdict, Refused):
            before = outcome.transitions[0].before if outcome.transitions else None
            if isinstance(record.message, ReleaseGroup):
                before = None
            self._refusal(sighting, record, verdict, before)
            group.refusals += 1
        elif verdict is Accepted.REFRESHED and self._goes_on(outcome.transitions[0], sighting):
            return sighting
        for transition in outcome.transitions:
            key = transition.key
            self._see(
                Event(
                    self.rules,
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
        for observer in self._observers:
            for row in observer.drain():
                self._row("findings", row)
        return sighting

    def _goes_on(self, transition: Transition, sighting: Sighting) -> bool:
        """Note the ordinary heartbeat of a living owner, of which nobody has anything to tell.

        Nearly every record of a log is one. Everything else, and all within a group that was ever
        paused, goes through `_see`, which would come to the same.
        """
        key = transition.key
        tenure = self._tenures.open.get(key)
        if (
            tenure is None
            or not self.shortcut
            or sighting.clock_ms - tenure.last.clock_ms > missed_after_ms(self.rules)
            or not transition.after.owned
            or self._pauses.known(key.group)
            or not self._positions.goes_on(key, transition.after.position, sighting)
        ):
            return False
        silence_ms = self._tenures.go_on(tenure, sighting, transition.after.position)
        self._silences.count(silence_ms, self.rules.heartbeat_interval_ms)
        self._lanes.goes_on(key, sighting.clock_ms)
        return True

    def may_go_on(self, key: ClaimKey, record: Record, run: Run) -> bool:
        """Whether all heartbeats of a run are ordinary, so that `run_goes_on` comes to the same.

        `record` is the last of them, and its clocks are those of the coordinating partition.
        """
        tenure = self._tenures.open.get(key)
        claim = self.world.claim(key)
        if (
            tenure is None
            or not self.shortcut
            or claim.position > run.position
            or run.clocks_ms[0] - tenure.last.clock_ms > missed_after_ms(self.rules)
            or self._pauses.known(key.group)
        ):
            return False
        after, verdict = step(claim, record, self.rules)
        return (
            verdict is Accepted.REFRESHED
            and after.owned
            and self._positions.may_go_on(key, run.position)
        )

    def run_goes_on(self, key: ClaimKey, record: Record, run: Run, gaps: Gaps) -> None:
        """Note a run of ordinary heartbeats; the silences between them are given."""
        after = self.world.apply_run(record).after
        tenure = self._tenures.open[key]
        sighting = Sighting(run.last, record.message, Accepted.REFRESHED, int(run.clocks_ms[-1]))
        silence_ms = int(run.clocks_ms[0]) - tenure.last.clock_ms
        self._silences.count(silence_ms, self.rules.heartbeat_interval_ms)
        self._silences.count_run(gaps)
        self._tenures.run_goes_on(tenure, run, max(silence_ms, gaps.longest_ms), sighting)
        self._positions.goes_on(key, after.position, sighting)
        self._lanes.run_goes_on(key, run.clocks_ms, gaps.shortest_ms)
        self._groups[key.group].records += len(run)
        count = self._claims[key]
        count.records += len(run)
        count.last_offset = record.offset
        if self._last is None or record.offset > self._last.offset:
            self._last = sighting

    def _see(self, event: Event, group: _GroupCount) -> None:
        ended = self._tenures.observe(event)
        if ended is not None:
            self._row("tenures", ended)
        group.tenures += event.began
        group.takeovers += event.verdict is Accepted.TOOK_OVER
        group.thefts += event.verdict is Accepted.OVERWRITTEN and steals(event)
        for mark in self._lanes.observe(event):
            self._row("marks", mark)
        for observer in self._observers:
            observer.observe(event)

    def _count(self, record: Record) -> _GroupCount:
        message = record.message
        group = self._groups.get(message.group_id)
        if group is None:
            group = self._groups[message.group_id] = _GroupCount()
        group.records += 1
        group.clients.add(message.client_id)
        group.instances.add(message.instance_id)
        if not isinstance(message, ReleaseGroup):
            key = ClaimKey(message.group_id, message.topic, message.partition)
            claim = self._claims.get(key)
            if claim is None:
                claim = self._claims[key] = _ClaimCount(first_offset=record.offset)
            claim.records += 1
            claim.last_offset = record.offset
        return group

    def _claim_now(self, record: Record) -> Claim | None:
        message = record.message
        if isinstance(message, ReleaseGroup):
            return None
        return self.world.claim(ClaimKey(message.group_id, message.topic, message.partition))

    def _refusal(
        self, sighting: Sighting, record: Record, verdict: Judgement, before: Claim | None
    ) -> None:
        message = record.message
        of_group = isinstance(message, ReleaseGroup)
        owned = before is not None and before.owned
        self._row(
            "refusals",
            {
                "group": message.group_id,
                "topic": None if of_group else message.topic,
                "topic_partition": None if of_group else message.partition,
                "offset": record.offset,
                "timestamp_ms": record.timestamp_ms,
                "type": type(message).__name__,
                "guard": verdict.value,
                "sender_instance": message.instance_id,
                "sender_client": message.client_id,
                "sender_unix_s": message.unix_s,
                "message_offset": (None if isinstance(message, _OFFSETLESS) else message.offset),
                "owner_instance": before.owner_instance if before and owned else None,
                "owner_client": before.owner_client if before and owned else None,
                "owner_epoch": before.epoch if before else None,
                "position": before.position if before else None,
                "value": readable_bytes(sighting.raw.value),
            },
        )

    def at_the_end(self) -> None:
        """The log is over: final claims, open tenures, remaining findings, counts."""
        last = self._last
        if last is None:
            return
        claims = self.world.claims
        positions = {key: claim.position for key, claim in claims.items()}
        for row in self._tenures.at_the_end(last.clock_ms, positions, self.rules):
            self._row("tenures", row)
        end = End(self.rules, last, self._tenures.open, self._silences.interval_fits)
        for observer in self._observers:
            for row in observer.at_the_end(end):
                self._row("findings", row)
        for key, row in self._lanes.at_the_end():
            counted = self._tenures.tally(key)
            self._row("lanes", {**row, **counted, "records": self._claims[key].records})
        for row in self._claim_rows(end):
            self._row("claims", row)
        for name, group in self._groups.items():
            self._row(
                "groups",
                {
                    "group": name,
                    "claims": len(self.world.group(name)),
                    "clients": len(group.clients),
                    "instances": len(group.instances),
                    "records": group.records,
                    "tenures": group.tenures,
                    "takeovers": group.takeovers,
                    "refusals": group.refusals,
                    "thefts": group.thefts,
                    "unowned_longest_ms": self._silences.longest_unowned_ms.get(name),
                },
            )

    def _claim_rows(self, end: End) -> Iterator[Row]:
        for key, claim in self.world.claims.items():
            count = self._claims[key]
            tenure = end.tenures.get(key)
            owned = claim.owned
            if self.rules.rule_set is RuleSet.ORIGINAL:
                owned = original.claimed(claim, claim.clock_ms or 0, self.rules)
            silent = tenure and end.clock_ms - tenure.last_ms > self.rules.stale_after_ms
            yield {
                **key_columns(key),
                "owner_instance": claim.owner_instance if owned else None,
                "owner_client": claim.owner_client if owned else None,
                "epoch": claim.epoch,
                "position": claim.position,
                "last_heartbeat_ms": claim.last_heartbeat_ms,
                "paused_by": claim.pauser if claim.paused else None,
                "paused_until_ms": claim.paused_until_ms if claim.paused else None,
                "last_release_ms": claim.last_release_ms,
                "stale": bool(silent),
                "clock_ms": claim.clock_ms,
                "records": count.records,
                "first_offset": count.first_offset,
                "last_offset": count.last_offset,
            }

    def _row(self, table: str, row: Row) -> None:
        row["rules"] = self._name
        self._emit(table, row)

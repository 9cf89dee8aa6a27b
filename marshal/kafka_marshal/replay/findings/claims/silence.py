"""Silence: owners that miss heartbeats, and claims without a live owner.

All of it is measured by the log's own time, never by the sender's. If most gaps between heartbeats
of a log exceed the interval, this is one finding about the interval, and not a thousand about
silences.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

import attrs
from attrs import define

from kafka_marshal.core.claims.verdicts import Accepted
from kafka_marshal.core.group_intervals import GroupIntervals
from kafka_marshal.core.messages import Record
from kafka_marshal.core.state import ClaimKey, Rules
from kafka_marshal.kernel.silences import DIGITS, Gaps
from kafka_marshal.replay.findings.cases import Case, Cases
from kafka_marshal.replay.findings.catalogue import INFO
from kafka_marshal.replay.findings.observer import FindingObserver, LogEnd
from kafka_marshal.replay.model.events import Event, JudgedRecord
from kafka_marshal.replay.model.phrasing import claim_name, clock, span, times, who
from kafka_marshal.replay.model.published import FindingRow
from kafka_marshal.replay.model.tenures import sightings

MISSED_AFTER_INTERVALS: Final = 1.5
"""With half an interval of grace: a punctual heartbeat may land a little late."""
MISMATCH_GAPS_MIN: Final = 8
"""The number of gaps between heartbeats that is needed to judge the interval."""
FELL_SILENT: Final = "its owner fell silent"


def missed_after_ms(rules: Rules) -> float:
    """An owner's silence is reported if it is longer than this."""
    return MISSED_AFTER_INTERVALS * rules.heartbeat_interval_ms


def says_its_interval(record: Record, rules: Rules) -> bool:
    """The owner states the interval that it is judged by, so its silences do not question it."""
    return record.headers.interval_ms == rules.heartbeat_interval_ms


def _rounded(gap_ms: int) -> int:
    """Rounded to the leading digits, towards shorter gaps.

    >>> _rounded(999), _rounded(1234), _rounded(59_999), _rounded(-5)
    (999, 1230, 59900, -5)
    """
    grain = 1
    while abs(gap_ms) // grain >= 10**DIGITS:
        grain *= 10
    return gap_ms // grain * grain


@define
class _Unowned:
    """A claim without a live owner."""

    since_ms: int
    last: JudgedRecord
    """The last record of its last owner."""
    why: str


class Silences(FindingObserver):
    """Missed heartbeats and unowned claims of one coordinating partition."""

    def __init__(self, intervals: GroupIntervals) -> None:
        super().__init__()
        self._intervals = intervals
        self._silent = Cases(self._as_yet), Cases(self._as_yet)
        """Of groups that state no interval, which may not fit, and of those that do."""
        self._unowned: dict[ClaimKey, _Unowned] = {}
        self._unowned_cases = Cases(self._as_yet), Cases(self._as_yet)
        """As `_silent`."""
        self._paused_until_ms: dict[str, int] = {}
        self._gaps = Counter[int]()
        self._gaps_seen = 0
        self._gaps_long = 0
        self.longest_unowned_ms: dict[str, int] = defaultdict(int)
        """By group: the longest time that one of its claims was without a live owner."""

    def observe(self, event: Event) -> None:
        """Measure from the owner's last record to the next, and from one owner to the next."""
        if event.verdict is Accepted.GROUP_RELEASED and event.after.paused_until_ms is not None:
            self._paused_until_ms[event.key.group] = event.after.paused_until_ms
        if event.silence_ms is not None:
            self._silence(event, event.silence_ms)
        if event.began:
            self._owned_again(event)
        elif event.ended:
            why = "its owner released it"
            if event.verdict is Accepted.GROUP_RELEASED:
                why = "a ReleaseGroup ended its ownership"
            self._unowned[event.key] = _Unowned(event.clock_ms, event.sighting, why)

    def count(self, silence_ms: int, interval_ms: float) -> None:
        """Count a gap between two records of an owner, to judge the interval."""
        self._gaps_seen += 1
        if silence_ms > interval_ms:
            self._gaps_long += 1
        self._gaps[_rounded(silence_ms)] += 1

    def count_run(self, gaps: Gaps) -> None:
        """Count many of them."""
        self._gaps_long += gaps.over
        for silence_ms, count in gaps.counts.items():
            self._gaps_seen += count
            self._gaps[silence_ms] += count

    def count_some(self, seen: int, long: int) -> None:
        """Count many, whose lengths `measure` adds; `long` are longer than the interval."""
        self._gaps_seen += seen
        self._gaps_long += long

    def measure(self, lengths: Mapping[int, int]) -> None:
        """Add the lengths of counted gaps."""
        for silence_ms, count in lengths.items():
            self._gaps[_rounded(silence_ms)] += count

    def _silence(self, event: Event, silence_ms: int) -> None:
        if not says_its_interval(event.record, event.rules):
            self.count(silence_ms, event.rules.heartbeat_interval_ms)
        if silence_ms <= missed_after_ms(event.rules) or event.tenure is None:
            return
        sender = event.message.instance_id, event.message.client_id
        case = self._silent[self._intervals.states(event.key.group)].add(
            (event.key, event.message.instance_id),
            None,
            event.sighting,
            lambda: Case.about(
                "missed_heartbeat",
                event.key,
                sender,
                partial(_missed, event.key, sender, event.rules.stale_after_ms),
                sightings(event.last_word),
            ),
        )
        case.worst_ms = max(case.worst_ms, silence_ms)

    def _owned_again(self, event: Event) -> None:
        unowned = self._unowned.pop(event.key, None)
        tenure = event.tenure
        if tenure is not None and tenure.instance != event.message.instance_id:
            since_ms = tenure.last_ms + int(event.rules.stale_after_ms)
            unowned = _Unowned(since_ms, event.last_word or tenure.last, FELL_SILENT)
        if unowned is None:
            return
        self._judge(event.key, unowned, event.clock_ms, event.rules.stale_after_ms, event.sighting)

    def _judge(
        self,
        key: ClaimKey,
        unowned: _Unowned,
        until_ms: int,
        limit_ms: float,
        until: JudgedRecord,
        at_the_end: bool = False,
    ) -> bool:
        """Whether the claim was unowned for too long; if so, it adds it to a case."""
        since_ms = max(unowned.since_ms, self._paused_until_ms.get(key.group, unowned.since_ms))
        lasted_ms = until_ms - since_ms
        if lasted_ms <= 0:
            return False
        self.longest_unowned_ms[key.group] = max(self.longest_unowned_ms[key.group], lasted_ms)
        if lasted_ms <= limit_ms:
            return False
        ended = ", until the log ended." if at_the_end else f", until offset {until.offset}."
        case = self._unowned_cases[self._intervals.states(key.group)].add(
            key,
            None,
            unowned.last,
            lambda: Case(
                "unowned_too_long",
                key.group,
                key.topic,
                key.topic_partition,
                None,
                None,
                partial(_without_owner, key, unowned, ended),
            ),
        )
        case.worst_ms = max(case.worst_ms, lasted_ms)
        return True

    @property
    def interval_fits(self) -> bool:
        """Whether most gaps between owners' records are no longer than the interval.

        Of groups that state none; the others are judged by their own.
        """
        return self._gaps_seen < MISMATCH_GAPS_MIN or self._gaps_long * 2 <= self._gaps_seen

    def fits(self, group: str) -> bool:
        """Whether the interval by which a group is judged seems to be that of its members."""
        return self.interval_fits or self._intervals.states(group)

    def _as_yet(self, case: Case, rules: Rules) -> FindingRow:
        """A silence that continues."""
        brief = case.code == "missed_heartbeat" and case.worst_ms <= rules.stale_after_ms
        row = case.row()
        return attrs.evolve(row, severity=INFO) if brief else row

    def begun(self, rules: Rules) -> Iterator[FindingRow]:
        """Silences, and then unowned claims; those of before the interval fitted, once it does."""
        for cases in (self._silent, self._unowned_cases):
            for states, of_kind in enumerate(cases):
                if states or self.interval_fits:
                    yield from of_kind.begun(rules)

    def at_the_end(self, end: LogEnd) -> Iterator[FindingRow]:
        """Silences and unowned claims, or a finding that the interval does not fit."""
        owned = set(end.tenures) - self._silent_at_the_end(end)
        groups_alive = {key.group for key in owned}
        groups_alive.update(group for steady in end.steady for group, _ in steady.in_group)
        gone: dict[str, list[tuple[ClaimKey, _Unowned]]] = defaultdict(list)
        for key, unowned in self._unowned.items():
            if key.group in groups_alive:
                limit_ms = end.rules_of(key.group).stale_after_ms
                self._judge(key, unowned, end.clock_ms, limit_ms, end.last, at_the_end=True)
            else:
                gone[key.group].append((key, unowned))
        gone_rows = [
            row for group, claims in gone.items() for row in self._gone(group, claims, end)
        ]
        if not self.interval_fits:
            yield self._mismatch(end)
        for case in itertools.chain(*self._silent):
            if case.worst_ms <= end.rules_of(case.group or "").stale_after_ms:
                case.severity = INFO
            if self.fits(case.group or ""):
                yield case.row()
        for case in itertools.chain(*self._unowned_cases):
            if self.fits(case.group or ""):
                yield case.row()
        yield from (row for row in gone_rows if self.fits(row.group or ""))

    def _silent_at_the_end(self, end: LogEnd) -> set[ClaimKey]:
        """Claims whose owner is stale at the end of the log; they count as unowned."""
        silent = set()
        for key, tenure in end.tenures.items():
            since_ms = tenure.last_ms + int(end.rules_of(key.group).stale_after_ms)
            if end.clock_ms > since_ms:
                silent.add(key)
                self._unowned[key] = _Unowned(since_ms, tenure.last, FELL_SILENT)
        return silent

    def _gone(
        self, group: str, claims: list[tuple[ClaimKey, _Unowned]], end: LogEnd
    ) -> Iterator[FindingRow]:
        """The whole group stopped: one finding, if its last record is old enough."""
        paused_until_ms = self._paused_until_ms.get(group, 0)
        since_ms = max(paused_until_ms, *(unowned.since_ms for _, unowned in claims))
        limit_ms = end.rules_of(group).stale_after_ms
        if end.clock_ms - since_ms <= limit_ms:
            # A group that is just stopping releases its claims one by one: only those whose owner
            # died are reported.
            for key, unowned in claims:
                if unowned.why == FELL_SILENT:
                    self._judge(key, unowned, end.clock_ms, limit_ms, end.last, True)
            return
        lasted_ms = end.clock_ms - since_ms
        self.longest_unowned_ms[group] = max(self.longest_unowned_ms[group], lasted_ms)
        case = Case(
            "group_gone",
            group,
            None,
            None,
            None,
            None,
            lambda case: (
                f"Nobody alive owns any of the {times(len(claims), 'claim')} of group {group} "
                f"since {clock(since_ms)}, {span(lasted_ms)} before the log ends."
            ),
        )
        for _, unowned in sorted(claims, key=lambda claim: claim[1].last.offset):
            case.add(unowned.last)
        yield case.row()

    def _gap_at(self, rank: int) -> int:
        """The gap at this index, in order of length."""
        for gap_ms in sorted(self._gaps):
            rank -= self._gaps[gap_ms]
            if rank < 0:
                return gap_ms
        raise AssertionError("there are not so many gaps")

    def _mismatch(self, end: LogEnd) -> FindingRow:
        usual_ms = self._gap_at(self._gaps_seen // 2)
        longest_ms = self._gap_at(int(self._gaps_seen * 0.95))
        case = Case(
            "interval_mismatch",
            None,
            None,
            None,
            None,
            None,
            lambda case: (
                f"Owners usually speak every {span(usual_ms)} (19 of 20 times within "
                f"{span(longest_ms)}), but where the log says no heartbeat interval it is taken "
                f"to be {span(end.rules.heartbeat_interval_ms)}: is that the one that the "
                f"consumers ran with? Silences there are not reported one by one, and staleness is "
                f"judged by it."
            ),
        )
        case.add(end.last)
        return case.row()


def _missed(key: ClaimKey, sender: tuple[str, str], stale_after_ms: float, case: Case) -> str:
    many = f"{times(case.count, 'time')}, at most " if case.count > 1 else ""
    yet = "" if case.worst_ms > stale_after_ms else "not yet "
    return (
        f"{who(*sender)}, the owner of {claim_name(key)}, was silent {many}for "
        f"{span(case.worst_ms)} until offset {case.first_seen.offset} "
        f"({clock(case.first_seen.clock_ms)}), {yet}long enough for anybody to take the claim, "
        f"and then went on."
    )


def _without_owner(key: ClaimKey, unowned: _Unowned, ended: str, case: Case) -> str:
    many = f"{times(case.count, 'time')}, at most " if case.count > 1 else ""
    return (
        f"{claim_name(key)} had no live owner {many}for {span(case.worst_ms)}; the first time "
        f"after offset {unowned.last.offset} ({clock(unowned.last.clock_ms)}), when "
        f"{unowned.why}{ended}"
    )

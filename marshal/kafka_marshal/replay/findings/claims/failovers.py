"""Measures how long a claim waits for a new owner after its owner's last record.

An owner is stale after twice the heartbeat interval, so no failover is faster. The additional time
shows how often consumers check for stale owners.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from attrs import define, field

from kafka_marshal.core.claims.verdicts import Accepted
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.replay.findings.cases import Case
from kafka_marshal.replay.findings.observer import FindingObserver, LogEnd
from kafka_marshal.replay.model.events import Event, JudgedRecord
from kafka_marshal.replay.model.phrasing import claim_name, clock, span, times, who
from kafka_marshal.replay.model.published import FindingRow
from kafka_marshal.replay.model.tenures import sightings

GRACE_INTERVALS: Final = 1.5
"""A consumer that checks once per heartbeat interval finds a stale owner within one; plus half an
interval for records that land late."""
KEPT_MAX: Final = 10_000
"""The most failovers of a group to keep for their distribution."""


@define
class _Failovers:
    """The takeovers of one group."""

    lasted_ms: list[int] = field(factory=list)
    case: Case | None = None


class Failovers(FindingObserver):
    """Takeovers of stale owners' claims: the duration of each, and those that were too slow."""

    passes_over_releases = True

    def __init__(self) -> None:
        super().__init__()
        self._groups: dict[str, _Failovers] = {}
        self._slow: dict[ClaimKey, Case] = {}

    def observe(self, event: Event) -> None:
        """Measure from the owner's last record, or from the end of a pause after it."""
        last = event.last_word
        if event.verdict is not Accepted.TOOK_OVER or last is None:
            return
        since_ms = last.clock_ms
        paused_until_ms = event.before.paused_until_ms
        if paused_until_ms is not None and since_ms < paused_until_ms <= event.clock_ms:
            since_ms = paused_until_ms
        lasted_ms = event.clock_ms - since_ms
        group = self._groups.setdefault(event.key.group, _Failovers())
        if len(group.lasted_ms) < KEPT_MAX:
            group.lasted_ms.append(lasted_ms)
        if group.case is None:
            name = event.key.group
            sentence = partial(_distribution, group.lasted_ms)
            group.case = Case("failover_times", name, None, None, None, None, sentence)
        group.case.add(event.sighting)
        group.case.worst_ms = max(group.case.worst_ms, lasted_ms)
        limit_ms = event.rules.stale_after_ms + GRACE_INTERVALS * event.rules.heartbeat_interval_ms
        if lasted_ms > limit_ms:
            self._too_slow(event, last, lasted_ms, limit_ms)

    def _too_slow(self, event: Event, last: JudgedRecord, lasted_ms: int, limit_ms: float) -> None:
        case = self._slow.get(event.key)
        if case is None:
            sender = event.message.instance_id, event.message.client_id
            sentence = partial(_slow, event.key, last, lasted_ms, limit_ms)
            case = Case.about("slow_failover", event.key, sender, sentence, sightings(last))
            self._slow[event.key] = case
        case.add(event.sighting)
        case.worst_ms = max(case.worst_ms, lasted_ms)

    def at_the_end(self, end: LogEnd) -> Iterator[FindingRow]:
        """The slow ones, if the interval fits, and every group's distribution."""
        for key, case in self._slow.items():
            if end.fits(key.group):
                yield case.row()
        for group in self._groups.values():
            if group.case is not None:
                yield group.case.row()


def percentile(ordered: list[int], part: float) -> int:
    """The least value that is not exceeded by this part of the values.

    >>> [percentile([1, 2, 3, 40], part) for part in (0.5, 0.9)]
    [2, 40]
    """
    return ordered[min(len(ordered) - 1, max(0, -int(-part * len(ordered) // 1) - 1))]


def _distribution(lasted_ms: list[int], case: Case) -> str:
    ordered = sorted(lasted_ms)
    return (
        f"Consumers of group {case.group} took {times(case.count, 'claim')} over from stale "
        f"owners: {span(percentile(ordered, 0.5))} after the owner's last word in the median, "
        f"{span(percentile(ordered, 0.9))} for 9 of 10, {span(case.worst_ms)} at most."
    )


def _slow(key: ClaimKey, last: JudgedRecord, lasted_ms: int, limit_ms: float, case: Case) -> str:
    first = case.first_seen
    many = (
        f" It was so {times(case.count, 'time')}, at most {span(case.worst_ms)}."
        if case.count > 1
        else ""
    )
    return (
        f"{who(case.instance, case.client)} took {claim_name(key)} over at offset {first.offset} "
        f"({clock(first.clock_ms)}), {span(lasted_ms)} after the last word of its stale owner "
        f"(offset {last.offset}); {span(limit_ms)} would have been enough.{many}"
    )

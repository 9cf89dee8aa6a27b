"""At most once: offsets that were granted to two consumers, or twice to one.

Under the fenced rules a grant begins at the position, which only an administrator moves back. The
original ignores ClaimingMessages. By its documentation, the sender may process once it has read its
own request as the owner, so under its rules that counts as a grant.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Final

from attrs import define, field

from kafka_marshal.core.claims.verdicts import Accepted
from kafka_marshal.core.messages import ClaimingMessages
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.replay.findings.cases import Case
from kafka_marshal.replay.findings.catalogue import INFO
from kafka_marshal.replay.findings.observer import FindingObserver
from kafka_marshal.replay.model.events import Event, JudgedRecord
from kafka_marshal.replay.model.phrasing import claim_name, clock, who
from kafka_marshal.replay.model.tenures import sightings

KEPT_MAX: Final = 256
"""The most ranges of one claim to remember; adjacent ones are merged."""


@define
class _Granted:
    """Messages from `begin` to before `end`, granted to one instance."""

    begin: int
    end: int
    last: JudgedRecord


@define
class _Claim:
    ranges: deque[_Granted] = field(factory=lambda: deque(maxlen=KEPT_MAX))
    end: int = 0
    """The highest end: what begins there overlaps nothing."""
    set_by: JudgedRecord | None = None
    """The record with which an administrator last set the position."""


class GrantedTwice(FindingObserver):
    """Grants that overlap an earlier one."""

    passes_over_releases = True

    def __init__(self) -> None:
        super().__init__()
        self._claims: dict[ClaimKey, _Claim] = {}

    def observe(self, event: Event) -> None:
        """One case per claim and pair of instances, until the claim is won again."""
        if event.began:
            self._cases.close(event.key)
        if event.verdict is Accepted.POSITION_SET or _pauser_released(event):
            claim = self._claims.get(event.key)
            if claim is not None:
                claim.set_by = event.sighting
        message = event.message
        if not isinstance(message, ClaimingMessages) or not _grants(event):
            return
        claim = self._claims.setdefault(event.key, _Claim())
        begin, end = event.before.position, message.offset
        if event.is_original:
            own = (g.end for g in claim.ranges if _sender(g.last) == message.instance_id)
            begin = max(begin, *own, 0)
        if begin >= end:
            return
        if begin < claim.end:
            self._compare(event, claim, begin, end)
        claim.end = max(claim.end, end)
        latest = claim.ranges[-1] if claim.ranges else None
        if latest and latest.end == begin and _sender(latest.last) == message.instance_id:
            latest.end, latest.last = end, event.sighting
        else:
            claim.ranges.append(_Granted(begin, end, event.sighting))

    def _compare(self, event: Event, claim: _Claim, begin: int, end: int) -> None:
        overlaps = (g for g in reversed(claim.ranges) if g.begin < end and begin < g.end)
        earlier = next(overlaps, None)
        if earlier is None:
            return
        sender = event.message.instance_id, event.message.client_id
        by_order = claim.set_by
        if by_order is not None and by_order.offset < earlier.last.offset:
            by_order = None
        twice = max(begin, earlier.begin), min(end, earlier.end)
        sentence = partial(_twice, event.key, twice, earlier.last, by_order)
        case = self._cases.add(
            (event.key, sender, _sender(earlier.last)),
            event.key,
            event.sighting,
            lambda: Case.about(
                "granted_twice", event.key, sender, sentence, sightings(earlier.last, by_order)
            ),
        )
        if case.count == 1 and by_order is not None:
            case.severity = INFO


def _sender(sighting: JudgedRecord) -> str:
    return sighting.message.instance_id


def _pauser_released(event: Event) -> bool:
    return (
        event.is_original
        and event.verdict is Accepted.RELEASED
        and event.message.instance_id == event.before.pauser
    )


def _grants(event: Event) -> bool:
    """Whether the sender may process what it requested once it has read this record."""
    if not event.is_original:
        return event.verdict is Accepted.GRANTED
    owner = event.tenure_after
    return owner is not None and owner.instance == event.message.instance_id


def _twice(
    key: ClaimKey,
    messages: tuple[int, int],
    earlier: JudgedRecord,
    by_order: JudgedRecord | None,
    case: Case,
) -> str:
    first = case.first_seen
    low, high = messages
    what = f"message {low}" if high - low == 1 else f"messages {low} to {high - 1}"
    again = f" {case.count - 1} more such grants followed." if case.count > 1 else ""
    ending = (
        ": they are processed twice."
        if by_order is None
        else f", because the position was set back at offset {by_order.offset}."
    )
    return (
        f"{who(case.instance, case.client)} was granted {what} of {claim_name(key)} at offset "
        f"{first.offset} ({clock(first.clock_ms)}), which "
        f"{who(earlier.message.instance_id, earlier.message.client_id)} had been granted by "
        f"offset {earlier.offset}{ending}{again}"
    )

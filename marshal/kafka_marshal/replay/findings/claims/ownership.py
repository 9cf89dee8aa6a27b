"""Records of non-owners: late heartbeats that stole or were refused, releases by others.

The same record leads to two findings. Under the original's rules a zombie's heartbeat makes it the
owner; under the fenced rules it is refused, and the finding explains what was prevented.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from attrs import frozen

from kafka_marshal.core.claims import original
from kafka_marshal.core.claims.verdicts import ODD_HEADERS, WON_BY_REQUEST, Accepted, Refused
from kafka_marshal.core.messages import (
    ClaimingMessages,
    ClaimingPartition,
    Heartbeat,
    ReleasingPartition,
)
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.replay.findings.cases import Case
from kafka_marshal.replay.findings.groups.intervals import RefusedClaims
from kafka_marshal.replay.findings.observer import FindingObserver
from kafka_marshal.replay.model.events import Event, JudgedRecord, Tenure
from kafka_marshal.replay.model.phrasing import claim_name, clock, span, times, who
from kafka_marshal.replay.model.tenures import sightings

NOT_THE_OWNER: Final = frozenset(
    {Refused.NOBODY_OWNS, Refused.NOT_OWNER, Refused.SUPERSEDED, Refused.EPOCH_MISSING}
)
"""The guards that mean that the sender is not, or no longer, the owner."""
ODD: Final = frozenset(
    {
        Refused.FORGED,
        Refused.LOG_LOST_RECORDS,
        *ODD_HEADERS,
        Refused.UNKNOWN_VERSION,
    }
)
"""The guards that no ordinary race explains; each has its own code."""
LATE_MS: Final = 1000
"""If a record landed later than this, its sentence states how late: messages contain whole seconds.
"""


def steals(event: Event) -> bool:
    """Whether a heartbeat took the claim from a live owner. Only under `original`."""
    return (
        event.verdict is Accepted.OVERWRITTEN
        and event.before.owner_client != event.message.client_id
        and original.claimed(event.before, event.record.timestamp_ms, event.rules)
    )


def takes_without_claim(event: Event) -> bool:
    """A heartbeat made its sender the owner where none was alive. Only under `original`."""
    if not event.is_original or not event.began:
        return False
    if event.verdict is Accepted.OVERWRITTEN:
        return event.before.owner_client != event.message.client_id and not steals(event)
    return event.verdict is Accepted.REFRESHED


def ended_by_group(event: Event) -> bool:
    """The fenced rules ended a tenure because of a ReleaseGroup."""
    return event.ended and event.verdict is Accepted.GROUP_RELEASED


def of_its_own_earlier_tenure(event: Event) -> bool:
    """The owner won again while this record was in flight: it lost nothing.

    Consumers that share a claim are one instance: two of them win it one after the other when they
    begin.
    """
    return (
        event.verdict is Refused.SUPERSEDED
        and event.before.owner_instance == event.message.instance_id
    )


def _late(sighting: JudgedRecord) -> str:
    late_ms = sighting.sent_late_ms
    return f", written {span(late_ms)} before it landed" if late_ms > LATE_MS else ""


class Thefts(FindingObserver):
    """The original's rules: a heartbeat is enough to own."""

    def __init__(self) -> None:
        super().__init__()

    def observe(self, event: Event) -> None:
        """Open a case at a theft; it lasts while the two overwrite each other."""
        if event.verdict in WON_BY_REQUEST or not event.after.owned:
            self._cases.close(event.key)
            return
        if not event.began:
            return
        sender = event.message.instance_id, event.message.client_id
        if steals(event):
            pair = frozenset({event.message.instance_id, event.before.owner_instance})
            self._cases.add((event.key, pair), event.key, event.sighting, lambda: _theft(event))
        elif takes_without_claim(event):
            self._cases.add(
                (event.key, sender),
                event.key,
                event.sighting,
                lambda: Case.about(
                    "heartbeat_without_claim",
                    event.key,
                    sender,
                    partial(_without_claim, event.key),
                    sightings(event.tenure.last if event.tenure else None),
                ),
            )


def _without_claim(key: ClaimKey, case: Case) -> str:
    first = case.first_seen
    return (
        f"{who(case.instance, case.client)} became the owner of {claim_name(key)} by a bare "
        f"heartbeat at offset {first.offset} ({clock(first.clock_ms)}){_late(first)}: "
        f"it had not claimed it and no live consumer owned it."
    )


def _theft(event: Event) -> Case:
    victim = event.tenure
    sender = event.message.instance_id, event.message.client_id
    robbed = who(event.before.owner_instance, event.before.owner_client)
    background = sightings(victim.won_by, victim.last) if victim else []
    return Case.about(
        "late_heartbeat_stole",
        event.key,
        sender,
        partial(_stole, event.key, robbed, victim),
        background,
    )


def _stole(key: ClaimKey, robbed: str, victim: Tenure | None, case: Case) -> str:
    first = case.first_seen
    sentence = (
        f"{who(case.instance, case.client)} stole {claim_name(key)} from {robbed} at offset "
        f"{first.offset} ({clock(first.clock_ms)}) by a heartbeat{_late(first)}."
    )
    if victim is not None:
        how = "won" if victim.won_by.verdict in WON_BY_REQUEST else "got"
        sentence += (
            f" {victim.client} had {how} it at offset {victim.won_by.offset} and had last "
            f"spoken at offset {victim.last.offset}, "
            f"{span(first.clock_ms - victim.last_ms)} earlier."
        )
    if case.count > 1:
        sentence += (
            f" The two then overwrote each other {times(case.count - 1, 'more time')}, "
            f"until offset {case.last_seen.offset}."
        )
    return sentence


class ActsWithoutOwning(FindingObserver):
    """The fenced rules: records of an instance that is not the owner are refused."""

    passes_over_releases = True

    def __init__(self) -> None:
        super().__init__()
        self.known_from: Mapping[ClaimKey, int] = {}
        """A sender that names an epoch up to this one owned the claim before its owner was certain.
        """
        self._owned: dict[ClaimKey, dict[str, JudgedRecord]] = {}
        self._released_by_group: dict[ClaimKey, str] = {}
        self._refused_claims: dict[ClaimKey, JudgedRecord] = {}

    def observe(self, event: Event) -> None:
        """One case per claim, instance and epoch."""
        key, message = event.key, event.message
        if event.ended and event.tenure is not None:
            self._owned.setdefault(key, {})[event.tenure.instance] = event.sighting
            if ended_by_group(event):
                self._released_by_group[key] = event.tenure.instance
        if event.began:
            self._cases.close(key)
            self._released_by_group.pop(key, None)
            return
        if isinstance(message, ClaimingPartition) and isinstance(event.verdict, Refused):
            self._refused_claims[key] = event.sighting
        if (
            event.verdict in NOT_THE_OWNER
            and not of_its_own_earlier_tenure(event)
            and isinstance(message, Heartbeat | ClaimingMessages)
            and self._released_by_group.get(key) != message.instance_id
        ):
            self._cases.add(
                (key, message.instance_id), key, event.sighting, lambda: self._case(event)
            )

    def _case(self, event: Event) -> Case:
        sender = event.message.instance_id, event.message.client_id
        owner = event.tenure
        lost = self._owned.get(event.key, {}).get(event.message.instance_id)
        refused = self._refused_claims.get(event.key)
        if refused is not None and refused.message.instance_id != event.message.instance_id:
            refused = None
        acted = _Acted(event.key, owner, lost, refused, event.rules.stale_after_ms)
        epoch = event.record.headers.epoch
        owned = lost is not None or (
            epoch is not None and epoch <= self.known_from.get(event.key, -1)
        )
        code = "late_heartbeat_refused" if owned else "acts_without_owning"
        background = sightings(lost, refused, owner.won_by if owner else None)
        return Case.about(code, event.key, sender, acted.sentence, background)


@frozen
class _Acted:
    """The history of an instance that acts as the owner without owning."""

    key: ClaimKey
    owner: Tenure | None
    lost: JudgedRecord | None
    """The record that ended its own tenure."""
    refused: JudgedRecord | None
    """Its ClaimingPartition, if it was refused."""
    stale_after_ms: float

    def sentence(self, case: Case) -> str:
        """Describes who acted when, and why it was refused."""
        first, last = case.first_seen, case.last_seen
        owner, refused = self.owner, self.refused
        now = f"{who(owner.instance, owner.client)} owns it" if owner else "nobody owns it"
        when = (
            f"at offset {first.offset} ({clock(first.clock_ms)}{_late(first)})"
            if case.count == 1
            else f"{case.count} times, from offset {first.offset} ({clock(first.clock_ms)}"
            f"{_late(first)}) to {last.offset}"
        )
        sentence = (
            f"{who(case.instance, case.client)} acted as the owner of {claim_name(self.key)} "
        )
        sentence += f"{when}, and was refused: {now}"
        if self.lost is not None:
            sentence += f"; it had lost the claim at offset {self.lost.offset}"
        if refused is not None:
            sentence += f"; its ClaimingPartition at offset {refused.offset} was refused"
            if owner is not None and refused.verdict is Refused.LIVE_OWNER:
                silent = span(refused.clock_ms - owner.last_ms)
                if owner.last.offset < refused.offset:
                    sentence += f", {silent} after the owner's last record"
                    if refused.clock_ms - owner.last_ms > self.stale_after_ms - 1000:
                        sentence += (
                            f" (it is stale after more than {span(self.stale_after_ms)}; the "
                            f"original counts whole seconds)"
                        )
        return sentence + "."


class UnownedReleases(FindingObserver):
    """Both rule sets: a release by an instance that is not the owner."""

    passes_over_releases = True

    def __init__(self) -> None:
        super().__init__()
        self._released_by_group: dict[ClaimKey, str] = {}

    def observe(self, event: Event) -> None:
        """One case per claim and instance, until the claim has a new owner."""
        key, message = event.key, event.message
        if ended_by_group(event) and event.tenure is not None:
            self._released_by_group[key] = event.tenure.instance
        if event.began:
            self._cases.close(key)
            self._released_by_group.pop(key, None)
        if not isinstance(message, ReleasingPartition):
            return
        refused = event.verdict in NOT_THE_OWNER
        obeyed = event.verdict is Accepted.RELEASED and not event.before.owned
        if not (refused or obeyed) or self._released_by_group.get(key) == message.instance_id:
            return
        sender = message.instance_id, message.client_id
        owner = event.tenure
        now = f"{who(owner.instance, owner.client)} owned it" if owner else "nobody owned it"
        done = "refused" if refused else "obeyed all the same"
        sentence = partial(_released, key, now, done)
        self._cases.add(
            (key, sender),
            key,
            event.sighting,
            lambda: Case.about(
                "unowned_release", key, sender, sentence, sightings(owner.won_by if owner else None)
            ),
        )


def _released(key: ClaimKey, now: str, done: str, case: Case) -> str:
    first = case.first_seen
    return (
        f"{who(case.instance, case.client)} released {claim_name(key)} at offset {first.offset} "
        f"({clock(first.clock_ms)}) while {now}; it was {done}."
    )


class OddRecords(FindingObserver):
    """Guards that no ordinary race explains: forged, lost, from the future, not decimal."""

    def __init__(self, claims: RefusedClaims) -> None:
        """`claims` observes the same events: a claim granted by other rules is not lost."""
        super().__init__()
        self._claims = claims

    def observe(self, event: Event) -> None:
        """One case per claim, instance and guard."""
        guard = event.verdict
        self._claims.observe(event)
        if not isinstance(guard, Refused) or guard not in ODD:
            return
        if self._claims.granted_elsewhere(event):
            return
        code = guard.value
        sender = event.message.instance_id, event.message.client_id
        headers, version = event.record.headers, event.message.version
        epoch = event.before.epoch
        why = {
            Refused.FORGED: f"it carries the epoch {epoch} of another instance's win",
            Refused.LOG_LOST_RECORDS: f"it acts under epoch {headers.epoch}, but the last win in "
            f"this log is {'none' if epoch is None else f'at offset {epoch}'}",
            Refused.HEADER_FROM_THE_FUTURE: f"it refers to epoch {headers.epoch} and to offset "
            f"{headers.seen} as seen, at or after its own offset",
            Refused.HEADER_NOT_DECIMAL: "one of its marshal- headers is not a decimal number",
            Refused.UNKNOWN_VERSION: f"its message has version {version}",
        }[guard]
        self._cases.add(
            (event.key, sender, guard),
            None,
            event.sighting,
            lambda: Case.about(
                code,
                event.key,
                sender,
                partial(_odd, event.key, why),
                sightings(event.tenure.won_by if event.tenure else None),
            ),
        )


def _odd(key: ClaimKey, why: str, case: Case) -> str:
    first, more = case.first_seen, case.count - 1
    sentence = (
        f"A {type(first.message).__name__} of {who(case.instance, case.client)} for "
        f"{claim_name(key)} at offset {first.offset} ({clock(first.clock_ms)}) was refused: {why}"
    )
    return f"{sentence}; {more} more followed." if more else f"{sentence}."

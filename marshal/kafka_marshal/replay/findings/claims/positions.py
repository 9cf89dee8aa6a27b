"""Positions that move back, and pauses that do not hold.

Both are about administrators: only they may move a position back, and in a pause only its
administrator may own claims. `half_set` reports unfinished work.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from attrs import define

from kafka_marshal.core.claims.verdicts import WON_BY_REQUEST, Accepted, Refused
from kafka_marshal.core.messages import (
    ClaimingMessages,
    ClaimingPartition,
    Heartbeat,
    ReleaseGroup,
    ReleasingPartition,
)
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.replay.findings.cases import Case
from kafka_marshal.replay.findings.observer import FindingObserver
from kafka_marshal.replay.model.events import Event, JudgedRecord
from kafka_marshal.replay.model.phrasing import claim_name, clock, span, who

SAYS_A_POSITION: Final = frozenset(
    {
        Accepted.REFRESHED,
        Accepted.OVERWRITTEN,
        Accepted.FAST_RECLAIMED,
        Accepted.GRANTED,
        Accepted.RELEASED,
    }
)
"""Records that carry a position. A win under `original` may reset it, which no record states."""


class Positions(FindingObserver):
    """Positions that decreased without an administrator."""

    def __init__(self) -> None:
        super().__init__()
        self._stated: dict[ClaimKey, tuple[int, JudgedRecord]] = {}

    def moves_back(self, event: Event) -> bool:
        """Whether the record decreases the position below the last one that a record stated."""
        stated = self._stated.get(event.key)
        return (
            stated is not None
            and event.verdict in SAYS_A_POSITION
            and event.after.position < stated[0]
            and event.message.instance_id != event.before.pauser
        )

    def goes_on(self, key: ClaimKey, position: int, sighting: JudgedRecord) -> bool:
        """Note a position that did not decrease; otherwise note nothing and return False."""
        stated = self._stated.get(key)
        if stated is not None and position < stated[0]:
            return False
        self._stated[key] = position, sighting
        return True

    def forget(self, key: ClaimKey) -> None:
        """The position is no longer known."""
        self._stated.pop(key, None)

    def may_go_on(self, key: ClaimKey, position: int) -> bool:
        """Whether a position does not decrease."""
        stated = self._stated.get(key)
        return stated is None or position >= stated[0]

    def observe(self, event: Event) -> None:
        """One case per claim and sender, until the claim is won again."""
        if event.verdict in WON_BY_REQUEST:
            self._cases.close(event.key)
        if self.moves_back(event):
            self._cases.add(
                (event.key, event.message.instance_id),
                event.key,
                event.sighting,
                lambda: self._case(event),
            )
        if event.verdict in SAYS_A_POSITION or event.verdict is Accepted.POSITION_SET:
            self._stated[event.key] = event.after.position, event.sighting

    def _case(self, event: Event) -> Case:
        sender = event.message.instance_id, event.message.client_id
        before, said_by = self._stated[event.key]
        fell = partial(_moved_back, event.key, before, said_by, event.after.position)
        return Case.about("position_moved_back", event.key, sender, fell, [said_by])


def _moved_back(key: ClaimKey, before: int, said_by: JudgedRecord, after: int, case: Case) -> str:
    first = case.first_seen
    again = f", and again {case.count - 1} times" if case.count > 1 else ""
    return (
        f"A {type(first.message).__name__} of {who(case.instance, case.client)} moved the position "
        f"of {claim_name(key)} back from {before} (offset {said_by.offset}) to {after} at offset "
        f"{first.offset} ({clock(first.clock_ms)}){again}: what lies between is processed again."
    )


@define
class _Pause:
    """A pause as it applies to one claim."""

    by: JudgedRecord
    """The ReleaseGroup."""
    admin_done: bool = False
    """The pauser owned the claim in this pause and released it."""


class Pauses(FindingObserver):
    """Records that violated a pause."""

    def __init__(self) -> None:
        super().__init__()
        self._pauses: dict[str, tuple[JudgedRecord, int]] = {}
        self._of_claim: dict[ClaimKey, _Pause] = {}

    def known(self, group: str) -> bool:
        """Whether the group was ever paused."""
        return group in self._pauses

    def breaks(self, event: Event) -> bool:
        """Whether the record won, took or kept a claim in another instance's pause."""
        pause = self._holds(event)
        if pause is None:
            return False
        if event.verdict in WON_BY_REQUEST:
            return not pause.admin_done
        if event.verdict is Accepted.OVERWRITTEN:
            return True
        if event.verdict is Accepted.REFRESHED:
            owned_before = event.tenure is None or event.tenure.won_by.offset < pause.by.offset
            answered_ms = event.clock_ms - pause.by.clock_ms
            return owned_before and answered_ms > event.rules.heartbeat_interval_ms
        return False

    def _holds(self, event: Event) -> _Pause | None:
        """The pause that applies to the claim and not to the sender."""
        group = self._pauses.get(event.key.group)
        if group is None or isinstance(event.message, ReleaseGroup):
            return None
        by, until_ms = group
        if event.clock_ms >= until_ms or event.message.instance_id == by.message.instance_id:
            return None
        pause = self._of_claim.get(event.key)
        if pause is None or pause.by is not by:
            pause = self._of_claim[event.key] = _Pause(by)
        return pause

    def observe(self, event: Event) -> None:
        """One case per claim, instance and pause."""
        key, message = event.key, event.message
        if isinstance(message, ReleaseGroup):
            self._begin(event)
            return
        group = self._pauses.get(key.group)
        if group is None:
            return
        self._admin(event, group)
        sender = message.instance_id, message.client_id
        if event.is_original:
            if self.breaks(event):
                pause = self._of_claim[key]
                self._cases.add(
                    (key, sender, pause.by.offset),
                    key,
                    event.sighting,
                    lambda: _broken(event, pause.by, sender),
                )
            return
        held = event.verdict is Refused.IS_PAUSED or (
            event.verdict is Refused.NOBODY_OWNS
            and isinstance(message, Heartbeat | ClaimingMessages)
        )
        pause_held = self._holds(event) if held else None
        if pause_held is not None:
            self._cases.add(
                (key, sender, pause_held.by.offset),
                key,
                event.sighting,
                lambda: _held(event, pause_held.by, sender),
            )

    def _begin(self, event: Event) -> None:
        if event.verdict is not Accepted.GROUP_RELEASED:
            return
        until_ms = event.after.paused_until_ms or 0
        self._pauses[event.key.group] = event.sighting, until_ms
        self._of_claim[event.key] = _Pause(event.sighting)

    def _admin(self, event: Event, group: tuple[JudgedRecord, int]) -> None:
        """Note that the pauser is done with a claim."""
        by, _ = group
        tenure = event.tenure
        if tenure is None or tenure.instance != by.message.instance_id or not event.ended:
            return
        if isinstance(event.message, ReleasingPartition):
            pause = self._of_claim.get(event.key)
            if pause is None or pause.by is not by:
                pause = self._of_claim[event.key] = _Pause(by)
            pause.admin_done = True


def _broken(event: Event, by: JudgedRecord, sender: tuple[str, str]) -> Case:
    if event.verdict is Accepted.OVERWRITTEN:
        did = "took it by a heartbeat"
    else:
        did = "went on owning it" if event.verdict is Accepted.REFRESHED else "won it"
    sentence = partial(_broke, event.key, by, did)
    return Case.about("pause_broken", event.key, sender, sentence, [by])


def _broke(key: ClaimKey, by: JudgedRecord, did: str, case: Case) -> str:
    first = case.first_seen
    more = f" ({case.count} records, to offset {case.last_seen.offset})" if case.count > 1 else ""
    return (
        f"{who(by.message.instance_id, by.message.client_id)} had paused group "
        f"{key.group} at offset {by.offset}, but {who(case.instance, case.client)} {did}: "
        f"{claim_name(key)}, offset {first.offset}{more}, "
        f"{span(first.clock_ms - by.clock_ms)} into the pause."
    )


def _held(event: Event, by: JudgedRecord, sender: tuple[str, str]) -> Case:
    claims = isinstance(event.message, ClaimingPartition)
    did = "tried to claim" if claims else "went on speaking for"
    sentence = partial(_was_held, event.key, by, did)
    return Case.about("pause_held", event.key, sender, sentence, [by])


def _was_held(key: ClaimKey, by: JudgedRecord, did: str, case: Case) -> str:
    first = case.first_seen
    records = f"{case.count} records from" if case.count > 1 else "at"
    return (
        f"{who(case.instance, case.client)} {did} {claim_name(key)} while "
        f"{who(by.message.instance_id, by.message.client_id)} had paused the group (offset "
        f"{by.offset}): refused, {records} offset {first.offset} ({clock(first.clock_ms)})."
    )

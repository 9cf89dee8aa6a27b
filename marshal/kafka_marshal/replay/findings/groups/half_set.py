"""Administrators that set only some of the positions they were asked to set.

An administrator that dies cannot report what it has set; the log can (Spec: HalfSetInLog). This
module reports a claim that was won in a pause and not set, once the pause is over for good. That is
when another administrator pauses the group, or when the log ends and the administrator is silent.
Until then it may still set the claim. `core.claims.pause_work` defines what counts as set. The
original's rules have no epochs, so under them, winners and releases are taken from the tenures.

An instance that ends a pause wins claims with the pauser's instance id and its own client id. It
sets no positions, so its claims are not reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attrs import define, field

from kafka_marshal.core.claims.pause_work import (
    NO_WORK,
    PauseWork,
    left_undone,
    work_after,
    work_paused,
    work_released,
    work_won,
)
from kafka_marshal.core.claims.verdicts import Accepted
from kafka_marshal.core.messages import ReleaseGroup
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.replay.findings.cases import Case
from kafka_marshal.replay.findings.catalogue import ERROR
from kafka_marshal.replay.findings.observer import FindingObserver, LogEnd
from kafka_marshal.replay.model.events import Event, JudgedRecord, Tenure
from kafka_marshal.replay.model.phrasing import claim_name, who
from kafka_marshal.replay.model.published import FindingRow
from kafka_marshal.replay.model.tenures import sightings


@define
class _Won:
    """A claim that the administrator of a pause won, and its fate."""

    tenure: Tenure
    ended_by: JudgedRecord | None = None
    """The record that ended the tenure; None while it is open."""


@define
class _Pause:
    """The current or last pause of a group."""

    work: PauseWork = NO_WORK
    won: dict[ClaimKey, _Won] = field(factory=dict)
    last: JudgedRecord | None = None
    """The pauser's last record."""


class HalfSet(FindingObserver):
    """Positions that an administrator claimed and did not set."""

    def __init__(self) -> None:
        super().__init__()
        self._pauses: dict[str, _Pause] = {}
        self._paused_by: dict[str, str] = {}
        """For each group, the client id of its latest ReleaseGroup, if the log has it."""
        self._ready: list[FindingRow] = []

    def paused(self, message: ReleaseGroup) -> None:
        """Observe an accepted ReleaseGroup, even one before any claim of its group was known."""
        self._paused_by[message.group_id] = message.client_id

    def observe(self, event: Event) -> None:
        """Fold the work of the group's latest pause."""
        paused_by = event.after.pauser
        if paused_by is None:
            return
        pause = self._pauses.setdefault(event.key.group, _Pause())
        message = event.message
        if pause.work.by != paused_by:
            # A ReleaseGroup before any claim was known reaches nobody who watches; there was no
            # work then, either.
            self._ready += self._left(event.key.group, event.sighting)
            pause.work, pause.won = work_paused(pause.work, paused_by), {}
        elif isinstance(message, ReleaseGroup) and event.verdict is Accepted.GROUP_RELEASED:
            pause.work = work_paused(pause.work, paused_by)
        if message.instance_id == paused_by:
            pause.last = event.sighting
        before = event.tenure
        if event.ended and before is not None and before.instance == paused_by:
            won = pause.won.get(event.key)
            if won is not None and won.ended_by is None:
                won.ended_by = event.sighting
        if isinstance(message, ReleaseGroup):
            return
        pause.work = _after(pause.work, event)
        begun = event.tenure_after
        if event.began and begun is not None and begun.instance == paused_by:
            client = self._paused_by.get(event.key.group, begun.client)
            if client == begun.client:
                pause.won[event.key] = _Won(begun)

    def _left(self, group: str, next_pause: JudgedRecord | None) -> Iterator[FindingRow]:
        """The claims that this group's pause has left undone."""
        pause = self._pauses[group]
        for key in sorted(left_undone(pause.work)):
            won = pause.won.get(key)
            if won is not None:
                yield _row(key, won, pause.work, next_pause)

    def drain(self) -> Iterable[FindingRow]:
        """The findings that are over."""
        ready = self._ready
        if ready:
            self._ready = []
        return ready

    def at_the_end(self, end: LogEnd) -> Iterator[FindingRow]:
        """Those of administrators that were silent when the log ended."""
        yield from self.drain()
        for group, pause in self._pauses.items():
            spoke_ms = [
                tenure.last_ms
                for key, tenure in end.tenures.items()
                if key.group == group and tenure.instance == pause.work.by
            ]
            if pause.last is not None:
                spoke_ms.append(pause.last.clock_ms)
            stale_after_ms = end.rules_of(group).stale_after_ms
            if end.clock_ms - max(spoke_ms, default=0) > stale_after_ms:
                yield from self._left(group, None)


def _after(work: PauseWork, event: Event) -> PauseWork:
    if not event.is_original:
        return work_after(work, event.key, event.before, event.record, event.after)
    sender, begun, before = event.message.instance_id, event.tenure_after, event.tenure
    if event.began and begun is not None and begun.instance == sender:
        return work_won(work, event.key, sender)
    if event.ended and before is not None and before.instance == sender:
        return work_released(work, event.key, event.record)
    return work


def _row(key: ClaimKey, won: _Won, work: PauseWork, next_pause: JudgedRecord | None) -> FindingRow:
    tenure, ended = won.tenure, won.ended_by
    others = sorted(work.set)
    admin = who(tenure.instance, tenure.client)
    if ended is None and next_pause is None:
        how = f"but fell silent after offset {tenure.last.offset} and never released it"
    else:
        by = ended or next_pause
        assert by is not None
        if key in work.let_go and by.message.instance_id == tenure.instance:
            how = f"but gave it back unset at offset {by.offset}"
        else:
            ender = who(by.message.instance_id, by.message.client_id)
            verdict = by.verdict.value.replace("_", " ")
            how = f"but did not release it: {ender} ended its tenure at offset {by.offset}"
            how += f" ({verdict})"
    result = (
        "though it had set " + ", ".join(map(claim_name, others)) + ": the positions are half set"
        if others
        else "so no position was set"
    )
    case = Case.about(
        "set_position_half_done",
        key,
        (tenure.instance, tenure.client),
        lambda case: (
            f"{admin} paused group {key.group} and won {claim_name(key)} at offset "
            f"{tenure.won_by.offset}, {how}, {result}."
        ),
        sightings(tenure.won_by, tenure.last),
    )
    case.severity = ERROR if others else None
    case.add(ended or next_pause or tenure.last)
    return case.row()

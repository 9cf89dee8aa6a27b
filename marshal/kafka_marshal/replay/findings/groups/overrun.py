"""Pauses that expired before their administrator ended them.

After the expiry any consumer may win the claims again, so positions that the administrator sets
later are in a race with the group's consumers.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from attrs import frozen

from kafka_marshal.core.claims.verdicts import Accepted
from kafka_marshal.core.messages import ReleaseGroup
from kafka_marshal.replay.findings.cases import Case
from kafka_marshal.replay.findings.observer import FindingObserver, LogEnd
from kafka_marshal.replay.model.events import Event, JudgedRecord
from kafka_marshal.replay.model.phrasing import clock, span, who
from kafka_marshal.replay.model.published import FindingRow


@frozen
class _Pause:
    by: JudgedRecord
    until_ms: int


class PauseRanOut(FindingObserver):
    """Administrators that still acted when their pause was over."""

    def __init__(self) -> None:
        super().__init__()
        self._pauses: dict[str, _Pause] = {}
        self._ran_out: dict[tuple[str, int], Case] = {}

    def observe(self, event: Event) -> None:
        """One case per pause."""
        group, message = event.key.group, event.message
        if isinstance(message, ReleaseGroup):
            if event.verdict is Accepted.GROUP_RELEASED:
                until_ms = event.after.paused_until_ms
                # An expired ReleaseGroup pauses nothing: its time is over as it lands.
                over_ms = event.clock_ms if until_ms is None else until_ms
                self._pauses[group] = _Pause(event.sighting, over_ms)
            return
        pause = self._pauses.get(group)
        if (
            pause is None
            or event.clock_ms < pause.until_ms
            or message.instance_id != pause.by.message.instance_id
        ):
            return
        name = group, pause.by.offset
        case = self._ran_out.get(name)
        if case is None:
            sender = message.instance_id, message.client_id
            sentence = partial(_ran_out, pause)
            case = Case("pause_ran_out", group, None, None, *sender, sentence, [pause.by])
            self._ran_out[name] = case
        case.add(event.sighting)

    def at_the_end(self, end: LogEnd) -> Iterator[FindingRow]:
        """All findings."""
        for case in self._ran_out.values():
            yield case.row()


def _ran_out(pause: _Pause, case: Case) -> str:
    first, last = case.first_seen, case.last_seen
    until = "" if case.count == 1 else f" to {last.offset}, {case.count} records"
    return (
        f"The pause of group {case.group} that {who(case.instance, case.client)} had asked for at "
        f"offset {pause.by.offset} was over at {clock(pause.until_ms)}, but it still acted "
        f"{span(first.clock_ms - pause.until_ms)} later, at offset {first.offset}{until}: by then "
        f"any consumer could take what it was about to set."
    )

"""Groups with two heartbeat intervals, or another one than they are judged by.

Claims state their sender's interval (versions before 0.2.0 do not). If they do not, there is
another sign: a sender acts under a claim that these rules refused, so other rules granted it. This
does not mean that the log has lost a record.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from attrs import define, field

from kafka_marshal.core.claims.verdicts import Refused
from kafka_marshal.core.messages import ClaimingPartition
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.replay.findings.cases import Case
from kafka_marshal.replay.findings.catalogue import ERROR
from kafka_marshal.replay.findings.observer import FindingObserver
from kafka_marshal.replay.model.events import Event
from kafka_marshal.replay.model.phrasing import span, times

CLIENTS_MAX = 5
"""The most clients of one interval to name in a sentence."""


class RefusedClaims:
    """For each claim and instance, the last ClaimingPartition that met a live owner."""

    def __init__(self) -> None:
        self._offsets: dict[tuple[ClaimKey, str], int] = {}

    def observe(self, event: Event) -> None:
        """Remember it."""
        if event.verdict is Refused.LIVE_OWNER and isinstance(event.message, ClaimingPartition):
            self._offsets[event.key, event.message.instance_id] = event.record.offset

    def granted_elsewhere(self, event: Event) -> bool:
        """It acts under its own claim that these rules refused: other rules granted it."""
        epoch = event.record.headers.epoch
        refused = self._offsets.get((event.key, event.message.instance_id))
        return (
            event.verdict is Refused.LOG_LOST_RECORDS and refused is not None and refused == epoch
        )


@define
class _Group:
    clients: dict[int, set[str]] = field(factory=dict)
    """By interval: the clients that state it."""
    refused: int = 0
    """Records under a claim that these rules refused."""
    case: Case | None = None
    """The finding, once it has begun."""


class IntervalMismatches(FindingObserver):
    """One finding for every group that these rules judge by another interval than its members."""

    def __init__(self, claims: RefusedClaims) -> None:
        """`claims` must have observed every event before."""
        super().__init__()
        self._claims = claims
        self._groups: dict[str, _Group] = {}

    def stated(self, name: str, interval_ms: int, clients: Iterable[str]) -> None:
        """Clients of a group state the interval that they are judged by."""
        group = self._groups.setdefault(name, _Group())
        group.clients.setdefault(interval_ms, set()).update(clients)
        if len(group.clients) > 1 and group.case is not None:
            group.case.severity = ERROR

    def observe(self, event: Event) -> None:
        """Note stated intervals, and records under claims that these rules refused."""
        stated = event.record.headers.interval_ms
        elsewhere = self._claims.granted_elsewhere(event)
        if not isinstance(event.message, ClaimingPartition):
            stated = None  # a heartbeat repeats its claim's, and there are very many
        if stated is None and not elsewhere:
            return
        name = event.key.group
        group = self._groups.setdefault(name, _Group())
        group.refused += elsewhere
        differs = stated is not None and stated != event.rules.heartbeat_interval_ms
        if stated is not None:
            group.clients.setdefault(stated, set()).add(event.message.client_id)
        if differs or elsewhere:
            sentence = partial(_sentence, group, event.rules.heartbeat_interval_ms)
            group.case = self._cases.add(
                name,
                None,
                event.sighting,
                lambda: Case("interval_mismatch", name, None, None, None, None, sentence),
            )
        if len(group.clients) > 1 and group.case is not None:
            group.case.severity = ERROR


def _sentence(group: _Group, given_ms: float, case: Case) -> str:
    judged = f"this judges by {span(int(given_ms))}"
    acts = (
        f"{times(group.refused, 'record')} of group {case.group} act under a claim that is in the "
        f"log and that these rules refused: it had a live owner"
    )
    if not group.clients:
        return (
            f"{acts}. Its consumers are probably run with another heartbeat interval; {judged}. "
            f"What is reported of ownership is then wrong."
        )
    stated = ", ".join(
        f"{'client' if len(clients) == 1 else 'clients'} "
        f"{', '.join(sorted(clients)[:CLIENTS_MAX])} {'says' if len(clients) == 1 else 'say'} "
        f"{span(interval_ms)}"
        for interval_ms, clients in sorted(group.clients.items(), reverse=True)
    )
    two = (
        " Two intervals in one group process everything twice."
        if len(group.clients) > 1
        else " What is reported of ownership is wrong."
    )
    more = f" {acts}." if group.refused else ""
    return f"Group {case.group}: {stated}, and {judged}.{two}{more}"

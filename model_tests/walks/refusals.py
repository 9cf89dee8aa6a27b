"""What a machine must answer when it is asked, without the machine: from the log and a memory.

The guards once more, by name, over what a walk saw: the claim as all of the log makes it, what an
instance sent, read back and processed. Only for those who read everything; what may be certain for
others is SuffixExact's business. A guard that is left out and breaks no property (R6) shows here.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from kafka_marshal import Accepted, Record
from kafka_marshal.core.messages import ClaimingPartition
from kafka_marshal.core.state import Claim
from kafka_marshal.counterexample.records import RecordOutcome
from kafka_marshal.machines.consumer.consumer import Forbidden, Mode
from model_tests.walks.moves import Move
from model_tests.walks.properties import broken
from model_tests.walks.simulation import Instance, Simulation

F = Forbidden


@attrs.define(eq=False)
class _Memory:
    """What one instance did about one claim."""

    view: int = 0
    released: set[int] = attrs.field(factory=set)
    """Epochs under which it sent a release (R7)."""
    requests: int = 0
    """ClaimingPartitions that it waits to read back: none or one (R6)."""
    fenced: bool = False
    """Another instance of its own client took the claim from it."""
    next: int = 0
    granted: set[int] = attrs.field(factory=set)


class Refusals:
    """Watches a simulation, and raises `Broken` when a machine gives a wrong answer."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self._memories: dict[tuple[str, str], _Memory] = {}

    def _memory(self, who: Instance, claim: str) -> _Memory:
        return self._memories.setdefault((who.me.instance_id, claim), _Memory())

    def asked(self, who: Instance, move: Move, against: Forbidden | None) -> None:
        """Compare, and remember what it will now do."""
        if who.late:
            return
        memory = self._memory(who, move.claim)
        claim = self.simulation.histories[move.claim].before(memory.view)
        must = self._against(who, memory, claim, move)
        if must is not against:
            name = (must or against or F.STOPPED).name.title().replace("_", "")
            said = "it may" if against is None else f"{against.value}"
            why = f"{who.me.instance_id}, asked for {move.action}, says {said}"
            raise broken(f"Forbidden{name}", move.claim, why)
        if against is None:
            self._remember(memory, claim, move)

    @staticmethod
    def _remember(memory: _Memory, claim: Claim, move: Move) -> None:
        match move.action:
            case "SendClaimingPartition":
                memory.requests = 1
            case "GiveUp":
                memory.requests = 0
            case "SendReleasingPartition" if claim.epoch is not None:
                # Only the latest counts: an epoch never comes back.
                memory.released = {claim.epoch}
            case "Process":
                memory.next += 1
            case "ProcessGrant":
                memory.granted.clear()
            case _:
                pass

    @staticmethod
    def _acts(who: Instance, memory: _Memory, claim: Claim) -> bool:
        mine = claim.owner_instance == who.me.instance_id
        return mine and claim.epoch not in memory.released

    def _against(
        self, who: Instance, memory: _Memory, claim: Claim, move: Move
    ) -> Forbidden | None:
        """Every reason there is, in the order of `Forbidden`; the first counts."""
        me = who.me
        reasons: set[Forbidden] = set()
        owning = {"SendHeartbeat", "SendReleasingPartition", "SendClaimingMessages", "Process"}
        if memory.fenced and move.action in owning | {"SendClaimingPartition"}:
            reasons.add(F.STOPPED)
        if move.action in owning:
            if claim.owner_instance != me.instance_id:
                reasons.add(F.NOT_OWNER)
            elif not self._acts(who, memory, claim):
                reasons.add(F.RESIGNED)
        match move.action:
            case "SendClaimingPartition":
                if me.admin and claim.pauser != me.instance_id:
                    reasons.add(F.NOTHING_PAUSED)
                if self._acts(who, memory, claim):
                    reasons.add(F.ALREADY_OWNER)
                if memory.requests:
                    reasons.add(F.AWAITS_READ_BACK)
            case "SendClaimingMessages":
                if me.admin or me.mode is not Mode.AT_MOST_ONCE:
                    return F.NOT_AT_MOST_ONCE
                if move.number <= claim.position:
                    reasons.add(F.NOTHING_AHEAD)
                if move.number > claim.position + me.batch:
                    reasons.add(F.BEYOND_BATCH)
            case "Process":
                if me.admin or me.mode is not Mode.AT_LEAST_ONCE:
                    return F.NOT_AT_LEAST_ONCE
                if memory.next >= claim.position + me.window:
                    reasons.add(F.BEYOND_WINDOW)
            case "ProcessGrant" if not memory.granted:
                reasons.add(F.NOT_GRANTED)
            case "GiveUp" if not memory.requests:
                reasons.add(F.NOTHING_ASKED)
            case "SendReleaseGroup" if not me.admin:
                reasons.add(F.NOT_ADMIN)
            case _:
                pass
        return next((each for each in Forbidden if each in reasons), None)

    def appended(self, claim: str, judged: RecordOutcome) -> None:
        """What nobody has read changes no answer."""

    def processed(self, who: Instance, claim: str, messages: Iterable[int]) -> None:
        """Remembered when it was allowed."""

    def has_read(self, who: Instance, claim: str, record: Record) -> None:
        """What it means for its reader, by the log."""
        memory, history = self._memory(who, claim), self.simulation.histories[claim]
        before = history.before(memory.view)
        memory.view = record.offset + 1
        after, message = history.before(memory.view), record.message
        acted, acts = self._acts(who, memory, before), self._acts(who, memory, after)
        mine = message.instance_id == who.me.instance_id
        if mine and isinstance(message, ClaimingPartition):
            memory.requests = 0
        if acted and after.owner_client == who.me.client_id and not acts:
            memory.fenced = True
        if acts and (not acted or before.epoch != after.epoch):
            memory.next = after.position
        verdict = history.judged(record.offset).verdict
        if mine and verdict is Accepted.GRANTED:
            memory.granted.update(range(before.position, after.position))

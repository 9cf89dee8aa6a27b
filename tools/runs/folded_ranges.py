"""The claims of a coordinating partition and their ranges, folded by the reducer that ships.

What each record did is a `RangesStep`. This room does not know where records come from, nor what is
asked of a step.
"""

from __future__ import annotations

from attrs import define, field

from kafka_marshal.core.messages import ClaimingRange, ReleaseGroup
from kafka_marshal.core.partition_states import PartitionStates
from kafka_marshal.core.ranges.invariants import RangesStep
from kafka_marshal.core.ranges.messages import RangesRecord
from kafka_marshal.core.ranges.reader import FoldedState
from kafka_marshal.core.ranges.reducer import claim_outcome, step
from kafka_marshal.core.ranges.state import LIMITS, Ranges
from kafka_marshal.core.state import Claim, ClaimKey, Rules


def _states() -> PartitionStates[ClaimKey, FoldedState]:
    return PartitionStates(FoldedState(Claim(), Ranges()))


@define
class FoldedPartition:
    """One coordinating partition."""

    rules: Rules
    states: PartitionStates[ClaimKey, FoldedState] = field(factory=_states)

    def apply(self, record: RangesRecord) -> list[tuple[ClaimKey, RangesStep]]:
        """The next record, and what it did to each claim."""
        message = record.message
        if isinstance(message, ReleaseGroup):
            _, stepped = self.states.step_group(message.group_id, _step, record, self.rules)
            return [(each.key, each.verdict) for each in stepped]
        _, _, taken = self.states.step(message.key, _step, record, self.rules)
        return [(message.key, taken)]


def _step(state: FoldedState, record: RangesRecord, rules: Rules) -> tuple[FoldedState, RangesStep]:
    claim, message = state.claim, record.message
    outcome = step(state.ranges, claim, record, rules)
    if not isinstance(message, ClaimingRange):
        claim, _ = claim_outcome(claim, record, message, rules)
    taken = RangesStep(state.ranges, state.claim, record, outcome, claim, rules, LIMITS)
    return FoldedState(claim, outcome.ranges), taken

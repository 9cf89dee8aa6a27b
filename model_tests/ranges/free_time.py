"""Free time for ranges, as `model_tests.explorer.free_time` gives it to a claim.

In the free models a record says for itself who was silent by then. The Python only knows when each
was last heard of. So for the length of one step the signs of life get times of which the clock says
just that. Afterwards the times that the step did not write are put back.
"""

from __future__ import annotations

import attrs

from kafka_marshal import Claim, Rules
from kafka_marshal.core.messages import ClaimingRange, Record
from kafka_marshal.core.ranges import reducer
from kafka_marshal.core.ranges.claiming_range import RangeOutcome
from kafka_marshal.core.ranges.ordinary import ordinary_request
from kafka_marshal.core.ranges.reducer import step as ranges_step
from kafka_marshal.core.ranges.state import Limits, Ranges, SignOfLife
from model_tests.explorer.free_time import Stored
from model_tests.explorer.free_time import as_said as claim_as_said
from model_tests.explorer.free_time import as_written as claim_as_written
from model_tests.ranges.from_tla import Landed


@attrs.frozen
class Storeys:
    """What a record does to a claim and to its ranges, in the time that a model has."""

    rules: Rules
    limits: Limits
    time_is_free: bool

    def step(self, claim: Claim, ranges: Ranges, landed: Landed) -> tuple[Claim, RangeOutcome]:
        """Spec: RangesStep, ClaimOutcome."""
        if not self.time_is_free:
            return self._taken(claim, ranges, landed)
        said, said_of = self._claim_as_said(claim, landed), self._as_said(ranges, landed)
        after, outcome = self._taken(said, said_of, landed)
        signs = {each.instance: each for each in ranges.alive}
        touched = {*outcome.ranges.alive} - {*said_of.alive}
        alive = tuple(
            each if each in touched or each.instance not in signs else signs[each.instance]
            for each in outcome.ranges.alive
        )
        written = attrs.evolve(outcome.ranges, alive=alive)
        return claim_as_written(claim, said, after), attrs.evolve(outcome, ranges=written)

    def agree_in_one_pass(self, claim: Claim, ranges: Ranges, landed: Landed) -> bool | None:
        """Whether an ordinary request is folded in one pass as it is else; None if it is none."""
        record, message = landed.record, landed.record.message
        if not isinstance(message, ClaimingRange):
            return None
        before = self._as_said(ranges, landed) if self.time_is_free else ranges
        judged = self.rules, self.limits
        in_one_pass = ordinary_request(before, claim, record, message, *judged)
        if in_one_pass is None:
            return None
        return in_one_pass == ranges_step(before, claim, record, *judged)

    def _taken(self, claim: Claim, ranges: Ranges, landed: Landed) -> tuple[Claim, RangeOutcome]:
        record, message = landed.record, landed.record.message
        outcome = ranges_step(ranges, claim, record, self.rules, self.limits)
        if isinstance(message, ClaimingRange):
            return claim, outcome
        after, verdict = reducer.claim_outcome(claim, record, message, self.rules)
        assert outcome.verdict is verdict
        return after, outcome

    def _claim_as_said(self, claim: Claim, landed: Landed) -> Claim:
        record, message = landed.record, landed.record.message
        if isinstance(message, ClaimingRange):
            return claim
        theirs = Record(0, record.offset, record.timestamp_ms, message, record.headers)
        return claim_as_said(claim, Stored(theirs, landed.stale, landed.pause_over), self.rules)

    def _as_said(self, ranges: Ranges, landed: Landed) -> Ranges:
        now_ms = max(ranges.clock_ms, landed.record.timestamp_ms)
        long_ago_ms = now_ms - int(self.rules.stale_after_ms) - 1
        alive = (
            SignOfLife(each.instance, long_ago_ms if each.instance in landed.silent else now_ms)
            for each in ranges.alive
        )
        return attrs.evolve(ranges, alive=tuple(alive))

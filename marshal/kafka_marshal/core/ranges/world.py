"""`RangesWorld`: the ranges of every claim of one coordinating partition, on top of its `World`.

This module knows which records reach ranges, and what is stored for a key. It does not know their
effect (see `reducer`), nor where records come from. `World` folds the claims, and never uses this
module.
"""

from __future__ import annotations

from typing import Final, Protocol

from kafka_marshal.core.claims.verdicts import FENCED_WINS, Accepted, ReadTwice, Verdict
from kafka_marshal.core.messages import ClaimingRange
from kafka_marshal.core.ranges.claiming_range import RangeOutcome
from kafka_marshal.core.ranges.messages import RangesRecord
from kafka_marshal.core.ranges.ordinary import ordinary_request
from kafka_marshal.core.ranges.reducer import after_claim, step
from kafka_marshal.core.ranges.state import LIMITS, Limits, Ranges
from kafka_marshal.core.state import Claim, ClaimKey, Rules
from kafka_marshal.core.values import evolved

BEGIN_OR_END: Final = FENCED_WINS | {Accepted.POSITION_SET}
"""The effects of the five messages on a claim that also affect its ranges."""

NO_RANGES: Final = Ranges()
"""Before the first range tenure. Spec: NewRanges."""


class ClaimsBelow(Protocol):
    """Claims of one coordinating partition, known from its first record on, such as a `World`."""

    @property
    def rules(self) -> Rules:
        """The fenced rules."""

    def claim(self, key: ClaimKey) -> Claim:
        """The state of one claim."""

    def read_before(self, record: RangesRecord) -> ReadTwice | None:
        """Whether a record at this offset is the one just folded and, if so, is the same."""

    def pass_over(self, record: RangesRecord) -> None:
        """Count a record as folded that affects no claim."""


class RangesWorld:
    """Folds the records of one coordinating partition into ranges. Spec: RangesStep, for every key.

    The clock of ranges advances with every record of the claim. It is updated to the claim's only
    when something else about the ranges is read or changes, so an ordinary heartbeat costs nothing
    here.
    """

    shortcut = True
    """Whether ordinary requests are folded in one pass; a test compares the two ways."""

    def __init__(self, world: ClaimsBelow, limits: Limits = LIMITS) -> None:
        """Begin with no ranges.

        Args:
            world: the claims, under the fenced rules. Every record of the five messages must go
                through it before it comes here.
            limits: those of the message's version; a model has smaller ones.
        """
        self._world = world
        self.limits = limits
        self._ranges: dict[ClaimKey, Ranges] = {}
        self._shared: set[ClaimKey] = set()

    def of(self, key: ClaimKey) -> Ranges | None:
        """The ranges of a claim; None before its first range tenure."""
        return self._at(key, self._world.claim(key)) if key in self._shared else None

    def latest(self, key: ClaimKey) -> Ranges | None:
        """The same, but the clock may be behind its claim's."""
        return self._ranges[key] if key in self._shared else None

    def put(self, key: ClaimKey, ranges: Ranges) -> None:
        """Set the ranges of a shared claim that were folded elsewhere, in an earlier run."""
        self._ranges[key] = ranges

    def observe(self, record: RangesRecord, key: ClaimKey, verdict: Verdict | ReadTwice) -> None:
        """Begin, continue or end ranges after one of the five messages changed its claim."""
        if isinstance(verdict, ReadTwice) or verdict not in BEGIN_OR_END:
            return
        claim = self._world.claim(key)
        after = after_claim(self._at(key, claim), claim, record, verdict)
        if after.has_begun:
            self._shared.add(key)
        if key in self._shared:
            self._ranges[key] = after

    def apply(
        self, record: RangesRecord, message: ClaimingRange, rules: Rules | None = None
    ) -> RangeOutcome | ReadTwice:
        """Fold a ClaimingRange, by the world's rules unless others are given.

        Raises:
            OutOfOrder: the record's offset is below one already folded.
        """
        twice = self._world.read_before(record)
        if twice is not None:
            return twice
        self._world.pass_over(record)
        key = message.key
        claim = self._world.claim(key)
        judging = rules or self._world.rules
        outcome = None
        if self.shortcut:
            ranges = self._ranges.get(key, NO_RANGES)
            outcome = ordinary_request(ranges, claim, record, message, judging, self.limits)
        if outcome is None:
            outcome = step(self._at(key, claim), claim, record, judging, self.limits)
        self._ranges[key] = outcome.ranges
        return outcome

    def _at(self, key: ClaimKey, claim: Claim) -> Ranges:
        """The ranges of a key, with their clock no earlier than the claim's."""
        ranges = self._ranges.get(key, NO_RANGES)
        if ranges.clock_ms >= claim.clock_ms:
            return ranges
        return evolved(ranges, clock_ms=claim.clock_ms)

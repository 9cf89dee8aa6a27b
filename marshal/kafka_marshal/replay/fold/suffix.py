"""Logs with a missing head: which claims are certain, and from which record on.

Retention removes the head of a log, so the claims' state at its start is unknown. Each claim's
records are folded by a `Reader` (`core.claims.suffix_reader`) until every reported fact of the
claim is certain. From then on the `World` folds it like any other claim. This module knows which
claims are in which state; `ruleset_fold` knows what is reported of them.

Who paused the group last is often never certain, since only a ReleaseGroup states it. It affects
one thing only: whether a release without `marshal-set-position` set the position. If it matters,
such a release returns the claim to its reader.
"""

from __future__ import annotations

from typing import Final

import attrs
from attrs import define, field, frozen

from kafka_marshal.core.claims.suffix_reader import EVERYTHING, LASTING, Field, Reader, read_record
from kafka_marshal.core.claims.verdicts import Verdict
from kafka_marshal.core.claims.world import World
from kafka_marshal.core.messages import Record, ReleaseGroup, ReleasingPartition
from kafka_marshal.core.partition_states import PartitionStates
from kafka_marshal.core.state import Claim, ClaimKey, Rules
from kafka_marshal.replay.model.internal import PartitionRow

NEEDED: Final = Field.OWNER | Field.EPOCH | Field.POSITION | Field.CLOCK
"""What must be certain before a claim is reported: all its columns in the table `claims`."""


@frozen
class UncertainRecord:
    """A record of a claim that is uncertain before or after it."""

    key: ClaimKey
    before: Reader
    after: Reader
    verdict: Verdict | None
    """Its verdict; None if that cannot be known."""
    seeded: bool = False
    """Whether the claim becomes certain with it."""
    lost: bool = False
    """Whether the claim becomes uncertain again with it."""


@define
class Suffix:
    """The uncertain claims of one coordinating partition."""

    first: int
    """The offset where reading began."""
    unknowable: int = 0
    """The number of records about claims that were uncertain even after them."""
    shared: set[ClaimKey] = field(factory=set)
    """The claims that have ranges, which nobody judges in such a log."""
    _readers: PartitionStates[ClaimKey, Reader] = field(init=False)
    _known_from: dict[ClaimKey, int] = field(factory=dict)
    _pauser_open: set[ClaimKey] = field(factory=set)

    @_readers.default
    def _none(self) -> PartitionStates[ClaimKey, Reader]:
        return PartitionStates(Reader.beginning_at(self.first))

    @property
    def uncertain(self) -> dict[ClaimKey, Reader]:
        """The uncertain claims, and what is known of each."""
        return self._readers.all()

    @property
    def known_from(self) -> dict[ClaimKey, int]:
        """By claim, the record after which it became certain the first, or last, time."""
        return self._known_from

    def counted_in(self, row: PartitionRow) -> PartitionRow:
        """The row, with how much of the log is certain."""
        return attrs.evolve(
            row,
            claims_known_later=len(self._known_from),
            claims_never_known=len(self.uncertain),
            known_from_first=min(self._known_from.values(), default=None),
            known_from_last=max(self._known_from.values(), default=None),
            unknowable=self.unknowable,
            claims_ranges_unjudged=len(self.shared),
        )

    def read(self, record: Record, world: World, rules: Rules) -> UncertainRecord | None:
        """Fold a record about one claim; None if the claim is certain, and `world` must fold it."""
        message = record.message
        assert not isinstance(message, ReleaseGroup)
        key = message.key
        if key in self._known_from:
            if key not in self._pauser_open or not isinstance(message, ReleasingPartition):
                return None
            return self._doubted(key, world.claim(key), record, rules)
        before, after, verdict = self._readers.step(key, read_record, record, rules)
        if NEEDED not in after.certain:
            self.unknowable += 1
            return UncertainRecord(key, before, after, verdict)
        self._readers.forget(key)
        self._known_from[key] = record.offset
        if Field.PAUSER not in after.certain:
            self._pauser_open.add(key)
        return UncertainRecord(key, before, after, verdict, seeded=True)

    def _doubted(
        self, key: ClaimKey, claim: Claim, record: Record, rules: Rules
    ) -> UncertainRecord | None:
        unsure = Field.PAUSER if claim.position_set else LASTING
        before = Reader(claim, EVERYTHING & ~unsure)
        after, verdict = read_record(before, record, rules)
        if NEEDED in after.certain:
            return None
        self.unknowable += 1
        self._readers.put(key, after)
        self._pauser_open.discard(key)
        del self._known_from[key]
        return UncertainRecord(key, before, after, verdict, lost=True)

    def release_group(self, record: Record, group: str, rules: Rules) -> list[UncertainRecord]:
        """Fold a ReleaseGroup into the claims of its group that are uncertain, and stay so.

        It determines the owner and the pause; it leaves epoch and position as they were.
        """
        _, reached = self._readers.step_group(group, read_record, record, rules)
        if Field.PAUSER in self._readers.newborn(group).certain:
            self._pauser_open = {key for key in self._pauser_open if key.group != group}
        return [UncertainRecord(one.key, one.before, one.after, one.verdict) for one in reached]

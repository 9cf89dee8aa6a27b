"""`World`: every claim of one coordinating partition, folded in offset order.

This module knows which claims a record reaches: its own key or, for ReleaseGroup, every claim of
its group, including those that are first seen later. It does not know where records come from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from attrs import field

from kafka_marshal.core.claims.reducer import step
from kafka_marshal.core.claims.verdicts import ReadTwice, Verdict
from kafka_marshal.core.messages import Record, ReleaseGroup
from kafka_marshal.core.partition_states import PartitionStates
from kafka_marshal.core.state import FENCED, Claim, ClaimKey, Rules
from kafka_marshal.core.values import value


class _Appended(Protocol):
    """A record, possibly with a message that claims do not know."""

    @property
    def offset(self) -> int: ...


class OutOfOrder(ValueError):
    """A record was passed after one with a higher offset; sort by offset before folding."""


@value
class Transition:
    """One claim before and after a record."""

    key: ClaimKey
    before: Claim
    after: Claim


@value
class Outcome:
    """The effect of one record on the world."""

    verdict: Verdict | ReadTwice
    transitions: tuple[Transition, ...] = field(default=())
    """The record's own claim; for ReleaseGroup every known claim of the group."""


class World:
    """Folds the records of one coordinating partition. Spec: Step, for every key.

    The whole state is a function of the records folded so far, in offset order, and of `rules`:
    two worlds that folded the same records are equal.
    """

    def __init__(self, rules: Rules = FENCED) -> None:
        self.rules = rules
        self._states = PartitionStates[ClaimKey, Claim](Claim())
        self._last: _Appended | None = None

    @property
    def claims(self) -> dict[ClaimKey, Claim]:
        """Every claim that had a record of its own, in order of first sight within its group."""
        return self._states.all()

    def group(self, group: str) -> Mapping[ClaimKey, Claim]:
        """The claims of one group; empty if none was seen."""
        return self._states.group(group)

    def claim(self, key: ClaimKey) -> Claim:
        """The claim of `key`; before its first record, as ReleaseGroups of its group left it."""
        return self._states[key]

    def is_untouched(self, group: str) -> bool:
        """Whether no ReleaseGroup of the group was folded: its claims begin as others do."""
        return self._states.newborn(group) is self._states.beginning

    def apply(self, record: Record, rules: Rules | None = None) -> Outcome:
        """Fold the next record of the partition, by the world's rules unless others are given.

        A record at the offset just folded is not folded again: `ReadTwice` states whether it was
        the same. Gaps are normal (transactions, control records).

        Raises:
            OutOfOrder: the record's offset is below one already folded.
        """
        twice = self.read_before(record)
        if twice is not None:
            return Outcome(twice)
        self._last = record
        message = record.message
        if isinstance(message, ReleaseGroup):
            return self._release_group(record, message.group_id, rules or self.rules)
        key = message.key
        before, after, verdict = self._states.step(key, step, record, rules or self.rules)
        return Outcome(verdict, (Transition(key, before, after),))

    def read_before(self, record: _Appended) -> ReadTwice | None:
        """Whether a record at this offset is the one just folded and, if so, is the same.

        Raises:
            OutOfOrder: the record's offset is below one already folded.
        """
        last = self._last
        if last is None or record.offset > last.offset:
            return None
        if record.offset < last.offset:
            raise OutOfOrder(f"offset {record.offset} came after offset {last.offset}")
        return ReadTwice.DUPLICATE if record == last else ReadTwice.CONFLICTING_DUPLICATE

    def pass_over(self, record: _Appended) -> None:
        """Count a record as folded that affects no claim here.

        Its effect is unknown, or it is a ClaimingRange.
        """
        self._last = record

    @property
    def last_offset(self) -> int:
        """The offset of the last record that was folded; -1 before the first."""
        return -1 if self._last is None else self._last.offset

    def seed(self, key: ClaimKey, claim: Claim) -> None:
        """Set a claim that was folded elsewhere: by a `suffix_reader`, or in an earlier run."""
        self._states.put(key, claim)

    def forget(self, key: ClaimKey) -> None:
        """Remove a claim whose state is no longer known."""
        self._states.forget(key)

    def _release_group(self, record: Record, group_id: str, rules: Rules) -> Outcome:
        """Reach every claim of the group; a claim first seen later starts from the newborn."""
        verdict, stepped = self._states.step_group(group_id, step, record, rules)
        reached = tuple(Transition(each.key, each.before, each.after) for each in stepped)
        return Outcome(verdict, reached)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, World):
            return NotImplemented
        return (self.rules, self._states) == (other.rules, other._states)

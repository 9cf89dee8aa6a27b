"""What a reader knows of ranges if it began to read in the middle of the log.

Ranges cannot be inferred from a suffix: any record of the missing head may hold an offset. So a
heartbeat of the anchor may contain a checkpoint: the claim and its ranges as its sender had folded
them, through `seen`. A reader of every record after `seen` folds on from there, and knows both.

This module decides when a checkpoint counts. It does not know its bytes (see `range_codec`), nor
who reads or why. Spec: module RangesReader.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from kafka_marshal.core.messages import ClaimingRange
from kafka_marshal.core.ranges.messages import RangesRecord
from kafka_marshal.core.ranges.reducer import claim_outcome, step
from kafka_marshal.core.ranges.state import LIMITS, Limits, Ranges
from kafka_marshal.core.ranges.verdicts import RangeVerdict
from kafka_marshal.core.state import FENCED, Claim, Rules
from kafka_marshal.core.values import value


@value
class FoldedState:
    """A claim and its ranges after some record of the log. Spec: FoldedState."""

    claim: Claim
    ranges: Ranges


def differing(one: FoldedState, other: FoldedState) -> tuple[tuple[str, str], ...]:
    """The fields in which two states differ, each with the name of its part.

    >>> differing(FoldedState(Claim(), Ranges()), FoldedState(Claim(position=5), Ranges()))
    (('claim', 'position'),)
    """
    return tuple(
        (part, name)
        for part, kind in (("claim", Claim), ("ranges", Ranges))
        for name in (each.name for each in attrs.fields(kind))
        if getattr(getattr(one, part), name) != getattr(getattr(other, part), name)
    )


@value
class LogEntry:
    """A record of one key or of its group, as this reader reads it. Spec: LogEntry."""

    record: RangesRecord
    checkpoint: FoldedState | None = None
    """The state after `seen`, if the record is a heartbeat with a readable checkpoint."""


def after(
    state: FoldedState, record: RangesRecord, rules: Rules = FENCED, limits: Limits = LIMITS
) -> FoldedState:
    """The state after one more record. Spec: After."""
    return outcome(state, record, rules, limits)[0]


def outcome(
    state: FoldedState, record: RangesRecord, rules: Rules = FENCED, limits: Limits = LIMITS
) -> tuple[FoldedState, RangeVerdict]:
    """The state after one more record, and its verdict. Spec: After."""
    claim, message = state.claim, record.message
    ranges = step(state.ranges, claim, record, rules, limits)
    if not isinstance(message, ClaimingRange):
        claim, _ = claim_outcome(claim, record, message, rules)
    return FoldedState(claim, ranges.ranges), ranges.verdict


def folded_on(
    log: Iterable[LogEntry],
    state: FoldedState,
    offset: int,
    rules: Rules = FENCED,
    limits: Limits = LIMITS,
) -> FoldedState:
    """The state after every record of the log from an offset on. Spec: FoldedOn."""
    for entry in log:
        if entry.record.offset >= offset:
            state = after(state, entry.record, rules, limits)
    return state


def checkpoint_counts(entry: LogEntry, first: int) -> bool:
    """Whether the reader, who began at `first`, has every record after `seen`.

    Spec: CheckpointCounts. The verdict on the record does not matter: even a heartbeat of an old
    epoch states correctly what its sender saw.
    """
    seen = entry.record.headers.seen
    return seen is not None and first - 1 <= seen < entry.record.offset


def folds_from(entry: LogEntry) -> int:
    """The first record that is not in the checkpoint. Spec: FoldsFrom.

    It depends on what the sender had read, not on where the record landed.
    """
    seen = entry.record.headers.seen
    assert seen is not None
    return seen + 1


def checkpoints(log: Iterable[LogEntry], first: int) -> list[tuple[LogEntry, FoldedState]]:
    """The checkpoints that count, and their states. Spec: Checkpoints."""
    return [
        (entry, entry.checkpoint)
        for entry in log
        if entry.checkpoint is not None and checkpoint_counts(entry, first)
    ]


def candidates(
    log: Sequence[LogEntry], first: int, rules: Rules = FENCED, limits: Limits = LIMITS
) -> frozenset[FoldedState]:
    """The possible states of the claim and its ranges. Spec: Candidates.

    Keeps: SuffixExact. `log` is every record from `first` on, in offset order.
    """
    return frozenset(
        folded_on(log, state, folds_from(entry), rules, limits)
        for entry, state in checkpoints(log, first)
    )


def ranges_known(
    log: Sequence[LogEntry], first: int, rules: Rules = FENCED, limits: Limits = LIMITS
) -> bool:
    """Whether all checkpoints lead to one state; otherwise none is used. Spec: RangesKnown."""
    return len(candidates(log, first, rules, limits)) == 1


class RangesReader:
    """The same, record by record.

    It keeps the records that it has read, because a checkpoint may land late and refer to any of
    them.
    """

    def __init__(
        self,
        first: int,
        rules: Rules = FENCED,
        limits: Limits = LIMITS,
        records_max: int | None = None,
    ) -> None:
        """Begin to read.

        Args:
            first: the offset of the first record that is read, above 0. A reader from 0 needs no
                checkpoint.
            rules: the fenced rules.
            limits: those of the message's version; a model has smaller ones.
            records_max: how many records to keep; None keeps all. A checkpoint that refers to older
                records no longer counts, as if the reader had begun later.

        Raises:
            ValueError: `first` is not above 0.
        """
        if first <= 0:
            raise ValueError(f"a reader from offset {first} on knows every record")
        self._first = first
        self._rules = rules
        self._limits = limits
        self._records_max = records_max
        self._log: list[LogEntry] = []
        self._candidates: frozenset[FoldedState] = frozenset()

    @property
    def candidates(self) -> frozenset[FoldedState]:
        """Every state that a checkpoint leads to. Spec: Candidates."""
        return self._candidates

    @property
    def known(self) -> FoldedState | None:
        """The claim and its ranges; None until they are known. Spec: RangesKnown."""
        [*states] = self._candidates
        return states[0] if len(states) == 1 else None

    def read(self, entry: LogEntry) -> None:
        """Read the next record of the key or of its group."""
        self._log.append(entry)
        if self._records_max is not None and len(self._log) > self._records_max:
            del self._log[: len(self._log) // 2]
            self._first = self._log[0].record.offset
        rules, limits = self._rules, self._limits
        states = {after(state, entry.record, rules, limits) for state in self._candidates}
        for counting, state in checkpoints([entry], self._first):
            states.add(folded_on(self._log, state, folds_from(counting), rules, limits))
        self._candidates = frozenset(states)

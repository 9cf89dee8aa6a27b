"""What a state of `MCRanges.tla` is made of.

Parts that many states share are interned, so that one is compared with another by identity.
"""

from __future__ import annotations

from typing import NamedTuple

import attrs

from kafka_marshal import Claim, Verdict
from kafka_marshal.core.messages import ClaimingRange
from kafka_marshal.core.ranges.claiming_range import RangeOutcome
from kafka_marshal.core.ranges.state import Ranges, SignOfLife
from kafka_marshal.core.ranges.verdicts import RangeAccepted
from model_tests.ranges.from_tla import Landed


class Lease(NamedTuple):
    """What was granted to whom. Spec: leases."""

    id: int
    instance: str
    from_: int
    to: int

    @property
    def offsets(self) -> range:
        """Spec: OfLease."""
        return range(self.from_, self.to)


class Note(NamedTuple):
    """What a participant's record tells about its ranges. Spec: Note."""

    instance: str
    seen: int | None
    done: int | None
    keep: int | None

    def speaks(self, lease: Lease) -> bool:
        """Spec: Speaks."""
        return self.instance == lease.instance and self.seen is not None and lease.id <= self.seen


Leases = frozenset[Lease]
Notes = frozenset[Note]


def says_done(notes: Notes, lease: Lease, x: int) -> bool:
    """A note of its holder has this one below `done`. Spec: SaysDone."""
    return any(note.done is not None and x < note.done for note in notes if note.speaks(lease))


def says_never(notes: Notes, lease: Lease, x: int) -> bool:
    """A note of its holder has this one at or above `keep`. Spec: SaysNever."""
    return any(note.keep is not None and x >= note.keep for note in notes if note.speaks(lease))


@attrs.frozen(eq=False)
class Moment:
    """What readers know behind some record of the log. Spec: history."""

    claim: Claim
    ranges: Ranges
    older: Claim
    """The claim of a reader that does not know ranges."""


@attrs.frozen(eq=False)
class Built:
    """A record that may land, and what it says. Spec: Built."""

    landed: Landed
    notes: Notes

    @property
    def sender(self) -> str:
        """Spec: Sender."""
        return self.landed.record.message.instance_id

    @property
    def is_range_message(self) -> bool:
        """Spec: IsRangeMessage."""
        return isinstance(self.landed.record.message, ClaimingRange)


@attrs.frozen(eq=False)
class Landing:
    """What a record did, where it landed."""

    after: Moment
    ground: Verdict | None
    """Of the claim; nothing if a reader that does not know ranges skips the record."""
    upper: RangeOutcome

    @property
    def counts(self) -> bool:
        """Spec: RangeVerdicts."""
        return isinstance(self.upper.verdict, RangeAccepted)


class RangesState(NamedTuple):
    """Spec: WithoutTheLast."""

    history: tuple[Moment, ...]
    leases: Leases
    said: Notes
    passed: frozenset[int]
    repeatable: int
    set_at: int | None
    heard: frozenset[SignOfLife]
    broken_by_step: str | None = None
    """The property of steps that the last one broke: TLC judges a step, also to a known state."""

    @property
    def latest(self) -> Moment:
        """Spec: Latest."""
        return self.history[-1]

    @property
    def appended(self) -> int:
        """Spec: Appended."""
        return len(self.history) - 1

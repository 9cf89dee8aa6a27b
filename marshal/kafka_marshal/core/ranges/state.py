"""The ranges of one claim, and the limits on them.

Several consumers share a claim. Each holds ranges of offsets that it claimed before the messages
existed. This module holds the fields and predicates on them. It does not know how they change (see
`claiming_range`, `reducer`), nor the claim that they belong to.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Final

from attrs import field

from kafka_marshal.core.validators import positive
from kafka_marshal.core.values import value

OFFSET_MAX: Final = 2**63 - 1
"""The highest offset that a message can name."""
_FROM: Final[Callable[[Interval | OpenRange], int]] = attrgetter("from_")


@value
class Interval:
    """The offsets from `from_` up to, not including, `to`."""

    from_: int
    to: int


@value
class OpenRange:
    """Offsets that one instance holds and has not processed yet."""

    id: int
    """The log offset of the ClaimingRange that requested it: unique, growing, a fencing token."""
    from_: int
    to: int
    """The offset after the last one."""
    instance: str
    """The instance id of its holder."""


@value
class SignOfLife:
    """The last sign of life of an instance."""

    instance: str
    ms: int
    """The ranges' clock at its last ClaimingRange, unix ms."""


@value
class Limits:
    """How many ranges a claim may have, and how long they may be.

    All versions that read `ClaimingRange` must agree, so these belong to the message's version: no
    option changes them. docs/decisions/022 has the figures behind them.
    """

    intervals_max: int = field(default=512, validator=positive)
    """The maximum of open ranges and intervals of the pool together. Spec: IntervalsMax."""
    open_ranges_max: int = field(default=8, validator=positive)
    """The maximum of open ranges of one instance; ranges from the pool may exceed it. Spec:
    OpenRangesMax."""
    range_messages_max: int = field(default=10_000, validator=positive)
    """A request for more offsets is reduced to this. Spec: RangeMessagesMax."""


LIMITS: Final = Limits()
"""The limits of version 1 of ClaimingRange."""


@value
class Ranges:
    """The ranges of one claim. The default value is before the first range tenure.

    Spec: NewRanges. Field names are the specification's. Offsets below the frontier that are
    neither open nor in the pool are done or, at most once, forgotten.
    """

    window: int | None = None
    """How far the frontier may be ahead of the claim's position, in offsets; 0 is at most once.
    None: no range tenure, or an exclusive one came after it."""
    frontier: int = 0
    """All ranges were cut below this offset."""
    open: tuple[OpenRange, ...] = ()
    """By id, the latest last."""
    pool: tuple[Interval, ...] = ()
    """Offsets that were given back, or taken from a silent instance. By offset, disjoint from open
    ranges."""
    alive: tuple[SignOfLife, ...] = ()
    """The last sign of life of each instance, by instance id. Every holder of a range is in it."""
    clock_ms: int = -1
    """The maximum of the timestamps of the key's records, ClaimingRange included, unix ms.

    It differs from the claim's clock, which older readers compute, too, and which a ClaimingRange
    does not advance."""

    @property
    def has_begun(self) -> bool:
        """Whether there can be ranges: the last win began a range tenure. Spec: HasBegun."""
        return self.window is not None

    @property
    def intervals(self) -> int:
        """The number of open ranges and intervals of the pool. Spec: Intervals."""
        return len(self.open) + len(self.pool)

    @property
    def low(self) -> int:
        """The lowest offset that is not done. Spec: Low."""
        return min([self.frontier, *map(_FROM, self.open), *map(_FROM, self.pool)])

    def open_of(self, instance: str) -> tuple[OpenRange, ...]:
        """The open ranges of one instance. Spec: OpenOf."""
        return tuple([each for each in self.open if each.instance == instance])

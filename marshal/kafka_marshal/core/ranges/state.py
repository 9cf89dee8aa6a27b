"""The ranges of one claim, and the limits on them.

Several consumers share a claim, each with ranges of offsets that are its own, claimed before the
messages exist. This room holds the fields and the questions one can ask of them. It does not know
how they change (`claiming_range`, `reducer`), nor anything of the claim below.
"""

from __future__ import annotations

from typing import Final

from attrs import field

from kafka_marshal.core.validators import positive
from kafka_marshal.core.values import value

OFFSET_MAX: Final = 2**63 - 1
"""The highest offset that a message can name."""


@value
class Interval:
    """The offsets from `from_` up to, not including, `to`."""

    from_: int
    to: int


@value
class OpenRange:
    """Offsets that are one instance's own, and that it has not processed yet."""

    id: int
    """Log offset of the ClaimingRange that asked for it: unique, growing, a fencing token."""
    from_: int
    to: int
    """The first offset behind it."""
    instance: str
    """The instance id of its holder."""


@value
class SignOfLife:
    """When an instance was last heard of."""

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
    """Open ranges and intervals of the pool together. Spec: IntervalsMax."""
    open_ranges_max: int = field(default=8, validator=positive)
    """Open ranges of one instance; what it was given from the pool may exceed it.
    Spec: OpenRangesMax."""
    range_messages_max: int = field(default=10_000, validator=positive)
    """A request for more offsets is cut to this. Spec: RangeMessagesMax."""


LIMITS: Final = Limits()
"""The limits of version 1 of ClaimingRange."""


@value
class Ranges:
    """The ranges of one claim. The default value is before the first range tenure.

    Spec: NewRanges. Field names are the specification's. What lies below the frontier and is
    neither open nor in the pool is done or, at most once, was forgotten.
    """

    window: int | None = None
    """How far the frontier may be ahead of the claim's position, in offsets; 0 is at most once.
    None: no range tenure, or an exclusive one came after it."""
    frontier: int = 0
    """Every range was cut below this offset."""
    open: tuple[OpenRange, ...] = ()
    """By id, so the latest is the last."""
    pool: tuple[Interval, ...] = ()
    """Given back, or taken from a silent instance. By offset, and none touches what is open."""
    alive: tuple[SignOfLife, ...] = ()
    """Of each instance the last one, by instance id. Every holder of a range is among them."""
    clock_ms: int = -1
    """Running maximum of the timestamps of the key's records, ClaimingRange among them, unix ms.

    A clock of its own: ClaimingRange does not move the claim's, which older readers compute, too.
    """

    @property
    def has_begun(self) -> bool:
        """There are ranges, or can be: the last win was one of a range tenure. Spec: HasBegun."""
        return self.window is not None

    @property
    def intervals(self) -> int:
        """How many open ranges and intervals of the pool there are. Spec: Intervals."""
        return len(self.open) + len(self.pool)

    @property
    def low(self) -> int:
        """The lowest offset that is not done. Spec: Low."""
        held, free = [each.from_ for each in self.open], [each.from_ for each in self.pool]
        return min([self.frontier, *held, *free])

    def open_of(self, instance: str) -> tuple[OpenRange, ...]:
        """The open ranges of one instance. Spec: OpenOf."""
        return tuple([each for each in self.open if each.instance == instance])


def changed(
    ranges: Ranges,
    *,
    frontier: int | None = None,
    open: tuple[OpenRange, ...] | None = None,  # noqa: A002  # as the field
    alive: tuple[SignOfLife, ...] | None = None,
    clock_ms: int | None = None,
) -> Ranges:
    """The ranges with these fields changed: `attrs.evolve`, at a fifth of its price.

    Each participant folds the records of all, and a ClaimingRange changes four fields.
    """
    return Ranges(
        ranges.window,
        ranges.frontier if frontier is None else frontier,
        ranges.open if open is None else open,
        ranges.pool,
        ranges.alive if alive is None else alive,
        ranges.clock_ms if clock_ms is None else clock_ms,
    )

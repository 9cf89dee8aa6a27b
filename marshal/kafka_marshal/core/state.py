"""The state of one claim, and the two rule sets that judge it.

A claim is the state machine of one key (group, topic, partition). This module holds its fields, and
predicates on them. It does not know how they change (see `fenced`, `original`).
"""

from __future__ import annotations

import enum
from decimal import Decimal
from typing import Final, NamedTuple

from attrs import field, frozen

from kafka_marshal.core.validators import not_negative, positive_finite
from kafka_marshal.core.values import value


class ClaimKey(NamedTuple):
    """The key of a claim, within one coordinating partition."""

    group: str
    topic: str
    topic_partition: int


class RuleSet(enum.Enum):
    """Which rules judge the records."""

    FENCED = "fenced"
    """Our rules, R1 to R9. Spec: FencedStep."""
    ORIGINAL = "original"
    """The rules of the original Go Marshal. Spec: OriginalStep."""


def milliseconds(seconds: float) -> float:
    """Seconds as milliseconds, exactly as written, because the end of an interval must be exact.

    >>> 1.001 * 1000, milliseconds(1.001)
    (1000.9999999999999, 1001.0)
    """
    return float(Decimal(repr(seconds)) * 1000)


@frozen
class Rules:
    """A rule set and its two durations. Use `FENCED` or `ORIGINAL`, and `attrs.evolve` for others.

    >>> import attrs
    >>> attrs.evolve(FENCED, heartbeat_interval_ms=4000).stale_after_ms
    8000
    """

    rule_set: RuleSet
    heartbeat_interval_ms: float = field(default=60_000, validator=positive_finite)
    """Owners send a heartbeat at least this often. The original's default is 60 s."""
    pause_max_ms: int = field(default=24 * 3600 * 1000, validator=positive_finite)
    """A longer pause is shortened to this (R8), so that a reader knows how far back a pause can
    reach."""
    clock_rewind_max_ms: int = field(default=60_000, validator=not_negative)
    """How far the broker's clock may step back when a partition gets a new leader. Used only by a
    reader that began in the middle, and only if no header states the clock (DefiniteWin)."""

    stale_after_ms: float = field(init=False, repr=False, eq=False)
    """An owner is stale when *more than* this has passed since its last accepted record."""

    @stale_after_ms.default
    def _twice_the_interval(self) -> float:
        return 2 * self.heartbeat_interval_ms

    fenced: bool = field(init=False, repr=False, eq=False)
    """Whether `rule_set` is FENCED; stored because every step asks, and CPython 3.11 looks up enum
    members slowly."""

    @fenced.default
    def _is_fenced(self) -> bool:
        return self.rule_set is RuleSet.FENCED


FENCED: Final = Rules(RuleSet.FENCED)
"""The default rules: R1 to R9 and the small print."""

ORIGINAL: Final = Rules(RuleSet.ORIGINAL)
"""The rules of the original, to replay logs of fleets that run it."""


@value
class Claim:
    """The state of one key. The default value is the claim before its first record.

    Spec: NewClaim. Field names are the specification's.
    """

    owner_instance: str | None = None
    """The owner's instance id; None if there is no owner. Under `original` the *last* owner's."""
    owner_client: str | None = None
    """The owner's client id; otherwise like `owner_instance`."""
    epoch: int | None = None
    """The log offset of the win; kept after a release. None before the first win, and under
    `original`."""
    position: int = 0
    """The next offset to consume; 0 until it is set: see `position_set`."""
    last_heartbeat_ms: int | None = None
    """The clock at the owner's last accepted record, unix ms; None if there is no owner.

    Under `original` the message's own time, and None stands for the original's 0."""
    clock_ms: int = -1
    """The maximum of the timestamps of the claim's records, including refused ones, unix ms.

    -1, Kafka's "no timestamp", before the first record. Under `original` the last record's
    timestamp."""
    won_with_headers: bool = False
    """Whether the winning record carried any `marshal-` header. R1c, R2 and R9 depend on it."""
    pauser: str | None = None
    """The instance that sent the group's latest ReleaseGroup; kept when the pause is over."""
    paused_until_ms: int | None = None
    """Until this time only the pauser's ClaimingPartition wins, unix ms; None if not paused."""
    last_release_ms: int | None = None
    """Only under `original`: the message's own time of the last release, unix ms."""
    position_set: bool = False
    """Only under `fenced`: the position was set, so that a position of 0 is valid, too. It never
    becomes false again; no verdict depends on it. Spec: IsSetAfter."""

    @property
    def owned(self) -> bool:
        """Whether the claim has an owner (under `original` it may have; see `original.claimed`)."""
        return self.last_heartbeat_ms is not None

    @property
    def paused(self) -> bool:
        """Whether only the pauser can win now. Spec: ClockSaysPaused, without its sender."""
        return self.paused_until_ms is not None and self.clock_ms < self.paused_until_ms

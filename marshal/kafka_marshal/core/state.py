"""The state of one claim, and the two rule sets that judge it.

A claim is the state machine of one key (group, topic, partition). This room holds its fields and
the questions one can ask of them. It does not know how they change (`fenced`, `original`).
"""

from __future__ import annotations

import enum
from decimal import Decimal
from typing import Final, NamedTuple

from attrs import field, frozen

from kafka_marshal.core.validators import not_negative, positive_finite
from kafka_marshal.core.values import value


class ClaimKey(NamedTuple):
    """What a claim is about, within one coordinating partition."""

    group: str
    topic: str
    topic_partition: int


class RuleSet(enum.Enum):
    """Which protocol judges the records."""

    FENCED = "fenced"
    """The protocol we build: R1 to R9. Spec: FencedStep."""
    ORIGINAL = "original"
    """What the original Go Marshal does. Spec: OriginalStep."""


def milliseconds(seconds: float) -> float:
    """Seconds as milliseconds, exactly as they are written: an interval's edge is a promise.

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
    """A longer pause is cut to this (R8), so that a reader knows how far back a pause can reach."""
    clock_rewind_max_ms: int = field(default=60_000, validator=not_negative)
    """How far the broker's clock may step back when a partition gets a new leader. Only a reader
    that began in the middle asks, and only where no header tells it the clock (DefiniteWin)."""

    stale_after_ms: float = field(init=False, repr=False, eq=False)
    """An owner is stale when *more than* this has passed since its last accepted record."""

    @stale_after_ms.default
    def _twice_the_interval(self) -> float:
        return 2 * self.heartbeat_interval_ms

    fenced: bool = field(init=False, repr=False, eq=False)
    """`rule_set` is FENCED: asked at every step, where CPython 3.11 is slow to look up a member."""

    @fenced.default
    def _is_fenced(self) -> bool:
        return self.rule_set is RuleSet.FENCED


FENCED: Final = Rules(RuleSet.FENCED)
"""The default rules: R1 to R9 and the small print."""

ORIGINAL: Final = Rules(RuleSet.ORIGINAL)
"""The rules of the original, to replay what is in production today."""


@value
class Claim:
    """The state of one key. The default value is the claim before its first record.

    Spec: NewClaim. Field names are the specification's.
    """

    owner_instance: str | None = None
    """The owner's instance id; None when nobody owns. Under `original` the *last* owner's."""
    owner_client: str | None = None
    """The owner's client id; as `owner_instance`."""
    epoch: int | None = None
    """Log offset of the win; stays after a release. None before it, and under `original`."""
    position: int = 0
    """Next offset to consume; 0 until somebody sets it: see `position_set`."""
    last_heartbeat_ms: int | None = None
    """Clock at the owner's last accepted record, unix ms; None when nobody owns.

    Under `original` the message's own time, and None stands for the original's 0.
    """
    clock_ms: int = -1
    """Running maximum of the timestamps of the claim's records, refused ones too, unix ms.

    -1, Kafka's "no timestamp", before the first record. Under `original` the last record's
    timestamp.
    """
    won_with_headers: bool = False
    """Whether the winning record carried any `marshal-` header. Decides R1c, R2 and R9."""
    pauser: str | None = None
    """Instance that sent the group's latest ReleaseGroup; stays when the pause is over."""
    paused_until_ms: int | None = None
    """Until when only the pauser's ClaimingPartition wins, unix ms; None when not paused."""
    last_release_ms: int | None = None
    """Only under `original`: the message's own time of the last release, unix ms."""
    position_set: bool = False
    """Only under `fenced`: somebody set the position, so position 0 is an answer, too. Once true it
    stays true; no verdict depends on it. Spec: IsSetAfter."""

    @property
    def owned(self) -> bool:
        """Somebody owns the claim (under `original`: somebody may; see `original.claimed`)."""
        return self.last_heartbeat_ms is not None

    @property
    def paused(self) -> bool:
        """Only the pauser can win now. Spec: ClockSaysPaused, without its sender."""
        return self.paused_until_ms is not None and self.clock_ms < self.paused_until_ms

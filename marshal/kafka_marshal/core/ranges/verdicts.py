"""Verdicts on a ClaimingRange: granted, refreshed, or which guard refused it.

A request that is not granted is ordinary, so it is a value and not an exception.
"""

from __future__ import annotations

import enum
from typing import TypeAlias

from kafka_marshal.core.claims.verdicts import Verdict


class RangeAccepted(enum.Enum):
    """What an accepted ClaimingRange did. The value is the name in output. Spec: RangeVerdicts."""

    RANGE_GRANTED = "range_granted"
    """The sender holds one more range."""
    RANGE_REFRESHED = "range_refreshed"
    """The sender is alive. It asked for nothing, or `Unmet` says why it was granted nothing."""


class RangeRefused(enum.Enum):
    """The guard that refused a ClaimingRange, in the order in which the guards are asked.

    Spec: RangeRefused. The first three are asked of every message.
    """

    UNKNOWN_VERSION = "unknown_version"
    """The message's version is neither 0 nor 1."""
    HEADER_NOT_DECIMAL = "header_not_decimal"
    """A `marshal-` header is not decimal, of those that a guard reads or of ranges."""
    HEADER_FROM_THE_FUTURE = "header_from_the_future"
    """`epoch` or `seen` is not below the record's own offset: the log was cut or made anew."""
    NO_RANGE_TENURE = "no_range_tenure"
    """Nobody owns the claim, or its owner does not share. While ranges sleep a holder
    still counts as alive."""
    SEEN_MISSING = "seen_missing"
    """`done` or `keep` without `seen`: nobody knows which ranges they speak of."""
    NEGATIVE_COUNT = "negative_count"
    """It asks for less than nothing."""


class Unmet(enum.Enum):
    """Why a ClaimingRange that asked for offsets was granted none. Spec: RangeOutcome's guard."""

    TOO_MANY_OPEN = "too_many_open"
    """The sender has as many open ranges as an instance may have."""
    WINDOW_FULL = "window_full"
    """The frontier is a window ahead of the position, or the claim has no room for a range."""


RangeVerdict: TypeAlias = RangeAccepted | RangeRefused | Verdict
"""Of a ClaimingRange one of the first two, of the five old messages what the claim says."""

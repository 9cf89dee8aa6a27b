"""Verdicts on a ClaimingRange: granted, refreshed, or which guard refused it.

A request that is not granted is ordinary, so the refusal is a value and not an exception.
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
    """The sender is alive. It requested nothing, or `Unmet` gives the reason why it got nothing."""


class RangeRefused(enum.Enum):
    """The guard that refused a ClaimingRange, in the order of the guards.

    Spec: RangeRefused. The first three apply to every message.
    """

    UNKNOWN_VERSION = "unknown_version"
    """The message's version is neither 0 nor 1."""
    HEADER_NOT_DECIMAL = "header_not_decimal"
    """A header of ranges, or a `marshal-` header that a guard reads, is not decimal."""
    HEADER_FROM_THE_FUTURE = "header_from_the_future"
    """`epoch` or `seen` is not below the record's own offset: the log was cut or created anew."""
    NO_RANGE_TENURE = "no_range_tenure"
    """The claim has no owner, or its owner does not share. While ranges sleep, a holder still
    counts as alive."""
    SEEN_MISSING = "seen_missing"
    """`done` or `keep` without `seen`: it is unknown which ranges they refer to."""
    NEGATIVE_COUNT = "negative_count"
    """It requests a negative number of offsets."""


class Unmet(enum.Enum):
    """Why a ClaimingRange got none of the offsets that it requested. Spec: RangeOutcome's guard."""

    TOO_MANY_OPEN = "too_many_open"
    """The sender has the maximum of open ranges."""
    WINDOW_FULL = "window_full"
    """The frontier is a window ahead of the position, or the claim has no room for a range."""


RangeVerdict: TypeAlias = RangeAccepted | RangeRefused | Verdict
"""For a ClaimingRange one of the first two; for the five old messages the claim's verdict."""

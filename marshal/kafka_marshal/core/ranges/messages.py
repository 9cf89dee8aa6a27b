"""A record as a reader of ranges sees it: with ClaimingRange, and with the headers of ranges.

A reader that does not know ranges sees a `Record`, or a malformed one. What it computes must not
depend on anything that is defined only here.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from attrs import frozen

from kafka_marshal.core.messages import NO_HEADERS, ClaimingRange, Headers, Message, Record

RangesMessage: TypeAlias = Message | ClaimingRange
"""Every message that a reader of ranges knows."""


@frozen(slots=False)
class RangeHeaders:
    """The headers that only a reader of ranges reads.

    Every field is a non-negative integer, `None` if the header is absent, or `NOT_DECIMAL`. On the
    five old messages `NOT_DECIMAL` counts as absent: a reader that does not know the header does
    not refuse it. Spec: NoRangeHeaders.
    """

    window: int | None = None
    """On ClaimingPartition: the sender asks for a range tenure of this window, in offsets."""
    done: int | None = None
    """On ClaimingRange: in the ranges that it refers to, everything below this offset is processed.
    """
    keep: int | None = None
    """On ClaimingRange: in the ranges that it refers to, everything from this offset on is given
    back."""


NO_RANGE_HEADERS: Final = RangeHeaders()
"""The headers of a sender that does not know ranges."""


@frozen(slots=False)
class RangesRecord:
    """One record of the coordination topic, as a reader of ranges decodes it."""

    partition: int
    """The coordinating partition."""
    offset: int
    """The log offset in the coordinating partition."""
    timestamp_ms: int
    """The record's timestamp in unix milliseconds, as in `Record`."""
    message: RangesMessage
    headers: Headers = NO_HEADERS
    range_headers: RangeHeaders = NO_RANGE_HEADERS

    def without_ranges(self, message: Message) -> Record:
        """The record as a reader that does not know ranges decodes it: `message` is known."""
        return Record(self.partition, self.offset, self.timestamp_ms, message, self.headers)

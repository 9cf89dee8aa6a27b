"""The effects that a participant returns, for the program that runs it to carry out.

An effect is a value. The runtime must carry out the effects of one call in their order.
"""

from __future__ import annotations

import enum
from typing import TypeAlias

from attrs import frozen

from kafka_marshal.core.messages import Headers
from kafka_marshal.core.ranges.messages import NO_RANGE_HEADERS, RangeHeaders, RangesMessage
from kafka_marshal.core.ranges.reader import FoldedState


@frozen
class SendRecord:
    """Append this to the coordination topic, stamped with unix time.

    A successful append has no meaning yet: the machine acts on what it reads back.
    """

    message: RangesMessage
    headers: Headers
    range_headers: RangeHeaders = NO_RANGE_HEADERS
    checkpoint: FoldedState | None = None
    """On the anchor's heartbeat, for readers that begin in the middle."""


@frozen
class RangeGranted:
    """The offsets from `from_` up to, not including, `to` are ours. Some may hold no message yet.

    Ask `may_begin` before each message or batch, and report it with `begun`. At most once, whatever
    must survive a crash has to be durable BEFORE the application begins.
    """

    id: int
    """The offset of the record that requested it: it grows, so it works as a fencing token."""
    from_: int
    to: int


@frozen
class RangeCut:
    """Nothing of the range at or above `to` may be begun: that part is given back."""

    id: int
    to: int


class LossReason(enum.Enum):
    """Why a range is no longer ours."""

    TAKEN = "taken"
    """We were silent for too long, and others process it."""
    ENDED = "ended"
    """A consumer that does not know ranges took over, or one with another window."""
    POSITION_SET = "position_set"
    """An administrator set the position."""
    LOG_LOST_RECORDS = "log_lost_records"
    """The log's end moved back. Begin again with a new instance id."""


@frozen
class RangeLost:
    """Nothing more of the range may be begun; messages in flight may finish, and do not count.

    The offsets from `from_` up to `to` were not finished.
    """

    id: int
    from_: int
    to: int
    reason: LossReason


@frozen
class HandlerHangs:
    """No message was finished for `stuck_after_ms`: what was not begun is given back now.

    A runtime that reports messages before they begin calls `take_back` for those that have not.
    """


@frozen
class TenureBegan:
    """The claim is shared under this epoch; `position` is the position in the log."""

    epoch: int
    position: int


class TenureEnded(enum.Enum):
    """The claim is no longer shared: nothing is granted until it is won again."""

    TAKEN = "taken"
    """Another client owns it, which does not know ranges or has another window."""
    PAUSED = "paused"
    """An administrator released the group. Begin nothing new: the ranges sleep."""
    RELEASED = "released"
    """It has no owner. Begin nothing new: the ranges sleep."""


@frozen
class WindowDiffers:
    """The claim is shared under another window, so this participant cannot take part."""

    window: int


@frozen
class Left:
    """All begun messages are finished and the rest was given back: nothing is left to do."""


Effect: TypeAlias = (
    SendRecord
    | RangeGranted
    | RangeCut
    | RangeLost
    | HandlerHangs
    | TenureBegan
    | TenureEnded
    | WindowDiffers
    | Left
)

"""The effects that a machine returns, for the program that runs it to carry out.

An effect is a value. The runtime must carry out the effects of one call in their order.
"""

from __future__ import annotations

import enum
from typing import TypeAlias

from attrs import frozen

from kafka_marshal.core.messages import Headers, Message


@frozen
class Send:
    """Append this to the coordination topic.

    Records of one instance must arrive in the order in which they were sent (an idempotent
    producer), unless both ends write headers. A successful append has no meaning yet: the machine
    acts on what it reads back.
    """

    message: Message
    headers: Headers


@frozen
class Process:
    """Deliver these messages to the application, in order.

    At least once: report finished messages with `done`. If the claim is lost, its next owner
    delivers the unfinished ones again. At most once: these messages are never delivered again, so
    anything that must survive a crash has to be durable BEFORE the application begins.
    """

    offsets: range


@frozen
class Won:
    """The claim is ours, under this epoch, from this position on."""

    epoch: int
    position: int
    position_known: bool
    """False if the position can never become known again: then it is the start policy's."""


class Lost(enum.Enum):
    """The claim is no longer ours, and nothing more is delivered; messages in flight may finish."""

    TAKEN = "taken"
    """Another client took over: our heartbeats were late."""
    PAUSED = "paused"
    """An administrator released the group."""
    RELEASED = "released"
    """We released it, or somebody did in our name; `ReleaseReason` gives the reason."""
    ID_USED_TWICE = "id_used_twice"
    """Another instance with our own client id owns it. We stop; the operator must act."""
    LOG_LOST_RECORDS = "log_lost_records"
    """The log's end moved back. Begin again with a new instance id: under the old one, the grants
    that are still in the log would be taken for new."""
    FINISHED = "finished"
    """For a range: all of it is processed, and the log shows that."""
    UNCERTAIN = "uncertain"
    """A reader that began in the middle can no longer determine the owner."""


class ReleaseReason(enum.Enum):
    """Why a claim was released (and not taken from us)."""

    STOPPED = "stopped"
    """This consumer stops, or was closed."""
    SHARED = "shared"
    """Another consumer of the group had fewer claims."""
    BEHIND = "behind"
    """It fell behind its topic (`Claiming.release_when_behind`)."""
    WITH_ITS_TOPIC = "with_its_topic"
    """Another consumer owns partition 0 of its topic (`Claiming.whole_topics`)."""
    ASKED = "asked"
    """The application asked for it."""
    BY_OTHERS = "by_others"
    """An administrator released the group, or another process released this claim in our name."""


Effect: TypeAlias = Send | Process | Won | Lost

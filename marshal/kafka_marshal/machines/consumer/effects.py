"""The effects that a machine returns, for the program that runs it to carry out.

An effect is a value; carrying it out, and its order, is the duty of the runtime. Effects of one
call are carried out in their order.
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
    producer), unless both ends write headers. That it was appended means nothing yet: the machine
    acts on what it reads back.
    """

    message: Message
    headers: Headers


@frozen
class Process:
    """Hand these messages to the application, in order.

    At least once: report finished messages with `done`. When the claim is lost, its next owner
    hands over again what was handed over and not finished. At most once: these messages are never
    handed over again, so anything that must survive a crash has to be durable BEFORE the
    application begins.
    """

    offsets: range


@frozen
class Won:
    """The claim is ours, under this epoch, from this position on."""

    epoch: int
    position: int
    position_known: bool
    """False where nobody can know it any more: the position is then the start policy's."""


class Lost(enum.Enum):
    """The claim is no longer ours, and nothing more is handed over; what is in hand may end."""

    TAKEN = "taken"
    """Another client took over: our heartbeats were late."""
    PAUSED = "paused"
    """An administrator released the group."""
    RELEASED = "released"
    """It was released, by us or in our name; `ReleaseReason` says why."""
    ID_USED_TWICE = "id_used_twice"
    """Another instance of our own client id has it. We stop; the operator must look."""
    LOG_LOST_RECORDS = "log_lost_records"
    """The log's end moved back. Begin anew, under a new instance id: under the old one the grants
    that are still in the log would be taken for new."""
    FINISHED = "finished"
    """Of a range: all of it is processed, and the log has that."""
    UNCERTAIN = "uncertain"
    """A reader that began in the middle can no longer tell who owns the claim."""


class ReleaseReason(enum.Enum):
    """Why a claim was released that nobody took from us."""

    STOPPED = "stopped"
    """This consumer stops, or was closed."""
    SHARED = "shared"
    """Another consumer of the group had less."""
    BEHIND = "behind"
    """It fell behind its topic (`Claiming.release_when_behind`)."""
    WITH_ITS_TOPIC = "with_its_topic"
    """Partition 0 of its topic is another's (`Claiming.whole_topics`)."""
    ASKED = "asked"
    """The application asked for it."""
    BY_OTHERS = "by_others"
    """An administrator released the group, or somebody this claim in our name."""


Effect: TypeAlias = Send | Process | Won | Lost

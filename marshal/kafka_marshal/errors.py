"""Errors that a user can fix: each message names the cluster, topic, file or option.

A command turns them into one sentence and exit code 2. This room knows no client of Kafka.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kafka_marshal.core.group_intervals import OtherInterval

OR_FORCE: Final = ", or judge by it with --force-interval"
"""What else helps where an interval may be forced."""
COORDINATION_TOPIC: Final = "__marshal"
"""The coordination topic's default name."""


SHOWN_MAX: Final = 80
"""Characters of a name from the log to show, at most: it may be a megabyte."""


class MarshalError(Exception):
    """Something could not be done, and the message says what to change."""


class InvalidOption(MarshalError):
    """An option's value makes no sense; the message names it."""


def in_words(error: BaseException) -> str:
    """The type of an application's exception and what it says, if that can be asked for.

    >>> in_words(ValueError("no such parcel"))
    'ValueError: no such parcel'
    """
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__


def contradicted(error: OtherInterval, otherwise: str = "") -> InvalidOption:
    """What a command says whose --heartbeat-interval is not the log's; what else helps than that.

    >>> from kafka_marshal.core.group_intervals import LivedUnder
    >>> str(contradicted(OtherInterval(10_000, "g", LivedUnder(60_000, "c1", 0))))
    '--heartbeat-interval: group g says 60s in the log (client c1), not 10s; leave the option out'
    """
    return InvalidOption(f"--heartbeat-interval: {error}; leave the option out{otherwise}")


class ConsumerClosed(MarshalError):
    """The consumer was closed before it was asked for this; make another one."""


class BufferFull(MarshalError):
    """A `send` found no room in the producer's buffer in time. Nothing of it was sent."""


class ProducerClosed(MarshalError):
    """The producer was closed before it was asked for this; make another one."""


class ClaimLost(MarshalError):
    """The claim was lost before the log had what was committed of it.

    The next owner processes it again, at least once. The message names partition, epoch and offset.
    """


class Fenced(MarshalError):
    """A member of a group committed what is not its own any more; `partitions` names it.

    It was given up, or the partitions moved or were rewound. The next owner processes them from the
    position that the log has. The member goes on with what is its own.
    """

    def __init__(self, partitions: Sequence[tuple[str, int]]) -> None:
        named = ", ".join(f"{topic}:{partition}" for topic, partition in partitions)
        super().__init__(f"not committed: {named} is not this member's under that tenure any more")
        self.partitions = tuple(partitions)
        """Topics and partitions."""


class HandlerFailed(MarshalError):
    """A handler failed for good, and there is no dead-letter topic. Its message is not done."""


class TooManyDeliveries(MarshalError):
    """A message was given to consumers that fell silent with it, more often than it may be.

    A dead letter names it as its error: no handler was called for it again.
    """


class ThreadFailed(MarshalError):
    """A thread of the consumer met an error that nothing here expects, and so the consumer ended.

    The message names the thread and the error, which is its `__cause__`. It is a mistake of this
    library, or of what it runs on: report it.
    """


class BrokerFailed(MarshalError):
    """The cluster cannot be reached, or refused; the message says which and why."""


class ProducerFailed(BrokerFailed):
    """The producer can append nothing more; the message says why, and what to do.

    What it had sent before has its outcomes. Nothing of the `send` that raises this was sent.
    """


def init_command(bootstrap: str, topic: str) -> str:
    """The command that makes a coordination topic, to be pasted.

    >>> init_command("a:9092", "__marshal")
    'marshal init --bootstrap a:9092'
    """
    named = "" if topic == COORDINATION_TOPIC else f" --topic {topic}"
    return f"marshal init --bootstrap {bootstrap}{named}"


class NoCoordinationTopic(BrokerFailed):
    """The cluster has no such topic; the message holds the command that makes it."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        command = init_command(bootstrap, topic)
        super().__init__(f"{bootstrap}: there is no topic {topic}; make it with: {command}")


class NotLetIn(BrokerFailed):
    """The cluster refused our password, token or certificate, or we its own; it says what to set.

    Raised only until a broker has let us in once. For a running consumer such a refusal passes,
    like everything that a broker reports while it restarts.
    """


class NotAuthentic(MarshalError):
    """A record of the log is not authentic, and the consumer has `require_authentic`.

    Nothing of the record was folded, and the consumer sent nothing more: its claims become stale.
    """

    def __init__(
        self, topic: str, partition: int, offset: int, client: str, key_id: str | None, why: str
    ) -> None:
        key = "no key" if key_id is None else f"key {key_id}"
        super().__init__(
            f"{topic}, partition {partition}, offset {offset}: the record of client "
            f"{client[:SHOWN_MAX]!r} has {why} ({key}); find who wrote it before you start this "
            "consumer again "
            "(docs/how-to/sign-records.md)"
        )
        self.partition = partition
        """The coordinating partition."""
        self.offset = offset
        self.client = client
        """As the record has it; it may be a lie."""
        self.key_id = key_id
        """The key that the record names; None: it names none that can be read."""


class IntervalMismatch(MarshalError):
    """Two heartbeat intervals in one group: both would process everything. The message says which.

    A consumer raises it that comes to a group whose owners live under another interval; a command
    does whose option contradicts what the log says.
    """

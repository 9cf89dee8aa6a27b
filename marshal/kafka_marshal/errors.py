"""Errors that a user can fix: each message names the cluster, topic, file or option.

A command turns them into one sentence and exit code 2. This module does not know Kafka's client.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kafka_marshal.core.group_intervals import OtherInterval

OR_FORCE: Final = ", or judge by it with --force-interval"
"""The other remedy, for commands that can force an interval."""
COORDINATION_TOPIC: Final = "__marshal"
"""The coordination topic's default name."""


SHOWN_MAX: Final = 80
"""The most characters of a name from the log to print: it may be a megabyte long."""


class MarshalError(Exception):
    """The base class: something failed, and the message explains what to change."""


class InvalidOption(MarshalError):
    """An option has an invalid value; the message names it."""


def in_words(error: BaseException) -> str:
    """The type of an application's exception and its text, printable on every stream.

    >>> in_words(ValueError("no such parcel"))
    'ValueError: no such parcel'
    """
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__
    return text.encode("utf-8", "backslashreplace").decode()


@contextmanager
def naming(path: Path, beside: Path | None = None) -> Iterator[None]:
    """Add the name of a local file to an OSError of writing: that of a full disk has none.

    A name that the error has already is kept. But if it is that of `beside`, or of a file in it,
    the file is only written there until it is moved to `path`: that name is replaced. The reason
    becomes the system's, since Arrow's is a longer sentence.
    """
    try:
        yield
    except OSError as error:
        if error.filename is None:
            reason = str(error) if error.errno is None else os.strerror(error.errno)
            raise OSError(error.errno or errno.EIO, reason, str(path)) from error
        written = Path(str(error.filename))
        if beside is not None and written.is_relative_to(beside):
            error.filename = str(path / written.relative_to(beside))
        raise


def empty_path(option: str) -> InvalidOption:
    """The error for an empty path: a variable of a script that is not set."""
    return InvalidOption(f"{option} is empty: give a path; . is the current folder")


def contradicted(error: OtherInterval, otherwise: str = "") -> InvalidOption:
    """The error of a command whose --heartbeat-interval differs from the interval in the log.

    `otherwise` names another remedy than to leave the option out.

    >>> from kafka_marshal.core.group_intervals import LivedUnder
    >>> str(contradicted(OtherInterval(10_000, "g", LivedUnder(60_000, "c1", 0))))
    '--heartbeat-interval: group g says 60s in the log (client c1), not 10s; leave the option out'
    """
    return InvalidOption(f"--heartbeat-interval: {error}; leave the option out{otherwise}")


class ConsumerClosed(MarshalError):
    """The consumer is closed; create a new one."""


class BufferFull(MarshalError):
    """The producer's buffer had no room for a `send` in time. Nothing of it was sent."""


class ProducerClosed(MarshalError):
    """The producer is closed; create a new one."""


class ClaimLost(MarshalError):
    """The claim was lost before the log held the committed position.

    The next owner processes those messages again (at least once). The message names the partition,
    the epoch and the offset.
    """


class Fenced(MarshalError):
    """A group member committed partitions that it no longer owns; `partitions` names them.

    The member expired, or the partitions moved or were rewound. The next owner processes them from
    the position in the log. The member keeps its other partitions.
    """

    def __init__(self, partitions: Sequence[tuple[str, int]]) -> None:
        named = ", ".join(f"{topic}:{partition}" for topic, partition in partitions)
        super().__init__(f"not committed: {named} is not this member's under that tenure any more")
        self.partitions = tuple(partitions)
        """Topics and partitions."""


class HandlerFailed(MarshalError):
    """A handler failed permanently, and there is no dead-letter topic. Its message is not done."""


class TooManyDeliveries(MarshalError):
    """A message was delivered too often to consumers that then fell silent.

    A dead letter has it as its error: the handler was not called for it again.
    """


class ThreadFailed(MarshalError):
    """An unexpected error in one of the consumer's threads has ended the consumer.

    The message names the thread and the error, which is the `__cause__`. This is a bug in this
    library or in what it runs on: please report it.
    """


class BrokerFailed(MarshalError):
    """The cluster cannot be reached, or refused a request; the message names it and the reason."""


class ProducerFailed(BrokerFailed):
    """The producer cannot append any more; the message explains why, and what to do.

    Records that were sent before have their outcomes. Nothing of the `send` that raises this was
    sent.
    """


def init_command(bootstrap: str, topic: str) -> str:
    """The command that creates a coordination topic, ready to paste.

    >>> init_command("a:9092", "__marshal")
    'marshal init --bootstrap a:9092'
    """
    named = "" if topic == COORDINATION_TOPIC else f" --topic {topic}"
    return f"marshal init --bootstrap {bootstrap}{named}"


class NoCoordinationTopic(BrokerFailed):
    """The cluster has no coordination topic; the message contains the command that creates it."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        command = init_command(bootstrap, topic)
        super().__init__(f"{bootstrap}: there is no topic {topic}; make it with: {command}")


class NotLetIn(BrokerFailed):
    """The cluster refused our credentials, or we refused its certificate.

    The message names the settings to change. It is raised only until a broker has accepted the
    client once. For a running consumer such a refusal is temporary, like everything that a broker
    reports while it restarts.
    """


class NotAuthentic(MarshalError):
    """A record of the log is not authentic, and the consumer has `require_authentic`.

    The record was not folded, and the consumer sends nothing more, so its claims become stale.
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
        """As the record names it; it may be forged."""
        self.key_id = key_id
        """The key that the record names; None if it names no readable key."""


class IntervalMismatch(MarshalError):
    """Two heartbeat intervals in one group, so that two owners could process the same messages.

    The message names both. A consumer raises it when the group's owners use another interval. A
    command raises it when its option differs from the interval in the log.
    """

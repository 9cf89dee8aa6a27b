"""A member's knowledge of the log, without its identity: saved, and loaded by the next instance.

An instance that begins with saved knowledge knows the same as one that has read the whole log, so
it only needs to read newer records. This module does not know where the knowledge is stored, nor
whether the log is still the same one.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from kafka_marshal.core.state import ClaimKey
from kafka_marshal.machines.consumer.consumer import ConsumerState
from kafka_marshal.machines.share.timing import Request


@frozen
class PartitionMemory:
    """One coordinating partition, as far as it was read."""

    newborn: ConsumerState
    """The initial state of a claim without records of its own."""
    claims: Mapping[ClaimKey, ConsumerState]
    """The claims of one group that differ from it."""
    requests: Mapping[str, Request]
    """By client id: the refused requests for these claims."""


def without_self(consumer: ConsumerState) -> ConsumerState:
    """What it has read, without what it has requested, processed or resigned from.

    >>> without_self(ConsumerState(view=7, asked=True, next=3)) == ConsumerState(view=7)
    True
    """
    return ConsumerState(consumer.reader, consumer.view)

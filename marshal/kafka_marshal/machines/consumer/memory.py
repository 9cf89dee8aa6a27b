"""A member's knowledge of the log, without its identity: saved, and loaded by the next instance.

An instance that has read the whole log and one that begins where this was put aside know the same.
So the next instance need only read what came since. This room does not know where a memory is kept,
nor whether the log is still the one that it is of.
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
    """What a claim begins as that had no record of its own."""
    claims: Mapping[ClaimKey, ConsumerState]
    """Those of one group that differ from it."""
    requests: Mapping[str, Request]
    """By client id: who asked in vain for one of these claims."""


def without_self(consumer: ConsumerState) -> ConsumerState:
    """What it has read, and nothing of what it has asked for, processed or resigned from.

    >>> without_self(ConsumerState(view=7, asked=True, next=3)) == ConsumerState(view=7)
    True
    """
    return ConsumerState(consumer.reader, consumer.view)

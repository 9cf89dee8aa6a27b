"""`step`: the one function that applies a record to a claim.

This module chooses by rule set and message; `fenced` and `original` contain the transitions.
"""

from __future__ import annotations

from typing import Protocol, assert_never

from kafka_marshal.core.claims import fenced, original
from kafka_marshal.core.claims.verdicts import Verdict
from kafka_marshal.core.messages import (
    ClaimingMessages,
    ClaimingPartition,
    Heartbeat,
    Record,
    ReleaseGroup,
    ReleasingPartition,
)
from kafka_marshal.core.state import FENCED, Claim, Rules


class _Transitions(Protocol):
    """A rule set: one transition per message. The modules `fenced` and `original` are such."""

    def heartbeat(
        self, claim: Claim, record: Record, message: Heartbeat, rules: Rules
    ) -> tuple[Claim, Verdict]: ...

    def claiming_partition(
        self, claim: Claim, record: Record, message: ClaimingPartition, rules: Rules
    ) -> tuple[Claim, Verdict]: ...

    def claiming_messages(
        self, claim: Claim, record: Record, message: ClaimingMessages, rules: Rules
    ) -> tuple[Claim, Verdict]: ...

    def releasing_partition(
        self, claim: Claim, record: Record, message: ReleasingPartition, rules: Rules
    ) -> tuple[Claim, Verdict]: ...

    def release_group(
        self, claim: Claim, record: Record, message: ReleaseGroup, rules: Rules
    ) -> tuple[Claim, Verdict]: ...


def step(claim: Claim, record: Record, rules: Rules = FENCED) -> tuple[Claim, Verdict]:
    """Return the next claim, and what the record did or the guard that refused it.

    Spec: Step. The record must belong to the claim: its key, or a ReleaseGroup of its group. A
    refused record changes nothing but the claim's clock. Never raises.

    >>> from kafka_marshal import ClaimingPartition, Record
    >>> hello = ClaimingPartition(1, 1700000000, "i1", "c1", "g", "events", 0)
    >>> claim, verdict = step(Claim(), Record(0, 7, 1700000000123, hello))
    >>> verdict.value, claim.owner_client, claim.epoch
    ('claimed', 'c1', 7)
    """
    transitions: _Transitions = fenced if rules.fenced else original
    message = record.message
    match message:
        case Heartbeat():
            return transitions.heartbeat(claim, record, message, rules)
        case ClaimingPartition():
            return transitions.claiming_partition(claim, record, message, rules)
        case ClaimingMessages():
            return transitions.claiming_messages(claim, record, message, rules)
        case ReleasingPartition():
            return transitions.releasing_partition(claim, record, message, rules)
        case ReleaseGroup():
            return transitions.release_group(claim, record, message, rules)
        case _:
            assert_never(message)

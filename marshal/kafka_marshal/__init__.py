"""Coordination of Kafka consumers through nothing but a log: the verified core.

>>> from kafka_marshal import FENCED, Claim, Record, decode, step
>>> record = Record(0, 7, 1700000000123, decode(b"ClaimingPartition/1/1700000000/i1/c1/g/events/3"))
>>> claim, verdict = step(Claim(), record, FENCED)
>>> claim.owner_client, claim.epoch, verdict.value
('c1', 7, 'claimed')
"""

from typing import TYPE_CHECKING, Any

from kafka_marshal.codec import (
    MalformedRecord,
    UnsendableMessage,
    coordinating_partition,
    decode,
    decode_headers,
    encode,
    encode_headers,
)
from kafka_marshal.core.messages import (
    NO_HEADERS,
    ClaimingMessages,
    ClaimingPartition,
    Headers,
    Heartbeat,
    Message,
    Record,
    ReleaseGroup,
    ReleasingPartition,
)
from kafka_marshal.core.reducer import step
from kafka_marshal.core.state import FENCED, ORIGINAL, Claim, ClaimKey, Rules, RuleSet
from kafka_marshal.core.verdicts import Accepted, ReadTwice, Refused, Verdict
from kafka_marshal.core.world import Outcome, OutOfOrder, Transition, World

if TYPE_CHECKING:
    from kafka_marshal.runtime.topic import create_coordination_topic as create_coordination_topic

__all__ = [
    "FENCED",
    "NO_HEADERS",
    "ORIGINAL",
    "Accepted",
    "Claim",
    "ClaimKey",
    "ClaimingMessages",
    "ClaimingPartition",
    "Headers",
    "Heartbeat",
    "MalformedRecord",
    "Message",
    "OutOfOrder",
    "Outcome",
    "ReadTwice",
    "Record",
    "Refused",
    "ReleaseGroup",
    "ReleasingPartition",
    "RuleSet",
    "Rules",
    "Transition",
    "UnsendableMessage",
    "Verdict",
    "World",
    "coordinating_partition",
    "decode",
    "decode_headers",
    "encode",
    "encode_headers",
    "step",
]


def __getattr__(name: str) -> Any:
    """What needs a client of Kafka is imported when it is asked for: the core needs attrs alone."""
    if name == "create_coordination_topic":
        from kafka_marshal.runtime.topic import create_coordination_topic

        return create_coordination_topic
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

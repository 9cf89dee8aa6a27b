"""Coordination of Kafka consumers through nothing but a log: the verified core.

>>> from kafka_marshal import FENCED, Claim, Record, decode, step
>>> record = Record(0, 7, 1700000000123, decode(b"ClaimingPartition/1/1700000000/i1/c1/g/events/3"))
>>> claim, verdict = step(Claim(), record, FENCED)
>>> claim.owner_client, claim.epoch, verdict.value
('c1', 7, 'claimed')
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

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
    from kafka_marshal.client.claiming import Claiming as Claiming
    from kafka_marshal.client.consumer import Me as Me
    from kafka_marshal.client.consumer import Mode as Mode
    from kafka_marshal.client.driver import Driver as Driver
    from kafka_marshal.client.effects import Lost as Lost
    from kafka_marshal.client.member import Member as Member
    from kafka_marshal.replay.errors import ReplayError as ReplayError
    from kafka_marshal.replay.live.watch import watch as watch
    from kafka_marshal.runtime.aio import AsyncConsumer as AsyncConsumer
    from kafka_marshal.runtime.consumer import Consumer as Consumer
    from kafka_marshal.runtime.engine import LogLost as LogLost
    from kafka_marshal.runtime.errors import (
        BrokerFailed as BrokerFailed,
    )
    from kafka_marshal.runtime.errors import (
        ClaimLost as ClaimLost,
    )
    from kafka_marshal.runtime.errors import (
        ConsumerClosed as ConsumerClosed,
    )
    from kafka_marshal.runtime.errors import (
        IntervalMismatch as IntervalMismatch,
    )
    from kafka_marshal.runtime.errors import (
        InvalidOption as InvalidOption,
    )
    from kafka_marshal.runtime.errors import (
        MarshalError as MarshalError,
    )
    from kafka_marshal.runtime.errors import (
        NoCoordinationTopic as NoCoordinationTopic,
    )
    from kafka_marshal.runtime.errors import (
        NotLetIn as NotLetIn,
    )
    from kafka_marshal.runtime.errors import (
        ThreadFailed as ThreadFailed,
    )
    from kafka_marshal.runtime.holding import IdUsedTwice as IdUsedTwice
    from kafka_marshal.runtime.log import OutcomeUnknown as OutcomeUnknown
    from kafka_marshal.runtime.logs import JsonFormatter as JsonFormatter
    from kafka_marshal.runtime.message import Batch as Batch
    from kafka_marshal.runtime.metrics import PrometheusObserver as PrometheusObserver
    from kafka_marshal.runtime.observing import Observer as Observer
    from kafka_marshal.runtime.topic import create_coordination_topic as create_coordination_topic
    from kafka_marshal.runtime.tracing import OpenTelemetryObserver as OpenTelemetryObserver

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

_LATER: Final = {
    "AsyncConsumer": "runtime.aio",
    "Batch": "runtime.message",
    "BrokerFailed": "runtime.errors",
    "ClaimLost": "runtime.errors",
    "Claiming": "client.claiming",
    "Consumer": "runtime.consumer",
    "ConsumerClosed": "runtime.errors",
    "Driver": "client.driver",
    "IdUsedTwice": "runtime.holding",
    "IntervalMismatch": "runtime.errors",
    "InvalidOption": "runtime.errors",
    "JsonFormatter": "runtime.logs",
    "LogLost": "runtime.engine",
    "Lost": "client.effects",
    "MarshalError": "runtime.errors",
    "Me": "client.consumer",
    "Member": "client.member",
    "Mode": "client.consumer",
    "NoCoordinationTopic": "runtime.errors",
    "NotLetIn": "runtime.errors",
    "Observer": "runtime.observing",
    "OpenTelemetryObserver": "runtime.tracing",
    "OutcomeUnknown": "runtime.log",
    "PrometheusObserver": "runtime.metrics",
    "ReplayError": "replay.errors",
    "ThreadFailed": "runtime.errors",
    "create_coordination_topic": "runtime.topic",
    "watch": "replay.live.watch",
}
"""Names that bring a client of Kafka, threads or Arrow with them, and the module of each."""


def __getattr__(name: str) -> Any:
    """Import what is in `_LATER` when it is asked for: the core needs attrs alone."""
    if name == "__version__":
        return import_module(f"{__name__}.version").package_version()
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})

"""Coordination of Kafka consumers through a Kafka log and nothing else: the verified core.

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
from kafka_marshal.core.claims.reducer import step
from kafka_marshal.core.claims.verdicts import Accepted, ReadTwice, Refused, Verdict
from kafka_marshal.core.claims.world import Outcome, OutOfOrder, Transition, World
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
from kafka_marshal.core.state import FENCED, ORIGINAL, Claim, ClaimKey, Rules, RuleSet

if TYPE_CHECKING:
    from kafka_marshal.authentication import Keyring as Keyring
    from kafka_marshal.client.api.aio import AsyncConsumer as AsyncConsumer
    from kafka_marshal.client.api.consumer import Consumer as Consumer
    from kafka_marshal.client.connect.coordination_topic import (
        create_coordination_topic as create_coordination_topic,
    )
    from kafka_marshal.client.connect.log_writer import NotAppended as NotAppended
    from kafka_marshal.client.connect.log_writer import OutcomeUnknown as OutcomeUnknown
    from kafka_marshal.client.connect.settings import settings_of as settings_of
    from kafka_marshal.client.coordinate.consumer_loop import LogLost as LogLost
    from kafka_marshal.client.coordinate.ownership import IdUsedTwice as IdUsedTwice
    from kafka_marshal.client.fetch.buffers import BufferLimits as BufferLimits
    from kafka_marshal.client.groups.group_consumer import GroupConsumer as GroupConsumer
    from kafka_marshal.client.message import Batch as Batch
    from kafka_marshal.client.observe.logging_observer import JsonFormatter as JsonFormatter
    from kafka_marshal.client.observe.metrics import PrometheusObserver as PrometheusObserver
    from kafka_marshal.client.observe.observers import Observer as Observer
    from kafka_marshal.client.observe.tracing import OpenTelemetryObserver as OpenTelemetryObserver
    from kafka_marshal.client.produce.fence import Fence as Fence
    from kafka_marshal.client.produce.producer import Producer as Producer
    from kafka_marshal.client.produce.producer import ProducerRecord as ProducerRecord
    from kafka_marshal.errors import (
        BrokerFailed as BrokerFailed,
    )
    from kafka_marshal.errors import (
        BufferFull as BufferFull,
    )
    from kafka_marshal.errors import (
        ClaimLost as ClaimLost,
    )
    from kafka_marshal.errors import (
        ConsumerClosed as ConsumerClosed,
    )
    from kafka_marshal.errors import (
        Fenced as Fenced,
    )
    from kafka_marshal.errors import (
        HandlerFailed as HandlerFailed,
    )
    from kafka_marshal.errors import (
        IntervalMismatch as IntervalMismatch,
    )
    from kafka_marshal.errors import (
        InvalidOption as InvalidOption,
    )
    from kafka_marshal.errors import (
        MarshalError as MarshalError,
    )
    from kafka_marshal.errors import (
        NoCoordinationTopic as NoCoordinationTopic,
    )
    from kafka_marshal.errors import (
        NotAuthentic as NotAuthentic,
    )
    from kafka_marshal.errors import (
        NotLetIn as NotLetIn,
    )
    from kafka_marshal.errors import (
        ProducerClosed as ProducerClosed,
    )
    from kafka_marshal.errors import (
        ProducerFailed as ProducerFailed,
    )
    from kafka_marshal.errors import (
        ThreadFailed as ThreadFailed,
    )
    from kafka_marshal.machines.consumer.claiming import Claiming as Claiming
    from kafka_marshal.machines.consumer.consumer import InstanceConfig as InstanceConfig
    from kafka_marshal.machines.consumer.consumer import Mode as Mode
    from kafka_marshal.machines.consumer.driver import Driver as Driver
    from kafka_marshal.machines.consumer.effects import Lost as Lost
    from kafka_marshal.machines.consumer.member import Member as Member
    from kafka_marshal.replay.errors import ReplayError as ReplayError
    from kafka_marshal.replay.fold.partition_fold import JudgingOptions as JudgingOptions
    from kafka_marshal.replay.live.on_spark import watch_on_spark as watch_on_spark
    from kafka_marshal.replay.live.watch import watch as watch
    from kafka_marshal.replay.live.watch_context import WatchOptions as WatchOptions

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
    "AsyncConsumer": "client.api.aio",
    "Batch": "client.message",
    "BrokerFailed": "errors",
    "BufferFull": "errors",
    "BufferLimits": "client.fetch.buffers",
    "ClaimLost": "errors",
    "Claiming": "machines.consumer.claiming",
    "Consumer": "client.api.consumer",
    "ConsumerClosed": "errors",
    "Driver": "machines.consumer.driver",
    "Fence": "client.produce.fence",
    "Fenced": "errors",
    "GroupConsumer": "client.groups.group_consumer",
    "HandlerFailed": "errors",
    "IdUsedTwice": "client.coordinate.ownership",
    "InstanceConfig": "machines.consumer.consumer",
    "IntervalMismatch": "errors",
    "InvalidOption": "errors",
    "JsonFormatter": "client.observe.logging_observer",
    "JudgingOptions": "replay.fold.partition_fold",
    "LogLost": "client.coordinate.consumer_loop",
    "Lost": "machines.consumer.effects",
    "MarshalError": "errors",
    "Keyring": "authentication",
    "Member": "machines.consumer.member",
    "Mode": "machines.consumer.consumer",
    "NoCoordinationTopic": "errors",
    "NotAuthentic": "errors",
    "NotAppended": "client.connect.log_writer",
    "NotLetIn": "errors",
    "Observer": "client.observe.observers",
    "OpenTelemetryObserver": "client.observe.tracing",
    "OutcomeUnknown": "client.connect.log_writer",
    "Producer": "client.produce.producer",
    "ProducerClosed": "errors",
    "ProducerFailed": "errors",
    "ProducerRecord": "client.produce.producer",
    "PrometheusObserver": "client.observe.metrics",
    "ReplayError": "replay.errors",
    "ThreadFailed": "errors",
    "create_coordination_topic": "client.connect.coordination_topic",
    "WatchOptions": "replay.live.watch_context",
    "settings_of": "client.connect.settings",
    "watch": "replay.live.watch",
    "watch_on_spark": "replay.live.on_spark",
}
"""Names that bring a client of Kafka, threads or Arrow with them, and the module of each."""


def __getattr__(name: str) -> Any:
    """Import a name of `_LATER` on demand: the core only needs attrs."""
    if name == "__version__":
        return import_module(f"{__name__}.version").package_version()
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})

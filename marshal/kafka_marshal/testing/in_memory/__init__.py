"""Kafka in memory, controlled by a test: the shipped consumer runs on it without a broker.

`InMemoryKafka` is the cluster. Pass its `settings()` to `Consumer(settings=...)`. An `Append` is
the outcome of sending a record, a `Link` the connection between a process and a broker.
"""

from kafka_marshal.testing.in_memory.brokers import (
    CUT,
    DOWN,
    LANDS,
    LANDS_SOMEWHERE,
    LANDS_UNHEARD,
    LANDS_UNKNOWN,
    LOST,
    PAUSED,
    REPLIES_CUT,
    UP,
    Append,
    Link,
    Transaction,
)
from kafka_marshal.testing.in_memory.event_loop import ScheduledEventLoop
from kafka_marshal.testing.in_memory.interruptions import Interruptions
from kafka_marshal.testing.in_memory.kafka import InMemoryKafka
from kafka_marshal.testing.in_memory.network import InMemoryNetwork, Wire
from kafka_marshal.testing.in_memory.partition import Partition, Stored
from kafka_marshal.testing.in_memory.scheduler import ScheduledThread, Scheduler

__all__ = [
    "CUT",
    "DOWN",
    "LANDS",
    "LANDS_SOMEWHERE",
    "LANDS_UNHEARD",
    "LANDS_UNKNOWN",
    "LOST",
    "PAUSED",
    "REPLIES_CUT",
    "UP",
    "Append",
    "InMemoryKafka",
    "InMemoryNetwork",
    "Interruptions",
    "Link",
    "Partition",
    "ScheduledEventLoop",
    "ScheduledThread",
    "Scheduler",
    "Stored",
    "Transaction",
    "Wire",
]

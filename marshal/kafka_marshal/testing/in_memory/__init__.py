"""A Kafka in memory, driven by a test: the shipped consumer runs against it without a broker.

`InMemoryKafka` is the cluster. Its `settings()` go to `Consumer(settings=...)`. An `Append` is what
becomes of a record that a consumer sends.
"""

from kafka_marshal.testing.in_memory.brokers import (
    LANDS,
    LANDS_SOMEWHERE,
    LANDS_UNHEARD,
    LANDS_UNKNOWN,
    LOST,
    Append,
)
from kafka_marshal.testing.in_memory.event_loop import ScheduledEventLoop
from kafka_marshal.testing.in_memory.interruptions import Interruptions
from kafka_marshal.testing.in_memory.kafka import InMemoryKafka
from kafka_marshal.testing.in_memory.partition import Partition, Stored
from kafka_marshal.testing.in_memory.scheduler import ScheduledThread, Scheduler

__all__ = [
    "LANDS",
    "LANDS_SOMEWHERE",
    "LANDS_UNHEARD",
    "LANDS_UNKNOWN",
    "LOST",
    "Append",
    "InMemoryKafka",
    "Interruptions",
    "Partition",
    "ScheduledEventLoop",
    "ScheduledThread",
    "Scheduler",
    "Stored",
]

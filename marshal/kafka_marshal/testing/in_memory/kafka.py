"""A Kafka cluster in memory that a test controls, for the shipped `Consumer` and its threads.

It replaces `client.connect.environment`, so all code above Kafka's own client is the shipped one. A
test decides on each call what happens:

- `appends`: whether an append lands, and which result its sender receives;
- `fetching`: what happens while a fetch is in flight;
- `hold_log`: whether the log can be read;
- `answers`: the answer to a request of the admin client;
- `link`: whether a process reaches a broker, and how long that takes;
- `delete_records`, `truncate`, `delete`, `create`, `grow`: changes of a topic;
- `clock` and `broker_clock`: the times that consumers and brokers see.

>>> from kafka_marshal import Consumer
>>> kafka = InMemoryKafka()
>>> kafka.create("orders")
>>> kafka.produce("orders", [b"first", b"second"])
>>> with Consumer(settings=kafka.settings(), group_id="billing", client_id="c1") as consumer:
...     consumer.add_topic("orders")
...     [message.value for batch in consumer.batches(timeout_s=1.0) for message in batch.messages]
[b'first', b'second']
>>> kafka.committed["billing", "orders", 0]
2
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from itertools import count
from types import MappingProxyType
from typing import Any

from attrs import frozen

from kafka_marshal.client.connect.environment import Environment
from kafka_marshal.client.connect.settings import Settings
from kafka_marshal.client.connect.threads import OperatingSystemThreads, Thread
from kafka_marshal.testing.in_memory.admin import InMemoryAdmin
from kafka_marshal.testing.in_memory.brokers import Brokers
from kafka_marshal.testing.in_memory.clock import ClockBeside
from kafka_marshal.testing.in_memory.consumer import InMemoryConsumer
from kafka_marshal.testing.in_memory.event_loop import ScheduledEventLoop
from kafka_marshal.testing.in_memory.network import InMemoryNetwork
from kafka_marshal.testing.in_memory.producer import InMemoryProducer
from kafka_marshal.testing.in_memory.scheduler import ScheduledMonitor, Scheduler


class InMemoryKafka(Brokers):
    """The cluster, and the environment of its consumers."""

    def __init__(
        self, log_partitions: int = 1, scheduler: Scheduler | None = None, brokers: int = 1
    ) -> None:
        """Create the coordination topic with `log_partitions` partitions, and no other topic.

        With a `scheduler`, consumers start no threads, and use its clock. The brokers' clock
        follows it, but its date can be set, or drift.
        """
        super().__init__(log_partitions, brokers)
        self.scheduler = scheduler
        if scheduler is not None:
            self.changed = ScheduledMonitor(scheduler)
            self.waiting_s = scheduler.clock.monotonic
            self.sleep = scheduler.sleep
            self.process = lambda: scheduler.current.process
            self.any_of = scheduler.chance.randrange
            ids = (uuid.UUID(int=number) for number in count(1))
            self.new_topic_id = ids.__next__  # the same ones in each run of a seed
            self.clock = scheduler.clock
            self.broker_clock = ClockBeside(of=scheduler.clock)
            self.broker_ms = self.broker_clock.unix_ms
            self.network = InMemoryNetwork(scheduler)
            """The network of processes other than Kafka's clients."""
        self.threads: list[Thread] = []
        """Every thread that consumers have started."""

    def condition(self) -> Any:
        """A condition on which a client waits for new records or an answer."""
        return super().condition() if self.scheduler is None else ScheduledMonitor(self.scheduler)

    def settings(self, more: Mapping[str, str] = MappingProxyType({})) -> Settings:
        """The argument of `Consumer(settings=...)`; `more` settings have no effect here."""
        return Settings({"bootstrap.servers": "in-memory:9092", **more}, None, self.environment)

    @property
    def environment(self) -> Environment:
        """The environment of this cluster's consumers."""
        return Environment(
            fetcher=partial(InMemoryConsumer, self, False),
            log_reader=partial(InMemoryConsumer, self, True),
            appender=partial(InMemoryProducer, self),
            admin=partial(InMemoryAdmin, self),
            monotonic=self.clock.monotonic,
            unix_ms=self.clock.unix_ms,
            **self._run_by,
        )

    @property
    def _run_by(self) -> dict[str, Any]:
        if self.scheduler is None:
            return {"threads": _ListedThreads(self.threads)}
        return {
            "threads": self.scheduler,
            "random_bits": self.scheduler.chance.getrandbits,
            "connect": self.network.connect,
            "run_loop": self._run_loop,
        }

    def _run_loop(self, main: Coroutine[Any, Any, None]) -> None:
        assert self.scheduler is not None
        ScheduledEventLoop(self.scheduler, self.network).run_to_end(main)


@frozen
class _ListedThreads(OperatingSystemThreads):
    """The threads of this process, recorded in a list."""

    _started: list[Thread]

    def start(self, run: Callable[[], object], name: str) -> Thread:
        thread = super().start(run, name)
        self._started.append(thread)
        return thread

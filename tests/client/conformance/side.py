"""One of the two clusters that a script of calls runs against, and what the script saw there.

A script calls clients through the seam alone. Each call and its outcome is written down as text.
What only a cluster's owner does (transactions, retention, compaction) is a method of the side.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, Final, TypeAlias

from attrs import define, field
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from kafka_marshal.client.connect.environment import Environment
from kafka_marshal.client.connect.reader import MutedLogger

READ_S: Final = 20.0
"""How long a script waits for what it reads, in seconds."""
REST_S: Final = 4.0
"""How long a script waits for the rest, in seconds: a resumed partition needs one."""
QUIET_S: Final = 0.05
"""How long nothing comes where everything was read, in seconds."""
QUICK: Final = {"fetch.wait.max.ms": "10", "fetch.error.backoff.ms": "10"}
"""An end of a partition is reported when a fetch has waited for this long."""
KINDS: Final = {0: "no time", 1: "create time", 2: "log append time"}
LATE: Final = 0.95
"""A call that took this much of its time-out waited for all of it."""


Found: TypeAlias = Mapping[tuple[str, int], Sequence[Message]]
"""What was read of each partition."""
Reached: TypeAlias = dict[int, tuple[int, int]]
"""By partition: how many messages and errors, and the end that was reported last, or -1."""


def reached(found: Found) -> Reached:
    """How far a reading of the rest has come."""
    ends = {place: [each for each in read if _is_end(each)] for place, read in found.items()}
    return {
        place[1]: (
            len(read) - len(ends[place]),
            max([-1, *(int(each.offset() or 0) for each in ends[place])]),
        )
        for place, read in found.items()
    }


def _is_end(message: Message) -> bool:
    error = message.error()
    return error is not None and error.code() == KafkaError._PARTITION_EOF


class Side(ABC):
    """A cluster, its clients, and what was seen."""

    environment: Environment

    def __init__(self, number: int = 0) -> None:
        """With topics and groups of its own; `number` tells it from those of other scripts."""
        self.number = number
        self.seen: list[tuple[str, str]] = []
        """Each call, and what came of it."""
        self.called: set[tuple[str, str]] = set()
        """Clients of the seam, and their methods."""
        self.open: list[Recorded] = []

    # --- what a cluster's owner does --------------------------------------------------------------

    @property
    @abstractmethod
    def bootstrap(self) -> str:
        """The address that clients are made with."""

    @abstractmethod
    def create(self, topic: str, partitions: int, settings: Mapping[str, str]) -> None:
        """Create a topic."""

    @abstractmethod
    def delete(self, topic: str) -> None:
        """Delete it; returns when nobody sees it any more."""

    @abstractmethod
    def grow(self, topic: str, partitions: int) -> None:
        """Let it have this many partitions."""

    @abstractmethod
    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Retention: the log begins here."""

    def transaction(
        self, topic: str, values: Sequence[bytes], partition: int = 0, *, commit: bool
    ) -> None:
        """Append these in a transaction, and its marker."""
        self.begin_transaction(topic, values, partition)(commit=commit)

    @abstractmethod
    def begin_transaction(
        self, topic: str, values: Sequence[bytes], partition: int = 0
    ) -> Callable[..., None]:
        """Append these in a transaction; returns what ends it."""

    @abstractmethod
    def produce(self, topic: str, records: Sequence[Mapping[str, Any]]) -> None:
        """Append records of partition, value, key, timestamp, headers."""

    @abstractmethod
    def compact(self, topic: str, before: int) -> None:
        """Compact what lies in partition 0 below this offset."""

    how = "killed"
    """What becomes of a broker that breaks: it is killed, or paused."""

    @abstractmethod
    def break_broker(self) -> None:
        """Kill or pause the only broker."""

    @abstractmethod
    def mend_broker(self) -> None:
        """Let it run again."""

    # --- what a script does -----------------------------------------------------------------------

    def topic(self, name: str = "orders", partitions: int = 1, **settings: str) -> str:
        """A new topic, by a name that nobody else uses."""
        topic = self.name(name)
        self.create(topic, partitions, {k.replace("_", "."): v for k, v in settings.items()})
        return topic

    def name(self, name: str) -> str:
        """A name that no other script uses."""
        return f"{name}-{self.number}"

    def fetcher(self, **settings: Any) -> Any:
        """A client that fetches as the shipped consumer's does."""
        return self._made("FetchClient", self.environment.fetcher, self._reads(), settings)

    def log_reader(self, **settings: Any) -> Any:
        """A client that reads as the shipped reader of the log does."""
        decided = {**self._reads(), "isolation.level": "read_uncommitted"}
        return self._made("LogReader", self.environment.log_reader, decided, settings)

    def _reads(self) -> dict[str, str]:
        return {
            "group.id": self.name("group"),
            "enable.auto.commit": "false",
            "enable.auto.offset.store": "false",
            "auto.offset.reset": "error",
            "enable.partition.eof": "true",
            **QUICK,
        }

    def appender(self, **settings: Any) -> Any:
        """A client that appends as the shipped writer does."""
        decided = {
            "enable.idempotence": "true",
            "acks": "all",
            "linger.ms": "0",
            "message.timeout.ms": "30000",
        }
        return self._made("Appender", self.environment.appender, decided, settings)

    def admin(self) -> Any:
        """Kafka's admin client."""
        return self._made("Admin", self.environment.admin, {}, {})

    def fetcher_at(self, topic: str, partitions: int = 1, begin: int = 0, **settings: Any) -> Any:
        """A fetcher that has these partitions assigned."""
        client = self.fetcher(**settings)
        client.incremental_assign([TopicPartition(topic, n, begin) for n in range(partitions)])
        return client

    def log_reader_at(
        self, topic: str, partitions: int = 1, begin: int = 0, **settings: Any
    ) -> Any:
        """A reader of the log that has these partitions assigned."""
        client = self.log_reader(**settings)
        client.assign([TopicPartition(topic, n, begin) for n in range(partitions)])
        return client

    def _made(
        self,
        protocol: str,
        opener: Callable[..., Any],
        decided: Mapping[str, Any],
        settings: Mapping[str, Any],
    ) -> Recorded:
        mine = {name.replace("_", "."): value for name, value in settings.items()}
        mine = {name.replace("error.cb", "error_cb"): value for name, value in mine.items()}
        mine = {name.replace("on.commit", "on_commit"): value for name, value in mine.items()}
        made_of = {"bootstrap.servers": self.bootstrap, **decided, **mine}
        count = sum(each.protocol == protocol for each in self.open)
        name = protocol.lower() + ("" if not count else str(count + 1))
        client = opener(made_of, logger=MutedLogger())
        made = Recorded(self, protocol, name, client)
        self.open.append(made)
        return made

    def note(self, call: str, outcome: object) -> None:
        """Write down what was seen."""
        self.seen.append((call, shown(outcome)))

    def read(
        self,
        client: Recorded,
        partitions: Iterable[tuple[str, int]],
        *,
        by: str = "poll",
        ends: int = 1,
        within_s: float = READ_S,
    ) -> dict[tuple[str, int], list[Message]]:
        """Read until each partition reported this many errors, ends included."""
        wanted = list(partitions)
        found: dict[tuple[str, int], list[Message]] = {one: [] for one in wanted}
        deadline = self.environment.deadline(within_s)
        self.called.add((client.protocol, by))

        def over(one: tuple[str, int]) -> bool:
            return sum(each.error() is not None for each in found[one]) >= ends

        while not all(map(over, wanted)) and deadline.left_s:
            if by == "poll":
                polled = client.client.poll(min(0.1, deadline.left_s))
                batch = [] if polled is None else [polled]
            else:
                batch = client.client.consume(num_messages=100, timeout=0.02)
            for message in batch:
                place = str(message.topic()), int(message.partition())
                found.setdefault(place, []).append(message)
        for one in sorted(found):
            self.note(f"{client.name} reads {one[0]}[{one[1]}]", found[one])
        return found

    def read_rest(self, client: Recorded) -> None:
        """Read what there is."""
        found: dict[tuple[str, int], list[Message]] = {}
        while not self.is_read(found):
            polled = client.client.poll(QUIET_S)
            if polled is not None:
                place = str(polled.topic()), int(polled.partition())
                found.setdefault(place, []).append(polled)
        for one in sorted(found):
            # An end that is reported between two messages depends on when they come.
            last = len(found[one]) - 1
            told = [each for at, each in enumerate(found[one]) if at == last or not _is_end(each)]
            # A position that is gone is now and then reported twice.
            words = [shown(each) for each in told]
            once = [each for at, each in enumerate(told) if words[at] not in words[:at]]
            self.note(f"{client.name} reads {one[0]}[{one[1]}]", once)

    @abstractmethod
    def is_read(self, found: Found) -> bool:
        """Whether no more will come."""

    def delivered(self, client: Recorded, within_s: float = READ_S) -> None:
        """Poll until nothing is under way."""
        deadline = self.environment.deadline(within_s)
        self.called |= {(client.protocol, "poll"), (client.protocol, "__len__")}
        while len(client.client) and deadline.left_s:
            client.client.poll(min(0.1, deadline.left_s))
        self.note(f"{client.name} has under way", len(client.client))

    def quiet(self, client: Recorded, within_s: float, done: Callable[[], bool]) -> None:
        """Poll, and write down only what is not None, until it is done."""
        deadline = self.environment.deadline(within_s)
        while not done() and deadline.left_s:
            polled = client.client.poll(0.05)
            if polled is not None:
                self.note(f"{client.name} polls", polled)

    def count(self, call: str) -> int:
        """How often it was seen."""
        return sum(each == call for each, _ in self.seen)

    def settle(self, seconds: float) -> None:
        """Wait, so that clients look up their metadata again."""
        self.environment.threads.sleep(seconds)

    def until(
        self, call: Callable[[], object], true: Callable[[Any], bool], within_s: float = READ_S
    ) -> None:
        """Ask until the answer is so: what every broker knows in the end, and not at once."""
        deadline = self.environment.deadline(within_s)
        while True:
            before = len(self.seen)
            answer = call()
            if true(answer) or not deadline.left_s:
                return
            del self.seen[before:]
            self.environment.threads.sleep(0.02)

    def close(self) -> None:
        """Let go of every client."""
        for each in self.open:
            if hasattr(each.client, "close"):
                each.client.close()
            each.client = None


@define(eq=False)
class Recorded:
    """A client whose every call is written down."""

    side: Side
    protocol: str
    name: str
    client: Any
    reports: list[tuple[KafkaError | None, Message]] = field(factory=list)

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def call(*of: Any, **named: Any) -> Any:
            return self.calls(method, *of, **named)

        return call

    def __len__(self) -> int:
        return int(self.calls("__len__"))

    def calls(self, method: str, *of: Any, **named: Any) -> Any:
        """Call it; returns the answer, None if it raised."""
        side = self.side
        side.called.add((self.protocol, method))
        given = [*map(shown, of), *(f"{name}={shown(one)}" for name, one in named.items())]
        words = f"{self.name}.{method}({', '.join(given)})"
        begun = side.environment.monotonic()
        answer = None
        try:
            answer = getattr(self.client, method)(*of, **named)
            if isinstance(answer, dict) and all(isinstance(x, Future) for x in answer.values()):
                answer = {one: _result(promised) for one, promised in answer.items()}
            outcome = shown(answer)
        except Exception as error:
            outcome = f"raises {shown(error)}"
        past = side.environment.monotonic() - begun
        timeout = named.get("timeout", of[-1] if method == "poll" and of else 0)
        if isinstance(timeout, float) and timeout > 0 and past >= LATE * timeout:
            outcome += ", after its time-out"
        side.seen.append((words, outcome))
        return answer

    def append(self, topic: str, value: bytes | None, key: bytes | None = None, **of: Any) -> None:
        """Produce, and write down what the delivery report says, when it comes."""

        def report(error: KafkaError | None, message: Message) -> None:
            self.reports.append((error, message))
            self.side.note(f"{self.name} is notified", error or message)

        self.calls("produce", topic, value, key, on_delivery=report, **of)


def _result(promised: Future[Any]) -> Any:
    try:
        return promised.result(30)
    except Exception as error:
        return error


def shown(value: Any) -> str:
    """What both sides must agree on, as text."""
    match value:
        case KafkaException():
            return f"KafkaException({', '.join(map(shown, value.args))})"
        case KafkaError():
            is_so = [("fatal", value.fatal()), ("retriable", value.retriable())]
            words = [value.name(), *(word for word, so in is_so if so)]
            return " ".join(words)
        case Exception():
            return f"{type(value).__name__}: {value}"
        case Message():
            return _message(value)
        case TopicPartition() | SimpleNamespace(topic=_, partition=_, offset=_):
            error = "" if value.error is None else f" {shown(value.error)}"
            return f"{value.topic}[{value.partition}]@{value.offset}{error}"
        case dict():
            pairs = sorted((shown(one), shown(each)) for one, each in value.items())
            return "{" + ", ".join(f"{one}: {each}" for one, each in pairs) + "}"
        case list() | tuple() | set() | frozenset():
            return "[" + ", ".join(map(shown, value)) + "]"
        case bytes() if len(value) > 40:
            return f"{len(value)} bytes"
    if callable(value):
        return "..."
    if type(value).__name__ in ("TopicCollection", "NewTopic") or type(value).__name__.endswith(
        "Spec"
    ):
        return _asked(value)
    for kind, named in _FIELDS.items():
        if type(value).__name__ == kind or all(hasattr(value, one) for one in named):
            return f"{kind}({', '.join(f'{one}={_field(value, one)}' for one in named)})"
    return str(value) if isinstance(value, str) else repr(value)


_FIELDS: Final[Mapping[str, Sequence[str]]] = {
    "TopicDescription": ("name", "is_internal", "partitions", "authorized_operations"),
    "TopicPartitionInfo": ("id", "leader", "replicas", "isr"),
    "ClusterMetadata": ("topics", "brokers"),
    "TopicMetadata": ("topic", "partitions", "error"),
    "PartitionMetadata": ("id", "leader", "replicas", "isrs", "error"),
    "BrokerMetadata": ("id",),
    "ListOffsetsResultInfo": ("offset", "timestamp"),
    "ConsumerGroupDescription": ("group_id", "state", "authorized_operations"),
    "ConsumerGroupTopicPartitions": ("group_id", "topic_partitions"),
    "ConfigEntry": ("value",),
    "Node": ("id",),
}
"""What callers see of each answer."""


def _field(value: Any, name: str) -> str:
    found = getattr(value, name)
    if name == "authorized_operations" and found is not None:
        return str(sorted(one.name for one in found))
    if name == "timestamp" and found is not None:
        return "a time" if found > 0 else str(found)
    if name == "state":
        return str(found.name)
    return shown(found)


def _asked(value: Any) -> str:
    names = getattr(value, "topic_names", None)
    return type(value).__name__ if names is None else shown(names)


def _message(value: Message) -> str:
    where = f"{value.topic()}[{value.partition()}]@{value.offset()}"
    error = value.error()
    if error is not None:
        return f"{where} {shown(error)}"
    kind, at_ms = value.timestamp()
    exact = f" {at_ms}" if kind == 1 and at_ms < 1_000_000_000_000 else ""
    return (
        f"{where} {shown(value.key())}={shown(value.value())} {shown(value.headers())} "
        f"{KINDS[kind]}{exact}"
    )

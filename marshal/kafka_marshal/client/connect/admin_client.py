"""Queries and changes a cluster: brokers, topics, offsets.

It knows Kafka's admin client, and turns each of its errors into one sentence. It does not know why
its callers ask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final, TypeVar, cast

from attrs import frozen
from confluent_kafka import (
    OFFSET_INVALID,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public, not listed in __all__
    AclOperation,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from kafka_marshal.client.connect.client_errors import ClientErrors, code_of, rights_of_consumer
from kafka_marshal.client.connect.reader import (
    CONNECT_S,
    SPREADS_S,
    UNKNOWN_TOPIC,
    Watermarks,
    patiently,
)
from kafka_marshal.client.connect.settings import Settings
from kafka_marshal.errors import BrokerFailed, in_words

T = TypeVar("T")

FIRST_TRY_S: Final = 2.0
"""The first timeout of a request, in seconds; it doubles after each timeout."""
_OTHER_LEADER: Final = frozenset(
    {
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError._NOENT,
    }
)
"""The client has outdated metadata: another leader, another epoch, or none."""
ALL_OPERATIONS: Final = frozenset({"READ", "WRITE", "DESCRIBE", "DESCRIBE_CONFIGS"})
"""The operations that a user of the coordination topic may need, by Kafka's names."""


@frozen
class PartitionDescription:
    """One partition of a topic; brokers are given by number."""

    leader: int | None
    """None if it has no leader, and can neither be read nor appended to."""
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@frozen
class TopicDescription:
    """A topic that exists."""

    name: str
    partitions: Mapping[int, PartitionDescription]
    allowed: frozenset[str] | None
    """The allowed operations for the user of these settings; None if not reported."""
    topic_id: str | None = None
    """A topic that is deleted and created again gets a new id. None if brokers report none."""

    def is_not(self, topic_id: str | None) -> bool:
        """Whether it has another id than this one; False if either of them is unknown."""
        return None not in (self.topic_id, topic_id) and self.topic_id != topic_id

    @property
    def led(self) -> bool:
        """Whether every partition has a leader."""
        return all(one.leader is not None for one in self.partitions.values())

    @property
    def copies(self) -> int:
        """The least number of replicas of its partitions."""
        return min(len(one.replicas) for one in self.partitions.values())


class NotAuthorized(BrokerFailed):
    """The user of these settings may not describe it."""


class TopicExists(BrokerFailed):
    """Another process created the topic first."""


class ClusterClient:
    """Queries and changes one cluster. Nothing is cached."""

    def __init__(self, settings: Settings) -> None:
        """Create the client; it connects at the first request.

        Raises:
            BrokerFailed: a setting is not one of librdkafka's.
        """
        self.settings = settings
        self._monotonic = settings.environment.monotonic
        self._client_errors = ClientErrors(settings)
        with self._plainly(""):
            self._admin = settings.environment.admin(
                self._client_errors.for_client(), logger=self._client_errors
            )

    # --- brokers and topics -----------------------------------------------------------------------

    def brokers(self) -> tuple[int, ...]:
        """The numbers of the live brokers.

        Raises:
            BrokerFailed: the cluster did not answer. All methods raise it.
        """
        return tuple(sorted(self._metadata().brokers))

    def topics(self) -> dict[str, int]:
        """The number of partitions of every topic that this user may describe.

        A topic that is not among them may exist: `topic` tells a missing topic from a hidden one.
        """
        return {name: len(one.partitions) for name, one in self._metadata().topics.items()}

    def topic(self, name: str, spreads_s: float = SPREADS_S) -> TopicDescription | None:
        """The topic; None if there is no such topic.

        A broker may not know a new topic yet, so it asks again for `spreads_s` seconds.

        Raises:
            NotAuthorized: the user of these settings may not describe it.
        """
        try:
            found = self._answer_of_any(partial(self._describe, name), spreads_s)
        except KafkaException as error:
            if code_of(error) in UNKNOWN_TOPIC:
                return None
            failed = self._failed(error, f"topic {name}", "DESCRIBE on it")
            if code_of(error) == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                failed = NotAuthorized(str(failed))
            raise failed from None
        partitions = {
            one.id: PartitionDescription(
                one.leader.id if one.leader is not None and one.leader.id >= 0 else None,
                tuple(node.id for node in one.replicas),
                tuple(node.id for node in one.isr),
            )
            for one in found.partitions
        }
        operations = found.authorized_operations
        allowed = None if operations is None else frozenset(one.name for one in operations)
        if allowed is not None and AclOperation.ALL.name in allowed:
            allowed |= ALL_OPERATIONS
        bits = (
            found.topic_id.get_most_significant_bits(),
            found.topic_id.get_least_significant_bits(),
        )
        return TopicDescription(
            name, partitions, allowed, str(found.topic_id) if any(bits) else None
        )

    def _describe(self, name: str, within_s: float) -> Future[Any]:
        asked = self._admin.describe_topics(
            TopicCollection([name]), include_authorized_operations=True, request_timeout=within_s
        )
        return cast("Future[Any]", asked[name])

    def topic_settings(self, name: str) -> dict[str, str]:
        """The topic's settings in effect, including the brokers' defaults."""
        resource = ConfigResource(ResourceType.TOPIC, name)
        with self._plainly(f"settings of topic {name}", "DESCRIBE_CONFIGS on it"):
            found = self._answer_of_any(
                lambda within_s: self._admin.describe_configs([resource], request_timeout=within_s)[
                    resource
                ]
            )
        return {one.name: one.value or "" for one in found.values()}

    def create_topic(
        self,
        name: str,
        partitions: int,
        copies: int,
        settings: Mapping[str, str],
        brokers: Sequence[int] = (),
    ) -> None:
        """Create a topic; with `brokers`, partition n has one replica, on the n-th of them.

        Raises:
            TopicExists: it exists already.
        """
        placed: dict[str, Any] = {"replication_factor": copies}
        if brokers:
            placed = {"replica_assignment": [[number] for number in brokers]}
        new = NewTopic(name, partitions, config=dict(settings), **placed)
        with self._plainly(f"creating {name}", "CREATE on it"):
            try:
                self._answer(
                    lambda: self._admin.create_topics([new], request_timeout=CONNECT_S)[name]
                )
            except KafkaException as error:
                if code_of(error) == KafkaError.TOPIC_ALREADY_EXISTS:
                    raise TopicExists(str(self._failed(error, f"creating {name}"))) from None
                raise

    def delete_topic(self, name: str) -> None:
        """Delete a topic."""
        with self._plainly(f"deleting {name}", "DELETE on it"):
            self._answer(lambda: self._admin.delete_topics([name], request_timeout=CONNECT_S)[name])

    # --- offsets ----------------------------------------------------------------------------------

    def extents(self, partitions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], Watermarks]:
        """The offsets that these partitions hold now; those without an answer are left out."""
        lows = self._offsets(partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        highs = self._offsets(partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]
        return {one: Watermarks(lows[one], highs[one]) for one in lows if one in highs}

    def all_extents(
        self, partitions: Sequence[tuple[str, int]]
    ) -> dict[tuple[str, int], Watermarks]:
        """The offsets that these partitions hold now, all of them.

        Raises:
            BrokerFailed: one of them could not be looked up.
        """
        earliest, latest = OffsetSpec.earliest(), OffsetSpec.latest()  # type: ignore[no-untyped-call]
        with self._plainly("which offsets partitions hold", "DESCRIBE on their topics"):
            lows = self._all_offsets(partitions, earliest)
            highs = self._all_offsets(partitions, latest)
        return {one: Watermarks(lows[one], highs[one]) for one in partitions}

    def ends(
        self, partitions: Sequence[tuple[str, int]], within_s: float = CONNECT_S
    ) -> dict[tuple[str, int], int]:
        """The current end offsets of these partitions; those without an answer are left out."""
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        return self._offsets(partitions, latest, within_s=within_s)

    def offsets_at(
        self, partitions: Sequence[tuple[str, int]], at_ms: int
    ) -> dict[tuple[str, int], int]:
        """The first offset of each partition whose record is not older; left out without one.

        No record is older than 1970. Kafka reserves timestamps below 0: -1 is the end.

        Raises:
            BrokerFailed: there was no answer for one of them.
        """
        with self._plainly("offsets at a time", "DESCRIBE on their topics"):
            found = self._all_offsets(partitions, OffsetSpec.for_timestamp(max(0, at_ms)))
        return {one: offset for one, offset in found.items() if offset >= 0}

    def _all_offsets(
        self, partitions: Sequence[tuple[str, int]], spec: OffsetSpec
    ) -> dict[tuple[str, int], int]:
        """The answers for all of them; raises if one is missing."""

        def ask(within_s: float) -> dict[tuple[str, int], int]:
            failed: list[KafkaException] = []
            found = self._offsets(partitions, spec, failed.append, within_s)
            if failed:
                raise failed[0]
            return found

        return self._ask_any(ask)

    def _offsets(
        self,
        partitions: Sequence[tuple[str, int]],
        spec: OffsetSpec,
        failed: Callable[[KafkaException], None] = lambda _: None,
        within_s: float = CONNECT_S,
    ) -> dict[tuple[str, int], int]:
        """The answers; `failed` is called with each error, and its partition is left out."""
        found: dict[tuple[str, int], int] = {}
        for is_last in (False, True):
            left = [one for one in partitions if one not in found]
            errors = list[KafkaException]()
            if left:
                found |= self._offsets_once(left, spec, errors.append, within_s)
            if is_last or not any(code_of(error) in _OTHER_LEADER for error in errors):
                for error in errors:
                    failed(error)
                break
            # librdkafka 2.16 does not update the metadata of a topic that it knows. After a
            # restart of a broker it sends the old leader epoch, and a new topic has no leader.
            self._update_leaders()
        return found

    def _offsets_once(
        self,
        partitions: Sequence[tuple[str, int]],
        spec: OffsetSpec,
        failed: Callable[[KafkaException], None],
        within_s: float,
    ) -> dict[tuple[str, int], int]:
        try:
            asked = self._asked(
                lambda: self._admin.list_offsets(
                    {TopicPartition(*one): spec for one in partitions}, request_timeout=within_s
                )
            )
        except KafkaException as error:
            failed(error)
            return {}
        found = {}
        for one, answer in asked.items():
            try:
                offset = self._answer(partial(_itself, answer)).offset
                if offset == OFFSET_INVALID:
                    # No error: librdkafka gave up waiting for the partition's leader.
                    raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer"))
                found[one.topic, one.partition] = offset
            except KafkaException as error:
                failed(error)
        return found

    def _update_leaders(self) -> None:
        """Update the metadata about leaders, if any broker answers."""
        with suppress(KafkaException):
            # Of all topics: a request for one might create it.
            self._asked(partial(self._admin.list_topics, timeout=FIRST_TRY_S))

    def allowed_of_group(self, group: str) -> frozenset[str] | None:
        """The allowed operations on a group for the user of these settings, by Kafka's names.

        None if not reported.
        """
        try:
            found = self._answer(
                lambda: self._admin.describe_consumer_groups(
                    [group], include_authorized_operations=True, request_timeout=CONNECT_S
                )[group]
            )
        except KafkaException as error:
            refused = code_of(error) == KafkaError.GROUP_AUTHORIZATION_FAILED
            return frozenset() if refused else None
        operations = found.authorized_operations
        if not operations:
            return None
        allowed = frozenset(one.name for one in operations)
        return allowed | ALL_OPERATIONS if AclOperation.ALL.name in allowed else allowed

    def commit(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Set the group's committed offsets, which Kafka's own tools display."""
        wanted = [TopicPartition(*one, offset) for one, offset in sorted(offsets.items())]
        with self._plainly(f"committing offsets of group {group}", rights_of_consumer(group)):
            answered = self._answer(
                lambda: self._admin.alter_consumer_group_offsets(
                    [ConsumerGroupTopicPartitions(group, wanted)], request_timeout=CONNECT_S
                )[group]
            )
            for one in answered.topic_partitions or ():
                if one.error is not None:
                    raise KafkaException(one.error)

    # --- errors -----------------------------------------------------------------------------------

    def _metadata(self) -> Any:
        with self._plainly(""):
            return self._asked(
                lambda: self._client_errors.ask(
                    lambda within_s: self._admin.list_topics(timeout=within_s),
                    lambda: self._admin.poll(0),
                    CONNECT_S,
                )
            )

    def _answer_of_any(
        self, question: Callable[[float], Future[T]], spreads_s: float = SPREADS_S
    ) -> T:
        """The answer to a request with a timeout, from any broker that has it.

        Raises:
            NotLetIn: the cluster refuses this client.
            KafkaException: there is no answer, for any reason.
        """
        return self._ask_any(lambda within_s: self._answer(partial(question, within_s)), spreads_s)

    def _ask_any(self, ask: Callable[[float], T], spreads_s: float = SPREADS_S) -> T:
        """Retry, and update the metadata about leaders after each timeout.

        librdkafka asks the broker that it knows as controller or leader, and waits until the
        request times out, even if that broker has died. It does not look for another one.
        """
        within_s = FIRST_TRY_S

        def one_try() -> T:
            nonlocal within_s
            try:
                return ask(within_s)
            except KafkaException as error:
                if code_of(error) == KafkaError._TIMED_OUT:
                    within_s = min(2 * within_s, CONNECT_S)
                    self._update_leaders()
                raise

        return patiently(one_try, self.settings.environment, spreads_s)

    def _answer(self, question: Callable[[], Future[T]]) -> T:
        """The answer to a request.

        Raises:
            NotLetIn: the cluster refuses this client.
            KafkaException: there is no answer, for any reason.
        """
        poll = partial(self._admin.poll, 0)
        return self._asked(lambda: self._client_errors.wait(question(), poll, 2 * CONNECT_S))

    def _asked(self, ask: Callable[[], T]) -> T:
        """The result of `ask`; errors that are not our own become KafkaException."""
        try:
            return ask()
        except (KafkaException, BrokerFailed):
            raise
        except TimeoutError:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer")) from None
        except Exception as error:
            raise KafkaException(KafkaError(KafkaError._FAIL, in_words(error))) from error

    @contextmanager
    def _plainly(self, about: str, right: str = "") -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            raise self._failed(error, about, right) from None

    def _failed(self, exception: KafkaException, about: str, right: str = "") -> BrokerFailed:
        with suppress(AttributeError, KafkaException):
            self._admin.poll(0)  # runs the client's pending error callbacks
        return self._client_errors.failed(exception, about, right)


def _itself(promised: Future[T]) -> Future[T]:
    return promised

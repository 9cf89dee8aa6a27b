"""Queries and changes a cluster: brokers, topics, offsets.

It knows Kafka's admin client and turns its errors into one sentence. It does not know what any of
it is good for.
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

from kafka_marshal.client.connect.client_errors import ClientErrors, code_of
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
"""How long a question waits at first, in seconds; after each time-out it waits twice as long."""
_OTHER_LEADER: Final = frozenset(
    {
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError._NOENT,
    }
)
"""Another leads than the client believes, or in another epoch, or it believes that nobody does."""
ALL_OPERATIONS: Final = frozenset({"READ", "WRITE", "DESCRIBE", "DESCRIBE_CONFIGS"})
"""What a user of the coordination topic may need; Kafka's words."""


@frozen
class PartitionDescription:
    """One partition of a topic, by number of broker."""

    leader: int | None
    """None while there is none: nobody can read or append."""
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@frozen
class TopicDescription:
    """A topic that exists."""

    name: str
    partitions: Mapping[int, PartitionDescription]
    allowed: frozenset[str] | None
    """What the user of these settings may do with it, in Kafka's words; None if not reported."""
    topic_id: str | None = None
    """A topic that is deleted and made again gets a new one. None if the brokers give none."""

    @property
    def led(self) -> bool:
        """Every partition has a leader."""
        return all(one.leader is not None for one in self.partitions.values())

    @property
    def copies(self) -> int:
        """The fewest copies that one of its partitions has."""
        return min(len(one.replicas) for one in self.partitions.values())


class NotAuthorized(BrokerFailed):
    """The user of these settings may not even see it."""


class TopicExists(BrokerFailed):
    """Another process created the topic first."""


class ClusterClient:
    """Asks one cluster, and changes it. Nothing is cached."""

    def __init__(self, settings: Settings) -> None:
        """Connect at the first question.

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
        """The numbers of the brokers that are up.

        Raises:
            BrokerFailed: the cluster did not answer; so do all methods.
        """
        return tuple(sorted(self._metadata().brokers))

    def topics(self) -> dict[str, int]:
        """Every topic that this user can see, and how many partitions it has."""
        return {name: len(one.partitions) for name, one in self._metadata().topics.items()}

    def topic(self, name: str, spreads_s: float = SPREADS_S) -> TopicDescription | None:
        """The topic; None if there is no such topic.

        A broker may not know a new topic yet, so "no such topic" is asked again for `spreads_s`.

        Raises:
            NotAllowed: the user of these settings may not see it.
        """
        try:
            found = self._answer_of_any(partial(self._describe, name), spreads_s)
        except KafkaException as error:
            if code_of(error) in UNKNOWN_TOPIC:
                return None
            failed = self._failed(error, f"topic {name}")
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
        """The topic's settings as they hold, also the brokers' defaults."""
        resource = ConfigResource(ResourceType.TOPIC, name)
        with self._plainly(f"settings of topic {name}"):
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
        """Create it; with `brokers` partition n lies on the n-th of them alone.

        Raises:
            TopicExists: it is there already.
        """
        placed: dict[str, Any] = {"replication_factor": copies}
        if brokers:
            placed = {"replica_assignment": [[number] for number in brokers]}
        new = NewTopic(name, partitions, config=dict(settings), **placed)
        with self._plainly(f"creating {name}"):
            try:
                self._answer(
                    lambda: self._admin.create_topics([new], request_timeout=CONNECT_S)[name]
                )
            except KafkaException as error:
                if code_of(error) == KafkaError.TOPIC_ALREADY_EXISTS:
                    raise TopicExists(str(self._failed(error, f"creating {name}"))) from None
                raise

    def delete_topic(self, name: str) -> None:
        """Delete it."""
        with self._plainly(f"deleting {name}"):
            self._answer(lambda: self._admin.delete_topics([name], request_timeout=CONNECT_S)[name])

    # --- offsets ----------------------------------------------------------------------------------

    def extents(self, partitions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], Watermarks]:
        """What these partitions of topics hold now, without those that no broker answers for."""
        lows = self._offsets(partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        highs = self._offsets(partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]
        return {one: Watermarks(lows[one], highs[one]) for one in lows if one in highs}

    def ends(
        self, partitions: Sequence[tuple[str, int]], within_s: float = CONNECT_S
    ) -> dict[tuple[str, int], int]:
        """Where these partitions of topics end now, without those that no broker answers for."""
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        return self._offsets(partitions, latest, within_s=within_s)

    def offsets_at(
        self, partitions: Sequence[tuple[str, int]], at_ms: int
    ) -> dict[tuple[str, int], int]:
        """The first offset whose record is not older than this; left out where there is none.

        Raises:
            BrokerFailed: of one of them nobody can tell.
        """
        with self._plainly("offsets at a time"):
            found = self._all_offsets(partitions, OffsetSpec.for_timestamp(at_ms))
        return {one: offset for one, offset in found.items() if offset >= 0}

    def _all_offsets(
        self, partitions: Sequence[tuple[str, int]], spec: OffsetSpec
    ) -> dict[tuple[str, int], int]:
        """What is answered of all of them: no answer says nothing about the offset."""

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
        """What is answered; `failed` takes each error, and what it is of is left out."""
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
            # librdkafka 2.16 asks nobody who leads what it knows already. After a restart of a
            # broker it names the leader's old epoch, and of a new topic that nobody leads it.
            self._look_who_leads()
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

    def _look_who_leads(self) -> None:
        """Learn anew which broker leads what; that nobody answers is no error."""
        with suppress(KafkaException):
            # Of all topics: a question for one of them might create it.
            self._asked(partial(self._admin.list_topics, timeout=FIRST_TRY_S))

    def allowed_of_group(self, group: str) -> frozenset[str] | None:
        """What the user of these settings may do with a group, in Kafka's words, READ and DESCRIBE.

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
        """Set the group's committed offsets, which Kafka's own tools show."""
        wanted = [TopicPartition(*one, offset) for one, offset in sorted(offsets.items())]
        with self._plainly(f"committing offsets of group {group}"):
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
        """The answer to a question that takes a time-out, of whichever broker may give it.

        Raises:
            NotLetIn: there will be none.
            KafkaException: there is no answer, for any reason.
        """
        return self._ask_any(lambda within_s: self._answer(partial(question, within_s)), spreads_s)

    def _ask_any(self, ask: Callable[[float], T], spreads_s: float = SPREADS_S) -> T:
        """Ask patiently, and after each time-out look anew which broker is whose leader.

        librdkafka asks the one that it knows as controller, or as leader, and waits for it until
        the request times out, even if that broker has died. It does not look for another one.
        """
        within_s = FIRST_TRY_S

        def one_try() -> T:
            nonlocal within_s
            try:
                return ask(within_s)
            except KafkaException as error:
                if code_of(error) == KafkaError._TIMED_OUT:
                    within_s = min(2 * within_s, CONNECT_S)
                    self._look_who_leads()
                raise

        return patiently(one_try, self.settings.environment, spreads_s)

    def _answer(self, question: Callable[[], Future[T]]) -> T:
        """The answer to a question.

        Raises:
            NotLetIn: there will be none.
            KafkaException: there is no answer, for any reason.
        """
        poll = partial(self._admin.poll, 0)
        return self._asked(lambda: self._client_errors.wait(question(), poll, 2 * CONNECT_S))

    def _asked(self, ask: Callable[[], T]) -> T:
        """What it returns; every error but our own is one of Kafka's, so nobody expects others."""
        try:
            return ask()
        except (KafkaException, BrokerFailed):
            raise
        except TimeoutError:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer")) from None
        except Exception as error:
            raise KafkaException(KafkaError(KafkaError._FAIL, in_words(error))) from error

    @contextmanager
    def _plainly(self, about: str) -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            raise self._failed(error, about) from None

    def _failed(self, exception: KafkaException, about: str) -> BrokerFailed:
        with suppress(AttributeError, KafkaException):
            self._admin.poll(0)  # lets the client say what it has on its mind
        return self._client_errors.failed(exception, about)


def _itself(promised: Future[T]) -> Future[T]:
    return promised

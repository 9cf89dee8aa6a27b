"""Kafka's admin client on brokers in memory, with the methods that the shipped client calls.

Other requests are refused. This module does not decide what the brokers answer.
"""

# ruff: noqa: D102  # each method is Kafka's, and described there

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from types import SimpleNamespace
from typing import Any, Final

from confluent_kafka import (
    OFFSET_INVALID,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
    Uuid,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public, not listed in __all__
    AclOperation,
)

from kafka_marshal.testing.in_memory.brokers import Brokers

DEFAULTS: Final = {
    "cleanup.policy": "delete",
    "max.message.bytes": "1048588",
    "message.timestamp.type": "CreateTime",
    "min.insync.replicas": "1",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.ms": "604800000",
    "unclean.leader.election.enable": "false",
}
"""A broker's default settings of topics."""
_NAME: Final = re.compile(r"[\w.\-]{1,249}", re.ASCII)
_NUMBER: Final = re.compile(r".*\.(ms|bytes|replicas)")
_OF_TOPIC: Final = [
    "READ",
    "WRITE",
    "CREATE",
    "DELETE",
    "ALTER",
    "DESCRIBE",
    "DESCRIBE_CONFIGS",
    "ALTER_CONFIGS",
]
_OF_GROUP: Final = ["READ", "DELETE", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"]
TIMEOUT_S: Final = 60.0


class InMemoryAdmin:
    """Kafka's admin client in memory."""

    def __init__(self, kafka: Brokers, made_of: dict[str, Any], **_: Any) -> None:
        self._kafka, self._process = kafka, kafka.process()

    def poll(self, timeout: float = -1) -> int:
        return 0

    def list_topics(self, topic: str = "", timeout: float = -1) -> Any:
        self._kafka.speaks()
        self._kafka.asked("list_topics")
        self._kafka.answers("list_topics")
        self._kafka.ask(self._process, timeout, refused=KafkaError._TRANSPORT)
        return self._kafka.metadata(topic)

    # --- topics -------------------------------------------------------------------------------

    def describe_topics(
        self,
        topics: Any,
        include_authorized_operations: bool = False,
        request_timeout: float = TIMEOUT_S,
        **_: Any,
    ) -> dict[str, Future[Any]]:
        operations = _OF_TOPIC if include_authorized_operations else None
        return {
            name: self._promised(
                "describe_topics", partial(self._described, name, operations), request_timeout
            )
            for name in topics.topic_names
        }

    def _described(self, name: str, operations: list[str] | None) -> Any:
        if name in self._kafka.hidden:
            raise KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
        partitions = self._kafka.topics.get(name)
        if partitions is None or self._kafka.missing(name):
            raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
        nodes = [SimpleNamespace(id=number) for number in self._kafka.numbers]
        topic_id = self._kafka.topic_ids[name].bytes
        halves = topic_id[:8], topic_id[8:]
        return SimpleNamespace(
            name=name,
            is_internal=False,
            partitions=[
                SimpleNamespace(
                    id=number,
                    leader=SimpleNamespace(id=one.leader),
                    replicas=nodes,
                    isr=nodes,
                )
                for number, one in enumerate(partitions)
            ],
            authorized_operations=_operations(operations),
            topic_id=Uuid(*(int.from_bytes(half, signed=True) for half in halves)),
        )

    def describe_configs(
        self, resources: list[Any], request_timeout: float = TIMEOUT_S, **_: Any
    ) -> dict[Any, Future[Any]]:
        return {
            one: self._promised(
                "describe_configs", partial(self._settings, one.name), request_timeout
            )
            for one in resources
        }

    def _settings(self, topic: str) -> dict[str, Any]:
        settings = self._kafka.topic_settings.get(topic)
        if settings is None:
            raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
        hold = {**DEFAULTS, **settings}
        return {name: SimpleNamespace(name=name, value=value) for name, value in hold.items()}

    def create_topics(
        self, new_topics: list[Any], request_timeout: float = TIMEOUT_S, **_: Any
    ) -> dict[str, Future[Any]]:
        return {
            one.topic: self._promised("create_topics", partial(self._create, one), request_timeout)
            for one in new_topics
        }

    def _create(self, new: Any) -> None:
        code = None
        if new.topic in self._kafka.topic_ids:
            code = KafkaError.TOPIC_ALREADY_EXISTS
        elif not _NAME.fullmatch(new.topic):
            code = KafkaError.TOPIC_EXCEPTION
        elif new.num_partitions == 0:
            code = KafkaError.INVALID_PARTITIONS
        elif new.replication_factor > len(self._kafka.numbers):
            code = KafkaError.INVALID_REPLICATION_FACTOR
        elif any(not _is_valid(*each) for each in (new.config or {}).items()):
            code = KafkaError.INVALID_CONFIG
        if code is not None:
            raise KafkaException(KafkaError(code))
        partitions = len(new.replica_assignment or ()) or new.num_partitions
        self._kafka.create(new.topic, partitions, settings=new.config or {})
        for number, brokers in enumerate(new.replica_assignment or ()):
            self._kafka.move_leader(new.topic, number, brokers[0])

    def delete_topics(
        self, topics: list[str], request_timeout: float = TIMEOUT_S, **_: Any
    ) -> dict[str, Future[Any]]:
        return {
            name: self._promised("delete_topics", partial(self._delete, name), request_timeout)
            for name in topics
        }

    def _delete(self, topic: str) -> None:
        if topic not in self._kafka.topics:
            raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
        self._kafka.delete(topic)

    # --- offsets and groups -------------------------------------------------------------------

    def list_offsets(
        self, wanted: dict[TopicPartition, Any], request_timeout: float = TIMEOUT_S, **_: Any
    ) -> dict[TopicPartition, Future[Any]]:
        return {
            TopicPartition(one.topic, one.partition, spec._value): self._promised(
                "list_offsets", partial(self._offset, one, spec._value, request_timeout)
            )
            for one, spec in wanted.items()
        }

    def _offset(self, topic_partition: TopicPartition, wanted: int, timeout_s: float) -> Any:
        one = self._kafka.partition(topic_partition.topic, topic_partition.partition)
        link = self._kafka.reach(self._process, timeout_s, one)
        if link.refused:
            raise KafkaException(KafkaError(KafkaError._NOENT))
        if not link.works:
            # No error: librdkafka stops the request, and returns no offset.
            return SimpleNamespace(offset=OFFSET_INVALID, timestamp=-1)
        with self._kafka.changed:
            if one is None:
                known = topic_partition.topic in self._kafka.topics
                code = KafkaError._UNKNOWN_PARTITION if known else KafkaError._NOENT
                raise KafkaException(KafkaError(code))
            offset = one.offset_of(wanted)
            stored = one.records[offset] if wanted >= 0 and offset >= 0 else None
            timestamp_ms = -1 if stored is None else stored.timestamp_ms
            return SimpleNamespace(offset=offset, timestamp=timestamp_ms)

    def alter_consumer_group_offsets(
        self, wanted: list[Any], request_timeout: float = TIMEOUT_S, **_: Any
    ) -> dict[str, Future[Any]]:
        return {
            one.group_id: self._promised(
                "alter_consumer_group_offsets", partial(self._alter, one), request_timeout
            )
            for one in wanted
        }

    def _alter(self, wanted: Any) -> Any:
        failed = self._kafka.commit(wanted.group_id, wanted.topic_partitions)
        error = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
        answered = [
            SimpleNamespace(
                topic=one.topic,
                partition=one.partition,
                offset=one.offset,
                error=error if (one.topic, one.partition) in failed else None,
            )
            for one in wanted.topic_partitions
        ]
        found = ConsumerGroupTopicPartitions(wanted.group_id)
        found.topic_partitions = answered  # type: ignore[assignment]
        return found

    def describe_consumer_groups(
        self,
        groups: list[str],
        include_authorized_operations: bool = False,
        request_timeout: float = TIMEOUT_S,
        **_: Any,
    ) -> dict[str, Future[Any]]:
        operations = _OF_GROUP if include_authorized_operations else None
        return {
            group: self._promised(
                "describe_consumer_groups",
                partial(self._group, group, operations),
                request_timeout,
            )
            for group in groups
        }

    def _group(self, group: str, operations: list[str] | None) -> Any:
        there = any(one == group for one, _, _ in self._kafka.committed)
        return SimpleNamespace(
            group_id=group,
            state=SimpleNamespace(name="EMPTY" if there else "DEAD"),
            authorized_operations=_operations(operations),
        )

    def __getattr__(self, question: str) -> Callable[..., dict[Any, Future[Any]]]:
        """Refuse any other request, unless `answers` returns an answer."""

        def refused() -> Any:
            raise KafkaException(KafkaError(KafkaError.INVALID_REQUEST))

        return lambda *_, **__: defaultdict(lambda: self._promised(question, refused))

    def _promised(
        self,
        question: str,
        answer: Callable[[], Any],
        timeout_s: float = TIMEOUT_S,
    ) -> Future[Any]:
        """The answer as a finished future: the waiting happens in this call."""
        self._kafka.speaks()
        self._kafka.asked(question)
        future: Future[Any] = Future()
        try:
            self._kafka.answers(question)
            if question != "list_offsets":
                self._kafka.ask(self._process, timeout_s)
            future.set_result(answer())
        except BaseException as error:
            future.set_exception(error)
        return future


def _operations(names: list[str] | None) -> list[Any] | None:
    return None if names is None else [AclOperation[name] for name in names]


def _is_valid(name: str, value: str) -> bool:
    """Whether a setting's value has the right type, if it must be a number."""
    return not _NUMBER.fullmatch(name) or bool(re.fullmatch(r"-?\d+", value))

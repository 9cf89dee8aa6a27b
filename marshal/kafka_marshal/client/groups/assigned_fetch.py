"""The messages of the partitions that a member of a group owns, as Kafka's client fetches them.

Kafka's client prefetches by itself, up to one limit for all partitions. The calling thread takes
the messages. A partition whose tenure ends is unassigned, which drops its fetched messages. So none
is delivered for a finished tenure. This module does not know how ownership is decided.

A signal's handler may raise in any call. Kafka's client then drops what it fetched in that call.
The caller repeats `begin` or `stop`, or calls `begin_anew` if it was `fetched`.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from attrs import define
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaError, KafkaException, TopicPartition

from kafka_marshal.client.connect.client_errors import ClientErrors, with_right
from kafka_marshal.client.connect.reader import MutedLogger
from kafka_marshal.client.connect.settings import Settings
from kafka_marshal.client.coordinate.configuration import StartPolicy
from kafka_marshal.client.fetch.buffers import BufferLimits
from kafka_marshal.client.fetch.split_fetch import offset_of, partition_of
from kafka_marshal.client.message import Claim, Message
from kafka_marshal.client.observe.logger import logger
from kafka_marshal.core.groups import state

_WATERMARKS_S: Final = 5.0
_QUEUED_MESSAGES_MAX: Final = 10_000_000
_QUEUED_KBYTES_MAX: Final = 2_097_151
"""The most that librdkafka takes; it refuses a greater limit."""
_RESET: Final = KafkaError._AUTO_OFFSET_RESET


@define(eq=False)
class _Assigned:
    claim: Claim
    offset: int
    """The next offset; NO_POSITION until the first message, if no offset was committed."""
    delivered: int
    """The offset after the last delivered message, or the start, as `offset`."""


class AssignedFetch:
    """Fetches assigned partitions. One thread uses it."""

    def __init__(
        self, settings: Settings, group_id: str, start: StartPolicy, bounds: BufferLimits
    ) -> None:
        """Connect, in the background.

        Raises:
            BrokerFailed: the settings are refused.
        """
        self._start = start
        self._assigned: dict[tuple[str, int], _Assigned] = {}
        errors = ClientErrors(settings)
        try:
            self._client = settings.environment.fetcher(
                errors.for_client(
                    group_id=group_id,
                    enable_auto_commit="false",
                    enable_auto_offset_store="false",
                    auto_offset_reset="error",
                    queued_min_messages=str(min(bounds.messages, _QUEUED_MESSAGES_MAX)),
                    queued_max_messages_kbytes=str(
                        min(max(1, bounds.bytes_in_all // 1024), _QUEUED_KBYTES_MAX)
                    ),
                ),
                logger=MutedLogger(),
            )
        except KafkaException as error:
            raise errors.failed(error) from None
        self._errors = errors

    def close(self) -> None:
        """Disconnect."""
        self._client.close()

    def begin(self, claim: Claim) -> None:
        """Fetch a partition from the claim's position on."""
        if (claim.topic, claim.partition) in self._assigned:  # an interrupted call did it
            self._unassign(claim.topic, claim.partition)
        begun = _Assigned(claim, claim.position, claim.position)
        self._assigned[claim.topic, claim.partition] = begun
        self._assign(claim.topic, claim.partition, claim.position)

    def stop(self, topic: str, partition: int) -> None:
        """Stop fetching a partition, and drop its fetched messages."""
        if (topic, partition) in self._assigned:
            self._unassign(topic, partition)
            self._assigned.pop((topic, partition), None)

    def delivered(self, messages: Iterable[Message]) -> None:
        """The application has received these messages."""
        for one in messages:
            assigned = self._assigned.get((one.topic, one.partition))
            if assigned is not None and assigned.claim is one.claim:
                assigned.delivered = one.offset + 1

    def begin_anew(self) -> None:
        """Drop what was fetched and not delivered, and fetch it again.

        If there was no committed offset and nothing was fetched, that is from the start policy's
        offset on.
        """
        for (topic, partition), assigned in self._assigned.items():
            self._unassign(topic, partition)
            assigned.offset = assigned.delivered
            self._assign(topic, partition, assigned.offset)

    def fetched(self, maximum: int, timeout_s: float) -> list[Message]:
        """Fetched messages, in offset order for each partition; none if none came in time.

        Raises:
            NotLetIn: the cluster refuses this client. No message is lost by that.
        """
        if self._assigned and not self._errors.let_in:
            self._knock(*next(iter(self._assigned)), timeout_s)
        found = []
        for one in self._client.consume(maximum, timeout_s):
            error = one.error()
            if error is not None:
                self._failed(one.topic(), one.partition(), error)
                continue
            offset = offset_of(one)
            assigned = self._assigned.get(partition_of(one))
            if assigned is None or offset < assigned.offset:
                continue
            if assigned.delivered == state.NO_POSITION:
                assigned.delivered = offset
            assigned.offset = offset + 1
            found.append(Message(one, assigned.claim))
        if found:
            self._errors.answered()
        elif (refusal := self._errors.refusal) is not None:
            raise refusal
        return found

    def _knock(self, topic: str, partition: int, timeout_s: float) -> None:
        """Send any request to a partition's leader, to learn whether it accepts this client.

        A refusal is final only for a client that was never accepted, and a partition without
        messages does not show that.
        """
        with suppress(KafkaException):
            self._client.get_watermark_offsets(TopicPartition(topic, partition), timeout=timeout_s)
            self._errors.answered()

    def _unassign(self, topic: str, partition: int) -> None:
        with suppress(KafkaException):  # an interrupted call did it
            self._client.incremental_unassign([TopicPartition(topic, partition)])

    def _assign(self, topic: str, partition: int, offset: int) -> None:
        if offset == state.NO_POSITION:
            offset = OFFSET_BEGINNING if self._start == "earliest" else OFFSET_END
        self._client.incremental_assign([TopicPartition(topic, partition, offset)])

    def _failed(self, topic: str | None, partition: int | None, error: KafkaError) -> None:
        if topic is None or partition is None or (topic, partition) not in self._assigned:
            return
        if error.code() != _RESET:
            logger.warning("%s:%d: %s", topic, partition, with_right(error, "READ on it"))
            return
        assigned = self._assigned[topic, partition]
        with suppress(KafkaException):
            first, end = self._client.get_watermark_offsets(
                TopicPartition(topic, partition), timeout=_WATERMARKS_S
            )
            instead = first if assigned.offset < first or self._start == "earliest" else end
            logger.warning(
                "%s:%s holds offsets %s to %s, so offset %s is gone: going on from %s",
                *(topic, partition, first, end, assigned.offset, instead),
            )
            assigned.offset = instead
            # A later one waits: some that were fetched before may not be delivered yet.
            assigned.delivered = min(assigned.delivered, instead)
        self._unassign(topic, partition)
        self._assign(topic, partition, assigned.offset)

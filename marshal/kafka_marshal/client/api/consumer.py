"""The public consumer: consumes topics, and coordinates through a log and nothing else.

For simple use it is a context manager to iterate over. `poll`, `commit`, `pause` and `seek` exist
for users of Kafka's consumer. This module handles the calls of the application's threads.
`coordinator` and `fetcher` decide what is claimed, fetched, reported and released.

    with Consumer("localhost:9092", group_id="billing", client_id="worker-1") as consumer:
        consumer.add_topic("events")
        for message in consumer:
            handle(message)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

from confluent_kafka import TopicPartition

from kafka_marshal.authentication import Keyring
from kafka_marshal.client.api.callbacks import Callbacks
from kafka_marshal.client.api.delivery import CHUNK, Delivery, DeliveryMode
from kafka_marshal.client.api.subscription import Subscription, Wanted, checked
from kafka_marshal.client.connect.coordination_topic import (
    create_coordination_topic as make_coordination_topic,
)
from kafka_marshal.client.connect.log_writer import OutcomeUnknown
from kafka_marshal.client.connect.metadata import NoSuchTopic
from kafka_marshal.client.connect.settings import Settings, TokenCallback, connection
from kafka_marshal.client.coordinate.commits import Commit
from kafka_marshal.client.coordinate.configuration import (
    Semantics,
    StartPolicy,
    configured,
    refuse_no_start_policy,
)
from kafka_marshal.client.coordinate.coordinator import Coordinator
from kafka_marshal.client.coordinate.ownership import IdUsedTwice
from kafka_marshal.client.fetch.buffers import BufferLimits
from kafka_marshal.client.message import Batch, Claim, Message, Messages
from kafka_marshal.client.numbers import number_of_seconds, seconds_to_wait, whole_number
from kafka_marshal.client.observe.observers import Observer
from kafka_marshal.client.process.handling import (
    AHEAD,
    DeadLetters,
    HandlerFailed,
    Handling,
    HandlingCounts,
    HandlingRate,
    Retrying,
    refuse_no_handler,
)
from kafka_marshal.client.process.pool import WorkerPool
from kafka_marshal.client.process.work_queues import Order
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.deprecated import old_option
from kafka_marshal.errors import (
    COORDINATION_TOPIC,
    BrokerFailed,
    ClaimLost,
    ConsumerClosed,
    IntervalMismatch,
    InvalidOption,
    MarshalError,
)
from kafka_marshal.machines.consumer.claiming import Claiming
from kafka_marshal.machines.consumer.consumer import Mode
from kafka_marshal.machines.consumer.effects import Lost, ReleaseReason

__all__ = [
    "Batch",
    "Claim",
    "ClaimLost",
    "Claiming",
    "Consumer",
    "HandlerFailed",
    "HandlingCounts",
    "IdUsedTwice",
    "IntervalMismatch",
    "Lost",
    "Message",
    "Messages",
    "Observer",
    "OutcomeUnknown",
    "ReleaseReason",
]

CLOSE_S: Final = 30.0
COMMIT_S: Final = 30.0
LET_GO_S: Final = 2.0
"""How much of the time for `close` is reserved for disconnecting from the cluster, in seconds."""
FEED_S: Final = 0.1
"""How long `run` waits for messages before it checks whether it has ended, in seconds."""


class Consumer:
    """A consumer of topics; a context manager, and an iterator over messages.

    It claims partitions in a coordination topic and keeps them with heartbeats. Its own threads
    send these, so a claim stays however long the application takes for a message. Under
    at-least-once, asking for the next message acknowledges the one before. One thread iterates or
    polls; `run` uses many.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str] | None = None,
        *,
        group_id: str = "",
        client_id: str,
        semantics: Semantics = "at_least_once",
        auto_offset_reset: StartPolicy = "earliest",
        heartbeat_interval_s: float = 60.0,
        heartbeat_every_s: float | None = None,
        window: int = 100_000,
        batch: int = 10_000,
        claiming: Claiming | None = None,
        bounds: BufferLimits | None = None,
        coordination_topic: str = COORDINATION_TOPIC,
        create_coordination_topic: bool = False,
        coordination_read_max: int = 2_000_000,
        settings: Settings | Mapping[str, str] | None = None,
        oauth_cb: TokenCallback | None = None,
        commit_to_kafka: bool = True,
        metadata_refresh_s: float = 30.0,
        on_claimed: Callable[[Claim], None] | None = None,
        on_lost: Callable[[Claim, Lost], None] | None = None,
        on_drained: Callable[[Claim], None] | None = None,
        observers: Sequence[Observer] = (),
        wedged_after_beats: int = 4,
        record_to: str | Path | None = None,
        snapshot: str | Path | None = None,
        keyring: Keyring | None = None,
        require_authentic: bool = False,
        group: str | None = None,
        start: StartPolicy | None = None,
        look_for_partitions_every_s: float | None = None,
    ) -> None:
        """Connect. Nothing is claimed before `add_topic`.

        Args:
            bootstrap: the addresses of brokers, `host:port,...` or a list of `host:port`. Without
                it, `settings` must name them.
            group_id: the name of the group, whose consumers share the work.
            client_id: identifies this consumer across restarts; no other process of the group may
                have it. A restart under the same id takes its claims back at once.
            semantics: at_least_once: if the consumer dies, messages that the log does not show as
                done are processed again. at_most_once: no message is processed again; the messages
                that the consumer was processing when it died are lost.
            auto_offset_reset: where to begin in a partition that has a position neither in the log
                of claims nor in Kafka's committed offsets of the group.
            heartbeat_interval_s: the interval of the whole group, in seconds (whole milliseconds).
                An owner that is silent for more than twice this loses its claims. A consumer that
                joins a group with another interval ends with IntervalMismatch.
            heartbeat_every_s: how often this consumer sends a heartbeat, in seconds; half the
                interval by default.
            window: at least once: how many messages of one partition it may process beyond the
                position in the log. A crash repeats at most this many. The consumer sends its
                position with every heartbeat, and whenever half of the window is done.
            batch: at most once: the most messages of one partition to request at a time. A crash
                loses at most this many of it.
            claiming: how eagerly it claims.
            bounds: how much is fetched ahead for each partition.
            coordination_topic: the log; see `marshal init`.
            create_coordination_topic: create it, as `marshal init` does, unless it exists.
            coordination_read_max: the most records of each coordinating partition to read at
                startup, the newest ones.
            settings: any settings of librdkafka.
            oauth_cb: returns a token for SASL/OAUTHBEARER. It takes `sasl.oauthbearer.config` and
                returns the token and the time at which it expires, in unix seconds.
            commit_to_kafka: also commit positions to Kafka's group offsets, for tools that show a
                group's lag.
            metadata_refresh_s: how often to look for new partitions, and for new topics that match
                a pattern, in seconds.
            on_claimed: called when a claim was won.
            on_lost: called when a claim was lost, with the reason. The messages of it that the
                application still has no longer count.
            on_drained: called when the application has no more messages of a lost claim. Also
                called when the consumer ends or fails, which drops the messages that it still has.
            observers: are notified of what happens: metrics, spans, or your own.
            wedged_after_beats: report a claim as wedged after this many heartbeats in a row with
                the same position while messages are waiting.
            record_to: a folder in which to record what happens, for `marshal validate`.
            snapshot: a file in which to save what was read of the log of claims, once a minute and
                at the end. The next start reads only newer records.
            keyring: signs what this consumer writes to the log of claims, for readers that verify
                it.
            require_authentic: end with NotAuthentic at the first record of the group that no key of
                the keyring signed. All members and administrators must sign before you set it.
            group: deprecated; use `group_id`.
            start: deprecated; use `auto_offset_reset`.
            look_for_partitions_every_s: deprecated; use `metadata_refresh_s`.

        The three callbacks run in their own thread, one after the other.

        Raises:
            InvalidOption: an option has an invalid value.
            BrokerFailed: the cluster cannot be reached.
            NoCoordinationTopic: it has no coordination topic.
        """
        group_id = old_option("group", group, "group_id", group_id)
        auto_offset_reset = old_option("start", start, "auto_offset_reset", auto_offset_reset)
        metadata_refresh_s = old_option(
            "look_for_partitions_every_s",
            look_for_partitions_every_s,
            "metadata_refresh_s",
            metadata_refresh_s,
        )
        self._config = config = configured(
            settings=connection(bootstrap, settings, oauth_cb),
            group_id=group_id,
            client_id=client_id,
            semantics=semantics,
            auto_offset_reset=auto_offset_reset,
            heartbeat_interval_s=heartbeat_interval_s,
            heartbeat_every_s=heartbeat_every_s,
            window=window,
            batch=batch,
            claiming=claiming,
            bounds=bounds,
            coordination_topic=coordination_topic,
            coordination_read_max=coordination_read_max,
            commit_to_kafka=commit_to_kafka,
            metadata_refresh_s=metadata_refresh_s,
            wedged_after_beats=wedged_after_beats,
            record_to=record_to,
            snapshot=snapshot,
            keyring=keyring,
            require_authentic=require_authentic,
        )
        self._environment = config.settings.environment
        self._monotonic = self._environment.monotonic
        self._subscription = Subscription()
        self._subscribed: set[str] = set()
        """What the subscription took by now; `add_topic` added the coordinator's other topics."""
        self._removed: set[str] = set()
        """What `remove_topic` removed since the subscription."""
        self._subscribing = self._environment.threads.lock()
        self._callbacks = Callbacks(self._environment, on_claimed, on_lost, on_drained)
        if create_coordination_topic:
            make_coordination_topic(config.settings, coordination_topic, rules=config.me.rules)
        try:
            self._coordinator = Coordinator(
                config, [self._callbacks, *observers], self._look_for_topics
            )
        except ValueError as error:
            raise InvalidOption(str(error)) from None
        self._fetcher = self._coordinator.fetcher
        self.delivery: Final = Delivery(self._coordinator, self._fetcher)
        """What is in hand. Not for applications."""
        self._closing = self._environment.threads.lock()
        if overridden := config.settings.overridden:
            of_log = {"isolation.level": ", of the coordination topic"}
            instead = ", ".join(
                f"{name} (it is {value}{of_log.get(name, '')})"
                for name, value in overridden.items()
            )
            self._coordinator.note(
                f"these settings do not hold, since a consumer decides them itself: {instead}"
            )
        self._callbacks.start(self._coordinator.failed)
        self._coordinator.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # --- topics -----------------------------------------------------------------------------------

    def add_topic(
        self,
        topic: str,
        partition: int | None = None,
        *,
        auto_offset_reset: StartPolicy | None = None,
        share: Literal["partitions", "ranges"] = "partitions",
    ) -> None:
        """Consume a topic: a share of its partitions, one partition, or ranges of all partitions.

        The consumers of the group share the topic's partitions. One partition is a static
        assignment. It is claimed and fenced like any other, so a second process with the same
        assignment waits. After `stop` nothing is claimed any more.

        With `share="ranges"` several consumers work on each partition at the same time. Each holds
        its own ranges of offsets (`Message.range`), and claims the next ones before their messages
        exist. All consumers of the topic must have the same `semantics`, and at least once the same
        `window`. Messages are in order within a range, but not across ranges.

        Args:
            topic: its name.
            partition: the only partition to claim; all by default.
            auto_offset_reset: where to begin in this topic; by default as the consumer's option.
            share: what the consumers of the group divide: `partitions`, or `ranges` of each one.

        Raises:
            BrokerFailed: there is no such topic, or no broker answered.
            InvalidOption: it has no such partition, is the coordination topic, or was added with
                another `share`; or it cannot be shared (see `docs/how-to/share-a-partition.md`).
            ConsumerClosed: the consumer is closed.
        """
        if share not in ("partitions", "ranges"):
            raise InvalidOption(f"share is partitions or ranges, not {share!r}")
        shared = share == "ranges"
        if shared:
            self._refuse_to_share(partition)
        self._to_add(topic, partition, auto_offset_reset, shared=shared)()
        self._subscribed.discard(topic)
        self._removed.discard(topic)

    def _refuse_to_share(self, partition: int | None) -> None:
        config = self._config
        refused = {
            "partition": partition is not None,
            "snapshot": config.snapshot is not None,
        }
        for name, given in refused.items():
            if given:
                raise InvalidOption(f'share="ranges" cannot be had with {name}')

    def _to_add(
        self,
        topic: str,
        partition: int | None = None,
        auto_offset_reset: StartPolicy | None = None,
        *,
        shared: bool = False,
    ) -> Callable[[], None]:
        """Look up what it must know about a topic; return a function that adds the topic."""
        start = auto_offset_reset or self._config.auto_offset_reset
        refuse_no_start_policy(start)
        checked(topic)
        if topic == self._config.coordination_topic:
            raise InvalidOption(f"{topic} is the coordination topic, which nobody consumes")
        self.delivery.raise_if_closed()
        if partition is not None:
            partition = whole_number("partition", partition, 0)
        coordinator = self._coordinator
        count = len(coordinator.described(topic).partitions)
        if partition is not None and partition >= count:
            raise InvalidOption(f"topic {topic} has {count} partitions, and no {partition}")
        asked = [(topic, number) for number in (range(count) if partition is None else [partition])]
        try:
            starts = coordinator.committed(asked)
        except BrokerFailed:
            if not coordinator.stop_asked:
                raise
            return lambda: None  # nobody waits for it any more
        if start == "latest":
            unset = [each for each in asked if each not in starts]
            starts = coordinator.cluster.all_ends(unset) | starts
        only = None if partition is None else [partition]
        numbered = {number: offset for (_, number), offset in starts.items()}
        add = partial(coordinator.loop.add_topic, topic, count, only, numbered, shared=shared)
        return partial(self._unless_stopped, add)

    def subscribe(self, topics: Wanted | Iterable[Wanted]) -> None:
        """Consume a share of these topics, in place of those of an earlier call.

        A text that begins with ``^``, or a compiled pattern, matches the beginning of topic names,
        including topics that are created later. Those are consumed from their beginning. No pattern
        matches the coordination topic, topics that begin with ``__``, or topics that `remove_topic`
        removed since. Topics added by `add_topic` stay as they are. If this raises, nothing has
        changed.

        Raises:
            BrokerFailed: a topic that is named does not exist, or no broker answered.
            InvalidOption: a text is neither a topic's name nor a pattern.
            ConsumerClosed: the consumer is closed.
        """
        wanted = Subscription.of(topics)
        self._coordinator.refuse_observers()  # before the lock: who holds it may wait for them
        self.delivery.raise_if_closed()
        with self._subscribing:
            found = wanted.among(self._topics() if wanted.patterns else ())
            adds = {}
            for topic in sorted(found - self._coordinator.loop.topics):
                try:
                    adds[topic] = self._to_add(topic)
                except NoSuchTopic:  # what a pattern found may be gone by now
                    if topic in wanted.names:
                        raise
            for topic, add in adds.items():
                add()
                self._subscribed.add(topic)
            for topic in sorted(self._subscribed - found):
                self._remove(topic)
            self._removed.clear()
            self._subscription = wanted

    def unsubscribe(self) -> None:
        """Remove the topics of `subscribe`, and subscribe to no more."""
        self.subscribe(())

    def _topics(self) -> set[str]:
        """The topics that a pattern may match."""
        return self._coordinator.cluster.topics().keys() - {self._config.coordination_topic}

    def _look_for_topics(self) -> None:
        """Subscribe to topics that were created since, in the thread that looks for partitions."""
        if not self._subscription.patterns:
            return
        with self._subscribing, suppress(ConsumerClosed):
            found = self._subscription.among(self._topics())
            for topic in sorted(found - self._coordinator.loop.topics):
                # It may be of use later, and keeps nothing from the others.
                with suppress(BrokerFailed):
                    add = self._to_add(topic, auto_offset_reset="earliest")
                    if topic not in self._removed:
                        add()
                        self._subscribed.add(topic)

    def remove_topic(self, topic: str) -> None:
        """Stop consuming a topic, including its static partitions.

        Its claims are released as by `release`, and none of them is claimed again before the next
        `add_topic` or `subscribe`.

        Raises:
            InvalidOption: the topic was not added.
            ConsumerClosed: the consumer is closed.
        """
        again = topic in self._removed
        self._removed.add(topic)  # first, or who looks for topics meanwhile takes it again
        try:
            self._remove(topic)
        except MarshalError:
            if not again:
                self._removed.discard(topic)
            raise

    def _remove(self, topic: str) -> None:
        self._unless_stopped(lambda: self._coordinator.loop.remove_topic(topic))
        self._subscribed.discard(topic)

    def release(self, topic: str, partition: int) -> None:
        """Release one claim, so that another consumer can take it.

        At least once, the application finishes its current message, and the other consumer begins
        with the next one. At most once, it finishes the granted batch first. This consumer claims
        the partition again after `Claiming.reclaim_delay_ms`, even if it is static. After `stop`,
        which releases everything, this does nothing.

        Raises:
            InvalidOption: the partition is not claimed.
            ConsumerClosed: the consumer is closed.
        """
        self._unless_stopped(lambda: self._coordinator.ownership.release(topic, partition))

    @property
    def claims(self) -> list[Claim]:
        """The claims that we own now, as far as the log was read; the epoch is a fencing token."""
        return self._coordinator.ownership.claims

    def assignment(self) -> list[TopicPartition]:
        """The partitions that we own now, as Kafka's consumer returns them; see `claims`."""
        return [TopicPartition(claim.topic, claim.partition) for claim in self.claims]

    def committed(self, topic: str, partition: int) -> int:
        """The position in the log of a claim that we own: the next owner continues there.

        Raises:
            InvalidOption: the partition is not claimed.
        """
        return self._coordinator.ownership.claimed(topic, partition).claim.committed

    def position(self, topic: str, partition: int) -> int:
        """The offset after the last delivered message of a claim that we own.

        Raises:
            InvalidOption: the partition is not claimed.
        """
        return self._coordinator.ownership.claimed(topic, partition).delivered_end

    def lag(self, topic: str, partition: int) -> int | None:
        """The number of unfinished offsets of a claim that we own, up to its partition's end.

        The end is that of the last fetch, so it is a lower bound while the claim is paused or its
        buffer is full. None before the first fetch. If the topic was compacted, some of these
        offsets hold no message.

        Raises:
            InvalidOption: the partition is not claimed.
        """
        return self._coordinator.ownership.lag(topic, partition)

    @property
    def instance_id(self) -> str:
        """The id of this run of the process in the log."""
        return self._coordinator.instance_id

    def __repr__(self) -> str:
        coordinator = self._coordinator
        how = "open"
        if coordinator.failure is not None:
            how = f"failed: {coordinator.failure}"
        elif self.delivery.closed:
            how = "closed"
        elif coordinator.stopping:
            how = "stopping"
        claims = ", ".join(f"{claim.topic}/{claim.partition}" for claim in self.claims)
        who = f"{self._config.me.client_id} of group {self._config.group_id}"
        return f"<Consumer {who}, {how}, claims: [{claims}]>"

    # --- messages ---------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Message]:
        """Yield messages until `stop` or `close`. Asking for the next one acknowledges the last.

        You may mix the ways of taking messages; each message is acknowledged by the rule of the way
        in which it was delivered. If you leave the loop, its current message stays unacknowledged,
        and the next loop continues after it.

        Raises:
            ConsumerClosed: the consumer is closed; a loop that is running ends instead.
        """
        self.delivery.raise_if_closed()
        while (in_flight := self.delivery.take(None)) is not None:
            try:
                yield from in_flight.taking
            except GeneratorExit:
                raise
            except BaseException:  # a signal's handler raised it when a message was made
                self.delivery.unwrapped, self.delivery.calling = in_flight, True
                raise
            self.delivery.finish(in_flight)

    def poll(self, timeout_s: float = 1.0) -> Message | None:
        """Return the next message, or None on timeout. `ack` and `commit` acknowledge it.

        Raises:
            ConsumerClosed: the consumer is closed.
        """
        self.delivery.raise_if_closed()
        deadline = self._monotonic() + seconds_to_wait("timeout_s", timeout_s)
        while not self.delivery.closed:
            in_flight = self.delivery.take(
                max(0.0, deadline - self._monotonic()), DeliveryMode.POLL
            )
            if in_flight is None:
                return None
            self.delivery.calling = True
            message = next(in_flight.taking, None)
            if message is not None:
                self.delivery.last = message
                self.delivery.calling = False  # last: from here on nothing can come between
                return message
            # What was given out of it is done when it is committed, so only we forget it.
            self.delivery.pop()
            self.delivery.delivered_more(in_flight)
            self.delivery.calling = False
        return None

    def ack(self, message: Message | None = None) -> None:
        """Acknowledge everything delivered of the message's partition, up to this message.

        Without a message: everything that was delivered, including the current message of a loop.
        It costs nothing: the position reaches the log with the next heartbeat, when half of the
        window is done, or by `commit`. Any thread may call it. Messages of `run` are acknowledged
        when they are handled, and not by this.

        Raises:
            ConsumerClosed: the consumer was closed, which gave back unacknowledged messages.
        """
        self.delivery.raise_if_closed()
        self._coordinator.ownership.ack(message)

    def commit(
        self,
        message: Message | None = None,
        *,
        asynchronous: bool = False,
        timeout_s: float = COMMIT_S,
    ) -> None:
        """`ack`, and wait until the log holds the position: the next owner continues there.

        Messages that were delivered before in another way, and are not acknowledged, hold the
        position back. At most once there is nothing to wait for: the log granted each message
        before it was delivered. A heartbeat and its way back take some milliseconds. Each claim has
        only one in flight, and commits that arrive meanwhile share the next. Spec: SendHeartbeat.

        Args:
            message: the last message to commit, and its partition; by default everything delivered.
            asynchronous: send it at once, but do not wait; `Claim.committed` shows the result.
            timeout_s: how long to wait, in seconds.

        Raises:
            ClaimLost: the log held less when the claim was lost; the next owner processes the rest
                again. Without a message, one commit raises it for each such claim.
            OutcomeUnknown: the log did not answer in time; the commit may still succeed.
            InvalidOption: another consumer delivered the message.
            ConsumerClosed: the consumer was closed, which gave back unacknowledged messages.
        """
        timeout_s = seconds_to_wait("timeout_s", timeout_s)
        self.ack(message)
        coordinator, deadline = self._coordinator, self._environment.deadline(timeout_s)
        commit = Commit()
        if asynchronous:
            commit.answer.cancel()
        else:
            coordinator.refuse_observers()
        coordinator.do(partial(coordinator.ownership.commit, message, commit))
        if asynchronous:
            return
        try:
            coordinator.wait(commit.answer, deadline)
        except ConsumerClosed:
            # After `stop` it ends once everything is given up, and the releases say how far it is.
            if self.delivery.closed:
                raise
            commit = Commit()
            coordinator.ownership.commit(message, commit)
        if commit.answer.cancel():
            raise OutcomeUnknown(
                commit.progress_of(commit.left) or f"nothing was begun within {timeout_s:g} s"
            )
        commit.answer.result()

    def consume(self, num_messages: int = CHUNK, timeout_s: float = 1.0) -> Messages:
        """Return the available messages of one claim as a list, at most `num_messages`.

        It waits for the first message only. If none arrives in time, the list is empty. Asking for
        the next list acknowledges the last one, and so do `ack` and `commit`. A poll does not.

        Raises:
            InvalidOption: `num_messages` is below 1.
            ConsumerClosed: the consumer is closed.
        """
        self.delivery.raise_if_closed()
        num_messages = whole_number("num_messages", num_messages)
        deadline = self._monotonic() + seconds_to_wait("timeout_s", timeout_s)
        while not self.delivery.closed:
            left_s = max(0.0, deadline - self._monotonic())
            in_flight = self.delivery.take(left_s, DeliveryMode.LIST, num_messages)
            if in_flight is None:
                return Messages((), None)
            self.delivery.calling = True
            taken = in_flight.take(num_messages)
            if taken:
                self.delivery.delivered_more(in_flight)
                messages = Messages(taken, in_flight.claim)
                self.delivery.last, self.delivery.calling = messages[-1], False
                return messages
            self.delivery.finish(in_flight)
            self.delivery.calling = False
        return Messages((), None)

    def batches(self, timeout_s: float | None = None) -> Iterator[Batch]:
        """Yield batches of messages of one claim each, until `stop` or `close`.

        At most once: a batch is delivered only after its grant was read back, so no other consumer
        has it or will get it. Asking for the next batch acknowledges the last one. With a timeout
        it ends when no batch arrived for `timeout_s` seconds.

        Raises:
            ConsumerClosed: the consumer is closed; a loop that is running ends instead.
        """
        self.delivery.raise_if_closed()
        if timeout_s is not None:
            timeout_s = seconds_to_wait("timeout_s", timeout_s)
        while (in_flight := self.delivery.take(timeout_s, DeliveryMode.LIST)) is not None:
            self.delivery.calling = True
            taken = in_flight.take(in_flight.total)
            messages = Messages(taken, in_flight.claim)
            batch = Batch(in_flight.claim, messages, in_flight.start, in_flight.end)
            if taken:
                self.delivery.last = messages[-1]
            self.delivery.calling = False
            if taken:
                yield batch
            del taken, messages, batch  # as `Delivery.last` keeps none of them
            self.delivery.finish(in_flight)

    def run(
        self,
        handler: Callable[[Message], object],
        *,
        workers: int = 8,
        order: Literal["partition", "key", "none"] = "partition",
        retries: int = 3,
        backoff_s: float = 0.1,
        dead_letter_topic: str | None = None,
        max_deliveries: int | None = None,
        timeout_s: float = CLOSE_S,
    ) -> HandlingCounts:
        """At least once: call the handler for every message, from many threads, until `stop`.

        A message whose handler is still running when this ends is not acknowledged: this consumer
        or the next owner delivers it again. This one first waits until the handler has returned,
        and delivers nothing else of that partition meanwhile.

        Args:
            handler: its result is ignored; an exception that it raises is a failure. A coroutine
                or a generator would run nothing: it ends `run`, and its message is not done.
            workers: the most messages that are handled at a time, each in a thread.
            order: what is handled sequentially: a partition, each key in it, or nothing.
            retries: how often a failed message is retried; the messages behind it in that order
                wait.
            backoff_s: the wait after the first failure, in seconds; it doubles with each further
                one.
            dead_letter_topic: receives each message that failed permanently. Without one, such a
                message ends `run`.
            max_deliveries: for a topic that was added with `share="ranges"`: how many consumers may
                fall silent with a message, as when it kills their process. After that, the
                dead-letter topic receives it, without another call of the handler. None: any
                number.
            timeout_s: how long to wait for handlers at the end, in seconds.

        Returns:
            What became of the messages.

        Raises:
            HandlerFailed: a message failed permanently, perhaps after `stop`, and there is no
                dead-letter topic.
            InvalidOption: an option has an invalid value.
            ConsumerClosed: the consumer is closed.
        """
        self.delivery.raise_if_closed()
        refuse_no_handler(handler)
        workers = whole_number("workers", workers)
        timeout_s = seconds_to_wait("timeout_s", timeout_s)
        handling = self.handling(order, retries, backoff_s, dead_letter_topic, max_deliveries)
        ahead, pace = AHEAD * workers, HandlingRate(self._monotonic)
        pool = WorkerPool(self._environment, handler, workers, handling)
        try:
            while pool.failure is None and not self.delivery.over:
                handling.look()
                if not pool.waiting:
                    # Of every claim something, and no more than is handled in a second.
                    wanted = max(ahead, pace.per_s(handling.counted.handled))
                    in_flight = self.delivery.take(
                        FEED_S, DeliveryMode.LIST, self.delivery.share_of(wanted)
                    )
                    self.delivery.pop()
                    if in_flight is not None:
                        pool.feed(in_flight)
        finally:
            try:
                pool.end(timeout_s)
            finally:  # also where a signal interrupts that
                self.redeliver(handling)
        self.delivery.raise_failure()
        if pool.failure is not None:
            raise pool.failure
        return handling.counted

    def processing(self, message: Message) -> AbstractContextManager[object]:
        """A context for processing a message, for observers that create spans or measure time.

        `run` enters it by itself.
        """
        return self._coordinator.observers.processing(message)

    def pause(self, topic: str, partition: int | None = None) -> None:
        """Deliver nothing of the partition for now; the claim stays ours."""
        self._each(topic, partition, self._coordinator.ownership.pause)

    def resume(self, topic: str, partition: int | None = None) -> None:
        """Continue after `pause`."""
        self._each(topic, partition, self._coordinator.ownership.resume)

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """At least once: skip the messages before this offset, as if they were done.

        To go back, use `marshal set-position`: a position in the log never decreases while its
        owner lives. For the same reason an offset beyond the end is refused: messages that come
        later would be skipped as well.

        Raises:
            InvalidOption: the partition is not claimed, or the offset is below the position, or
                beyond the partition's end.
            BrokerFailed: the offset is beyond the last known end, and no broker answered.
        """
        offset = whole_number("offset", offset, 0)
        if offset > self._coordinator.ownership.known_end(topic, partition):
            end = self._coordinator.cluster.all_ends([(topic, partition)])[topic, partition]
            if offset > end:
                raise InvalidOption(
                    f"offset {offset} is outside {topic}/{partition}, which ends at {end}"
                )
        self.move(topic, partition, offset)

    def seek_to_time(self, topic: str, partition: int, at: datetime) -> None:
        """At least once: skip the messages before this time; all, if none is later.

        Raises:
            InvalidOption: the partition is not claimed, the offset is below the position, or the
                time has no time zone.
            BrokerFailed: the cluster did not answer which offset that is.
        """
        if at.tzinfo is None:
            raise InvalidOption(f"at has a time zone, and {at!r} has none")
        one = (topic, partition)
        self._coordinator.ownership.claimed(topic, partition)
        found = self._coordinator.cluster.offsets_at([one], int(at.timestamp() * 1000))
        offset = found.get(one)
        if offset is None:
            offset = self._coordinator.cluster.all_ends([one])[one]
        self.move(topic, partition, offset)

    # --- ending -----------------------------------------------------------------------------------

    def stop(self) -> None:
        """Take no more messages. The loop ends when everything delivered or granted is done.

        At least once: nothing more is delivered, not even the rest of a loop's chunk. At most once:
        granted messages are delivered to the end, since no other consumer will get them; those of a
        shared topic are given back. Then it waits for the log, 30 s at most: a claim that it could
        not release becomes stale. Any thread and any signal handler may call it.
        """
        if self._config.mode is Mode.AT_LEAST_ONCE:
            self.delivery.stop()
        self._coordinator.stop()
        if self._config.mode is Mode.AT_MOST_ONCE:
            self._coordinator.do(self._coordinator.ownership.note_paused_grants)

    def close(self, release: bool = True, timeout_s: float = CLOSE_S) -> None:
        """Release the claims, so that others can take them at once, and disconnect.

        A message that was delivered and not finished is not acknowledged. At least once, another
        consumer processes it again. At most once none does: a WARNING names it, and `marshal
        receipts` lists it. With `release=False` the claims stay ours until they are stale, and a
        restart under the same client id takes them back at once.

        It returns after `timeout_s` even if no broker answers; a claim that it could not release
        becomes stale. In a fork of the process that made the consumer it does nothing.

        Raises:
            MarshalError: an observer called it, which would wait for itself; it may call `stop`, or
                close without a release.
        """
        if self._coordinator.forked:
            return
        if release:
            self._coordinator.refuse_observers()
        timeout_s = seconds_to_wait("timeout_s", timeout_s)
        deadline = self._environment.deadline(timeout_s)
        with self._closing:
            if self.delivery.closed:
                return
            self.delivery.closed = True
        self.delivery.unlock()
        coordinator = self._coordinator
        if release and not coordinator.ended.is_set():
            in_flight = self.delivery.pop()
            coordinator.stop()
            if in_flight is not None:
                coordinator.do(lambda: coordinator.ownership.abandon(in_flight))
            coordinator.do(coordinator.ownership.abandon_rest)
            deadline.earlier(min(LET_GO_S, timeout_s / 4)).wait(coordinator.ended.wait)
        elif not coordinator.ended.is_set():
            self.delivery.pop()
            coordinator.do(partial(coordinator.ownership.abandon_rest, release=False))
        if coordinator.failure is not None:  # nothing that is under way counts any more
            deadline = self._environment.deadline(min(LET_GO_S, timeout_s))
        coordinator.leave()
        coordinator.close(deadline)
        self._callbacks.close(deadline)

    # --- within -----------------------------------------------------------------------------------

    def positions_of(self, topic: str) -> dict[int, int] | None:
        """The group's position in each partition of an added topic, also in those that others own.

        None until the log of claims is read to its end. Not for applications.

        Raises:
            ConsumerClosed: the consumer is closed.
        """

        def found() -> dict[int, int] | None:
            member = self._coordinator.loop.session.member
            if not member.up_to_date:
                return None
            keys = [
                ClaimKey(member.group, topic, number)
                for number in range(self._coordinator.loop.partitions[topic])
            ]
            return {key.topic_partition: member.folded(key).position for key in keys}

        return self._coordinator.call(found)

    def move(self, topic: str, partition: int, offset: int) -> None:
        """`seek`, without asking whether the partition holds the offset. Not for applications."""
        self._coordinator.call(lambda: self._coordinator.ownership.seek(topic, partition, offset))

    def handling(
        self,
        order: str,
        retries: int,
        backoff_s: float,
        dead_letter_topic: str | None,
        max_deliveries: int | None = None,
    ) -> Handling:
        """The messages that `run` gives to threads or tasks. Not for applications."""
        if self._config.mode is not Mode.AT_LEAST_ONCE:
            raise InvalidOption("run is for at_least_once; at most once there are batches()")
        retries = whole_number("retries", retries, 0)
        backoff_s = number_of_seconds("backoff_s", backoff_s)
        if max_deliveries is not None:
            max_deliveries = whole_number("max_deliveries", max_deliveries)
        try:
            kept = Order(order)
            retrying = Retrying(retries, backoff_s, max_deliveries)
        except ValueError as error:
            raise InvalidOption(str(error)) from None
        if max_deliveries is not None and dead_letter_topic is None:
            raise InvalidOption("max_deliveries needs a dead_letter_topic")
        dead = (
            None
            if dead_letter_topic is None
            else DeadLetters(self._config.settings, checked(dead_letter_topic))
        )
        ownership = self._coordinator.ownership
        if max_deliveries is not None:
            self._unless_stopped(partial(ownership.begin_alone, max_deliveries))
        return Handling(
            kept,
            retrying,
            dead,
            self.delivery.may_begin,
            self._coordinator.ownership.given_up,
            self._coordinator.ownership.progressed,
            lambda in_flight: self._coordinator.do(
                partial(self._coordinator.ownership.abandon, in_flight)
            ),
            lambda claim, outlasted: self._coordinator.do(
                partial(self._coordinator.ownership.handlers_left, claim, at_work=outlasted)
            ),
            self._coordinator.observers,
            self._environment.threads.rlock(),
        )

    def redeliver(self, handling: Handling) -> None:
        """Deliver again what a `run` left unfinished when it ended. Not for applications."""
        left = handling.end()
        ownership = self._coordinator.ownership
        with suppress(MarshalError):  # it has ended, so nobody gets any more
            self._coordinator.call(partial(ownership.redeliver, left))
            self._coordinator.call(partial(ownership.begin_alone, None))

    def _each(self, topic: str, partition: int | None, do: Callable[[Claim], None]) -> None:
        found = [
            claim
            for claim in self._coordinator.ownership.undrained
            if claim.topic == topic and partition in (None, claim.partition)
        ]
        if not found:
            raise InvalidOption(f"nothing of topic {topic} is claimed")
        for claim in found:
            self._unless_stopped(partial(do, claim))

    def _unless_stopped(self, what: Callable[[], None]) -> None:
        """Run this in the coordinator; after `stop`, return once everything is released."""
        try:
            self._coordinator.call(what)
        except ConsumerClosed:
            if self.delivery.closed:
                raise

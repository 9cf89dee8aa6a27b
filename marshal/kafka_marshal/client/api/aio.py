"""The consumer for asyncio: the same consumer, run in a thread.

Its thread waits for messages and passes them to the event loop a chunk at a time. It takes no more
before the loop asks, so buffers fill up and fetching pauses as they do without a loop. Heartbeats
do not wait for the loop. `consumer` and `handling` still decide what is claimed and what counts as
done.

    async with AsyncConsumer("localhost:9092", group_id="billing", client_id="w1") as consumer:
        await consumer.add_topic("events")
        async for message in consumer:
            await handle(message)
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, Concatenate, Final, Literal, ParamSpec, Self, TypeVar

from confluent_kafka import TopicPartition

from kafka_marshal.client.api.consumer import CLOSE_S, COMMIT_S, FEED_S, Consumer
from kafka_marshal.client.api.delivery import CHUNK, DeliveryMode
from kafka_marshal.client.api.subscription import Wanted
from kafka_marshal.client.coordinate.configuration import StartPolicy
from kafka_marshal.client.fetch.in_flight import InFlight
from kafka_marshal.client.message import Batch, Claim, Message, Messages
from kafka_marshal.client.numbers import seconds_to_wait, whole_number
from kafka_marshal.client.process.handling import (
    AHEAD,
    Handling,
    HandlingCounts,
    HandlingRate,
    not_ours,
    refuse_no_handler,
)
from kafka_marshal.client.process.work_queues import StartedMessage
from kafka_marshal.errors import HandlerFailed, InvalidOption

P = ParamSpec("P")
T = TypeVar("T")

_LOOK_S: Final = 1.0


def _as(
    model: Callable[Concatenate[Any, P], None],
) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, P], None]]:
    """Give the decorated method the signature of the model."""
    return lambda method: method


class AsyncConsumer:
    """A consumer of topics for one event loop: an asynchronous context manager and iterator.

    Its methods do what those of `Consumer` do.
    """

    @_as(Consumer.__init__)
    def __init__(self, *args: Any, **options: Any) -> None:
        """Take the options of `Consumer`; entering the context connects, and raises its errors.

        The callbacks on_claimed, on_lost and on_drained, and the observers, run in threads.
        """
        self._make = partial(Consumer, *args, **options)
        self._made: Consumer | None = None
        self._entered = False
        self._taking = ThreadPoolExecutor(1, "marshal-taking")

    async def __aenter__(self) -> Self:
        if self._entered:
            # A second one under the same client id would take the claims of the first.
            raise InvalidOption("it was connected before: make another AsyncConsumer")
        self._entered = True
        try:
            await self._in_thread(self._connect)
        except BaseException:
            # Its thread goes on, so also who is cancelled here has a consumer in the end.
            asyncio.get_running_loop().run_in_executor(self._taking, self._abandon)
            self._taking.shutdown(wait=False)
            raise
        return self

    def _connect(self) -> None:
        self._made = self._make()

    def _abandon(self) -> None:
        if self._made is not None:
            self._made.close()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def _consumer(self) -> Consumer:
        if self._made is None:
            raise InvalidOption("it is connected by: async with AsyncConsumer(...) as consumer")
        return self._made

    # --- topics -----------------------------------------------------------------------------------

    async def add_topic(
        self,
        topic: str,
        partition: int | None = None,
        *,
        auto_offset_reset: StartPolicy | None = None,
        share: Literal["partitions", "ranges"] = "partitions",
    ) -> None:
        """Consume a topic: a share of its partitions, one partition, or ranges of all."""
        add = partial(self._consumer.add_topic, auto_offset_reset=auto_offset_reset, share=share)
        await asyncio.to_thread(add, topic, partition)

    async def subscribe(self, topics: Wanted | Iterable[Wanted]) -> None:
        """Consume a share of these topics, in place of those of an earlier call."""
        await asyncio.to_thread(self._consumer.subscribe, topics)

    async def unsubscribe(self) -> None:
        """Remove the topics of `subscribe`, and subscribe to no more."""
        await asyncio.to_thread(self._consumer.unsubscribe)

    async def remove_topic(self, topic: str) -> None:
        """Stop consuming a topic, including its static partitions."""
        await asyncio.to_thread(self._consumer.remove_topic, topic)

    async def release(self, topic: str, partition: int) -> None:
        """Release one claim, so that another consumer can take it."""
        await asyncio.to_thread(self._consumer.release, topic, partition)

    @property
    def claims(self) -> list[Claim]:
        """The claims that we own now, as far as the log was read."""
        return self._consumer.claims

    def assignment(self) -> list[TopicPartition]:
        """The partitions that we own now."""
        return self._consumer.assignment()

    def committed(self, topic: str, partition: int) -> int:
        """The position in the log of a claim that we own: the next owner continues there."""
        return self._consumer.committed(topic, partition)

    def position(self, topic: str, partition: int) -> int:
        """The offset after the last delivered message of a claim that we own."""
        return self._consumer.position(topic, partition)

    def lag(self, topic: str, partition: int) -> int | None:
        """The number of unfinished offsets of a claim that we own, up to its partition's end."""
        return self._consumer.lag(topic, partition)

    def __repr__(self) -> str:
        return f"<Async{repr(self._made)[1:]}" if self._made else "<AsyncConsumer, not connected>"

    @property
    def instance_id(self) -> str:
        """The id of this run of the process in the log."""
        return self._consumer.instance_id

    # --- messages ---------------------------------------------------------------------------------

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Yield messages until `stop` or `close`. Asking for the next one acknowledges the last."""
        self._consumer.delivery.raise_if_closed()
        while (in_flight := await self._hand()) is not None:
            for message in in_flight.taking:
                yield message
            self._consumer.delivery.finish(in_flight)

    async def batches(self, timeout_s: float | None = None) -> AsyncIterator[Batch]:
        """Yield batches of one claim each; asking for the next acknowledges the last."""
        self._consumer.delivery.raise_if_closed()
        if timeout_s is not None:
            timeout_s = seconds_to_wait("timeout_s", timeout_s)
        while (in_flight := await self._hand(timeout_s, DeliveryMode.LIST)) is not None:
            taken = in_flight.take(in_flight.total)
            if taken:
                yield Batch(
                    in_flight.claim,
                    Messages(taken, in_flight.claim),
                    in_flight.start,
                    in_flight.end,
                )
            del taken  # as in `Consumer.batches`
            self._consumer.delivery.finish(in_flight)

    async def consume(self, num_messages: int = CHUNK, timeout_s: float = 1.0) -> Messages:
        """Return the available messages of one claim as a list, which is empty on timeout.

        Asking for the next list acknowledges the last one, and so do `ack` and `commit`.
        """
        self._consumer.delivery.raise_if_closed()
        num_messages = whole_number("num_messages", num_messages)
        give = partial(self._consumer.consume, num_messages, 0.0)
        return await self._given(give, DeliveryMode.LIST, timeout_s, num_messages) or Messages(
            (), None
        )

    async def poll(self, timeout_s: float = 1.0) -> Message | None:
        """Return the next message, or None on timeout; only `ack` and `commit` acknowledge it."""
        self._consumer.delivery.raise_if_closed()
        return await self._given(partial(self._consumer.poll, 0.0), DeliveryMode.POLL, timeout_s)

    def ack(self, message: Message | None = None) -> None:
        """Acknowledge what was delivered of the message's partition, up to it; or all."""
        self._consumer.ack(message)

    async def commit(
        self,
        message: Message | None = None,
        *,
        asynchronous: bool = False,
        timeout_s: float = COMMIT_S,
    ) -> None:
        """`ack`, and wait until the log holds the position.

        Raises:
            ClaimLost: the log held less when the claim was lost; the next owner processes the rest
                again.
            OutcomeUnknown: the log did not answer in time; the commit may still succeed.
            ConsumerClosed: the consumer was closed, which gave back unacknowledged messages.
        """
        commit = partial(self._consumer.commit, asynchronous=asynchronous, timeout_s=timeout_s)
        await asyncio.to_thread(commit, message)

    def processing(self, message: Message) -> AbstractContextManager[object]:
        """A context for processing a message, for observers; `run` enters it by itself."""
        return self._consumer.processing(message)

    async def run(
        self,
        handler: Callable[[Message], Awaitable[object]],
        *,
        concurrency: int = 100,
        order: Literal["partition", "key", "none"] = "partition",
        retries: int = 3,
        backoff_s: float = 0.1,
        dead_letter_topic: str | None = None,
        max_deliveries: int | None = None,
        timeout_s: float = CLOSE_S,
    ) -> HandlingCounts:
        """At least once: await the handler for every message, many at a time, until `stop`.

        If it is cancelled or fails, it cancels the handlers, too. Their messages are not
        acknowledged: this consumer or the next owner delivers them again.

        Args:
            handler: its result is ignored; an exception that it raises is a failure. So is a
                CancelledError of something that it awaits, unless `run` itself is cancelled.
            concurrency: the most messages that are handled at a time.
            order: what is handled sequentially: a partition, each key in it, or nothing.
            retries: how often a failed message is retried; the messages behind it in that order
                wait.
            backoff_s: the wait after the first failure, in seconds; it doubles with each further
                one.
            dead_letter_topic: receives each message that failed permanently. Without one, such a
                message ends `run`.
            max_deliveries: as in `Consumer.run`.
            timeout_s: how long to wait for handlers after `stop`, in seconds.

        Raises:
            HandlerFailed: a message failed permanently, perhaps after `stop`, and there is no
                dead-letter topic.
            InvalidOption: an option has an invalid value.
            ConsumerClosed: the consumer is closed.
        """
        consumer = self._consumer
        consumer.delivery.raise_if_closed()
        refuse_no_handler(handler)
        concurrency = whole_number("concurrency", concurrency)
        timeout_s = seconds_to_wait("timeout_s", timeout_s)
        handling = consumer.handling(order, retries, backoff_s, dead_letter_topic, max_deliveries)
        tasks = _Tasks(handler, concurrency, handling)
        pace = HandlingRate(consumer.delivery.monotonic)
        try:
            while tasks.failure is None and not consumer.delivery.over:
                handling.look()
                # It may have been closed meanwhile, and its thread takes nothing more.
                if await tasks.hungry(FEED_S) and not consumer.delivery.over:
                    pace_per_s = pace.per_s(handling.counted.handled)
                    share = consumer.delivery.share_of(max(AHEAD + tasks.concurrency, pace_per_s))
                    take = partial(consumer.delivery.take, FEED_S, DeliveryMode.LIST, share)
                    in_flight = await self._in_thread(take)
                    consumer.delivery.pop()
                    if in_flight is not None:
                        tasks.feed(in_flight)
            if tasks.failure is None:
                await tasks.end(timeout_s)
        finally:
            try:
                await tasks.cancel()
            finally:  # also where it is cancelled once more
                if not consumer.delivery.ended:
                    await asyncio.shield(self._in_thread(partial(consumer.redeliver, handling)))
        consumer.delivery.raise_failure()
        if tasks.failure is not None:
            raise tasks.failure
        return handling.counted

    async def pause(self, topic: str, partition: int | None = None) -> None:
        """Deliver nothing of the partition for now; the claim stays ours."""
        await asyncio.to_thread(self._consumer.pause, topic, partition)

    async def resume(self, topic: str, partition: int | None = None) -> None:
        """Continue after `pause`."""
        await asyncio.to_thread(self._consumer.resume, topic, partition)

    async def seek(self, topic: str, partition: int, offset: int) -> None:
        """At least once: skip the messages before this offset, as if they were done."""
        await asyncio.to_thread(self._consumer.seek, topic, partition, offset)

    async def seek_to_time(self, topic: str, partition: int, at: datetime) -> None:
        """At least once: skip the messages before this time; all, if none is later."""
        await asyncio.to_thread(self._consumer.seek_to_time, topic, partition, at)

    # --- ending -----------------------------------------------------------------------------------

    def stop(self) -> None:
        """Take no more messages. Loops end when everything delivered or granted is done."""
        self._consumer.stop()

    async def close(self, release: bool = True, timeout_s: float = CLOSE_S) -> None:
        """Release the claims, so that others can take them at once, and disconnect."""
        timeout_s = seconds_to_wait("timeout_s", timeout_s)
        self._entered = True
        if self._made is not None:
            # Closing goes on if the task that waits for it is cancelled.
            await asyncio.shield(asyncio.to_thread(self._made.close, release, timeout_s))
        self._taking.shutdown(wait=False)

    # --- within -----------------------------------------------------------------------------------

    async def _in_thread(self, what: Callable[[], T]) -> T:
        """Run calls one after the other: the result of a cancelled one goes to the next."""
        return await asyncio.get_running_loop().run_in_executor(self._taking, what)

    async def _given(
        self,
        give: Callable[[], T | None],
        way: DeliveryMode,
        timeout_s: float,
        maximum: int = CHUNK,
    ) -> T | None:
        """The result of `give`, which does not wait; None on timeout.

        Messages are delivered here, since a result of the thread is lost if the task is cancelled.
        """
        deadline = self._consumer.delivery.deadline(seconds_to_wait("timeout_s", timeout_s))
        while True:
            if await self._hand(deadline.left_s, way, maximum) is None:
                return None
            if given := give():
                return given

    async def _hand(
        self,
        timeout_s: float | None = None,
        way: DeliveryMode = DeliveryMode.LOOP,
        maximum: int = CHUNK,
    ) -> InFlight | None:
        """The next chunk; None at the end, or on timeout."""
        delivery = self._consumer.delivery
        deadline = None if timeout_s is None else delivery.deadline(timeout_s)
        while not delivery.closed:
            left_s = _LOOK_S if deadline is None else min(_LOOK_S, deadline.left_s)
            take = partial(delivery.take, left_s, way, maximum)
            in_flight = await self._in_thread(take)
            if in_flight is not None or delivery.ended or (deadline and not deadline.left_s):
                return in_flight
        delivery.raise_failure()
        return None


class _Tasks:
    """One task for each message in processing. All methods but `_handle` run without waiting."""

    def __init__(
        self,
        handler: Callable[[Message], Awaitable[object]],
        concurrency: int,
        handling: Handling,
    ) -> None:
        self.failure: BaseException | None = None
        self.concurrency = concurrency
        self._handler, self._handling = handler, handling
        self._tasks: set[asyncio.Task[bool]] = set()
        self._hungry = asyncio.Event()
        self._hungry.set()
        self._over = asyncio.Event()
        self._cancelled = False

    async def hungry(self, timeout_s: float) -> bool:
        """Wait until more messages are needed; False on timeout.

        It also starts tasks that have become possible. A claim that was silent may have been heard
        again or lost while no task was running whose end would have started the next one.
        """
        self._go_on()
        # Not by `wait_for`, which in Python 3.11 forgets a cancellation that comes when it is over.
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._hungry.wait()
        return self._hungry.is_set()

    def feed(self, in_flight: InFlight) -> None:
        """Add a chunk to handle."""
        self._handling.feed(in_flight)
        self._go_on()

    async def end(self, timeout_s: float) -> None:
        """Start no more tasks; wait for those that are running."""
        self._over.set()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s)

    async def cancel(self) -> None:
        """Start no more tasks, and cancel those that are running."""
        self._cancelled = True
        self._over.set()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _go_on(self) -> None:
        handling = self._handling
        while len(self._tasks) < self.concurrency and not self._over.is_set():
            begun = handling.begin()
            if begun is None:
                break
            task = asyncio.get_running_loop().create_task(self._handle(begun))
            self._tasks.add(task)
            task.add_done_callback(partial(self._ended, begun))
        if handling.waiting < AHEAD + self.concurrency or self.failure is not None:
            self._hungry.set()
        else:
            self._hungry.clear()

    def _ended(self, begun: StartedMessage[Message], task: asyncio.Task[bool]) -> None:
        self._tasks.discard(task)
        self._handling.finish(begun)
        if task.cancelled():
            if not self._over.is_set():  # the handler cancelled its own task
                self.failure = self.failure or _cancelled(begun.message)
                self._over.set()
        else:
            error = task.exception()
            if error is not None:
                self.failure = self.failure or error
                self._over.set()
            elif task.result():
                self._handling.done(begun)
        self._go_on()

    async def _handle(self, begun: StartedMessage[Message]) -> bool:
        """Retry the message until it is done, dead-lettered, or its claim is lost."""
        too_often = self._handling.given_too_often(begun.message)
        if too_often is not None:
            if not_ours(begun):
                return False
            await asyncio.to_thread(self._handling.put_aside, begun, too_often, 0)
            return True
        tried = 0
        while True:
            tried += 1
            try:
                with self._handling.observers.processing(begun.message):
                    promise = self._handler(begun.message)
                    if isinstance(promise, Awaitable):
                        await _unless_cancelled(promise, begun.message)
            except Exception as error:
                if self._cancelled or not_ours(begun):
                    return False
                wait_s = self._handling.again_after_s(begun, error, tried)
                if wait_s is None:
                    put = partial(self._handling.put_aside, begun, error, tried)
                    await asyncio.to_thread(put)
                    return True
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await self._over.wait()
                if self._over.is_set() or not_ours(begun):
                    return False
            else:
                if not isinstance(promise, Awaitable):
                    raise InvalidOption(
                        f"handler returned {promise!r:.80}, which cannot be awaited: give "
                        f"AsyncConsumer.run an async function, or use Consumer"
                    )
                return True


async def _unless_cancelled(promise: Awaitable[object], message: Message) -> None:
    """Await a handler; what it awaited may have been cancelled, which is a failure of it.

    Raises:
        HandlerFailed: it raised CancelledError although nobody cancelled this task.
    """
    try:
        await promise
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise _cancelled(message) from error


def _cancelled(message: Message) -> HandlerFailed:
    return HandlerFailed(
        f"{message!r}: its handler ended by CancelledError, and nobody cancelled run: it cancelled "
        f"itself, or a task that it awaited was cancelled"
    )

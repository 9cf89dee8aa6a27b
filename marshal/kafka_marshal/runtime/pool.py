"""Many workers for one consumer: a handler for each message, retries, and a topic for what fails.

Messages are begun in the order that was asked for (`client.lanes`) and finish in any; how far a
partition is done is the newest offset before which everything is (`client.offsets`). Heartbeats
wait for no handler. What fails is tried again after a while, then appended to a dead-letter topic;
only when it lies there is it done. It does not know how messages are fetched or claims kept.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Final

from attrs import define, field, frozen, validators
from confluent_kafka import KafkaError, KafkaException, Producer

from kafka_marshal.client.lanes import Begun, Lanes, Order
from kafka_marshal.client.offsets import Offsets
from kafka_marshal.core.numbers import positive
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.runtime.errors import BrokerFailed
from kafka_marshal.runtime.hand import Hand
from kafka_marshal.runtime.message import Message
from kafka_marshal.runtime.observing import Observers
from kafka_marshal.runtime.reader import Silent
from kafka_marshal.runtime.settings import Settings

AHEAD: Final = 64
"""So many messages a worker may wait for it, that others need not wait for the feeder."""
CHUNK: Final = 500
_WAIT_S: Final = 0.1
DEAD_S: Final = 30.0


@frozen
class Retrying:
    """How often a message is tried again, and when."""

    retries: int = field(default=3, validator=validators.ge(0))
    backoff_s: float = field(default=0.1, validator=positive)
    """Before the first time; twice as long before each further one, and a little by chance."""
    backoff_max_s: float = field(default=30.0, validator=positive)

    def wait_s(self, tried: int) -> float:
        """How long to wait after so many tries."""
        longest = min(self.backoff_max_s, self.backoff_s * float(2 ** (tried - 1)))
        return longest * random.uniform(0.5, 1.0)  # noqa: S311  # so that not all come at once


@define
class Counted:
    """What became of messages."""

    handled: int = 0
    retried: int = 0
    dead: int = 0
    """Appended to the dead-letter topic."""
    dropped: int = 0
    """Their claim was lost before they were begun, or while they were in hand."""


class HandlerFailed(Exception):
    """A handler failed for good, and there is no dead-letter topic. It was not done."""


class DeadLetters:
    """The topic of what failed for good; safe for many threads."""

    def __init__(self, settings: Settings, topic: str) -> None:
        """Connect.

        Raises:
            BrokerFailed: the settings are refused.
        """
        self._settings, self._topic = settings, topic
        decided = {"enable_idempotence": "true", "acks": "all"}
        try:
            self._producer = Producer(settings.for_client(**decided), logger=Silent())
        except KafkaException as error:
            raise BrokerFailed(settings.without_secrets(f"{topic}: {error.args[0]}")) from None

    def put(self, message: Message, error: Exception, tried: int) -> None:
        """Append it, with where it came from and what it failed of; returns when it lies there.

        Raises:
            BrokerFailed: it could not be appended.
        """
        said: list[KafkaError | None] = []
        headers: list[tuple[str, str | bytes | None]] = [
            *message.headers,
            ("marshal-dead-topic", message.topic),
            ("marshal-dead-partition", str(message.partition)),
            ("marshal-dead-offset", str(message.offset)),
            ("marshal-dead-error", f"{type(error).__name__}: {error}"[:1000]),
            ("marshal-dead-tries", str(tried)),
        ]
        self._producer.produce(
            self._topic,
            message.value,
            message.key,
            headers=headers,
            on_delivery=lambda failed, _: said.append(failed),
        )
        deadline = time.monotonic() + DEAD_S
        while not said and time.monotonic() < deadline:
            self._producer.poll(0.05)
        if not said or said[0] is not None:
            reason = said[0].str() if said and said[0] is not None else "no answer"
            raise BrokerFailed(self._settings.without_secrets(f"{self._topic}: {reason}"))


@define(eq=False)
class _Claimed:
    """What the workers have of one claim."""

    hands: list[Hand]
    offsets: Offsets


class Pool:
    """Workers that take what one feeder gets. Every field is shared, so there is one lock."""

    def __init__(
        self,
        handler: Callable[[Message], object],
        workers: int,
        order: Order,
        retrying: Retrying,
        dead: DeadLetters | None,
        progressed: Callable[[Hand], None],
        observers: Observers,
    ) -> None:
        self._handler, self._retrying, self._dead = handler, retrying, dead
        self._observers = observers
        self._progressed = progressed
        self._lock = threading.Lock()
        self._more = threading.Condition(self._lock)
        self._less = threading.Condition(self._lock)
        self._lanes: Lanes[Message] = Lanes(order, lambda message: message.key)
        self._claimed: dict[ClaimKey, _Claimed] = {}
        self._busy = 0
        self._ending = False
        self._ahead = AHEAD * workers
        self.failure: BaseException | None = None
        self.counted = Counted()
        self._threads = [
            threading.Thread(target=self._work, name=f"marshal-worker-{number}", daemon=True)
            for number in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def waiting(self) -> bool:
        """Whether the feeder should wait: enough is there for the workers."""
        with self._lock:
            if self._lanes.waiting >= self._ahead:
                self._less.wait(_WAIT_S)
            return self._lanes.waiting >= self._ahead

    def feed(self, hand: Hand) -> None:
        """A chunk for the workers. It is told through the hand how far it is done."""
        messages = list(hand.taking)
        with self._lock:
            key = hand.claim.key
            claimed = self._claimed.get(key)
            if claimed is not None and claimed.hands[0].claim is not hand.claim:
                self._drop(key)
                claimed = None
            if claimed is None:
                claimed = self._claimed[key] = _Claimed([], Offsets(hand.start))
            claimed.hands.append(hand)
            claimed.offsets.begun((message.offset for message in messages), hand.end)
            self._lanes.add(key, messages)
            self._more.notify(len(messages))

    def forget_lost(self) -> None:
        """Drop what waits of claims that were lost."""
        with self._lock:
            for key, claimed in list(self._claimed.items()):
                if claimed.hands[0].claim.lost is not None:
                    self._drop(key)

    def end(self, timeout_s: float) -> None:
        """Begin nothing more; wait for what is in hand."""
        with self._lock:
            self._ending = True
            self._more.notify_all()
        deadline = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def idle(self) -> bool:
        """Whether nothing waits and nothing is in hand."""
        with self._lock:
            return not self._busy and not self._lanes.waiting

    def _drop(self, key: ClaimKey) -> None:
        dropped = self._lanes.drop(key)
        claimed = self._claimed.pop(key)
        if dropped:
            self.counted.dropped += dropped
            self._observers.dropped(claimed.hands[0].claim, dropped)

    def _work(self) -> None:
        try:
            while (begun := self._begin()) is not None:
                done = False
                try:
                    done = self._handle(begun)
                finally:
                    self._finish(begun)
                if done:
                    self._done(begun)
        except BaseException as error:
            with self._lock:
                self.failure = self.failure or error
                self._less.notify_all()

    def _begin(self) -> Begun[Message] | None:
        with self._lock:
            while not self._ending and self.failure is None:
                begun = self._lanes.begin()
                if begun is not None:
                    self._busy += 1
                    self._less.notify()
                    return begun
                self._more.wait(_WAIT_S)
        return None

    def _handle(self, begun: Begun[Message]) -> bool:
        """Try it until it is done, dead, or not ours any more."""
        tried = 0
        while True:
            tried += 1
            try:
                with self._observers.processing(begun.message):
                    self._handler(begun.message)
                return True
            except Exception as error:
                if begun.dropped or begun.message.claim.lost is not None or self._ending:
                    return False
                if tried <= self._retrying.retries:
                    self.counted.retried += 1
                    self._observers.retried(begun.message, error, tried)
                    time.sleep(self._retrying.wait_s(tried))
                    continue
                if self._dead is None:
                    raise HandlerFailed(
                        f"{begun.message!r} failed {tried} times, and no dead_letter_topic was "
                        f"given: {type(error).__name__}: {error}"
                    ) from error
                self._dead.put(begun.message, error, tried)
                self.counted.dead += 1
                self._observers.dead_lettered(begun.message, error, tried)
                return True

    def _finish(self, begun: Begun[Message]) -> None:
        with self._lock:
            self._busy -= 1
            self._lanes.finished(begun)
            self._more.notify()

    def _done(self, begun: Begun[Message]) -> None:
        with self._lock:
            claimed = self._claimed.get(begun.key)
            if begun.dropped or claimed is None:
                self.counted.dropped += 1
                self._observers.dropped(begun.message.claim, 1)
                return
            self.counted.handled += 1
            reached = claimed.offsets.finished(begun.message.offset)
            told = []
            while claimed.hands and claimed.hands[0].end <= reached and len(claimed.hands) > 1:
                told.append(claimed.hands.pop(0))
            for hand in told:
                hand.finish()
            last = claimed.hands[0]
            if last.end <= reached:
                last.finish()
            elif last.committed is not None:
                last.committed = max(last.committed, reached)
        if told or last.finished:
            self._progressed(last)

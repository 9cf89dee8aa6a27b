"""Messages in processing: started in order, retried, dead-lettered, finished.

Messages begin in the requested order (`client.process.work_queues`) and finish in any. The position
of a partition is the highest offset before which everything is finished (`client.process.offsets`).
A failed message is retried after a delay, then appended to a dead-letter topic; only then is it
finished. This module does not know who calls the handler: threads (`pool`), or tasks of an event
loop (`aio`).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Hashable,
    Sequence,
)
from typing import Final

from attrs import define, field, frozen, validators
from confluent_kafka import KafkaError, KafkaException

from kafka_marshal.client.connect.client_errors import not_taken
from kafka_marshal.client.connect.environment import Appender, Environment
from kafka_marshal.client.connect.reader import MutedLogger
from kafka_marshal.client.connect.settings import (
    APPENDS_ONCE,
    ONE_AT_A_TIME,
    Settings,
)
from kafka_marshal.client.connect.threads import Lock
from kafka_marshal.client.fetch.in_flight import InFlight
from kafka_marshal.client.message import Claim, Message, Messages
from kafka_marshal.client.observe.observers import Observers
from kafka_marshal.client.process.offsets import InFlightOffsets
from kafka_marshal.client.process.work_queues import Order, StartedMessage, WorkQueues
from kafka_marshal.core.validators import positive
from kafka_marshal.errors import BrokerFailed, InvalidOption, TooManyDeliveries, in_words
from kafka_marshal.errors import HandlerFailed as HandlerFailed

AHEAD: Final = 64
"""How many messages may wait for each worker, so that no worker waits for the feeder."""
DEAD_S: Final = 30.0
DEAD_HEADERS: Final = tuple(
    f"marshal-dead-{name}"
    for name in ("topic", "partition", "offset", "error", "tries", "deliveries")
)
"""The headers that a dead letter has in addition to those of its message."""
PACE_S: Final = 0.25
"""How often the speed of workers is measured."""


@frozen
class Retrying:
    """How often a message is retried, and when."""

    retries: int = field(default=3, validator=validators.ge(0))
    backoff_s: float = field(default=0.1, validator=positive)
    """The first delay; each further one is twice as long, with a little jitter."""
    max_deliveries: int | None = field(
        default=None, validator=validators.optional(validators.ge(1))
    )
    """For a shared topic: a message that was delivered more often is not handled any more."""
    backoff_max_s: float = field(default=30.0, validator=positive)

    def wait_s(self, tried: int) -> float:
        """The delay after this many attempts, in seconds."""
        # No float is as large as 2**1024, and one message may be retried for days.
        longest = min(self.backoff_max_s, self.backoff_s * 2.0 ** min(tried - 1, 1000))
        return longest * random.uniform(0.5, 1.0)  # noqa: S311  # so that not all come at once


@define
class HandlingCounts:
    """What became of messages."""

    handled: int = 0
    retried: int = 0
    dead: int = 0
    """Appended to the dead-letter topic."""
    dropped: int = 0
    """Their claim was lost before they were begun, or during processing; or a `seek` skipped them
    during processing."""


class HandlingRate:
    """The number of messages that workers handle per second.

    >>> now_s = iter([0.0, 0.1, 0.5, 0.6])
    >>> pace = HandlingRate(lambda: next(now_s))
    >>> pace.per_s(10), pace.per_s(100), pace.per_s(110)
    (0, 200, 200)
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._since_s, self._handled, self._per_s = monotonic(), 0, 0

    def per_s(self, handled: int) -> int:
        """The recent rate, given the number handled so far; 0 before the first measurement."""
        now_s = self._monotonic()
        past_s = now_s - self._since_s
        if past_s >= PACE_S:
            self._per_s = int((handled - self._handled) / past_s)
            self._since_s, self._handled = now_s, handled
        return self._per_s


def appending(settings: Settings, topic: str) -> Appender:
    """What `append_now` appends with; `topic` names it in errors.

    Raises:
        BrokerFailed: the settings are refused.
    """
    try:
        decided = {**APPENDS_ONCE, **ONE_AT_A_TIME, **settings.batches(), "linger_ms": "0"}
        made_of = settings.for_client(**decided)
        return settings.environment.appender(made_of, logger=MutedLogger())
    except KafkaException as error:
        raise BrokerFailed(settings.without_secrets(f"{topic}: {error.args[0]}")) from None


def append_now(
    producer: Appender,
    environment: Environment,
    topic: str,
    value: bytes | None,
    key: bytes | None,
    headers: Sequence[tuple[str, str | bytes | None]],
    partition: int = -1,
) -> str | None:
    """Append a record, and wait until it lies there. Returns why it does not; None: it does.

    A partition below 0 is chosen by the key. Any thread may call.
    """
    outcomes: list[KafkaError | None] = []
    try:
        producer.produce(
            topic,
            value,
            key,
            partition=partition,
            headers=[*headers],
            on_delivery=lambda failed, _: outcomes.append(failed),
        )
    except KafkaException as error:  # the client did not even take it
        outcomes.append(error.args[0])
    except BufferError as error:
        return str(error)
    deadline = environment.deadline(DEAD_S)
    while not outcomes and deadline.left_s:
        producer.poll(0.05)
    if not outcomes:
        return "no answer, so it may lie there all the same"
    return None if outcomes[0] is None else not_taken(outcomes[0])


class DeadLetters:
    """The topic of permanently failed messages; thread-safe."""

    def __init__(self, settings: Settings, topic: str) -> None:
        """Connect.

        Raises:
            BrokerFailed: the settings are refused.
        """
        self._settings, self._topic = settings, topic
        self._producer = appending(settings, topic)

    def put(self, message: Message, error: Exception, tried: int) -> None:
        """Append a message with its origin and its error; returns when it has been appended.

        Raises:
            BrokerFailed: it could not be appended.
        """
        failed_of = in_words(error)[:1000].encode()
        headers: list[tuple[str, str | bytes | None]] = [
            *message.headers,
            ("marshal-dead-topic", message.topic),
            ("marshal-dead-partition", str(message.partition)),
            ("marshal-dead-offset", str(message.offset)),
            ("marshal-dead-error", failed_of),
            ("marshal-dead-tries", str(tried)),
        ]
        if message.deliveries is not None:
            headers.append(("marshal-dead-deliveries", str(message.deliveries)))
        environment, into = self._settings.environment, self._topic
        refused = append_now(self._producer, environment, into, message.value, message.key, headers)
        if refused is not None:
            words = f"{into}: {message!r} cannot be put aside: {refused}"
            raise BrokerFailed(self._settings.without_secrets(words))


@define(eq=False)
class _Claimed:
    """The messages of one claim that the workers have."""

    chunks: list[InFlight]
    offsets: InFlightOffsets
    begun: int = 0
    """The number of messages that workers have begun."""

    @property
    def claim(self) -> Claim:
        """The tenure."""
        return self.chunks[0].claim

    @property
    def passed_over(self) -> bool:
        """A `seek` took its chunks back: the rest of them comes again, or never."""
        return self.chunks[-1].abandoned

    def begins(self, more: int) -> None:
        """Workers have begun `more` messages; negative if they have finished some."""
        self.begun += more
        if self.begun == max(0, more):
            for in_flight in self.chunks:
                in_flight.idle = not self.begun


class Handling:
    """Messages from one feeder to many handlers. Any thread may call; each step holds `lock`."""

    def __init__(
        self,
        order: Order,
        retrying: Retrying,
        dead: DeadLetters | None,
        may_begin: Callable[[Claim], bool],
        given_up: Callable[[Claim], bool],
        progressed: Callable[[InFlight], None],
        hand_back: Callable[[InFlight], None],
        outlasted: Callable[[Claim, bool], None],
        observers: Observers,
        lock: Lock,
    ) -> None:
        """`may_begin` returns whether a message of a claim may be begun at that moment.

        `given_up` returns whether none ever will be, although we still own the claim; then
        `hand_back` is called with each chunk of it, once none of it is being handled. `outlasted`
        is called at the end for each claim with a message that is still being handled, and again
        when there is none.
        """
        self.observers = observers
        self.counted = HandlingCounts()
        self.lock = lock
        self._retrying, self._dead = retrying, dead
        self._may_begin, self._given_up = may_begin, given_up
        self._progressed, self._hand_back = progressed, hand_back
        self._outlasted = outlasted
        self._work_queues: WorkQueues[Message] = WorkQueues(order, lambda message: message.key)
        self._claimed: dict[Hashable, _Claimed] = {}
        """By unit of sequential processing (`Claim.lane`)."""
        self._in_hand: Counter[Claim] = Counter()
        """For each tenure, the number of messages being handled."""
        self._dropped: dict[Claim, list[InFlight]] = {}
        """What the workers have of lost claims, until none of it is being handled."""
        self._left: set[Claim] = set()
        """Claims with a message that is still being handled after the end."""
        self._withheld = 0
        """The number of messages that waited for claims that may not begin, at the last check."""

    @property
    def waiting(self) -> int:
        """The number of messages that no worker has begun, and that may begin."""
        return max(0, self._work_queues.waiting - self._withheld)

    @property
    def queued(self) -> bool:
        """Whether there are messages that no worker has begun."""
        return self._work_queues.waiting > 0

    def feed(self, in_flight: InFlight) -> int:
        """Add a chunk to handle, which is informed of progress. Returns the number of messages."""
        in_flight.handled = True
        messages = list(Messages(in_flight.take(in_flight.total), in_flight.claim))
        if not messages:
            in_flight.finish()
            self._progressed(in_flight)
            return 0
        with self.lock:
            key = in_flight.claim.lane
            claimed = self._claimed.get(key)
            if claimed is not None and claimed.claim is not in_flight.claim:
                self._drop(key)
                claimed = None
            elif claimed is not None and claimed.passed_over:
                self._pass_over(key)
                claimed = None
            if claimed is None:
                claimed = self._claimed[key] = _Claimed([], InFlightOffsets(in_flight.start))
            in_flight.idle = not claimed.begun
            claimed.chunks.append(in_flight)
            claimed.offsets.begun((message.offset for message in messages), in_flight.end)
            self._work_queues.add(key, messages)
        return len(messages)

    def look(self) -> None:
        """Drop waiting messages of lost claims, and hand back those of claims given up.

        Also counts the messages that may not begin now.
        """
        with self.lock:
            withheld = 0
            for key, claimed in list(self._claimed.items()):
                claim = claimed.claim
                if claim.lost is not None:
                    self._drop(key)
                elif claimed.passed_over:
                    self._pass_over(key)
                elif not claimed.begun and self._given_up(claim):
                    self._work_queues.drop(key)
                    for in_flight in self._claimed.pop(key).chunks:
                        self._hand_back(in_flight)
                elif not self._may_begin(claim):
                    withheld += self._work_queues.waiting_of(key)
            self._withheld = withheld

    def _drop(self, key: Hashable) -> None:
        dropped = self._work_queues.drop(key)
        claimed = self._claimed.pop(key)
        claim = claimed.claim
        if dropped:
            self.counted.dropped += dropped
            self.observers.dropped(claim, dropped)
        self._dropped[claim] = claimed.chunks
        self._let_go(claim)

    def _pass_over(self, key: Hashable) -> None:
        """After a `seek`: waiting messages are not begun, and those being handled do not count."""
        self._work_queues.drop(key)
        del self._claimed[key]

    def _let_go(self, claim: Claim) -> None:
        """Forget a lost or left claim once none of its messages is being handled."""
        if not self._in_hand[claim]:
            del self._in_hand[claim]
            if claim in self._left:
                self._left.remove(claim)
                self._outlasted(claim, False)
            for in_flight in self._dropped.pop(claim, ()):
                in_flight.abandon()
                self._progressed(in_flight)

    def end(self) -> list[InFlight]:
        """Ignore all further results. Returns the first chunk of each claim.

        That chunk and those taken after it may have unfinished messages. Claims with a message that
        is still being handled are left out: `outlasted` is called with those.
        """
        with self.lock:
            for key in self._claimed:
                self._work_queues.drop(key)
            fed, self._claimed = self._claimed, {}
            self._left = {*self._in_hand}
            for claim in self._left:
                self._outlasted(claim, True)
            fed = {key: each for key, each in fed.items() if each.claim not in self._left}
        # The last that was done stays until the next one is.
        left = (
            [in_flight for in_flight in each.chunks if not in_flight.finished]
            for each in fed.values()
        )
        return [chunks[0] for chunks in left if chunks]

    def begin(self) -> StartedMessage[Message] | None:
        """The next message that may be handled; None if all wait for others, or there is none."""
        with self.lock:
            begun = self._work_queues.begin(self._may_begin_of)
            if begun is not None:
                self._claimed[begun.key].begins(1)
                self._in_hand[begun.message.claim] += 1
            return begun

    def _may_begin_of(self, key: Hashable) -> bool:
        claimed = self._claimed[key]
        claim = claimed.claim
        # What a seek passed over is handled to its end first, so that a lane stays in order.
        alone = self._in_hand[claim] == claimed.begun
        return alone and not claimed.passed_over and self._may_begin(claim)

    def finish(self, begun: StartedMessage[Message]) -> None:
        """It is no longer being handled, whatever the result; the next of its lane may begin."""
        with self.lock:
            self._work_queues.finished(begun)
            if not begun.dropped:
                self._claimed[begun.key].begins(-1)
            self._in_hand[begun.message.claim] -= 1
            self._let_go(begun.message.claim)

    def given_too_often(self, message: Message) -> TooManyDeliveries | None:
        """Why the handler is not called: it was delivered too often to consumers that fell silent.

        Only if it was alone in its range: otherwise another message of the range may be the cause.
        """
        most, its = self._retrying.max_deliveries, message.range
        if most is None or its is None or its.deliveries <= most or its.end > its.start + 1:
            return None
        return TooManyDeliveries(
            f"{its.deliveries - 1} consumers fell silent after this message was given to them, "
            f"and max_deliveries is {most}"
        )

    def again_after_s(
        self, begun: StartedMessage[Message], error: Exception, tried: int
    ) -> float | None:
        """The delay before the next attempt; None if there is none."""
        if tried > self._retrying.retries:
            return None
        with self.lock:
            self.counted.retried += 1
        self.observers.retried(begun.message, error, tried)
        return self._retrying.wait_s(tried)

    def put_aside(self, begun: StartedMessage[Message], error: Exception, tried: int) -> None:
        """Append it to the dead-letter topic, which takes a while; then it is finished.

        Raises:
            HandlerFailed: there is no dead-letter topic.
            BrokerFailed: it could not be appended.
        """
        if self._dead is None:
            raise HandlerFailed(
                f"{begun.message!r} failed {tried} times, and no dead_letter_topic was given: "
                f"{in_words(error)}"
            ) from error
        self._dead.put(begun.message, error, tried)
        with self.lock:
            self.counted.dead += 1
        self.observers.dead_lettered(begun.message, error, tried)

    def done(self, begun: StartedMessage[Message]) -> None:
        """It was handled successfully."""
        with self.lock:
            claimed = self._claimed.get(begun.key)
            if begun.dropped or claimed is None:
                self.counted.dropped += 1
                self.observers.dropped(begun.message.claim, 1)
                return
            self.counted.handled += 1
            reached = claimed.offsets.finished(begun.message.offset)
            finished = []
            while claimed.chunks and claimed.chunks[0].end <= reached and len(claimed.chunks) > 1:
                finished.append(claimed.chunks.pop(0))
            for in_flight in finished:
                in_flight.finish()
            last = claimed.chunks[0]
            if last.end <= reached:
                last.finish()
            elif last.committed is not None:
                last.committed = max(last.committed, reached)
        if finished or last.finished:
            self._progressed(last)


def refuse_no_handler(handler: object) -> None:
    """Refuse what cannot be called, before every message fails because of it.

    Raises:
        InvalidOption: it cannot be called.
    """
    if not callable(handler):
        raise InvalidOption(f"handler must be a function, not {handler!r:.80}")


def refuse_promise(result: object) -> None:
    """A handler that returned this has run nothing yet: its message must not count as done.

    Raises:
        InvalidOption: it is a coroutine, another awaitable, or a generator.
    """
    if isinstance(result, Awaitable | Generator | AsyncGenerator):
        kind = type(result).__name__
        if isinstance(result, Coroutine):
            result.close()
        raise InvalidOption(
            f"handler returned a {kind}, which nobody runs: the message is not done. Give run a "
            f"plain function, or use AsyncConsumer"
        )


def not_ours(begun: StartedMessage[Message]) -> bool:
    """Whether its claim was lost since: its result does not count."""
    return begun.dropped or begun.message.claim.lost is not None

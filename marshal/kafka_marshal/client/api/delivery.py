"""Delivers messages: the chunk that the application is processing, and how it gets the next.

The consumer takes messages from here in the application's thread, the one for asyncio in its own
thread; only one thread takes at a time. `in_flight` knows what a chunk is, and when it is done.
"""

from __future__ import annotations

import enum
from typing import Final

from confluent_kafka import Message as Fetched

from kafka_marshal.client.coordinate.coordinator import Coordinator
from kafka_marshal.client.fetch.buffers import MessageChunk
from kafka_marshal.client.fetch.fetcher import Fetcher
from kafka_marshal.client.fetch.in_flight import InFlight
from kafka_marshal.client.message import Claim, Message
from kafka_marshal.errors import ConsumerClosed, MarshalError

CHUNK: Final = 1_000
"""The most messages of one claim to deliver before it is another claim's turn; `TURN_MS` in
`ownership` ends a turn by time."""
CUT_S: Final = 0.1
"""How long `stop` waits for a thread that is examining the current chunk, in seconds."""
_LOOK_S: Final = 1.0


class DeliveryMode(enum.Enum):
    """How messages are acknowledged. Each chunk is delivered in one mode."""

    LOOP = enum.auto()
    """By asking for more, in whichever mode."""
    LIST = enum.auto()
    """By asking for the next list or the next message of a loop, or by a commit; not by a poll."""
    POLL = enum.auto()
    """By a commit."""


class Delivery:
    """The messages that one consumer's application is processing."""

    def __init__(self, coordinator: Coordinator, fetcher: Fetcher) -> None:
        self._coordinator, self._fetcher = coordinator, fetcher
        self._may_begin = coordinator.ownership.may_begin
        environment = coordinator.cluster.settings.environment
        self.monotonic, self.deadline = environment.monotonic, environment.deadline
        self._steady_ms, self._threads = environment.steady_ms, environment.threads
        self._new_lock = environment.threads.lock
        self.in_flight: InFlight | None = None
        """What is being given out."""
        self._way = DeliveryMode.LOOP
        """How it is given out."""
        self._listed: InFlight | None = None
        """What was given as lists before somebody polled: done when more is asked for otherwise."""
        self.calling = False
        """A call is taking messages, or an exception of a signal's handler has ended it midway."""
        self._caller = ""
        """The name of the thread that made this call."""
        self.last: Message | None = None
        """The last message that `poll` or a list delivered. Of a list it keeps no others: the next
        fetch would find them alive, and Python would search for cycles in each (`FETCH_MAX`)."""
        self.unwrapped: InFlight | None = None
        """The chunk whose last message counts as delivered, and was not: a loop was interrupted."""
        self.closed = False
        """Nothing more is given out, since the consumer is closed."""
        self.stopped = False
        """At least once: nothing more is given out, since the application called `stop`."""

    @property
    def over(self) -> bool:
        """Whether it is closed, or about to end."""
        return self.ended or self.stopped or self._coordinator.stopping

    @property
    def ended(self) -> bool:
        """Whether no more messages will come."""
        return self.closed or self._coordinator.ended.is_set()

    def may_begin(self, claim: Claim) -> bool:
        """Whether any thread or task may begin a message of the claim now."""
        return not (self.stopped or self.closed) and self._may_begin(claim)

    def take(
        self, timeout_s: float | None, way: DeliveryMode = DeliveryMode.LOOP, maximum: int = CHUNK
    ) -> InFlight | None:
        """The current chunk, or the next one; None at the end, or on timeout.

        The rest of a chunk that was delivered in another mode becomes its own chunk.
        """
        self.calling = True
        try:
            if way is not DeliveryMode.POLL and self._listed is not None:
                self.finish(self._listed)
                self._listed = None
            if self.in_flight is not None and self._way is not way:
                self._split(self.in_flight, way)
            taken = self.in_flight or self._next(timeout_s, way, maximum)
        except MarshalError:
            self.calling = False
            raise
        self.calling = False
        return taken

    def stop(self) -> None:
        """Deliver nothing more, not even of the current chunk. A signal handler may call it."""
        self.stopped = True
        in_flight = self.in_flight
        if in_flight is not None:
            # A handler may have interrupted the very thread that holds it: the coordinator cuts it.
            in_flight.cut(within_s=CUT_S)

    def share_of(self, messages: int) -> int:
        """How many of these messages to take from one claim, so that every claim gets some."""
        return min(CHUNK, max(1, messages // max(1, self._coordinator.ownership.count)))

    def pop(self) -> InFlight | None:
        """Return the current chunk and forget it; the caller takes it over."""
        in_flight, self.in_flight = self.in_flight, None
        return in_flight

    def finish(self, in_flight: InFlight) -> None:
        """The application has finished this chunk. After an interrupt it is finished again."""
        in_flight.finish()
        self._coordinator.ownership.progressed(in_flight)
        if self.in_flight is in_flight:
            self.in_flight = None

    def delivered_more(self, in_flight: InFlight) -> None:
        """The application received more of the chunk and has not finished it; ranges go on."""
        if in_flight.claim.range is not None:
            self._coordinator.ownership.progressed(in_flight)

    def raise_failure(self) -> None:
        """Raise the error that ended the consumer, if there is one."""
        self._coordinator.raise_failure()

    def raise_if_closed(self) -> None:
        """Raise the error that ended the consumer, or ConsumerClosed."""
        self.raise_failure()
        if self.closed:
            raise ConsumerClosed("the consumer is closed; make another one to go on")
        if self.calling and self._threads.current_name == self._caller:
            self._recover()

    def unlock(self) -> None:
        """Let other threads fetch: an exception may have ended a call that was fetching."""
        if self.calling:
            self._fetcher.unlock()

    def _recover(self) -> None:
        """Take up what a call of this thread has lost: a signal's handler raised an exception.

        Kafka's client then drops the messages that it has fetched. Others were taken from a buffer,
        or counted as delivered, and never reached the application.
        """
        self._fetcher.recover()
        current, undelivered = self.in_flight, False
        if current is not None and self._way is DeliveryMode.LOOP:
            undelivered = self.unwrapped is current
        elif current is not None:
            undelivered = current.left < current.total and not self._delivered_all(current)
        if undelivered:
            self.in_flight = None
        ownership = self._coordinator.ownership
        self._coordinator.call(
            lambda: ownership.interrupted(current, self._listed, undelivered=undelivered)
        )
        self.unwrapped, self.calling = None, False

    def _delivered_all(self, current: InFlight) -> bool:
        """Whether the application received all of it that counts as delivered."""
        last = self.last
        if last is None or last.claim is not current.claim:
            return False
        return last.offset + 1 == current.delivered_end

    def _split(self, before: InFlight, way: DeliveryMode) -> None:
        """Deliver the rest of the current chunk in another mode."""
        rest = before.give_back()
        if self._way is DeliveryMode.LIST and way is DeliveryMode.POLL:
            self._listed = before
        elif self._way is not DeliveryMode.POLL:
            self.finish(before)
        self.in_flight = None
        if rest is not None:
            self._deliver(rest, way, before.since_ms)

    def _deliver(
        self, chunk: MessageChunk[Claim, Fetched], way: DeliveryMode, since_ms: int
    ) -> InFlight | None:
        """Make it the current chunk, unless that was prevented meanwhile."""
        in_flight = InFlight(
            chunk, self._new_lock(), by_commit=way is not DeliveryMode.LOOP, since_ms=since_ms
        )
        if not self._coordinator.ownership.accept(in_flight):
            return None
        self.in_flight, self._way = in_flight, way
        if self.stopped or self.closed:
            in_flight.cut()
        if not in_flight.finished:
            return in_flight
        self.in_flight = None
        self._coordinator.ownership.progressed(in_flight)
        return None

    def _next(self, timeout_s: float | None, way: DeliveryMode, maximum: int) -> InFlight | None:
        deadline = None if timeout_s is None else self.monotonic() + timeout_s
        self._caller = self._threads.current_name
        while True:
            self.raise_failure()
            if self.closed:
                return None
            left = _LOOK_S if deadline is None else min(_LOOK_S, deadline - self.monotonic())
            if self.stopped:
                taken = None
                self._coordinator.ended.wait(max(0.0, left))
            else:
                taken = self._fetcher.take(maximum, max(0.0, left))
            if taken is not None:
                if (in_flight := self._deliver(taken, way, self._steady_ms())) is not None:
                    return in_flight
                continue
            if self._coordinator.ended.is_set():
                self.raise_failure()
                return None
            if deadline is not None and self.monotonic() >= deadline:
                return None

"""A worker pool for one consumer: threads that call a handler for each message.

Heartbeats do not wait for handlers. `handling` decides what may begin, what is retried and what
counts as done. This module does not know how messages are fetched or claims kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kafka_marshal.client.connect.environment import Environment
from kafka_marshal.client.fetch.in_flight import InFlight
from kafka_marshal.client.message import Message
from kafka_marshal.client.process.handling import AHEAD, Handling, not_ours, refuse_promise
from kafka_marshal.client.process.work_queues import StartedMessage

_WAIT_S: Final = 0.1
"""How long to wait for messages that may begin later, without a notification."""
_IDLE_S: Final = 1.0
"""How long to wait while there is nothing to begin, in case a notification is missing."""


class WorkerPool:
    """Workers that handle the messages of one feeder."""

    def __init__(
        self,
        environment: Environment,
        handler: Callable[[Message], object],
        workers: int,
        handling: Handling,
    ) -> None:
        self._handler, self._handling = handler, handling
        self._lock, threads = handling.lock, environment.threads
        self._more = threads.condition(self._lock)
        self._less = threads.condition(self._lock)
        self._ending = self._over = False
        """Nothing more is begun; and nobody waits for results any longer."""
        self._ahead = AHEAD * workers
        self.failure: BaseException | None = None
        self._monotonic, self._sleep = environment.monotonic, threads.sleep
        self._threads = [
            environment.start(f"marshal-worker-{number}", self._work, self._failed)
            for number in range(workers)
        ]

    @property
    def waiting(self) -> bool:
        """Whether the feeder should wait, because the workers have enough messages."""
        with self._lock:
            if self._handling.waiting >= self._ahead:
                self._less.wait(_WAIT_S)
            return self._handling.waiting >= self._ahead

    def feed(self, in_flight: InFlight) -> None:
        """Add a chunk for the workers."""
        with self._lock:
            self._more.notify(self._handling.feed(in_flight))

    def end(self, timeout_s: float) -> None:
        """Begin nothing more; wait for running handlers."""
        with self._lock:
            self._ending = True
            self._more.notify_all()
        deadline = self._monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, deadline - self._monotonic()))
        self._over = True

    def _work(self) -> None:
        while (begun := self._begin()) is not None:
            done = False
            try:
                done = self._handle(begun)
            except BaseException as error:
                self._failed(error)  # before the next of its lane may begin
                raise
            finally:
                self._finish(begun, done=done)

    def _failed(self, error: BaseException) -> None:
        with self._lock:
            self.failure = self.failure or error
            self._less.notify_all()
            self._more.notify_all()

    def _begin(self) -> StartedMessage[Message] | None:
        with self._lock:
            while not self._ending and self.failure is None:
                begun = self._handling.begin()
                if begun is not None:
                    self._less.notify()
                    return begun
                self._more.wait(_WAIT_S if self._handling.queued else _IDLE_S)
        return None

    def _handle(self, begun: StartedMessage[Message]) -> bool:
        """Retry the message until it is done, dead-lettered, or its claim is lost."""
        too_often = self._handling.given_too_often(begun.message)
        if too_often is not None:
            if not_ours(begun):
                return False
            self._handling.put_aside(begun, too_often, 0)
            return True
        tried = 0
        while True:
            tried += 1
            try:
                with self._handling.observers.processing(begun.message):
                    result = self._handler(begun.message)
            except Exception as error:
                if self._over or not_ours(begun):
                    return False
                wait_s = self._handling.again_after_s(begun, error, tried)
                if wait_s is None:
                    self._handling.put_aside(begun, error, tried)
                    return True
                if not self._waits(begun, wait_s):
                    return False
            else:
                if result is not None:
                    refuse_promise(result)
                return True

    def _waits(self, begun: StartedMessage[Message], wait_s: float) -> bool:
        """Wait before the next attempt; False if there is none, at the end or after a loss."""
        until_s = self._monotonic() + wait_s
        while not self._ending and not not_ours(begun):
            left_s = until_s - self._monotonic()
            if left_s <= 0:
                return True
            self._sleep(min(left_s, _WAIT_S))
        return False

    def _finish(self, begun: StartedMessage[Message], *, done: bool) -> None:
        # In one: what nobody handles any more may be handed back, with what is not done of it.
        with self._lock:
            self._handling.finish(begun)
            if done:
                self._handling.done(begun)
            self._more.notify()

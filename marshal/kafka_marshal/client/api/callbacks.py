"""Calls the application's callbacks when claims are won and lost.

It runs them in its own thread, one after the other, so that no heartbeat waits for a slow callback.
"""

# ruff: noqa: D102  # `Observer` describes each method once

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import iscoroutinefunction

from kafka_marshal.client.connect.environment import Deadline, Environment
from kafka_marshal.client.connect.threads import Queue, Thread
from kafka_marshal.client.message import Claim
from kafka_marshal.client.observe.logger import logger
from kafka_marshal.client.observe.observers import Observer
from kafka_marshal.errors import InvalidOption
from kafka_marshal.machines.consumer.effects import Lost


def refuse_async(**callbacks: object) -> None:
    """Refuse functions that would never run.

    Raises:
        InvalidOption: one is an async function, or none at all.
    """
    for option, callback in callbacks.items():
        if callback is not None and not callable(callback):
            raise InvalidOption(f"{option} must be a function, not {callback!r:.80}")
        if iscoroutinefunction(callback):
            raise InvalidOption(f"{option} must be a plain function: nobody awaits an async one")


class Callbacks(Observer):
    """An observer that calls the callbacks later, in its thread."""

    def __init__(
        self,
        environment: Environment,
        on_claimed: Callable[[Claim], None] | None,
        on_lost: Callable[[Claim, Lost], None] | None,
        on_drained: Callable[[Claim], None] | None,
    ) -> None:
        refuse_async(on_claimed=on_claimed, on_lost=on_lost, on_drained=on_drained)
        self._on_claimed, self._on_lost, self._on_drained = on_claimed, on_lost, on_drained
        self._calls: Queue[Callable[[], None] | None] = environment.threads.queue()
        self._environment = environment
        self._thread: Thread | None = None

    def start(self, failed: Callable[[BaseException], None]) -> None:
        """Start the thread; `failed` is called with the error that ended it."""
        self._thread = self._environment.start("marshal-callbacks", self._run, failed)

    def close(self, deadline: Deadline) -> None:
        """End the thread when all callbacks have run."""
        self._calls.put(None)
        if not self._environment.threads.is_current(self._thread):
            deadline.join(self._thread)

    def claimed(self, claim: Claim) -> None:
        if self._on_claimed is not None:
            self._calls.put(partial(self._on_claimed, claim))

    def lost(self, claim: Claim, reason: Lost) -> None:
        if self._on_lost is not None:
            self._calls.put(partial(self._on_lost, claim, reason))

    def drained(self, claim: Claim) -> None:
        if self._on_drained is not None:
            self._calls.put(partial(self._on_drained, claim))

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            try:
                call()
            except Exception:
                logger.exception("a callback of the consumer failed")

"""The outcomes of one `send`: wait for them, await them, or receive them in a callback.

This module does not know how records are sent, nor how it learns their outcomes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, InvalidStateError
from functools import partial
from typing import Any

from kafka_marshal.client.connect.threads import Threads
from kafka_marshal.client.message import SentRecord
from kafka_marshal.client.numbers import seconds_to_wait
from kafka_marshal.client.observe.logger import logger
from kafka_marshal.errors import BrokerFailed, MarshalError


def wait_for_itself(call: str) -> MarshalError:
    """The error of a call that waits for outcomes in the thread that reports them."""
    return MarshalError(
        f"{call} was called in a callback of the producer, which reports no outcome until the "
        f"callback has returned: call it in another thread, or use on_completion"
    )


class SendResponse:
    """The records of one `send`, each with its outcome once it is known.

    Await it in any asyncio event loop, wait with `result`, or pass a callback to `on_completion`.
    Cancelling a task that awaits it has no effect on the records.
    """

    __slots__ = ("_future", "_left", "_refuse_to_wait", "_sent", "_threads")

    def __init__(
        self, records: int, threads: Threads, refuse_to_wait: Callable[[str], None]
    ) -> None:
        """Without records it is done at once.

        `refuse_to_wait` raises an error for a call that would wait for ever.
        """
        self._sent: list[SentRecord | None] = [None] * records
        self._left = records
        self._threads, self._refuse_to_wait = threads, refuse_to_wait
        self._future: Future[tuple[SentRecord, ...]] = Future()
        self._future.set_running_or_notify_cancel()  # so that nobody who awaits it can cancel it
        if not records:
            self.complete()

    def put(self, index: int, sent: SentRecord) -> bool:
        """Note an outcome, once; return whether it was the last one. The caller holds a lock."""
        if self._sent[index] is not None:
            return False
        self._sent[index] = sent
        self._left -= 1
        return not self._left

    def complete(self) -> None:
        """Wake all waiting threads and tasks, and call the callbacks."""
        self._future.set_result(tuple(sent for sent in self._sent if sent is not None))

    def done(self) -> bool:
        """Whether the outcome of every record is known, or known to stay unknown."""
        # First what needs no lock: in a fork another thread may hold that of the future for ever.
        return not self._left and self._future.done()

    @property
    def records(self) -> Sequence[SentRecord]:
        """The records in the order in which they were given.

        Raises:
            InvalidStateError: an outcome is still open.
        """
        if not self._future.done():
            raise InvalidStateError("an outcome is still open: ask done(), or wait with result()")
        return self._future.result()

    @property
    def error(self) -> BrokerFailed | None:
        """The first error of a record; None if all were appended.

        Raises:
            InvalidStateError: an outcome is still open.
        """
        return next((sent.error for sent in self.records if sent.error is not None), None)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until it is done, for ever by default; False on timeout.

        Raises:
            MarshalError: it was called in a callback, which would wait for itself.
            ProducerClosed: this process is a fork of the one that sent the records.
        """
        if timeout_s is not None:
            timeout_s = seconds_to_wait("timeout_s", timeout_s)
        if self.done():
            return True
        self._refuse_to_wait("result()")
        completed = self._threads.event()
        self._future.add_done_callback(lambda _: completed.set())
        return completed.wait(timeout_s)

    def result(self, timeout_s: float | None = None) -> Sequence[SentRecord]:
        """Wait, for ever by default, and return the records if all were appended.

        Raises:
            NotAppended: a record was refused and not appended. `records` has the others.
            OutcomeUnknown: it is unknown whether a record was appended.
            TimeoutError: an outcome is still open. The records may still be appended.
            MarshalError: it was called in a callback, which would wait for itself.
            ProducerClosed: this process is a fork of the one that sent the records.
        """
        if not self.wait(timeout_s):
            raise TimeoutError(f"no outcome of {self._left} records within {timeout_s} s")
        if self.error is not None:
            raise self.error
        return self.records

    def on_completion(self, call: Callable[[SendResponse], object]) -> None:
        """Call this when it is done: in the producer's thread, or now if it is done already.

        It must be short, since no outcome is reported meanwhile. Exceptions are logged.
        """
        self._future.add_done_callback(partial(self._call, call))

    def _call(self, call: Callable[[SendResponse], object], _: object) -> None:
        try:
            call(self)
        except BaseException:
            # Also SystemExit: it would end the thread that reports the outcomes of all.
            logger.exception("a callback of the producer failed")

    def __await__(self) -> Generator[Any, None, Sequence[SentRecord]]:
        """`result`, without a timeout."""
        if not self.done():
            self._refuse_to_wait("await")
        yield from asyncio.wrap_future(self._future).__await__()
        return self.result()

    def __repr__(self) -> str:
        state = "done" if self.done() else f"{self._left} open"
        return f"<SendResponse of {len(self._sent)} records, {state}>"

"""An asyncio event loop in virtual time: a `Scheduler` decides where and how long it waits.

Several loops take turns on one OS thread, where asyncio stores which loop is running. So a loop
removes that entry when its thread waits, and restores it when it continues.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio import events
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from concurrent.futures import Future as ThreadFuture
from contextlib import suppress
from typing import Any, TypeVar

from kafka_marshal.testing.in_memory.contexts import Killed
from kafka_marshal.testing.in_memory.network import (
    InMemoryNetwork,
    InMemoryServer,
    InMemoryTransport,
)
from kafka_marshal.testing.in_memory.scheduler import (
    ScheduledQueue,
    ScheduledThread,
    Scheduler,
)

T = TypeVar("T")


class ScheduledEventLoop(asyncio.BaseEventLoop):
    """An event loop for `asyncio`; make one for each thread that needs one, and close it."""

    def __init__(self, scheduler: Scheduler, network: InMemoryNetwork | None = None) -> None:
        """A loop for the calling thread, and its network."""
        super().__init__()
        self._scheduler = scheduler
        self._network = network
        self._selector = self
        """The object on which `BaseEventLoop` waits."""
        self._woken = False
        self._line: list[ScheduledThread] = []
        self._calls: dict[Executor, ScheduledQueue] = {}
        """The queue of calls for each executor's thread."""

    def time(self) -> float:
        """The scheduler's clock, in seconds."""
        return self._scheduler.clock.monotonic()

    def run_forever(self) -> None:
        """Run until `stop`."""
        hooks: Any = None

        def leave() -> None:
            nonlocal hooks
            hooks = sys.get_asyncgen_hooks()
            events._set_running_loop(None)
            sys.set_asyncgen_hooks(None, None)

        def enter() -> None:
            events._set_running_loop(self)
            sys.set_asyncgen_hooks(*hooks)

        thread = self._scheduler.current
        thread.around_waits = leave, enter
        try:
            super().run_forever()
        except Killed:
            self._kill_tasks()
            raise
        finally:
            thread.around_waits = None

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """End the loop if a callback was killed; asyncio logs other errors, and continues."""
        if isinstance(killed := context.get("exception"), Killed):
            raise killed
        super().call_exception_handler(context)

    def _kill_tasks(self) -> None:
        """Prevent all tasks from continuing, even when they are collected."""
        killed: set[asyncio.Task[Any]] = set()
        events._set_running_loop(self)  # a block that ends may begin another task
        try:
            while left := asyncio.all_tasks(self) - killed:
                for task in sorted(left, key=_number):
                    killed.add(task)
                    task._log_destroy_pending = False  # type: ignore[attr-defined]
                    coroutine: Any = task.get_coro()
                    with suppress(BaseException):
                        while True:
                            coroutine.throw(Killed())
        finally:
            events._set_running_loop(None)

    def select(self, timeout: float | None) -> list[Any]:
        """Wait until another thread calls, or for this long."""
        if timeout is None or timeout > 0:
            self._scheduler.wait_in(self._line, lambda: self._woken, timeout)
        self._woken = False
        return []

    def _process_events(self, event_list: list[Any]) -> None:
        """Does nothing: there are no events."""

    def _write_to_self(self) -> None:
        self._woken = True
        self._scheduler.wake_all(self._line)

    async def create_server(  # type: ignore[override]
        self, protocol_factory: Callable[[], Any], host: str, port: int, *, backlog: int = 100
    ) -> InMemoryServer:
        """Listen in the in-memory network."""
        assert self._network is not None
        return self._network.listen(self, protocol_factory, host, port)

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], Any], host: str, port: int, *, ssl: None = None
    ) -> tuple[InMemoryTransport, Any]:
        """Connect in the in-memory network."""
        assert self._network is not None
        assert ssl is None, "there is no TLS in memory"
        return await self._network.connect_loop(self, protocol_factory, host, port)

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Call a function in a scheduler's thread: a new one, or this executor's only one."""
        found: ThreadFuture[T] = ThreadFuture()

        def run() -> None:
            if not found.set_running_or_notify_cancel():
                return
            try:
                found.set_result(func(*args))
            except Exception as error:
                found.set_exception(error)

        if executor is None:
            self._scheduler.start(run, "asyncio")
        else:
            self._calls_of(executor).put(run)
        return asyncio.wrap_future(found, loop=self)

    def _calls_of(self, executor: Executor) -> ScheduledQueue:
        calls = self._calls.get(executor)
        if calls is None:
            calls = self._calls[executor] = self._scheduler.queue()

            def serve() -> None:
                while (call := calls.get()) is not None:
                    call()

            self._scheduler.start(serve, "executor")
        return calls

    def close(self) -> None:
        """Close the loop, and end the threads of its executors."""
        for calls in self._calls.values():
            calls.put(None)
        super().close()

    def run_to_end(self, main: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine like `asyncio.run`: cancel remaining tasks, and close the loop."""
        try:
            self.run_until_complete(main)
        finally:
            try:
                if left := sorted(asyncio.all_tasks(self), key=_number):
                    for task in left:
                        task.cancel()
                    self.run_until_complete(asyncio.gather(*left, return_exceptions=True))
                self.run_until_complete(self.shutdown_asyncgens())
            finally:
                self.close()


def _number(task: asyncio.Task[Any]) -> int:
    """The number of a task; tasks are numbered in order of creation."""
    return int(task.get_name().rpartition("-")[2])

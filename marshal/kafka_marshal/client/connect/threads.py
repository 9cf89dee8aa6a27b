"""Threads and their synchronization: locks, conditions, events, semaphores, queues.

A consumer makes all of these through `Environment.threads`, and they are what `threading` and
`queue` offer under these names. A scheduler that takes their place sees each point at which one
thread waits for another, and decides who goes on. The room does not know what any thread does.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Protocol, TypeVar

from attrs import frozen

T = TypeVar("T")


class Thread(Protocol):
    """A thread that runs, or has ended."""

    name: str

    def is_alive(self) -> bool:
        """Whether it has not ended."""

    def join(self, timeout: float | None = None) -> None:
        """Wait until it has ended, or for `timeout` seconds."""


class Lock(Protocol):
    """`threading.Lock`, or `threading.RLock`."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Whether the calling thread holds it now."""

    def release(self) -> None:
        """Let another thread have it."""

    def __enter__(self) -> bool: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...


class Condition(Protocol):
    """`threading.Condition`, over a lock that its methods are called with."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for `notify`, without the lock; False if that takes longer."""

    def notify(self, n: int = 1) -> None:
        """Wake up to `n` threads that wait."""

    def notify_all(self) -> None:
        """Wake all that wait."""


class ThreadEvent(Protocol):
    """`threading.Event`."""

    def set(self) -> None:
        """Wake all that wait, from now on."""

    def is_set(self) -> bool:
        """Whether it was set."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set; False if that takes longer."""


class Queue(Protocol[T]):
    """`queue.SimpleQueue`."""

    def put(self, item: T, /) -> None:
        """Append it."""

    def get(self, block: bool = True, timeout: float | None = None) -> T:
        """Take the oldest; raises `queue.Empty` if none comes in time."""

    def get_nowait(self) -> T:
        """Take the oldest; raises `queue.Empty` if there is none."""


class Threads(Protocol):
    """Starts threads, and makes what they wait for."""

    def start(self, run: Callable[[], object], name: str) -> Thread:
        """Start a daemon thread under a name."""

    def is_current(self, thread: Thread | None) -> bool:
        """Whether this is the calling thread."""

    @property
    def current_name(self) -> str:
        """The name of the calling thread."""

    def sleep(self, seconds: float, /) -> None:
        """Let the calling thread wait for this many seconds."""

    def lock(self) -> Lock:
        """A lock that nobody holds."""

    def rlock(self) -> Lock:
        """A lock that its holder may acquire again."""

    def condition(self, lock: Any, /) -> Condition:
        """A condition over a lock that `lock` or `rlock` made."""

    def event(self) -> ThreadEvent:
        """An event that is not set."""

    def semaphore(self, value: int, /) -> Any:
        """A semaphore that may be acquired this many times."""

    def queue(self) -> Queue[Any]:
        """An empty queue without a bound."""


@frozen
class OperatingSystemThreads:
    """The threads of this process."""

    def start(self, run: Callable[[], object], name: str) -> Thread:
        """Start a daemon thread under a name."""
        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        return thread

    def is_current(self, thread: Thread | None) -> bool:
        """Whether this is the calling thread."""
        return thread is threading.current_thread()

    @property
    def current_name(self) -> str:
        """The name of the calling thread."""
        return threading.current_thread().name

    sleep = staticmethod(time.sleep)
    lock = staticmethod(threading.Lock)
    rlock = staticmethod(threading.RLock)
    condition = staticmethod(threading.Condition)
    event = staticmethod(threading.Event)
    semaphore = staticmethod(threading.Semaphore)

    def queue(self) -> Queue[Any]:
        """An empty queue without a bound."""
        return queue.SimpleQueue()


OPERATING_SYSTEM: Final = OperatingSystemThreads()

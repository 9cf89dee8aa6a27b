"""Threads and their synchronization: locks, conditions, events, semaphores, queues.

A consumer makes all of these through `Environment.threads`, and they are what `threading` and
`queue` offer under these names. A scheduler that takes their place sees each point at which one
thread waits for another, and decides who goes on. The room does not know what any thread does.

A signal's handler may raise an exception into a thread that waits. `threading.Event` and
`threading.Condition` then release a lock that the thread does not hold, perhaps another thread's,
and a `Future` keeps one that nobody releases. Those of this module do neither.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Generic, Protocol, TypeVar

from attrs import define, field, frozen

from kafka_marshal.errors import MarshalError

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
        """A condition over a lock that `rlock` made."""

    def event(self) -> ThreadEvent:
        """An event that is not set."""

    def semaphore(self, value: int, /) -> Any:
        """A semaphore that may be acquired this many times."""

    def queue(self) -> Queue[Any]:
        """An empty queue without a bound."""


@frozen
class ForkGuard:
    """Knows the process that made it. A fork of that has none of its threads.

    So what waits for one of them would wait for ever, and both processes would get the same
    messages.
    """

    _pid: int = field(factory=os.getpid)

    @property
    def forked(self) -> bool:
        """Whether this process is a fork of that one."""
        return os.getpid() != self._pid

    def refuse(self, what: str, error: type[MarshalError] = MarshalError) -> None:
        """Raise an error in a fork: `what` belongs to the other process."""
        if self.forked:
            raise error(
                f"this {what} belongs to the process that this one was forked from: make a {what} "
                f"here"
            )


@define(eq=False)
class Answer(Generic[T]):
    """What one thread answers another one: a value or an error, or nobody waits for it any more."""

    _outcomes: list[tuple[T | None, BaseException | None, bool]] = field(factory=list)
    """The first one counts: several threads may end it."""
    _awaited: list[ThreadEvent] = field(factory=list)

    def set_result(self, value: T) -> None:
        """Answer with a value, unless it was answered or cancelled."""
        self._end((value, None, False))

    def set_exception(self, error: BaseException) -> None:
        """Answer with an error, unless it was answered or cancelled."""
        self._end((None, error, False))

    def cancel(self) -> bool:
        """Nobody waits for it any more; False if it was answered before."""
        self._end((None, None, True))
        return self.cancelled()

    def cancelled(self) -> bool:
        """Whether it was cancelled before it was answered."""
        return self.done() and self._outcomes[0][2]

    def done(self) -> bool:
        """Whether it was answered or cancelled."""
        return bool(self._outcomes)

    def tell(self, event: ThreadEvent) -> None:
        """Set this event when it is done."""
        self._awaited.append(event)
        if self.done():
            event.set()

    def result(self) -> T:
        """The value, or raises the error. It must be answered."""
        value, error, _ = self._outcomes[0]
        if error is not None:
            raise error
        return value  # type: ignore[return-value]

    def _end(self, outcome: tuple[T | None, BaseException | None, bool]) -> None:
        self._outcomes.append(outcome)
        for event in self._awaited:
            event.set()


class _Event:
    """`threading.Event` without a lock."""

    def __init__(self) -> None:
        self._is_set = False
        self._waiting: list[threading.Lock] = []
        """Each is held until the event is set."""

    def set(self) -> None:
        self._is_set = True
        while self._waiting:
            with suppress(IndexError, RuntimeError):  # another thread sets it, too
                self._waiting.pop().release()

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout: float | None = None) -> bool:
        held = threading.Lock()
        held.acquire()
        self._waiting.append(held)
        if not self._is_set:
            held.acquire(timeout=-1 if timeout is None else max(0.0, timeout))
        with suppress(ValueError):
            self._waiting.remove(held)
        return self._is_set


class _Condition:
    """`threading.Condition` over a reentrant lock."""

    def __init__(self, lock: Any) -> None:
        self._lock = lock
        self._waiting: list[_Event] = []
        """One of each thread that waits, in this order; set when the thread is notified."""

    def wait(self, timeout: float | None = None) -> bool:
        notified = _Event()
        try:
            self._waiting.append(notified)
            mine = (1, threading.get_ident())  # how often the lock is held, and by which thread
            try:
                mine = self._lock._release_save()
                return notified.wait(timeout)
            finally:
                # As `threading.Condition` does it. Unlike `acquire` no signal can end it midway.
                self._lock._acquire_restore(mine)
                self._waiting.remove(notified)
        except BaseException:
            with suppress(ValueError):
                self._waiting.remove(notified)
            self.notify_all()  # this thread may have been notified, and will not act on it
            raise

    def notify(self, n: int = 1) -> None:
        asleep = [notified for notified in self._waiting if not notified.is_set()]
        for notified in asleep[:n]:
            notified.set()

    def notify_all(self) -> None:
        self.notify(len(self._waiting))


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
    condition = staticmethod(_Condition)
    event = staticmethod(_Event)
    semaphore = staticmethod(threading.Semaphore)

    def queue(self) -> Queue[Any]:
        """An empty queue without a bound."""
        return queue.SimpleQueue()


OPERATING_SYSTEM: Final = OperatingSystemThreads()

"""Threads that take turns on one OS thread, in virtual time; a seed decides the order.

A scheduler replaces the operating system's threads in `client.connect.environment`. A thread runs
until it waits, or reaches a switch point, at which another thread could run. Switch points are
where it acquires or releases a lock, wakes a thread, starts one, sleeps, or calls Kafka. The seed
decides which thread runs next, so the same seed repeats a run. If no thread can run, time jumps to
the next timeout. Each switch point also takes a little time.
"""

from __future__ import annotations

import heapq
import math
import queue
import random
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any, Final, Self

from attrs import define, field

from kafka_marshal.client.connect.threads import Thread
from kafka_marshal.testing.in_memory.clock import Clock
from kafka_marshal.testing.in_memory.contexts import (
    BatonThreads,
    Context,
    Contexts,
    Greenlets,
    Killed,
)
from kafka_marshal.testing.in_memory.interruptions import Interruptions

STEP_S: Final = 0.000_02
"""The time that a switch point takes, in seconds."""
SWITCHES: Final = 0.2
"""The probability of switching at a point where the current thread could continue."""


class Deadlock(AssertionError):
    """Every thread waits, and none of them has a timeout."""


@define(eq=False)
class ScheduledThread:
    """A thread that a scheduler runs."""

    name: str
    process: str
    """The process of the thread; processes are killed and stopped as a whole."""
    _scheduler: Scheduler = field(repr=False)
    context: Context = field(repr=False)
    waits: bool = False
    """Whether it waits to be woken, or for a timeout."""
    woken: bool = False
    turn: int = 0
    """The number of its waits so far: a timeout of an earlier wait is void."""
    stands: bool = False
    """Whether it is stopped, as by SIGSTOP."""
    stands_after: int = 0
    """The number of switch points until it stops; 0: it does not."""
    killed: bool = False
    around_waits: tuple[Callable[[], None], Callable[[], None]] | None = field(
        default=None, repr=False
    )
    """Called when another thread runs instead, and when this one continues."""
    _joining: list[ScheduledThread] = field(factory=list, repr=False)
    alive: bool = True

    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return self.alive

    def join(self, timeout: float | None = None) -> None:
        """Wait until it has ended, or for `timeout` seconds."""
        self._scheduler.wait_in(self._joining, lambda: not self.alive, timeout)

    def ended(self) -> None:
        """Wake the threads that wait for its end."""
        self.alive = False
        self._scheduler.wake_all(self._joining)


class Scheduler:
    """Makes threads, locks and other synchronization objects; see `Environment.threads`."""

    def __init__(
        self,
        seed: int,
        switches: float = SWITCHES,
        interruptions: Interruptions | None = None,
    ) -> None:
        """The calling thread becomes the first one.

        With `interruptions`, each other thread is an OS thread that may be interrupted between two
        bytecodes; `close` ends them.

        Raises:
            ImportError: the extra `simulation` is not installed.
        """
        self.chance = random.Random(seed)  # noqa: S311  # to be repeated, and not to be secret
        self.clock = Clock(stands=True)
        """The only clock of the run."""
        self._switches = switches
        self._per_log = 0.0 if not 0 < switches < 1 else 1 / math.log(1.0 - switches)
        self._points = self._points_left()
        """The number of points until the next switch."""
        self.switched = 0
        """The number of switches."""
        self.interrupts = True
        """Whether threads may be interrupted between two bytecodes from now on."""
        self.interrupted = 0
        """The number of interruptions between two bytecodes."""
        self._contexts: Contexts = (
            Greenlets()
            if interruptions is None
            else BatonThreads(interruptions.trace(self.chance, self._interrupt))
        )
        self.current = ScheduledThread("main", "main", self, self._contexts.current())
        """The running thread."""
        self.threads: list[ScheduledThread] = [self.current]
        """All threads that have not ended."""
        self._ready: list[ScheduledThread] = []
        self._timers: list[tuple[float, int, ScheduledThread, int]] = []
        """Timeouts, as the seconds by which the clock is ahead: it is stopped, so that is its
        time."""
        self._timer_numbers = count()

    # --- who goes on ------------------------------------------------------------------------------

    def point(self) -> None:
        """A switch point: another thread may run."""
        me = self.current
        if me.killed:
            raise Killed
        self.clock.ahead_s += STEP_S
        if me.stands_after:
            self._stand_here(me)
        self._points -= 1
        if self._points <= 0:
            self._points = self._points_left()
            self._switch()

    def _points_left(self) -> int:
        """The number of points until the next switch, each of which switches with one probability.

        Choosing this number is cheaper than a choice at each point.
        """
        if not self._per_log:
            return 1 if self._switches > 0 else 2**62
        return 1 + int(math.log(1.0 - self.chance.random()) * self._per_log)

    def _switch(self) -> None:
        """Let another thread run, if one can."""
        timers = self._timers
        if self._ready or (timers and timers[0][0] <= self.clock.ahead_s):
            self._ready.append(self.current)
            self._go_on()

    def _stand_here(self, me: ScheduledThread) -> None:
        """Stop the thread here, if it has reached its point."""
        me.stands_after -= 1
        if not me.stands_after:
            me.stands = True
            self._ready.append(me)
            self._go_on()

    def _interrupt(self, seconds: float | None) -> None:
        """Let others run between two bytecodes; a thread that stalls does so for this long."""
        if not self.interrupts:
            return
        self.interrupted += 1
        if seconds is None:
            self._points = 1
            self.point()
        else:
            self.wait(seconds)

    def wait(self, seconds: float | None = None) -> bool:
        """Let others run until this thread is woken; False after a time-out."""
        me = self.current
        if me.killed:
            raise Killed
        me.waits, me.woken = True, False
        me.turn += 1
        if seconds is not None:
            at_s = self.clock.ahead_s + max(0.0, seconds)
            heapq.heappush(self._timers, (at_s, next(self._timer_numbers), me, me.turn))
        self._go_on()
        return me.woken

    def wait_in(
        self, line: list[ScheduledThread], true: Callable[[], object], seconds: float | None
    ) -> bool:
        """Wait in this queue until the predicate is true; False after a time-out."""
        clock = self.clock
        until_s = None if seconds is None else clock.ahead_s + seconds
        self.point()
        while not true():
            left = None if until_s is None else until_s - clock.ahead_s
            if left is not None and left <= 0:
                return False
            self.wait_once_in(line, left)
        return True

    def wait_once_in(self, line: list[ScheduledThread], seconds: float | None) -> bool:
        """Wait in this queue until this thread is woken once; False after a time-out."""
        line.append(self.current)
        woken = self.wait(seconds)
        if not woken and self.current in line:
            line.remove(self.current)
        return woken

    def wake(self, line: list[ScheduledThread], at: int = 0) -> None:
        """Wake one thread of a queue."""
        if line:
            thread = line.pop(at)
            if thread.waits:
                thread.waits, thread.woken = False, True
                self._ready.append(thread)

    def wake_all(self, line: list[ScheduledThread]) -> None:
        """Wake all threads of a queue."""
        while line:
            self.wake(line)

    def _go_on(self) -> None:
        """Let another thread run, or this one; returns when this one runs again."""
        me = self.current
        chosen = self._chosen()
        if chosen is not me:
            self.switched += 1
            self.current = chosen
            around = me.around_waits
            if around is not None:
                around[0]()
            try:
                me.context.switch_to(chosen.context)
            finally:
                self.current = me
                if around is not None:
                    around[1]()

    def _chosen(self) -> ScheduledThread:
        standing, ready, chance = [], self._ready, self.chance.random
        timers, clock = self._timers, self.clock
        try:
            while True:
                if timers and timers[0][0] <= clock.ahead_s:
                    self._ring(clock.ahead_s)
                while ready:
                    at = int(chance() * len(ready))
                    thread, ready[at] = ready[at], ready[-1]
                    ready.pop()
                    if thread.killed:
                        continue
                    if not thread.stands:
                        return thread
                    standing.append(thread)
                if not timers:
                    raise Deadlock("; ".join(map(repr, self.threads)))
                clock.ahead_s = max(clock.ahead_s, timers[0][0])
        finally:
            self._ready += standing

    def _ring(self, now_s: float) -> None:
        """Wake the threads whose timeout is over."""
        while self._timers and self._timers[0][0] <= now_s:
            _, _, thread, turn = heapq.heappop(self._timers)
            if thread.waits and thread.turn == turn:
                thread.waits = False
                self._ready.append(thread)

    def begin(self, process: str, run: Callable[[], object]) -> ScheduledThread:
        """Start a process; the threads that it starts belong to it."""
        return self.start(run, process, process)

    def stop(self, process: str, *, stands: bool = True) -> None:
        """Stop a process, as SIGSTOP does, or let it continue."""
        for thread in self.threads:
            if thread.process == process:
                thread.stands = stands

    def kill(self, process: str) -> None:
        """End a process, as `kill -9` does. The calling thread must not belong to it."""
        self._kill([thread for thread in self.threads if thread.process == process])

    def close(self) -> None:
        """End the run: kill every thread but the calling one."""
        self._kill([thread for thread in self.threads if thread is not self.current])
        self._contexts.close()

    def _kill(self, threads: list[ScheduledThread]) -> None:
        for thread in threads:
            thread.killed = True
        for thread in threads:
            self._end(thread)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _end(self, thread: ScheduledThread) -> None:
        if thread in self._ready:
            self._ready.remove(thread)
        if not thread.context.begun:
            self.threads.remove(thread)
            thread.ended()
            return
        me, self.current = self.current, thread
        try:
            thread.context.kill(me.context)
        finally:
            self.current = me

    # --- what the standard library has ------------------------------------------------------------

    def start(
        self, run: Callable[[], object], name: str, process: str | None = None
    ) -> ScheduledThread:
        """Start a thread with a name, in the process of the calling thread."""

        def body() -> None:
            try:
                run()
            except Killed:
                pass
            finally:
                self.threads.remove(thread)
                thread.ended()
            if not thread.killed:
                self.current = self._chosen()
                thread.context.end_with(self.current.context)

        of = self.current.process if process is None else process
        thread = ScheduledThread(name, of, self, self._contexts.new(body))
        self.threads.append(thread)
        self._ready.append(thread)
        self.point()
        return thread

    def is_current(self, thread: Thread | None) -> bool:
        """Whether this is the calling thread."""
        return thread is self.current

    @property
    def current_name(self) -> str:
        """The name of the calling thread."""
        return self.current.name

    def sleep(self, seconds: float) -> None:
        """Let others run for this many seconds."""
        self.wait(seconds)

    def lock(self) -> ScheduledLock:
        """A lock that is free."""
        return ScheduledLock(self)

    def rlock(self) -> ScheduledLock:
        """A lock that its holder may acquire again."""
        return ScheduledLock(self, again=True)

    def condition(self, lock: ScheduledLock) -> ScheduledCondition:
        """A condition over a lock."""
        return ScheduledCondition(self, lock)

    def event(self) -> ScheduledEvent:
        """An event that is not set."""
        return ScheduledEvent(self)

    def semaphore(self, value: int) -> ScheduledSemaphore:
        """A semaphore that can be acquired this many times."""
        return ScheduledSemaphore(self, value)

    def queue(self) -> ScheduledQueue:
        """An empty queue."""
        return ScheduledQueue(self)


@define(eq=False)
class ScheduledLock:
    """A `threading.Lock` or `threading.RLock`."""

    _scheduler: Scheduler
    _again: bool = False
    holder: ScheduledThread | None = None
    count: int = 0
    _line: list[ScheduledThread] = field(factory=list)

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquire the lock; returns whether the calling thread holds it now."""
        scheduler = self._scheduler
        if self._again and self.holder is scheduler.current:
            self.count += 1
            return True
        if blocking and timeout < 0:  # as `wait_in` does it; it is what happens most often
            scheduler.point()
            while self.holder is not None:
                scheduler.wait_once_in(self._line, None)
        elif not scheduler.wait_in(
            self._line, lambda: self.holder is None, timeout if blocking else 0.0
        ):
            return False
        self.holder, self.count = scheduler.current, 1
        return True

    def release(self) -> None:
        """Release the lock, and let another thread acquire it.

        Raises:
            RuntimeError: it is as `threading.RLock`, and another thread holds it, or none.
        """
        current = self._scheduler.current
        if self._again and self.holder is not current:
            if current.killed:  # while it waited for a condition
                return
            raise RuntimeError("cannot release un-acquired lock")
        self.count -= 1
        if self.count == 0:
            self.holder = None
            if self._line:
                at = int(self._scheduler.chance.random() * len(self._line))
                self._scheduler.wake(self._line, at)
            self._scheduler.point()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *raised: object) -> None:
        self.release()


@define(eq=False)
class ScheduledMonitor:
    """A condition whose lock is always free: no other thread runs within it."""

    _scheduler: Scheduler
    _line: list[ScheduledThread] = field(factory=list)

    def __enter__(self) -> None:
        self._scheduler.point()

    def __exit__(self, *raised: object) -> None:
        pass

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for `notify_all`; False after a time-out."""
        return self._scheduler.wait_once_in(self._line, timeout)

    def notify_all(self) -> None:
        """Wake all waiting threads."""
        self._scheduler.wake_all(self._line)


@define(eq=False)
class ScheduledCondition:
    """A `threading.Condition`."""

    _scheduler: Scheduler
    _lock: ScheduledLock
    _line: list[ScheduledThread] = field(factory=list)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for `notify`, without the lock; False after a time-out."""
        scheduler, lock = self._scheduler, self._lock
        me, count = scheduler.current, lock.count
        self._line.append(me)
        lock.count = 1
        lock.release()
        woken = me not in self._line  # while it gave the lock back
        if not woken:
            woken = scheduler.wait(timeout)
        if me in self._line:
            self._line.remove(me)
        lock.acquire()
        lock.count = count
        return woken

    def notify(self, n: int = 1) -> None:
        """Wake up to `n` waiting threads, the first one first."""
        for _ in range(min(n, len(self._line))):
            self._scheduler.wake(self._line)

    def notify_all(self) -> None:
        """Wake all waiting threads."""
        self._scheduler.wake_all(self._line)


@define(eq=False)
class ScheduledEvent:
    """A `threading.Event`."""

    _scheduler: Scheduler
    _set: bool = False
    _line: list[ScheduledThread] = field(factory=list)

    def set(self) -> None:
        """Wake all waiting threads, and all later ones at once."""
        self._set = True
        self._scheduler.wake_all(self._line)
        self._scheduler.point()

    def is_set(self) -> bool:
        """Whether it was set."""
        return self._set

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set; False after a time-out."""
        return self._scheduler.wait_in(self._line, lambda: self._set, timeout)


@define(eq=False)
class ScheduledSemaphore:
    """A `threading.Semaphore`."""

    _scheduler: Scheduler
    _value: int
    _line: list[ScheduledThread] = field(factory=list)

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Acquire it; returns whether that succeeded."""
        seconds = timeout if blocking else 0.0
        if not self._scheduler.wait_in(self._line, lambda: self._value > 0, seconds):
            return False
        self._value -= 1
        return True

    def release(self) -> None:
        """Release it."""
        self._value += 1
        self._scheduler.wake(self._line)
        self._scheduler.point()


@define(eq=False)
class ScheduledQueue:
    """A `queue.SimpleQueue`."""

    _scheduler: Scheduler
    _items: deque[Any] = field(factory=deque)
    _line: list[ScheduledThread] = field(factory=list)

    def put(self, item: Any) -> None:
        """Append an item."""
        self._items.append(item)
        self._scheduler.wake(self._line)
        self._scheduler.point()

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Take the oldest item; raises `queue.Empty` after a time-out."""
        if not block:
            self._scheduler.point()
        elif not self._scheduler.wait_in(self._line, self._items.__len__, timeout):
            raise queue.Empty
        if not self._items:
            raise queue.Empty
        return self._items.popleft()

    def get_nowait(self) -> Any:
        """Take the oldest item; raises `queue.Empty` if there is none."""
        return self.get(block=False)

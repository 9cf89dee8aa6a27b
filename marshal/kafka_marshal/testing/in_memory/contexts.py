"""The contexts of scheduled threads: greenlets of one thread, or OS threads that pass a baton.

Only one context runs at a time. It runs until it switches to another one, and continues when
another one switches back. Greenlets switch in half a microsecond. An OS thread takes some
microseconds, but Python can trace it, so it can be interrupted between two bytecodes. This module
does not decide which context runs next.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Protocol, Self

from attrs import define, field

Trace = Callable[[FrameType, str, Any], Any]
"""An argument of `sys.settrace`."""


class Killed(BaseException):
    """The calling thread was killed, and must not continue."""


class Context(Protocol):
    """The execution context of one scheduled thread. Only the running context may switch."""

    @property
    def begun(self) -> bool:
        """Whether it has started."""

    def switch_to(self, other: Self, /) -> None:
        """Run the other context, until one switches back to this one.

        Raises:
            Killed: it was killed in the meantime.
        """

    def end_with(self, successor: Self, /) -> None:
        """Set the context that runs when this one has ended."""

    def kill(self, killer: Self, /) -> None:
        """Raise `Killed` in this started context; the killer continues when it has ended."""


class Contexts(Protocol):
    """Makes contexts of one kind."""

    def current(self) -> Any:
        """The context of the calling thread, which is the first one."""

    def new(self, body: Callable[[], None]) -> Any:
        """A context that has not started; its exception is raised in the first context."""

    def close(self) -> None:
        """Release resources; all contexts but the first one must have ended."""


class Greenlets:
    """Contexts that are greenlets."""

    def __init__(self) -> None:
        """Load the `greenlet` library.

        Raises:
            ImportError: the extra `simulation` is not installed.
        """
        import greenlet  # only who simulates needs it

        self._greenlet: Any = greenlet.greenlet
        self._first: Any = greenlet.getcurrent()

    def current(self) -> GreenletContext:
        """The context of the calling thread, which is the first one."""
        return GreenletContext(self._first)

    def new(self, body: Callable[[], None]) -> GreenletContext:
        """A context that has not started; its exception is raised in the first context."""
        return GreenletContext(self._greenlet(lambda *_: body(), self._first))

    def close(self) -> None:
        """Does nothing; all contexts but the first one must have ended."""


@define(eq=False)
class GreenletContext:
    """A greenlet."""

    _greenlet: Any

    @property
    def begun(self) -> bool:
        """Whether it has started."""
        return bool(self._greenlet)

    def switch_to(self, other: GreenletContext) -> None:
        """Run the other context, until one switches back to this one."""
        other._greenlet.switch()  # where this one is killed meanwhile, it raises `Killed`

    def end_with(self, successor: GreenletContext) -> None:
        """Set the context that runs when this one has ended."""
        self._greenlet.parent = successor._greenlet

    def kill(self, killer: GreenletContext) -> None:
        """Raise `Killed` in this context; the killer continues when it has ended."""
        self._greenlet.parent = killer._greenlet
        self._greenlet.throw(Killed)


class BatonThreads:
    """Contexts that are OS threads, of which one at a time has the baton."""

    def __init__(self, trace: Trace | None) -> None:
        """Trace every thread but the first one by `trace`.

        Garbage is not collected before `close`, since that could run a thread's code at any time.
        """
        self._collects = gc.isenabled()
        gc.disable()
        self._trace = trace
        self._first = BatonThread(None, None)
        self._made: list[BatonThread] = []

    def current(self) -> BatonThread:
        """The context of the calling thread, which is the first one."""
        return self._first

    def new(self, body: Callable[[], None]) -> BatonThread:
        """A context that has not started; its exception is raised in the first context."""
        made = BatonThread(self._first, body, self._trace)
        self._made.append(made)
        return made

    def close(self) -> None:
        """Collect garbage again; all contexts but the first one must have ended."""
        while self._made:
            self._made.pop().join()
        if self._collects:
            gc.enable()


def _with_the_baton() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


@define(eq=False)
class BatonThread:
    """An OS thread that runs while it has the baton."""

    _first: BatonThread | None
    _body: Callable[[], None] | None
    _trace: Trace | None = None
    _turn: Any = field(factory=_with_the_baton)
    """Released by the context that passes the baton to this one."""
    _thread: threading.Thread | None = None
    _successor: BatonThread | None = None
    _raises: BaseException | None = None
    """The exception to raise when it receives the baton."""

    @property
    def begun(self) -> bool:
        """Whether it has started."""
        return self._thread is not None or self._body is None

    def switch_to(self, other: BatonThread) -> None:
        """Run the other context, until one switches back to this one."""
        other._take_the_baton()
        self._turn.acquire()
        if self._raises is not None:
            error, self._raises = self._raises, None
            raise error

    def end_with(self, successor: BatonThread) -> None:
        """Set the context that runs when this one has ended."""
        self._successor = successor

    def kill(self, killer: BatonThread) -> None:
        """Raise `Killed` in this context; the killer continues when it has ended."""
        self._successor, self._raises = killer, Killed()
        killer.switch_to(self)
        self.join()

    def join(self) -> None:
        """Wait until the thread has ended; it must be about to end."""
        if self._thread is not None:
            self._thread.join()

    def _take_the_baton(self) -> None:
        if self.begun:
            self._turn.release()
        else:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()

    def _run(self) -> None:
        assert self._body is not None
        assert self._first is not None
        try:
            sys.settrace(self._trace)
            self._body()
        except BaseException as error:
            self._first._raises = error
            self._successor = self._first
        finally:
            sys.settrace(None)
        assert self._successor is not None, "its body decides who runs after it"
        self._successor._take_the_baton()

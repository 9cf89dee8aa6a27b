"""What a signal's handler raises within a call of an application, which goes on all the same.

That is Ctrl-C in a notebook, or a limit of time by `SIGALRM`. Python 3.11 runs such a handler at
these places only: where a function begins, where a loop goes back, and after a call of what is
written in C. Here one of them is chosen, in the code of the client and in the application's thread.
The scheduler and the Kafka in memory stand for what is written in C. The application's observers
and callbacks run in threads of their own, so no signal comes to them.
"""

from __future__ import annotations

import dis
import enum
import inspect
import opcode
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, TypeVar

from attrs import define

import kafka_marshal
from kafka_marshal import Consumer, testing
from kafka_marshal.client.message import Batch, Message, Messages
from kafka_marshal.testing.in_memory import Scheduler

T = TypeVar("T")
_CLIENT: Final = str(Path(kafka_marshal.__file__).parent)
_IN_C: Final = str(Path(testing.__file__).parent)
"""Stands for what is written in C."""
_CALLS: Final = frozenset({opcode.opmap["CALL"], opcode.opmap["CALL_FUNCTION_EX"]})
_BACK: Final = opcode.opmap["JUMP_BACKWARD"]
_RESUME: Final = opcode.opmap["RESUME"]
_YIELDS_FROM: Final = 2
"""The argument of RESUME where a generator goes on with what it yields from, or awaits."""


class Interrupted(BaseException):
    """What the handler raises."""


def traced(comes: Callable[[FrameType], None]) -> Callable[[FrameType, str, Any], Any]:
    """A function for `sys.settrace`, that calls `comes` at each place of the client.

    It may raise what the handler raises there.
    """

    def begins(frame: FrameType, _: str, __: Any) -> Any:
        caller = frame.f_back
        if caller is not None and caller.f_trace and _is_client(caller.f_code.co_filename):
            caller.f_trace(caller, _CALLED, frame.f_code)
        if not _is_client(frame.f_code.co_filename):
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        code, before, by_python = frame.f_code, frame.f_lasti, False

        def step(frame: FrameType, event: str, arg: Any) -> Any:
            nonlocal before, by_python
            if event == _CALLED:
                by_python = _is_called_by_python(arg)
            elif event == "opcode":
                was, before = before, frame.f_lasti
                place = _place(code, was, before)
                if place is _Place.CALL:
                    place, by_python = None if by_python else place, False
                if place is not None:
                    comes(frame)
            return step

        return step

    return begins


@contextmanager
def interrupted_at(
    place: int, counts: Callable[[FrameType], bool] = lambda _: True
) -> Iterator[None]:
    """Raise `Interrupted` at this place of the client in this thread, among those that count."""
    left = place

    def comes(frame: FrameType) -> None:
        nonlocal left
        left -= counts(frame)
        if not left:
            sys.settrace(None)
            raise Interrupted

    sys.settrace(traced(comes))
    try:
        yield
    finally:
        sys.settrace(None)


_CALLED: Final = "called"
"""The event of a frame in which another one begins."""


@cache
def _is_client(file: str) -> bool:
    return file.startswith(_CLIENT) and not file.startswith(_IN_C)


class _Place(enum.Enum):
    BEGINS = enum.auto()
    CALL = enum.auto()
    BACK = enum.auto()


@cache
def _place(code: CodeType, before: int, at: int) -> _Place | None:
    """What a handler runs after, between these two instructions; None: it does not run there."""
    text = code.co_code
    # It raises within what Python has finished, and here in what comes next.
    if _caught(code, at) != _caught(code, at - 2):
        return None
    if text[before] == _RESUME and text[before + 1] < _YIELDS_FROM:
        return _Place.BEGINS
    if text[before] in _CALLS:
        return _Place.CALL
    return _Place.BACK if text[before] == _BACK else None


def _caught(code: CodeType, at: int) -> int | None:
    """Where the code goes on after an exception of this instruction."""
    found = dis._parse_exception_table(code)  # type: ignore[attr-defined]
    return next((one.target for one in found if one.start <= at < one.end), None)


def _is_called_by_python(code: CodeType) -> bool:
    """Whether Python called it without C in between, so that no handler runs when it returns."""
    if code.co_filename.startswith(_IN_C) or code.co_name in ("__init__", "<lambda>"):
        return False
    return not code.co_flags & inspect.CO_GENERATOR


@define(eq=False)
class Signals:
    """The signals of one process, and the places that its application's thread comes to."""

    scheduler: Scheduler
    left: int = 0
    """How many places further a handler raises; 0: it does not."""
    survived: Callable[[], None] = lambda: None
    """Called when one has raised."""
    _within: bool = False

    @contextmanager
    def may_come(self) -> Iterator[None]:
        """A call of the application is under way within this.

        Raises:
            Interrupted: a signal came.
        """
        if not self.left or self._within:
            yield
            return
        thread, before, trace = self.scheduler.current, sys.gettrace(), traced(self._comes)
        self._within = True
        thread.around_waits = (lambda: sys.settrace(before)), (lambda: sys.settrace(trace))
        sys.settrace(trace)
        try:
            yield
        finally:
            sys.settrace(before)
            thread.around_waits = None
            self._within = False

    def _comes(self, _: FrameType) -> None:
        if not self.left or self.scheduler.current.killed:
            return
        self.left -= 1
        if not self.left:
            self.survived()
            raise Interrupted


class InterruptedConsumer(Consumer):
    """A consumer whose application survives what a signal's handler raises in its calls.

    A call that was interrupted has returned nothing.
    """

    def __init__(self, signals: Signals, **options: Any) -> None:
        """Connect."""
        super().__init__(**options)
        self._signals = signals

    def poll(self, timeout_s: float = 1.0) -> Message | None:
        """As it is; None if it was interrupted."""
        try:
            with self._signals.may_come():
                return super().poll(timeout_s)
        except Interrupted:
            return None

    def consume(self, num_messages: int = 1000, timeout_s: float = 1.0) -> Messages:
        """As it is; an empty list if it was interrupted."""
        try:
            with self._signals.may_come():
                return super().consume(num_messages, timeout_s)
        except Interrupted:
            return Messages((), None)

    def batches(self, timeout_s: float | None = None) -> Iterator[Batch]:
        """As it is; a loop that was interrupted begins again."""
        return self._again(lambda: super(InterruptedConsumer, self).batches(timeout_s))

    def __iter__(self) -> Iterator[Message]:
        return self._again(lambda: super(InterruptedConsumer, self).__iter__())

    def _again(self, loop: Callable[[], Iterator[T]]) -> Iterator[T]:
        while True:
            messages = loop()
            try:
                while True:
                    with self._signals.may_come():
                        one = next(messages, None)
                    if one is None:
                        return
                    yield one
            except Interrupted:
                continue

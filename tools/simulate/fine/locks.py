"""The locks of the client that ships, and threads that leave one of them out.

A site is the line that makes a lock, a condition or a semaphore. Where it is left out, everything
that is made there does nothing: nobody waits for it, and nobody is excluded by it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, Final

from attrs import define, field, frozen

from kafka_marshal.testing.in_memory import Scheduler
from kafka_marshal.testing.in_memory.scheduler import (
    ScheduledCondition,
    ScheduledLock,
    ScheduledSemaphore,
)

CLIENT: Final = Path(__file__).parents[3] / "marshal" / "kafka_marshal" / "client"
_MAKES: Final = re.compile(
    r"(?:threads|self|threading)\._?(?:new_)?(lock|rlock|condition|semaphore)\(", re.IGNORECASE
)


MAKERS: Final = ("connect/threads",)
"""Modules that make what others ask for."""


@frozen(order=True)
class Site:
    """A line of the client that makes what threads wait for."""

    module: str
    line: int
    kind: str = field(eq=False)
    text: str = field(eq=False)

    def __str__(self) -> str:
        return f"{self.module}:{self.line}"


def sites() -> list[Site]:
    """Every line of the client that makes a lock, a condition or a semaphore."""
    found = []
    for path in sorted(CLIENT.rglob("*.py")):
        module = path.relative_to(CLIENT).with_suffix("").as_posix()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if (made := _MAKES.search(line)) and module not in MAKERS:
                found.append(Site(module, number, made[1].lower(), line.strip()))
    return found


class LeavesOut:
    """The threads of a scheduler, without what one site makes."""

    def __init__(self, scheduler: Scheduler, site: Site | None) -> None:
        self._scheduler, self._site = scheduler, site

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scheduler, name)

    def lock(self) -> ScheduledLock:
        """A lock, unless it is left out."""
        return NoLock(self._scheduler) if self._is_left_out() else self._scheduler.lock()

    def rlock(self) -> ScheduledLock:
        """A lock that its holder may acquire again, unless it is left out."""
        return NoLock(self._scheduler) if self._is_left_out() else self._scheduler.rlock()

    def condition(self, lock: ScheduledLock) -> ScheduledCondition:
        """A condition; where it is left out nobody is notified."""
        made = NeverNotified if self._is_left_out() else ScheduledCondition
        return made(self._scheduler, lock)

    def semaphore(self, value: int) -> ScheduledSemaphore:
        """A semaphore; where it is left out it may be acquired for ever."""
        return ScheduledSemaphore(self._scheduler, 2**60 if self._is_left_out() else value)

    def _is_left_out(self) -> bool:
        if self._site is None:
            return False
        frame = sys._getframe(2)
        here = frame.f_lineno, Path(frame.f_code.co_filename)
        return here == (self._site.line, CLIENT / f"{self._site.module}.py")


@define(eq=False)
class NoLock(ScheduledLock):
    """A lock that keeps nobody out."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """True at once."""
        return True

    def release(self) -> None:
        """Nothing."""


@define(eq=False)
class NeverNotified(ScheduledCondition):
    """A condition whose waits end by their timeouts alone."""

    def notify(self, n: int = 1) -> None:
        """Nothing."""

    def notify_all(self) -> None:
        """Nothing."""

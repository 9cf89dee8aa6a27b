"""Observers of a simulated world: one that notes, one that raises, one that takes long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafka_marshal import Lost, Observer
from kafka_marshal.client.message import Claim
from kafka_marshal.client.observe.health import Wedged
from kafka_marshal.client.observe.observers import Takeover

if TYPE_CHECKING:
    from tools.simulate.process import Process

RAISES: Final = 0.2
"""How often a process has an observer that raises, and one that takes long."""
SLOW_S: Final = (0.01, 0.2, 1.0)


class NotingObserver(Observer):
    """Notes what becomes of claims, for a checker."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def _note(self, kind: str, claim: Claim, reason: Lost | None = None) -> None:
        process = self._process
        process.world.history.observed.append(process.noted(kind, claim, reason))

    def claimed(self, claim: Claim) -> None:
        """As `Observer` has it, and so are the following."""
        self._note("claimed", claim)

    def lost(self, claim: Claim, reason: Lost) -> None:
        """As `Observer` has it."""
        self._note("lost", claim, reason)

    def fenced(self, claim: Claim, reason: Lost, seen: Takeover) -> None:
        """As `Observer` has it."""
        self._note("fenced", claim, reason)

    def drained(self, claim: Claim) -> None:
        """As `Observer` has it."""
        self._note("drained", claim)

    def left(self, claim: Claim) -> None:
        """As `Observer` has it."""
        self._note("left", claim)

    def wedged(self, claim: Claim, wedged: Wedged) -> None:
        """As `Observer` has it."""
        self._process.called_wedged(claim)


class RaisingObserver(Observer):
    """Fails at whatever it hears of a claim."""

    def claimed(self, claim: Claim) -> None:
        """As `Observer` has it, and so are the following."""
        raise ValueError("an observer of a simulated world")

    def lost(self, claim: Claim, reason: Lost) -> None:
        """As `Observer` has it."""
        raise ValueError("an observer of a simulated world")

    def drained(self, claim: Claim) -> None:
        """As `Observer` has it."""
        raise ValueError("an observer of a simulated world")

    def done(self, claim: Claim, position: int, offsets: int) -> None:
        """As `Observer` has it."""
        raise ValueError("an observer of a simulated world")


class SlowObserver(Observer):
    """Takes longer than it should."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def _sleep(self) -> None:
        scheduler = self._process.scheduler
        scheduler.sleep(scheduler.chance.choice(SLOW_S))

    def claimed(self, claim: Claim) -> None:
        """As `Observer` has it, and so are the following."""
        self._sleep()

    def lost(self, claim: Claim, reason: Lost) -> None:
        """As `Observer` has it."""
        self._sleep()

    def handed_over(self, claim: Claim, messages: int) -> None:
        """As `Observer` has it."""
        if self._process.scheduler.chance.random() < 0.05:
            self._sleep()


def listeners(process: Process) -> list[Observer]:
    """The observers of a process."""
    chance = process.scheduler.chance
    found: list[Observer] = [NotingObserver(process)]
    if chance.random() < RAISES:
        found.append(RaisingObserver())
    if chance.random() < RAISES:
        found.append(SlowObserver(process))
    return found

"""Runs on one thread, step by step, what consumers otherwise run in threads of their own.

Which step comes next, and how much time passes with it, is left to chance from a seed. So a seed
repeats a run. A step is what lies between two `yield`s of a thread's body. It is not taken apart,
so this does not show what threads do to each other within one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, Final

from attrs import define

from kafka_marshal.client.connect.environment import Body
from kafka_marshal.testing.in_memory.clock import Clock

STEPS_S: Final = (0.0, 0.0, 0.001, 0.01, 0.05)
"""How much time may pass with a step, in seconds."""


@define(eq=False)
class ScheduledThread:
    """A body that a scheduler goes through."""

    name: str
    _steps: Iterator[None] | None
    _scheduler: Scheduler
    stands: bool = False
    """It takes no step for now, as after SIGSTOP."""

    def is_alive(self) -> bool:
        """Whether there is a step left."""
        return self._steps is not None

    def join(self, timeout: float | None = None) -> None:
        """Let time pass until it has ended, or for `timeout` seconds."""
        self._scheduler.block(
            lambda _: not self.is_alive(), float("inf") if timeout is None else timeout
        )

    def step(self) -> None:
        """Take the next step, if there is one."""
        if self._steps is not None and next(self._steps, self) is self:
            self._steps = None

    def kill(self) -> None:
        """It takes no further step, as after `kill -9`."""
        self._steps = None


class Scheduler:
    """Takes one step at a time. The thread that made it calls, and no other."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)  # noqa: S311  # to be repeated, and not to be secret
        self.clock = Clock(stands=True)
        """The only clock of the run."""
        self.threads: list[ScheduledThread] = []
        """What runs; the owner of a process that is to die kills those of it."""
        self._within = False

    @property
    def for_environment(self) -> dict[str, Any]:
        """What takes the place of waiting, and of chance."""
        return {
            "block": self.block,
            "switch": self.switch,
            "sleep": self.sleep,
            "random_bits": self.chance.getrandbits,
        }

    def start(self, body: Body, name: str) -> ScheduledThread:
        """Its steps come among those of the others."""
        thread = ScheduledThread(name, body(), self)
        self.threads.append(thread)
        return thread

    def step(self) -> None:
        """Somebody takes a step, and time passes."""
        self.threads = [one for one in self.threads if one.is_alive()]
        if ready := [one for one in self.threads if not one.stands]:
            self._within = True
            try:
                self.chance.choice(ready).step()
            finally:
                self._within = False
        self.clock.advance(self.chance.choice(STEPS_S))

    def run(self, seconds: float) -> None:
        """Let so much time pass."""
        until_s = self.clock.monotonic() + seconds
        while self.clock.monotonic() < until_s:
            self.step()

    def sleep(self, seconds: float) -> None:
        """Let others go on meanwhile; within a step only time passes."""
        if self._within:
            self.clock.advance(seconds)
        else:
            self.run(seconds)

    def switch(self) -> None:
        """Let somebody else take a step, where it is not one that asks."""
        if not self._within:
            self.step()

    def block(self, wait: Callable[[float], Any], seconds: float) -> Any:
        """Let others go on until it returns something true, or until so much time has passed.

        Within a step nothing is waited for: it finds nothing, and the next step looks again.
        """
        until_s = self.clock.monotonic() + seconds
        while True:
            found = wait(0.0)
            if found or self._within or self.clock.monotonic() >= until_s:
                return found
            self.step()

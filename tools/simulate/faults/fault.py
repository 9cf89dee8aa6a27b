"""What a fault is, and what they choose by."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from tools.simulate.process import Process
    from tools.simulate.setting import Setting
    from tools.simulate.world import World


@frozen
class Happening:
    """A fault that a run has planned."""

    at_s: float
    """Since the run began."""
    fault: str
    seed: int
    """What it chooses by."""


@frozen
class Fault:
    """What may happen, and how often beside the others."""

    happens: Callable[[World, Random], str]
    weight: float = 1.0
    where: Callable[[Setting], bool] = lambda _: True
    """In which worlds."""
    ends: tuple[str, ...] = ()
    """Errors that a process may end with, since this happened: their classes, and what follows."""


def one_of(world: World, chance: Random) -> Process | None:
    """Any process that runs; None: there is none."""
    running = sorted(world.processes)
    return world.processes[chance.choice(running)] if running else None


def intervals(world: World, chance: Random, *parts: float) -> float:
    """One of these, times the heartbeat interval, in seconds."""
    return world.setting.heartbeat_interval_s * chance.choice(parts)

"""What a hand-made mutant is: a named mistake, where it is made, and who must notice.

Plain data. This room makes the mistake and undoes it; it does not know how a killer works. A new
killer (walks, the validator of traces) takes the mutants that name it: `having(Killer.WALK)`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType

import attrs

from kafka_marshal.core.claims.invariants import Property


class Killer(enum.Enum):
    """Who notices a mutant."""

    STEP = "step"
    """A property that one step can break, over the claims and records of TLC (`judges`)."""
    WALK = "walk"
    """A property of whole runs, over walks of machines."""
    VALIDATOR = "validator"
    """The validator of runs, which is right, over a recorded run of a fleet that is not. It gives
    what the guard protects that stands against the first event that no behaviour explains
    (`recorded`)."""


@attrs.frozen
class Kill:
    """A property that a mutant breaks, and who sees that."""

    breaks: Property
    by: Killer


@attrs.frozen
class HandMade:
    """One mistake."""

    name: str
    """As a configuration that must fail would be called."""
    about: str
    """What is wrong, in one sentence."""
    module: ModuleType
    attribute: str
    """The function or constant of the module that is replaced."""
    instead: object
    killed_by: tuple[Kill, ...] = ()
    """Nothing: no property forbids it. It is still not the protocol, and TLC's rows say so."""

    def killers(self, killer: Killer) -> tuple[Property, ...]:
        """The properties by which this killer must notice."""
        return tuple(kill.breaks for kill in self.killed_by if kill.by is killer)

    @contextmanager
    def made(self) -> Iterator[None]:
        """The mistake, for as long as the block lasts."""
        right = getattr(self.module, self.attribute)
        setattr(self.module, self.attribute, self.instead)
        try:
            yield
        finally:
            setattr(self.module, self.attribute, right)


def step(*breaks: Property) -> tuple[Kill, ...]:
    """Each of these properties must notice, at one step."""
    return tuple(Kill(each, Killer.STEP) for each in breaks)


def walk(*breaks: Property) -> tuple[Kill, ...]:
    """Each of these properties must notice, over a walk."""
    return tuple(Kill(each, Killer.WALK) for each in breaks)


def validated(*breaks: Property) -> tuple[Kill, ...]:
    """Each of these properties must notice, in the validator's words, over a recorded run."""
    return tuple(Kill(each, Killer.VALIDATOR) for each in breaks)


def having(killer: Killer, mutants: Sequence[HandMade]) -> list[HandMade]:
    """Those that this killer must notice."""
    return [mutant for mutant in mutants if mutant.killers(killer)]

"""Ranges of messages between symbols: one, and any number of them, as far as they are looked at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attrs import define, frozen

from proof.machine.logic import choose, every, no, some
from proof.symbols import Number


@frozen
class SymbolicRange:
    """As `range`, between symbols."""

    start: Any
    stop: Any

    def __bool__(self) -> bool:
        return bool(self.start < self.stop)

    def has(self, message: Any) -> Any:
        """Whether a message is in it."""
        return every(self.start <= message, message < self.stop)


def a_range(*of: Any) -> Any:
    """As `range`."""
    if any(isinstance(each, Number) for each in of):
        return SymbolicRange(*(of if of[1:] else (0, *of)))
    return range(*of)


@define(eq=False)
class Held:
    """Any number of ranges apart, in order, of which three things are known."""

    filled: Any
    """There is one."""
    stop: Any
    """Where the last one ends."""
    holds: Any
    """One of them has the message that is looked at."""
    message: Any

    def __bool__(self) -> bool:
        return bool(self.filled)

    def __getitem__(self, index: Any) -> Held:
        assert index == -1
        return self

    def __iter__(self) -> Iterator[Held]:
        yield self


@frozen
class Ranges:
    """Any number of ranges, and one more after them."""

    before: Held
    last: SymbolicRange

    def __getitem__(self, index: Any) -> Any:
        return self.last if index == -1 else self.before

    def __iter__(self) -> Iterator[Any]:
        yield from (self.before, self.last)


def united(granted: Held, more: Any) -> Held:
    """What the union of these ranges and one more is, as far as it is looked at."""
    filled = more.start < more.stop
    further = every(filled, some(no(granted.filled), more.stop > granted.stop))
    return Held(
        some(granted.filled, filled),
        choose(further, more.stop, granted.stop),
        some(granted.holds, more.has(granted.message)),
        granted.message,
    )


def holds(granted: Any, message: Any) -> Any:
    """Whether what was granted has this message."""
    return some(
        *(
            each.holds
            if isinstance(each, Held)
            else each.has(message)
            if isinstance(each, SymbolicRange)
            else every(each.start <= message, message < each.stop)
            for each in granted
        )
    )

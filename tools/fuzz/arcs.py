"""Which way the code under test went: arcs between lines, as the interpreter runs them.

`sys.settrace` is the one tracer that every Python from 3.11 has. It costs a line about as much as
the line itself, and only lines of the rooms under test are looked at. This room knows no target.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any, Final, TypeAlias

from attrs import define, field

Arc: TypeAlias = tuple[CodeType, int, int]
"""A code object, the line before (0: it was called) and the line."""

_OF_OUR_OWN: Final = "kafka_marshal"


@define
class Arcs:
    """The arcs of some rooms, gathered while `watched` lasts."""

    rooms: tuple[str, ...]
    """Beginnings of modules' names."""
    now: set[Arc] = field(factory=set)
    """Of the last input."""
    _looked_at: dict[CodeType, bool] = field(factory=dict)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Gather the arcs of one input in `now`."""
        self.now = set()
        before = sys.gettrace()
        sys.settrace(self._called)
        try:
            yield
        finally:
            sys.settrace(before)

    def _called(self, frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        wanted = self._looked_at.get(code)
        if wanted is None:
            module = frame.f_globals.get("__name__", "")
            wanted = self._looked_at[code] = module.startswith(self.rooms)
        if not wanted:
            return None
        found, last = self.now, 0

        def line(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal last
            if event == "line":
                at = frame.f_lineno
                found.add((code, last, at))
                last = at
            return line

        return line

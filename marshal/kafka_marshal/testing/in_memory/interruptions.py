"""Where threads are interrupted between two bytecodes, and for how long.

Python reports each bytecode that a thread executes in the chosen packages. The seed chooses after
how many of them the thread is interrupted. Some interruptions last until the thread is chosen
again. Others stall it, so that the other threads can do everything possible in the meantime. Code
elsewhere is not reported, so it runs without interruption.
"""

from __future__ import annotations

import importlib
import math
import pkgutil
import random
import re
from collections.abc import Callable, Iterable, Sequence
from types import FrameType
from typing import Any, Final

from attrs import field, frozen, validators

from kafka_marshal.core.validators import positive
from kafka_marshal.testing.in_memory.contexts import Trace

ROOMS: Final = (
    "kafka_marshal.client.api",
    "kafka_marshal.client.connect",
    "kafka_marshal.client.coordinate",
    "kafka_marshal.client.fetch",
    "kafka_marshal.client.observe.health",
    "kafka_marshal.client.observe.health_monitor",
    "kafka_marshal.client.observe.logging_observer",
    "kafka_marshal.client.observe.observers",
    "kafka_marshal.client.process",
    "kafka_marshal.client.produce",
)
"""The packages and modules of a consumer whose data threads share.

Metrics are not included: their lock is not the scheduler's, so a thread that waits for it would
block the run."""
_GENERATED: Final = re.compile(r"<attrs generated \w+ ([\w.]+)\.\w+>")
"""The name of a file that attrs generates, with the module of its class."""


@frozen
class Interruptions:
    """How often threads are interrupted between two bytecodes, and where."""

    every: float = field(default=200.0, validator=positive)
    """The mean number of bytecodes between two interruptions."""
    stalls: float = field(default=0.5, validator=[validators.ge(0.0), validators.le(1.0)])
    """The share of interruptions that stall the thread."""
    stall_min_s: float = field(default=0.000_1, validator=positive)
    stall_max_s: float = field(default=0.2, validator=positive)
    """The range of a stall's duration, in seconds; each order of magnitude is equally likely."""
    rooms: Sequence[str] = ROOMS
    """Names of packages and modules: only their code is interrupted."""

    def trace(self, chance: random.Random, interrupt: Callable[[float | None], None]) -> Trace:
        """A function for `sys.settrace`.

        It calls `interrupt` with seconds, or None for no stall.
        """
        _import(self.rooms)
        inside: dict[str, bool] = {}
        longest = math.log(self.stall_max_s / self.stall_min_s)
        gap = -1.0 / self.every
        left = chance.expovariate(-gap)

        def bytecode(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal left
            if event == "opcode":
                left -= 1
                if left <= 0:
                    left = chance.expovariate(-gap)
                    stalls = chance.random() < self.stalls
                    interrupt(
                        self.stall_min_s * math.exp(longest * chance.random()) if stalls else None
                    )
            return bytecode

        def call(frame: FrameType, _: str, __: Any) -> Any:
            name = frame.f_code.co_filename
            found = inside.get(name)
            if found is None:
                found = inside[name] = _within(frame, self.rooms)
            if not found:
                return None
            frame.f_trace_lines, frame.f_trace_opcodes = False, True
            return bytecode

        return call


def _within(frame: FrameType, rooms: Iterable[str]) -> bool:
    generated = _GENERATED.fullmatch(frame.f_code.co_filename)
    module = generated[1] if generated else frame.f_globals.get("__name__", "")
    return any(module == room or module.startswith(f"{room}.") for room in rooms)


def _import(rooms: Iterable[str]) -> None:
    """Import everything now: an import in a thread would execute bytecodes of its own."""
    for room in rooms:
        package = importlib.import_module(room)
        for each in pkgutil.walk_packages(getattr(package, "__path__", ()), f"{room}."):
            importlib.import_module(each.name)

"""All targets, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tools.fuzz.target import Target
from tools.fuzz.targets import commands, frames, messages, pages, runs, sources, states

EVERY: Final[Mapping[str, Target]] = {
    target.name: target
    for room in (messages, frames, sources, states, runs, pages, commands)
    for target in room.TARGETS
}

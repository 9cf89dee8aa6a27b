"""Targets with a mistake in them: what watches over a target is seen to notice."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tools.fuzz.target import Target


def _hangs(data: bytes, _: Path) -> None:
    if data == b"bad":
        time.sleep(3600)


def _crashes(data: bytes, _: Path) -> None:
    if data == b"bad":
        os.abort()


def _hoards(data: bytes, _: Path) -> None:
    if data == b"bad":
        bytearray(os.urandom(1 << 20) * 400)


def _raises(data: bytes, _: Path) -> None:
    if data == b"bad":
        raise KeyError(data)


def _planted(name: str, check: Callable[[bytes, Path], None]) -> Target:
    return Target(
        name=name, rooms=("tools.fuzz.targets.planted",), seeds=lambda: (b"a", b"bad"), check=check
    )


PLANTED: Final[Mapping[str, Target]] = {
    name: _planted(name, check)
    for name, check in {
        "hang": _hangs,
        "crash": _crashes,
        "memory": _hoards,
        "traceback": _raises,
    }.items()
}

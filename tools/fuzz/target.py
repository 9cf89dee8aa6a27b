"""What can be fuzzed: an entry of the package, its first inputs, and what must be so of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from attrs import frozen


def _as_it_is(data: bytes) -> bytes:
    return data


@frozen(kw_only=True)
class Target:
    """One entry."""

    name: str
    rooms: tuple[str, ...]
    """Modules, or beginnings of their names, whose lines tell whether an input is new."""
    seeds: Callable[[], Iterable[bytes]]
    """Inputs to begin with: ordinary ones."""
    check: Callable[[bytes, Path], None]
    """Read an input; raises where something is found. The folder is the input's own, and empty."""
    words: tuple[bytes, ...] = ()
    """What stands in such inputs, to be put where it does not belong."""
    repaired: Callable[[bytes], bytes] = _as_it_is
    """The input with its checksums made right, or nothing behind them would be reached."""
    size_max: int = 1 << 16

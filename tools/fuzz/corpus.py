"""Inputs that are kept: one file for each target, a line of base64 for each input.

They are what a run found new ways with, as few and as short as will do. `make test` plays them.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent.parent.parent / "tests" / "data" / "fuzz"
KEPT_BYTES: Final = 12_000
"""Of one target."""
FOUND_BYTES: Final = 4_400
"""An input that found something is kept if it is not longer."""


def kept(target: str, folder: Path = FOLDER) -> list[bytes]:
    """The inputs of a target."""
    path = folder / f"{target}.txt"
    if not path.exists():
        return []
    return [base64.b64decode(line) for line in path.read_text(encoding="ascii").splitlines()]


def keep(target: str, inputs: Iterable[bytes], folder: Path = FOLDER) -> None:
    """Write the inputs of a target."""
    lines = [base64.b64encode(each).decode() for each in inputs]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{target}.txt").write_text("".join(f"{line}\n" for line in lines), encoding="ascii")

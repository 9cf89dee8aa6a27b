"""The command as a user has it: another process, its exit code, and what it printed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.cli.forks import forks

CAPTURES = Path(__file__).parent.parent / "data" / "captures" / "original"
NEUTRAL = {
    "COLUMNS": "200",
    "NO_COLOR": "1",
    "MARSHAL_BOOTSTRAP": "",
    "MARSHAL_CONFIG": os.devnull,
    "PYTEST_ADDOPTS": "",
    "PYTHONUNBUFFERED": "",  # else `print` writes each of its words alone, and others between them
}
"""Nothing of who runs the tests."""


def marshal(
    *arguments: str | Path, cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run `marshal` with these arguments."""
    return forks().run(
        [*map(str, arguments)],
        str(cwd or Path.cwd()),
        os.environ | NEUTRAL | environment,
    )

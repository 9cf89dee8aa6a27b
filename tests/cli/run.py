"""The command as a user has it: another process, its exit code, and what it printed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CAPTURES = Path(__file__).parent.parent / "data" / "captures" / "original"
NEUTRAL = {
    "COLUMNS": "200",
    "NO_COLOR": "1",
    "MARSHAL_BOOTSTRAP": "",
    "MARSHAL_CONFIG": os.devnull,
}
"""Nothing of who runs the tests."""


def marshal(
    *arguments: str | Path, cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run `marshal` with these arguments."""
    return subprocess.run(
        [sys.executable, "-m", "kafka_marshal.cli", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env=os.environ | NEUTRAL | environment,
    )

"""Runs a script that forks, in a process of its own."""

from __future__ import annotations

import subprocess
import sys

WITHIN_S = 60.0


def ran(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What it printed, once it and what inherits its output have ended."""
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN_S,
    )

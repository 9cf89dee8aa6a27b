"""Builds a wheel as an installation does, with what is in this environment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def built(source: Path, folder: Path) -> Path:
    """The wheel of a source tree, in a folder that has no other.

    Raises:
        subprocess.CalledProcessError: it does not build.
    """
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "--wheel-dir", folder, source], check=True)
    [wheel] = folder.glob("*.whl")
    return wheel

"""A small process that outlives its starter and ends the processes that the starter left running.

A Java process does not notice that the Python process which started it was killed. The reaper holds
one end of a pipe. When the other end closes without a message, it kills the last process groups
that it was given, and removes a folder. It runs `sweep` alone, without this package.
"""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path


class Reaper:
    """Watches process groups and, if given, one folder."""

    def __init__(self, folder: Path | None) -> None:
        code = f"{inspect.getsource(sweep)}\nsweep()"
        command = [sys.executable, "-I", "-S", "-c", code]
        if folder is not None:
            command.append(str(folder))
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, text=True, bufsize=1, start_new_session=True
        )

    def watch(self, *groups: int) -> None:
        """These groups, from now on, and no others."""
        self._tell(" ".join(map(str, groups)))

    def leave(self) -> None:
        """The owner has cleaned up everything."""
        self._tell("bye")
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _tell(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()


def sweep() -> None:
    """Wait for the starter's end. It imports its modules itself, since its text runs alone."""
    import contextlib
    import os
    import shutil
    import signal
    import sys

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    groups: list[int] = []
    for line in sys.stdin:
        if line.strip() == "bye":
            return
        groups = [int(group) for group in line.split()]
    for group in groups:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
    for folder in sys.argv[1:]:
        shutil.rmtree(folder, ignore_errors=True)

"""Work for processes, of which a test wants to see what becomes of it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from attrs import frozen

from kafka_marshal.capture import UnreadableSource
from kafka_marshal.scratch import temporary_folder


@frozen
class Work:
    """Each method is a task; the process of the test does none of the harmful ones."""

    starter: int

    def process(self, _number: int) -> int:
        """Which process did it; the starter's takes its time."""
        if os.getpid() == self.starter:
            time.sleep(0.001)
        return os.getpid()

    def temporary(self, _number: int) -> tuple[int, str]:
        """Where temporary files of the process go."""
        return self.process(0), str(temporary_folder())

    def broken(self, kind: str) -> None:
        """Break elsewhere, in one of several ways."""
        if os.getpid() == self.starter:
            return
        match kind:
            case "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            case "source":
                raise UnreadableSource("log: line 3: not a record")
            case _:
                raise KeyError(kind)

    def interrupted(self, note: Path) -> None:
        """The starter is interrupted once the other process is at work."""
        if os.getpid() != self.starter:
            self.endless(note)
        while not note.exists() or not note.read_text():
            time.sleep(0.01)
        raise KeyboardInterrupt

    def endless(self, note: Path) -> None:
        """Work without an end, for which the starter waits; `note` gets the others."""
        if os.getpid() != self.starter:
            with note.open("a") as file:
                file.write(f"{os.getpid()}\n")
            while True:
                time.sleep(0.01)

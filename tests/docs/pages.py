"""Runs a page of the documentation: what it types in terminals, and the files that it shows.

A block `sh` is typed as it stands. The block `text` after it is what the terminal prints then;
`…` stands for the rest of a line or, alone, for any lines. `terminal 2` after the language opens a
terminal of its own. A file's name after the language makes the file: `python consumer.py`. The
words `prints, with exit code 1` after a block say that it does not end with 0.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from attrs import define, field, frozen

from tests.cli.run import NEUTRAL

ROOT = Path(__file__).parent.parent.parent
WITHIN_S = 120.0
DONE = "ended with exit code"
BLOCK = re.compile(
    r"^```(\w+)(?: terminal (\d)| ([\w.-]+))?\n(.*?)^```$(?:\n\nprints, with exit code (\d))?",
    re.MULTILINE | re.DOTALL,
)
QUESTION = re.compile(r"marshal (doctor|groups|ls|receipts|replay)\b")
"""Changes nothing, so it may be typed again until it prints what the page shows."""


@frozen
class Step:
    """A block of the page: what is typed in a terminal, or what it shows then, or a file."""

    terminal: str
    typed: str = ""
    shown: str = ""
    file: str = ""
    """Its name."""
    text: str = ""
    """What the file holds."""
    code: str = "0"
    """With which exit code it ends."""


def steps(page: str) -> Iterator[Step]:
    terminal = "1"
    for language, named, file, text, code in BLOCK.findall(page):
        terminal = named or terminal
        if file:
            yield Step(terminal, file=file, text=text)
        elif language == "sh":
            yield Step(terminal, typed=text, code=code or "0")
        elif language == "text":
            yield Step(terminal, shown=text)


def pattern(shown: str) -> re.Pattern[str]:
    """`…` stands for the rest of a line, or, alone, for any lines; columns may be wider."""
    lines = shown.splitlines()
    parts = [
        r"(?:.*\n)*?"
        if line == "…"
        else re.sub(r"(\\ )+", r"\\ +", re.escape(line)).replace("…", ".*") + r" *\n"
        for line in lines
    ]
    return re.compile("^" + "".join(parts), re.MULTILINE)


@define
class Terminal:
    """A shell, and everything that it has printed."""

    shell: subprocess.Popen[str]
    printed: str = ""
    seen: int = 0
    """How much of it the page has shown."""
    last: str = ""
    """What was typed last."""
    typed: int = 0
    """How often something was typed."""
    changed: threading.Condition = field(factory=threading.Condition)

    def listen(self) -> None:
        assert self.shell.stdout is not None
        for line in self.shell.stdout:
            with self.changed:
                self.printed += line
                self.changed.notify()

    def types(self, words: str) -> None:
        assert self.shell.stdin is not None
        self.last, self.typed = words, self.typed + 1
        self.shell.stdin.write(f"{words}echo {DONE} $?\n")
        self.shell.stdin.flush()

    def shows(self, shown: str) -> None:
        """Wait until it has printed this; a question that was too early is asked again."""
        wanted = pattern(shown)
        deadline = time.monotonic() + WITHIN_S
        with self.changed:
            while (found := wanted.search(self.printed, self.seen)) is None:
                left_s = deadline - time.monotonic()
                assert left_s > 0, (
                    f"{self.last}\nprinted\n{self.printed[self.seen :]}\nnot\n{shown}"
                )
                ended = len(self.exit_codes) == self.typed
                if ended and not self.last.endswith("&\n"):
                    assert QUESTION.search(self.last), (
                        f"{self.last}\nended and printed\n{self.printed[self.seen :]}\nnot\n{shown}"
                    )
                    self.types(self.last)
                self.changed.wait(left_s)
            self.seen = found.end()

    def rests(self) -> list[str]:
        """Wait until everything that was typed has ended; with which exit codes."""
        deadline = time.monotonic() + WITHIN_S
        with self.changed:
            while len(self.exit_codes) < self.typed:
                assert time.monotonic() < deadline, f"{self.last} does not end"
                self.changed.wait(deadline - time.monotonic())
        return self.exit_codes

    @property
    def exit_codes(self) -> list[str]:
        """Of what was typed and has ended."""
        return re.findall(rf"{DONE} (\d+)", self.printed)


@contextmanager
def opened(folder: Path, path: str) -> Iterator[Terminal]:
    shell = subprocess.Popen(
        ["bash"],
        cwd=folder,
        env=os.environ | NEUTRAL | {"PATH": path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    terminal = Terminal(shell)
    listener = threading.Thread(target=terminal.listen)
    listener.start()
    try:
        yield terminal
    finally:
        assert shell.stdin is not None
        shell.stdin.close()
        os.killpg(shell.pid, signal.SIGINT)
        try:
            shell.wait(WITHIN_S)
        finally:
            with suppress(ProcessLookupError):  # what runs in the background hears no SIGINT
                os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()
            listener.join()


def run(page: str, folder: Path, ending: str = "1") -> list[str]:
    """Type every command of the page, and compare what it prints.

    Returns the exit codes of everything that was typed in the terminal `ending`.
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    terminals: dict[str, Terminal] = {}
    with ExitStack() as stack:
        for step in steps(page):
            if step.file:
                (folder / step.file).write_text(step.text, encoding="utf-8")
                continue
            if step.terminal not in terminals:
                terminals[step.terminal] = stack.enter_context(opened(folder, path))
            terminal = terminals[step.terminal]
            if step.typed:
                terminal.types(step.typed)
            else:
                terminal.shows(step.shown)
        return terminals[ending].rests()

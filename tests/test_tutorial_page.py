"""Every command of docs/tutorial.md runs as it stands there, and prints what the page shows."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from attrs import define, field, frozen

from kafka_marshal.testing.cluster import free_ports
from tests.cli.run import NEUTRAL

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
WITHIN_S = 120.0
DONE = "ended with exit code"


@frozen
class Step:
    """A block of the page: what is typed in a terminal, or what it shows then."""

    terminal: str
    typed: str = ""
    shown: str = ""


def steps(page: str) -> Iterator[Step]:
    terminal = ""
    blocks = re.findall(r"(?ms)^```(sh|text)(?: terminal (\d))?\n(.*?)^```$", page)
    for language, named, text in blocks:
        terminal = named or terminal
        yield Step(terminal, **{"typed" if language == "sh" else "shown": text})


def pattern(shown: str) -> re.Pattern[str]:
    """`…` stands for the rest of a line, or, alone, for any lines."""
    lines = shown.splitlines()
    parts = [
        r"(?:.*\n)*?" if line == "…" else re.escape(line).replace("…", ".*") + r"\n"
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
                if len(self.exit_codes) == self.typed:
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
def opened(folder: Path) -> Iterator[Terminal]:
    shell = subprocess.Popen(
        ["bash"],
        cwd=folder,
        env=os.environ | NEUTRAL,
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
            if shell.poll() is None:
                os.killpg(shell.pid, signal.SIGKILL)
                shell.wait()
            listener.join()


def test_every_command_prints_what_the_page_shows(tmp_path: Path) -> None:
    page = PAGE.replace("19092", str(free_ports(1)[0]))
    page = page.replace(".venv/bin/", f"{Path(sys.executable).parent}/")
    page = page.replace(" examples/", f" {ROOT}/examples/")
    terminals: dict[str, Terminal] = {}
    with ExitStack() as stack:
        for step in steps(page):
            if step.terminal not in terminals:
                terminals[step.terminal] = stack.enter_context(opened(tmp_path))
            terminal = terminals[step.terminal]
            if step.typed:
                terminal.types(step.typed)
            else:
                terminal.shows(step.shown)
        *fine, replayed = terminals["4"].rests()
        assert {*fine} == {"0"}
        assert replayed == "1"
        assert (tmp_path / "last-night" / "report.html").is_file()

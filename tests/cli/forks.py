"""The command, forked from a process that has imported what it needs.

Most commands of the tests live for less time than Python needs to import Typer, pandas and the
client. So each process of the tests starts one that imports them, and a command is a fork of that
one. It has its own environment, folder, arguments, streams and end, and runs the module
`kafka_marshal.cli` as `python -m` does. This room does not know what a test asks of a command.

A test that sends signals, or closes a stream, starts Python itself. So do the tests of pages and
of the wheel, which show that a command imports all that it needs.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from kafka_marshal.cli.app import app_of
from kafka_marshal.scratch import Scratch

IMPORTED = (
    *("kafka_marshal.cli.common", "typer.rich_utils", "rich.table", "typer._adapters"),
    *("kafka_marshal.replay.api", "kafka_marshal.kernel.fold", "kafka_marshal.modelcheck.runs"),
    *("kafka_marshal.admin.doctor.doctor", "kafka_marshal.admin.set_positions"),
)
"""What commands import once they run. Not PySpark: few commands start it."""


class Forks:
    """The process that commands are forked from; it ends with the one that started it."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.cli.forks", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                # A thread that a library starts would not be there after a fork.
                env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
            )

    def run(
        self, arguments: Sequence[str], cwd: str, environment: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Run the command to its end."""
        ours, theirs = socket.socketpair()
        with ours, Scratch("command") as folder:
            out, err = folder / "out", folder / "err"
            with theirs, out.open("wb") as to_out, err.open("wb") as to_err:
                given = [theirs.fileno(), to_out.fileno(), to_err.fileno()]
                socket.send_fds(self._socket, [b"."], given)
            with ours.makefile("rw", encoding="utf-8") as line:
                line.write(json.dumps([[*arguments], cwd, {**environment}]) + "\n")
                line.flush()
                code = int(line.readline())
            texts = [each.read_text(encoding="utf-8") for each in (out, err)]
        return subprocess.CompletedProcess([*arguments], code, *texts)

    def close(self) -> None:
        """End it."""
        self._socket.close()
        self._process.wait()


@functools.cache
def forks() -> Forks:
    """The one of this process."""
    one = Forks()
    atexit.register(one.close)
    return one


def _serve(asking: socket.socket) -> None:
    """Fork for each command that is asked for; returns in the fork, which is to run it."""
    for name in IMPORTED:
        importlib.import_module(name)
    app_of()
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    waiting: set[int] = set()
    while True:
        word, given, *_ = socket.recv_fds(asking, 1, 3)
        if not word:
            os._exit(0)
        waiting -= {each for each in waiting if os.waitpid(each, os.WNOHANG)[0]}
        if not (waits := os.fork()):
            asking.close()
            _command(*given)
            return
        waiting.add(waits)
        for each in given:
            os.close(each)


def _command(line: int, out: int, err: int) -> None:
    """Fork once more: the fork becomes the command, and this process reports how it ended."""
    with socket.socket(fileno=line) as asked, asked.makefile("rw", encoding="utf-8") as text:
        arguments, cwd, environment = json.loads(text.readline())
        if command := os.fork():
            _, status = os.waitpid(command, 0)
            text.write(f"{os.waitstatus_to_exitcode(status)}\n")
            text.flush()
            os._exit(0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for stream, given in ((1, out), (2, err)):
        os.dup2(given, stream)
        os.close(given)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    # Their consoles looked at the environment when they were made.
    for name in [each for each in sys.modules if f"{each}.".startswith("kafka_marshal.cli.")]:
        del sys.modules[name]
    time.tzset()
    sys.path[0] = cwd
    sys.argv[1:] = arguments


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
    runpy.run_module("kafka_marshal.cli", run_name="__main__", alter_sys=True)

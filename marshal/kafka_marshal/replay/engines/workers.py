"""Worker processes on this machine that share one task with the process that starts them.

A process that only replays (`own_process`) is forked, so its copies have loaded all modules.
Otherwise each worker is a new Python process, neither forked nor made by `multiprocessing`: the
caller may have threads, or be a script that would run again. A worker ends with its starter, in
whatever way that ends, and receives no interrupts of a terminal. This module does not know what the
work is.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, Final, NoReturn, Protocol, Self

from attrs import define

from kafka_marshal.capture import UnreadableSource
from kafka_marshal.errors import MarshalError
from kafka_marshal.replay.errors import ReplayError
from kafka_marshal.replay.own_process import is_prepared, prepare
from kafka_marshal.scratch import use_temporary_folder

_STARTED: Final = (
    "import sys; sys.path[:] = {path!r}; "
    "from {module} import serve; serve({file})"
)  # fmt: skip


def forks() -> bool:
    """Whether processes are copies of this one, which cost nearly nothing; else each is started."""
    return is_prepared() and sys.platform == "linux"


class _Process(Protocol):
    pid: int

    def kill(self) -> None:
        """End it."""

    def wait(self) -> int:
        """Its exit code, or minus the signal that ended it, when it has ended."""


@define(eq=False)
class _Copy:
    """As `_Process`."""

    pid: int
    _code: int | None = None

    def kill(self) -> None:
        """As `_Process`."""
        if self._code is None:
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """As `_Process`."""
        if self._code is None:
            self._code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._code


@define(eq=False)
class _Worker:
    process: _Process
    connection: Connection
    under_way: int = 0
    """Tasks that were sent and not answered."""


class Workers:
    """The processes; a context manager that ends them.

    `work` is pickled to each new process, and its methods are the tasks. Files that they put into
    the system's temporary folder go to `folder`, which the starter removes. `forked`: each is a
    copy of this process.
    """

    def __init__(self, work: object, count: int, folder: Path, *, forked: bool = False) -> None:
        self._work = work
        self._folder = folder
        self._count = count
        self._forked = forked
        self._workers: list[_Worker] = []

    def __enter__(self) -> Self:
        for _ in range(self._count - 1):
            ours, theirs = Pipe()
            process = (self._copy if self._forked else self._start)(ours, theirs)
            theirs.close()
            self._workers.append(_Worker(process, ours))
            if not self._forked:
                self._send(self._workers[-1], self._work)
        return self

    def _start(self, _ours: Connection, theirs: Connection) -> _Process:
        started = _STARTED.format(path=sys.path, module=__name__, file=theirs.fileno())
        return subprocess.Popen(
            [sys.executable, "-c", started],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            env=os.environ | {"TMPDIR": str(self._folder)},
            start_new_session=True,
        )

    def _copy(self, ours: Connection, theirs: Connection) -> _Process:
        with warnings.catch_warnings():  # of threads: Arrow's begin anew in a copy
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid:
            return _Copy(pid)
        try:
            os.setsid()
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            ours.close()  # or it would not end with the starter
            use_temporary_folder(self._folder)
            _serve(theirs, self._work)
        finally:
            os._exit(1)

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.connection.close()
            worker.process.kill()
        for worker in self._workers:
            worker.process.wait()

    def run(
        self,
        task: str,
        arguments: Sequence[tuple[Any, ...]],
        report: Callable[[int], None],
        take: Callable[[int, Any], None] = lambda number, result: None,
    ) -> list[Any]:
        """Call the work's method `task` with each of the arguments, and return the results.

        `report` is called with the number of finished calls. `take` is called with the number of
        each call and its result, when it ends.

        Raises:
            ReplayError: a process has ended. An exception of a call is raised here, too.
        """
        waiting = deque(enumerate(arguments))
        results: dict[int, Any] = {}
        while len(results) < len(arguments):
            # A process that has its next task already does not wait while this one is at work.
            ahead = 2 if len(waiting) > 2 * self._count else 1
            for worker in self._workers:
                while waiting and worker.under_way < ahead:
                    number, called = waiting.popleft()
                    worker.under_way += 1
                    self._send(worker, (number, task, called))
            own = waiting.popleft() if waiting else None
            if own is not None:
                results[own[0]] = getattr(self._work, task)(*own[1])
                take(own[0], results[own[0]])
                report(len(results))
            busy = {worker.connection: worker for worker in self._workers if worker.under_way}
            for ready in wait(list(busy), None if own is None else 0):
                worker = busy[ready]  # type: ignore[index]
                number, result, error = self._received(worker)
                worker.under_way -= 1
                if error is not None:
                    raise error
                results[number] = result
                take(number, result)
                report(len(results))
        return [results[number] for number in range(len(arguments))]

    def _send(self, worker: _Worker, message: object) -> None:
        try:
            worker.connection.send(message)
        except OSError:
            raise _ended(worker.process) from None

    def _received(self, worker: _Worker) -> Any:
        try:
            return worker.connection.recv()
        except (EOFError, OSError):
            raise _ended(worker.process) from None


def _ended(process: _Process) -> ReplayError:
    code = process.wait()
    how = f"with exit code {code}"
    if code < 0:
        how = f"by {signal.Signals(-code).name}"
    short = "; the system may have run out of memory" if code == -signal.SIGKILL else ""
    return ReplayError(f"process {process.pid} of this replay was ended {how}{short}")


def serve(file: int) -> None:
    """Execute the starter's requests, until it closes its end or has ended."""
    prepare()
    connection = Connection(file)
    _serve(connection, connection.recv())


def _serve(connection: Connection, work: object) -> NoReturn:
    tasks = SimpleQueue[tuple[int, str, tuple[Any, ...]]]()

    def receive() -> None:
        with suppress(EOFError, OSError):
            while True:
                tasks.put(connection.recv())
        os._exit(0)

    Thread(target=receive, daemon=True).start()
    while True:
        number, task, called = tasks.get()
        result = error = None
        try:
            result = getattr(work, task)(*called)
        except BaseException as raised:
            error = _told(raised)
        connection.send((number, result, error))


def _told(error: BaseException) -> BaseException:
    """An error in a form that the starter can raise, with the place where it was raised."""
    where = "".join(traceback.format_exception(error))
    if not isinstance(error, (MarshalError, UnreadableSource, OSError, MemoryError)):
        return RuntimeError(where)  # our mistake, or one that does not pickle
    error.add_note(f"In another process:\n{where}")
    return error

"""Worker processes on this machine that share one task with the process that starts them.

Each is a Python of its own, neither forked nor made by `multiprocessing`: who starts it may have
threads, or be a script that would run again. It ends when its starter does, however that ends, and
no interrupt of a terminal reaches it. This room does not know what the work is.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, Final, Self

from attrs import define

from kafka_marshal.capture import UnreadableSource
from kafka_marshal.errors import MarshalError
from kafka_marshal.replay.errors import ReplayError
from kafka_marshal.replay.own_process import prepare

_STARTED: Final = (
    "import sys; sys.path[:] = {path!r}; "
    "from {module} import serve; serve({file})"
)  # fmt: skip


@define(eq=False)
class _Worker:
    process: subprocess.Popen[bytes]
    connection: Connection
    under_way: int = 0
    """Tasks that were sent and not answered."""


class Workers:
    """The processes; a context manager that ends those that it started.

    `work` is pickled to each of them, and its methods are the tasks. What they put into the
    system's temporary folder goes to `folder`, which the starter removes.
    """

    def __init__(self, work: object, count: int, folder: Path) -> None:
        self._work = work
        self._folder = folder
        self._count = count
        self._workers: list[_Worker] = []

    def __enter__(self) -> Self:
        for _ in range(self._count - 1):
            ours, theirs = Pipe()
            started = _STARTED.format(path=sys.path, module=__name__, file=theirs.fileno())
            process = subprocess.Popen(
                [sys.executable, "-c", started],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=os.environ | {"TMPDIR": str(self._folder)},
                start_new_session=True,
            )
            theirs.close()
            self._workers.append(_Worker(process, ours))
            self._send(self._workers[-1], self._work)
        return self

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
        """Call the method `task` of the work with each of the arguments, and return what it did.

        `report` is called with the number of calls that are done, and `take` with the number of
        each call and with what it returned, as they end.

        Raises:
            ReplayError: a process has ended. What a call raises is raised here, too.
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


def _ended(process: subprocess.Popen[bytes]) -> ReplayError:
    code = process.wait()
    how = f"with exit code {code}"
    if code < 0:
        how = f"by {signal.Signals(-code).name}"
    short = "; the system may have run out of memory" if code == -signal.SIGKILL else ""
    return ReplayError(f"process {process.pid} of this replay was ended {how}{short}")


def serve(file: int) -> None:
    """Do what the starter asks for, until it closes its end or is no more."""
    prepare()
    connection, tasks = Connection(file), SimpleQueue[tuple[int, str, tuple[Any, ...]]]()
    work = connection.recv()

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
    """An error as the starter can raise it, with where it was raised."""
    where = "".join(traceback.format_exception(error))
    if not isinstance(error, (MarshalError, UnreadableSource, OSError, MemoryError)):
        return RuntimeError(where)  # our mistake, or one that does not pickle
    error.add_note(f"In another process:\n{where}")
    return error

"""A standalone Spark on this machine: a master and workers, whose Python has no packages."""

from __future__ import annotations

import collections
import os
import re
import signal
import subprocess
import venv
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Final

import pyspark
from attrs import frozen

from kafka_marshal.java.finder import find_java_for_spark, spark_environment

HOME: Final = Path(pyspark.__file__).parent
_MASTER: Final = "org.apache.spark.deploy.master.Master"
_WORKER: Final = "org.apache.spark.deploy.worker.Worker"
_STARTED: Final = {
    _MASTER: re.compile(r"spark://\S+:\d+"),
    _WORKER: re.compile("registered with master"),
}
_SETTINGS: Final = """\
rootLogger.level = info
rootLogger.appenderRef.err.ref = err
appender.err.type = Console
appender.err.name = err
appender.err.target = SYSTEM_ERR
appender.err.layout.type = PatternLayout
appender.err.layout.pattern = %m%n
"""


@frozen
class Standalone:
    """A master, and its workers in the order in which they started."""

    url: str
    workers: tuple[subprocess.Popen[str], ...]
    python: Path
    """What executors start."""


@contextmanager
def standalone(folder: Path, workers: int) -> Iterator[Standalone]:
    """Start a master and workers with one core each. All are killed at the end."""
    folder.mkdir(exist_ok=True)
    python = folder / "python"
    venv.create(python, symlinks=True)
    (folder / "conf").mkdir()
    (folder / "conf" / "log4j2.properties").write_text(_SETTINGS)
    # Not this process's environment: what is on its path is not on an executor's.
    environment = {
        "PATH": os.environ["PATH"],
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder),
        "SPARK_SCALA_VERSION": "2.13",  # PySpark's folder does not say it where a worker looks
        **spark_environment(),
    }
    with ExitStack() as running:

        def start(what: str, *arguments: str) -> tuple[subprocess.Popen[str], str]:
            java = find_java_for_spark().executable
            process = running.enter_context(
                subprocess.Popen(
                    [
                        *(str(java), "-Xmx512m", "-cp", f"{folder / 'conf'}:{HOME / 'jars' / '*'}"),
                        *(what, "--host", "127.0.0.1", "--webui-port", "0", *arguments),
                    ],
                    env=environment,
                    stderr=subprocess.PIPE,
                    text=True,
                    start_new_session=True,
                )
            )
            running.callback(kill, process)
            return process, _line(process, _STARTED[what])

        url = start(_MASTER, "--port", "0")[1]
        yield Standalone(
            url,
            tuple(
                start(_WORKER, "-c", "1", "-m", "1g", "-d", str(folder / str(number)), url)[0]
                for number in range(workers)
            ),
            python / "bin" / "python",
        )


def kill(process: subprocess.Popen[str]) -> None:
    """Kill a worker with its executors, as a machine dies."""
    for child in (*executors(process), process.pid):
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    process.wait()


def executors(worker: subprocess.Popen[str]) -> list[int]:
    """Processes below a worker: its executors, and their Pythons."""
    parents = dict(_parents())
    below = [worker.pid]
    for found in below:
        below.extend(child for child, parent in parents.items() if parent == found)
    return below[1:]


def _parents() -> Iterator[tuple[int, int]]:
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = status.read_text()
        except OSError:
            continue
        yield int(status.parent.name), int(text.rpartition(")")[2].split()[1])


def _line(process: subprocess.Popen[str], wanted: re.Pattern[str]) -> str:
    """Read what it logs until it has started; a thread reads the rest, or it would stand still."""
    logged = process.stderr
    assert logged is not None
    said = []
    for line in logged:
        said.append(line)
        if found := wanted.search(line):
            Thread(target=collections.deque, args=(logged, 1), daemon=True).start()
            return found[0]
    raise AssertionError("".join(said))

"""One Kafka process: formats its folder, starts it, watches it and stops it.

It receives complete settings and does not know their meaning: single or one of three, ports, number
of replicas.
"""

from __future__ import annotations

import base64
import contextlib
import os
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from kafka_marshal import cache
from kafka_marshal.testing.kafka import (
    BrokerError,
    command_line,
    last_lines,
    run_tool,
    version,
)
from kafka_marshal.testing.security import Guard

READY: Final = b"Kafka Server started"
TAKEN: Final = b"Address already in use"
_STOP_S: Final = 15.0
"""A process that does not stop within this time is killed."""


def new_id() -> str:
    """A new id. StorageTool would treat one that begins with `-` as an option."""
    while True:
        drawn = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not drawn.startswith("-"):
            return drawn


def _write(properties: Path, lines: Mapping[str, str]) -> None:
    properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))


class Server:
    """A broker that is a controller, too, in a process and a folder of its own."""

    def __init__(
        self,
        folder: Path,
        java_options: Sequence[str],
        ready_timeout_s: float,
        guard: Guard,
        classes: Sequence[Path] = (),
    ) -> None:
        self.folder = folder
        self._guard = guard
        self._java, self._classes = tuple(java_options), tuple(classes)
        self._ready_timeout_s = ready_timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._paused = False
        self._log_end_before = 0

    @property
    def data(self) -> Path:
        """The folder of the logs: `TOPIC-PARTITION` each."""
        return self.folder / "data"

    @property
    def log(self) -> Path:
        """Its warnings and errors, of all its starts."""
        return self.folder / "broker.log"

    @property
    def running(self) -> bool:
        """It was started and has not ended; it may be paused."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process, which is also its process group."""
        assert self._process is not None, "the broker was not started"
        return self._process.pid

    @property
    def address_taken(self) -> bool:
        """Whether it has reported since its last start that its port is in use."""
        return self.log.exists() and TAKEN in self.log.read_bytes()[self._log_end_before :]

    def launch(self, cluster_id: str, settings: Mapping[str, str]) -> None:
        """Begin to start it; `wait_until_ready` ends that. A new folder is formatted first.

        Raises:
            BrokerError: it cannot be formatted.
        """
        assert not self.running, "the broker is running"
        self.folder.mkdir(parents=True, exist_ok=True)
        properties = self.folder / "server.properties"
        lines = {**settings, "log.dirs": str(self.data)}
        _write(properties, lines)
        if not (self.data / "meta.properties").exists():
            self._format(cluster_id, lines)
        self._log_end_before = self.log.stat().st_size if self.log.exists() else 0
        # SIGINT of a terminal goes to a whole process group; the broker is ended by us alone.
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command_line(self._java, "kafka.Kafka", str(properties), classes=self._classes),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _format(self, cluster_id: str, settings: Mapping[str, str]) -> None:
        """Format the folder, with the versions of features that this Kafka chose before, if it did.

        Only users and unstable versions give other ones. Choosing takes a second of Java.
        """
        properties, users = self.folder / "server.properties", self._guard.format_options()
        usual = not users and not any(name.startswith("unstable.") for name in settings)
        chosen = cache.folder() / f"features-{version()}.checkpoint"
        features = self.data / "bootstrap.checkpoint"
        if usual and chosen.is_file():
            self.data.mkdir(exist_ok=True)
            shutil.copyfile(chosen, features)
            ids = {"cluster.id": cluster_id, "node.id": settings["node.id"]}
            meta = {"version": "1", **ids, "directory.id": new_id()}
            _write(self.data / "meta.properties", meta)
            return
        options = ["-t", cluster_id, "-c", str(properties), *users]
        run_tool("kafka.tools.StorageTool", "format", *options)
        if usual:
            with cache.made_beside(chosen) as made:
                shutil.copyfile(features, made)

    def wait_until_ready(self) -> None:
        """Return when it serves.

        Raises:
            BrokerError: it ended, or was not ready in time; with the last lines of its log.
        """
        deadline = time.monotonic() + self._ready_timeout_s
        with self.log.open("rb") as output:
            output.seek(self._log_end_before)
            self._wait_until_ready(output, deadline)

    def _wait_until_ready(self, output: IO[bytes], deadline: float) -> None:
        assert self._process is not None
        seen = b""
        while READY not in seen:
            code = self._process.poll()
            seen += output.read()
            if READY in seen:
                break
            if code is not None:
                self.kill()
                raise BrokerError(f"the broker ended with exit code {code}: {last_lines(seen)}")
            if time.monotonic() > deadline:
                self.kill()
                raise BrokerError(
                    f"the broker did not start within {self._ready_timeout_s:g} s: "
                    f"{last_lines(seen)}"
                )
            time.sleep(0.05)

    def ask_to_stop(self) -> None:
        """Ask it to stop regularly; `stop` waits until it has."""
        self._signal(signal.SIGTERM)
        self.resume()

    def stop(self) -> None:
        """Let it end in order; kill it if it does not."""
        process = self._process
        if process is None:
            return
        self.ask_to_stop()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            pass
        finally:
            self.kill()

    def kill(self) -> None:
        """End it at once, as a power cut would (`kill -9`)."""
        if self._process is None:
            return
        self._signal(signal.SIGKILL)
        self._process.wait()
        self._process = None
        self._paused = False

    def pause(self) -> None:
        """Stop it with SIGSTOP: connections stay open, but nothing answers once this returns."""
        self._signal(signal.SIGSTOP)
        self._paused = True
        # The signal is delivered before every thread stands still, and such a thread may answer.
        if self._process is not None and self._process.poll() is None:
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Continue it after `pause`."""
        if self._paused:
            self._signal(signal.SIGCONT)
            self._paused = False

    def _signal(self, number: int) -> None:
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

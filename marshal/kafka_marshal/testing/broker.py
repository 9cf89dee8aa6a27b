"""One Kafka broker, that is its own controller, in a process of its own.

The room knows how Kafka is formatted, started, watched and ended, and which jars it is made of. It
does not know the protocol, nor any client of Kafka.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

from kafka_marshal.jars import Jar, ensure_all, listed
from kafka_marshal.java import find_java
from kafka_marshal.testing.sweeper import Sweeper

SETTINGS: Final[Mapping[str, str]] = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    # One broker can keep one copy; few partitions, each being a folder to open.
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # After a kill the controller, which is the broker itself, waits for its own lease to run out.
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
    # Its default, 128 MB, is half of the heap.
    "log.cleaner.dedupe.buffer.size": "4194304",
}
"""The broker's settings where they differ from Kafka's; `Broker(settings=...)` goes before them."""

_LISTENERS: Final = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@127.0.0.1:{controller}",
    "listeners": "PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
    "advertised.listeners": "PLAINTEXT://127.0.0.1:{port}",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
}
_LOGGING: Final = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
    "-Dlog4j2.StatusLogger.level=off",  # log4j is there without a configuration, and nobody's log
)
_READY: Final = b"Kafka Server started"
_TAKEN: Final = b"Address already in use"
_STOP_S: Final = 15.0
"""A broker that does not stop within this time is killed."""


QUICK: Final = ("-XX:TieredStopAtLevel=1",)
"""Options of Java for a broker that starts sooner and works slower: right for tests."""


class BrokerError(Exception):
    """The broker, or a tool of it, did not run; the message holds the last lines that it wrote."""


def jars() -> tuple[Jar, ...]:
    """The jars of the broker, pinned."""
    return listed((resources.files(__package__) / "broker.jars").read_text())


def version() -> str:
    """Which Kafka it is."""
    return next(jar.revision for jar in jars() if jar.module == "kafka_2.13")


@functools.cache
def fetched_jars() -> tuple[Path, ...]:
    """The jars' paths; fetched if they are not there, half a minute once.

    Raises:
        JarError: they cannot be had.
        JavaNotFoundError: there is no Java.
    """
    return tuple(ensure_all(jars()))


class Broker:
    """A real Kafka broker on this machine; a context manager.

    In a temporary folder, which is gone afterwards, unless `folder` is given: then what is in it
    stays, and a later broker goes on with it. It listens on 127.0.0.1 alone. Whatever happens to
    this process, also kill -9, the broker is ended with it.

    Kafka needs 4 to 8 s to start and some 340 MB at the heap's 256.
    """

    def __init__(
        self,
        *,
        port: int | None = None,
        folder: Path | None = None,
        settings: Mapping[str, str] | None = None,
        heap: str = "256m",
        java_options: Sequence[str] = (),
        ready_timeout_s: float = 60.0,
    ) -> None:
        self._wanted_port = port
        self._ports: tuple[int, int] | None = None
        self._given = folder
        self._made: Path | None = None
        self._settings = {**SETTINGS, **(settings or {})}
        self._java = [f"-Xmx{heap}", *java_options]
        self._ready_timeout_s = ready_timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._paused = False
        self._sweeper: Sweeper | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def bootstrap(self) -> str:
        """What clients are told: `127.0.0.1:PORT`. It stays the same over `kill` and `start`."""
        assert self._ports is not None, "the broker was not started"
        return f"127.0.0.1:{self._ports[0]}"

    @property
    def folder(self) -> Path:
        """Where everything of it is."""
        folder = self._given or self._made
        assert folder is not None, "the broker was not started"
        return folder

    @property
    def data(self) -> Path:
        """Where the logs are: a folder `TOPIC-PARTITION` each."""
        return self.folder / "data"

    @property
    def log(self) -> Path:
        """What the broker has to say: warnings and errors, of all its starts."""
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

    def start(self) -> None:
        """Start it, or start it again after `stop` or `kill`, and wait until it serves.

        Raises:
            BrokerError: it did not start; with the last lines of its log.
            JarError: the jars cannot be had.
            JavaNotFoundError: there is no Java.
        """
        assert not self.running, "the broker is running"
        fetched_jars()
        if self._given is None and self._made is None:
            self._made = Path(tempfile.mkdtemp(prefix="kafka-marshal-broker-"))
        self.folder.mkdir(parents=True, exist_ok=True)
        if self._sweeper is None:
            self._sweeper = Sweeper(self._made)
        chosen_here = self._ports is None and self._wanted_port is None
        for attempt in range(3):
            if self._ports is None:
                controller, port = _free_ports(2)
                self._ports = (self._wanted_port or port, controller)
            said_before = self.log.stat().st_size if self.log.exists() else 0
            try:
                self._start_once(said_before)
                return
            except BrokerError:
                # Between our looking for a free port and the broker's taking it, somebody else did.
                said = self.log.read_bytes()[said_before:] if self.log.exists() else b""
                if not chosen_here or _TAKEN not in said or attempt == 2:
                    raise
                self._ports = None

    def stop(self) -> None:
        """Let it end in order; kill it if it does not."""
        process = self._process
        if process is None:
            return
        self._signal(signal.SIGTERM)
        self.resume()
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
        if self._sweeper is not None:
            self._sweeper.watch(0)

    def pause(self) -> None:
        """Let it stand still: connections stay open, nobody answers (SIGSTOP)."""
        self._signal(signal.SIGSTOP)
        self._paused = True

    def resume(self) -> None:
        """Let it go on after `pause`."""
        if self._paused:
            self._signal(signal.SIGCONT)
            self._paused = False

    def close(self) -> None:
        """Stop it and leave nothing behind, but a folder that was given."""
        try:
            self.stop()
        finally:
            self.kill()
            if self._made is not None:
                shutil.rmtree(self._made, ignore_errors=True)
                self._made = None
            if self._sweeper is not None:
                self._sweeper.leave()
                self._sweeper = None

    def tool(self, main_class: str, *arguments: str, timeout_s: float = 60.0) -> str:
        """Run a class of the broker's jars and return what it printed.

        For example `kafka.tools.DumpLogSegments` and
        `org.apache.kafka.tools.consumer.ConsoleConsumer`.

        Raises:
            BrokerError: it failed, or did not end in time.
        """
        command = [*_java("-Xmx128m", *QUICK), *_LOGGING, main_class, *arguments]
        try:
            ran = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=timeout_s
            )
        except subprocess.TimeoutExpired:
            raise BrokerError(f"{main_class} did not end within {timeout_s:g} s") from None
        if ran.returncode != 0:
            said = _last_lines((ran.stdout + ran.stderr).encode())
            raise BrokerError(f"{main_class} ended with exit code {ran.returncode}: {said}")
        return ran.stdout

    def _start_once(self, said_before: int) -> None:
        properties = self._write_properties()
        if not (self.data / "meta.properties").exists():
            cluster = _cluster_id()
            self.tool("kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(properties))
        # SIGINT of a terminal goes to a whole process group; the broker is ended by us alone.
        command = [*_java(*self._java), *_LOGGING, "kafka.Kafka", str(properties)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        if self._sweeper is not None:
            self._sweeper.watch(self._process.pid)
        deadline = time.monotonic() + self._ready_timeout_s
        with self.log.open("rb") as said:
            said.seek(said_before)
            self._wait_until_ready(said, deadline)

    def _wait_until_ready(self, said: IO[bytes], deadline: float) -> None:
        assert self._process is not None
        seen = b""
        while _READY not in seen:
            code = self._process.poll()
            seen += said.read()
            if _READY in seen:
                break
            if code is not None:
                self.kill()
                raise BrokerError(f"the broker ended with exit code {code}: {_last_lines(seen)}")
            if time.monotonic() > deadline:
                self.kill()
                raise BrokerError(
                    f"the broker did not start within {self._ready_timeout_s:g} s: "
                    f"{_last_lines(seen)}"
                )
            time.sleep(0.05)

    def _write_properties(self) -> Path:
        assert self._ports is not None
        port, controller = self._ports
        settings = {
            **{
                name: value.format(port=port, controller=controller)
                for name, value in _LISTENERS.items()
            },
            "log.dirs": str(self.data),
            **self._settings,
        }
        path = self.folder / "server.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        return path

    def _signal(self, number: int) -> None:
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)


def _java(*options: str) -> list[str]:
    classpath = os.pathsep.join(str(path) for path in fetched_jars())
    return [str(find_java().executable), "-XX:+UseSerialGC", *options, "-cp", classpath]


def _cluster_id() -> str:
    """A new one. StorageTool would take one that begins with `-` for an option."""
    while True:
        drawn = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not drawn.startswith("-"):
            return drawn


def _free_ports(number: int) -> list[int]:
    """Ports that nobody uses now."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(number)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def _last_lines(said: bytes) -> str:
    """What a Java process said at last, but for where in Kafka it was."""
    lines = said.decode("utf-8", "replace").splitlines()
    words = [line for line in lines if not line.startswith(("\tat ", "\t... "))][-15:]
    return "it said at last\n" + "\n".join(words) if words else "it said nothing"

"""A Kafka cluster on this machine, whose brokers also form the controller quorum.

This module knows the number of brokers, their ports and settings, and which of them run. It knows
neither the protocol, nor any client of Kafka.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from kafka_marshal.reaper import Reaper
from kafka_marshal.scratch import Scratch
from kafka_marshal.testing.kafka import BrokerError, fetched_jars
from kafka_marshal.testing.security import Guard
from kafka_marshal.testing.server import Server, new_id

SETTINGS: Final[Mapping[str, str]] = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    # Few partitions, each being a folder to open.
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    # After a kill the controllers wait for the broker's lease to run out.
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
    # By default a controller without work writes two empty records a second, and all read them.
    "metadata.max.idle.interval.ms": "0",
    # Its default, 128 MB, is half of the heap.
    "log.cleaner.dedupe.buffer.size": "4194304",
}
"""Settings that differ from Kafka's defaults; a caller's `settings` override them."""

_LISTENERS: Final[Mapping[str, str]] = {
    "process.roles": "broker,controller",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
}
_ATTEMPTS: Final = 3
"""Another process may take a free port before the broker does."""


def copies(brokers: int) -> dict[str, str]:
    """How many copies of a topic `brokers` brokers keep, and how many must be written."""
    replicas, written = min(3, brokers), min(2, brokers)
    return {
        "default.replication.factor": str(replicas),
        "min.insync.replicas": str(written),
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(written),
        "share.coordinator.state.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.min.isr": str(written),
    }


class Cluster:
    """Real Kafka brokers on this machine, numbered from 1; a context manager.

    They use a temporary folder, which is removed afterwards, unless `folder` is given: then its
    content is kept, and a later cluster continues with it. They only listen on 127.0.0.1. If this
    process ends, even by kill -9, they are stopped.

    Topics have one replica per broker, at most three, and with acks=all two must be written.
    Changes need a majority of running brokers: with one of three killed everything works, with two
    killed nothing does. With a `guard`, clients must authenticate.

    `advertised` returns the port of each broker for clients and other brokers, such as that of a
    proxy in front of it. The broker itself listens on `port(number)`. The controllers connect to
    each other directly.

    `classes` are folders with classes that replace Kafka's.
    """

    def __init__(
        self,
        *,
        brokers: int = 3,
        port: int | None = None,
        folder: Path | None = None,
        settings: Mapping[str, str] | None = None,
        heap: str = "192m",
        java_options: Sequence[str] = (),
        ready_timeout_s: float = 60.0,
        guard: Guard | None = None,
        advertised: Mapping[int, int] | None = None,
        classes: Sequence[Path] = (),
    ) -> None:
        assert guard is None or advertised is None, "a guard has listeners of its own"
        self.numbers = range(1, brokers + 1)
        self._guard = guard
        self._advertised = advertised or {}
        self._wanted_port = port
        self._ports: dict[int, tuple[int, int, int]] = {}
        """Of each broker: for clients, for brokers (if it is guarded), as controller."""
        self._given = folder
        self._made: Scratch | None = None
        self._settings = {**SETTINGS, **copies(brokers), **(settings or {})}
        self._java, self._classes = [f"-Xmx{heap}", *java_options], tuple(classes)
        self._ready_timeout_s = ready_timeout_s
        self._id = new_id()
        self._servers: dict[int, Server] = {}
        self._sweeper: Reaper | None = None

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
        """The addresses for clients: `127.0.0.1:PORT,...`. They stay over kills and starts."""
        assert self._ports, "the broker was not started"
        ports = (self._advertised.get(number, self._ports[number][0]) for number in self.numbers)
        return ",".join(f"127.0.0.1:{port}" for port in ports)

    def port(self, number: int) -> int:
        """The port on which the broker listens for clients and other brokers."""
        return self._ports[number][0]

    @property
    def folder(self) -> Path:
        """The folder with all files; each of several brokers has a subfolder, `1`, `2` ..."""
        if self._given is not None:
            return self._given
        assert self._made is not None, "the broker was not started"
        return self._made.path

    @property
    def running(self) -> tuple[int, ...]:
        """The brokers that were started and have not ended; they may be paused."""
        return tuple(number for number, server in self._servers.items() if server.running)

    def server(self, number: int) -> Server:
        """One broker: its folder, log and process."""
        assert number in self._servers, "the broker was not started"
        return self._servers[number]

    def start(self, number: int | None = None) -> None:
        """Start one broker, or all that do not run, and wait until they serve.

        Raises:
            BrokerError: one did not start; with the last lines of its log.
            JarError: the jars cannot be fetched.
            JavaNotFoundError: there is no Java.
        """
        fetched_jars()
        if self._given is None and self._made is None:
            self._made = Scratch("broker")
        if self._sweeper is None:
            self._sweeper = Reaper(None if self._made is None else self._made.path)
        wanted = [n for n in self.numbers if n not in self.running] if number is None else [number]
        chosen_here = not self._ports and self._wanted_port is None
        for attempt in range(_ATTEMPTS):
            if not self._ports:
                self._choose_ports()
            try:
                self._start(wanted)
                return
            except BrokerError:
                taken = any(self._servers[n].address_taken for n in wanted if n in self._servers)
                if not chosen_here or not taken or attempt == _ATTEMPTS - 1:
                    raise
                self.kill()
                self._ports = {}

    def stop(self, number: int | None = None) -> None:
        """Stop one broker, or all, regularly; kill those that do not end."""
        servers = self._servers_of(number)
        for server in servers:
            server.ask_to_stop()  # all at once: alone the last of a quorum cannot end in order
        for server in servers:
            server.stop()
        self._watch()

    def kill(self, number: int | None = None) -> None:
        """End one, or all, at once, as a power cut would (`kill -9`)."""
        for server in self._servers_of(number):
            server.kill()
        self._watch()

    def pause(self, number: int | None = None) -> None:
        """Stop one broker, or all, with SIGSTOP: connections stay open, but nothing answers."""
        for server in self._servers_of(number):
            server.pause()

    def resume(self, number: int | None = None) -> None:
        """Continue one broker, or all, after `pause`."""
        for server in self._servers_of(number):
            server.resume()

    def close(self) -> None:
        """Stop all brokers and remove all files, except a given folder."""
        try:
            self.stop()
        finally:
            self.kill()
            if self._made is not None:
                self._made.close()
                self._made = None
            if self._sweeper is not None:
                self._sweeper.leave()
                self._sweeper = None

    def _servers_of(self, number: int | None) -> list[Server]:
        return list(self._servers.values()) if number is None else [self.server(number)]

    def _start(self, wanted: Sequence[int]) -> None:
        """All at once: none is ready before a majority of them is."""
        for number in wanted:
            if number not in self._servers:
                folder = self.folder if len(self.numbers) == 1 else self.folder / str(number)
                self._servers[number] = Server(
                    *(folder, self._java, self._ready_timeout_s, self._guard or Guard()),
                    self._classes,
                )

        def launch(number: int) -> None:
            self._servers[number].launch(self._id, self._properties(number))
            self._watch()

        _each(launch, wanted)
        for number in wanted:
            self._servers[number].wait_until_ready()

    def _choose_ports(self) -> None:
        free = iter(free_ports(3 * len(self.numbers)))
        for number in self.numbers:
            port = next(free)
            if self._wanted_port is not None:
                port = self._wanted_port + number - 1
            self._ports[number] = (port, next(free), next(free))

    def _properties(self, number: int) -> dict[str, str]:
        port, brokers, controller = self._ports[number]
        voters = (f"{n}@127.0.0.1:{at}" for n, (_, _, at) in self._ports.items())
        guarded = {} if self._guard is None else self._guard.listeners(port, brokers, controller)
        return {
            **_LISTENERS,
            "node.id": str(number),
            "controller.quorum.voters": ",".join(voters),
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self._advertised.get(number, port)}",
            **guarded,
            **self._settings,
        }

    def _watch(self) -> None:
        """The sweeper ends whatever runs now."""
        if self._sweeper is not None:
            self._sweeper.watch(*(self._servers[number].pid for number in self.running))


def _each(do: Callable[[int], None], numbers: Sequence[int]) -> None:
    """For all at once; an error of one is raised when all have ended."""
    with ThreadPoolExecutor(max_workers=max(1, len(numbers))) as pool:
        for done in [pool.submit(do, number) for number in numbers]:
            done.result()


def free_ports(number: int) -> list[int]:
    """Ports that are free now."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(number)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]

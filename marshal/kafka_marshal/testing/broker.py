"""A Kafka cluster of one broker that is its own controller, with a simpler interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from kafka_marshal.testing.cluster import Cluster
from kafka_marshal.testing.kafka import run_tool
from kafka_marshal.testing.security import Guard

_ONLY = 1


class Broker:
    """A real Kafka broker on this machine; a context manager.

    It uses a temporary folder, which is removed afterwards, unless `folder` is given: then its
    content is kept, and a later broker continues with it. It only listens on 127.0.0.1. If this
    process ends, even by kill -9, the broker is stopped.

    Kafka needs 4 to 8 s to start, and some 340 MB with a heap of 256 MB. With a `guard`, clients
    must authenticate.
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
        guard: Guard | None = None,
    ) -> None:
        self._cluster = Cluster(
            brokers=1,
            port=port,
            folder=folder,
            settings=settings,
            heap=heap,
            java_options=java_options,
            ready_timeout_s=ready_timeout_s,
            guard=guard,
        )

    def __enter__(self) -> Self:
        self._cluster.__enter__()
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
        """The address for clients: `127.0.0.1:PORT`. It stays the same over `kill` and `start`."""
        return self._cluster.bootstrap

    @property
    def folder(self) -> Path:
        """The folder with all files."""
        return self._cluster.folder

    @property
    def data(self) -> Path:
        """The folder of the logs: `TOPIC-PARTITION` each."""
        return self._cluster.server(_ONLY).data

    @property
    def log(self) -> Path:
        """The broker's warnings and errors, of all its starts."""
        return self._cluster.server(_ONLY).log

    @property
    def running(self) -> bool:
        """It was started and has not ended; it may be paused."""
        return bool(self._cluster.running)

    @property
    def pid(self) -> int:
        """The process, which is also its process group."""
        return self._cluster.server(_ONLY).pid

    def start(self) -> None:
        """Start it, or start it again after `stop` or `kill`, and wait until it serves.

        Raises:
            BrokerError: it did not start; with the last lines of its log.
            JarError: the jars cannot be fetched.
            JavaNotFoundError: there is no Java.
        """
        assert not self.running, "the broker is running"
        self._cluster.start()

    def stop(self) -> None:
        """Let it end in order; kill it if it does not."""
        self._cluster.stop()

    def kill(self) -> None:
        """End it at once, as a power cut would (`kill -9`)."""
        self._cluster.kill()

    def pause(self) -> None:
        """Stop it with SIGSTOP: connections stay open, but nothing answers."""
        self._cluster.pause()

    def resume(self) -> None:
        """Continue it after `pause`."""
        self._cluster.resume()

    def close(self) -> None:
        """Stop it and remove all files, except a given folder."""
        self._cluster.close()

    def tool(self, main_class: str, *arguments: str, timeout_s: float = 60.0) -> str:
        """Run a class of the broker's jars and return its output; as `kafka.run_tool`."""
        return run_tool(main_class, *arguments, timeout_s=timeout_s)

"""Everything the client takes from outside: Kafka clients, clocks, threads, files, random bytes.

A consumer reaches the world through one `Environment`, which travels with its settings, and through
nothing else. So a test puts doubles in its place and decides, call by call, what the cluster
answers and when; what ships runs unchanged. The room knows what is called. It does not know what
for.
"""

# ruff: noqa: D102  # each method is Kafka's, and described there

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TextIO, cast

from attrs import field, frozen

from kafka_marshal.client.connect.threads import OPERATING_SYSTEM, Thread, Threads

_PIECE: Final = 2**16
LOOK_S: Final = 0.05
"""How often a wait for a deadline looks at the clock, in seconds."""

if TYPE_CHECKING:
    import socket
    import ssl

    from confluent_kafka import KafkaError, Message, TopicPartition


class FetchClient(Protocol):
    """The part of Kafka's consumer that fetches the messages of claimed partitions."""

    def incremental_assign(self, partitions: list[TopicPartition], /) -> None: ...
    def incremental_unassign(self, partitions: list[TopicPartition], /) -> None: ...
    def unassign(self) -> None: ...
    def poll(self, timeout: float = ..., /) -> Message | None: ...
    def consume(self, num_messages: int = ..., timeout: float = ...) -> list[Message]: ...
    def pause(self, partitions: list[TopicPartition], /) -> None: ...
    def resume(self, partitions: list[TopicPartition], /) -> None: ...
    def commit(self, *, offsets: list[TopicPartition], asynchronous: Literal[True]) -> None: ...
    def committed(
        self, partitions: list[TopicPartition], timeout: float = ...
    ) -> list[TopicPartition]: ...
    def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float = ..., cached: bool = ...
    ) -> tuple[int, int]: ...
    def close(self) -> None: ...


class LogReader(Protocol):
    """The part of Kafka's consumer that reads the coordination topic."""

    def list_topics(self, topic: str = ..., timeout: float = ...) -> Any: ...
    def offsets_for_times(
        self, partitions: list[TopicPartition], timeout: float = ...
    ) -> list[TopicPartition]: ...
    def assign(self, partitions: list[TopicPartition], /) -> None: ...
    def unassign(self) -> None: ...
    def incremental_assign(self, partitions: list[TopicPartition], /) -> None: ...
    def poll(self, timeout: float = ..., /) -> Message | None: ...
    def consume(self, num_messages: int = ..., timeout: float = ...) -> list[Message]: ...
    def pause(self, partitions: list[TopicPartition], /) -> None: ...
    def resume(self, partitions: list[TopicPartition], /) -> None: ...
    def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float = ..., cached: bool = ...
    ) -> tuple[int, int]: ...
    def close(self) -> None: ...


class Appender(Protocol):
    """The part of Kafka's producer that appends to a topic."""

    def produce(
        self,
        topic: str,
        value: bytes | None = ...,
        key: bytes | None = ...,
        *,
        partition: int = ...,
        headers: list[tuple[str, str | bytes | None]] = ...,
        on_delivery: Callable[[KafkaError | None, Message], None] = ...,
    ) -> None: ...
    def poll(self, timeout: float = ..., /) -> int: ...
    def purge(self) -> None: ...
    def __len__(self) -> int: ...


class Stream(Protocol):
    """A connection as bytes. One thread uses it; it raises `OSError` as a socket does."""

    def send(self, data: bytes, timeout_s: float, /) -> None:
        """Send all of it."""

    def receive(self, timeout_s: float, /) -> bytes:
        """The next bytes, b"" once the other side sends no more; `TimeoutError`: none in time."""

    def wait(self, timeout_s: float, /) -> None:
        """Wait until something came; TLS may hold bytes that do not end it."""

    def close(self) -> None:
        """Disconnect."""


def _fetcher(made_of: dict[str, Any], **more: Any) -> FetchClient:
    from confluent_kafka import Consumer

    return Consumer(made_of, **more)


def _log_reader(made_of: dict[str, Any], **more: Any) -> LogReader:
    from confluent_kafka import Consumer

    return Consumer(made_of, **more)


def _appender(made_of: dict[str, Any], **more: Any) -> Appender:
    from confluent_kafka import Producer

    return Producer(made_of, **more)


def _admin(made_of: dict[str, Any], **more: Any) -> Any:
    from confluent_kafka.admin import AdminClient

    return AdminClient(made_of, **more)


def _connect(host: str, port: int, timeout_s: float, tls: ssl.SSLContext | None) -> Stream:
    import socket

    plain = socket.create_connection((host, port), max(timeout_s, 0.001))
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return _SocketStream(plain if tls is None else tls.wrap_socket(plain, server_hostname=host))
    except BaseException:
        plain.close()
        raise


@frozen
class _SocketStream:
    """A socket, perhaps under TLS."""

    _socket: socket.socket

    def send(self, data: bytes, timeout_s: float) -> None:
        self._socket.settimeout(timeout_s)
        self._socket.sendall(data)

    def receive(self, timeout_s: float) -> bytes:
        import ssl

        try:
            self._socket.settimeout(timeout_s)
            return self._socket.recv(_PIECE)
        except (BlockingIOError, ssl.SSLWantReadError):
            raise TimeoutError from None

    def wait(self, timeout_s: float) -> None:
        import select

        select.select([self], [], [], timeout_s)

    def fileno(self) -> int:
        """For those who wait for it beside others."""
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()


def _run_loop(main: Coroutine[Any, Any, None]) -> None:
    import asyncio

    asyncio.run(main)


def _unix_ms() -> int:
    return time.time_ns() // 1_000_000


def _random_bits(count: int) -> int:
    return secrets.randbits(count)


def _open_file(path: Path, mode: str) -> TextIO:
    return cast("TextIO", path.open(mode, encoding="utf-8", newline="\n"))


@frozen
class Deadline:
    """The time until which several waits last together."""

    monotonic: Callable[[], float]
    at_s: float

    @property
    def left_s(self) -> float:
        """How many seconds are left; 0 when it is over."""
        return max(0.0, self.at_s - self.monotonic())

    def earlier(self, seconds: float) -> Deadline:
        """A deadline that is this much earlier, to leave time for what comes after it."""
        return Deadline(self.monotonic, self.at_s - seconds)

    def wait(self, done: Callable[[float], bool]) -> bool:
        """Whether it is done in time; `done` waits for the seconds that it is given, and looks."""
        while not done(min(LOOK_S, self.left_s)):
            if not self.left_s:
                return False
        return True

    def join(self, thread: Thread | None) -> bool:
        """Whether the thread has ended in time, or there is none."""

        def ended(seconds: float) -> bool:
            assert thread is not None
            thread.join(seconds)
            return not thread.is_alive()

        return thread is None or self.wait(ended)


@frozen
class Environment:
    """The real clients, clocks and threads, unless a field replaces one."""

    fetcher: Callable[..., FetchClient] = field(default=_fetcher)
    """Makes a client that fetches messages, or asks where a group stands."""
    log_reader: Callable[..., LogReader] = field(default=_log_reader)
    appender: Callable[..., Appender] = field(default=_appender)
    admin: Callable[..., Any] = field(default=_admin)
    """Makes Kafka's admin client."""
    monotonic: Callable[[], float] = field(default=time.monotonic)
    """Seconds since an arbitrary start; never steps back. Everything that waits goes by it."""
    unix_ms: Callable[[], int] = field(default=_unix_ms)
    """The machine's clock, which an operator may set. Only what others read carries it."""
    threads: Threads = field(default=OPERATING_SYSTEM)
    """Starts threads, and makes the locks, conditions and queues between them."""
    random_bits: Callable[[int], int] = field(default=_random_bits)
    """A random number of this many bits: ids are made of them."""
    open_file: Callable[[Path, str], TextIO] = field(default=_open_file)
    """Opens a file to write text into, by its path and mode."""
    connect: Callable[[str, int, float, ssl.SSLContext | None], Stream] = field(default=_connect)
    """Connects to a host and port, within seconds, under TLS if there is a context."""
    run_loop: Callable[[Coroutine[Any, Any, None]], None] = field(default=_run_loop)
    """Runs an event loop of asyncio to the end; who listens does so in one."""

    def new_id(self) -> str:
        """An id that nobody else has, as 32 hexadecimal digits."""
        return f"{self.random_bits(128):032x}"

    def steady_ms(self) -> int:
        """`monotonic` in whole milliseconds: what the machines get as `now_ms`."""
        return int(self.monotonic() * 1000)

    def deadline(self, timeout_s: float) -> Deadline:
        """The deadline that lies `timeout_s` seconds from now."""
        return Deadline(self.monotonic, self.monotonic() + timeout_s)

    def start(
        self,
        name: str,
        run: Callable[[], object],
        failed: Callable[[BaseException], None],
    ) -> Thread:
        """Start a thread; what ends it, if it is an exception, goes to `failed`.

        No thread is started in another way, so none dies in silence.
        """

        def guarded() -> None:
            try:
                run()
            except BaseException as error:
                failed(error)

        return self.threads.start(guarded, name)


REAL = Environment()
"""Kafka, this machine's clocks, threads of the operating system."""

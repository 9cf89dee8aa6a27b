"""A TCP proxy in front of each broker, whose links fail by command.

Clients and brokers reach a broker only through it, since the brokers advertise its ports. It
recognises a connection's process by the connection's source port, from `/proc` of Linux. So one
consumer, or one broker's replication, can be cut off while all others go on. It changes no byte,
and does not know Kafka's protocol.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from attrs import define, field, frozen

_CHUNK: Final = 64 * 1024
_RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER: closing sends RST."""
_END_S: Final = 0.01
_LOCALHOST: Final = ("0100007F", "0000000000000000FFFF00000100007F")
"""127.0.0.1 in `/proc/net`, in tables of IPv4 and IPv6."""


class Direction(Enum):
    """Where bytes go. The value is the name in output."""

    TO_BROKER = "to the broker"
    FROM_BROKER = "from the broker"


@frozen
class LinkFault:
    """What is wrong with some links."""

    broker: int | None = None
    """The broker at one end; None: each."""
    peer: str | None = None
    """The process at the other end; None: each."""
    directions: tuple[Direction, ...] = tuple(Direction)
    cut: bool = False
    """Nothing passes, connections stay open, and new ones are accepted: a black hole."""
    delay_s: float = 0.0
    """Every byte arrives this much later."""
    bytes_per_s: float | None = None
    """No more than this passes on each connection; None: no limit."""

    def ends(self) -> str:
        """Which links, in words."""
        far = "every broker" if self.broker is None else f"broker {self.broker}"
        return f"{self.peer or 'everybody'} and {far}"

    def sentence(self) -> str:
        """Which links, which direction, what."""
        ways = " and ".join(one.value for one in self.directions)
        what = "cut" if self.cut else f"{self.delay_s:.2f} s late"
        if self.bytes_per_s is not None:
            what = f"{self.bytes_per_s:,.0f} bytes/s"
        return f"{self.ends()}, {ways}: {what}"


@define(eq=False)
class _Connection:
    broker: int
    port: int
    """Of its other end."""
    peer: str | None = None
    ends: list[asyncio.StreamWriter] = field(factory=list)


def processes_of(ports: Collection[int], pids: Mapping[str, int]) -> dict[int, str]:
    """Whose connections from these ports of 127.0.0.1 they are, as far as it is one of these."""
    # Java connects from sockets of IPv6.
    wanted = {f"{host}:{port:04X}": port for port in ports for host in _LOCALHOST}
    inodes: dict[str, int] = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text(encoding="ascii").splitlines()[1:]:
            fields = line.split(maxsplit=10)
            if fields[1] in wanted:
                inodes[f"socket:[{fields[9]}]"] = wanted[fields[1]]
    found: dict[int, str] = {}
    for name, pid in reversed(list(pids.items())):  # who began last connects most
        if len(found) == len(inodes):
            break
        try:
            with os.scandir(f"/proc/{pid}/fd") as files:
                targets = {_target(file.path) for file in files}
        except OSError:
            continue  # it has ended
        found.update((inodes[target], name) for target in targets & inodes.keys())
    return found


def _target(path: str) -> str:
    try:
        return str(Path(path).readlink())
    except OSError:  # closed in between
        return ""


class Proxy:
    """Listens once for each broker, in a thread of its own; a context manager."""

    def __init__(
        self, brokers: Iterable[int], port_of: Callable[[int], int], pids: Mapping[str, int]
    ) -> None:
        """`port_of` a broker is asked at each connection; `pids` may change, and name processes."""
        self._port_of, self._pids = port_of, pids
        self._sockets = {broker: socket.create_server(("127.0.0.1", 0)) for broker in brokers}
        self.ports = {broker: one.getsockname()[1] for broker, one in self._sockets.items()}
        """What each broker is to advertise."""
        self._faults: list[LinkFault] = []
        self._connections: set[_Connection] = set()
        self._loop: asyncio.AbstractEventLoop
        self._changed: asyncio.Event
        self._ended: asyncio.Event
        self._thread = threading.Thread(target=self._run, name="chaos-proxy", daemon=True)
        self._serves = threading.Event()

    def __enter__(self) -> Self:
        self._thread.start()
        self._serves.wait()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()

    # --- faults, by any thread --------------------------------------------------------------------

    def begin(self, fault: LinkFault) -> None:
        """From now on this is wrong."""
        self._do(lambda: self._faults.append(fault))

    def end(self, fault: LinkFault) -> None:
        """It is mended; what waited goes on."""
        self._do(lambda: self._faults.remove(fault))

    def reset(self, broker: int | None = None, peer: str | None = None) -> int:
        """Reset the connections between them (RST); returns how many there were."""
        hit: list[_Connection] = []

        def abort() -> None:
            hit.extend(one for one in self._connections if _between(one, broker, peer))
            for one in hit:
                for end in one.ends:
                    _abort(end)

        self._do(abort)
        return len(hit)

    def peers(self) -> set[str]:
        """The processes that are connected, as far as they are known."""
        found: set[str] = set()
        self._do(lambda: found.update(one.peer for one in self._connections if one.peer))
        return found

    def _do(self, action: Callable[[], object]) -> None:
        """In the loop's thread; returns when it is done."""

        async def act() -> None:
            self._name_peers()
            action()
            self._changed.set()
            self._changed = asyncio.Event()

        asyncio.run_coroutine_threadsafe(act(), self._loop).result()

    # --- in the loop ------------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.run(self._main())

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._changed, self._ended = asyncio.Event(), asyncio.Event()
        for broker, listening in self._sockets.items():

            async def serve(
                reader: asyncio.StreamReader, writer: asyncio.StreamWriter, broker: int = broker
            ) -> None:
                await self._serve(broker, reader, writer)

            await asyncio.start_server(serve, sock=listening)
        self._serves.set()
        await self._ended.wait()
        # Python 3.11 prints a server's task that is cancelled, so each ends by itself.
        self._faults.clear()
        self._changed.set()
        while self._connections:
            for connection in self._connections:
                for end in connection.ends:
                    _abort(end)
            await asyncio.sleep(_END_S)

    def _name_peers(self) -> None:
        """Not at each connection: a look costs milliseconds, and nobody asks while all is well."""
        unnamed = [one for one in self._connections if one.peer is None]
        names = processes_of({one.port for one in unnamed}, self._pids)
        for one in unnamed:
            one.peer = names.get(one.port)

    async def _serve(
        self, broker: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        connection = _Connection(broker, writer.get_extra_info("peername")[1], ends=[writer])
        self._connections.add(connection)
        if any(one.peer for one in self._faults):
            self._name_peers()
        try:
            upstream, to_broker = await asyncio.open_connection("127.0.0.1", self._port_of(broker))
            connection.ends.append(to_broker)
            pumps = [
                asyncio.ensure_future(self._pump(connection, way, source, sink))
                for way, source, sink in (
                    (Direction.TO_BROKER, reader, to_broker),
                    (Direction.FROM_BROKER, upstream, writer),
                )
            ]
            # An end of one direction ends the other: Kafka's clients half-close nothing.
            _, left = await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for one in left:
                one.cancel()
        except OSError:
            pass  # nobody listens there: the client sees its connection closed
        finally:
            self._connections.discard(connection)
            for end in connection.ends:
                _abort(end)

    async def _pump(
        self,
        connection: _Connection,
        way: Direction,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
    ) -> None:
        late: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(maxsize=64)

        async def receive() -> None:
            while True:
                try:
                    data = await source.read(_CHUNK)
                except OSError:
                    data = b""
                await late.put((self._loop.time(), data))
                if not data:
                    return

        receiving = asyncio.ensure_future(receive())
        try:
            while True:
                arrived_s, data = await late.get()
                await self._hold(connection, way, arrived_s, len(data))
                if not data:
                    return
                sink.write(data)
                await sink.drain()
        except OSError:
            return
        finally:
            receiving.cancel()

    async def _hold(
        self, connection: _Connection, way: Direction, arrived_s: float, size: int
    ) -> None:
        """Wait until this chunk may pass; what is wrong may change meanwhile."""
        began_s = self._loop.time()
        while True:
            wrong = [
                one
                for one in self._faults
                if way in one.directions
                and one.broker in (None, connection.broker)
                and one.peer in (None, connection.peer)
            ]
            if not wrong:
                return
            left_s: float | None = None
            if not any(one.cut for one in wrong):
                until_s = arrived_s + max(one.delay_s for one in wrong)
                rates = [one.bytes_per_s for one in wrong if one.bytes_per_s is not None]
                if rates:
                    until_s = max(until_s, began_s + size / min(rates))
                left_s = until_s - self._loop.time()
                if left_s <= 0:
                    return
            try:
                await asyncio.wait_for(self._changed.wait(), left_s)
            except TimeoutError:
                return


def _between(connection: _Connection, broker: int | None, peer: str | None) -> bool:
    return broker in (None, connection.broker) and peer in (None, connection.peer)


def _abort(end: asyncio.StreamWriter) -> None:
    connected = end.get_extra_info("socket")
    if connected is not None and connected.fileno() >= 0:
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    end.transport.abort()

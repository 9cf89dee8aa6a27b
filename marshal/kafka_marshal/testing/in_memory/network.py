"""Connections in memory, in virtual time: bytes are delayed, split into pieces, or held back.

A connection has two ends. Each belongs to a thread that waits for bytes (`Stream` of
`client.connect.environment`), or to an event loop (`Transport` of asyncio). As with TCP, bytes
arrive in order, or the connection is reset. This module does not know what the bytes mean.
"""

from __future__ import annotations

import asyncio
import errno
import math
import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from attrs import define, field, frozen

from kafka_marshal.testing.in_memory.scheduler import ScheduledThread, Scheduler

BUFFERS: Final = 2**16
"""The bytes that a machine buffers for a slow reader; further ones wait at the sender."""
GIVES_UP_S: Final = 120.0
"""How long an event loop waits for its connection to be accepted, in seconds."""
_FREE_PORTS: Final = 40_000


@frozen
class Wire:
    """The network path from one process to another."""

    flows: bool = True
    """If false, bytes are retransmitted until it is true."""
    latency_s: float = 0.0
    """The latency in seconds."""
    jitter_s: float = 0.0
    """The maximum of additional latency, in seconds; if positive, bytes also arrive in pieces."""
    lost: float = 0.0
    """The probability of loss, from 0 to 1. Lost bytes are sent again, and later ones of the same
    connection wait for them. Other connections do not."""
    again_s: float = 0.0
    """The delay of a retransmission in seconds; it grows with each one, as in TCP."""


PROMPT: Final = Wire()
"""Bytes arrive at once."""


@define(eq=False, slots=False)
class _End:
    """One end of a connection."""

    network: InMemoryNetwork
    process: str
    """The process that it belongs to."""
    address: tuple[str, int]
    """The address of the other end."""
    other: _End = field(init=False, repr=False)
    incoming: deque[tuple[float, bytes | None]] = field(factory=deque)
    """Arrival times and data; b"": the other end sends no more; None: the connection is reset."""
    closed: bool = False
    """Whether it is closed for reading."""
    said_last: bool = False
    """Whether it sends no more."""

    def heard(self) -> None:
        """Called when data was sent to this end."""

    @property
    def due(self) -> bool:
        """Whether data has arrived."""
        return bool(self.incoming) and self.incoming[0][0] <= self.network.now_s()

    @property
    def unread(self) -> int:
        """The number of bytes sent to it and not yet taken."""
        return sum(len(data or b"") for _, data in self.incoming)

    def end(self, data: bytes | None = b"") -> None:
        """Close this end for reading, and notify the other one."""
        if self.closed:
            return
        unread = any(data for at_s, data in self.incoming if at_s <= self.network.now_s())
        self.closed = True
        self.incoming.clear()
        self.network.ends.remove(self)
        if data is None or unread:
            self.network.carry(self, None)
        elif not self.said_last:
            self.network.carry(self, b"")


@define(eq=False, slots=False)
class InMemoryStream(_End):
    """An end on which a thread waits."""

    _line: list[ScheduledThread] = field(factory=list)
    _failed: bool = False

    def heard(self) -> None:
        """Wake the thread."""
        self.network.scheduler.wake_all(self._line)

    def send(self, data: bytes, timeout_s: float) -> None:
        """Send all of the data."""
        self.network.scheduler.point()
        self._raise_if_over()
        self.network.carry(self, data)

    def receive(self, timeout_s: float) -> bytes:
        """The next piece; b"" if the other end sends no more."""
        if not self._arrives(timeout_s):
            raise TimeoutError
        self._raise_if_over()
        data = self.incoming[0][1]
        if data is None:
            self._failed = True
            self._raise_if_over()
            raise AssertionError
        if data:
            self.incoming.popleft()
        return data

    def wait(self, timeout_s: float) -> None:
        """Wait until data has arrived."""
        self._arrives(timeout_s)

    def close(self) -> None:
        """Close the connection."""
        self.end()

    def _raise_if_over(self) -> None:
        if self.closed:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        if self._failed:
            raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))

    def _arrives(self, timeout_s: float) -> bool:
        scheduler = self.network.scheduler
        until_s = self.network.now_s() + timeout_s
        scheduler.point()
        while not (self.due or self.closed):
            now_s = self.network.now_s()
            if now_s >= until_s:
                return False
            next_s = self.incoming[0][0] if self.incoming else math.inf
            scheduler.wait_once_in(self._line, min(until_s, next_s) - now_s)
        return True


@define(eq=False, slots=False)
class InMemoryTransport(_End, asyncio.Transport):
    """An end that belongs to an event loop."""

    loop: asyncio.AbstractEventLoop = field(kw_only=True)
    protocol: Any = None
    """An `asyncio.Protocol`; None until the loop has accepted the connection."""
    _paused: bool = False
    _closing: bool = False

    def __attrs_post_init__(self) -> None:
        asyncio.Transport.__init__(self)

    def begin(self, protocol: Any) -> None:
        """The loop has accepted the connection: from now on the protocol receives its data."""
        self.protocol = protocol
        protocol.connection_made(self)
        self._read()

    def heard(self) -> None:
        """Let the loop read the data when it arrives."""
        if not self.incoming or math.isinf(at_s := self.incoming[0][0]):
            return
        with suppress(RuntimeError):  # the loop has ended
            if at_s <= self.network.now_s():
                self.loop.call_soon_threadsafe(self._read)
            else:
                self.loop.call_soon_threadsafe(self.loop.call_at, at_s, self._read)

    def _read(self) -> None:
        while self.due and self.protocol is not None and not (self._paused or self._closing):
            data = self.incoming.popleft()[1]
            if data is None:
                self._over(ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)))
            elif data:
                self.protocol.data_received(data)
            elif not self.protocol.eof_received():
                self.close()
        if not (self.due or self._closing):
            self.heard()

    def _over(self, error: OSError | None) -> None:
        """Report the end to the protocol, and nothing more after it."""
        if not self._closing:
            self._closing = True
            self.loop.call_soon(self.protocol.connection_lost, error)
        self.end(None if error is not None else b"")

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Only the address of the other end is known."""
        return self.address if name == "peername" else default

    def is_closing(self) -> bool:
        """Whether it is closed or closing."""
        return self._closing

    def is_reading(self) -> bool:
        """Whether it passes data to the protocol."""
        return not (self._paused or self._closing)

    def pause_reading(self) -> None:
        """Pass no data to the protocol until `resume_reading`."""
        self._paused = True

    def resume_reading(self) -> None:
        """Pass data to the protocol again."""
        if self._paused:
            self._paused = False
            self.loop.call_soon(self._read)

    def write(self, data: Any) -> None:
        """Send data."""
        if not (self.closed or self.said_last):
            self.network.carry(self, bytes(data))

    def get_write_buffer_size(self) -> int:
        """The number of bytes that are not sent yet."""
        return max(0, self.other.unread - BUFFERS)

    def can_write_eof(self) -> bool:
        """Returns True."""
        return True

    def write_eof(self) -> None:
        """Send no more after the written data."""
        if not (self.closed or self.said_last):
            self.said_last = True
            self.network.carry(self, b"")

    def close(self) -> None:
        """Close it after the written data."""
        self._over(None)

    def abort(self) -> None:
        """Close it at once."""
        if not self._closing:
            self._closing = True
            self.loop.call_soon(self.protocol.connection_lost, None)
        self.end(None)


@define(eq=False, slots=False)
class InMemoryServer:
    """A listening loop, with the methods of `asyncio.Server` that are used."""

    network: InMemoryNetwork
    process: str
    address: tuple[str, int]
    loop: asyncio.AbstractEventLoop
    make: Callable[[], Any]
    """Makes the protocol of a new connection."""

    @property
    def sockets(self) -> list[InMemoryServer]:
        """Its only socket."""
        return [self]

    def getsockname(self) -> tuple[str, int]:
        """The address on which it listens."""
        return self.address

    def close(self) -> None:
        """Stop accepting connections."""
        if self.network.servers.get(self.address) is self:
            del self.network.servers[self.address]


class InMemoryNetwork:
    """Listening servers and open connections. A test controls the paths of bytes by `wires`."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.servers: dict[tuple[str, int], InMemoryServer] = {}
        self.ends: list[_End] = []
        """Both ends of each open connection."""
        self.wires: Callable[[str, str], Wire] = lambda *_: PROMPT
        """Returns the path from one process to another, by their names."""
        self.hosts: Callable[[str], str] = lambda process: process
        """Returns the address of a process, as others see it."""
        self.ports = _FREE_PORTS

    def now_s(self) -> float:
        """The time, in seconds."""
        return self.scheduler.clock.monotonic()

    # --- connecting -------------------------------------------------------------------------------

    def listen(
        self, loop: asyncio.AbstractEventLoop, make: Callable[[], Any], host: str, port: int
    ) -> InMemoryServer:
        """Listen at an address; port 0 means any free port."""
        if not port:
            port = self.ports = self.ports + 1
        if (host, port) in self.servers:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        server = InMemoryServer(self, self.scheduler.current.process, (host, port), loop, make)
        self.servers[host, port] = server
        return server

    def connect(self, host: str, port: int, timeout_s: float, tls: Any = None) -> InMemoryStream:
        """Connect a thread, which waits until the connection is accepted."""
        assert tls is None, "there is no TLS in memory"
        process = self.scheduler.current.process
        takes_s = self._takes_s(process, host, port)
        self.scheduler.sleep(min(takes_s, timeout_s))
        if takes_s > timeout_s:
            raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
        end = InMemoryStream(self, process, (host, port))
        self._accept(end, host, port)
        return end

    async def connect_loop(
        self, loop: asyncio.AbstractEventLoop, make: Callable[[], Any], host: str, port: int
    ) -> tuple[InMemoryTransport, Any]:
        """Connect a loop."""
        process = self.scheduler.current.process
        takes_s = self._takes_s(process, host, port)
        await asyncio.sleep(min(takes_s, GIVES_UP_S))
        if takes_s > GIVES_UP_S:
            raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
        end = InMemoryTransport(self, process, (host, port), loop=loop)
        self._accept(end, host, port)
        protocol = make()
        end.begin(protocol)
        return end, protocol

    def _takes_s(self, process: str, host: str, port: int) -> float:
        """The time until a machine has accepted or refused; infinite without an answer."""
        server = self.servers.get((host, port))
        to = host if server is None else server.process
        there, back = self.wires(process, to), self.wires(to, process)
        return there.latency_s + back.latency_s if there.flows and back.flows else math.inf

    def _accept(self, end: _End, host: str, port: int) -> None:
        server = self.servers.get((host, port))
        if server is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        seen = self.hosts(end.process), self.ports
        theirs = InMemoryTransport(self, server.process, seen, loop=server.loop)
        end.other, theirs.other = theirs, end
        self.ends += [end, theirs]

        def accept() -> None:
            if not theirs.closed:
                theirs.begin(server.make())

        server.loop.call_soon_threadsafe(accept)

    # --- what is sent -----------------------------------------------------------------------------

    def carry(self, sender: _End, data: bytes | None) -> None:
        """Send data to the other end; None: reset the connection."""
        receiver = sender.other
        if receiver.closed:
            if data and not sender.closed:
                self.carry(receiver, None)
            return
        wire = self.wires(sender.process, receiver.process)
        for piece in self._pieces(data, wire):
            at_s = self._arrives_s(wire)
            if receiver.incoming:
                at_s = max(at_s, receiver.incoming[-1][0])
            receiver.incoming.append((at_s, piece))
        receiver.heard()

    def _arrives_s(self, wire: Wire) -> float:
        if not wire.flows:
            return math.inf
        chance = self.scheduler.chance
        more_s = wire.jitter_s and chance.uniform(0.0, wire.jitter_s)
        if wire.lost and chance.random() < wire.lost:
            more_s += wire.again_s
        return self.now_s() + wire.latency_s + more_s

    def _pieces(self, data: bytes | None, wire: Wire) -> list[bytes | None]:
        chance = self.scheduler.chance
        if not data or not wire.jitter_s or chance.random() < 0.5:
            return [data]
        cut = chance.randint(1, len(data))
        return [piece for piece in (data[:cut], data[cut:]) if piece]

    # --- what goes wrong --------------------------------------------------------------------------

    def rewired(self) -> None:
        """`wires` has changed: data in flight may arrive now, or not any more."""
        for end in self.ends:
            wire = self.wires(end.other.process, end.process)
            held = [piece for at_s, piece in end.incoming if math.isinf(at_s)]
            if held and wire.flows:
                there = [one for one in end.incoming if not math.isinf(one[0])]
                end.incoming = deque(there)
                for piece in held:
                    last_s = end.incoming[-1][0] if end.incoming else 0.0
                    end.incoming.append((max(self._arrives_s(wire), last_s), piece))
                end.heard()

    def reset(self, end: _End) -> None:
        """Reset a connection: all data in flight is lost, even the rest of a message."""
        for each in (end, end.other):
            if not each.closed:
                kept = [one for one in each.incoming if one[0] <= self.now_s()]
                each.incoming = deque([*kept, (self.now_s(), None)])
                each.heard()

    def died(self, process: str, *, silently: bool = False) -> None:
        """A process was killed. Its machine closes its connections, unless it failed too."""
        for server in [one for one in self.servers.values() if one.process == process]:
            server.close()
        for end in [one for one in self.ends if one.process == process]:
            if silently:
                end.closed = True
                end.incoming.clear()
                self.ends.remove(end)
            else:
                end.end(None)

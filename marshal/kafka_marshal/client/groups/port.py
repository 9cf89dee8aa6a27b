"""A controller's listening socket: connections, frames, and limits for each client.

Any received bytes become requests, or end the connection, and do nothing else. This module knows
sockets and TLS. It does not know what a request means; its receiver runs in the same thread.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol, cast

from attrs import field, frozen

from kafka_marshal.client.observe.controller_observers import (
    AnsweredRequest,
    ControllerObserver,
    HungUp,
)
from kafka_marshal.core.validators import positive
from kafka_marshal.errors import InvalidOption
from kafka_marshal.rpc.codec import (
    Frames,
    Malformed,
    RefusedRequest,
    RpcAnswer,
    RpcRequest,
    Unencodable,
    decode_request,
    encode_answer,
    refusal,
)
from kafka_marshal.rpc.error_codes import ErrorCode
from kafka_marshal.rpc.fields import Body

SWEEP_S: Final = 0.5
"""How often it looks which connections are late, in seconds."""
_SESSION_S_MAX: Final = 30 * 60.0
_FLUSH_S: Final = 1.0
"""The time for a client to receive its last answers, in seconds."""
_LOOK_S: Final = 0.01
_OF_MEMBERS: Final = {
    "RegisterConsumer": {ErrorCode.NONE},
    "Heartbeat": {ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS},
}
"""Answers that only a member gets. A member does not register again after a failover."""
REFUSED_MAX: Final = 100
"""The most connections beyond a limit that wait for their first request, which is answered with the
reason. Further ones are closed at once."""


@frozen
class PortLimits:
    """The limits for all clients, for one host and for one connection."""

    connections_max: int = field(default=10_000, validator=positive)
    strangers_max: int = field(default=1_000, validator=positive)
    """The most connections of one host without a known member. When a controller dies, all members
    of a host connect at once, and a group may have this many. A connection stops counting when its
    member's first request is answered."""
    unread_bytes_max: int = field(default=2**20, validator=positive)
    """Answers that one client does not read, before it gets another one."""
    unanswered_max: int = field(default=64, validator=positive)
    """Requests of one connection without an answer; further ones are read after that."""
    half_frame_s: float = field(default=10.0, validator=positive)
    """From the first byte of a request to its last; also for the handshake of TLS."""
    idle_s: float = field(default=60.0, validator=positive)
    """How long a connection without a member may be idle, in seconds. With a member, the limit is
    two session timeouts."""


class Receiver(Protocol):
    """Receives requests. A connection has a number, which is never used again."""

    def connected(self, connection: int, host: str) -> None:
        """A client has connected."""

    def requested(self, connection: int, request: RpcRequest) -> None:
        """A client has sent a request; `Port.answer` may be called at once, or later."""

    def disconnected(self, connection: int) -> None:
        """It is gone."""


class _Asked(NamedTuple):
    """A request without an answer."""

    api: str
    client_id: str
    group: str
    came_s: float


class Port:
    """A listening socket and its connections, in the thread of one event loop."""

    def __init__(
        self,
        receiver: Receiver,
        observer: ControllerObserver,
        monotonic: Callable[[], float],
        limits: PortLimits | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.receiver = receiver
        self.observer = observer
        self.monotonic = monotonic
        self.limits = limits or PortLimits()
        self.tls = tls
        self.strangers: Counter[str] = Counter()
        """The number of connections without a known member, by host."""
        self.peers: dict[int, Peer] = {}
        """Connections that were passed to the receiver."""
        self.open = 0
        """Connections within the limits, also those whose handshake is not over."""
        self.refused = 0
        """The number of connections beyond a limit. They do not count against it."""
        self.owed: Counter[str] = Counter()
        """Requests without an answer, by api."""
        self._last_number = 0
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.Task[None] | None = None

    async def listen(self, host: str, port: int) -> tuple[str, int]:
        """Start listening, and return the address; port 0 means any free port.

        Raises:
            InvalidOption: it cannot listen there.
        """
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(lambda: Peer(self), host, port, backlog=1024)
        except OSError as error:
            raise InvalidOption(f"cannot listen at {host}:{port}: {_reason(error)}") from None
        self._sweeper = loop.create_task(self._sweep())
        found = self._server.sockets[0].getsockname()
        return str(found[0]), int(found[1])

    def new_number(self) -> int:
        """The next connection's."""
        self._last_number += 1
        return self._last_number

    def answer(self, connection: int, answer: RpcAnswer) -> None:
        """Send an answer; nothing happens if the client is gone."""
        peer = self.peers.get(connection)
        if peer is not None:
            peer.answer(answer)

    def certificate(self, connection: int) -> Mapping[str, Any]:
        """The client's certificate, in the form of `ssl`; empty without one."""
        peer = self.peers.get(connection)
        return {} if peer is None else peer.certificate

    def hang_up(self, connection: int, why: HungUp, detail: str) -> None:
        """Close a connection after its answers were sent."""
        peer = self.peers.get(connection)
        if peer is not None:
            peer.hang_up(why, detail)

    def stop_listening(self) -> None:
        """Accept no more connections; existing ones stay open."""
        if self._server is not None:
            self._server.close()

    async def close(self) -> None:
        """Stop listening, and close all connections after their answers were sent."""
        self.stop_listening()
        if self._sweeper is not None:
            self._sweeper.cancel()
        for peer in list(self.peers.values()):
            peer.hang_up(HungUp.STOPPED, "the controller stops")
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + _FLUSH_S
        while self.peers and loop.time() < deadline_s:
            await asyncio.sleep(_LOOK_S)
        for peer in list(self.peers.values()):
            peer.abort()
        await asyncio.sleep(0)  # each connection's callback runs

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            now_s = self.monotonic()
            for peer in list(self.peers.values()):
                peer.look(now_s)


class Peer(asyncio.Protocol):
    """One connection."""

    def __init__(self, port: Port) -> None:
        self._port = port
        self._limits = port.limits
        self._frames = Frames()
        self._arrived: deque[bytes] = deque()
        """Messages that are whole and wait until earlier ones are answered."""
        self._asked: dict[int, list[_Asked]] = {}
        """By CorrelationId, the apis of requests without an answer, and their arrival times."""
        self._unanswered = 0
        self._transport: asyncio.Transport | None = None
        self._handshake: asyncio.Task[None] | None = None
        self.number = 0
        self.host = ""
        self._idle_s = self._limits.idle_s
        self._heard_s = self._begun_s = 0.0
        """When data arrived last, and when the current incomplete frame began."""
        self._is_counted = self._is_of_member = self._closing = False
        self._session_s = _SESSION_S_MAX
        """The session timeout of its member, as it was named last."""
        self._refused = ""
        """Which connections are too many: its first request is answered so, and no other one."""
        self._close_by_s: float | None = None
        self._working = False

    # --- called by asyncio ------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected: accept or refuse it."""
        port = self._port
        self._transport = cast("asyncio.Transport", transport)
        peer_name = transport.get_extra_info("peername")
        self.host = str(peer_name[0]) if peer_name else "?"
        self._heard_s = port.monotonic()
        self._is_counted = True
        if port.open >= self._limits.connections_max:
            self._refused = "there are too many connections"
        elif port.strangers[self.host] >= self._limits.strangers_max:
            self._refused = "there are too many connections of this host without a member"
        if self._refused:
            port.refused += 1
            self._idle_s = min(self._idle_s, self._limits.half_frame_s)
        else:
            port.open += 1
            port.strangers[self.host] += 1
        if port.refused > REFUSED_MAX:
            self._hung_up(HungUp.TOO_MANY, self._refused)
            self.abort()
            return
        if port.tls is None:
            self._let_in()
        else:
            # The handshake begins here, so that connections are counted that do not end it.
            self._transport.pause_reading()
            self._handshake = asyncio.get_running_loop().create_task(self._shake_hands(port.tls))

    def data_received(self, data: bytes) -> None:
        """Data has arrived."""
        if self._closing:
            return
        self._heard_s = self._port.monotonic()
        if not self._frames.waits:
            self._begun_s = self._heard_s
        try:
            for message in self._frames.fed(data):
                self._arrived.append(message)
                self._begun_s = self._heard_s
        except Malformed as error:
            self._work()
            self.hang_up(HungUp.MALFORMED, str(error))
            return
        self._work()

    def eof_received(self) -> bool:
        """The client sends no more, so the connection ends."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        self._gone()

    # --- called by the port -----------------------------------------------------------------------

    @property
    def certificate(self) -> Mapping[str, Any]:
        """The client's; empty without one."""
        return (self._transport and self._transport.get_extra_info("peercert")) or {}

    def answer(self, answer: RpcAnswer) -> None:
        """Send an answer."""
        code = answer.code
        self._settle(answer)
        if code in _OF_MEMBERS.get(answer.api.name, ()):
            self._note_session(answer.body)
            self._is_stranger_no_more(2 * self._session_s)
        try:
            frame = encode_answer(answer)
        except Unencodable as error:
            code = ErrorCode.MESSAGE_TOO_LARGE
            self._port.observer.note(f"{self.host}: {answer.api.name} has no answer: {error}")
            frame = encode_answer(refusal(answer.api, answer.version, answer.correlation_id, code))
        self._write(frame)
        if self._arrived and not self._working:
            self._work()

    def hang_up(self, why: HungUp, detail: str) -> None:
        """End the connection, after the written bytes are sent."""
        if self._closing or self._transport is None:
            return
        self._closing = True
        self._arrived.clear()
        self._close_by_s = self._port.monotonic() + _FLUSH_S
        self._hung_up(why, detail)
        if self._transport.can_write_eof():
            # Closed with something unread, the socket would reset, and the client lose the answer.
            self._transport.resume_reading()
            try:
                self._transport.write_eof()
            except OSError:  # the client has reset it, and the loop does not know it yet
                self.abort()
        else:
            self._transport.close()

    def abort(self) -> None:
        """End it at once."""
        self._closing = True
        if self._transport is not None:
            self._transport.abort()

    def look(self, now_s: float) -> None:
        """Hang up if the client is late."""
        limits = self._limits
        if self._close_by_s is not None:
            if now_s > self._close_by_s:
                self.abort()
        elif self._arrived:
            self._begun_s = now_s  # the next request is not read yet
        elif self._frames.waits and now_s > self._begun_s + limits.half_frame_s:
            self.hang_up(HungUp.HALF_FRAME, f"half a request for {limits.half_frame_s:g} s")
        elif not self._unanswered and now_s > self._heard_s + self._idle_s:
            self.hang_up(HungUp.IDLE, f"nothing came for {self._idle_s:g} s")

    # --- within -----------------------------------------------------------------------------------

    async def _shake_hands(self, tls: ssl.SSLContext) -> None:
        assert self._transport is not None
        loop = asyncio.get_running_loop()
        try:
            secured = await loop.start_tls(
                self._transport,
                self,
                tls,
                server_side=True,
                ssl_handshake_timeout=self._limits.half_frame_s,
            )
        except OSError as error:  # also ssl.SSLError and a time-out
            self._hung_up(HungUp.TLS, f"no TLS: {_reason(error)}")
            self.abort()
            self._gone()
            return
        if secured is None or self._transport.is_closing():
            self._gone()
            return
        self._transport = secured
        self._let_in()

    def _let_in(self) -> None:
        port = self._port
        self.number = port.new_number()
        port.peers[self.number] = self
        port.observer.connected(self.host)
        if not self._refused:
            port.receiver.connected(self.number, self.host)
        self._work()  # with TLS, requests may have come with the end of the handshake

    def _gone(self) -> None:
        port = self._port
        self._closing = True
        if self._is_counted:
            self._is_counted = False
            if self._refused:
                port.refused -= 1
            else:
                port.open -= 1
                self._is_stranger_no_more(0)
        for asked in self._asked.values():
            for each in asked:
                self._owes_no_more(each.api)
        self._asked.clear()
        if port.peers.pop(self.number, None) is not None:
            port.observer.disconnected(self.host)
            if not self._refused:
                port.receiver.disconnected(self.number)

    def _note_session(self, body: Body) -> None:
        timeout_ms = body.get("SessionTimeout")
        if isinstance(timeout_ms, int):
            self._session_s = min(timeout_ms / 1000, _SESSION_S_MAX)

    def _is_stranger_no_more(self, idle_s: float) -> None:
        """Its member is known, or the connection has ended: it stops counting for its host."""
        self._idle_s = max(self._limits.idle_s, idle_s)
        if not self._is_of_member:
            self._is_of_member = True
            self._port.strangers[self.host] -= 1
            if not self._port.strangers[self.host]:
                del self._port.strangers[self.host]

    def _work(self) -> None:
        """Pass on complete requests, unless too many wait for an answer."""
        if not self.number:
            return
        self._working = True
        try:
            while self._arrived and not self._closing:
                if self._unanswered >= self._limits.unanswered_max:
                    break
                self._take(self._arrived.popleft())
        finally:
            self._working = False
        if self._transport is not None and not self._closing:
            # The waiting bytes are bounded by those of one read.
            if self._arrived:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def _take(self, message: bytes) -> None:
        port = self._port
        try:
            request = decode_request(message)
        except RefusedRequest as error:
            told = AnsweredRequest(error.answer.api.name, error.code, 0.0, self.host)
            port.observer.answered(told)
            self._write(encode_answer(error.answer))
            if error.code is ErrorCode.INVALID_REQUEST:
                self.hang_up(HungUp.MALFORMED, f"{error.answer.api.name}: {error}")
            return
        except Malformed as error:
            self.hang_up(HungUp.MALFORMED, str(error))
            return
        self._unanswered += 1
        self._note_session(request.body)
        port.owed[request.api.name] += 1
        named = request.body.get("ConsumerGroup")
        group = named if isinstance(named, str) else ""  # a DeleteGroup names several
        asked = _Asked(request.api.name, request.client_id, group, port.monotonic())
        self._asked.setdefault(request.correlation_id, []).append(asked)
        if self._refused:
            code = ErrorCode.THROTTLING_QUOTA_EXCEEDED
            self.answer(refusal(request.api, request.version, request.correlation_id, code))
            self.hang_up(HungUp.TOO_MANY, self._refused)
            return
        port.receiver.requested(self.number, request)

    def _settle(self, answer: RpcAnswer) -> None:
        """A request has its answer."""
        asked = self._asked.get(answer.correlation_id)
        if not asked:
            return  # there is no such request
        settled = asked.pop(0)
        if not asked:
            del self._asked[answer.correlation_id]
        self._owes_no_more(settled.api)
        self._unanswered -= 1
        now_s = self._port.monotonic()
        self._heard_s = now_s  # it could not send more while it waited
        self._port.observer.answered(
            AnsweredRequest(
                answer.api.name,
                answer.code,
                now_s - settled.came_s,
                self.host,
                settled.client_id,
                settled.group,
            )
        )

    def _owes_no_more(self, api: str) -> None:
        self._port.owed[api] -= 1
        if not self._port.owed[api]:
            del self._port.owed[api]

    def _write(self, frame: bytes) -> None:
        if self._closing or self._transport is None or self._transport.is_closing():
            return
        if self._transport.get_write_buffer_size() > self._limits.unread_bytes_max:
            self._hung_up(HungUp.UNREAD, "its answers are not read")
            self.abort()
        else:
            self._transport.write(frame)  # however large: one may be larger than the bound

    def _hung_up(self, why: HungUp, detail: str) -> None:
        self._port.observer.hung_up(self.host, why, detail)


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return error.reason or str(error)
    return (os.strerror(error.errno) if error.errno else str(error)) or type(error).__name__

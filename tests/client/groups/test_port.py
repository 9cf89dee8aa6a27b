"""Marshal promises that no bytes and no client cost a controller more than they may."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
import trustme
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_marshal.client.groups import port
from kafka_marshal.client.groups.connection import Address, ServerConnection
from kafka_marshal.client.groups.port import Peer, Port, PortLimits
from kafka_marshal.client.observe.controller_observers import (
    AnsweredRequest,
    ControllerObserver,
    HungUp,
    LoggingControllerObserver,
)
from kafka_marshal.rpc.apis import BY_NAME
from kafka_marshal.rpc.codec import (
    ANSWER_BYTES_MAX,
    Frames,
    RpcAnswer,
    RpcRequest,
    decode_answer,
    encode_request,
    refusal,
)
from kafka_marshal.rpc.error_codes import ErrorCode
from kafka_marshal.rpc.fields import Body, Value

HEARTBEAT = BY_NAME["Heartbeat"]
REGISTER = BY_NAME["RegisterConsumer"]


def heartbeat(correlation_id: int = 1) -> bytes:
    return encode_request(RpcRequest(HEARTBEAT, 0, correlation_id, "c", {"SessionTimeout": 5}))


def register(correlation_id: int = 1) -> bytes:
    body: Any = {"ConsumerGroup": "g", "ConsumerId": "m"}
    return encode_request(RpcRequest(REGISTER, 0, correlation_id, "c", body))


class Heard(ControllerObserver):
    """What the port says of itself."""

    def __init__(self) -> None:
        self.hung_up_for: list[HungUp] = []
        self.codes: list[ErrorCode] = []

    def hung_up(self, host: str, why: HungUp, detail: str) -> None:
        self.hung_up_for.append(why)

    def answered(self, request: AnsweredRequest) -> None:
        self.codes.append(request.code)


class Answering:
    """A receiver that answers everything at once, or keeps it."""

    def __init__(self, *, at_once: bool = True) -> None:
        self.at_once = at_once
        self.port: Port
        self.open: set[int] = set()
        self.ever: Counter[int] = Counter()
        self.requests: list[tuple[int, RpcRequest]] = []

    def connected(self, connection: int, host: str) -> None:
        self.ever[connection] += 1
        self.open.add(connection)

    def requested(self, connection: int, request: RpcRequest) -> None:
        assert connection in self.open
        self.requests.append((connection, request))
        if self.at_once:
            self.answer(connection, request)

    def answer(self, connection: int, request: RpcRequest) -> None:
        answer = refusal(request.api, request.version, request.correlation_id, ErrorCode.NONE)
        self.port.answer(connection, answer)

    def disconnected(self, connection: int) -> None:
        self.open.remove(connection)


async def until_async(true: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not true():
            await asyncio.sleep(0.005)


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Listening:
    """A port, its receiver, its clock, and where it listens."""

    def __init__(
        self, limits: PortLimits | None = None, tls: ssl.SSLContext | None = None, **how: bool
    ) -> None:
        self.clock, self.heard, self.receiver = Clock(), Heard(), Answering(**how)
        self.port = Port(self.receiver, self.heard, self.clock, limits, tls)
        self.receiver.port = self.port
        self.at = ("", 0)
        self.clients: list[Client] = []

    async def client(self, tls: ssl.SSLContext | None = None) -> Client:
        name = "localhost" if tls else None
        client = Client(*await asyncio.open_connection(*self.at, ssl=tls, server_hostname=name))
        self.clients.append(client)
        return client


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer, self.frames = reader, writer, Frames(ANSWER_BYTES_MAX)
        self.messages: list[bytes] = []

    async def message(self) -> bytes | None:
        """The next one; None when the server has hung up."""
        while not self.messages:
            try:
                data = await asyncio.wait_for(self.reader.read(2**16), 10)
            except ConnectionError:
                return None
            if not data:
                return None
            self.messages.extend(self.frames.fed(data))
        return self.messages.pop(0)

    async def code(self, api: str = "Heartbeat") -> ErrorCode | None:
        message = await self.message()
        return None if message is None else decode_answer(BY_NAME[api], message).code

    async def asks(self, *frames: bytes, api: str = "Heartbeat") -> ErrorCode | None:
        self.writer.write(b"".join(frames))
        return await self.code(api)


async def connections(it: Listening, count: int) -> list[int]:
    """Their numbers, once there are that many."""
    await until_async(lambda: len(it.receiver.open) == count)
    return sorted(it.receiver.open)


@asynccontextmanager
async def listening(
    limits: PortLimits | None = None, tls: ssl.SSLContext | None = None, **how: bool
) -> AsyncIterator[Listening]:
    it = Listening(limits, tls, **how)
    it.at = await it.port.listen("127.0.0.1", 0)
    try:
        yield it
    finally:
        for client in it.clients:
            client.writer.transport.abort()
        await it.port.close()
        await until_async(lambda: not it.port.open + it.port.refused)
        assert not it.receiver.open
        assert not it.port.strangers
        assert set(it.receiver.ever.values()) <= {1}


def story(
    tell: Callable[[], Awaitable[None]],
) -> Callable[[], None]:
    """A test in an event loop."""

    def told() -> None:
        asyncio.run(cast("Any", tell()))

    told.__name__ = tell.__name__
    return told


@story
async def test_requests_are_answered_in_pieces_and_together() -> None:
    async with listening() as it:
        client = await it.client()
        frame = heartbeat()
        client.writer.write(frame[:7])
        await client.writer.drain()
        assert await client.asks(frame[7:]) is ErrorCode.NONE
        assert await client.asks(*map(heartbeat, range(200))) is ErrorCode.NONE
        for _ in range(199):
            assert await client.code() is ErrorCode.NONE


@story
async def test_malformed_requests_are_answered_42_and_closed() -> None:
    async with listening() as it:
        client = await it.client()
        message = heartbeat()[4:] + b"left over"
        garbage = b"\xff" * 100_000  # a reset would take the answer along
        assert (
            await client.asks(len(message).to_bytes(4, "big") + message, garbage)
            is ErrorCode.INVALID_REQUEST
        )
        assert await client.code() is None
        assert it.heard.hung_up_for == [HungUp.MALFORMED]
        other = await it.client()
        assert await other.asks(b"\x00\x00\x00\x0c" + b"\x7f" * 12) is None
        assert not it.receiver.requests


@story
async def test_an_unknown_version_is_answered_35_and_the_connection_stays() -> None:
    async with listening() as it:
        client = await it.client()
        frame = bytearray(heartbeat())
        frame[7] = 9
        assert await client.asks(bytes(frame)) is ErrorCode.UNSUPPORTED_VERSION
        assert await client.asks(heartbeat()) is ErrorCode.NONE


@story
async def test_half_a_request_and_silence_are_hung_up_on() -> None:
    async with listening() as it:
        half, idle, member = [await it.client() for _ in range(3)]
        assert await member.asks(register(), api="RegisterConsumer") is ErrorCode.NONE
        half.writer.write(heartbeat()[:9])
        await connections(it, 3)
        await until_async(lambda: any(peer._frames.waits for peer in it.port.peers.values()))
        it.clock.now_s = 9.9
        half.writer.write(b"\0")  # a byte now and then does not help
        await asyncio.sleep(0)
        it.clock.now_s = 10.1
        assert await half.code() is None
        it.clock.now_s = 60.1
        assert await idle.code() is None
        assert it.heard.hung_up_for == [HungUp.HALF_FRAME, HungUp.IDLE]
        assert await member.asks(heartbeat()) is ErrorCode.NONE


@story
async def test_who_waits_for_an_answer_is_not_idle() -> None:
    async with listening(at_once=False) as it:
        client = await it.client()
        client.writer.write(heartbeat())
        await until_async(lambda: bool(it.receiver.requests))
        it.clock.now_s = 1_000.0
        for peer in it.port.peers.values():
            peer.look(it.clock.now_s)
        it.receiver.answer(*it.receiver.requests[0])
        assert await client.code() is ErrorCode.NONE


@story
async def test_who_does_not_read_is_cut_off() -> None:
    async with listening(at_once=False) as it:
        client = await it.client()
        client.reader._limit = 1  # type: ignore[attr-defined]  # so that nothing is read ahead
        groups = BY_NAME["ListGroups"]
        body = {**refusal(groups, 0, 1, ErrorCode.NONE).body, "ClientId": "x" * 30_000}
        [connection] = await connections(it, 1)
        while not it.heard.hung_up_for:
            it.port.answer(connection, RpcAnswer(groups, 0, 1, body))
            await asyncio.sleep(0)
        assert it.heard.hung_up_for == [HungUp.UNREAD]


@story
async def test_requests_wait_while_too_many_have_no_answer() -> None:
    async with listening(PortLimits(unanswered_max=3), at_once=False) as it:
        client = await it.client()
        client.writer.write(b"".join(map(heartbeat, range(10))))
        await until_async(lambda: len(it.receiver.requests) == 3)
        for number in range(10):
            while len(it.receiver.requests) <= number:
                await asyncio.sleep(0)
            assert len(it.receiver.requests) <= number + 3
            it.receiver.answer(*it.receiver.requests[number])
            message = await client.message()
            assert message is not None
            assert decode_answer(HEARTBEAT, message).correlation_id == number


@story
async def test_a_host_has_a_share_of_the_connections_until_its_members_are_heard_of() -> None:
    async with listening(PortLimits(strangers_max=2)) as it:
        first, second = [await it.client() for _ in range(2)]
        third = await it.client()
        assert await third.asks(heartbeat()) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert await third.code() is None
        assert it.port.open == 2
        assert await first.asks(register(), api="RegisterConsumer") is ErrorCode.NONE
        fourth = await it.client()
        assert await fourth.asks(heartbeat()) is ErrorCode.NONE
        assert await second.asks(heartbeat()) is ErrorCode.NONE
        # They were members before a failover, and do not register again.
        fifth, sixth = [await it.client() for _ in range(2)]
        assert await fifth.asks(heartbeat()) is ErrorCode.NONE
        assert await sixth.asks(heartbeat()) is ErrorCode.NONE


@story
async def test_a_host_whose_heartbeats_are_refused_frees_no_place() -> None:
    async with listening(PortLimits(strangers_max=1), at_once=False) as it:
        first = await it.client()
        first.writer.write(heartbeat())
        await until_async(lambda: bool(it.receiver.requests))
        connection, asked = it.receiver.requests[0]
        code = ErrorCode.UNKNOWN_MEMBER_ID
        it.port.answer(connection, refusal(HEARTBEAT, 0, asked.correlation_id, code))
        assert await first.code() is code
        assert await (await it.client()).asks(heartbeat()) is ErrorCode.THROTTLING_QUOTA_EXCEEDED


@story
async def test_an_answer_may_be_larger_than_what_may_wait_unread() -> None:
    async with listening(PortLimits(unread_bytes_max=1), at_once=False) as it:
        client = await it.client()
        groups = BY_NAME["ListGroups"]
        client.writer.write(encode_request(RpcRequest(groups, 0, 7, "c", {"ConsumerGroups": []})))
        await until_async(lambda: bool(it.receiver.requests))
        connection, _ = it.receiver.requests[0]
        info: Body = {
            "GroupName": "g",
            "GroupMembers": list[Value](["m" * 30_000] * 139),
            "Topics": [],
            "ControllerBroker": {"BrokerId": -1, "Host": "", "Port": 0},
            "SessionTimeout": 1,
        }
        body: Body = {**refusal(groups, 0, 7, ErrorCode.NONE).body, "GroupsInfo": [info]}
        it.port.answer(connection, RpcAnswer(groups, 0, 7, body))
        assert await client.code("ListGroups") is ErrorCode.NONE


@story
async def test_a_connection_that_its_client_has_reset_can_be_hung_up() -> None:
    async with listening() as it:
        with socket.create_connection(it.at) as client:
            [connection] = await connections(it, 1)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        it.port.hang_up(connection, HungUp.CONTROLLER, "before the loop has heard of the reset")
        await connections(it, 0)


@story
async def test_connections_above_the_limit_are_answered_so_and_closed() -> None:
    async with listening(PortLimits(connections_max=1)) as it:
        first = await it.client()
        assert await first.asks(heartbeat()) is ErrorCode.NONE
        second = await it.client()
        assert await second.asks(heartbeat()) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert await second.code() is None
        assert it.heard.hung_up_for == [HungUp.TOO_MANY]
        first.writer.close()
        await until_async(lambda: not it.port.open)
        assert await (await it.client()).asks(heartbeat()) is ErrorCode.NONE


@story
async def test_who_is_refused_takes_no_place_from_others() -> None:
    """Those that are refused come back at once, so there are always some of them."""
    async with listening(PortLimits(connections_max=2, strangers_max=1)) as it:
        first = await it.client()
        assert await first.asks(heartbeat()) is ErrorCode.NONE
        second = await it.client()
        await until_async(lambda: it.port.open == 2)
        refused = [await it.client() for _ in range(3)]
        await until_async(lambda: it.port.refused == 3)
        second.writer.close()
        await until_async(lambda: it.port.open == 1)
        assert await (await it.client()).asks(heartbeat()) is ErrorCode.NONE
        assert it.port.refused == len(refused)


@story
async def test_of_those_that_are_refused_some_wait_and_the_others_are_closed_at_once() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(port, "REFUSED_MAX", 1)
        async with listening(PortLimits(connections_max=1)) as it:
            await it.client()
            await until_async(lambda: it.port.open == 1)
            second = await it.client()
            await until_async(lambda: it.port.refused == 1)
            assert await (await it.client()).code() is None
            it.clock.now_s = 10.1  # it says nothing for that long
            assert await second.code() is None
            assert it.heard.hung_up_for == [HungUp.TOO_MANY, HungUp.IDLE]
            second.writer.close()
            await until_async(lambda: not it.port.refused)


@story
async def test_an_answer_that_fits_no_frame_is_an_error_code() -> None:
    async with listening(at_once=False) as it:
        client = await it.client()
        groups = BY_NAME["ListGroups"]
        client.writer.write(encode_request(RpcRequest(groups, 0, 7, "c", {"ConsumerGroups": []})))
        await until_async(lambda: bool(it.receiver.requests))
        connection, _ = it.receiver.requests[0]
        body = {**refusal(groups, 0, 7, ErrorCode.NONE).body, "ClientId": "x" * 40_000}
        it.port.answer(connection, RpcAnswer(groups, 0, 7, body))
        assert await client.code("ListGroups") is ErrorCode.MESSAGE_TOO_LARGE


# --- TLS ------------------------------------------------------------------------------------------


@story
async def test_with_a_client_ca_only_its_clients_are_let_in() -> None:
    ours, theirs = trustme.CA(), trustme.CA()
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ours.issue_cert("localhost").configure_cert(server)
    ours.configure_trust(server)
    server.verify_mode = ssl.CERT_REQUIRED

    def context(signed_by: trustme.CA | None) -> ssl.SSLContext:
        client = ssl.create_default_context()
        ours.configure_trust(client)
        if signed_by is not None:
            signed_by.issue_cert("member", common_name="worker").configure_cert(client)
        return client

    async with listening(tls=server) as it:
        known = await it.client(context(ours))
        assert await known.asks(heartbeat()) is ErrorCode.NONE

        def as_a_command_does() -> ErrorCode:
            at = Address("localhost", it.at[1])
            with ServerConnection(at, "c", tls=context(ours)) as connection:
                assert connection.receive(0.0) is None
                return connection.ask("Heartbeat", {"SessionTimeout": 5}, 10.0, version=0).code

        number, _ = it.receiver.requests[0]
        subject = [attribute for rdn in it.port.certificate(number)["subject"] for attribute in rdn]
        assert ("commonName", "worker") in subject
        assert await asyncio.to_thread(as_a_command_does) is ErrorCode.NONE
        for stranger in (context(theirs), context(None)):
            try:
                client = await it.client(stranger)
                assert await client.asks(heartbeat()) is None
            except (ConnectionError, ssl.SSLError):
                pass
        plain = await it.client()
        assert await plain.asks(heartbeat()) is None
        await until_async(lambda: it.heard.hung_up_for == [HungUp.TLS] * 3)
        assert len(it.receiver.ever) == 2


@story
async def test_who_does_not_end_the_handshake_counts_for_its_host() -> None:
    ours = trustme.CA()
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ours.issue_cert("localhost").configure_cert(server)
    async with listening(PortLimits(strangers_max=2, half_frame_s=1.0), server) as it:
        for _ in range(3):
            await it.client()
        await until_async(lambda: it.port.refused == 1)
        assert it.port.open == 2
        await until_async(lambda: it.heard.hung_up_for == [HungUp.TLS] * 3)
        await until_async(lambda: not it.port.open + it.port.refused)


# --- any bytes ------------------------------------------------------------------------------------


class Wire(asyncio.Transport):
    """A transport without a network."""

    def __init__(self) -> None:
        super().__init__({"peername": ("h", 1)})
        self.written = bytearray()
        self.ended = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.ended
        self.written += data

    def get_write_buffer_size(self) -> int:
        return 0

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.ended = True

    def abort(self) -> None:
        self.ended = True

    def is_closing(self) -> bool:
        return self.ended

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    """A request, whole or with some bytes replaced, left out or put in."""
    frame = bytearray(draw(st.sampled_from([heartbeat(), register(7)])))
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(frame)))
        frame[at : at + draw(st.integers(0, 4))] = draw(st.binary(max_size=4))
    return bytes(frame)


@settings(max_examples=200)
@given(st.lists(frames() | st.binary(max_size=30), max_size=6), st.lists(st.integers(1, 40)))
def test_any_bytes_are_answered_or_end_the_connection(
    sent: Sequence[bytes], pieces: Sequence[int]
) -> None:
    it = Listening(PortLimits(unanswered_max=2))
    peer, wire = Peer(it.port), Wire()
    peer.connection_made(wire)
    data, at = b"".join(sent), 0
    for size in [*pieces, len(data) or 1]:
        if at < len(data):
            peer.data_received(data[at : at + size])
            at += size
    answered = list(Frames().fed(bytes(wire.written)))
    assert len(answered) == len(it.heard.codes)
    # What was not malformed before the end was asked and answered.
    assert len(it.receiver.requests) == it.heard.codes.count(ErrorCode.NONE)
    closes = ErrorCode.INVALID_REQUEST in it.heard.codes
    assert wire.ended is bool(it.heard.hung_up_for)
    assert not closes or wire.ended
    peer.connection_lost(None)
    assert it.port.open == 0
    assert not it.port.peers
    assert not it.port.strangers


def test_of_a_host_one_line_a_minute_is_written(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    observer = LoggingControllerObserver(clock)
    for now_s, host in [(0, "a"), (1, "a"), (2, "b"), (59, "a"), (61, "a")]:
        clock.now_s = float(now_s)
        observer.hung_up(host, HungUp.MALFORMED, "it is odd")
    assert [record.getMessage() for record in caplog.records] == [
        "a: hung up: it is odd",
        "b: hung up: it is odd",
        "a: hung up: it is odd (and 2 more since the last line)",
    ]


def test_an_outage_is_written_when_it_begins_and_when_it_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    observer = LoggingControllerObserver(clock)
    refused = "a:1: Connect to a:1 failed: Connection refused (after {}ms in state CONNECT)"
    for number in range(20):
        clock.now_s = number / 2
        observer.note(refused.format(number))
    for clock.now_s in (20.0, 60.0):
        observer.answered(AnsweredRequest("Heartbeat", ErrorCode.NONE, 0.1, "h"))
    observer.note(refused.format(0))
    assert [record.getMessage() for record in caplog.records] == [
        refused.format(0),
        f"over, logged 20 times within 9.5 s: {refused.format(0)}",
        refused.format(0),
    ]
    assert {record.__dict__["event"] for record in caplog.records} == {"cluster"}

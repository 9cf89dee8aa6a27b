"""Sends requests to controllers of groups: connections, and the choice of a server.

Sockets block, each call at most for its timeout, so one thread is enough. This module knows frames,
addresses and the codes that send a client to another server. It does not know groups and members.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Final, Self, cast

from attrs import frozen

from kafka_marshal.client.connect.environment import REAL, Deadline, Environment
from kafka_marshal.client.groups.strangers import what_listens
from kafka_marshal.errors import InvalidOption, MarshalError
from kafka_marshal.rpc.apis import Api
from kafka_marshal.rpc.codec import (
    ANSWER_BYTES_MAX,
    BY_NAME,
    Frames,
    Malformed,
    RpcAnswer,
    RpcRequest,
    correlation_id_of,
    decode_answer,
    encode_request,
)
from kafka_marshal.rpc.error_codes import MEANINGS, ErrorCode
from kafka_marshal.rpc.fields import Body

CONNECT_S: Final = 3.0
"""The timeout for connecting to one server, in seconds."""
SPREADS_S: Final = 1.0
"""How long the slowest server may need to read of a new group, in seconds."""
AGAIN_S: Final = 0.1
"""The delay before a request is repeated, in seconds."""
GO_AGAIN: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Nothing was carried out, and soon a server answers otherwise."""
_READS: Final = frozenset({"ListGroups"})
"""Requests that change nothing."""
_REPEATABLE: Final = _READS | {"CreateGroup"}
"""Requests that may be sent again when it is not known whether they were carried out."""


class ServerUnreachable(MarshalError):
    """A controller's server accepts no connection, or hung up; the message names it."""


class AnswerMissing(ServerUnreachable):
    """A request was sent and has no answer: it is unknown whether it was carried out."""


class RequestRefused(MarshalError):
    """A server answered with an error code; the message names server, group and code."""

    def __init__(self, server: object, api: str, about: str, code: ErrorCode) -> None:
        super().__init__(f"{server}: {api} {about}: {MEANINGS[code]} ({code.name}, {code.value})")
        self.code = code


@frozen
class Address:
    """The address of a server.

    >>> str(Address.parsed("[::1]:9300", "--controller")), Address.parsed("a:1", "x").port
    ('[::1]:9300', 1)
    """

    host: str
    port: int

    @classmethod
    def parsed(cls, text: str, option: str) -> Address:
        """The address in `host:port`.

        Raises:
            InvalidOption: it is none; the message names the option.
        """
        host, colon, port = text.strip().rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not (host and colon and port.isdecimal() and port.isascii() and 0 < int(port) < 2**16):
            raise InvalidOption(f"{option} must be host:port, not {text!r}")
        return cls(host, int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def addresses_of(servers: str | Sequence[str], option: str) -> tuple[Address, ...]:
    """The addresses in `host:port,...`, or in a list of `host:port`.

    Raises:
        InvalidOption: there is none, or one is invalid.
    """
    texts = servers.split(",") if isinstance(servers, str) else servers
    found = tuple(Address.parsed(text, option) for text in texts if text.strip())
    if not found:
        raise InvalidOption(f"{option} must name a controller's server as host:port")
    return found


class ServerConnection:
    """A connection to one server; close it. One thread uses it."""

    def __init__(
        self,
        address: Address,
        client_id: str,
        timeout_s: float = CONNECT_S,
        tls: ssl.SSLContext | None = None,
        environment: Environment = REAL,
    ) -> None:
        """Connect.

        Raises:
            ServerUnreachable: the connection was refused, or TLS failed.
        """
        self.address = address
        self.client_id = client_id
        self._environment = environment
        self._frames = Frames(ANSWER_BYTES_MAX)
        self._arrived: list[bytes] = []
        self._awaited: dict[int, Api] = {}
        """The requests without an answer, by CorrelationId."""
        self._last_id = 0
        try:
            self._stream = environment.connect(address.host, address.port, timeout_s, tls)
        except OSError as error:
            raise self._unreachable(error) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect."""
        with suppress(OSError):
            self._stream.close()

    def wait(self, timeout_s: float) -> None:
        """Wait until data has arrived, at most for this time."""
        with suppress(OSError, ValueError):
            self._stream.wait(timeout_s)

    @property
    def awaits(self) -> int:
        """How many requests have no answer yet."""
        return len(self._awaited)

    def send(self, api: str, body: Mapping[str, object], version: int | None = None) -> int:
        """Send a request and return its CorrelationId.

        Its version is the newest one if None.

        Raises:
            ServerUnreachable: the connection is lost.
            Unencodable: the body is not the table's.
        """
        table = BY_NAME[api]
        version = table.newest if version is None else version
        self._last_id += 1
        request = RpcRequest(table, version, self._last_id, self.client_id, cast("Body", body))
        frame = encode_request(request)
        self._awaited[self._last_id] = table
        try:
            self._stream.send(frame, CONNECT_S)
        except OSError as error:
            raise self._unreachable(error) from None
        return self._last_id

    def receive(self, timeout_s: float) -> RpcAnswer | None:
        """The next answer, to any request; None if none is complete within `timeout_s`.

        Raises:
            ServerUnreachable: the connection is lost, or the bytes are no valid answer.
        """
        deadline = self._environment.deadline(timeout_s)
        while not self._arrived:
            try:
                data = self._stream.receive(deadline.left_s)
            except TimeoutError:
                if deadline.left_s:
                    continue
                return None
            except OSError as error:
                raise self._unreachable(error) from None
            if not data:
                raise ServerUnreachable(f"{self.address} closed the connection")
            try:
                self._arrived.extend(self._frames.fed(data))
            except Malformed as error:
                raise self._strange(error) from None
        return self._decoded(self._arrived.pop(0))

    def ask(
        self, api: str, body: Mapping[str, object], timeout_s: float, version: int | None = None
    ) -> RpcAnswer:
        """Send a request, and wait for its answer; answers to earlier ones are dropped.

        Raises:
            AnswerMissing: there was no answer in time, or the connection was lost.
        """
        wanted = self.send(api, body, version)
        deadline = self._environment.deadline(timeout_s)
        try:
            while (answer := self.receive(deadline.left_s)) is not None:
                if answer.correlation_id == wanted:
                    return answer
        except ServerUnreachable as error:
            raise AnswerMissing(_unknown(str(error), api)) from None
        raise AnswerMissing(
            _unknown(f"{self.address} did not answer within {timeout_s:.2g} s", api)
        )

    def _decoded(self, message: bytes) -> RpcAnswer:
        try:
            api = self._awaited.pop(correlation_id_of(message), None)
            if api is None:
                raise Malformed("CorrelationId", "no request of ours has it")
            return decode_answer(api, message)
        except Malformed as error:
            raise self._strange(error) from None

    def _strange(self, error: Malformed) -> ServerUnreachable:
        self.close()
        return ServerUnreachable(f"{self.address} answered what is no answer ({error})")

    def _unreachable(self, error: OSError) -> ServerUnreachable:
        if isinstance(error, ssl.SSLCertVerificationError):
            reason = f"its certificate is not trusted: {error.verify_message}"
        elif isinstance(error, TimeoutError):
            reason = "it does not answer"
        elif isinstance(error, ssl.SSLError):
            reason = f"TLS could not be agreed on ({error.reason or error}): it may not speak TLS"
        else:
            reason = error.strerror or str(error)
        return ServerUnreachable(f"{self.address}: {reason}")


def _unknown(what: str, api: str) -> str:
    return what if api in _READS else f"{what}: it is not known whether {api} was carried out"


class Controllers:
    """The servers of a fleet of controllers: finds a group's controller, and sends it requests.

    It keeps one connection, to the server that answered last. Close it. Only one thread may use it.
    """

    def __init__(
        self,
        servers: str | Sequence[str],
        client_id: str,
        *,
        tls: ssl.SSLContext | None = None,
        environment: Environment = REAL,
        option: str = "controllers",
        on_unreachable: Callable[[ServerUnreachable], None] = lambda _: None,
    ) -> None:
        """Prepare, without connecting; one of the servers is enough to find the others.

        `on_unreachable` is called before each retry with the reason why a server does not answer.

        Raises:
            InvalidOption: one is not `host:port`, or there is none.
        """
        self.client_id = client_id
        self.tls = tls
        self.environment = environment
        self._on_unreachable = on_unreachable
        self._servers = list(addresses_of(servers, option))
        self._kept: ServerConnection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect."""
        if self._kept is not None:
            self._kept.close()
        self._kept = None

    def connect(self, address: Address, deadline: Deadline) -> ServerConnection:
        """A connection to this server, which the caller closes.

        Raises:
            ServerUnreachable: it accepts none.
        """
        return ServerConnection(
            address, self.client_id, min(CONNECT_S, deadline.left_s), self.tls, self.environment
        )

    def controller_of(self, group: str, deadline: Deadline) -> Address:
        """The address of the group's controller; waits while there is none.

        Raises:
            RequestRefused: there is no such group, or it had no controller in time.
            ServerUnreachable: no server answered in time.
        """
        while True:
            [one] = self.listed([group], deadline)
            if one["Host"]:
                return Address(str(one["Host"]), cast("int", one["Port"]))
            if not deadline.left_s:
                code = ErrorCode.COORDINATOR_NOT_AVAILABLE
                raise RequestRefused("the log", "ListGroups", f"group {group}", code)
            self._drop()
            self.environment.threads.sleep(AGAIN_S)

    def described(self, groups: Sequence[str], deadline: Deadline) -> list[dict[str, object]]:
        """Describe these groups, or all if none is named; see `groups_of`.

        Each group is one request, since all together may not fit into a frame. A group that is
        deleted in the meantime is omitted, unless it is named.

        Raises:
            RequestRefused: a group does not exist, or no server has read the log yet.
            ServerUnreachable: no server answered in time.
        """
        names = groups or [str(one["GroupName"]) for one in self.listed((), deadline)]
        found = []
        for name in names:
            try:
                found += self.listed([name], deadline, describe=True)
            except RequestRefused as error:
                if groups or error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                    raise
        return found

    def listed(
        self, groups: Sequence[str], deadline: Deadline, *, describe: bool = False
    ) -> list[dict[str, object]]:
        """These groups, or all if none is named, in one answer of a server; see `groups_of`.

        Members, state and owners are empty without `describe`. A server may not have read about a
        new group yet, so a missing group is requested again for `SPREADS_S`.

        Raises:
            RequestRefused: one of them does not exist, or no server has read the log yet.
            ServerUnreachable: no server answered in time.
        """
        about = f"group {', '.join(groups)}" if groups else "all groups"
        spreads = self.environment.deadline(min(SPREADS_S, deadline.left_s))
        while True:
            answer, server = self.asked_any(
                "ListGroups",
                {"ConsumerGroups": list(groups), "Describe": int(describe)},
                deadline,
            )
            if answer.code is ErrorCode.NONE:
                return groups_of(answer)
            if answer.code is not ErrorCode.GROUP_ID_NOT_FOUND or not spreads.left_s:
                raise RequestRefused(server, "ListGroups", about, answer.code)
            self.environment.threads.sleep(AGAIN_S)

    def asked(
        self, api: str, group: str, body: Mapping[str, object], deadline: Deadline
    ) -> tuple[RpcAnswer, Address]:
        """The answer of the group's controller, and its address.

        It tries other servers while the answer is that this one is not the controller, or not yet.
        The returned answer may have any other code.

        Raises:
            RequestRefused: the group does not exist, or has no controller in time.
            AnswerMissing: it is unknown whether the request was carried out.
            ServerUnreachable: no server answered in time.
        """
        while True:
            address = self.controller_of(group, deadline)
            try:
                if self._kept is None or self._kept.address != address:
                    self.close()
                    self._kept = self.connect(address, deadline)
                answer = self._kept.ask(api, body, deadline.left_s)
            except AnswerMissing:
                self._drop()
                raise
            except ServerUnreachable as error:  # it has died, and the log still names it
                self._drop()
                if not deadline.left_s:
                    raise
                self._on_unreachable(error)
            else:
                if answer.code not in GO_AGAIN:
                    return answer, address
                if not deadline.left_s:
                    raise RequestRefused(address, api, f"group {group}", answer.code)
                self._drop()
            self.environment.threads.sleep(AGAIN_S)

    def asked_any(
        self, api: str, body: Mapping[str, object], deadline: Deadline
    ) -> tuple[RpcAnswer, Address]:
        """The answer of any server, and its address.

        Raises:
            AnswerMissing: it is unknown whether the request was carried out.
            ServerUnreachable: none of them answered in time.
        """
        while True:
            try:
                if self._kept is None:
                    self._kept = self._any(deadline)
                answer = self._kept.ask(api, body, deadline.left_s)
                if answer.code not in GO_AGAIN or not deadline.left_s:
                    return answer, self._kept.address
                self._drop()
            except ServerUnreachable as error:
                self._drop()
                lost = isinstance(error, AnswerMissing) and api not in _REPEATABLE
                if lost or deadline.left_s <= AGAIN_S:  # too late to try another server
                    raise
                self._on_unreachable(error)
            self.environment.threads.sleep(AGAIN_S)

    def _any(self, deadline: Deadline) -> ServerConnection:
        """A connection to the first server that accepts one."""
        reasons = []
        for address in self._servers:
            try:
                return self.connect(address, deadline)
            except ServerUnreachable as error:
                reasons.append(str(error))
        raise ServerUnreachable(f"no controller can be reached: {'; '.join(reasons)}")

    def strangers(self) -> str | None:
        """A sentence about another kind of server at one of the addresses; None if none is found.

        Call it when no controller answers; it takes a while.
        """
        for each in self._servers:
            found = what_listens(each.host, each.port, self.tls, self.environment)
            if found is not None:
                return f"{each} {found}"
        return None

    def _drop(self) -> None:
        """Disconnect, and begin with another server next time."""
        self.close()
        self._servers.append(self._servers.pop(0))


def groups_of(answer: RpcAnswer) -> list[dict[str, object]]:
    """The groups of an answer to ListGroups of version 1, each with the fields of version 1.

    `Host` and `Port` are the controller's, or '' and 0 without one.
    """
    first = cast("list[dict[str, object]]", answer.body["GroupsInfo"])
    more = cast("list[dict[str, object]]", answer.body["GroupsInfoV1"])
    found = []
    for info, info_v1 in zip(first, more, strict=True):
        broker = cast("dict[str, object]", info["ControllerBroker"])
        found.append({**info, **info_v1, "Host": broker["Host"], "BrokerId": broker["BrokerId"]})
    return found

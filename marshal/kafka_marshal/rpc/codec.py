"""Encodes and decodes requests and answers.

A frame is an int32 with the size of the rest. A request consists of ApiKey (int16), Version
(int16), CorrelationId (int64), ClientId (string) and the fields of the table. An answer has neither
ApiKey nor ClientId: the request with the same CorrelationId determines the api. Some tables begin
with ClientId again.

This module does not know connections: `Frames` receives bytes in any pieces. Nor does it know a
controller's answers, except to an unreadable request.

>>> asked = RpcRequest(BY_NAME["Heartbeat"], 0, 7, "c", {"SessionTimeout": 30_000})
>>> encode_request(asked).hex(" ", -2)
'0000 0017 0004 0000 0000 0000 0000 0007 0001 6300 0000 0000 0075 30'
>>> decode_request(encode_request(asked)[4:]) == asked
True
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from attrs import frozen

from kafka_marshal.rpc.apis import BY_KEY, BY_NAME, Api, fields_of
from kafka_marshal.rpc.error_codes import ErrorCode
from kafka_marshal.rpc.fields import INT16, INT64, STRING, Body, RpcField, empty_value
from kafka_marshal.rpc.walker import Malformed, MessageReader, Unencodable, written

__all__ = [
    "ANSWER_BYTES_MAX",
    "BY_NAME",
    "REQUEST_BYTES_MAX",
    "Frames",
    "Malformed",
    "RefusedRequest",
    "RpcAnswer",
    "RpcRequest",
    "Unencodable",
    "decode_answer",
    "decode_request",
    "encode_answer",
    "encode_request",
    "refusal",
]

REQUEST_BYTES_MAX: Final = 2**20
"""The most bytes that may follow the size of a request's frame."""
ANSWER_BYTES_MAX: Final = 2**22
"""The same for an answer: enough to describe the largest group with the longest names."""
_SIZE: Final = struct.Struct(">i")
_ANSWER_HEAD: Final = (RpcField("Version", INT16), RpcField("CorrelationId", INT64))
_REQUEST_HEAD: Final = (RpcField("ApiKey", INT16), *_ANSWER_HEAD, RpcField("ClientId", STRING))


@frozen
class RpcRequest:
    """A client's request."""

    api: Api
    version: int
    correlation_id: int
    client_id: str
    body: Body
    """By the table's names."""


@frozen
class RpcAnswer:
    """The server's answer."""

    api: Api
    version: int
    correlation_id: int
    body: Body

    @property
    def code(self) -> ErrorCode:
        """The ErrorCode of the answer as a whole."""
        code = self.body["ErrorCode"]
        assert isinstance(code, int)
        return ErrorCode(code)


class RefusedRequest(Malformed):
    """A request of a known api that cannot be decoded: `answer` is sent to its client.

    `code` is INVALID_REQUEST, after which the connection is closed, or UNSUPPORTED_VERSION.
    """

    def __init__(self, field: str, reason: str, code: ErrorCode, answer: RpcAnswer) -> None:
        super().__init__(field, reason)
        self.code = code
        self.answer = answer


def refusal(api: Api, version: int, correlation_id: int, code: ErrorCode) -> RpcAnswer:
    """Return an answer that only contains a code.

    It has the layout of the version, or of the highest one if there is no such version.
    """
    version = version if version in api.versions else api.newest
    body = {each.name: empty_value(each) for each in fields_of(api.answer, version)}
    return RpcAnswer(api, version, correlation_id, {**body, "ErrorCode": code})


# --- frames ---------------------------------------------------------------------------------------


class Frames:
    r"""Receives the bytes of one direction of a connection, and returns complete messages.

    A size is checked as soon as it has arrived, before the rest of its message.

    >>> frames = Frames()
    >>> list(frames.fed(bytes([0, 0, 0, 2, 7]))), list(frames.fed(bytes([8, 0])))
    ([], [b'\x07\x08'])
    """

    def __init__(self, bytes_max: int = REQUEST_BYTES_MAX) -> None:
        """Refuse a frame with more bytes behind its size than `bytes_max`."""
        self._buffer = bytearray()
        self._bytes_max = bytes_max

    @property
    def waits(self) -> bool:
        """Whether part of a frame has arrived."""
        return bool(self._buffer)

    def fed(self, data: bytes) -> Iterator[bytes]:
        """Yield the messages that are complete now, without their sizes.

        Raises:
            Malformed: a size is negative, or too large. Nothing after it can be decoded, so the
                connection must be closed.
        """
        self._buffer += data
        while len(self._buffer) >= _SIZE.size:
            [size] = _SIZE.unpack_from(self._buffer)
            if not 0 <= size <= self._bytes_max:
                raise Malformed("size", f"{size} is not in 0..{self._bytes_max}")
            end = _SIZE.size + size
            if len(self._buffer) < end:
                return
            message = bytes(self._buffer[_SIZE.size : end])
            del self._buffer[:end]
            yield message


def _framed(message: bytes, bytes_max: int) -> bytes:
    if len(message) > bytes_max:
        raise Unencodable("message", f"{len(message)} bytes, at most {bytes_max} fit a frame")
    return _SIZE.pack(len(message)) + message


# --- messages -------------------------------------------------------------------------------------


def encode_request(request: RpcRequest) -> bytes:
    """Return the frame of a request.

    Raises:
        Unencodable: the api has no such version, or a field cannot be written.
    """
    api = request.api
    _expect_version(api, request.version)
    head: Body = {
        "ApiKey": api.key,
        "Version": request.version,
        "CorrelationId": request.correlation_id,
        "ClientId": request.client_id,
    }
    body = written(fields_of(api.request, request.version), request.body)
    return _framed(written(_REQUEST_HEAD, head) + body, REQUEST_BYTES_MAX)


def decode_request(message: bytes) -> RpcRequest:
    """Decode the request in a frame, without the frame's size.

    Raises:
        RefusedRequest: it is malformed or of an unknown version; the client gets its `answer`.
        Malformed: it has no ApiKey, Version and CorrelationId, or the key is unknown. The client
            could not decode an answer, so the connection must be closed.
    """
    reader = MessageReader(message)
    key = reader.number(INT16, "ApiKey")
    version, correlation_id = _answer_head(reader)
    api = BY_KEY.get(key)
    if api is None:
        raise Malformed("ApiKey", f"{key} is unknown")

    def refused(field: str, reason: str, code: ErrorCode) -> RefusedRequest:
        return RefusedRequest(field, reason, code, refusal(api, version, correlation_id, code))

    if version not in api.versions:
        reason = f"{api.name} has no version {version}"
        raise refused("Version", reason, ErrorCode.UNSUPPORTED_VERSION)
    try:
        client_id = reader.text("ClientId")
        body = reader.body(fields_of(api.request, version))
        reader.end()
    except Malformed as error:
        raise refused(error.field, error.reason, error.code) from None
    return RpcRequest(api, version, correlation_id, client_id, body)


def encode_answer(answer: RpcAnswer) -> bytes:
    """Return the frame of an answer.

    Raises:
        Unencodable: the api has no such version, or a field cannot be written.
    """
    _expect_version(answer.api, answer.version)
    head: Body = {"Version": answer.version, "CorrelationId": answer.correlation_id}
    body = written(fields_of(answer.api.answer, answer.version), answer.body)
    return _framed(written(_ANSWER_HEAD, head) + body, ANSWER_BYTES_MAX)


def correlation_id_of(message: bytes) -> int:
    """Return to which request a message answers, before its api is known.

    Raises:
        Malformed: it is too short.
    """
    _, correlation_id = _answer_head(MessageReader(message))
    return correlation_id


def decode_answer(api: Api, message: bytes) -> RpcAnswer:
    """Decode the answer in a frame, without the frame's size.

    Its version is the request's, or the server's highest one if the server does not know that.

    Raises:
        Malformed: it is not an answer of the api, or of a version that is unknown here.
    """
    reader = MessageReader(message)
    version, correlation_id = _answer_head(reader)
    if version not in api.versions:
        raise Malformed("Version", f"{api.name} has no version {version}")
    body = reader.body(fields_of(api.answer, version))
    reader.end()
    return RpcAnswer(api, version, correlation_id, body)


def _answer_head(reader: MessageReader) -> tuple[int, int]:
    """The version and the correlation id, which follow a request's key."""
    return reader.number(INT16, "Version"), reader.number(INT64, "CorrelationId")


def _expect_version(api: Api, version: int) -> None:
    if version not in api.versions:
        raise Unencodable("Version", f"{api.name} has no version {version}")

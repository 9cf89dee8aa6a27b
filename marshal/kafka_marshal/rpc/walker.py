"""Encodes and decodes values by walking a table of fields.

No memory is allocated for what a message only claims to contain: each length and each count is
first compared with the remaining bytes. This module knows no message.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

from kafka_marshal.rpc.error_codes import ErrorCode
from kafka_marshal.rpc.fields import (
    Array,
    Body,
    Number,
    RpcField,
    Struct,
    Text,
    Type,
    Value,
    least_size,
)

_STRING_BYTES_MAX = 2**15 - 1


class Malformed(ValueError):
    """Bytes that do not match the table: `field` names the place, `reason` the error."""

    code = ErrorCode.INVALID_REQUEST

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"malformed {field}: {reason}")
        self.field = field
        """The way to the field, such as `NewOffsets[3].Topic`."""
        self.reason = reason


class Unencodable(ValueError):
    """A value that its field cannot hold: the text names the place and the fault."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"cannot encode {field}: {reason}")


class MessageReader:
    """Reads one message from its first byte to its last.

    >>> MessageReader(bytes([0, 2, 104, 105])).value(Text.STRING, "ClientId")
    'hi'
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        """How many bytes have not been read."""
        return len(self._data) - self._at

    def body(self, fields: Iterable[RpcField], within: str = "") -> Body:
        """Decode these fields.

        Raises:
            Malformed: one of them does not match its type; no other exception.
        """
        return {each.name: self.value(each.type, f"{within}{each.name}") for each in fields}

    def end(self) -> None:
        """Expect that nothing is left.

        Raises:
            Malformed: something is.
        """
        if self.left:
            raise Malformed("message", f"{self.left} bytes are left over")

    def value(self, type_: Type, name: str) -> Value:
        """Decode one value.

        Raises:
            Malformed: it does not match the type.
        """
        match type_:
            case Number():
                return self.number(type_, name)
            case Text():
                return self.text(name)
            case Array():
                return self._array(type_, name)
            case Struct():
                return self.body(type_.fields, f"{name}.")

    def number(self, type_: Number, name: str) -> int:
        """Read a number.

        Raises:
            Malformed: it is none of this type.
        """
        if self.left < type_.size:
            raise Malformed(name, f"{self.left} bytes are left, {type_.size} are needed")
        [number] = struct.unpack_from(type_.code, self._data, self._at)
        self._at += type_.size
        assert isinstance(number, int)
        if type_ is Number.ERROR_CODE:
            return _error_code(number, name)
        if not type_.least <= number <= type_.greatest:
            raise Malformed(name, f"{number} is not in {type_.least}..{type_.greatest}")
        return number

    def text(self, name: str) -> str:
        """Read a string.

        Raises:
            Malformed: it is none.
        """
        length = self.number(Number.INT16, name)
        if length < 0:
            raise Malformed(name, f"its length is {length}")
        if length > self.left:
            raise Malformed(name, f"{self.left} bytes are left, its length is {length}")
        data = self._data[self._at : self._at + length]
        self._at += length
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise Malformed(name, f"it is not UTF-8: {error.reason}") from None

    def _array(self, type_: Array, name: str) -> list[Value]:
        count = self.number(Number.INT32, name)
        if count < 0:
            raise Malformed(name, f"its count is {count}")
        needed = count * least_size(type_.of)
        if needed > self.left:
            raise Malformed(
                name, f"{self.left} bytes are left, {count} elements need at least {needed}"
            )
        return [self.value(type_.of, f"{name}[{index}]") for index in range(count)]


def _error_code(number: int, name: str) -> ErrorCode:
    try:
        return ErrorCode(number)
    except ValueError:
        raise Malformed(name, f"{number} is no error code of ours") from None


def written(fields: Iterable[RpcField], body: Mapping[str, Value], within: str = "") -> bytes:
    """Encode these fields.

    Raises:
        Unencodable: a field is missing, of another type, or too large, or the body has an
            additional field.
    """
    parts, left = [], set(body)
    for each in fields:
        if each.name not in body:
            raise Unencodable(f"{within}{each.name}", "it is missing")
        left.discard(each.name)
        parts.append(written_value(each.type, body[each.name], f"{within}{each.name}"))
    if left:
        raise Unencodable(f"{within}{min(left)}", "this version has no such field")
    return b"".join(parts)


def written_value(type_: Type, value: Value, name: str) -> bytes:
    """Encode one value.

    Raises:
        Unencodable: it is of another type, or too large for the type.
    """
    match type_, value:
        case Number(), int():
            if not type_.least <= value <= type_.greatest:
                raise Unencodable(name, f"{value} is not in {type_.least}..{type_.greatest}")
            if type_ is Number.ERROR_CODE and value not in set(ErrorCode):
                raise Unencodable(name, f"{value} is no error code of ours")
            return _packed(type_, value)
        case Text(), str():
            try:
                data = value.encode()
            except UnicodeEncodeError as error:
                raise Unencodable(name, f"it is not text: {error.reason}") from None
            if len(data) > _STRING_BYTES_MAX:
                raise Unencodable(name, f"{len(data)} bytes, at most {_STRING_BYTES_MAX} fit")
            return _packed(Number.INT16, len(data)) + data
        case Array(), list():
            each = [
                written_value(type_.of, inner, f"{name}[{index}]")
                for index, inner in enumerate(value)
            ]
            return _packed(Number.INT32, len(each)) + b"".join(each)
        case Struct(), dict():
            return written(type_.fields, value, f"{name}.")
        case _:
            raise Unencodable(name, f"a {type(value).__name__} is of another type")


def _packed(type_: Number, number: int) -> bytes:
    return struct.pack(type_.code, number)

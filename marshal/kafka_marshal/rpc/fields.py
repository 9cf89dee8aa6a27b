"""The parts of a message: fields, and their types.

All numbers are big-endian. This module does not know the messages, and reads no bytes.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, TypeAlias

from attrs import field, frozen


class Number(Enum):
    """A number: its name, how `struct` writes it, and the least and greatest value."""

    INT16 = ("int16", "h", -(2**15), 2**15 - 1)
    INT32 = ("int32", "i", -(2**31), 2**31 - 1)
    INT64 = ("int64", "q", -(2**63), 2**63 - 1)
    BOOLEAN = ("boolean", "b", 0, 1)
    """One byte, 0 or 1."""
    PORT = ("port", "H", 0, 2**16 - 1)
    """Two bytes without a sign. The document writes int16, which holds half of all ports."""
    ERROR_CODE = ("error code", "h", -(2**15), 2**15 - 1)
    """An int16 that is one of `ErrorCode`."""

    def __init__(self, title: str, code: str, least: int, greatest: int) -> None:
        self.title = title
        self.code = f">{code}"
        self.least = least
        self.greatest = greatest
        self.size = {"b": 1, "h": 2, "H": 2, "i": 4, "q": 8}[code]
        """Bytes."""


class Text(Enum):
    """A string: its length in bytes as an int16, then UTF-8. There is no null."""

    STRING = "string"


@frozen
class Array:
    """The number of items as an int32, then each. There is no null."""

    of: Type


@frozen
class Struct:
    """Fields, one after the other."""

    fields: tuple[RpcField, ...]


Type: TypeAlias = Number | Text | Array | Struct
Value: TypeAlias = "int | str | list[Value] | dict[str, Value]"
"""The value of a field: that of an `Array` is a list, that of a `Struct` a dict by name."""
Body: TypeAlias = dict[str, Value]


@frozen
class RpcField:
    """One field of a message or of a struct."""

    name: str
    type: Type
    about: str = ""
    since: int = field(default=0, kw_only=True)
    """The first version that has it."""
    empty: Value | None = field(default=None, kw_only=True)
    """The value in an empty answer; None for 0, '' or []."""


STRING: Final = Text.STRING
INT16, INT32, INT64 = Number.INT16, Number.INT32, Number.INT64
BOOLEAN, PORT, ERROR_CODE = Number.BOOLEAN, Number.PORT, Number.ERROR_CODE


def struct(*fields: RpcField) -> Struct:
    """Return a struct of these fields."""
    return Struct(fields)


def least_size(type_: Type) -> int:
    """How many bytes a value has at least.

    >>> least_size(struct(RpcField("Topics", Array(STRING)), RpcField("Offset", INT64)))
    12
    """
    match type_:
        case Number():
            return type_.size
        case Text():
            return 2
        case Array():
            return 4
        case Struct():
            return sum(least_size(each.type) for each in type_.fields)


def empty_value(each: RpcField) -> Value:
    """The value of a field in an empty answer."""
    if each.empty is not None:
        return each.empty
    match each.type:
        case Number():
            return 0
        case Text():
            return ""
        case Array():
            return []
        case Struct():
            return {inner.name: empty_value(inner) for inner in each.type.fields}


def described(type_: Type) -> str:
    """Return the type as the reference page writes it.

    >>> described(Array(struct(RpcField("Topic", STRING), RpcField("Partition", INT16))))
    '[{Topic string, Partition int16}]'
    """
    match type_:
        case Number():
            return type_.title
        case Text():
            return type_.value
        case Array():
            return f"[{described(type_.of)}]"
        case Struct():
            inner = ", ".join(f"{each.name} {described(each.type)}" for each in type_.fields)
            return f"{{{inner}}}"

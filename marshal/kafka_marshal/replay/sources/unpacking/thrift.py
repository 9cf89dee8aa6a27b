"""Thrift structs in the compact protocol, as far as Parquet footers and pages need them.

Damaged or unusual input is read in the same way as by Arrow's reader. A field of another type is a
different field, the last value of a repeated field number counts, and integers wrap.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

I32: Final = 5
I64: Final = 6
LIST: Final = 9
STRUCT: Final = 12
Struct: TypeAlias = dict[tuple[int, int], Any]
"""Values by field number and field type."""

_DEEPEST: Final = 16
_TRUE, _FALSE, _BYTE, _I16, _DOUBLE, _BINARY, _SET = 1, 2, 3, 4, 7, 8, 10
_BITS: Final = {_I16: 16, I32: 32, I64: 64}


class ThriftReader:
    """Reads consecutive structs; `at` is the position of the next one."""

    def __init__(self, data: memoryview, at: int) -> None:
        self._data, self.at = data, at

    def struct(self, depth: int = 0) -> Struct:
        """The next struct.

        Raises:
            ValueError, IndexError: there is no valid struct.
        """
        fields: Struct = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._integer(16)
            fields[number, head & 0x0F] = self._value(head & 0x0F, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in _BITS:
            return self._integer(_BITS[kind])
        if kind in (_TRUE, _FALSE):
            return kind == _TRUE
        if kind == _BYTE:
            return self._byte()
        if kind in (_DOUBLE, _BINARY):
            return self._bytes(8 if kind == _DOUBLE else self._varint())
        if depth > _DEEPEST:
            raise ValueError("a struct lies too deep in others")
        if kind in (LIST, _SET):
            head = self._byte()
            size = head >> 4 if head >> 4 < 15 else self._varint()
            each = head & 0x0F
            each = _BYTE if each in (_TRUE, _FALSE) else each  # in a list, each is a byte
            return [self._value(each, depth + 1) for _ in range(size)]
        if kind == STRUCT:
            return self.struct(depth + 1)
        raise ValueError(f"no type of Thrift has the number {kind}")

    def _bytes(self, size: int) -> bytes:
        self.at += size
        if self.at > len(self._data):
            raise IndexError("it ends before its bytes do")
        return bytes(self._data[self.at - size : self.at])

    def _byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _varint(self) -> int:
        value = shift = 0
        while shift < 70:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
        raise ValueError("a number is too long")

    def _integer(self, bits: int) -> int:
        value = self._varint() & ((1 << bits) - 1)
        return (value >> 1) ^ -(value & 1)

"""What a table is, and how its rows are stored.

A row is a plain dict; `arrow_rows` makes it storable: text that is not UTF-8 is escaped, and
integers that do not fit 64 bits are cut to the nearest that does. Which tables there are is
`tables`' to say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import pyarrow as pa
from attrs import frozen

Row: TypeAlias = dict[str, object]
"""One row of a table; a column that is missing is null."""

TEXT: Final = "string"
INTEGER: Final = "bigint"
NUMBER: Final = "double"
BOOLEAN: Final = "boolean"
TIMES: Final = "array<bigint>"
PROOFS: Final = (
    "array<struct<offset: bigint, timestamp_ms: bigint, type: string, sender_instance: string, "
    "sender_client: string, verdict: string, value: string>>"
)
_PROOF: Final = pa.struct(
    [
        ("offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("type", pa.string()),
        ("sender_instance", pa.string()),
        ("sender_client", pa.string()),
        ("verdict", pa.string()),
        ("value", pa.string()),
    ]
)
_ARROW: Final[Mapping[str, pa.DataType]] = {
    TEXT: pa.string(),
    INTEGER: pa.int64(),
    NUMBER: pa.float64(),
    BOOLEAN: pa.bool_(),
    TIMES: pa.list_(pa.int64()),
    PROOFS: pa.list_(_PROOF),
}
_INT64_MAX: Final = 2**63 - 1


@frozen
class Column:
    """One column: its Spark SQL type, and what a value or null means."""

    name: str
    type: str
    meaning: str


@frozen
class Table:
    """One table. `order` is by what its rows are sorted when they are written."""

    name: str
    meaning: str
    columns: tuple[Column, ...]
    order: tuple[str, ...]

    @property
    def spark_schema(self) -> str:
        """The schema as Spark SQL writes it."""
        return ", ".join(f"{column.name}: {column.type}" for column in self.columns)

    @property
    def arrow_type(self) -> pa.DataType:
        """The type of one row."""
        return pa.struct([(column.name, _ARROW[column.type]) for column in self.columns])


def readable(text: str) -> str:
    r"""Text that any tool can store: bytes that were not UTF-8 become \xNN.

    >>> readable("caf\udce9")
    'caf\\xe9'
    """
    if text.isascii():
        return text
    try:
        raw = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raw = text.encode("utf-8", "surrogatepass")
    return raw.decode("utf-8", "backslashreplace")


def readable_bytes(value: bytes | None) -> str | None:
    """A record's value as text, or null."""
    return None if value is None else value.decode("utf-8", "backslashreplace")


def arrow_rows(table: Table, rows: Sequence[Row]) -> pa.Array:
    """The rows as one Arrow array of structs."""
    return pa.array([_storable(row) for row in rows], type=table.arrow_type)


def _storable(value: object) -> object:
    if isinstance(value, str):
        return readable(value)
    if isinstance(value, bool | float) or value is None:
        return value
    if isinstance(value, int):
        return max(-_INT64_MAX - 1, min(_INT64_MAX, value))
    if isinstance(value, dict):
        return {name: _storable(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        if set(map(type, value)) == {int} and -_INT64_MAX <= min(value) <= max(value) <= _INT64_MAX:
            return value  # as nearly all are: the many times of a lane
        return [_storable(member) for member in value]
    raise TypeError(f"a row cannot hold {value!r}")

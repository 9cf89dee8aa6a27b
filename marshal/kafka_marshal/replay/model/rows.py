"""The definition of a table, and how its rows are stored.

A row is an attrs class, and its annotations describe the columns. `int | None` gives the types of
Arrow and Spark; `Annotated[int | None, "..."]` adds the meaning. When rows are stored, text that is
not UTF-8 is escaped, and integers beyond 64 bits become the nearest one that fits. The list of
tables is in `tables`.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import (
    Annotated,
    Any,
    Final,
    Generic,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import attrs
import numpy as np
import pyarrow as pa
from attrs import field, frozen

_SCALARS: Final[Mapping[object, pa.DataType]] = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
}
_SPARK: Final[Mapping[pa.DataType, str]] = {
    pa.string(): "string",
    pa.binary(): "binary",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float64(): "double",
    pa.bool_(): "boolean",
}
_INT64_MAX: Final = 2**63 - 1


@frozen(kw_only=True)
class Row:
    """One row of a table. The account that emits it sets the place of the fold."""

    log: Annotated[
        str, "name of the log: a capture's file name, or the folder of a Parquet dump"
    ] = ""
    coordinating_partition: Annotated[int | None, "partition of the coordination topic"] = None


RowT = TypeVar("RowT", bound=Row)


@frozen
class Column:
    """One column of a table: its name, type and meaning."""

    name: str
    arrow_type: pa.DataType
    meaning: str

    @property
    def type(self) -> str:
        """Its type in Spark SQL."""
        return spark_type(self.arrow_type)


@frozen
class Table(Generic[RowT]):
    """One table. `order` names the columns by which its rows are sorted when written."""

    name: str
    row: type[RowT]
    order: tuple[str, ...]
    columns: tuple[Column, ...] = field(init=False)
    """The columns, in stored order."""

    @columns.default
    def _columns(self) -> tuple[Column, ...]:
        return columns_of(self.row)

    @property
    def meaning(self) -> str:
        """The meaning of its rows."""
        return " ".join((self.row.__doc__ or "").split())

    @property
    def spark_schema(self) -> str:
        """The schema as Spark SQL writes it."""
        return spark_schema(self.arrow_type)

    @property
    def arrow_type(self) -> pa.DataType:
        """The type of one row."""
        return pa.struct([(column.name, column.arrow_type) for column in self.columns])

    def rows(self, stored: Iterable[Mapping[str, Any]]) -> list[RowT]:
        """Rows from their stored form in Arrow or Spark; missing columns have their default."""
        return [self.row(**row) for row in stored]


def columns_of(row: type) -> tuple[Column, ...]:
    """The columns that the annotations of an attrs class define."""
    hints = get_type_hints(row, include_extras=True)
    return tuple(_column(each.name, hints[each.name]) for each in attrs.fields(row))


def _column(name: str, hint: Any) -> Column:
    meaning = ""
    if get_origin(hint) is Annotated:
        hint, meaning = get_args(hint)
    return Column(name, arrow_type_of(hint), meaning)


def arrow_type_of(hint: Any) -> pa.DataType:
    """The type that stores an annotation's values; of an attrs class, a struct of its fields."""
    if get_origin(hint) is types.UnionType:
        hint, _ = get_args(hint)  # the other is None
    if get_origin(hint) is tuple:
        member = get_args(hint)[0]  # the others are alike
        return pa.list_(arrow_type_of(member))
    if hint in _SCALARS:
        return _SCALARS[hint]
    return pa.struct([(column.name, column.arrow_type) for column in columns_of(hint)])


def spark_type(arrow_type: pa.DataType) -> str:
    """A type as Spark SQL writes it.

    >>> spark_type(pa.list_(pa.struct([("offset", pa.int64())])))
    'array<struct<offset: bigint>>'
    """
    if pa.types.is_list(arrow_type):
        return f"array<{spark_type(arrow_type.value_type)}>"
    if pa.types.is_struct(arrow_type):
        return f"struct<{spark_schema(arrow_type)}>"
    return _SPARK[arrow_type]


def spark_schema(fields: Iterable[pa.Field]) -> str:
    """The fields of a struct or schema, in Spark SQL."""
    return ", ".join(f"{each.name}: {spark_type(each.type)}" for each in fields)


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


def arrow_rows(table: Table[RowT], rows: Sequence[RowT]) -> pa.StructArray:
    """The rows as one Arrow array of structs."""
    return stored(rows, table.arrow_type)


def stored(values: Sequence[Any], arrow_type: pa.DataType) -> pa.Array:
    """Values of one type, column by column."""
    if pa.types.is_struct(arrow_type):
        fields = list(arrow_type)
        columns = [stored([*map(attrgetter(each.name), values)], each.type) for each in fields]
        return pa.StructArray.from_arrays(columns, fields=fields)
    if pa.types.is_list(arrow_type):
        ends = np.cumsum([0, *map(len, values)])
        members = [member for value in values for member in value]
        return pa.ListArray.from_arrays(
            pa.array(ends, pa.int32()), stored(members, arrow_type.value_type), type=arrow_type
        )
    try:
        return pa.array(values, arrow_type)
    except (OverflowError, UnicodeEncodeError, pa.ArrowInvalid):
        return pa.array(map(_storable, values), arrow_type)


def _storable(value: str | int | None) -> str | int | None:
    """Text or an integer in a form that Arrow can store."""
    if isinstance(value, str):
        return readable(value)
    return None if value is None else max(-_INT64_MAX - 1, min(_INT64_MAX, value))

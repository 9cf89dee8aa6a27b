"""The decompressed size of a Parquet row group, from its page headers, before Arrow reads it.

Arrow takes as much memory as a page header states. Arrow refuses a page whose header states a wrong
size; but sizes in the footer are not checked by anything. Encodings may unpack to more than a
page's bytes. Each row may be the number of one long entry of a dictionary, or repeat the beginning
of the row before.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from attrs import frozen

from kafka_marshal.replay.sources.shapes import UNPACKED_BYTES_MAX
from kafka_marshal.replay.sources.unpacking import codecs, thrift
from kafka_marshal.replay.sources.unpacking.thrift import I32, I64, LIST, STRUCT

UNPACKED_PER_BYTE_MAX: Final = 100
"""The maximum of unpacked bytes per byte of a row group. A log of the smallest, repeated records
has a hundredth of that."""
_VALUE_BYTES: Final = 16
"""The most memory that Arrow takes for a value besides its text: a number, its levels, its end."""
_LONG_BYTES: Final = 64 << 10
"""A larger dictionary belongs to a long log, for which the compiled kernel is loaded anyway."""
_BATCH_BYTES: Final = 32 << 20
_LENGTH: Final = struct.Struct("<I")
_TAIL_BYTES: Final = 8
"""The length of the footer, and `PAR1`."""
_DICTIONARY: Final = 7
_KINDS: Final = {0: (5, 2), 2: (_DICTIONARY, 2), 3: (8, 4)}
"""By kind of page: its field in a page header, and in that the field of the encoding."""
_NUMBERED: Final = (2, 8)
"""Encodings in which a value is the number of a dictionary entry."""
_REPEATING: Final = 7
"""The encoding in which a value repeats the beginning of the one before: DELTA_BYTE_ARRAY."""


_CODECS: Final = {1: "snappy", 2: "gzip", 4: "brotli", 6: "zstd", 7: "lz4_raw"}
"""Arrow's names of the codecs, by their numbers in a footer. 0 means no codec."""


@frozen
class _Column:
    """A column of a row group: what Arrow uses to read its pages."""

    codec: int
    values: int
    packed_size: int
    begin: int


@frozen
class _Page:
    is_dictionary: bool
    size: int
    """Unpacked size in bytes."""
    packed: memoryview
    values: int
    encoding: int


class RowGroupLimit:
    """Checks the row groups of a file against a limit; `name` is the file's name for the user.

    Raises:
        ValueError: the footer is damaged.
    """

    def __init__(self, path: Path, parquet: pq.ParquetFile, name: str) -> None:
        self._path, self._parquet, self._name = path, parquet, name
        self._data = memoryview(pa.memory_map(str(path)).read_buffer()).cast("B")
        about = path.stat()
        self._row_groups = _row_groups(path, about.st_size, about.st_mtime_ns)

    def check(self, number: int, names: Collection[str]) -> None:
        """Stop at a row group that unpacks to more than the limit in these columns.

        Raises:
            UnreadableSource: the row group exceeds the limit; names both.
            ValueError, pa.ArrowException: a page is damaged.
        """
        if number >= len(self._row_groups):
            raise ValueError(f"its footer has no row group {number}")
        of_schema = [self._parquet.schema.column(at) for at in range(len(self._parquet.schema))]
        wanted = [
            (column, of_file)
            for column, of_file in zip(of_schema, self._row_groups[number], strict=True)
            if any(f"{column.path}.".startswith(f"{name}.") for name in names)
        ]
        packed = sum(max(0, of_file.packed_size) for _, of_file in wanted)
        bytes_max = UNPACKED_BYTES_MAX + UNPACKED_PER_BYTE_MAX * min(packed, len(self._data))
        room = bytes_max
        for column, of_file in wanted:
            room -= self._unpacked_bytes(number, column, of_file, room)
            if room < 0:
                raise codecs.too_large(f"{self._name}: row group {number}", bytes_max)

    def _unpacked_bytes(
        self, number: int, column: pq.ColumnSchema, of_file: _Column, room: int
    ) -> int:
        """An upper bound of a column's size; more than `room` if it may exceed that."""
        plain = repeated = longest = 0
        has_prefixes = False
        is_text = column.physical_type == "BYTE_ARRAY"
        for page in _pages(self._data, of_file):
            plain += page.size + _VALUE_BYTES * page.values
            if plain > room:
                return plain
            if page.is_dictionary and is_text:
                longest = max(longest, _longest_entry(page, of_file.codec))
            elif is_text and page.encoding in _NUMBERED:
                repeated += page.values * longest
            elif page.encoding == _REPEATING:
                has_prefixes = True
                repeated += page.values * page.size
                longest = max(longest, page.size)
        if plain + repeated <= room:
            return plain + repeated
        if column.max_repetition_level:  # a row may have any number of values, so a batch, too
            if not has_prefixes:  # which Arrow does not read as numbers
                repeated = self._numbered_bytes(number, column.path, repeated)
            return plain + repeated
        return self._measured(number, column.path, longest, room)

    def _measured(self, number: int, name: str, longest: int, room: int) -> int:
        """The measured size of a column that may be too large, read in batches that cannot be."""
        total = 0
        for batch in self._parquet.iter_batches(
            max(1, _BATCH_BYTES // longest), [number], [name], use_threads=False
        ):
            total += batch.nbytes
            if total > room:
                break
        return total

    def _numbered_bytes(self, number: int, name: str, most: int) -> int:
        """The size of a column whose values are numbers of dictionary entries, from these numbers.

        `most` if Arrow does not read the column as numbers.
        """
        total = 0
        with pq.ParquetFile(self._path, memory_map=True, read_dictionary=[name]) as parquet:
            for batch in parquet.iter_batches(
                row_groups=[number], columns=[name], use_threads=False
            ):
                values = _leaves(batch.column(0))
                if not isinstance(values, pa.DictionaryArray):
                    return most
                lengths = pc.binary_length(values.dictionary)
                total += pc.sum(lengths.take(values.indices)).as_py() or 0
        return total


def _leaves(column: pa.Array) -> pa.Array:
    """The values of the only leaf of a nested column."""
    while True:
        if pa.types.is_struct(column.type):
            column = column.field(0)
        elif pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
            column = column.flatten()
        else:
            return column


@lru_cache(maxsize=8)
def _row_groups(path: Path, size: int, _mtime_ns: int) -> tuple[tuple[_Column, ...], ...]:
    """The columns of each row group, from the file's footer.

    Arrow has them too, but it aborts the process if the footer is damaged.
    """
    with path.open("rb") as file:
        file.seek(max(0, size - _TAIL_BYTES))
        (length,) = _LENGTH.unpack_from(file.read(_TAIL_BYTES))
        file.seek(max(0, size - _TAIL_BYTES - length))
        footer = memoryview(file.read(length))
    try:
        return tuple(
            tuple(_column(chunk[3, STRUCT]) for chunk in group[1, LIST])
            for group in thrift.ThriftReader(footer, 0).struct()[4, LIST]
        )
    except (IndexError, KeyError, TypeError):
        raise ValueError("its footer cannot be read") from None


def _column(named: thrift.Struct) -> _Column:
    begin, first = named[9, I64], named.get((11, I64), 0)
    return _Column(
        codec=named[4, I32],
        values=named[5, I64],
        packed_size=named[7, I64],
        begin=first if 0 < first < begin else begin,
    )


def _pages(data: memoryview, column: _Column) -> Iterator[_Page]:
    """The pages of a column that Arrow reads."""
    at, end = column.begin, min(len(data), column.begin + column.packed_size)
    values = 0
    while values < column.values and 0 <= at < end:
        reader = thrift.ThriftReader(data, at)
        try:
            header = reader.struct()
            size, packed_size = header[2, I32], header[3, I32]
            kind, encoding = _KINDS[header[1, I32]]
            of_kind = header[kind, STRUCT]
            count, number = of_kind[1, I32], of_kind[encoding, I32]
        except (IndexError, KeyError):
            raise ValueError(f"no header of a page at byte {at}") from None
        if min(size, packed_size, count) < 0:
            raise ValueError(f"a negative size in the header of a page at byte {at}")
        at = reader.at + packed_size
        is_dictionary = kind == _DICTIONARY
        values += 0 if is_dictionary else count
        yield _Page(is_dictionary, size, data[reader.at : at], count, number)


def _longest_entry(page: _Page, codec: int) -> int:
    """The bytes of the longest text of a dictionary; at most those of the page."""
    data = page.packed
    if codec in _CODECS:
        unpacked = pa.Codec(_CODECS[codec]).decompress(data, page.size)
        data = memoryview(unpacked).cast("B")
    elif codec:
        return page.size
    if len(data) > _LONG_BYTES:
        from kafka_marshal.kernel.entries import longest_entry  # only here: numba takes its time

        return min(longest_entry(data), page.size)
    longest = at = 0
    last, unpack = len(data) - _LENGTH.size, _LENGTH.unpack_from
    while at <= last:
        (size,) = unpack(data, at)
        if size > longest:
            longest = size
        at += _LENGTH.size + size
    return min(longest, page.size)

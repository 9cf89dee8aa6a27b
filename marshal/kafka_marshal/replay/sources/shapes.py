"""Shared by all formats: files, chunks, and what a format cannot prove.

A format surveys a file on the driver (`Survey`: its chunks, and the limits of what it proves) and
reads a chunk on an executor. This module knows no specific format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

import attrs
import pyarrow as pa
from attrs import field, frozen

Layout: TypeAlias = tuple[str, ...]
"""The columns of a text, from left to right."""

RECORD_BYTES: Final = 150
"""The approximate size of a record in a text, for estimates."""
PACKED: Final = 10
"""The approximate compression ratio of a text."""
UNPACKED_BYTES_MAX: Final = 64 << 20
"""The unpacked size limit of one line of a text, one record, or the records of one batch. A broker
accepts a megabyte by default, and a megabyte of gzip may unpack to a gigabyte."""
GZIP: Final = "gzip"
ZSTD: Final = "zstd"
NAMES_NO_TOPICS: Final = "it does not name topics, so --topic chose nothing here."


@frozen
class CannotProve:
    """The limits of a format's dumps: a sentence for each missing proof, else None."""

    headers: str | None = None
    """The records' headers, and with them epochs and what readers had seen."""
    timestamp_type: str | None = None
    """Whether the broker or the producer stamped a record."""
    timestamps: str | None = None
    """When a record was appended."""
    values: str | None = None
    """The value, byte for byte, with null and empty distinguished."""
    offsets: str | None = None
    """The offset of a record in the log."""
    committed: str | None = None
    """That a record written in a transaction was committed."""
    keys: str | None = None
    """The records' keys; only relevant if keys are asked for."""

    def sentences(self) -> tuple[str, ...]:
        """All sentences."""
        return tuple(text for text in attrs.astuple(self) if text is not None)

    def of_values(self) -> CannotProve:
        """The same limits without that of keys."""
        return attrs.evolve(self, keys=None)


@frozen
class File:
    """One file of the input."""

    path: Path
    format: str
    log_folder: Path
    """For a file that is part of a log: the folder that identifies the log. It need not exist."""
    compression: str | None = None
    """`gzip`, `zstd`, or None if it is not compressed."""
    in_folder: bool = False
    """Whether it was found in a given folder, and not given itself."""


@frozen(kw_only=True)
class Chunk:
    """What one task reads."""

    format: str
    path: str
    log: str
    records: int
    """The number of records; an estimate if the format does not count them."""
    keys: bool = False
    """Whether records are read with keys, so that batches have the column `key`."""


@frozen(kw_only=True)
class TextRange(Chunk):
    """A byte range of a text: the records whose first line begins in it."""

    begin: int
    end: int
    compression: str | None = None
    """A compressed text is one range."""
    topic: str | None = None
    """The only accepted topic, if the format names topics."""
    filtering: bool = False
    """Records of other topics are skipped; otherwise they are an error."""
    partition: int | None = None
    layout: Layout = ()
    """The columns, if the format has a choice of them."""


@frozen(kw_only=True)
class RowGroups(Chunk):
    """Some row groups of a Parquet file."""

    row_groups: tuple[int, ...]
    partition: int | None = None
    """The coordinating partition, if only the folder names it."""
    topic: str | None = None
    """Rows of other topics are skipped; None: there are none."""


@frozen(kw_only=True)
class Batches(Chunk):
    """A byte range of a segment: whole record batches."""

    begin: int
    end: int
    partition: int


@frozen(kw_only=True)
class SinkObject(Chunk):
    """One file of a Connect sink."""

    kind: str
    """`json`, `avro`, `parquet` or `bin`."""
    compression: str | None
    partition: int
    start: int
    """Offset of the first record."""


@frozen
class FileRequest:
    """The user's options for a file."""

    log: str
    topic: str | None = None
    keys: bool = False


@frozen
class Survey:
    """The driver's result of examining one file."""

    chunks: tuple[Chunk, ...]
    cannot_prove: CannotProve
    notes: tuple[str, ...] = field(default=())
    """Limits of this file that not every file of its format has."""
    topics: frozenset[str] = field(default=frozenset())
    """Topics in its name or headings."""


@frozen
class FileHead:
    """The beginning of a file, uncompressed."""

    path: Path
    first: bytes
    compression: str | None


@frozen
class Format:
    """One kind of dump. *Parts* are files of which several make one log."""

    name: str
    what: str
    """Its description for users."""
    detected_by: str
    parts: bool
    cannot_prove: CannotProve
    """The limits of every file of this format. A survey may add more."""
    looks_like: Callable[[FileHead], bool]
    survey: Callable[[File, FileRequest], Survey]
    read: Callable[[int, Chunk], Iterator[pa.RecordBatch]]
    """Yields batches in `ARROW_SCHEMA` or `LEAN_SCHEMA`, with the column `key` if the chunk asks
    for it. The number is the first `input_order`."""


def about_records(size: int, *, packed: bool) -> int:
    """The approximate number of records in this many bytes, at least 1."""
    return max(1, size * (PACKED if packed else 1) // RECORD_BYTES)

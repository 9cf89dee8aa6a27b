"""Shared by all formats: files, chunks, and what a format cannot prove.

A format surveys a file on the driver (`Survey`: its chunks, and what limits belief in it) and reads
a chunk on an executor. This room knows no format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

import attrs
import pyarrow as pa
from attrs import field, frozen

Layout: TypeAlias = tuple[str, ...]
"""Columns of a text, left to right."""

RECORD_BYTES: Final = 150
"""About how many bytes a record takes in a text, for an estimate."""
PACKED: Final = 10
"""About how many times smaller a compressed text is."""
UNPACKED_BYTES_MAX: Final = 64 << 20
"""The most that one line of a text, one record, or the records of one batch may take, unpacked. A
broker takes a megabyte by default; a megabyte of gzip may unpack to a thousand times that."""
GZIP: Final = "gzip"
ZSTD: Final = "zstd"
NAMES_NO_TOPICS: Final = "it does not name topics, so --topic chose nothing here."


@frozen
class CannotProve:
    """What a dump of some format cannot say: a sentence each, None where it proves it."""

    headers: str | None = None
    """The records' headers, with them epochs and what readers had seen."""
    timestamp_type: str | None = None
    """Whether the broker or the producer stamped a record."""
    timestamps: str | None = None
    """When a record was appended."""
    values: str | None = None
    """The value, byte for byte, null apart from empty."""
    offsets: str | None = None
    """Where in the log a record stood."""
    committed: str | None = None
    """That a record written in a transaction was committed."""
    keys: str | None = None
    """The records' keys; of interest where they are asked for."""

    def sentences(self) -> tuple[str, ...]:
        """Everything that it cannot prove."""
        return tuple(text for text in attrs.astuple(self) if text is not None)

    def of_values(self) -> CannotProve:
        """The same for somebody who does not ask for keys."""
        return attrs.evolve(self, keys=None)


@frozen
class File:
    """One file of the input."""

    path: Path
    format: str
    log_folder: Path
    """For files that are parts of a log: the folder that is the log. It need not exist."""
    compression: str | None = None
    """`gzip`, `zstd`, or None: as it is."""
    in_folder: bool = False
    """It was found in a folder that was given, and not given itself."""


@frozen(kw_only=True)
class Chunk:
    """What one task reads."""

    format: str
    path: str
    log: str
    records: int
    """How many it holds; where a format does not count them, about how many."""
    keys: bool = False
    """Records are read with their keys, so that batches have the column `key`."""


@frozen(kw_only=True)
class TextRange(Chunk):
    """A byte range of a text: the records whose first line begins in it."""

    begin: int
    end: int
    compression: str | None = None
    """A compressed text is one range."""
    topic: str | None = None
    """The topic that records must be of, where the format names it."""
    filtering: bool = False
    """Records of other topics are passed over; otherwise they are an error."""
    partition: int | None = None
    layout: Layout = ()
    """Columns, where a format has a choice of them."""


@frozen(kw_only=True)
class RowGroups(Chunk):
    """Some row groups of a Parquet file."""

    row_groups: tuple[int, ...]
    partition: int | None = None
    """The coordinating partition, when the folder says it and no column does."""
    topic: str | None = None
    """Rows of other topics are passed over; None: there are none."""


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
    """What the user asked of a file."""

    log: str
    topic: str | None = None
    keys: bool = False


@frozen
class Survey:
    """What the driver learned of one file."""

    chunks: tuple[Chunk, ...]
    cannot_prove: CannotProve
    notes: tuple[str, ...] = field(default=())
    """What is so of this file and not of every file of its format."""
    topics: frozenset[str] = field(default=frozenset())
    """Topics that its name or its headings say."""


@frozen
class FileHead:
    """The beginning of a file, uncompressed."""

    path: Path
    first: bytes
    compression: str | None


@frozen
class Format:
    """One kind of dump. Files are *parts* where many of them make one log."""

    name: str
    what: str
    """What it is, for people."""
    detected_by: str
    parts: bool
    cannot_prove: CannotProve
    """What no file of this format proves. A survey may add to it."""
    looks_like: Callable[[FileHead], bool]
    survey: Callable[[File, FileRequest], Survey]
    read: Callable[[int, Chunk], Iterator[pa.RecordBatch]]
    """Batches in `ARROW_SCHEMA`, or in `LEAN_SCHEMA`, and with the column `key` if the chunk says
    so; the number is where `input_order` begins."""


def about_records(size: int, *, packed: bool) -> int:
    """About how many records this many bytes are, at least 1."""
    return max(1, size * (PACKED if packed else 1) // RECORD_BYTES)

"""Reads lines of plain or compressed text in blocks, and counts lines for error messages.

Plain text is divided into byte ranges, each read by one task. A compressed text is one range, since
it cannot be read from the middle. This module does not know what a line means.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final, cast

import pyarrow as pa
from attrs import frozen

from kafka_marshal.capture import UnreadableSource, refuse_pipe
from kafka_marshal.replay.places import UriPath, place_of, reason_of
from kafka_marshal.replay.sources.shapes import (
    GZIP,
    UNPACKED_BYTES_MAX,
    ZSTD,
    Chunk,
    FileHead,
    TextRange,
)

CHUNK_BYTES: Final = 32 * 1024 * 1024
"""The size of a byte range of plain text."""
BLOCK_BYTES: Final = 128 * 1024
"""The approximate size of a block of lines. It is small, since the objects that JSON makes of a
block live as long as it does. Many of them cost Python's garbage collector up to half of the
time."""
SCAN_BYTES: Final = 2 * 1024 * 1024
"""The block size if nothing is parsed."""
HEAD_BYTES: Final = 64 * 1024

_MAGICS: Final = {b"\x1f\x8b": GZIP, b"\x28\xb5\x2f\xfd": ZSTD}


@frozen
class Block:
    """Some whole lines, without their line ends."""

    lines: list[bytes]
    at: int
    """The position of the first byte; in compressed text, of uncompressed bytes."""
    number: int
    """The number of lines of the range before this block."""


def head_of(path: Path) -> FileHead:
    """Read the beginning of a file.

    Raises:
        UnreadableSource: it is a pipe, cannot be opened, or its compression is damaged at the
            start.
    """
    try:
        if not isinstance(path, UriPath):
            refuse_pipe(path)
        with path.open("rb") as file:
            first = file.read(HEAD_BYTES)
        compression = next(
            (kind for magic, kind in _MAGICS.items() if first[:4][: len(magic)] == magic), None
        )
        if compression is not None:
            with opened(path, compression) as text:
                first = text.read(HEAD_BYTES)
    except OSError as error:
        raise UnreadableSource(f"{path}: {error.strerror or error}") from None
    return FileHead(path, first, compression)


@contextmanager
def opened(path: Path | str, compression: str | None) -> Iterator[IO[bytes]]:
    """Open the file for uncompressed reading; errors name it."""
    try:
        place = place_of(path)
        if compression is None:
            with place.open("rb") as file:
                yield file
        else:
            with _unpacked(place, compression) as stream:
                yield cast("IO[bytes]", io.BufferedReader(stream, SCAN_BYTES))
    except MemoryError as error:
        raise UnreadableSource(f"{path}: not enough memory to read it: {error}") from None
    except (OSError, pa.ArrowException) as error:
        reason = reason_of(error) if isinstance(error, OSError) else str(error)
        raise UnreadableSource(f"{path}: {reason}") from None


def _unpacked(path: Path, compression: str) -> pa.NativeFile:
    if isinstance(path, UriPath):
        return pa.CompressedInputStream(path.open("rb"), compression)
    return pa.input_stream(str(path), compression=compression)


def is_blank(path: Path, compression: str | None) -> bool:
    """Whether all lines of the text are blank."""
    with opened(path, compression) as text:
        while data := text.read(SCAN_BYTES):
            if data.strip():
                return False
    return True


def rest_of_line(file: IO[bytes], path: str) -> bytes:
    """Read up to and including the next line end.

    Raises:
        UnreadableSource: the line is longer than any record, as in a decompression bomb.
    """
    found = file.readline(UNPACKED_BYTES_MAX)
    if len(found) == UNPACKED_BYTES_MAX and not found.endswith(b"\n"):
        raise too_long(path)
    return found


def too_long(path: str) -> UnreadableSource:
    """The error for a record that exceeds the limit."""
    return UnreadableSource(
        f"{path}: a line or a record of more than {UNPACKED_BYTES_MAX:,} bytes: no record of the "
        "coordination topic is that long"
    )


def lines(path: str, compression: str | None) -> Iterator[bytes]:
    """The lines of a file, with their ends."""
    with opened(path, compression) as file:
        while line := rest_of_line(file, path):
            yield line


def ranges(path: Path, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Divide a part of a plain text into pieces."""
    for start in range(begin, end, CHUNK_BYTES):
        yield start, min(start + CHUNK_BYTES, end)


def pieces(path: Path, compression: str | None) -> Iterator[tuple[int, int]]:
    """Divide a whole text into pieces; a compressed one is a single piece."""
    size = size_of(path)
    return iter([(0, size)]) if compression else ranges(path, 0, size)


def size_of(path: Path | str) -> int:
    """The size of the stored file in bytes."""
    try:
        return place_of(path).stat().st_size
    except OSError as error:
        raise UnreadableSource(f"{path}: {error.strerror or error}") from None


def blocks(chunk: TextRange) -> Iterator[Block]:
    """Yield the lines that begin in the range, including the one that crosses its end."""
    with opened(chunk.path, chunk.compression) as file:
        at = chunk.begin
        if chunk.begin:
            file.seek(chunk.begin - 1)
            at += len(file.readline()) - 1
        number = 0
        end = chunk.end if chunk.compression is None else None
        while end is None or at < end:
            wanted = BLOCK_BYTES if end is None else min(BLOCK_BYTES, end - at)
            data = file.read(wanted)
            if not data:
                return
            if not data.endswith(b"\n"):
                data += rest_of_line(file, chunk.path)
            lines = data.split(b"\n")
            if not lines[-1]:
                lines.pop()
            yield Block(lines, at, number)
            number += len(lines)
            at += len(data)


def records(
    chunk: TextRange, begins: Callable[[bytes], bool]
) -> Iterator[tuple[list[bytes], Callable[[], str]]]:
    """Yield the records whose first line begins in the range, each with a function for its place.

    This is for formats whose values may contain line ends: a record includes the lines that follow
    it. A range that is not the first starts with the first line that begins a record. The lines
    before that belong to the range before.
    """
    record: list[bytes] = []
    room = UNPACKED_BYTES_MAX
    place: Callable[[], str] = lambda: chunk.path  # noqa: E731
    for line, where in _lines_to_the_end(chunk, begins):
        if begins(line):
            if record:
                yield record, place
            record, place, room = [line], where, UNPACKED_BYTES_MAX
        elif record:
            record.append(line)
            room -= len(line) + 1
            if room < 0:
                raise too_long(chunk.path)
        elif not chunk.begin:
            yield [line], where
    if record:
        yield record, place


def _lines_to_the_end(
    chunk: TextRange, begins: Callable[[bytes], bool]
) -> Iterator[tuple[bytes, Callable[[], str]]]:
    """Yield the lines of the range, and further ones that belong to its last record."""
    end = chunk.begin
    for block in blocks(chunk):
        at = block.at
        for number, line in enumerate(block.lines):
            yield line, _at(chunk, block, number)
            at += len(line) + 1
        end = at
    if chunk.compression is None:
        with opened(chunk.path, None) as file:
            file.seek(end)
            while (line := rest_of_line(file, chunk.path)) and not begins(line.rstrip(b"\n")):
                yield line.rstrip(b"\n"), lambda: chunk.path


def _at(chunk: TextRange, block: Block, number: int) -> Callable[[], str]:
    return lambda: where(chunk, block, number)


def where(chunk: TextRange, block: Block, number: int) -> str:
    """`path:line` of a block's line; only counted for an error."""
    before = block.number if chunk.compression is not None else _newlines(chunk, block.at)
    return f"{chunk.path}:{before + number + 1}"


def _newlines(chunk: Chunk, at: int) -> int:
    newlines = 0
    with opened(chunk.path, None) as file:
        while at > 0 and (data := file.read(min(at, 1 << 20))):
            newlines += data.count(b"\n")
            at -= len(data)
    return newlines

"""Decompresses bytes part by part, so that a limit applies before memory is used.

Libraries that unpack at once trust the input. This module knows codecs, but no file format.
"""

from __future__ import annotations

import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import pyarrow as pa

from kafka_marshal.capture import UnreadableSource

Unpacking: TypeAlias = Callable[[bytes], Iterator[bytes]]
"""From compressed bytes to the decompressed bytes, in parts.

Raises:
    ValueError, OSError, zlib.error, lzma.LZMAError: the input is damaged."""

_PART_BYTES: Final = 1 << 20
_SNAPPY_JAVA: Final = b"\x82SNAPPY\x00"
_XZ_MEMORY_BYTES: Final = 128 << 20
"""Enough for `xz -9`, which needs 65 MiB to unpack."""


def unpacked(unpacking: Unpacking, data: bytes, bytes_max: int, where: str) -> bytes:
    """Unpack the bytes.

    Raises:
        UnreadableSource: the result exceeds the limit; names the place and the limit.
        ValueError, OSError, zlib.error, lzma.LZMAError: the bytes are damaged.
    """
    return b"".join(_bounded(unpacking(data), bytes_max, where))


def too_large(where: str, bytes_max: int) -> UnreadableSource:
    """The error for a batch, block or row group whose records exceed the limit."""
    return UnreadableSource(f"{where}: its records unpack to more than {bytes_max:,} bytes")


def _bounded(parts: Iterator[bytes], bytes_max: int, where: str) -> Iterator[bytes]:
    size = 0
    for part in parts:
        size += len(part)
        if size > bytes_max:
            raise too_large(where, bytes_max)
        yield part


def gzip(data: bytes) -> Iterator[bytes]:
    """Unpack gzip, with its header."""
    return _zlib(data, wbits=31)


def deflate(data: bytes) -> Iterator[bytes]:
    """Unpack deflate without a header, as in Avro."""
    return _zlib(data, wbits=-15)


def _zlib(data: bytes, wbits: int) -> Iterator[bytes]:
    unpacking = zlib.decompressobj(wbits=wbits)
    while not unpacking.eof:
        part = unpacking.decompress(data, _PART_BYTES)
        data = unpacking.unconsumed_tail
        if not part and not data and not unpacking.eof:
            raise ValueError("the compressed records are cut")
        yield part


def xz(data: bytes) -> Iterator[bytes]:
    """Unpack one stream of xz, as in Avro."""
    unpacking = lzma.LZMADecompressor(memlimit=_XZ_MEMORY_BYTES)
    while not unpacking.eof:
        part = unpacking.decompress(data, _PART_BYTES)
        data = b""
        if not part and unpacking.needs_input:
            raise ValueError("the compressed records are cut")
        yield part


def stream(codec: str) -> Unpacking:
    """The unpacking of a codec that Arrow reads as a stream: `bz2`, `lz4`, `zstd`."""

    def unpacking(data: bytes) -> Iterator[bytes]:
        with pa.CompressedInputStream(pa.BufferReader(data), codec) as opened:
            while part := opened.read(_PART_BYTES):
                yield part

    return unpacking


def snappy(data: bytes) -> Iterator[bytes]:
    """Unpack snappy: one raw block, as librdkafka writes it, or blocks of the Java library."""
    if not data.startswith(_SNAPPY_JAVA):
        yield _snappy_block(data)
        return
    at = len(_SNAPPY_JAVA) + 8  # two versions
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        yield _snappy_block(data[at + 4 : at + 4 + size])
        at += 4 + size


def _snappy_block(data: bytes) -> bytes:
    """Unpack one block. Its stated length may be wrong, so no memory is reserved for it."""
    size = shift = 0
    for at, byte in enumerate(data[:5], 1):
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            # A block of snappy unpacks to at most 64 bytes for every three of its own.
            if size > 22 * (len(data) - at):
                raise ValueError("the length of a block of snappy is wrong")
            return bytes(pa.Codec("snappy").decompress(data, size))
    raise ValueError("a block of snappy has no length")

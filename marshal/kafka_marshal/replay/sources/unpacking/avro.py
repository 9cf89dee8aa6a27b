"""Decompresses Avro blocks within limits; fastavro would unpack a block of any size at once.

fastavro therefore receives the file without compression, one block at a time. Each block is
unpacked here, within the limit. This module does not know what a record contains.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import IO, Any, Final

import fastavro

from kafka_marshal.replay.sources.shapes import UNPACKED_BYTES_MAX
from kafka_marshal.replay.sources.unpacking import codecs

_SYNC_BYTES: Final = 16
_CHECKSUM_BYTES: Final = 4
"""Follows each block of snappy."""
_HEADER: Final = fastavro.parse_schema(
    {
        "type": "record",
        "name": "org.apache.avro.file.Header",
        "fields": [
            {"name": "magic", "type": {"type": "fixed", "name": "Magic", "size": 4}},
            {"name": "meta", "type": {"type": "map", "values": "bytes"}},
            {"name": "sync", "type": {"type": "fixed", "name": "Sync", "size": _SYNC_BYTES}},
        ],
    }
)
_LONG: Final = fastavro.parse_schema("long")
_CODECS: Final[Mapping[bytes, codecs.Unpacking]] = {
    b"null": lambda data: iter([data]),
    b"deflate": codecs.deflate,
    b"bzip2": codecs.stream("bz2"),
    b"xz": codecs.xz,
    b"snappy": lambda data: codecs.snappy(data[:-_CHECKSUM_BYTES]),
    b"zstandard": codecs.stream("zstd"),
}


class PlainAvro:
    """An Avro file, readable as if its blocks were not compressed."""

    def __init__(self, file: IO[bytes], path: str) -> None:
        self._pieces = _pieces(file, path)
        self._piece = io.BytesIO()

    def read(self, size: int) -> bytes:
        """Read the next bytes; a header or block is never read together with the next one.

        Raises:
            UnreadableSource: a block unpacks to more than the limit.
            ValueError, OSError, EOFError, zlib.error, lzma.LZMAError: the file is damaged.
        """
        data = self._piece.read(size)
        if not data and size:
            self._piece = io.BytesIO(next(self._pieces, b""))
            data = self._piece.read(size)
        return data


def _pieces(file: IO[bytes], path: str) -> Iterator[bytes]:
    """Yield the header and each block."""
    header: dict[str, Any] = _read(file, _HEADER)
    name = header["meta"].get("avro.codec", b"null")
    if name not in _CODECS:
        raise ValueError(f"no codec is named {name!r:.40}")
    header["meta"]["avro.codec"] = b"null"
    yield _written(_HEADER, header)
    number = 0
    while (records := _count(file)) is not None:
        number += 1
        where, size = f"{path}: block {number}", _read(file, _LONG)
        if size > UNPACKED_BYTES_MAX:
            raise codecs.too_large(where, UNPACKED_BYTES_MAX)
        data = file.read(max(0, size))
        if len(data) != size:
            raise ValueError(f"block {number} is cut")
        plain = codecs.unpacked(_CODECS[name], data, UNPACKED_BYTES_MAX, where)
        yield b"".join(
            (
                *(_written(_LONG, records), _written(_LONG, len(plain))),
                *(plain, file.read(_SYNC_BYTES)),
            )
        )


def _count(file: IO[bytes]) -> int | None:
    """The number of records that the next block states; None at the end of the file."""
    try:
        return int(_read(file, _LONG))
    except EOFError:
        return None


def _read(file: IO[bytes], schema: Any) -> Any:
    return fastavro.schemaless_reader(file, schema, None)


def _written(schema: Any, value: Any) -> bytes:
    file = io.BytesIO()
    fastavro.schemaless_writer(file, schema, value)
    return file.getvalue()

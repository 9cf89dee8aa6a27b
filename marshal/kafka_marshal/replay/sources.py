"""What a SOURCE argument means: which files, of which kind, belonging to which log.

Everything here happens on the driver and reads no record: names, sizes, the first bytes, Parquet
footers. So a missing file or column is told before Spark starts. `reading` reads the chunks.

A log is one recording of a coordination topic. Which files make one log:

- a JSONL capture is a whole recording, so each is a log of its own, named after the file;
- the Parquet files in a folder whose name ends in `.parquet` (as Spark writes it) are one log;
- other Parquet files below a folder given as SOURCE are one log;
- Parquet files given one by one, or by a glob, are one log if they lie in the same folder;
- with `one_log`, everything is one log.

Folders like `partition=2` count as part of their parent, and may stand in for that column.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from attrs import field, frozen

from kafka_marshal.capture import UnreadableSource

CHUNK_BYTES: Final = 32 * 1024 * 1024
"""A capture is read in pieces of this size, each by one task."""
ONE_LOG_NAME: Final = "log"

_PARQUET_MAGIC: Final = b"PAR1"
_GLOB: Final = re.compile(r"[*?\[]")
_HIVE: Final = re.compile(r"^\w+=")


@frozen
class JsonLines:
    """A byte range of a capture: the lines that begin in it."""

    path: str
    log: str
    begin: int
    end: int


@frozen
class RowGroups:
    """Some row groups of a Parquet file."""

    path: str
    log: str
    row_groups: tuple[int, ...]
    partition: int | None = None
    """The coordinating partition, when the folder says it and no column does."""


Chunk: TypeAlias = JsonLines | RowGroups


@frozen
class Found:
    """What the SOURCE arguments came to."""

    chunks: tuple[Chunk, ...]
    """In input order, which settles which of two conflicting records came first."""
    logs: tuple[str, ...]
    files: tuple[str, ...]
    left_out: tuple[str, ...] = field(default=())
    """Files in folders that were not read, each with the reason."""


@frozen
class _File:
    path: Path
    parquet: bool
    log_folder: Path
    """For Parquet: the folder that is the log."""
    in_folder: bool = False
    """It was found in a folder that was given, and not given itself."""


def find(sources: Sequence[str], *, one_log: bool = False) -> Found:
    """The chunks to read.

    Raises:
        UnreadableSource: nothing is there, a file is empty or of neither kind, or a Parquet file
            lacks a column or has one of a wrong type; the message names it.
    """
    if not sources:
        raise UnreadableSource("no source was given")
    left_out: list[str] = []
    files: dict[Path, _File] = {}
    for source in sources:
        for file in _files(source, left_out):
            files.setdefault(file.path.resolve(), file)
    names = _log_names(list(files.values()), one_log)
    chunks: list[Chunk] = []
    for file in files.values():
        name = names[file.path]
        chunks.extend(_row_groups(file, name) if file.parquet else _json_lines(file, name))
    if not chunks:
        raise UnreadableSource(f"{', '.join(sources)}: the source is empty")
    return Found(
        tuple(chunks),
        tuple(dict.fromkeys(chunk.log for chunk in chunks)),
        tuple(str(file.path) for file in files.values()),
        tuple(left_out),
    )


def _files(source: str, left_out: list[str]) -> Iterator[_File]:
    path = Path(source)
    if path.is_dir():
        yield from _in_folder(path, left_out)
    elif path.exists():
        yield _single(path)
    elif _GLOB.search(source):
        matches = sorted(_matching(path))
        if not matches:
            raise UnreadableSource(f"{source}: no file matches")
        for match in matches:
            if match.is_dir():
                yield from _in_folder(match, left_out)
            elif match.name.endswith(".trace.jsonl"):
                left_out.append(f"{match}: the output of a trace")
            elif match.suffix in (".jsonl", ".parquet"):
                yield _single(match)
            else:
                left_out.append(f"{match}: neither .jsonl nor .parquet")
    else:
        raise UnreadableSource(f"{source}: no such file or folder")


def _matching(pattern: Path) -> Iterator[Path]:
    """The files and folders that a glob means; `**` reaches any depth."""
    if pattern.is_absolute():
        return Path(pattern.anchor).glob(str(pattern.relative_to(pattern.anchor)))
    return Path().glob(str(pattern))


def _single(path: Path) -> _File:
    try:
        with path.open("rb") as file:
            parquet = file.read(len(_PARQUET_MAGIC)) == _PARQUET_MAGIC
    except OSError as error:
        raise UnreadableSource(f"{path}: {error.strerror or error}") from None
    if not parquet and path.suffix == ".parquet":
        raise UnreadableSource(f"{path}: not a Parquet file")
    return _File(path, parquet, _log_folder(path, path.absolute().parent))


def _in_folder(folder: Path, left_out: list[str]) -> Iterator[_File]:
    """Captures and Parquet files, at any depth; Spark's own `_` and `.` files are no data."""
    found = False
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder).parts
        if not path.is_file() or any(part.startswith(("_", ".")) for part in inside):
            continue
        if path.name.endswith(".trace.jsonl"):
            left_out.append(f"{path}: the output of a trace")
        elif path.suffix in (".jsonl", ".parquet"):
            found = True
            if path.stat().st_size == 0:
                left_out.append(f"{path}: empty")
            else:
                file = _single(path)
                yield _File(path, file.parquet, _log_folder(path, folder.absolute()), True)
        else:
            left_out.append(f"{path}: neither .jsonl nor .parquet")
    if not found:
        raise UnreadableSource(f"{folder}: the folder holds no .jsonl and no .parquet file")


def _log_folder(path: Path, otherwise: Path) -> Path:
    """The folder that is the log of a Parquet file."""
    for parent in path.absolute().parents:
        if parent.suffix == ".parquet":
            return parent
    while _HIVE.match(otherwise.name):
        otherwise = otherwise.parent
    return otherwise


def _log_names(files: Sequence[_File], one_log: bool) -> dict[Path, str]:
    """A short name for every log, longer only where two would have the same."""
    if one_log:
        return {file.path: ONE_LOG_NAME for file in files}
    alone: dict[Path, set[Path]] = {}
    for file in (file for file in files if file.parquet):
        alone.setdefault(file.log_folder, set()).add(file.path)
    places: dict[Path, tuple[str, ...]] = {}
    for file in files:
        place = file.path.absolute()
        if file.parquet and (
            file.in_folder
            or file.log_folder.suffix == ".parquet"
            or len(alone[file.log_folder]) > 1
        ):
            place = file.log_folder
        places[file.path] = (*place.parts[:-1], re.sub(r"\.(jsonl|parquet)$", "", place.name))
    distinct = set(places.values())
    named: dict[tuple[str, ...], str] = {}
    for parts in distinct:
        depth = next(
            depth
            for depth in range(1, len(parts) + 1)
            if sum(other[-depth:] == parts[-depth:] for other in distinct) == 1
            or depth == len(parts)
        )
        named[parts] = "/".join(parts[-depth:])
    # A file name is bytes; one that is not UTF-8 is shown with escapes, for a table needs text.
    return {
        path: os.fsencode(named[parts]).decode("utf-8", "backslashreplace")
        for path, parts in places.items()
    }


def _json_lines(file: _File, log: str) -> Iterator[JsonLines]:
    try:
        size = file.path.stat().st_size
        with file.path.open("rb") as lines:
            if not any(line.strip() for line in lines):
                raise UnreadableSource(f"{file.path}: the source is empty")
    except OSError as error:
        raise UnreadableSource(f"{file.path}: {error.strerror or error}") from None
    for begin in range(0, size, CHUNK_BYTES):
        yield JsonLines(str(file.path), log, begin, min(begin + CHUNK_BYTES, size))


def _row_groups(file: _File, log: str) -> Iterator[RowGroups]:
    try:
        parquet = pq.ParquetFile(file.path)
    except (OSError, pa.ArrowException) as error:
        raise UnreadableSource(f"{file.path}: not a readable Parquet file: {error}") from None
    with parquet:
        schema, metadata = parquet.schema_arrow, parquet.metadata
    partition = _hive_partition(file.path)
    _check(schema, str(file.path), partition)
    _check_one_topic(metadata, str(file.path))
    if "partition" in schema.names:
        partition = None
    for number in range(metadata.num_row_groups):
        if metadata.row_group(number).num_rows:
            yield RowGroups(str(file.path), log, (number,), partition)


def _check_one_topic(metadata: pq.FileMetaData, path: str) -> None:
    """Offsets of two topics would be taken for one log's. Where the footer does not say, believe.

    Only the footer is read: the smallest and the largest topic of every row group.
    """
    topics: set[str] = set()
    for group in range(metadata.num_row_groups):
        for number in range(metadata.num_columns):
            column = metadata.row_group(group).column(number)
            if column.path_in_schema == "topic" and column.is_stats_set:
                statistics = column.statistics
                if statistics.has_min_max:
                    topics |= {str(statistics.min), str(statistics.max)}
    if len(topics) > 1:
        raise UnreadableSource(
            f"{path}: column 'topic' holds several topics ({', '.join(sorted(topics))}); "
            "give the coordination topic alone"
        )


def _hive_partition(path: Path) -> int | None:
    for part in reversed(path.absolute().parts[:-1]):
        if part.startswith("partition=") and part.removeprefix("partition=").isdecimal():
            return int(part.removeprefix("partition="))
    return None


def _is_bytes(kind: pa.DataType) -> bool:
    kinds = (pa.binary(), pa.large_binary(), pa.string(), pa.large_string())
    return any(kind == one for one in kinds)


def _is_header_list(kind: pa.DataType) -> bool:
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        return False
    struct = kind.value_type
    if not pa.types.is_struct(struct):
        return False
    fields = {struct.field(i).name: struct.field(i).type for i in range(struct.num_fields)}
    return all(name in fields and _is_bytes(fields[name]) for name in ("key", "value"))


_EXPECTED: Final = {
    "value": (lambda kind: _is_bytes(kind) or pa.types.is_null(kind), "binary"),
    "partition": (pa.types.is_integer, "int"),
    "offset": (pa.types.is_integer, "long"),
    "timestamp": (pa.types.is_timestamp, "timestamp"),
    "timestampType": (pa.types.is_integer, "int"),
    "headers": (
        lambda kind: _is_header_list(kind) or pa.types.is_null(kind),
        "array<struct<key: string, value: binary>>",
    ),
}
"""The columns that are read, as Spark's Kafka source names them; the key is not needed."""


def _check(schema: pa.Schema, path: str, partition: int | None) -> None:
    for name, (fits, wanted) in _EXPECTED.items():
        if name not in schema.names:
            if name == "headers" or (name == "partition" and partition is not None):
                continue
            raise UnreadableSource(f"{path}: column {name!r} is missing")
        kind = schema.field(name).type
        if not fits(kind):
            raise UnreadableSource(f"{path}: column {name!r} is {kind}, not {wanted}")

"""Resolves a SOURCE argument: its files, the format of each, and the log each belongs to.

A log is one recording of a coordination topic. These files make one log:

- a text that is a whole recording (capture, kcat, console) is a log of its own, named after the
  file;
- Parquet files in a folder whose name ends in `.parquet` (as Spark writes it) are one log;
- other Parquet files and texts of dump-log below a folder given as SOURCE are one log;
- if they are given one by one, or by a glob, those of one folder are one log;
- segments in the folders `T-P` of one data folder, and files of one sink's folder `T`, are one log
  per topic, named after it;
- with `one_log`, everything is one log.

Folders like `partition=2` count as part of their parent.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from attrs import field, frozen

from kafka_marshal.capture import UnreadableSource
from kafka_marshal.replay.places import UriPath, place_of, reason_of
from kafka_marshal.replay.sources.connect import CONNECT, NAME
from kafka_marshal.replay.sources.dump_log import DUMP_LOG, FOLDER
from kafka_marshal.replay.sources.formats import FORMATS, detected, looked_for
from kafka_marshal.replay.sources.json_lines import CAPTURE
from kafka_marshal.replay.sources.parquet import PARQUET
from kafka_marshal.replay.sources.segment import SEGMENT
from kafka_marshal.replay.sources.shapes import File, Format
from kafka_marshal.replay.sources.text import head_of

ONE_LOG_NAME: Final = "log"

_GLOB: Final = re.compile(r"[*?\[]")
_HIVE: Final = re.compile(r"^\w+=")
_ENDINGS: Final = re.compile(
    r"(?:\.(?:jsonl|json|ndjson|parquet|txt|log|dump|out))?(?:\.(?:gz|gzip|zst|zstd))?$"
)
_BESIDE_SEGMENTS: Final = (".index", ".timeindex", ".txnindex", ".snapshot", ".deleted", ".cleaned")
_TRACE: Final = re.compile(r"\.trace\.jsonl(?:\.\w+)?$")


@frozen
class FileSearch:
    """How to examine files: the user's options, and the files left out until now."""

    format: Format | None = None
    """The format of every file; None: detect it."""
    left_out: list[str] = field(factory=list)


def files_of(source: str, looking: FileSearch) -> Iterator[File]:
    """Yield the files of one SOURCE.

    Raises:
        UnreadableSource: nothing was found, or a file has an unknown format.
    """
    try:
        yield from _files_of(source, looking)
    except OSError as error:
        raise UnreadableSource(f"{error.filename or source}: {reason_of(error)}") from None


def _files_of(source: str, looking: FileSearch) -> Iterator[File]:
    path = place_of(source)
    if path.is_dir():
        yield from _in_folder(path, looking)
    elif path.exists():
        yield _given(path, looking)
    elif _GLOB.search(source):
        matches = sorted(_matching(path))
        if not matches:
            raise UnreadableSource(f"{source}: no file matches")
        for match in matches:
            if match.is_dir():
                yield from _in_folder(match, looking)
            elif (file := _found(match, looking)) is not None:
                yield file
    elif isinstance(path, UriPath):
        path.stat()  # raises, and says what is missing
    else:
        raise UnreadableSource(f"{source}: no such file or folder")


def _matching(pattern: Path) -> Iterator[Path]:
    """Yield the files and folders that match a glob; `**` matches any depth."""
    if isinstance(pattern, UriPath):
        depth = next(depth for depth, part in enumerate(pattern.parts) if _GLOB.search(part))
        return UriPath(*pattern.parts[:depth]).glob("/".join(pattern.parts[depth:]))
    if pattern.is_absolute():
        return Path(pattern.anchor).glob(str(pattern.relative_to(pattern.anchor)))
    return Path().glob(str(pattern))


def _given(path: Path, looking: FileSearch) -> File:
    """A file that the user named: an unknown format is an error."""
    head = head_of(path)
    format_ = looking.format or detected(head)
    if format_ is None and re.search(r"\.jsonl(?:\.\w+)?$", path.name):
        format_ = CAPTURE  # so that the error names the line and what is wrong with it
    if format_ is None and path.suffix == ".parquet":
        raise UnreadableSource(f"{path}: not a Parquet file")
    if format_ is None and not head.first.strip():
        raise UnreadableSource(f"{path}: the source is empty")
    if format_ is None:
        raise UnreadableSource(
            f"{path}: of no format that is known; --format says which it is. Looked for: "
            f"{looked_for()}"
        )
    return File(path, format_.name, _log_folder(path, format_, None), head.compression)


def _found(path: Path, looking: FileSearch, folder: Path | None = None) -> File | None:
    """A file found in a folder: one with an unknown format is left out."""
    if _TRACE.search(path.name):
        looking.left_out.append(f"{path}: the output of a trace")
        return None
    if path.suffix in _BESIDE_SEGMENTS:
        looking.left_out.append(f"{path}: not the records of a segment")
        return None
    if folder is not None and path.stat().st_size == 0:
        looking.left_out.append(f"{path}: empty")
        return None
    format_ = looking.format
    if (format_ is SEGMENT and not (path.suffix == ".log" and FOLDER.match(path.parent.name))) or (
        format_ is CONNECT and not NAME.match(path.name)
    ):
        looking.left_out.append(f"{path}: no {format_.name} by its name")
        return None
    if format_ is None and not re.search(
        r"\.(?:jsonl|parquet)(?:\.(?:gz|gzip|zst|zstd))?$", path.name
    ):
        head = head_of(path)
        format_ = detected(head)
        if format_ is None:
            looking.left_out.append(f"{path}: of no format that is known")
            return None
    file = _given(path, looking)
    if folder is None:
        return file
    log_folder = _log_folder(path, FORMATS[file.format], folder.absolute())
    return File(path, file.format, log_folder, file.compression, True)


def _in_folder(folder: Path, looking: FileSearch) -> Iterator[File]:
    """Yield all files of known formats, at any depth; Spark's own `_` and `.` files are no data."""
    found = False
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or any(map(_is_hidden, path.relative_to(folder).parts)):
            continue
        file = _found(path, looking, folder)
        found = found or file is not None or looking.left_out[-1].endswith(": empty")
        if file is not None:
            yield file
    if not found:
        raise UnreadableSource(
            f"{folder}: the folder holds no file of a format that is known: "
            f"{', '.join(FORMATS)}. Looked for: {looked_for()}"
        )


def _is_hidden(name: str) -> bool:
    """Whether the name is of a hidden file, as `_SUCCESS`; `__marshal-0` is a topic's folder."""
    return name.startswith(".") or (name.startswith("_") and not name.startswith("__"))


def _log_folder(path: Path, format_: Format, within: Path | None) -> Path:
    """The folder that identifies the log of a partial file; it need not exist."""
    path = path.absolute()
    parent = path.parent
    if format_ in (SEGMENT, DUMP_LOG) and (named := FOLDER.match(parent.name)):
        return parent.parent / named["topic"]
    if format_ is PARQUET:
        for folder in path.parents:
            if folder.suffix == ".parquet":
                return folder
    folder = parent if within is None or format_ in (CONNECT, SEGMENT) else within
    while _HIVE.match(folder.name):
        folder = folder.parent
    return folder


def log_names(files: Sequence[File], one_log: bool) -> dict[Path, str]:
    """A short name for every log; a longer one only if two would be equal."""
    if one_log:
        return {file.path: ONE_LOG_NAME for file in files}
    parts = [file for file in files if FORMATS[file.format].parts]
    together: dict[Path, set[Path]] = {}
    for file in parts:
        together.setdefault(file.log_folder, set()).add(file.path)
    places: dict[Path, tuple[str, ...]] = {}
    for file in files:
        place = file.path.absolute()
        if file in parts and (
            file.in_folder
            or file.format in (SEGMENT.name, CONNECT.name)
            or file.log_folder.suffix == ".parquet"
            or len(together[file.log_folder]) > 1
        ):
            place = file.log_folder
            ending = re.sub(r"\.parquet$", "", place.name)
        else:
            ending = _ENDINGS.sub("", place.name, count=1) or place.name
        places[file.path] = (*place.parts[:-1], ending)
    distinct = set(places.values())
    named: dict[tuple[str, ...], str] = {}
    for parts_of in distinct:
        depth = next(
            depth
            for depth in range(1, len(parts_of) + 1)
            if sum(other[-depth:] == parts_of[-depth:] for other in distinct) == 1
            or depth == len(parts_of)
        )
        named[parts_of] = "/".join(parts_of[-depth:])
    # A file name is bytes; if it is not UTF-8, it is shown with escapes, since a table needs text.
    return {
        path: os.fsencode(named[parts_of]).decode("utf-8", "backslashreplace")
        for path, parts_of in places.items()
    }

"""Resolves SOURCE arguments: the chunks to read, and the limits of what each format proves.

Everything here happens on the driver and reads hardly any records: names, sizes, first bytes,
footers, headers of batches. So a missing file or column is reported before Spark starts. `reading`
reads the chunks.

In order of dependency: `shapes` has what all formats share, `columns` the schema that they are read
into, and `text` reads lines. Each format has one module. `formats` lists and detects them; `files`
finds files.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from attrs import field, frozen

from kafka_marshal.capture import UnreadableSource
from kafka_marshal.replay.sources.files import FileSearch, files_of, log_names
from kafka_marshal.replay.sources.formats import FORMATS, named
from kafka_marshal.replay.sources.json_lines import several_topics
from kafka_marshal.replay.sources.shapes import (
    CannotProve,
    Chunk,
    File,
    FileRequest,
    Format,
)

__all__ = ["FORMATS", "CannotProve", "Chunk", "Format", "FoundSources", "Limitation", "find"]


@frozen
class Limitation:
    """A limit of what files prove, and how many files of which format have it."""

    format: str
    sentence: str
    files: int


@frozen
class FoundSources:
    """The result of resolving the SOURCE arguments."""

    chunks: tuple[Chunk, ...]
    """In input order, which decides which of two conflicting records came first."""
    logs: tuple[str, ...]
    files: tuple[str, ...]
    left_out: tuple[str, ...] = field(default=())
    """Files in folders that were not read, each with the reason."""
    limitations: tuple[Limitation, ...] = field(default=())
    """What the files cannot prove."""


def find(
    sources: Sequence[str],
    *,
    one_log: bool = False,
    source_format: str | None = None,
    topic: str | None = None,
    keys: bool = False,
) -> FoundSources:
    """Resolve the SOURCE arguments.

    Args:
        sources: files, folders, globs.
        one_log: all files belong to one log.
        source_format: the format of every file, one of `FORMATS`; None: detect it.
        topic: only read records of this topic, if the format names topics.
        keys: read records with their keys.

    Raises:
        UnreadableSource: nothing was found; or a file is empty, has an unknown format, holds
            records of several topics, or lacks what a replay needs. The message names it.
        InvalidOption: a source is empty text, or a URI of an unknown scheme.
    """
    if not sources:
        raise UnreadableSource("no source was given")
    looking = FileSearch(None if source_format is None else named(source_format))
    files: dict[Path, File] = {}
    for source in sources:
        for file in files_of(source, looking):
            files.setdefault(file.path.resolve(), file)
    names = log_names(list(files.values()), one_log)
    chunks: list[Chunk] = []
    limitations: dict[tuple[str, str], int] = {}
    topics: dict[Path, set[str]] = {}
    for file in files.values():
        surveyed = FORMATS[file.format].survey(file, FileRequest(names[file.path], topic, keys))
        chunks.extend(surveyed.chunks)
        if surveyed.topics and topic is None:
            together = topics.setdefault(file.log_folder.parent, set())
            together |= surveyed.topics
            if len(together) > 1:
                place = file.path if together <= surveyed.topics else file.log_folder.parent
                raise several_topics(str(place), _all_topics(files, file, together))
        if surveyed.chunks:
            cannot = surveyed.cannot_prove if keys else surveyed.cannot_prove.of_values()
            for sentence in (*cannot.sentences(), *surveyed.notes):
                of_format = (file.format, sentence)
                limitations[of_format] = limitations.get(of_format, 0) + 1
    if not chunks:
        wanted = f"no record of the topic {topic!r}" if topic else "the source is empty"
        raise UnreadableSource(f"{', '.join(sources)}: {wanted}")
    return FoundSources(
        tuple(chunks),
        tuple(dict.fromkeys(chunk.log for chunk in chunks)),
        tuple(str(file.path) for file in files.values()),
        tuple(looking.left_out),
        tuple(Limitation(name, sentence, count) for (name, sentence), count in limitations.items()),
    )


def _all_topics(files: dict[Path, File], first: File, known: set[str]) -> set[str]:
    """The topics of all files next to a file, as far as folders name them."""
    beside = {
        file.log_folder.name
        for file in files.values()
        if file.log_folder.parent == first.log_folder.parent and file.format == first.format
    }
    return known | beside if first.format != "dump-log" else known

"""All formats, and how to recognize the format of a file.

Detection uses the name and the first bytes, by each format's `looks_like`. The order matters: a
sink's name is better evidence than its bytes, and binary formats come before text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafka_marshal.capture import UnreadableSource
from kafka_marshal.replay.sources.connect import CONNECT
from kafka_marshal.replay.sources.console import CONSOLE
from kafka_marshal.replay.sources.dump_log import DUMP_LOG
from kafka_marshal.replay.sources.json_lines import CAPTURE, KCAT
from kafka_marshal.replay.sources.parquet import PARQUET
from kafka_marshal.replay.sources.segment import SEGMENT
from kafka_marshal.replay.sources.shapes import FileHead, Format

_IN_ORDER: Final = (CONNECT, PARQUET, SEGMENT, CONSOLE, DUMP_LOG, KCAT, CAPTURE)
FORMATS: Final[Mapping[str, Format]] = {
    format_.name: format_
    for format_ in (CAPTURE, KCAT, CONSOLE, DUMP_LOG, SEGMENT, CONNECT, PARQUET)
}
"""By name, the value of the option `--format`."""


def detected(head: FileHead) -> Format | None:
    """The detected format of a file."""
    return next((format_ for format_ in _IN_ORDER if format_.looks_like(head)), None)


def looked_for() -> str:
    """The list of formats for an error message."""
    return "; ".join(f"{format_.name}: {format_.detected_by}" for format_ in FORMATS.values())


def named(name: str) -> Format:
    """The format with this name.

    Raises:
        UnreadableSource: there is no such format.
    """
    if name not in FORMATS:
        raise UnreadableSource(f"--format {name}: there are {', '.join(FORMATS)}")
    return FORMATS[name]

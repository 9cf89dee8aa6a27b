"""All formats, and how to recognize the format of a file.

Detection looks at the name and the first bytes, and knows no more of a format than its
`looks_like`. The order matters: a sink's name says more than its bytes, and bytes that cannot be
text come before text.
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
"""By name, as the option `--format` takes it."""


def detected(head: FileHead) -> Format | None:
    """What a file looks like."""
    return next((format_ for format_ in _IN_ORDER if format_.looks_like(head)), None)


def looked_for() -> str:
    """For people whose file is none of it."""
    return "; ".join(f"{format_.name}: {format_.detected_by}" for format_ in FORMATS.values())


def named(name: str) -> Format:
    """The format of that name.

    Raises:
        UnreadableSource: there is none.
    """
    if name not in FORMATS:
        raise UnreadableSource(f"--format {name}: there are {', '.join(FORMATS)}")
    return FORMATS[name]

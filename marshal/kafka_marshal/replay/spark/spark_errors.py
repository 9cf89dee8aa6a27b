"""Extracts the original exception from Spark's report of a failed task."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from kafka_marshal.capture import UnreadableSource
from kafka_marshal.replay.errors import (
    CheckpointRefused,
    InvalidOption,
    SourcesOverlap,
    SparkFailed,
)

_UNREADABLE: Final = re.compile(r"UnreadableSource: (.+)")
_CONTRADICTS: Final = re.compile(r"InvalidOption: (--heartbeat-interval.+)")
_REFUSED: Final = re.compile(r"CheckpointRefused: (.+)")
_OVERLAP: Final = re.compile(r"SourcesOverlap: (.+)")


@contextmanager
def plain_errors() -> Iterator[None]:
    """Raise an executor's error about a source or a checkpoint as its original exception."""
    try:
        yield
    except PySparkException as error:
        text = str(error)
        _raise_plainly(text)
        raise SparkFailed(f"a Spark task failed: {_last_line(text)}") from error
    except Py4JJavaError as error:  # also of a task that is no query's
        cause = root_cause(error)
        _raise_plainly(cause)
        if "Traceback" in cause:
            raise SparkFailed(f"a Spark task failed: {_last_line(cause)}") from error
        raise SparkFailed(f"Spark failed: {cause}") from error


def _raise_plainly(text: str) -> None:
    """Raise the exception at the end of a Python traceback in the text, if it is ours."""
    if overlap := _OVERLAP.search(text):
        raise SourcesOverlap(overlap[1].strip()) from None
    if contradicts := _CONTRADICTS.search(text):
        raise InvalidOption(contradicts[1].strip()) from None
    if refused := _REFUSED.search(text):
        raise CheckpointRefused(refused[1].strip()) from None
    reasons = _UNREADABLE.findall(text)
    if reasons:
        raise UnreadableSource(reasons[-1].strip()) from None


def root_cause(error: Py4JJavaError) -> str:
    """The message of the innermost Java exception, for example that the disk is full."""
    try:
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        return str(cause.toString())
    except Exception:  # the JVM is gone, and its words with it
        return "the Java process ended"


def _last_line(text: str) -> str:
    """The line of a Python traceback with the error."""
    lines = [
        line for line in text.splitlines() if re.match(r"^[\w.]+(Error|Exception|Order)\b", line)
    ]
    return lines[-1] if lines else text.splitlines()[0] if text else "unknown"

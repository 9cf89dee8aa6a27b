"""Errors of a replay that cannot run: each message names the file, field or option to change.

`UnreadableSource` lives in `kafka_marshal.capture`, because a trace reads captures too.
"""

from __future__ import annotations

from kafka_marshal.errors import InvalidOption, MarshalError

__all__ = [
    "CheckpointRefused",
    "InvalidOption",
    "OutputExists",
    "ReplayError",
    "SourcesOverlap",
    "SparkFailed",
]


class ReplayError(MarshalError):
    """A replay could not run; nothing was written."""


class CheckpointRefused(ReplayError):
    """The folder cannot be resumed from; the message says why and what to do."""


class OutputExists(ReplayError):
    """The output folder exists already. It is not changed."""


class SparkFailed(ReplayError):
    """Spark did not start, or a task failed for a reason other than the input."""


class SourcesOverlap(ReplayError):
    """Two chunks of the input have the same offsets, or one is not in offset order.

    The log is then read again record by record, without collapsing; users never see this error.
    """

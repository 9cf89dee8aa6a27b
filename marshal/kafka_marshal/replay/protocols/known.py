"""The known protocols, and which one a log follows if it was given as another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from kafka_marshal.replay.errors import InvalidOption
from kafka_marshal.replay.model.folded_log import FoldedLog
from kafka_marshal.replay.model.tables import MALFORMED, PARTITIONS
from kafka_marshal.replay.protocols import claims, groups
from kafka_marshal.replay.protocols.log_protocol import LogProtocol
from kafka_marshal.replay.report_data.summary import ReplaySummary

LOOKED_AT_MAX: Final = 20
"""The number of records to check, if none is of the requested protocol."""

_LOOKS_LIKE: Final[Mapping[str, Callable[[bytes | None], bool]]] = {
    claims.NAME: claims.is_message,
    groups.NAME: groups.is_event,
}
"""Whether a value is one of a protocol's, by the protocol's name."""


def check_protocol(asked: LogProtocol[ReplaySummary], fold: FoldedLog) -> None:
    """Refuse a log with no record of the protocol, whose first records all belong to another.

    Raises:
        InvalidOption: it is such a log; the message names the right protocol.
    """
    if not fold.counts[MALFORMED.name]:
        return  # without asking for rows, which on Spark is a job
    partitions = fold.collect(PARTITIONS)[PARTITIONS]
    if any(row.malformed < row.records for row in partitions):
        return
    values = [
        None if row.value is None else row.value.encode()
        for row in fold.first(MALFORMED, LOOKED_AT_MAX)
    ]
    for name, looks_like in _LOOKS_LIKE.items():
        if name != asked.name and values and all(map(looks_like, values)):
            raise InvalidOption(
                f"no record is a message of {asked.name}, and the first {len(values)} are of "
                f"{name}: replay them with --protocol {name}"
            )

"""Reports in one sentence the outcomes of an administrator's records that were not read back.

The sentence states for each whether the log has it, and at which offset, or that this is unknown.
It does not know the effect of the records.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from typing import Final, TypeAlias

from kafka_marshal.client.connect.log_writer import NotAppended, RecordMetadata

READ_BACK_S: Final = 40.0
"""How long to wait until a sent record is read back, in seconds; sending gives up after 30."""

Sent: TypeAlias = tuple[int, Future[RecordMetadata]]
"""The coordinating partition that a record was sent to, and its outcome."""


def not_read_back(sent: Iterable[Sent]) -> str:
    r"""The known outcomes of these records; an empty text if there are none.

    >>> refused, appended, silent = Future(), Future(), Future()
    >>> refused.set_exception(NotAppended("not allowed"))
    >>> appended.set_result(RecordMetadata(1, 17))
    >>> print(not_read_back([(0, refused), (1, appended), (3, silent)]).replace("; ", ";\n"))
    not allowed: not appended to coordinating partition 0;
    appended to coordinating partition 1 at offset 17, but not read back within 40 s;
    the broker has not answered: nobody knows whether coordinating partition 3 has the record
    """
    found: dict[tuple[str, str], list[str]] = {}
    for partition, outcome in sorted(sent, key=lambda each: each[0]):
        before, offset, after = _parts(outcome)
        where = f"{partition}{offset}"
        places = found.setdefault((before, after), [])
        if where not in places:
            places.append(where)
    return "; ".join(
        f"{before} coordinating partition {', '.join(places)}{after}"
        for (before, after), places in found.items()
    )


def _parts(outcome: Future[RecordMetadata]) -> tuple[str, str, str]:
    """The words before a coordinating partition, after it, and after the last one."""
    if not outcome.done():
        return "the broker has not answered: nobody knows whether", "", " has the record"
    error = outcome.exception()
    if isinstance(error, NotAppended):
        return f"{error}: not appended to", "", ""
    if error is not None:
        return f"{error}: nobody knows whether", "", " has the record"
    at = f" at offset {outcome.result().offset}"
    return "appended to", at, f", but not read back within {READ_BACK_S:g} s"

"""Tenures as a trace for Perfetto (ui.perfetto.dev), in Chrome's JSON format of trace events.

A process is a group of one log under one rule set, a thread is a claim, a complete event a tenure,
an instant event a finding. This room knows rows and events; where the text goes it does not know.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Final, cast

from kafka_marshal.replay.model.published import FindingRow, TenureRow

_SCOPES: Final = {"thread": "t", "process": "p"}
_ARGUMENTS: Final = (
    "owner_instance",
    "owner_client",
    "epoch",
    "position_from",
    "position_to",
    "from_offset",
    "to_offset",
    "began",
    "ended",
    "records",
)


class Perfetto:
    """Writes events as rows come, so that nobody holds all of them."""

    def __init__(self, to: IO[str], rules: str) -> None:
        """`rules` is the rule set under which a finding of the log itself is shown."""
        self._to = to
        self._rules = rules
        self._ids: dict[tuple[object, ...], int] = {}
        self._first = True
        to.write('{"displayTimeUnit":"ms","traceEvents":[\n')

    def tenure(self, row: TenureRow) -> None:
        """A complete event. A tenure that lasts ends at its owner's last accepted record."""
        pid, tid = self._thread(row, row.rules)
        end_ms = row.last_ms if row.to_ms is None else row.to_ms
        self._event(
            {
                "ph": "X",
                "name": row.owner_client,
                "cat": "tenure",
                "pid": pid,
                "tid": tid,
                "ts": 1000 * row.from_ms,
                "dur": 1000 * max(0, end_ms - row.from_ms),
                "args": {name: getattr(row, name) for name in _ARGUMENTS},
            }
        )

    def finding(self, row: FindingRow) -> None:
        """An instant event, if the finding has a time: of its claim, its group, or its log."""
        if row.timestamp_ms is None:
            return
        rules = row.rules or self._rules
        if row.group is None:
            pid, tid, scope = self._log(row.log), 0, "process"
        elif row.topic is None or row.topic_partition is None:
            pid, tid, scope = self._process(row, rules), 0, "process"
        else:
            (pid, tid), scope = self._thread(row, rules), "thread"
        self._event(
            {
                "ph": "i",
                "s": _SCOPES[scope],
                "name": row.code,
                "cat": row.severity,
                "pid": pid,
                "tid": tid,
                "ts": 1000 * row.timestamp_ms,
                "args": {"sentence": row.sentence, "offset": row.offset},
            }
        )

    def end(self) -> None:
        """No event comes after this."""
        self._to.write("\n]}\n")

    def _log(self, log: str) -> int:
        return self._id((log,), "process_name", log)

    def _process(self, row: TenureRow | FindingRow, rules: str) -> int:
        key = row.log, rules, row.group
        return self._id(key, "process_name", f"{row.group} ({row.log}, {rules})")

    def _thread(self, row: TenureRow | FindingRow, rules: str) -> tuple[int, int]:
        pid = self._process(row, rules)
        claim = (row.coordinating_partition, row.topic, row.topic_partition)
        name = f"{row.topic}/{row.topic_partition}"
        return pid, self._id((pid, *claim), "thread_name", name, pid)

    def _id(self, key: tuple[object, ...], kind: str, name: str, pid: int | None = None) -> int:
        """The number of a process or a thread; one that is new is named first."""
        number = self._ids.get(key)
        if number is None:
            number = self._ids[key] = len(self._ids) + 1
            ids = {"pid": number} if pid is None else {"pid": pid, "tid": number}
            self._event({"ph": "M", "name": kind, **ids, "args": {"name": name}})
        return number

    def _event(self, event: Mapping[str, object]) -> None:
        self._to.write("" if self._first else ",\n")
        self._first = False
        self._to.write(json.dumps(event, ensure_ascii=True, separators=(",", ":")))


@contextmanager
def packed(to: IO[str]) -> Iterator[IO[str]]:
    """Text that goes into the file packed with gzip; equal texts make equal files."""
    raw = cast("io.TextIOWrapper", to).buffer
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=cast("IO[bytes]", raw), mtime=0) as file,
        io.TextIOWrapper(file, encoding="utf-8") as text,
    ):
        yield text

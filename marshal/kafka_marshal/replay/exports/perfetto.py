"""Tenures as a trace for Perfetto (ui.perfetto.dev), in Chrome's JSON trace event format.

A process is a group of one log under one rule set, a thread is a claim, a complete event a tenure,
an instant event a finding. A group with a controller has a thread for each partition, one for its
rebalances, and one for the times in which a rebalance was due. A partition of its log is a process,
too, with its controllers. This module knows rows and events; it does not know where the text goes.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import IO, Final, TypeAlias, cast

from kafka_marshal.replay.model.groups.rows import (
    ControllershipRow,
    PartitionTenureRow,
    RebalanceRow,
)
from kafka_marshal.replay.model.published import FindingRow, TenureRow

_SCOPES: Final = {"thread": "t", "process": "p"}
SpanRow: TypeAlias = TenureRow | PartitionTenureRow | RebalanceRow | ControllershipRow
"""A row that is drawn as a span."""
_GroupRow: TypeAlias = TenureRow | PartitionTenureRow | RebalanceRow | FindingRow
_OF_PARTITIONS: Final = (
    "member",
    "client",
    "tenure",
    "position_from",
    "position_to",
    "from_offset",
    "to_offset",
    "began",
    "ended",
    "reason",
    "commits",
)
_OF_REBALANCES: Final = (
    "offset",
    "number",
    "state",
    "due_by",
    "due_client",
    "members",
    "partitions",
    "moves",
    "revoked",
    "granted",
    "held_up_client",
    "held_up_ms",
    "held_up_how",
    "unowned_longest_ms",
)
_OF_CONTROLLERS: Final = (
    "epoch",
    "controller",
    "host",
    "port",
    "from_offset",
    "to_offset",
    "ended",
    "events",
    "refused",
)
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


NO_ENDS: Final[Mapping[tuple[str, int], int]] = MappingProxyType({})


class Perfetto:
    """Writes events one by one, so that they need not all be in memory."""

    def __init__(
        self, to: IO[str], rules: str, ends_ms: Mapping[tuple[str, int], int] = NO_ENDS
    ) -> None:
        """`rules` is the rule set for findings of the log itself, or empty.

        `ends_ms` holds the time of the last record of a log and a coordinating partition: open
        spans are drawn up to there.
        """
        self._to = to
        self._rules = rules
        self._ends_ms = ends_ms
        self._ids: dict[tuple[object, ...], int] = {}
        self._first = True
        to.write('{"displayTimeUnit":"ms","traceEvents":[\n')

    def span(self, row: SpanRow) -> None:
        """Write a complete event; for a rebalance also the time in which it was due.

        An open tenure of a claim ends at its owner's last accepted record, since a silent owner may
        not exist any more. Other open spans end with the log.
        """
        match row:
            case TenureRow():
                where = self._thread(row, row.rules)
                end_ms = row.last_ms if row.to_ms is None else row.to_ms
                self._span(row.owner_client, "tenure", where, row.from_ms, end_ms, row, _ARGUMENTS)
            case PartitionTenureRow():
                where, end_ms = self._thread(row, ""), self._end_ms(row, row.to_ms)
                name = row.client or row.member
                self._span(name, "tenure", where, row.from_ms, end_ms, row, _OF_PARTITIONS)
            case RebalanceRow():
                self._rebalance(row)
            case ControllershipRow():
                pid = self._controllers(row.log, row.coordinating_partition)
                where = pid, self._id((pid, "controller"), "thread_name", "controller", pid)
                name, end_ms = f"controller {row.controller}", self._end_ms(row, row.to_ms)
                self._span(name, "epoch", where, row.from_ms, end_ms, row, _OF_CONTROLLERS)

    def _rebalance(self, row: RebalanceRow) -> None:
        pid = self._process(row, "")
        if row.due_ms is not None:
            track = "rebalance due"
            where = pid, self._id((pid, track), "thread_name", track, pid)
            name = f"{row.due_client or ''} {row.due_by}".strip()
            self._span(name, "due", where, row.due_ms, row.timestamp_ms, row, _OF_REBALANCES)
        track = "rebalances"
        where = pid, self._id((pid, track), "thread_name", track, pid)
        name = f"{row.moves} moved, {row.state}"
        end_ms = self._end_ms(row, row.ended_ms)
        self._span(name, "rebalance", where, row.timestamp_ms, end_ms, row, _OF_REBALANCES)

    def _end_ms(
        self, row: PartitionTenureRow | RebalanceRow | ControllershipRow, to: int | None
    ) -> int:
        if to is not None:
            return to
        return self._ends_ms.get((row.log, row.coordinating_partition), 0)

    def _span(
        self,
        name: str,
        category: str,
        where: tuple[int, int],
        from_ms: int,
        to_ms: int,
        row: SpanRow,
        arguments: Sequence[str],
    ) -> None:
        pid, tid = where
        self._event(
            {
                "ph": "X",
                "name": name,
                "cat": category,
                "pid": pid,
                "tid": tid,
                "ts": 1000 * from_ms,
                "dur": 1000 * max(0, to_ms - from_ms),
                "args": {name: getattr(row, name) for name in arguments},
            }
        )

    def finding(self, row: FindingRow) -> None:
        """An instant event, if the finding has a time: of its claim, its group, or its log."""
        if row.timestamp_ms is None:
            return
        rules = row.rules or self._rules
        if row.group is None and not rules and row.coordinating_partition is not None:
            pid = self._controllers(row.log, row.coordinating_partition)
            tid, scope = 0, "process"
        elif row.group is None:
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
        """Write the end; no event follows."""
        self._to.write("\n]}\n")

    def _log(self, log: str) -> int:
        return self._id((log,), "process_name", log)

    def _controllers(self, log: str, partition: int) -> int:
        name = f"controllers of partition {partition} ({log})"
        return self._id((log, "controllers", partition), "process_name", name)

    def _process(self, row: _GroupRow, rules: str) -> int:
        key = row.log, rules, row.group
        under = f", {rules}" if rules else ""
        return self._id(key, "process_name", f"{row.group} ({row.log}{under})")

    def _thread(
        self, row: TenureRow | PartitionTenureRow | FindingRow, rules: str
    ) -> tuple[int, int]:
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

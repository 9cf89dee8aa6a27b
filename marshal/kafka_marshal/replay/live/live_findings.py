"""A fold that reports as it goes: each finding when it begins, and again when it is over.

An account reports a finding when its incident is over, which may never happen in a live log.
`LiveFold` reports it at the record that begins the incident, with what is known by then. It omits
facts that only the end of a log can show. Its reports depend on the records alone, never on when
they were read.
"""

from __future__ import annotations

import json
from typing import Any, Final, TypeAlias

import attrs
from attrs import frozen

from kafka_marshal.capture import RawRecord, TimestampType
from kafka_marshal.replay.findings.catalogue import ERROR, INFO, WARNING
from kafka_marshal.replay.fold.judging import LiveJudging
from kafka_marshal.replay.model.events import LogPartition
from kafka_marshal.replay.model.groups.rows import PartitionTenureRow, RebalanceRow
from kafka_marshal.replay.model.published import FindingRow, MalformedRow, ProofRow, TenureRow
from kafka_marshal.replay.model.rows import readable
from kafka_marshal.replay.model.tables import Rows

BEGUN: Final = "begun"
OVER: Final = "over"
WHOLE: Final = "whole"
LOUD: Final = (ERROR, WARNING)
LiveRow: TypeAlias = FindingRow | TenureRow | PartitionTenureRow | RebalanceRow | MalformedRow
"""The rows that a watch reports; an account's other rows are for a replay."""


@frozen
class LiveEvent:
    """An event that a watch reports."""

    state: str
    """`begun`: it may continue. `over`: one reported as begun is over, and the row is complete.
    `whole`: only reported once, when it was over."""
    row: LiveRow
    """The reported row; a tenure or a rebalance has ended."""

    @property
    def event(self) -> str:
        """`finding`, `tenure`, `rebalance` or `malformed`."""
        return _EVENTS[type(self.row)]

    @property
    def severity(self) -> str:
        """Its severity: `error`, `warning` or `info`."""
        match self.row:
            case FindingRow():
                return self.row.severity
            case MalformedRow():
                return WARNING
            case TenureRow() | PartitionTenureRow() | RebalanceRow():
                return INFO

    def json(self) -> str:
        """One line of JSON: the event, its state, and the columns of its table."""
        row = _columns(self.row)
        return json.dumps({"event": self.event, "state": self.state, **row}, ensure_ascii=False)


def appended_ms(raw: RawRecord) -> int | None:
    """When the record was appended, if the broker stamped it; in unix milliseconds."""
    return raw.timestamp_ms if raw.timestamp_type is TimestampType.LOG_APPEND_TIME else None


_EVENTS: Final = {
    FindingRow: "finding",
    TenureRow: "tenure",
    PartitionTenureRow: "tenure",
    RebalanceRow: "rebalance",
    MalformedRow: "malformed",
}
_ROWS: Final = (FindingRow, TenureRow, PartitionTenureRow, RebalanceRow, MalformedRow)


class LiveFold:
    """The account of one coordinating partition of a growing log: a `PlaceFold` that reports."""

    def __init__(self, place: LogPartition, judging: LiveJudging) -> None:
        self.account = judging.begin(place)
        self._going_on: set[tuple[object, ...]] = set()

    def fold(self, raw: RawRecord) -> list[LiveEvent]:
        """Fold one record; return the events that it caused.

        Raises:
            OutOfOrder: its offset is lower than one already fed.
        """
        account = self.account
        account.feed(raw)
        begun = list(account.begun())
        self._going_on.update(map(_name, begun))
        events = [LiveEvent(BEGUN, row) for row in begun]
        if account.waiting:
            events += [
                LiveEvent(self._state(row), row)
                for row in account.drain()
                if isinstance(row, _ROWS)
            ]
        return events

    def _state(self, row: LiveRow) -> str:
        if not isinstance(row, FindingRow) or _name(row) not in self._going_on:
            return WHOLE
        self._going_on.discard(_name(row))
        return OVER

    def feed(self, raw: RawRecord) -> None:
        """As `PlaceFold`."""
        self.account.feed(raw)

    def settle(self) -> None:
        """As `PlaceFold`."""
        self.account.settle()

    def forked(self, raw: RawRecord) -> None:
        """As `PlaceFold`."""
        self.account.forked(raw)

    def close(self) -> None:
        """As `PlaceFold`."""
        self.account.close()

    @property
    def is_full(self) -> bool:
        """As `PlaceFold`."""
        return self.account.is_full

    def drain(self) -> Rows:
        """As `PlaceFold`."""
        return self.account.drain()


def _name(row: FindingRow) -> tuple[object, ...]:
    """What identifies a finding, when it begins and when it is over."""
    return tuple(getattr(row, name) for name in _NAMED_BY)


_NAMED_BY: Final = ("code", "rules", "group", "topic", "topic_partition", "offset", "instance")


_OF_MESSAGES: Final = ("type", "sender_instance", "sender_client", "verdict")
"""Columns of a proof that only a record with a message has."""
_NAMES: Final[dict[type, tuple[str, ...]]] = {}
"""By class of rows, its columns."""


def _columns(row: attrs.AttrsInstance) -> dict[str, Any]:
    """The columns of a row, with rows within it as dictionaries.

    `attrs.asdict` does the same, but looks up the class's columns on every call.
    """
    kind = type(row)
    names = _NAMES.get(kind)
    if names is None:
        names = _NAMES[kind] = tuple(column.name for column in attrs.fields(kind))
    said = {name: _said(getattr(row, name)) for name in names}
    if kind is ProofRow:
        for name in _OF_MESSAGES:
            if said[name] is None:
                del said[name]
    return said


def _said(value: Any) -> Any:
    """A value in a form that JSON supports."""
    if isinstance(value, str):
        return readable(value)
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(value, tuple):
        return [_said(each) for each in value]
    return _columns(value) if attrs.has(type(value)) else value

"""The heartbeat interval by which an outsider judges a group, as the group's log states it.

A member knows its own interval. A replay, an administrator or `marshal ls` does not, and with
another interval it would fold another protocol. So it takes the interval from `marshal-interval`:
that of the group's owners while one of them lives, then that of the next winner. The choice depends
only on the records read so far.

This module chooses `Rules.heartbeat_interval_ms`, and `reducer.step` does not know about the
choice: given the interval, no verdict depends on the header. Each coordinating partition has its
own choice.

>>> from kafka_marshal import decode
>>> from kafka_marshal.core.messages import Headers, Record
>>> intervals = GroupIntervals(60_000)
>>> asks = decode(b"ClaimingPartition/1/0/i1/c1/g/t/3")
>>> record = Record(0, 7, 5, asks, Headers(True, interval_ms=10_000))
>>> intervals.judging(record)
10000
>>> intervals.judged(record, accepted=True)
>>> intervals.of("g"), intervals.of("h")
(10000, 60000)
>>> intervals.states("g"), intervals.states("h")
(True, False)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from attrs import define, evolve, field, frozen

from kafka_marshal.core.messages import (
    NOT_DECIMAL,
    ClaimingPartition,
    Headers,
    Heartbeat,
    Record,
    ReleaseGroup,
    ReleasingPartition,
)
from kafka_marshal.core.state import ClaimKey, Rules


class _OfGroup(Protocol):
    @property
    def group_id(self) -> str: ...


class _Stated(Protocol):
    """The fields of a record that the choice of an interval needs, whatever its message."""

    @property
    def timestamp_ms(self) -> int: ...
    @property
    def message(self) -> _OfGroup: ...
    @property
    def headers(self) -> Headers: ...


@frozen
class LivedUnder:
    """An interval that a group has used."""

    interval_ms: float
    client_id: str
    """The client that stated it first."""
    offset: int
    """The record that did so."""


@define
class _Group:
    interval_ms: float
    heard_ms: int
    """The last sign of life of its owners, by the log's clock, unix ms."""
    owners: dict[ClaimKey, str] = field(factory=dict)
    """For each claim, the instance that owns it and stated this interval."""
    history: list[LivedUnder] = field(factory=list)

    def lives_at(self, at_ms: int, other_ms: float) -> bool:
        """Whether a reader that judges by another interval must still consider the owners alive."""
        return bool(self.owners) and at_ms - self.heard_ms <= 2 * max(self.interval_ms, other_ms)


class OtherInterval(ValueError):
    """The log states another heartbeat interval for a group than was given; the message names both.

    >>> str(OtherInterval(10_000, "g", LivedUnder(60_000, "c1", 0)))
    'group g says 60s in the log (client c1), not 10s'
    """

    def __init__(self, given_ms: float, group: str, said: LivedUnder) -> None:
        super().__init__(
            f"group {group} says {said.interval_ms / 1000:g}s in the log (client "
            f"{said.client_id}), not {given_ms / 1000:g}s"
        )


class RulesByInterval(dict[float, Rules]):
    """The same rules for any heartbeat interval, by that interval in milliseconds.

    >>> from kafka_marshal import FENCED
    >>> RulesByInterval(FENCED)[4000].stale_after_ms
    8000
    """

    def __init__(self, rules: Rules) -> None:
        """Take the rules; at their own interval they are returned unchanged."""
        super().__init__({rules.heartbeat_interval_ms: rules})
        self._rules = rules

    def __missing__(self, interval_ms: float) -> Rules:
        rules = self[interval_ms] = evolve(self._rules, heartbeat_interval_ms=interval_ms)
        return rules


class GroupIntervals:
    """The interval of every group of one coordinating partition, as its log states it."""

    def __init__(self, default_ms: float, *, forced: bool = False) -> None:
        """`default_ms`: for groups that state none, in milliseconds; if forced, for all groups."""
        self.default_ms = default_ms
        self.forced = forced
        self._groups: dict[str, _Group] = {}

    def of(self, group: str) -> float:
        """The interval by which the group is judged now, in milliseconds."""
        known = self._groups.get(group)
        return self.default_ms if known is None or self.forced else known.interval_ms

    def lived_under(self, group: str) -> tuple[LivedUnder, ...]:
        """Every interval that the group has used, in order; empty if it states none."""
        known = self._groups.get(group)
        return () if known is None else tuple(known.history)

    def states(self, group: str) -> bool:
        """Whether the group is judged by an interval that its own records state."""
        return group in self._groups and not self.forced

    def other(self, group: str) -> OtherInterval | None:
        """The error to raise if the group may use no other interval than the default."""
        known = self._groups.get(group)
        if known is None or known.interval_ms == self.default_ms:
            return None
        return OtherInterval(self.default_ms, group, known.history[-1])

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups that state an interval, in order of first sight."""
        return tuple(self._groups)

    def judging(self, record: _Stated) -> float:
        """The interval by which to judge a record, in milliseconds."""
        if self.forced:
            return self.default_ms
        known = self._groups.get(record.message.group_id)
        said = record.headers.interval_ms
        if said == NOT_DECIMAL:
            said = None
        if known is None:
            return self.default_ms if said is None else said
        if said is None or known.lives_at(record.timestamp_ms, said):
            return known.interval_ms
        return said

    def heard(self, group: str, timestamp_ms: int) -> None:
        """An owner that stated the group's interval was alive then, in unix milliseconds."""
        known = self._groups[group]
        known.heard_ms = max(known.heard_ms, timestamp_ms)

    def owned(self, group: str, owners: Mapping[ClaimKey, str]) -> None:
        """Instances own these claims, and stated the group's interval."""
        self._groups[group].owners.update(owners)

    def judged(self, record: Record, *, accepted: bool) -> None:
        """A record was judged by the interval that `judging` returned."""
        message, said = record.message, record.headers.interval_ms
        if isinstance(message, ReleaseGroup):
            return  # those whose claims it ends live on
        known = self._groups.get(message.group_id)
        if isinstance(message, ReleasingPartition) and known is not None:
            key = message.key
            if known.owners.get(key) == message.instance_id:
                del known.owners[key]
        if said is None or not isinstance(message, ClaimingPartition | Heartbeat):
            return
        if known is None:
            # The sender of a heartbeat under an epoch has won, whether or not we saw it.
            if not accepted and not (isinstance(message, Heartbeat) and _has_won(record)):
                return
            known = self._groups[message.group_id] = _Group(said, record.timestamp_ms)
            known.history.append(LivedUnder(said, message.client_id, record.offset))
        elif not accepted:
            return
        elif said != known.interval_ms:
            if known.lives_at(record.timestamp_ms, said):
                return
            known.interval_ms, known.heard_ms = said, record.timestamp_ms
            known.owners.clear()
            known.history.append(LivedUnder(said, message.client_id, record.offset))
        known.heard_ms = max(known.heard_ms, record.timestamp_ms)
        key = message.key
        known.owners[key] = message.instance_id


def _has_won(record: Record) -> bool:
    epoch = record.headers.epoch
    return epoch is not None and 0 <= epoch < record.offset

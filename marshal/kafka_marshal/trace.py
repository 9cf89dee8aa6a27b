"""A log, record by record: the verdict on each record, and the state of its claim afterwards.

This module defines the rows. It needs neither Spark nor Java, so it is also the simplest way to
compare another implementation with this one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from kafka_marshal.capture import RawRecord
from kafka_marshal.codec import MalformedRecord
from kafka_marshal.core.claims import original
from kafka_marshal.core.claims.verdicts import Accepted, ReadTwice
from kafka_marshal.core.claims.world import World
from kafka_marshal.core.group_intervals import GroupIntervals, RulesByInterval
from kafka_marshal.core.messages import ClaimingRange, Record, ReleaseGroup
from kafka_marshal.core.ranges.messages import RangesRecord
from kafka_marshal.core.ranges.state import Ranges
from kafka_marshal.core.ranges.verdicts import RangeAccepted
from kafka_marshal.core.ranges.world import RangesWorld
from kafka_marshal.core.state import Claim, ClaimKey, Rules

Row: TypeAlias = dict[str, object]


def trace(
    records: Iterable[RawRecord], rules: Rules, *, given: bool = False, forced: bool = True
) -> list[Row]:
    """One row per record, in input order; every coordinating partition is folded in offset order.

    The heartbeat interval of `rules` applies to all groups if it is forced, and otherwise to groups
    that state none. If it was given, a group that states another one is an error.

    Keys: `partition, offset, type, verdict, guard, group, topic, topic_partition, state`. The
    verdict is `accepted`, `refused` or `malformed`; for a ClaimingRange it is `range_granted` or
    `range_refreshed` instead of `accepted`. `guard` names the refusal, the malformed field, or why
    a ClaimingRange was granted nothing. `state` is `fenced_state` or `original_state`; it is null
    for a ReleaseGroup, and if the key had no record other than ClaimingRange.

    Raises:
        OtherInterval: the log states another heartbeat interval than the one that was given.
    """
    indexed = list(enumerate(records))
    indexed.sort(key=lambda entry: (entry[1].partition, entry[1].offset))
    worlds: dict[int, _Folded] = {}
    rows: list[Row] = [{} for _ in indexed]
    for index, raw in indexed:
        folded = worlds.get(raw.partition)
        if folded is None:
            folded = worlds[raw.partition] = _Folded(rules, forced=forced)
        rows[index] = folded.row(raw)
        if given and not forced:
            other = folded.intervals.other(str(rows[index]["group"]))
            if other is not None:
                raise other
    return rows


class _Folded:
    """One coordinating partition, record by record. The original's rules know no ranges."""

    def __init__(self, rules: Rules, *, forced: bool) -> None:
        self.intervals = GroupIntervals(rules.heartbeat_interval_ms, forced=forced)
        self._rules = RulesByInterval(rules)
        self._world = World(rules)
        self._ranges = RangesWorld(self._world) if rules.fenced else None

    def row(self, raw: RawRecord) -> Row:
        """Fold the next record, and return its row."""
        row: Row = {
            "partition": raw.partition,
            "offset": raw.offset,
            "type": None,
            "verdict": "malformed",
            "guard": None,
            "group": None,
            "topic": None,
            "topic_partition": None,
            "state": None,
        }
        try:
            known = raw.decoded() if self._ranges is None else raw.decoded_with_ranges()
        except MalformedRecord as error:
            row["guard"] = error.field
            return row
        message = known.message
        rules = self._rules[self.intervals.judging(known)]
        row["type"], row["group"] = type(message).__name__, message.group_id
        row["verdict"], row["guard"] = self._judged(known, rules)
        if not isinstance(message, ReleaseGroup):
            key = message.key
            row["topic"], row["topic_partition"] = key.topic, key.topic_partition
            if key in self._world.group(key.group):
                row["state"] = self._state(key, known.timestamp_ms, rules)
        return row

    def _judged(self, record: Record | RangesRecord, rules: Rules) -> tuple[str, str | None]:
        """The verdict and the guard as a row has them."""
        message = record.message
        if isinstance(message, ClaimingRange):
            assert isinstance(record, RangesRecord)
            assert self._ranges is not None
            outcome = self._ranges.apply(record, message, rules)
            if isinstance(outcome, ReadTwice):
                return "refused", outcome.value
            if not isinstance(outcome.verdict, RangeAccepted):
                return "refused", outcome.verdict.value
            return outcome.verdict.value, outcome.guard.value if outcome.guard else None
        theirs = record if isinstance(record, Record) else record.without_ranges(message)
        folded = self._world.apply(theirs, rules)
        if isinstance(record, RangesRecord) and self._ranges is not None:
            for each in folded.transitions:
                self._ranges.observe(record, each.key, folded.verdict)
        accepted = isinstance(folded.verdict, Accepted)
        self.intervals.judged(theirs, accepted=accepted)
        return ("accepted", None) if accepted else ("refused", folded.verdict.value)

    def _state(self, key: ClaimKey, now_ms: int, rules: Rules) -> Row:
        """The claim as the rule set prints it, at the time of a record."""
        claim = self._world.claim(key)
        if self._ranges is None:
            return original_state(key, claim, now_ms, rules)
        return fenced_state(claim, self._ranges.of(key))


def fenced_state(claim: Claim, ranges: Ranges | None) -> Row:
    """The claim and its ranges under the fenced rules; a pause that is over is not printed."""
    return {
        "owner_instance": claim.owner_instance,
        "owner_client": claim.owner_client,
        "epoch": claim.epoch,
        "position": claim.position,
        "position_set": claim.position_set,
        "last_heartbeat_ms": claim.last_heartbeat_ms,
        "paused_by": claim.pauser if claim.paused else None,
        "paused_until_ms": claim.paused_until_ms if claim.paused else None,
        "ranges": None if ranges is None else ranges_state(ranges),
    }


def ranges_state(ranges: Ranges) -> Row:
    """The ranges of a claim, once it was shared; lists in the order in which `Ranges` keeps them.

    An open range is `[id, from, to, instance]`, an interval of the pool `[from, to]`.
    """
    return {
        "begun": ranges.has_begun,
        "window": ranges.window,
        "frontier": ranges.frontier,
        "open": [[each.id, each.from_, each.to, each.instance] for each in ranges.open],
        "pool": [[each.from_, each.to] for each in ranges.pool],
        "alive": {each.instance: each.ms for each in ranges.alive},
    }


def original_state(key: ClaimKey, claim: Claim, now_ms: int, rules: Rules) -> Row:
    """The claim as the original's own structure holds it at a time, in unix seconds."""
    return {
        "claimed": original.claimed(claim, now_ms, rules),
        "client_id": claim.owner_client or "",
        "current_offset": claim.position,
        "group": key.group,
        "group_id": "" if claim.owner_instance is None else key.group,
        "instance_id": claim.owner_instance or "",
        "last_heartbeat": (claim.last_heartbeat_ms or 0) // 1000,
        "last_release": (claim.last_release_ms or 0) // 1000,
        "part": key.topic_partition,
        "topic": key.topic,
    }

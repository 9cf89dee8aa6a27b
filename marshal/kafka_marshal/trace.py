"""A log, record by record: the verdict on each, and the state it left behind.

This room knows how a row looks. It needs neither Spark nor Java, so it is also the plainest way to
hold another implementation against this one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TypeAlias

from attrs import evolve

from kafka_marshal.capture import RawRecord
from kafka_marshal.codec import MalformedRecord
from kafka_marshal.core.claims import original
from kafka_marshal.core.claims.verdicts import Accepted
from kafka_marshal.core.claims.world import World
from kafka_marshal.core.group_intervals import GroupIntervals
from kafka_marshal.core.messages import Record, ReleaseGroup
from kafka_marshal.core.state import Claim, ClaimKey, Rules, RuleSet

Row: TypeAlias = dict[str, object]


def trace(
    records: Iterable[RawRecord], rules: Rules, *, given: bool = False, forced: bool = True
) -> list[Row]:
    """One row per record, in input order; every coordinating partition is folded in offset order.

    The heartbeat interval of `rules` is that of all groups if it is forced, and otherwise that of
    groups that state none. If it was given, a group that states another one is an error.

    Keys: `partition, offset, type, verdict, guard, group, topic, topic_partition, state`. The
    verdict is `accepted`, `refused` or `malformed`; `guard` names the refusal, or the malformed
    field. `state` is `fenced_state` or `original_state`.

    Raises:
        OtherInterval: the log says another heartbeat interval than the one that was given.
    """
    indexed = list(enumerate(records))
    indexed.sort(key=lambda entry: (entry[1].partition, entry[1].offset))
    worlds: dict[int, World] = defaultdict(lambda: World(rules))
    interval_ms = rules.heartbeat_interval_ms
    intervals = defaultdict[int, GroupIntervals](lambda: GroupIntervals(interval_ms, forced=forced))
    rows: list[Row] = [{} for _ in indexed]
    for index, raw in indexed:
        rows[index] = _row(raw, worlds[raw.partition], intervals[raw.partition])
        if given and not forced:
            other = intervals[raw.partition].other(str(rows[index]["group"]))
            if other is not None:
                raise other
    return rows


def _row(raw: RawRecord, world: World, intervals: GroupIntervals) -> Row:
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
        record = raw.decoded()
    except MalformedRecord as error:
        row["guard"] = error.field
        return row
    message = record.message
    rules = evolve(world.rules, heartbeat_interval_ms=intervals.judging(record))
    verdict = world.apply(record, rules).verdict
    accepted = isinstance(verdict, Accepted)
    intervals.judged(record, accepted=accepted)
    row["type"] = type(message).__name__
    row["verdict"] = "accepted" if accepted else "refused"
    row["guard"] = None if accepted else verdict.value
    row["group"] = message.group_id
    if not isinstance(message, ReleaseGroup):
        key = message.key
        row["topic"], row["topic_partition"] = key.topic, key.topic_partition
        row["state"] = state(key, world.claim(key), record, rules)
    return row


def state(key: ClaimKey, claim: Claim, record: Record, rules: Rules) -> Row:
    """The claim as the rule set prints it, at the time of `record`."""
    if rules.rule_set is RuleSet.ORIGINAL:
        return original_state(key, claim, record, rules)
    return fenced_state(claim)


def fenced_state(claim: Claim) -> Row:
    """The claim under the fenced rules; a pause that is over is not printed."""
    return {
        "owner_instance": claim.owner_instance,
        "owner_client": claim.owner_client,
        "epoch": claim.epoch,
        "position": claim.position,
        "position_set": claim.position_set,
        "last_heartbeat_ms": claim.last_heartbeat_ms,
        "paused_by": claim.pauser if claim.paused else None,
        "paused_until_ms": claim.paused_until_ms if claim.paused else None,
    }


def original_state(key: ClaimKey, claim: Claim, record: Record, rules: Rules) -> Row:
    """The claim as the original's own structure holds it, times in unix seconds."""
    return {
        "claimed": original.claimed(claim, record.timestamp_ms, rules),
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

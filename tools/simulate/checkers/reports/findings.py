"""`marshal replay` finds in the log exactly what happened."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from typing import Final

from tools.simulate.history import Appended
from tools.simulate.judged.claims import Judged

from kafka_marshal.capture import RawRecord, TimestampType
from kafka_marshal.core.claims.verdicts import Accepted, Refused, Verdict
from kafka_marshal.core.state import RuleSet
from kafka_marshal.replay.fold.partition_fold import JudgingOptions, PartitionFold
from kafka_marshal.replay.model.events import LogPartition
from kafka_marshal.replay.model.published import FindingRow
from kafka_marshal.replay.model.tables import FINDINGS

LOSES: Final = frozenset({"lose_end", "vanish_log"})
STRANGERS: Final = frozenset({"hostile", "forge", "impersonate"})
NEVER: Final[frozenset[str]] = frozenset()
CAUSES: Final = {
    "forged": STRANGERS | LOSES,
    "log_lost_records": LOSES | STRANGERS,
    "header_from_the_future": LOSES | STRANGERS,
    "header_not_decimal": STRANGERS,
    "unknown_version": frozenset({"hostile"}),
    "position_moved_back": NEVER,
    "pause_held": frozenset({"pause", "set_position"}),
    "pause_broken": NEVER,
    "pause_ran_out": frozenset({"set_position", "pause"}),
    "set_position_half_done": frozenset({"set_position"}),
    "interval_mismatch": NEVER,
    "granted_twice": LOSES | {"set_position"},
    "acts_without_owning": STRANGERS | LOSES,
    "create_time": NEVER,
    "head_missing": NEVER,
    "offset_gap": NEVER,
    "duplicate_record": NEVER,
    "conflicting_duplicate": NEVER,
    "malformed_record": frozenset({"hostile"}),
    "malformed_header": NEVER,
    "wrong_coordinating_partition": STRANGERS,
    "sender_clock_off": frozenset({"clock", "broker_clock"}),
}
"""By code: the faults that lead to it. Other codes, such as those of silences, have many."""
SHOWN: Final[dict[Verdict, str]] = {
    Accepted.TOOK_OVER: "failover_times",
    Refused.LIVE_OWNER: "lost_races",
    Refused.FORGED: "forged",
    Refused.LOG_LOST_RECORDS: "log_lost_records",
    Refused.HEADER_FROM_THE_FUTURE: "header_from_the_future",
    Refused.UNKNOWN_VERSION: "unknown_version",
}
"""By what a record did: the finding that tells it."""


def check(judged: Judged) -> Iterator[str]:
    """What is wrong."""
    if not judged.setting.replayed:
        return
    happened = judged.history.happened
    for partition in range(judged.setting.log_partitions):
        log = left(judged, partition)
        rows = found(judged, partition, log)
        codes = Counter[str]()
        for row in rows:
            codes[row.code] += row.count
            if row.code in CAUSES and not CAUSES[row.code] & happened:
                yield f"partition {partition}: {row.code} was found, and nothing led to it: {row}"
        malformed = sum(one.record is None for one in log)
        if codes["malformed_record"] != malformed:
            yield (
                f"partition {partition}: {malformed} records were no message, and "
                f"{codes['malformed_record']} were found"
            )
        for verdict in judged.verdicts(partition):
            code = SHOWN.get(verdict)
            if code is not None and not codes[code]:
                yield f"partition {partition}: {verdict} happened, and no {code} was found"


def left(judged: Judged, partition: int) -> list[Appended]:
    """The records that a partition holds in the end, as if nothing had been removed."""
    cuts = deque(one for one in judged.history.cuts if one.partition == partition)
    kept: list[Appended] = []
    for appended in judged.history.log:
        while cuts and cuts[0].index <= appended.index:
            end = cuts.popleft().end
            kept = [one for one in kept if one.offset < end]
        if appended.partition == partition:
            kept.append(appended)
    for cut in cuts:
        kept = [one for one in kept if one.offset < cut.end]
    return kept


def found(judged: Judged, partition: int, log: list[Appended]) -> list[FindingRow]:
    """What the replay finds in them."""
    judging = JudgingOptions(
        (RuleSet.FENCED,),
        judged.setting.rules.heartbeat_interval_ms,
        coordination_partitions=judged.setting.log_partitions,
    )
    fold = PartitionFold(LogPartition("log", partition), judging)
    for one in log:
        stored = one.stored
        kind = TimestampType.LOG_APPEND_TIME
        fold.feed(
            RawRecord(
                partition, one.offset, stored.timestamp_ms, stored.value, stored.headers, kind
            )
        )
    fold.close()
    rows: list[FindingRow] = fold.drain()[FINDINGS]
    return rows

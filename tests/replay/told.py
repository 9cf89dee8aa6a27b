"""Hand-made logs, one line a record, and what a replay makes of them without Spark.

- `0.0 CP a1/A`: at second 0, instance a1 of client A claims events/0 of group g
- `1.5 HB a1/A 10`: its heartbeat at position 10; CM and RP likewise
- `1.7 CR p1/P 4`: a ClaimingRange for 4 offsets
- `2.0 RG x1/X 20`: a ReleaseGroup that expires at second 20
- `... p=3 late=5 at=17`: partition 3, written 5 s before it landed, at offset 17
- `... epoch=4 seen=3`: headers; also clock=, supersedes=, set-position=, interval=, start=, done=,
  ranges=, keep=, ranges-at= (a checkpoint)
- `... v=7 topic=logs stamp=create`
- `... mac=k1`: signed with the key of `KEYS`; `mac=k2` names another one
- `3.0 garbage`: no message
"""

from __future__ import annotations

from collections.abc import Iterable

from kafka_marshal import RuleSet
from kafka_marshal.authentication import Keyring
from kafka_marshal.capture import HeaderPairs, RawRecord, TimestampType
from kafka_marshal.codec import HEADER_FIELDS
from kafka_marshal.core import wire
from kafka_marshal.core.messages import ClaimingRange
from kafka_marshal.range_codec import RANGE_HEADER_FIELDS
from kafka_marshal.replay.fold.partition_fold import JudgingOptions, PartitionFold
from kafka_marshal.replay.model.events import LogPartition
from kafka_marshal.replay.model.published import FindingRow
from kafka_marshal.replay.model.tables import FINDINGS, Rows

BEGIN_S = 1_700_000_000
INTERVAL_MS = 4000
KEYS = Keyring({"k1": bytes(32)}, sign_with="k1")
BOTH = (RuleSet.FENCED, RuleSet.ORIGINAL)
_TYPES = {"".join(filter(str.isupper, each.name)): each.name for each in wire.MESSAGES}
_TYPES |= {"HB": _TYPES.pop("H"), "CR": ClaimingRange.__name__}
_HEADERS = tuple(
    name.removeprefix("marshal-")
    for name in (*{**HEADER_FIELDS, **RANGE_HEADER_FIELDS}, wire.CHECKPOINT_HEADER)
)


def records(lines: Iterable[str]) -> list[RawRecord]:
    told, offset = [], -1
    for line in lines:
        words = line.split()
        options = dict(word.split("=", 1) for word in words if "=" in word)
        second, verb, *rest = (word for word in words if "=" not in word)
        offset = int(options.get("at", offset + 1))
        told.append(_record(float(second), verb, rest, options, offset))
    return told


def _record(
    second: float, verb: str, rest: list[str], options: dict[str, str], offset: int
) -> RawRecord:
    stamp = TimestampType[
        {"create": "CREATE_TIME"}.get(options.get("stamp", ""), "LOG_APPEND_TIME")
    ]
    value = verb.encode()
    if verb in _TYPES:
        instance, client = rest[0].split("/")
        unix_s = int(BEGIN_S + second - float(options.get("late", 0)))
        topic, partition = options.get("topic", "events"), options.get("p", "0")
        tail = rest[1:]
        if verb == "RG":
            topic, partition, tail = "", "0", [str(BEGIN_S + int(rest[1]))]
        fields = (_TYPES[verb], options.get("v", "1"), str(unix_s), instance, client)
        value = "/".join([*fields, options.get("g", "g"), topic, partition, *tail]).encode()
    headers: HeaderPairs = tuple(
        (f"marshal-{name}", options[name].encode()) for name in _HEADERS if name in options
    )
    if "mac" in options:
        name, mac = KEYS.header(2, value, headers) or ("", b"")
        headers = (*headers, (name, mac.replace(b"k1:", options["mac"].encode() + b":")))
    return RawRecord(2, offset, int((BEGIN_S + second) * 1000), value, headers, stamp)


def replayed(
    given: Iterable[RawRecord],
    *,
    rule_sets: tuple[RuleSet, ...] = BOTH,
    interval_ms: float = INTERVAL_MS,
    coordination_partitions: int | None = None,
    forced: bool = False,
) -> Rows:
    judging = JudgingOptions(
        rule_sets, interval_ms, coordination_partitions=coordination_partitions, forced=forced
    )
    accounts: dict[int, PartitionFold] = {}
    for raw in sorted(given, key=lambda raw: (raw.partition, raw.offset)):
        partition_fold = accounts.setdefault(
            raw.partition, PartitionFold(LogPartition("log", raw.partition), judging)
        )
        partition_fold.feed(raw)
    rows = Rows()
    for partition_fold in accounts.values():
        partition_fold.close()
        rows.extend(partition_fold.drain())
    return rows


def findings(*lines: str) -> list[FindingRow]:
    return replayed(records(lines))[FINDINGS]


def codes(*lines: str) -> set[tuple[object, object]]:
    """(rules, code) of everything found."""
    return {(row.rules, row.code) for row in findings(*lines)}


def beats(who: str, begin: float, end: float, step: float = 2, tail: str = "10") -> list[str]:
    """Heartbeats from one second to before another."""
    lines = []
    while begin < end:
        lines.append(f"{begin:.1f} HB {who} {tail}")
        begin += step
    return lines


OWNER_COLUMNS = (
    "owner_instance",
    "began",
    "from_offset",
    "ended",
    "to_offset",
    "position_from",
    "position_to",
)

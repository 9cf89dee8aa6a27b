"""The tables of a replay: names, columns, and what each column means.

`docs/replay.md` is printed from here and Parquet is written from here. This room does not know how
a row comes to be, nor how it is stored (`rows`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafka_marshal.replay.model.rows import (
    BOOLEAN,
    INTEGER,
    NUMBER,
    PROOFS,
    TEXT,
    TIMES,
    Column,
    Table,
)


def _text(name: str, meaning: str) -> Column:
    return Column(name, TEXT, meaning)


def _integer(name: str, meaning: str) -> Column:
    return Column(name, INTEGER, meaning)


_LOG = _text("log", "name of the log: a capture's file name, or the folder of a Parquet dump")
_RULES = _text("rules", "rule set that judged: `fenced` or `original`")
_COORDINATING = _integer("coordinating_partition", "partition of the coordination topic")
_CLAIM = (
    _LOG,
    _RULES,
    _COORDINATING,
    _text("group", "consumer group"),
    _text("topic", "data topic"),
    _integer("topic_partition", "partition of the data topic"),
)
_CLAIM_ORDER = ("log", "rules", "coordinating_partition", "group", "topic", "topic_partition")
_LOG_ORDER = ("log", "rules", "coordinating_partition")

CLAIMS: Final = Table(
    "claims",
    "The final state of every claim, at its last record.",
    (
        *_CLAIM,
        _text(
            "owner_instance",
            "the owner's instance id; null when nobody owns. Under `original` "
            "also null when the owner was too long silent at the claim's last record",
        ),
        _text("owner_client", "the owner's client id; as `owner_instance`"),
        _integer(
            "epoch",
            "log offset of the last win; stays after a release; null before the "
            "first win and under `original`",
        ),
        _integer("position", "next offset to consume; 0 before anybody said otherwise"),
        Column(
            "position_set",
            BOOLEAN,
            "somebody said where to go on, so that a position of 0 is an answer, too; null under "
            "`original`, and where the log's head that may say so is gone",
        ),
        _integer(
            "last_heartbeat_ms",
            "`fenced`: clock at the owner's last accepted record, null "
            "when nobody owns; `original`: what the last heartbeat said, null after a release",
        ),
        _text(
            "paused_by",
            "instance that sent the ReleaseGroup which pauses the group; null when "
            "not paused at the claim's last record",
        ),
        _integer("paused_until_ms", "until when it is paused; null when it is not"),
        _integer(
            "last_release_ms", "only `original`: what the last release said, null since a win"
        ),
        Column(
            "stale",
            BOOLEAN,
            "it has an owner, which was silent for more than twice the "
            "heartbeat interval when the log ended",
        ),
        _integer("clock_ms", "the claim's clock at its last record"),
        _integer("records", "records of its key; a ReleaseGroup counts for no claim"),
        _integer("first_offset", "log offset of its first record"),
        _integer("last_offset", "log offset of its last record"),
        _integer(
            "known_from_offset",
            "of a log that starts in the middle, under `fenced`: the record from which on the "
            "claim is certain; null if it never was, or if the log is whole",
        ),
        _text(
            "uncertain",
            "what of the claim is not certain when such a log ends (`owner`, `epoch`, "
            "`position`, `clock`), with commas between; columns that need it are null. Null if "
            "all is certain",
        ),
    ),
    _CLAIM_ORDER,
)

TENURES: Final = Table(
    "tenures",
    "Who owned what, from which record to which. Every win begins a tenure of its own, also the "
    "owner's own second one.",
    (
        *_CLAIM,
        _text("owner_instance", "the owner's instance id"),
        _text("owner_client", "the owner's client id"),
        _integer("epoch", "log offset of the win; null under `original`"),
        _text(
            "began",
            "what the first record did: `claimed`, `reclaimed` (the owner's own "
            "instance), `restarted`, `took_over`, `fast_reclaimed`; under `original` also "
            "`overwritten` (by a bare heartbeat) and `refreshed` (the last owner's own "
            "heartbeat after its release). `became_certain`: in a log that starts "
            "in the middle the record from which on it is certain who owns; the tenure began "
            "before, at `epoch`",
        ),
        _integer("from_offset", "log offset of the first record"),
        _integer("from_ms", "its time"),
        _integer("position_from", "position right after the first record"),
        _text(
            "ended",
            "what the ending record did: `released`, `position_set`, "
            "`group_released`, or one of the words of `began`; `open` when it lasts at the end "
            "of the log, `silent` when it lasts and its owner is stale. In a log that starts in "
            "the middle `released` may have set the position, if nobody was seen to pause the "
            "group; `unknowable`: nobody can know whether the record ended it",
        ),
        _integer("to_offset", "log offset of the ending record; null while it lasts"),
        _integer("to_ms", "its time; null while it lasts"),
        _integer(
            "position_to",
            "position at the end: after a release, before another's win; "
            "null if it cannot be known",
        ),
        _text("ended_by_instance", "sender of the ending record; null while it lasts"),
        _text("ended_by_client", "as `ended_by_instance`"),
        _integer("records", "accepted records of the owner, the win included, the release not"),
        _integer("last_offset", "log offset of the owner's last accepted record"),
        _integer("last_ms", "its time"),
        _integer("longest_silence_ms", "longest time between two accepted records of the owner"),
    ),
    (*_CLAIM_ORDER, "from_offset"),
)

REFUSALS: Final = Table(
    "refusals",
    "Every record that changed nothing, and the guard that refused it.",
    (
        *_CLAIM,
        _integer("offset", "log offset of the record"),
        _integer("timestamp_ms", "its time"),
        _text("type", "`Heartbeat`, `ClaimingPartition`, ..."),
        _text(
            "guard",
            "name of the guard, or `duplicate` / `conflicting_duplicate` for a record "
            "that the input holds twice",
        ),
        _text("sender_instance", "the sender's instance id"),
        _text("sender_client", "the sender's client id"),
        _integer("sender_unix_s", "the sender's clock, as the message says"),
        _integer("message_offset", "the message's own offset; null when its type has none"),
        _text("owner_instance", "who owned the claim at that point; null when nobody did"),
        _text("owner_client", "as `owner_instance`"),
        _integer("owner_epoch", "the claim's epoch at that point; null under `original`"),
        _integer("position", "the claim's position at that point"),
        _text("value", "the record's value; bytes that are not UTF-8 as \\xNN"),
    ),
    (*_LOG_ORDER, "offset"),
)

FINDINGS: Final = Table(
    "findings",
    "What somebody should know. One finding tells one story, however many records it has.",
    (
        _LOG,
        _text("rules", "rule set under which it holds; null for a fact of the log itself"),
        _text("code", "what kind, see the catalogue"),
        _text(
            "severity",
            "`error`: a promise was broken; `warning`: it was close, or a record "
            "had to be refused; `info`: good to know",
        ),
        _text(
            "property", "the property it breaks or defends, as in the specification; may be null"
        ),
        _integer("coordinating_partition", "null when it is about a whole log"),
        _text("group", "null when it is about the input"),
        _text("topic", "null when it is about a group, a sender or the input"),
        _integer("topic_partition", "as `topic`"),
        _integer("offset", "log offset of the first record that is the finding"),
        _integer("timestamp_ms", "its time"),
        _integer("last_offset", "log offset of the last such record"),
        _integer("last_timestamp_ms", "its time"),
        _integer("count", "how many such records, or gaps"),
        _text("instance", "instance whom it is about; null when it is about nobody"),
        _text("client", "its client id"),
        _text("sentence", "who, what, when, at which offsets, in plain words"),
        Column(
            "records",
            PROOFS,
            "records that prove it, in log order; of many the first few and the last",
        ),
    ),
    (
        "log",
        "code",
        "rules",
        "coordinating_partition",
        "group",
        "topic",
        "topic_partition",
        "offset",
        "instance",
    ),
)

DIVERGENCES: Final = Table(
    "divergences",
    "Where the two rule sets name another owner or position, claim by claim. A row lasts while "
    "both keep saying the same two different things. Only with `--rules both`.",
    (
        _LOG,
        _text("rules", "always `both`"),
        *_CLAIM[2:],
        _integer("offset", "log offset of the record that parted them, or changed how they differ"),
        _integer("timestamp_ms", "its time"),
        _integer(
            "until_offset", "log offset of the record that ended it; null at the end of the log"
        ),
        _integer("until_ms", "its time"),
        Column("first", BOOLEAN, "the claim's first"),
        _text("differ_in", "`owner`, `position`, or `owner and position`"),
        _text("fenced_instance", "owner under `fenced`; null when nobody owns"),
        _text("fenced_client", "its client id"),
        _integer("fenced_position", "position under `fenced`"),
        _text("original_instance", "last owner under `original`; null after a release"),
        _text("original_client", "its client id"),
        _integer("original_position", "position under `original`"),
        _text("fenced_verdict", "what the record did under `fenced`, or the guard that refused it"),
        _text("original_verdict", "the same under `original`"),
        _text("value", "the record's value"),
    ),
    (*_CLAIM_ORDER, "offset"),
)

MALFORMED: Final = Table(
    "malformed",
    "Records whose value is no message. They change nothing and have no key.",
    (
        _LOG,
        _text("rules", "always null: the rules never see them"),
        _COORDINATING,
        _integer("offset", "log offset of the record"),
        _integer("timestamp_ms", "its time"),
        _text("field", "the field that is wrong, or `value`, `length`, `type`"),
        _text("reason", "why"),
        _text("value", "the value; bytes that are not UTF-8 as \\xNN; null when it is null"),
    ),
    ("log", "coordinating_partition", "offset"),
)

PUBLISHED: Final = (CLAIMS, TENURES, REFUSALS, FINDINGS, DIVERGENCES, MALFORMED)
"""The tables that a replay writes."""

GROUPS: Final = Table(
    "groups",
    "Counts of one group in one coordinating partition.",
    (
        *_CLAIM[:4],
        *(
            _integer(name, "")
            for name in (
                "claims",
                "clients",
                "instances",
                "records",
                "tenures",
                "takeovers",
                "refusals",
                "thefts",
                "unowned_longest_ms",
            )
        ),
        Column("heartbeat_interval_ms", NUMBER, ""),
        Column("intervals_said_ms", TIMES, ""),
    ),
    _LOG_ORDER,
)
SENDERS: Final = Table(
    "senders",
    "How far one sender's clock stands from the broker's: a histogram.",
    (
        _LOG,
        _COORDINATING,
        _text("group", ""),
        _text("instance", ""),
        _text("client", ""),
        _integer("records", ""),
        _integer("offset_min_ms", ""),
        _integer("offset_max_ms", ""),
        Column("buckets", TIMES, ""),
        Column("counts", TIMES, ""),
    ),
    ("log", "coordinating_partition"),
)
SUFFIX_COUNTS: Final = (
    "claims_known_later",
    "claims_never_known",
    "known_from_first",
    "known_from_last",
    "unknowable",
)
"""What is counted of a coordinating partition that starts in the middle; null of a whole one."""
PARTITIONS: Final = Table(
    "partitions",
    "What one coordinating partition of one log holds.",
    (
        _LOG,
        _COORDINATING,
        *(
            _integer(name, "")
            for name in (
                "records",
                "malformed",
                "first_offset",
                "last_offset",
                "from_ms",
                "to_ms",
                "create_time",
                "type_not_stated",
                "duplicates",
                "conflicting",
                "gaps",
                "missing",
                *SUFFIX_COUNTS,
            )
        ),
    ),
    ("log", "coordinating_partition"),
)
MARKS: Final = Table(
    "marks",
    "Records that deserve a glyph on the timeline.",
    (
        *_CLAIM,
        _integer("offset", ""),
        _integer("timestamp_ms", ""),
        _text("kind", ""),
        _text("sender_instance", ""),
        _text("sender_client", ""),
        _text("guard", ""),
        _integer("position", ""),
        _text("note", ""),
    ),
    (*_CLAIM_ORDER, "offset"),
)
LANES: Final = Table(
    "lanes",
    "Heartbeats and pauses of one claim's timeline, and what is counted of the claim.",
    (
        *_CLAIM,
        _integer("records", "as in `claims`"),
        _integer("tenures", ""),
        _integer("takeovers", ""),
        _integer("marks", ""),
        _integer("unowned_ms", "from the end of each tenure to the beginning of the next"),
        _integer("free_since_ms", "when the last tenure ended, if none followed"),
        Column("beats_ms", TIMES, ""),
        Column("pauses_from_ms", TIMES, ""),
        Column("pauses_until_ms", TIMES, ""),
        _text("pauses_by", ""),
    ),
    _CLAIM_ORDER,
)
INTERNAL: Final = (GROUPS, SENDERS, PARTITIONS, MARKS, LANES)
"""What the fold says besides: for `summary.json` and the report, never written as a table."""

FOLDED: Final = (*PUBLISHED, *INTERNAL)
BY_NAME: Final[Mapping[str, Table]] = {table.name: table for table in FOLDED}

"""The rows of the tables that a replay writes, and the meaning of each column.

`docs/reference/replay-tables.md` is printed from here. This module does not know how rows are
computed, nor how they are stored (`rows`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, TypeAlias

from attrs import field, frozen

from kafka_marshal.replay.model.rows import Row

Coordinating: TypeAlias = Annotated[int, "partition of the coordination topic"]
_Group: TypeAlias = Annotated[str, "consumer group"]
_Topic: TypeAlias = Annotated[str, "data topic"]
_TopicPartition: TypeAlias = Annotated[int, "partition of the data topic"]
_Time: TypeAlias = Annotated[int, "its time"]


@frozen(kw_only=True)
class JudgedRow(Row):
    """A row that depends on a rule set."""

    rules: Annotated[str, "rule set that judged: `fenced` or `original`"] = ""
    coordinating_partition: Coordinating = -1


@frozen(kw_only=True)
class GroupRow(JudgedRow):
    """A row about one group."""

    group: _Group


@frozen(kw_only=True)
class ClaimRow(GroupRow):
    """A row about one claim."""

    topic: _Topic
    topic_partition: _TopicPartition


@frozen(kw_only=True)
class FinalClaimRow(ClaimRow):
    """The final state of every claim, at its last record."""

    owner_instance: Annotated[
        str | None,
        "the owner's instance id; null when nobody owns. Under `original` "
        "also null when the owner was too long silent at the claim's last record",
    ]
    owner_client: Annotated[str | None, "the owner's client id; as `owner_instance`"]
    epoch: Annotated[
        int | None,
        "log offset of the last win; stays after a release; null before the "
        "first win and under `original`",
    ]
    position: Annotated[int | None, "next offset to consume; 0 until a record sets it"]
    position_set: Annotated[
        bool | None,
        "a record has set the position, so a position of 0 is known, too. Null under `original`, "
        "and where the log's head is gone that may have held such a record",
    ]
    last_heartbeat_ms: Annotated[
        int | None,
        "`fenced`: clock at the owner's last accepted record, null "
        "when nobody owns; `original`: the time in the last heartbeat, null after a release",
    ]
    paused_by: Annotated[
        str | None,
        "instance that sent the ReleaseGroup which pauses the group; null when "
        "not paused at the claim's last record",
    ]
    paused_until_ms: Annotated[int | None, "until when it is paused; null when it is not"]
    last_release_ms: Annotated[
        int | None, "only `original`: the time in the last release, null since a win"
    ]
    stale: Annotated[
        bool | None,
        "it has an owner, which was silent for more than twice the "
        "heartbeat interval when the log ended",
    ]
    clock_ms: Annotated[int | None, "the claim's clock at its last record"]
    records: Annotated[int, "records of its key; a ReleaseGroup counts for no claim"]
    first_offset: Annotated[int, "log offset of its first record"]
    last_offset: Annotated[int, "log offset of its last record"]
    known_from_offset: Annotated[
        int | None,
        "of a log that starts in the middle, under `fenced`: the record from which on the "
        "claim is certain; null if it never was, or if the log is whole",
    ] = None
    uncertain: Annotated[
        str | None,
        "what of the claim is not certain when such a log ends (`owner`, `epoch`, "
        "`position`, `clock`), with commas between; columns that need it are null. Null if "
        "all is certain",
    ] = None
    ranges_window: Annotated[
        int | None,
        "of a shared claim the window of its ranges, in offsets; 0 is at most once. As the next "
        "four columns null of other claims, under `original`, and if the log's head is missing",
    ] = None
    ranges_frontier: Annotated[int | None, "the offset below which every range was granted"] = None
    ranges_holders: Annotated[int | None, "instances that hold offsets"] = None
    ranges_open: Annotated[int | None, "offsets that they hold and have not reported as done"] = (
        None
    )
    ranges_pool: Annotated[
        int | None, "offsets that were given back, or taken from silent holders, and nobody holds"
    ] = None


@frozen(kw_only=True)
class TenureRow(ClaimRow):
    """The tenures of all claims: owner, first record, and last record.

    Every win begins a new tenure, including a repeated win of the same owner.
    """

    owner_instance: Annotated[str, "the owner's instance id"]
    owner_client: Annotated[str, "the owner's client id"]
    epoch: Annotated[int | None, "log offset of the win; null under `original`"]
    began: Annotated[
        str,
        "what the first record did: `claimed`, `reclaimed` (the owner's own "
        "instance), `restarted`, `took_over`, `fast_reclaimed`. Under `original` also "
        "`overwritten` (by a bare heartbeat) and `refreshed` (the last owner's own "
        "heartbeat after its release). `became_certain`: in a log that starts "
        "in the middle the record from which on it is certain who owns; the tenure began "
        "before, at `epoch`",
    ]
    from_offset: Annotated[int, "log offset of the first record"]
    from_ms: _Time
    position_from: Annotated[int, "position right after the first record"]
    ended: Annotated[
        str,
        "what the ending record did: `released`, `position_set`, "
        "`group_released`, or one of the words of `began`. `open` when it lasts at the end "
        "of the log, `silent` when it lasts and its owner is stale. In a log that starts in "
        "the middle `released` may have set the position, if no record there pauses the "
        "group. `unknowable`: nobody can know whether the record ended it",
    ]
    to_offset: Annotated[int | None, "log offset of the ending record; null while it lasts"] = None
    to_ms: Annotated[int | None, "its time; null while it lasts"] = None
    position_to: Annotated[
        int | None,
        "position at the end: after a release, before another's win; null if it cannot be known",
    ]
    ended_by_instance: Annotated[str | None, "sender of the ending record; null while it lasts"] = (
        None
    )
    ended_by_client: Annotated[str | None, "as `ended_by_instance`"] = None
    records: Annotated[int, "accepted records of the owner, the win included, the release not"]
    last_offset: Annotated[int, "log offset of the owner's last accepted record"]
    last_ms: _Time
    longest_silence_ms: Annotated[int, "longest time between two accepted records of the owner"]


@frozen(kw_only=True)
class RefusalRow(GroupRow):
    """Every record that changed nothing, and the guard that refused it."""

    topic: Annotated[str | None, "data topic"]
    topic_partition: Annotated[int | None, "partition of the data topic"]
    offset: Annotated[int, "log offset of the record"]
    timestamp_ms: _Time
    type: Annotated[str, "`Heartbeat`, `ClaimingPartition`, ..."]
    guard: Annotated[
        str,
        "name of the guard, or `duplicate` / `conflicting_duplicate` for a record "
        "that the input holds twice",
    ]
    sender_instance: Annotated[str, "the sender's instance id"]
    sender_client: Annotated[str, "the sender's client id"]
    sender_unix_s: Annotated[int, "the sender's clock, as the message says"]
    message_offset: Annotated[int | None, "the message's own offset; null when its type has none"]
    owner_instance: Annotated[str | None, "who owned the claim at that point; null when nobody did"]
    owner_client: Annotated[str | None, "as `owner_instance`"]
    owner_epoch: Annotated[int | None, "the claim's epoch at that point; null under `original`"]
    position: Annotated[int | None, "the claim's position at that point"]
    value: Annotated[str | None, "the record's value; bytes that are not UTF-8 as \\xNN"]


@frozen(kw_only=True)
class ProofRow:
    """A record that proves a finding.

    If its value is no message, only place, time and value are set.
    """

    offset: int
    timestamp_ms: int
    type: str | None = None
    sender_instance: str | None = None
    sender_client: str | None = None
    verdict: str | None = None
    value: str | None


def _proofs(given: Iterable[ProofRow | Mapping[str, Any]] | None) -> tuple[ProofRow, ...]:
    return tuple(each if isinstance(each, ProofRow) else ProofRow(**each) for each in given or ())


@frozen(kw_only=True)
class FindingRow(Row):
    """The findings. One finding reports one incident, however many records belong to it."""

    rules: Annotated[
        str | None, "rule set under which it holds; null for a fact of the log itself"
    ] = None
    code: Annotated[str, "what kind, see the catalogue"]
    severity: Annotated[
        str,
        "`error`: a promise was broken; `warning`: it was close, or a record "
        "had to be refused; `info`: good to know",
    ]
    property: Annotated[
        str | None,
        "the property it breaks or defends, as in the specification; may be null",
    ] = None
    coordinating_partition: Annotated[int | None, "null when it is about a whole log"] = None
    group: Annotated[str | None, "null when it is about the input"] = None
    topic: Annotated[str | None, "null when it is about a group, a sender or the input"] = None
    topic_partition: Annotated[int | None, "as `topic`"] = None
    offset: Annotated[int | None, "log offset of the first record that is the finding"] = None
    timestamp_ms: Annotated[int | None, "its time"] = None
    last_offset: Annotated[int | None, "log offset of the last such record"] = None
    last_timestamp_ms: Annotated[int | None, "its time"] = None
    count: Annotated[int, "how many such records, or gaps"] = 1
    instance: Annotated[str | None, "instance whom it is about; null when it is about nobody"] = (
        None
    )
    client: Annotated[str | None, "its client id"] = None
    sentence: Annotated[str, "who, what, when, at which offsets, in plain words"]
    records: Annotated[
        tuple[ProofRow, ...],
        "records that prove it, in log order; of many the first few and the last",
    ] = field(default=(), converter=_proofs)


@frozen(kw_only=True)
class DivergenceRow(Row):
    """Where the two rule sets disagree on the owner or position of a claim.

    A row covers the time in which both results stay the same. Only with `--rules both`.
    """

    rules: Annotated[str, "always `both`"] = "both"
    coordinating_partition: Coordinating = -1
    group: _Group
    topic: _Topic
    topic_partition: _TopicPartition
    offset: Annotated[int, "log offset of the record that parted them, or changed how they differ"]
    timestamp_ms: _Time
    until_offset: Annotated[
        int | None, "log offset of the record that ended it; null at the end of the log"
    ] = None
    until_ms: Annotated[int | None, "its time"] = None
    first: Annotated[bool, "the claim's first"]
    differ_in: Annotated[str, "`owner`, `position`, or `owner and position`"]
    fenced_instance: Annotated[str | None, "owner under `fenced`; null when nobody owns"]
    fenced_client: Annotated[str | None, "its client id"]
    fenced_position: Annotated[int, "position under `fenced`"]
    original_instance: Annotated[str | None, "last owner under `original`; null after a release"]
    original_client: Annotated[str | None, "its client id"]
    original_position: Annotated[int, "position under `original`"]
    fenced_verdict: Annotated[
        str, "what the record did under `fenced`, or the guard that refused it"
    ]
    original_verdict: Annotated[str, "the same under `original`"]
    value: Annotated[str | None, "the record's value"]


@frozen(kw_only=True)
class MalformedRow(Row):
    """Records whose value is no message. They have no key and no effect."""

    rules: Annotated[str | None, "always null: the rules never see them"] = None
    coordinating_partition: Coordinating = -1
    offset: Annotated[int, "log offset of the record"]
    timestamp_ms: _Time
    field: Annotated[str, "the field that is wrong, or `value`, `length`, `type`"]
    reason: Annotated[str, "why"]
    value: Annotated[
        str | None, "the value; bytes that are not UTF-8 as \\xNN; null when it is null"
    ]

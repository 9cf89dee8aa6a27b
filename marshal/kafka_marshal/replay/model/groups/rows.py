"""The rows of the tables that a replay of `__marshal_groups` writes, and each column's meaning.

This module does not know how rows are computed (`replay.groups`), nor how they are stored (`rows`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, TypeAlias, TypeVar

from attrs import field, frozen

from kafka_marshal.replay.model.rows import Row

LogPartitionNumber: TypeAlias = Annotated[int, "partition of `__marshal_groups`"]
_Group: TypeAlias = Annotated[str, "group id"]
_Time: TypeAlias = Annotated[int, "its time"]
_Member: TypeAlias = Annotated[str, "member id"]
_Client: TypeAlias = Annotated[str, "its client id"]
_SomeClient: TypeAlias = Annotated[str | None, "its client id"]
T = TypeVar("T")


def _structs(of: Callable[..., T], given: Iterable[T | Mapping[str, Any]] | None) -> tuple[T, ...]:
    """Rows within a row, from their stored form in Arrow or Spark."""
    return tuple(of(**each) if isinstance(each, Mapping) else each for each in given or ())


def _texts(given: Iterable[str] | None) -> tuple[str, ...]:
    return tuple(given or ())


@frozen(kw_only=True)
class GroupsRow(Row):
    """A row of a fold of `__marshal_groups`."""

    coordinating_partition: LogPartitionNumber = -1
    certain: Annotated[
        bool,
        "false: the log's head is missing, and what is known was taken from a snapshot that the "
        "log alone does not prove",
    ] = True


@frozen(kw_only=True)
class PartitionTenureRow(GroupsRow):
    """The tenures of each partition of a group: member, first and last event, and why it moved.

    Every message about the partition names the tenure. A renewal and a rewind begin a new one.
    """

    group: _Group
    topic: Annotated[str, "topic that the group consumes"]
    topic_partition: Annotated[int, "partition of that topic"]
    member: Annotated[str, "id of the member that owned it"]
    client: _Client
    tenure: Annotated[int, "number of the event that granted it: the fencing token"]
    began: Annotated[
        str,
        "what the event did that granted it: `rebalanced` (it was free), `released`, `left` or "
        "`expired` (it was another member's), `joined`, `renewed` (its owner began anew), "
        "`rewound`. `snapshot`: it was owned where the log begins",
    ]
    from_offset: Annotated[int, "log offset of that event"]
    from_ms: _Time
    position_from: Annotated[int, "next offset to consume at the beginning; -1: nobody committed"]
    ended: Annotated[
        str,
        "what ended it: `released` for a rebalance, `left`, `expired`, `renewed`, `rewound`, "
        "`topic_gone`. `open` when it lasts at the end of the log, `unknown` where the state is "
        "not known any more",
    ]
    reason: Annotated[str | None, "of `left` and `expired`, as the event says it"] = None
    to_offset: Annotated[int | None, "log offset of the ending event; null while it lasts"] = None
    to_ms: Annotated[int | None, "its time; null while it lasts"] = None
    position_to: Annotated[int, "next offset to consume at the end, before a rewind"]
    commits: Annotated[int, "commits that moved the position"]
    last_commit_ms: Annotated[int | None, "time of the last of them"] = None
    revoked_ms: Annotated[
        int | None, "since when its owner had to let it go, when it ended; null if it need not"
    ] = None
    silent_ms: Annotated[
        int | None, "of `expired`: how long its controller had heard nothing of the owner"
    ] = None


@frozen(kw_only=True)
class CauseRow:
    """An event that made a rebalance due."""

    offset: int
    timestamp_ms: int
    what: str
    """joined, left, expired, wish, static or counted."""
    member: str | None = None
    client: str | None = None
    topic: str | None = None


def _causes(given: Iterable[CauseRow | Mapping[str, Any]] | None) -> tuple[CauseRow, ...]:
    return _structs(CauseRow, given)


@frozen(kw_only=True)
class ReleaseRow:
    """The partitions that one member had to release in a rebalance, and when it was done."""

    member: str
    client: str
    partitions: int
    offset: int | None = None
    timestamp_ms: int | None = None
    how: str
    """released, left, expired or renewed; `holds` if it still held some when the rebalance was
    superseded or the log ended."""
    took_ms: int
    """The time since it first had to: by this target, or by an earlier one that was not settled."""


def _releases(given: Iterable[ReleaseRow | Mapping[str, Any]] | None) -> tuple[ReleaseRow, ...]:
    return _structs(ReleaseRow, given)


@frozen(kw_only=True)
class RebalanceRow(GroupsRow):
    """The rebalances: causes, duration, moved partitions, and the members that delayed them."""

    group: _Group
    rebalance: Annotated[str, "`incremental` or `eager`"]
    strategy: Annotated[str, "strategy of the group"]
    due_offset: Annotated[
        int | None, "log offset of the event that made it due; null if that lies before a snapshot"
    ] = None
    due_ms: Annotated[int | None, "its time"] = None
    due_by: Annotated[
        str | None,
        "what that event was: `joined`, `left`, `expired`, `wish` (a member wants other topics), "
        "`static` (it asks for other partitions by number), `counted` (a topic grew, came or went)",
    ] = None
    due_member: Annotated[str | None, "the member that it was about"] = None
    due_client: _SomeClient = None
    causes: Annotated[
        tuple[CauseRow, ...], "all events that made it due, up to the one that wrote the target"
    ] = field(default=(), converter=_causes)
    offset: Annotated[int, "log offset of the Rebalanced that wrote the target"]
    timestamp_ms: _Time
    number: Annotated[int, "its number: the group's generation"]
    state: Annotated[
        str,
        "`settled`: everything is owned as the target says; `superseded`: another one was written "
        "before; `open` at the end of the log; `unknown` where the state is not known any more",
    ]
    settled_offset: Annotated[int | None, "log offset of the event that settled it"] = None
    settled_ms: Annotated[int | None, "its time"] = None
    ended_ms: Annotated[
        int | None, "when it was settled or superseded, or the state unknown; null: it lasts"
    ] = None
    members: Annotated[int, "members when it was written"]
    partitions: Annotated[int, "partitions that the target names"]
    moves: Annotated[int, "partitions that a member owned and the target gives to another one"]
    revoked: Annotated[int, "partitions that had to be let go; under `eager` all that are owned"]
    granted: Annotated[int, "partitions that nobody owned and the target gives to a member"]
    releases: Annotated[
        tuple[ReleaseRow, ...], "members that had to let something go, the slowest last"
    ] = field(default=(), converter=_releases)
    held_up_by: Annotated[str | None, "the member that let go last; null if nobody had to"] = None
    held_up_client: _SomeClient = None
    held_up_ms: Annotated[int | None, "how long it took since it first had to let go"] = None
    held_up_how: Annotated[str | None, "as `how` of `releases`"] = None
    unowned: Annotated[int, "wanted partitions that had no owner for a while, up to `settled`"] = 0
    unowned_longest_ms: Annotated[
        int, "the longest time that one of them had none, as far as the log shows"
    ] = 0


@frozen(kw_only=True)
class ControllershipRow(GroupsRow):
    """The controllers of each partition of the log, with the first and last event of each."""

    epoch: Annotated[int, "log offset of the ControllerStarted that won"]
    controller: Annotated[int | None, "id of the controller"]
    host: Annotated[str | None, "where members reach it"]
    port: Annotated[int, "its port"]
    began: Annotated[str, "`started`, or `snapshot` where the log's head is missing"]
    from_offset: Annotated[int, "log offset of its first event"]
    from_ms: _Time
    ended: Annotated[str, "`deposed` by another start, `open` at the end of the log, `unknown`"]
    to_offset: Annotated[int | None, "log offset of the start that deposed it"] = None
    to_ms: Annotated[int | None, "its time"] = None
    events: Annotated[int, "events of its epoch that were accepted, the start among them"]
    last_offset: Annotated[int, "log offset of the last of them"]
    last_ms: _Time
    refused: Annotated[int, "events of its epoch that were refused"]
    refused_late: Annotated[int, "of these, those that came when it was deposed"]
    refused_last_ms: Annotated[int | None, "time of the last of those"] = None


@frozen(kw_only=True)
class RefusedEventRow(GroupsRow):
    """Every event without an effect, and every refused position of a commit."""

    group: Annotated[str | None, "group id; null for an event of the controllership"]
    offset: Annotated[int, "log offset of the event"]
    timestamp_ms: _Time
    type: Annotated[str, "`MemberRegistered`, `Reconciled`, ..."]
    verdict: Annotated[str, "name of the guard that refused it"]
    epoch: Annotated[int | None, "epoch that it names; null if it has none"] = None
    number: Annotated[int | None, "number that it names; null if it has none"] = None
    controller: Annotated[int | None, "controller of that epoch, if its start was seen"] = None
    current_epoch: Annotated[int, "epoch of the partition at that point"]
    expected_number: Annotated[int, "number that the next event must name"]
    member: Annotated[str | None, "member that it speaks of"] = None
    client: _SomeClient = None
    topic: Annotated[str | None, "of a refused position its topic"] = None
    topic_partition: Annotated[int | None, "and its partition"] = None
    position: Annotated[int | None, "the position that was to be committed"] = None
    tenure: Annotated[int | None, "the tenure that it names"] = None
    owner: Annotated[str | None, "member that owned the partition at that point"] = None
    owner_tenure: Annotated[int | None, "the partition's tenure at that point"] = None


@frozen(kw_only=True)
class FinalGroupRow(GroupsRow):
    """Every group's counts, and its state at the end of the log."""

    group: _Group
    rebalance: Annotated[str, "`incremental` or `eager`"]
    strategy: Annotated[str, "strategy of the group"]
    session_timeout_ms: Annotated[int, "session timeout"]
    deleted: Annotated[bool, "it is gone; what it last was stands in the other columns"]
    generation: Annotated[int, "number of the last event that changed members or ownership"]
    members: Annotated[tuple[str, ...], "member ids"] = field(default=(), converter=_texts)
    partitions: Annotated[int, "partitions of its topics"]
    owned: Annotated[int, "of these, those that somebody owns"]
    rebalance_due: Annotated[bool, "a rebalance is due and not written"]
    events: Annotated[int, "accepted events"]
    joined: Annotated[int, "members that joined"]
    left: Annotated[int, "members that left"]
    expired: Annotated[int, "members that their controller gave up"]
    rebalances: Annotated[int, "targets that were written"]
    moves: Annotated[int, "partitions that a target took from one member and gave to another"]
    rewinds: Annotated[int, "rewinds"]
    unowned_longest_ms: Annotated[
        int | None, "how long a wanted partition had no owner, at most; null: never"
    ] = None


@frozen(kw_only=True)
class PlaceRow:
    """A partition, with a number or a member if it has one."""

    topic: str
    partition: int
    number: int = 0
    """For a static partition, the number of the event that requested it."""
    member: str | None = None
    """For a target, the member that shall own it."""


def _places(given: Iterable[PlaceRow | Mapping[str, Any]] | None) -> tuple[PlaceRow, ...]:
    return _structs(PlaceRow, given)


@frozen(kw_only=True)
class WishRow:
    """The wishes of one member when a target was made."""

    member: str
    client: str
    topics: tuple[str, ...] = field(converter=_texts)
    static: tuple[PlaceRow, ...] = field(default=(), converter=_places)


def _wishes(given: Iterable[WishRow | Mapping[str, Any]] | None) -> tuple[WishRow, ...]:
    return _structs(WishRow, given)


@frozen(kw_only=True)
class CountRow:
    """A topic of a group."""

    topic: str
    count: int


def _topics(given: Iterable[CountRow | Mapping[str, Any]] | None) -> tuple[CountRow, ...]:
    return _structs(CountRow, given)


@frozen(kw_only=True)
class TargetRow(GroupsRow):
    """A target as it was written, with all that a strategy needs to compute another one."""

    group: str
    offset: int
    timestamp_ms: int
    strategy: str
    members: tuple[WishRow, ...] = field(converter=_wishes)
    topics: tuple[CountRow, ...] = field(converter=_topics)
    target: tuple[PlaceRow, ...] = field(converter=_places)


@frozen(kw_only=True)
class GroupMarkRow(GroupsRow):
    """An event with a glyph on a group's timeline."""

    group: str
    offset: int
    timestamp_ms: int
    kind: str
    """joined, left, expired, rebalanced, rewound, counted, created, deleted or started."""
    member: str | None = None
    client: str | None = None
    note: str = ""

"""What happened in a simulated world of groups, by true time: what checkers judge."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from attrs import define, field, frozen

from kafka_marshal.core.groups.events import EventRecord
from kafka_marshal.core.groups.state import Controllership
from kafka_marshal.testing.in_memory import Stored

Place = tuple[str, int]
"""A topic and a partition of it."""


@frozen
class HandedOut:
    """A message that `poll` returned."""

    at_s: float
    process: str
    member: str
    """The member's id."""
    place: Place
    tenure: int
    offset: int


@frozen
class Told:
    """A callback, of one claim."""

    at_s: float
    process: str
    kind: str
    """`assigned` or `revoked`."""
    place: Place
    tenure: int


@frozen
class Done:
    """Up to where an application is done, by its own word, or a commit has returned."""

    at_s: float
    member: str
    place: Place
    tenure: int
    offset: int
    """The next one."""


@frozen
class Limited:
    """A member's application heard, or its log has, that it is not served."""

    at_s: float
    process: str
    machine: str
    why: str


@frozen
class AtTheEnd:
    """What a process knew when nothing had been a fault for a while."""

    process: str
    owns: Mapping[Place, int] | None = None
    """Of a member: tenures of what is its own."""
    view: Controllership | None = None
    """Of a controller: what it has folded of the group's partition of the log."""


@define
class GroupsHistory:
    """Everything that checkers judge."""

    handed_out: list[HandedOut] = field(factory=list)
    told: list[Told] = field(factory=list)
    done: list[Done] = field(factory=list)
    """Noted before the call by which the member learns it."""
    committed: list[Done] = field(factory=list)
    """Commits that have returned."""
    calls: list[tuple[float, str, str]] = field(factory=list)
    """When, who, and what became of a call: Fenced, OutcomeUnknown, a rewind."""
    rewound: list[tuple[float, Place, int]] = field(factory=list)
    """Rewinds that were answered: when, and what was set."""
    appended_s: defaultdict[Place, list[float]] = field(factory=lambda: defaultdict(list))
    """When each record was appended, by topic and partition."""
    log: list[Stored] = field(factory=list)
    """The log of the group, as bytes."""
    events: list[EventRecord] = field(factory=list)
    """The log of the group."""
    ends: dict[Place, int] = field(factory=dict)
    """Where each partition of the topics ends."""
    at_the_end: list[AtTheEnd] = field(factory=list)
    ended: list[tuple[float, str, str]] = field(factory=list)
    """Who ended by itself: when, who, and by which error."""
    logged: list[str] = field(factory=list)
    """Exceptions that were logged."""
    limited: list[Limited] = field(factory=list)
    too_large: list[str] = field(factory=list)
    """Lines of controllers about events that their log does not take, until there was room."""
    unforeseen: list[str] = field(factory=list)
    """Those about events that make no group larger: it should have been refused before."""
    out: list[tuple[float, str]] = field(factory=list)
    """When, and which machines' members were not served, since there was no room for all."""
    failed_over: tuple[float, float] | None = None
    """From when, and until when a controller was gone, and nothing else was wrong."""
    sizes_met: bool = False
    """A group was as large as its log allows, at some time."""
    members_max: int = 0
    """How many members a group might have, before there was room for all."""
    left: list[str] = field(factory=list)
    """What was there when everybody had ended."""
    faults: list[tuple[float, str, str]] = field(factory=list)
    """Since the beginning: when, which, and what it did."""
    answers: Counter[str] = field(factory=Counter)
    """What controllers answered, by request and code."""
    met: Counter[str] = field(factory=Counter)
    """Limits that were met: why controllers hung up, and what members heard."""
    finished: bool = False
    """All was consumed, in balance, within the bound."""
    mended_s: float = 0.0
    """When all faults were taken back."""
    session_timeout_s: float = 0.0
    """The group's."""
    looked_s: float = 0.0
    """When processes were asked what they know."""
    even: bool = False
    """Members should own as many partitions as each other, or one more."""
    simulated_s: float = 0.0
    switched: int = 0
    processes: int = 0

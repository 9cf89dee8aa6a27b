"""Explains why no behaviour of the specification explains an event.

This module holds names and texts: the guard that forbids an event, and the purpose of that guard.
It does not judge events.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final, TypeAlias

from attrs import frozen

from kafka_marshal.core.claims.invariants import Property
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.machines.consumer.consumer import Forbidden
from kafka_marshal.machines.ranges.participant import ParticipantForbidden


class Impossible(enum.Enum):
    """Events that are impossible in the environment, whatever the consumer may do.

    By the names of `Impossible` in TraceMarshal.tla.
    """

    STARTED_BEFORE = "started_before"
    """An instance id names one run of one process."""
    NOT_RUNNING = "not_running"
    """The instance has not started yet, or has crashed."""
    NOT_WHAT_IT_SENDS = "not_what_it_sends"
    """It may send such a message now, but with other content."""
    OFFSET_TAKEN = "offset_taken"
    """The log already has that offset, or a higher one."""
    NOT_UNDER_WAY = "not_under_way"
    """Its sender has no such record in flight: never sent, appended before, or overtaken by a later
    one of its own, which an idempotent producer rules out."""
    NOT_APPENDED = "not_appended"
    """The log has no record there yet."""
    NOT_NEXT_RECORD = "not_next_record"
    """A reader reads the records of a partition in order."""
    VIEW_GOES_BACK = "view_goes_back"
    """It states a smaller view of the log than an earlier one."""


Guard: TypeAlias = Forbidden | ParticipantForbidden | Impossible


@frozen
class Objection:
    """The reason why an event cannot be explained."""

    guard: Guard
    expected: str = ""
    """The event that would have been explained; empty if there is none."""


_Shared: TypeAlias = ParticipantForbidden

WHY: Final[Mapping[Guard, str]] = {
    Forbidden.STOPPED: "it lost its claim to another instance of its own client and has stopped",
    Forbidden.NOT_ADMIN: "only an administrator pauses a group",
    Forbidden.NOTHING_PAUSED: "an administrator claims only in its own pause",
    Forbidden.NOT_AT_MOST_ONCE: "only a consumer at most once asks for messages",
    Forbidden.NOT_AT_LEAST_ONCE: "it processes what it was granted, and nothing else",
    Forbidden.ALREADY_OWNER: "it owns the claim already",
    Forbidden.AWAITS_READ_BACK: "it has not read its last request back",
    Forbidden.CLAIM_UNKNOWN: "it began in the middle, and cannot be certain who owns",
    Forbidden.POSITION_UNKNOWN: "it began in the middle, and cannot be certain of the position",
    Forbidden.NOT_OWNER: "what it has read does not make it the owner",
    Forbidden.RESIGNED: "it has sent its release under this epoch",
    Forbidden.NOTHING_AHEAD: "it asks for nothing beyond the position",
    Forbidden.BEYOND_BATCH: "it asks for more messages than one request may",
    Forbidden.NOT_NEXT: "messages are processed in order",
    Forbidden.BEYOND_WINDOW: "it is too far beyond its last accepted position",
    Forbidden.NOT_GRANTED: "it has not read that the log granted it that",
    Forbidden.NOTHING_ASKED: "no request of it is outstanding",
    _Shared.LEAVING: "it leaves, and takes nothing more",
    _Shared.AWAITS_READ_BACK: "it has not read the last request for the claim back",
    _Shared.ALREADY_SHARED: "the claim is shared under its window already",
    _Shared.ALREADY_ALONE: "it owns the claim alone already",
    _Shared.NEVER_SET: "nobody has said where to begin",
    _Shared.ALREADY_SET: "somebody has said where to begin",
    _Shared.WINDOW_DIFFERS: "there are ranges under another window",
    _Shared.NOT_ALONE: "it does not own the claim alone",
    _Shared.NOT_AT_MOST_ONCE: "only at most once anything is reserved",
    _Shared.NOT_SHARED: "the claim is not shared under its window",
    _Shared.NOTHING_AHEAD: "it reserves nothing beyond the position",
    _Shared.REQUEST_UNDER_WAY: "it has not read its last request for a range back",
    _Shared.OWES_GIVING_BACK: "it has given that back, and the log does not say so yet",
    _Shared.NO_ROOM: "nothing is in the pool, and there is no room for more ranges",
    _Shared.NO_RANGES: "there are no ranges",
    _Shared.NOTHING_TO_GIVE_BACK: "it holds nothing that it has not begun",
    _Shared.NOT_GRANTED: "it holds no such range, or not that part of it",
    _Shared.ASLEEP: "nobody owns the claim, so nothing is begun",
    _Shared.NOT_NEXT: "messages of a range are begun in order, and finished after that",
    _Shared.NOTHING_ASKED: "no request of it is outstanding",
    Impossible.STARTED_BEFORE: "an instance id names one run of one process",
    Impossible.NOT_RUNNING: "it does not run",
    Impossible.NOT_WHAT_IT_SENDS: "what it has read makes it say something else",
    Impossible.OFFSET_TAKEN: "the log is beyond that offset",
    Impossible.NOT_UNDER_WAY: "its sender has no such record under way",
    Impossible.NOT_APPENDED: "the log has no such record yet",
    Impossible.NOT_NEXT_RECORD: "another record of that partition comes next",
    Impossible.VIEW_GOES_BACK: "it must have read more than that before",
}
"""The meaning of each guard, as a clause."""

RULES: Final[Mapping[Guard, str]] = {
    Forbidden.NOT_ADMIN: "R8",
    Forbidden.NOTHING_PAUSED: "R8",
    Forbidden.NOT_AT_LEAST_ONCE: "R4",
    Forbidden.AWAITS_READ_BACK: "R6",
    Forbidden.NOT_OWNER: "R2",
    Forbidden.RESIGNED: "R7",
    Forbidden.NOTHING_AHEAD: "R4",
    Forbidden.BEYOND_WINDOW: "R5",
    Forbidden.NOT_GRANTED: "R4",
    Forbidden.NOTHING_ASKED: "R6",
    _Shared.AWAITS_READ_BACK: "R6",
    _Shared.NOTHING_AHEAD: "R4",
    Impossible.NOT_UNDER_WAY: "R6",
}
"""The number of the protocol's rule that a guard implements, if it has one."""

PROTECTS: Final[Mapping[Guard, Property]] = {
    Forbidden.STOPPED: Property.PREDECESSOR_STAYS_OUT,
    Forbidden.NOT_ADMIN: Property.PAUSE_HOLDS,
    Forbidden.NOTHING_PAUSED: Property.SET_POSITION_STICKS,
    Forbidden.NOT_AT_MOST_ONCE: Property.AT_MOST_ONCE,
    Forbidden.NOT_AT_LEAST_ONCE: Property.AT_MOST_ONCE,
    Forbidden.CLAIM_UNKNOWN: Property.AT_MOST_ONCE,
    Forbidden.POSITION_UNKNOWN: Property.AT_MOST_ONCE,
    Forbidden.NOT_OWNER: Property.MUTEX,
    Forbidden.RESIGNED: Property.RELEASE_REPEATS_NOTHING,
    Forbidden.NOTHING_AHEAD: Property.AT_MOST_ONCE,
    Forbidden.NOT_NEXT: Property.NONE_SKIPPED,
    Forbidden.BEYOND_WINDOW: Property.REPROCESSING_BOUND,
    Forbidden.NOT_GRANTED: Property.AT_MOST_ONCE,
    _Shared.NEVER_SET: Property.BEGINS_WHERE_THE_LOG_SAYS,
    _Shared.ALREADY_SET: Property.BEGINS_WHERE_THE_LOG_SAYS,
    _Shared.WINDOW_DIFFERS: Property.AT_MOST_ONCE,
    _Shared.OWES_GIVING_BACK: Property.AT_MOST_ONCE,
    _Shared.NOT_GRANTED: Property.AT_MOST_ONCE,
    _Shared.ASLEEP: Property.PAUSE_HOLDS,
    _Shared.NOT_NEXT: Property.NONE_SKIPPED,
    Impossible.NOT_WHAT_IT_SENDS: Property.FENCED,
    Impossible.OFFSET_TAKEN: Property.MONOTONE_EPOCH,
    Impossible.NOT_UNDER_WAY: Property.PREDECESSOR_STAYS_OUT,
    Impossible.NOT_APPENDED: Property.READERS_AGREE,
    Impossible.NOT_NEXT_RECORD: Property.READERS_AGREE,
    Impossible.VIEW_GOES_BACK: Property.READERS_AGREE,
}
"""The property that a guard protects, if it would be violated without it."""


def guard_name(guard: Guard) -> str:
    """The specification's name of a guard.

    >>> guard_name(Forbidden.NOT_GRANTED)
    'NotGranted'
    """
    return guard.name.title().replace("_", "")


@frozen
class Unexplained:
    """The first event that no behaviour of the specification explains."""

    number: int
    """The number of the event within the run, from 1."""
    where: str
    """File and line."""
    instance: str | None
    """The instance that caused it; None for the log itself."""
    action: str
    """The specification's action, such as `SendHeartbeat`."""
    guard: Guard | None
    """The first guard that forbids it. None if a step of the log itself violated a property: then
    the reducer differs from the specification's."""
    expected: str
    """The event that would have been explained."""
    got: str
    key: ClaimKey | None = None
    broken: Property | None = None
    """The property that a step of the log violated, if no guard forbids the event."""

    @property
    def protects(self) -> Property | None:
        """The property that such events violate; None if the guard only keeps order."""
        return self.broken if self.guard is None else PROTECTS.get(self.guard)

    @property
    def name(self) -> str:
        """The guard, or the violated property, by the specification's name."""
        if self.guard is not None:
            return guard_name(self.guard)
        assert self.broken is not None
        return self.broken.value

    def same_fault(self, other: Unexplained | None) -> bool:
        """Whether both events are forbidden for the same reason to the same instance."""
        return other is not None and (self.instance, self.action, self.guard, self.broken) == (
            other.instance,
            other.action,
            other.guard,
            other.broken,
        )

    @property
    def why(self) -> str:
        """The guard as a clause, its rule, and the property that it protects."""
        if self.guard is None:
            return f"the step breaks {self.name}"
        behind = [RULES.get(self.guard), self.protects.value if self.protects else None]
        noted = ", ".join(word for word in behind if word)
        return (
            f"{self.name} forbids it" + (f" ({noted})" if noted else "") + (f": {WHY[self.guard]}")
        )

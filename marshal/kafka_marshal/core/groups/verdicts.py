"""Verdicts: what an event did, or which guard refused it.

A refused event is ordinary, so a refusal is a value and not an exception.
"""

from __future__ import annotations

import enum
from typing import TypeAlias


class GroupAccepted(enum.Enum):
    """What an accepted event did. The value is the name in output. Spec: Accepted."""

    STARTED = "started"
    """ControllerStarted: its sender is the controller from now on."""
    CREATED = "created"
    DELETED = "deleted"
    JOINED = "joined"
    """MemberRegistered of a client that was not a member."""
    RENEWED = "renewed"
    """MemberRegistered of a member without memory: its partitions start over."""
    WISHES_CHANGED = "wishes_changed"
    """MemberRegistered of a member that continues."""
    LEFT = "left"
    EXPIRED = "expired"
    COUNTED = "counted"
    REBALANCED = "rebalanced"
    RECONCILED = "reconciled"
    """Accepted as a whole; `OfAPosition` and `OfARelease` are the verdicts on each partition."""
    REWOUND = "rewound"
    SNAPSHOT_TAKEN = "snapshot_taken"
    """GroupSnapshot of an unknown group: it begins here."""
    SNAPSHOT_AGREES = "snapshot_agrees"
    """The snapshot equals the reader's state."""
    SNAPSHOT_DIFFERS = "snapshot_differs"
    """The snapshot differs from the reader's state, which is kept."""


class GroupRefused(enum.Enum):
    """The guard that refused an event, in the order of the guards. Spec: Refused."""

    UNKNOWN_VERSION = "unknown_version"
    """A later version wrote it."""
    MALFORMED = "malformed"
    """`marshal-epoch` or `marshal-number` is absent or not decimal."""
    NOT_THE_EPOCH = "not_the_epoch"
    """A ControllerStarted that names another epoch than the one to end: somebody was faster."""
    DEPOSED = "deposed"
    """Its sender is not controller any more."""
    NEVER_STARTED = "never_started"
    """Its epoch is above every one that has begun: the log was cut or made anew."""
    OUT_OF_NUMBER = "out_of_number"
    """An event before it was lost, or it is a copy."""
    NO_SUCH_GROUP = "no_such_group"
    GROUP_EXISTS = "group_exists"
    NOT_EMPTY = "not_empty"
    """The group to delete has members."""
    UNKNOWN_MEMBER = "unknown_member"
    NOTHING_NEW = "nothing_new"
    """The topic was counted as before."""
    STILL_OWNED = "still_owned"
    """A partition of the topic that is gone has an owner."""
    REMADE = "remade"
    """Another topic of that name: the old one must be counted 0 first."""
    SHRUNK = "shrunk"
    """Fewer partitions than before: the topic must be counted 0 first."""
    NOT_A_MEMBER = "not_a_member"
    """The target names somebody who is no member."""
    NOT_WANTED = "not_wanted"
    """The target gives away what does not exist, or gives it to one that did not ask first."""
    NOT_ALL_ASSIGNED = "not_all_assigned"
    """The target leaves out a partition that somebody wants."""
    NOTHING_CHANGED = "nothing_changed"
    """No rebalance is due."""
    UNKNOWN_PARTITION = "unknown_partition"
    """A rewind names a partition that the group does not have."""


class OfAPosition(enum.Enum):
    """What became of one position of a Reconciled. Spec: OfAPosition."""

    UNKNOWN_PARTITION = "unknown_partition"
    """The group has no such partition."""
    NOT_OWNER = "not_owner"
    """The member does not own it."""
    OTHER_TENURE = "other_tenure"
    """The member owns it anew, or it was rewound since."""
    NOT_AHEAD = "not_ahead"
    """The position is there already. A copy of a commit is answered as done."""
    COMMITTED = "committed"


class OfARelease(enum.Enum):
    """What became of a partition that a member must let go and does not hold. Spec: OfARelease."""

    NOT_TOLD = "not_told"
    """The member does not yet know that it must let go, so what it holds says nothing."""
    RELEASED = "released"
    """It is free."""


Verdict: TypeAlias = GroupAccepted | GroupRefused

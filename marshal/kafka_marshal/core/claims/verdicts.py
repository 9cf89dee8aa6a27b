"""Verdicts: what a record did to its claim, or which guard refused it.

A record that lost is ordinary, so a refusal is a value and not an exception.
"""

import enum
from typing import Final, Self, TypeAlias


class _DescribedVerdict(enum.Enum):
    """A verdict: its name in output, and a description."""

    sentence: str

    def __new__(cls, name: str, sentence: str = "") -> Self:
        """Take the name as the value, and the description beside it."""
        made = object.__new__(cls)
        made._value_ = name
        made.sentence = sentence
        return made


class Accepted(_DescribedVerdict):
    """What an accepted record did. The value is the name in output."""

    CLAIMED = "claimed", "nobody owned"
    """ClaimingPartition, nobody owned (R1)."""
    RECLAIMED = "reclaimed", "the owner wins anew"
    """ClaimingPartition of the owner's own instance (R1a)."""
    RESTARTED = "restarted", "another instance of the owner's client"
    """ClaimingPartition of another instance of the owner's client (R1b, R1c)."""
    TOOK_OVER = "took_over", "the owner counts as stale"
    """ClaimingPartition, the owner was stale (R1)."""
    REFRESHED = "refreshed", "the owner is alive"
    """Heartbeat of the owner."""
    FAST_RECLAIMED = "fast_reclaimed", "a bare heartbeat of the owner's client"
    """Bare heartbeat of another instance of the owner's client (R9)."""
    GRANTED = "granted", "a range is granted"
    """ClaimingMessages: the range from the old position to the new one is the sender's (R4)."""
    RELEASED = "released", "nobody owns any more"
    """ReleasingPartition of the owner."""
    POSITION_SET = "position_set", "nobody owns any more"
    """ReleasingPartition that sets the position (R8)."""
    GROUP_RELEASED = "group_released", "nobody may go on"
    """ReleaseGroup (R8)."""
    OVERWRITTEN = "overwritten", "each heartbeat makes its sender the owner"
    """Only under `original`: a heartbeat made its sender the owner."""
    IGNORED = "ignored", "the original does nothing with it"
    """Only under `original`: ClaimingMessages does nothing."""


class Refused(_DescribedVerdict):
    """The guard that refused a record, in the order of the guards."""

    UNKNOWN_VERSION = "unknown_version", "its version is neither 0 nor 1"
    """The message's version is neither 0 nor 1."""
    HEADER_NOT_DECIMAL = "header_not_decimal", "a header is not decimal"
    """A `marshal-` header is not decimal; the instance id is no substitute for it."""
    HEADER_FROM_THE_FUTURE = (
        "header_from_the_future",
        "a header names an offset at or after its own",
    )
    """`epoch` or `seen` is not below the record's own offset: the log was cut or created anew."""
    IS_PAUSED = "is_paused", "the group is paused, and not by the sender"
    """The group is paused and the sender is not the pauser (R8)."""
    LIVE_OWNER = "live_owner", "the owner is alive"
    """Another client owns the claim and is not stale (R1)."""
    DOES_NOT_SUPERSEDE = "does_not_supersede", "it does not name the tenure it would end"
    """The owner's client, another instance, owner not stale, no restart takeover (R1b, R1c)."""
    LOG_LOST_RECORDS = "log_lost_records", "its epoch is above the claim's"
    """An epoch above the claim's: the log lost the record that won it."""
    SUPERSEDED = "superseded", "its epoch is older than the claim's"
    """An epoch below the claim's: another instance has won since (R2)."""
    NOBODY_OWNS = "nobody_owns", "nobody owns the claim"
    """Only an owner can heartbeat, release, or claim messages (R2)."""
    FORGED = "forged", "the epoch belongs to another instance"
    """The claim's epoch from another instance: forged or corrupt."""
    EPOCH_MISSING = "epoch_missing", "it has no epoch, and the claim was won with headers"
    """No epoch header, but the claim was won with headers (R2)."""
    NOT_OWNER = "not_owner", "the sender does not own the claim"
    """No epoch header, and another instance (R2)."""
    NOT_AHEAD = "not_ahead", "it is not ahead of the position"
    """ClaimingMessages at or below the position (R4)."""
    NEGATIVE_POSITION = "negative_position", "it would set a negative position"
    """A negative offset for the position to set."""


class ReadTwice(enum.Enum):
    """A record that was passed to the reader twice: a fact of the input, not of the log."""

    DUPLICATE = "duplicate"
    """The same record again."""
    CONFLICTING_DUPLICATE = "conflicting_duplicate"
    """Another record at the same offset: the log was forked, or two logs were mixed."""


Verdict: TypeAlias = Accepted | Refused

WON_BY_REQUEST: Final = frozenset(
    {Accepted.CLAIMED, Accepted.RECLAIMED, Accepted.RESTARTED, Accepted.TOOK_OVER}
)
"""A ClaimingPartition won. Spec: Wins, of SetPosition.tla."""
FENCED_WINS: Final = WON_BY_REQUEST | {Accepted.FAST_RECLAIMED}
"""Under `fenced` the sender owns the claim from now on. Spec: Wins, of Marshal.tla."""
WINS: Final = FENCED_WINS | {Accepted.OVERWRITTEN}
"""Under either rule set the sender owns the claim from now on."""
OWNER_STAYS: Final = frozenset({Accepted.REFRESHED, Accepted.GRANTED})
"""The owner's record was accepted, and it owns the claim as before."""
SIGNS_OF_LIFE: Final = FENCED_WINS | OWNER_STAYS
"""Under `fenced` the owner counts as alive at the record's time. Spec: SignsOfLife."""
RELEASES: Final = frozenset({Accepted.RELEASED, Accepted.POSITION_SET})
"""A ReleasingPartition was accepted."""
ENDS: Final = RELEASES | {Accepted.GROUP_RELEASED}
"""The claim has no owner from now on."""
ODD_HEADERS: Final = frozenset({Refused.HEADER_NOT_DECIMAL, Refused.HEADER_FROM_THE_FUTURE})
"""Guards against invalid headers, which none of our senders writes."""

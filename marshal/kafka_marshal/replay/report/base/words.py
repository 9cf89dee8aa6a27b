"""The page's words for verdicts, guards, marks and findings."""

from __future__ import annotations

from typing import Final

from kafka_marshal.core.claims.invariants import Property
from kafka_marshal.core.claims.verdicts import Accepted, ReadTwice, Refused
from kafka_marshal.core.ranges.invariants import RangesProperty

BEGAN: Final = {
    Accepted.CLAIMED.value: "claimed it, nobody owned it",
    Accepted.RECLAIMED.value: "claimed its own claim anew",
    Accepted.RESTARTED.value: "restarted: another instance of the same client",
    Accepted.TOOK_OVER.value: "took over from a stale owner",
    Accepted.FAST_RECLAIMED.value: "reclaimed by a bare heartbeat, same client",
    Accepted.OVERWRITTEN.value: "became owner by a heartbeat, no claim",
}

ENDED: Final = {
    Accepted.RELEASED.value: "released it",
    Accepted.POSITION_SET.value: "the admin set the position and released it",
    Accepted.GROUP_RELEASED.value: "the whole group was released",
    Accepted.TOOK_OVER.value: "taken over, it was stale",
    Accepted.RECLAIMED.value: "claimed anew by the same instance",
    Accepted.RESTARTED.value: "another instance of the same client came",
    Accepted.FAST_RECLAIMED.value: "a bare heartbeat of the same client",
    Accepted.OVERWRITTEN.value: "a heartbeat of somebody else overwrote it",
    Accepted.CLAIMED.value: "claimed by somebody else",
}

GUARDS: Final = {
    Refused.UNKNOWN_VERSION.value: "unknown message version",
    Refused.HEADER_NOT_DECIMAL.value: "a header is not decimal",
    Refused.HEADER_FROM_THE_FUTURE.value: "a header names an offset not yet written",
    Refused.IS_PAUSED.value: "the group is paused",
    Refused.LIVE_OWNER.value: "the owner is live",
    Refused.DOES_NOT_SUPERSEDE.value: "not a restart that supersedes the owner",
    Refused.LOG_LOST_RECORDS.value: "its epoch is above the claim's: the log lost records",
    Refused.SUPERSEDED.value: "its epoch is superseded",
    Refused.NOBODY_OWNS.value: "nobody owns the claim",
    Refused.FORGED.value: "right epoch, another instance",
    Refused.EPOCH_MISSING.value: "no epoch, though the claim was won with one",
    Refused.NOT_OWNER.value: "the sender is not the owner",
    Refused.NOT_AHEAD.value: "not ahead of the position",
    Refused.NEGATIVE_POSITION.value: "a negative position",
    ReadTwice.DUPLICATE.value: "the same record again",
    ReadTwice.CONFLICTING_DUPLICATE.value: "another record at the same offset",
}


PROMISES: Final = {each.value: each.sentence for each in (*RangesProperty, *Property)}
"""By property name, its promise."""

_WENT_WRONG: Final = {
    "Mutex": "two consumers owned one claim",
    "Fenced": "somebody changed a claim that was not theirs",
    "MonotonePosition": "a position moved back",
    "MonotoneEpoch": "an epoch went back",
    "AtMostOnce": "a message may have been processed twice",
    "NoneSkipped": "messages may have been skipped",
    "PositionIsLow": "messages may have been skipped",
    "ReprocessingBound": "too much was processed again",
    "SetPositionSticks": "a position set by the admin was undone",
    "PauseHolds": "a pause was broken",
}


def went_wrong(code: str, broken: str | None) -> str:
    """An error as a clause of the result.

    >>> went_wrong("late_heartbeat_stole", "Fenced")
    'a late heartbeat stole a claim from its live owner'
    >>> went_wrong("late_heartbeat_undid", "SetPositionSticks")
    'a position set by the admin was undone'
    """
    if "stole" in code:
        return "a late heartbeat stole a claim from its live owner"
    return _WENT_WRONG.get(broken or "", code.replace("_", " "))


def code_title(code: str) -> str:
    """A finding's code as a heading.

    >>> code_title("late_heartbeat_stole")
    'Late heartbeat stole'
    """
    words = code.replace("_", " ").strip()
    return words[:1].upper() + words[1:]


def plural(count: int, one: str, many: str | None = None) -> str:
    """A count and its noun.

    >>> plural(1, "claim"), plural(1234, "claim"), plural(0, "theft")
    ('1 claim', '1,234 claims', 'no thefts')
    """
    noun = one if count == 1 else many or one + "s"
    return f"{count:,} {noun}" if count else f"no {noun}"

"""The protocol's words for what a record is, and for what it did to its claim.

It knows the reducer's values. `records` makes steps of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import attrs

from kafka_marshal.core import wire
from kafka_marshal.core.messages import NOT_DECIMAL, ClaimingMessages, Record
from kafka_marshal.core.state import Claim
from kafka_marshal.core.verdicts import Accepted, Refused, Verdict
from kafka_marshal.counterexample.model import spec_name
from kafka_marshal.markup import name

WHY: Final[Mapping[Refused, str]] = {
    Refused.UNKNOWN_VERSION: "its version is neither 0 nor 1",
    Refused.HEADER_NOT_DECIMAL: "a header is not decimal",
    Refused.HEADER_FROM_THE_FUTURE: "a header names an offset at or after its own",
    Refused.IS_PAUSED: "the group is paused, and not by the sender",
    Refused.LIVE_OWNER: "the owner is alive",
    Refused.DOES_NOT_SUPERSEDE: "it does not name the tenure it would end",
    Refused.LOG_LOST_RECORDS: "its epoch is above the claim's",
    Refused.SUPERSEDED: "its epoch is older than the claim's",
    Refused.NOBODY_OWNS: "nobody owns the claim",
    Refused.FORGED: "the epoch belongs to another instance",
    Refused.EPOCH_MISSING: "it has no epoch, and the claim was won with headers",
    Refused.NOT_OWNER: "the sender does not own the claim",
    Refused.NOT_AHEAD: "it is not ahead of the position",
    Refused.NEGATIVE_POSITION: "it would set a negative position",
}
"""The guards in half a sentence."""

DID: Final[Mapping[Accepted, str]] = {
    Accepted.CLAIMED: "nobody owned",
    Accepted.RECLAIMED: "the owner wins anew",
    Accepted.RESTARTED: "another instance of the owner's client",
    Accepted.TOOK_OVER: "the owner counts as stale",
    Accepted.REFRESHED: "the owner is alive",
    Accepted.FAST_RECLAIMED: "a bare heartbeat of the owner's client",
    Accepted.GRANTED: "a range is granted",
    Accepted.RELEASED: "nobody owns any more",
    Accepted.POSITION_SET: "nobody owns any more",
    Accepted.GROUP_RELEASED: "nobody may go on",
    Accepted.OVERWRITTEN: "whoever heartbeats owns",
    Accepted.IGNORED: "the original does nothing with it",
}
"""What accepted records did, in half a sentence."""

BEFORE_NUMBER: Final = {"offset": "at", "expires_unix_s": "until"}
"""The word before a message's number, by the number's field."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def day(timestamp_ms: int) -> str:
    """The day in UTC.

    >>> day(1795219134206)
    '2026-11-20'
    """
    moment = _moment(timestamp_ms)
    return f"{moment:%Y-%m-%d}" if moment else "beyond the calendar"


def clock(timestamp_ms: int) -> str:
    """The time of day in UTC.

    >>> clock(1795219134206)
    '23:58:54.206'
    """
    moment = _moment(timestamp_ms)
    return f"{moment:%H:%M:%S}.{timestamp_ms % 1000:03d}" if moment else f"{timestamp_ms} ms"


def _moment(timestamp_ms: int) -> datetime | None:
    try:
        return _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return None


def described(record: Record) -> str:
    """A record's message and headers, without its sender.

    >>> from kafka_marshal.core.messages import Headers, Heartbeat
    >>> message = Heartbeat(1, 0, "i1", "c1", "g", "events", 0, 7)
    >>> described(Record(0, 5, 0, message, Headers(True, epoch=3)))
    'Heartbeat at 7 (epoch 3)'
    """
    headers = {
        header: "not decimal" if value == NOT_DECIMAL else value
        for header, value in attrs.asdict(record.headers).items()
        if value is not None
    }

    def moment(unix_s: int) -> str:
        return f"{day(unix_s * 1000)} {clock(unix_s * 1000)}"

    message = record.message
    return phrase(type(message).__name__, attrs.asdict(message), headers, moment)


def phrase(
    kind: str, fields: Mapping[str, Any], headers: Mapping[str, Any], moment: Callable[[int], str]
) -> str:
    """A message of this name, its number, and the headers that it carries.

    Args:
        kind: the message's name.
        fields: its fields.
        headers: the values of the headers that it carries, by field.
        moment: how a time is written, given unix seconds.

    Raises:
        KeyError: there is no such message, or no word for its number.
    """
    words, field = kind, wire.BY_NAME[kind].number
    if field is not None:
        before = "up to" if kind == ClaimingMessages.__name__ else BEFORE_NUMBER[field]
        number = fields[field]
        words += f" {before} {moment(number) if field.endswith('unix_s') else number}"
    said = ", ".join(carried(headers))
    return f"{words} ({said})" if said else words


def carried(headers: Mapping[str, object]) -> list[str]:
    """The headers that say something, by field.

    >>> carried({"present": True, "epoch": 3, "set_position": 7})
    ['epoch 3', 'set-position 7']
    """
    return [f"{name.replace('_', '-')} {n}" for name, n in headers.items() if name != "present"]


def landed(record: Record, verdict: Verdict, before: Claim, after: Claim) -> str:
    """What a record did to its claim, at its place in the log."""
    line = f"offset {record.offset}: {name(record.message.instance_id)}'s {described(record)}"
    if isinstance(verdict, Refused):
        return f"{line}: refused by {spec_name(verdict)}, {WHY[verdict]}"
    return f"{line}: {spec_name(verdict)}, {DID[verdict]}{''.join(_effects(before, after))}"


def standing(claim: Claim) -> str:
    """Who owns, before anything else happens."""
    position = f"position {claim.position}"
    if not claim.owned:
        return f"nobody owns; {position}"
    epoch = "" if claim.epoch is None else f", epoch {claim.epoch}"
    return f"{name(claim.owner_instance or '')} owns{epoch}; {position}"


def _effects(before: Claim, after: Claim) -> list[str]:
    """What changed in the claim, beyond clocks."""
    found = []
    old = before.owner_instance if before.owned else None
    new = after.owner_instance if after.owned else None
    if new is not None and new != old:
        found.append(
            f"; {name(new)} owns" + (f" instead of {name(old)}" if old is not None else "")
        )
    if after.epoch != before.epoch:
        found.append(f"; epoch {after.epoch}")
    if after.position != before.position:
        found.append(f"; position {before.position} → {after.position}")
    elif after.position_set and not before.position_set:
        found.append(f"; position {after.position} is set")
    until = after.paused_until_ms
    if until is None and before.paused_until_ms is not None:
        found.append("; the pause ends")
    elif until is not None and until != before.paused_until_ms:
        found.append(f"; paused for {name(after.pauser or '')} until {day(until)} {clock(until)}")
    return found

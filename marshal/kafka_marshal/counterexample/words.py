"""The protocol's words for a record, and for its effect on its claim.

It knows the reducer's values. `records` makes steps of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import attrs

from kafka_marshal.core import wire
from kafka_marshal.core.claims.verdicts import Refused, Verdict
from kafka_marshal.core.messages import NOT_DECIMAL, ClaimingMessages, Record
from kafka_marshal.core.state import Claim
from kafka_marshal.counterexample.model import spec_name
from kafka_marshal.markup import name

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
    """A message with this name, its number, and its headers.

    Args:
        kind: the message's name.
        fields: its fields.
        headers: the values of its headers, by field.
        moment: formats a time, given unix seconds.

    Raises:
        KeyError: there is no such message, or no word for its number.
    """
    words, field = kind, wire.BY_NAME[kind].number
    if field is not None:
        before = "up to" if kind == ClaimingMessages.__name__ else BEFORE_NUMBER[field]
        number = fields[field]
        words += f" {before} {moment(number) if field.endswith('unix_s') else number}"
    listed = ", ".join(carried(headers))
    return f"{words} ({listed})" if listed else words


def carried(headers: Mapping[str, object]) -> list[str]:
    """The headers with a meaning, by field.

    >>> carried({"present": True, "epoch": 3, "set_position": 7})
    ['epoch 3', 'set-position 7']
    """
    return [f"{name.replace('_', '-')} {n}" for name, n in headers.items() if name != "present"]


def landed(record: Record, verdict: Verdict, before: Claim, after: Claim) -> str:
    """The effect of a record on its claim, at its offset."""
    line = f"offset {record.offset}: {name(record.message.instance_id)}'s {described(record)}"
    if isinstance(verdict, Refused):
        return f"{line}: refused by {spec_name(verdict)}, {verdict.sentence}"
    return f"{line}: {spec_name(verdict)}, {verdict.sentence}{''.join(_effects(before, after))}"


def standing(claim: Claim) -> str:
    """The owner before the first step."""
    position = f"position {claim.position}"
    if not claim.owned:
        return f"nobody owns; {position}"
    epoch = "" if claim.epoch is None else f", epoch {claim.epoch}"
    return f"{name(claim.owner_instance or '')} owns{epoch}; {position}"


def _effects(before: Claim, after: Claim) -> list[str]:
    """The changes of the claim, except clocks."""
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

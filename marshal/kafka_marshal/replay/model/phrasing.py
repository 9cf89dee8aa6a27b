"""The wording of findings: names, times and durations in the same form everywhere.

The reader runs consumers and has never read the specification.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from kafka_marshal.core.state import ClaimKey

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def who(instance: str | None, client: str | None) -> str:
    """A sender: its client id, and the instance id of its run.

    >>> who("6cd48aa5", "c1")
    'c1 (instance 6cd48aa5)'
    """
    return f"{client or 'a client without id'} (instance {instance or 'without id'})"


def claim_name(key: ClaimKey) -> str:
    """A claim's name in findings.

    >>> claim_name(ClaimKey("g", "events", 4))
    'events/4 of group g'
    """
    return f"{key.topic}/{key.topic_partition} of group {key.group}"


def clock(timestamp_ms: int) -> str:
    """A timestamp, in UTC.

    >>> clock(1795219134206)
    '2026-11-20 23:58:54.206 UTC'
    """
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return f"{timestamp_ms} ms"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{timestamp_ms % 1000:03d} UTC"


def span(duration_ms: float) -> str:
    """A duration, rounded to what a reader needs.

    >>> span(39), span(300), span(7206), span(754_000), span(7_500_000)
    ('39 ms', '0.3 s', '7.2 s', '12 min 34 s', '2 h 5 min')
    """
    if duration_ms < 100:
        return f"{duration_ms:.0f} ms"
    if duration_ms < 120_000:
        return f"{duration_ms / 1000:.1f} s"
    seconds = round(duration_ms / 1000)
    if seconds < 7200:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60} min"


def times(count: int, one: str, many: str | None = None) -> str:
    """A count and its noun.

    >>> times(1, "record"), times(3, "record"), times(2, "entry", "entries")
    ('1 record', '3 records', '2 entries')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"

"""Reports in one sentence what a log clock that is ahead of real time delays.

An owner is stale by the timestamps of its claim's records, of which the highest counts. So if a
broker's clock was ahead for a while, a dead owner is only replaced when real time reaches the same
value again.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

from kafka_marshal.core.state import Rules


def ahead(stamps_ms: Iterable[int], now_ms: int, rules: Rules) -> str | None:
    """A sentence about the highest of these timestamps; None if it is not worth a report.

    It is from one heartbeat interval on: less hardly affects a failover, which takes two. `now_ms`
    is this machine's clock.

    >>> from kafka_marshal import FENCED
    >>> ahead([3_600_000], 0, FENCED)[:51]
    "the log's clock is 60 min ahead of this machine's, "

    A producer's timestamp may be of any year.

    >>> (ahead([2**63 - 1], 0, FENCED) or "").partition("only ")[2]
    "after the year 9999 by its broker's clock"
    """
    highest_ms = max(stamps_ms, default=now_ms)
    ahead_ms = highest_ms - now_ms
    if ahead_ms <= rules.heartbeat_interval_ms:
        return None
    try:
        since = dt.timedelta(milliseconds=highest_ms + rules.stale_after_ms)
        replaced = f"at {dt.datetime(1970, 1, 1) + since:%Y-%m-%d %H:%M:%S} UTC"
    except OverflowError:
        replaced = "after the year 9999"
    much = f"{ahead_ms / 60_000:.0f} min" if ahead_ms >= 120_000 else f"{ahead_ms / 1000:.0f} s"
    return (
        f"the log's clock is {much} ahead of this machine's, so a dead owner is replaced only "
        f"{replaced} by its broker's clock"
    )

"""The fetcher's state of a shared partition: where to fetch, and when to check again.

A consumer holds a few disjoint ranges of offsets, some of them beyond the partition's end. Kafka
refuses to fetch beyond the end, and a fetch at the end brings the messages of all other consumers,
too. So this module follows the end only while one of our ranges is about to begin. Before that it
has the end looked up, less often the further away it is. While hardly any messages arrive,
following costs no more than looking up, so it follows.

It knows neither Kafka's client nor which ranges there are, and time is an argument.
"""

from __future__ import annotations

from typing import Final

from attrs import define

LEAD: Final = 32
"""The minimum distance to a range at which the end may be followed, in messages."""
LEAD_S: Final = 0.02
"""The same as the time in which these messages arrive, in seconds."""
IDLE_PER_S: Final = 20.0
"""With fewer messages per second the end is followed, however far away a range is."""
FRESH_S: Final = 0.05
"""How old a looked-up end may be to follow from it, in seconds: newer messages are fetched in vain.
"""
LOOK_MIN_S: Final = 0.005
LOOK_MAX_S: Final = 0.2
"""The shortest and longest time between two checks of the end, in seconds, while it moves."""
WATCH_S: Final = 1.0
"""The time between two checks if the end is watched and nothing is fetched, in seconds."""
REPORT_S: Final = 0.05
"""The shortest time between two reports of the end, in seconds."""
FAILED_S: Final = 0.1
FAILED_MAX_S: Final = 2.0
"""The shortest and longest delay after a failed check, in seconds."""
_SAMPLE_S: Final = 0.02
_MEMORY_S: Final = 0.5
"""The time over which the rate of arrivals is averaged, in seconds."""


@define(eq=False)
class SharedPartition:
    """What is known of its end, and what Kafka's client fetches of it for ranges."""

    topic_partition: tuple[str, int]
    next: int | None = None
    """The offset up to which Kafka's client has fetched; None while it fetches nothing for ranges.
    """
    high: int | None = None
    """Its end at the last check; None if there was none."""
    rate: float = 0.0
    """Messages that arrive per second."""
    due_s: float | None = None
    """When to check its end; None: when something else changes."""
    watched: bool = False
    """Its end is reported even while nothing of it is fetched."""
    full: bool = False
    """The limit of fetched and undelivered messages is reached."""
    refused_below: int | None = None
    """A fetch was refused, although the end was there at the last check."""
    _seen_s: float = 0.0
    _sampled: tuple[float, int] | None = None
    """The end from which the rate counts, and its time."""
    _failures: int = 0
    _reported: int | None = None
    _reported_s: float = 0.0

    def saw(self, high: int, now_s: float) -> None:
        """Its end was looked up."""
        self._failures = 0
        self.high, self._seen_s = high, now_s
        if self._sampled is None or high < self._sampled[1]:
            self._sampled, self.rate = (now_s, high), 0.0
            return
        since_s, before = self._sampled
        took_s = now_s - since_s
        if took_s >= _SAMPLE_S:
            weight = min(1.0, took_s / _MEMORY_S)
            self.rate += weight * ((high - before) / took_s - self.rate)
            self._sampled = now_s, high

    def failed(self, now_s: float) -> None:
        """No broker answered."""
        self.due_s = now_s + min(FAILED_MAX_S, FAILED_S * 2.0**self._failures)
        self._failures = min(self._failures + 1, 16)

    def begin(self, wanted: int | None, now_s: float) -> int | None:
        """The offset to fetch from, or `next` to continue; None: fetch nothing, and check when due.

        `wanted` is the lowest offset that a range lacks.
        """
        if self._failures and self.due_s is not None and now_s < self.due_s:
            return None
        self.due_s = None
        if wanted is None or self.full:
            if self.watched and self.next is None:
                self.due_s = now_s if self.high is None else self._seen_s + WATCH_S
            return None
        high = self.high
        if high is None:
            self.due_s = now_s
            return None
        ahead = wanted - high
        lead = max(LEAD, self.rate * LEAD_S)
        if ahead > lead and self.rate > IDLE_PER_S:
            wait_s = (ahead - lead) / self.rate / 2
            self.due_s = self._seen_s + min(LOOK_MAX_S, max(LOOK_MIN_S, wait_s))
            return None
        at = min(wanted, high)
        if self.next is not None and self.next <= at <= self.next + lead:
            return self.next
        if ahead > 0 and now_s - self._seen_s > FRESH_S:
            self.due_s = now_s
            return None
        return at

    def report(self, now_s: float) -> int | None:
        """Its end, if that is to be reported now."""
        if self.high in (None, self._reported) or now_s - self._reported_s < REPORT_S:
            return None
        self._reported, self._reported_s = self.high, now_s
        return self.high

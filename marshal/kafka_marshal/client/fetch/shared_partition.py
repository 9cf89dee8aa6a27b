"""The fetcher's state of a shared partition: where to fetch, and when to check again.

A consumer holds a few disjoint ranges of offsets, and some lie beyond the partition's end. Kafka
refuses to fetch beyond the end, and a fetch at the end brings the messages of all others, too. So
this room follows the end only while a range of ours is about to begin. Before that it has the end
looked at, less often the further it is. While next to nothing arrives, to follow costs no more than
to look, so it follows.

It knows neither Kafka's client nor which ranges there are, and time is an argument.
"""

from __future__ import annotations

from typing import Final

from attrs import define

LEAD: Final = 32
"""How far below a range the end may be followed, in messages, at least."""
LEAD_S: Final = 0.02
"""The same as the time in which these messages arrive, in seconds."""
IDLE_PER_S: Final = 20.0
"""With fewer messages a second the end is followed, however far a range lies beyond it."""
FRESH_S: Final = 0.05
"""How long a looked-up end may be followed from, in seconds: what came since is fetched in vain."""
LOOK_MIN_S: Final = 0.005
LOOK_MAX_S: Final = 0.2
"""The least and the most between two looks at the end, in seconds, while it moves."""
WATCH_S: Final = 1.0
"""The time between two looks where the end is watched and nothing is fetched, in seconds."""
REPORT_S: Final = 0.05
"""The least between two reports of the end, in seconds."""
FAILED_S: Final = 0.1
FAILED_MAX_S: Final = 2.0
"""The least and the most between a look that failed and the next, in seconds."""
_SAMPLE_S: Final = 0.02
_MEMORY_S: Final = 0.5
"""The time over which the rate of arrivals is averaged, in seconds."""


@define(eq=False)
class SharedPartition:
    """What is known of its end, and what Kafka's client fetches of it for ranges."""

    topic_partition: tuple[str, int]
    next: int | None = None
    """Up to where Kafka's client has fetched; None while it fetches nothing for ranges."""
    high: int | None = None
    """Its end, when that was last seen; None: never."""
    rate: float = 0.0
    """Messages that arrive in a second."""
    due_s: float | None = None
    """When its end is to be looked at; None: when something else changes."""
    watched: bool = False
    """Somebody wants to hear of its end also while nothing of it is fetched."""
    full: bool = False
    """What was fetched and not handed over is as much as it may be."""
    refused_below: int | None = None
    """A fetch was refused, though the end was there when it was last seen."""
    _seen_s: float = 0.0
    _sampled: tuple[float, int] | None = None
    """The end that the rate counts from, and when it was seen."""
    _failures: int = 0
    _reported: int | None = None
    _reported_s: float = 0.0

    def saw(self, high: int, now_s: float) -> None:
        """Its end is there now."""
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
        """Nobody answered where its end is."""
        self.due_s = now_s + min(FAILED_MAX_S, FAILED_S * 2.0**self._failures)
        self._failures = min(self._failures + 1, 16)

    def begin(self, wanted: int | None, now_s: float) -> int | None:
        """The offset to fetch from, and `next` to go on; None: nothing, and look when it is due.

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

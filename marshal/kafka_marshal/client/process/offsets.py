"""Tracks which messages of one partition are finished when they finish out of order.

The result is the highest offset before which everything is finished: a heartbeat may report this
position. Messages beyond it are finished as well, and are processed again only if the claim is lost
before the gap closes.

Source: "Concurrency and At Least Once Semantics with the New Kafka Consumer" (Sift, 2016), which
describes this offset manager.

>>> offsets = InFlightOffsets(0)
>>> offsets.begun(range(0, 3))
>>> offsets.finished(1), offsets.finished(0), offsets.in_hand
(0, 2, 1)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable


class InFlightOffsets:
    """The messages of one partition in processing. Methods take constant time, amortised."""

    def __init__(self, position: int) -> None:
        """Nothing was begun; everything below `position` is finished."""
        self._begun: deque[int] = deque()
        self._finished: set[int] = set()
        self._end = position

    @property
    def next(self) -> int:
        """Everything below this is finished."""
        return self._begun[0] if self._begun else self._end

    @property
    def in_hand(self) -> int:
        """The number of messages begun and not finished."""
        return len(self._begun) - len(self._finished)

    @property
    def ahead(self) -> int:
        """The number of messages finished beyond `next`, which a lost claim would repeat."""
        return len(self._finished)

    def begun(self, offsets: Iterable[int], end: int | None = None) -> None:
        """These messages begin, in rising order; below `end` the topic holds no others.

        Raises:
            ValueError: an offset is not beyond those that were begun before it.
        """
        for offset in offsets:
            if offset < self._end:
                raise ValueError(f"offset {offset} was begun after {self._end - 1}")
            self._begun.append(offset)
            self._end = offset + 1
        if end is not None:
            self._end = max(self._end, end)

    def finished(self, offset: int) -> int:
        """Finish this message, once; returns `next`.

        Raises:
            ValueError: it was not begun, or is finished.
        """
        if not self._begun or not self._begun[0] <= offset < self._end or offset in self._finished:
            raise ValueError(f"offset {offset} is not in hand")
        self._finished.add(offset)
        while self._begun and self._begun[0] in self._finished:
            self._finished.remove(self._begun.popleft())
        return self.next

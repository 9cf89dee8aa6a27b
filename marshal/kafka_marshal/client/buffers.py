"""What was fetched and not handed over yet: one bounded buffer per claim, emptied in turn.

Messages come in as they were fetched, chunk by chunk; they go out claim after claim, so that none
starves, and none before the machine has allowed it (`Process`). When a claim is lost its buffer is
dropped at once, whatever is in it. Each buffer is bounded by messages and by bytes: while it is
full its partition must not be fetched any further, until half of it is free again.

The room does not know what a message is, but for its offset. It has no lock: whoever shares it
among threads holds one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from attrs import define, field, frozen

from kafka_marshal.core.numbers import positive
from kafka_marshal.core.state import ClaimKey

M = TypeVar("M")


@frozen
class Bounds:
    """How much one buffer holds before its partition is fetched no further."""

    messages: int = field(default=50_000, validator=positive)
    bytes: int = field(default=16 * 2**20, validator=positive)
    """Of keys and values. One chunk may exceed it: it was fetched already."""
    bytes_in_all: int = field(default=256 * 2**20, validator=positive)
    """Of all buffers together; beyond it each that has something is full."""


@frozen
class Chunk(Generic[M]):
    """Messages of one claim, handed over together. May be empty: then there were none below `end`.

    Between two messages there may be offsets without any (aborted transactions, control records,
    compaction).
    """

    key: ClaimKey
    messages: Sequence[M]
    start: int
    end: int
    """The next offset after them: with these, everything below is in hand."""


@define
class _Fetched(Generic[M]):
    """A part of a fetch, from `offset` on; there is nothing in the log between it and `end`."""

    messages: Sequence[M]
    end: int
    bytes: int


@define
class _Buffer(Generic[M]):
    position: int
    """Up to where it was handed over."""
    end: int
    """Up to where it was fetched."""
    fetched: deque[_Fetched[M]] = field(factory=deque)
    allowed: deque[range] = field(factory=deque)
    messages: int = 0
    bytes: int = 0
    full: bool = False


class Buffers(Generic[M]):
    """The buffers of all claims of an instance."""

    def __init__(self, offset_of: Callable[[M], int], bounds: Bounds | None = None) -> None:
        self.bounds = bounds or Bounds()
        self._offset_of = offset_of
        self._buffers: dict[ClaimKey, _Buffer[M]] = {}
        self._bytes = 0
        self._turns: deque[ClaimKey] = deque()
        self._ready: set[ClaimKey] = set()
        """Those in `_turns`: of each, something may be handed over."""

    # --- claims come and go -----------------------------------------------------------------------

    def open(self, key: ClaimKey, position: int) -> None:
        """The claim was won; its messages come from `position` on. What was there is dropped."""
        self.drop(key)
        self._buffers[key] = _Buffer(position, position)

    def drop(self, key: ClaimKey) -> int:
        """The claim was lost: forget what was fetched of it. Returns how many messages."""
        buffer = self._buffers.pop(key, None)
        if key in self._ready:
            self._ready.remove(key)
            self._turns.remove(key)
        if buffer is None:
            return 0
        self._bytes -= buffer.bytes
        return buffer.messages

    # --- messages come in -------------------------------------------------------------------------

    def add(self, key: ClaimKey, messages: Sequence[M], size: int) -> int | None:
        """Messages of one claim in the order of their offsets; `size` is their bytes.

        Returns up to where it was fetched, which is what the machine wants to hear; None if the
        claim is not ours, or they come from another place than the one that is expected (a fetch
        from before a seek): then they are dropped.
        """
        buffer = self._buffers.get(key)
        if buffer is None or not messages:
            return None
        if self._offset_of(messages[0]) < buffer.end:
            return None
        buffer.end = self._offset_of(messages[-1]) + 1
        buffer.fetched.append(_Fetched(messages, buffer.end, size))
        buffer.messages += len(messages)
        buffer.bytes += size
        self._bytes += size
        bounds = self.bounds
        if (
            buffer.messages >= bounds.messages
            or buffer.bytes >= bounds.bytes
            or self._bytes >= bounds.bytes_in_all
        ):
            buffer.full = True
        self._look(key, buffer)
        return buffer.end

    def nothing_below(self, key: ClaimKey, end: int) -> int | None:
        """The log holds no more messages of it below `end`. Returns what `add` returns."""
        buffer = self._buffers.get(key)
        if buffer is None or end <= buffer.end:
            return None
        buffer.end = end
        if buffer.fetched:
            buffer.fetched[-1].end = end
        self._look(key, buffer)
        return end

    def allow(self, key: ClaimKey, offsets: range) -> None:
        """The machine says that these may be handed over (`Process`)."""
        buffer = self._buffers.get(key)
        if buffer is None or not offsets:
            return
        if buffer.allowed and buffer.allowed[-1].stop == offsets.start:
            buffer.allowed[-1] = range(buffer.allowed[-1].start, offsets.stop)
        else:
            buffer.allowed.append(offsets)
        self._look(key, buffer)

    # --- and go out -------------------------------------------------------------------------------

    def take(self, maximum: int) -> Chunk[M] | None:
        """The next messages of the claim whose turn it is, at most so many, or None."""
        while self._turns:
            key = self._turns.popleft()
            self._ready.remove(key)
            buffer = self._buffers[key]
            chunk = self._take_of(key, buffer, maximum)
            self._look(key, buffer)
            if chunk is not None:
                return chunk
        return None

    def waiting(self, key: ClaimKey) -> int:
        """How many messages of it were fetched and not handed over."""
        buffer = self._buffers.get(key)
        return 0 if buffer is None else buffer.messages

    def waiting_bytes(self, key: ClaimKey) -> int:
        """How large those are."""
        buffer = self._buffers.get(key)
        return 0 if buffer is None else buffer.bytes

    @property
    def ready(self) -> bool:
        """Whether `take` would give anything."""
        return bool(self._turns)

    @property
    def full(self) -> frozenset[ClaimKey]:
        """Those whose partition must not be fetched any further now."""
        return frozenset(key for key, buffer in self._buffers.items() if buffer.full)

    def _look(self, key: ClaimKey, buffer: _Buffer[M]) -> None:
        """Give it a turn if something of it may be handed over."""
        while buffer.allowed and buffer.allowed[0].stop <= buffer.position:
            buffer.allowed.popleft()
        if key in self._ready or not buffer.allowed:
            return
        if max(buffer.allowed[0].start, buffer.position) < buffer.end:
            self._turns.append(key)
            self._ready.add(key)

    def _take_of(self, key: ClaimKey, buffer: _Buffer[M], maximum: int) -> Chunk[M] | None:
        allowed = buffer.allowed[0]
        self._skip(buffer, allowed.start)
        start = buffer.position
        if not buffer.fetched:
            buffer.position = max(start, min(buffer.end, allowed.stop))
            return Chunk(key, (), start, buffer.position)
        first = buffer.fetched[0]
        count = self._below(first.messages, allowed.stop)
        if count > maximum:
            count = maximum
        if count == len(first.messages):
            # After its last message there is nothing up to its end.
            buffer.position = min(first.end, allowed.stop)
        elif count and count == maximum:
            buffer.position = self._offset_of(first.messages[count - 1]) + 1
        else:
            buffer.position = min(self._offset_of(first.messages[count]), allowed.stop)
        return Chunk(key, self._cut(buffer, count), start, buffer.position)

    def _skip(self, buffer: _Buffer[M], start: int) -> None:
        """Forget what lies before the range that may be handed over."""
        while buffer.position < start and buffer.fetched:
            first = buffer.fetched[0]
            count = self._below(first.messages, start)
            whole = count == len(first.messages)
            self._cut(buffer, count)
            if not whole:
                break
        buffer.position = max(buffer.position, start)

    def _below(self, messages: Sequence[M], stop: int) -> int:
        if self._offset_of(messages[-1]) < stop:
            return len(messages)
        return bisect_left(messages, stop, key=self._offset_of)

    def _cut(self, buffer: _Buffer[M], count: int) -> Sequence[M]:
        """Take so many messages off its first chunk."""
        first = buffer.fetched[0]
        total = len(first.messages)
        if count == total:
            buffer.fetched.popleft()
            taken, size = first.messages, first.bytes
        else:
            taken, size = first.messages[:count], first.bytes * count // total
            first.messages = first.messages[count:]
            first.bytes -= size
        buffer.messages -= count
        buffer.bytes -= size
        self._bytes -= size
        bounds = self.bounds
        if not buffer.messages or (
            2 * buffer.messages <= bounds.messages
            and 2 * buffer.bytes <= bounds.bytes
            and self._bytes < bounds.bytes_in_all
        ):
            buffer.full = False
        return taken

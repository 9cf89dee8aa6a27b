"""Fetched messages that wait for the application: one bounded buffer per tenure, served in turn.

Messages come in as they were fetched, chunk by chunk; they go out claim after claim, so that none
starves, and none before the machine has allowed it (`Process`). When a claim is lost its buffer is
dropped at once, whatever is in it. Each buffer is bounded by messages and by bytes: while it is
full its partition must not be fetched any further, until half of it is free again.

A buffer belongs to one tenure of a claim, and its key names the tenure. So what was fetched for a
tenure that is over finds no buffer any more, even if the claim is ours again. Ranges of one
partition share a *lane*: they take one turn together, and the lowest goes first. The room knows
neither what a key is nor what a message is, but for its offset. It has no lock: threads that share
it hold one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import chain
from typing import Generic, TypeVar

from attrs import define, field, frozen

from kafka_marshal.core.validators import positive

K = TypeVar("K", bound=Hashable)
M = TypeVar("M")


@frozen
class BufferLimits:
    """How much one buffer holds before its partition is fetched no further."""

    messages: int = field(default=50_000, validator=positive)
    bytes: int = field(default=16 * 2**20, validator=positive)
    """Of keys and values. One chunk may exceed it: it was fetched already."""
    bytes_in_all: int = field(default=256 * 2**20, validator=positive)
    """Of all buffers together; beyond it each that has something is full."""


@frozen
class MessageChunk(Generic[K, M]):
    """Messages of one tenure, handed over together. May be empty: then there were none below `end`.

    Between two messages there may be offsets without any (aborted transactions, control records,
    compaction).
    """

    key: K
    """The tenure that they were fetched for."""
    messages: Sequence[M]
    start: int
    end: int
    """The next offset after them: with these, everything below is in hand."""


def joined(ranges: Iterable[range], more: range) -> list[range]:
    """These ranges and one more, in order; ranges that touch become one.

    >>> joined([range(0, 3), range(8, 9)], range(3, 5))
    [range(0, 5), range(8, 9)]
    """
    found: list[range] = []
    for each in sorted([*ranges, more], key=lambda one: one.start):
        if found and each.start <= found[-1].stop:
            found[-1] = range(found[-1].start, max(found[-1].stop, each.stop))
        else:
            found.append(each)
    return found


@define
class _Fetched(Generic[M]):
    """A part of a fetch, from `offset` on; there is nothing in the log between it and `end`."""

    messages: Sequence[M]
    end: int
    bytes: int | None = None
    """None until it is measured. What is handed over at once never is."""


@define(eq=False)
class _Buffer(Generic[M]):
    position: int
    """Up to where it was handed over."""
    end: int
    """Up to where it was fetched."""
    lane: Hashable
    ready: bool = False
    """Something of it may be handed over."""
    fetched: deque[_Fetched[M]] = field(factory=deque)
    allowed: deque[range] = field(factory=deque)
    messages: int = 0
    bytes: int = 0
    until: int | None = None
    """Nothing from here on will be allowed; None where that is open."""


class Buffers(Generic[K, M]):
    """The buffers of all tenures of an instance."""

    def __init__(
        self,
        offset_of: Callable[[M], int],
        size_of: Callable[[Sequence[M]], int],
        bounds: BufferLimits | None = None,
    ) -> None:
        """`size_of` gives the bytes of several messages."""
        self.bounds = bounds or BufferLimits()
        self._offset_of, self._size_of = offset_of, size_of
        self._new: list[tuple[K, _Buffer[M], _Fetched[M]]] = []
        """What came since anybody asked how much there is."""
        self._full: set[K] = set()
        self._messages = 0
        self._buffers: dict[K, _Buffer[M]] = {}
        self._bytes = 0
        self._turns: deque[Hashable] = deque()
        """Lanes of which something may be handed over."""
        self._ready: dict[Hashable, list[K]] = {}
        """Of each lane in `_turns`, the tenures of which something may be handed over."""

    # --- claims come and go -----------------------------------------------------------------------

    def open(self, key: K, position: int, lane: Hashable | None = None) -> None:
        """The tenure's messages come from `position` on. What was there is dropped.

        Without a `lane` it takes turns of its own.
        """
        self.drop(key)
        self._buffers[key] = _Buffer(position, position, key if lane is None else lane)

    def drop(self, key: K) -> int:
        """The tenure is over: forget what was fetched for it. Returns how many messages."""
        self._measure()
        buffer = self._buffers.pop(key, None)
        if buffer is None:
            return 0
        if buffer.ready:
            self._end_turn(key, buffer)
        self._full.discard(key)
        self._messages -= buffer.messages
        self._bytes -= buffer.bytes
        return buffer.messages

    def cut(self, key: K, end: int) -> None:
        """Nothing from `end` on is handed over any more, though it was allowed: forget it."""
        buffer = self._buffers.get(key)
        if buffer is None:
            return
        self.end_at(key, end)
        buffer.allowed = deque(
            range(one.start, min(one.stop, end)) for one in buffer.allowed if one.start < end
        )
        if buffer.ready:
            self._end_turn(key, buffer)
        self._look(key, buffer)

    def end_at(self, key: K, end: int) -> int:
        """Nothing from `end` on will be allowed: forget it, and what comes of it later.

        Returns how many messages that were.
        """
        self._measure()
        buffer = self._buffers.get(key)
        if buffer is None:
            return 0
        buffer.until, before = end, buffer.messages
        while buffer.fetched and self._offset_of(buffer.fetched[-1].messages[-1]) >= end:
            last = buffer.fetched.pop()
            kept = last.messages[: self._below(last.messages, end)]
            size = self._size_of(kept) if kept else 0
            if kept:
                buffer.fetched.append(_Fetched(kept, end, size))
            self._gone(key, buffer, len(last.messages) - len(kept), (last.bytes or 0) - size)
        buffer.end = min(buffer.end, max(end, buffer.position))
        return before - buffer.messages

    # --- messages come in -------------------------------------------------------------------------

    def add(self, key: K, messages: Sequence[M]) -> int | None:
        """Take in messages that were fetched for one tenure, in the order of their offsets.

        Returns up to where it was fetched, for the machine. Returns None and drops the messages if
        the tenure is over, or if they come from before the expected offset (a fetch from before a
        seek).
        """
        buffer = self._buffers.get(key)
        if buffer is None or not messages:
            return None
        if self._offset_of(messages[0]) < buffer.end:
            return None
        if buffer.until is not None and self._offset_of(messages[-1]) >= buffer.until:
            messages = messages[: self._below(messages, buffer.until)]
            if not messages:
                return self.nothing_below(key, buffer.until)
            buffer.end = buffer.until
        else:
            buffer.end = self._offset_of(messages[-1]) + 1
        fetched = _Fetched(messages, buffer.end)
        buffer.fetched.append(fetched)
        buffer.messages += len(messages)
        self._messages += len(messages)
        self._new.append((key, buffer, fetched))
        self._look(key, buffer)
        return buffer.end

    def nothing_below(self, key: K, end: int) -> int | None:
        """The log holds no more messages of it below `end`. Returns what `add` returns."""
        buffer = self._buffers.get(key)
        if buffer is None or end <= buffer.end:
            return None
        buffer.end = end
        if buffer.fetched:
            buffer.fetched[-1].end = end
        self._look(key, buffer)
        return end

    def allow(self, key: K, offsets: range) -> None:
        """The machine says that these may be handed over (`Process`)."""
        buffer = self._buffers.get(key)
        if buffer is None or not offsets:
            return
        if buffer.allowed and buffer.allowed[-1].stop == offsets.start:
            buffer.allowed[-1] = range(buffer.allowed[-1].start, offsets.stop)
        else:
            buffer.allowed.append(offsets)
        self._look(key, buffer)

    def recall(self, key: K) -> None:
        """Nothing of it may be handed over, until it is allowed anew."""
        buffer = self._buffers.get(key)
        if buffer is None:
            return
        buffer.allowed.clear()
        if buffer.ready:
            self._end_turn(key, buffer)

    def first(self, key: K) -> int | None:
        """The offset of the next message that was fetched of it and not handed over."""
        buffer = self._buffers.get(key)
        if buffer is None or not buffer.fetched:
            return None
        return self._offset_of(buffer.fetched[0].messages[0])

    # --- and go out -------------------------------------------------------------------------------

    def take(self, maximum: int) -> MessageChunk[K, M] | None:
        """The next messages of the claim whose turn it is, at most `maximum`, or None.

        What was fetched in pieces is handed over in one.
        """
        while self._turns:
            lane = self._turns.popleft()
            keys = self._ready.pop(lane)
            key = keys[0] if len(keys) == 1 else min(keys, key=self._position)
            if len(keys) > 1:
                keys.remove(key)
                self._ready[lane] = keys
                self._turns.append(lane)
            buffer = self._buffers[key]
            buffer.ready = False
            chunk = self._take_of(key, buffer, maximum)
            self._look(key, buffer)
            if chunk is not None:
                return chunk
        return None

    def put_back(self, chunk: MessageChunk[K, M]) -> None:
        """The end of the chunk that was taken last of its tenure was not given out after all.

        It is the next to be taken of that tenure, when all others that are ready had their turn.
        """
        key = chunk.key
        buffer = self._buffers.get(key)
        if buffer is None or buffer.position != chunk.end:
            return
        buffer.position = chunk.start
        buffer.allowed = deque(joined(buffer.allowed, range(chunk.start, chunk.end)))
        if chunk.messages:
            fetched = _Fetched(chunk.messages, chunk.end)
            buffer.fetched.appendleft(fetched)
            buffer.messages += len(chunk.messages)
            self._messages += len(chunk.messages)
            self._new.append((key, buffer, fetched))
        if buffer.ready:
            self._end_turn(key, buffer)
        self._look(key, buffer)

    def waiting(self, key: K) -> int:
        """How many messages of it were fetched and not handed over."""
        buffer = self._buffers.get(key)
        return 0 if buffer is None else buffer.messages

    def waiting_bytes(self, key: K) -> int:
        """How large those are."""
        self._measure()
        buffer = self._buffers.get(key)
        return 0 if buffer is None else buffer.bytes

    @property
    def ready(self) -> bool:
        """Whether `take` would give anything."""
        return bool(self._turns)

    def ready_beside(self, key: K) -> bool:
        """Whether something of another tenure, or of another lane, may be handed over."""
        buffer = self._buffers.get(key)
        return len(self._ready) > (buffer is not None and buffer.lane in self._ready)

    @property
    def waits(self) -> bool:
        """Whether messages of any claim were fetched and not handed over."""
        return bool(self._messages)

    @property
    def full(self) -> frozenset[K]:
        """Those whose partition must not be fetched any further now."""
        self._measure()
        return frozenset(self._full)

    def _measure(self) -> None:
        """See how large what came is, and which buffers are full with it."""
        new, self._new = self._new, []
        for key, buffer, fetched in new:
            if not fetched.messages:
                continue  # it was handed over
            fetched.bytes = self._size_of(fetched.messages)
            buffer.bytes += fetched.bytes
            self._bytes += fetched.bytes
            bounds = self.bounds
            if (
                buffer.messages >= bounds.messages
                or buffer.bytes >= bounds.bytes
                or self._bytes >= bounds.bytes_in_all
            ):
                self._full.add(key)

    def _look(self, key: K, buffer: _Buffer[M]) -> None:
        """Give it a turn if something of it may be handed over."""
        while buffer.allowed and buffer.allowed[0].stop <= buffer.position:
            buffer.allowed.popleft()
        if buffer.ready or not buffer.allowed:
            return
        if max(buffer.allowed[0].start, buffer.position) < buffer.end:
            buffer.ready = True
            if buffer.lane in self._ready:
                self._ready[buffer.lane].append(key)
            else:
                self._ready[buffer.lane] = [key]
                self._turns.append(buffer.lane)

    def _end_turn(self, key: K, buffer: _Buffer[M]) -> None:
        """It waits for no turn. What else is ready of its lane waits behind all others."""
        buffer.ready = False
        keys = self._ready.pop(buffer.lane)
        keys.remove(key)
        self._turns.remove(buffer.lane)
        if keys:
            self._ready[buffer.lane] = keys
            self._turns.append(buffer.lane)

    def _position(self, key: K) -> int:
        return self._buffers[key].position

    def _take_of(self, key: K, buffer: _Buffer[M], maximum: int) -> MessageChunk[K, M] | None:
        allowed = buffer.allowed[0]
        self._skip(key, buffer, allowed.start)
        start = buffer.position
        if not buffer.fetched:
            buffer.position = max(start, min(buffer.end, allowed.stop))
            return MessageChunk(key, (), start, buffer.position)
        parts, room = [], maximum
        while room and buffer.fetched and buffer.position < allowed.stop:
            first = buffer.fetched[0]
            count = min(self._below(first.messages, allowed.stop), room)
            room -= count
            if count == len(first.messages):
                # After its last message there is nothing up to its end.
                buffer.position = min(first.end, allowed.stop)
            elif not room:
                buffer.position = self._offset_of(first.messages[count - 1]) + 1
            else:
                buffer.position = min(self._offset_of(first.messages[count]), allowed.stop)
            parts.append(self._cut(key, buffer, count))
        messages = parts[0] if len(parts) == 1 else [*chain.from_iterable(parts)]
        return MessageChunk(key, messages, start, buffer.position)

    def _skip(self, key: K, buffer: _Buffer[M], start: int) -> None:
        """Forget what lies before the range that may be handed over."""
        while buffer.fetched and self._offset_of(buffer.fetched[0].messages[0]) < start:
            self._cut(key, buffer, self._below(buffer.fetched[0].messages, start))
        buffer.position = max(buffer.position, start)

    def _below(self, messages: Sequence[M], stop: int) -> int:
        if self._offset_of(messages[-1]) < stop:
            return len(messages)
        return bisect_left(messages, stop, key=self._offset_of)

    def _cut(self, key: K, buffer: _Buffer[M], count: int) -> Sequence[M]:
        """Take `count` messages off its first chunk."""
        first = buffer.fetched[0]
        total = len(first.messages)
        if count == total:
            buffer.fetched.popleft()
            taken, size = first.messages, first.bytes or 0
            first.messages = ()
        else:
            taken, size = first.messages[:count], 0
            first.messages = first.messages[count:]
            if first.bytes is not None:
                size = first.bytes * count // total
                first.bytes -= size
        self._gone(key, buffer, count, size)
        return taken

    def _gone(self, key: K, buffer: _Buffer[M], count: int, size: int) -> None:
        """These messages, of this size in all, are in the buffer no more."""
        buffer.messages -= count
        self._messages -= count
        buffer.bytes -= size
        self._bytes -= size
        bounds = self.bounds
        if not buffer.messages or (
            2 * buffer.messages <= bounds.messages
            and 2 * buffer.bytes <= bounds.bytes
            and self._bytes < bounds.bytes_in_all
        ):
            self._full.discard(key)

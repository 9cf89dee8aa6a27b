"""Fetched messages that wait for the application: one bounded buffer per tenure, served in turn.

Messages come in as they were fetched, chunk by chunk. They go out claim by claim, so that none
starves, and only after the machine has allowed it (`Process`). When a claim is lost its buffer is
dropped at once. Each buffer has a limit of messages and of bytes: while it is full its partition
must not be fetched any further, until half of it is free again.

A buffer belongs to one tenure of a claim, and its key names the tenure. So messages that were
fetched for a finished tenure find no buffer any more, even if we own the claim again. Ranges of one
partition share a *lane*: they take one turn together, and the lowest goes first. This module knows
neither keys nor messages, except for their offsets. It has no lock: threads that share it must hold
one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import wraps
from itertools import chain
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from attrs import define, field, frozen

from kafka_marshal.core.validators import positive

K = TypeVar("K", bound=Hashable)
M = TypeVar("M")
P = ParamSpec("P")
R = TypeVar("R")


@frozen
class BufferLimits:
    """The limits of one buffer, beyond which its partition is fetched no further."""

    messages: int = field(default=50_000, validator=positive)
    bytes: int = field(default=16 * 2**20, validator=positive)
    """Bytes of keys and values. One chunk may exceed it, since it was fetched already."""
    bytes_in_all: int = field(default=256 * 2**20, validator=positive)
    """Of all buffers together; beyond it, every buffer that is not empty counts as full."""


@frozen
class MessageChunk(Generic[K, M]):
    """Messages of one tenure, delivered together. May be empty: then there were none below `end`.

    Between two messages there may be offsets without any (aborted transactions, control records,
    compaction).
    """

    key: K
    """The tenure that they were fetched for."""
    messages: Sequence[M]
    start: int
    end: int
    """The next offset after them: everything below has then been delivered."""


def joined(ranges: Iterable[range], more: range) -> list[range]:
    """These ranges and one more, in order; adjacent ranges are merged.

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
    """Part of a fetch, from `offset` on; the log holds nothing else up to `end`."""

    messages: Sequence[M]
    end: int
    bytes: int | None = None
    """None until it is measured. Messages that are delivered at once are never measured."""


@define(eq=False)
class _Buffer(Generic[M]):
    position: int
    """The offset up to which it was delivered."""
    end: int
    """The offset up to which it was fetched."""
    lane: Hashable
    ready: bool = False
    """Whether any of it may be delivered."""
    fetched: deque[_Fetched[M]] = field(factory=deque)
    allowed: deque[range] = field(factory=deque)
    messages: int = 0
    bytes: int = 0
    until: int | None = None
    """Nothing from this offset on will be allowed; None if that is open."""


def _whole(
    method: Callable[Concatenate[Buffers[Any, Any], P], R],
) -> Callable[Concatenate[Buffers[Any, Any], P], R]:
    """Forget everything if an exception of a signal's handler comes between two steps of this.

    The thread that was interrupted fetches all of it again. The others must not find half a step.
    """

    @wraps(method)
    def whole(self: Buffers[Any, Any], /, *args: P.args, **more: P.kwargs) -> R:
        try:
            return method(self, *args, **more)
        except BaseException:
            self.clear()
            raise

    return whole


class Buffers(Generic[K, M]):
    """The buffers of all tenures of an instance."""

    def __init__(
        self,
        offset_of: Callable[[M], int],
        size_of: Callable[[Sequence[M]], int],
        bounds: BufferLimits | None = None,
    ) -> None:
        """`size_of` returns the bytes of several messages."""
        self.bounds = bounds or BufferLimits()
        self._offset_of, self._size_of = offset_of, size_of
        self.clear()

    # --- claims come and go -----------------------------------------------------------------------

    def clear(self) -> None:
        """Forget all tenures and their messages, whatever state they are in."""
        self._new: list[tuple[K, _Buffer[M], _Fetched[M]]] = []
        """Messages that arrived since the sizes were last measured."""
        self._full: set[K] = set()
        self._messages = 0
        self._buffers: dict[K, _Buffer[M]] = {}
        self._bytes = 0
        self._turns: deque[Hashable] = deque()
        """Lanes with messages that may be delivered."""
        self._ready: dict[Hashable, list[K]] = {}
        """For each lane in `_turns`, its tenures with messages that may be delivered."""

    @_whole
    def open(self, key: K, position: int, lane: Hashable | None = None) -> None:
        """Take the tenure's messages from `position` on, and drop those that are there.

        Without a `lane` it takes turns of its own.
        """
        self.drop(key)
        self._buffers[key] = _Buffer(position, position, key if lane is None else lane)

    @_whole
    def drop(self, key: K) -> int:
        """The tenure is over: drop what was fetched for it. Returns the number of messages."""
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
        """Deliver nothing from `end` on, although it was allowed: drop it."""
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

    @_whole
    def end_at(self, key: K, end: int) -> int:
        """Nothing from `end` on will be allowed: drop it, and what is fetched of it later.

        Returns the number of dropped messages.
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

    @_whole
    def add(self, key: K, messages: Sequence[M]) -> int | None:
        """Add messages that were fetched for one tenure, in the order of their offsets.

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

    @_whole
    def nothing_below(self, key: K, end: int) -> int | None:
        """The log has no more messages of it below `end`. Returns the same as `add`."""
        buffer = self._buffers.get(key)
        if buffer is None or end <= buffer.end:
            return None
        buffer.end = end
        if buffer.fetched:
            buffer.fetched[-1].end = end
        self._look(key, buffer)
        return end

    @_whole
    def allow(self, key: K, offsets: range) -> None:
        """The machine allows these to be delivered (`Process`)."""
        buffer = self._buffers.get(key)
        if buffer is None or not offsets:
            return
        if buffer.allowed and buffer.allowed[-1].stop == offsets.start:
            buffer.allowed[-1] = range(buffer.allowed[-1].start, offsets.stop)
        else:
            buffer.allowed.append(offsets)
        self._look(key, buffer)

    def recall(self, key: K) -> None:
        """Nothing of it may be delivered, until it is allowed again."""
        buffer = self._buffers.get(key)
        if buffer is None:
            return
        buffer.allowed.clear()
        if buffer.ready:
            self._end_turn(key, buffer)

    def first(self, key: K) -> int | None:
        """The offset of the next message of it that was fetched and not delivered."""
        buffer = self._buffers.get(key)
        if buffer is None or not buffer.fetched:
            return None
        return self._offset_of(buffer.fetched[0].messages[0])

    # --- and go out -------------------------------------------------------------------------------

    @_whole
    def take(self, maximum: int) -> MessageChunk[K, M] | None:
        """The next messages of the claim whose turn it is, at most `maximum`, or None.

        Messages that were fetched in several pieces are returned as one.
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
        """The end of the chunk that was taken last of its tenure was not delivered after all.

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
        """The number of its messages that were fetched and not delivered."""
        buffer = self._buffers.get(key)
        return 0 if buffer is None else buffer.messages

    def waiting_bytes(self, key: K) -> int:
        """The bytes of these messages."""
        self._measure()
        buffer = self._buffers.get(key)
        return 0 if buffer is None else buffer.bytes

    @property
    def ready(self) -> bool:
        """Whether `take` would return anything."""
        return bool(self._turns)

    def ready_beside(self, key: K) -> bool:
        """Whether messages of another tenure, or of another lane, may be delivered."""
        buffer = self._buffers.get(key)
        return len(self._ready) > (buffer is not None and buffer.lane in self._ready)

    @property
    def waits(self) -> bool:
        """Whether messages of any claim were fetched and not delivered."""
        return bool(self._messages)

    @property
    def full(self) -> frozenset[K]:
        """The tenures whose partition must not be fetched any further now."""
        self._measure()
        return frozenset(self._full)

    def _measure(self) -> None:
        """Measure what arrived, and which buffers are now full."""
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
        """Give it a turn if any of it may be delivered."""
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
        """End its turn. The rest of its lane waits behind all others."""
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
        """Drop what lies before the range that may be delivered."""
        while buffer.fetched and self._offset_of(buffer.fetched[0].messages[0]) < start:
            self._cut(key, buffer, self._below(buffer.fetched[0].messages, start))
        buffer.position = max(buffer.position, start)

    def _below(self, messages: Sequence[M], stop: int) -> int:
        if self._offset_of(messages[-1]) < stop:
            return len(messages)
        return bisect_left(messages, stop, key=self._offset_of)

    def _cut(self, key: K, buffer: _Buffer[M], count: int) -> Sequence[M]:
        """Take `count` messages from its first chunk."""
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
        """These messages, of this size in total, have left the buffer."""
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

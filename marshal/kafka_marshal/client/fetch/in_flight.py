"""Messages that the application is processing: a chunk of one claim, delivered singly or whole.

The application's thread takes messages at the speed of iterating a list. Another thread reads its
progress from the iterators, so that no report per message is needed. Asking for the next message
acknowledges the one before, unless the chunk is `by_commit`. Messages taken as a list are only
acknowledged by `commit` and `finish`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice, repeat
from typing import cast

from confluent_kafka import Message as Fetched

from kafka_marshal.client.connect.threads import Lock
from kafka_marshal.client.fetch.buffers import MessageChunk
from kafka_marshal.client.message import Claim, Message


class InFlight:
    """A chunk that is being delivered. One thread takes; any may read its state or cut it."""

    def __init__(
        self,
        chunk: MessageChunk[Claim, Fetched],
        lock: Lock,
        *,
        by_commit: bool = False,
        since_ms: int = 0,
    ) -> None:
        self.claim = claim = chunk.key
        self.since_ms = since_ms
        """When it was taken, by the steady clock."""
        self.start = chunk.start
        self.end = chunk.end
        self._messages = chunk.messages
        self._total = len(self._messages)
        # Counts down with every message, and stays where it is when the list is cut.
        self._given = repeat(claim, self._total)
        self._offered = list(self._messages)
        """The same messages; none when it is cut, which ends the iterator."""
        self._left = iter(self._offered)
        self._as_lists = 0
        """The number of messages taken in lists, which `_given` does not count."""
        self._counted = 0
        """The number of delivered messages that `newly_delivered` has counted."""
        self._lock = lock
        """Held for everything but single delivery, which happens between two steps of the others.
        """
        self.taking: Iterator[Message] = map(Message, self._left, self._given)
        """The iterator that delivers the messages."""
        self.committed: int | None = chunk.start if by_commit else None
        """Everything below was committed; None if asking for the next message acknowledges the one
        before."""
        self._acked = chunk.start
        """In a loop: everything below is acknowledged, even without asking for the next message."""
        self.finished = not self._total
        """The whole chunk is finished, or its rest never will be."""
        self.idle = False
        """It waits for workers, and none of them has begun anything of its claim."""
        self.handled = False
        """Handlers have it, so they finish it, and no commit does."""
        self.abandoned = False
        """Its delivered messages will not be finished: nothing beyond `end` is done."""
        self._cut_at: int | None = None

    @property
    def total(self) -> int:
        """The number of messages in it."""
        return self._total

    @property
    def left(self) -> int:
        """The number of undelivered messages. It does not change after `cut`."""
        return self._total - self._count

    @property
    def next(self) -> int:
        """Everything below is done."""
        with self._lock:
            if self.finished:
                return self.end
            return max(self._last, self._acked) if self.committed is None else self.committed

    @property
    def delivered_end(self) -> int:
        """Everything below was delivered, also if it was abandoned afterwards."""
        with self._lock:
            if self.finished and not self.abandoned:
                return self.end
            return self._last + 1 if self._count else self.start

    @property
    def _count(self) -> int:
        """The number of delivered messages."""
        return self._total - self._given.__length_hint__() + self._as_lists

    @property
    def _last(self) -> int:
        """The offset of the last delivered message; `start` if there is none."""
        if self._cut_at is not None:
            return self._cut_at
        count = self._count
        return cast("int", self._messages[count - 1].offset()) if count else self.start

    def take(self, maximum: int) -> list[Fetched]:
        """The next messages in one list, as Kafka's client returned them; empty at the end.

        Messages delivered before them are acknowledged.
        """
        with self._lock:
            if self.finished:
                return []
            done = self._last + 1 if self._count else self.start
            self.committed = done if self.committed is None else max(self.committed, done)
            count = self._count
            taken = self._offered[count : count + maximum]
            self._as_lists += len(taken)  # first: else what an interrupt lost would not count
            deque(islice(self._left, len(taken)), maxlen=0)
        return taken

    def commit(self, offset: int | None) -> None:
        """Acknowledge the delivered messages up to this one; None: all of them."""
        with self._lock:
            if self.handled or self.finished or not self._count:
                return
            given = self._last
            done = given if offset is None else min(offset, given)
            if self.committed is None:
                self._acked = max(self._acked, done + 1)
                return
            if done >= self.start:
                self.committed = max(self.committed, done + 1)
            if done == given and (self._count == self._total or self._cut_at is not None):
                self._finish()

    def newly_delivered(self) -> int:
        """The number of messages delivered since the last call. Only one thread may call it."""
        counted, self._counted = self._counted, self._count
        return self._counted - counted

    def cut(self, within_s: float = -1) -> int:
        """Deliver no more of it. Returns its new end: after the last delivered message.

        It waits for other threads to finish using the chunk, at most `within_s` seconds if that is
        not negative; on timeout it cuts nothing.
        """
        if not self._lock.acquire(timeout=within_s):
            return self.end
        try:
            if self._cut_at is None and not self.finished:
                self._cut()
            return self.end
        finally:
            self._lock.release()

    def give_back(self) -> MessageChunk[Claim, Fetched] | None:
        """Deliver no more of it. Returns the undelivered messages, or None if there are none."""
        with self._lock:
            if self._cut_at is not None or self.finished or self._count == self._total:
                return None
            end = self.end
            rest = self._cut()
            return MessageChunk(self.claim, rest, self.end, end)

    def _cut(self) -> list[Fetched]:
        self._offered.clear()
        given = self._count
        last = self._last
        end = last + 1 if given else self.start
        # An exception of a signal's handler comes before both, or after both.
        self._cut_at, self.end = last, end
        if not given or (self.committed is not None and self.committed >= end):
            self.finished = True
        return list(self._messages[given:])

    def finish(self) -> None:
        """The application has finished all of it."""
        with self._lock:
            self._finish()

    def abandon(self) -> None:
        """The application will not finish the delivered messages: it ends where it is done."""
        self.cut()
        if not self.finished:
            self.end = self.next
            self.finished = self.abandoned = True

    def _finish(self) -> None:
        self.finished = True
        # To free them: a thread may ask much later how far this got.
        self._messages = ()
        self._offered.clear()

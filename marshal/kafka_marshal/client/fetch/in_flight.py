"""Messages that the application is processing: a chunk of one claim, delivered singly or whole.

The application's thread takes messages at the speed of a list. Another thread reads off the
iterators how far it got, so that nothing has to be reported per message. Asking for the next
message marks the one before it as done, unless the hand is `by_commit`. Of what was taken as a
list, only `commit` and `finish` do that.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, repeat
from typing import cast

from confluent_kafka import Message as Fetched

from kafka_marshal.client.connect.threads import Lock
from kafka_marshal.client.fetch.buffers import MessageChunk
from kafka_marshal.client.message import Claim, Message


class InFlight:
    """A chunk that is being given out. One thread takes; any may ask or cut."""

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
        self._messages = list(chunk.messages)
        self._total = len(self._messages)
        # Counts down with every message, and stays where it is when the list is cut.
        self._given = repeat(claim, self._total)
        self._left = iter(self._messages)
        self._as_lists = 0
        """How many were taken in lists, which `_given` does not count."""
        self._counted = 0
        """How many of those that were given out `newly_given` has counted."""
        self._lock = lock
        """Held for all but to give out one by one: that happens between two steps of the others."""
        self.taking: Iterator[Message] = map(Message, self._left, self._given)
        """Gives the messages out."""
        self.committed: int | None = chunk.start if by_commit else None
        """Everything below was committed; None where asking for the next message marks the one
        before it as done."""
        self._acked = chunk.start
        """Everything below is done of what a loop gave out, also without asking for the next."""
        self.finished = not self._total
        """All that was in hand is done, or what is left of it never will be."""
        self.idle = False
        """It waits for workers, and none of them has begun anything of its claim."""
        self.handled = False
        """Handlers have it, so it is done when they are, and no commit says so."""
        self.abandoned = False
        """What was given out of it will not be finished: nothing beyond `end` is done."""
        self._cut_at: int | None = None

    @property
    def total(self) -> int:
        """How many messages were in it."""
        return self._total

    @property
    def left(self) -> int:
        """How many messages were not given out. After `cut` it does not change."""
        return self._total - self._count

    @property
    def next(self) -> int:
        """Everything below is done."""
        with self._lock:
            if self.finished:
                return self.end
            return max(self._last, self._acked) if self.committed is None else self.committed

    @property
    def given_end(self) -> int:
        """Everything below was given out, also of what was abandoned after that."""
        with self._lock:
            if self.finished and not self.abandoned:
                return self.end
            return self._last + 1 if self._count else self.start

    @property
    def _count(self) -> int:
        """How many were given out."""
        return self._total - self._given.__length_hint__() + self._as_lists

    @property
    def _last(self) -> int:
        """The offset of the message that was given out last; `start` if none was."""
        if self._cut_at is not None:
            return self._cut_at
        count = self._count
        return cast("int", self._messages[count - 1].offset()) if count else self.start

    def take(self, maximum: int) -> list[Fetched]:
        """The next messages in one piece, as Kafka's client gave them; none if none are left.

        What was given out before them is done.
        """
        with self._lock:
            if self.finished:
                return []
            done = self._last + 1 if self._count else self.start
            self.committed = done if self.committed is None else max(self.committed, done)
            left = self._left if maximum >= self._total else islice(self._left, maximum)
            taken = list(left)
            self._as_lists += len(taken)
        return taken

    def commit(self, offset: int | None) -> None:
        """What was given out, up to this message, is done; None: all of it."""
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

    def newly_given(self) -> int:
        """How many more messages were given out since this was last asked. One thread asks."""
        counted, self._counted = self._counted, self._count
        return self._counted - counted

    def cut(self, within_s: float = -1) -> int:
        """Give out no more of it. Returns where it ends now: after the last that was given out.

        It waits for other threads to be done with the hand, at most `within_s` seconds if that is
        not below 0, and then cuts nothing.
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
        """Give out no more of it. Returns what was not given out; None where nothing is left."""
        with self._lock:
            if self._cut_at is not None or self.finished or self._count == self._total:
                return None
            end = self.end
            rest = self._cut()
            return MessageChunk(self.claim, rest, self.end, end)

    def _cut(self) -> list[Fetched]:
        kept = list(self._messages)
        self._messages.clear()
        given = self._count
        self._cut_at = cast("int", kept[given - 1].offset()) if given else self.start
        self.end = self._cut_at + 1 if given else self.start
        if not given or (self.committed is not None and self.committed >= self.end):
            self.finished = True
        return kept[given:]

    def finish(self) -> None:
        """The application is done with all of it."""
        with self._lock:
            self._finish()

    def abandon(self) -> None:
        """The application will not finish what it was given: it ends where it is done."""
        self.cut()
        if not self.finished:
            self.end = self.next
            self.finished = self.abandoned = True

    def _finish(self) -> None:
        self.finished = True
        self._messages = []  # to free them: a thread may ask much later how far this got

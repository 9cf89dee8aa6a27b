"""What an application has in hand: one chunk of messages of one claim, given out one by one.

The application's thread takes messages at the speed of a list; how far it got is read off the
iterators by another thread, so that nothing has to be reported per message. Asking for the next
message says that the one before it is done, unless the hand was told otherwise (`by_commit`).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import cast

from confluent_kafka import Message as Fetched

from kafka_marshal.client.buffers import Chunk
from kafka_marshal.runtime.message import Claim, Message


class Hand:
    """A chunk that is being given out. One thread takes; any may ask or cut."""

    def __init__(self, claim: Claim, chunk: Chunk[Fetched], *, by_commit: bool = False) -> None:
        self.claim = claim
        self.start = chunk.start
        self.end = chunk.end
        self._messages = list(chunk.messages)
        self._total = len(self._messages)
        # Counts down with every message, and stays where it is when the list is cut.
        self._given = repeat(claim, self._total)
        self.taking: Iterator[Message] = map(Message, self._messages, self._given)
        """Gives the messages out."""
        self.committed: int | None = chunk.start if by_commit else None
        """How far the application said that it is done, where asking for the next does not say it:
        it commits, or takes all of it at once."""
        self.finished = not self._total
        """All that was in hand is done, or what is left of it never will be."""
        self.abandoned = False
        """What was given out of it will not be finished: nothing beyond `end` is done."""
        self._cut_at: int | None = None

    @property
    def total(self) -> int:
        """So many messages were in it."""
        return self._total

    @property
    def next(self) -> int:
        """Everything below is done."""
        if self.finished:
            return self.end
        if self.committed is not None:
            return self.committed
        return self._offset_of_given(1)

    def _offset_of_given(self, before: int) -> int:
        """The offset of a message given out, counted from the last one; of the last one is 1."""
        if self._cut_at is not None:
            return self._cut_at
        given = self._total - self._given.__length_hint__()
        if given < before:
            return self.start
        return cast("int", self._messages[given - before].offset())

    def commit(self, offset: int | None) -> None:
        """What was given out, up to this message, is done; None: all of it."""
        if self.committed is None or self.finished:
            return
        given = self._offset_of_given(1) if self._given.__length_hint__() < self._total else None
        if given is None:
            return
        done = given if offset is None else min(offset, given)
        if done >= self.start:
            self.committed = max(self.committed, done + 1)
        if not self._given.__length_hint__() and done == given:
            self.finished = True

    def cut(self) -> int:
        """Give out no more of it. Returns where it ends now: after the last that was given out."""
        if self._cut_at is not None or self.finished:
            return self.end
        kept = list(self._messages)
        self._messages.clear()
        given = self._total - self._given.__length_hint__()
        self._cut_at = cast("int", kept[given - 1].offset()) if given else self.start
        self.end = self._cut_at + 1 if given else self.start
        if not given:
            self.finished = True
        return self.end

    def finish(self) -> None:
        """The application is done with all of it."""
        self.finished = True

    def abandon(self) -> None:
        """The application will not finish what it was given: it ends where it is done."""
        self.cut()
        if not self.finished:
            self.end = self.next
            self.finished = self.abandoned = True

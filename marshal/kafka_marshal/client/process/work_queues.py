"""Chooses the next message of a worker: one at a time where messages must stay in order.

Messages of one lane begin one after the other, in the order in which they came; lanes are
independent. The requested order determines the lanes: a partition, a key within a partition, or
each message by itself. Claims take turns, so that none starves.

This module knows only the key of a message. It has no lock: threads that share it must hold one.

>>> from kafka_marshal.core.state import ClaimKey
>>> lanes = WorkQueues(Order.KEY, key_of=lambda message: message[:1])
>>> lanes.add(ClaimKey("g", "t", 0), ["a1", "a2", "b1"])
>>> first, second = lanes.begin(), lanes.begin()
>>> first.message, second.message, lanes.begin()
('a1', 'b1', None)
>>> lanes.finished(first); lanes.begin().message
'a2'
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

from attrs import define, field

M = TypeVar("M")


class Order(enum.Enum):
    """Which messages stay in order."""

    PARTITION = "partition"
    """All messages of a partition: one begins when the one before it is finished."""
    KEY = "key"
    """Messages with the same key in a partition. Those without a key are independent."""
    NONE = "none"
    """None."""


@define
class _Claim(Generic[M]):
    """The lanes of one claim. A lane that is in `lanes` and not in `ready` is busy."""

    lanes: dict[Hashable, deque[M]] = field(factory=dict)
    ready: deque[Hashable] = field(factory=deque)
    waiting: int = 0
    dropped: bool = False


@define(eq=False)
class StartedMessage(Generic[M]):
    """A message that a worker has begun."""

    key: Hashable
    message: M
    _claim: _Claim[M] = field(repr=False)
    _lane: Hashable = field(repr=False)

    @property
    def dropped(self) -> bool:
        """Whether the claim was lost since, so that the result does not count."""
        return self._claim.dropped


class WorkQueues(Generic[M]):
    """Messages of all claims that wait for a worker."""

    def __init__(self, order: Order, key_of: Callable[[M], Hashable]) -> None:
        """`key_of` returns None for a message without a key."""
        self.order = order
        self._key_of = key_of
        self._claims: dict[Hashable, _Claim[M]] = {}
        self._turns: deque[Hashable] = deque()
        """Claims with messages that may begin, each once."""
        self.waiting = 0
        """The number of messages that no worker has begun."""

    def add(self, key: Hashable, messages: Iterable[M]) -> None:
        """Add messages of a claim, after those that came before."""
        claim = self._claims.get(key)
        if claim is None:
            claim = self._claims[key] = _Claim()
        idle = not claim.ready
        for message in messages:
            lane = self._lane_of(message)
            line = claim.lanes.get(lane)
            if line is None:
                claim.lanes[lane] = deque((message,))
                claim.ready.append(lane)
            else:
                line.append(message)
            claim.waiting += 1
            self.waiting += 1
        if idle and claim.ready:
            self._turns.append(key)

    def waiting_of(self, key: Hashable) -> int:
        """The number of messages of one claim that no worker has begun."""
        claim = self._claims.get(key)
        return 0 if claim is None else claim.waiting

    def begin(
        self, may_begin: Callable[[Hashable], bool] = lambda _: True
    ) -> StartedMessage[M] | None:
        """The next message of the claim whose turn it is; None if all wait.

        It skips claims that may not begin now.
        """
        for _ in range(len(self._turns)):
            if may_begin(self._turns[0]):
                break
            self._turns.rotate(-1)
        else:
            return None
        key = self._turns.popleft()
        claim = self._claims[key]
        lane = claim.ready.popleft()
        message = claim.lanes[lane].popleft()
        claim.waiting -= 1
        self.waiting -= 1
        if claim.ready:
            self._turns.append(key)
        return StartedMessage(key, message, claim, lane)

    def finished(self, begun: StartedMessage[M]) -> None:
        """The message is finished, once; the next one of its lane may begin."""
        claim, lane = begun._claim, begun._lane
        if claim.dropped:
            return
        if not claim.lanes[lane]:
            del claim.lanes[lane]
            return
        if not claim.ready:
            self._turns.append(begun.key)
        claim.ready.append(lane)

    def drop(self, key: Hashable) -> int:
        """The claim was lost: drop its waiting messages. Returns their number."""
        claim = self._claims.pop(key, None)
        if claim is None:
            return 0
        if claim.ready:
            self._turns.remove(key)
        claim.dropped = True
        self.waiting -= claim.waiting
        return claim.waiting

    def _lane_of(self, message: M) -> Hashable:
        if self.order is Order.PARTITION:
            return None
        if self.order is Order.KEY and (key := self._key_of(message)) is not None:
            return key
        return _Alone()


class _Alone:
    """A lane of one message."""

"""What a state is made of, each part once: logs, instances, and the little that is left.

Equal parts are the same object, so a state is a tuple of objects that are told apart by identity.
What can follow from a part is remembered with it. That is all that makes the explorer fast.
This room does not know what can happen to a part (`environment` does).
"""

from __future__ import annotations

from collections import Counter
from typing import Any, TypeAlias

from kafka_marshal import NO_HEADERS, Claim, Record, Verdict
from kafka_marshal.core.claims.verdicts import WINS
from kafka_marshal.machines.consumer.consumer import ConsumerState
from kafka_marshal.machines.consumer.effects import Send
from model_tests.explorer.free_time import Fold, Stored

Sent: TypeAlias = Counter[tuple[str, str]]


class Log:
    """A log is its last record and the log before it; also what it folds to.

    Spec: log, history, verdicts. `claim` is the last of `history`, `verdict` of `verdicts`.
    It is no `tests.memory_log.MemoryLog`: a state never changes, and all that goes on from it
    shares it.
    """

    __slots__ = (
        *("claim", "length", "memo", "next", "path"),
        *("pause_was_over", "sent", "stored", "tenure", "verdict"),
    )

    def __init__(self, before: Log | None, stored: Stored | None, fold: Fold) -> None:
        self.next: dict[Stored, Log] = {}
        self.memo: dict[object, Any] = {}
        self.stored = stored
        self.length = 0
        self.claim = Claim()
        self.verdict: Verdict | None = None
        self.sent: dict[str, tuple[tuple[str, int], ...]] = {}
        self.pause_was_over = False
        self.tenure = 0
        self.path: tuple[Log, ...] = (self,)
        if before is None or stored is None:
            return
        message = stored.record.message
        kind = type(message).__name__
        self.length = before.length + 1
        self.claim, self.verdict = fold.step(before.claim, stored)
        counts = Counter(dict(before.sent.get(message.instance_id, ())))
        counts[kind] += 1
        self.sent = {**before.sent, message.instance_id: tuple(sorted(counts.items()))}
        # Spec: PauseWasOver. A pause that was over stays over, until there is another.
        over = before.pause_was_over or stored.pause_over
        self.pause_was_over = over and kind != "ReleaseGroup"
        begins = self.verdict in WINS
        self.tenure = self.length if begins else before.tenure
        self.path = (*before.path, self)


class Local:
    """One instance: whether it runs, what it remembers, what it produced. Spec: status, consumers,
    outbox."""

    __slots__ = ("consumer", "instance", "memo", "outbox", "status")

    def __init__(
        self, instance: int, status: str, consumer: ConsumerState, outbox: tuple[Send, ...]
    ) -> None:
        self.instance = instance
        self.status = status
        self.consumer = consumer
        self.outbox = outbox
        self.memo: dict[object, Any] = {}


class Rest:
    """Everything else. Spec: unaware, processed, mishaps, now."""

    __slots__ = ("mishaps", "now", "processed", "unaware")

    def __init__(
        self,
        now: int,
        processed: tuple[int, ...],
        unaware: frozenset[int],
        mishaps: tuple[tuple[str, int], ...],
    ) -> None:
        self.now = now
        self.processed = processed
        self.unaware = unaware
        self.mishaps = dict(mishaps)

    def key(self) -> tuple[object, ...]:
        """What tells it apart."""
        return (self.now, self.processed, self.unaware, tuple(sorted(self.mishaps.items())))


State: TypeAlias = tuple[Any, ...]
"""A Log, a Rest, and a Local for each instance, in this order."""


class Parts:
    """Every part that was met so far, once."""

    def __init__(self, fold: Fold) -> None:
        self._fold = fold
        self._locals: dict[tuple[object, ...], Local] = {}
        self._rests: dict[tuple[object, ...], Rest] = {}
        self._sends: dict[Send, Send] = {}
        self._consumers: dict[ConsumerState, ConsumerState] = {}
        self._stored: dict[tuple[object, ...], Stored] = {}
        self.empty_log = Log(None, None, fold)

    def local(
        self, instance: int, status: str, consumer: ConsumerState, outbox: tuple[Send, ...]
    ) -> Local:
        """The one instance with these values."""
        consumer = self._consumers.setdefault(consumer, consumer)
        outbox = tuple([self._sends.setdefault(sent, sent) for sent in outbox])
        key = (instance, status, id(consumer), *map(id, outbox))
        found = self._locals.get(key)
        if found is None:
            found = self._locals[key] = Local(instance, status, consumer, outbox)
        return found

    def rest(
        self,
        now: int,
        processed: tuple[int, ...],
        unaware: frozenset[int],
        mishaps: tuple[tuple[str, int], ...],
    ) -> Rest:
        """The one rest with these values."""
        new = Rest(now, processed, unaware, mishaps)
        return self._rests.setdefault(new.key(), new)

    def appended(self, log: Log, sent: Send, now: int, stale: bool, pause_over: bool) -> Log:
        """The log with one more record. Spec: Stored, FoldRecord."""
        key = (id(sent), log.length, now, stale, pause_over)
        stored = self._stored.get(key)
        if stored is None:
            headers = sent.headers if sent.headers.present else NO_HEADERS
            record = Record(0, log.length, now, sent.message, headers)
            stored = self._stored[key] = Stored(record, stale, pause_over)
        found = log.memo.get(key)
        if found is None:
            found = log.memo[key] = Log(log, stored, self._fold)
        assert isinstance(found, Log)
        return found

"""The observer interface of consumers and producers: one method for each event.

The names are those of the protocol. This module does not know who observes, nor why. If an observer
raises, the error is logged and the consumer continues.
"""

# ruff: noqa: D102  # what each method hears is documented once, at `Observer`

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

from attrs import frozen

from kafka_marshal.client.message import Claim, Message, SentRecord
from kafka_marshal.client.observe.health import ClaimProgress, LateHeartbeat, Wedged
from kafka_marshal.client.observe.logger import logger
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.machines.consumer.effects import Lost


@frozen
class Takeover:
    """What is known when a claim was lost to another instance."""

    by_client: str | None
    """The new owner."""
    epoch: int | None
    """The new owner's epoch."""
    position: int
    """How far we were done; the new owner continues at the position in the log."""
    silent_ms: int | None
    """The time since our last heartbeat was read back."""
    stale_after_ms: int
    """An owner that is silent for longer may be replaced."""


@frozen
class Idle:
    """A consumer owns nothing, and there is nothing left for it to own."""

    claims: int
    """The number of partitions that it was given; all have owners."""
    owners: int
    """The number of other consumers that own them."""


class Observer:
    """Receives the events of consumers and producers. All methods do nothing: override some.

    Any thread of a consumer may call them, so return quickly and do not block. The consumer's own
    calls that wait, such as `pause` and `commit`, raise MarshalError in the thread that keeps the
    claims; `stop` does not wait. One observer may observe several consumers; the group is in
    `claim.key.group`. A producer calls only `delivered`, `buffer_full` and `statistics`.
    """

    def claimed(self, claim: Claim) -> None:
        """A claim was won, under `claim.epoch`."""

    def lost(self, claim: Claim, reason: Lost) -> None:
        """A claim is no longer ours. TAKEN and ID_USED_TWICE: it was fenced off."""

    def fenced(self, claim: Claim, reason: Lost, seen: Takeover) -> None:
        """After `lost`: another instance took the claim; messages in flight do not count."""

    def drained(self, claim: Claim) -> None:
        """The application has no more messages of a claim that was lost."""

    def range_granted(self, claim: Claim) -> None:
        """A range of a shared partition was granted to us: `claim.range`."""

    def range_ended(self, claim: Claim, reason: Lost) -> None:
        """A range is no longer ours. FINISHED: all of it is processed."""

    def awaits_owner(self, key: ClaimKey, client: str | None) -> None:
        """A client that does not share this partition owns it; None: no longer."""

    def left(self, claim: Claim) -> None:
        """The consumer ended without releasing this claim, which becomes stale."""

    def appended(self, key: ClaimKey, kind: str, seconds: float) -> None:
        """A message of the protocol was appended, after this time. Its kind is its name."""

    def unknown(self, key: ClaimKey, kind: str, error: str) -> None:
        """It is unknown whether this message of the protocol was appended."""

    def handed_over(self, claim: Claim, messages: int) -> None:
        """This many more messages were delivered to the application."""

    def done(self, claim: Claim, position: int, offsets: int) -> None:
        """Everything below the position is done: `offsets` more than before."""

    def dropped(self, claim: Claim, messages: int) -> None:
        """This many fetched or delivered messages do not count: their claim was lost."""

    def abandoned(self, claim: Claim, offsets: range) -> None:
        """At most once: granted messages that may not have been processed, and never will be."""

    def standing(self, claim: Claim, standing: ClaimProgress) -> None:
        """The progress of a claim; called about once a second."""

    def wedged(self, claim: Claim, wedged: Wedged) -> None:
        """Heartbeats continue, but the position does not move; called with each heartbeat."""

    def late(self, claim: Claim, late: LateHeartbeat) -> None:
        """A heartbeat is not in the log in time; called once, until one is."""

    def idle(self, group: str, idle: Idle) -> None:
        """There are more consumers than partitions, and this one has none; called once."""

    def processing(self, message: Message) -> AbstractContextManager[object]:
        """A context around a message's handler, in its thread; exceptions propagate."""
        return nullcontext()

    def retried(self, message: Message, error: BaseException, tried: int) -> None:
        """A handler failed, for the `tried`th time, and will be called again."""

    def dead_lettered(self, message: Message, error: BaseException, tried: int) -> None:
        """A handler failed permanently; the message is in the dead-letter topic."""

    def delivered(self, record: SentRecord) -> None:
        """A producer knows a record's outcome, or that it will stay unknown: see its `error`."""

    def buffer_full(self, seconds: float) -> None:
        """A producer's buffer was full: a `send` blocked for this time, or raised BufferFull."""

    def statistics(self, group: str, client: str, values: Mapping[str, Any]) -> None:
        """The statistics of librdkafka (its STATISTICS.md).

        The client is `data` or `log`; or `producer`, whose group is "".
        """


class Observers(Observer):
    """Several observers, called one after the other. None of them can stop the consumer."""

    def __init__(self, observers: Sequence[Observer] = ()) -> None:
        self._observers = tuple(observers)
        self._around = tuple(
            one for one in self._observers if type(one).processing is not Observer.processing
        )
        self.wants_statistics = any(
            type(one).statistics is not Observer.statistics for one in self._observers
        )
        self.wants_standing = any(
            type(one).standing is not Observer.standing for one in self._observers
        )

    def _notify(self, notify: Callable[[Observer], None]) -> None:
        for one in self._observers:
            try:
                notify(one)
            except Exception:
                logger.exception("an observer of the consumer failed")

    def claimed(self, claim: Claim) -> None:
        self._notify(lambda one: one.claimed(claim))

    def lost(self, claim: Claim, reason: Lost) -> None:
        self._notify(lambda one: one.lost(claim, reason))

    def fenced(self, claim: Claim, reason: Lost, seen: Takeover) -> None:
        self._notify(lambda one: one.fenced(claim, reason, seen))

    def drained(self, claim: Claim) -> None:
        self._notify(lambda one: one.drained(claim))

    def range_granted(self, claim: Claim) -> None:
        self._notify(lambda one: one.range_granted(claim))

    def range_ended(self, claim: Claim, reason: Lost) -> None:
        self._notify(lambda one: one.range_ended(claim, reason))

    def awaits_owner(self, key: ClaimKey, client: str | None) -> None:
        self._notify(lambda one: one.awaits_owner(key, client))

    def left(self, claim: Claim) -> None:
        self._notify(lambda one: one.left(claim))

    def appended(self, key: ClaimKey, kind: str, seconds: float) -> None:
        self._notify(lambda one: one.appended(key, kind, seconds))

    def unknown(self, key: ClaimKey, kind: str, error: str) -> None:
        self._notify(lambda one: one.unknown(key, kind, error))

    def handed_over(self, claim: Claim, messages: int) -> None:
        self._notify(lambda one: one.handed_over(claim, messages))

    def done(self, claim: Claim, position: int, offsets: int) -> None:
        self._notify(lambda one: one.done(claim, position, offsets))

    def dropped(self, claim: Claim, messages: int) -> None:
        self._notify(lambda one: one.dropped(claim, messages))

    def abandoned(self, claim: Claim, offsets: range) -> None:
        self._notify(lambda one: one.abandoned(claim, offsets))

    def standing(self, claim: Claim, standing: ClaimProgress) -> None:
        self._notify(lambda one: one.standing(claim, standing))

    def wedged(self, claim: Claim, wedged: Wedged) -> None:
        self._notify(lambda one: one.wedged(claim, wedged))

    def late(self, claim: Claim, late: LateHeartbeat) -> None:
        self._notify(lambda one: one.late(claim, late))

    def idle(self, group: str, idle: Idle) -> None:
        self._notify(lambda one: one.idle(group, idle))

    def processing(self, message: Message) -> AbstractContextManager[object]:
        return self._inside(message) if self._around else nullcontext()

    @contextmanager
    def _inside(self, message: Message) -> Iterator[None]:
        with ExitStack() as stack:
            for one in self._around:
                try:
                    around = one.processing(message)
                    stack.enter_context(_Harmless(around))
                except Exception:
                    logger.exception("an observer of the consumer failed")
            yield

    def retried(self, message: Message, error: BaseException, tried: int) -> None:
        self._notify(lambda one: one.retried(message, error, tried))

    def dead_lettered(self, message: Message, error: BaseException, tried: int) -> None:
        self._notify(lambda one: one.dead_lettered(message, error, tried))

    def delivered(self, record: SentRecord) -> None:
        self._notify(lambda one: one.delivered(record))

    def buffer_full(self, seconds: float) -> None:
        self._notify(lambda one: one.buffer_full(seconds))

    def statistics(self, group: str, client: str, values: Mapping[str, Any]) -> None:
        self._notify(lambda one: one.statistics(group, client, values))

    def librdkafka_statistics(self, group: str, client: str, text: str) -> None:
        """The argument of librdkafka's statistics callback."""
        self.statistics(group, client, json.loads(text))


class _Harmless:
    """An observer's context: an error at its end is logged and does not propagate.

    Nor can it suppress an exception of the handler.
    """

    def __init__(self, around: AbstractContextManager[object]) -> None:
        self._around = around

    def __enter__(self) -> None:
        self._around.__enter__()

    def __exit__(self, *raised: Any) -> None:
        try:
            self._around.__exit__(*raised)
        except Exception as error:
            if error is not raised[1]:
                logger.exception("an observer of the consumer failed")

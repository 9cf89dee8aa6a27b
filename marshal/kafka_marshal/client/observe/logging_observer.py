"""The log lines of consumers and producers (logger `kafka_marshal`): sentences with fields.

Besides its sentence, each record has those fields of `FIELDS` that apply as attributes (`extra`).
`JsonFormatter` writes a record with its fields as one JSON object. This module decides what is
written; it does not decide what happened (see `coordinator`, `pool`).
"""

# ruff: noqa: D102  # what each method hears is documented once, at `Observer`

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from attrs import define, frozen

from kafka_marshal.client.connect.environment import REAL
from kafka_marshal.client.connect.log_writer import OutcomeUnknown
from kafka_marshal.client.message import Claim, Message, SentRecord, token_in_words
from kafka_marshal.client.observe.health import LateCause, LateHeartbeat, Wedged, WedgedCause
from kafka_marshal.client.observe.logger import logger
from kafka_marshal.client.observe.observers import Idle, Observer, Takeover
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.errors import in_words
from kafka_marshal.machines.consumer.effects import Lost, ReleaseReason

FIELDS: Final = (
    "event",
    "group",
    "client_id",
    "instance_id",
    "topic",
    "partition",
    "epoch",
    "range",
    "position",
    "offset",
    "reason",
    "cause",
)
"""The fields of a record. `event` is the name of an `Observer` method, or `cluster` (a temporary
problem with the cluster), or `snapshot`, or `stopped`."""


OVER_S: Final = 30.0
"""A condition that was not reported for this many seconds is over. A client that cannot connect
reports it every 10 s or more often (`reconnect.backoff.max.ms`)."""
NAMED_MAX: Final = 10
"""The most claims to name in one line."""
_NUMBER: Final = re.compile(r"(?<![\w./-])\d+(\.\d+)?")
"""A number that is not part of a name, of a topic or of a partition (`orders-1/0`)."""
_AWAY: Final = re.compile(
    r"(?i)connection refused|connect to \S+ failed|disconnect|transport failure|timed out|reset by|"
    r"brokers? (is|are) down|unexpected eof|failed to resolve|no route|unreachable"
)
"""Messages that a broker which is down causes, in every client and on every connection."""


@define
class _RepeatedWarning:
    """A condition that is reported repeatedly."""

    sentence: str
    since_s: float
    last_s: float
    times: int = 1

    @classmethod
    def begins(
        cls, of: dict[str, _RepeatedWarning], alike: str, sentence: str, now_s: float
    ) -> bool:
        """Whether this is its first report."""
        one = of.get(alike)
        if one is None:
            of[alike] = cls(sentence, now_s, now_s)
            return True
        one.last_s, one.times = now_s, one.times + 1
        return False


@frozen
class ConsumerIdentity:
    """The consumer whose log it is."""

    group: str
    client_id: str
    instance_id: str


_STUCK: Final = {
    WedgedCause.IN_HAND: (
        "the application has messages in hand and does not finish the one at {position}; look at "
        "its handler (a list is done as a whole: ask for shorter ones), or set the position "
        "beyond that message (marshal set-position)"
    ),
    WedgedCause.NOT_TAKEN: (
        "messages were fetched and the application does not ask for them; see where its threads "
        "stand, or let it call pause, release or remove_topic for what it does not want"
    ),
    WedgedCause.NOT_FETCHED: (
        "there are messages and nothing comes of them; see whether the brokers of the topic answer "
        "and whether the position is within it"
    ),
}
_RELEASED: Final = {
    ReleaseReason.STOPPED: "lost: released, since this consumer stops",
    ReleaseReason.SHARED: "lost: released, since another consumer of the group has less",
    ReleaseReason.BEHIND: "lost: released, since it fell behind its topic",
    ReleaseReason.WITH_ITS_TOPIC: "lost: released, since partition 0 of its topic is another's",
    ReleaseReason.ASKED: "lost: released, as the application asked",
    ReleaseReason.BY_OTHERS: "lost: released by an administrator, or by somebody in our name",
}
_LATE: Final = {
    LateCause.NOT_SENT: (
        "this process stood still or was too busy to send one; look for suspension, a debugger, "
        "swapping, or code that holds the interpreter's lock"
    ),
    LateCause.NOT_READ_BACK: (
        "what was sent did not come back in the log; look at the brokers of the coordination topic "
        "and the network to them"
    ),
}
_TAKES_OVER: Final = {
    False: "Another client that asks takes the claim when the owner is stale",
    True: "Others that share the partition take the ranges of one that is silent for two intervals",
}
"""The consequence, for a whole partition and for a range."""


class LoggingObserver(Observer):
    """Logs what happens to one consumer."""

    def __init__(
        self, who: Callable[[], ConsumerIdentity], monotonic: Callable[[], float] = REAL.monotonic
    ) -> None:
        self._who = who
        self._monotonic = monotonic
        self._lasting: dict[str, _RepeatedWarning] = {}
        """Reported conditions of the cluster that are not over."""
        self._unknown: dict[str, _RepeatedWarning] = {}
        """Topics whose last append has an unknown outcome."""
        self._undelivered: dict[str, _RepeatedWarning] = {}
        """Topics with a recent record of a producer that was not confirmed."""

    def claimed(self, claim: Claim) -> None:
        self._of(logging.INFO, "claimed", claim, "claimed", position=claim.position)

    def lost(self, claim: Claim, reason: Lost) -> None:
        if reason not in (Lost.TAKEN, Lost.ID_USED_TWICE):
            level = logging.WARNING if reason is Lost.LOG_LOST_RECORDS else logging.INFO
            what, fields = f"lost: {reason.value}", {"reason": reason.value}
            if claim.released is not None:
                what, fields["cause"] = _RELEASED[claim.released], claim.released.value
            self._of(level, "lost", claim, what, **fields)

    def fenced(self, claim: Claim, reason: Lost, seen: Takeover) -> None:
        silent = "" if seen.silent_ms is None else f" {seen.silent_ms / 1000:.1f} s ago"
        if reason is Lost.ID_USED_TWICE:
            what = (
                f"fenced: another process that lives uses client id {self._who().client_id}, and "
                f"took it; give every process an id of its own"
            )
        else:
            what = (
                f"fenced: client {seen.by_client} took it, under epoch {seen.epoch}; our last "
                f"heartbeat was read back{silent}, and an owner is stale after "
                f"{seen.stale_after_ms / 1000:g} s. What was not done from {seen.position} on is "
                f"processed there. If this happens again: find out what keeps this process from "
                f"its heartbeats, or choose a longer heartbeat_interval_s in the whole group"
            )
        # The event is `lost`, as that of every other way to lose it.
        self._of(logging.WARNING, "lost", claim, what, reason=reason.value, position=seen.position)

    def drained(self, claim: Claim) -> None:
        self._of(logging.DEBUG, "drained", claim, "drained")

    def awaits_owner(self, key: ClaimKey, client: str | None) -> None:
        what = "nobody else owns it any more, so this consumer waits no longer"
        if client is not None:
            what = (
                f"client {client} owns it and does not share it; this consumer waits until that "
                f"one releases it, or is silent for two heartbeat intervals"
            )
        named = f"{key.topic}/{key.topic_partition}"
        partition = {"topic": key.topic, "partition": key.topic_partition}
        self._write(logging.INFO, "awaits_owner", f"{named}: {what}", **partition)

    def left(self, claim: Claim) -> None:
        self._of(logging.INFO, "left", claim, "left without being given back; it becomes stale")

    def appended(self, key: ClaimKey, kind: str, seconds: float) -> None:
        over = self._unknown.pop(key.topic, None)
        if over is not None:
            what = (
                f"what is appended about topic {key.topic} arrives again, after "
                f"{self._monotonic() - over.since_s:.1f} s; of {over.times} messages nobody knew it"
            )
            self._write(logging.WARNING, "known_again", what, topic=key.topic)

    def unknown(self, key: ClaimKey, kind: str, error: str) -> None:
        now_s = self._monotonic()
        if not _RepeatedWarning.begins(self._unknown, key.topic, error, now_s):
            return
        self._write(
            logging.WARNING,
            "unknown",
            f"{kind} of {key.topic}/{key.topic_partition}: nobody knows whether it was "
            f"appended: {error} (written once, until something of this topic arrives)",
            topic=key.topic,
            partition=key.topic_partition,
            reason=kind,
        )

    def silent(self, claims: Sequence[Claim], stale_s: float) -> None:
        """These claims deliver nothing more, since others may take them."""
        # A shared partition is several: each of its ranges is one.
        silent = list(dict.fromkeys(f"{claim.topic}/{claim.partition}" for claim in claims))
        names = ", ".join(silent[:NAMED_MAX])
        more = f" and {len(silent) - NAMED_MAX} more" if len(silent) > NAMED_MAX else ""
        what = (
            f"silent: no heartbeat of {names}{more} was read back for {stale_s:g} s, so others may "
            f"take over; nothing more of it is given out until one is"
        )
        self._write(logging.WARNING, "silent", what)

    def heard_again(self, claim: Claim) -> None:
        """Delivery continues after `silent`."""
        what = "a heartbeat was read back, so its messages are given out again"
        self._of(logging.INFO, "heard_again", claim, what)

    def dropped(self, claim: Claim, messages: int) -> None:
        what = f"dropped {messages} messages that were fetched or in hand"
        self._of(logging.DEBUG, "dropped", claim, what)

    def abandoned(self, claim: Claim, offsets: range) -> None:
        lists_them = f" (marshal receipts {claim.key.group} {claim.topic})"
        what = (
            f"messages {offsets.start} to {offsets.stop - 1} were granted and are not known to be "
            f"processed; no consumer will process them{'' if claim.range else lists_them}"
        )
        self._of(logging.WARNING, "abandoned", claim, what, offset=offsets.start)

    def wedged(self, claim: Claim, wedged: Wedged) -> None:
        # At first, then after twice, four times as many heartbeats: it may last for days.
        times, odd = divmod(wedged.beats, wedged.first)
        if odd or times & (times - 1):
            return
        standing = wedged.standing
        what = (
            f"wedged: {wedged.beats} heartbeats in a row reported position {standing.position}, "
            f"and the partition ends at {standing.end}; "
            f"{_STUCK[wedged.cause].format(position=standing.position)}"
        )
        self._of(
            logging.WARNING,
            "wedged",
            claim,
            what,
            position=standing.position,
            reason=wedged.cause.value,
        )

    def late(self, claim: Claim, late: LateHeartbeat) -> None:
        what = (
            f"late: no heartbeat was read back for {late.silent_ms / 1000:.1f} s, "
            f"{late.late_ms / 1000:.1f} s more than an interval after it was due; "
            f"{_LATE[late.cause]}. {_TAKES_OVER[claim.range is not None]}"
        )
        self._of(logging.WARNING, "late", claim, what, reason=late.cause.value)

    def idle(self, group: str, idle: Idle) -> None:
        what = (
            f"idle: {idle.claims} partitions are owned by {idle.owners} other consumers, so there "
            f"is nothing for this one to do until one of them goes; give the topics more "
            f"partitions, or the group fewer consumers"
        )
        self._write(logging.WARNING, "idle", what)

    def retried(self, message: Message, error: BaseException, tried: int) -> None:
        what = f"offset {message.offset} failed, try {tried}: {in_words(error)}"
        self._message(logging.INFO, "retried", message, what, error)

    def dead_lettered(self, message: Message, error: BaseException, tried: int) -> None:
        what = (
            f"offset {message.offset} failed {tried} times and was put into the dead-letter "
            f"topic: {in_words(error)}"
        )
        self._message(logging.WARNING, "dead_lettered", message, what, error)

    def delivered(self, record: SentRecord) -> None:
        topic = record.topic
        if record.error is None:
            one = self._undelivered.get(topic) if self._undelivered else None
            if one is not None and self._monotonic() - one.last_s >= OVER_S:
                del self._undelivered[topic]
                what = (
                    f"over: all that was sent to topic {topic} for {OVER_S:g} s is confirmed; "
                    f"{one.times} records before were not, within {one.last_s - one.since_s:.1f} s"
                )
                self._write(logging.WARNING, "delivered", what, topic=topic)
            return
        if _RepeatedWarning.begins(self._undelivered, topic, "", self._monotonic()):
            once = f"(written once, until none of this topic fails for {OVER_S:g} s)"
            what = f"a record was not appended: {record.error} {once}"
            if isinstance(record.error, OutcomeUnknown):
                what = f"nobody knows whether a record was appended: {record.error} {once}"
            reason = type(record.error).__name__
            self._write(logging.WARNING, "delivered", what, topic=topic, reason=reason)

    def note(self, sentence: str, *, distinct: bool = False) -> None:
        """Report something about the cluster that is temporary, or that an operator must fix.

        It is logged when it begins, and when it is over, with its duration. Sentences that differ
        only in numbers outside names count as one; so do all sentences about brokers that are down.
        Use `distinct` for a loss: then only the same sentence counts as the same.
        """
        alike = "away" if _AWAY.search(sentence) else _NUMBER.sub("", sentence)
        if distinct:
            alike = sentence
        if _RepeatedWarning.begins(self._lasting, alike, sentence, self._monotonic()):
            self._write(logging.WARNING, "cluster", sentence)

    def look(self) -> None:
        """Time has passed."""
        now_s = self._monotonic()
        for alike, one in list(self._lasting.items()):
            if now_s - one.last_s >= OVER_S:
                self._lasting.pop(alike, None)
                if one.times > 1:
                    what = (
                        f"over, logged {one.times} times within {one.last_s - one.since_s:.1f} s: "
                        f"{one.sentence}"
                    )
                    self._write(logging.WARNING, "cluster", what)

    def stopped(self, error: BaseException) -> None:
        """The consumer stops because of an error."""
        what = f"the consumer of group {self._who().group} stops: {error}"
        self._write(logging.ERROR, "stopped", what, reason=type(error).__name__)

    def _message(
        self, level: int, event: str, message: Message, what: str, error: BaseException
    ) -> None:
        reason = type(error).__name__
        self._of(level, event, message.claim, what, offset=message.offset, reason=reason)

    def _of(self, level: int, event: str, claim: Claim, what: str, **fields: Any) -> None:
        if not logger.isEnabledFor(level):
            return
        self._write(
            level,
            event,
            f"{claim.topic}/{claim.partition} ({token_in_words(claim)}): {what}",
            topic=claim.topic,
            partition=claim.partition,
            **{"epoch" if claim.range is None else "range": claim.epoch},
            **fields,
        )

    def _write(self, level: int, event: str, sentence: str, **fields: Any) -> None:
        who = self._who()
        extra = {
            "event": event,
            "group": who.group,
            "client_id": who.client_id,
            "instance_id": who.instance_id,
            **fields,
        }
        logger.log(level, "%s", sentence, extra=extra)


class JsonFormatter(logging.Formatter):
    """A record as one JSON object: time, level, logger, message, and whichever FIELDS it has.

    >>> record = logging.LogRecord("kafka_marshal", 20, "", 0, "claimed", (), None)
    >>> record.created, record.event, record.partition = 0.0, "claimed", 3
    >>> print(JsonFormatter().format(record))
    {"time": "1970-01-01T00:00:00.000+00:00", "level": "INFO", "logger": "kafka_marshal", \
"message": "claimed", "event": "claimed", "partition": 3}
    """

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        at = datetime.fromtimestamp(record.created, UTC)
        fields: dict[str, Any] = {
            "time": at.isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields |= {name: getattr(record, name) for name in FIELDS if hasattr(record, name)}
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str)

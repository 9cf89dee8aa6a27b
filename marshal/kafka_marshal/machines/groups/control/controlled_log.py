"""One partition of `__marshal_groups`: how a server reads it, competes for it and writes to it.

It folds every record, asks the broker for the end, starts an epoch where it may, and puts a
decision behind all that it sent before. It does not know requests, members or sessions: those are
`partition`'s.
"""

from __future__ import annotations

import enum
from collections import deque
from typing import Final

from attrs import define, field, frozen

from kafka_marshal.core.groups.events import (
    ControllershipSnapshot,
    ControllerStarted,
    Event,
    EventRecord,
    Reconciled,
)
from kafka_marshal.core.groups.reducer import (
    GroupOutcome,
    begun_at,
    malformed,
    step,
    stops_reader,
)
from kafka_marshal.core.groups.state import Controllership
from kafka_marshal.core.groups.verdicts import GroupAccepted
from kafka_marshal.core.values import evolved
from kafka_marshal.group_codec.events import encode_event
from kafka_marshal.machines.groups.control.sizes import GROWS, bytes_missing
from kafka_marshal.machines.groups.controller import (
    ControllerState,
    after_reading,
    is_copy,
    is_own_event,
    is_serving,
    sending,
    sent,
    speculative,
    stopped,
)
from kafka_marshal.machines.groups.effects import (
    NOT_APPENDED,
    AppendEvent,
    AskEnd,
    Effect,
    ReportTooLarge,
)
from kafka_marshal.rpc.error_codes import ErrorCode

COMPETE_AGAIN_MS: Final = 1_000
"""How long a controller waits that was deposed, or whose start or event was refused."""
EVENT_BYTES_MAX: Final = 998_976
"""Of an event: a client of Kafka sends at most 1,000,000 bytes, with key and headers."""
MEASURED_FROM: Final = 256
"""A commit of fewer partitions is not measured: it is frequent, and small."""
ASK_AGAIN_MS: Final = 1_000
"""How long the answer to `AskEnd` may take before it is asked again."""


class LogKnowledge(enum.Enum):
    """How much the reader knows of its partition."""

    NOTHING = "nothing"
    """Nothing was read yet."""
    SOME = "some"
    """It has not come to the end that there was when it began."""
    ALL = "all"
    """It knows the state as of some moment after it began to read."""
    LOST = "lost"
    """It cannot know the state: an event of a later version, or a head that was cut off."""


@frozen
class ControllerConfig:
    """The identity of a controller, and its address for members."""

    controller_id: int
    host: str
    port: int
    forget: bool = False
    event_bytes_max: int = EVENT_BYTES_MAX

    def start(self, supersedes: int) -> ControllerStarted:
        """Its ControllerStarted."""
        return ControllerStarted(supersedes, self.controller_id, self.host, self.port)

    def snapshot(self) -> ControllershipSnapshot:
        """Its ControllershipSnapshot."""
        return ControllershipSnapshot(self.controller_id, self.host, self.port)


@define(eq=False)
class ControlledLog:
    """The view, the controller, and the queries to the broker."""

    config: ControllerConfig
    partition: int
    out: list[Effect]
    """The effects of the current input."""
    view: Controllership = field(factory=Controllership)
    c: ControllerState = field(factory=ControllerState)
    knowledge: LogKnowledge = LogKnowledge.NOTHING
    confirmed: int = 0
    """The last token of which the end was answered and folded."""
    _begin: int = 0
    _at_position: bool = False
    _position: int = 0
    _may_compete: bool = False
    _compete_at_ms: int = 0
    _compete_token: int = 0
    _loaded_token: int = 0
    _token: int = 0
    _answered: int = 0
    _asked_ms: int = 0
    _wanted: bool = False
    _sent: deque[tuple[Controllership, EventRecord, GroupOutcome]] = field(factory=deque)
    """For each pending event, the state before it, and its outcome."""
    _ends: deque[tuple[int, int]] = field(factory=deque)

    @property
    def serves(self) -> bool:
        """G1. Spec: IsServing."""
        return is_serving(self.c, self.view)

    @property
    def ahead(self) -> Controllership:
        """The state after all pending events, if they land. Spec: Speculative."""
        return speculative(self.c, self.view)

    # --- reading ----------------------------------------------------------------------------------

    def begin(self, offset: int, *, at_position: bool) -> None:
        """Begin to read at this offset, perhaps again. Spec: NewGroupReader."""
        self.view, self.c = Controllership(), ControllerState()
        self._begin = self._position = offset
        self._at_position = at_position
        self._answered = self._token
        self._ends.clear()
        self.knowledge = LogKnowledge.SOME
        self._loaded_token = self.confirmation()

    def read(self, record: EventRecord, now_ms: int) -> GroupOutcome | None:
        """Fold a record; None if it is not looked at.

        Spec: Read, AfterReader.
        """
        if record.offset < self._position or self.knowledge is LogKnowledge.NOTHING:
            return None
        self._position = record.offset + 1
        if self.knowledge is LogKnowledge.LOST:
            return None
        outcome = self._begun(record)
        if outcome is None:
            if stops_reader(self.view, record) or self._head_is_missing():
                self.lose()
                return None
            outcome = self._foreseen(record) or step(self.view, record)
        was_serving, was_starting = self.serves, self.c.starts
        self.view = outcome.controllership
        me = self.config.controller_id
        self.c = after_reading(me, self.c, record, outcome.verdict)
        if not was_serving:
            self._sent.clear()  # of an epoch before
        if (was_serving or was_starting) and not (self.serves or self.c.starts):
            self._compete_later(now_ms, COMPETE_AGAIN_MS)
        self._confirm()
        return outcome

    def _foreseen(self, record: EventRecord) -> GroupOutcome | None:
        """The outcome of an event that was computed before it was sent, from this very state."""
        if not (self._sent and is_own_event(self.c, record)):
            return None
        before, sent_record, outcome = self._sent.popleft()
        return outcome if before is self.view and is_copy(sent_record, record) else None

    def reached(self, offset: int) -> None:
        """Nothing more comes below this offset."""
        self._position = max(self._position, offset)
        self._confirm()

    def lose(self) -> None:
        """It neither answers members nor competes from here on. Spec: StopsReader."""
        self.knowledge = LogKnowledge.LOST
        self._stop()

    def _stop(self) -> None:
        self.c = stopped(self.c)

    def _begun(self, record: EventRecord) -> GroupOutcome | None:
        """The outcome of the snapshot by which a reader begins in the middle, if it is one.

        Spec: BeginsAt. Keeps: SuffixExact. A deposed controller writes snapshots, too. So one
        counts only where its controller read it back and made it the claim's position.
        """
        event = record.event
        is_first = record.offset == self._begin > 0
        if (
            is_first
            and self._at_position
            and isinstance(event, ControllershipSnapshot)
            and not malformed(record)
        ):
            return GroupOutcome(begun_at(record, event), GroupAccepted.SNAPSHOT_TAKEN)
        return None

    def _head_is_missing(self) -> bool:
        """The log was cut, and no snapshot lies where it begins. Spec: HeadIsMissing."""
        return self._begin > 0 and self.view.number == 0 and not self.config.forget

    # --- the end of the log -----------------------------------------------------------------------

    def confirmation(self) -> int:
        """A token: once it is `confirmed`, the log was folded up to an end after this moment."""
        self._wanted = True
        return self._token + 1

    def end_is(self, token: int, offset: int) -> None:
        """The broker's answer: the end offset at the time of query `token`. Spec: EndIs."""
        if token > self._answered:
            self._answered = token
            self._ends.append((token, offset))
            self._confirm()

    def ask(self, now_ms: int) -> None:
        """Query the end offset if any request waits for it: one query for all of them.

        A pending query was sent too early for them.
        """
        is_idle = self._answered == self._token
        is_late = not is_idle and now_ms - self._asked_ms >= ASK_AGAIN_MS
        if (self._wanted and is_idle) or is_late:
            self._token += 1
            self._asked_ms, self._wanted = now_ms, False
            self.out.append(AskEnd(self.partition, self._token))

    def _confirm(self) -> None:
        while self._ends and self._position >= self._ends[0][1]:
            self.confirmed, _ = self._ends.popleft()
        if self.knowledge is LogKnowledge.SOME and self.confirmed >= self._loaded_token:
            self.knowledge = LogKnowledge.ALL
            if self._head_is_missing():
                self.lose()

    # --- competing --------------------------------------------------------------------------------

    def claimed(self, now_ms: int) -> None:
        """It may compete."""
        self._may_compete = True
        self._compete_later(now_ms)

    def unclaimed(self) -> None:
        """It may not compete, and serves no longer."""
        self._may_compete = False
        self._stop()

    def append_failed(self, record: EventRecord, now_ms: int) -> None:
        """A record was refused, or its outcome is unknown: read again from the start."""
        if isinstance(record.event, ControllerStarted):
            self.c = evolved(self.c, starts=False)
        elif record.epoch == self.c.epoch:
            self._stop()
        else:
            return
        if not self.serves:
            self._compete_later(now_ms, COMPETE_AGAIN_MS)

    def _compete_later(self, now_ms: int, wait_ms: int = 0) -> None:
        self._compete_at_ms = now_ms + wait_ms
        self._compete_token = self.confirmation()

    def compete(self, now_ms: int) -> None:
        """Start an epoch, if it may and has read to the end. Spec: Compete."""
        if (
            self._may_compete
            and self.knowledge is LogKnowledge.ALL
            and not (self.serves or self.c.starts)
            and self.confirmed >= self._compete_token
            and now_ms >= self._compete_at_ms
        ):
            self.c = evolved(stopped(self.c), starts=True)
            start = self.config.start(self.view.epoch)
            self.out.append(
                AppendEvent(EventRecord(self.partition, NOT_APPENDED, NOT_APPENDED, start))
            )

    # --- deciding ---------------------------------------------------------------------------------

    def decide(self, group: str, event: Event) -> ErrorCode:
        """Send an event behind all others, unless a guard refuses it as things will be.

        MESSAGE_TOO_LARGE: it is larger than the log takes. To send it would end the epoch, for all
        groups. GROUP_MAX_SIZE_REACHED: later events of the group might be.

        Spec: Decide, Sending.
        """
        record = sending(self.c, self.view, self.partition, group, event)
        is_commit = isinstance(event, Reconciled) and len(event.positions) < MEASURED_FROM
        size_bytes = 0 if is_commit else len(encode_event(event))
        if size_bytes > self.config.event_bytes_max:
            self.out.append(ReportTooLarge(record, size_bytes))
            return ErrorCode.MESSAGE_TOO_LARGE
        before = self.ahead
        c, outcome = sent(self.c, self.view, record)
        if isinstance(event, GROWS) and isinstance(outcome.verdict, GroupAccepted):
            grown = outcome.controllership.groups[group]
            most = self.config.event_bytes_max
            if needed_bytes := bytes_missing(grown, before.groups.get(group), most):
                self.out.append(ReportTooLarge(record, needed_bytes))
                return ErrorCode.GROUP_MAX_SIZE_REACHED
        self.c = c
        if isinstance(outcome.verdict, GroupAccepted):
            self._sent.append((before, record, outcome))
            self.out.append(AppendEvent(record))
        return ErrorCode.NONE

"""Records what a participant of a shared claim does, for the recording of a run.

`RecordedMember` has the file. A `RecordedParticipant` is the driver that the client uses. It
records inputs, and effects before they are carried out. It does not know what is allowed.

Messages count as begun once they are allowed, because the application may receive them from then
on. Messages that were not begun after all are taken back. At most once, `ownership` reports which
were delivered when no more of the range will be. Messages count as finished when the machine learns
that the application has finished them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka_marshal.client.coordinate.recording import RecordedMember
from kafka_marshal.codec import coordinating_partition
from kafka_marshal.core.ranges.messages import RangesRecord
from kafka_marshal.core.ranges.reader import FoldedState
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.machines.ranges.driver import Identity, ParticipantDriver
from kafka_marshal.machines.ranges.effects import Effect, SendRecord
from kafka_marshal.machines.ranges.participant import Participant
from kafka_marshal.validate import run


class RecordedParticipant(ParticipantDriver):
    """A participant that records its inputs and its own actions."""

    def __init__(
        self,
        member: RecordedMember,
        me: Identity,
        key: ClaimKey,
        window: int,
        start_position: int,
        *more: Any,
        first: int = 0,
        folded: FoldedState | None = None,
    ) -> None:
        """Begin; `member` records the instance. Other arguments as in `ParticipantDriver`."""
        super().__init__(me, key, window, start_position, *more, first=first, folded=folded)
        self._member = member
        self._home = coordinating_partition(key.topic, member.partitions)
        self._read_through(first - 1)
        member.write(run.shares(me.instance_id, key, first, start_position, self.known))

    # --- what happens -----------------------------------------------------------------------------

    def record(
        self, record: RangesRecord, now_ms: int, checkpoint: FoldedState | None = None
    ) -> list[Effect]:
        """As in `ParticipantDriver`, like the following methods."""
        self._read_through(record.offset)
        call = super().record
        return self._recorded(lambda: call(record, now_ms, checkpoint))

    def caught_up(self, now_ms: int) -> list[Effect]:
        """As in `ParticipantDriver`."""
        call = super().caught_up
        return self._recorded(lambda: call(now_ms))

    def timer(self, now_ms: int) -> list[Effect]:
        """As in `ParticipantDriver`."""
        call = super().timer
        return self._recorded(lambda: call(now_ms))

    def outcome_unknown(self, sent: SendRecord, now_ms: int) -> list[Effect]:
        """As in `ParticipantDriver`."""
        call = super().outcome_unknown
        return self._recorded(lambda: call(sent, now_ms))

    def end(self, high_watermark: int, now_ms: int) -> list[Effect]:
        """As in `ParticipantDriver`."""
        call = super().end
        return self._recorded(lambda: call(high_watermark, now_ms))

    def begun(self, range_id: int, offset: int, now_ms: int) -> list[Effect]:
        """Nothing is begun unless it was recorded; otherwise a second begin would go unnoticed."""
        held = self.participant.holding(range_id)
        if held is not None and self.may_begin(range_id, offset) is None:
            line = run.begun(self.me.instance_id, self.key, range_id, held.begun, offset + 1)
            if not self._member.write(line, at_once=self.me.window == 0):
                return []
        call = super().begun
        return self._recorded(lambda: call(range_id, offset, now_ms), begins=False)

    def take_back(self, range_id: int, offset: int, now_ms: int) -> list[Effect]:
        """As in `ParticipantDriver`."""
        call = super().take_back
        return self._recorded(lambda: call(range_id, offset, now_ms))

    def commit(self, now_ms: int) -> list[Effect]:
        """As in `ParticipantDriver`."""
        call = super().commit
        return self._recorded(lambda: call(now_ms))

    def finished(self, range_id: int, offset: int, now_ms: int) -> list[Effect]:
        """As in `ParticipantDriver`."""
        call = super().finished
        return self._recorded(lambda: call(range_id, offset, now_ms))

    def leave(self, now_ms: int) -> list[Effect]:
        """As in `ParticipantDriver`."""
        call = super().leave
        return self._recorded(lambda: call(now_ms))

    def give_back(self, now_ms: int) -> list[Effect]:
        """As in `ParticipantDriver`."""
        call = super().give_back
        return self._recorded(lambda: call(now_ms))

    def _give_up(self, now_ms: int) -> list[Effect]:
        # It comes before whatever is sent in the same call.
        self._member.write(run.gave_up(self.me.instance_id, self.key, shared=True))
        return super()._give_up(now_ms)

    # --- what is written --------------------------------------------------------------------------

    def _read_through(self, offset: int) -> None:
        self._member.read_through(self._home, offset)

    def _recorded(self, call: Callable[[], list[Effect]], *, begins: bool = True) -> list[Effect]:
        """The effects, if they could be recorded before they are carried out."""
        before = self.participant
        effects = call()
        changes = self._lines_of(before, begins=begins)
        sends = [
            run.sent_of_ranges(self.me.instance_id, self._home, each)
            for each in effects
            if isinstance(each, SendRecord)
        ]
        if not changes and not sends:
            return effects
        return effects if self._member.write(*changes, *sends, at_once=bool(sends)) else []

    def _lines_of(self, before: Participant, *, begins: bool) -> list[run.Fields]:
        """Its own progress, derived from the ranges that it holds."""
        after, own = self.participant, (self.me.instance_id, self.key)
        lines: list[run.Fields] = []
        for held in before.held:
            now = after.holding(held.id)
            if now is None:
                continue
            if now.begun > held.begun and begins:
                lines.append(run.begun(*own, held.id, held.begun, now.begun))
            if now.done > held.done:
                lines.append(run.finished(*own, held.id, held.done, now.done))
            if now.begun < held.begun:
                lines.append(run.took_back(*own, held.id, now.begun))
        if after.leaving and not before.leaving:
            lines.append(run.leaves(*own))
        return lines

"""Free time for a reducer that judges by a clock.

In the free models every record says for itself whether the owner was stale by then and whether the
pause had ended. The Python only knows `clock_ms - last_heartbeat_ms` and `paused_until_ms`. So a
claim gets, for the length of one step, times of which the clock says just that; afterwards the
times that the step did not write are put back. Nothing in the package knows of it.
"""

from __future__ import annotations

import attrs
from attrs import frozen

from kafka_marshal import Claim, Record, Rules, Verdict, step
from kafka_marshal.core.claims.suffix_reader import Reader, read_record
from kafka_marshal.machines.consumer import consumer as machine
from kafka_marshal.machines.consumer.consumer import ConsumerState, InstanceConfig


@frozen
class Stored:
    """A record of a model's log: in free time it carries two judgements. Spec: Stored."""

    record: Record
    stale: bool = False
    """The owner had been silent for too long. Spec: RecordSaysStale."""
    pause_over: bool = False
    """The pause had ended. Spec: RecordSaysPaused."""


def as_said(claim: Claim, stored: Stored, rules: Rules) -> Claim:
    """The claim, with times of which the clock says what the record says."""
    now_ms = max(claim.clock_ms, stored.record.timestamp_ms)
    since_ms = now_ms - int(rules.stale_after_ms) - 1 if stored.stale else now_ms
    until_ms = now_ms if stored.pause_over else now_ms + 1
    return attrs.evolve(
        claim,
        last_heartbeat_ms=None if claim.last_heartbeat_ms is None else since_ms,
        paused_until_ms=None if claim.paused_until_ms is None else until_ms,
    )


def as_written(before: Claim, said: Claim, after: Claim) -> Claim:
    """The claim after the step, with its own times wherever the step wrote none."""
    times = {
        name: getattr(before, name)
        for name in ("last_heartbeat_ms", "paused_until_ms")
        if getattr(after, name) == getattr(said, name)
    }
    return attrs.evolve(after, **times)


@frozen
class Fold:
    """`step`, `read_record` and `after_read`, in the time that a model has."""

    rules: Rules
    time_is_free: bool

    def step(self, claim: Claim, stored: Stored) -> tuple[Claim, Verdict]:
        """Spec: FoldRecord."""
        if not self.time_is_free:
            return step(claim, stored.record, self.rules)
        said = as_said(claim, stored, self.rules)
        after, verdict = step(said, stored.record, self.rules)
        return as_written(claim, said, after), verdict

    def read_record(self, reader: Reader, stored: Stored) -> Reader:
        """Spec: ReadRecord."""
        if not self.time_is_free:
            return read_record(reader, stored.record, self.rules)[0]
        said = as_said(reader.claim, stored, self.rules)
        after, _ = read_record(attrs.evolve(reader, claim=said), stored.record, self.rules)
        return attrs.evolve(after, claim=as_written(reader.claim, said, after.claim))

    def after_read(
        self, me: InstanceConfig, consumer: ConsumerState, stored: Stored
    ) -> ConsumerState:
        """Spec: AfterRead."""
        if not self.time_is_free:
            return machine.after_read(me, consumer, stored.record)
        said = as_said(consumer.known, stored, self.rules)
        after = machine.after_read(me, _knowing(consumer, said), stored.record)
        return _knowing(after, as_written(consumer.known, said, after.known))


def _knowing(consumer: ConsumerState, claim: Claim) -> ConsumerState:
    return attrs.evolve(consumer, reader=attrs.evolve(consumer.reader, claim=claim))

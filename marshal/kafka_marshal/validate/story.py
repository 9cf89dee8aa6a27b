"""Part of a run as a counterexample: the steps, their actors, and the forbidden one.

It converts events to steps; `kafka_marshal.counterexample` draws and writes them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

import attrs

from kafka_marshal.capture import RawRecord
from kafka_marshal.codec import MalformedRecord
from kafka_marshal.core.claims.verdicts import Verdict
from kafka_marshal.core.messages import Headers, Message, Record, ReleaseGroup
from kafka_marshal.core.state import Claim, ClaimKey, Rules
from kafka_marshal.counterexample import LOG, Counterexample, Participant, Step, StepKind, words
from kafka_marshal.counterexample.model import Expression, spec_name
from kafka_marshal.counterexample.records import claim_expression
from kafka_marshal.machines.consumer.consumer import acts, owns
from kafka_marshal.markup import name as visible
from kafka_marshal.markup import printable
from kafka_marshal.validate.explain import Unexplained
from kafka_marshal.validate.log import PartitionLog
from kafka_marshal.validate.participants import held_in_words, said
from kafka_marshal.validate.run import (
    SHARE_EVENTS,
    Appended,
    BeginsAt,
    Begun,
    Crashed,
    Finished,
    Gap,
    GaveUp,
    Gone,
    HandedOver,
    Leaves,
    Processed,
    Read,
    RunEvent,
    Sent,
    Setting,
    ShareEvent,
    Shares,
    Started,
    TookBack,
)
from kafka_marshal.validate.slices import Slice
from kafka_marshal.validate.validator import Validator, action_of

STEPS_MAX = 400
"""The most events to show of a longer part; the last ones are kept."""


def story_of(part: Slice, source: str) -> Counterexample:
    """The counterexample of a part of a run; its last step is the unexplained one."""
    telling = _Telling(part.setting, part.unexplained)
    steps = [telling.step(event) for event in part.events[:-1]]
    steps.append(telling.fault(part.events[-1]))
    left_out = max(0, len(steps) - STEPS_MAX)
    beginning = Step(0, sentence=f"{left_out:,} events before" if left_out else "")
    kept = [
        attrs.evolve(step, number=n, since=_later(step.since, left_out))
        for n, step in enumerate(steps[left_out:], start=1)
    ]
    return Counterexample(
        violated=part.unexplained.protects.value if part.unexplained.protects else None,
        source=source,
        participants=(*telling.participants.values(), Participant(LOG)),
        steps=(beginning, *kept),
        violated_at=len(kept),
        about="the first event that no behaviour of the specification explains",
        wrong=wrong(part.unexplained),
    )


def story_of_log(
    records: Iterable[RawRecord], rules: Rules, unexplained: Unexplained, source: str
) -> Counterexample:
    """The counterexample of a log alone, with its claim's records up to the unexplained one."""
    setting = Setting(rules, {}, 1)
    events: list[RunEvent] = []
    for raw in records:
        try:
            record = raw.decoded()
        except MalformedRecord:
            continue
        events.append(Appended("", {}, raw.partition, raw.offset, record))
    return story_of(Slice(setting, tuple(events), unexplained), source)


def _later(since: int | None, left_out: int) -> int | None:
    """The new number of the step at which it was sent; None if that is left out."""
    return None if since is None or since <= left_out else since - left_out


def wrong(unexplained: Unexplained) -> str:
    """What is wrong, in one sentence."""
    expected = f"; what could be: {unexplained.expected}" if unexplained.expected else ""
    return f"{unexplained.why}{expected}."


class _Telling:
    """Validates the part again, and makes its steps."""

    def __init__(self, setting: Setting, unexplained: Unexplained) -> None:
        self._validator = Validator(setting)
        self._unexplained = unexplained
        self._time: str | None = None
        self._sent: dict[object, int] = {}
        self._number = 0
        self.participants: dict[str, Participant] = {
            name: Participant(self._unique(name), f"client {visible(member.me.client_id)}")
            for name, member in setting.members.items()
        }

    @staticmethod
    def _unique(name: str) -> str:
        return f"{name} (an instance)" if name == LOG else name

    def _who(self, instance: str, client: str = "") -> str:
        if instance not in self.participants:
            about = f"client {visible(client)}, not recorded"
            self.participants[instance] = Participant(self._unique(instance), about)
        return self.participants[instance].name

    def step(self, event: RunEvent) -> Step:
        """One explained event."""
        self._number += 1
        before = self._beliefs(event)
        self._validator.take(event)
        name = getattr(event, "instance", None)
        action = action_of(event, self._validator.instances.get(name) if name else None)
        step = self._step_of(event, before)
        return attrs.evolve(
            step, number=self._number, action=action, time=self._time, state=self._state()
        )

    def fault(self, event: RunEvent) -> Step:
        """The unexplained event."""
        step = self.step(event)
        unexplained = self._unexplained
        return attrs.evolve(
            step,
            action=unexplained.action,
            verdict=None,
        )

    def _step_of(self, event: RunEvent, before: str) -> Step:
        match event:
            case Started():
                first = [
                    f"{offset} of partition {p}" for p, offset in event.first.items() if offset
                ]
                where = f"from offset {', '.join(first)}" if first else "from the beginning"
                who = self._who(event.instance)
                return Step(
                    0,
                    kind=StepKind.STARTED,
                    who=who,
                    sentence=f"{visible(who)} starts, reads {where}",
                )
            case Crashed():
                who = self._who(event.instance)
                return Step(0, kind=StepKind.CRASHED, who=who, sentence=f"{visible(who)} crashes")
            case Sent():
                return self._sent_step(event)
            case Appended():
                return self._appended_step(event)
            case Read():
                who, now = self._who(event.instance), self._beliefs(event)
                learns = f"; now {now}" if now != before else ""
                return Step(
                    0,
                    kind=StepKind.READ,
                    who=who,
                    source=LOG,
                    target=who,
                    offset=event.offset,
                    label=f"offset {event.offset}",
                    sentence=f"{visible(who)} reads offset {event.offset}{learns}",
                )
            case Gap():
                who = self._who(event.instance)
                sentence = (
                    f"{visible(who)} finds that records before offset {event.offset} are gone"
                )
                return Step(0, who=who, sentence=sentence)
            case Processed():
                who = self._who(event.instance)
                which = f"{event.start} to {event.stop - 1}"
                where = f"{visible(event.topic)}/{event.topic_partition}"
                return Step(
                    0,
                    kind=StepKind.PROCESSED,
                    who=who,
                    label=which,
                    sentence=f"{visible(who)} processes messages {which} of {where}",
                )
            case GaveUp():
                who = self._who(event.instance)
                return Step(0, who=who, sentence=f"{visible(who)} no longer waits for its request")
            case BeginsAt():
                who, where = self._who(event.instance), f"{event.topic}/{event.topic_partition}"
                sentence = f"{visible(who)} begins {where} at {event.offset}, if nobody set it"
                return Step(0, who=who, sentence=sentence)
            case Gone():
                who, where = self._who(event.instance), f"{event.topic}/{event.topic_partition}"
                sentence = f"{visible(who)} finds that {where} holds nothing below {event.below}"
                return Step(0, who=who, sentence=sentence)
            case _ if isinstance(event, SHARE_EVENTS):
                return self._share_step(event)
            case _:
                raise TypeError(f"not an event of a run: {event!r}")

    def _share_step(self, event: ShareEvent) -> Step:
        """An action of a participant of a shared claim."""
        who, where = self._who(event.instance), f"{visible(event.topic)}/{event.topic_partition}"
        kind, label = None, ""
        match event:
            case Shares():
                about = f"shares {where}, and begins at {event.start} if nobody set a position"
            case Begun():
                which = f"{event.start} to {event.stop - 1}"
                about = f"begins messages {which} of {where}, of range {event.id}"
            case Finished():
                label = f"{event.start} to {event.stop - 1}"
                kind = StepKind.PROCESSED
                about = f"has finished messages {label} of {where}, of range {event.id}"
            case TookBack():
                about = f"has begun nothing of {where} from {event.start} on, of range {event.id}"
            case HandedOver():
                given = ", ".join(f"{start} to {stop - 1}" for start, stop in event.pieces)
                about = f"has given out messages {given or 'none'} of {where}, of range {event.id}"
            case Leaves():
                about = f"takes nothing more of {where}"
            case _:
                assert_never(event)
        sentence = f"{visible(who)} {about}"
        if kind is None:
            return Step(0, who=who, sentence=sentence)
        return Step(0, kind=kind, who=who, label=label, sentence=sentence)

    def _sent_step(self, event: Sent) -> Step:
        who = self._who(event.instance)
        described = (
            _described(event.partition, event.message, event.headers)
            if event.shared is None
            else printable(said(event.shared))
        )
        self._sent[event.content] = self._number
        return Step(
            0,
            kind=StepKind.SENT,
            who=who,
            source=who,
            target=LOG,
            label=described,
            sentence=f"{visible(who)} sends {described}",
        )

    def _appended_step(self, event: Appended) -> Step:
        record = event.record
        if event.shared is not None and event.ranged is not None:
            return self._appended_shared_step(event, said(event.shared))
        if record is None:
            sentence = f"offset {event.offset}: no message of the protocol"
            return Step(0, kind=StepKind.APPENDED, offset=event.offset, sentence=sentence)
        self._time = words.clock(record.timestamp_ms)
        message = record.message
        who = self._who(message.instance_id, message.client_id)
        since = self._sent.pop(event.content, None)
        fold = self._fold(event)
        verdict = None
        sentence = f"offset {event.offset}: {visible(who)}'s {words.described(record)}"
        if fold is not None:
            before, after, verdict = fold
            sentence = words.landed(record, verdict, before, after)
        return Step(
            0,
            kind=StepKind.APPENDED,
            who=who,
            source=who,
            target=LOG,
            since=since,
            offset=event.offset,
            label=words.described(record),
            verdict=spec_name(verdict) if verdict is not None else None,
            sentence=sentence,
        )

    def _appended_shared_step(self, event: Appended, described: str) -> Step:
        """Describe a participant's record, which has the anchor's name, or is a ClaimingRange."""
        assert event.ranged is not None
        record = event.ranged.record
        self._time = words.clock(record.timestamp_ms)
        who = self._who(record.message.instance_id, record.message.client_id)
        label = printable(described)
        return Step(
            0,
            kind=StepKind.APPENDED,
            who=who,
            source=who,
            target=LOG,
            since=self._sent.pop(event.content, None),
            offset=event.offset,
            label=label,
            sentence=f"offset {event.offset}: {label}",
        )

    def _fold(self, event: Appended) -> tuple[Claim, Claim, Verdict] | None:
        """The effect of the record, if it was appended and its effect is certain."""
        log = self._validator.logs.get(event.partition)
        if log is None or log.last_offset != event.offset or log.entries[-1].record is None:
            return None
        entry = log.entries[-1]
        fold = entry.fold or (entry.folds[-1] if entry.folds else None)
        if fold is None or fold.verdict is None:
            return None
        return fold.before.claim, fold.after.claim, fold.verdict

    # --- what is believed ---------------------------------------------------------------------

    def _key(self) -> ClaimKey | None:
        return self._unexplained.key

    def _beliefs(self, event: RunEvent) -> str:
        """A reader's knowledge of the claim in question, in a few words."""
        key = self._key()
        if not isinstance(event, Read) or key is None:
            return ""
        instance = self._validator.instances[event.instance]
        if not instance.running or instance.group != key.group:
            return ""
        if key in instance.parts:
            return held_in_words(instance.parts[key].participant.held)
        consumer = instance.consumer(key)
        if consumer.granted:
            last = consumer.granted[-1]
            return f"it was granted {last.start} to {last.stop - 1}"
        if acts(instance.me, consumer):
            return f"it owns, epoch {consumer.known.epoch}"
        if owns(instance.me, consumer.reader):
            return "it owns, and has resigned"
        return "it does not own"

    def _state(self) -> dict[str, Expression]:
        """The claim in question after the whole log; and the machine of the instance at fault."""
        key = self._key()
        if key is None:
            return {}
        home = self._validator.home(key.topic)
        log: PartitionLog = self._validator.log(home)
        state: dict[str, Expression] = {"claim": claim_expression(log.reader(key).claim)}
        instance = self._validator.instances.get(self._unexplained.instance or "")
        if instance is not None and home in instance.partitions:
            consumer = instance.consumer(key)
            state["consumer"] = {
                "claim": claim_expression(consumer.known),
                "certain": list[Expression](sorted(consumer.reader.certain.names)),
                "view": consumer.view,
                "resigned": -1 if consumer.resigned is None else consumer.resigned,
                "asked": consumer.asked,
                "stopped": consumer.stopped,
                "next": consumer.next,
                "granted": [[each.start, each.stop] for each in consumer.granted],
            }
        return state


def _described(partition: int, message: Message | None, headers: Headers) -> str:
    if message is None:
        return "no message of the protocol"
    where = f" to partition {partition}" if isinstance(message, ReleaseGroup) else ""
    return words.described(Record(partition, 0, 0, message, headers)) + where

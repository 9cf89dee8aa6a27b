"""Converts TLC's counterexamples to the form that all counterexamples share.

`stories` writes the sentences. Two consecutive states show the actor and the direction of a record.
The evidence is the outbox of every instance, the log, and any other variable that changed at one
instance only. So this module knows no other variable by name, and a new action needs no change
here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

import attrs

from kafka_marshal.counterexample.model import (
    ACCEPTED,
    LOG,
    REFUSED,
    Counterexample,
    Participant,
    Step,
    StepKind,
)
from kafka_marshal.modelcheck.models import Model
from kafka_marshal.modelcheck.stories import itf, stories, stories_of_ranges
from kafka_marshal.modelcheck.stories.sentence import Sentence
from kafka_marshal.modelcheck.tlc.output import TlcResult, TlcState, Trace
from kafka_marshal.modelcheck.tlc.values import Function, Value

KINDS: Final[Mapping[str, StepKind]] = {
    "Read": StepKind.READ,
    "Process": StepKind.PROCESSED,
    "ProcessGrant": StepKind.PROCESSED,
    "Crash": StepKind.CRASHED,
    "Restart": StepKind.STARTED,
    "Join": StepKind.STARTED,
    "Stall": StepKind.STALLED,
    "Resume": StepKind.RESUMED,
    "Tick": StepKind.TIME,
}
"""Actions that change neither the log nor an outbox; all others are drawn by their effect."""

VERDICTS: Final = ACCEPTED | REFUSED | stories_of_ranges.VERDICTS.keys()

UNTOLD: Final = Sentence("", "")
"""For steps that the next step's sentence describes too."""

Changed: TypeAlias = "Mapping[str, tuple[Value | None, Value]]"
"""Variables that a step changed, before and after."""


def of_result(model: Model, result: TlcResult) -> Counterexample | None:
    """Return the counterexample of a run; nothing if it found none."""
    if result.trace is None:
        return None
    return of_trace(result.trace, result.violated, f"TLC {model.name}", model.about)


def of_trace(trace: Trace, violated: str | None, source: str, about: str = "") -> Counterexample:
    """Return a counterexample of TLC: one step a state, in the sentences of `stories`."""
    sentences = dict(stories.sentences(trace))
    instances = _instances(trace)
    keeps_log = any("log" in state.variables for state in trace.states)
    reader = _Reader(instances, keeps_log)
    steps = tuple(
        reader.step(number, trace.states, sentences.get(number, UNTOLD))
        for number in range(len(trace.states))
    )
    # An instance without any action may not even have been started.
    acting = [instances[name] for name in instances if any(step.who == name for step in steps)]
    return Counterexample(
        violated=violated,
        source=source,
        participants=(*acting, *([Participant(LOG)] if keeps_log or instances else [])),
        steps=steps,
        violated_at=None if trace.back_to is not None else len(trace.states) - 1,
        loop_back_to=trace.back_to,
        about=about,
    )


def _instances(trace: Trace) -> dict[str, Participant]:
    """Return the instances that may take part, by name: with an outbox, participants, senders."""
    clients: dict[str, str] = {}
    names: list[str] = []
    for state in trace.states:
        for variable in ("outbox", "participants"):
            names += _owners_of(state.variables.get(variable))
        for record in _records(list(state.variables.values())):
            message = record["message"]
            assert isinstance(message, Mapping)
            clients[str(message["instance_id"])] = str(message.get("client_id", ""))
    return {
        name: Participant(name, f"client {clients[name]}" if clients.get(name) else "")
        for name in dict.fromkeys([*names, *sorted(set(clients) - set(names))])
    }


def _owners_of(value: Value | None) -> list[str]:
    return sorted(map(str, value)) if isinstance(value, Function) else []


def _records(values: list[Value]) -> Iterator[Function]:
    """Yield values that look like records of the log, at any depth: a message with a sender."""
    while values:
        value = values.pop()
        if isinstance(value, Function):
            message = value.get("message")
            if isinstance(message, Mapping) and "instance_id" in message:
                yield value
            else:
                values += value.values()
        elif isinstance(value, tuple | frozenset):
            values += value


@attrs.define
class _Reader:
    """Reads the steps in order, and stores which records are in flight."""

    instances: Mapping[str, Participant]
    keeps_log: bool
    under_way: dict[str, list[int]] = attrs.field(factory=dict)
    """For every instance, the steps at which the records in its outbox were sent, oldest first."""

    def step(self, number: int, states: tuple[TlcState, ...], sentence: Sentence) -> Step:
        """Return the step to this state."""
        state = states[number]
        step = Step(
            number=number,
            action=state.action,
            sentence=sentence.text,
            time=sentence.time,
            state={name: itf.expression(value) for name, value in state.variables.items()},
        )
        if number == 0:
            return step
        before = states[number - 1].variables
        changed: Changed = {
            name: (before.get(name), value)
            for name, value in state.variables.items()
            if before.get(name) != value
        }
        return self._described(step, sentence, changed)

    def _described(self, step: Step, sentence: Sentence, changed: Changed) -> Step:
        sender, set_out, left = self._outboxes(step.number, changed)
        appended = _grown(changed.get("log")) if self.keeps_log else _newest(changed)
        if appended is not None:
            who = sender or self._known(_sender(appended))
            offset = appended.get("offset")
            return attrs.evolve(
                step,
                kind=StepKind.APPENDED,
                who=who,
                source=who,
                target=LOG,
                since=left if left is not None else self._copied(who, appended, step),
                offset=offset if isinstance(offset, int) else None,
                label=sentence.what,
                verdict=_verdict(changed),
            )
        who = sender or self._who(changed)
        label = (sentence.text if who is None else sentence.what + sentence.result) or step.action
        if set_out:
            return attrs.evolve(
                step, kind=StepKind.SENT, who=who, source=who, target=LOG, label=label
            )
        if left is not None:
            return attrs.evolve(
                step, kind=StepKind.LOST, who=who, source=who, since=left, label=label
            )
        kind = KINDS.get(step.action, StepKind.OTHER)
        if kind is StepKind.READ and who is not None:
            return attrs.evolve(
                step,
                kind=kind,
                who=who,
                source=LOG,
                target=who,
                offset=sentence.offset,
                label=label,
            )
        if who is None and "log" in changed:
            who = LOG
        return attrs.evolve(step, kind=kind, who=who, label=label)

    def _outboxes(self, number: int, changed: Changed) -> tuple[str | None, bool, int | None]:
        """Return the owner of a changed outbox, if one was added, and when a removed one was."""
        before, after = changed.get("outbox", (None, ()))
        if not isinstance(before, Function) or not isinstance(after, Function):
            return None, False, None
        for who, now in after.items():
            was = before.get(who, ())
            if was == now or not isinstance(was, tuple) or not isinstance(now, tuple):
                continue
            under_way = self.under_way.setdefault(str(who), [])
            if len(now) > len(was):
                under_way += [number] * (len(now) - len(was))
                return str(who), True, None
            # Usually the oldest is removed; if a network reorders, it is the missing one.
            gone = next((k for k in range(len(now)) if was[k] != now[k]), len(now))
            return str(who), False, under_way.pop(gone) if gone < len(under_way) else None
        return None, False, None

    def _copied(self, who: str | None, appended: Function, step: Step) -> int | None:
        """Return when a record set out that landed and is under way still: a copy of it landed."""
        outbox = (step.state or {}).get("outbox")
        waiting = outbox.get(who or "") if isinstance(outbox, dict) else None
        message = itf.expression(appended["message"])
        for sent, set_out in zip(
            waiting if isinstance(waiting, list) else [],
            self.under_way.get(who or "", []),
            strict=False,
        ):
            if isinstance(sent, dict) and sent.get("message") == message:
                return set_out
        return None

    def _known(self, name: str | None) -> str | None:
        return name if name in self.instances else None

    def _who(self, changed: Changed) -> str | None:
        """Return the one instance at which functions of instances changed."""
        found = set()
        for before, after in changed.values():
            if (
                isinstance(before, Function)
                and isinstance(after, Function)
                and set(map(str, after)) <= self.instances.keys()
            ):
                found |= {str(key) for key in after if before.get(key) != after[key]}
        return found.pop() if len(found) == 1 else None


def _grown(change: tuple[Value | None, Value] | None) -> Function | None:
    """Return the record at the end of a log that grew."""
    before, after = change or ((), ())
    if isinstance(before, tuple) and isinstance(after, tuple) and len(after) > len(before):
        return after[-1] if isinstance(after[-1], Function) else None
    return None


def _newest(changed: Changed) -> Function | None:
    """Return the record that appeared, in a model that keeps none but the last."""
    found = [r for _, after in changed.values() for r in _records([after]) if "offset" in r]
    return found[0] if len(found) == 1 else None


def _sender(record: Function) -> str | None:
    message = record.get("message")
    return str(message.get("instance_id")) if isinstance(message, Mapping) else None


def _verdict(changed: Changed) -> str | None:
    """Return the name of a verdict that appeared, at the end of a sequence or in a record."""
    for _, after in changed.values():
        newest = after[-1:] if isinstance(after, tuple) else ()
        for value in after.values() if isinstance(after, Function) else newest:
            if isinstance(value, str) and value in VERDICTS:
                return value
    return None

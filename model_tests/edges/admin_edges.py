"""What the administrators of a model do, as TLC exports it, and the machine driven through it.

`ExportAdmins` in `MCSetPosition.tla` writes two kinds of rows: every distinct step of an
administrator (before, what it was, after), and what every guard says in every distinct state. Each
model of `MCSetPosition.tla` that must hold can be exported, with the bounds of its own cfg.

`python -m model_tests.edges.admin_edges` goes through all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import attrs

from kafka_marshal import ClaimKey, Record, ReleaseGroup, Rules
from kafka_marshal.core.claims.pause_work import PauseWork
from kafka_marshal.core.messages import Message, Partition
from kafka_marshal.core.partition_states import PartitionStates
from kafka_marshal.machines.admin import admin
from kafka_marshal.machines.admin.operation import (
    AdminForbidden,
    Against,
    AllSet,
    NoneSet,
    Operation,
    PartlySet,
    Phase,
    Reason,
    Result,
    consumer_of,
)
from kafka_marshal.machines.consumer.consumer import ConsumerState, Forbidden, InstanceConfig
from kafka_marshal.machines.consumer.effects import Send
from kafka_marshal.modelcheck import models
from kafka_marshal.modelcheck.models import Model, ModelKind
from kafka_marshal.modelcheck.tlc.values import Value
from kafka_marshal.scratch import Scratch
from model_tests import from_tla, tlc_export
from model_tests.explorer import configuration
from model_tests.explorer.free_time import Stored, as_said, as_written

KEYS = {f"k{number}": ClaimKey("g", "t", number) for number in (1, 2, 3)}
"""The claims of the model, and one that is no target."""

FEW_EDGES = 50_000
"""Of fewer TLC makes so little that Java does better to compile less (`short`)."""

BOTH_TO_1 = {KEYS["k1"]: 1, KEYS["k2"]: 1}


@attrs.frozen
class Step:
    """One step of an administrator."""

    me: InstanceConfig
    before: Operation
    action: str
    key: ClaimKey | None
    what: Send | Stored | None
    """What it sent, or what it read."""
    after: Operation


@attrs.frozen
class Answers:
    """What every guard says in one state."""

    me: InstanceConfig
    state: Operation
    said: Mapping[str, Against | None]


@attrs.frozen
class Exported:
    """Every distinct row of one model."""

    name: str
    steps: list[Step]
    answers: list[Answers]
    edges: int


def must_hold() -> list[Model]:
    """The models whose administrators can be exported."""
    return [
        model
        for model in models.read()
        if model.module.stem == "MCSetPosition" and model.kind is ModelKind.SAFETY
    ]


def export(model: Model, folder: Path) -> Exported:
    """Run TLC on a model with `ExportAdmins`; `folder` is for what it writes."""
    cfg = configuration.read(model.cfg)
    lines = ["SPECIFICATION Spec", "CONSTANTS"]
    lines += [f"  {name} = {value}" for name, value in cfg.assigned.items()]
    lines += [f"  {name} <- {operator}" for name, operator in cfg.substituted.items()]
    lines += [f"CONSTRAINT {name}" for name in cfg.names("CONSTRAINTS")]
    exporting = folder / f"{model.name}.cfg"
    exporting.write_text("\n".join([*lines, "ACTION_CONSTRAINT ExportAdmins"]) + "\n")
    target = folder / f"{model.name}.tsv"
    few = model.edges is not None and model.edges < FEW_EDGES
    made = tlc_export.export(
        model.module,
        exporting,
        target,
        workers=2,
        check_deadlock=False,
        short=few,
        libraries=models.libraries(),
    )
    rules = attrs.evolve(
        from_tla.rules("fenced", cfg.number("HeartbeatIntervalMs"), cfg.number("PauseMaxMs")),
        clock_rewind_max_ms=int(cfg.assigned.get("ClockRewindMaxMs", 0)),
    )
    rows = [_row(value, rules) for value in made.read()]
    target.unlink()
    return Exported(
        model.name,
        [row for row in rows if isinstance(row, Step)],
        [row for row in rows if isinstance(row, Answers)],
        made.result.edges,
    )


# --- rows -----------------------------------------------------------------------------------------


def _row(value: Value, rules: Rules) -> Step | Answers:
    assert isinstance(value, tuple)
    kind, who, state, what, after = value
    me = from_tla.me(who, rules)
    if kind == "May":
        return Answers(me, operation(state), dict(_answers(from_tla.fields(what))))
    assert kind == "Step"
    assert isinstance(what, tuple)
    action, key, given = what
    thing: Send | Stored | None = None
    if action == "Read":
        thing = stored(given)
    elif given != from_tla.NONE:
        fields = from_tla.fields(given)
        message = addressed(from_tla.message(fields["message"]), str(fields["key"]))
        thing = Send(message, from_tla.headers(fields["headers"]))
    return Step(me, operation(state), str(action), KEYS.get(str(key)), thing, operation(after))


def addressed(message: Message, key: str) -> Message:
    """The message, about the claim of this name."""
    if isinstance(message, ReleaseGroup):
        return message
    return attrs.evolve(message, partition=Partition(KEYS[key].topic_partition))


def stored(value: Value) -> Stored:
    """A record of the log, with its two judgements."""
    given = from_tla.fields(value)
    record = from_tla.record(value)
    record = attrs.evolve(record, message=addressed(record.message, str(given["key"])))
    return Stored(record, given["stale"], given["pause_over"])


def _keys(names: Any) -> frozenset[ClaimKey]:
    return frozenset(KEYS[str(name)] for name in names)


def _pairs(function: Any) -> Mapping[str, Any]:
    """A function of keys; the one of none is printed as the empty sequence."""
    return {} if function == () else from_tla.fields(function)


@cache
def operation(value: Value) -> Operation:
    """An administrator's memory; fails if a field is missing or new."""
    given = from_tla.fields(value)
    only_in_python = {"group", "view"}
    assert set(given) == {field.name for field in attrs.fields(Operation)} - only_in_python
    consumers = {KEYS[n]: from_tla.consumer(c) for n, c in _pairs(given["consumers"]).items()}
    [view] = {consumer.view for consumer in consumers.values()}
    phase = Phase(from_tla.snake(given["phase"]))
    return Operation(
        "g",
        phase=phase,
        targets={KEYS[name]: target for name, target in _pairs(given["targets"]).items()},
        consumers=kept(consumers),
        view=view,
        awaits=_keys(given["awaits"]),
        work=work(given["work"]),
        warned=work(given["warned"]),
        result=result(phase, given["result"]),
    )


def kept(consumers: Mapping[ClaimKey, ConsumerState]) -> PartitionStates[ClaimKey, ConsumerState]:
    """As an operation keeps them."""
    states = PartitionStates[ClaimKey, ConsumerState](ConsumerState())
    for key, consumer in consumers.items():
        states.put(key, consumer)
    return states


def work(value: Value) -> PauseWork:
    """The work of a pause; fails if a field is missing or new."""
    given = from_tla.fields(value)
    assert set(given) == {field.name for field in attrs.fields(PauseWork)}
    by = None if given["by"] == from_tla.NOBODY else given["by"]
    sets = {name: _keys(keys) for name, keys in given.items() if name != "by"}
    return PauseWork(by, **sets)


def result(phase: Phase, value: Value) -> Result | None:
    """What the operator reads."""
    given = from_tla.fields(value)
    done, not_set, in_doubt = (_keys(given[name]) for name in ("set", "not_set", "in_doubt"))
    reason = None if given["reason"] == "None" else Reason(from_tla.snake(given["reason"]))
    if phase is Phase.DONE:
        assert (not_set, in_doubt, reason) == (frozenset(), frozenset(), None)
        return AllSet(done)
    if reason is None:
        assert not done | not_set | in_doubt
        return None
    if phase is Phase.NONE_SET:
        assert not done | in_doubt
        return NoneSet(not_set, reason)
    assert phase is Phase.PARTLY_SET
    return PartlySet(done, not_set, in_doubt, reason)


def against(name: Value) -> Against | None:
    """What a guard says; fails if Python has no such reason."""
    if name == from_tla.PASSES:
        return None
    text = from_tla.snake(str(name))
    ours = {member.value for member in AdminForbidden}
    return AdminForbidden(text) if text in ours else Forbidden(text)


def _answers(said: Mapping[str, Any]) -> Iterator[tuple[str, Against | None]]:
    for question, answer in said.items():
        if isinstance(answer, Mapping):
            for key, each in answer.items():
                yield f"{question} {key}", against(each)
        else:
            yield question, against(answer)


# --- the machine ----------------------------------------------------------------------------------


def same(state: Operation) -> object:
    """What of a state must be equal; how memories are kept for keys not seen yet is not."""
    consumers = {key: consumer_of(state, key) for key in state.consumers.all()}
    return attrs.evolve(state, consumers=kept(consumers), targets=dict(state.targets))


def take(step: Step) -> tuple[Send | None, Operation] | Against:
    """What the machine does for this input in this state."""
    me, before, key = step.me, step.before, step.key
    if step.action == "Read":
        assert isinstance(step.what, Stored)
        return None, read_in_free_time(me, before, step.what)
    if step.action == "CallOff":
        refused = admin.may_call_off(me, before)
        after = admin.after_calling_off
        return refused or (None, after(me, before, Reason.PAUSE_EXPIRED))
    if step.action == "Begin":
        assert isinstance(step.what, Send)
        assert isinstance(step.what.message, ReleaseGroup)
        targets = step.after.targets
        return admin.may_begin(me, before, targets) or (
            admin.pause_sent(me, before, step.what.message.expires_unix_s),
            admin.after_beginning(me, before, targets),
        )
    assert key is not None
    if step.action == "StopWaiting":
        refused = admin.may_stop_waiting(me, before, key)
        return refused or (None, admin.after_stopping_to_wait(me, before, key))
    may, sent, remembers = SENDING[step.action]()
    return may(me, before, key) or (sent(me, before, key), remembers(me, before, key))


_May = Callable[[InstanceConfig, Operation, ClaimKey], Against | None]
_Sent = Callable[[InstanceConfig, Operation, ClaimKey], Send]
_After = Callable[[InstanceConfig, Operation, ClaimKey], Operation]

SENDING: Mapping[str, Callable[[], tuple[_May, _Sent, _After]]] = {
    "ClaimTarget": lambda: (
        admin.may_claim_target,
        admin.target_claimed,
        admin.after_claiming_target,
    ),
    "HeartbeatTarget": lambda: (
        admin.may_heartbeat_target,
        admin.target_heartbeat,
        lambda _me, before, _key: before,
    ),
    "SetTarget": lambda: (
        admin.may_set_position,
        admin.target_set,
        admin.after_setting_position,
    ),
    "LetGo": lambda: (admin.may_let_go, admin.target_let_go, admin.after_letting_go),
}
"""The actions that send something about one claim. Looked up late, so that mutants are met."""


def read_in_free_time(me: InstanceConfig, before: Operation, what: Stored) -> Operation:
    """Read a record that says for itself what is stale and whether the pause is over.

    A claim that had no record of its own has seen ReleaseGroups only, and they do not ask.
    """
    record: Record = what.record
    key = admin.key_of(record)
    concerned = before.consumers.all() if key is None else [key]
    said = {each: as_said(consumer_of(before, each).known, what, me.rules) for each in concerned}
    after = admin.after_reading(me, _knowing(before, said), record)
    written = {
        each: as_written(
            consumer_of(before, each).known, said[each], consumer_of(after, each).known
        )
        for each in concerned
    }
    return _knowing(after, written)


def _knowing(state: Operation, claims: Mapping[ClaimKey, Any]) -> Operation:
    consumers = state.consumers.copy()
    for key, claim in claims.items():
        consumer = consumer_of(state, key)
        reader = attrs.evolve(consumer.reader, claim=claim)
        consumers.put(key, attrs.evolve(consumer, reader=reader))
    return attrs.evolve(state, consumers=consumers)


def answered(row: Answers) -> Mapping[str, Against | None]:
    """What every guard of the machine says."""
    me, state = row.me, row.state
    found: dict[str, Against | None] = {
        "begin": admin.may_begin(me, state, BOTH_TO_1),
        "nothing": admin.may_begin(me, state, {}),
        "negative": admin.may_begin(me, state, {KEYS["k1"]: -1, KEYS["k2"]: 1}),
        "consumer": admin.may_begin(attrs.evolve(me, admin=False), state, BOTH_TO_1),
        "call_off": admin.may_call_off(me, state),
    }
    for name, key in KEYS.items():
        found[f"claim {name}"] = admin.may_claim_target(me, state, key)
        found[f"heartbeat {name}"] = admin.may_heartbeat_target(me, state, key)
        found[f"set {name}"] = admin.may_set_position(me, state, key)
        found[f"let_go {name}"] = admin.may_let_go(me, state, key)
        found[f"stop_waiting {name}"] = admin.may_stop_waiting(me, state, key)
    return found


def specified(step: Step) -> tuple[Send | None, object]:
    """What the specification does."""
    return step.what if isinstance(step.what, Send) else None, same(step.after)


def partings(exported: Exported) -> Iterator[str]:
    """Every row of which the machine says otherwise."""
    for step in exported.steps:
        taken = take(step)
        found = (taken[0], same(taken[1])) if isinstance(taken, tuple) else taken
        if found != specified(step):
            yield f"{step}\n  Python: {found}"
    for row in exported.answers:
        if (said := answered(row)) != row.said:
            parts = {name: (said.get(name), row.said[name]) for name in row.said}
            yield f"{row.state}\n  {[each for each in parts.items() if each[1][0] != each[1][1]]}"


def counts(exported: Exported) -> str:
    """One line about an export."""
    refusals = sum(said is not None for row in exported.answers for said in row.said.values())
    return (
        f"{exported.name}: {len(exported.steps):,} steps and {len(exported.answers):,} states with "
        f"{refusals:,} refusals, from {exported.edges:,} edges"
    )


def main() -> None:
    """Go through every model that must hold."""
    with Scratch("desk") as folder:
        for model in must_hold():
            exported = export(model, folder)
            wrong = list(partings(exported))
            print(f"{counts(exported)}: {len(wrong)} otherwise in Python", flush=True)
            for each in wrong[:3]:
                print(f"  {each}")


if __name__ == "__main__":
    main()

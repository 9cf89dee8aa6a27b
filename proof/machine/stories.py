"""A step that breaks something, told with the solver's values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from kafka_marshal import Claim, encode
from kafka_marshal.machines.consumer.consumer import ConsumerState, InstanceConfig
from proof.inputs import Inputs
from proof.machine.actions import Took
from proof.machine.inputs import Machine
from proof.machine.situation import Situation
from proof.symbols import Explorer, Id, Number, Truth

Lines = Iterator[tuple[str, str]]


def named(values: Mapping[str, Any]) -> str:
    """Names and values, without what is None or False."""
    known = {name: each for name, each in values.items() if each is not None and each is not False}
    return ", ".join(name if each is True else f"{name} {each}" for name, each in known.items())


def _fields(value: Any, *without: str) -> str:
    return named(
        {
            each.name: getattr(value, each.name)
            for each in attrs.fields(type(value))
            if each.name not in without
        }
    )


def _valued(inputs: Inputs, explorer: Explorer, found: Any) -> str:
    """A part of a situation."""

    def value(each: Any) -> Any:
        return inputs.valued(each, explorer) if isinstance(each, Id | Number | Truth) else each

    fields = attrs.fields(type(found))
    return named({each.name: value(getattr(found, each.name)) for each in fields})


def _looked_at(inputs: Inputs, explorer: Explorer, now: Situation) -> Lines:
    epoch, message, done = (
        inputs.valued(each, explorer) if isinstance(each, Number | Truth) else each
        for each in (now.epoch, now.message, now.done)
    )
    yield "tenure", f"epoch {epoch}: {_valued(inputs, explorer, now.tenure) or 'not begun'}"
    yield "message", f"{message}, {'processed' if done else 'not processed'} in this tenure"


def _record(inputs: Inputs, explorer: Explorer) -> Lines:
    record = inputs.concrete(explorer)[1]
    yield "record", f"{encode(record.message).decode()} at offset {record.offset}"
    yield "headers", _fields(record.headers) or "none"


def appended(
    inputs: Inputs, explorer: Explorer, now: Situation, later: Situation, after: Claim
) -> Lines:
    """A record of the log, what it did to the claim, and what is looked at."""
    assert now.log is not None
    yield "instance", _valued(inputs, explorer, now.me)
    yield from _looked_at(inputs, explorer, now)
    yield "knows", _valued(inputs, explorer, now.memory.known)
    yield "claim", _fields(inputs.valued(now.log, explorer))
    yield from _record(inputs, explorer)
    yield "becomes", _fields(inputs.valued(after, explorer))
    yield "so that", _valued(inputs, explorer, later.tenure)


def _state(consumer: ConsumerState) -> str:
    claim = _fields(consumer.known)
    rest = {
        "next": consumer.next,
        "resigned": consumer.resigned,
        "granted": consumer.granted or None,
    }
    return f"{named(rest)}; knows {claim}"


def told(of: Machine, explorer: Explorer, took: Took | None, *, reads: bool = False) -> Lines:
    """An instance, its state, and what it does."""
    me: InstanceConfig = of.values(explorer, of.me)
    yield "instance", f"{_fields(me, 'rules', 'mode')}, {me.mode.value}"
    yield from _looked_at(of.inputs, explorer, of.now)
    yield "state", _state(of.values(explorer, of.consumer))
    if took is None:
        return
    if reads:
        yield from _record(of.inputs, explorer)
    if took.sent is not None:
        sent = of.values(explorer, took.sent)
        yield "sends", f"{encode(sent.message).decode()}, {_fields(sent.headers)}"
    yield "becomes", _state(of.values(explorer, took.consumer))
    yield "flying", _valued(of.inputs, explorer, of.flying)


def two_told(
    of: Machine, explorer: Explorer, they: InstanceConfig, other: ConsumerState, _: None
) -> Lines:
    """Two instances, and what each knows."""
    for name, who, consumer in (("one", of.me, of.consumer), ("other", they, other)):
        config = of.values(explorer, attrs.evolve(who, rules=of.me.rules))
        yield name, f"{config.instance_id} of {config.client_id}"
        yield "state", _state(of.values(explorer, consumer))

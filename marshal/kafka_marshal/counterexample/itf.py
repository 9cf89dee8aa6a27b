"""The Informal Trace Format: a counterexample as JSON that other tools read.

Apalache and Quint write the format, and viewers show it: a list of states, each with a value for
every variable (Apalache's ADR-015). The story, for which the format has no place, is in `#meta`,
which every reader skips, so that reading it back loses nothing. Foreign files are read too: their
steps have an action, if they name one, and no story.

It knows the notation, as `Expression`, and not the meaning of variables.
`kafka_marshal.modelcheck.stories.itf`, which has those values, makes expressions of them.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from typing import Any, Final

import attrs

from kafka_marshal.counterexample.model import (
    Counterexample,
    Expression,
    Participant,
    Step,
    StepKind,
)

DESCRIPTION: Final = "https://apalache-mc.org/docs/adr/015adr-trace.html"
INTEGER_MAX: Final = 2**53 - 1
"""A JSON number beyond this is another number to many a reader, so it is written as text."""

_META_OF_STEP = tuple(
    field.name for field in attrs.fields(Step) if field.name not in ("number", "state")
)
_ACTION_OF_OTHERS = ("mbt::actionTaken", "action_taken")
"""Variables in which Quint and Apalache's users keep the name of the action."""


class MalformedTraceError(ValueError):
    """The text is not a trace in the Informal Trace Format."""


def integer(number: int) -> Expression:
    """An integer that no reader rounds.

    >>> integer(7), integer(2**53)
    (7, {'#bigint': '9007199254740992'})
    """
    return number if abs(number) <= INTEGER_MAX else {"#bigint": str(number)}


def dumps(counterexample: Counterexample) -> str:
    """The text of a file `*.itf.json`."""
    return json.dumps(to_json(counterexample), indent=1) + "\n"


def to_json(counterexample: Counterexample) -> dict[str, Any]:
    """The trace as JSON values."""
    known = [step.state for step in counterexample.steps if step.state is not None]
    trace: dict[str, Any] = {
        "#meta": {
            "format": "ITF",
            "format-description": DESCRIPTION,
            "description": counterexample.about,
            "source": counterexample.source,
            **_given(counterexample, ("violated", "violated_at", "wrong")),
            "participants": [attrs.asdict(who) for who in counterexample.participants],
        },
        "params": [],
        "vars": sorted(set().union(*known)),
        "states": [_state(step) for step in counterexample.steps],
    }
    if counterexample.loop_back_to is not None:
        trace["loop"] = counterexample.loop_back_to
    return trace


def loads(text: str, where: str = "a trace") -> Counterexample:
    """Parse a counterexample; raises MalformedTraceError, naming `where`."""
    try:
        trace = json.loads(text)
        meta = trace.get("#meta", {})
        return Counterexample(
            violated=meta.get("violated"),
            source=meta.get("source", where),
            participants=tuple(Participant(**who) for who in meta.get("participants", [])),
            steps=tuple(_step(number, state) for number, state in enumerate(trace["states"])),
            violated_at=meta.get("violated_at"),
            loop_back_to=trace.get("loop"),
            about=meta.get("description", ""),
            wrong=meta.get("wrong", ""),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise MalformedTraceError(f"{where}: {error!r}") from error


def _state(step: Step) -> dict[str, Any]:
    meta = {"index": step.number, **_given(step, _META_OF_STEP)}
    if step.state is None:
        meta["unknown"] = True
    return {"#meta": meta, **(step.state or {})}


def _given(thing: Counterexample | Step, names: tuple[str, ...]) -> dict[str, Any]:
    """The fields that are set; an enumeration's value, since the trace is for other tools."""
    values = {
        name: getattr(thing, name)
        for name in names
        if getattr(thing, name) != getattr(attrs.fields_dict(type(thing))[name], "default", None)
    }
    return {
        name: value.value if isinstance(value, enum.Enum) else value
        for name, value in values.items()
    }


def _step(number: int, state: Mapping[str, Any]) -> Step:
    meta = state.get("#meta", {})
    given = {name: meta[name] for name in _META_OF_STEP if name in meta}
    for name in _ACTION_OF_OTHERS:
        if isinstance(state.get(name), str):
            given.setdefault("action", state[name])
    if "kind" in given:
        given["kind"] = StepKind(given["kind"])
    variables = {name: value for name, value in state.items() if name != "#meta"}
    return Step(number=number, state=None if meta.get("unknown") else variables, **given)

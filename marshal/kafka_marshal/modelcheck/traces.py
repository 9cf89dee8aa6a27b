"""The counterexamples in `spec/traces/`, one JSON file per model.

The stories of `spec/README.md` are made from them without running TLC, and `make spec` compares
them with TLC's results. This module does not know the meaning of the variables. A state only lists
the changes of its action, as paths into the variables with values in TLA+ notation. So a diff of
two files shows exactly the steps in which they differ.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from kafka_marshal.modelcheck.errors import ModelCheckError
from kafka_marshal.modelcheck.models import Model, ModelKind
from kafka_marshal.modelcheck.tlc.output import TlcResult, TlcState, Trace
from kafka_marshal.modelcheck.tlc.values import Function, Value, function, parse, unparse


def is_kept(model: Model) -> bool:
    """Whether a model's counterexample is a story: one that only proves reachability is not."""
    return model.must_fail and model.kind is not ModelKind.REACHABILITY


def store(folder: Path, model: Model, result: TlcResult) -> None:
    """Write the counterexample of a run."""
    assert result.trace is not None
    path = _path(folder, model)
    path.parent.mkdir(exist_ok=True)
    path.write_text(dumps(result.trace), encoding="utf-8")


def stored(folder: Path, model: Model) -> Trace | None:
    """Return the stored counterexample, or None."""
    text = stored_text(folder, model)
    return None if text is None else loads(text, str(_path(folder, model)))


def stored_text(folder: Path, model: Model) -> str | None:
    """Return the file of the stored counterexample, or None."""
    path = _path(folder, model)
    return path.read_text(encoding="utf-8") if path.is_file() else None


def check_no_strangers(folder: Path, models: Iterable[Model]) -> None:
    """Raise ModelCheckError if a file belongs to no model any more."""
    expected = {_path(folder, model).name for model in models if is_kept(model)}
    strangers = {path.name for path in (folder / "traces").glob("*.json")} - expected
    if strangers:
        raise ModelCheckError(f"spec/traces: no model keeps {', '.join(sorted(strangers))}")


def dumps(trace: Trace) -> str:
    """Return a counterexample as the text of its file."""
    states = []
    before: Mapping[str, Value] = {}
    for state in trace.states:
        changes: dict[str, str] = {}
        for name, value in sorted(state.variables.items()):
            if name not in before:
                changes[name] = unparse(value)
            elif before[name] != value:
                found = _changes(name, before[name], value)
                changes |= {path: unparse(changed) for path, changed in found}
        states.append({"action": state.action, "changes": changes})
        before = state.variables
    return json.dumps({"back_to": trace.back_to, "states": states}, indent=1) + "\n"


def loads(text: str, where: str = "a trace") -> Trace:
    """Parse a counterexample; raises ModelCheckError, naming `where`."""
    try:
        content = json.loads(text)
        states = []
        now: dict[str, Value] = {}
        for state in content["states"]:
            now = dict(now)
            for path, changed in state["changes"].items():
                name, steps = _read_path(path)
                now[name] = _with(now.get(name, ()), steps, parse(changed))
            states.append(TlcState(state["action"], now))
        return Trace(tuple(states), content["back_to"])
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise ModelCheckError(f"{where}: {error!r}") from error


def _changes(path: str, before: Value, now: Value) -> Iterator[tuple[str, Value]]:
    """Yield the paths at which two values differ, as deep as their shapes are the same.

    Through records and functions of integers with one domain, and into sequences that grew.
    """
    if before == now:
        return
    if isinstance(before, Function) and isinstance(now, Function) and before.keys() == now.keys():
        steps = {key: step for key in now if (step := _step(key)) is not None}
        if len(steps) == len(now):
            for key in sorted(now, key=steps.__getitem__):
                yield from _changes(f"{path}{steps[key]}", before[key], now[key])
            return
    if isinstance(before, tuple) and isinstance(now, tuple) and 0 < len(before) <= len(now):
        for n, element in enumerate(now):
            if n < len(before):
                yield from _changes(f"{path}[{n + 1}]", before[n], element)
            else:
                yield f"{path}[{n + 1}]", element
        return
    yield path, now


def _step(key: Value) -> str | None:
    if isinstance(key, str) and re.fullmatch(r"[A-Za-z_]\w*", key, re.ASCII):
        return f".{key}"
    return f"[{key}]" if type(key) is int else None


def _read_path(path: str) -> tuple[str, list[str | int]]:
    found = re.fullmatch(r"(\w+)((?:\.\w+|\[-?\d+\])*)", path)
    if found is None:
        raise ValueError(f"{path!r} is no path")
    steps = re.findall(r"\.(\w+)|\[(-?\d+)\]", found[2])
    return found[1], [name or int(number) for name, number in steps]


def _with(value: Value, steps: list[str | int], changed: Value) -> Value:
    """Return `value` with `changed` at the end of the steps."""
    if not steps:
        return changed
    first, *rest = steps
    if isinstance(value, tuple) and isinstance(first, int):
        inner = value[first - 1] if first <= len(value) else ()
        return (*value[: first - 1], _with(inner, rest, changed), *value[first:])
    if isinstance(value, Function):
        return function({**value, first: _with(value[first], rest, changed)})
    raise ValueError(f"a path leads through {unparse(value)}")


def _path(folder: Path, model: Model) -> Path:
    return folder / "traces" / f"{model.name}.json"

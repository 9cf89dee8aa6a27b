"""Every case of the shipped `step`, all its paths, and every property on each."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import attrs
from attrs import define, field, frozen
from tests.triples import Triple

from kafka_marshal import Accepted, Claim, Refused, Verdict, encode
from kafka_marshal.core.claims import fenced, invariants
from kafka_marshal.core.claims import reducer as _reducer
from kafka_marshal.core.claims.reducer import step
from proof.inputs import Case, Inputs
from proof.properties import INVARIANT, PROVED, Conjunct, Proved, Witness
from proof.smt.solver import Smt
from proof.symbols import Escaped, Explorer, Formula, Truth, exploring, formula_of
from proof.table import story

GUARDS: Final = (
    *("_not_decimal", "_from_the_future", "has_bad_headers", "says_position", "says_it_sets"),
)
"""Functions of `fenced` without effect that answer yes or no: each is merged into one formula."""
reducer_now: Final[Any] = _reducer
"""Its transitions are replaced where a mutant of `fenced` is examined."""
NEVER_RAISES: Final = "NeverRaises"
"""The property that `step` returns, whatever it is given."""


@frozen
class Refuted:
    """A step that breaks a property."""

    property: str
    taken: Triple
    witness: Mapping[str, Any]
    """Values of the message of which it is broken."""

    def story(self) -> str:
        """What was, what came, and what became of it."""
        taken, record = self.taken, self.taken.record
        headers = {
            name: value
            for name, value in attrs.asdict(record.headers).items()
            if value not in (None, False)
        }
        before = attrs.asdict(taken.before, filter=lambda _, value: value is not None)
        interval, pause = taken.rules.heartbeat_interval_ms, taken.rules.pause_max_ms
        lines = {
            "rules": f"interval {interval} ms, pauses of {pause} ms at most",
            "claim": _named(before),
            "record": f"{encode(record.message).decode()} at offset {record.offset}, "
            f"{record.timestamp_ms} ms",
            "headers": _named(headers) or "none",
            "verdict": _judged(taken.verdict),
            "changes": _named(_changes(taken.before, taken.after)) or "none",
            "message": _named(self.witness),
        }
        return story(f"{self.property} is broken", lines.items())


def _judged(verdict: object) -> str:
    """A mistake may return anything."""
    if not isinstance(verdict, Accepted | Refused):
        return repr(verdict)
    return f"{verdict.value}: {verdict.sentence}"


def _changes(before: Claim, after: object) -> dict[str, str]:
    if not isinstance(after, Claim):
        return {"claim": f"-> {after!r}"}
    return {
        each.name: f"{was} -> {now}"
        for each in attrs.fields(Claim)
        if (was := getattr(before, each.name)) != (now := getattr(after, each.name))
    }


def _named(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


@define
class Result:
    """What came of one case."""

    case: Case
    paths: int = 0
    """How many paths `step` has."""
    reached: Counter[str] = field(factory=Counter)
    """How many of them end in each verdict."""
    examined: Counter[str] = field(factory=Counter)
    """By property: how many paths through its own code."""
    asked: Counter[str] = field(factory=Counter)
    """By property: how many questions to the solver."""
    seconds: defaultdict[str, float] = field(factory=lambda: defaultdict(float))
    """By property, and of `step`."""
    repeated: int = 0
    """How many paths plain Python took with the solver's values, and came to the same."""
    refuted: list[Refuted] = field(factory=list)


@contextmanager
def merged(solver: Smt) -> Iterator[None]:
    """Meanwhile each of GUARDS, and the like of a check, is one question."""

    def guard(right: Callable[..., Any]) -> Callable[..., Any]:
        known: dict[tuple[int, ...], tuple[tuple[Any, ...], Formula]] = {}

        def ask(*of: Any) -> Any:
            if not exploring():
                return right(*of)
            key = tuple(map(id, of))
            if key not in known:  # and hold what has this id
                known[key] = of, formula_of(solver, lambda: right(*of))
            return Truth(solver, known[key][1])

        return ask

    rules = {fenced.__name__: fenced, "as it is now": reducer_now.fenced}
    of = [(module, name) for module in rules.values() for name in GUARDS]
    of.append((invariants, "_headers_are_odd"))
    before = [(module, name, getattr(module, name)) for module, name in dict.fromkeys(of)]
    for module, name, right in before:
        setattr(module, name, guard(right))
    try:
        yield
    finally:
        for module, name, right in before:
            setattr(module, name, right)


@contextmanager
def unchecked() -> Iterator[None]:
    """Validators of settings ask what no path depends on."""
    attrs.validators.set_disabled(True)
    try:
        yield
    finally:
        attrs.validators.set_disabled(False)


@contextmanager
def beginning(
    case: Case, solver: Smt, invariant: Mapping[str, Conjunct]
) -> Iterator[tuple[Inputs, Explorer]]:
    """Everything that the case stands for and the invariant is true of."""
    inputs, explorer = Inputs(solver, case), Explorer(solver)
    for each in inputs.assumed:
        explorer.assume(each)
    for conjunct in invariant.values():
        explorer.assume(formula_of(solver, partial(conjunct, inputs.claim, inputs.last)))
    with merged(solver), unchecked():
        yield inputs, explorer


def prove(
    case: Case,
    solver: Smt,
    properties: Sequence[Proved] = PROVED,
    invariant: Mapping[str, Conjunct] = INVARIANT,
    *,
    until_refuted: bool = False,
) -> Result:
    """Prove these properties of all that the case stands for, or find a step that breaks one."""
    result = Result(case)
    with beginning(case, solver, invariant) as (inputs, explorer):
        witness = Witness(
            inputs.number("message"),
            inputs.truth("granted"),
            inputs.truth("done"),
            inputs.number("won_at"),
        )

        def stepped() -> tuple[Claim, Verdict] | Exception:
            try:
                after, verdict = step(inputs.claim, inputs.record, inputs.rules)
                return after, type(verdict)(verdict.value)
            except Exception as error:
                return error

        began_s = time.perf_counter()
        for end in explorer.explore(stepped):
            result.paths += 1
            result.seconds["step"] += time.perf_counter() - began_s
            if isinstance(end, Exception):
                before, record, rules = inputs.concrete(explorer)
                raised = Triple(rules, before, record, before, Refused.UNKNOWN_VERSION)
                result.refuted.append(Refuted(f"{NEVER_RAISES}: {end!r}", raised, {}))
                break
            result.reached[end[1].value] += 1
            _repeat(inputs, explorer, *end)
            result.repeated += 1
            taken = Triple(inputs.rules, inputs.claim, inputs.record, *end)
            for each in properties:
                began_s, asked = time.perf_counter(), explorer.checks
                for refuted in _examine(each, inputs, explorer, taken, witness):
                    result.examined[each.name] += 1
                    if refuted is not None:
                        result.refuted.append(refuted)
                        break
                result.asked[each.name] += explorer.checks - asked
                result.seconds[each.name] += time.perf_counter() - began_s
            if result.refuted and until_refuted:
                break
            began_s = time.perf_counter()
    if not result.paths:
        raise Escaped(f"{case}: nothing is left of it under what is assumed")
    return result


def differs(case: Case, solver: Smt) -> bool:
    """Whether the reducer, as it is now, says or does anything otherwise than as it ships."""
    with beginning(case, solver, INVARIANT) as (inputs, explorer):
        of = inputs.claim, inputs.record, inputs.rules
        now = reducer_now.fenced

        def same() -> bool:
            try:
                mine, said = step(*of)
                bad, guard = now.has_bad_headers(inputs.record), now.header_guard(inputs.record)
            except Exception:
                return False
            reducer_now.fenced = fenced
            try:
                theirs, wanted = step(*of)
            finally:
                reducer_now.fenced = now
            if said is not wanted or bad != fenced.has_bad_headers(inputs.record):
                return False
            if guard is not fenced.header_guard(inputs.record):
                return False
            return bool(mine == theirs)

        return not all(explorer.explore(same))


def _examine(
    proved: Proved, inputs: Inputs, explorer: Explorer, taken: Triple, witness: Witness
) -> Iterator[Refuted | None]:
    """Each path of the property's own code, with what breaks it there."""
    solver = inputs.smt
    with explorer.within():
        for each in proved.witness:
            explorer.assume(formula_of(solver, partial(each, inputs.claim, witness)))
        if proved.promise is not None:
            explorer.assume(formula_of(solver, partial(proved.promise, taken, witness)))

        def holds_here() -> bool:
            try:
                return bool(proved.holds(taken, witness))
            except Exception:  # of a claim that no reducer should make
                return False

        for holds in explorer.explore(holds_here):
            if holds:
                yield None
                continue
            before, record, rules = inputs.concrete(explorer)
            values = {
                name: explorer.value(value.formula)
                for name, value in attrs.asdict(witness, recurse=False).items()
            }
            yield Refuted(
                proved.name, Triple(rules, before, record, *step(before, record, rules)), values
            )


def _repeat(inputs: Inputs, explorer: Explorer, after: Claim, verdict: Verdict) -> None:
    """Plain Python takes the same path with the solver's values, and comes to the same."""
    before, record, rules = inputs.concrete(explorer)
    found, said = step(before, record, rules)
    wanted = inputs.valued(after, explorer)
    if said is not verdict or found != wanted:
        raise Escaped(f"{before} and {record}: {said} and {found}, not {verdict} and {wanted}")

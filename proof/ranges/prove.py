"""Every case of the shipped `step` of ranges, all its paths, and every property on each.

What the claim below does is anything that is proved of it (`ON_THE_CLAIM`), so its paths are not
taken again. Lists have any length: `proof.ranges.others` says how.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import pairwise
from typing import Any, Final

import attrs
from attrs import define, field, frozen

from kafka_marshal import Accepted, Claim
from kafka_marshal.core.messages import Record
from kafka_marshal.core.ranges import claiming_range, reducer
from kafka_marshal.core.ranges.claiming_range import RangeOutcome
from kafka_marshal.core.ranges.state import Ranges
from proof.machine.logic import assume, choose, every, false_of, implies, no, some
from proof.prove import merged, unchecked
from proof.ranges.inputs import RangesCase, RangesInputs
from proof.ranges.others import ASKED, TOLD, counting
from proof.ranges.properties import (
    INVARIANT,
    STEPS,
    Now,
    Offset,
    Step,
    equal,
    gives_back_unbegun,
    has_begun,
    is_given,
)
from proof.smt.solver import Smt
from proof.symbols import Escaped, Explorer, Truth, exploring, formula_of
from proof.table import story

HYPOTHESES: Final[Mapping[str, str]] = {
    "OffsetsRise": "a record's offset is above those of all records before it",
    "GivesBackUnbegun": "what is given back was not begun, and will not be",
    "GrantedAtMostOnce": "what is granted under a wider window counts for nothing in AtMostOnce",
    "AnchorSaysLow": "at least once only the anchor moves the position, to the lowest it read of",
    "OnlyASetMovesBack": "of the claim, as proved: its position falls only where somebody sets it",
}
"""What is assumed. Each is needed: `COUNTERMODELS` of the tests name what is broken without it."""
NEVER_RAISES: Final = "NeverRaises"
VERSIONS_AGREE: Final = "VersionsAgree"
NAMES: Final = (*dict.fromkeys((*INVARIANT, *STEPS)), NEVER_RAISES, VERSIONS_AGREE)
"""All that is proved."""
GUARDS: Final = (
    *("range_header_not_decimal", "seen_missing", "its_own", "gives_back", "is_silent"),
    *("too_many_open", "window_full", "sleeps_alive"),
)
"""Functions without effect that answer yes or no: each is merged into one formula."""


@frozen
class Broken:
    """A step that breaks something."""

    property: str
    lines: tuple[tuple[str, str], ...]

    def story(self) -> str:
        """What was, what came, and what became of it."""
        return story(f"{self.property} is broken", self.lines)


@define
class RangesResult:
    """What came of one case."""

    case: RangesCase
    paths: int = 0
    examined: Counter[str] = field(factory=Counter)
    """By property: of how many paths it was asked."""
    asked: int = 0
    seconds: float = 0.0
    reached: set[str] = field(factory=set)
    """Verdicts, and why nothing was granted."""
    repeated: int = 0
    """How many paths plain Python took with the solver's values, and came to the same."""
    broken: list[Broken] = field(factory=list)


@frozen
class Modules:
    """What is proved: the shipped modules, or mutants of them."""

    effects: Any = claiming_range
    steps: Any = reducer


SHIPPED: Final = Modules()
STEPS_NOW: Final[Any] = reducer
"""Its effects are replaced where a mutant of them is examined."""


@contextmanager
def merging(solver: Smt, module: Any) -> Iterator[None]:
    """Meanwhile each of GUARDS is one question."""

    def guard(right: Callable[..., Any]) -> Callable[..., Any]:
        def ask(*of: Any) -> Any:
            if not exploring():
                return right(*of)
            return Truth(solver, formula_of(solver, lambda: right(*of)))

        return ask

    before = {name: getattr(module, name) for name in GUARDS}
    for name, right in before.items():
        setattr(module, name, guard(right))
    try:
        yield
    finally:
        for name, right in before.items():
            setattr(module, name, right)


@contextmanager
def claim_is(module: Any, taken: Callable[..., Any]) -> Iterator[None]:
    """Meanwhile this is what a record does to a claim."""
    before = module.claim_step
    module.claim_step = taken
    try:
        yield
    finally:
        module.claim_step = before


def _claim_step(
    inputs: RangesInputs, differs: list[str], claim: Claim, record: Any, rules: Any
) -> tuple[Claim, Any]:
    """Anything that is proved of a claim. It must be asked of this claim, and this record."""
    fields = [each.name for each in attrs.fields(Record)]
    same = all(getattr(record, each) is getattr(inputs.asked, each) for each in fields)
    if claim is not inputs.claim or rules is not inputs.rules or not same:
        differs.append(VERSIONS_AGREE)
    return inputs.claim_after, inputs.looked_at.verdict


def now_before(inputs: RangesInputs, *, any_window: bool = False) -> Now:
    """What is looked at, before the record."""
    x, by, low = (inputs.number(each) for each in ("x", "taken by", "low"))
    offset = Offset(x, inputs.truth("taken"), by, low, any_window)
    ranges = inputs.ranges
    number = len(ranges.open) + len(ranges.pool) + inputs.others_before
    if not has_begun(ranges):
        number = 0
    limit = inputs.limits.intervals_max
    return Now(ranges, inputs.claim, inputs.last, offset, number, limit)


def prove_ranges(
    case: RangesCase,
    solver: Smt,
    without: frozenset[str] = frozenset(),
    modules: Modules = SHIPPED,
    names: frozenset[str] = frozenset(NAMES),
) -> RangesResult:
    """Prove all of what the case stands for, or find a step that breaks something."""
    result, began_s = RangesResult(case), time.perf_counter()
    inputs, explorer = RangesInputs.of(solver, case), Explorer(solver)
    before = now_before(inputs, any_window="GrantedAtMostOnce" in without)
    rises = (inputs.record.offset > inputs.last).formula
    for each in inputs.assumed:
        if each is not rises or "OffsetsRise" not in without:
            explorer.assume(each)
    for name, conjunct in INVARIANT.items():
        if name not in without:
            assume(explorer, conjunct(before))
    moves = inputs.claim_after.position >= inputs.claim.position
    if case.verdict is not Accepted.POSITION_SET and "OnlyASetMovesBack" not in without:
        assume(explorer, moves)
    differs: list[str] = []

    def stepped() -> RangeOutcome | Exception:
        inputs.others.at = TOLD
        try:
            outcome: RangeOutcome = modules.steps.step(
                inputs.ranges, inputs.claim, inputs.asked, inputs.rules, inputs.limits
            )
        except Exception as error:
            return error
        return outcome

    with ExitStack() as stack:
        for context in (
            merged(solver),
            unchecked(),
            counting(inputs.others, modules.effects, modules.steps),
            merging(solver, modules.effects),
            claim_is(modules.steps, partial(_claim_step, inputs, differs)),
        ):
            stack.enter_context(context)
        for end in explorer.explore(stepped):
            result.paths += 1
            if not _ask(result, inputs, explorer, before, end, differs, without, names):
                break
            if modules is SHIPPED:
                _repeat(inputs, explorer, end)
                result.repeated += 1
    if not result.paths:
        raise Escaped(f"{case}: nothing is left of it under what is assumed")
    result.asked, result.seconds = explorer.checks, time.perf_counter() - began_s
    return result


def differs(case: RangesCase, solver: Smt, modules: Modules) -> bool:
    """Whether these do or say anything otherwise than what ships."""
    inputs, explorer = RangesInputs.of(solver, case), Explorer(solver)
    before = now_before(inputs)
    for each in inputs.assumed:
        explorer.assume(each)
    for conjunct in INVARIANT.values():
        assume(explorer, conjunct(before))
    of = inputs.ranges, inputs.claim, inputs.asked, inputs.rules, inputs.limits
    asked_of_others: list[str] = []

    def same() -> bool:
        now = STEPS_NOW.claiming_range
        try:
            inputs.others.at = TOLD
            mine = modules.steps.step(*of)
        except Exception:
            return False
        STEPS_NOW.claiming_range = claiming_range.claiming_range
        try:
            inputs.others.at = TOLD
            theirs = reducer.step(*of)
        finally:
            STEPS_NOW.claiming_range = now
        if asked_of_others or mine.verdict is not theirs.verdict or mine.guard is not theirs.guard:
            return False
        return bool(equal(mine.ranges, theirs.ranges))

    with ExitStack() as stack:
        for context in (
            merged(solver),
            unchecked(),
            counting(inputs.others, claiming_range, reducer),
            counting(inputs.others, modules.effects, modules.steps),
            merging(solver, claiming_range),
            claim_is(reducer, partial(_claim_step, inputs, asked_of_others)),
            claim_is(modules.steps, partial(_claim_step, inputs, asked_of_others)),
        ):
            stack.enter_context(context)
        if modules.effects is not claiming_range:
            stack.enter_context(merging(solver, modules.effects))
        return not all(explorer.explore(same))


def _ask(
    result: RangesResult, inputs: RangesInputs, explorer: Explorer, before: Now, end: Any,
    differs: list[str], without: frozenset[str], names: frozenset[str],
) -> bool:  # fmt: skip
    """Note what does not hold on this path. Returns whether to go on."""
    try:
        if isinstance(end, Exception):
            raise end
        step, goals = _goals(inputs, before, end, differs, without)
        said = {each.value for each in (end.verdict, end.guard) if each is not None}
    except Exception as error:  # also of ranges that no reducer should make
        assert explorer.feasible
        result.broken.append(told(f"{NEVER_RAISES}: {error!r}", inputs, explorer, before, None))
        return False
    result.examined[NEVER_RAISES] += 1
    result.reached |= said
    goals = {name: goal for name, goal in goals.items() if name in names}
    result.examined.update(list(goals))
    with explorer.within():
        for each in _hypotheses(step, without):
            assume(explorer, each)
        for name in false_of(explorer, goals):
            result.broken.append(told(name, inputs, explorer, before, step))
    return not result.broken


def _goals(
    inputs: RangesInputs, before: Now, end: RangeOutcome, differs: list[str],
    without: frozenset[str],
) -> tuple[Step, dict[str, Any]]:  # fmt: skip
    claim_after = inputs.claim_after if inputs.looked_at.verdict else inputs.claim
    step = Step(inputs, before, end, claim_after)
    after = now_after(step, without)
    goals = {name: holds(after) for name, holds in INVARIANT.items()}
    goals["Bounded"] = implies(_others_get_fewer(step), goals["Bounded"])
    # Of ranges that begin anew nothing was said.
    goals["LowIsMonotone"] = implies(step.go_on, goals["LowIsMonotone"])
    goals |= {name: holds(step) for name, holds in STEPS.items()}
    if "GivesBackUnbegun" in without:
        goals["AtMostOnce"] = no(every(is_given(step), before.offset.taken))
    goals[VERSIONS_AGREE] = not differs
    differs.clear()
    return step, goals


def now_after(step: Step, without: frozenset[str]) -> Now:
    """What is looked at, after the record."""
    of, after, inputs = step.before.offset, step.after, step.inputs
    given, back = is_given(step), gives_back_unbegun(step)
    if "GivesBackUnbegun" in without:
        back = False
    still = every(of.taken, no(back), step.outcome.verdict is not Accepted.POSITION_SET)
    offset = inputs.asked.offset
    later = attrs.evolve(of, taken=some(given, still), by=choose(given, offset, of.by))
    others = inputs.others.intervals[ASKED] if step.accepted else inputs.others_before
    if not step.is_request:
        others = choose(step.go_on, others, 0)
    number = len(after.open) + len(after.pool) + others if has_begun(after) else 0
    limit = step.before.intervals_max
    return Now(after, step.claim_after, offset, later, number, limit)


def _others_get_fewer(step: Step) -> Any:
    """The element that `keep` cuts is looked at, if there is one: there are no two, being disjoint.

    What is not cut becomes one element at most (KeepsItsNumber), so others get no more.
    """
    others = [step.inputs.others_before, *step.inputs.others.intervals]
    return every(*(one >= other for one, other in pairwise(others)))


def _hypotheses(step: Step, without: frozenset[str]) -> Iterator[Any]:
    """What is assumed of this step."""
    if step.is_request or not has_begun(step.ranges) or "AnchorSaysLow" in without:
        return
    at = step.claim_after.position
    forward = at > step.before.claim.position
    low = at == step.before.offset.low
    yield implies(step.go_on, no(step.ranges.window == 0), forward, low)


def _repeat(inputs: RangesInputs, explorer: Explorer, end: RangeOutcome) -> None:
    """Plain Python takes the same path with the solver's values, and comes to the same."""
    ranges, claim, record, rules, limits = inputs.taken(explorer)
    after = inputs.valued(inputs.claim_after, explorer)
    with (
        counting(inputs.plain_others(explorer), claiming_range, reducer),
        claim_is(reducer, lambda *_: (after, inputs.looked_at.verdict)),
    ):
        found = reducer.step(ranges, claim, record, rules, limits)
    wanted = attrs.evolve(end, ranges=inputs.plain(end.ranges, explorer))
    if found != wanted:
        raise Escaped(f"{ranges} and {record}: {found}, not {wanted}")


def told(
    name: str, inputs: RangesInputs, explorer: Explorer, before: Now, step: Step | None
) -> Broken:
    """A step that breaks this, with the solver's values."""
    ranges, claim, record, rules, limits = inputs.taken(explorer)
    message = record.message
    offset = before.offset
    values = {each.name: getattr(offset, each.name) for each in attrs.fields(Offset)}
    lines = [
        ("claim", f"position {claim.position}, {'owned' if claim.owned else 'nobody owns'}"),
        ("ranges", _named(ranges)),
        ("record", f"{type(message).__name__} at offset {record.offset}, {record.timestamp_ms} ms"),
        ("headers", _named(record.headers) + ", " + _named(record.range_headers)),
        ("rules", f"interval {rules.heartbeat_interval_ms} ms, {_named(limits)}"),
        ("offset", ", ".join(f"{k} {inputs.valued(v, explorer)}" for k, v in values.items())),
    ]
    if hasattr(message, "count"):
        lines[2] = (lines[2][0], f"{lines[2][1]}, for {message.count}")
    if step is not None and isinstance(step.after, Ranges):
        verdict = step.outcome.verdict
        lines += [
            ("verdict", str(getattr(verdict, "value", verdict))),
            ("after", _named(inputs.plain(step.after, explorer))),
        ]
    return Broken(name, tuple(lines))


def _named(of: Any) -> str:
    fields = {each.name: getattr(of, each.name) for each in attrs.fields(type(of))}
    found = {name: _short(each) for name, each in fields.items() if each not in (None, (), False)}
    return ", ".join(f"{name} {each}" for name, each in found.items()) or "none"


def _short(of: Any) -> Any:
    if isinstance(of, tuple):
        return "; ".join(" ".join(map(str, attrs.astuple(each))) for each in of)
    return of

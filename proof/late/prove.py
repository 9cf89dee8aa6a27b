"""The shipped `read_record` beside the shipped `step`, for every reader, claim, record and rule.

One case for each message and for how much a reader knows: all of it, the owner, or not the owner.
Each path of both is taken again by plain Python. This room does not know what ties the two
(`relation`), nor how senders come to their headers (`lemmas`).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import attrs
from attrs import define, field, frozen

from kafka_marshal import Claim, Record, Rules, Verdict, encode
from kafka_marshal.core.claims.reducer import step
from kafka_marshal.core.claims.suffix_reader import Reader, read_record
from proof.inputs import Case
from proof.late.consequences import PROVED, Conclusions, Taken
from proof.late.inputs import LateCase, LateInputs
from proof.late.promise import (
    HONEST,
    KEEPS_ITS_PROMISE,
    PROMISE,
    certifies_with_its_epoch,
    clock_bounded,
    is_honest,
)
from proof.late.relation import RELATION, State
from proof.late.symbols import followed, valued
from proof.properties import INVARIANT
from proof.prove import merged, unchecked
from proof.smt.solver import Smt
from proof.symbols import Escaped, Explorer, formula_of

OF_THE_LOG: Final = "ClockBoundedByTheLog"
"""The hypothesis on brokers' clocks; `promise.clock_bounded`."""


@frozen
class LateRefuted:
    """A record after which a reader is wrong, or what should tie it to the full fold is not so."""

    property: str
    full: tuple[Claim, Claim]
    """Before the record and after it."""
    reader: tuple[Reader, Reader]
    record: Record
    rules: Rules
    verdicts: tuple[Verdict, Verdict | None]
    sent: Mapping[str, Any]
    """A certificate in flight."""

    def story(self) -> str:
        """What was, what came, and what each made of it."""
        record, rules = self.record, self.rules
        full, read = self.verdicts
        lines = {
            "rules": f"interval {rules.heartbeat_interval_ms} ms, pauses of {rules.pause_max_ms} ms"
            f" at most, clocks step back by {rules.clock_rewind_max_ms} ms at most",
            "log says": _fields(self.full[0]),
            "reader": _fields(self.reader[0].claim),
            "certain": _certain(self.reader[0]),
            "record": f"{encode(record.message).decode()} at offset {record.offset}, "
            f"{record.timestamp_ms} ms",
            "headers": _fields(record.headers) or "none",
            "log then": f"{full.value}: {_fields(self.full[1])}",
            "reader then": f"{'no verdict' if read is None else read.value}: "
            + _fields(self.reader[1].claim),
            "certain then": _certain(self.reader[1]),
            "in flight": ", ".join(f"{name} {value}" for name, value in self.sent.items()),
        }
        return f"{self.property} is broken\n" + "\n".join(
            f"  {name:12} {line}" for name, line in lines.items()
        )


def _fields(of: Any) -> str:
    found = attrs.asdict(of, recurse=False)
    return ", ".join(
        f"{name} {each}" for name, each in found.items() if each is not None and each is not False
    )


def _certain(reader: Reader) -> str:
    others = attrs.asdict(reader, recurse=False, filter=lambda each, _: each.name[0] not in "c")
    known = [f"{name} {value}" for name, value in others.items() if value is not None]
    return ", ".join([*sorted(reader.certain.names), *known]) or "nothing"


@define
class LateResult:
    """What came of one case."""

    case: LateCase
    paths: int = 0
    questions: int = 0
    repeated: int = 0
    seconds: float = 0.0
    reached: Counter[str] = field(factory=Counter)
    """How many paths end in each verdict of the reader; "unknown" where it gives none."""
    refuted: list[LateRefuted] = field(factory=list)


@contextmanager
def late_beginning(
    case: LateCase, solver: Smt, without: Sequence[str] = ()
) -> Iterator[tuple[LateInputs, Explorer]]:
    """Everything that the case stands for and that is assumed of it."""
    inputs = LateInputs(solver, Case(case.message, frozenset()), knows=case.knows)
    explorer = Explorer(solver)
    for each in inputs.assumed:
        explorer.assume(each)
    with merged(solver), followed(solver), unchecked():
        for run in assumptions(inputs, without):
            explorer.assume(formula_of(solver, run))
        if without:  # Where all of it is so all is proved: look where some of it is not.
            whole = (formula_of(solver, run) for run in assumptions(inputs, ()))
            explorer.assume(solver.api.Not(solver.api.And(*whole)))
        yield inputs, explorer


def assumptions(inputs: LateInputs, without: Sequence[str]) -> Iterator[Callable[[], Any]]:
    """The invariant, the relation, the promise in flight, and the hypotheses."""
    state, sent, record = inputs.state, inputs.sent, inputs.record
    for name, each in INVARIANT.items():
        if name not in without:
            yield partial(each, inputs.claim, inputs.last)
    for name, related in RELATION.items():
        if name not in without:
            yield partial(related, state)
    promised = {name: promise for name, promise in PROMISE.items() if name not in without}
    for promise in promised.values():
        yield partial(promise, state, sent)
    # What is not promised of the record in flight is not promised of the one that lands, either.
    keeps = {KEEPS_ITS_PROMISE: lambda of, it, _: certifies_with_its_epoch(of, it, promised)}
    for name, honest in (HONEST | keeps).items():
        if name not in without:
            yield partial(is_honest, honest, state, record, sent)
    if OF_THE_LOG not in without:
        yield partial(clock_bounded, state, record)


def prove_late(
    case: LateCase,
    solver: Smt,
    *,
    names: Sequence[str] = PROVED,
    without: Sequence[str] = (),
    until_refuted: bool = False,
) -> LateResult:
    """Prove that the relation and the promise outlive a record, and what follows from them."""
    result, began_s = LateResult(case), time.perf_counter()
    with late_beginning(case, solver, without) as (inputs, explorer):
        then = Conclusions(inputs)

        def both() -> Any:
            try:
                before = inputs.state
                reader, read = read_record(before.reader, inputs.record, inputs.rules)
                full, verdict = step(before.full, inputs.record, inputs.rules)
            except Exception as error:
                return error
            after = State(full, reader, inputs.rules)
            return Taken(before, inputs.record, after, verdict, read, inputs.sent)

        for end in explorer.explore(both):
            result.paths += 1
            if isinstance(end, Exception):
                raise end
            result.reached["unknown" if end.read is None else end.read.value] += 1
            _repeat(inputs, explorer, end)
            result.repeated += 1
            if until_refuted and result.refuted:
                break
            known = {each.property for each in result.refuted}
            open_ = [name for name in names if name not in known]
            result.refuted += _examine(inputs, explorer, end, then, open_)
        result.questions = explorer.checks
    result.seconds = time.perf_counter() - began_s
    if not result.paths and not without:
        raise Escaped(f"{case}: nothing is left of it under what is assumed")
    return result


def _examine(
    inputs: LateInputs,
    explorer: Explorer,
    taken: Taken,
    then: Conclusions,
    names: Sequence[str],
) -> Iterator[LateRefuted]:
    solver = inputs.smt
    api = solver.api
    wanted = {name: then.of(taken, name) for name in names}
    after = then.after(taken)
    with explorer.within():
        for each in after:
            explorer.assume(each)
        explorer.assume(api.Not(api.And(*wanted.values(), api.BoolVal(True))))
        breaks = explorer.feasible
    if not breaks:
        return
    for name, formula in wanted.items():
        with explorer.within():
            for each in after:
                explorer.assume(each)
            explorer.assume(api.Not(formula))
            if not explorer.feasible:
                continue
            full, reader, record, rules = inputs.values(explorer)
            full_after, verdict = step(full, record, rules)
            read_after, read = read_record(reader, record, rules)
            sent = attrs.asdict(taken.sent, recurse=False)
            yield LateRefuted(
                name,
                (full, full_after),
                (reader, read_after),
                record,
                rules,
                (verdict, read),
                {name: valued(each, explorer) for name, each in sent.items()},
            )


def _repeat(inputs: LateInputs, explorer: Explorer, taken: Taken) -> None:
    """Plain Python takes the same path with the solver's values, and comes to the same."""
    full, reader, record, rules = inputs.values(explorer)
    found = *step(full, record, rules), *read_record(reader, record, rules)
    wanted = (
        valued(taken.after.full, explorer),
        taken.verdict,
        valued(taken.after.reader, explorer),
        taken.read,
    )
    if found != wanted:
        raise Escaped(f"{full}, {reader} and {record}: {found}, not {wanted}")

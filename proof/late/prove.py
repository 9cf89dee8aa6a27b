"""The shipped `read_record` beside the shipped `step`, for every reader, claim, record and rule.

One case for each message and for how much a reader knows: all of it, the owner, or not the owner.
Each path of both is taken again by plain Python. This room does not know what ties the two
(`relation`), nor how senders come to their headers (`sender`).
"""

from __future__ import annotations

import enum
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import attrs
from attrs import define, field, frozen

from kafka_marshal import Accepted, Claim, Record, Rules, Verdict, encode
from kafka_marshal.core.claims.reducer import step
from kafka_marshal.core.claims.suffix_reader import EVERYTHING, Field, Reader, read_record
from kafka_marshal.core.claims.verdicts import RELEASES, Refused
from kafka_marshal.core.state import RuleSet
from kafka_marshal.machines.consumer import consumer
from proof.inputs import MESSAGES, OPTIONAL, Case, Inputs
from proof.late import relation
from proof.late.relation import HONEST, PROMISE, RELATION, Certificate, State
from proof.late.symbols import (
    LAZY,
    Flags,
    Maybe,
    SymbolicClaim,
    SymbolicReader,
    copied,
    followed,
    valued,
)
from proof.properties import INVARIANT
from proof.prove import merged, unchecked
from proof.symbols import Diverged, Escaped, Explorer, Id, Number, Smt, Truth, formula_of

_IDS: Final = ("owner_instance", "owner_client", "pauser")
OF_THE_LOG: Final = "ClockBoundedByTheLog"
"""The hypothesis on brokers' clocks; `relation.clock_bounded`."""


class Knows(enum.Enum):
    """How much a reader knows before a record."""

    EVERYTHING = "everything"
    THE_OWNER = "the owner"
    NOT_THE_OWNER = "not the owner"


@frozen
class LateCase:
    """A message, and how much its reader knows."""

    message: type
    knows: Knows


def late_cases() -> list[LateCase]:
    """All of them, the longest first."""
    order = (Knows.THE_OWNER, Knows.NOT_THE_OWNER, Knows.EVERYTHING)
    return [LateCase(message, knows) for knows in order for message in MESSAGES]


@define(eq=False)
class LateInputs(Inputs):
    """The symbols of one case: the full fold, a reader, a record, and a certificate in flight."""

    knows: Knows = field(kw_only=True)
    reader: Any = field(init=False)
    sent: Certificate = field(init=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.claim = self.a_claim("full")
        self.rules = self._rules()
        self.reader = self.a_reader("")
        self.assumed.append((self.record.offset == self.last + 1).formula)
        self.sent = self.a_certificate()
        self.assumed += [(self.sent.seen <= self.last).formula, (self.sent.epoch >= 0).formula]
        api = self.smt.api
        both = api.And(self.sent.is_request.formula, self.sent.is_release.formula)
        self.assumed.append(api.Not(both))

    def _rules(self) -> Any:
        rewind = self.number("clock_rewind_max_ms")
        self.assumed.append((rewind >= 0).formula)
        attrs.validators.set_disabled(True)
        try:
            return Rules(
                RuleSet.FENCED, self.rules.heartbeat_interval_ms, self.rules.pause_max_ms, rewind
            )
        finally:
            attrs.validators.set_disabled(False)

    def maybe(self, name: str) -> Maybe:
        """A field that may be None."""
        make = self.an_id if name.split()[-1] in _IDS else self.number
        return Maybe(self.truth(f"has {name}"), make(name))

    def a_claim(self, of: str) -> Any:
        """Any claim."""
        return SymbolicClaim(
            **{name: self.maybe(f"{of} {name}") for name in OPTIONAL},
            position=self.number(f"{of} position"),
            clock_ms=self.number(f"{of} clock_ms"),
            won_with_headers=self.truth(f"{of} won_with_headers"),
            last_release_ms=None,
            position_set=self.truth(f"{of} position_set"),
        )

    def a_reader(self, of: str) -> Any:
        """Any reader that knows so much."""
        api = self.smt.api
        flags = {each: self.truth(f"{of}certain {each.name}").formula for each in Field}
        owner = Knows.NOT_THE_OWNER is not self.knows
        flags[Field.OWNER] = api.BoolVal(owner)
        numbers = ("undecided", "reached", "alive_ms")
        late = {name: None if owner else self.maybe(f"{of}{name}") for name in numbers}
        if self.knows is Knows.EVERYTHING:
            certain: Any = EVERYTHING
        else:
            certain = Flags(self.smt, flags)
            self.assumed.append(api.Not(api.And(*flags.values())))
        return SymbolicReader(
            claim=self.a_claim(f"{of}reader's"),
            certain=certain,
            **late,
            head_ms=self.maybe(f"{of}head_ms"),
        )

    def a_certificate(self) -> Certificate:
        """Any record of an owner that says what it saw."""
        ids = {name: self.an_id(f"sent {name}") for name in ("instance", "client")}
        numbers = ("epoch", "seen", "clock", "offset")
        truths = ("is_request", "is_release", "says_it_sets")
        return Certificate(
            **ids,
            **{name: self.number(f"sent {name}") for name in numbers},
            **{name: self.truth(f"sent {name}") for name in truths},
        )

    def values(self, explorer: Explorer) -> tuple[Claim, Reader, Record, Rules]:
        """Values for which everything is true that is assumed now."""
        self.claim, kept = Claim(), self.claim
        try:
            _, record, rules = self.concrete(explorer)
        finally:
            self.claim = kept
        rewind = valued(self.rules.clock_rewind_max_ms, explorer)
        rules = Rules(RuleSet.FENCED, rules.heartbeat_interval_ms, rules.pause_max_ms, rewind)
        return valued(self.claim, explorer), valued(self.reader, explorer), record, rules

    @property
    def state(self) -> State:
        """Before the record."""
        return State(self.claim, self.reader, self.rules)


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
    return ", ".join(f"{name} {each}" for name, each in found.items() if each not in (None, False))


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


@frozen(eq=False)
class Taken:
    """A record, and what both made of it."""

    before: State
    record: Record
    after: State
    verdict: Verdict
    read: Verdict | None
    sent: Certificate


def verdict_exact(taken: Taken) -> Any:
    """What a reader says that a record did is what it did.

    It may name another guard of a record that is refused; and whether a request was granted, and a
    release set the position, only who knows the position and the pauser knows.
    """
    full, read, reader = taken.verdict, taken.read, taken.before.reader
    if read is None or read is full or isinstance(read, Refused) and isinstance(full, Refused):
        return True
    if {full, read} <= {Accepted.GRANTED, Refused.NOT_AHEAD}:
        return not relation.certain(reader, Field.POSITION)
    if {full, read} <= RELEASES:
        return not relation.certain(reader, Field.PAUSER)
    return False


def acts_on_facts(taken: Taken) -> Any:
    """Whoever takes itself for the owner is the owner. Spec: Owns."""
    me: Any = consumer.InstanceConfig(taken.sent.instance, "", consumer.Mode.AT_MOST_ONCE)
    if not consumer.owns(me, taken.after.reader):
        return True
    full = taken.after.full
    return full.owner_instance is not None and full.owner_instance == me.instance_id


def grants_are_facts(taken: Taken) -> Any:
    """Whoever takes a range for granted was granted it, from where the position was."""
    me: Any = consumer.InstanceConfig(taken.sent.instance, "", consumer.Mode.AT_MOST_ONCE)
    found: Any = consumer.grant_read(me, taken.before.reader, taken.record, taken.read)
    if found.stop is None:  # range(0)
        return True
    granted = taken.verdict is Accepted.GRANTED
    return granted and found.start == taken.before.full.position


def never_set_is_a_fact(taken: Taken) -> Any:
    """Where a reader is certain that nobody ever set the position, nobody did."""
    return not consumer.never_set(taken.after.reader) or not taken.after.full.position_set


CONSEQUENCES: Final[Mapping[str, Callable[[Taken], Any]]] = {
    "VerdictExact": verdict_exact,
    "ActsOnFacts": acts_on_facts,
    "GrantsAreFacts": grants_are_facts,
    "NeverSetIsAFact": never_set_is_a_fact,
}
"""What those rely on who act on a reader."""
PROVED: Final = (*RELATION, *PROMISE, *CONSEQUENCES)
"""Names of all that is proved of a record."""


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
    for name, promise in PROMISE.items():
        if name not in without:
            yield partial(promise, state, sent)
    for name, honest in HONEST.items():
        if name not in without:
            yield partial(relation.is_honest, honest, state, record, sent)
    if OF_THE_LOG not in without:
        yield partial(relation.clock_bounded, state, record)


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

        def both() -> Taken | Exception:
            try:
                before = State(copied(inputs.claim), copied(inputs.reader), inputs.rules)
                reader, read = read_record(before.reader, inputs.record, inputs.rules)
                full, verdict = step(before.full, inputs.record, inputs.rules)
            except (Escaped, Diverged):
                raise
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
    if not result.paths:
        raise Escaped(f"{case}: nothing is left of it under what is assumed")
    return result


@define(eq=False)
class Conclusions:
    """The relation and the promise as formulas over any state, made once and then substituted.

    To run their code anew on each path would take most of the time.
    """

    inputs: LateInputs
    formulas: dict[str, Any] = field(factory=dict)
    _state: State = field(init=False)

    def __attrs_post_init__(self) -> None:
        inputs = self.inputs
        flags = {each: inputs.truth(f"then certain {each.name}").formula for each in Field}
        numbers = ("undecided", "reached", "alive_ms", "head_ms")
        reader = SymbolicReader(
            claim=inputs.a_claim("then reader's"),
            certain=Flags(inputs.smt, flags),
            **{name: inputs.maybe(f"then {name}") for name in numbers},
        )
        self._state = State(inputs.a_claim("then full"), reader, inputs.rules)
        of = {name: partial(each, self._state) for name, each in RELATION.items()}
        of |= {name: partial(each, self._state, inputs.sent) for name, each in PROMISE.items()}
        self.formulas = {name: formula_of(inputs.smt, run) for name, run in of.items()}

    def after(self, taken: Taken) -> list[Any]:
        """That the state is what is after the record."""
        api = self.inputs.smt.api
        equal: list[Any] = []
        for any_, one in (
            (self._state.full, taken.after.full),
            (self._state.reader.claim, taken.after.reader.claim),
            (self._state.reader, taken.after.reader),
        ):
            for name, symbol in any_.__dict__.items():
                found = one.__dict__[name] if isinstance(one, LAZY) else getattr(one, name)
                for left, right in self._pairs(symbol, found):
                    if isinstance(right, bool):
                        equal.append(left if right else api.Not(left))
                    else:
                        equal.append(left == right)
        return equal

    def _pairs(self, symbol: Any, found: Any) -> Iterator[tuple[Any, Any]]:
        match symbol:
            case Maybe():
                if isinstance(found, Maybe):
                    yield symbol.present.formula, found.present.formula
                    found = found.value
                else:
                    yield symbol.present.formula, found is not None
                if found is not None:
                    yield from self._pairs(symbol.value, found)
            case Flags():
                others = symbol.of(found)
                yield from ((formula, others[each]) for each, formula in symbol.formulas.items())
            case Truth():
                yield symbol.formula, getattr(found, "formula", found)
            case Number() | Id():
                yield symbol.formula, getattr(found, "formula", found)


def _examine(
    inputs: LateInputs,
    explorer: Explorer,
    taken: Taken,
    then: Conclusions,
    names: Sequence[str],
) -> Iterator[LateRefuted]:
    solver = inputs.smt
    api = solver.api
    wanted = {name: then.formulas[name] for name in names if name in then.formulas}
    for name in names:
        if name in CONSEQUENCES:
            wanted[name] = formula_of(solver, partial(CONSEQUENCES[name], taken))
    after = then.after(taken)
    with explorer.within():
        for each in after:
            explorer.assume(each)
        explorer.assume(api.Not(api.And(*wanted.values(), api.BoolVal(True))))
        if not explorer.feasible:
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


"""The compiled steps are the reducer: for every claim, record and set of rules that they let pass.

`kernel.steps.fold` runs as plain Python, with one record in columns of symbols, beside `step`. A
number that overflows 64 bits is an error here. What `first_wrong` and `rules_fit` let pass is asked
of them. Each path is taken again by the compiled code, with the solver's values.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product
from typing import Any, Final

import attrs
import numpy as np
from attrs import frozen
from tests.triples import Triple

from kafka_marshal import Claim, Rules, Verdict
from kafka_marshal.core.claims.reducer import step
from kafka_marshal.core.messages import ReleaseGroup
from kafka_marshal.core.state import RuleSet
from kafka_marshal.core.wire import number_of
from kafka_marshal.kernel import steps
from kafka_marshal.kernel.columns import ABSENT, HEADER_COLUMNS
from proof.arrays import LEAST, MOST, Column, Int64, Merged, Name, Row, plain, uncompiled
from proof.inputs import HEADERS, MESSAGES, Case, Inputs, cases, unread
from proof.properties import INVARIANT, Conjunct
from proof.prove import Refuted, Result, merged, unchecked
from proof.symbols import Diverged, Escaped, Explorer, Formula, Number, Smt, Truth, formula_of

HEADERS_ARE: Final = (steps._HEADER_NOT_DECIMAL, steps._HEADER_FROM_THE_FUTURE, steps._FINE)
"""What `_bad_headers` returns."""
KERNEL_IS_REDUCER: Final = "KernelIsReducer"
"""What is proved: the same verdict, the same claim, and nothing overflows."""
FIELDS: Final = tuple(each.name for each in attrs.fields(Claim))
"""Of a claim, in the order of `steps`' columns."""
_NUMBERS: Final = ("epoch", "last_heartbeat_ms", "paused_until_ms", "last_release_ms")
"""Fields that are a number or None: no number of them may stand for None."""


@frozen
class KernelCase(Case):
    """A case of the reducer's, and what the kernel knows beside it."""

    rule_set: RuleSet
    born: bool
    """The claim had a record of its own; otherwise it begins as its group's ReleaseGroups say."""


def kernel_cases() -> list[KernelCase]:
    """All of them; of the original's rules with every choice of fields that it ever sets."""
    found = [KernelCase(each.message, each.known, RuleSet.FENCED, born=True) for each in cases()]
    fields: tuple[tuple[str, ...], ...] = (
        ("owner_instance", "owner_client"),
        ("last_heartbeat_ms",),
        ("pauser", "paused_until_ms"),
        ("last_release_ms",),
    )
    for message, chosen in product(MESSAGES, product((True, False), repeat=len(fields))):
        known = {name for names, has in zip(fields, chosen, strict=True) if has for name in names}
        found.append(KernelCase(message, frozenset(known), RuleSet.ORIGINAL, born=True))
    newborn = [each for each in found if each.known <= {"pauser", "paused_until_ms"}]
    return found + [attrs.evolve(each, born=False) for each in newborn]


class KernelInputs(Inputs):
    """The symbols of one case, and what the kernel has in the place of each."""

    case: KernelCase

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if "last_release_ms" in self.case.known:
            self.claim = attrs.evolve(self.claim, last_release_ms=self.number("last_release_ms"))
        with unchecked():
            self.rules = attrs.evolve(self.rules, rule_set=self.case.rule_set)
        self.floor_ms, self.ceil_ms = self.number("floor"), self.number("ceil")
        stale_ms: Any = self.rules.stale_after_ms
        for each in (
            *(self.floor_ms <= stale_ms, stale_ms < self.floor_ms + 1),
            *(self.ceil_ms - 1 < stale_ms, stale_ms <= self.ceil_ms),
        ):
            self.assumed.append(each.formula)

    def an_id(self, name: str) -> Any:
        """An id, which may be empty."""
        return Name(self.smt, super().an_id(name).formula)

    def _message(self) -> Any:
        message = super()._message()
        group = self.an_id("group_id")
        return attrs.evolve(message, unix_s=self.number("unix_s"), group_id=group)

    def valued(self, found: Any, explorer: Explorer) -> Any:
        """As in `Inputs`; an empty id is empty."""
        if isinstance(found, Name):
            code = explorer.value(found.formula)
            return f"id{code}" if code else ""
        return super().valued(found, explorer)

    def concrete(self, explorer: Explorer) -> tuple[Claim, Any, Rules]:
        """As in `Inputs`, with all that the original reads."""
        claim, record, rules = super().concrete(explorer)
        message = self.record.message
        named = {
            name: self.valued(getattr(message, name), explorer) for name in ("unix_s", "group_id")
        }
        record = attrs.evolve(record, message=attrs.evolve(record.message, **named))
        return claim, record, attrs.evolve(rules, rule_set=self.case.rule_set)

    def headers(self) -> list[Any]:
        """The columns of headers; those that decide nothing cannot be read."""
        fields = self.record.headers.__dict__["_fields"]
        api = self.smt.api
        return [
            Int64(self.smt, api.If(fields[name][0].formula, fields[name][1].formula, ABSENT))
            if name in HEADERS
            else unread(name)
            for name in HEADER_COLUMNS
        ]

    def number_of_message(self) -> Any:
        """The number that the message carries beside its address; 0 if none."""
        message = self.record.message
        return getattr(message, "offset", getattr(message, "expires_unix_s", 0))

    def arguments(self) -> dict[str, Any]:
        """What `steps.fold` is given, but for claims and verdicts."""
        record, message = self.record, self.record.message
        return {
            "fenced": self.rules.fenced,
            "stale_ms": plain(self.floor_ms),
            "original_stale_ms": plain(self.ceil_ms),
            "pause_max_ms": plain(self.rules.pause_max_ms),
            "last_offset": plain(self.last),
            "rows": [0],
            "offsets": plain(record.offset),
            "timestamps_ms": plain(record.timestamp_ms),
            "kinds": number_of(type(message)),
            "versions": plain(message.version),
            "unix_s": plain(message.unix_s),
            "numbers": plain(self.number_of_message()),
            "addresses": 0,
            "present": record.headers.present,
            "headers": self.headers(),
            "table": [*map(plain, (message.instance_id, message.client_id, message.group_id)), 0],
            "claims": [plain(getattr(self.claim, name)) for name in FIELDS]
            if self.case.born
            else [unread(name) for name in FIELDS],
            "born": self.case.born,
            "newborn": [plain(getattr(self.claim, name)) for name in FIELDS],
            "first_of_group": 0 if self.case.born else -1,
            "next_in_group": -1,
            "verdicts": steps.NO_MESSAGE,
        }


_ROWS: Final = ("headers", "table", "claims", "newborn")
_SINGLE: Final = ("fenced", "stale_ms", "original_stale_ms", "pause_max_ms", "last_offset", "rows")


def _columns(arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value if name in _SINGLE else Row(list(value)) if name in _ROWS else Column(value)
        for name, value in arguments.items()
    }


_TYPES: Final = {
    "kinds": np.int8, "addresses": np.int32, "present": np.bool_, "born": np.bool_,
    "verdicts": np.int8, "table": np.int32,
}  # fmt: skip


def _arrays(arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        name: np.array([0], np.intp) if name == "rows" else value if name in _SINGLE
        else np.array([value, value], _TYPES.get(name, np.int64))
        for name, value in arguments.items()
    }  # fmt: skip


def times_fit(claim: Claim, last: Any) -> Any:
    """Invariant: the claim's times are records' times, or a pause that rules allow."""
    clock_ms, last_ms, until_ms = claim.clock_ms, claim.last_heartbeat_ms, claim.paused_until_ms
    if not -steps.BOUND < clock_ms < steps.BOUND:
        return False
    if last_ms is not None and not -steps.BOUND < last_ms < steps.BOUND:
        return False
    return until_ms is None or -2 * steps.BOUND <= until_ms <= 2 * steps.BOUND


def sign_of_life_is_a_time(claim: Claim, last: Any) -> Any:
    """Invariant of the fenced rules: it was read off the clock."""
    return claim.last_heartbeat_ms is None or claim.last_heartbeat_ms >= -1


def only_the_fenced_set(claim: Claim, last: Any) -> Any:
    """Invariant of the original's rules: what only the fenced ones know stays unknown."""
    return not (claim.position_set or claim.won_with_headers)


def numbers_fit(claim: Claim, last: Any) -> Any:
    """Invariant: none of its numbers takes more than 64 bits, or stands for None."""
    least = [(getattr(claim, name), LEAST + 1) for name in _NUMBERS]
    found = [(claim.position, LEAST), *((each, low) for each, low in least if each is not None)]
    return all(low <= each <= MOST for each, low in found)


def _invariant(inputs: KernelInputs) -> Mapping[str, Conjunct]:
    """What is assumed of the claim before, and proved of the claim after."""
    both: dict[str, Conjunct] = {"TimesFit": times_fit, "NumbersFit": numbers_fit}
    if inputs.rules.fenced:
        return {**INVARIANT, **both, "SignOfLifeIsATime": sign_of_life_is_a_time}
    return {**both, "OnlyTheFencedSet": only_the_fenced_set}


def _assumptions(inputs: KernelInputs, module: Any) -> Iterator[Formula]:
    """Everything an array can hold, and what `KernelFold` lets pass."""
    smt, record, message = inputs.smt, inputs.record, inputs.record.message
    numbers = [inputs.last, record.offset, record.timestamp_ms, message.version, message.unix_s]
    numbers += [inputs.number_of_message(), inputs.rules.pause_max_ms]
    numbers += [inputs.floor_ms, inputs.ceil_ms]
    numbers += [value for _, value in record.headers.__dict__["_fields"].values()]
    for each in numbers:
        if isinstance(each, Number):
            yield from ((each >= LEAST).formula, (each <= MOST).formula)
    ids: list[Any] = [message.instance_id, message.client_id, message.group_id]
    ids += [getattr(inputs.claim, name) for name in ("owner_instance", "owner_client", "pauser")]
    for each in ids:
        if each is not None:
            yield from (each.formula >= 0, each.formula < 2**31)
    yield ids[2].formula <= 1  # the arrays of a path that is taken again have two rows
    for holds in _invariant(inputs).values():
        yield formula_of(smt, partial(holds, inputs.claim, inputs.last))
    columns = _columns(inputs.arguments())
    of = [columns[name] for name in ("last_offset", "rows", "offsets", "timestamps_ms")]
    of += [columns[name] for name in ("kinds", "unix_s", "numbers")]
    with uncompiled(module):
        yield formula_of(smt, lambda: module.first_wrong(*of)[1] < 0)
    yield formula_of(smt, lambda: module.rules_fit(inputs.ceil_ms, inputs.rules.pause_max_ms))


def prove_kernel(case: KernelCase, solver: Smt, module: Any = steps) -> Result:
    """Prove of all that the case stands for that the kernel does what the reducer does."""
    result, began_s = Result(case), time.perf_counter()
    inputs, explorer = KernelInputs(solver, case), Explorer(solver)
    guards = {
        "_bad_headers": Merged(solver, HEADERS_ARE),
        "_is_obeyed": Merged(solver),
        "_says_position": Merged(solver),
    }
    with unchecked(), merged(solver):
        for each in (*inputs.assumed, *_assumptions(inputs, module)):
            explorer.assume(each)

        given = inputs.arguments()

        def both() -> tuple[Claim, Verdict, str | None]:
            after, verdict = step(inputs.claim, inputs.record, inputs.rules)
            arguments = _columns(given)
            try:
                with uncompiled(module, guards):
                    begun, last = module.fold(*arguments.values())
            except (Escaped, Diverged):
                raise
            except Exception as error:
                return after, verdict, repr(error)
            return after, verdict, _differs(inputs, arguments, after, verdict, begun, last)

        for after, verdict, difference in explorer.explore(both):
            result.paths += 1
            result.reached[verdict.value] += 1
            result.examined[KERNEL_IS_REDUCER] += 1
            before, record, rules = inputs.concrete(explorer)
            if difference is not None:
                taken = Triple(rules, before, record, *step(before, record, rules))
                result.refuted.append(
                    Refuted(f"{KERNEL_IS_REDUCER}: {difference}", taken, {"born": case.born})
                )
                break
            if module is not steps:
                continue
            _repeat(inputs, explorer, after, verdict)
            result.repeated += 1
    if not result.paths:
        raise Escaped(f"{case}: nothing is left of it under what is assumed")
    result.asked[KERNEL_IS_REDUCER] = explorer.checks
    result.seconds[KERNEL_IS_REDUCER] = time.perf_counter() - began_s
    return result


def _differs(
    inputs: KernelInputs, arguments: dict[str, Any], after: Claim, verdict: Verdict, begun: Any,
    last: Any,
) -> str | None:  # fmt: skip
    """Where the kernel's results are not the reducer's; None if they are the same."""
    of_group = inputs.case.message is ReleaseGroup
    said = steps.VERDICTS[arguments["verdicts"].value]
    if said is not verdict:
        return f"the kernel's verdict is {said.value}"
    if begun != ([] if inputs.case.born or of_group else [0]):
        return f"the kernel begins claims {begun}"
    wanted = {
        "claims": after if inputs.case.born or not of_group else None,
        "newborn": after if of_group else inputs.claim,
    }
    same: dict[str, Callable[[], Any]] = {"the last offset": lambda: last == inputs.record.offset}
    for name, claim in wanted.items():
        for field, found in zip(FIELDS if claim else (), arguments[name].value, strict=False):
            same[f"{field} in {name}"] = partial(_is, found, getattr(claim, field))
    for name, holds in _invariant(inputs).items():
        same[name] = partial(holds, after, inputs.record.offset)
    smt = inputs.smt
    if Truth(smt, smt.api.And(*(formula_of(smt, each) for each in same.values()))):
        return None
    return f"{next(what for what, holds in same.items() if not holds())} differs"


def _is(found: Any, wanted: Any) -> Any:
    return found == plain(wanted)


def _repeat(inputs: KernelInputs, explorer: Explorer, after: Claim, verdict: Verdict) -> None:
    """The compiled code takes the same path with the solver's values, and comes to the same."""
    symbols = inputs.arguments()
    if not inputs.case.born:
        symbols["claims"] = symbols["newborn"]  # whatever: it is written before it is read
    symbols["headers"] = [
        0 if not isinstance(each, Number) else each for each in symbols["headers"]
    ]

    def value(of: Any) -> Any:
        if isinstance(of, list):
            return [value(each) for each in of]
        return explorer.value(of.formula) if isinstance(of, Number | Truth) else of

    arrays = _arrays({name: value(each) for name, each in symbols.items()})
    COMPILED(*arrays.values())
    said = steps.VERDICTS[arrays["verdicts"][0]]
    born = inputs.case.born or inputs.case.message is not ReleaseGroup
    group = arrays["table"][0][2]
    found = (arrays["claims"][0] if born else arrays["newborn"][group]).tolist()
    wanted = [value(plain(getattr(after, name))) for name in FIELDS]
    if said is not verdict or found != wanted:
        raise Escaped(f"{inputs.concrete(explorer)}: {said} and {found}, not {verdict}, {wanted}")


COMPILED: Final = steps.fold
"""What ships."""

"""The compiled steps are the reducer: for every claim, record and set of rules that they let pass.

`kernel.steps.fold` runs as plain Python, with one record in columns of symbols, beside `step`. A
number that overflows 64 bits is an error here. What `first_wrong` and `rules_fit` let pass is asked
of them. Each path is taken again by the compiled code, with the solver's values.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from tests.triples import Triple

from kafka_marshal import Claim, Verdict
from kafka_marshal.core.claims.reducer import step
from kafka_marshal.core.messages import ReleaseGroup
from kafka_marshal.core.state import RuleSet
from kafka_marshal.kernel import steps
from proof.kernel.arrays import LEAST, MOST, Merged, plain, uncompiled
from proof.kernel.inputs import FIELDS, KernelCase, KernelInputs, arrays, columns
from proof.properties import INVARIANT, Conjunct
from proof.prove import Refuted, Result, merged, unchecked
from proof.smt.solver import Smt
from proof.symbols import Escaped, Explorer, Formula, Number, Truth, formula_of

HEADERS_ARE: Final = (steps._HEADER_NOT_DECIMAL, steps._HEADER_FROM_THE_FUTURE, steps.FINE)
"""What `bad_headers` returns."""
KERNEL_IS_REDUCER: Final = "KernelIsReducer"
"""What is proved: the same verdict, the same claim, and nothing overflows."""
_NUMBERS: Final = ("epoch", "last_heartbeat_ms", "paused_until_ms", "last_release_ms")
"""Fields that are a number or None: no number of them may stand for None."""


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
    """Invariant of the original's rules: what only the fenced ones know stays unknown.

    What it sets together is known together, as in the cases.
    """
    owner = (claim.owner_instance is None) == (claim.owner_client is None)
    pause = (claim.pauser is None) == (claim.paused_until_ms is None)
    if claim.epoch is not None or not owner or not pause:
        return False
    return not (claim.position_set or claim.won_with_headers)


def numbers_fit(claim: Claim, last: Any) -> Any:
    """Invariant: none of its numbers takes more than 64 bits, or stands for None."""
    least = [(getattr(claim, name), LEAST + 1) for name in _NUMBERS]
    found = [(claim.position, LEAST), *((each, low) for each, low in least if each is not None)]
    return all(low <= each <= MOST for each, low in found)


def invariant(rule_set: RuleSet) -> Mapping[str, Conjunct]:
    """What is assumed of the claim before, and proved of the claim after."""
    both: dict[str, Conjunct] = {"TimesFit": times_fit, "NumbersFit": numbers_fit}
    if rule_set is RuleSet.FENCED:
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
    for holds in invariant(inputs.case.rule_set).values():
        yield formula_of(smt, partial(holds, inputs.claim, inputs.last))
    read = columns(inputs.arguments())
    of = [read[name] for name in ("last_offset", "rows", "offsets", "timestamps_ms")]
    of += [read[name] for name in ("kinds", "unix_s", "numbers")]
    with uncompiled(module):
        yield formula_of(smt, lambda: module.first_wrong(*of)[1] < 0)
    yield formula_of(smt, lambda: module.rules_fit(inputs.ceil_ms, inputs.rules.pause_max_ms))


def prove_kernel(case: KernelCase, solver: Smt, module: Any = steps) -> Result:
    """Prove of all that the case stands for that the kernel does what the reducer does."""
    result, began_s = Result(case), time.perf_counter()
    inputs, explorer = KernelInputs(solver, case), Explorer(solver)
    guards = {
        "bad_headers": Merged(solver, HEADERS_ARE),
        "_is_obeyed": Merged(solver),
        "says_position": Merged(solver),
    }
    with unchecked(), merged(solver):
        for each in (*inputs.assumed, *_assumptions(inputs, module)):
            explorer.assume(each)

        given = inputs.arguments()

        def both() -> tuple[Claim, Verdict, str | None]:
            after, verdict = step(inputs.claim, inputs.record, inputs.rules)
            arguments = columns(given)
            try:
                with uncompiled(module, guards):
                    begun, last = module.fold(*arguments.values())
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
    for name, index in _indexed(inputs).items():
        same[name] = partial(_is, arguments[name].value, index)
    for name, claim in wanted.items():
        for field, found in zip(FIELDS if claim else (), arguments[name].value, strict=False):
            same[f"{field} in {name}"] = partial(_is, found, getattr(claim, field))
    for name, holds in invariant(inputs.case.rule_set).items():
        same[name] = partial(holds, after, inputs.record.offset)
    smt = inputs.smt
    if Truth(smt, smt.api.And(*(formula_of(smt, each) for each in same.values()))):
        return None
    return f"{next(what for what, holds in same.items() if not holds())} differs"


def _indexed(inputs: KernelInputs) -> dict[str, Any]:
    """What the lists of claims must hold: a claim's first record puts it before its group's."""
    begins = not inputs.case.born and inputs.case.message is not ReleaseGroup
    first = inputs.first_of_group()
    return {
        "born": inputs.case.born or begins,
        "next_in_group": first if begins else -1,
        "first_of_group": 0 if begins else first,
    }


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

    given = arrays({name: value(each) for name, each in symbols.items()})
    COMPILED(*given.values())
    said = steps.VERDICTS[given["verdicts"][0]]
    born = inputs.case.born or inputs.case.message is not ReleaseGroup
    group = given["table"][0][2]
    found = (given["claims"][0] if born else given["newborn"][group]).tolist()
    wanted = [value(plain(getattr(after, name))) for name in FIELDS]
    at = {"born": 0, "next_in_group": 0, "first_of_group": group}
    found += [int(given[name][index]) for name, index in at.items()]
    wanted += [value(plain(each)) for each in _indexed(inputs).values()]
    if said is not verdict or found != wanted:
        raise Escaped(f"{inputs.concrete(explorer)}: {said} and {found}, not {verdict}, {wanted}")


COMPILED: Final = steps.fold
"""What ships."""

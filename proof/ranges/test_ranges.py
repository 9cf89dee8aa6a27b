"""Marshal promises that ranges are proved of the shipped reducer, and that the proof can fail."""

from __future__ import annotations

import ast
import itertools
import sys
from pathlib import Path
from random import Random
from typing import Any

import attrs
import pytest
from model_tests.ranges.mutants import MUTANTS
from tests.core.ranges.walking import PRESENT, RULES, claiming_range
from tools.runs.by_day import sampled

from kafka_marshal import Accepted, Claim, Heartbeat
from kafka_marshal.core.messages import ClaimingPartition, ClaimingRange
from kafka_marshal.core.ranges import claiming_range as effects
from kafka_marshal.core.ranges import reducer
from kafka_marshal.core.ranges.claiming_range import RangeOutcome
from kafka_marshal.core.ranges.messages import RangeHeaders, RangesRecord
from kafka_marshal.core.ranges.reducer import step
from kafka_marshal.core.ranges.state import Interval, Limits, OpenRange, Ranges, SignOfLife
from proof import mutants as judged
from proof.properties import INVARIANT as OF_CLAIMS
from proof.ranges import mutants
from proof.ranges.inputs import FREE, OTHER, OWNER, SENDER, RangesCase, records, requests
from proof.ranges.others import Others, counting
from proof.ranges.properties import INVARIANT, Now, Offset
from proof.ranges.prove import HYPOTHESES, NAMES, differs, prove_ranges
from proof.smt.solver import smt
from proof.symbols import Escaped
from proof.test_proof import beyond_symbols, presences

Z3 = smt("z3")


def asks(*holders: str, pool: int = 0) -> RangesCase:
    return RangesCase(ClaimingRange, OWNER, True, holders, pool)


def says(verdict: Any, *holders: str, message: type = Heartbeat, begun: bool = True) -> RangesCase:
    return RangesCase(message, OWNER, begun, holders, verdict=verdict)


@pytest.mark.parametrize("solver", sampled(["cvc5", "z3"], 2))
def test_what_lies_in_the_pool_is_proved_by_either_solver(solver: str) -> None:
    result = prove_ranges(asks(pool=1), smt(solver))
    assert not result.broken
    assert result.repeated == result.paths > 20
    assert result.examined["AtMostOnce"] == result.paths


COUNTERMODELS = {
    "OffsetsRise": (asks(SENDER), "IdsGrow"),
    "GivesBackUnbegun": (asks(SENDER), "AtMostOnce"),
    "GrantedAtMostOnce": (asks(OTHER), "AtMostOnce"),
    "AnchorSaysLow": (says(Accepted.REFRESHED, OTHER), "PositionIsLow"),
    "OnlyASetMovesBack": (says(Accepted.REFRESHED, OTHER), "WindowHolds"),
}
"""What is broken without a hypothesis."""


@pytest.mark.parametrize("name", HYPOTHESES)
def test_each_hypothesis_is_needed(name: str) -> None:
    case, breaks = COUNTERMODELS[name]
    result = prove_ranges(case, Z3, frozenset({name}), names=frozenset({breaks}))
    assert [each.property for each in result.broken] == [breaks]


NEEDED = {
    "RangesDisjoint": (asks(pool=1), "TakenIsGranted"),
    "WindowHolds": (asks(pool=1), "TakenIsGranted"),
    "PoolIsInOrder": (asks(pool=2), "RequestIsMet"),
    "TakenIsGranted": (asks(), "AtMostOnce"),
    "LowIsMonotone": (says(Accepted.REFRESHED), "PositionIsLow"),
}
"""What is broken without a part of the invariant."""
ITSELF = {"VoidIsEmpty", "HoldersAreHeard", "Bounded", "IdsGrow", "PositionIsLow"}
"""Parts that are proved for their own sake; the cases have the first two built in."""


@pytest.mark.parametrize("name", INVARIANT)
def test_each_part_of_the_invariant_is_needed_or_is_the_property_itself(name: str) -> None:
    assert (name in NEEDED) is not (name in ITSELF)
    if name in NEEDED:
        case, breaks = NEEDED[name]
        result = prove_ranges(case, Z3, frozenset({name}), names=frozenset({breaks}))
        assert [each.property for each in result.broken] == [breaks]


def test_a_new_claim_has_new_ranges_of_which_the_invariant_is_true() -> None:
    now = Now(Ranges(), Claim(), -1, Offset(3, taken=False, by=0, low=0), 0, 1)
    assert [name for name, holds in INVARIANT.items() if holds(now) is not True] == []


@pytest.mark.parametrize("solver", sampled(["z3", "cvc5"], 2))
@pytest.mark.parametrize("name", ["GivesAllOfIt", "ReapsBelowThePosition", "NoLimit"])
def test_a_mistake_is_refuted_with_a_story_by_either_solver(name: str, solver: str) -> None:
    number = next(n for n, each in enumerate(MUTANTS) if each.mistake.name == name)
    found = judged.judge_ranges(number, solver)
    assert found.verdict in NAMES
    assert found.story.startswith(f"{found.verdict} is broken\n  claim ")


@pytest.mark.parametrize(
    ("written", "instead", "changes"),
    [("keep < range_.to", "keep <= range_.to", False), ("< keep <", "<= keep <", True)],
)
def test_a_mutant_is_proved_equivalent_or_not(written: str, instead: str, changes: bool) -> None:
    text = TEXTS[0]
    assert text.count(written) == 1
    with mutants.made(effects, text.replace(written, instead)) as modules:
        assert differs(asks(SENDER), Z3, modules) is changes


def test_a_mistake_in_what_begins_ranges_and_in_how_they_are_counted_is_refuted() -> None:
    for wanted in ("begun", "Ranges.intervals"):
        number, (module, mutant) = next(
            (n, each) for n, each in enumerate(mutants.generated()) if each[1].function == wanted
        )
        with mutants.made(module, mutant.module_text()) as modules:
            case = says(Accepted.RECLAIMED, OTHER, message=ClaimingPartition)
            counts = asks(SENDER, pool=1)
            results = [prove_ranges(each, Z3, modules=modules) for each in (case, counts)]
        assert any(each.broken for each in results), number


def test_the_package_is_as_it_ships_afterwards() -> None:
    assert Ranges(open=(OpenRange(0, 0, 1, "x"),)).intervals == 1
    assert not {"len", "bool", "min", "max"} & {*vars(effects), *vars(reducer)}
    assert effects.its_own.__module__ == effects.__name__


def test_every_record_that_ranges_see_is_a_case() -> None:
    """Of a claim that nobody owns it matters which fields are None: whether it is new."""
    possible = {
        known
        for known, claim in presences()
        if all(holds(claim, 0) for holds in OF_CLAIMS.values()) and not claim.owned
    }
    assert {*FREE} == possible
    assert {each.verdict for each in records()} >= {*Accepted}
    assert len({*requests(), *records()}) == len([*requests(), *records()])


def test_a_case_of_which_nothing_is_left_proves_nothing() -> None:
    impossible = attrs.evolve(asks(SENDER), begun=False)
    with pytest.raises(Escaped, match="nothing is left of it"):
        prove_ranges(impossible, Z3)


# --- lists of any length --------------------------------------------------------------------------

TEXTS = [
    Path(str(each.__file__)).read_text(encoding="utf-8")
    for each in (effects, sys.modules[step.__module__])
]
LISTS = {"open", "pool", "alive"}


def not_element_by_element(text: str) -> list[str]:
    """Each look at a whole list that is no comprehension, no copy, and not the lowest of the pool.

    A comprehension does to an element what it does, whatever else is in the list.
    """
    found = []
    parents = {child: node for node in ast.walk(ast.parse(text)) for child in _children(node)}
    for node, parent in parents.items():
        if isinstance(node, ast.For | ast.While | ast.Subscript) and not _is_type(node, parents):
            found.append(ast.unparse(node))
        if not isinstance(node, ast.Attribute) or node.attr not in LISTS:
            continue
        match parent:
            case ast.comprehension() | ast.Starred():
                continue
            case ast.If(test=test) if test is node and node.attr == "pool":
                continue
            case ast.Assign(targets=[ast.Tuple(elts=[ast.Name("lowest"), ast.Starred()])]):
                continue
            case _:
                found.append(ast.unparse(parent))
    return found


def _children(node: ast.AST) -> list[ast.AST]:
    return list(ast.iter_child_nodes(node))


def _is_type(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """`tuple[Interval, ...]` of a signature, or an alias."""
    while node in parents:
        above = parents[node]
        if isinstance(above, ast.arg | ast.AnnAssign):
            return True
        if isinstance(above, ast.FunctionDef):
            return node is above.returns
        node = above
    return False


def test_the_shipped_code_goes_through_lists_element_by_element() -> None:
    for text in TEXTS:
        assert not_element_by_element(text) == []
    planted = """
if ranges.open: pass
first = ranges.pool[0]
total = sum(ranges.open)
for each in ranges.alive: pass
"""
    assert len(not_element_by_element(planted)) == 6


def test_no_proxy_is_passed_over_unnoticed() -> None:
    """The class of a record's message is a case, and a guard is no symbol."""
    found = [each for text in TEXTS for each in beyond_symbols(text)]
    assert {each.partition(", ")[0] for each in found} == {
        *("guard is RangeRefused.NO_RANGE_TENURE", "isinstance(record.message")
    }


LIMITS = Limits(intervals_max=14, open_ranges_max=5, range_messages_max=7)
NAMED = (SENDER, OTHER, "a", "b", "c")


def long(random: Random) -> tuple[Ranges, Claim, RangesRecord]:
    """Many ranges, and a request."""
    edges = sorted(random.sample(range(90), 28))
    spans = [each for each in itertools.pairwise(edges) if random.random() < 0.45]
    kinds = [random.choice((*NAMED, SENDER, None)) for _ in spans]
    open_ = [(s, who) for s, who in zip(spans, kinds, strict=True) if who is not None]
    random.shuffle(open_)
    ids = sorted(random.sample(range(100), len(open_)))
    held = [OpenRange(n, *s, who) for n, (s, who) in zip(ids, open_, strict=True)]
    pool = [Interval(*s) for s, who in zip(spans, kinds, strict=True) if who is None]
    alive = [SignOfLife(who, random.choice((0, 7999, 8000, 9500))) for who in sorted(NAMED)]
    window = random.choice((0, 5, 200))
    ranges = Ranges(window, 90, tuple(held), tuple(pool), tuple(alive), 10_000)
    claim = Claim(
        *("anchor", "ranges"),
        epoch=1,
        position=random.choice((90, 95)) if window < 200 else random.randrange(96),
        last_heartbeat_ms=10_000,
    )
    said = RangeHeaders(
        done=random.choice((None, random.randrange(90))),
        keep=random.choice((None, random.randrange(90))),
    )
    seen = attrs.evolve(PRESENT, seen=random.randrange(100))
    message = claiming_range(SENDER, random.choice((0, 3, 20)))
    return ranges, claim, RangesRecord(0, 100, 10_000, message, seen, said)


def before_asked(ranges: Ranges, claim: Claim, record: RangesRecord) -> tuple[Ranges, Ranges]:
    """As `claiming_range` has them when it gives back, and when it is asked."""
    message: Any = record.message
    told = effects.progressed(effects.alive(ranges, message), record)
    back = effects.given_back(told, record, LIMITS)
    return told, effects.reaped(back, claim, message, RULES)


def of(ranges: Ranges) -> tuple[Any, ...]:
    return (*ranges.open, *ranges.pool)


def lies_in(each: Any, others: Any) -> bool:
    return any(other.from_ <= each.from_ and each.to <= other.to for other in others)


def looked_at(ranges: Ranges, elements: list[Any]) -> Ranges:
    """Without other elements."""
    names = {SENDER, *(each.instance for each in elements if isinstance(each, OpenRange))}
    return attrs.evolve(
        ranges,
        open=tuple(each for each in ranges.open if each in elements),
        pool=tuple(each for each in ranges.pool if each in elements),
        alive=tuple(each for each in ranges.alive if each.instance in names),
    )


def of_elements(outcome: RangeOutcome, few: Ranges, *, frontier: int) -> RangeOutcome:
    """What became of these elements, and what is new behind the frontier."""
    after, names = outcome.ranges, {each.instance for each in few.alive}

    def ours(each: Any) -> bool:
        return bool(each.from_ >= frontier) or lies_in(each, of(few))

    kept = attrs.evolve(
        after,
        open=tuple(each for each in after.open if ours(each)),
        pool=tuple(each for each in after.pool if ours(each)),
        alive=tuple(each for each in after.alive if each.instance in names),
    )
    return attrs.evolve(outcome, ranges=kept)


def parts(seed: int) -> bool:
    """Two elements of a long list become something else where the others are only counted."""
    random = Random(seed)
    ranges, claim, record = long(random)
    told, asked = before_asked(ranges, claim, record)
    chosen = [
        each for each in asked.pool[:1] for each in of(ranges) if lies_in(asked.pool[0], [each])
    ]
    chosen += random.sample(of(ranges), min(2, len(of(ranges))))
    few = looked_at(ranges, chosen[:2])
    few_told = effects.progressed(few, record)
    own = [len(each.open_of(SENDER)) for each in (told, asked)]
    others = Others([told.intervals - few_told.intervals, 0], [own[0], 0])
    with counting(others, effects, reducer):
        _, few_asked = before_asked(few, claim, record)
    others.intervals = [others.intervals[0], asked.intervals - len(of(few_asked))]
    few_own = sum(each.instance == SENDER for each in few_asked.open)
    others.open_of = [0, own[1] - few_own]
    others.at = 0
    whole = step(ranges, claim, record, RULES, LIMITS)
    with counting(others, effects, reducer):
        found = step(few, claim, record, RULES, LIMITS)
    return of_elements(whole, few, frontier=ranges.frontier) != found


def test_of_a_long_list_two_elements_become_what_they_become_alone() -> None:
    """The one that may be granted is one of the two, and the others are counted."""
    assert not any(parts(seed) for seed in range(400))


def test_a_step_that_looks_at_neighbours_is_noticed() -> None:
    merging = next(each.mistake for each in MUTANTS if each.mistake.name == "MergesThePool")
    with merging.made():
        assert any(parts(seed) for seed in range(400))

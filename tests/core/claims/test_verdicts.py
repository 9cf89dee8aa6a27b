"""Sets of verdicts: each stands once, under a name for what it means."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import kafka_marshal
from kafka_marshal.core.claims import verdicts
from kafka_marshal.core.claims.verdicts import Accepted, Refused

ROOT = Path(__file__).parents[3]
PACKAGE = Path(kafka_marshal.__file__).parent
NAMED = {
    value: name
    for name, value in vars(verdicts).items()
    if isinstance(value, frozenset) and name.isupper()
}


def member(node: ast.expr) -> str | None:
    """The verdict that an expression names."""
    match node:
        case ast.Attribute(value=ast.Name(id="Accepted" | "Refused")):
            return node.attr
        case _:
            return None


def written(path: Path) -> Iterator[tuple[int, frozenset[str]]]:
    """Every set, tuple or list of verdicts that is written in a module, by its line."""
    text = path.read_text(encoding="utf-8")
    if "Accepted." not in text and "Refused." not in text:
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Set | ast.Tuple | ast.List):
            names = [*map(member, node.elts)]
            if len(names) > 1 and None not in names:
                yield node.lineno, frozenset(name for name in names if name is not None)


def test_no_two_sets_of_verdicts_are_the_same() -> None:
    sets = [value for name, value in vars(verdicts).items() if isinstance(value, frozenset)]
    assert len(NAMED) == len(sets)


def test_a_set_of_verdicts_is_written_once() -> None:
    known = {frozenset(each.name for each in value): name for value, name in NAMED.items()}
    places = defaultdict(list)
    for room in (PACKAGE, ROOT / "model_tests", ROOT / "benchmarks", ROOT / "tools"):
        for path in sorted(room.rglob("*.py")):
            for line, found in written(path):
                places[found].append(f"{path.relative_to(room.parent)}:{line}")
    here = "kafka_marshal/core/claims/verdicts.py"
    again = {
        known.get(found, tuple(sorted(found))): where
        for found, where in places.items()
        if len(where) > 1 or (found in known and not where[0].startswith(here))
    }
    assert not again


def test_the_sets_of_verdicts_hold_accepted_or_refused_ones_and_not_both() -> None:
    for value in NAMED:
        assert value <= {*Accepted} or value <= {*Refused}


def test_a_verdict_has_its_name_in_output_and_half_a_sentence() -> None:
    assert Accepted("took_over") is Accepted.TOOK_OVER
    assert Accepted.TOOK_OVER.sentence == "the owner counts as stale"
    for verdict in (*Accepted, *Refused):
        assert verdict.value == verdict.name.lower()
        assert verdict.sentence

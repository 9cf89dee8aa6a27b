"""`python -m tools.pages.mutants > docs/reference/simulated-mutants.md`: what finds which mutant.

Its tables are made of what the search wrote down.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from tools.simulate.mutants.__main__ import KINDS, SEED, Result, explained, results

PAGE: Final = """\
# Mutants in simulated runs

<!-- Printed by `python -m tools.pages.mutants`; do not edit. -->

`make simulated-mutants` puts one mistake at a time into what ships and runs the
[simulation](../simulation.md) until a checker finds it. Runs are counted from seed {seed} on, in
the worlds of `tools/simulate/mutants/worlds.py`: in one where it is named, else in all, in turn. A
run that raises, hangs or takes all memory is a
find, too. Results are kept with the commit that was run; ARGS="--again" searches all of them anew.

- *once*: mistakes that this client had, kept in `tests/client/fleet/test_mutants.py`;
- *hand*: edits of the runtime that somebody thought of, `tools/simulate/mutants/by_hand.py`;
- *groups*: edits of controllers and members of groups, `tools/simulate/mutants/of_groups.py`,
  looked for in the world of `make simulate-groups`, a quiet one, and one in which much comes late;
- *generated*: made by the operators of `make mutants`, of the client's runtime. They are sampled
  by a seed among statements that simulated runs reach.

| kind | searched | found | not found, explained | not found |
|---|---|---|---|---|
{kinds}

## Found

| mutant | kind | world | runs | simulated s | found by |
|---|---|---|---|---|---|
{found}

## Not found

The search ended after this much CPU time. Where no reason is given nobody has looked for one yet.

| mutant | kind | runs | CPU s | why |
|---|---|---|---|---|
{missed}
"""


def page() -> str:
    """The page as it is to be."""
    rows, why = list(results().values()), explained()
    order = sorted(rows, key=lambda one: (one.kind, one.search.runs, one.search.mutant))
    return PAGE.format(
        seed=SEED,
        kinds=_rows(_count(kind, rows, why) for kind in KINDS),
        found=_rows(
            (
                _named(one),
                one.kind,
                one.search.world or "all",
                one.search.runs,
                one.search.simulated_s,
                _by(one),
            )
            for one in order
            if one.search.found
        ),
        missed=_rows(
            (
                _named(one),
                one.kind,
                one.search.runs,
                f"{one.search.cpu_s:.0f}",
                why.get(one.search.mutant, "not looked into"),
            )
            for one in order
            if not one.search.found
        ),
    )


def _count(kind: str, rows: list[Result], why: dict[str, str]) -> tuple[object, ...]:
    of = Counter(
        "found" if one.search.found else "explained" if one.search.mutant in why else "missed"
        for one in rows
        if one.kind == kind
    )
    return kind, of.total(), of["found"], of["explained"], of["missed"]


def _named(one: Result) -> str:
    text = one.search.mutant.replace("|", "\\|")
    return f"`{text}`" if one.kind != "once" else f"`{text}`: {one.search.where}"


def _by(one: Result) -> str:
    return f"`{one.search.found.partition(':')[0]}`"


def _rows(rows: Iterable[tuple[object, ...]]) -> str:
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in rows)


if __name__ == "__main__":
    print(page(), end="")

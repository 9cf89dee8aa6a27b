"""Marshal promises that every mistake in its specification is noticed, and by what.

`make spec-mutants` runs TLC on every one; here are the list, the page and the ways to go wrong.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest
from tools.spec_mutants.__main__ import PAGE, Found, page, results, search, wrong
from tools.spec_mutants.mutants import Mutant, MutantError, check, read, replaced

from kafka_marshal.modelcheck import models

MUTANTS = read()
SOME = Mutant("Some", "Claim", "a", "b", "a is b", ["MCRecords_FencedDeep"])
KILLED = Found("Some", "MCRecords_FencedDeep", "Fenced", 1.0)


def test_every_mutant_can_be_made_and_names_models_that_must_hold() -> None:
    check(MUTANTS)


def test_every_mutant_was_searched_for_and_the_page_tells_what_was_found() -> None:
    found = results()
    assert found.keys() == {mutant.name for mutant in MUTANTS}
    assert [wrong(mutant, found[mutant.name], found[mutant.name]) for mutant in MUTANTS] == [
        None for _ in MUTANTS
    ]
    assert PAGE.read_text(encoding="utf-8") == page(MUTANTS, found)


@pytest.mark.parametrize("text", ["b b", "a a"])
def test_a_text_that_does_not_occur_exactly_once_is_an_error_that_names_the_mutant(
    text: str,
) -> None:
    with pytest.raises(MutantError, match=f"Some: Claim holds 'a' {text.count('a')} times"):
        replaced(text, SOME)


def test_a_mutant_may_need_several_texts() -> None:
    assert replaced("a c", attrs.evolve(SOME, also=[["c", "d"]])) == "b d"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"models": ()}, "no model is tried"),
        ({"models": ("MCFenced_NeverRead",)}, "MCFenced_NeverRead is no model that must hold"),
        ({"module": "Nothing"}, "there is no module Nothing"),
        ({"old": "EXTENDS Nothing"}, "0 times"),
    ],
)
def test_a_mutant_that_cannot_be_searched_for_is_an_error(
    changes: dict[str, Any], sentence: str
) -> None:
    mutant = attrs.evolve(MUTANTS[0], **changes)
    with pytest.raises(MutantError, match=sentence):
        check((mutant,))


@pytest.mark.parametrize(
    ("mutant", "found", "before", "sentence"),
    [
        (SOME, KILLED, KILLED, None),
        (SOME, KILLED, None, "is not written down yet"),
        (SOME, KILLED, attrs.evolve(KILLED, violated="Mutex"), "was killed by"),
        (SOME, Found("Some"), None, "survives, and no reason is listed"),
        (attrs.evolve(SOME, survives="It is the same."), Found("Some"), None, None),
        (attrs.evolve(SOME, survives="It is the same."), KILLED, None, "is listed as a survivor"),
        (SOME, Found("Some", error="ERROR M: no"), None, "ERROR M: no"),
    ],
)
def test_what_is_not_as_it_must_be_is_said(
    mutant: Mutant, found: Found, before: Found | None, sentence: str | None
) -> None:
    said = wrong(mutant, found, before)
    assert said is None if sentence is None else said is not None and sentence in said


@pytest.mark.tlc
@pytest.mark.usefixtures("short_runs")
def test_tlc_kills_a_mutant_and_leaves_the_specification_as_it_was() -> None:
    """By the smallest models: one that kills, and one that cannot."""
    [mutant] = [each for each in MUTANTS if each.name == "EveryReleaseSets"]
    spec = models.spec_folder()
    before = (spec / "claims" / "Claim.tla").read_text(encoding="utf-8")
    found = search(mutant, spec)
    assert (found.model, found.error) == ("MCRecords_FencedDeep", None)
    blind = search(attrs.evolve(mutant, models=["MCGroups_Two"]), spec)
    assert (blind.model, blind.error) == (None, None)
    assert (spec / "claims" / "Claim.tla").read_text(encoding="utf-8") == before


def test_the_list_is_read_from_a_file(tmp_path: Path) -> None:
    listed = tmp_path / "mutants.toml"
    listed.write_text('[[mutant]]\nname = "A"\nmodule = "Claim"\nold = "a"\nnew = "b"\n')
    with pytest.raises(MutantError, match="A: missing keys: breaks"):
        read(listed)
    listed.write_text(listed.read_text() + 'breaks = "It."\nkills = "all"\n')
    with pytest.raises(MutantError, match="A: unknown keys: kills"):
        read(listed)
    whole = listed.read_text().replace('kills = "all"\n', "")
    listed.write_text(whole + whole)
    with pytest.raises(MutantError, match="A is there twice"):
        read(listed)

"""Every model and every test that docs/safety.md names exists, and fails or holds as it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from proof import reducer
from proof.late import table as late_readers
from proof.machine import table as machine
from proof.ranges import table as ranges
from proof.ranges.prove import HYPOTHESES
from tools.links import files, linked

from kafka_marshal.core.ranges.invariants import RangesProperty
from kafka_marshal.modelcheck import models

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "safety.md").read_text(encoding="utf-8")
MODELS = {model.name: model for model in models.read()}
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith(("| fault ", "| setting ", "| `"))
]

BY_OTHERS = {"LiveHolderKept": "RefinesLeases"}
"""Promises of ranges that another property has in it."""


def named(cell: str) -> list[str]:
    return re.findall(r"`(\w+)`", cell)


def test_models_hold_and_fail_as_the_table_says() -> None:
    assert len(ROWS) > 20
    for _, _, holds, fails, _, _ in ROWS:
        for name in named(holds):
            assert not MODELS[name].violates, name
        for name in named(fails):
            assert MODELS[name].violates, name


def test_every_other_model_that_is_named_exists() -> None:
    assert set(re.findall(r"`(MC\w+)`", PAGE)) <= MODELS.keys()


def test_every_row_names_a_test_that_exists() -> None:
    written = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"(?m)^def (test_\w+)\(", path.read_text(encoding="utf-8"))
    }
    for row in ROWS:
        assert named(row[5]), row
        assert set(named(row[5])) <= written, row


def test_what_a_row_calls_proved_is_a_property_that_make_prove_proves() -> None:
    proved = {*reducer.names(), *machine.names(), *late_readers.names(), *ranges.names()}
    found = {name for row in ROWS for name in named(row[4])}
    assert len(found) > 10
    assert found <= proved


def test_what_is_proved_of_ranges_and_what_stays_with_tlc_is_all_that_is_promised() -> None:
    section = PAGE.partition("### What a claim that is shared does")[2].partition("\n### ")[0]
    said, _, stays = section.partition("Who processes what is not part of it")
    words = set(re.findall(r"\w+", said))
    promised = {each.value for each in RangesProperty} - BY_OTHERS.keys()
    assert promised & {*ranges.names()} <= words
    assert promised - {*ranges.names()} <= set(re.findall(r"\w+", stays))
    assert {*BY_OTHERS.values()} <= words
    assert {*HYPOTHESES} <= words


def test_every_model_test_and_rule_of_a_row_is_a_link_to_its_file() -> None:
    assert linked(PAGE, files()) == PAGE, "make docs"
    for row in ROWS:
        for cell in (*row[2:4], row[5]):
            assert cell == "-" or all(f"[`{name}`](" in cell for name in named(cell)), cell


def test_a_name_without_a_file_is_an_error() -> None:
    with pytest.raises(KeyError, match="MCGone"):
        linked("| `MCGone` |", files())

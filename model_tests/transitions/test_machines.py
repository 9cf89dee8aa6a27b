"""Every situation of `MCMachine.tla`, held against the reader and the machine.

By night and in `make model`. By day `tests/machines` and `tests/core/claims` hold the sample
against them, which has every situation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import pytest
from tests import machine_samples as machines
from tests.machine_samples import Row

from model_tests.transitions.machines import chosen, export_all, situation

pytestmark = pytest.mark.night

Exported = Mapping[str, Sequence[Row]]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    return export_all(tmp_path_factory.mktemp("machines"))


def test_readers_and_machines_do_as_the_specification_does(
    exported: Exported,
    share: Callable[[Sequence[Row]], Sequence[Row]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    tried = {name: share(rows) for name, rows in exported.items()}
    for rows in tried.values():
        wrong = [row for row in rows if machines.python(row) != row.said]
        assert wrong == [], f"{len(wrong)} disagree, the first: {wrong[0]}"
    with capsys.disabled():
        print()
        for name, rows in tried.items():
            kinds = ", ".join(f"{n:,} {deed}" for deed, n in Counter(r.deed for r in rows).items())
            print(f"  {name}: {len(rows):,} rows ({kinds}), all as in Python")


def test_the_sample_in_tests_is_what_the_export_gives(exported: Exported) -> None:
    """So that a change of the specification shows that `make triples` is to be run."""
    sample = {machines.line(row) for row in chosen(exported)}
    assert {machines.line(row) for row in machines.read()} == sample, "make triples writes it anew"


def test_the_sample_shows_every_situation(exported: Exported) -> None:
    every = {situation(row) for rows in exported.values() for row in rows}
    assert {situation(row) for row in machines.read()} == every

"""Marshal promises that simulated runs find mutants of the client, also those that hang or raise.

How soon each is found is searched by `make simulated-mutants`, and is on a page.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.pages.mutants import page
from tools.simulate.mutants import search
from tools.simulate.mutants.__main__ import SEED, main, results
from tools.simulate.mutants.by_hand import BY_HAND
from tools.simulate.mutants.edits import Edit
from tools.simulate.mutants.of_groups import OF_GROUPS
from tools.simulate.reached import Reached, branches, run
from tools.simulate.world import World

from kafka_marshal.client.coordinate.consumer_loop import ConsumerLoop

ROOT = Path(__file__).parents[3]
OFFSETS = "client/process/offsets.py"


def test_each_mutant_by_hand_changes_one_place() -> None:
    for edit in BY_HAND + OF_GROUPS:
        compile(edit.module_text(), edit.path, "exec")
    with pytest.raises(LookupError, match="self' 12 times"):
        Edit(OFFSETS, "InFlightOffsets.finished", "self", "x").module_text()


@pytest.mark.night
def test_a_mutant_is_searched_until_it_is_found_and_is_written_down(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "results.json"
    options = ["--kind", "hand", "--only", "return offset + 1", "--results", str(file)]
    assert main(options) == 0
    [found] = results(file).values()
    assert found.search.runs >= 1
    assert found.search.found
    assert found.search.found[:60] in capsys.readouterr().out
    assert main(options) == 0  # what was found is not searched again
    assert list(results(file).values()) == [found]


def test_nothing_is_searched_where_no_mutant_has_that_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--kind", "hand", "--only", "no such thing"])
    assert "--only no such thing: no mutant has this in its name" in capsys.readouterr().err


def hangs(patch: pytest.MonkeyPatch) -> None:
    def runs(_: World) -> None:
        while True:
            pass

    patch.setattr(World, "run", runs)


def raises(patch: pytest.MonkeyPatch) -> None:
    def runs(_: World) -> None:
        raise KeyError("a wire is loose")

    patch.setattr(World, "run", runs)


def test_a_run_that_hangs_is_a_find(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "HANGS_S", -1.0)
    assert search.run(SEED, hangs).found.startswith("hangs: ")


def test_an_error_that_escapes_is_a_find_and_ends_nothing() -> None:
    found = search.run(SEED, raises).found
    assert found == "error: KeyError: 'a wire is loose' (test_simulated_mutants.py: runs)"


def test_a_mutant_that_cannot_be_put_in_is_no_find() -> None:
    edit = Edit(OFFSETS, "InFlightOffsets.finished", "no such text", "x")
    with pytest.raises(LookupError, match="cannot be put in"):
        search.run(SEED, edit.put_in)


@pytest.mark.night
def test_what_runs_reach_is_counted() -> None:
    reached = Reached()
    reached.add(run(5.0, 0))
    exits, taken, missed = branches(reached)
    assert 0 < taken < exits
    assert reached.actions["SendHeartbeat"] == reached.verdicts["Accepted.CLAIMED"] == 1
    looked = ConsumerLoop.on_time.__code__.co_firstlineno
    assert any(one.path.endswith("fetcher.py") for one in missed)
    assert any(
        path.endswith("consumer_loop.py") and looked < arc[0] < looked + 40
        for path, arc in reached.arcs
    )


def test_the_page_of_mutants_is_what_was_written_down() -> None:
    text = (ROOT / "docs" / "reference" / "simulated-mutants.md").read_text(encoding="utf-8")
    assert text == page(), "make docs writes it"

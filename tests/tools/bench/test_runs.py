"""Marshal promises that a benchmark that fails takes no other's figures with it."""

from __future__ import annotations

import html
from pathlib import Path

import attrs
import pytest
from benchmarks import bench_client, bench_ranges
from benchmarks.groups import protocol
from benchmarks.suite import __main__ as suite
from benchmarks.suite import parts, ratios
from benchmarks.suite.__main__ import bench, main
from benchmarks.suite.figures import Around, Better, Figure, Target
from benchmarks.suite.page import page
from benchmarks.suite.parts import PARTS, Part, Ran
from benchmarks.suite.ratios import Change, Comparison, Run

NOW = Run("2026-11-26 14:05", "0abc", "quick", {"cpu": "one", "cores": 2, "python": "3"}, 0.2, {})
GIVES = """\
import argparse
from benchmarks.suite.figures import Better, Report
parser = argparse.ArgumentParser()
Report.add_option(parser)
report = Report(parser.parse_args().figures)
report.add("{name}.first", "s", Better.LOWER, {ours}, "nothing", {{"peer": 4.0}})
{end}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where modules are found that a part may name."""
    root = Path(__file__).parents[3]
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{root}:{root / 'marshal'}")
    return tmp_path


def part(folder: Path, name: str, ours: float, end: str = "") -> Part:
    (folder / f"bench_{name}.py").write_text(GIVES.format(name=name, ours=ours, end=end))
    return Part(name, f"bench_{name}", [], [])


def test_a_part_that_fails_loses_nothing_that_it_or_others_gave(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fails = part(folder, "fails", 2.0, "raise SystemExit('the broker is gone')")
    given, stored = [fails, part(folder, "well", 1.0)], folder / "ratios.json"
    assert bench(given, NOW, folder / "out", stored, update=True) == 2
    printed = capsys.readouterr().out
    assert "== fails: " in printed
    assert "FAILED: the broker is gone" in printed
    assert "\nwell.first " in printed
    shown = (folder / "out" / "index.html").read_text()
    for words in ("fails.first", "well.first", "fails: the broker is gone"):
        assert words in shown
    assert (folder / "out" / "fails.txt").read_text().endswith("the broker is gone\n")
    [kept] = ratios.read(stored)
    assert kept.parts == {"well": {"well.first": {"peer": 4.0}}}


def test_the_exit_code_is_1_where_a_ratio_fell_and_0_where_that_is_stored(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = folder / "ratios.json"
    ratios.store(attrs.evolve(NOW, parts={"well": {"well.first": {"peer": 4.0}}}), stored)
    slower = [part(folder, "well", 1.2)]
    assert bench(slower, NOW, folder / "out", stored) == 1
    printed = capsys.readouterr().out
    fall = "FELL       well.first × peer: 4.00 before, 3.33 now (-16.7%), 3.33 in a second run"
    assert fall in printed
    assert printed.count("== well: ") == 2
    for _ in range(2):
        assert bench(slower, NOW, folder / "out", stored, update=True) == 0
    assert bench(slower, NOW, folder / "out", stored) == 0


def test_a_fall_that_a_second_run_does_not_show_is_no_error(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = folder / "ratios.json"
    ratios.store(attrs.evolve(NOW, parts={"well": {"well.first": {"peer": 4.0}}}), stored)
    seen = f"__import__('pathlib').Path({str(folder / 'seen')!r})"
    slow_once = part(folder, "well", 1.0, f"{seen}.touch()")
    module = folder / "bench_well.py"
    module.write_text(module.read_text().replace("1.0,", f"1.0 if {seen}.exists() else 2.0,"))
    assert bench([slow_once], NOW, folder / "out", stored) == 0
    line = "well.first × peer: 4.00 before, 2.00 now (-50.0%), 4.00 in a second run"
    assert f"fell once  {line}" in capsys.readouterr().out
    page_of_it = (folder / "out" / "index.html").read_text()
    assert "did not confirm these falls:" in page_of_it
    assert html.escape(line) in page_of_it


def test_an_interrupted_second_run_leaves_the_page_of_the_first(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored, runs = folder / "ratios.json", suite._run
    ratios.store(attrs.evolve(NOW, parts={"well": {"well.first": {"peer": 4.0}}}), stored)

    def interrupted(part: Part, scale: str, where: Path) -> Ran:
        if where.name == "again":
            raise KeyboardInterrupt
        return runs(part, scale, where)

    monkeypatch.setattr(suite, "_run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        bench([part(folder, "well", 2.0)], NOW, folder / "out", stored)
    page_of_it = html.unescape((folder / "out" / "index.html").read_text())
    assert "well.first × peer: 4.00 before, 2.00 now (-50.0%)" in page_of_it


def test_a_part_that_hangs_is_ended_and_one_that_gives_nothing_is_no_success(folder: Path) -> None:
    (folder / "hangs.py").write_text("import time; print('begun', flush=True); time.sleep(600)")
    ran = parts.run(Part("hangs", "hangs", [], []), "quick", folder, longest_s=1.0)
    assert ran.failure.startswith("did not end in 1 s: ")
    (folder / "silent.py").write_text("print('all is well')")
    ran = parts.run(Part("silent", "silent", [], []), "quick", folder)
    assert ran.failure == "gave no figure: all is well"


def test_no_part_of_a_benchmark_is_forgotten() -> None:
    names = {part.name for part in PARTS}
    assert names == {
        *("reducer", "validate", "replay", "watch"),
        *(f"client.{name}" for name in bench_client.ALL),
        # What a crash costs is counted there, and has no ratio.
        *(f"ranges.{name}" for name in bench_ranges.ALL if name != "kill"),
        *(f"groups.{name}" for name in protocol.ALL),
    }


def test_an_unknown_part_is_an_error_of_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["nobody"])
    assert "no such part: nobody; there are reducer, " in capsys.readouterr().err


def figure(**more: object) -> Figure:
    fields = {"peers": {"a <peer>": 4.0}, **more}
    return Figure("noop.x", "s", Better.LOWER, 2.0, "a million", **fields)  # type: ignore[arg-type]


def shown(found: Figure, load: float = 0.2, comparison: Comparison | None = None) -> str:
    stored = [
        attrs.evolve(NOW, parts={"noop": {"noop.x": {"a <peer>": each}}}) for each in (3, 2.5)
    ]
    run = attrs.evolve(NOW, load=load)
    return page(run, [Ran("noop", [found], 1.0)], comparison or Comparison(), stored)


def test_the_page_of_a_loaded_machine_names_its_load() -> None:
    assert "all figures are rough" not in shown(figure(), 1.0)
    assert "The load was 1.1 at the start: other work ran beside this" in shown(figure(), 1.1)


def test_a_figure_beside_which_others_worked_is_rough() -> None:
    assert "other work took 0.05 cores." in shown(figure(around=Around(others=0.05)))
    assert "other work took 0.50 cores: a rough figure." in shown(figure(around=Around(others=0.5)))


def test_the_page_shows_peers_targets_falls_and_history() -> None:
    fell = Comparison([Change("noop.x", "a <peer>", 2.5, 2.0)], compared=1)
    drawn = shown(figure(target=Target(1.0), note="twice"), comparison=fell)
    for words in (
        "Ratios that fell by more than 15%:",
        html.escape("noop.x × a <peer>: 2.50 before, 2.00 now (-20.0%)"),
        "target 1 s",
        "not reached",
        "Twice.",
        "3.00, 2.50, 2.00",  # the history
        "2.00, stored 2.75",  # the median
    ):
        assert words in drawn
    assert "<peer>" not in drawn

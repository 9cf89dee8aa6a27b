from collections.abc import Callable
from pathlib import Path

import pytest
from tools.runs import passed, spec

from kafka_marshal.modelcheck import models, traces
from kafka_marshal.modelcheck.models import Model
from kafka_marshal.modelcheck.tlc import tlc
from kafka_marshal.modelcheck.tlc.output import TlcOutcome, TlcResult

pytestmark = [pytest.mark.tlc, pytest.mark.usefixtures("short_runs")]

LIST = """# The hours of a day.
[[model]]
name = "Clock_Day"
kind = "safety"
about = "A day has four hours."
expect = "ok"
states = 99 # counted by hand

# And what it is not.
[[model]]
name = "Clock_Early"
kind = "broken"
about = "A day of three hours."
expect = "invariant"
violates = "Early"
"""


@pytest.fixture
def folder(clock: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = clock.parent
    bounds = folder / "models" / "Clock"
    bounds.mkdir(parents=True)
    clock.rename(bounds / clock.name)
    (folder / "models/Clock/Clock_Day.cfg").write_text("SPECIFICATION Spec\nINVARIANT Fine")
    (folder / "models/Clock/Clock_Early.cfg").write_text("SPECIFICATION Spec\nINVARIANT Early")
    (folder / "models.toml").write_text(LIST)
    monkeypatch.setattr(models, "spec_folder", lambda: folder)
    monkeypatch.setattr(passed, "kept_in", lambda: folder / "passed")
    return folder


def test_what_is_written_down_is_what_the_next_run_compares_with(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert spec.main([]) == 1
    said = capsys.readouterr().out
    assert "states: recorded 99, now 4" in said
    assert "length: recorded nothing, now 4" in said
    assert "2 models: 0 as recorded, 2 not" in said

    assert spec.main(["--update"]) == 0
    recorded = (folder / "models.toml").read_text()
    assert recorded == LIST.replace(
        "states = 99 # counted by hand\n", "states = 4\nedges = 4\ndepth = 4\n"
    ).replace('violates = "Early"\n', 'violates = "Early"\nlength = 4\n')
    assert [path.name for path in (folder / "traces").iterdir()] == ["Clock_Early.json"]

    capsys.readouterr()
    assert spec.main([]) == 0
    assert "2 models: 2 as recorded, 0 not" in capsys.readouterr().out


def test_another_counterexample_than_the_kept_one_is_a_difference(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert spec.main(["--update", "Clock_Early"]) == 0
    kept = folder / "traces" / "Clock_Early.json"
    kept.write_text(kept.read_text().replace('"hour": "2"', '"hour": "7"'))
    assert spec.main(["Clock_Early"]) == 1
    assert "another counterexample" in capsys.readouterr().out


def test_a_model_that_ends_otherwise_is_not_written_down(folder: Path) -> None:
    (folder / "models/Clock/Clock_Day.cfg").write_text("SPECIFICATION Spec\nINVARIANT Early")
    assert spec.main(["--update", "Clock_Day"]) == 1
    assert (folder / "models.toml").read_text() == LIST


def test_a_model_that_takes_minutes_runs_only_if_it_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    full = LIST.replace('expect = "invariant"', 'in = ["full"]\nexpect = "invariant"')
    (folder / "models.toml").write_text(full)
    assert spec.main(["--update"]) == 0
    assert "1 models: 1 as recorded" in capsys.readouterr().out
    assert spec.main(["--update", "Clock_Early"]) == 0
    assert "Clock_Early" in capsys.readouterr().out


def test_what_cannot_be_run_is_exit_code_2(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "models/Clock/Clock_Day.cfg").write_text("SPECIFICATION Gone")
    assert spec.main(["Clock_Day"]) == 2
    assert "Gone" in capsys.readouterr().out
    assert spec.main(["Nope"]) == 2
    (folder / "traces").mkdir()
    (folder / "traces" / "Clock_Old.json").touch()
    assert spec.main([]) == 2
    assert "no model keeps Clock_Old.json" in capsys.readouterr().err


def test_who_stops_listening_stops_the_runs(folder: Path) -> None:
    module = folder / "models/Clock/Clock.tla"
    module.write_text(module.read_text().replace("hour < 3 /\\", "hour < 2000000000 /\\"))
    (folder / "models/Clock/Clock_Day.cfg").write_text("SPECIFICATION Spec")
    runs = spec.run_all(models.read(folder))
    assert next(runs)[0].name == "Clock_Early"
    runs.close()  # the other model would run for hours
    assert not tlc._running


def test_a_reachability_model_keeps_no_counterexample(folder: Path) -> None:
    (folder / "models.toml").write_text(LIST.replace('"broken"', '"reachability"'))
    assert spec.main(["--update", "Clock_Early"]) == 0
    assert not (folder / "traces").exists()
    assert not any(map(traces.is_kept, models.read(folder)))


@pytest.fixture
def ran(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Clock_Day alone, as it is recorded; the names of the models that TLC ran."""
    (folder / "models.toml").write_text(LIST.partition("# And")[0].replace("99", "4"))
    names: list[str] = []

    def run(model: Model) -> TlcResult:
        names.append(model.name)
        return TlcResult(TlcOutcome.OK, None, None, 4, 4, 4, 0.1)

    monkeypatch.setattr(Model, "run", run)
    (folder / "models.toml").write_text(
        (folder / "models.toml").read_text().replace("states", "edges = 4\ndepth = 4\nstates")
    )
    return names


def test_what_has_not_changed_is_not_run_again(
    ran: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert spec.main([]) == 0
    assert "1 as recorded, 0 not" in capsys.readouterr().out
    assert spec.main([]) == 0
    printed = capsys.readouterr().out
    assert "unchanged   Clock_Day  4 states, 4 edges, depth 4" in printed
    assert "1 as recorded (1 unchanged and not run again: --fresh)" in printed
    assert len(ran) == 1
    assert spec.main(["--fresh"]) == 0
    assert len(ran) == 2


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("models/Clock/Clock.tla", lambda text: text.replace("hour < 3 /", "hour < 3  /")),
        ("models/Clock/Clock_Day.cfg", lambda text: f"{text} NotYet"),
        ("Export.tla", lambda text: text.replace("TRUE", "TRUE /\\ TRUE")),
        ("models.toml", lambda text: f"{text}deadlock_check = true\n"),
    ],
)
def test_what_has_changed_is_run_again(
    folder: Path, ran: list[str], file: str, change: Callable[[str], str]
) -> None:
    """Its own module, one that this one reaches, the bounds, and what TLC is asked."""
    assert spec.main([]) == 0
    (folder / "Stranger.tla").write_text("of no model")
    assert spec.main([]) == 0
    assert len(ran) == 1
    (folder / file).write_text(change((folder / file).read_text()))
    assert spec.main([]) == 0
    assert len(ran) == 2


def test_a_program_that_judges_otherwise_judges_again(
    ran: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert spec.main([]) == 0
    judges = spec.program()
    assert any(name.endswith("modelcheck/tlc/output.py") for name in judges)
    monkeypatch.setattr(spec, "program", lambda: {**judges, "tools/runs/spec.py": b"another"})
    assert spec.main([]) == 0
    assert len(ran) == 2


def test_what_failed_is_not_kept(folder: Path, ran: list[str]) -> None:
    toml = folder / "models.toml"
    toml.write_text(toml.read_text().replace("states = 4", "states = 5"))
    assert spec.main([]) == 1
    assert spec.main([]) == 1
    assert len(ran) == 2


@pytest.mark.parametrize(
    "written",
    [
        lambda entry: entry.replace(b"4 states", b"5 states"),
        lambda entry: entry[:-3],
        lambda entry: b"[]",
        lambda entry: b'{"line": "failed"}',
    ],
)
def test_an_entry_that_was_changed_is_not_believed(
    folder: Path, ran: list[str], written: Callable[[bytes], bytes]
) -> None:
    assert spec.main([]) == 0
    [entry] = (folder / "passed").iterdir()
    content = entry.read_bytes()
    entry.write_bytes(written(content))
    assert spec.main([]) == 0
    assert len(ran) == 2
    assert entry.read_bytes() == content


def test_an_entry_of_another_content_is_not_believed(folder: Path, ran: list[str]) -> None:
    """Also where somebody gives it the name of this one."""
    assert spec.main([]) == 0
    kept = folder / "passed"
    [entry] = kept.iterdir()
    cfg = folder / "models/Clock/Clock_Day.cfg"
    cfg.write_text(f"{cfg.read_text()} NotYet")
    [model] = models.read(folder)
    wanted = passed.Passed("spec", spec.program()).fingerprint(model)
    entry.rename(kept / f"spec-{wanted}.json")
    assert spec.main([]) == 0
    assert len(ran) == 2

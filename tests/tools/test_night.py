"""Marshal promises that each long target begins well, and that a night prints a line for each."""

from __future__ import annotations

import filecmp
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tools import night
from tools.night import ROOT, TARGETS, Target

MAKEFILE = """\
.PHONY: setup ok fails hangs writes
setup:
\t@echo the set-up is not run again; false
ok: setup
\t@echo first; echo $(ARGS)
fails: setup
\t@echo why it failed; false
hangs: setup
\t@echo begun; sleep 600
writes: setup
\t@echo $(ARGS) > generated.txt; echo written
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with a Makefile."""
    (tmp_path / "Makefile").write_text(MAKEFILE)
    (tmp_path / "generated.txt").write_text("as it was\n")
    (tmp_path / ".gitignore").write_text("build/\n")
    who = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org"]
    for words in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "all"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    return tmp_path


def test_a_night_goes_on_after_a_failure_and_says_so(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    targets = [Target("fails", ""), Target("ok", "", "the last line")]
    assert night.night(targets, root) == 1
    first, second, summary = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"fails +FAILED +\d+ s  make(\[\d+\])?: .*fails.* Error 1", first)
    assert re.fullmatch(r"ok +ok +\d+ s  the last line", second)
    assert summary == "night: 1 of 2 failed; what they printed is in build/night/"
    assert (root / "build" / "night" / "fails.txt").read_text().startswith("why it failed\n")
    assert (root / "build" / "night" / "ok.txt").read_text() == "first\nthe last line\n"


def test_a_night_without_failure_ends_well(root: Path) -> None:
    assert night.night([Target("ok", "")], root) == 0


def test_a_target_that_generates_leaves_the_tree_as_it_was(root: Path) -> None:
    assert night.run(Target("writes", "", "as it was", generates=True), root).ok
    ran = night.run(Target("writes", "", "something else", generates=True), root)
    assert not ran.ok
    assert ran.last == "changed the tree, git diff shows how:  M generated.txt"


def test_a_tree_that_was_changed_before_is_not_the_targets_fault(root: Path) -> None:
    (root / "Makefile").write_text(f"{MAKEFILE}\n# edited\n")
    assert night.run(Target("writes", "", "as it was", generates=True), root).ok


def test_a_target_that_hangs_is_ended(root: Path) -> None:
    ran = night.run(Target("hangs", ""), root, longest_s=4.0)  # in which make and its shell start
    assert not ran.ok
    assert ran.last == "did not end in 4 s: begun"


def test_every_long_target_is_in_the_makefile_and_in_the_night() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    declared = set(re.findall(r"(?m)^([a-z-]+): setup ##", text))
    short = {"check", "test", "model", "demo", "night"}
    assert {target.name for target in TARGETS} == declared - short


# The dearest. By day `prove`, `tests/tools/bench`, `tests/tools/chaos`, `test_group_bench`,
# `test_models`, `test_mutants`, `test_spec_mutants`, `test_fuzz`, `test_by_seed`, `test_golden` and
# `test_groups_by_seed` run their code.
STARTS_BY_NIGHT = {
    *("spec", "spec-mutants", "fuzz", "reached", "simulate-groups"),
    *("prove-full", "chaos", "soak", "docs", "simulated-mutants", "model-full", "triples"),
    *("bench-groups", "bench-watch", "bench-ranges", "bench-replay", "fuzz-replay"),
    *("bench", "bench-reducer", "bench-validate", "bench-client"),
    *("simulate", "golden", "mutants", "unsafe"),
}


# Each starts by its Makefile's line; what it takes is made as small as it can be. By day none needs
# a broker, and none needs Spark at all.
@pytest.mark.tlc
@pytest.mark.parametrize(
    "target",
    [
        pytest.param(each, id=each.name, marks=[pytest.mark.night] if by_night else [])
        for each in TARGETS
        for by_night in [each.name in STARTS_BY_NIGHT]
    ],
)
def test_a_long_target_begins_well(target: Target, tmp_path: Path) -> None:
    root, environ = (
        (copied(tmp_path), {"PYTHONPATH": "marshal"}) if target.generates else (ROOT, {})
    )
    words = night.command(target.name, target.start_args.format(desk=tmp_path))
    ran = subprocess.run(
        words, cwd=root, env={**os.environ, **environ}, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, f"make {target.name}\n{ran.stdout}\n{ran.stderr}"
    if target.generates:
        assert [name for name in files() if not same(root / name, ROOT / name)] == [], (
            f"make {target.name} writes something else"
        )


def files() -> list[str]:
    """What is under version control, or will be."""
    every = ("--cached", "--others", "--exclude-standard", "--deduplicate")
    listed = night.git(ROOT, "ls-files", "-z", *every)
    return [name for name in listed.split("\0") if (ROOT / name).is_file()]


def copied(desk: Path) -> Path:
    """A copy of the tree: who generates in this one would mend what another test finds."""
    root = desk / "tree"
    for name in files():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, root / name)
    (root / ".venv").symlink_to(ROOT / ".venv")
    return root


def same(one: Path, other: Path) -> bool:
    """Whether two files hold the same."""
    return filecmp.cmp(one, other, shallow=False)

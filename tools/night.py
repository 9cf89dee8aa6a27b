"""Every long target, one after the other, and a line for each: `make night`.

A target that fails does not end the night. What each one prints is in `build/night/NAME.txt`. A
target that generates files must leave the tree as it was. Exit code 1 if one of them failed.

`make test` runs the start of some targets, made as small as it can be: `start_args` of its row. A
night, which is also `make test-all`, runs the start of each.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from attrs import frozen

ROOT: Final = Path(__file__).parent.parent
OUT: Final = Path("build") / "night"
LONGEST_S: Final = 4 * 3600.0
"""A target that takes longer hangs."""


@frozen
class Target:
    """A long target of the Makefile."""

    name: str
    start_args: str
    """ARGS with which only its start runs; `{desk}` is an empty folder."""
    args: str = ""
    """ARGS of the night."""
    generates: bool = False
    """It writes files that are under version control."""


TARGETS: Final = (
    Target("test-all", "--collect-only -q tests/tools"),
    Target("spec", "MCFull_AloTwinsAgain --fresh", "--fresh"),
    Target("model-full", "MCFull_AloTwinsAgain --processes 1 --fresh", "--fresh"),
    Target("mutants", "--named NoLiveOwner"),
    Target("spec-mutants", "NoLiveOwner"),
    Target("walks", "--walks 5 --seed 1"),
    Target("prove", "--only NoReleaseTime --cases 1"),
    Target("prove-full", "--cases 1"),
    Target(
        "triples",
        "--only MCRecords_FencedDeep MCGroupEvents_HalfGone --into {desk}",
        generates=True,
    ),
    Target("docs", "", generates=True),
    Target("golden", "-k pause", generates=True),
    Target(
        "chaos",
        "--seconds 0 --consumers 1 --sharing 1 --brokers 1 --folder {desk}",
        "--night",
    ),
    Target("unsafe", "--list"),
    Target("soak", "--seconds 1 --rate 50 --partitions 2 --interval 1 --every 0.1 --folder {desk}"),
    Target("simulate", "--hours 0.001 --simulated-s 3", "--hours 100"),
    Target("simulate-groups", "--one 1 --simulated-s 5", "--hours 40"),
    Target(
        "simulated-mutants",
        "--kind once --only asks_with --results {desk}/results.json",
        "--seconds 600 --results build/night/simulated-mutants.json --again",
    ),
    Target("reached", "--runs 1 --jobs 1 --simulated-s 5", "--runs 600"),
    Target("fuzz", "--inputs 1 --target decode --folder {desk}", "--seconds 3600"),
    Target("fuzz-replay", "--records 2000 --hostile 0.5"),
    Target("conformance", "--list", "--seconds 600"),
    Target("locks", "--world observing", "--rounds 100"),
    Target("support", "--list"),
    Target("bench", "reducer validate --quick --folder {desk} --stored {desk}/ratios.json"),
    Target("bench-reducer", "--records 1000 --passes 1"),
    Target("bench-validate", "--events 100"),
    Target("bench-replay", "--records 10000 --passes 1 --only kernel account"),
    Target("bench-client", "pool --scale 0.001"),
    Target("bench-ranges", "--quick once records"),
    Target("bench-watch", "--seconds 1 --rate 2000 --only watch"),
    Target("bench-groups", "--quick start"),
)
"""Every target that CI is not patient enough for."""


@frozen
class Ran:
    """What came of a target."""

    name: str
    ok: bool
    seconds: float
    last: str
    """The last line that it printed, or why it failed."""

    def line(self) -> str:
        """One line of the table."""
        return f"{self.name:16}{'ok' if self.ok else 'FAILED':8}{self.seconds:8.0f} s  {self.last}"


def command(name: str, args: str) -> list[str]:
    """What runs a target alone: its set-up is there."""
    return ["make", "--no-print-directory", "-o", "setup", name, f"ARGS={args}"]


def run(target: Target, root: Path = ROOT, longest_s: float = LONGEST_S) -> Ran:
    """Run one target, with its output in a file of its own."""
    output = root / OUT / f"{target.name}.txt"
    output.parent.mkdir(parents=True, exist_ok=True)
    before = tree(root) if target.generates else ""
    began = time.monotonic()
    with output.open("wb") as file:
        code = _code_of(command(target.name, target.args), root, file.fileno(), longest_s)
    seconds = time.monotonic() - began
    lines = output.read_text(encoding="utf-8", errors="replace").splitlines()
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    if code is None:
        return Ran(target.name, False, seconds, f"did not end in {longest_s:.0f} s: {last}")
    if code:
        return Ran(target.name, False, seconds, last)
    if target.generates and tree(root) != before:
        changed = git(root, "status", "--porcelain").split("\n")[0]
        return Ran(target.name, False, seconds, f"changed the tree, git diff shows how: {changed}")
    return Ran(target.name, True, seconds, last)


def _code_of(words: Sequence[str], root: Path, output: int, longest_s: float) -> int | None:
    """Its exit code; None if it had to be ended, with all that it started."""
    process = subprocess.Popen(
        words, cwd=root, stdin=subprocess.DEVNULL, stdout=output, stderr=output, process_group=0
    )
    try:
        return process.wait(longest_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def tree(root: Path) -> str:
    """The state of the working tree, to compare it with another one."""
    return git(root, "status", "--porcelain") + git(root, "diff", "HEAD")


def git(root: Path, *words: str) -> str:
    """What git prints."""
    return subprocess.run(
        ["git", *words], cwd=root, check=True, capture_output=True, text=True
    ).stdout


def night(targets: Sequence[Target], root: Path = ROOT) -> int:
    """Run them all, and print a line for each as it ends; the exit code."""
    failed = 0
    for target in targets:
        ran = run(target, root)
        failed += not ran.ok
        print(ran.line(), flush=True)
    told = f"{failed} of {len(targets)} failed" if failed else f"all {len(targets)} are well"
    print(f"night: {told}; what they printed is in {OUT}/")
    return 1 if failed else 0


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="make night", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="TARGET", help="some of them; all")
    asked = parser.parse_args()
    known = {target.name: target for target in TARGETS}
    if unknown := set(asked.names) - set(known):
        parser.error(f"no such target: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    return night([known[name] for name in asked.names] or TARGETS)


if __name__ == "__main__":
    sys.exit(main())

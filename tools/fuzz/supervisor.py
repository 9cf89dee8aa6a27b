"""A target's loop in a process of its own: watched, ended when it hangs, started again.

What crashes or hangs is a finding like any other: the input lies in a file that both share.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import attrs
from attrs import define, field
from tools.fuzz import corpus
from tools.fuzz.engine import Counts, Current, Fuzzer, minimal
from tools.fuzz.oracle import LONGEST_S, Finding
from tools.fuzz.target import Target
from tools.fuzz.targets.planted import PLANTED

ADDRESS_SPACE_BYTES: Final = 12 << 30
"""More than this is refused by the system, and is a MemoryError."""


@define
class Outcome:
    """What a target's run came to."""

    target: str
    counts: Counts = field(factory=Counts)
    findings: list[tuple[Finding, bytes]] = field(factory=list)


def fuzz(
    name: str,
    folder: Path,
    seed: int,
    seconds: float,
    inputs: int | None,
    longest_s: float = LONGEST_S,
) -> Outcome:
    """Fuzz one target for that long, in as many processes as it takes, one after the other."""
    outcome, ends = Outcome(name), time.monotonic() + seconds
    folder.mkdir(parents=True, exist_ok=True)
    for again in range(1000):
        left_s = ends - time.monotonic()
        if again and (left_s <= 0 or inputs is not None):
            break
        arguments = (
            str(seed + 1000 * again),
            str(max(left_s, 0)),
            "" if inputs is None else str(inputs),
        )
        died = _watched(outcome, folder, arguments, longest_s)
        if died is None:
            break
        outcome.findings.append(died)
    return outcome


def _watched(
    outcome: Outcome, folder: Path, arguments: Sequence[str], longest_s: float
) -> tuple[Finding, bytes] | None:
    """One process; what it died of, with the input."""
    current = Current(folder / "current")
    with (folder / "stderr").open("ab") as stderr:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "tools.fuzz.supervisor"),
                *(outcome.target, str(folder), *arguments),
            ],
            stdout=subprocess.PIPE,
            stderr=stderr,
            process_group=0,
        )
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    text, at, since = b"", -1, time.monotonic()
    try:
        while True:
            text += process.stdout.read() or b""
            if process.poll() is not None:
                text += process.stdout.read() or b""
                break
            number, _ = current.get()
            if number != at:
                at, since = number, time.monotonic()
            elif time.monotonic() - since > longest_s:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                break
            time.sleep(0.05)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        process.stdout.close()
    _take(outcome, text)
    if process.returncode == 0:
        return None
    number, data = current.get()
    why = f"exit code {process.returncode}: {(folder / 'stderr').read_bytes()[-300:]!r}"
    if process.returncode == -signal.SIGKILL:
        return Finding("hang", f"more than {longest_s:.0f} s"), data
    return Finding("crash", why), data


def _take(outcome: Outcome, text: bytes) -> None:
    known = {each[0].text for each in outcome.findings}
    for line in text.splitlines():
        told: dict[str, Any] = json.loads(line)
        if "counts" in told:
            outcome.counts = Counts(**told["counts"])
        elif told["text"] not in known:
            outcome.findings.append(
                (Finding(told["kind"], told["text"]), base64.b64decode(told["input"]))
            )


def name_of(data: bytes) -> str:
    """A file's name for an input."""
    return hashlib.sha256(data).hexdigest()[:12]


def _target(name: str) -> Target:
    from tools.fuzz.targets.every import EVERY  # half of the package, and its libraries

    return EVERY[name]


def main(name: str, place: str, seed: str, seconds: str, inputs: str) -> None:
    """The process itself: prints a line of JSON for each finding, and one with its counts."""
    folder = Path(place)
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
    current = Current(folder / "current")
    # Whatever is printed by what is fuzzed is no line of ours.
    told = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def tell(line: dict[str, Any]) -> None:
        told.write(json.dumps(line) + "\n")
        told.flush()

    def found(finding: Finding, data: bytes) -> None:
        shown = base64.b64encode(data).decode()
        tell({"kind": finding.kind, "text": finding.text, "input": shown})

    target = PLANTED.get(name) or _target(name)
    fuzzer = Fuzzer(target, folder, int(seed), found, current.put)
    kept = [*corpus.kept(name), *corpus.kept(name, folder)]
    counts = fuzzer.run(kept, float(seconds), int(inputs) if inputs else None)
    corpus.keep(name, fuzzer.corpus, folder)
    tell({"counts": attrs.asdict(counts)})


def save(name: str, folder: Path) -> int:
    """Keep what a run found something with, and what went new ways; how many inputs."""
    found = [path.read_bytes() for path in folder.glob(12 * "[0-9a-f]")]
    short = [data for data in found if len(data) <= corpus.FOUND_BYTES]
    inputs = [*corpus.kept(name), *corpus.kept(name, folder)]
    chosen = minimal(_target(name), inputs, folder, short)
    corpus.keep(name, chosen)
    return len(chosen)


if __name__ == "__main__":
    main(*sys.argv[1:])

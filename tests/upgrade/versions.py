"""Version 0.1.0 and the present one, side by side: each runs in processes of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import kafka_marshal
from kafka_marshal.capture import RawRecord, capture_line

HERE = Path(__file__).parent
WHEEL = HERE.parent / "data" / "wheels" / "kafka_marshal-0.1.0-py3-none-any.whl"
PRESENT = Path(kafka_marshal.__file__).parent.parent
"""The folder that the present version is imported from."""

Row: TypeAlias = dict[str, Any]
"""What a record did: `verdict`, and `claims`, by name, with every field."""


def unpacked(folder: Path) -> Path:
    """Unpack 0.1.0: a zip would be compiled anew by every process."""
    with zipfile.ZipFile(WHEEL) as wheel:
        wheel.extractall(folder)
    return folder


def command(program: str, *arguments: str) -> list[str]:
    """A program of this folder, run by its path, so that it finds one version alone."""
    return [sys.executable, str(HERE / program), *arguments]


def environment(version: Path) -> dict[str, str]:
    """Python finds this version first."""
    return {**os.environ, "PYTHONPATH": str(version)}


class Folds:
    """Folds logs under one version."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def fold(
        self, records: Iterable[RawRecord], interval_ms: int, mistake: str | None = None
    ) -> list[Row]:
        """What each record did."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        log = {
            "interval_ms": interval_ms,
            "mistake": mistake,
            "records": [capture_line(each) for each in records],
        }
        self._process.stdin.write(json.dumps(log) + "\n")
        self._process.stdin.flush()
        rows: list[Row] = json.loads(self._process.stdout.readline())
        return rows


@contextmanager
def folds(version: Path) -> Iterator[Folds]:
    """A process that folds logs under this version."""
    with subprocess.Popen(
        command("folding.py"),
        env=environment(version),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Folds(process)


def differences(old: Sequence[Row], new: Sequence[Row]) -> list[str]:
    """Where a later version judges otherwise than 0.1.0, in fields that 0.1.0 knows."""
    assert len(old) == len(new)
    found = []
    for number, (was, now) in enumerate(zip(old, new, strict=True)):
        if was["verdict"] != now["verdict"]:
            found.append(f"record {number}: {was['verdict']} is {now['verdict']} now")
        if was["claims"].keys() != now["claims"].keys():
            found.append(f"record {number}: it reaches {list(now['claims'])} now")
            continue
        found += [
            f"record {number}: {field} of {name}: {value} is {now['claims'][name].get(field)} now"
            for name, claim in was["claims"].items()
            for field, value in claim.items()
            if now["claims"][name].get(field) != value
        ]
    return found

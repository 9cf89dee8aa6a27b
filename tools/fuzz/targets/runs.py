"""Recorded runs and logs alone, as `marshal validate` reads, judges and draws them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from tests.validate import samples
from tools.fuzz.oracle import refused_by
from tools.fuzz.target import Target
from tools.fuzz.targets.pages import check_page
from tools.fuzz.targets.sources import captures

from kafka_marshal import FENCED
from kafka_marshal.capture import UnreadableSource, read_capture
from kafka_marshal.counterexample import story_text, write
from kafka_marshal.validate import (
    is_run,
    read_run,
    slice_of,
    story_of,
    story_of_log,
    validate,
    validate_log,
)

WORDS = (
    *(f'"event": "{name}"'.encode() for name in ("sent", "read", "processed", "started", "gone")),
    *(b'"first": {"0": 1}', b'"instance": ', b'"instances": ', b'"mode": "amo"', b'"run": 1'),
    *(b'"from": ', b'"to": ', b'"rules": ', b'"heartbeat_interval_s": ', b'"window": '),
)


def seeds() -> Iterator[bytes]:
    """Simulated runs, one that is wrong, and logs alone."""
    for seed in range(3):
        yield _text(samples.rows(seed, 25))
    lines = (samples.RUNS / "grants_itself.jsonl").read_text(encoding="utf-8").splitlines()
    yield _text([json.loads(line) for line in lines[:60]])
    yield from captures()


def _text(rows: list[dict[str, object]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def check(data: bytes, desk: Path) -> None:
    """A run is explained, or what is wrong with it can be printed, written and drawn."""
    path = desk / "run.jsonl"
    path.write_bytes(data)
    with refused_by(UnreadableSource, naming=str(path)):
        if is_run(path):
            found = validate(read_run(path)).unexplained
            if found is None:
                return
            again = read_run(path)
            story = story_of(slice_of(again.setting, again.events, found, effort_max=20), str(path))
        else:
            records = sorted(read_capture(path), key=lambda raw: (raw.partition, raw.offset))
            found = validate_log(records, FENCED, str(path)).unexplained
            if found is None:
                return
            story = story_of_log(records[: found.number], FENCED, found, str(path))
        story_text(story)
        for file in write(desk / "out", "run", story):
            if file.suffix == ".html":
                check_page(file.read_text(encoding="utf-8"))


TARGETS = (
    Target(
        name="validate",
        rooms=("kafka_marshal.validate",),
        seeds=seeds,
        check=check,
        words=WORDS,
        size_max=1 << 15,
    ),
)

"""Runs that both judges judge: the compiled one must come to the same, in every word and state.

`python -m tests.validate.compiled.runs` judges some of them. With NUMBA_DISABLE_JIT=1 the kernel is
plain Python, so that nothing is compiled for a few thousand events.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random

import attrs
import numpy as np
import pytest
from tools.runs import simulate

from kafka_marshal.kernel.columns import NameCodes
from kafka_marshal.kernel.judge.lines import EventLines
from kafka_marshal.machines.consumer.consumer import Mode
from kafka_marshal.scratch import Scratch
from kafka_marshal.validate import Judgement, compiled, read_run
from kafka_marshal.validate.compiled import judge
from kafka_marshal.validate.reading import FileEvents
from kafka_marshal.validate.run import Fields
from kafka_marshal.validate.validator import Validator, first_unexplained, judgement_of
from tests.validate.compiled.steps import compare_steps
from tests.validate.mutations import MUTATIONS, mutated
from tests.validate.samples import BUSY, rows

ODD_SPACE = '{ "event"'
"""A line with it is judged by Python, and so is what comes behind it."""


@contextmanager
def as_in_a_long_run() -> Iterator[None]:
    """Most instances begin in the middle, and what all have passed is dropped at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judge, "ROWS_KEPT_MIN", 4)
        patch.setattr(simulate, "FULL_LOG_MAX", 20)
        yield


def state_of(validator: Validator) -> object:
    """All that decides about what may come next."""
    logs = {
        place: (log._readers, log.last_offset, log.end, log.has_gaps)
        for place, log in validator.logs.items()
    }
    instances = {
        (name, place): (view.next_index, list(view.outbox), view.first, instance.running)
        for name, instance in validator.instances.items()
        for place, view in instance.partitions.items()
    }
    keys = [key for log in validator.logs.values() for key in log._readers.all()]
    consumers = {
        (name, key): instance.consumer(key)
        for name, instance in validator.instances.items()
        for key in keys
        if instance.partitions and key.group == instance.group
    }
    return logs, instances, consumers


def compare(
    path: Path, lines: Sequence[str], chunk_bytes: int, line_end: str = "\n"
) -> tuple[Judgement, int]:
    """The judgement, and how many events were judged compiled.

    Some lines are blank, and the last one has no end.

    Raises:
        AssertionError: the two judges differ.
    """
    blank = len(lines) // 2
    text = line_end.join(["", *lines[:1], "", *lines[1:blank], " \t", *lines[blank:]])
    path.write_text(text, encoding="utf-8", newline="")
    run = read_run(path)
    assert run.starts is not None
    exact = Validator(run.setting, run.starts)
    expected = judgement_of(exact, first_unexplained(exact, run.events))
    run = read_run(path)
    assert isinstance(run.events, FileEvents)
    assert run.starts is not None
    assert compiled.fits(run.setting)
    found = compiled.judged(run.events, run.starts, chunk_bytes)
    assert found.judgement == expected
    assert state_of(found.validator or found.judge.validator()) == state_of(exact)
    return expected, found.compiled


def written(lines: Sequence[Fields]) -> list[str]:
    return [json.dumps(line) for line in lines]


def runs_of(seed: int, events: int, mode: Mode) -> Iterator[list[str]]:
    """A run; the same where one of four consumers was not recorded; and with an odd line."""
    lines = rows(seed, events, attrs.evolve(BUSY, mode=mode, certifies=seed % 3 > 0))
    yield written(lines)
    setting, *made = json.loads(json.dumps(lines))
    strangers = {each["instance_id"] for each in setting["instances"] if each["client_id"] == "c1"}
    setting["instances"] = [
        each for each in setting["instances"] if each["instance_id"] not in strangers
    ]
    yield written([setting, *(each for each in made if each.get("instance") not in strangers)])
    odd = written(lines)
    place = Random(seed).randrange(1, len(odd))
    odd[place] = odd[place].replace('{"event"', ODD_SPACE)
    yield odd


ORDINARY = (
    '{"event": "read", "instance": "c0", "partition": 0, "offset": 7}',
    '{"event": "sent", "instance": "c0", "partition": 0, "value": "Heartbeat/1/5/c0/c/g/t/0/4", '
    '"headers": {"marshal-epoch": "3", "marshal-interval": "9"}}',
    '{"event": "appended", "partition": 0, "offset": 7, "timestamp_ms": 5, "timestamp_type": 2, '
    '"value": "ReleaseGroup/0/5/c0/c/g//0/4"}',
    '{"event": "processed", "instance": "c0", "topic": "t", "topic_partition": 0, "from": 3, '
    '"to": 5}',
    '{"event": "crashed", "instance": "c0"}',
)
ODD = (
    *((ORDINARY[0], old, new) for old, new in (
        ("c0", "c1"), ("c0", "c\\u0030"), ("7}", "07}"), ("7}", "-7}"), ("7}", "7.0}"), ("7}", "7"),
        ("7}", f"{10**18}}}"), ("7}", '7, "offset": 8}'), ("7}", "7} "), ("read", "sent"),
        (": ", ":"),
    )),
    *((ORDINARY[1], old, new) for old, new in (
        ('"3"', '"x"'), ('"3"', '""'), ('"3"', "3"), ('"9"', '"0"'), ("-interval", "-epoch"),
        ("-interval", "-keep"), ("Heartbeat", "Heartbeet"), ("/0/4", "/0"), ("/0/4", "/-1/4"),
        ("/0/4", "/0/-4"), ("/c0/", "/ranges/"), ("}}", "}"), ("/t/", "/\u00e4/"),
    )),
    *((ORDINARY[2], old, new) for old, new in (
        ("/4", f"/{10**17}"), ("g//0", "g/t/0"), ('ms": 5', f'ms": {10**17}'),
        ('ms": 5', 'ms": -5'), ('type": 2', 'type": 1'), ("ReleaseGroup", "ClaimingRange"),
    )),
    *((ORDINARY[3], old, new) for old, new in (
        ('"to": 5', '"to": 3'), ("}", ', "shared": true}'), ('"t"', "null"), ('"t"', '"t/u"'),
        ("processed", "begun"),
    )),
    (ORDINARY[4], "}", ', "why": 1}'),
)  # fmt: skip
"""Of a line that is ordinary, something and instead of it something else, so that it is not."""


def taken_for_the_other_kind() -> list[str]:
    """The lines of `ORDINARY` that are not, and those of `ODD` that are."""
    changed = [line.replace(old, new, 1) for line, old, new in ODD]
    data = "".join(f"{line}\n" for line in (*ORDINARY, *changed)).encode()
    taken = EventLines(["c0"], NameCodes(), ["ranges"]).columns(np.frombuffer(data, np.uint8))
    ordinary = [bool(kind) for kind in taken.kind]
    expected = [True] * len(ORDINARY) + [False] * len(changed)
    both = zip([*ORDINARY, *changed], ordinary, expected, strict=True)
    return [line for line, found, must in both if found != must]


def landed_at_another_offset(lines: Sequence[Fields]) -> list[str]:
    """The last heartbeat that landed is not the one that was sent, in its last digit alone."""
    changed = written(lines)
    place = max(
        n
        for n, line in enumerate(lines)
        if line.get("event") == "appended" and str(line["value"]).startswith("Heartbeat")
    )
    value = str(lines[place]["value"])
    other = f"{value[:-1]}{(int(value[-1]) + 1) % 10}"
    changed[place] = changed[place].replace(f'"{value}"', f'"{other}"')
    return changed


def judge_all(folder: Path, seeds: Sequence[int], events: int, mutants: int) -> dict[str, int]:
    """Compare the judges on runs of each seed, and on this number of mutants of each kind.

    How many events were judged compiled, of how many, and how many runs are not explained.
    """
    path, figures = folder / "run.jsonl", {"compiled": 0, "events": 0, "unexplained": 0}

    def add(lines: Sequence[str], chunk_bytes: int, line_end: str = "\n") -> Judgement:
        judgement, count = compare(path, lines, chunk_bytes, line_end)
        figures["compiled"] += count
        figures["events"] += judgement.events
        figures["unexplained"] += not judgement.explained
        return judgement

    for seed in seeds:
        for mode in Mode:
            line_ends = ("\n", "\r\n", "\r")
            for lines, line_end in zip(runs_of(seed, events, mode), line_ends, strict=True):
                chunk_bytes = Random(seed).choice([999, 20_000, 1 << 22])
                assert add(lines, chunk_bytes, line_end).explained
            run = rows(seed, events, attrs.evolve(BUSY, mode=mode))
            add(landed_at_another_offset(run), 1 << 22)
            for name in MUTATIONS:
                for _, mutant in zip(range(mutants), mutated(run, name), strict=False):
                    add(written(mutant), 1 << 22)
    return figures


def main() -> None:
    """Print what is counted. Arguments: seeds, events and mutants of runs, and seeds of steps."""
    first, last, events, mutants, steps = map(int, sys.argv[1:])
    assert taken_for_the_other_kind() == []
    print(json.dumps([compare_steps(seed, 150) for seed in range(steps)]))
    with Scratch("compiled") as folder, as_in_a_long_run():
        print(json.dumps(judge_all(folder, range(first, last), events, mutants)))


if __name__ == "__main__":
    main()

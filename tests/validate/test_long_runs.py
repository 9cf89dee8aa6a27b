"""Marshal promises that a run of any length is judged in the memory that its readers need."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import attrs
import pytest
from tools.runs import simulate

from kafka_marshal.capture import UnreadableSource, fields_of
from kafka_marshal.validate import Judgement, Run, read_run, run, validate, validator
from kafka_marshal.validate.reading import _READ_LINE, event_of
from kafka_marshal.validate.run import Fields
from kafka_marshal.validate.validator import Validator
from tests.validate.samples import BUSY, rows, write


@pytest.fixture(autouse=True)
def _forgets_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a long run: most begin in the middle, and what all have passed is dropped at once."""
    monkeypatch.setattr(validator, "FORGET_EVERY", 4)
    monkeypatch.setattr(simulate, "FULL_LOG_MAX", 20)


def kept_and_not(path: Path) -> tuple[Judgement, Judgement]:
    """The judgement with records dropped, and with all of them kept."""
    return validate(read_run(path)), validate(attrs.evolve(read_run(path), starts=None))


def most_kept(given: Run) -> tuple[int, int]:
    """How many records of a partition are kept at most, and how many it has in the end."""
    judge, most = Validator(given.setting, given.starts), 0
    for event in given.events:
        assert judge.take(event) is None
        most = max([most, *(len(log.entries) for log in judge.logs.values())])
    return most, max(log.end for log in judge.logs.values())


def test_records_that_nobody_reads_any_more_are_dropped(tmp_path: Path) -> None:
    short, long = (write(tmp_path / f"{n}", rows(4, n)) for n in (2_000, 8_000))
    most, end = most_kept(read_run(long))
    assert end > 500
    assert most < 120
    assert most <= 2 * most_kept(read_run(short))[0]
    most, end = most_kept(attrs.evolve(read_run(long), starts=None))
    assert most == end


def changed(lines: Sequence[Fields], seed: int) -> list[Fields]:
    """One event is gone, comes twice, or comes later, or an offset is another.

    Or an instance passes over a gap to where it was long ago.
    """
    chance, found = Random(seed), [*lines]
    place = chance.randrange(len(lines) // 2, len(lines) - 9)
    match seed % 5:
        case 0:
            del found[place]
        case 1:
            found.insert(place, found[place])
        case 2:
            found.insert(place + chance.randrange(1, 8), found.pop(place))
        case 3:
            [place, *_] = (n for n in range(place, 0, -1) if lines[n]["event"] == "read")
            found.insert(place, {**found[place], "event": "gap", "offset": 1})
        case _:
            [place, *_] = (n for n in range(place, 0, -1) if "offset" in lines[n])
            offset = found[place]["offset"]
            assert isinstance(offset, int)
            found[place] = {**found[place], "offset": max(0, offset + chance.choice((-9, -1, 1)))}
    return found


def test_what_is_not_explained_is_the_same_whether_records_are_dropped(tmp_path: Path) -> None:
    lines, guards = rows(4, 800, attrs.evolve(BUSY, idempotent=False)), set()
    for seed in range(60):
        path = write(tmp_path / "run", changed(lines, seed))
        dropped, kept = kept_and_not(path)
        assert dropped == kept, seed
        guards.add(dropped.unexplained and dropped.unexplained.guard)
    assert len(guards) >= 4


def test_who_begins_is_known_before_the_first_event(tmp_path: Path) -> None:
    """However JSON writes it."""
    lines = rows(4, 2_000)
    begins = [each["first"] for each in lines if each.get("event") == "started"]
    path = write(tmp_path / "run", lines)
    as_read = [{str(n): at for n, at in first.items()} for first in read_run(path).starts or ()]
    assert as_read == begins
    path.write_text(path.read_text().replace('"started"', '"st\\u0061rted"'))
    assert [
        {str(n): at for n, at in first.items()} for first in read_run(path).starts or ()
    ] == begins


def test_where_somebody_shares_all_of_the_log_is_kept(tmp_path: Path) -> None:
    lines = rows(4, 2_000)
    [first, *_] = (str(each["instance"]) for each in lines if each.get("event") == "started")
    shares = {"event": "shares", "instance": first, "topic": "t0", "topic_partition": 0}
    path = write(tmp_path / "run", [*lines, {**shares, "view": 0, "start": 0}])
    assert read_run(path).starts is None


def test_a_file_that_changed_while_it_was_read_is_refused(tmp_path: Path) -> None:
    known = read_run(write(tmp_path / "run", rows(4, 4_000))).starts
    assert known is not None
    for starts in (known[:3], [{0: 10**6, 1: 10**6} for _ in known]):
        again = attrs.evolve(read_run(tmp_path / "run"), starts=starts)
        with pytest.raises(UnreadableSource, match=r"run:[0-9]+: the file has changed while"):
            validate(again)


def read_lines() -> Iterator[str]:
    """Lines that are about a read, as recordings write them and as others may."""
    usual = json.dumps({"event": "read", "instance": "c0-0", "partition": 1, "offset": 12})
    yield usual
    for old, new in (
        ('"c0-0"', '"nobody"'), ('"c0-0"', '"c0\\u002d0"'), ('"c0-0"', '"c0-0\t"'), ("c0-0", "é"),
        (": 1,", ": 2,"), (": 1,", ": 01,"), (": 1,", ": -1,"), (": 1,", ": ١,"),
        ("12", "9223372036854775807"), ("12", "9223372036854775808"), ("12", "012"), ("12", "1e1"),
        ("12", "12.0"), ("12", "true"), ("12", '12, "more": 1'), ("12", '12, "offset": 3'),
        (" ", ""), ("}", " } "), ("}", "}}"), ("read", "reads"), ("c0-0", "c0-0\\"),
    ):  # fmt: skip
        assert old in usual
        yield usual.replace(old, new)


@pytest.mark.parametrize("line", [*read_lines()])
def test_a_read_is_read_as_any_line_is(line: str, tmp_path: Path) -> None:
    head, *_ = rows(1, 50)
    path = write(tmp_path / "run", [head])
    path.write_text(path.read_text() + f"{line}\n")
    given = read_run(path)

    def said() -> object:
        try:
            [event] = given.events
        except UnreadableSource as error:
            return str(error)
        return event, event.fields

    def read_slowly() -> object:
        try:
            fields = fields_of(line, f"{path}:2")
            event = event_of(fields, f"{path}:2", given.setting)
        except UnreadableSource as error:
            return str(error)
        return event, event.fields

    assert said() == read_slowly()


def test_what_recordings_write_is_read_without_json() -> None:
    line = json.dumps(run.read("c0-0", 1, 12)) + "\n"
    assert _READ_LINE.fullmatch(line)


def test_a_name_is_what_json_says_and_not_what_stands_there(tmp_path: Path) -> None:
    """Of two backslashes one is meant, and the instance has two in its name."""
    head = rows(1, 50)[0]
    assert isinstance(head["instances"], list)
    head["instances"][0]["instance_id"] = "c\\\\0"
    path = write(tmp_path / "run", [head])
    path.write_text(
        path.read_text() + '{"event": "read", "instance": "c\\\\0", "partition": 1, "offset": 12}'
    )
    with pytest.raises(UnreadableSource, match="is not among the run's instances"):
        list(read_run(path).events)

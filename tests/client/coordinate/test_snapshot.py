"""What is put aside is what was read, and is used only where the log is still that one."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from attrs import define, evolve

from kafka_marshal import FENCED, MalformedRecord
from kafka_marshal.capture import RawRecord
from kafka_marshal.client.connect.log_filter import LogFilter
from kafka_marshal.client.connect.reader import CoordinationReader, OffsetsGone, Watermarks
from kafka_marshal.client.coordinate import snapshot
from kafka_marshal.client.coordinate.inputs import LogTruncated
from kafka_marshal.client.coordinate.snapshot import (
    PartitionSnapshot,
    RecordMark,
    Snapshot,
    SnapshotOrigin,
    SnapshotRefused,
    parsed,
    written,
)
from kafka_marshal.core.claims.suffix_reader import EVERYTHING
from kafka_marshal.errors import InvalidOption
from kafka_marshal.machines.consumer.consumer import InstanceConfig, Mode
from kafka_marshal.machines.consumer.member import Member
from kafka_marshal.machines.consumer.memory import PartitionMemory
from kafka_marshal.testing import Broker
from tests.client.crew import RULES, Stage, until
from tests.kernel import hostile

ORIGIN = SnapshotOrigin("cluster", "__marshal", "topic-id", 8, "g", FENCED)


def raw(offset: int, value: bytes = b"x") -> RawRecord:
    return RawRecord(0, offset, 1000 + offset, value)


@cache
def memory(seed: int, first: int = 0) -> PartitionMemory:
    """What somebody knows who has read whatever may stand in a log."""
    me = InstanceConfig("i", "c", Mode.AT_LEAST_ONCE)
    member = Member(me, "g", 1, firsts={0: first})
    member.add_topic("t", 1, now_ms=0)
    last = -1
    for each in hostile.log(seed, 200):
        try:
            record = each.decoded()
        except MalformedRecord:
            continue
        if first <= record.offset > last:
            last = record.offset
            member.record(record, now_ms=0)
    return member.memory()[0]


@define
class MockTail:
    """A log of some records."""

    there: list[RawRecord]
    low: int = 0
    silent: bool = False
    """Nobody answers."""

    def records(
        self, starts: Mapping[int, int], ends: Mapping[int, int], stopped: Callable[[], bool]
    ) -> Iterator[list[RawRecord]]:
        if starts and min(starts.values()) < self.low:
            raise OffsetsGone("they are gone")
        while self.silent and not stopped():
            yield []
        yield [
            each
            for each in self.there
            if starts.get(each.partition, 99) <= each.offset < ends.get(each.partition, 0)
        ]


USUAL = Watermarks(0, 10)


def begun(
    path: Path, there: list[RawRecord], extent: Watermarks = USUAL, first: int = 0
) -> tuple[Snapshot, dict[int, PartitionSnapshot]]:
    return begun_by(MockTail(there), path, extent, first)


def begun_by(
    tail: MockTail, path: Path, extent: Watermarks = USUAL, first: int = 0
) -> tuple[Snapshot, dict[int, PartitionSnapshot]]:
    made = Snapshot(path, ORIGIN)
    extents, firsts = {0: extent, 1: Watermarks(0, 5)}, {0: first, 1: 0}
    return made, made.begin(tail, extents, firsts)  # type: ignore[arg-type]


def put_aside(path: Path) -> PartitionSnapshot:
    """A file whose last record is the one at 7."""
    kept = PartitionSnapshot(0, RecordMark.of(raw(7)), memory(1))
    path.write_text(written(ORIGIN, {0: kept}), encoding="utf-8")
    return kept


# --- the file -------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [0, 20])
@pytest.mark.parametrize("seed", range(10))
def test_what_is_read_is_what_was_written(seed: int, first: int) -> None:
    kept = {
        0: PartitionSnapshot(first, RecordMark.of(raw(7)), memory(seed, first)),
        5: PartitionSnapshot(1, RecordMark(2, 3, ""), NONE),
    }
    found = parsed(written(ORIGIN, kept), ORIGIN)
    assert found == kept
    known = [each.reader.certain for each in found[0].memory.claims.values()]
    assert first or all(certain is EVERYTHING for certain in known)


NONE = memory(0)


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"cluster": "b"}, "cluster"),
        ({"topic": "b"}, "topic"),
        ({"topic_id": "b"}, "topic_id"),
        ({"partitions": 2}, "partitions"),
        ({"group": "h"}, "group"),
        ({"rules": evolve(FENCED, heartbeat_interval_ms=5)}, "rules"),
        ({"rules": evolve(FENCED, pause_max_ms=5)}, "rules"),
    ],
)
def test_what_is_of_another_log_or_by_other_rules_is_refused(
    other: Mapping[str, Any], named: str
) -> None:
    text = written(ORIGIN, {0: PartitionSnapshot(0, RecordMark.of(raw(7)), NONE)})
    with pytest.raises(SnapshotRefused, match=f"it is of another {named}$"):
        parsed(text, evolve(ORIGIN, **other))


def test_what_another_version_wrote_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    text = written(ORIGIN, {})
    monkeypatch.setattr(snapshot, "package_version", lambda: "9.9")
    with pytest.raises(SnapshotRefused, match=r"and this is 9\.9"):
        parsed(text, ORIGIN)
    monkeypatch.undo()
    monkeypatch.setattr(snapshot, "FORMAT", 99)
    with pytest.raises(SnapshotRefused, match="it was written by version"):
        parsed(text, ORIGIN)


def test_what_is_not_whole_is_refused_wherever_it_was_cut_or_changed() -> None:
    text = written(ORIGIN, {0: PartitionSnapshot(0, RecordMark.of(raw(7)), memory(3))})
    for at in range(0, len(text) - 1, 97):
        with pytest.raises(SnapshotRefused):
            parsed(text[:at], ORIGIN)
    body = text.index("\n") + 1
    for at in range(body, len(text) - 1, 97):
        with pytest.raises(SnapshotRefused, match="it is not whole"):
            parsed(text[:at] + "~" + text[at + 1 :], ORIGIN)


@pytest.mark.parametrize("text", ["", "\n", "x", "[]", "{}", "3\n{}", '{"format": 1}\n'])
def test_what_is_something_else_is_refused(text: str) -> None:
    with pytest.raises(SnapshotRefused):
        parsed(text, ORIGIN)


def test_a_file_that_claims_to_be_whole_and_says_nothing_is_refused() -> None:
    for body in ("[]", "{}", json.dumps({"origin": {}}), json.dumps({"partitions": {}})):
        head = json.loads(written(ORIGIN, {}).splitlines()[0]) | {"sha256": snapshot._digest(body)}
        with pytest.raises(SnapshotRefused):
            parsed(f"{json.dumps(head)}\n{body}\n", ORIGIN)


# --- whether it still holds -----------------------------------------------------------------------


def changed(*path: str | int, to: object) -> str:
    """A file that was changed by somebody who made its checksum right."""
    kept = PartitionSnapshot(0, RecordMark.of(raw(7)), memory(1))
    body = json.loads(written(ORIGIN, {0: kept}).splitlines()[1])
    place = body
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = to
    return sealed(json.dumps(body))


def sealed(body: str) -> str:
    head = json.loads(written(ORIGIN, {}).splitlines()[0]) | {"sha256": snapshot._digest(body)}
    return f"{json.dumps(head)}\n{body}\n"


@pytest.mark.parametrize(
    "text",
    [
        changed("partitions", "0", "first", to="0"),
        changed("partitions", "0", "first", to=2**63),
        changed("partitions", "0", "last", "offset", to=None),
        changed("partitions", "0", "claims", 0, 0, to=5),
        changed("partitions", "0", "claims", 0, 1, to=-1),
        changed("partitions", "0", "claims", 0, 3, 3, to=None),
        changed("partitions", "0", "claims", 0, 3, 0, to=5),
        changed("partitions", "0", "newborn", 0, to=True),
        changed("partitions", "0", "newborn", 3, to=[None, None, None, "x"]),
        changed("partitions", "0", "requests", to=[["c", "t", 0, "x"]]),
        changed("partitions", "0", to=[]),
        changed("partitions", to={"8": {}}),
        changed("origin", to=[]),
        sealed("[" * 100_000),
        "[" * 100_000,
    ],
    ids=range(15),
)
def test_what_nobody_could_have_written_is_refused(text: str) -> None:
    """Else it would be a consumer that fails, of a file that nobody has to trust."""
    with pytest.raises(SnapshotRefused) as said:
        parsed(text, ORIGIN)
    assert str(said.value).isprintable()


def test_where_the_log_is_still_the_same_it_is_taken_up(tmp_path: Path) -> None:
    kept = put_aside(tmp_path / "file")
    _, found = begun(tmp_path / "file", [raw(7)])
    assert found == {0: kept}


@pytest.mark.parametrize(
    ("there", "extent", "first", "why"),
    [
        ([raw(7)], Watermarks(0, 7), 0, "it was read to 8 and the log ends at 7"),
        ([raw(7)], Watermarks(8, 10), 0, "it was read to 8 and the log begins at 8"),
        ([raw(7)], Watermarks(0, 99), 9, "it was read to 8 and reading begins at 9"),
        ([raw(7, b"y")], Watermarks(0, 10), 0, "its record 7 is another one now"),
        ([evolve(raw(7), timestamp_ms=1)], Watermarks(0, 10), 0, "its record 7 is another one now"),
        ([raw(6)], Watermarks(0, 10), 0, "its record 7 is not there"),
        ([], Watermarks(0, 10), 0, "its record 7 is not there"),
    ],
)
def test_where_the_log_is_not_the_same_it_is_read(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    there: list[RawRecord],
    extent: Watermarks,
    first: int,
    why: str,
) -> None:
    put_aside(tmp_path / "file")
    _, found = begun(tmp_path / "file", there, extent, first)
    assert not found
    assert f"not used for partition 0, {why}" in caplog.text


def test_a_log_that_is_cut_while_it_is_looked_at_is_read(tmp_path: Path) -> None:
    put_aside(tmp_path / "file")
    assert not begun_by(MockTail([], low=8), tmp_path / "file")[1]


def test_where_nobody_answers_in_time_the_log_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "CONNECT_S", 0.0)
    put_aside(tmp_path / "file")
    assert not begun_by(MockTail([], silent=True), tmp_path / "file")[1]


def test_what_cannot_be_used_is_told_and_does_no_harm(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"\xff")
    assert not begun(path, [])[1]
    path.unlink()
    path.mkdir()
    assert not begun(path, [])[1]
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    assert {record.event for record in caplog.records} == {"snapshot"}  # type: ignore[attr-defined]


def test_without_a_folder_there_is_nothing_to_be_put_aside_in(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="there is no folder"):
        Snapshot(tmp_path / "none" / "file", ORIGIN)


# --- putting aside --------------------------------------------------------------------------------


def test_it_is_written_when_something_was_read_and_when_it_is_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, known = tmp_path / "file", {0: memory(2), 1: memory(3)}
    made, _ = begun(path, [])
    made.keep(lambda: known, at_once=True)
    assert not path.exists()
    made.read({0: raw(8)})
    made.keep(lambda: known)
    assert not path.exists()
    made.keep(lambda: known, at_once=True)
    # Of partition 1 it is not known how far it was read.
    found = parsed(path.read_text(encoding="utf-8"), ORIGIN)
    assert found == {0: PartitionSnapshot(0, RecordMark.of(raw(8)), known[0])}
    monkeypatch.setattr(snapshot, "EVERY_S", -1.0)
    made.read({1: raw(9)})
    made.keep(lambda: known, at_once=True)
    made.read({1: raw(10)})
    made.keep(lambda: known)
    assert parsed(path.read_text(encoding="utf-8"), ORIGIN)[1].last.offset == 10
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_what_was_taken_up_and_not_read_any_further_is_kept(tmp_path: Path) -> None:
    kept = put_aside(tmp_path / "file")
    made, _ = begun(tmp_path / "file", [raw(7)])
    made.read({1: raw(3)})
    made.keep(lambda: {0: kept.memory, 1: NONE}, at_once=True)
    assert begun(tmp_path / "file", [raw(7), evolve(raw(3), partition=1)])[1] == {
        0: kept,
        1: PartitionSnapshot(0, RecordMark.of(raw(3)), NONE),
    }


def test_where_it_cannot_be_written_what_was_there_stays_and_it_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    kept = put_aside(path)

    def full(self: Path, *_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    made, _ = begun(path, [raw(7)])
    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", full)
        for offset in (8, 9):
            made.read({0: raw(offset)})
            made.keep(lambda: {0: NONE}, at_once=True)
    assert caplog.text.count("No space left on device") == 1
    assert begun(path, [raw(7)])[1] == {0: kept}


def test_where_nothing_can_be_written_or_removed_it_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It ended the consumer, as when a failing disk is mounted again read-only."""
    folder = tmp_path / "folder"
    folder.mkdir()
    made, _ = begun(folder / "file", [])
    folder.rmdir()
    folder.touch()
    made.read({0: raw(8)})
    made.keep(lambda: {0: NONE}, at_once=True)
    made.drop()
    assert "cannot be written: Not a directory" in caplog.text


def test_what_does_not_hold_any_more_is_gone(tmp_path: Path) -> None:
    put_aside(tmp_path / "file")
    made, _ = begun(tmp_path / "file", [raw(7)])
    made.read({0: raw(8)})
    made.drop()
    made.keep(lambda: {0: NONE}, at_once=True)
    assert not (tmp_path / "file").exists()


# --- on a broker ----------------------------------------------------------------------------------


@pytest.fixture
def stage(kafka_broker: Broker) -> Stage:
    return Stage(kafka_broker)


def read_by(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if "snapshot" in each.getMessage()]


def test_a_restart_reads_only_what_came_since_and_goes_on_where_it_was(
    stage: Stage,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.INFO, logger="kafka_marshal")
    topic, path = stage.topic(partitions=2, messages=100), tmp_path / "file"
    with stage.worker("w1", topic, snapshot=path) as one:
        until(lambda: len(one.got) == 100)
        one.end()
    with stage.worker("w2", topic) as other:
        until(lambda: len(other.consumer.claims) == 2)
        other.end()
    stage.produce(topic, 2, range(100, 200))
    caplog.clear()
    add, offsets = LogFilter.add, list[tuple[Any, Any]]()

    def noted(log_filter: LogFilter[Any], messages: list[Any]) -> dict[int, Any]:
        offsets.extend((message.partition(), message.offset()) for message in messages)
        return add(log_filter, messages)

    monkeypatch.setattr(LogFilter, "add", noted)
    places = json.loads(path.read_text(encoding="utf-8").splitlines()[1])["partitions"]
    with stage.worker("w1", topic, snapshot=path) as again:
        until(lambda: len(again.got) == 100)
    assert offsets
    assert all(offset > places[str(place)]["last"]["offset"] for place, offset in offsets)
    assert sorted(again.got) == list(range(100, 200))
    [said] = read_by(caplog)
    assert "2 claims taken up" in said


def test_whenever_it_is_written_it_says_what_the_log_says_up_to_there(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while others write, so a process may be killed at any time."""
    monkeypatch.setattr(snapshot, "EVERY_S", -1.0)
    monkeypatch.setattr("kafka_marshal.client.coordinate.consumer_loop.COMMIT_EVERY_MS", 100)
    topic, path = stage.topic(partitions=4, messages=400), tmp_path / "file"
    texts = set[str]()

    def more() -> bool:
        before = len(texts)
        if path.exists():
            texts.add(path.read_text(encoding="utf-8"))
        return len(texts) > before

    with stage.worker("w1", topic, snapshot=path, heartbeat_every_s=0.05):
        for name in ("w2", "w3"):
            with stage.worker(name, topic, heartbeat_every_s=0.05) as other:
                until(lambda other=other: other.consumer.claims)  # type: ignore[misc]
                for _ in range(3):
                    until(more)
            until(more)
    more()
    with closing(CoordinationReader(stage.cluster.settings, stage.coordination)) as tail:
        extents = tail.extents()
        starts = {place: extent.low for place, extent in extents.items()}
        ends = {place: extent.high for place, extent in extents.items()}
        log = [raw for batch in tail.records(starts, ends) for raw in batch]
        seen = stage.cluster.topic(stage.coordination)
        assert seen is not None
        assert seen.topic_id is not None
        origin = SnapshotOrigin(
            tail.cluster, stage.coordination, seen.topic_id, 4, stage.group, RULES
        )
    for text in texts:
        for place, kept in parsed(text, origin).items():
            me = InstanceConfig("nobody", "nobody", Mode.AT_LEAST_ONCE, rules=RULES)
            reader = Member(me, stage.group, 4)
            reader.add_topic(topic, 4, now_ms=0)
            for raw in log:
                if raw.partition == place and raw.offset <= kept.last.offset:
                    reader.record(raw.decoded(), now_ms=0)
            assert reader.memory()[place] == kept.memory


def test_a_topic_that_was_made_again_is_read_from_its_beginning(
    stage: Stage, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="kafka_marshal")
    topic, path = stage.topic(partitions=1, messages=10), tmp_path / "file"
    with stage.worker("w1", topic, snapshot=path) as one:
        until(lambda: len(one.got) == 10)
        one.end()
    stage.make_log_anew()
    caplog.clear()
    with stage.worker("w1", topic, snapshot=path) as again:
        until(lambda: len(again.consumer.claims) == 1)
        again.end()
    assert "it is of another topic_id" in read_by(caplog)[0]


def test_when_the_log_lost_records_nobody_goes_on_with_what_was_put_aside(
    stage: Stage, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="kafka_marshal")
    topic, path = stage.topic(partitions=1, messages=10), tmp_path / "file"
    with stage.worker("w1", topic, snapshot=path) as one:
        until(lambda: len(one.got) == 10)
        one.end()
    with stage.worker("w1", topic, snapshot=path) as one:
        until(lambda: one.consumer.claims)
        coordinator, before = one.consumer._coordinator, one.consumer.instance_id
        coordinator.post(LogTruncated(coordinator.loop.session, "it lost its end"))
        coordinator.call(lambda: None)
        assert not path.exists()
        caplog.clear()
        until(lambda: one.consumer.instance_id != before and one.consumer.claims)
        assert read_by(caplog) == [f"snapshot {path}: there is none yet"]


def test_what_is_recorded_begins_with_the_log(stage: Stage, tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="not with a snapshot"):
        stage.consumer("w1", record_to=tmp_path, snapshot=tmp_path / "file")

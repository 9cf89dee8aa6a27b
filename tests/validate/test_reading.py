"""What a run looks like on disk, and the errors of one that looks otherwise."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path
from typing import Any

import attrs
import pytest

from kafka_marshal.capture import UnreadableSource
from kafka_marshal.codec import coordinating_partition
from kafka_marshal.core.messages import Record
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.machines.consumer import consumer as moves
from kafka_marshal.machines.consumer.consumer import ConsumerState, InstanceConfig, Mode
from kafka_marshal.validate import is_run, read_folder, read_run, run, validate
from kafka_marshal.validate.run import Fields, Setting, header
from tests.validate.samples import RUNS, judged, rows, setting_of, write

HEADER: dict[str, Any] = {
    "run": 1,
    "rules": {"heartbeat_interval_s": 60},
    "instances": [{"instance_id": "i1", "client_id": "c1", "group_id": "g", "mode": "ALO"}],
}


def complaint(path: Path, *lines: object) -> str:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    with pytest.raises(UnreadableSource) as caught:
        validate(read_run(path))
    return str(caught.value)


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ({}, "event"),
        ({"event": "slept"}, "event"),
        ({"event": ["read"]}, "event"),
        ({"event": "read", "partition": 0, "offset": 1}, "instance"),
        ({"event": "read", "instance": "i9", "partition": 0, "offset": 1}, "instance"),
        ({"event": "read", "instance": "i1", "partition": 1, "offset": 1}, "partition"),
        ({"event": "read", "instance": "i1", "partition": 0, "offset": "1"}, "offset"),
        ({"event": "read", "instance": "i1", "partition": 0, "offset": -1}, "offset"),
        ({"event": "sent", "instance": "i1", "partition": 0}, "value"),
        ({"event": "sent", "instance": "i1", "partition": 0, "value": 7}, "value"),
        ({"event": "sent", "instance": "i1", "partition": 0, "value": "", "headers": 1}, "headers"),
        ({"event": "appended", "partition": 0, "offset": 1, "value": ""}, "timestamp_ms"),
        ({"event": "started", "instance": "i1", "first": {"7": 0}}, "first"),
        ({"event": "started", "instance": "i1", "first": 3}, "first"),
        ({"event": "gave_up", "instance": "i1", "topic_partition": 0}, "topic"),
        (
            {"event": "processed", "instance": "i1", "topic": "t", "topic_partition": 0}
            | {"from": 4, "to": 4},
            "to",
        ),
        ({"event": "started", "instance": "i1", "first": {"9" * 5000: 0}}, "first"),
        ({"event": "started", "instance": "i1", "first": {"\u0660": 0}}, "first"),
    ],
)
def test_a_line_that_is_no_event_is_named_with_its_field(
    line: Fields, field: str, tmp_path: Path
) -> None:
    path = tmp_path / "run.jsonl"
    said = complaint(path, HEADER, line)
    assert said.startswith(f"{path}:2: ")
    assert f"'{field}'" in said


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"run": 2}, "run"),
        ({"rules": 3}, "rules"),
        ({"rules": {}}, "heartbeat_interval_s"),
        ({"rules": {"heartbeat_interval_s": 0}}, "rules"),
        ({"rules": {"heartbeat_interval_s": "60"}}, "heartbeat_interval_s"),
        ({"rules": {"heartbeat_interval_s": 60, "pause": 1}}, "pause"),
        ({"coordination_partitions": 0}, "coordination_partitions"),
        ({"idempotent": "yes"}, "idempotent"),
        ({"instances": {}}, "instances"),
        ({"instances": [7]}, "instances"),
        ({"instances": [*HEADER["instances"], *HEADER["instances"]]}, "instances"),
        ({"instances": [HEADER["instances"][0] | {"mode": "EXO"}]}, "mode"),
        ({"instances": [HEADER["instances"][0] | {"window": 0}]}, "window"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_first_line_that_is_no_setting_is_named_with_its_field(
    change: Fields, field: str, tmp_path: Path
) -> None:
    path = tmp_path / "run.jsonl"
    said = complaint(path, HEADER | change)
    assert said.startswith(f"{path}:1: ")
    assert f"'{field}'" in said


def test_what_is_no_json_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text(f"{json.dumps(HEADER)}\n\n{{")
    with pytest.raises(UnreadableSource, match=rf"{path}:3: not a JSON object"):
        validate(read_run(path))


def test_json_that_is_too_deep_is_no_run(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text("[" * 100_000)
    assert not is_run(path)


def test_a_setting_is_read_as_it_is_written() -> None:
    lines = rows(1, 500)
    assert header(setting_of(lines)) == lines[0]


def test_a_capture_is_no_run() -> None:
    assert is_run(RUNS / "two_consumers.jsonl")
    capture = RUNS.parent / "captures" / "original" / "a_clean.jsonl"
    assert not is_run(capture)


def in_a_folder(lines: list[Fields], folder: Path) -> Path:
    """The run as its processes would have written it down, each for itself."""
    folder.mkdir()
    log, own = [], defaultdict(list)
    for line in lines[1:]:
        if line["event"] == "appended":
            log.append({name: value for name, value in line.items() if name != "event"})
        else:
            own[line["instance"]].append(line)
    write(folder / "log.jsonl", log)
    for number, (name, events) in enumerate(own.items()):
        instances: Any = lines[0]["instances"]
        mine = [each for each in instances if each["instance_id"] == name]
        write(folder / f"p{number}.jsonl", [lines[0] | {"instances": mine}, *events])
    return folder


def test_a_folder_of_what_each_process_wrote_is_a_run(tmp_path: Path) -> None:
    for seed in range(3):
        lines = rows(seed, 1500)
        judgement = validate(read_folder(in_a_folder(lines, tmp_path / str(seed))))
        assert judgement.unexplained is None
        assert judgement.kinds == judged(lines).kinds


@pytest.mark.parametrize("ahead", [-20, 20])
def test_the_clocks_of_two_brokers_need_not_agree_to_explain_a_run(
    tmp_path: Path, ahead: int
) -> None:
    """A record's order is that of its partition; two records of one millisecond have no other."""
    for seed in range(3):
        lines = rows(seed, 1500)
        folder = in_a_folder(lines, tmp_path / str(seed))
        log = [json.loads(line) for line in (folder / "log.jsonl").open()]
        stamps = [number + ahead * line["partition"] for number, line in enumerate(log)]
        write(
            folder / "log.jsonl",
            [log[at] for at in sorted(range(len(log)), key=stamps.__getitem__)],
        )
        judgement = validate(read_folder(folder))
        assert judgement.unexplained is None
        assert judgement.kinds == judged(lines).kinds


def test_in_a_folder_the_fault_is_the_same(tmp_path: Path) -> None:
    lines = [json.loads(line) for line in (RUNS / "grants_itself.jsonl").open()]
    here = judged(lines).unexplained
    there = validate(read_folder(in_a_folder(lines, tmp_path / "run"))).unexplained
    assert here is not None
    assert here.same_fault(there)


def test_a_record_that_nobody_wrote_down_as_sent_is_named_and_not_what_came_after(
    tmp_path: Path,
) -> None:
    lines = rows(3, 600)
    place = next(n for n, line in enumerate(lines) if line.get("event") == "sent")
    del lines[place]
    found = validate(read_folder(in_a_folder(lines, tmp_path / "run"))).unexplained
    assert found is not None
    assert found.guard is not None
    assert found.guard.value == "not_under_way"


def test_in_a_folder_a_copy_does_not_hurry_its_sender_on(tmp_path: Path) -> None:
    """Two heartbeats that say the same: the first one landed twice before the second was sent."""
    me, key = InstanceConfig("i1", "c1", Mode.AT_LEAST_ONCE), ClaimKey("g", "t0", 0)
    home = coordinating_partition("t0", 2)
    asked = moves.claiming_partition_sent(me, ConsumerState(), key, 1)
    won = Record(home, 0, 5, asked.message, asked.headers)
    beat = moves.heartbeat_sent(me, moves.after_read(me, ConsumerState(), won), key, 1)
    stranger = attrs.evolve(asked.message, instance_id="i2", group_id="other")
    copies = [Record(home, offset, 6, beat.message, beat.headers) for offset in (1, 2)]
    elsewhere = Record(1 - home, 0, 7, stranger, asked.headers)
    setting = Setting(members={"i1": run.RecordedInstance(me, "g")}, partitions=2, idempotent=False)
    events = [
        run.started("i1"),
        run.sent("i1", home, asked.message, asked.headers),
        run.appended(won),
        run.read("i1", home, 0),
        run.sent("i1", home, beat.message, beat.headers),
        *map(run.appended, copies),
        run.appended(elsewhere),
        run.read("i1", 1 - home, 0),
        run.sent("i1", home, beat.message, beat.headers),
    ]
    folder = in_a_folder([header(setting), *events], tmp_path / "run")
    assert validate(read_folder(folder)).unexplained is None


def test_a_claim_begins_where_its_own_start_policy_says() -> None:
    me, key = InstanceConfig("i1", "c1", Mode.AT_LEAST_ONCE, window=10), ClaimKey("g", "t0", 0)
    asked = moves.claiming_partition_sent(me, ConsumerState(), key, 1)
    setting = Setting(members={"i1": run.RecordedInstance(me, "g")})

    def began(*said: Fields) -> str | None:
        events = [
            run.started("i1"),
            *said,
            run.sent("i1", 0, asked.message, asked.headers),
            run.appended(Record(0, 0, 5, asked.message, asked.headers)),
            run.read("i1", 0, 0),
            run.processed("i1", key, 70, 80),
        ]
        found = judged([header(setting), *events]).unexplained
        return None if found is None or found.guard is None else found.guard.value

    assert began(run.begins_at("i1", key, 70)) is None
    assert began() == "not_next"


def test_who_found_that_records_are_gone_goes_on_as_one_that_joins_late(tmp_path: Path) -> None:
    me, key = InstanceConfig("i1", "c1", Mode.AT_MOST_ONCE), ClaimKey("g", "t0", 0)
    other = attrs.evolve(me, instance_id="i2", client_id="c2")
    asked = moves.claiming_partition_sent(me, ConsumerState(), key, 1)
    theirs = moves.claiming_partition_sent(other, ConsumerState(), key, 1)
    setting = Setting(members={"i1": run.RecordedInstance(me, "g")})

    def sent(*said: Fields) -> str | None:
        events = [header(setting), run.started("i1"), *said]
        events.append(run.sent("i1", 0, asked.message, asked.headers))
        log = [run.appended(Record(0, n, 5, theirs.message, theirs.headers)) for n in (0, 1)]
        in_order = validate(read_folder(in_a_folder([*events, *log], tmp_path / str(len(said)))))
        found = judged([*events[:2], *log, *events[2:]]).unexplained
        assert (found and found.guard) == (in_order.unexplained and in_order.unexplained.guard)
        return None if found is None or found.guard is None else found.guard.value

    reads = run.read("i1", 0, 0), run.read("i1", 0, 1)
    assert sent(*reads) is None
    assert sent(run.gap("i1", 0, 1)) == "claim_unknown"
    assert sent(run.gap("i1", 0, 2), reads[1], reads[1]) == "not_next_record"
    assert sent(*reads, run.gap("i1", 0, 1), reads[1]) == "not_next_record"


@pytest.mark.parametrize("fault", ["no events", "other rules", "two files", "appended elsewhere"])
def test_a_folder_that_contradicts_itself_is_named(fault: str, tmp_path: Path) -> None:
    folder = in_a_folder(rows(3, 100), tmp_path / "run")
    files = sorted(folder.glob("p*.jsonl"))
    text = files[1].read_text()
    if fault == "no events":
        for file in files:
            file.unlink()
    elif fault == "other rules":
        files[1].write_text(text.replace('"heartbeat_interval_s": 60', '"heartbeat_interval_s": 9'))
    elif fault == "two files":
        (folder / "z.jsonl").write_text(text)
    else:
        record = (folder / "log.jsonl").read_text().splitlines()[0]
        files[1].write_text(text + json.dumps({"event": "appended", **json.loads(record)}) + "\n")
    with pytest.raises(UnreadableSource, match=str(folder)):
        validate(read_folder(folder))


def test_a_run_that_is_a_pipe_is_refused_before_it_is_opened(tmp_path: Path) -> None:
    """To open one without a writer waits for ever, and a second reader misses its beginning."""
    pipe = tmp_path / "run.jsonl"
    os.mkfifo(pipe)
    (tmp_path / "log.jsonl").touch()
    said = f"^{pipe}: it is a pipe, and would be read more than once: write it to a file$"
    for read, path in ((is_run, pipe), (read_run, pipe), (read_folder, tmp_path)):
        with pytest.raises(UnreadableSource, match=said):
            read(path)

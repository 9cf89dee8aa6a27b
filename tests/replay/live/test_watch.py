from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter, deque
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from kafka_marshal.client.connect.admin_client import ClusterClient, TopicDescription
from kafka_marshal.client.connect.reader import CoordinationReader
from kafka_marshal.client.connect.settings import settings_of
from kafka_marshal.core.state import RuleSet
from kafka_marshal.errors import BrokerFailed, InvalidOption
from kafka_marshal.replay.errors import ReplayError
from kafka_marshal.replay.fold.partition_fold import JudgingOptions
from kafka_marshal.replay.live import sinks, watch_context
from kafka_marshal.replay.live.live_findings import BEGUN, LiveEvent
from kafka_marshal.replay.live.metrics import Metrics
from kafka_marshal.replay.live.watch import WatchOptions, WatchResult, watch
from kafka_marshal.replay.live.watch_context import WatchContext
from kafka_marshal.replay.model.published import FindingRow
from kafka_marshal.testing import Broker
from kafka_marshal.testing.cluster import free_ports
from tests.cli.run import marshal
from tests.replay.live.feeding import INTERVAL_S, append, make_topic, many_nights

BOTH = JudgingOptions(tuple(RuleSet), INTERVAL_S * 1000)


class Heard:
    """A sink that remembers."""

    def __init__(self) -> None:
        self.told: list[LiveEvent] = []
        self.emit = self.told.append

    def flush(self) -> None: ...

    def settle(self) -> None: ...

    def close(self) -> None: ...


def watched(
    broker: Broker, topic: str, stop_after: int | None = None, **options: Any
) -> WatchResult:
    """Watch to the end; or stop after `stop_after` batches."""
    watching = WatchOptions(
        settings=settings_of(broker.bootstrap),
        topic=topic,
        until_end=True,
        **{"judging": BOTH, **options},
    )
    asked = 0

    def stopped() -> bool:
        nonlocal asked
        asked += 1
        return stop_after is not None and asked > stop_after

    return watch(watching, stopped)


def lines(path: Path) -> list[str]:
    return sorted(path.read_text().splitlines())


@pytest.fixture(scope="module")
def night(kafka_broker: Broker) -> str:
    """A topic with much to find, in three partitions, one of them empty."""
    make_topic(kafka_broker, "night", 3)
    append(kafka_broker, "night", list(many_nights(8, 2)))
    return "night"


@pytest.fixture(scope="module")
def uninterrupted(
    kafka_broker: Broker, night: str, tmp_path_factory: pytest.TempPathFactory
) -> list[str]:
    """What a watch tells that nobody disturbs."""
    out = tmp_path_factory.mktemp("uninterrupted") / "out.jsonl"
    watched(kafka_broker, night, out=out)
    return lines(out)


def test_a_finding_is_told_when_it_begins_and_again_when_it_is_over(
    uninterrupted: list[str],
) -> None:
    findings = [row for line in uninterrupted if (row := json.loads(line))["event"] == "finding"]
    states = Counter(row["state"] for row in findings)
    assert states["begun"] > states["over"] > 0
    named = ("code", "rules", "group", "topic_partition", "offset", "instance")
    begun = {tuple(row[n] for n in named) for row in findings if row["state"] == "begun"}
    over = {tuple(row[n] for n in named) for row in findings if row["state"] == "over"}
    assert over < begun
    assert any(row["code"] == "late_heartbeat_stole" for row in findings)
    assert len(set(uninterrupted)) == len(uninterrupted)


def test_a_watch_that_is_stopped_anywhere_and_goes_on_tells_everything_once(
    kafka_broker: Broker, night: str, uninterrupted: list[str], tmp_path: Path
) -> None:
    out, folder = tmp_path / "out.jsonl", tmp_path / "checkpoint"
    parts = [
        watched(kafka_broker, night, stop_after=batches, out=out, checkpoint=folder)
        for batches in (0, 3, 1, None, None)
    ]
    assert lines(out) == uninterrupted
    assert parts[0].records == parts[-1].records == 0
    assert sum(part.records for part in parts) == len(list(many_nights(8, 2)))


def test_a_watch_that_is_killed_anywhere_tells_everything_once(
    kafka_broker: Broker, night: str, uninterrupted: list[str], tmp_path: Path
) -> None:
    out, folder = tmp_path / "out.jsonl", tmp_path / "checkpoint"
    command = [
        *(sys.executable, "-m", "kafka_marshal.cli", "watch", "--until-end", "--json"),
        *("--bootstrap", kafka_broker.bootstrap, "--topic", night, "--rules", "both"),
        *("--heartbeat-interval", str(INTERVAL_S), "--checkpoint-every", "0.02"),
        *("--checkpoint", str(folder), "--out", str(out)),
    ]
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance, sizes = random.Random(seed), set()
    for _ in range(2):
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            before = out.stat().st_size if out.exists() else 0
            # Not before it has reported something new: the time to start shows nothing.
            while process.poll() is None and (not out.exists() or out.stat().st_size <= before):
                time.sleep(0.005)
            time.sleep(chance.random() * 0.5)
            process.kill()
        if process.returncode == -signal.SIGKILL:
            sizes.add(out.stat().st_size)
    watched(kafka_broker, night, out=out, checkpoint=folder)
    assert lines(out) == uninterrupted
    assert sizes


class Interrupted(Exception):
    """What ends a watch in the middle."""


class GoesOn(Heard):
    """A sink that has no commit end before more was reported, and then ends the watch."""

    def __init__(self) -> None:
        super().__init__()
        self.commits, self.later = 0, 0
        self.went_on = threading.Event()
        self.emit = self.heard

    def heard(self, event: LiveEvent) -> None:
        self.later += self.commits > 1
        if self.later == 5:
            self.went_on.set()
            raise Interrupted

    def settle(self) -> None:
        self.commits += 1
        if self.commits == 2:  # the first one is before anything is read
            assert self.went_on.wait(60), "the fold waits for the commit"


def in_small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    read = CoordinationReader._messages
    monkeypatch.setattr(CoordinationReader, "_messages", lambda self: read(self, 20))


def test_a_commit_covers_what_was_folded_when_it_began_and_no_more(
    kafka_broker: Broker,
    night: str,
    uninterrupted: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_small_batches(monkeypatch)
    out, folder = tmp_path / "out.jsonl", tmp_path / "checkpoint"
    to: dict[str, Any] = {"out": out, "checkpoint": folder}
    with pytest.raises(Interrupted):
        watched(kafka_broker, night, checkpoint_every_s=0.0, sinks=(GoesOn(),), **to)
    manifest = json.loads((folder / "checkpoint.json").read_text())
    assert 0 < manifest["beside"]["out_bytes"] < out.stat().st_size
    watched(kafka_broker, night, **to)
    assert lines(out) == uninterrupted


def test_a_commit_that_fails_ends_the_watch(
    kafka_broker: Broker, night: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_small_batches(monkeypatch)

    class Full(Heard):
        def settle(self) -> None:
            if self.told:
                raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        watched(kafka_broker, night, checkpoint_every_s=0.0, sinks=(Full(),))


def test_what_goes_to_a_topic_is_what_goes_to_the_file(
    kafka_broker: Broker, night: str, uninterrupted: list[str], tmp_path: Path
) -> None:
    make_topic(kafka_broker, "told")
    watched(kafka_broker, night, to_topic="told")
    consumer = Consumer({"bootstrap.servers": kafka_broker.bootstrap, "group.id": "test"})
    try:
        consumer.assign([TopicPartition("told", 0, 0)])
        found = [m.value() or b"" for m in consumer.consume(len(uninterrupted), 30)]
    finally:
        consumer.close()
    assert sorted(value.decode() for value in found) == uninterrupted


def test_a_commit_waits_for_what_was_told_and_not_for_what_comes_meanwhile(
    kafka_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sinks, "FLUSH_S", 5.0)
    make_topic(kafka_broker, "on_and_on")
    topic = sinks.ToTopic(settings_of(kafka_broker.bootstrap), "on_and_on")
    event = LiveEvent(BEGUN, FindingRow(code="forged", severity="error", sentence="it is"))
    settled = threading.Event()

    def tells() -> None:
        while not settled.is_set():
            topic.emit(event)
            topic.flush()

    thread = threading.Thread(target=tells)
    topic.emit(event)
    thread.start()
    try:
        topic.settle()
    finally:
        settled.set()
        thread.join()
    topic.settle()
    topic.close()


def test_metrics_count_every_finding_once(
    kafka_broker: Broker, night: str, uninterrupted: list[str]
) -> None:
    [port] = free_ports(1)
    metrics = Metrics()
    metrics.serve(str(port))
    watched(kafka_broker, night, metrics=metrics)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
        text = page.read().decode()
    rows = [json.loads(line) for line in uninterrupted]
    stolen = [row for row in rows if row.get("code") == "late_heartbeat_stole"]
    first = sum(row["state"] != "over" for row in stolen)
    labels = 'code="late_heartbeat_stole",rules="original",severity="error"'
    assert f"marshal_watch_findings_total{{{labels}}} {float(first)}" in text
    records = sum(
        float(line.split()[-1])
        for line in text.splitlines()
        if line.startswith("marshal_watch_records_total")
    )
    assert records == len(list(many_nights(8, 2)))
    assert "marshal_watch_takeovers_total" in text
    assert 'marshal_watch_owned_claims{coordinating_partition="0"}' in text
    assert "marshal_watch_delay_seconds_count 0.0" in text  # these records are of long ago


def test_a_terminal_sees_a_line_for_each_finding_and_a_record_that_comes_later(
    kafka_broker: Broker,
) -> None:
    make_topic(kafka_broker, "later")
    command = [
        *(sys.executable, "-m", "kafka_marshal.cli", "watch", "--topic", "later"),
        *("--bootstrap", kafka_broker.bootstrap, "--heartbeat-interval", "4"),
        *("--rules", "original"),
    ]
    environment = os.environ | {"NO_COLOR": "1", "COLUMNS": "80"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            append(kafka_broker, "later", list(many_nights(1, 1)))
            assert process.stdout is not None
            shown = [process.stdout.readline() for _ in range(5)]
            process.send_signal(signal.SIGINT)
            rest, said = process.communicate(timeout=20)
        finally:
            process.kill()
    assert process.returncode == 1, said
    assert "errors and warnings" in said
    everything = "".join(shown) + rest
    assert " error   late_heartbeat_stole: c" in everything
    assert all(line[:2] == "20" and line.endswith(".") for line in everything.splitlines())


def complaint(*arguments: str | Path) -> str:
    ran = marshal("watch", "--heartbeat-interval", "4", *arguments)
    assert ran.returncode == 2
    assert ran.stderr.startswith("marshal: ")
    return ran.stderr


def test_a_watch_with_other_options_is_refused_and_changes_nothing(
    kafka_broker: Broker, night: str, tmp_path: Path
) -> None:
    out, folder = tmp_path / "out.jsonl", tmp_path / "checkpoint"
    watched(kafka_broker, night, stop_after=3, out=out, checkpoint=folder, judging=_fenced())
    before = lines(out)
    said = complaint(
        *("--bootstrap", kafka_broker.bootstrap, "--topic", night, "--out", out),
        *("--checkpoint", folder, "--pause-max", "7"),
    )
    assert "the checkpoint was made with pause_max_ms 86400000, and this is 7000" in said
    assert lines(out) == before
    out.write_text("")
    with pytest.raises(ReplayError, match="it is another file, or was cut"):
        watched(kafka_broker, night, out=out, checkpoint=folder, judging=_fenced())
    out.write_text("not ours\n")
    with pytest.raises(ReplayError, match="holds something already"):
        watched(kafka_broker, night, out=out)
    assert out.read_text() == "not ours\n"


def _fenced() -> JudgingOptions:
    return JudgingOptions((RuleSet.FENCED,), 4000.0)


def test_a_topic_that_lost_its_end_or_was_made_anew_is_not_gone_on_with(
    kafka_broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one made anew that held more than the one before, the first records were never read."""
    from confluent_kafka.admin import AdminClient

    folder = tmp_path / "checkpoint"
    make_topic(kafka_broker, "lost")
    append(kafka_broker, "lost", list(many_nights(1, 1)))
    watched(kafka_broker, "lost", checkpoint=folder)
    options = WatchOptions(settings_of(kafka_broker.bootstrap), "lost", _fenced())
    monkeypatch.setattr(watch_context, "TOPIC_CHECK_S", 0.0)
    with ExitStack() as opened:
        running = WatchContext(options, opened)
        admin = AdminClient({"bootstrap.servers": kafka_broker.bootstrap})
        admin.delete_topics(["lost"])["lost"].result(30)
        time.sleep(1)
        make_topic(kafka_broker, "lost")
        with pytest.raises(BrokerFailed, match="topic lost was deleted and made anew"):
            deque(iter(running.check_topic, ""), 0)  # until the answer is there
    with pytest.raises(ReplayError, match="the checkpoint was made with topic id"):
        watched(kafka_broker, "lost", checkpoint=folder)
    folder = tmp_path / "of brokers that give topics no id"
    monkeypatch.setattr(WatchContext, "_topic_id_now", lambda _: None)
    append(kafka_broker, "lost", list(many_nights(1, 1)))
    watched(kafka_broker, "lost", checkpoint=folder)
    admin.delete_topics(["lost"])["lost"].result(30)
    time.sleep(1)
    make_topic(kafka_broker, "lost")
    with pytest.raises(ReplayError, match="but the topic ends at 0: it lost its end or is another"):
        watched(kafka_broker, "lost", checkpoint=folder)


def test_a_watch_ends_though_no_broker_answers_about_its_topic(
    kafka_broker: Broker, night: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its state is kept: a later watch goes on from there."""
    began, asked, may_answer = (threading.Event() for _ in range(3))
    topic = ClusterClient.topic
    answered: list[str] = []

    def waits(client: ClusterClient, name: str) -> TopicDescription | None:
        if began.is_set():
            asked.set()
            may_answer.wait(20)
            answered.append(name)
        return topic(client, name)

    def stopped() -> bool:
        began.set()
        return asked.is_set()

    monkeypatch.setattr(ClusterClient, "topic", waits)
    monkeypatch.setattr(watch_context, "TOPIC_CHECK_S", 0.0)
    folder = tmp_path / "checkpoint"
    first = watch(
        WatchOptions(settings_of(kafka_broker.bootstrap), night, BOTH, checkpoint=folder), stopped
    )
    assert not answered
    may_answer.set()
    monkeypatch.undo()
    second = watched(kafka_broker, night, checkpoint=folder)
    assert first.records + second.records == len(list(many_nights(8, 2)))


def test_a_topic_to_tell_to_must_be_there(kafka_broker: Broker, night: str) -> None:
    with pytest.raises(BrokerFailed, match="topic nowhere"):
        watched(kafka_broker, night, to_topic="nowhere")


@pytest.mark.parametrize(
    ("out", "checkpoint"),
    [("kept/checkpoint.json", "kept"), ("kept/deep/partition-findings.jsonl", "kept"), ("f", "f")],
)
def test_an_output_in_the_checkpoint_is_refused_before_anything_is_written(
    out: str, checkpoint: str, tmp_path: Path
) -> None:
    """Its files would be taken for those of the checkpoint, and removed."""
    file, kept = tmp_path / out, tmp_path / checkpoint
    watching = WatchOptions(settings_of("localhost:1"), "t", BOTH, checkpoint=kept, out=file)
    sentence = f"--checkpoint {kept} and --out {file} lie in each other"
    with pytest.raises(InvalidOption, match=sentence):
        watch(watching, lambda: True)
    assert list(tmp_path.iterdir()) == []

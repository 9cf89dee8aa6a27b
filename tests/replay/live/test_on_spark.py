"""A watch on Spark tells what a watch in one process tells, and goes on where any of them was."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kafka_marshal.capture import RawRecord
from kafka_marshal.client.connect.settings import settings_of
from kafka_marshal.replay.errors import CheckpointRefused, ReplayError
from kafka_marshal.replay.live import on_spark
from kafka_marshal.replay.live.folding import BatchFold, FoldedPartition, events_in
from kafka_marshal.replay.live.live_findings import LiveEvent, LiveFold
from kafka_marshal.replay.live.metrics import Metrics
from kafka_marshal.replay.live.on_spark import watch_on_spark
from kafka_marshal.replay.live.watch_context import WatchOptions, WatchResult
from kafka_marshal.replay.model.events import LogPartition
from kafka_marshal.replay.sources.columns import batch_of, cells_of
from kafka_marshal.replay.state.checkpoint import MANIFEST
from kafka_marshal.testing import Broker
from tests.admin.test_clock_ahead import HOUR_MS, Stamped
from tests.replay.live.feeding import INTERVAL_S, append, make_topic, many_nights
from tests.replay.live.test_watch import BOTH, Heard, complaint, watched

ROOT = Path(__file__).parents[3]
SMALL = 200
"""So few records a second of trigger make some three batches of the night."""


@functools.cache
def raws_of_night() -> list[RawRecord]:
    return list(many_nights(4, 2))


@pytest.fixture(scope="module")
def night(kafka_broker: Broker) -> str:
    """A topic with much to find, in three partitions, one of them empty."""
    make_topic(kafka_broker, "night-on-spark", 3)
    append(kafka_broker, "night-on-spark", raws_of_night())
    return "night-on-spark"


@pytest.fixture(scope="module")
def expected(
    kafka_broker: Broker, night: str, tmp_path_factory: pytest.TempPathFactory
) -> list[str]:
    """What a watch in one process tells."""
    out = tmp_path_factory.mktemp("expected") / "out.jsonl"
    watched(kafka_broker, night, out=out)
    return by_partition(out.read_text().splitlines())


@pytest.fixture(autouse=True)
def _many_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_spark, "RECORDS_A_SECOND", SMALL)


def by_partition(lines: Sequence[str]) -> list[str]:
    """The lines of one coordinating partition after those of the one before, each in its order."""
    return sorted(lines, key=lambda line: int(json.loads(line)["coordinating_partition"]))


class Enough(ReplayError):
    """Of a test."""


class Breaking(Heard):
    """Hears, and breaks after `batches` batches, when the next was reported and is not
    committed."""

    def __init__(self, batches: int) -> None:
        super().__init__()
        self.left = batches

    def flush(self) -> None:
        self.left -= 1
        if self.left < 0:
            self.broken()

    def broken(self) -> None:
        raise Enough("it is enough")


def on(
    spark: SparkSession | None,
    broker: Broker,
    topic: str,
    stopped: Callable[[], bool] = lambda: False,
    **given: Any,
) -> WatchResult:
    """Watch on Spark, to the end or until it is stopped."""
    watching = WatchOptions(
        settings=settings_of(broker.bootstrap),
        topic=topic,
        until_end=True,
        **{"judging": BOTH, **given},
    )
    return watch_on_spark(watching, stopped, spark=spark)


def counted(metrics: Metrics) -> dict[str, float]:
    return {
        f"{sample.name}{sorted(sample.labels.items())}": sample.value
        for family in metrics.collected.collect()
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def test_a_watch_on_spark_tells_what_a_watch_in_one_process_tells(
    spark: SparkSession, kafka_broker: Broker, night: str, expected: list[str], tmp_path: Path
) -> None:
    out, heard, mine, theirs = tmp_path / "out.jsonl", Breaking(99), Metrics(), Metrics()
    found = on(spark, kafka_broker, night, sinks=(heard,), out=out, metrics=mine)
    assert by_partition(out.read_text().splitlines()) == expected
    assert [one.json() for one in heard.told] == out.read_text().splitlines()
    assert 99 - heard.left >= 3, "one batch would show nothing of what lies between them"
    assert found == watched(kafka_broker, night, metrics=theirs)
    assert found.records == len(raws_of_night())
    assert counted(mine) == counted(theirs)
    rows = [json.loads(line) for line in expected]
    assert {row.get("rules") for row in rows} >= {"fenced", "original"}
    assert {row.get("code") for row in rows} >= {"late_heartbeat_stole", "acts_without_owning"}


@pytest.mark.night
def test_a_watch_goes_on_where_another_was_wherever_each_is_folded(
    spark: SparkSession,
    kafka_broker: Broker,
    night: str,
    expected: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place: dict[str, Any] = {"out": tmp_path / "out.jsonl", "checkpoint": tmp_path / "state"}
    committed = partial(committed_bytes, place["checkpoint"])
    first = watched(kafka_broker, night, stop_after=2, **place)
    sizes = [committed()]
    with pytest.raises(Enough, match=r"^it is enough$"):
        on(spark, kafka_broker, night, sinks=(Breaking(1),), **place)
    sizes.append(committed())
    assert place["out"].stat().st_size > sizes[-1], "what was told and not committed is there"
    watched(kafka_broker, night, stop_after=1, **place)
    sizes.append(committed())
    # Stopped in order while a task folds, as a rule: that is no failure, and loses nothing.
    with monkeypatch.context() as changed:
        changed.setattr(on_spark, "LOOK_S", 0.001)
        on(spark, kafka_broker, night, lambda: any(place["checkpoint"].glob("*.events")), **place)
    last = on(spark, kafka_broker, night, **place)
    sizes.append(committed())
    assert sizes == sorted(set(sizes)), "each has told something new"
    assert 0 < last.records < len(raws_of_night()) - first.records
    # There is nothing left, so no Spark is started: it would not do beside this one.
    assert on(None, kafka_broker, night, **place) == WatchResult(0, 0)
    assert by_partition(place["out"].read_text().splitlines()) == expected
    assert len(list(place["checkpoint"].glob("partition-*"))) == 2, "what is old is swept away"


def committed_bytes(folder: Path) -> int:
    return int(json.loads((folder / MANIFEST).read_text())["beside"]["out_bytes"])


KILLED = """
import os, signal, sys
from pathlib import Path
from kafka_marshal.replay.live import on_spark, sinks
from tests.replay.live.test_on_spark import SMALL, Breaking, on

class Killing(Breaking):
    def broken(self):
        os.kill(os.getpid(), signal.SIGKILL)

class File(sinks.JsonFile):
    def emit(self, told):
        super().emit(told)
        self.flush()

class There:
    bootstrap = sys.argv[1]

on_spark.RECORDS_A_SECOND = SMALL
on_spark.WatchContext.__init__.__globals__["JsonFile"] = File
place = {"out": Path(sys.argv[3]) / "out.jsonl", "checkpoint": Path(sys.argv[3]) / "state"}
on(None, There, sys.argv[2], sinks=(Killing(1),), **place)
"""


# By day the next test breaks a batch at the same point, and `test_watch` kills a watch that writes
# by the same code. The test after the next ends a Spark of its own.
@pytest.mark.night
def test_a_watch_on_spark_that_is_killed_tells_everything_once(
    spark: SparkSession, kafka_broker: Broker, night: str, expected: list[str], tmp_path: Path
) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}
    ran = subprocess.run(
        [sys.executable, "-c", KILLED, kafka_broker.bootstrap, night, str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == -signal.SIGKILL, ran.stderr
    out, folder = tmp_path / "out.jsonl", tmp_path / "state"
    assert 0 < committed_bytes(folder) < out.stat().st_size, "told and not committed, too"
    on(spark, kafka_broker, night, out=out, checkpoint=folder)
    assert by_partition(out.read_text().splitlines()) == expected


@pytest.mark.night
def test_what_breaks_a_batch_is_told_as_what_it_was_and_loses_nothing(
    spark: SparkSession,
    kafka_broker: Broker,
    night: str,
    expected: list[str],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    place: dict[str, Any] = {"out": tmp_path / "out.jsonl", "checkpoint": tmp_path / "state"}

    class Full(Breaking):
        def broken(self) -> None:
            raise ReplayError("the disk is full")

    with pytest.raises(ReplayError, match=r"^the disk is full$"):
        on(spark, kafka_broker, night, sinks=(Full(1),), **place)
    # The caller reports it, once: Spark's bridge to Python prints nothing.
    assert not caplog.records
    manifest = json.loads((place["checkpoint"] / MANIFEST).read_text())
    state = place["checkpoint"] / manifest["partitions"]["0"]
    kept = state.read_bytes()
    state.write_bytes(kept[:-1])
    with pytest.raises(CheckpointRefused, match=rf": {state.name} is damaged: begin anew"):
        on(spark, kafka_broker, night, **place)
    state.write_bytes(kept)
    on(spark, kafka_broker, night, **place)
    assert by_partition(place["out"].read_text().splitlines()) == expected


# A Java of its own. By day the first test here watches in the session of all, and `test_watch` has
# the command, its lines and Ctrl-C without Spark.
@pytest.mark.night
def test_a_user_sees_what_was_there_and_what_comes_and_ends_it_with_ctrl_c(
    kafka_broker: Broker,
) -> None:
    make_topic(kafka_broker, "later-on-spark", 2)
    half = len(raws_of_night()) // 2
    append(kafka_broker, "later-on-spark", raws_of_night()[:half])
    command = [
        *(sys.executable, "-m", "kafka_marshal.cli", "watch", "--spark", "--trigger", "0.5"),
        *("--bootstrap", kafka_broker.bootstrap, "--topic", "later-on-spark", "--json"),
        *("--heartbeat-interval", str(INTERVAL_S), "--rules", "both"),
    ]
    read = watched_lines(kafka_broker, "later-on-spark")
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout is not None
            shown = [process.stdout.readline().rstrip("\n") for _ in read]
            append(kafka_broker, "later-on-spark", raws_of_night()[half:])
            all_of_it = watched_lines(kafka_broker, "later-on-spark")
            shown += [process.stdout.readline().rstrip("\n") for _ in all_of_it[len(read) :]]
            # As a terminal does it: to Java and to Spark's workers, too.
            os.killpg(process.pid, signal.SIGINT)
            rest, said = process.communicate(timeout=180)
        finally:
            process.kill()
    assert process.returncode == 1, said
    assert rest == ""
    assert "errors and warnings" in said
    assert "Traceback" not in said
    assert by_partition(shown) == by_partition(all_of_it)


def watched_lines(broker: Broker, topic: str) -> list[str]:
    heard = Heard()
    watched(broker, topic, sinks=(heard,))
    return [one.json() for one in heard.told]


def test_a_task_that_is_run_again_writes_the_same_under_another_name(tmp_path: Path) -> None:
    raws = [raw for raw in raws_of_night() if raw.partition == 0]
    raws = [renumbered(raw, offset) for offset, raw in enumerate(raws)]
    partition_fold = LiveFold(LogPartition("log", 0), BOTH)
    expected = [told for raw in raws for told in partition_fold.fold(raw)]

    def fold(
        part: Sequence[RawRecord], state: str | None
    ) -> tuple[FoldedPartition, list[LiveEvent]]:
        states = {} if state is None else {0: state}
        folding = BatchFold(tmp_path, "log", BOTH, states, {0: "partition-0.1"})
        batches = [
            batch_of("log", 0, [cells_of(raw) for raw in part[at : at + 100]])
            for at in range(0, len(part), 100)
        ]
        [row] = [row for batch in folding(batches) for row in batch.to_pylist()]
        folded = FoldedPartition(**row)
        told = (
            [] if folded.events is None else [one for one, _ in events_in(tmp_path / folded.events)]
        )
        return folded, told

    first, begun = fold(raws[:300], None)
    # The second part overlaps the first, as after a commit that Spark knows nothing of.
    once, again = fold(raws[200:], first.file), fold(raws[200:], first.file)
    assert once[0].records == again[0].records == len(raws) - 300
    assert once[0].file != again[0].file
    assert once[0].next_offset == len(raws)
    assert [*begun, *once[1]] == [*begun, *again[1]] == expected
    assert once[0].gauges == partition_fold.account.gauges()


def renumbered(raw: RawRecord, offset: int) -> RawRecord:
    return RawRecord(
        raw.partition, offset, raw.timestamp_ms, raw.value, raw.headers, raw.timestamp_type
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            ("--spark", "--checkpoint-every", "1"),
            "--checkpoint-every cannot be combined with --spark",
        ),
        (("--trigger", "1"), "--trigger needs --spark"),
        (
            ("--spark", "--until-end", "--trigger", "1"),
            "--trigger cannot be combined with --until-end",
        ),
        (("--spark", "--trigger", "0"), "--trigger must be a duration like 90s"),
    ],
)
def test_an_option_that_makes_no_sense_is_named(given: tuple[str, ...], said: str) -> None:
    assert said in complaint("--bootstrap", "127.0.0.1:1", *given)


@pytest.mark.night
def test_a_watch_on_spark_says_that_a_broker_s_clock_was_ahead(
    spark: SparkSession, kafka_broker: Broker
) -> None:
    log, notes = Stamped(kafka_broker), list[str]()
    log.asks("dead", time.time_ns() // 1_000_000 + HOUR_MS)
    on(spark, kafka_broker, log.topic, on_note=notes.append)
    [note] = notes
    assert "ahead of this machine's, so a dead owner is replaced only at" in note

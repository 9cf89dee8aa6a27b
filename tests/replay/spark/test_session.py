"""Marshal promises that a Spark session leaves nothing where it was started."""

from __future__ import annotations

import signal
from contextlib import nullcontext
from pathlib import Path

import pytest
from pyspark import SparkConf

from kafka_marshal.java import class_data
from kafka_marshal.replay.options import SparkMaster
from kafka_marshal.replay.spark import session


def test_what_a_killed_session_left_is_removed(tmp_path: Path) -> None:
    artifacts = tmp_path / "artifacts"
    (artifacts / "spark-1").mkdir(parents=True)
    (artifacts / "spark-2").mkdir()
    session._remove_empty(artifacts)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("holds", ["nothing", "results.txt"])
def test_a_folder_of_that_name_that_spark_did_not_make_is_kept(tmp_path: Path, holds: str) -> None:
    artifacts = tmp_path / "artifacts"
    artifacts.mkdir()
    if holds != "nothing":
        (artifacts / holds).write_text("mine")
        (artifacts / "spark-1").mkdir()
    session._remove_empty(artifacts)
    assert [path.name for path in artifacts.iterdir()] == ([] if holds == "nothing" else [holds])


def test_classes_that_java_kept_are_for_its_own_class_path_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(class_data, "options", lambda java, jars: (f"-Dof={len(jars)}",))
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    assert session._kept_classes() == (f"-Dof={len(session.jars())}",)
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--jars mine.jar pyspark-shell")
    assert session._kept_classes() == (f"-Dof={len(session.jars())}",)
    for option in ("--driver-class-path mine.jar", "--conf spark.driver.extraClassPath=mine.jar"):
        monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"{option} pyspark-shell")
        assert session._kept_classes() == ()


class StartedContext:
    """A Spark context during whose start a signal arrives."""

    stopped = False

    def __init__(self, conf: SparkConf) -> None:
        signal.raise_signal(signal.SIGTERM)

    def stop(self) -> None:
        """Stop it."""
        self.stopped = True


@pytest.mark.parametrize("ends", [True, False])
def test_a_signal_while_spark_starts_waits_until_it_can_be_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    started: list[StartedContext] = []
    asked: list[int] = []

    def ask(number: int, _: object) -> None:
        asked.append(number)
        if ends:
            raise KeyboardInterrupt

    def context(conf: SparkConf) -> StartedContext:
        started.append(StartedContext(conf))
        assert asked == []
        return started[-1]

    monkeypatch.setattr(session, "SparkContext", context)
    monkeypatch.setattr(session, "SparkConf", lambda: SparkConf(loadDefaults=False))
    monkeypatch.setattr(session, "_forget_gateway", lambda: None)
    before = signal.signal(signal.SIGTERM, ask)
    try:
        with pytest.raises(KeyboardInterrupt) if ends else nullcontext():
            session._start(SparkMaster("local[1]"), {}, tmp_path)
        assert signal.getsignal(signal.SIGTERM) is ask
    finally:
        signal.signal(signal.SIGTERM, before)
    assert asked == [signal.SIGTERM]
    assert [each.stopped for each in started] == [ends]

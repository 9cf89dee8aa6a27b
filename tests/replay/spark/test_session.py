"""Marshal promises that a Spark session leaves nothing where it was started."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_marshal.java import class_data
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

"""The rows of earlier runs are part of a checkpoint: a run without them would report less."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from kafka_marshal.replay import CheckpointRefused, Summary, run
from kafka_marshal.replay.model.tables import OF_CLAIMS
from kafka_marshal.replay.spark.spark_errors import plain_errors
from kafka_marshal.replay.spark.stages import table_rows_in
from tests.replay.live.feeding import CAPTURES

LINES = next(path for path in CAPTURES if path.stem.startswith("d3_")).read_text().splitlines(True)
MONDAY, TUESDAY = LINES[:120], LINES[120:]


def replay(folder: Path, records: list[str], out: str, checkpoint: Path) -> Summary:
    source = folder / f"{out}.jsonl"
    source.write_text("".join(records))
    return run(
        [str(source)],
        out=folder / out,
        heartbeat_interval_s=4,
        rules="both",
        checkpoint=checkpoint,
        engine="local",
    )


def reported(summary: Summary) -> tuple[object, ...]:
    return summary.records, summary.rows, summary.findings


@pytest.fixture(scope="module")
def monday(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint with one run."""
    folder = tmp_path_factory.mktemp("monday")
    replay(folder, MONDAY, "out", folder / "checkpoint")
    return folder / "checkpoint"


@pytest.fixture(scope="module")
def tuesday(monday: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[object, ...]:
    """What a second run reports if the checkpoint is whole."""
    folder = tmp_path_factory.mktemp("tuesday")
    shutil.copytree(monday, folder / "checkpoint")
    return reported(replay(folder, TUESDAY, "out", folder / "checkpoint"))


@pytest.fixture
def checkpoint(monday: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(monday, tmp_path / "checkpoint"))


def rows_of(checkpoint: Path) -> Path:
    """The rows file of the first run."""
    (path,) = checkpoint.glob("run-00001-*/rows/*.parquet")
    return path


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:500])


def lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"more")


def remove_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


def overwrite(path: Path) -> None:
    path.write_bytes(b"\0" * path.stat().st_size)


@pytest.mark.parametrize("damage", [Path.unlink, remove_folder, cut, lengthen, overwrite])
def test_a_checkpoint_without_the_rows_of_an_earlier_run_is_refused(
    damage: Callable[[Path], None], checkpoint: Path, tmp_path: Path
) -> None:
    path = rows_of(checkpoint)
    before = (checkpoint / "checkpoint.json").read_bytes()
    damage(path)
    with pytest.raises(CheckpointRefused, match=rf"{path.name} is damaged: begin anew"):
        replay(tmp_path, TUESDAY, "out", checkpoint)
    assert not (tmp_path / "out").exists()
    assert (checkpoint / "checkpoint.json").read_bytes() == before


def test_the_refusal_names_the_run_and_the_file(checkpoint: Path, tmp_path: Path) -> None:
    path = rows_of(checkpoint)
    path.unlink()
    with pytest.raises(CheckpointRefused) as told:
        replay(tmp_path, TUESDAY, "out", checkpoint)
    where = path.relative_to(checkpoint)
    assert str(told.value) == f"{checkpoint}: {where} is damaged: begin anew in another folder"


def test_only_committed_rows_count(
    checkpoint: Path, tuesday: tuple[object, ...], tmp_path: Path
) -> None:
    path = rows_of(checkpoint)
    shutil.copy(path, path.with_name("part-00000 (copy).parquet"))
    assert reported(replay(tmp_path, TUESDAY, "out", checkpoint)) == tuesday


def test_a_checkpoint_that_lists_no_rows_is_read_and_lists_them_from_then_on(
    checkpoint: Path, tuesday: tuple[object, ...], tmp_path: Path
) -> None:
    manifest = checkpoint / "checkpoint.json"
    content = json.loads(manifest.read_text())
    del content["beside"]["rows"]
    manifest.write_text(json.dumps(content))
    assert reported(replay(tmp_path, TUESDAY, "out", checkpoint)) == tuesday
    rows_of(checkpoint).unlink()
    with pytest.raises(CheckpointRefused, match="is damaged"):
        replay(tmp_path, TUESDAY, "again", checkpoint)


@pytest.mark.parametrize("rows", [5, {"run-1": 5}, {"run-1": {"part": "x"}}, {"run-1": ["part"]}])
def test_a_damaged_list_of_rows_is_refused(rows: object, checkpoint: Path, tmp_path: Path) -> None:
    manifest = checkpoint / "checkpoint.json"
    content = json.loads(manifest.read_text())
    content["beside"]["rows"] = rows
    manifest.write_text(json.dumps(content))
    with pytest.raises(CheckpointRefused, match=r"checkpoint\.json is damaged"):
        replay(tmp_path, TUESDAY, "out", checkpoint)


def test_on_spark_a_task_that_reads_damaged_rows_says_the_same(checkpoint: Path) -> None:
    path = rows_of(checkpoint)
    cut(path)
    with pytest.raises(CheckpointRefused, match="is damaged: begin anew") as told:
        list(table_rows_in(path, OF_CLAIMS))
    trace = f"Traceback\nkafka_marshal.replay.errors.CheckpointRefused: {told.value}\n\n"
    with pytest.raises(CheckpointRefused) as again, plain_errors():
        raise PySparkException(trace)
    assert str(again.value) == str(told.value)

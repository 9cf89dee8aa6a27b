"""A replay whose sources, output and checkpoint lie in an S3 on this machine."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from benchmarks import logs
from benchmarks.written import written
from typer.testing import CliRunner

from kafka_marshal.cli.app import app
from kafka_marshal.replay import CheckpointRefused, ReplayError, SparkMaster, UnreadableSource, run
from kafka_marshal.replay.places import UriPath
from kafka_marshal.replay.spark.session import opened_session
from tests.replay.object_store import ObjectStore, object_store
from tests.replay.spark.standalone import standalone

DUMPS = Path(__file__).parents[1] / "data" / "dumps"
COUNT = 160_000
pytestmark = pytest.mark.night


@pytest.fixture(scope="module")
def running() -> Iterator[ObjectStore]:
    with object_store() as store:
        yield store


@pytest.fixture
def store(running: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    for name, value in running.environment.items():
        monkeypatch.setenv(name, value)
    return running


@pytest.mark.parametrize("name", ["__marshal-3", "console.txt", "dump-log.txt", "kcat.json"])
def test_a_dump_says_the_same_wherever_it_lies(
    name: str, store: ObjectStore, tmp_path: Path
) -> None:
    there = store.put(DUMPS / name, f"dumps/{name}")
    here = run([str(DUMPS / name)], out=tmp_path / "here" / name / "out", one_log=True)
    run([there], out=store.uri(f"{name}/out"), one_log=True)
    found = written(store.get(f"{name}/out", tmp_path / "there" / "out"))
    assert without_places(found) == without_places(written(tmp_path / "here" / name / "out"))
    assert here.records


def without_places(files: dict[str, str]) -> dict[str, str]:
    """What files say, but for where sources and output lie."""
    folders = re.compile(r"s3a://lake/(?:dumps/)?|/[^\"< ]*/(?:dumps/|here/)")
    return {name: folders.sub("", text) for name, text in files.items()}


def test_a_glob_and_a_folder_of_objects_are_what_they_are_of_files(
    store: ObjectStore, tmp_path: Path
) -> None:
    log = tmp_path / "whole.parquet"
    logs.write(log, 4_000)
    rows = pq.read_table(log)
    parts = tmp_path / "parts" / "marshal.parquet"
    parts.mkdir(parents=True)
    for number in range(4):
        pq.write_table(rows.slice(number * 1_000, 1_000), parts / f"part-{number}.parquet")
    store.put(parts, "parts/marshal.parquet")
    expected = run([str(parts)], out=tmp_path / "out")
    for number, source in enumerate(("parts/**/part-?.parquet", "parts", "parts/*/*[0-3].parquet")):
        summary = run([store.uri(source)], out=store.uri(f"globbed-{number}"))
        assert summary.records == expected.records == 4_000
        assert summary.findings == expected.findings


def test_a_cluster_reads_and_writes_a_store_and_goes_on_from_its_checkpoint(
    store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs.write(tmp_path / "all.parquet", COUNT)
    rows = pq.read_table(tmp_path / "all.parquet")
    log, half = tmp_path / "log.parquet", tmp_path / "half.parquet"
    for folder, parts in ((half, 2), (log, 4)):  # a chunk for each executor at least
        folder.mkdir()
        for part in range(parts):
            some = rows.slice(part * COUNT // 4, COUNT // 4)
            pq.write_table(some, folder / f"part-{part}.parquet")
    here = tmp_path / "here"
    run([str(half)], out=here / "half" / "out", checkpoint=here / "kept", engine="local")
    run([str(log)], out=here / "whole" / "out", checkpoint=here / "kept", engine="local")
    sources = {"half": store.put(half, "half.parquet"), "whole": store.put(log, "log.parquet")}
    with standalone(tmp_path / "cluster", workers=2) as cluster:
        monkeypatch.setenv("PYSPARK_PYTHON", str(cluster.python))
        settings = [f"spark.executorEnv.{name}={to}" for name, to in store.environment.items()]
        master = SparkMaster.parsed(cluster.url, ["spark.executor.memory=640m", *settings])
        with opened_session(master) as spark:
            for name, source in sources.items():
                out, kept = store.uri(f"{name}/out"), store.uri("kept")
                run([source], out=out, checkpoint=kept, spark=spark)
    for name in sources:
        found = written(store.get(f"{name}/out", tmp_path / "there" / name / "out"))
        expected = written(here / name / "out")
        assert found.keys() == expected.keys()
        tables = [each for each in found if "." not in each]
        assert len(tables) > 3
        assert {each: found[each] for each in tables} == {each: expected[each] for each in tables}
    assert "lock" not in store.names("kept")


def test_what_fails_leaves_nothing_in_the_store(store: ObjectStore, tmp_path: Path) -> None:
    torn = store.put(DUMPS / "kcat.json", "torn/kcat.json")
    name = UriPath("s3a:/lake/torn/kcat.json")
    name.write_bytes(name.read_bytes() + b'{"partition": 0, "offset": "none", "payload": ""}\n')
    with pytest.raises(UnreadableSource, match=f"{torn}:"):
        run([torn], out=store.uri("failed"), checkpoint=store.uri("failed-kept"))
    assert store.names("failed") == []
    assert store.names("failed-kept") == []


def test_a_checkpoint_in_a_store_is_one_process_at_a_time(store: ObjectStore) -> None:
    there = store.put(DUMPS / "kcat.json", "one/kcat.json")
    lock = UriPath("s3a:/lake/once-kept/lock")
    lock.write_text("somebody")
    with pytest.raises(CheckpointRefused, match=f"if it was killed, remove {lock}"):
        run([there], out=store.uri("once"), checkpoint=store.uri("once-kept"))

    def taken(step: str) -> None:
        if step == "writing tables":
            lock.write_text("somebody")

    lock.unlink()
    with pytest.raises(CheckpointRefused, match="another process goes on with it"):
        run([there], out=store.uri("once"), checkpoint=store.uri("once-kept"), on_progress=taken)
    assert store.names("once") == []
    assert lock.read_text() == "somebody"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["s3a://nowhere/log", "--out", "OUT"], "s3a://nowhere/log: .*there is no such bucket"),
        (["s3a://lake/none", "--out", "OUT"], "s3a://lake/none: .*no object of that name"),
        (["s3a://lake/n*ne", "--out", "OUT"], r"s3a://lake/n\*ne: no file matches"),
        (["DUMP", "--out", "s3a://nowhere/o"], "--out s3a://nowhere/o: there is no such bucket"),
        (["DUMP", "--out", "s3a://lake/taken"], "s3a://lake/taken: exists already"),
        (
            ["DUMP", "--out", "OUT", "--checkpoint", "s3a://nowhere/kept"],
            "s3a://nowhere/kept: .*there is no such bucket",
        ),
    ],
)
def test_one_sentence_says_what_is_missing_in_a_store(
    options: list[str], sentence: str, store: ObjectStore, tmp_path: Path
) -> None:
    store.put(DUMPS / "kcat.json", "taken/kcat.json")
    named = {"DUMP": str(DUMPS / "kcat.json"), "OUT": str(tmp_path / "out")}
    ran = CliRunner().invoke(app, ["replay", *(named.get(each, each) for each in options)])
    assert ran.exit_code == 2
    assert re.fullmatch(f"marshal: {sentence}.*", " ".join(ran.output.split()))


def test_one_sentence_says_that_a_store_cannot_be_reached(
    store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(UnreadableSource, match=r"s3a://lake/log: the store cannot be reached"):
        run(["s3a://lake/log"], out=tmp_path / "out")
    with pytest.raises(ReplayError, match=r"s3a://lake/out: the store cannot be reached"):
        run([str(DUMPS / "kcat.json")], out="s3a://lake/out")


def test_one_sentence_says_that_credentials_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = "access is refused .* credentials are looked for in AWS_ACCESS_KEY_ID"
    with object_store(guarded=True) as store:
        for name, value in store.environment.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(UnreadableSource, match=f"s3a://lake/log: {refused}"):
            run(["s3a://lake/log"], out=tmp_path / "out")
        with pytest.raises(ReplayError, match=f"--out s3a://lake/out: {refused}"):
            run([str(DUMPS / "kcat.json")], out="s3a://lake/out")

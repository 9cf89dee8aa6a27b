"""The meaning of a URI, and the errors of one that has none. No store runs here."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest
from pyarrow import fs
from typer.testing import CliRunner

from kafka_marshal.cli.app import app
from kafka_marshal.replay import Exports, InvalidOption, places, run
from kafka_marshal.replay.places import UriPath, place_of

DUMP = Path(__file__).parents[1] / "data" / "dumps" / "kcat.json"


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("s3a://lake/a/b", "s3a://lake/a/b"),
        ("s3://lake/a/", "s3://lake/a"),
        ("S3A://lake/a", "s3a://lake/a"),
        ("hdfs://name:8020/a", "hdfs://name:8020/a"),
        ("s3a:/lake/a", "s3a://lake/a"),
        ("file:///a/b", "/a/b"),
        ("file:/a/b", "/a/b"),
        ("odd:/a", "odd:/a"),
        ("C:/a", "C:/a"),
        ("a/b", "a/b"),
    ],
)
def test_a_uri_is_a_path_and_a_path_stays_one(said: str, meant: str) -> None:
    found = place_of(said)
    assert str(found) == meant
    assert isinstance(found, UriPath) == ("://" in meant)
    assert place_of(found) is found or type(found) is type(Path())


def test_a_uri_goes_where_a_path_goes() -> None:
    place = place_of("s3a://lake/a/part.parquet")
    assert pickle.loads(pickle.dumps(place)) == place
    assert place.parent / "b" == place_of("s3a://lake/a/b")
    assert str(place.relative_to(place_of("s3a://lake"))) == "a/part.parquet"
    with pytest.raises(TypeError, match=r"s3a://lake/a/part\.parquet is no file of this machine"):
        place.touch()


@pytest.mark.parametrize(
    ("option", "uri", "sentence"),
    [
        ("SOURCE", "ftp://host/a", "SOURCE ftp://host/a: ftp is no scheme that is known"),
        ("--out", "gopher://host/a", "--out gopher://host/a: gopher is no scheme that is known"),
        ("--out", "s3a://", "--out s3a://: the URI names no bucket"),
        ("--checkpoint", "http://a/b", "--checkpoint http://a/b: http is no scheme that is known"),
        ("--checkpoint", "hdfs://a/b", "--checkpoint hdfs://a/b: HDFS replaces no file"),
        ("--sarif", "s3a://lake/a", "--sarif s3a:/lake/a: it is written on this machine"),
    ],
)
def test_a_uri_that_means_nothing_is_one_sentence_and_exit_code_2(
    option: str, uri: str, sentence: str, tmp_path: Path
) -> None:
    options = {"SOURCE": str(DUMP), "--out": str(tmp_path / "out")} | {option: uri}
    given = [word for name, to in options.items() for word in (name, to) if word != "SOURCE"]
    ran = CliRunner().invoke(app, ["replay", *given])
    assert ran.exit_code == 2
    assert re.fullmatch(f"marshal: {re.escape(sentence)}.*", " ".join(ran.output.split()))
    assert not (tmp_path / "out").exists()


def test_the_files_of_a_glob_are_those_of_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    store = fs._MockFileSystem()
    names = ["day/a.json", "day/b.json", "day/deep/c.json", "day/a+b.json", "other.txt"]
    for name in names:
        store.create_dir(f"lake/{name}".rpartition("/")[0], recursive=True)
        with store.open_output_stream(f"lake/{name}") as file:
            file.write(b"{}")
    monkeypatch.setattr(places, "_s3", lambda bucket, endpoint: store)
    lake = place_of("s3a://lake")

    def found(pattern: str) -> list[str]:
        return [str(path.relative_to(lake)) for path in sorted(lake.glob(pattern))]

    assert found("*.txt") == ["other.txt"]
    assert found("day/?.json") == ["day/a.json", "day/b.json"]
    assert found("day/*.json") == ["day/a+b.json", "day/a.json", "day/b.json"]
    assert found("day/a+*") == ["day/a+b.json"]
    assert found("day/[!a].json") == ["day/b.json"]
    assert found("**/*.json") == ["day/a+b.json", "day/a.json", "day/b.json", "day/deep/c.json"]
    assert [path for path in lake.rglob("*") if path.is_file()] == [
        path for path in lake.glob("**/*") if path.is_file()
    ]
    assert place_of("s3a://lake/day").is_dir()
    assert place_of("s3a://lake/day/a.json").stat().st_size == 2
    assert not place_of("s3a://lake/night").exists()


def test_a_file_uri_is_a_path_for_the_output_and_the_source(tmp_path: Path) -> None:
    run([DUMP.absolute().as_uri()], out=(tmp_path / "out").as_uri())
    assert (tmp_path / "out" / "summary.json").exists()


def test_exports_stay_on_this_machine(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="--junit s3a:/lake/x: it is written on this machine"):
        Exports(junit=Path("s3a://lake/x")).check(tmp_path / "out")

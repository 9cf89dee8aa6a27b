import hashlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from kafka_marshal.java import jars
from kafka_marshal.java.jars import Jar, JarError

GOOD = hashlib.sha256(b"good").hexdigest()
ONE = Jar("org.example", "one", "1.0", GOOD)
TWO = Jar("org.example", "two", "2.0", GOOD)


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("KAFKA_MARSHAL_CACHE", str(tmp_path))
    return tmp_path / "jars"


def fetches(monkeypatch: pytest.MonkeyPatch, **contents: bytes) -> list[list[str]]:
    """Let Maven Central hold these modules; returns what is asked for, run by run."""
    asked = []

    def fetch(wanted: Sequence[Jar], folder: Path) -> None:
        asked.append([jar.module for jar in wanted])
        for jar in wanted:
            (folder / jar.file_name).write_bytes(contents[jar.module])

    monkeypatch.setattr(jars, "_fetch", fetch)
    return asked


def test_a_jar_with_another_checksum_is_refused_by_name_and_nothing_is_kept(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetches(monkeypatch, one=b"good", two=b"not good")
    with pytest.raises(JarError, match=r"org\.example:two:2\.0 is not the jar"):
        jars.ensure_all([ONE, TWO])
    assert not cache.exists()


def test_a_damaged_jar_is_fetched_again_and_a_good_one_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = fetches(monkeypatch, one=b"good", two=b"good")
    assert jars.ensure(ONE).read_bytes() == b"good"
    ONE.path.write_bytes(b"damaged")
    assert [path.read_bytes() for path in jars.ensure_all([ONE, TWO])] == [b"good", b"good"]
    assert jars.ensure_all([TWO, ONE]) == [TWO.path, ONE.path]
    assert asked == [["one"], ["one", "two"]]

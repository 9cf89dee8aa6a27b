from pathlib import Path

import pytest

from kafka_marshal import cache


def test_the_folder_is_the_named_one_else_xdg_else_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("KAFKA_MARSHAL_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")
    assert cache.folder() == tmp_path / ".cache" / "kafka-marshal"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.folder() == tmp_path / "xdg" / "kafka-marshal"
    monkeypatch.setenv("KAFKA_MARSHAL_CACHE", str(tmp_path / "own"))
    assert cache.folder() == tmp_path / "own"
    assert cache.folder().is_dir()


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "file"

    def stop_half_way() -> None:
        with cache.made_beside(target) as made:
            made.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        stop_half_way()
    assert list(target.parent.iterdir()) == []
    with cache.made_beside(target) as made:
        made.write_text("whole")
        assert not target.exists()
    assert target.read_text() == "whole"
    assert list(target.parent.iterdir()) == [target]


def test_of_two_makers_of_one_folder_the_first_wins(tmp_path: Path) -> None:
    target = tmp_path / "folder"
    with cache.made_beside(target) as made:
        made.mkdir()
        (made / "who").write_text("second")
        with cache.made_beside(target) as made_faster:
            made_faster.mkdir()
            (made_faster / "who").write_text("first")
    assert (target / "who").read_text() == "first"
    assert list(tmp_path.iterdir()) == [target]

"""Marshal promises to name the place that has no room: the user frees the disk that is named."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kafka_marshal.capture import RawRecord
from kafka_marshal.client.connect.reader import Watermarks
from kafka_marshal.client.connect.settings import settings_of
from kafka_marshal.errors import naming
from kafka_marshal.replay import Exports, ReplayError, run
from kafka_marshal.replay.exports import files, output
from kafka_marshal.replay.live import dump
from kafka_marshal.replay.one_process import local_fold, sorting
from kafka_marshal.replay.one_process.sorting import write_stream
from kafka_marshal.replay.places import parquet_writer
from kafka_marshal.scratch import Scratch
from tests.replay.live.feeding import CAPTURES

THEFT = next(path for path in CAPTURES if path.stem.startswith("d3_"))
FULL = Path("/dev/full")
ROWS = pa.table({"offset": list(range(100_000))})


def full(path: Path) -> None:
    """What is written there fails as it does on a full disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(FULL)


class FullBeside(Scratch):
    """A temporary folder in which these files have no room."""

    names: tuple[str, ...] = ()

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        for name in self.names:
            full(self.path / name)


def replay(tmp_path: Path, **options: Any) -> str:
    """The refusal; nothing is left of the run."""
    with pytest.raises(ReplayError) as told:
        run(
            [str(THEFT)],
            out=tmp_path / "out",
            heartbeat_interval_s=4,
            rules="both",
            engine="local",
            **options,
        )
    assert not (tmp_path / "out").exists()
    return str(told.value)


@pytest.mark.parametrize("name", ["f.sarif", "f.xml", "f.json", "f.json.gz"])
def test_an_export_without_room_is_named(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FullBeside, "names", (name,))
    monkeypatch.setattr(files, "Scratch", FullBeside)
    folder = tmp_path / "exports"
    trace = folder / (name if "json" in name else "trace.json")
    exports = Exports(folder / "f.sarif", folder / "f.xml", trace)
    told = replay(tmp_path, exports=exports)
    assert told == f"{folder / name}: cannot be written: No space left on device"
    assert list(folder.iterdir()) == []


def test_a_checkpoint_without_room_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = local_fold.GatheredRows.write

    def written(self: local_fold.GatheredRows, path: Path) -> None:
        full(path)
        write(self, path)

    monkeypatch.setattr(local_fold.GatheredRows, "write", written)
    told = replay(tmp_path, checkpoint=tmp_path / "kept")
    assert told.startswith(f"{tmp_path / 'kept'}/run-00001-")
    assert told.endswith("/rows/part-00000.parquet: cannot be written: No space left on device")


def test_the_temporary_folder_without_room_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FullBeside, "names", ("0",))
    monkeypatch.setattr(sorting, "Scratch", FullBeside)
    monkeypatch.setattr(local_fold, "ROWS_BYTES_MAX", 1)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    told = replay(tmp_path)
    assert told.startswith(f"{tmp_path}/kafka-marshal-rows-")
    assert told.endswith("/0: cannot be written: No space left on device")


@pytest.mark.parametrize("name", ["report.html", "findings/part-00000.parquet"])
def test_an_output_without_room_is_named_by_the_place_that_was_given(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FullBeside, "names", (name,))
    monkeypatch.setattr(output, "Scratch", FullBeside)
    mkdir = Path.mkdir
    monkeypatch.setattr(Path, "mkdir", lambda path, *_, **__: mkdir(path, exist_ok=True))
    told = replay(tmp_path)
    assert told.startswith(f"{tmp_path / 'out'}")
    assert told.endswith(": cannot be written: No space left on device")
    assert "kafka-marshal-" not in told


def written_by_parquet() -> None:
    with parquet_writer(FULL, ROWS.schema) as file:
        file.write_table(ROWS)


def written_by_a_stream() -> None:
    write_stream(FULL, ROWS.schema, ROWS.to_batches())


@pytest.mark.parametrize("write", [written_by_parquet, written_by_a_stream])
def test_an_error_of_arrow_has_the_name_of_the_file_and_the_reason_of_the_system(
    write: Callable[[], None],
) -> None:
    with pytest.raises(OSError) as told:  # noqa: PT011
        write()
    error = told.value
    assert (error.errno, error.strerror) == (errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert error.filename == str(FULL)


def test_the_innermost_name_is_kept() -> None:
    with pytest.raises(OSError, match="'inner'"), naming(Path("outer")), naming(Path("inner")):
        raise OSError(errno.ENOSPC, "Arrow: Detail: [errno 28]")


def test_a_temporary_name_is_replaced() -> None:
    with pytest.raises(OSError, match="'out/a/b'"), naming(Path("out"), Path(".out.1")):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), ".out.1/a/b")


def test_an_error_without_a_number_keeps_its_words() -> None:
    with pytest.raises(OSError, match="the store is gone: 'out'"), naming(Path("out")):
        raise OSError("the store is gone")


class OneRecord:
    """A topic that has one, and a copy of it that has no room."""

    partitions = (0,)

    def __init__(self, copy: Path, *_: object) -> None:
        self._copy = copy

    def extents(self) -> dict[int, Watermarks]:
        full(self._copy)
        return {0: Watermarks(0, 1)}

    def records(self, *_: object) -> Iterator[list[RawRecord]]:
        yield [RawRecord(0, 0, 1, b"a" * 100_000)]

    def close(self) -> None:
        pass


def test_a_copy_of_a_topic_without_room_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "t.parquet" / "partition-0.parquet"
    monkeypatch.setattr(dump, "CoordinationReader", partial(OneRecord, copy))
    with pytest.raises(OSError, match=f"No space left on device: '{copy}'"):
        dump.dump(settings_of("localhost:1"), "t", tmp_path)

"""The final rows of a checkpoint's runs: one folder of Parquet files for each run.

A run that misses a file of an earlier run would report less. So the manifest holds the name and the
size of every file, and other files in these folders do not count. This module knows neither the
engine that wrote a file, nor the tables whose rows it holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa

from kafka_marshal.replay.errors import CheckpointRefused
from kafka_marshal.replay.places import UriPath, parquet_file, reason_of
from kafka_marshal.replay.state.checkpoint import MANIFEST, damaged

ROWS: Final = "rows"
"""The folder of rows within that of a run."""
RowFiles: TypeAlias = dict[str, int]
"""The size in bytes of every rows file of a run, by name."""


def row_files(run: Path) -> RowFiles:
    """The rows files that are in the folder of a run; none if it has no such folder.

    Raises:
        OSError: the folder cannot be listed.
    """
    return {path.name: path.stat().st_size for path in sorted((run / ROWS).glob("*.parquet"))}


def committed_rows(folder: Path, beside: Mapping[str, Any]) -> dict[str, RowFiles]:
    """The rows files of all committed runs, by the name of the run, the first run first.

    `beside` is what was committed with the states. Earlier versions did not list the files: of a
    run without a list, all files that are there count.

    Raises:
        CheckpointRefused: a file is missing or has another size, or the lists are damaged.
        OSError: a folder cannot be listed.
    """
    runs, listed = beside.get("runs", []), beside.get("rows", {})
    if not _are_lists_of_runs(runs, listed):
        raise damaged(folder, MANIFEST)
    committed: dict[str, RowFiles] = {}
    for run in runs:
        found = row_files(folder / run)
        committed[run] = listed.get(run, found)
        for name, size in committed[run].items():
            if found.get(name) != size:
                raise damaged(folder, f"{run}/{ROWS}/{name}")
    return committed


def saved_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file, in the schema of the tables.

    Raises:
        CheckpointRefused: it is damaged, or cannot be read.
    """
    try:
        with parquet_file(path) as file:
            yield from file.iter_batches()
    except (FileNotFoundError, pa.ArrowException):
        raise damaged(path.parent, path.name) from None
    except OSError as error:
        if error.errno is None and not isinstance(path, UriPath):  # Arrow's, of its content
            raise damaged(path.parent, path.name) from None
        raise CheckpointRefused(f"{path}: cannot be read: {reason_of(error)}") from None


def _are_lists_of_runs(runs: object, listed: object) -> bool:
    return (
        isinstance(runs, list)
        and all(isinstance(run, str) for run in runs)
        and isinstance(listed, dict)
        and all(
            isinstance(files, dict) and all(isinstance(size, int) for size in files.values())
            for files in listed.values()
        )
    )

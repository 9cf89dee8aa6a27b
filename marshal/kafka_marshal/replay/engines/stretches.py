"""Buffers each chunk's rows of one coordinating partition, until it is folded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from attrs import frozen

from kafka_marshal.replay.one_process.sorting import Key


@frozen
class Stretch:
    """The rows of one coordinating partition in a file of sorted rows."""

    path: Path
    begin: int
    end: int
    """Batches of the file, the last excluded."""
    rows: int
    first: Key
    last: Key
    """The sort keys of the first and the last row."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Read them."""
        with pa.memory_map(str(self.path)) as file, pa.ipc.open_file(file) as reader:
            for number in range(self.begin, self.end):
                yield reader.get_batch(number)

"""What a replay wrote, so that two can be compared: tables row for row, all else byte for byte."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq


def written(out: Path) -> dict[str, str]:
    """Of each table its columns' types and its rows, sorted; of other files the text.

    Files beside the folder that are named `out.NAME` count, too: exports.
    """
    found = {}
    for path in sorted([*out.iterdir(), *out.parent.glob(f"{out.name}.*")]):
        name = path.name.removeprefix(f"{out.name}.")
        if path.is_file():
            found[name] = path.read_text(encoding="utf-8")
            continue
        rows = pq.read_table(path)
        lines = sorted(json.dumps(row, sort_keys=True) for row in rows.to_pylist())
        found[name] = "\n".join([str(rows.schema.remove_metadata()), *lines])
    return found

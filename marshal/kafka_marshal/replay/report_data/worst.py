"""The most important findings, from the table that a replay has written.

This module does not know how they are shown, nor which engine wrote the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyarrow.compute as pc
import pyarrow.dataset as ds

from kafka_marshal.replay.findings.catalogue import CATALOGUE, ERROR, WARNING
from kafka_marshal.replay.model.published import FindingRow
from kafka_marshal.replay.model.tables import FINDINGS

_COLUMNS: Final = ["severity", "code", "rules", "log", "offset", "timestamp_ms", "sentence"]


def worst(out: Path, most: int = 3, codes: Sequence[str] = tuple(CATALOGUE)) -> list[FindingRow]:
    """The worst findings of a replay with output folder `out`, at most `most`.

    Errors come before warnings; `info` is left out. One finding of each code comes before a second
    one of any. Codes are in the order of `codes`, findings of one code by time.
    """
    table = ds.dataset(out / FINDINGS.name, format="parquet").to_table(
        columns=_COLUMNS, filter=pc.field("severity").isin([ERROR, WARNING])
    )
    table = table.sort_by([(name, "ascending") for name in ("timestamp_ms", "log", "offset")])
    found: list[tuple[tuple[int, int, int], FindingRow]] = []
    for rank, severity in enumerate((ERROR, WARNING)):
        of_severity = table.filter(pc.field("severity") == severity)
        for code in pc.unique(of_severity["code"]).to_pylist():
            first = of_severity.filter(pc.field("code") == code).slice(0, most)
            rows = FINDINGS.rows(first.to_pylist())
            found += [((rank, n, codes.index(code)), row) for n, row in enumerate(rows)]
    return [row for _, row in sorted(found, key=lambda item: item[0])[:most]]

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_marshal.replay.findings.catalogue import CATALOGUE, ERROR, WARNING
from kafka_marshal.replay.report_data.worst import worst

ERRORS = [code for code, kind in CATALOGUE.items() if kind.severity == ERROR][:2]
WARNINGS = [code for code, kind in CATALOGUE.items() if kind.severity == WARNING][:2]
Found = tuple[str, str, int]


def written(out: Path, *found: Found) -> Path:
    """Findings by severity, code and offset, which is the time, too; in two files."""
    rows = [
        {
            "severity": severity,
            "code": code,
            "rules": "fenced",
            "log": "a",
            "offset": offset,
            "timestamp_ms": offset,
            "sentence": f"{code} at {offset}",
        }
        for severity, code, offset in found
    ]
    (out / "findings").mkdir(parents=True)
    for number, part in enumerate((rows[::2], rows[1::2])):
        schema = pa.Table.from_pylist(rows).schema
        table = pa.Table.from_pylist(part, schema)
        pq.write_table(table, out / "findings" / f"part-{number:05}.parquet")
    return out


def sentences(out: Path) -> list[str]:
    return [row.sentence for row in worst(out)]


def test_errors_come_before_warnings_and_notes_not_at_all(tmp_path: Path) -> None:
    found = [("info", WARNINGS[0], 1), (WARNING, WARNINGS[0], 2), (ERROR, ERRORS[0], 3)]
    assert sentences(written(tmp_path, *found)) == [f"{ERRORS[0]} at 3", f"{WARNINGS[0]} at 2"]


def test_each_code_is_heard_before_one_is_heard_twice(tmp_path: Path) -> None:
    found = [(ERROR, ERRORS[1], at) for at in (9, 7, 8)] + [(ERROR, ERRORS[0], 20)]
    assert sentences(written(tmp_path, *found)) == [
        f"{ERRORS[0]} at 20",
        f"{ERRORS[1]} at 7",
        f"{ERRORS[1]} at 8",
    ]


def test_an_error_said_twice_comes_before_a_warning(tmp_path: Path) -> None:
    found = [(WARNING, WARNINGS[0], 1), (ERROR, ERRORS[0], 5), (ERROR, ERRORS[0], 4)]
    assert sentences(written(tmp_path, *found)) == [
        f"{ERRORS[0]} at 4",
        f"{ERRORS[0]} at 5",
        f"{WARNINGS[0]} at 1",
    ]

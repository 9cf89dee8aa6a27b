"""Reference pages of the replay, from its formats, tables and findings.

`python -m tools.pages.replay` writes them to `docs/reference`; a test compares them with the code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from kafka_marshal.replay.findings.catalogue import CATALOGUE, FindingKind
from kafka_marshal.replay.groups.catalogue import GROUP_CATALOGUE, OF_THE_INPUT
from kafka_marshal.replay.model.groups.tables import GROUPS_PUBLISHED
from kafka_marshal.replay.model.rows import Table
from kafka_marshal.replay.model.tables import PUBLISHED
from kafka_marshal.replay.sources import FORMATS, CannotProve

REFERENCE: Final = Path(__file__).parent.parent.parent / "docs" / "reference"

_NOTE = "<!-- Printed by `python -m tools.pages.replay`; do not edit. -->"

_FORMATS = f"""\
# Formats that a replay reads

{_NOTE}

The format of each file is detected from its name and its first bytes; `--format NAME` sets it for
all files ([sources](../replay.md#sources)). What a format cannot prove is a caveat if it matters
for the files that are read. For `dump-log` the caveat mentions lost epochs only if records had
`marshal-` headers. For `segment` it mentions aborted records only if there were transactions.

"""

_DETAILS = """
- **capture**: one record a line, `{"partition", "offset", "timestamp_ms", "timestamp_type",
  "value"[, "headers"]}`; `timestamp_type` as in Kafka's clients, 1 CreateTime and 2 LogAppendTime;
  headers as a map or as a list of pairs.
- **kcat**: values that are not UTF-8 are read correctly, since kcat prints their bytes. By default
  kcat reads only committed records. Lines that begin with `% ` are skipped.
- **console**: print it with `--property print.partition=true --property print.offset=true
  --property print.timestamp=true --property print.headers=true`. Without the first two it cannot be
  replayed. A line that does not begin a record continues the value before it.
- **dump-log**: the partition is in the line `Dumping .../TOPIC-PARTITION/....log`, or in the name
  of the file's folder.
- **segment**: files of format v2, so of Kafka 0.11 or later; the folder gives topic and partition.
  If it was copied from a running broker, the last batch may be incomplete: it is skipped, which is
  a caveat. A wrong checksum is an error. Use segments if you have the choice.
- **connect**: a file contains values: strings or bytes; nulls are nulls. If a value is an object,
  the record's value is in its field `value`. It may also have `offset` and `timestamp` (added by
  `InsertField`), which are then used. Bytes that the sink wrote as base64 are not decoded. By
  default a sink drops nulls, and with them their offsets.
- **parquet**: `value` (may be null), `partition`, `offset`, `timestamp`, `timestampType`
  (0 CreateTime, 1 LogAppendTime) and, optionally, `headers`, `topic` and `key`. Without `headers`
  every record is judged as if it had none, which is a caveat.

Records of claims need no keys: they are not read. Those of groups do, and a format without keys is
a caveat. kcat, dump-log and segments have keys; captures and Parquet have them in `key`; a sink in
a field `key` beside `value`; the console consumer prints them with `--property print.key=true`.
"""

_TABLES = f"""\
# Tables of a replay

{_NOTE}

Each table is a folder of Parquet files ([the replay](../replay.md#tables)).

## Claims
"""

_TABLES_OF_GROUPS = """\
## Groups with a controller

`marshal replay --protocol groups` writes these ([how to read
them](../how-to/replay-a-group.md)). The tables `findings` and `malformed` are as above.
"""

_FINDINGS = f"""\
# Findings of a replay

{_NOTE}

`rules` names the rule set that reports a finding: `fenced`, `original`, or *each*. *log* stands for
a fact of the input, whose `rules` is null. The table shows the usual severity; if a finding can be
less severe, its meaning says so.

## Claims
"""

_FINDINGS_OF_GROUPS = """\
## Groups with a controller

Findings of groups have the member's id as `instance`. Those about the input (`create_time`,
`offset_gap`, `duplicate_record`, `conflicting_duplicate`, `malformed_record`,
`wrong_coordinating_partition`, here of groups instead of topics) are as above.
"""


def formats_page() -> str:
    """The formats of files, how each is detected, and what it cannot prove."""
    rows = "".join(
        f"| `{name}` | {format_.what} | {format_.detected_by} | {_limits(format_.cannot_prove)} |\n"
        for name, format_ in FORMATS.items()
    )
    head = "| format | what it is | detected by | what it cannot prove |\n|---|---|---|---|\n"
    return _FORMATS + head + rows + _DETAILS


def tables_page() -> str:
    """Every column of every table."""
    of_groups = (table for table in GROUPS_PUBLISHED if table not in PUBLISHED)
    parts = [_TABLES, *map(_table, PUBLISHED), _TABLES_OF_GROUPS, *map(_table, of_groups)]
    return "\n".join(parts)


def findings_page() -> str:
    """Every kind of finding, with its meaning and what to do."""
    of_groups = (kind for code, kind in GROUP_CATALOGUE.items() if code not in OF_THE_INPUT)
    parts = [_FINDINGS, _catalogue(CATALOGUE.values()), _FINDINGS_OF_GROUPS, _catalogue(of_groups)]
    return "\n".join(parts)


PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "replay-formats.md": formats_page,
    "replay-tables.md": tables_page,
    "findings.md": findings_page,
}
"""What prints each page, by its name."""


def _limits(cannot: CannotProve) -> str:
    told = attrs.asdict(cannot)
    limits = [f"*{name.replace('_', ' ')}*: {text}" for name, text in told.items() if text]
    return " ".join(limits) or "nothing: it proves what it states"


def _table(table: Table[Any]) -> str:
    rows = "".join(f"| `{c.name}` | `{c.type}` | {c.meaning} |\n" for c in table.columns)
    return (
        f"### {table.name}\n\n{table.meaning} Sorted by {', '.join(table.order)}.\n\n"
        f"| column | type | meaning |\n|---|---|---|\n{rows}"
    )


def _catalogue(kinds: Iterable[FindingKind]) -> str:
    rows = "".join(
        f"| `{kind.code}` | {kind.severity} | {kind.rules} | {kind.property or ''} "
        f"| {kind.meaning} | {kind.what_to_do} |\n"
        for kind in kinds
    )
    head = (
        "| code | severity | rules | property | meaning | what to do |\n|---|---|---|---|---|---|\n"
    )
    return head + rows


if __name__ == "__main__":
    for name, page in PAGES.items():
        (REFERENCE / name).write_text(page(), encoding="utf-8")

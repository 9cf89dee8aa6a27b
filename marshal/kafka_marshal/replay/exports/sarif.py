"""Findings as SARIF 2.1.0, the format in which code hosts and CI systems show tool results.

A rule is a code of the catalogue, a result is a finding. A log has no lines, so a result's location
is logical: log, coordinating partition, group, topic, partition. The file contains no time and no
path of the run, and results are written one by one, so any number fits.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import quote

from kafka_marshal.replay.findings.catalogue import CATALOGUE, ERROR, WARNING, FindingKind
from kafka_marshal.replay.model.published import FindingRow
from kafka_marshal.replay.model.rows import readable

SCHEMA: Final = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_PROPERTIES: Final = (
    "log",
    "rules",
    "property",
    "coordinating_partition",
    "group",
    "topic",
    "topic_partition",
    "offset",
    "timestamp_ms",
    "last_offset",
    "last_timestamp_ms",
    "count",
    "instance",
    "client",
)
_KINDS: Final = (
    ("log", "log"),
    ("coordinating_partition", "coordinatingPartition"),
    ("group", "group"),
    ("topic", "topic"),
    ("topic_partition", "partition"),
)


def level(severity: str) -> str:
    """SARIF's word for a severity: `info` is a note."""
    return severity if severity in (ERROR, WARNING) else "note"


def sarif(
    findings: Iterable[FindingRow],
    version: str,
    catalogue: Mapping[str, FindingKind] = CATALOGUE,
) -> Iterator[str]:
    """The text of a SARIF file, in pieces. `version` is the package's."""
    places = {code: place for place, code in enumerate(catalogue)}
    driver = {
        "name": "kafka-marshal",
        "version": version,
        "rules": [_rule(kind) for kind in catalogue.values()],
    }
    yield f'{{"$schema": {_json(SCHEMA)}, "version": "2.1.0", "runs": [{{\n'
    yield f'"tool": {{"driver": {_json(driver)}}},\n"columnKind": "unicodeCodePoints",\n'
    yield '"results": ['
    separator = "\n"
    for row in findings:
        yield separator + _json(_result(row, places[row.code]))
        separator = ",\n"
    yield "]\n}]}\n"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=True)


def _rule(kind: FindingKind) -> dict[str, object]:
    told_by = {
        "log": "A fact of the input, whatever the rules.",
        "each": "Told under either rule set.",
    }.get(kind.rules, f"Told under the rules `{kind.rules}`.")
    rule: dict[str, object] = {
        "id": kind.code,
        "name": "".join(word.capitalize() for word in kind.code.split("_")),
        "shortDescription": {"text": kind.meaning.split(". ")[0].rstrip(".") + "."},
        "fullDescription": {"text": f"{kind.meaning} {told_by}"},
        "help": {
            "text": f"{kind.meaning} {told_by} What to do: {kind.what_to_do}",
            "markdown": f"{kind.meaning} {told_by}\n\n**What to do:** {kind.what_to_do}",
        },
        "defaultConfiguration": {"level": level(kind.severity)},
    }
    tags = ["kafka", *([kind.property] if kind.property else [])]
    rule["properties"] = {"tags": tags, "rules": kind.rules}
    return rule


def _result(row: FindingRow, place: int) -> dict[str, object]:
    return {
        "ruleId": row.code,
        "ruleIndex": place,
        "level": level(row.severity),
        "message": {"text": readable(row.sentence)},
        "locations": [{"logicalLocations": [_location(row)]}],
        "properties": {
            name: readable(value) if isinstance(value, str) else value
            for name in _PROPERTIES
            if (value := getattr(row, name)) is not None
        },
    }


def _location(row: FindingRow) -> dict[str, object]:
    """The innermost thing that the finding is about, and the way to it."""
    parts = [(kind, part) for name, kind in _KINDS if (part := getattr(row, name)) is not None]
    kind, name = parts[-1]
    return {
        "name": readable(str(name)),
        "fullyQualifiedName": "/".join(quote(readable(str(part)), safe="") for _, part in parts),
        "kind": kind,
    }

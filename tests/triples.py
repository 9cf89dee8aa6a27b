"""Transitions of the specification as TLC took them, kept in a file: claim, record, next claim.

This room reads and writes `tests/data/triples.jsonl.gz`. It does not know how the rows were chosen
(`model_tests/transitions/sample.py` does) nor what judges them. With the file, the reducer is held
against the specification where there is no Java, and in a second.
"""

from __future__ import annotations

import functools
import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import attrs

from kafka_marshal import (
    FENCED,
    ORIGINAL,
    Accepted,
    Claim,
    Headers,
    Message,
    Record,
    Refused,
    Rules,
    Verdict,
)
from kafka_marshal.core import wire

PATH = Path(__file__).parent / "data" / "triples.jsonl.gz"
RULES = {rules.rule_set.value: rules for rules in (FENCED, ORIGINAL)}
VERDICTS: dict[str, Verdict] = {each.value: each for kind in (Accepted, Refused) for each in kind}
MESSAGES: dict[str, type[Message]] = {each.name: each.message for each in wire.MESSAGES}


@attrs.frozen
class Triple:
    """One transition of the specification, in Python's words."""

    rules: Rules
    before: Claim
    record: Record
    after: Claim
    verdict: Verdict


@functools.cache
def read(path: Path = PATH) -> tuple[Triple, ...]:
    """Every triple in the file."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return tuple(_triple(json.loads(line)) for line in lines)


def write(triples: Iterable[Triple], path: Path = PATH) -> None:
    """Write them sorted, so that the same triples are the same bytes."""
    text = "".join(f"{line}\n" for line in sorted(map(line, triples)))
    path.write_bytes(gzip.compress(text.encode("utf-8"), mtime=0))


def line(triple: Triple) -> str:
    """One triple as JSON. What has its default value is left out."""
    before, after = _claim_text(triple.before), _claim_text(triple.after)
    return (
        f"{{{_rules_text(triple.rules)},"
        f'"before":{before},"record":{_record_text(triple.record)},"after":{after},'
        f'"verdict":{_json(triple.verdict.value)}}}'
    )


# Triples repeat their parts, so each part becomes text once.

_json = json.JSONEncoder(separators=(",", ":")).encode


@functools.cache
def _rules_text(rules: Rules) -> str:
    durations = {name: getattr(rules, name) for name in ("heartbeat_interval_ms", "pause_max_ms")}
    return _json({"rules": rules.rule_set.value, **durations})[1:-1]


@functools.cache
def _claim_text(claim: Claim) -> str:
    return _json(given(claim))


@functools.cache
def _record_text(record: Record) -> str:
    return _json(record_given(record))


def record_given(record: Record) -> dict[str, Any]:
    """A record for JSON. What has its default value is left out."""
    return {
        **given(record, leave_out=("message", "headers")),
        "headers": given(record.headers),
        "type": type(record.message).__name__,
        "message": given(record.message),
    }


def record_read(row: dict[str, Any]) -> Record:
    """The record that `record_given` wrote."""
    return Record(
        partition=row["partition"],
        offset=row["offset"],
        timestamp_ms=row["timestamp_ms"],
        message=MESSAGES[row["type"]](**row["message"]),
        headers=Headers(**row["headers"]),
    )


def given(value: attrs.AttrsInstance, leave_out: tuple[str, ...] = ()) -> dict[str, Any]:
    """The fields that have not their default value."""
    return {
        field.name: getattr(value, field.name)
        for field in attrs.fields(type(value))
        if field.name not in leave_out and getattr(value, field.name) != field.default
    }


def _triple(row: dict[str, Any]) -> Triple:
    durations = {name: row[name] for name in ("heartbeat_interval_ms", "pause_max_ms")}
    return Triple(
        attrs.evolve(RULES[row["rules"]], **durations),
        Claim(**row["before"]),
        record_read(row["record"]),
        Claim(**row["after"]),
        VERDICTS[row["verdict"]],
    )

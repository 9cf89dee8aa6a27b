"""`--what-if`: the same log under another interval, rule set or pause, and what would be different.

The log is what it is: consumers that had run with another interval would have written another one.
So this answers how the *rules* would have judged these records, and no more.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Final, cast

import attrs
from attrs import frozen
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from kafka_marshal.core.state import RuleSet, milliseconds
from kafka_marshal.replay.account import Judging
from kafka_marshal.replay.errors import InvalidOption
from kafka_marshal.replay.findings.catalogue import CATALOGUE
from kafka_marshal.replay.pipeline import Fold, told_plainly
from kafka_marshal.replay.rows import Row
from kafka_marshal.replay.tables import CLAIMS, FINDINGS, TENURES

DIVERGENCES_MAX: Final = 20
"""So many claims are told with the record that parted them."""
KEYS: Final = ("heartbeat_interval", "rules", "pause_max")
_SECONDS: Final = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "": 1}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|min|m|h)?")
_CLAIM: Final = ("log", "coordinating_partition", "group", "topic", "topic_partition")
_LABEL: Final = "under"
"""The column that says under which rules; a dash where the rules are what is changed."""


@frozen
class Change:
    """What is changed; None stays as it was."""

    heartbeat_interval_s: float | None = None
    rules: RuleSet | None = None
    pause_max_s: float | None = None

    @classmethod
    def parsed(cls, texts: Sequence[str]) -> Change:
        """From `heartbeat_interval=30s,rules=original`; more than one text is as if joined.

        Raises:
            InvalidOption: a key or a value makes no sense, or nothing is changed.

        >>> Change.parsed(["heartbeat_interval=500ms", "rules=original"]).heartbeat_interval_s
        0.5
        """
        given: dict[str, str] = {}
        for part in (part for text in texts for part in text.split(",")):
            key, equals, value = (word.strip() for word in part.partition("="))
            if not equals or key not in KEYS:
                raise InvalidOption(f"--what-if takes {', '.join(KEYS)} = a value, not {part!r}")
            if key in given:
                raise InvalidOption(f"--what-if says {key} twice")
            given[key] = value
        if not given:
            raise InvalidOption("--what-if changes nothing")
        rules = given.get("rules")
        if rules is not None and rules not in {each.value for each in RuleSet}:
            raise InvalidOption(f"--what-if rules must be fenced or original, not {rules!r}")
        return cls(
            _seconds(given, "heartbeat_interval"),
            None if rules is None else RuleSet(rules),
            _seconds(given, "pause_max"),
        )

    def of(self, judging: Judging) -> Judging:
        """The log judged otherwise.

        Raises:
            InvalidOption: the rules are to change, and both rule sets judge already.
        """
        changed = judging
        if self.rules is not None:
            if len(judging.rule_sets) > 1:
                raise InvalidOption(
                    "--what-if rules=... compares with one rule set: leave out --rules both"
                )
            changed = attrs.evolve(changed, rule_sets=(self.rules,))
        if self.heartbeat_interval_s is not None:
            interval_ms = milliseconds(self.heartbeat_interval_s)
            changed = attrs.evolve(changed, heartbeat_interval_ms=interval_ms)
        if self.pause_max_s is not None:
            changed = attrs.evolve(changed, pause_max_ms=int(milliseconds(self.pause_max_s)))
        return changed


def _seconds(given: Mapping[str, str], key: str) -> float | None:
    if key not in given:
        return None
    match = _DURATION.fullmatch(given[key])
    seconds = float(match[1]) * _SECONDS[match[2] or ""] if match else math.nan
    if not (seconds > 0 and math.isfinite(seconds)):
        raise InvalidOption(f"--what-if {key} must be a time such as 30s or 500ms: {given[key]!r}")
    return seconds


@frozen
class Count:
    """How often one code was found, before and after."""

    code: str
    rules: str | None
    """None for a fact of the log, and where the rules are what is changed."""
    before: int
    after: int


@frozen
class WhatIf:
    """What another setting makes of the same log."""

    before: Mapping[str, object]
    after: Mapping[str, object]
    findings: tuple[Count, ...]
    """All codes that were found before or after."""
    tenures_before: int
    tenures_after: int
    tenures_gone: int
    """Began before, and not after."""
    tenures_new: int
    claims_differ: int
    """Claims with another history of owners."""
    owners_differ: int
    """Claims with another owner, or none, in the end."""
    divergences: tuple[Row, ...]
    """Where claims first part, in log order: the record's offset, and who owns after it."""

    def json(self) -> dict[str, object]:
        """What `summary.json` says of it."""
        return {
            **attrs.asdict(self, recurse=False),
            "findings": [attrs.asdict(count) for count in self.findings],
            "divergences": [dict(row) for row in self.divergences],
        }


def settings(judging: Judging) -> dict[str, object]:
    """The settings that can be changed."""
    return {
        "rules": [rules.rule_set.value for rules in judging.rules()],
        "heartbeat_interval_s": judging.heartbeat_interval_ms / 1000,
        "pause_max_s": judging.pause_max_ms / 1000,
    }


def compared(
    before: tuple[Fold, Judging, Sequence[Row]], after: tuple[Fold, Judging, Sequence[Row]]
) -> WhatIf:
    """Compare two folds of one log; each with its judging, and the findings about whole logs."""
    same_rules = set(before[1].rule_sets) == set(after[1].rule_sets)
    label = sf.col("rules") if same_rules else sf.lit("-")
    folds = before[0], after[0]
    with told_plainly():
        edges = [_edges(fold, label) for fold in folds]
        name = [*_CLAIM, _LABEL]
        parted = (
            edges[0]
            .withColumn("side", sf.lit(1))
            .unionByName(edges[1].withColumn("side", sf.lit(2)))
            .groupBy(*name, "offset", "owner", "began")
            .agg(sf.sum("side").alias("side"))
            .where("side != 3")
        )
        of_claims = parted.groupBy(*name).agg(
            sf.min("offset").alias("offset"),
            sf.sum(sf.expr("int(began and side = 1)")).alias("gone"),
            sf.sum(sf.expr("int(began and side = 2)")).alias("new"),
        )
        of_claims = of_claims.cache()
        try:
            total = of_claims.agg(
                sf.count("*").alias("claims"), sf.sum("gone").alias("g"), sf.sum("new").alias("n")
            ).collect()[0]
            first = of_claims.orderBy("log", "offset", *name).limit(DIVERGENCES_MAX).collect()
            divergences = _divergences(folds, [row.asDict() for row in first], label)
        finally:
            of_claims.unpersist()
        owners_differ = _owners_differ(folds, label)
        findings = _counts([(fold, logs) for fold, _, logs in (before, after)], label)
    return WhatIf(
        before=settings(before[1]),
        after=settings(after[1]),
        findings=findings,
        tenures_before=folds[0].counts[TENURES.name],
        tenures_after=folds[1].counts[TENURES.name],
        tenures_gone=total["g"] or 0,
        tenures_new=total["n"] or 0,
        claims_differ=total["claims"],
        owners_differ=owners_differ,
        divergences=tuple(divergences),
    )


def _edges(fold: Fold, label: Column) -> DataFrame:
    """Where ownership changes: a line for every beginning and every end of a tenure."""
    tenures = fold.table(TENURES)
    name = [*(sf.col(column) for column in _CLAIM), label.alias(_LABEL)]
    owner = sf.col("owner_instance").alias("owner")
    begins = tenures.select(
        *name, sf.col("from_offset").alias("offset"), owner, sf.lit(True).alias("began")
    )
    ends = tenures.where("to_offset is not null").select(
        *name, sf.col("to_offset").alias("offset"), owner, sf.lit(False).alias("began")
    )
    return begins.unionByName(ends)


def _divergences(folds: tuple[Fold, Fold], first: list[Row], label: Column) -> list[Row]:
    """Who owns after the record that parted each of these claims, before and after."""
    if not first:
        return []
    owners: list[dict[tuple[object, ...], Row]] = []
    name = [*_CLAIM, _LABEL]
    chosen = folds[0].spark.createDataFrame(
        [tuple(row[column] for column in (*name, "offset")) for row in first],
        "log string, coordinating_partition bigint, group string, topic string, "
        f"topic_partition bigint, {_LABEL} string, offset bigint",
    )
    for fold in folds:
        held = (
            fold.table(TENURES)
            .withColumn(_LABEL, label)
            .join(sf.broadcast(chosen), name)
            .where("from_offset <= offset and (to_offset is null or to_offset > offset)")
            .select(*name, "owner_instance", "owner_client", "began", "from_offset")
        )
        owners.append(
            {
                tuple(row[column] for column in name): cast("Row", row.asDict())
                for row in held.collect()
            }
        )
    return [
        _divergence(row, *(of.get(tuple(row[c] for c in name)) for of in owners)) for row in first
    ]


def _divergence(row: Row, before: Row | None, after: Row | None) -> Row:
    told = {column: row[column] for column in (*_CLAIM, "offset")}
    told["rules"] = None if row[_LABEL] == "-" else row[_LABEL]
    for when, tenure in (("before", before), ("after", after)):
        for column in ("owner_instance", "owner_client"):
            told[f"{when}_{column}"] = tenure[column] if tenure else None
        told[f"{when}_since_offset"] = tenure["from_offset"] if tenure else None
    return told


def _owners_differ(folds: tuple[Fold, Fold], label: Column) -> int:
    name = [*_CLAIM, _LABEL]
    before, after = (
        fold.table(CLAIMS)
        .withColumn(_LABEL, label)
        .select(*name, sf.col("owner_instance").alias(o))
        for fold, o in zip(folds, ("old", "new"), strict=True)
    )
    return before.join(after, name).where("not (old <=> new)").count()


def _counts(folds: Sequence[tuple[Fold, Sequence[Row]]], label: Column) -> tuple[Count, ...]:
    counted: dict[tuple[str, str | None], list[int]] = {}
    for side, (fold, of_logs) in enumerate(folds):
        rows = fold.table(FINDINGS).select(
            "code", sf.when(sf.col("rules").isNotNull(), label).alias(_LABEL)
        )
        found = [
            (row["code"], row[_LABEL], row["count"])
            for row in rows.groupBy("code", _LABEL).count().collect()
        ]
        for code, under, count in (*found, *((row["code"], None, 1) for row in of_logs)):
            rules = None if under == "-" else under
            counted.setdefault((code, rules), [0, 0])[side] += count
    order = list(CATALOGUE)
    return tuple(
        Count(code, rules, *counts)
        for (code, rules), counts in sorted(
            counted.items(), key=lambda item: (order.index(item[0][0]), item[0][1] or "")
        )
    )

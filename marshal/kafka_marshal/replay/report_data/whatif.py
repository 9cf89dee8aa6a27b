"""`--what-if`: compares the log under another interval, rule set or maximum pause.

The log stays the same, although consumers with another interval would have written a different one.
So this only shows how the *rules* would have judged these records.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Final

import attrs
from attrs import frozen

from kafka_marshal.core.state import RuleSet, milliseconds
from kafka_marshal.replay.errors import InvalidOption
from kafka_marshal.replay.findings.catalogue import CATALOGUE
from kafka_marshal.replay.fold.partition_fold import JudgingOptions
from kafka_marshal.replay.model.folded_log import CountedFindings, FoldedLog, Parting, all_counted
from kafka_marshal.replay.model.published import FindingRow
from kafka_marshal.replay.model.tables import TENURES

DIVERGENCES_MAX: Final = 20
"""The most claims to show with the record at which they differ."""
KEYS: Final = ("heartbeat_interval", "rules", "pause_max")
_SECONDS: Final = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "": 1}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|min|m|h)?")


@frozen
class Change:
    """The changed settings; None: unchanged."""

    heartbeat_interval_s: float | None = None
    rules: RuleSet | None = None
    pause_max_s: float | None = None

    @classmethod
    def parsed(cls, texts: Sequence[str]) -> Change:
        """Parse `heartbeat_interval=30s,rules=original`; several texts are joined.

        Raises:
            InvalidOption: a key or a value is invalid, or nothing is changed.

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

    def of(self, judging: JudgingOptions) -> JudgingOptions:
        """The judging with these changes.

        Raises:
            InvalidOption: the rules shall change, but both rule sets are in use already.
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
            changed = attrs.evolve(changed, heartbeat_interval_ms=interval_ms, forced=True)
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
class CodeCount:
    """The number of findings of one code, before and after."""

    code: str
    rules: str | None
    """None for a fact of the log, and if the rules themselves are changed."""
    before: int
    after: int


@frozen
class WhatIf:
    """The result of other settings for the same log."""

    before: Mapping[str, object]
    after: Mapping[str, object]
    findings: tuple[CodeCount, ...]
    """All codes found before or after."""
    tenures_before: int
    tenures_after: int
    tenures_gone: int
    """The number of tenures that exist only before the change."""
    tenures_new: int
    claims_differ: int
    """The number of claims with a different history of owners."""
    owners_differ: int
    """The number of claims with a different owner, or none, at the end."""
    divergences: tuple[Parting, ...]
    """Where claims first differ, in log order: the record's offset, and the owner after it."""

    def json(self) -> dict[str, object]:
        """Its part of `summary.json`."""
        return {
            **attrs.asdict(self, recurse=False),
            "findings": [attrs.asdict(count) for count in self.findings],
            "divergences": [attrs.asdict(parting) for parting in self.divergences],
        }


def settings(judging: JudgingOptions) -> dict[str, object]:
    """The settings that can be changed."""
    return {
        "rules": [rules.rule_set.value for rules in judging.rules()],
        "heartbeat_interval_s": judging.heartbeat_interval_ms / 1000
        if judging.given or judging.forced
        else None,  # what the log says
        "pause_max_s": judging.pause_max_ms / 1000,
    }


def compared(
    before: tuple[FoldedLog, JudgingOptions, Sequence[FindingRow]],
    after: tuple[FoldedLog, JudgingOptions, Sequence[FindingRow]],
) -> WhatIf:
    """Compare two folds of one log, each with its judging and its findings about whole logs."""
    same_rules = set(before[1].rule_sets) == set(after[1].rule_sets)
    folds = before[0], after[0]
    parted = folds[0].parted_from(folds[1], DIVERGENCES_MAX, same_rules=same_rules)
    return WhatIf(
        before=settings(before[1]),
        after=settings(after[1]),
        findings=_counts(
            [all_counted(fold, logs) for fold, _, logs in (before, after)], same_rules
        ),
        tenures_before=folds[0].counts[TENURES.name],
        tenures_after=folds[1].counts[TENURES.name],
        tenures_gone=parted.gone,
        tenures_new=parted.new,
        claims_differ=parted.claims,
        owners_differ=parted.owners_differ,
        divergences=tuple(parted.first),
    )


def _counts(folds: Sequence[Sequence[CountedFindings]], same_rules: bool) -> tuple[CodeCount, ...]:
    counts_of: dict[tuple[str, str | None], list[int]] = {}
    for side, counted in enumerate(folds):
        for row in counted:
            name = row.code, row.rules if same_rules else None
            counts_of.setdefault(name, [0, 0])[side] += row.count
    order = list(CATALOGUE)
    return tuple(
        CodeCount(code, rules, *counts)
        for (code, rules), counts in sorted(
            counts_of.items(), key=lambda item: (order.index(item[0][0]), item[0][1] or "")
        )
    )

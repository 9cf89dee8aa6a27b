"""The protocol of claims: summary and page of a replay of `__marshal`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import attrs
from attrs import field, frozen

from kafka_marshal.authentication import AuthenticityChecks, Keyring
from kafka_marshal.codec import MalformedRecord, decode
from kafka_marshal.core.state import RuleSet
from kafka_marshal.replay.findings.catalogue import CATALOGUE, OF_RANGES, FindingKind
from kafka_marshal.replay.findings.records.authenticity import finding_of
from kafka_marshal.replay.findings.records.inputs import log_findings
from kafka_marshal.replay.findings.records.senders import clock_findings, merged
from kafka_marshal.replay.fold.partition_fold import JudgingOptions
from kafka_marshal.replay.fold.reading import read_chunk, records_of
from kafka_marshal.replay.model.folded_log import CountedFindings, FoldedLog, all_counted
from kafka_marshal.replay.model.internal import ClockStatistics, GroupCountsRow, PartitionRow
from kafka_marshal.replay.model.phrasing import times
from kafka_marshal.replay.model.published import FindingRow
from kafka_marshal.replay.model.rows import Table
from kafka_marshal.replay.model.tables import GROUPS, PARTITIONS, SENDERS, TENURES, Rows
from kafka_marshal.replay.protocols.log_protocol import (
    NEEDS_PARTITIONS,
    NO_EVENT,
    Again,
    Progress,
    RunFacts,
    basics,
    of_empty_files,
    of_formats,
    of_run,
    unreadable,
)
from kafka_marshal.replay.report import render
from kafka_marshal.replay.report_data.small import report_data
from kafka_marshal.replay.report_data.summary import Summary
from kafka_marshal.replay.report_data.whatif import compared
from kafka_marshal.replay.sources import Chunk, FoundSources

NAME: Final = "claims"


def is_message(value: bytes | None) -> bool:
    """Whether a record's value is a message of claims."""
    try:
        decode(value)
    except MalformedRecord:
        return False
    return True


@frozen
class ClaimsProtocol:
    """As `LogProtocol`."""

    name: ClassVar[str] = NAME
    catalogue: ClassVar[Mapping[str, FindingKind]] = CATALOGUE
    spans: ClassVar[Sequence[Table[Any]]] = (TENURES,)

    judging: JudgingOptions
    otherwise: JudgingOptions | None = field(default=None)
    """The settings of `--what-if`."""
    keyring: Keyring | None = field(default=None)
    """Verifies every record, in this process and independently of the fold; None: not verified."""

    @property
    def compares(self) -> bool:
        """As `LogProtocol`."""
        return self.otherwise is not None

    def check_sources(self, found: FoundSources) -> None:
        """As `LogProtocol`: missing facts are caveats."""

    def account(
        self, fold: FoldedLog, chunks: Sequence[Chunk], on_progress: Progress
    ) -> ClaimsAccount:
        """As `LogProtocol`."""
        counted = fold.collect(PARTITIONS, SENDERS, GROUPS)
        clocks, of_logs = _of_logs(counted, self.judging)
        unauthentic: list[FindingRow] = []
        if self.keyring is not None:
            on_progress("verifying records")
            unauthentic = _unauthentic(chunks, self.keyring)
        return ClaimsAccount(self, fold, counted, clocks, unauthentic, [*of_logs, *unauthentic])


@frozen
class ClaimsAccount:
    """As `Account`."""

    protocol: ClaimsProtocol
    fold: FoldedLog
    counted: Rows
    """The rows for every claim's summary."""
    clocks: list[ClockStatistics]
    unauthentic: list[FindingRow]
    of_logs: list[FindingRow]

    def reported(self, facts: RunFacts, again: Again, on_progress: Progress) -> tuple[Summary, str]:
        """As `Account`."""
        summary = self._summary(facts)
        judging, otherwise = self.protocol.judging, self.protocol.otherwise
        if otherwise is not None:
            on_progress("replaying once more, under the other setting")
            with again(otherwise) as other:
                also = other.collect(PARTITIONS, SENDERS, GROUPS)
                _, also_of_logs = _of_logs(also, otherwise)
                also_of_logs += self.unauthentic
                changed = compared(
                    (self.fold, judging, self.of_logs), (other, otherwise, also_of_logs)
                )
            summary = attrs.evolve(summary, what_if=changed)
        summary = attrs.evolve(summary, not_looked_at=_not_looked_at(summary, self.protocol))
        on_progress("writing the report")
        return summary, render(report_data(self.fold, summary, self.of_logs, facts.topic))

    def _summary(self, facts: RunFacts) -> Summary:
        judging, groups = self.protocol.judging, self.counted[GROUPS]
        counted = all_counted(self.fold, self.of_logs)
        partitions = self.counted[PARTITIONS]
        basic = basics(self.protocol, self.fold, partitions, self.of_logs, facts)
        verified = self.protocol.keyring is not None
        return Summary.of(
            basic,
            caveats=(
                *_caveats(partitions, facts.found, counted),
                *of_run(facts.went, verified=verified),
            ),
            rules=tuple(rule_set.value for rule_set in judging.rule_sets),
            heartbeat_intervals_s=_intervals_s(groups, judging),
            groups=tuple(groups),
            senders=tuple(self.clocks),
        )


def _of_logs(
    collected: Rows, judging: JudgingOptions
) -> tuple[list[ClockStatistics], list[FindingRow]]:
    """Senders' clocks, and the findings that only whole logs show."""
    clocks = merged(collected[SENDERS])
    return clocks, [
        *log_findings(collected[PARTITIONS]),
        *clock_findings(clocks, judging.heartbeat_interval_ms, collected[GROUPS]),
    ]


def _unauthentic(chunks: Sequence[Chunk], keyring: Keyring) -> list[FindingRow]:
    """The findings about records that are not authentic; keys do not leave this process."""
    checks: dict[str, AuthenticityChecks] = {}
    for number, chunk in enumerate(chunks):
        for batch in read_chunk(number, chunk):
            for log, raw in records_of(batch):
                if log not in checks:
                    checks[log] = AuthenticityChecks(keyring)
                checks[log].check(raw)
    return [finding_of(log, one) for log, of_log in sorted(checks.items()) for one in of_log]


def _intervals_s(groups: list[GroupCountsRow], judging: JudgingOptions) -> tuple[float, ...]:
    """The heartbeat intervals by which groups were judged when the log ended, the longest last."""
    found = {row.heartbeat_interval_ms for row in groups}
    return tuple(ms / 1000 for ms in sorted(found or {judging.heartbeat_interval_ms}))


def _not_looked_at(summary: Summary, protocol: ClaimsProtocol) -> dict[str, dict[str, str]]:
    """By log, the codes that were not looked for, with the reason."""
    of_all: dict[str, str] = {}
    if protocol.judging.coordination_partitions is None:
        of_all["wrong_coordinating_partition"] = NEEDS_PARTITIONS
    if protocol.judging.forced:
        of_all["checkpoint_differs"] = "needs the intervals in the log, see --force-interval"
    if protocol.keyring is None:
        of_all |= dict.fromkeys(("record_not_signed", "record_not_authentic"), "needs --keys")
    found = {}
    for log in summary.logs:
        found[log] = dict(of_all)
        if log not in {sender.log for sender in summary.senders}:
            found[log]["sender_clock_off"] = "no record says when the broker appended it"
        unjudged = {rules: _unjudged(summary, log, rules) for rules in summary.rules}
        for kind in CATALOGUE.values():
            why = [unjudged[rules] for rules in summary.rules if kind.rules in (rules, "each")]
            if why and None not in why:
                found[log][kind.code] = str(why[0])
        if any(row.claims_ranges_unjudged for row in summary.partitions if row.log == log):
            why_not = "ranges of shared claims are not judged, see head_missing"
            found[log] |= {code: why_not for code in OF_RANGES if code not in found[log]}
    return found


def _unjudged(summary: Summary, log: str, rules: str) -> str | None:
    """Why nothing of a log could be judged under a rule set; None if something was."""
    if unreadable(summary, log):
        return NO_EVENT
    claims = sum(row.claims for row in summary.groups if (row.log, row.rules) == (log, rules))
    of_log = (row for row in summary.partitions if row.log == log)
    uncertain = sum(row.claims_never_known or 0 for row in of_log)
    if rules == RuleSet.FENCED.value and claims and uncertain >= claims:
        return "no claim was ever certain, see head_missing"
    return None if claims else "no record is about a claim"


def _caveats(
    partitions: list[PartitionRow], found: FoundSources, counted: list[CountedFindings]
) -> list[str]:
    """Sentences about the limits of the tables."""
    caveats = of_formats(found)
    codes = {row.code for row in counted}
    if "create_time" in codes:
        caveats.append(
            "Some records carry CreateTime, their producers' clocks, so staleness was judged by "
            "those; see create_time."
        )
    unstated = sum(row.type_not_stated for row in partitions)
    if unstated:
        caveats.append(
            f"{times(unstated, 'record')} do not say whether the broker or the producer stamped "
            f"them: senders' clocks were not judged by those."
        )
    if "head_missing" in codes:
        caveats.append(
            "Some logs do not begin at offset 0, so earlier owners are not known; head_missing "
            "says how many claims became certain, and from where on."
        )
    if "interval_mismatch" in codes:
        logs = sorted({row.log for row in counted if row.code == "interval_mismatch"})
        caveats.append(
            f"The heartbeat interval does not fit {', '.join(logs)}: what is stale there was "
            f"judged by the wrong limit."
        )
    return caveats + of_empty_files(found)

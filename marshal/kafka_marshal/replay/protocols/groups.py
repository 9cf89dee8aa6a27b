"""The protocol of groups: summary and page of a replay of `__marshal_groups`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import attrs
from attrs import field, frozen

from kafka_marshal.capture import UnreadableSource
from kafka_marshal.codec import MalformedRecord
from kafka_marshal.core.groups.assignment import STRATEGIES
from kafka_marshal.group_codec.events import decode_event
from kafka_marshal.replay.errors import InvalidOption
from kafka_marshal.replay.findings.catalogue import FindingKind
from kafka_marshal.replay.groups.catalogue import GROUP_CATALOGUE, OF_THE_INPUT
from kafka_marshal.replay.groups.groups_fold import GroupsJudging
from kafka_marshal.replay.groups.whatif import what_if
from kafka_marshal.replay.model.folded_log import FoldedLog
from kafka_marshal.replay.model.groups.tables import (
    CONTROLLERSHIPS,
    GROUP_STATES,
    PARTITION_TENURES,
    REBALANCES,
    TARGETS,
)
from kafka_marshal.replay.model.published import FindingRow
from kafka_marshal.replay.model.rows import Table
from kafka_marshal.replay.model.tables import PARTITIONS
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
from kafka_marshal.replay.report.groups.page import render
from kafka_marshal.replay.report_data.groups import groups_report_data
from kafka_marshal.replay.report_data.groups_summary import GroupsSummary
from kafka_marshal.replay.report_data.small import title_of
from kafka_marshal.replay.sources import Chunk, FoundSources
from kafka_marshal.replay.sources.guessed_time import TIME_OF_MESSAGE

NAME: Final = "groups"


def is_event(value: bytes | None) -> bool:
    """Whether a record's value is an event of groups."""
    try:
        decode_event(value)
    except MalformedRecord:
        return False
    return True


def strategy_of(texts: Sequence[str]) -> str | None:
    """Parse `--what-if strategy=NAME`; None if it was not given.

    Raises:
        InvalidOption: another key, several keys, or no such strategy.

    >>> strategy_of(["strategy=sticky"])
    'sticky'
    """
    if not texts:
        return None
    key, _, strategy = ",".join(texts).partition("=")
    if key.strip() != "strategy" or strategy.strip() not in STRATEGIES:
        raise InvalidOption(
            f"--what-if of groups is strategy=NAME, one of {', '.join(STRATEGIES)}, "
            f"not {','.join(texts)!r}"
        )
    return strategy.strip()


def certain_from_of(texts: Sequence[str]) -> dict[int, int]:
    """Parse `--certain-from PARTITION:OFFSET`, by partition.

    Raises:
        InvalidOption: one has another form, or a partition is named twice.

    >>> certain_from_of(["3:120", "4:7"])
    {3: 120, 4: 7}
    """
    found: dict[int, int] = {}
    for text in texts:
        partition, _, offset = text.partition(":")
        if not (partition.isdecimal() and offset.isdecimal()):
            raise InvalidOption(f"--certain-from is PARTITION:OFFSET, like 3:120, not {text!r}")
        if int(partition) in found:
            raise InvalidOption(f"--certain-from names partition {int(partition)} twice")
        found[int(partition)] = int(offset)
    return found


@frozen
class GroupsProtocol:
    """As `LogProtocol`."""

    name: ClassVar[str] = NAME
    catalogue: ClassVar[Mapping[str, FindingKind]] = GROUP_CATALOGUE
    spans: ClassVar[Sequence[Table[Any]]] = (PARTITION_TENURES, REBALANCES, CONTROLLERSHIPS)

    judging: GroupsJudging = field(factory=GroupsJudging)
    strategy: str | None = field(default=None)
    """The strategy of `--what-if`."""

    @property
    def compares(self) -> bool:
        """As `LogProtocol`."""
        return self.strategy is not None

    def check_sources(self, found: FoundSources) -> None:
        """As `LogProtocol`: every record needs a timestamp, since an event contains none.

        Raises:
            UnreadableSource: some have none.
        """
        if any(one.sentence == TIME_OF_MESSAGE for one in found.limitations):
            raise UnreadableSource(
                "the sources do not say when a record was appended, and an event of groups does "
                "not either: print timestamps, or take another format"
            )

    def account(
        self, fold: FoldedLog, chunks: Sequence[Chunk], on_progress: Progress
    ) -> GroupsAccount:
        """As `LogProtocol`."""
        return GroupsAccount(self, fold)


@frozen
class GroupsAccount:
    """As `Account`."""

    protocol: GroupsProtocol
    fold: FoldedLog
    of_logs: Sequence[FindingRow] = field(default=())

    def reported(
        self, facts: RunFacts, again: Again, on_progress: Progress
    ) -> tuple[GroupsSummary, str]:
        """As `Account`; targets are computed again from their rows, so nothing is folded again."""
        strategy = self.protocol.strategy
        changed = None
        if strategy is not None:
            on_progress("making the targets once more, by the other strategy")
            changed = tuple(what_if(self.fold.each(TARGETS), strategy))
        on_progress("writing the report")
        partitions = self.fold.collect(PARTITIONS)[PARTITIONS]
        summary = GroupsSummary.of(
            basics(self.protocol, self.fold, partitions, self.of_logs, facts),
            caveats=(
                *of_formats(facts.found),
                *of_empty_files(facts.found),
                *of_run(facts.went),
            ),
            groups=tuple(self.fold.each(GROUP_STATES)),
            what_if=changed,
        )
        summary = attrs.evolve(summary, not_looked_at=self._not_looked_at(summary))
        data = groups_report_data(
            self.fold,
            title_of(summary.sources, summary.logs, facts.topic),
            summary.sources,
            of_logs=self.of_logs,
            caveats=summary.caveats,
            instead=changed or (),
        )
        return summary, render(data)

    def _not_looked_at(self, summary: GroupsSummary) -> dict[str, dict[str, str]]:
        """By log, the codes that were not looked for, with the reason."""
        of_all: dict[str, str] = {}
        if self.protocol.judging.coordination_partitions is None:
            of_all["wrong_coordinating_partition"] = NEEDS_PARTITIONS
        counted = self.fold.findings_counted
        unknown = {one.log for one in counted if one.code == "state_not_known"}
        unknown -= {row.log for row in summary.groups}
        judged = [*(GROUP_CATALOGUE.keys() - {*OF_THE_INPUT, "state_not_known"})]
        found = {}
        for log in summary.logs:
            found[log] = dict(of_all)
            if unreadable(summary, log):
                found[log] |= dict.fromkeys(judged, NO_EVENT)
            elif log in unknown:
                found[log] |= dict.fromkeys(judged, "the state of no group is known")
        return found

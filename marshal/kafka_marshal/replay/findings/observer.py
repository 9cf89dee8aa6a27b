"""The interface of an observer of findings, and what it receives when the log ends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt
from attrs import frozen

from kafka_marshal.core.state import ClaimKey, Rules
from kafka_marshal.replay.findings.cases import Cases
from kafka_marshal.replay.model.chunk_items import Ints
from kafka_marshal.replay.model.events import Event, JudgedRecord, Tenure
from kafka_marshal.replay.model.published import FindingRow


class SteadyTenures(Protocol):
    """Tenures that last, in columns: claims of one owner, of which there is nothing else to tell.

    None of these owners is silent, and none of their positions stands still for long.
    """

    @property
    def keys(self) -> Sequence[ClaimKey]:
        """The claims."""

    @property
    def records(self) -> Ints:
        """How many each owner sent."""

    @property
    def began(self) -> Ints:
        """Position, clock and offset of the first heartbeat, if there is one."""

    @property
    def moved(self) -> Ints:
        """The same of the last that moved the position."""

    @property
    def last_clock_ms(self) -> Ints:
        """When each owner was last heard of."""

    @property
    def in_group(self) -> Sequence[tuple[str, npt.NDArray[np.intp]]]:
        """The groups, and which of the claims are theirs."""

    def last(self, number: int) -> JudgedRecord:
        """The last record of an owner."""


@frozen
class LogEnd:
    """The end of one coordinating partition's log."""

    rules: Rules
    """With the heartbeat interval of groups that say none."""
    last: JudgedRecord
    """The last well-formed record."""
    tenures: Mapping[ClaimKey, Tenure]
    """Those that last."""
    rules_of: Callable[[str], Rules]
    """With the heartbeat interval of a group."""
    steady: Sequence[SteadyTenures] = ()
    """Others that last."""
    interval_fits: bool = True
    """Owners spoke about as often as the heartbeat interval says."""

    @property
    def clock_ms(self) -> int:
        """When the log ends."""
        return self.last.clock_ms


class FindingObserver(ABC):
    """Watches one coordinating partition under one rule set.

    What is here is enough for one whose findings are all in `_cases`.
    """

    only_changes: ClassVar[bool] = False
    """It looks only at records with which a tenure begins or ends."""
    passes_over_releases: ClassVar[bool] = False
    """So it does if the record is a ReleaseGroup, which may reach thousands of claims."""

    def __init__(self) -> None:
        self._cases = Cases()

    @abstractmethod
    def observe(self, event: Event) -> None:
        """See what a record did to one claim."""

    def begun(self, rules: Rules) -> Iterator[FindingRow]:
        """The findings whose story began since this was last asked, as they stand now."""
        return self._cases.begun(rules)

    def drain(self) -> Iterable[FindingRow]:
        """The findings whose story is over."""
        return self._cases.drain()

    def at_the_end(self, end: LogEnd) -> Iterator[FindingRow]:
        """The remaining findings."""
        return self._cases.at_the_end()

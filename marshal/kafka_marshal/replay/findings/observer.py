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
    """Open tenures in columns: claims with a single owner, and no other events.

    None of these owners is silent, and none of their positions stands still for long.
    """

    @property
    def keys(self) -> Sequence[ClaimKey]:
        """The claims."""

    @property
    def records(self) -> Ints:
        """The number of records of each owner."""

    @property
    def began(self) -> Ints:
        """Position, clock and offset of the first heartbeat, if there is one."""

    @property
    def moved(self) -> Ints:
        """The same of the last heartbeat that moved the position."""

    @property
    def last_clock_ms(self) -> Ints:
        """The time of each owner's last record."""

    @property
    def in_group(self) -> Sequence[tuple[str, npt.NDArray[np.intp]]]:
        """The groups, and the claims of each."""

    def last(self, number: int) -> JudgedRecord:
        """The last record of an owner."""


@frozen
class LogEnd:
    """The end of one coordinating partition's log."""

    rules: Rules
    """With the heartbeat interval of groups that state none."""
    last: JudgedRecord
    """The last well-formed record."""
    tenures: Mapping[ClaimKey, Tenure]
    """The open tenures."""
    rules_of: Callable[[str], Rules]
    """The rules with the heartbeat interval of a group."""
    fits: Callable[[str], bool]
    """Whether a group's owners sent records about as often as its heartbeat interval requires."""
    steady: Sequence[SteadyTenures] = ()
    """Further open tenures."""

    @property
    def clock_ms(self) -> int:
        """The clock at the end of the log."""
        return self.last.clock_ms


class FindingObserver(ABC):
    """Observes one coordinating partition under one rule set.

    The methods here suffice for an observer whose findings are all in `_cases`.
    """

    only_changes: ClassVar[bool] = False
    """It needs only records that begin or end a tenure."""
    passes_over_releases: ClassVar[bool] = False
    """The same for a ReleaseGroup, which may affect thousands of claims."""

    def __init__(self) -> None:
        self._cases = Cases()

    @abstractmethod
    def observe(self, event: Event) -> None:
        """Observe the effect of a record on one claim."""

    def begun(self, rules: Rules) -> Iterator[FindingRow]:
        """The findings that began since the last call, in their current state."""
        return self._cases.begun(rules)

    def drain(self) -> Iterable[FindingRow]:
        """The findings that are over."""
        return self._cases.drain()

    def at_the_end(self, end: LogEnd) -> Iterator[FindingRow]:
        """The remaining findings."""
        return self._cases.at_the_end()

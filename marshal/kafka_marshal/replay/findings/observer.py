"""What every observer of findings is, and what it learns when the log ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from attrs import frozen

from kafka_marshal.core.state import ClaimKey, Rules
from kafka_marshal.replay.model.events import Event, Sighting, Tenure
from kafka_marshal.replay.model.published import FindingRow


@frozen
class End:
    """The end of one coordinating partition's log."""

    rules: Rules
    """With the heartbeat interval of groups that say none."""
    last: Sighting
    """The last well-formed record."""
    tenures: Mapping[ClaimKey, Tenure]
    """Those that last."""
    rules_of: Callable[[str], Rules]
    """With the heartbeat interval of a group."""
    interval_fits: bool = True
    """Owners spoke about as often as the heartbeat interval says."""

    @property
    def clock_ms(self) -> int:
        """When the log ends."""
        return self.last.clock_ms


class Observer(Protocol):
    """Watches one coordinating partition under one rule set."""

    def observe(self, event: Event) -> None:
        """See what a record did to one claim."""

    def drain(self) -> Iterator[FindingRow]:
        """The findings whose story is over."""

    def at_the_end(self, end: End) -> Iterator[FindingRow]:
        """The remaining findings."""

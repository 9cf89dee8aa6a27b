"""What every observer of findings is, and what it is told when the log ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from attrs import frozen

from kafka_marshal.core.state import ClaimKey, Rules
from kafka_marshal.replay.events import Event, Sighting, Tenure
from kafka_marshal.replay.rows import Row


@frozen
class End:
    """The end of one coordinating partition's log."""

    rules: Rules
    last: Sighting
    """The last well-formed record."""
    tenures: Mapping[ClaimKey, Tenure]
    """Those that last."""
    interval_fits: bool = True
    """Owners spoke about as often as the heartbeat interval given says."""

    @property
    def clock_ms(self) -> int:
        """When the log ends."""
        return self.last.clock_ms


class Observer(Protocol):
    """Watches one coordinating partition under one rule set."""

    def observe(self, event: Event) -> None:
        """See what a record did to one claim."""

    def drain(self) -> Iterator[Row]:
        """The findings whose story is over."""

    def at_the_end(self, end: End) -> Iterator[Row]:
        """The remaining findings."""

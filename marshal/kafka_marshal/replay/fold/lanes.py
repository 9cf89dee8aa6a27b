"""The content of a claim's timeline besides its tenures: marks, heartbeats, pauses.

This module knows which records have a glyph. It does not know how a glyph looks (`report`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from attrs import define, field

from kafka_marshal.core.claims.verdicts import OWNER_STAYS, Accepted, Refused
from kafka_marshal.core.state import ClaimKey, Rules
from kafka_marshal.replay.findings.claims.ownership import steals
from kafka_marshal.replay.findings.claims.positions import Pauses, Positions
from kafka_marshal.replay.model.chunk_items import Ints
from kafka_marshal.replay.model.events import Event
from kafka_marshal.replay.model.internal import LaneRow, MarkRow
from kafka_marshal.replay.model.tenures import Tally
from kafka_marshal.replay.report.base.data import MARK_OF, MarkKind

GRAIN_INTERVALS: Final = 0.25
BEATS_MAX: Final = 1000
"""A lane with more heartbeats is drawn without them."""


@define
class _Lane:
    beats_ms: list[int] | None = field(factory=list)
    """None: there were too many."""
    marks: int = 0
    pauses: list[tuple[int, int, str]] = field(factory=list)
    pause_open: bool = False


class Lanes:
    """The lanes of one coordinating partition under one rule set."""

    def __init__(self, positions: Positions, pauses: Pauses) -> None:
        self._positions = positions
        self._pauses = pauses
        self._lanes: dict[ClaimKey, _Lane] = {}

    def observe(self, event: Event) -> Iterator[MarkRow]:
        """Yield rows of the table `marks`. Call this before other observers receive the event."""
        lane = self._lanes.get(event.key)
        if lane is None:
            lane = self._lanes[event.key] = _Lane()
        verdict = event.verdict
        if event.began or verdict in OWNER_STAYS:
            self._beat(lane, event)
        self._pause(lane, event)
        for kind in self._kinds(event):
            lane.marks += 1
            yield MarkRow(
                group=event.key.group,
                topic=event.key.topic,
                topic_partition=event.key.topic_partition,
                offset=event.sighting.offset,
                timestamp_ms=event.sighting.raw.timestamp_ms,
                kind=kind.value,
                sender_instance=event.message.instance_id,
                sender_client=event.message.client_id,
                guard=verdict.value if isinstance(verdict, Refused) else None,
                position=event.after.position,
            )

    def take_up(self, key: ClaimKey, beats_ms: list[int] | None) -> None:
        """Start the lane of a claim with these heartbeats and no marks; None: too many of them."""
        self._lanes[key] = _Lane(beats_ms)

    def begin(self, key: ClaimKey) -> None:
        """Start the lane of a claim that may never have an event."""
        self._lanes.setdefault(key, _Lane())

    def goes_on(self, key: ClaimKey, clock_ms: int, rules: Rules) -> None:
        """Add a heartbeat of the owner without a mark."""
        beats = self._lanes[key].beats_ms
        if beats is not None and clock_ms - beats[-1] >= _grain_ms(rules):
            self._add_beat(self._lanes[key], clock_ms)

    def run_goes_on(self, key: ClaimKey, clocks_ms: Ints, shortest_ms: int, rules: Rules) -> None:
        """Add many of them; `shortest_ms` is the shortest time between two."""
        lane = self._lanes[key]
        beats = lane.beats_ms
        if beats is None:
            return
        grain_ms = _grain_ms(rules)
        if shortest_ms >= grain_ms and clocks_ms[0] - beats[-1] >= grain_ms:
            # The common case: no heartbeat is too close to the one before it.
            if len(beats) + len(clocks_ms) > BEATS_MAX:
                lane.beats_ms = None
            else:
                beats += clocks_ms.tolist()
            return
        for clock_ms in clocks_ms.tolist():
            if lane.beats_ms is not None:
                self.goes_on(key, clock_ms, rules)

    def last_beat_ms(self, key: ClaimKey) -> int | None:
        """The time of the last drawn heartbeat; None if no more are drawn."""
        beats = self._lanes[key].beats_ms
        return None if beats is None else beats[-1]

    def draw(self, key: ClaimKey, clock_ms: int) -> bool:
        """Draw a heartbeat unless it is too close to the last one; whether more are drawn."""
        lane = self._lanes[key]
        if lane.beats_ms is not None:
            self._add_beat(lane, clock_ms)
        return lane.beats_ms is not None

    def _kinds(self, event: Event) -> Iterator[MarkKind]:
        verdict = event.verdict
        if isinstance(verdict, Refused):
            yield MarkKind.REFUSAL
            return
        if verdict is Accepted.OVERWRITTEN:
            if steals(event):
                yield MarkKind.THEFT
            elif event.before.owner_client == event.message.client_id and event.before.owned:
                yield MarkKind.RESTART
        elif verdict in MARK_OF:
            yield MARK_OF[verdict]
        if event.is_original and self._pauses.breaks(event):
            yield MarkKind.PAUSE_BROKEN
        if self._positions.moves_back(event):
            yield MarkKind.POSITION_BACK

    def _beat(self, lane: _Lane, event: Event) -> None:
        """Heartbeats closer together than a quarter of the interval are drawn as one."""
        beats = lane.beats_ms
        if beats is None:
            return
        if beats and not event.began and event.clock_ms - beats[-1] < _grain_ms(event.rules):
            return
        self._add_beat(lane, event.clock_ms)

    @staticmethod
    def _add_beat(lane: _Lane, clock_ms: int) -> None:
        assert lane.beats_ms is not None
        lane.beats_ms.append(clock_ms)
        if len(lane.beats_ms) > BEATS_MAX:
            lane.beats_ms = None

    def _pause(self, lane: _Lane, event: Event) -> None:
        released = event.verdict is Accepted.GROUP_RELEASED
        until_ms = event.after.paused_until_ms
        if lane.pause_open and (released or until_ms is None):
            from_ms, expires_ms, by = lane.pauses[-1]
            lane.pauses[-1] = (from_ms, min(expires_ms, event.clock_ms), by)
            lane.pause_open = False
        if released and until_ms is not None:
            lane.pauses.append((event.clock_ms, until_ms, event.message.instance_id))
            lane.pause_open = True

    def at_the_end(
        self, records: Mapping[ClaimKey, int], tally: Callable[[ClaimKey], Tally]
    ) -> Iterator[LaneRow]:
        """Yield the rows, with the number of each claim's records and its tally of tenures."""
        for key, lane in self._lanes.items():
            counted = tally(key)
            yield LaneRow(
                group=key.group,
                topic=key.topic,
                topic_partition=key.topic_partition,
                records=records[key],
                tenures=counted.tenures,
                takeovers=counted.takeovers,
                marks=lane.marks,
                unowned_ms=counted.unowned_ms,
                free_since_ms=counted.free_since_ms,
                beats_ms=lane.beats_ms or (),
                pauses_from_ms=(pause[0] for pause in lane.pauses),
                pauses_until_ms=(pause[1] for pause in lane.pauses),
                pauses_by="\n".join(pause[2] for pause in lane.pauses),
            )


def _grain_ms(rules: Rules) -> float:
    """The distance in ms below which heartbeats are drawn as one."""
    return rules.heartbeat_interval_ms * GRAIN_INTERVALS

"""Tenures: the owner of each claim, with the first and last record of each ownership.

Under the fenced rules, wins and releases decide ownership. Under the original's rules, its handlers
do: a bare heartbeat begins a tenure too, and a ReleaseGroup ends none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from attrs import define

from kafka_marshal.core.claims.verdicts import OWNER_STAYS, RELEASES, WINS, WON_BY_REQUEST, Accepted
from kafka_marshal.core.messages import Heartbeat
from kafka_marshal.core.state import ClaimKey, Rules
from kafka_marshal.replay.model.chunk_items import HeartbeatRun
from kafka_marshal.replay.model.events import Event, JudgedRecord, Tenure
from kafka_marshal.replay.model.position_progress import (
    REST_INTERVALS,
    PositionProgress,
    PositionReport,
)
from kafka_marshal.replay.model.published import TenureRow


@define
class Tally:
    """The counts of a claim's tenures."""

    tenures: int = 0
    takeovers: int = 0
    unowned_ms: int = 0
    """The time between the end of a tenure and the beginning of the next."""
    free_since_ms: int | None = None


class Tenures:
    """The open tenures of one coordinating partition under one rule set."""

    def __init__(self) -> None:
        self._open: dict[ClaimKey, Tenure] = {}
        self._tallies: dict[ClaimKey, Tally] = defaultdict(Tally)

    @property
    def open(self) -> Mapping[ClaimKey, Tenure]:
        """The current owners."""
        return MappingProxyType(self._open)

    def observe(self, event: Event) -> TenureRow | None:
        """Set the event's `tenure_after` and `silence_ms`; return the row of a tenure it ended."""
        before = event.tenure
        event.tenure_after = before
        event.last_word = None if before is None else before.last
        verdict = event.verdict
        if not isinstance(verdict, Accepted) or verdict is Accepted.IGNORED:
            return None
        if before is not None and verdict in OWNER_STAYS and event.after.owned:
            event.silence_ms = self.go_on(before, event.sighting, event.after.position)
            return None
        begins = event.after.owned and (verdict in WINS or verdict in OWNER_STAYS)
        if not begins and event.after.owned:
            return None  # the original's ReleaseGroup leaves the owner where it is
        row = None
        if before is not None:
            if begins and before.instance == event.message.instance_id:
                event.silence_ms = event.clock_ms - before.last_ms
            left = event.after if event.verdict in RELEASES else event.before
            # The position that the owner left: a release may set it, and a win may reset it.
            row = _row(before, event.verdict.value, left.position, ended_by=event)
            self._tallies[event.key].free_since_ms = event.sighting.raw.timestamp_ms
            del self._open[event.key]
            event.tenure_after = None
        if begins:
            self._count(event)
            event.tenure_after = self._open[event.key] = Tenure(
                key=event.key,
                instance=event.after.owner_instance or "",
                client=event.after.owner_client or "",
                epoch=event.after.epoch,
                won_by=event.sighting,
                last=event.sighting,
                position_from=event.after.position,
                pace=_pace(event),
            )
        return row

    def take_up(self, tenure: Tenure) -> None:
        """Continue with a claim's first tenure."""
        self._open[tenure.key] = tenure
        self._tallies[tenure.key] = Tally(tenures=1)

    def _count(self, event: Event) -> None:
        """Count one more tenure."""
        tally = self._tallies[event.key]
        tally.tenures += 1
        tally.takeovers += event.verdict is Accepted.TOOK_OVER
        if tally.free_since_ms is not None:
            tally.unowned_ms += max(0, event.sighting.raw.timestamp_ms - tally.free_since_ms)
            tally.free_since_ms = None

    def tally(self, key: ClaimKey) -> Tally:
        """The counts of a claim's tenures."""
        return self._tallies.get(key, Tally())

    @staticmethod
    def go_on(tenure: Tenure, sighting: JudgedRecord, position: int) -> int:
        """Add an accepted record of the owner, and its position; return the silence before it."""
        last_ms = tenure.last.clock_ms
        silence_ms = sighting.clock_ms - last_ms
        tenure.pace.word(position, last_ms, sighting.clock_ms, sighting.raw.offset)
        tenure.records += 1
        tenure.last = sighting
        if silence_ms > tenure.longest_silence_ms:
            tenure.longest_silence_ms = silence_ms
        return silence_ms

    @staticmethod
    def run_goes_on(
        tenure: Tenure, run: HeartbeatRun, longest_ms: int, sighting: JudgedRecord
    ) -> None:
        """Add many records of the owner at once, with their longest silence and the last record."""
        clocks_ms, offsets = run.clocks_ms, run.offsets
        tenure.pace.word(run.position, tenure.last.clock_ms, int(clocks_ms[0]), int(offsets[0]))
        if run.first_move >= 0:
            first, last = run.first_move, run.last_move
            message = sighting.message
            assert isinstance(message, Heartbeat)
            tenure.pace.run(
                int(clocks_ms[first - 1]),
                PositionReport(run.moved_to, int(clocks_ms[first]), int(offsets[first])),
                PositionReport(message.offset, int(clocks_ms[last]), int(offsets[last])),
            )
        tenure.longest_silence_ms = max(tenure.longest_silence_ms, longest_ms)
        tenure.records += len(run)
        tenure.last = sighting

    def at_the_end(
        self, clock_ms: int, positions: Mapping[ClaimKey, int], rules_of: Callable[[str], Rules]
    ) -> Iterator[TenureRow]:
        """The rows of the tenures that are open when the log ends."""
        for tenure in self._open.values():
            silent = clock_ms - tenure.last_ms > rules_of(tenure.key.group).stale_after_ms
            yield _row(tenure, "silent" if silent else "open", positions[tenure.key])


def _pace(event: Event) -> PositionProgress:
    """The progress of a new tenure: a win states no position, so a new claim's is unknown."""
    sighting = event.sighting
    word = PositionReport(event.after.position, sighting.clock_ms, sighting.offset)
    stated = event.verdict not in WON_BY_REQUEST or word.position > 0
    return PositionProgress.of_win(REST_INTERVALS * event.rules.heartbeat_interval_ms, word, stated)


def _row(tenure: Tenure, ended: str, position_to: int, ended_by: Event | None = None) -> TenureRow:
    return TenureRow(
        group=tenure.key.group,
        topic=tenure.key.topic,
        topic_partition=tenure.key.topic_partition,
        owner_instance=tenure.instance,
        owner_client=tenure.client,
        epoch=tenure.epoch,
        began=tenure.won_by.verdict.value,
        from_offset=tenure.won_by.offset,
        from_ms=tenure.won_by.raw.timestamp_ms,
        position_from=tenure.position_from,
        ended=ended,
        to_offset=ended_by.sighting.offset if ended_by else None,
        to_ms=ended_by.sighting.raw.timestamp_ms if ended_by else None,
        position_to=position_to,
        ended_by_instance=ended_by.message.instance_id if ended_by else None,
        ended_by_client=ended_by.message.client_id if ended_by else None,
        records=tenure.records,
        last_offset=tenure.last.offset,
        last_ms=tenure.last.raw.timestamp_ms,
        longest_silence_ms=tenure.longest_silence_ms,
    )


def sightings(*given: JudgedRecord | None) -> list[JudgedRecord]:
    """The given records, in log order, without repetitions."""
    return sorted({s.offset: s for s in given if s is not None}.values(), key=lambda s: s.offset)

"""How positions move: owners that make no progress, claims that lag behind their group.

The log of claims does not show how many messages there are to consume. So a claim is only compared
with others of its group, and an idle partition looks like a wedged one; the finding states this.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import median
from typing import Final

import numpy as np
import numpy.typing as npt
from attrs import define

from kafka_marshal.core.state import ClaimKey
from kafka_marshal.replay.findings.cases import Case
from kafka_marshal.replay.findings.observer import FindingObserver, LogEnd, SteadyTenures
from kafka_marshal.replay.model.events import Event, JudgedRecord, Tenure
from kafka_marshal.replay.model.phrasing import claim_name, clock, span, times, who
from kafka_marshal.replay.model.position_progress import Standstill
from kafka_marshal.replay.model.published import FindingRow
from kafka_marshal.replay.model.tenures import sightings

WEDGED_INTERVALS: Final = 10
"""The number of heartbeat intervals at one position, while others move, after which it is reported.
"""
LISTED_MAX: Final = 3
CLAIMS_MIN: Final = 3
"""The number of claims that a group needs for its usual rate to be known."""
BEHIND: Final = 0.1
"""A claim is behind if its rate is below this part of its group's usual rate."""


@define
class _Known:
    """The history of one claim's owners."""

    wedged: tuple[Standstill, Tenure] | None = None
    """The longest standstill that is long enough to report, and its owner."""
    brisk: tuple[tuple[int, int], ...] = ()
    """Periods in which owners moved without a standstill: the longest one, and the last."""

    def add(self, tenure: Tenure, interval_ms: float) -> None:
        """A tenure is over, or the log is."""
        stretches = tenure.pace.brisk()
        if stretches:
            longest = max((*self.brisk, *stretches), key=lambda stretch: stretch[1] - stretch[0])
            self.brisk = (longest, stretches[-1])
        rest = tenure.pace.rest_at(tenure.last_ms)
        if (
            rest is not None
            and rest.since.position > 0
            and rest.lasted_ms >= WEDGED_INTERVALS * interval_ms
            and (self.wedged is None or rest.lasted_ms > self.wedged[0].lasted_ms)
        ):
            self.wedged = rest, tenure


class WedgedClaims(FindingObserver):
    """Heartbeats that continue while the position stands still and others of the group move.

    Judged when the log ends, from the history of each claim: so the order in which records of
    different claims were folded does not matter.
    """

    only_changes = True

    def __init__(self) -> None:
        super().__init__()
        self._groups: dict[str, dict[ClaimKey, _Known]] = defaultdict(dict)

    def observe(self, event: Event) -> None:
        """Remember a tenure when it ends."""
        if event.ended and event.tenure is not None:
            self._add(event.tenure, event.rules.heartbeat_interval_ms)

    def _add(self, tenure: Tenure, interval_ms: float) -> None:
        self._groups[tenure.key.group].setdefault(tenure.key, _Known()).add(tenure, interval_ms)

    def at_the_end(self, end: LogEnd) -> Iterator[FindingRow]:
        """One finding per claim, about its longest standstill, if the interval fits."""
        for tenure in end.tenures.values():
            self._add(tenure, end.rules_of(tenure.key.group).heartbeat_interval_ms)
        for group, claims in self._groups.items():
            for key, known in claims.items():
                if known.wedged is not None and end.fits(group):
                    moving = _moving(group, known.wedged[0], end.steady)
                    yield from self._judged(key, *known.wedged, claims, moving)

    @staticmethod
    def _judged(
        key: ClaimKey,
        rest: Standstill,
        tenure: Tenure,
        claims: dict[ClaimKey, _Known],
        more: list[ClaimKey],
    ) -> Iterator[FindingRow]:
        moving = [
            other
            for other, known in claims.items()
            if other != key and any(_half_of(rest, stretch) for stretch in known.brisk)
        ]
        moving = sorted([*moving, *more])
        if not moving:
            return
        sentence = partial(_stood, key, rest, moving[0], len(moving) - 1)
        sender = tenure.instance, tenure.client
        case = Case.about("wedged_heartbeat", key, sender, sentence, sightings(tenure.won_by))
        case.add(tenure.last)
        yield case.row()


def _moving(group: str, rest: Standstill, steady: Sequence[SteadyTenures]) -> list[ClaimKey]:
    """The claims among these that moved during at least half of the standstill."""
    found = []
    for tenures in steady:
        for name, which in tenures.in_group:
            if name != group:
                continue
            begin = np.maximum(tenures.began[which, 1], rest.since.clock_ms)
            end = np.minimum(tenures.moved[which, 1], rest.until_ms)
            half = (2 * (end - begin) >= rest.lasted_ms) & (tenures.records[which] > 1)
            found += [tenures.keys[number] for number in which[half].tolist()]
    return found


def _half_of(rest: Standstill, stretch: tuple[int, int]) -> bool:
    """Whether the period covers at least half of the standstill."""
    begin, end = max(stretch[0], rest.since.clock_ms), min(stretch[1], rest.until_ms)
    return 2 * (end - begin) >= rest.lasted_ms


def _stood(key: ClaimKey, rest: Standstill, moving: ClaimKey, more: int, case: Case) -> str:
    others = f" and {times(more, 'other claim')}" if more else ""
    return (
        f"{who(case.instance, case.client)} went on sending heartbeats for {claim_name(key)} for "
        f"{span(rest.lasted_ms)} after offset {rest.since.offset} ({clock(rest.since.clock_ms)}) "
        f"without getting beyond position {rest.since.position}, while "
        f"{moving.topic}/{moving.topic_partition}{others} moved: it is stuck, or nothing is "
        f"written to that partition."
    )


@define
class _Moved:
    messages: int = 0
    owned_ms: int = 0
    last: JudgedRecord | None = None

    @property
    def a_second(self) -> float:
        return self.messages * 1000 / self.owned_ms if self.owned_ms else 0.0


class LagMovement(FindingObserver):
    """Claims whose position moves far more slowly than is usual in their group."""

    only_changes = True

    def __init__(self) -> None:
        super().__init__()
        self._claims: dict[ClaimKey, _Moved] = {}

    def observe(self, event: Event) -> None:
        """Add up a tenure when it ends."""
        if event.ended and event.tenure is not None:
            self._add(event.tenure)

    def _add(self, tenure: Tenure) -> None:
        began, moved = tenure.pace.began, tenure.pace.moved
        if began is None or moved is None:
            return
        claim = self._claims.setdefault(tenure.key, _Moved())
        claim.messages += max(0, moved.position - began.position)
        claim.owned_ms += tenure.last_ms - began.clock_ms
        claim.last = tenure.last

    def at_the_end(self, end: LogEnd) -> Iterator[FindingRow]:
        """One finding per group, about its slowest claims."""
        for tenure in end.tenures.values():
            self._add(tenure)
        groups: dict[str, list[tuple[float, ClaimKey]]] = defaultdict(list)
        for key, claim in self._claims.items():
            interval_ms = end.rules_of(key.group).heartbeat_interval_ms
            if claim.owned_ms >= WEDGED_INTERVALS * interval_ms:
                groups[key.group].append((claim.a_second, key))
        lasts: dict[ClaimKey, Callable[[], JudgedRecord]] = {}
        for tenures in end.steady:
            for group, which in tenures.in_group:
                interval_ms = end.rules_of(group).heartbeat_interval_ms
                for rate, number in _rates(tenures, which, WEDGED_INTERVALS * interval_ms):
                    key = tenures.keys[number]
                    groups[group].append((rate, key))
                    lasts[key] = partial(tenures.last, number)
        for group, rates in groups.items():
            usual = median(rate for rate, _ in rates)
            behind = [(rate, key) for rate, key in sorted(rates) if rate < BEHIND * usual]
            if len(rates) < CLAIMS_MIN or not behind:
                continue
            case = Case(
                "lag_movement",
                group,
                None,
                None,
                None,
                None,
                partial(_behind, group, usual, len(rates), behind),
            )
            spoke = [lasts[key]() if key in lasts else self._claims[key].last for _, key in behind]
            for last in sightings(*spoke):
                case.add(last)
            yield case.row()


def _rates(
    tenures: SteadyTenures, which: npt.NDArray[np.intp], enough_ms: float
) -> Iterator[tuple[float, int]]:
    """The messages per second of each owner that worked long enough."""
    owned_ms = tenures.last_clock_ms[which] - tenures.began[which, 1]
    chosen = (tenures.records[which] > 1) & (owned_ms >= enough_ms)
    messages = tenures.moved[which, 0] - tenures.began[which, 0]
    owned_ms, messages = owned_ms[chosen], messages[chosen]
    # Both are whole numbers that a float holds, so this is what `_Moved.a_second` gives.
    rates = np.where(owned_ms > 0, messages * 1000 / np.maximum(owned_ms, 1), 0.0)
    return zip(rates.tolist(), which[chosen].tolist(), strict=True)


def _behind(
    group: str, usual: float, claims: int, behind: list[tuple[float, ClaimKey]], case: Case
) -> str:
    listed = ", ".join(
        f"{key.topic}/{key.topic_partition} at {rate:.2f}" for rate, key in behind[:LISTED_MAX]
    )
    more = f" and {len(behind) - LISTED_MAX} more" if len(behind) > LISTED_MAX else ""
    return (
        f"Positions of group {group} moved by {usual:.2f} messages a second, in the median of "
        f"{times(claims, 'claim')}; far behind that: {listed}{more}. Their lag grows if as much "
        f"is written to them."
    )

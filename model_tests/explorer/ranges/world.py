"""The bounds of a model of `MCRanges.tla`, or of a module that extends it.

Constants that a configuration gives as operators are known here by their names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs

from kafka_marshal import Claim
from kafka_marshal.core.messages import NOT_DECIMAL
from kafka_marshal.core.ranges.state import Limits
from kafka_marshal.modelcheck.tlc.values import parse
from model_tests.explorer.claims.world import rules_at
from model_tests.explorer.configuration import Configuration
from model_tests.ranges.free_time import Storeys

STEPS: Mapping[str, tuple[int, ...]] = {
    "NoSteps": (0,),
    "ClockSteps": (-1000, 2000, 4000),
    "FewSteps": (-1000, 4000),
}
WINDOWS: Mapping[str, tuple[int, ...]] = {
    "OneOrTwo": (1, 2),
    "NoneOrOne": (0, 1),
    "OneOrBad": (1, NOT_DECIMAL),
}
IS_SILENT = {"RecordSaysSilent": True, "ClockSaysSilent": False}
ANY_SILENT = {"AnySilent": True, "NoChoice": False}
ORIGINALS = {None: frozenset[str](), "JustOne": frozenset({"x"})}
FIRST_CLAIM = {None: Claim(position_set=True), "NeverSet": Claim()}
START = {None: 0, "BehindZero": 1}

OWN_ROOM = {"IsSilent", "SilentSets", "Steps", "Windows", "Originals", "FirstClaim", "Start"}
"""Operators that only this room reads."""


@attrs.frozen
class WorldOfRanges:
    """Who takes part and how much of it there is; names are the specification's."""

    storeys: Storeys
    window: int
    windows: tuple[int, ...]
    participants: tuple[str, ...]
    others: tuple[str, ...]
    originals: frozenset[str]
    admins: tuple[str, ...]
    counts: tuple[int, ...]
    steps: tuple[int, ...]
    any_silent: bool
    """Which others are silent is the record's free choice. Spec: SilentSets."""
    first_claim: Claim
    start: int
    log_max: int

    @property
    def at_most(self) -> bool:
        """Spec: AtMost."""
        return self.window == 0

    @property
    def time_is_free(self) -> bool:
        """Spec: TimeIsFree."""
        return self.steps == (0,)

    def silent_sets(self, instance: str) -> Iterator[frozenset[str]]:
        """Spec: SilentSets."""
        yield frozenset()
        if self.any_silent:
            others = [each for each in self.participants if each != instance]
            for chosen in range(1, 2 ** len(others)):
                yield frozenset(each for n, each in enumerate(others) if chosen >> n & 1)


def storeys(cfg: Configuration) -> Storeys:
    """The reducer in the time and under the limits of a model."""
    limits = Limits(*map(cfg.number, ("IntervalsMax", "OpenRangesMax", "RangeMessagesMax")))
    is_free = IS_SILENT[cfg.substituted["IsSilent"]]
    assert is_free == cfg.substituted["IsStale"].startswith("Record")
    return Storeys(rules_at(cfg, "fenced", 0), limits, is_free)


def names(cfg: Configuration, constant: str) -> tuple[str, ...]:
    """A constant that is a set of instances."""
    return tuple(sorted(map(str, _set(cfg, constant))))


def _set(cfg: Configuration, constant: str) -> frozenset[object]:
    given = parse(cfg.assigned[constant])
    assert isinstance(given, frozenset)
    return given


def world_of(cfg: Configuration) -> WorldOfRanges:
    """What a configuration says; fails on an operator that this room has not met."""
    window = cfg.number("Window")
    operators = cfg.substituted
    return WorldOfRanges(
        storeys=storeys(cfg),
        window=window,
        windows=WINDOWS[operators["Windows"]] if "Windows" in operators else (window,),
        participants=names(cfg, "Participants"),
        others=names(cfg, "Others"),
        originals=ORIGINALS[operators.get("Originals")],
        admins=names(cfg, "Admins"),
        counts=tuple(sorted(int(str(count)) for count in _set(cfg, "Counts"))),
        steps=STEPS[operators["Steps"]],
        any_silent=ANY_SILENT[operators["SilentSets"]],
        first_claim=FIRST_CLAIM[operators.get("FirstClaim")],
        start=START[operators.get("Start")],
        log_max=cfg.number("LogMax"),
    )

"""Mistakes made in the machine: each is refuted, with a step that breaks what is always true.

Those of `make mutants` that concern Mutex, AtMostOnce, NoneSkipped, ReprocessingBound and
ReleaseRepeatsNothing. Others cost time, or late readers; their table says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from unittest.mock import patch

from model_tests.mutants import walked
from model_tests.mutants.hand_made import HandMade

from proof.machine.inputs import OWNERS, doings, readings
from proof.machine.instance import does, reads, two_act
from proof.machine.prove import Broken
from proof.machine.ranges import a_range
from proof.machine.table import Task, run

REFUTED: Final[Mapping[str, tuple[str, ...]]] = {
    "GrantNotAwaited": ("ProcessesWhatItWasGranted",),
    "TakesAnyGrant": ("ProcessesWhatItWasGranted",),
    "BelievesByClient": ("Mutex",),
    "ResignedIgnored": ("ReleasedTenurePassedAll", "NothingAfterRelease"),
    "WindowIgnored": ("NextInWindow", "OverhangInWindow"),
    "StartsWhereItWas": ("ProcessedIsPrefix",),
    "CommitsOneAhead": ("ProcessedBelowOffset",),
    "EpochNotSent": ("NamesItsEpoch",),
}
"""By name: what each of them breaks, among others."""


def concerned() -> list[HandMade]:
    """Those mistakes."""
    return [each for each in (*walked.MACHINE, *walked.HARMLESS) if each.name in REFUTED]


def _tasks() -> list[Task]:
    owned = [each for each in doings() if OWNERS[2] <= each.claim.known]
    read = [each for each in readings() if each.becomes == OWNERS[2]]
    return [
        (two_act, ()),
        *((does, (case,)) for case in owned[:4]),
        *((reads, (case,)) for case in read),
    ]


def refute(mutant: HandMade, solver: str = "z3") -> Broken | None:
    """A step by which it breaks what it must break; None if there is none."""
    expected = frozenset(REFUTED[mutant.name])
    with mutant.made(), patch.object(walked, "range", a_range, create=True):
        for job in _tasks():
            for broken in run(job, solver, until=expected).broken:
                if broken.property in expected:
                    return broken
    return None

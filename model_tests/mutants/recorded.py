"""What the validator of runs says of a machine with a mistake, from a recorded run of it.

The fleet is simulated with the mistake and validated without it, as a real one would be.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
from tools.runs.simulate import Fleet, simulate

from kafka_marshal.core.claims.invariants import Property
from kafka_marshal.machines.consumer.consumer import Mode
from kafka_marshal.validate import Unexplained, run_of, validate
from kafka_marshal.validate.run import header
from model_tests.mutants.hand_made import HandMade

BUSY = Fleet(crash=0.02, stall=0.03, release=0.03, lose=0.01, pause=0.02)
"""So much goes wrong that a few thousand events hold everything."""
EVENTS = 3000
SEEDS = 3


def unexplained_under(mutant: HandMade) -> Iterator[Unexplained]:
    """The first unexplained event of each run in which there is one."""
    for mode in Mode:
        for certifies in (True, False):
            for seed in range(SEEDS):
                fleet = attrs.evolve(BUSY, mode=mode, certifies=certifies)
                with mutant.made():
                    setting, events = simulate(seed, EVENTS, fleet)
                judgement = validate(run_of([header(setting), *events]))
                if judgement.unexplained is not None:
                    yield judgement.unexplained


def broken_under(mutant: HandMade) -> set[Property]:
    """What the guards protect that stand against events of its runs."""
    found = {each.protects for each in unexplained_under(mutant)}
    return {prop for prop in found if prop is not None}

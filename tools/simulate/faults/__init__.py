"""What happens to the processes of a simulated world, to their log, their brokers and their topics.

Each fault is one function of the world, that chooses by a chance of its own: so a run can be
repeated with some of its faults left out. It returns what it did in a few words, for the story.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

from tools.simulate.faults import brokers, operators, processes, topics
from tools.simulate.faults.fault import Fault, Happening

if TYPE_CHECKING:
    from tools.simulate.setting import Setting

__all__ = ["FAULTS", "Fault", "Happening", "planned"]

FAULTS: Final = {
    "kill": Fault(processes.kill, 3.0),
    "close": Fault(processes.close, 2.0),
    "stall": Fault(processes.stall, 2.0),
    "stall_thread": Fault(processes.stall_thread, 2.0),
    "slow": Fault(processes.slow),
    "raises": Fault(processes.raises),
    "append": Fault(brokers.append, 2.0),
    "slow_append": Fault(brokers.slow_append),
    "cut": Fault(brokers.cut),
    "slow_fetch": Fault(brokers.slow_fetch),
    "hostile": Fault(topics.hostile),
    "link": Fault(brokers.link, 2.0),
    "move_leader": Fault(brokers.move_leader),
    "broker_clock": Fault(brokers.broker_clock, 0.5),
    "calls": Fault(processes.calls, 2.0),
    "grow": Fault(topics.grow, 0.3),
    "set_position": Fault(operators.set_position),
    "pause": Fault(operators.pause),
}
"""All of them, by name."""


def planned(seed: int, setting: Setting) -> tuple[Happening, ...]:
    """The faults of a run, in their order."""
    chance = Random(seed)
    names = [name for name in FAULTS if not setting.faults or name in setting.faults]
    weights = [FAULTS[name].weight for name in names]
    found, at_s = [], 0.0
    while (
        names
        and (at_s := at_s + chance.expovariate(1 / setting.fault_every_s)) < setting.simulated_s
    ):
        [name] = chance.choices(names, weights)
        found.append(Happening(at_s, name, chance.getrandbits(32)))
    return tuple(found)

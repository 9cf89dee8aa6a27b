"""What happens to the processes of a simulated world, to their log, their brokers and their topics.

Each fault is one function of the world, that chooses by a chance of its own: so a run can be
repeated with some of its faults left out. It returns what it did in a few words, for the story.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

from tools.simulate.faults import (
    brokers,
    log,
    operators,
    originals,
    processes,
    signatures,
    topics,
)
from tools.simulate.faults.fault import Fault, Happening

if TYPE_CHECKING:
    from tools.simulate.setting import Setting

__all__ = ["FAULTS", "Fault", "Happening", "planned"]

NO_TOPIC: Final = "NoSuchTopic: "
LOST: Final = "LogLost: "
BROKEN: Final = "BrokerFailed: "
NOT_APPENDED: Final = "NotAppended: "
TOPIC_GONE: Final = "TopicMissing: "
MISSING: Final = "NoCoordinationTopic: "
ID_TAKEN: Final = "IdUsedTwice: "
FULL: Final = "ThreadFailed: "
CANNOT_RECORD: Final = "InvalidOption: cannot record to "


def _keeps_no_record(setting: Setting) -> bool:
    """A log that loses records ends what `marshal validate` explains, and an original's fleet."""
    return not (setting.recorded or setting.mixed)


def _is_mixed(setting: Setting) -> bool:
    return setting.mixed


def _is_ours(setting: Setting) -> bool:
    """No administrator while originals run: see interop.md."""
    return not setting.mixed


def _is_obeyed_unsigned(setting: Setting) -> bool:
    """Otherwise see `forge`."""
    return setting.signing != "required"


def _signs(setting: Setting) -> bool:
    return bool(setting.signing)


FAULTS: Final = {
    "kill": Fault(processes.kill, 3.0),
    "close": Fault(processes.close, 2.0),
    "stall": Fault(processes.stall, 2.0),
    "stall_thread": Fault(processes.stall_thread, 2.0),
    "stall_taking": Fault(processes.stall_taking),
    "slow": Fault(processes.slow),
    "raises": Fault(processes.raises),
    "interrupt": Fault(processes.interrupt, 2.0),
    "append": Fault(brokers.append, 2.0),
    "slow_append": Fault(brokers.slow_append),
    "cut": Fault(brokers.cut),
    "slow_fetch": Fault(brokers.slow_fetch),
    "hostile": Fault(log.hostile),
    "impersonate": Fault(log.impersonate, 1.0, _is_obeyed_unsigned),
    "link": Fault(brokers.link, 2.0),
    "move_leader": Fault(brokers.move_leader),
    "broker_clock": Fault(brokers.broker_clock, 0.5),
    "calls": Fault(processes.calls, 2.0),
    "grow": Fault(topics.grow, 0.3),
    "trim": Fault(topics.trim, 0.5),
    "vanish": Fault(topics.vanish, 0.3, ends=(NO_TOPIC,)),
    "lose_end": Fault(log.lose_end, 0.3, _keeps_no_record, ends=(LOST, BROKEN)),
    "trim_log": Fault(log.trim_log, 0.3, _keeps_no_record, ends=(BROKEN,)),
    "compact_log": Fault(log.compact_log, 0.3, _keeps_no_record),
    "vanish_log": Fault(
        log.vanish_log,
        0.4,
        _keeps_no_record,
        ends=(LOST, BROKEN, MISSING, NOT_APPENDED, TOPIC_GONE),
    ),
    "forge": Fault(signatures.forge, 2.0, _signs, ends=("NotAuthentic: ",)),
    "rotate_key": Fault(signatures.rotate_key, 1.0, _signs),
    "clock": Fault(processes.clock),
    "disk": Fault(processes.disk, 0.5, ends=(FULL, CANNOT_RECORD)),
    "set_position": Fault(operators.set_position, where=_is_ours),
    "pause": Fault(operators.pause, where=_is_ours),
    "original": Fault(originals.original, 2.0, _is_mixed, ends=(ID_TAKEN,)),
}
"""All of them, by name."""


def planned(seed: int, setting: Setting) -> tuple[Happening, ...]:
    """The faults of a run, in their order."""
    chance = Random(seed)
    names = [
        name
        for name, fault in FAULTS.items()
        if fault.where(setting) and (not setting.faults or name in setting.faults)
    ]
    weights = [FAULTS[name].weight for name in names]
    found, at_s = [], 0.0
    while (
        names
        and (at_s := at_s + chance.expovariate(1 / setting.fault_every_s)) < setting.simulated_s
    ):
        [name] = chance.choices(names, weights)
        found.append(Happening(at_s, name, chance.getrandbits(32)))
    return tuple(found)

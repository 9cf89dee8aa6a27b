"""What kind of world of groups a simulated run is. Everything else the seed decides."""

from __future__ import annotations

from attrs import field, frozen
from tools.simulate.groups.limits import GroupsLimits


@frozen
class GroupsSetting:
    """Two controllers and four members by default, and a fault in two seconds."""

    controllers: int = 2
    members: int = 4
    topics: tuple[str, ...] = ("orders", "parcels")
    partitions: int = 3
    """Of each topic."""
    session_timeout_s: float = 6.0
    messages_per_s: float = 20.0
    """In all, on average."""
    fault_every_s: float = 2.0
    """On average; 0: there are none."""
    simulated_s: float = 60.0
    """How long there are faults and new messages; then a while follows without either."""
    ends_within_s: float = 100.0
    """Within how many seconds without faults all is to be in balance, and consumed: controllers
    count partitions once a minute."""
    faults: tuple[str, ...] = ()
    """Which faults there are; without any, all."""
    limits: GroupsLimits = field(factory=GroupsLimits)

"""The limits of a simulated world of groups: near to what its members need, so they are met often.

A limit is fit if everybody who is there may be served within it. Else some are not, until there is
room: an operator ends some members, or starts controllers that allow more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING, Final
from unittest.mock import patch

import attrs
from attrs import field, frozen

from kafka_marshal.client.fetch.buffers import BufferLimits
from kafka_marshal.client.groups.port import PortLimits
from kafka_marshal.machines.groups.control import partition

if TYPE_CHECKING:
    from tools.simulate.groups.setting import GroupsSetting

MEMBERS: Final = (2, 3, 4, 5, 6, 8, 12)
OFTEN: Final = (4, 6, 6, 4, 3, 1, 1)
"""How often a world has each number of members: one with many takes long."""
SESSIONS_S: Final = (3.0, 6.0, 6.0, 10.0)
EVENT_BYTES: Final = (1_500, 2_500, 3_500, 5_000)
"""What the log takes: a group of two topics and some members has events of that size."""
PLENTY: Final = 1_000
AROUND_BYTES: Final = 1_024
"""What a log must take beside an event."""


@frozen
class GroupsLimits:
    """The defaults of what ships by default."""

    port: PortLimits = field(factory=PortLimits)
    members_max: int = partition.MEMBERS_MAX
    event_bytes_max: int = 0
    """`max.message.bytes` of the log; 0: Kafka's default."""
    one_host: bool = False
    """All members come from one address, as behind a gateway."""
    fetched: BufferLimits = field(factory=BufferLimits)
    """By members."""
    leaves: bool = False
    """Where there is no room for all, some members leave; else controllers come that allow more."""

    def room(self) -> int:
        """How many members may be served at a time, events of any size allowed."""
        return min(self.members_max, self.port.connections_max)

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Those that are no option hold, for each controller of this process."""
        with patch.object(partition, "MEMBERS_MAX", self.members_max):
            yield


def drawn(seed: int, base: GroupsSetting, given: Collection[str] = ()) -> GroupsSetting:
    """The world of a seed: how many members it has, and its limits; `given` numbers stay."""
    chance = Random(f"limits {seed}")
    [members], session_s = chance.choices(MEMBERS, OFTEN), chance.choice(SESSIONS_S)
    members = base.members if "members" in given else members
    session_s = base.session_timeout_s if "session_timeout_s" in given else session_s

    def near(*beside: int) -> int:
        """About as many as there are members, or more than enough."""
        near_by = [max(1, members + each) for each in (-1, 0, 0, 1, 3)]
        return chance.choice([*beside, *near_by, PLENTY, PLENTY])

    port = PortLimits(
        connections_max=near(),
        strangers_max=near(1, 1, 2, max(1, members // 2)),
        unread_bytes_max=chance.choice((1, 2**20)),
        unanswered_max=chance.choice((1, 2, 64)),
        half_frame_s=chance.choice((1.0, 10.0)),
        idle_s=chance.choice((1.0, 10.0)),
    )
    limits = GroupsLimits(
        port,
        members_max=near(),
        event_bytes_max=chance.choice((0, 0, 0, *EVENT_BYTES)),
        one_host=chance.random() < 0.6,
        fetched=BufferLimits(
            chance.choice((1, 10, PLENTY)), bytes_in_all=chance.choice((1, 2**20))
        ),
        leaves=chance.random() < 0.5,
    )
    return attrs.evolve(base, members=members, session_timeout_s=session_s, limits=limits)

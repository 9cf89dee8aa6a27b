"""Members of a group at a coordination topic in memory: everything arrives at once, in order."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from attrs import define, field

from kafka_marshal import ClaimKey, World
from kafka_marshal.codec import coordinating_partition
from kafka_marshal.machines.consumer.claiming import Claiming
from kafka_marshal.machines.consumer.consumer import InstanceConfig, Mode
from kafka_marshal.machines.consumer.driver import Timing
from kafka_marshal.machines.consumer.effects import Lost, Process, Send, Won
from kafka_marshal.machines.consumer.member import ClaimEffect, Member
from tests.memory_log import MemoryLog

PLACES = 3
TIMING = Timing(heartbeat_every_ms=60_000, ask_again_after_ms=5_000)


@define
class Town:
    """Members, and the effects that they returned. A `deaf` one reads and does nothing."""

    now_ms: int = 0
    logs: list[MemoryLog] = field(factory=lambda: [MemoryLog(place) for place in range(PLACES)])
    members: dict[str, Member] = field(factory=dict)
    views: dict[str, list[int]] = field(factory=dict)
    deaf: set[str] = field(factory=set)
    ahead_ms: dict[str, int] = field(factory=dict)
    """How far their own clocks are ahead of the log's."""
    told: dict[str, list[ClaimEffect]] = field(factory=dict)
    processed: dict[str, list[tuple[int, int]]] = field(factory=dict)

    @property
    def worlds(self) -> list[World]:
        """What each partition folds to."""
        return [log.world for log in self.logs]

    def join(
        self,
        name: str,
        claiming: Claiming | None = None,
        mode: Mode = Mode.AT_LEAST_ONCE,
        batch: int = 10,
        interval_ms: int | None = None,
        firsts: Mapping[int, int] | None = None,
    ) -> Member:
        """Instance a1 is of client a. With an interval it says it, and beats twice in it.

        `firsts` says from which offset on it reads a place; 0 where it says nothing.
        """
        me, timing = InstanceConfig(name, name[0], mode, window=10, batch=batch), TIMING
        if interval_ms is not None:
            rules = attrs.evolve(me.rules, heartbeat_interval_ms=interval_ms)
            me = attrs.evolve(me, rules=rules, says_interval=True)
            timing = Timing(heartbeat_every_ms=interval_ms // 2, ask_again_after_ms=1_000)
        member = Member(me, "g", PLACES, claiming, timing, firsts=firsts)
        self.members[name] = member
        self.views[name] = [(firsts or {}).get(place, 0) for place in range(PLACES)]
        self.told[name], self.processed[name] = [], []
        return member

    def do(self, name: str, effects: list[ClaimEffect]) -> None:
        """Carry out, and let everybody read until nobody has anything more to say."""
        self._carry_out(name, effects)
        self.settle()

    def _carry_out(self, name: str, effects: list[ClaimEffect]) -> None:
        for one in effects:
            match one.effect:
                case Send(message, headers):
                    stamped = attrs.evolve(message, unix_s=self.now_ms // 1000)
                    self.append(Send(stamped, headers))
                case Process(offsets):
                    position = one.key.topic_partition
                    self.processed[name] += [(position, offset) for offset in offsets]
                case Won() | Lost():
                    self.told[name].append(one)

    def append(self, sent: Send, place: int | None = None) -> None:
        """On the partition that it belongs to, or on this one."""
        if place is None:
            place = coordinating_partition(sent.message.topic, PLACES)
        self.logs[place].append(sent.message, sent.headers, at_ms=self.now_ms)

    def settle(self) -> None:
        """Everybody reads to the end."""
        for _ in range(1_000):
            moved = {self._reads(name) for name in list(self.members)}
            if True not in moved:
                return
        raise AssertionError("there is no end of it")

    def _reads(self, name: str) -> bool:
        if name in self.deaf:
            return False
        member, views, moved = self.members[name], self.views[name], False
        for place in member.coordinating_partitions:
            log = self.logs[place]
            while views[place] < len(log):  # what it sends meanwhile, too
                views[place] += 1
                record = log[views[place] - 1]
                self._carry_out(name, member.record(record, self._own_ms(name)))
                moved = True
            before = sum(map(len, self.logs))
            self._carry_out(name, member.caught_up(place, self._own_ms(name)))
            moved |= sum(map(len, self.logs)) > before or views[place] < len(log)
        return moved

    def pass_time(self, ms: int) -> None:
        """Time passes, and every timer that is due goes off in its order."""
        until = self.now_ms + ms
        for _ in range(1_000):
            due = [
                (at, name)
                for name, member in self.members.items()
                if name not in self.deaf
                and (at := self._due(name, member)) is not None
                and at <= until
            ]
            if not due:
                break
            at, name = min(due)
            self.now_ms = max(self.now_ms, at)
            self.do(name, self.members[name].timer(self._own_ms(name)))
        else:
            raise AssertionError("timers go off without end")
        self.now_ms = until

    def _own_ms(self, name: str) -> int:
        return self.now_ms + self.ahead_ms.get(name, 0)

    def _due(self, name: str, member: Member) -> int | None:
        at_ms = member.next_timer_ms
        return None if at_ms is None else at_ms - self.ahead_ms.get(name, 0)

    def owners(self, topic: str) -> dict[int, str | None]:
        """Who owns each partition that was ever asked for, by the log."""
        world = self.worlds[coordinating_partition(topic, PLACES)]
        return {
            key.topic_partition: claim.owner_instance
            for key, claim in sorted(world.group("g").items())
            if key.topic == topic
        }


def key(topic: str, partition: int) -> ClaimKey:
    """A claim of the group."""
    return ClaimKey("g", topic, partition)

"""A log in memory and drivers on it: what a test needs to tell a story, and nothing that fails."""

from __future__ import annotations

from attrs import define, field

from kafka_marshal import ClaimKey, World
from kafka_marshal.machines.consumer.consumer import Mode
from kafka_marshal.machines.consumer.driver import Driver
from kafka_marshal.machines.consumer.effects import Effect, Lost, Process, Send, Won
from tests.memory_log import MemoryLog


@define
class Fleet:
    """Drivers of one claim. Whatever they send is appended at once, unless `held` names them."""

    key: ClaimKey = field(factory=lambda: ClaimKey("g", "events", 0))
    now_ms: int = 0
    log: MemoryLog = field(factory=MemoryLog)
    drivers: dict[str, Driver] = field(factory=dict)
    held: dict[str, list[Send]] = field(factory=dict)
    slow: set[str] = field(factory=set)
    """At most once: those whose batch stays in hand. The others are done with it at once."""
    views: dict[str, int] = field(factory=dict)
    told: dict[str, list[Effect]] = field(factory=dict)
    processed: dict[str, list[int]] = field(factory=dict)

    @property
    def world(self) -> World:
        return self.log.world

    def start(self, driver: Driver, first: int = 0) -> Driver:
        name = driver.me.instance_id
        self.drivers[name] = driver
        self.views[name] = first
        self.told[name], self.processed[name] = [], []
        if first >= len(self.log):
            self.carry_out(name, driver.caught_up(self.now_ms))
        self.settle()
        return driver

    def carry_out(self, name: str, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send():
                    if name in self.held:
                        self.held[name].append(effect)
                    else:
                        self.append(effect)
                case Process(offsets):
                    self.processed[name] += offsets
                case Won() | Lost():
                    self.told[name].append(effect)
        driver = self.drivers[name]
        if driver.me.mode is Mode.AT_MOST_ONCE and name not in self.slow:
            for batch in [each.offsets for each in effects if isinstance(each, Process)]:
                self.carry_out(name, driver.done(batch.stop, self.now_ms))

    def append(self, sent: Send) -> None:
        self.log.append(sent.message, sent.headers, at_ms=self.now_ms)

    def settle(self) -> None:
        """Everybody reads to the end, until nobody has anything more to say."""
        moved = True
        while moved:
            moved = False
            for name, driver in list(self.drivers.items()):
                behind = self.views[name] < len(self.log)
                while self.views[name] < len(self.log):
                    record = self.log[self.views[name]]
                    self.views[name] += 1
                    self.carry_out(name, driver.read(record, self.now_ms))
                if behind:
                    moved = True
                    self.carry_out(name, driver.caught_up(self.now_ms))

    def do(self, name: str, effects: list[Effect]) -> None:
        self.carry_out(name, effects)
        self.settle()

    def pass_time(self, ms: int) -> None:
        """Time passes, and every timer that is due goes off in its order."""
        until = self.now_ms + ms
        for _ in range(10_000):
            due = [
                (at, name)
                for name, driver in self.drivers.items()
                if (at := driver.next_timer_ms) is not None and at <= until
            ]
            if not due:
                break
            at, name = min(due)
            self.now_ms = max(self.now_ms, at)
            self.do(name, self.drivers[name].timer(self.now_ms))
        else:
            raise AssertionError("timers go off without end")
        self.now_ms = until

    def crash(self, name: str) -> None:
        del self.drivers[name]

    def owner(self) -> str | None:
        return self.world.claim(self.key).owner_instance

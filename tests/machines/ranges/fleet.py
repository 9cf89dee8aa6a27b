"""A fleet of participants over one log in memory: no Kafka, no clock, and one seed.

Records are late, overtake each other, are doubled or lost. Participants crash, stall and leave, and
an exclusive consumer that knows no ranges waits for the claim. Everybody folds the log alone. The
world writes down who began and finished what, and complains where a promise is broken.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from random import Random

import attrs

from kafka_marshal import Claim, ReleaseGroup, Rules
from kafka_marshal.core.messages import NO_HEADERS, ClaimingRange, Partition
from kafka_marshal.core.ranges.messages import RangesRecord
from kafka_marshal.core.ranges.reader import FoldedState, after
from kafka_marshal.core.ranges.state import LIMITS, Limits, Ranges
from kafka_marshal.core.state import FENCED, ClaimKey
from kafka_marshal.machines.consumer.consumer import InstanceConfig, Mode
from kafka_marshal.machines.consumer.driver import Driver
from kafka_marshal.machines.consumer.effects import Lost, Process, Send, Won
from kafka_marshal.machines.ranges.driver import Identity, ParticipantDriver, RangesTiming
from kafka_marshal.machines.ranges.effects import Effect, Left, SendRecord

KEY = ClaimKey("g", "events", 0)
LOG_AHEAD_MS = 1_700_000_000_000
"""The broker's clock says something else than anybody's."""


@attrs.frozen
class Faults:
    """How often something goes wrong."""

    loses: float = 0.0
    """The part of records that never land."""
    doubles: float = 0.0
    late: float = 0.0
    """The part that lands after seconds."""
    late_ms: int = 20_000
    crash_every_ms: int | None = None
    stall_every_ms: int | None = None
    leave_every_ms: int | None = None
    """A clean restart."""
    pause_every_ms: int | None = None
    """An administrator releases the group for a while."""
    all_stall_every_ms: int | None = None
    """All of them at once, so that others take over."""


@attrs.frozen
class Setting:
    """One run."""

    window: int = 0
    participants: int = 4
    messages: int = 2_000
    per_second: float = 1_000.0
    """How many messages come to the data topic."""
    start: int = 0
    """The data begins here."""
    handler_ms: float = 1.0
    interval_ms: int = 5_000
    trip_ms: int = 10
    """The median time of a record to the log, and of one from it."""
    faults: Faults = attrs.field(factory=Faults)
    faults_end_ms: int = 60_000
    others: int = 0
    """Consumers that do not know ranges, which want the claim as well."""
    others_leave_ms: int = 90_000
    lives_ms: int = 240_000
    limits: Limits = LIMITS
    range_ms: int = 250


class Node:
    """One process."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.cursor = 0
        self.gone = False
        self.stalled_until_ms = 0
        self.timer_at_ms: int | None = None

    def awake(self) -> bool:
        return not self.gone and self.world.now_ms >= self.stalled_until_ms

    def poll(self) -> None:
        """Read everything that is there."""
        raise NotImplementedError

    def tick(self) -> None:
        raise NotImplementedError

    def next_timer_ms(self) -> int | None:
        raise NotImplementedError

    def after_input(self) -> None:
        """Set the timer that the machine asks for."""
        at_ms = self.next_timer_ms()
        if at_ms is None or self.gone or self.timer_at_ms == at_ms:
            return
        self.timer_at_ms = at_ms
        self.world.at(max(at_ms, self.world.now_ms + 1), lambda: self.on_timer(at_ms))

    def on_timer(self, at_ms: int) -> None:
        if self.gone or self.timer_at_ms != at_ms:
            return
        if not self.awake():
            self.world.at(self.stalled_until_ms, lambda: self.on_timer(at_ms))
            return
        self.timer_at_ms = None
        self.tick()
        self.after_input()

    def on_poll(self) -> None:
        if self.gone:
            return
        if not self.awake():
            self.world.at(self.stalled_until_ms, self.on_poll)
            return
        self.poll()
        self.after_input()


class Sharer(Node):
    """A participant, and one handler that works on one message at a time."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        setting = world.setting
        timing = RangesTiming(
            heartbeat_every_ms=setting.interval_ms,
            ask_again_after_ms=min(1_000, setting.interval_ms),
            range_ms=setting.range_ms,
        )
        self.driver = ParticipantDriver(
            Identity(name, f"client of {name}"),
            KEY,
            setting.window,
            setting.start,
            world.rules,
            timing,
            limits=setting.limits,
        )
        self.works_on: tuple[int, int] | None = None
        self.effects: list[Effect] = []

    def poll(self) -> None:
        world, driver = self.world, self.driver
        while self.cursor < len(world.log):
            record, checkpoint = world.log[self.cursor]
            self.cursor += 1
            self.do(driver.record(record, world.now_ms, checkpoint))
        self.do(driver.end(world.end(), world.now_ms))
        self.do(driver.caught_up(world.now_ms))
        self.work()

    def tick(self) -> None:
        self.do(self.driver.end(self.world.end(), self.world.now_ms))
        self.do(self.driver.timer(self.world.now_ms))
        self.work()

    def next_timer_ms(self) -> int | None:
        return self.driver.next_timer_ms

    def do(self, effects: list[Effect]) -> None:
        for effect in effects:
            self.effects.append(effect)
            self.world.effects[type(effect).__name__] += 1
            if isinstance(effect, SendRecord):
                self.world.send(self, effect)
            elif isinstance(effect, Left):
                self.gone = True

    def work(self) -> None:
        """Begin the lowest message that may be begun, if nothing is in hand."""
        world, driver = self.world, self.driver
        if self.works_on is not None or self.gone:
            return
        for held in driver.held:
            offset = max(held.begun, world.setting.start)
            if held.from_ < world.setting.start and held.begun < world.setting.start:
                world.broken.append(f"{self.name} was granted {held} before the data")
            if offset >= min(held.to, world.end()):
                continue
            if driver.may_begin(held.id, offset) is not None:
                continue
            self.works_on = held.id, offset
            world.begins(self, offset)
            self.do(driver.begun(held.id, offset, world.now_ms))
            took = world.random.expovariate(1 / max(world.setting.handler_ms, 0.01))
            world.at(world.now_ms + int(took), self.finish)
            return

    def finish(self) -> None:
        """The handler is done, also while the process seems stalled to others."""
        if self.gone or self.works_on is None:
            return
        if not self.awake():
            self.world.at(self.stalled_until_ms, self.finish)
            return
        (range_id, offset), self.works_on = self.works_on, None
        self.world.finishes(offset)
        self.do(self.driver.finished(range_id, offset, self.world.now_ms))
        self.work()
        self.after_input()


class Other(Node):
    """A consumer that does not know ranges: the shipped driver."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        setting = world.setting
        mode = Mode.AT_LEAST_ONCE if setting.window else Mode.AT_MOST_ONCE
        me = InstanceConfig(
            *(name, f"client of {name}", mode, 100, 100, setting.start),
            rules=world.rules,
        )
        self.driver = Driver(me, KEY)
        self.queue: list[int] = []
        self.tenures = 0

    def poll(self) -> None:
        world, driver = self.world, self.driver
        while self.cursor < len(world.log):
            record, _ = world.log[self.cursor]
            self.cursor += 1
            message = record.message
            if not isinstance(message, ClaimingRange):
                self.do(driver.read(record.without_ranges(message), world.now_ms))
        self.do(driver.caught_up(world.now_ms))
        self.feed()

    def feed(self) -> None:
        if self.driver.acts:
            self.do(self.driver.messages_available(self.world.end(), self.world.now_ms))

    def tick(self) -> None:
        self.do(self.driver.timer(self.world.now_ms))
        self.feed()

    def next_timer_ms(self) -> int | None:
        return self.driver.next_timer_ms

    def do(self, effects: Sequence[object]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                self.world.send(self, SendRecord(effect.message, effect.headers))
            elif isinstance(effect, Won):
                self.tenures += 1
                self.world.effects["Won"] += 1
            elif isinstance(effect, Process):
                for offset in effect.offsets:
                    self.world.begins(self, offset)
                    self.world.finishes(offset)
                self.do(self.driver.done(effect.offsets.stop, self.world.now_ms))
            elif isinstance(effect, Lost):
                pass


class World:
    """The log, the data, everybody, and what may come next."""

    def __init__(self, setting: Setting, seed: int) -> None:
        self.setting = setting
        self.random = Random(seed)
        self.rules: Rules = attrs.evolve(FENCED, heartbeat_interval_ms=setting.interval_ms)
        self.now_ms = 0
        self.log: list[tuple[RangesRecord, FoldedState | None]] = []
        self.state = FoldedState(Claim(), Ranges())
        self.queue: list[tuple[int, int, Callable[[], None]]] = []
        self.numbers = itertools.count()
        self.names = itertools.count(1)
        self.begun: Counter[int] = Counter()
        self.finished: set[int] = set()
        self.lowest_unfinished = setting.start
        self.broken: list[str] = []
        self.effects: Counter[str] = Counter()
        self.sent: Counter[str] = Counter()
        self.skippable: set[int] = set()
        """At most once: what somebody held who crashed, and what an exclusive consumer skips."""
        self.forgotten_of: defaultdict[str, set[int]] = defaultdict(set)
        self.started_ms: dict[int, int] = {}
        self.nodes: list[Sharer] = []
        self.others: list[Other] = []
        self.faulty = True

    # --- time -------------------------------------------------------------------------------------

    def at(self, when_ms: float, act: Callable[[], None]) -> None:
        entry = (max(int(when_ms), self.now_ms), next(self.numbers), act)
        heapq.heappush(self.queue, entry)

    def run(self) -> World:
        setting, faults = self.setting, self.setting.faults
        for _ in range(setting.participants):
            self.join()
        for _ in range(setting.others):
            other = Other(self, f"other-{next(self.names)}")
            self.others.append(other)
            self.at(self.random.randrange(2_000), other.on_poll)
        self.at(setting.others_leave_ms, self.others_leave)
        plans: list[tuple[int | None, Callable[[], None]]] = [
            (faults.crash_every_ms, self.crash),
            (faults.stall_every_ms, self.stall),
            (faults.leave_every_ms, self.restart),
            (faults.pause_every_ms, self.pause),
            (faults.all_stall_every_ms, self.all_stall),
        ]
        for every_ms, act in plans:
            if every_ms is not None:
                self.again(every_ms, act)
        self.at(setting.faults_end_ms, self.faults_end)
        self.at(0, self.data_comes)
        while self.queue and self.queue[0][0] <= setting.lives_ms:
            self.now_ms, _, act = heapq.heappop(self.queue)
            act()
            if self.broken:
                break
        return self

    def again(self, every_ms: int, act: Callable[[], None]) -> None:
        def happens() -> None:
            if self.faulty:
                act()
                self.again(every_ms, act)

        self.at(self.now_ms + self.random.expovariate(1 / every_ms), happens)

    # --- data -------------------------------------------------------------------------------------

    def end(self) -> int:
        setting = self.setting
        come = int(self.now_ms * setting.per_second / 1_000)
        return setting.start + min(setting.messages, come)

    def data_comes(self) -> None:
        """Everybody hears of new messages a while after they came."""
        for node in self.nodes:
            if node.awake():
                node.do(node.driver.end(self.end(), self.now_ms))
                node.work()
                node.after_input()
        for other in self.others:
            if other.awake():
                other.feed()
                other.after_input()
        if self.end() < self.setting.start + self.setting.messages:
            self.at(self.now_ms + max(5, int(1_000 / self.setting.per_second)), self.data_comes)

    # --- who there is -----------------------------------------------------------------------------

    def join(self) -> None:
        node = Sharer(self, f"p{next(self.names):04}")
        self.nodes.append(node)
        self.at(self.now_ms + self.random.randrange(200), node.on_poll)

    def living(self) -> list[Sharer]:
        return [node for node in self.nodes if not node.gone]

    def crash(self) -> None:
        if not self.living():
            return
        node = self.random.choice(self.living())
        node.gone = True
        self.lose_what_it_held(node)
        self.at(self.now_ms + self.random.randrange(5_000), self.join)

    def lose_what_it_held(self, node: Sharer) -> None:
        for held in node.driver.participant.held:
            self.skippable |= {*range(held.done, held.to)}
        for range_ in self.state.ranges.open:
            if range_.instance == node.name:
                self.skippable |= {*range(range_.from_, range_.to)}

    def stall(self) -> None:
        if self.living():
            self.stalls(self.random.choice(self.living()))

    def stalls(self, node: Sharer) -> None:
        longest_ms = 5 * self.setting.interval_ms
        node.stalled_until_ms = self.now_ms + self.random.randrange(100, longest_ms)

    def all_stall(self) -> None:
        until_ms = self.now_ms + 3 * self.setting.interval_ms
        for node in self.living():
            node.stalled_until_ms = until_ms + self.random.randrange(1_000)

    def restart(self) -> None:
        stay = [node for node in self.living() if not node.driver.participant.leaving]
        node = self.random.choice(stay or [None])
        if node is not None and node.awake():
            node.do(node.driver.leave(self.now_ms))
            node.after_input()
            self.at(self.now_ms + self.random.randrange(3_000), self.join)

    def pause(self) -> None:
        expires_s = (LOG_AHEAD_MS + self.now_ms) // 1_000 + self.random.randrange(1, 20)
        message = ReleaseGroup(0, 0, "admin", "admin", "g", "", Partition(0), expires_s)
        self.land(SendRecord(message, NO_HEADERS))

    def others_leave(self) -> None:
        for other in self.others:
            other.do(other.driver.stop(self.now_ms))
            other.after_input()

    def faults_end(self) -> None:
        self.faulty = False

    # --- the log ----------------------------------------------------------------------------------

    def trip_ms(self) -> int:
        return int(self.random.lognormvariate(0, 0.5) * self.setting.trip_ms)

    def send(self, node: Node, sent: SendRecord) -> None:
        self.sent[type(sent.message).__name__] += 1
        faults, chance = self.setting.faults, self.random.random
        times = 1
        if self.faulty:
            if chance() < faults.loses:
                if isinstance(node, Other) or chance() < 0.5:
                    self.at(self.now_ms + 500, lambda: self.tell_unknown(node, sent))
                return
            if chance() < faults.doubles:
                times = 2
        for _ in range(times):
            late = self.faulty and chance() < faults.late
            more_ms = self.random.randrange(faults.late_ms) if late else 0
            self.at(self.now_ms + self.trip_ms() + more_ms, lambda: self.land(sent))

    def tell_unknown(self, node: Node, sent: SendRecord) -> None:
        if isinstance(node, Sharer) and node.awake():
            node.do(node.driver.outcome_unknown(sent, self.now_ms))
        elif isinstance(node, Other):
            assert not isinstance(sent.message, ClaimingRange)
            node.do(node.driver.outcome_unknown(Send(sent.message, sent.headers), self.now_ms))
        node.after_input()

    def land(self, sent: SendRecord) -> None:
        record = RangesRecord(
            *(0, len(self.log), LOG_AHEAD_MS + self.now_ms, sent.message),
            *(sent.headers, sent.range_headers),
        )
        self.log.append((record, sent.checkpoint))
        before = self.state
        self.state = after(before, record, self.rules, self.setting.limits)
        self.judge(before)
        if self.state.ranges.open != before.ranges.open:
            gone = {node.name for node in self.nodes if node.gone}
            for range_ in self.state.ranges.open[-1:]:
                if range_.id == record.offset and range_.instance in gone:
                    self.skippable |= {*range(range_.from_, range_.to)}
        for node in [*self.nodes, *self.others]:
            if not node.gone:
                self.at(self.now_ms + self.trip_ms(), node.on_poll)

    # --- promises ---------------------------------------------------------------------------------

    def begins(self, node: Node, offset: int) -> None:
        self.begun[offset] += 1
        self.started_ms.setdefault(offset, self.now_ms)
        if self.setting.window == 0 and self.begun[offset] > 1:
            self.broken.append(f"AtMostOnce: {node.name} begins {offset} again at {self.now_ms}")

    def finishes(self, offset: int) -> None:
        self.finished.add(offset)
        while self.lowest_unfinished in self.finished:
            self.lowest_unfinished += 1

    def judge(self, before: FoldedState) -> None:
        """After each record."""
        claim, ranges = self.state.claim, self.state.ranges
        position = claim.position
        if not self.setting.window:
            self.forgotten(before)
        if self.setting.window:
            if position > self.lowest_unfinished and claim.position_set:
                self.broken.append(
                    f"NoneSkipped: position {position}, {self.lowest_unfinished} is not processed"
                )
            if ranges.has_begun:
                held = {(each.from_, each.to) for each in ranges.open}
                free = {(each.from_, each.to) for each in ranges.pool}
                offset = position
                for from_, to in sorted(held | free):
                    if any(x not in self.finished for x in range(offset, from_)):
                        self.broken.append(f"NoneSkipped: done before {from_} and not processed")
                    offset = max(offset, to)
        elif before.ranges.has_begun and not ranges.has_begun:
            # A win without the header: it begins behind the reserve, and what is in the pool.
            self.skippable |= {*range(before.ranges.frontier, before.claim.position)}
            for each in before.ranges.pool:
                self.skippable |= {*range(each.from_, each.to)}

    def forgotten(self, before: FoldedState) -> None:
        """At most once: what the log no longer gives a silent holder, who may process it yet."""
        sender = self.log[-1][0].message.instance_id
        ids = {each.id for each in self.state.ranges.open}
        for range_ in before.ranges.open:
            if range_.id not in ids and range_.instance != sender:
                self.forgotten_of[range_.instance] |= {*range(range_.from_, range_.to)}

    @property
    def unprocessed(self) -> list[int]:
        last = self.setting.start + self.setting.messages
        return [x for x in range(self.setting.start, last) if x not in self.finished]

    @property
    def lost(self) -> list[int]:
        """What nobody processed, and no fault explains.

        At most once a holder that was silent and then leaves or crashes takes with it what was
        forgotten.
        """
        if self.setting.window:
            return self.unprocessed
        leavers = [each for each in self.nodes if each.gone or each.driver.participant.leaving]
        explained = self.skippable.union(*(self.forgotten_of[each.name] for each in leavers))
        return [x for x in self.unprocessed if x not in explained]

    @property
    def repeated(self) -> int:
        return sum(count - 1 for count in self.begun.values())

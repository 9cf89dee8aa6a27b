"""All claims of one instance in one group: which ones to ask for, and the effects of each.

A driver deals with one claim. A member has a driver for every claim of its group that occurred in
the log. It passes each record to the drivers concerned, and decides which claims to ask for and
which to release (`claiming`, `share.timing`). The runtime reads the `coordinating_partitions` in
offset order and carries out the returned effects in their order. `now_ms` is a steady clock, as for
a driver. The clock of each coordinating partition converts the log's timestamps to it
(`log_clock`). There are no threads here, no Kafka and no clock.

>>> from kafka_marshal.machines.consumer.consumer import Mode
>>> member = Member(InstanceConfig("i1", "c1", Mode.AT_LEAST_ONCE), "g", partitions=1)
>>> member.add_topic("events", 1, now_ms=0)
[]
>>> [asked] = member.caught_up(0, now_ms=0)
>>> sent = asked.effect
>>> won, heartbeat = member.record(Record(0, 0, 5, sent.message, sent.headers), now_ms=5)
>>> won.effect
Won(epoch=0, position=0, position_known=True)
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

import attrs
from attrs import define, field, frozen

from kafka_marshal.codec import coordinating_partition
from kafka_marshal.core.messages import ClaimingPartition, Heartbeat, Record, ReleaseGroup
from kafka_marshal.core.state import Claim, ClaimKey
from kafka_marshal.deprecated import old_method, old_property
from kafka_marshal.machines.consumer import consumer as moves
from kafka_marshal.machines.consumer.claiming import Claiming, Velocity
from kafka_marshal.machines.consumer.consumer import ConsumerState, InstanceConfig, Mode
from kafka_marshal.machines.consumer.driver import Driver, Timing, timing_of
from kafka_marshal.machines.consumer.effects import Effect, Lost, Process, ReleaseReason, Send, Won
from kafka_marshal.machines.consumer.intervals import Intervals
from kafka_marshal.machines.consumer.intervals import OwnerReport as Alive
from kafka_marshal.machines.consumer.log_clock import AT_ONCE, LogClock
from kafka_marshal.machines.consumer.memory import PartitionMemory, without_self
from kafka_marshal.machines.share.rules import Sharer
from kafka_marshal.machines.share.timing import (
    FairShare,
    GroupView,
    Owner,
    Request,
    ShareTiming,
    requests_after,
)


@frozen
class ClaimEffect:
    """An effect, and its claim."""

    key: ClaimKey
    effect: Effect


CLOCK_MOVED_MS: Final = 1_000
"""If the log's clock turns out to be later than estimated by this much, claims to ask for are
chosen again: some may be claimable already."""


@define
class _PartitionView:
    """A coordinating partition, up to the last record read."""

    newborn: ConsumerState
    """The initial state of a claim without records of its own."""
    intervals: Intervals
    """The heartbeat intervals of the group's owners."""
    clock: LogClock = field(factory=LogClock)
    """Shared by its drivers."""
    drivers: dict[ClaimKey, Driver] = field(factory=dict)
    caught_up: bool = False


@define
class _Held:
    """What a member knows of a claim besides its driver."""

    fixed: bool = False
    """Whether the application named this partition."""
    removed: bool = False
    """Whether its topic was removed: the claim is released, and not asked for again."""
    end: int = 0
    """Messages of the data topic's partition below this offset were fetched."""
    low: int = 0
    """The first offset of the data topic's partition."""
    high: int = 0
    """The end offset of the data topic's partition."""
    request_at_ms: int | None = None
    """At most once: it requests no messages before this; None if it may now."""
    not_before_ms: int = AT_ONCE
    """It does not ask for the claim before this."""
    beat_at_ms: int = 0
    velocity: Velocity = field(factory=Velocity)


class Member:
    """One instance's dealings with its group. Methods that return effects return them in order."""

    def __init__(
        self,
        me: InstanceConfig,
        group: str,
        partitions: int,
        claiming: Claiming | None = None,
        timing: Timing | None = None,
        *,
        firsts: Mapping[int, int] | None = None,
        memory: Mapping[int, PartitionMemory] | None = None,
    ) -> None:
        """Begin with nothing read; `partitions` is the coordination topic's number of partitions.

        `firsts` holds the first offset to read of each coordinating partition, 0 by default. Of a
        partition in `memory`, only newer records are read, whichever instance saved it.

        Raises:
            ValueError: what `timing_of` raises.
        """
        self.me = me
        self.group = group
        self.partitions = partitions
        self.claiming = claiming or Claiming()
        self.timing = timing_of(me, timing)
        self._firsts = dict(firsts or {})
        self._memory = dict(memory or {})
        """The saved knowledge of coordinating partitions that it does not need yet."""
        self._views: dict[int, _PartitionView] = {}
        self._homes: dict[str, int] = {}
        self._shared: set[str] = set()
        """Topics whose claims a participant divides into ranges, so this member only folds them."""
        self._bystander = attrs.evolve(me, instance_id="")
        """An instance that owns nothing."""
        self._held: dict[ClaimKey, _Held] = {}
        """The claims of its topics."""
        self._share = FairShare(self._sharer(), _patience(self.timing, me))
        self._requests: Mapping[str, Request] = {}
        """By client id: the refused requests in this group."""
        self.differs: Alive | None = None
        """An earlier owner with another heartbeat interval; then this member has ended."""
        self.gave_back = 0
        """The number of claims that it has started to release."""
        self._stopping = False
        self._stale_choice = True
        """Whether anything has changed since it last chose which claims to ask for."""
        self._choose_at_ms: int | None = None
        self._due: dict[ClaimKey, int | None] = {}
        self._timers: list[tuple[int, ClaimKey]] = []

    # --- what it is -------------------------------------------------------------------------------

    @property
    def coordinating_partitions(self) -> frozenset[int]:
        """The coordinating partitions that must be read for it."""
        return frozenset(self._views)

    @property
    def owned(self) -> dict[ClaimKey, Driver]:
        """The claims that it owns, by what it has read, and has not released."""
        return {key: driver for key, driver in self._drivers(self._held) if driver.acts}

    @property
    def drained(self) -> bool:
        """After `stop`: whether it owns no claim, and awaits no request of its own."""
        return not any(driver.acts or driver.asks for _, driver in self._drivers(self._held))

    def driver(self, key: ClaimKey) -> Driver:
        """The driver of a claim of one of its topics."""
        return self._views[self._homes[key.topic]].drivers[key]

    def begin_to_read(self, partition: int, now_ms: int) -> None:
        """Fold this coordinating partition from its first record on, which must follow.

        Topics of this partition may be added later.
        """
        if partition not in self._views:
            self._begin_to_read(partition, now_ms)

    def stand_by(self, topic: str) -> None:
        """Only fold the claims of this topic, including those that this very instance owns.

        The topic's participants share them, and release claims that they own alone.
        """
        self._shared.add(topic)
        for view in self._views.values():
            for key, driver in view.drivers.items():
                if key.topic == topic:
                    driver.me = self._bystander

    def folded(self, key: ClaimKey) -> Claim:
        """The state of any claim of a coordinating partition that it reads."""
        view = self._views[self._home(key.topic)]
        driver = view.drivers.get(key)
        return (view.newborn if driver is None else driver.consumer).known

    @property
    def next_timer_ms(self) -> int | None:
        """When to call `timer` next, by the steady clock; None while nothing is due."""
        timers = self._timers
        while timers and self._due.get(timers[0][1]) != timers[0][0]:
            heapq.heappop(timers)
        due_ms, choose_ms = timers[0][0] if timers else None, self._choose_at_ms
        if choose_ms is None or (due_ms is not None and due_ms <= choose_ms) or not self._chooses:
            return due_ms
        return choose_ms

    @property
    def _chooses(self) -> bool:
        """Whether it may ask for claims: not stopping, and every log was read to its end."""
        return self.up_to_date and not self._stopping

    @property
    def up_to_date(self) -> bool:
        """Whether it needs at least one coordinating partition, and each was read to its end."""
        return bool(self._views) and all(view.caught_up for view in self._views.values())

    def memory(self) -> dict[int, PartitionMemory]:
        """What it knows of each coordinating partition, for the next instance to continue from."""
        found = dict(self._memory)
        for number, view in self._views.items():
            newborn = without_self(view.newborn)
            claims = {key: without_self(each.consumer) for key, each in view.drivers.items()}
            requests = {
                client: request
                for client, request in self._requests.items()
                if self._home(request.key.topic) == number
            }
            differ = {key: each for key, each in claims.items() if each != newborn}
            found[number] = PartitionMemory(newborn, differ, requests)
        return found

    # --- what happens -----------------------------------------------------------------------------

    def add_topic(
        self,
        topic: str,
        partitions: int,
        now_ms: int,
        *,
        only: Collection[int] | None = None,
        start: Callable[[int], int] = lambda partition: 0,
    ) -> list[ClaimEffect]:
        """Consume a topic of `partitions` partitions; call this again if partitions are added.

        `only` names partitions to claim without regard to shares; other members may claim them too.
        `start` returns the start policy's offset of a partition, which counts if no position was
        ever set. After `stop`, a new topic is ignored.

        Raises:
            ValueError: `only` names a partition that the topic does not have.
        """
        missing = sorted(set(only or ()) - set(range(partitions)))
        if missing:
            raise ValueError(f"topic {topic} has {partitions} partitions, and no {missing[0]}")
        if self._stopping:
            return []
        effects = []
        for number in range(partitions) if only is None else only:
            key = ClaimKey(self.group, topic, number)
            if not self.begins(key):
                continue
            if self._home(topic) not in self._views:
                self._begin_to_read(self._home(topic), now_ms)
            self._held[key] = _Held(fixed=only is not None)
            driver = self._driver_of(key)
            driver.me = attrs.evolve(driver.me, start=start(number))
            if not driver.acts:  # else it is being given up, and wanted again after that
                asked = driver.start_claiming(now_ms, eager=only is not None)
                effects += self._did(key, asked, now_ms)
        self._share.me = self._sharer()
        self._stale_choice = True
        return effects + self._choose(now_ms)

    def begins(self, key: ClaimKey) -> bool:
        """Whether the next `add_topic` will make this one of its claims."""
        return key not in self._held or self._held[key].removed

    def remove_topic(self, topic: str, now_ms: int) -> list[ClaimEffect]:
        """Release the claims of a topic, and do not ask for them before it is added again."""
        effects = []
        for key, held in self._held.items():
            if key.topic == topic:
                held.removed = True
                effects += self._stop(key, now_ms)
        self._share.me = self._sharer()
        self._stale_choice = True
        return effects + self._choose(now_ms)

    def record(self, record: Record, now_ms: int) -> list[ClaimEffect]:
        """Read the next record of a coordinating partition, of any group and claim."""
        view, message = self._views.get(record.partition), record.message
        if view is None:
            return []
        view.caught_up = False
        self._stale_choice |= view.clock.read(record.timestamp_ms, now_ms) >= CLOCK_MOVED_MS
        if message.group_id != self.group:
            return []
        if isinstance(message, ReleaseGroup):
            view.newborn = moves.after_read(self.me, view.newborn, record)
            self._stale_choice = True
            keys: Iterable[ClaimKey] = list(view.drivers)
        else:
            if self._home(message.topic) != record.partition:
                return []  # a claim of that name on another partition than ours
            keys = [message.key]
        if self._yields(view, record):
            return []
        effects = []
        for key in keys:
            driver = self._driver_of(key)
            before, busy = driver.consumer.known.owner_instance, driver.busy
            effects += self._did(key, driver.read(record, now_ms), now_ms)
            if busy and not driver.busy:  # it was refused, or there is nothing in what was granted
                effects += self._tell_available(key, now_ms)
            after = driver.consumer.known.owner_instance
            self._stale_choice |= before != after
            wins = isinstance(message, ClaimingPartition) and message.instance_id == after
            if wins and self.me.says_interval:
                view.intervals.won(record)
            requests = requests_after(self._requests, message, record.timestamp_ms, after)
            self._stale_choice |= requests is not self._requests
            self._requests = requests
        return effects

    def pass_gap(self, partition: int, first: int, now_ms: int) -> list[ClaimEffect]:
        """The next record is at `first`, and some before it are gone: knowledge may be outdated.

        It learns the owners of these claims like a member that joins late. Spec: PassGap.
        """
        view = self._views.get(partition)
        if view is None:
            return []
        view.caught_up, view.newborn = False, ConsumerState.beginning_at(first)
        self._stale_choice = True
        effects = []
        for key, driver in view.drivers.items():
            effects += self._did(key, driver.pass_gap(first), now_ms)
        return effects

    def _yields(self, view: _PartitionView, record: Record) -> bool:
        """Whether an earlier owner has another heartbeat interval. Spec: Yields.

        Then it does not even read this record, which may be a win that no other member sees. Old
        records show which owners may be alive. Records appended after the log was read to its end
        show which ones are.
        """
        if not self.me.says_interval:
            return False
        view.intervals.read(record)
        if self.differs is None and view.clock.current:
            self.differs = view.intervals.differs(record.timestamp_ms)
            self._stopping |= self.differs is not None
        return self.differs is not None

    def waits_for(self, now_ms: int) -> Alive | None:
        """An owner that may be alive under another heartbeat interval; then it asks for nothing."""
        for view in self._views.values():
            until_ms = view.intervals.until_ms
            if until_ms is not None and now_ms < view.clock.own_ms(until_ms):
                return view.intervals.alive[0]
        return None

    def _held_back_until_ms(self) -> int:
        found = AT_ONCE
        for view in self._views.values():
            until_ms = view.intervals.until_ms
            if until_ms is not None:
                found = max(found, view.clock.own_ms(until_ms))
        return found

    def caught_up(self, partition: int, now_ms: int) -> list[ClaimEffect]:
        """The coordinating partition was read to its end; call this every time."""
        view = self._views[partition]
        was_read, view.caught_up = not view.caught_up, True
        view.clock.caught_up()
        effects = self._lend_the_time(now_ms)
        # A record of any claim may move the log's clock, on which every driver's waiting depends.
        for key, driver in list(view.drivers.items()) if was_read else ():
            if not driver.rests:
                effects += self._did(key, driver.caught_up(now_ms), now_ms)
        return effects + self._choose(now_ms)

    def outcome_unknown(self, sent: Send, now_ms: int) -> list[ClaimEffect]:
        """The outcome of sending this record is unknown; it may still land later."""
        assert not isinstance(sent.message, ReleaseGroup)  # a member pauses nobody
        key = sent.message.key
        self._stale_choice = True
        effects = self._did(key, self._driver_of(key).outcome_unknown(sent, now_ms), now_ms)
        return effects + self._choose(now_ms)

    def timer(self, now_ms: int) -> list[ClaimEffect]:
        """Time has passed. Early calls do no harm."""
        effects = []
        while self._timers and self._timers[0][0] <= now_ms:
            at_ms, key = heapq.heappop(self._timers)
            if self._due.get(key) == at_ms:
                self._due[key] = None
                effects += self._tell_available(key, now_ms)
                effects += self._did(key, self._driver_of(key).timer(now_ms), now_ms)
        return effects + self._choose(now_ms)

    def messages_available(self, key: ClaimKey, end: int, now_ms: int) -> list[ClaimEffect]:
        """Messages of the claim below `end` were fetched."""
        held = self._held[key]
        held.end = max(held.end, end)
        held.high = max(held.high, end)
        return self._tell_available(key, now_ms)

    def extent(self, key: ClaimKey, low: int, high: int, now_ms: int) -> list[ClaimEffect]:
        """The data topic's partition holds offsets from `low` up to, but not including, `high`."""
        held = self._held[key]
        held.low, held.high = max(held.low, low), high
        return self._did(key, self.driver(key).log_start_moved(low, now_ms), now_ms)

    def done(self, key: ClaimKey, offset_next: int, now_ms: int) -> list[ClaimEffect]:
        """Every delivered message of the claim below `offset_next` is finished."""
        effects = self._did(key, self.driver(key).done(offset_next, now_ms), now_ms)
        return effects + self._tell_available(key, now_ms)

    def commit(self, key: ClaimKey, now_ms: int) -> list[ClaimEffect]:
        """Send the claim's position now, and not with the next heartbeat."""
        return self._did(key, self.driver(key).commit(now_ms), now_ms)

    def release(self, key: ClaimKey, now_ms: int) -> list[ClaimEffect]:
        """Release one claim, and do not ask for it again for `reclaim_delay_ms`."""
        return self._give_back(key, now_ms, ReleaseReason.ASKED)

    def _give_back(self, key: ClaimKey, now_ms: int, why: ReleaseReason) -> list[ClaimEffect]:
        self._held[key].not_before_ms = now_ms + self.claiming.reclaim_delay_ms
        return self._stop(key, now_ms, why)

    def _stop(
        self, key: ClaimKey, now_ms: int, why: ReleaseReason = ReleaseReason.STOPPED
    ) -> list[ClaimEffect]:
        self.gave_back += 1
        return self._did(key, self.driver(key).stop(now_ms, why), now_ms)

    def hand_back(self, key: ClaimKey, offset_next: int, now_ms: int) -> list[ClaimEffect]:
        """No message from `offset_next` on of a claim in release was begun, or will be."""
        return self._did(key, self.driver(key).hand_back(offset_next, now_ms), now_ms)

    def stop(self, now_ms: int) -> list[ClaimEffect]:
        """Release all claims, each as soon as its delivered messages are finished."""
        self._stopping = True
        effects = []
        for key in self._held:
            effects += self._stop(key, now_ms)
        return effects

    def truncated(self) -> list[ClaimEffect]:
        """A log's end moved back: everything read is void. Begin again, under a new instance id."""
        self._stopping = True
        owned = self.owned
        return [
            ClaimEffect(key, each) for key, driver in owned.items() for each in driver.truncated()
        ]

    unknown = old_method("unknown", outcome_unknown)
    available = old_method("available", messages_available)
    places = old_property("places", "coordinating_partitions")

    # --- coordinating partitions and drivers ------------------------------------------------------

    def _home(self, topic: str) -> int:
        """The coordinating partition of a topic."""
        home = self._homes.get(topic)
        if home is None:
            home = self._homes[topic] = coordinating_partition(topic, self.partitions)
        return home

    def _driver_of(self, key: ClaimKey) -> Driver:
        view = self._views[self._home(key.topic)]
        driver = view.drivers.get(key)
        if driver is None:
            me = self._bystander if key.topic in self._shared else self.me
            driver = view.drivers[key] = Driver(me, key, self.timing)
            driver.consumer, driver.clock = view.newborn, view.clock
            driver.held_back_until_ms = self._held_back_until_ms
            driver.wants = driver.eager = False
            if view.caught_up:
                # It had no records, so it has read as far as its partition; at this time it returns
                # no effects.
                driver.caught_up(AT_ONCE)
        return driver

    def _begin_to_read(self, number: int, now_ms: int) -> None:
        view = self._views[number] = _PartitionView(
            ConsumerState.beginning_at(self._firsts.get(number, 0)),
            Intervals(self.me.rules.heartbeat_interval_ms),
        )
        memory = self._memory.pop(number, None)
        if memory is not None:
            view.newborn = memory.newborn
            for key, consumer in memory.claims.items():
                self._driver_of(key).consumer = consumer
                view.clock.read(consumer.known.clock_ms, now_ms)
            self._requests = {**memory.requests, **self._requests}

    def _lend_the_time(self, now_ms: int) -> list[ClaimEffect]:
        """If a partition has no new records, take the time from partitions that have some.

        Otherwise a member that starts after all others have left would wait again for each
        coordinating partition.
        """
        behind = [view for view in self._views.values() if not view.clock.current]
        if not behind:
            return []
        known = [view.clock for view in self._views.values() if view.clock.current]
        effects: list[ClaimEffect] = []
        for view in behind:
            borrowed = [view.clock.borrow(each) for each in known]
            if not any(borrowed):
                continue
            self._stale_choice = True
            for key, driver in view.drivers.items():
                effects += self._did(key, driver.timer(now_ms), now_ms)
        return effects

    def _drivers(self, keys: Iterable[ClaimKey]) -> Iterable[tuple[ClaimKey, Driver]]:
        return ((key, self.driver(key)) for key in keys)

    # --- what follows -----------------------------------------------------------------------------

    def _did(self, key: ClaimKey, effects: list[Effect], now_ms: int) -> list[ClaimEffect]:
        """The effects of one driver, after applying what they mean to this member."""
        more: list[ClaimEffect] = []
        if not effects:
            self._schedule(key)
            return more
        held = self._held.get(key)
        for effect in effects:
            more.append(ClaimEffect(key, effect))
            if held is None:
                continue
            match effect:
                case Won():
                    self._stale_choice = True
                    held.end, held.request_at_ms = 0, None
                    held.velocity, held.beat_at_ms = Velocity(), now_ms
                case Lost():
                    self._stale_choice = True
                    self._stopping |= effect is Lost.ID_USED_TWICE
                case Send(message=Heartbeat() as message):
                    more += self._beat(key, held, message.offset, now_ms)
                case Send() | Process():
                    pass
        self._schedule(key)
        return more

    def _schedule(self, key: ClaimKey) -> None:
        at_ms = self._driver_of(key).next_timer_ms
        held = self._held.get(key)
        if held is not None and held.request_at_ms is not None:
            at_ms = held.request_at_ms if at_ms is None else min(at_ms, held.request_at_ms)
        if at_ms != self._due.get(key):
            self._due[key] = at_ms
            if at_ms is not None:
                heapq.heappush(self._timers, (at_ms, key))

    def _tell_available(self, key: ClaimKey, now_ms: int) -> list[ClaimEffect]:
        """Report available messages to the driver: at most once, no more than it may request now.

        So a crash loses at most one batch, and requests do not exceed `transactions_per_s`.
        """
        held = self._held.get(key)
        if held is None:
            return []
        driver = self.driver(key)
        if self.me.mode is Mode.AT_LEAST_ONCE:
            return self._did(key, driver.messages_available(held.end, now_ms), now_ms)
        if held.request_at_ms is not None and now_ms < held.request_at_ms:
            return []
        held.request_at_ms = None
        if driver.busy:
            return []
        asked = driver.messages_available(
            min(held.end, driver.consumer.known.position + driver.me.batch), now_ms
        )
        if asked:
            every_ms = int(1000 * max(1, len(self.owned)) / self.claiming.transactions_per_s)
            held.request_at_ms = now_ms + every_ms
        return self._did(key, asked, now_ms)

    def _beat(self, key: ClaimKey, held: _Held, position: int, now_ms: int) -> list[ClaimEffect]:
        """A heartbeat is sent: check whether the claim has fallen behind."""
        if now_ms - held.beat_at_ms < self.timing.heartbeat_every_ms:
            return []
        held.beat_at_ms = now_ms
        behind = held.velocity.beat(position, held.high)
        if behind and self.claiming.release_when_behind and not held.fixed:
            return self._give_back(key, now_ms, ReleaseReason.BEHIND)
        return []

    # --- which claims to ask for ------------------------------------------------------------------

    def _choose(self, now_ms: int) -> list[ClaimEffect]:
        """Ask for claims and release some, if anything that this depends on has changed."""
        due = self._choose_at_ms is not None and now_ms >= self._choose_at_ms
        if not (self._stale_choice or due) or not self._chooses:
            return []
        self._stale_choice, self._choose_at_ms = False, None
        if self._not_yet(self._held_back_until_ms(), now_ms):
            return []
        effects = []
        for key, driver in self._drivers(self._held):
            if self._held[key].removed:
                continue
            if not driver.wants and not driver.acts and not driver.consumer.stopped:
                if self._not_yet(self._held[key].not_before_ms, now_ms):
                    continue
                asked = driver.start_claiming(now_ms, eager=self._held[key].fixed)
                effects += self._did(key, asked, now_ms)
        return effects + self._ask(now_ms)

    def _not_yet(self, at_ms: int, now_ms: int) -> bool:
        """Whether it is too early; then it chooses again at that time."""
        if at_ms <= now_ms:
            return False
        at = self._choose_at_ms
        self._choose_at_ms = at_ms if at is None else min(at, at_ms)
        return True

    def _ask(self, now_ms: int) -> list[ClaimEffect]:
        effects = self._follow(now_ms) if self.claiming.whole_topics else []
        if self.claiming.fair_share and not self.claiming.greedy:
            return effects + self._ask_for_a_share(now_ms)
        for key in self._to_ask(now_ms):
            effects += self._did(key, self.driver(key).request(now_ms), now_ms)
        return effects

    def _units(self) -> list[ClaimKey]:
        """What is shared: partitions, or with `whole_topics` partition 0 of each topic."""
        whole = self.claiming.whole_topics
        return [
            key
            for key, held in self._held.items()
            if not held.fixed and not held.removed and not (whole and key.topic_partition)
        ]

    def _follow(self, now_ms: int) -> list[ClaimEffect]:
        """Want a topic's other partitions exactly while this member owns its partition 0."""
        effects = []
        for key, held in self._held.items():
            if held.fixed or held.removed or not key.topic_partition:
                continue
            first, driver = key._replace(topic_partition=0), self.driver(key)
            leads = first in self._held and self.driver(first).acts
            if leads and not driver.eager:
                effects += self._did(key, driver.start_claiming(now_ms), now_ms)
            elif not leads and driver.eager:
                driver.eager = False
                effects += self._stop(key, now_ms, ReleaseReason.WITH_ITS_TOPIC)
        return effects

    def _to_ask(self, now_ms: int) -> list[ClaimKey]:
        """The claims to ask for within its limit: those that its client id owned come first."""
        units = self._units()
        busy = sum(driver.acts or driver.asks for _, driver in self._drivers(units))
        claims_max = self.claiming.claims_max
        room = len(units) if claims_max is None else claims_max - busy
        found: list[ClaimKey] = []
        for key in sorted(units, key=lambda key: (not self._was_ours(key), key)):
            if len(found) < room and self._looks_claimable(key, now_ms):
                found.append(key)
        return found

    def _was_ours(self, key: ClaimKey) -> bool:
        return self.driver(key).consumer.known.owner_client == self.me.client_id

    def _looks_claimable(self, key: ClaimKey, now_ms: int) -> bool:
        """Whether it may ask for the claim now; if not yet, schedule another choice."""
        at_ms = self._claimable_at_ms(key)
        return at_ms is not None and not self._not_yet(at_ms, now_ms)

    def _claimable_at_ms(self, key: ClaimKey) -> int | None:
        driver = self.driver(key)
        at_ms = driver.claimable_at_ms
        alive_ms = driver.consumer.known.last_heartbeat_ms
        if at_ms is None or alive_ms is None or self.claiming.fast_reclaim:
            return at_ms
        stale_at_ms = alive_ms + int(self.me.rules.stale_after_ms) + 1
        return max(at_ms, driver.clock.own_ms(stale_at_ms))

    # --- fair share -------------------------------------------------------------------------------

    def _sharer(self) -> Sharer:
        wanted = ((key, held) for key, held in self._held.items() if not held.removed)
        fixed = frozenset(key for key, held in wanted if held.fixed)
        most = self.claiming.claims_max
        return Sharer(
            self.me.instance_id,
            self.me.client_id,
            fixed.union(self._units()),
            fixed,
            None if most is None else most + len(fixed),
        )

    def _ask_for_a_share(self, now_ms: int) -> list[ClaimEffect]:
        """Carry out the decisions of `share` until there are none."""
        effects = []
        for _ in range(1 + len(self._held)):
            decision = self._share.look(self._group_view(), now_ms)
            asked = [key for key in decision.ask if self._looks_claimable(key, now_ms)]
            if decision.request is not None:
                asked.append(decision.request)
            for key in asked:
                effects += self._did(key, self.driver(key).request(now_ms), now_ms)
            if decision.look_again_ms is not None:
                self._not_yet(decision.look_again_ms, now_ms)
            if decision.give is None:
                break
            effects += self._stop(decision.give, now_ms, ReleaseReason.SHARED)
        return effects

    def _group_view(self) -> GroupView:
        """The group's state by the log, with times by the steady clock."""
        drivers = dict(self._drivers(self._share.me.keys))
        owners, asked, giving = dict[ClaimKey, Owner](), set[ClaimKey](), set[ClaimKey]()
        for key, driver in drivers.items():
            known = driver.consumer.known
            if known.owner_instance is not None and known.last_heartbeat_ms is not None:
                alive_ms = driver.clock.own_ms(known.last_heartbeat_ms)
                owners[key] = Owner(known.owner_instance, known.owner_client or "", alive_ms)
            if driver.asks:
                asked.add(key)
            if not driver.wants and known.owner_instance == self.me.instance_id:
                giving.add(key)
        requests = {
            client: Request(
                each.key, self._views[self._home(each.key.topic)].clock.own_ms(each.at_ms)
            )
            for client, each in self._requests.items()
        }
        return GroupView(owners, requests, frozenset(asked), frozenset(giving))


def _patience(timing: Timing, me: InstanceConfig) -> ShareTiming:
    interval_ms = timing.heartbeat_every_ms
    return ShareTiming(
        stale_after_ms=int(me.rules.stale_after_ms),
        renew_ms=interval_ms,
        settle_ms=min(1_000, interval_ms // 4),
        grace_ms=min(5_000, interval_ms),
    )

"""A random run: everything happens, then nothing goes wrong any more, and a group comes to rest."""

from __future__ import annotations

from functools import partial
from typing import Any

from kafka_marshal.core.groups.state import Topic, TopicPartition
from kafka_marshal.core.groups.verdicts import GroupRefused
from kafka_marshal.rpc.codec import BY_NAME, RpcRequest
from tests.machines.groups.members import SESSION_MS, Member
from tests.machines.groups.world import GROUP, Faults, Process, Violated, World


def created(world: World, **body: Any) -> Member:
    """Somebody who creates the group, as often as is needed."""
    creator = Member(world, "creator", is_alive=True)
    world.members.append(creator)

    def ask() -> None:
        if world.group is not None:
            creator.die()
            return
        if creator.link is not None:
            world.close(creator.link)
        creator.link = world.connect(creator)
        if creator.link is not None:
            settings = {
                "ConsumerGroup": GROUP,
                "SessionTimeout": SESSION_MS,
                "Topics": ["t"],
                "Ephemeral": 0,
                "Rebalance": "incremental",
                "Strategy": "sticky",
                **body,
            }
            world.send(creator.link, RpcRequest(BY_NAME["CreateGroup"], 1, 1, "c", settings))
        world.after(500, ask)

    ask()
    world.run_until(lambda: world.group is not None)
    return creator


class Happenings:
    """What befalls a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.chance = world.chance
        self.names = 0

    def member(self) -> Member:
        """One more member."""
        self.names += 1
        static = (TopicPartition("t", 1),) if self.chance.random() < 0.2 else ()
        commits = self.chance.random() < 0.5
        return Member(self.world, f"m{self.names}", static=static, commits=commits).begin()

    def alive(self) -> list[Member]:
        """Those that live and stay."""
        return [each for each in self.world.members if each.is_alive and not each.left]

    def rewind(self) -> None:
        """Somebody sets a position."""
        by = Member(self.world, "somebody")
        self.world.members.append(by)
        by.link = self.world.connect(by)
        if by.link is not None:
            offset = self.chance.choice((0, 3, -1, -2))
            rows: Any = [{"Topic": "t", "Partition": 0, "Offset": offset}]
            body = {"ConsumerGroup": GROUP, "NewOffsets": [], "NewOffsetsV1": rows}
            self.world.send(by.link, RpcRequest(BY_NAME["RewindConsumer"], 1, 1, "by", body))
        by.is_alive = False

    def stall(self, process: Process) -> None:
        """A reader hears nothing for a while, and another server may begin to serve."""
        world = self.world
        process.reads_from = world.now_ms + self.chance.randrange(500, 8_000)
        for other in world.processes:
            if other is not process and other.is_alive:
                world.give(other, partial(other.server.claimed, 0))

    def something(self) -> None:
        """One thing happens."""
        world, chance = self.world, self.chance
        serving = [each for each in world.processes if each.is_alive]
        members = self.alive()
        match chance.randrange(16):
            case 0 if len(serving) < 3:
                world.start(begin=world.position if chance.random() < 0.5 else 0)
            case 1 if len(serving) > 1:
                world.crash(chance.choice(serving))
            case 2 | 3 if serving:
                world.pause(chance.choice(serving), chance.randrange(200, 6_000))
            case 4 if serving:
                process, claims = chance.choice(serving), chance.random() < 0.6

                def claim(now: int) -> Any:
                    server = process.server
                    return server.claimed(0, now) if claims else server.unclaimed(0, now)

                world.give(process, claim)
            case 5 | 6 if len(members) < 4:
                self.member()
            case 7 if len(members) > 1:
                chance.choice(members).die()
            case 8 if len(members) > 1:
                chance.choice(members).leave()
            case 9 if members:
                member = chance.choice(members)
                member.asleep_until = world.now_ms + chance.randrange(500, 8_000)
            case 10 if members:
                chance.choice(members).restart()
            case 11:
                self.rewind()
            case 12 if world.topics["t"].count < 7:
                known = world.topics["t"]
                topic_id = known.topic_id if chance.random() < 0.8 else f"{known.topic_id}+"
                world.topics["t"] = Topic(known.count + 1, topic_id)
            case 13 if members:
                chance.choice(members).keeps = chance.random() < 0.5
            case 14 | 15 if serving:
                self.stall(chance.choice(serving))
            case _:
                pass


def everything_happens(seed: int, steps: int = 60, **settings: Any) -> World:
    """Play a run, and hold it to what is promised.

    Raises:
        Violated: something promised is not so.
    """
    settings = {"count_interval_ms": 2_000, "snapshot_events": 25, **settings}
    world = World(seed, **settings)
    rare = world.chance.choice((0.0, 0.01, 0.03))
    rebalance = world.chance.choice(("incremental", "eager"))
    strategy = world.chance.choice(("range", "round_robin", "sticky"))
    for _ in range(2):
        world.start()
    created(world, Rebalance=rebalance, Strategy=strategy)
    happenings = Happenings(world)
    world.faults = Faults(lost=rare, unknown=rare, late=rare, unasked=rare)
    for _ in range(steps):
        happenings.something()
        world.run(world.now_ms + world.chance.randrange(10, 1_500))
    if rare == 0 and world.count(GroupRefused.OUT_OF_NUMBER):
        raise Violated("NumbersUnbroken: an event was refused, and none was lost")
    come_to_rest(world)
    return world


def come_to_rest(world: World) -> None:
    """Nothing goes wrong any more: one server serves, and members live and let go."""
    world.faults = Faults()
    alive = [each for each in world.processes if each.is_alive]
    last = alive[0] if alive else world.start()
    for process in alive[1:]:
        world.crash(process)
    for member in world.members:
        member.keeps, member.asleep_until = False, 0
    world.run(max(world.now_ms, last.asleep_until, last.reads_from) + 1)
    world.give(last, lambda now: last.server.claimed(0, now))
    world.run(world.now_ms + 8 * SESSION_MS)
    world.check_rest()
    if last.server.view(0) != world.states[last.read]:
        raise Violated("ReadersAgree: the server knows another state")

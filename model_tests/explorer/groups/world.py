"""What a cfg of `MCGroupWorld.tla` says: bounds, and where its world begins.

It does not know what can happen in a world: that is `environment`'s.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set

from attrs import evolve, frozen

from kafka_marshal.core.groups.events import (
    ControllerStarted,
    Event,
    EventRecord,
    GroupCreated,
    MemberRegistered,
    PartitionsCounted,
    Rebalanced,
    Reconciled,
)
from kafka_marshal.core.groups.reducer import step
from kafka_marshal.core.groups.state import (
    Controllership,
    Group,
    Rebalance,
    Topic,
    TopicPartition,
)
from kafka_marshal.modelcheck.models import Model
from model_tests.explorer import configuration
from model_tests.explorer.substitutions import UnknownName

GROUP = "g"
HOST, PORT = "h", 9
NUMBERS = {"OneTick": 1, "TwoTicks": 2, "ThreeTicks": 3, "FourTicks": 4}
REQUESTS_MAX: Mapping[str, Callable[[str], int]] = {
    "TwoAndOne": lambda member: 2 if member == "m1" else 1,
    "OneEach": lambda member: 1,
    "TwoOfM2": lambda member: 2 if member == "m2" else 0,
    "OneATick": lambda member: 5,
    "OnlyM2": lambda member: 1 if member == "m2" else 0,
    "NoRequest": lambda member: 0,
}
KNOWN = {
    *("Beginning", "FirstRequests", "FirstAnswers", "RequestsMax", "Says", "Timeout"),
    *("ArrivesOnce", "TimeMax", "IsPunctual", "SleepsMax"),
}


@frozen
class WorldOfGroups:
    """Bounds, by the names of `GroupWorld.tla`'s constants."""

    beginning: tuple[EventRecord, ...]
    told_after: int
    old_requests: bool
    """m1 asked before it owned anything."""
    old_connections: bool
    """m1 asked each controller once, without memory."""
    old_answers: bool
    controllers: tuple[int, ...]
    members: tuple[str, ...]
    log_max: int
    requests_max: tuple[int, ...]
    elections_max: int
    expiries_max: int
    rewinds_max: int
    losses_max: int
    messages_max: int
    says_nothing: bool
    every_one: bool
    """Every request arrives once."""
    timeout: int
    time_max: int
    sleeps_max: int
    is_punctual: bool


def start(supersedes: int, controller: int) -> ControllerStarted:
    """Spec: Start."""
    return ControllerStarted(supersedes, controller, HOST, PORT)


def tp(partition: int) -> TopicPartition:
    """A partition of the topic."""
    return TopicPartition("t", partition)


def register(member: str) -> MemberRegistered:
    """Spec: Register."""
    return MemberRegistered(member, "c", frozenset({"t"}), frozenset(), fresh=True)


def _alone(count: int, rebalance: Rebalance) -> list[Event]:
    topics = {"t": Topic(count, "first")}
    return [
        start(-1, 1),
        GroupCreated(10_000, topics, rebalance, "sticky", ephemeral=False),
        register("m1"),
        Rebalanced({tp(number): "m1" for number in range(count)}),
    ]


def _lets_go(member: str, as_of: int) -> Reconciled:
    return Reconciled(member, as_of, frozenset(), {})


def _each(count: int) -> Rebalanced:
    return Rebalanced({tp(number): "m2" if number == 1 else "m1" for number in range(count)})


ALONE = _alone(1, Rebalance.INCREMENTAL)
JOINED = [*ALONE, register("m2")]
MOVING = [*JOINED, Rebalanced({tp(0): "m2"})]
MOVED = [*MOVING, _lets_go("m1", 6)]
EAGER = [*_alone(2, Rebalance.EAGER), register("m2"), _each(2), _lets_go("m1", 6)]
BEGINNINGS: Mapping[str, Sequence[Event]] = {
    "AloneOne": ALONE,
    "JoinedOne": JOINED,
    "MovingOne": MOVING,
    "MovedOne": MOVED,
    "MovedGrown": [*MOVED, PartitionsCounted("t", 2, "first")],
    "RestedOne": [*JOINED, Rebalanced({tp(0): "m1"})],
    "EagerMoving": [
        *EAGER,
        PartitionsCounted("t", 3, "first"),
        Rebalanced({tp(0): "m1", tp(1): "m2", tp(2): "m2"}),
    ],
}
"""By the names of `MCGroupWorld.tla`'s operators."""


def rightly(events: Iterable[Event]) -> tuple[EventRecord, ...]:
    """The records that write these events rightly. Spec: RightlyAll."""
    known, records = Controllership(), []
    for offset, event in enumerate(events):
        record = EventRecord(0, offset, 0, event)
        if not isinstance(event, ControllerStarted):
            record = evolve(record, group=GROUP, epoch=known.epoch, number=known.number + 1)
        known = step(known, record).controllership
        records.append(record)
    return tuple(records)


def group_at(records: Sequence[EventRecord], count: int) -> Group:
    """The group after the first records. Spec: GroupAt."""
    known = Controllership()
    for record in records[:count]:
        known = step(known, record).controllership
    return known.groups[GROUP]


def world_of(model: Model, replaced: Set[str] = frozenset()) -> WorldOfGroups:
    """The world of a model; operators of `replaced` are not looked at.

    Raises:
        UnknownName: its cfg puts an operator in the place of another that is not known here.
    """
    cfg = configuration.read(model.cfg)
    if unknown := cfg.substituted.keys() - KNOWN - replaced:
        raise UnknownName(", ".join(sorted(unknown)))
    told = cfg.substituted
    members = tuple(re.findall(r"\w+", cfg.assigned["Ms"]))
    return WorldOfGroups(
        beginning=rightly(BEGINNINGS[told["Beginning"]]),
        told_after=cfg.number("ToldAfter"),
        old_requests=told["FirstRequests"] in ("OldRequests", "OldOfBoth"),
        old_connections=told["FirstRequests"] in ("OldConnections", "OldOfBoth"),
        old_answers=told["FirstAnswers"] == "OldAnswers",
        controllers=tuple(map(int, re.findall(r"\d+", cfg.assigned["Controllers"]))),
        members=members,
        log_max=cfg.number("LogMax"),
        requests_max=tuple(map(REQUESTS_MAX[told["RequestsMax"]], members)),
        elections_max=cfg.number("ElectionsMax"),
        expiries_max=cfg.number("ExpiriesMax"),
        rewinds_max=cfg.number("RewindsMax"),
        losses_max=cfg.number("LossesMax"),
        messages_max=cfg.number("MessagesMax"),
        says_nothing="Says" in told,
        every_one="ArrivesOnce" in told,
        timeout=NUMBERS[told["Timeout"]] if "Timeout" in told else 0,
        time_max=NUMBERS[told["TimeMax"]] if "TimeMax" in told else 0,
        sleeps_max=NUMBERS[told["SleepsMax"]] if "SleepsMax" in told else 0,
        is_punctual="IsPunctual" in told,
    )

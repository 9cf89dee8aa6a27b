"""The graphs of `MCGroupWorld.tla`, and what its states must be, by the machines of groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, Final

from kafka_marshal.core.groups import guards, settling
from kafka_marshal.core.groups.events import MemberExpired
from kafka_marshal.core.groups.state import Group, GroupPartition
from kafka_marshal.core.groups.verdicts import GroupAccepted
from kafka_marshal.machines.groups import controller, group_member
from kafka_marshal.modelcheck.models import Model
from model_tests.explorer import configuration, explore
from model_tests.explorer.explore import Graph
from model_tests.explorer.groups.environment import EnvironmentOfGroups
from model_tests.explorer.groups.parts import GroupsState, Log
from model_tests.explorer.groups.world import GROUP, WorldOfGroups, world_of
from model_tests.explorer.substitutions import Replaced
from model_tests.mutants.hand_made import HandMade


def _never(*_: object) -> bool:
    return False


def _granted_at_once(group: Group, partition: GroupPartition) -> bool:
    return partition.owner != partition.target and partition.target in group.members


_MADE: Mapping[tuple[str, str], tuple[ModuleType, Callable[..., Any]]] = {
    ("IsOld", "Waived"): (group_member, _never),
    ("IsClosed", "HearsClosed"): (group_member, _never),
    ("IsVoid", "NeverVoid"): (controller, _never),
    ("NotTold", "WaivedOfThree"): (guards, _never),
    ("IsGranted", "GrantedAtOnce"): (settling, _granted_at_once),
}
MISTAKES: Final = {
    pair: HandMade("".join(pair), f"{pair[0]} is {pair[1]}", module, function, instead)
    for pair, (module, instead) in _MADE.items()
    if (function := "".join(f"_{c.lower()}" if c.isupper() else c for c in pair[0])[1:])
}
"""What a cfg puts in the place of a rule, and the same in the machine."""


class JudgesOfGroups:
    """The invariants of one model that are judged here."""

    def __init__(self, given: WorldOfGroups, promised: Sequence[str]) -> None:
        """Those that are promised."""
        self._members = given.members
        self._judged = [(name, JUDGED[name]) for name in promised if name in JUDGED]

    def broken(self, state: GroupsState) -> Iterator[str]:
        """The names of those that a state breaks."""
        for at, member in enumerate(self._members):
            key = "owns", member, state.members[at]
            if key not in state.log.memo:
                state.log.memo[key] = owns_what_it_holds(state, at, member)
            if not state.log.memo[key]:
                yield from (name for name, allows in self._judged if not allows(state, at, member))


def owns_what_it_holds(state: GroupsState, at: int, member: str) -> bool:
    """A member owns all that it holds, by the log."""
    partitions = state.log.after.groups[GROUP].partitions
    return all(
        tp in partitions and partitions[tp].owner == member for tp in state.members[at].state.holds
    )


def is_expelled(state: GroupsState, at: int, member: str) -> bool:
    """It was given up since what it knows. Spec: IsExpelled."""
    return expelled_at(state.log, member) > state.members[at].state.generation


def expelled_at(log: Log, member: str) -> int:
    """The last event by which the member was given up; 0: none. Spec: ExpelledAt."""
    numbers = (
        entry.after.number
        for entry in reversed(log.path[1:])
        if entry.verdict is GroupAccepted.EXPIRED
        and entry.record is not None
        and isinstance(entry.record.event, MemberExpired)
        and entry.record.event.member == member
    )
    return next(numbers, 0)


def is_stopped(state: GroupsState, at: int, member: str) -> bool:
    """It has stopped by its own clock. Spec: IsStopped."""
    return state.clock.now >= state.clock.until[at]


JUDGED: Final[Mapping[str, Callable[[GroupsState, int, str], bool]]] = {
    "NoTwoOwners": is_expelled,
    "LeaseOver": is_stopped,
}
"""When a member may hold what it does not own, by the names of invariants."""


def mistakes(model: Model) -> tuple[HandMade, ...]:
    """The mistakes of a model that the machines can make."""
    pairs = configuration.read(model.cfg).substituted.items()
    return tuple(MISTAKES[pair] for pair in pairs if pair in MISTAKES)


def is_compared(model: Model) -> bool:
    """It must hold, or the machines make its mistake and its property is judged."""
    return not model.must_fail or (model.violates in JUDGED and bool(mistakes(model)))


def explore_groups(model: Model) -> Graph:
    """The graph of one model of `MCGroupWorld.tla`."""
    promised = configuration.read(model.cfg).names("INVARIANTS")
    replaced = frozenset(operator for operator, _ in MISTAKES)
    return explore_world(world_of(model, replaced), Replaced(machines=mistakes(model)), promised)


def explore_world(given: WorldOfGroups, replaced: Replaced, promised: Sequence[str] = ()) -> Graph:
    """The graph of one world, up to the first state that breaks one of these invariants."""

    def begun() -> tuple[EnvironmentOfGroups, JudgesOfGroups]:
        return EnvironmentOfGroups(given), JudgesOfGroups(given, promised)

    return explore.all_states(begun, replaced)

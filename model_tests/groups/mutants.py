"""Hand-made mutants of groups: at least one for each rule of `Group.tla`.

Each is a mistake that somebody could make on a tired day. Names are those of the configurations of
`MCGroupEvents` where the same mistake is made there. All of them part from TLC's steps; those that
a property forbids name it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

import attrs

from kafka_marshal.core.groups import guards, reducer, settling, state, transitions
from kafka_marshal.core.groups.events import (
    ControllerStarted,
    EventRecord,
    MemberRegistered,
    PartitionsCounted,
    PartitionsRewound,
    Rebalanced,
    Reconciled,
)
from kafka_marshal.core.groups.invariants import GroupProperty
from kafka_marshal.core.groups.reducer import GroupOutcome
from kafka_marshal.core.groups.state import (
    Controllership,
    Group,
    GroupPartition,
    TopicPartition,
)
from kafka_marshal.core.groups.verdicts import GroupAccepted
from model_tests.mutants.hand_made import HandMade

P = GroupProperty


@attrs.frozen
class OfGroups:
    """A mistake, and the properties that must notice it; none: no property forbids it."""

    mistake: HandMade
    breaks: tuple[GroupProperty, ...] = ()


MUTANTS: list[OfGroups] = []


def _mutant(module: ModuleType, attribute: str, *parts: Any) -> None:
    """Its place; then its name, what is wrong, what it is instead, the properties that notice."""
    name, about, instead, *breaks = parts
    assert attribute in vars(module)
    MUTANTS.append(OfGroups(HandMade(name, about, module, attribute, instead), tuple(breaks)))


def never(*_: object) -> bool:
    return False


# --- who decides ----------------------------------------------------------------------------------

_mutant(
    reducer,
    "deposed",
    *("NoDeposed", "an epoch that has ended is good", never),
    P.CONTROLLER_FENCED,
)
_mutant(
    reducer,
    "never_started",
    *("NoNeverStarted", "an epoch that never began is good", never),
    P.CONTROLLER_FENCED,
)
_mutant(
    reducer,
    "not_the_epoch",
    *("NoSupersedes", "the last one that starts is controller", never),
    P.CONTROLLER_FENCED,
)
_mutant(
    reducer,
    "out_of_number",
    *("NoNumber", "a copy counts, and an event behind a lost one", never),
    P.NUMBERS_UNBROKEN,
)
_mutant(reducer, "malformed", "NoMalformed", "headers that are no numbers are numbers", never)


_started, _group_deleted = reducer.controller_started, reducer.group_deleted


def forgetting(
    controllership: Controllership, record: EventRecord, event: ControllerStarted
) -> GroupOutcome:
    return _started(attrs.evolve(controllership, groups={}), record, event)


_mutant(
    reducer,
    "controller_started",
    *("FailoverForgets", "a new controller begins without groups", forgetting),
    P.FAILOVER_KEEPS_GENERATION,
)


def counting_refusals(controllership: Controllership, record: EventRecord) -> GroupOutcome:
    outcome = _group_deleted(controllership, record)
    if outcome.verdict is GroupAccepted.DELETED:
        return outcome
    return attrs.evolve(outcome, controllership=reducer.counted(controllership))


_mutant(
    reducer,
    "group_deleted",
    *("RefusedCounts", "a deletion that is refused counts", counting_refusals),
    P.REFUSED_CHANGES_NOTHING,
)
_mutant(
    reducer,
    "not_empty",
    *("DeletesAny", "a group is deleted under its members", never),
    P.NOT_EMPTY_IS_KEPT,
)

# --- settling -------------------------------------------------------------------------------------

_owners_differ = settling.owners_differ


def granted_at_once(group: Group, partition: GroupPartition) -> bool:
    return partition.owner != partition.target and partition.target in group.members


def granted_in_place(partition: GroupPartition, number: int) -> GroupPartition:
    return attrs.evolve(partition, owner=partition.target, revoking=0)


def only_existing(group: Group) -> Mapping[TopicPartition, GroupPartition]:
    return {tp: each for tp, each in group.partitions.items() if group.exists(tp)}


_mutant(
    settling,
    "is_granted",
    *("GrantsAtOnce", "a partition is granted before its owner let it go", granted_at_once),
    P.REVOKE_BEFORE_ASSIGN,
)
_mutant(
    settling,
    "barrier_holds",
    *("NoBarrier", "eager, what is free is granted at once", never),
    P.ALL_OR_NONE,
)
_mutant(
    settling,
    "granted",
    *("GrantsInPlace", "a grant keeps the tenure of the owner before", granted_in_place),
    P.TENURE_IS_OF_ONE_OWNER,
    P.OWNED_WAS_GRANTED,
)
_mutant(
    settling,
    "remaining",
    *("DropsTheGone", "a topic that is gone takes what is owned along", only_existing),
    P.REVOKE_BEFORE_ASSIGN,
)
_mutant(
    settling,
    "remaining",
    *("KeepsTheGone", "of a topic that is gone everything stays", lambda group: group.partitions),
    P.PARTITIONS_ARE_THE_TOPICS,
)
_mutant(
    settling,
    "settle",
    *("NeverSettles", "what is free stays free", lambda group, number: group),
    P.IS_SETTLED,
)
_mutant(
    settling,
    "owners_differ",
    *("OwnersMoveIt", "the generation stays when owners change", never),
    P.GENERATION_GROWS,
    P.GENERATION_IS_THE_LATEST,
)

# --- what a member says ---------------------------------------------------------------------------

_mutant(
    guards,
    "not_owner",
    *("NoOwner", "anybody commits that knows the tenure", never),
    P.COMMIT_FENCED,
)
_mutant(guards, "other_tenure", "NoTenure", "any tenure is good", never, P.COMMIT_FENCED)
_mutant(guards, "not_ahead", "NotAhead", "a late commit sets it back", never, P.OFFSETS_MONOTONE)
_mutant(
    guards,
    "not_told",
    *("NotTold", "what a member said long ago lets go of what it holds now", never),
    P.REVOKE_BEFORE_ASSIGN,
)


def not_told_later(group: Group, tp: TopicPartition, event: Reconciled) -> bool:
    return event.as_of < group.partitions[tp].revoking


_mutant(
    guards,
    "not_told",
    *("KnowsTheFuture", "a generation that never was says something", not_told_later),
    P.REVOKE_BEFORE_ASSIGN,
)


def let_go_revoking(partition: GroupPartition) -> GroupPartition:
    return attrs.evolve(partition, owner=None)


def revoked_anew(partition: GroupPartition, number: int) -> GroupPartition:
    return attrs.evolve(partition, revoking=number)


_mutant(
    transitions,
    "let_go",
    *("LetsGoRevoking", "what is free must still be let go", let_go_revoking),
    P.REVOKING_IS_OWNED,
)
_mutant(
    transitions,
    "revoked",
    *("RevokesAnew", "who was told to let go must be told again", revoked_anew),
)


def rewound_in_place(group: Group, event: PartitionsRewound, number: int) -> Group:
    moved = {
        tp: attrs.evolve(group.partitions[tp], position=position)
        for tp, position in event.positions.items()
    }
    return attrs.evolve(group, partitions={**group.partitions, **moved}, generation=number)


_mutant(
    transitions,
    "partitions_rewound",
    *("OldTenure", "a rewind keeps the tenure", rewound_in_place),
    P.REWIND_STICKS,
)
_not_held = transitions.not_held


def anything_not_held(group: Group, event: Reconciled) -> list[TopicPartition]:
    held = event.held
    return [] if held is None else [tp for tp in group.owned_by(event.member) if tp not in held]


_mutant(
    transitions,
    "not_held",
    *("LetsGoAnything", "what it need not let go is free, and granted anew", anything_not_held),
)

# --- members --------------------------------------------------------------------------------------

_without_member = transitions.without_member


def without_generation(group: Group, member: str, number: int) -> Group:
    return attrs.evolve(_without_member(group, member, number), generation=group.generation)


def without_letting_go(group: Group, member: str, number: int) -> Group:
    return attrs.evolve(_without_member(group, member, number), partitions=group.partitions)


_mutant(
    transitions,
    "without_member",
    *("LeavesAsItIs", "a member leaves and the generation stays", without_generation),
    P.GENERATION_GROWS,
)
_mutant(
    transitions,
    "without_member",
    *("LeavesItsOwn", "a member that left still owns", without_letting_go),
    P.OWNER_IS_MEMBER,
)


def wishes_made_anew(
    group: Group, event: MemberRegistered, number: int
) -> Mapping[TopicPartition, int]:
    return dict.fromkeys(event.static, number)


def remembering(group: Group, member: str, number: int) -> Group:
    return group


_mutant(transitions, "static_of", "WishesAnew", "who asks again asks last", wishes_made_anew)
_mutant(transitions, "fresh", "Remembers", "who comes back without memory goes on", remembering)

# --- topics and targets ---------------------------------------------------------------------------

_mutant(
    guards,
    "remade",
    *("NotRemade", "another topic of the name goes on where the old one was", never),
    P.NEW_TOPIC_BEGINS_ANEW,
)
_mutant(
    guards,
    "still_owned",
    *("NotStillOwned", "a topic comes back while its old partitions are held", never),
    P.NEW_TOPIC_BEGINS_ANEW,
)
_mutant(guards, "shrunk", "Shrinks", "a topic has fewer partitions", never, P.OFFSETS_MONOTONE)


def without_revoking(group: Group, event: PartitionsCounted, number: int) -> Group:
    topics = {name: each for name, each in group.topics.items() if name != event.topic}
    return attrs.evolve(group, topics=topics, generation=number)


_mutant(
    transitions,
    "gone",
    *("GoneAndKept", "nobody must let go of a topic that is gone", without_revoking),
    P.PARTITIONS_ARE_THE_TOPICS,
)
_mutant(guards, "not_a_member", "AnyMember", "a target may name anybody", never)
_mutant(
    guards,
    "not_wanted",
    *("NotWanted", "a target may give what nobody asked for", never),
    P.REBALANCE_IS_RIGHT,
)
_mutant(
    guards,
    "not_all_assigned",
    *("NotAllAssigned", "a target may leave something out", never),
    P.REBALANCE_IS_RIGHT,
)
_mutant(
    guards,
    "nothing_changed",
    *("NothingChanged", "a target is written that nobody needs", never),
    P.REBALANCE_IS_RIGHT,
)


def due_by_what_it_was_made_of(group: Group) -> bool:
    return group.target_of != state.TargetOf(state.wishes(group), group.topics)


def moves_in_place(group: Group, partition: GroupPartition) -> bool:
    return False


def of_what_was(group: Group, event: Rebalanced, number: int) -> Group:
    return attrs.evolve(_rebalanced(group, event, number), target_of=group.target_of)


_rebalanced = transitions.rebalanced
_mutant(
    guards,
    "is_due",
    *("CameBack", "a topic that went and came back is what it was", due_by_what_it_was_made_of),
)
_mutant(
    transitions,
    "must_let_go",
    *("NothingRevoked", "nobody must let anything go", moves_in_place),
    P.KEPT_BY_ITS_TARGET,
)
_mutant(
    transitions,
    "rebalanced",
    *("NeverDone", "a rebalance stays due", of_what_was),
    P.REBALANCE_IS_RIGHT,
)

"""What a cfg puts in the place of an operator, and which states it looks away from: by name.

Every substitution and constraint that changes a graph has its counterpart here. One that this room
does not know is an error, since the graphs would differ for a reason that nobody named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import attrs

from kafka_marshal import (
    Accepted,
    Claim,
    ClaimingMessages,
    ClaimingPartition,
    Heartbeat,
    Record,
    Refused,
    ReleasingPartition,
    Rules,
    Verdict,
)
from kafka_marshal.core.claims import fenced
from kafka_marshal.core.claims.verdicts import FENCED_WINS
from kafka_marshal.machines.consumer import consumer as machine
from kafka_marshal.machines.consumer.consumer import ConsumerState, Forbidden, InstanceConfig
from model_tests.explorer.admins import mistakes as mistakes_of_admins
from model_tests.explorer.claims import environment, mistakes
from model_tests.explorer.claims.environment import Environment
from model_tests.explorer.claims.instance import looks_claimable
from model_tests.explorer.claims.parts import Local, Log, State
from model_tests.explorer.claims.world import Bounds
from model_tests.explorer.configuration import Configuration
from model_tests.explorer.ranges import mistakes as mistakes_of_ranges
from model_tests.explorer.ranges import world as world_of_ranges
from model_tests.explorer.shares import mistakes as mistakes_of_shares
from model_tests.mutants.hand_made import HandMade

OWN_ROOM = {"World", "IsStale", "IsPaused", "ClockRewindMaxMs"} | world_of_ranges.OWN_ROOM
"""Parameters that a room of worlds reads."""

VIEWS = {"WithoutTheLast", "WithTheLate", "TheLog"}
"""What TLC tells states of `MCRanges` apart by: the explorer's states hold no more."""

ONLY_JUDGES = {"SomebodyStaysUp"}
"""Operators that only properties use: they do not change the graph."""

ONLY_EXPORTS = {"ExportStep", "ExportReader", "ExportMachine"}
"""Constraints that are always true."""


_heartbeat: Callable[..., tuple[Claim, Verdict]] = fenced.heartbeat
_releasing_partition: Callable[..., tuple[Claim, Verdict]] = fenced.releasing_partition
_claiming_messages: Callable[..., tuple[Claim, Verdict]] = fenced.claiming_messages
_claiming_partition: Callable[..., tuple[Claim, Verdict]] = fenced.claiming_partition


def in_place(
    claim: Claim, record: Record, message: Heartbeat, rules: Rules
) -> tuple[Claim, Verdict]:
    """R9 repaired. Spec: FastReclaimedInPlace."""
    after, verdict = _heartbeat(claim, record, message, rules)
    if verdict is Accepted.FAST_RECLAIMED:
        after = attrs.evolve(after, position=claim.position, position_set=claim.position_set)
    return after, verdict


def heartbeat_blindly(
    claim: Claim, record: Record, message: Heartbeat, rules: Rules
) -> tuple[Claim, Verdict]:
    """R3 without the maximum. Spec: MovedBlindly."""
    after, verdict = _heartbeat(claim, record, message, rules)
    if verdict in (Accepted.REFRESHED, Accepted.FAST_RECLAIMED):
        after = attrs.evolve(after, position=message.offset)
    return after, verdict


def release_blindly(
    claim: Claim, record: Record, message: ReleasingPartition, rules: Rules
) -> tuple[Claim, Verdict]:
    """R3 without the maximum. Spec: MovedBlindly."""
    after, verdict = _releasing_partition(claim, record, message, rules)
    if verdict is Accepted.RELEASED:
        after = attrs.evolve(after, position=message.offset)
    return after, verdict


def granted_anyway(
    claim: Claim, record: Record, message: ClaimingMessages, rules: Rules
) -> tuple[Claim, Verdict]:
    """R4 without NotAhead. Spec: Waived."""
    after, verdict = _claiming_messages(claim, record, message, rules)
    if verdict is Refused.NOT_AHEAD:
        alive_ms, position = after.clock_ms, message.offset
        granted = attrs.evolve(
            after, position=position, position_set=True, last_heartbeat_ms=alive_ms
        )
        return granted, Accepted.GRANTED
    return after, verdict


def under_the_old_epoch(
    claim: Claim, record: Record, message: ClaimingPartition, rules: Rules
) -> tuple[Claim, Verdict]:
    """A win that keeps the epoch of its predecessor. Spec: WonUnderTheOldEpoch."""
    after, verdict = _claiming_partition(claim, record, message, rules)
    if verdict in FENCED_WINS and claim.epoch is not None:
        after = attrs.evolve(after, epoch=claim.epoch)
    return after, verdict


def may_send_what_matters(bounds: Bounds, local: Local, log: Log, kind: str) -> bool:
    """Spec: MaySendWhatMatters."""
    caught_up = not local.outbox and local.consumer.view == log.length
    says = kind in ("Heartbeat", "ClaimingMessages")
    return _may_send(bounds, local, log, kind) and (caught_up or not says)


def may_heartbeat_what_it_did(me: InstanceConfig, consumer: ConsumerState) -> Forbidden | None:
    """Spec: MayHeartbeatWhatItDid."""
    against = machine.may_act_as_owner(me, consumer)
    if against is None and machine.offset_to_send(me, consumer) <= consumer.known.position:
        return Forbidden.NOTHING_AHEAD
    return against


def looks_claimable_and_open(me: InstanceConfig, consumer: ConsumerState, now_ms: int) -> bool:
    """Spec: LooksClaimableAndOpen."""
    until_ms, pauser = consumer.known.paused_until_ms, consumer.known.pauser
    is_open = until_ms is None or now_ms >= until_ms or pauser == me.instance_id
    return is_open and looks_claimable(me, consumer, now_ms)


_may_send = environment.may_send


def _reducer(name: str, *replaced: tuple[str, object]) -> tuple[HandMade, ...]:
    return tuple(HandMade(name, name, fenced, attribute, new) for attribute, new in replaced)


def _mutant(name: str) -> tuple[HandMade, ...]:
    named = [each for each in (*mistakes.AS_SPECIFIED, *mistakes.READERS) if each.name == name]
    assert len(named) == 1, name
    return tuple(named)


MACHINES: Mapping[tuple[str, str], tuple[HandMade, ...]] = {
    ("FastReclaimed", "FastReclaimedInPlace"): _reducer("InPlace", ("heartbeat", in_place)),
    ("Moved", "MovedBlindly"): _reducer(
        "NoMaximum", ("heartbeat", heartbeat_blindly), ("releasing_partition", release_blindly)
    ),
    ("NotAhead", "Waived"): _reducer("NotAhead", ("claiming_messages", granted_anyway)),
    ("Won", "WonUnderTheOldEpoch"): _reducer(
        "OldEpoch", ("claiming_partition", under_the_old_epoch)
    ),
    ("MaySend", "MaySendWhatMatters"): (
        HandMade("WhatMatters", "bounds", environment, "may_send", may_send_what_matters),
    ),
    ("MayHeartbeat", "MayHeartbeatWhatItDid"): (
        HandMade("WhatItDid", "bounds", machine, "may_heartbeat", may_heartbeat_what_it_did),
    ),
    ("LooksClaimable", "LooksClaimableAndOpen"): (
        HandMade("AndOpen", "patience", environment, "looks_claimable", looks_claimable_and_open),
    ),
    ("NeverSet", "NeverSetAtZero"): _mutant("NeverSetAtZero"),
    ("NeverSet", "NeverSetAsFarAsKnown"): _mutant("NeverSetAsFarAsKnown"),
    ("CertainIfSet", "SetOrNot"): _mutant("SetOrNot"),
    ("GrantedWhenAsked", "GrantsItself"): _mutant("GrantsItself"),
    ("GrantRead", "GrantsWhatWasAsked"): _mutant("GrantsWhatWasAsked"),
    ("Believes", "BelievesByClient"): _mutant("ByClientId"),
    ("OffsetToSend", "CommitsAhead"): _mutant("CommitsAhead"),
    ("HasResigned", "NeverResigned"): _mutant("ActsAfterRelease"),
    ("InWindow", "InAnyWindow"): _mutant("NoWindow"),
    ("CanCertify", "CertifiesAlways"): _mutant("CertifiesAlways"),
    ("AfterGap", "GapPassedOver"): _mutant("GapPassedOver"),
    ("AfterGap", "GapBeforeSeen"): _mutant("GapBeforeSeen"),
    ("Certifies", "EpochCertifies"): _mutant("EpochOnly"),
    ("Certifies", "EpochAndAWhile"): _mutant("EpochAndAWhile"),
    ("Certifies", "SeenAnything"): _mutant("SeenAnything"),
    ("Certifies", "SeenAlmostAll"): _mutant("SeenAlmostAll"),
    ("DefiniteWin", "WinsWithoutPause"): _mutant("WinsWithoutPause"),
    ("DefiniteWin", "WinsAfterPauseRead"): _mutant("WinsAfterPauseRead"),
    ("DefiniteWin", "WinsOverRequests"): _mutant("WinsOverRequests"),
    ("DefiniteWin", "WinsAtTwoIntervals"): _mutant("WinsAtTwoIntervals"),
    ("AllOwned", "OwnsOne"): (mistakes_of_admins.OWNS_ONE,),
    ("IsSet", "SentIsSet"): mistakes_of_admins.SENT_IS_SET,
    ("WriteMayLand", "NothingLandsLate"): (mistakes_of_admins.NOTHING_LANDS_LATE,),
    ("PausedByAnother", "StaysConfident"): (mistakes_of_admins.STAYS_CONFIDENT,),
    ("Warning", "NeverMind"): (mistakes_of_admins.NEVER_MIND,),
    ("Freed", "KeepsOwner"): mistakes_of_admins.KEEPS_OWNER,
    ("IsPaused", "Waived"): (mistakes_of_admins.IGNORES_PAUSE,),
    **mistakes_of_ranges.AS_SPECIFIED,
    **mistakes_of_shares.AS_SPECIFIED,
}
"""Substitutions that change what a record does, or what an instance may do: what is replaced here
in the place of what is replaced there. Most of them are mistakes, of models that must fail."""

TOGETHER: Mapping[frozenset[tuple[str, str]], tuple[HandMade, ...]] = {
    frozenset((guard, "Waived") for guard in ("Superseded", "NobodyOwns", "Forged")): (
        mistakes_of_admins.ANYBODY_MAY,
    ),
}
"""Substitutions that have a counterpart only where a cfg makes all of them."""


def only_a2_is_late(world: Environment, state: State) -> bool:
    """Spec: OnlyA2IsLate."""
    length: int = state[0].length
    prompt = [each for each in state[2:] if world.names[each.instance] in ("a1", "admin")]
    behind = [length - each.consumer.view + len(each.outbox) for each in prompt]
    return bool(sum(behind) <= 2)


def admin_reads_nothing(world: Environment, state: State) -> bool:
    """Spec: AdminReadsNothing."""
    return all(
        local.consumer.view == 0 for local in state[2:] if world.names[local.instance] == "admin"
    )


def only_c1_reads(world: Environment, state: State) -> bool:
    """Spec: OnlyC1Reads."""
    views = {world.names[each.instance]: each.consumer.view for each in state[2:]}
    in_flight = sum(len(each.outbox) for each in state[2:])
    return bool(views["a1"] == views["admin"] == 0) and in_flight <= 1


def prompt_ones(world: Environment, state: State) -> bool:
    """Spec: PromptOnes."""
    return sum(len(each.outbox) for each in state[2:]) <= 1


def one_under_way(world: Environment, state: State) -> bool:
    """Spec: OneUnderWay."""
    length: int = state[0].length
    of = {world.names[each.instance]: each for each in state[2:]}
    joined = of["c1"].status == environment.UP
    return (
        prompt_ones(world, state)
        and (not joined or length >= 5)
        and (joined or of["a1"].consumer.view + 1 >= length)
        and (length >= 3 or of["admin"].consumer.view + 1 >= length)
    )


def everybody_is_prompt(world: Environment, state: State) -> bool:
    """Spec: EverybodyIsPrompt."""
    length: int = state[0].length
    behind = [length - each.consumer.view + len(each.outbox) for each in state[2:]]
    return bool(sum(behind) <= 3)


def strangers_remember_nothing(world: Environment, state: State) -> bool:
    """Spec: StrangersRememberNothing."""
    strangers = world.world.strangers
    return all(
        local.consumer == ConsumerState() and len(local.outbox) <= 1
        for local in state[2:]
        if world.names[local.instance] in strangers
    )


def loses_no_grant(world: Environment, before: State, after: State) -> bool:
    """Spec: LosesNoGrant."""
    cut = after[1].mishaps["cuts"] > before[1].mishaps["cuts"]
    moved: bool = after[0].claim.position != before[0].claim.position
    return not cut or not moved


def only_the_stopped_end(world: Environment, before: State, after: State) -> bool:
    """Spec: OnlyTheStoppedEnd."""
    return all(
        was.consumer.stopped
        for was, is_now in zip(before[2:], after[2:], strict=True)
        if was.status != environment.CRASHED and is_now.status == environment.CRASHED
    )


def x_pauses_first(world: object, state: State) -> bool:
    """Spec: XPausesFirst, of administrators that differ in nothing but their targets."""
    pauses = state[0].pauses
    return not pauses or bool(pauses[0].by == "x1")


CONSTRAINTS: Mapping[str, Callable[[Any, State], bool]] = {
    "AdminReadsNothing": admin_reads_nothing,
    "EverybodyIsPrompt": everybody_is_prompt,
    "OnlyA2IsLate": only_a2_is_late,
    "OneUnderWay": one_under_way,
    "OnlyC1Reads": only_c1_reads,
    "PromptOnes": prompt_ones,
    "StrangersRememberNothing": strangers_remember_nothing,
    "XPausesFirst": x_pauses_first,
}
ACTION_CONSTRAINTS: Mapping[str, Callable[[Any, State, State], bool]] = {
    "LosesNoGrant": loses_no_grant,
    "OnlyTheStoppedEnd": only_the_stopped_end,
}


@attrs.frozen
class Replaced:
    """What one cfg replaces, and looks away from, of what changes its graph."""

    machines: tuple[HandMade, ...] = ()
    constraints: tuple[str, ...] = ()
    action_constraints: tuple[str, ...] = ()

    @property
    def looks_away(self) -> bool:
        """Some states that could follow are not explored."""
        return bool(self.constraints or self.action_constraints)

    def stays(self, world: object, before: State, after: State) -> bool:
        """A state that is explored."""
        return all(CONSTRAINTS[name](world, after) for name in self.constraints) and all(
            ACTION_CONSTRAINTS[name](world, before, after) for name in self.action_constraints
        )

    @contextmanager
    def made(self) -> Iterator[None]:
        """The substitutions, for as long as the block lasts."""
        with ExitStack() as stack:
            for each in self.machines:
                stack.enter_context(each.made())
            yield


class UnknownName(Exception):
    """A cfg names something that changes its graph and has no counterpart here."""


def shaping(cfg: Configuration) -> list[str]:
    """The constraints of a cfg that change its graph."""
    names = [*cfg.names("CONSTRAINTS"), *cfg.names("ACTION_CONSTRAINTS")]
    return [name for name in names if name not in ONLY_EXPORTS]


def of(cfg: Configuration) -> Replaced:
    """The counterparts of what a cfg names; raises UnknownName for what has none."""
    pairs = [
        pair
        for pair in cfg.substituted.items()
        if pair[0] not in OWN_ROOM | ONLY_JUDGES or pair in MACHINES
    ]
    together = [all_of for all_of in TOGETHER if all_of <= set(pairs)]
    pairs = [pair for pair in pairs if not any(pair in all_of for all_of in together)]
    constraints = cfg.names("CONSTRAINTS")
    actions = [name for name in cfg.names("ACTION_CONSTRAINTS") if name not in ONLY_EXPORTS]
    unknown = [" <- ".join(pair) for pair in pairs if pair not in MACHINES]
    unknown += [name for name in constraints if name not in CONSTRAINTS]
    unknown += [name for name in actions if name not in ACTION_CONSTRAINTS]
    unknown += [name for name in cfg.names("VIEW") if name not in VIEWS]
    if unknown:
        raise UnknownName(", ".join(unknown))
    machines = tuple(each for pair in pairs for each in MACHINES[pair])
    machines += tuple(each for all_of in together for each in TOGETHER[all_of])
    return Replaced(machines, constraints, tuple(actions))

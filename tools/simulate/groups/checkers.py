"""What must hold in every simulated run of groups. Each checker yields what broke it.

Times are true ones, which no process knows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import pairwise
from typing import Final

from attrs import define, field, frozen
from tools.simulate.groups.history import Done, GroupsHistory, HandedOut, Place, Told
from tools.simulate.groups.processes import GROUP
from tools.simulate.groups.world import PARTITION

from kafka_marshal.client.groups.event_log import GROUPS_TOPIC
from kafka_marshal.core.groups.events import (
    MemberExpired,
    MemberLeft,
    PartitionsRewound,
    Reconciled,
)
from kafka_marshal.core.groups.invariants import STEP_CHECKS, GroupStep, impossible
from kafka_marshal.core.groups.reducer import step
from kafka_marshal.core.groups.state import (
    NO_POSITION,
    Controllership,
    Group,
    GroupPartition,
    TopicPartition,
)
from kafka_marshal.core.groups.verdicts import GroupAccepted, OfAPosition
from kafka_marshal.rpc.error_codes import ErrorCode

TOLD_S: Final = 65.0
"""How long ago a member that is not served may have logged so last: it does once a minute."""
FULL_S: Final = 10.0
"""How long ago a group may have been full when a member hears so."""
GIVEN_UP_S: Final = 5.0
"""How much longer it may take until a controller gives a member up that lets nothing go."""


@frozen
class Folded:
    """One record of the log, and what it did."""

    at_s: float
    step: GroupStep

    @property
    def group(self) -> Group | None:
        """The group after it."""
        return self.step.after.groups.get(GROUP)

    def partition(self, place: Place) -> GroupPartition | None:
        """A partition of the group after it."""
        group = self.group
        return None if group is None else group.partitions.get(TopicPartition(*place))


@define
class Stint:
    """From one assignment of a claim to its end, as callbacks say."""

    place: Place
    tenure: int
    after_s: float
    """When the member last heard that this tenure was over; 0: it has not."""
    handed_out: list[HandedOut] = field(factory=list)


@define(slots=False)
class GroupsJudged:
    """A run as checkers look at it."""

    history: GroupsHistory

    @cached_property
    def folded(self) -> list[Folded]:
        """The log of the group."""
        found, view = [], Controllership()
        times = self.history.appended_s[GROUPS_TOPIC, PARTITION]
        for at_s, record in zip(times, self.history.events, strict=True):
            outcome = step(view, record)
            found.append(Folded(at_s, GroupStep(view, record, outcome)))
            view = outcome.controllership
        return found

    @cached_property
    def _times(self) -> list[float]:
        return [one.at_s for one in self.folded]

    def at(self, at_s: float) -> Folded | None:
        """The last record that was in the log at this time."""
        index = bisect_right(self._times, at_s)
        return self.folded[index - 1] if index else None

    def within(self, after_s: float, at_s: float) -> list[Folded]:
        """The records that were in the log then, beginning with the last one at `after_s`."""
        first = max(0, bisect_right(self._times, after_s) - 1)
        return self.folded[first : bisect_right(self._times, at_s)]

    @cached_property
    def stints(self) -> list[Stint]:
        """All of them, and what was handed out in each."""
        happened: list[Told | HandedOut] = [*self.history.told, *self.history.handed_out]
        happened.sort(key=lambda one: one.at_s)  # callbacks first
        found: list[Stint] = []
        now: dict[tuple[str, Place], Stint] = {}
        over_s: dict[tuple[str, Place, int], float] = {}
        for one in happened:
            key, tenure = (one.process, one.place), one.tenure
            if isinstance(one, HandedOut):
                stint = now.get(key)
                if stint is not None and stint.tenure == tenure:
                    stint.handed_out.append(one)
            elif one.kind == "assigned":
                now[key] = Stint(one.place, tenure, over_s.get((*key, tenure), 0.0))
                found.append(now[key])
            else:
                now.pop(key, None)
                over_s[*key, tenure] = one.at_s
        return found

    @cached_property
    def tenures(self) -> dict[tuple[Place, int], GroupPartition]:
        """Each tenure as it was granted."""
        found: dict[tuple[Place, int], GroupPartition] = {}
        for one in self.folded:
            if one.group is not None:
                for tp, each in one.group.partitions.items():
                    if each.owner is not None:
                        found.setdefault(((tp.topic, tp.partition), each.tenure), each)
        return found


def one_owner(judged: GroupsJudged) -> Iterator[str]:
    """NoTwoOwners: by the log, a member owns a partition while it delivers messages of it.

    A member that is silent stops by its own clock before another one is granted what it holds.
    """
    newest: dict[Place, HandedOut] = {}
    for one in judged.history.handed_out:
        last = newest.get(one.place)
        if last is not None and one.tenure < last.tenure and one.member != last.member:
            yield f"{one} came after {last}"
        if last is None or one.tenure > last.tenure:
            newest[one.place] = one
        there = judged.at(one.at_s)
        owned = None if there is None else there.partition(one.place)
        if owned is None or owned.owner != one.member:
            owner = "nobody" if owned is None else owned.owner
            yield f"{one}: the log had it as {owner}'s"
        granted = judged.tenures.get((one.place, one.tenure))
        if granted is None or granted.owner != one.member:
            yield f"{one} has a tenure that its member never had"


def never_back(judged: GroupsJudged) -> Iterator[str]:
    """OffsetsMonotone: only a rewind moves a committed position back."""
    reached: dict[Place, int] = {}
    for one in judged.folded:
        event = one.step.record.event
        for tp, each in ({} if one.group is None else one.group.partitions).items():
            rewound = isinstance(event, PartitionsRewound) and tp in event.positions
            place = tp.topic, tp.partition
            if each.position < reached.get(place, NO_POSITION) and not rewound:
                yield f"{place}: {reached[place]}, then {each.position} by {event}"
            reached[place] = each.position


def begins_at_position(judged: GroupsJudged) -> Iterator[str]:
    """A partition is delivered from the committed position, in order, each message once.

    So what was committed is not handed out again, nothing is skipped, and what is repeated was in
    hand. A member that is to let a partition go, and then to keep it, has the same tenure twice.
    """
    for stint in judged.stints:
        granted = judged.tenures.get((stint.place, stint.tenure))
        if granted is None or not stint.handed_out:
            continue
        first = stint.handed_out[0]
        known = [
            max(0, each.position)
            for one in judged.within(stint.after_s, first.at_s)
            if (each := one.partition(stint.place)) is not None and each.tenure == stint.tenure
        ]
        if first.offset not in (known or [max(0, granted.position)]):
            yield f"{first}, and the log had {sorted({*known})}"
        for one, following in pairwise(stint.handed_out):
            if following.offset != one.offset + 1:
                yield f"{following} came after {one.offset}"


def none_skipped(judged: GroupsJudged) -> Iterator[str]:
    """NoneSkipped: a position never passes a message that its owner has not finished."""
    done = _by_tenure(judged.history.done)
    for one in judged.folded:
        event = one.step.record.event
        if not isinstance(event, Reconciled) or one.step.is_refused:
            continue
        for tp, verdict in one.step.outcome.positions.items():
            if verdict is not OfAPosition.COMMITTED:
                continue
            at, place = event.positions[tp], (tp.topic, tp.partition)
            by_then = [
                each.offset
                for each in done[place, at.tenure]
                if each.at_s <= one.at_s and each.member == event.member
            ]
            granted = judged.tenures[place, at.tenure].position
            if at.offset > max([granted, *by_then]):
                yield f"{place} was committed at {at} by {event.member}, done was {by_then[-1:]}"


def _by_tenure(all_done: list[Done]) -> defaultdict[tuple[Place, int], list[Done]]:
    found: defaultdict[tuple[Place, int], list[Done]] = defaultdict(list)
    for one in all_done:
        found[one.place, one.tenure].append(one)
    return found


def committed(judged: GroupsJudged) -> Iterator[str]:
    """When `commit` or a rewind returns, its positions are in the log."""
    for one in judged.history.committed:
        there = judged.at(one.at_s)
        each = None if there is None else there.partition(one.place)
        if each is None or (each.tenure == one.tenure and each.position < one.offset):
            yield f"{one} has returned, and the log had {each}"
    rewinds = [
        (one.at_s, (tp.topic, tp.partition), offset)
        for one in judged.folded
        if isinstance(one.step.record.event, PartitionsRewound) and not one.step.is_refused
        for tp, offset in one.step.record.event.positions.items()
    ]
    for at_s, place, offset in judged.history.rewound:
        if not any(
            when_s <= at_s and (where, to) == (place, offset) for when_s, where, to in rewinds
        ):
            yield f"a rewind of {place} to {offset} was answered, and is not in the log"


def callbacks(judged: GroupsJudged) -> Iterator[str]:
    """A partition is assigned before its messages are delivered, and revoked after them."""
    last: dict[tuple[str, Place], Told] = {}
    for one in judged.history.told:
        before = last.get((one.process, one.place))
        if one.kind == "assigned" and before is not None and before.kind == "assigned":
            yield f"{one}: it was not revoked before, {before}"
        if one.kind == "revoked" and (before is None or before.tenure != one.tenure):
            yield f"{one}: {before} came before"
        last[one.process, one.place] = one
    within = {id(each) for stint in judged.stints for each in stint.handed_out}
    for given in judged.history.handed_out:
        if id(given) not in within:
            yield f"{given} was not assigned then"


def properties(judged: GroupsJudged) -> Iterator[str]:
    """The specification's properties of a group hold after every record of the log."""
    for one in judged.folded:
        broken = [name for name, holds in STEP_CHECKS.items() if not holds(one.step)]
        if one.group is not None and (wrong := impossible(one.group)) is not None:
            broken.append(wrong)
        if one.step.outcome.verdict is GroupAccepted.SNAPSHOT_DIFFERS:
            yield f"a snapshot differs: {one.step.record}"
        for name in broken:
            yield f"{name} is broken by {one.step.record}"


def agree(judged: GroupsJudged) -> Iterator[str]:
    """At the end, every controller and member agrees with a fold of the log."""
    looked = judged.at(judged.history.looked_s)
    view = Controllership() if looked is None else looked.step.after
    group = view.groups.get(GROUP)
    said: set[tuple[Place, int]] = set()
    for one in judged.history.at_the_end:
        if one.view is not None and one.view != view:
            yield f"{one.process} has folded {one.view}, and the log says {view}"
        said |= set((one.owns or {}).items())
    partitions = {} if group is None else group.partitions
    log = {
        ((tp.topic, tp.partition), each.tenure)
        for tp, each in partitions.items()
        if each.owner is not None
    }
    if said != log:
        yield f"members own {sorted(said - log)} besides, and not {sorted(log - said)}"


def progress(judged: GroupsJudged) -> Iterator[str]:
    """After the faults, the group is balanced and all messages are consumed within a bound."""
    history = judged.history
    if not history.finished:
        last = judged.folded[-1].group if judged.folded else None
        yield f"not settled: {last}"
        return
    owns = Counter(
        {one.process: len(one.owns) for one in history.at_the_end if one.owns is not None}
    )
    if judged.history.even and owns and max(owns.values()) - min(owns.values()) > 1:
        yield f"not in balance: {dict(owns)}"


def rebalance_ends(judged: GroupsJudged) -> Iterator[str]:
    """RebalanceEnds: without faults, a live member that releases nothing is removed within a bound.

    That is the rebalance timeout and the session timeout, from when it was to let go, from when it
    last let something go, or from when a controller began.
    """
    history = judged.history
    bound_s = 2 * history.session_timeout_s + GIVEN_UP_S
    owed: dict[str, tuple[float, frozenset[TopicPartition]]] = {}
    for one in judged.folded:
        now = _owed(one)
        is_start = one.step.outcome.verdict is GroupAccepted.STARTED
        for member, (since_s, before) in owed.items():
            over_s = one.at_s - max(since_s, history.mended_s)
            if over_s > bound_s:
                yield f"{member} was to let {sorted(before)} go {over_s:.1f} s before {one.at_s}"
        kept = {
            who: since_s
            for who, (since_s, before) in owed.items()
            if before <= now.get(who, frozenset()) and not is_start
        }
        owed = {who: (kept.get(who, one.at_s), tps) for who, tps in now.items()}
    for member, (since_s, before) in owed.items():
        if history.looked_s - max(since_s, history.mended_s) > bound_s:
            yield f"{member} was to let {sorted(before)} go, and never did"


def _owed(one: Folded) -> dict[str, frozenset[TopicPartition]]:
    """What each member has to let go."""
    found: defaultdict[str, set[TopicPartition]] = defaultdict(set)
    for tp, each in ({} if one.group is None else one.group.partitions).items():
        if each.owner is not None and each.revoking:
            found[each.owner].add(tp)
    return {member: frozenset(tps) for member, tps in found.items()}


def ended(judged: GroupsJudged) -> Iterator[str]:
    """Nobody stops unasked or with an error, and no exception is swallowed."""
    for at_s, process, error in judged.history.ended:
        yield f"{process} ended at {at_s:.1f} s: {error or 'for no reason'}"
    yield from judged.history.logged


def fails_over(judged: GroupsJudged) -> Iterator[str]:
    """If only a controller dies, no member is removed, and none leaves."""
    began_s, until_s = judged.history.failed_over or (0.0, 0.0)
    for one in judged.folded:
        event = one.step.record.event
        if began_s < one.at_s <= until_s and isinstance(event, MemberExpired | MemberLeft):
            yield f"{one.at_s - began_s:.1f} s after a controller died: {event}"


def limited(judged: GroupsJudged) -> Iterator[str]:
    """A member knows that there is no room for it, and is refused only then.

    A group grows only as far as all of its later events fit the log.
    """
    history = judged.history
    told = [(one.at_s, one.machine) for one in history.limited]
    for at_s, machine in history.out:
        since_s = at_s - TOLD_S - history.session_timeout_s
        if not any(one == machine and since_s <= told_s for told_s, one in told):
            yield f"the member of {machine} is not served at {at_s:.1f} s, and was not told why"
    yield from history.unforeseen
    for one in history.limited:
        if not history.sizes_met and ErrorCode.GROUP_MAX_SIZE_REACHED.name in one.why:
            there = judged.within(one.at_s - FULL_S, one.at_s)
            most = max((len(each.group.members) for each in there if each.group), default=0)
            if most < history.members_max:
                yield f"{one}, and the group had {most} members"


def left(judged: GroupsJudged) -> Iterator[str]:
    """After all have stopped, no thread, connection or listening socket is left."""
    yield from judged.history.left


CHECKERS: Final[dict[str, Callable[[GroupsJudged], Iterator[str]]]] = {
    one.__name__: one
    for one in (
        one_owner,
        never_back,
        begins_at_position,
        none_skipped,
        committed,
        callbacks,
        properties,
        agree,
        progress,
        rebalance_ends,
        ended,
        fails_over,
        limited,
        left,
    )
}
"""All of them, by name."""


def violations(judged: GroupsJudged) -> list[str]:
    """What broke a promise, by the checkers' names."""
    return [f"{name}: {what}" for name, check in CHECKERS.items() for what in check(judged)]

"""The invariants of `SetPosition.tla` over the explorer's states, by their names there.

Also what must be reachable: `NeverDone` and its like must break. A property of the log is judged
once for each log, one of an administrator once for each pair of a log and an administrator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kafka_marshal import Accepted, ClaimKey
from kafka_marshal.core.claims.invariants import Property
from kafka_marshal.core.claims.pause_work import NO_WORK, PauseWork, half_set_in_log, left_undone
from kafka_marshal.core.claims.suffix_reader import EVERYTHING
from kafka_marshal.core.claims.verdicts import WON_BY_REQUEST
from kafka_marshal.machines.admin.operation import PartlySet, Phase, consumer_of
from model_tests.explorer.admins.environment import EnvironmentOfAdmins
from model_tests.explorer.admins.parts import Administrator, GroupLog, sets_position
from model_tests.explorer.claims.environment import CRASHED, UP
from model_tests.explorer.claims.parts import State


class Seen:
    """One administrator and the log, with the specification's words for them."""

    def __init__(self, environment: EnvironmentOfAdmins, log: GroupLog, local: Administrator):
        self.log = log
        self.name = environment.names[local.instance]
        self.operation = local.operation
        self.up = local.status == UP
        self.crashed = local.status == CRASHED
        self.outbox = local.outbox
        self.keys = environment.world.keys
        self.targets = frozenset(environment.world.targets[self.name])

    @property
    def view(self) -> int:
        """How many records it has read. Spec: View."""
        return self.operation.view

    def has_set(self) -> frozenset[ClaimKey]:
        """Spec: HasSet."""
        return frozenset(key for _, by, key in self.log.sets if by == self.name and key) & (
            self.targets
        )

    def pauses(self) -> list[int]:
        """Spec: PausesOf."""
        return [n for n, by, _ in self.log.pauses if by == self.name]

    def pauses_of_others(self) -> list[int]:
        """Spec: PausesOfOthers."""
        return [n for n, by, _ in self.log.pauses if by != self.name]

    def work(self) -> PauseWork:
        """What the log says of its pause. Spec: WorkOf."""
        works = [*self.log.left, self.log.work]
        return next((work for work in reversed(works) if work.by == self.name), NO_WORK)

    def certain(self, key: ClaimKey) -> bool:
        """It knows all of the claim."""
        return consumer_of(self.operation, key).reader.certain == EVERYTHING


# --- of an administrator --------------------------------------------------------------------------


def never_half_set_silently(seen: Seen) -> bool:
    """Spec: NeverHalfSetSilently."""
    phase, result, targets = seen.operation.phase, seen.operation.result, seen.targets
    has_set = seen.has_set()
    if phase is Phase.DONE and has_set != targets:
        return False
    if phase is Phase.NONE_SET and has_set:
        return False
    if phase is Phase.PARTLY_SET:
        assert isinstance(result, PartlySet)
        told = result.set | result.not_set | result.in_doubt
        if not result.set <= has_set or result.not_set & has_set or told != targets:
            return False
    if seen.crashed and has_set not in (frozenset(), targets):
        work = seen.work()
        return (
            half_set_in_log(work) and work.set == has_set and left_undone(work) == targets - has_set
        )
    return True


def writes_all_or_none(seen: Seen) -> bool:
    """Spec: WritesAllOrNone."""
    if not (seen.name in seen.log.written or any(map(sets_position, seen.outbox))):
        return True
    first = min(seen.pauses(), default=seen.log.length)
    won = {
        key
        for n, by, key in seen.log.wins
        if by == seen.name and first < n and (not seen.up or n <= seen.view)
    }
    return seen.targets <= won


def loser_is_told(seen: Seen) -> bool:
    """Spec: LoserIsTold."""
    if seen.operation.phase not in (Phase.CLAIMING, Phase.SETTING):
        return True
    own = [n for n in seen.pauses() if n <= seen.view]
    others = [n for n in seen.pauses_of_others() if n <= seen.view]
    return bool(own) and max(own) > max(others, default=0)


def next_is_warned(seen: Seen) -> bool:
    """Spec: NextIsWarned."""
    own = seen.pauses()
    read = seen.up and seen.certain(seen.keys[0]) and any(n <= seen.view for n in own)
    if not read:
        return True
    [pause] = own
    earlier = sum(n <= pause for n, _, _ in seen.log.pauses)
    before = seen.log.left[earlier - 1]
    return seen.operation.warned == (before if half_set_in_log(before) else NO_WORK)


def readers_agree(seen: Seen) -> bool:
    """Spec: ReadersAgree."""
    read_all = seen.up and seen.view == seen.log.length and all(map(seen.certain, seen.keys))
    return not read_all or (
        seen.operation.work == seen.log.work
        and all(consumer_of(seen.operation, key).known == seen.log.claims[key] for key in seen.keys)
    )


def never_in_doubt(seen: Seen) -> bool:
    """Spec: NeverInDoubt."""
    result = seen.operation.result
    return not (isinstance(result, PartlySet) and result.in_doubt)


def never_half_set_by_a_crash(seen: Seen) -> bool:
    """Spec: NeverHalfSetByACrash."""
    return not seen.crashed or seen.has_set() in (frozenset(), seen.targets)


# --- of a log -------------------------------------------------------------------------------------


def pause_holds(log: GroupLog) -> bool:
    """Spec: PauseHolds, PausedAt."""
    if log.stored is None or log.key is None or not log.pauses:
        return True
    pause, pauser, _ = log.pauses[-1]
    by = log.stored.record.message.instance_id
    since = [each for each in log.path[pause + 1 :] if each.key == log.key]
    over = any(
        each.stored is not None
        and (
            each.stored.pause_over
            or (each.verdict in WON_BY_REQUEST and each.stored.record.message.instance_id == pauser)
        )
        for each in since
    )
    if over or by == pauser:
        return True
    return not isinstance(log.verdict, Accepted) and log.claims[log.key].owner_instance is None


def later_pause_wins(log: GroupLog) -> bool:
    """Spec: LaterPauseWins."""
    for n, by, _ in log.sets:
        own = max((at for at, pauser, _ in log.pauses if pauser == by and at < n), default=0)
        if any(pauser != by and own < at < n for at, pauser, _ in log.pauses):
            return False
    return True


def set_position_sticks(log: GroupLog) -> bool:
    """What its last record did. Spec: SticksStepwise."""
    if log.stored is None:
        return True
    before = log.path[-2]
    for key, claim in before.claims.items():
        sets = [n - 1 for n, _, set_key in before.sets if set_key == key]
        if not sets or log.claims[key].position == claim.position:
            continue
        owns = log.stored.record.message.instance_id == claim.owner_instance
        if not owns or claim.epoch is None or max(sets) >= claim.epoch:
            return False
    return True


P = Property
OF_ADMIN: Sequence[tuple[str, Callable[[Seen], bool]]] = (
    (P.NEVER_HALF_SET_SILENTLY.value, never_half_set_silently),
    (P.WRITES_ALL_OR_NONE.value, writes_all_or_none),
    (P.LOSER_IS_TOLD.value, loser_is_told),
    (P.NEXT_IS_WARNED.value, next_is_warned),
    (P.READERS_AGREE.value, readers_agree),
    ("NeverDone", lambda seen: seen.operation.phase is not Phase.DONE),
    ("NeverPartlySet", lambda seen: seen.operation.phase is not Phase.PARTLY_SET),
    ("NeverNoneSet", lambda seen: seen.operation.phase is not Phase.NONE_SET),
    ("NeverInDoubt", never_in_doubt),
    ("NeverWarned", lambda seen: seen.operation.warned == NO_WORK),
    ("NeverHalfSetByACrash", never_half_set_by_a_crash),
)
OF_LOG: Sequence[tuple[str, Callable[[GroupLog], bool]]] = (
    (P.PAUSE_HOLDS.value, pause_holds),
    (P.LATER_PAUSE_WINS.value, later_pause_wins),
    (P.SET_POSITION_STICKS.value, set_position_sticks),
)
JUDGED = {name for judges in (OF_ADMIN, OF_LOG) for name, _ in judges}


class JudgesOfAdmins:
    """The invariants of one model, of those that this room has."""

    def __init__(self, environment: EnvironmentOfAdmins, names: Sequence[str]) -> None:
        self._environment = environment
        self._of_admin = [judge for judge in OF_ADMIN if judge[0] in names]
        self._of_log = [judge for judge in OF_LOG if judge[0] in names]
        self._judged: set[object] = set()

    def broken(self, state: State) -> Iterator[str]:
        """The names of the properties that this state breaks."""
        log: GroupLog = state[0]
        for local in state[2:]:
            if (log, local) in self._judged:
                continue
            self._judged.add((log, local))
            seen = Seen(self._environment, log, local)
            for name, holds in self._of_admin:
                if not holds(seen):
                    yield name
        if log in self._judged:
            return
        self._judged.add(log)
        for name, holds_of_log in self._of_log:
            if not holds_of_log(log):
                yield name

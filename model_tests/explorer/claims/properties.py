"""The specification's invariants over the explorer's states, by their names in `Properties.tla`.

Those that a machine can break. The others speak of the log alone, where `core.claims.invariants`
and TLC judge. A property of the log is judged once for each log, one of log and counts once for
each pair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

from kafka_marshal import Accepted
from kafka_marshal.core.claims.invariants import Property, sets_position
from kafka_marshal.core.claims.suffix_reader import Field, Reader
from kafka_marshal.core.claims.verdicts import ENDS, FENCED_WINS
from kafka_marshal.machines.consumer.consumer import Mode
from model_tests.explorer.claims.environment import UP, Environment, acts
from model_tests.explorer.claims.parts import Log, Rest, State


def set_by_admin(log: Log) -> bool:
    """Its last record set the position. Spec: SetByAdmin."""
    assert log.stored is not None
    obeyed = isinstance(log.verdict, Accepted)
    return obeyed and sets_position(_before(log).claim, log.stored.record)


def _before(log: Log) -> Log:
    return log.path[-2]


def _prefixes(log: Log) -> tuple[Log, ...]:
    """The log after each of its records."""
    return log.path[1:]


# --- of a log and how often messages were processed -----------------------------------------------


def at_most_once(environment: Environment, log: Log, rest: Rest) -> bool:
    """Spec: AtMostOnce."""
    if environment.world.mode is not Mode.AT_MOST_ONCE:
        return True

    def set_back_over(message: int) -> int:
        return sum(
            set_by_admin(each) and each.claim.position <= message < _before(each).claim.position
            for each in _prefixes(log)
        )

    return all(n <= 1 + set_back_over(m) for m, n in enumerate(rest.processed))


def none_skipped(environment: Environment, log: Log, rest: Rest) -> bool:
    """Spec: NoneSkipped."""
    if environment.world.mode is not Mode.AT_LEAST_ONCE:
        return True

    def times_passed(message: int) -> int:
        return sum(
            _before(each).claim.position <= message < each.claim.position
            and not set_by_admin(each)
            and not _left_out(each, message)
            for each in _prefixes(log)
        )

    return all(n >= times_passed(m) for m, n in enumerate(rest.processed))


def _left_out(log: Log, message: int) -> bool:
    """Spec: LeftOut."""
    assert log.stored is not None
    start = log.stored.record.headers.start
    return not _before(log).claim.position_set and start is not None and message < start


def _repeats(rest: Rest) -> int:
    return sum(max(n - 1, 0) for n in rest.processed)


def _asked_again(log: Log) -> int:
    """Spec: AskedAgain."""
    return sum(
        max(_before(each).claim.position - each.claim.position, 0)
        for each in _prefixes(log)
        if set_by_admin(each)
    )


def _wins(log: Log) -> list[Log]:
    return [each for each in _prefixes(log) if each.verdict in FENCED_WINS]


def reprocessing_bound(environment: Environment, log: Log, rest: Rest) -> bool:
    """Spec: ReprocessingBound."""
    if environment.world.mode is not Mode.AT_LEAST_ONCE:
        return True
    epochs = len(_wins(log))
    return _repeats(rest) <= environment.world.window * max(epochs - 1, 0) + _asked_again(log)


def _ended_in_release(win: Log) -> bool:
    """Spec: EndedInRelease."""
    ends = [each.verdict for each in _prefixes(_before(win)) if each.verdict in ENDS]
    return win.verdict is Accepted.CLAIMED and (not ends or ends[-1] is not Accepted.GROUP_RELEASED)


def release_repeats_nothing(environment: Environment, log: Log, rest: Rest) -> bool:
    """Spec: ReleaseRepeatsNothing."""
    if environment.world.mode is not Mode.AT_LEAST_ONCE:
        return True
    paid = sum(not _ended_in_release(win) for win in _wins(log))
    return _repeats(rest) <= environment.world.window * paid + _asked_again(log)


# --- of a log -------------------------------------------------------------------------------------


def monotone_position(environment: Environment, log: Log) -> bool:
    """Spec: MonotonePosition."""
    return log.claim.position >= _before(log).claim.position or set_by_admin(log)


def monotone_epoch(environment: Environment, log: Log) -> bool:
    """Spec: MonotoneEpoch."""
    epoch, before = (
        -1 if claim.epoch is None else claim.epoch for claim in (log.claim, _before(log).claim)
    )
    return epoch >= before and (log.verdict not in FENCED_WINS or epoch > before)


def one_owner_per_epoch(environment: Environment, log: Log) -> bool:
    """The second half of Spec: Mutex."""
    owners: dict[int | None, str | None] = {}
    return all(
        owners.setdefault(each.claim.epoch, each.claim.owner_instance) == each.claim.owner_instance
        for each in log.path
        if each.claim.owned
    )


def suffix_exact(environment: Environment, log: Log) -> bool:
    """What a reader from any offset calls certain equals the full fold. Spec: SuffixExact."""
    return all(_exact(reader, log, environment) for reader in readers(environment, log))


def misses_exact(environment: Environment, state: State) -> bool:
    """The same of those that take part, and may find that records are gone."""
    return all(
        _exact(local.consumer.reader, state[0].path[local.consumer.view], environment)
        for local in state[2:]
        if local.status == UP and environment.names[local.instance] in environment.world.misses
    )


def readers(environment: Environment, log: Log) -> list[Reader]:
    """A reader of this log from each offset of it. Spec: ReaderFrom."""
    found: list[Reader] | None = log.memo.get("readers")
    if found is None:
        began = Reader.beginning_at(log.length)
        fold = environment.bounds.fold
        earlier = readers(environment, _before(log)) if log.stored is not None else []
        found = [fold.read_record(each, log.stored) for each in earlier if log.stored is not None]
        found.append(began)
        log.memo["readers"] = found
    return found


def _exact(reader: Reader, log: Log, environment: Environment) -> bool:
    """Spec: ExactAfter."""
    truth, says, certain = log.claim, reader.claim, reader.certain
    fields = {
        Field.OWNER: ("owner_instance", "owner_client", "won_with_headers"),
        Field.EPOCH: ("epoch",),
        Field.POSITION: ("position",),
        Field.POSITION_SET: ("position_set",),
        Field.PAUSER: ("pauser",),
        Field.CLOCK: ("clock_ms", "last_heartbeat_ms"),
    }
    for field, names in fields.items():
        if field in certain and any(getattr(says, n) != getattr(truth, n) for n in names):
            return False
    if Field.CLOCK not in certain:
        return True
    if environment.world.time_is_free:
        paused = truth.paused_until_ms is not None and not log.pause_was_over
        return not paused or says.paused_until_ms is not None
    return truth.paused == says.paused


# --- of a whole state -----------------------------------------------------------------------------


def mutex(environment: Environment, state: State) -> bool:
    """No two instances act under one tenure. The first half of Spec: Mutex."""
    log, rest = state[0], state[1]
    tenures = [
        log.path[min(local.consumer.view, log.length)].tenure
        for local in state[2:]
        if acts(environment, local) and local.instance not in rest.unaware
    ]
    return len(set(tenures)) == len(tenures)


def readers_agree(environment: Environment, state: State) -> bool:
    """Spec: ReadersAgree."""
    aware = [
        local.consumer
        for local in state[2:]
        if local.status == UP
        and local.instance not in state[1].unaware
        and local.consumer.reader.known
    ]
    return all(
        one.view != other.view or one.known.owner_instance == other.known.owner_instance
        for one, other in combinations(aware, 2)
    )


def begins_where_the_log_says(environment: Environment, state: State) -> bool:
    """Spec: BeginsWhereTheLogSays."""
    log, world = state[0], environment.world
    if world.mode is not Mode.AT_LEAST_ONCE:
        return True
    for local in state[2:]:
        name, consumer = world.instances[local.instance], local.consumer
        if name in world.admins or local.instance in state[1].unaware:
            continue
        if not acts(environment, local) or log.path[consumer.view].tenure != consumer.view:
            continue
        truth, certain = log.path[consumer.view].claim, consumer.reader.certain
        begins = truth.position if truth.position_set else world.start_of.get(name, 0)
        judged = Field.POSITION in certain and (truth.position_set or Field.POSITION_SET in certain)
        if judged and not begins <= consumer.next <= begins + world.window:
            return False
    return True


P = Property
OF_STATE: Sequence[tuple[str, Callable[[Environment, State], bool]]] = (
    (P.MUTEX.value, mutex),
    (P.READERS_AGREE.value, readers_agree),
    (P.BEGINS_WHERE_THE_LOG_SAYS.value, begins_where_the_log_says),
    ("SuffixExact", misses_exact),
)
OF_LOG_AND_COUNTS: Sequence[tuple[str, Callable[[Environment, Log, Rest], bool]]] = (
    (P.AT_MOST_ONCE.value, at_most_once),
    (P.NONE_SKIPPED.value, none_skipped),
    (P.REPROCESSING_BOUND.value, reprocessing_bound),
    (P.RELEASE_REPEATS_NOTHING.value, release_repeats_nothing),
)
OF_LOG: Sequence[tuple[str, Callable[[Environment, Log], bool]]] = (
    (P.MONOTONE_POSITION.value, monotone_position),
    (P.MONOTONE_EPOCH.value, monotone_epoch),
    (P.MUTEX.value, one_owner_per_epoch),
    ("SuffixExact", suffix_exact),
)
JUDGED = {name for judges in (OF_STATE, OF_LOG_AND_COUNTS, OF_LOG) for name, _ in judges}


class Judges:
    """The invariants of one model, of those that this room has."""

    def __init__(self, environment: Environment, names: Sequence[str]) -> None:
        self.names = tuple(name for name in names if name in JUDGED)
        self._environment = environment
        self._of_state = [judge for judge in OF_STATE if judge[0] in names]
        self._of_log_and_counts = [judge for judge in OF_LOG_AND_COUNTS if judge[0] in names]
        self._of_log = [judge for judge in OF_LOG if judge[0] in names]
        self._judged: set[object] = set()

    def broken(self, state: State) -> Iterator[str]:
        """The names of the properties that this state breaks."""
        environment, log, rest = self._environment, state[0], state[1]
        for name, holds in self._of_state:
            if not holds(environment, state):
                yield name
        if (log, rest.processed) in self._judged:
            return
        self._judged.add((log, rest.processed))
        for name, holds_of in self._of_log_and_counts:
            if not holds_of(environment, log, rest):
                yield name
        if log in self._judged or log.stored is None:
            return
        self._judged.add(log)
        for name, holds_of_log in self._of_log:
            if not holds_of_log(environment, log):
                yield name

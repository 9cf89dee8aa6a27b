"""Sets positions: executes the effects of `machines.admin.administrator` on a real topic.

There is one administrator for each coordinating partition of the targets, which reads the log from
the first record on. On each partition all positions are set, or none, or the result names which.
Across partitions there is no guarantee, since they are different logs. At the end, the pause is
ended claim by claim, which ends no later ownership. If the group was paused before, it is paused
again for the remaining time. Both also settle writes in doubt: a write that is not in the log
before its claim is won again, or released, has no effect any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future

from attrs import evolve, field, frozen

from kafka_marshal.admin.fold import ClaimChange, ClaimsFold
from kafka_marshal.admin.not_read_back import READ_BACK_S, Sent, not_read_back
from kafka_marshal.admin.pause import (
    EXPIRED,
    PauseEnding,
    expiry_s,
    kept_expiry_s,
    log_ms,
    new_administrator,
    paused_until_ms,
)
from kafka_marshal.admin.position_targets import PlannedPosition
from kafka_marshal.admin.shared_claims import FoldedSharedClaim
from kafka_marshal.admin.view import View
from kafka_marshal.client.connect.admin_client import ClusterClient
from kafka_marshal.client.connect.environment import Deadline
from kafka_marshal.client.connect.log_writer import LogWriter, NotAppended, RecordMetadata
from kafka_marshal.codec import coordinating_partition
from kafka_marshal.core.claims.fenced import says_it_sets
from kafka_marshal.core.claims.pause_work import PauseWork, left_undone
from kafka_marshal.core.claims.suffix_reader import Field
from kafka_marshal.core.claims.verdicts import Accepted
from kafka_marshal.core.messages import Record, ReleaseGroup
from kafka_marshal.core.state import ClaimKey, Rules
from kafka_marshal.errors import BrokerFailed
from kafka_marshal.machines.admin.administrator import (
    AdminEffect,
    Administrator,
    AdministratorTiming,
    UnfinishedWork,
    WorkDone,
)
from kafka_marshal.machines.admin.operation import AllSet, NoneSet, PartlySet, Reason, Result
from kafka_marshal.machines.consumer.consumer import release_group_sent
from kafka_marshal.machines.consumer.effects import Send


@frozen
class SetPositionsResult:
    """How it ended on one coordinating partition."""

    coordinating_partition: int
    set: tuple[ClaimKey, ...]
    """The log holds the write, and it was accepted."""
    not_set: tuple[ClaimKey, ...]
    """Their positions are unchanged, and no record in flight can set them any more."""
    in_doubt: tuple[ClaimKey, ...]
    """The write was sent, and it is not known yet whether it lands; `marshal ls` will show it."""
    reason: str | None
    """Why not all are set; None if they are."""
    still_paused: bool = field(default=False)
    """The pause could not be ended everywhere: it ends by itself, or by `marshal resume`."""
    new_paused_until_ms: int | None = field(default=None)
    """Until when claims without records are paused: topics and partitions new to the group; None if
    they are not."""
    not_read_back: str | None = field(default=None)
    """The outcomes of the writes in doubt, and of the records that should end the pause; None if
    none is."""


def left_by_others(view: View, group: str) -> list[PauseWork]:
    """The work that administrators have left unfinished, or are still doing."""
    return [work for fold in view.folds.values() if left_undone(work := fold.work(group))]


def beside(view: View, planned: Sequence[PlannedPosition]) -> list[ClaimKey]:
    """Owned claims that were not named, and are interrupted: a group is paused as a whole."""
    named = {one.key for one in planned}
    groups = {(one.coordinating_partition, one.key.group) for one in planned}
    return sorted(
        key
        for partition, group in groups
        for key, reader in view.folds[partition].claims(group).items()
        if key not in named and reader.claim.owned
    )


def ranges_that_end(
    view: View, planned: Sequence[PlannedPosition]
) -> dict[ClaimKey, FoldedSharedClaim]:
    """Shared claims whose ranges end: those that are set, and other claims that will be won.

    Ending a pause claim by claim ends ranges. During a pause that stays, or is ended for all, they
    are suspended.
    """
    places: dict[tuple[int, str], list[ClaimKey]] = {}
    for one in planned:
        places.setdefault((one.coordinating_partition, one.key.group), []).append(one.key)
    found = {}
    for (partition, group), named in sorted(places.items()):
        fold = view.folds[partition]
        stays_paused = kept_expiry_s(fold, group) * 1000 > log_ms(fold, group)
        sleeps = stays_paused or _all_shared(fold, named)
        for key, reader in fold.claims(group).items():
            ends = key in named or (reader.claim.position_set and not sleeps)
            shared = fold.shared(key)
            if ends and shared is not None:
                found[key] = shared
    return found


def _all_shared(fold: ClaimsFold, keys: Iterable[ClaimKey]) -> bool:
    """Several consumers share each of these, as far as the log was read."""
    return all(fold.shared(key) is not None for key in keys)


class _PartitionOperation:
    """One operation on one coordinating partition, with the outcomes of its records."""

    def __init__(self, view: View, partition: int, group: str, pause_ms: int) -> None:
        fold = view.folds[partition]
        self.coordinating_partition, self.group = partition, group
        self._fold, self._pause_ms = fold, pause_ms
        self._first = fold.first
        self._environment = view.settings.environment
        self.me = new_administrator(fold.rules, self._environment, number=partition)
        patience = AdministratorTiming(pause_ms=pause_ms)
        self.administrator = Administrator(self.me, group, patience, first=fold.first)
        self.targets: Mapping[ClaimKey, int] = {}
        self._log: LogWriter | None = None
        self._on_note: Callable[[str], None] = lambda _: None
        self._kept_s = EXPIRED
        self._all_shared = False
        """Before their positions were set."""
        self._open: list[tuple[Send, Future[RecordMetadata]]] = []
        self._writes: dict[ClaimKey, Sent] = {}
        """The last record sent for each claim."""
        self._pauses: Sent | None = None
        """The ReleaseGroup that was sent last."""
        self._set: set[ClaimKey] = set()
        self._result: Result | None = None
        self._refused: str | None = None
        self._asking_time = False
        self._pause_read = False
        self._farewell: Deadline | None = None
        self._ending: PauseEnding | None = None
        self._paused_again = False
        self._settled = False
        self.over = False
        self.still_paused = False

    def begin(
        self,
        log: LogWriter,
        targets: Mapping[ClaimKey, int],
        on_note: Callable[[str], None],
        rules: Rules,
    ) -> None:
        """Pause the group, which uses these rules. The log must have been read to its end.

        The log's clock decides the length of a pause, and only a new record shows the current time.
        So there are two pauses: the first one counts from the group's last record.
        """
        if self._first != self._fold.first:
            self._first = self._fold.first
            self.administrator.pass_gap(self._first)
        self._judge_by(rules)
        patience = self.administrator.patience
        every_ms = max(1, int(rules.heartbeat_interval_ms))
        self.administrator.patience = evolve(patience, heartbeat_every_ms=every_ms)
        self._log, self._on_note, self.targets = log, on_note, targets
        self._kept_s = kept_expiry_s(self._fold, self.group)
        self._all_shared = _all_shared(self._fold, targets)
        self._asking_time = True
        last_ms = self._fold.last_ms(self.group) or 0
        self._append(release_group_sent(self.me, self.group, expiry_s(last_ms, self._pause_ms)))

    def _begin_at(self, log_ms: int) -> None:
        self._asking_time = False
        self._do(self.administrator.begin(self.targets, self._now_ms(), log_ms))

    def _now_ms(self) -> int:
        """A steady clock, which starts anywhere."""
        assert self._log is not None
        return int(1000 * self._log.settings.environment.monotonic())

    def read(self, record: Record, changes: list[ClaimChange]) -> None:
        """Read the next record, with its effects."""
        if self._first != self._fold.first and record.offset >= self._fold.first:
            self._first = self._fold.first
            self.administrator.pass_gap(self._first)
            if self._log is not None:
                self._refused = f"records of the coordination topic before {self._first} are gone"
        if changes and record.message.group_id == self.group:
            self._judge_by(changes[0].rules)
        if record.message.instance_id == self.me.instance_id:
            for change in changes:
                sets = change.verdict is Accepted.POSITION_SET and says_it_sets(record)
                if sets and change.key in self.targets:
                    self._set.add(change.key)
        self._do(self.administrator.record(record, 0 if self._log is None else self._now_ms()))
        own = record.message.instance_id == self.me.instance_id
        if own and isinstance(record.message, ReleaseGroup):
            if self._asking_time:
                self._begin_at(record.timestamp_ms)
            elif self._result is None:
                # This may also be the one that only shows the time, if its outcome was unknown. The
                # records that end the pause are sent after there is a result.
                self._pause_read = True
            else:
                self._settled = self.over = self._pause_read
                self._pause_read = True
        if self._ending is not None:
            self._ending.read(record, changes)

    def _judge_by(self, rules: Rules) -> None:
        """Let the administrator fold like the view, with the interval in the log."""
        if self.me.rules is not rules:
            self.me = self.administrator.me = evolve(self.me, rules=rules)

    def go_on(self, called_off: bool) -> None:
        """Continue after time has passed, or further outcomes are known."""
        for send, future in [pair for pair in self._open if pair[1].done()]:
            self._open.remove((send, future))
            error = future.exception()
            if error is None:
                self._do(self.administrator.appended(send.message, self._now_ms()))
                continue
            if isinstance(error, NotAppended):
                self._refused = str(error)
            if self._asking_time:
                self._begin_at(self._fold.last_ms(self.group) or 0)
                continue
            self._do(self.administrator.outcome_unknown(send.message, self._now_ms()))
        if self._log is not None and self._log.failed is not None:
            self._refused = self._log.failed
        if called_off or self._refused is not None:
            self._do(self.administrator.call_off(self._now_ms()))
        at_ms = self.administrator.next_timer_ms
        if at_ms is not None and self._now_ms() >= at_ms:
            self._do(self.administrator.timer(self._now_ms()))
        if self._result is not None and not self.over:
            self._say_farewell()

    def _say_farewell(self) -> None:
        """End the pause, unless another administrator has replaced it, or it is over."""
        if self._farewell is None:
            assert self._log is not None
            self._farewell = self._log.settings.environment.deadline(READ_BACK_S)
        ends = self._ending is not None or self._paused_again
        if self._pause_read and not ends:
            self._end_pause()
        elif self._ending is not None and self._ending.over:
            self.over, self.still_paused = True, bool(self._ending.failed)
            self._settled = not self._ending.requests
        elif self._refused is not None and (ends or not self._pause_read):
            self.over, self.still_paused = True, ends
        elif not self._farewell.left_s:
            self.over = self.still_paused = True

    def _end_pause(self) -> None:
        assert self._log is not None
        fold = self._fold
        if Field.PAUSER not in fold.newborn(self.group).certain and self._refused is not None:
            self.over = self.still_paused = True
        elif fold.newborn(self.group).claim.pauser != self.me.instance_id:
            self.over = True
        elif self._kept_s * 1000 > log_ms(fold, self.group) or self._ends_for_all:
            self._paused_again = True
            self._append(release_group_sent(self.me, self.group, self._kept_s))
        else:
            self._ending = PauseEnding(
                self._log, new_administrator(fold.rules, self._environment).client_id
            )
            self._ending.begin(
                fold, self.coordinating_partition, self.group, self.targets.keys() - self._set
            )

    @property
    def _ends_for_all(self) -> bool:
        """Whether a second, expired ReleaseGroup ends the pause, so that other ranges continue.

        It also ends the ownership of claims that were set and won since. If all of these are
        shared, no message is lost: their ranges are suspended until the anchor claims again.
        """
        beside = self._fold.claims(self.group).keys() - self.targets.keys()
        return self._all_shared and any(self._fold.shared(key) for key in beside)

    def ended(self) -> SetPositionsResult:
        """The final result."""
        result = self._result
        assert result is not None
        done = self._set | (set() if isinstance(result, NoneSet) else result.set)
        in_doubt = result.in_doubt - done if isinstance(result, PartlySet) else frozenset()
        if self._settled:
            in_doubt = frozenset()
        left = set(self.targets) - done
        return SetPositionsResult(
            self.coordinating_partition,
            tuple(sorted(done)),
            tuple(sorted(left - in_doubt)),
            tuple(sorted(in_doubt)),
            self._reason(result) if left else None,
            self.still_paused,
            paused_until_ms(self._fold, self.group) if self._ending is not None else None,
            not_read_back([*self._doubted(in_doubt)]) or None,
        )

    def _doubted(self, in_doubt: Iterable[ClaimKey]) -> Iterator[Sent]:
        """Yield the records for these claims, or for ending the pause, that were not read back."""
        yield from (self._writes[key] for key in in_doubt if key in self._writes)
        if not self.still_paused:
            return
        if self._ending is not None:
            yield from self._ending.not_read_back
        elif self._pauses is not None and (self._paused_again or not self._pause_read):
            yield self._pauses

    def _reason(self, result: Result) -> str | None:
        if self._refused is not None:
            return self._refused
        return None if isinstance(result, AllSet) else result.reason.value

    def _do(self, effects: Iterable[AdminEffect]) -> None:
        for effect in effects:
            match effect:
                case Send():
                    self._append(effect)
                case WorkDone(result):
                    self._result = result
                case UnfinishedWork(work):
                    self._on_note(work_left(work))

    def _append(self, send: Send) -> None:
        assert self._log is not None
        message, partition = send.message, self.coordinating_partition
        outcome = self._log.append(partition, message, send.headers)
        self._open.append((send, outcome))
        if isinstance(message, ReleaseGroup):
            self._pauses = partition, outcome
        else:
            self._writes[message.key] = partition, outcome


def work_left(work: PauseWork) -> str:
    """One sentence about an administrator's unfinished or current work."""
    names = ", ".join(f"{key.topic}:{key.topic_partition}" for key in sorted(left_undone(work)))
    return (
        f"{work.by} has paused the group and not set {names}"
        f" (set: {len(work.set)}); it has ended, or is still setting them"
    )


class SetPositionsOperation:
    """Sets positions of one group, on every coordinating partition of these topics.

    They read from the view's first record on, so that the log is read once.
    """

    def __init__(self, view: View, group: str, topics: Iterable[str], pause_ms: int) -> None:
        """`view` is new: nothing was read through it yet. `pause_ms` is the longest pause."""
        self._view = view
        self._operators = {
            partition: _PartitionOperation(view, partition, group, pause_ms)
            for partition in sorted(
                {coordinating_partition(topic, view.partitions) for topic in topics}
            )
        }

    def read(self, batch: Iterable[tuple[Record, list[ClaimChange]]]) -> None:
        """The next records that the view has folded."""
        for record, changes in batch:
            if record.partition in self._operators:
                self._operators[record.partition].read(record, changes)

    def set_positions(
        self,
        cluster: ClusterClient,
        log: LogWriter,
        planned: Sequence[PlannedPosition],
        called_off: Callable[[], bool] = lambda: False,
        on_note: Callable[[str], None] = lambda _: None,
    ) -> list[SetPositionsResult]:
        """Set these positions, all of topics that were named before.

        On each coordinating partition all are set, or none, or the result names which. The group is
        paused there in the meantime. Returns when the log shows the result, or it cannot be known.

        Raises:
            BrokerFailed: reading failed.
        """
        targets: dict[int, dict[ClaimKey, int]] = {}
        for one in planned:
            targets.setdefault(one.coordinating_partition, {})[one.key] = one.target
        view = self._view
        now = cluster.ends([(view.topic, number) for number in view.next])
        ends = {number: now.get((view.topic, number), at) for number, at in view.next.items()}
        if any(view.next[number] < end for number, end in ends.items()):
            for batch in view.changes(ends, called_off):  # what came since the view was read
                self.read(batch)
        if called_off():  # nothing was sent yet
            called = Reason.CALLED_OFF.value
            return [
                SetPositionsResult(partition, (), tuple(sorted(keys)), (), called)
                for partition, keys in targets.items()
            ]
        operators = [self._operators[partition] for partition in sorted(targets)]
        for operator in operators:
            rules = view.rules_of(operator.group, operator.coordinating_partition)
            operator.begin(log, targets[operator.coordinating_partition], on_note, rules)

        def over() -> bool:
            for operator in operators:
                operator.go_on(called_off())
            return all(operator.over for operator in operators)

        for batch in view.changes(None, over):
            self.read(batch)
        return [operator.ended() for operator in operators]


def commit(
    cluster: ClusterClient,
    group: str,
    ended: Sequence[SetPositionsResult],
    planned: Sequence[PlannedPosition],
) -> str | None:
    """Commit the positions that were set as the group's offsets, for Kafka's tools.

    None, or why that failed: then the positions are set all the same.
    """
    done = {key for one in ended for key in one.set}
    offsets = {
        (one.key.topic, one.key.topic_partition): one.target for one in planned if one.key in done
    }
    if not offsets:
        return None
    try:
        cluster.commit(group, offsets)
    except BrokerFailed as error:
        return str(error)
    return None

"""Pauses a group, ends a pause, and ends ownership: sends ReleaseGroups and reads them back.

A ReleaseGroup ends every claim of its group on one coordinating partition, and pauses those claims
until it expires; a second one replaces the first. So it frees a claim only together with all others
of the group there: the protocol has no smaller way without the owner's consent. A pause is ended
claim by claim, which takes no claim from its owner.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import Future
from typing import Final

import attrs
from attrs import frozen

from kafka_marshal.admin.fold import ClaimChange, ClaimsFold
from kafka_marshal.admin.not_read_back import READ_BACK_S, Sent, not_read_back
from kafka_marshal.admin.shared_claims import FoldedSharedClaim
from kafka_marshal.admin.view import View
from kafka_marshal.client.connect.environment import Environment
from kafka_marshal.client.connect.log_writer import LogWriter, NotAppended, RecordMetadata
from kafka_marshal.codec import coordinating_partition
from kafka_marshal.core.claims.pause_work import PauseWork
from kafka_marshal.core.claims.suffix_reader import Field, Reader
from kafka_marshal.core.messages import ClaimingPartition, Record, ReleaseGroup
from kafka_marshal.core.state import ClaimKey, Rules
from kafka_marshal.errors import BrokerFailed, InvalidOption
from kafka_marshal.machines.consumer.consumer import (
    ConsumerState,
    InstanceConfig,
    Mode,
    claiming_partition_sent,
    position_sent,
    release_group_sent,
    releasing_partition_sent,
)
from kafka_marshal.machines.consumer.effects import Send

EXPIRED: Final = 0
"""An expiry, in Unix seconds, that is in the past by every clock."""


@frozen
class FreedClaim:
    """A claim that lost its owner."""

    key: ClaimKey
    owner_client: str
    owner_instance: str
    """For a shared claim, both ids are the anchor's."""
    shared_by: tuple[str, ...] | None = None
    """The instances that share it, whose ranges sleep now. Empty if they are unknown; None if the
    claim is not shared, as far as is known."""


@frozen
class GroupRelease:
    """The effect of a ReleaseGroup on one coordinating partition, by its log."""

    coordinating_partition: int
    freed: tuple[FreedClaim, ...]
    paused_until_ms: int | None
    """None if it pauses nothing."""
    at_ms: int
    """When it was appended, by the broker's clock, Unix milliseconds."""
    not_held: tuple[ClaimKey, ...] = ()
    """Claims that it did not pause, because their clock has reached the expiry: a broker's clock
    was ahead for a while."""
    holds_above_ms: int | None = None
    """A pause that ends after this time pauses those claims, too, Unix milliseconds."""


class PartlyReleased(BrokerFailed):
    """It took effect on some coordinating partitions; `reason` describes the others."""

    def __init__(self, done: tuple[GroupRelease, ...], reason: str) -> None:
        partitions = "1 coordinating partition" if len(done) == 1 else f"{len(done)} others"
        super().__init__(f"{reason}; it took effect on {partitions}")
        self.done = done
        self.reason = reason


def _unless_read_back(done: tuple[GroupRelease, ...], sent: Collection[Sent]) -> None:
    """Report these records, which were not read back.

    Raises:
        PartlyReleased: other records took effect.
        BrokerFailed: none did.
    """
    if not sent:
        return
    known = not_read_back(sent)
    if any(not isinstance(_error(outcome), NotAppended) for _, outcome in sent):
        known += "; marshal groups shows what holds"
    raise PartlyReleased(done, known) if done else BrokerFailed(known)


def _error(outcome: Future[RecordMetadata]) -> BaseException | None:
    return outcome.exception() if outcome.done() else None


def new_administrator(
    rules: Rules, environment: Environment, *, number: int | None = None
) -> InstanceConfig:
    """A new administrator: each operation has its own id, so records in flight belong to it."""
    name = f"marshal-admin-{environment.new_id()[:8]}" + ("" if number is None else f"-{number}")
    return InstanceConfig(name, name, Mode.AT_MOST_ONCE, admin=True, rules=rules)


def paused_until_ms(fold: ClaimsFold, group: str) -> int | None:
    """Until when the group is paused by the log; None if it is not, at the time of the log."""
    until_ms = fold.newborn(group).claim.paused_until_ms
    return until_ms if until_ms is not None and log_ms(fold, group) < until_ms else None


def log_ms(fold: ClaimsFold, group: str) -> int:
    """The latest clock of the group's claims, Unix milliseconds."""
    readers = (fold.newborn(group), *fold.claims(group).values())
    return max(reader.claim.clock_ms for reader in readers)


# --- commands -------------------------------------------------------------------------------------


def pause(view: View, log: LogWriter, group: str, for_ms: int) -> list[GroupRelease]:
    """Pause the group on every coordinating partition, and so for later topics, too.

    `for_ms` is measured by the clock of each log, which also decides when the pause is over. This
    machine's clock has no influence.

    Raises:
        InvalidOption: it is longer than the longest pause.
        PartlyReleased: it is not paused on all of them, or that is unknown.
    """
    if for_ms > view.rules.pause_max_ms:
        raise InvalidOption(
            f"--for: the longest pause is {view.rules.pause_max_ms // 1000} s; every reader "
            "shortens a longer one to that"
        )
    return _pause_for(view, log, group, for_ms, dict.fromkeys(view.folds, EXPIRED))


def _pause_for(
    view: View, log: LogWriter, group: str, for_ms: int, at_least_s: Mapping[int, int]
) -> list[GroupRelease]:
    """Pause these coordinating partitions, each at least until its given expiry.

    Only a new record shows the current time of a log. So the first ReleaseGroup counts from the
    group's last record. If that was wrong by more than a second, another one replaces it.
    """

    def expires_s(partition: int, log_ms: int) -> int:
        return max(at_least_s[partition], expiry_s(log_ms, for_ms))

    sent = {
        partition: expires_s(partition, view.folds[partition].last_ms(group) or 0)
        for partition in at_least_s
    }
    half = None
    try:
        done = release_group(view, log, group, sent)
    except PartlyReleased as failed:
        half, done = failed, [*failed.done]
    exact = {
        one.coordinating_partition: expires_s(one.coordinating_partition, one.at_ms) for one in done
    }
    wrong = {
        partition: at_s for partition, at_s in exact.items() if abs(at_s - sent[partition]) > 1
    }
    if wrong:
        anew = {one.coordinating_partition: one for one in release_group(view, log, group, wrong)}
        done = [
            attrs.evolve(
                anew[one.coordinating_partition],
                freed=one.freed + anew[one.coordinating_partition].freed,
            )
            if one.coordinating_partition in anew
            else one
            for one in done
        ]
    if half is not None:
        raise PartlyReleased(tuple(done), half.reason)
    return done


def expiry_s(log_ms: int, for_ms: int) -> int:
    """The expiry of a pause that begins at `log_ms`, in whole Unix seconds."""
    return -(-(log_ms + for_ms) // 1000)


def shared_of(view: View, group: str) -> dict[ClaimKey, FoldedSharedClaim]:
    """The claims of a group that are shared, or may be."""
    found = {key: view.folds[number].shared(key) for number, key in view.claims(group)}
    return {key: shared for key, shared in found.items() if shared is not None}


def resume(view: View, log: LogWriter, group: str) -> list[GroupRelease]:
    """End the pause of every claim that is paused by the log; an empty list if there is none.

    However old the view is, no new owner loses a claim by it. Only the pauser's own win ends the
    pause of one claim (R8a). So each claim is won under the pauser's instance id, and released at
    the same position. If another instance owns it by then, that request is refused; a ReleaseGroup
    would end that ownership. Claims without a record yet stay paused until `paused_until_ms`. The
    pauser's win ends the ranges of a shared claim, which otherwise sleep through a pause.

    Raises:
        PartlyReleased: not all records were read back.
        BrokerFailed: none was.
    """
    ending = PauseEnding(log, new_administrator(view.rules, view.settings.environment).client_id)
    for partition, fold in view.folds.items():
        ending.begin(fold, partition, group)
    partitions = ending.partitions
    deadline = log.settings.environment.deadline(READ_BACK_S)

    def over() -> bool:
        return ending.over or not deadline.left_s

    for batch in view.changes(None, over) if partitions else ():
        for record, changes in batch:
            ending.read(record, changes)
    missing = ending.partitions
    done = tuple(_ended(view, partition, group) for partition in sorted(partitions - missing))
    _unless_read_back(done, ending.not_read_back)
    return list(done)


class PauseEnding:
    """Ends the pauses of single claims: each is won by its pauser (R8a), and released.

    If another instance owns a claim when its request lands, the request is refused. Spec: MCResume,
    from any view; MCEndPause, after positions were set.
    """

    def __init__(self, log: LogWriter, name: str) -> None:
        """`name` is a new client id, so every record with it was sent here."""
        self.failed: set[ClaimKey] = set()
        """Claims with a record that was not appended, or may not have been."""
        self._log, self._name = log, name
        self._under_way: dict[ClaimKey, tuple[int, Future[RecordMetadata]]] = {}
        self._folds: dict[int, ClaimsFold] = {}
        self._beside: set[ClaimKey] = set()
        self.requests: set[ClaimKey] = set()
        """Claims whose request was not read back."""

    def begin(
        self, fold: ClaimsFold, partition: int, group: str, own: Collection[ClaimKey] = ()
    ) -> None:
        """Claim the paused claims there, and those of `own` that their pauser still owns.

        After that win, records sent under an earlier one are in the log, or have no effect.
        """
        self._folds[partition] = fold
        work, paused = fold.work(group), paused_until_ms(fold, group) is not None
        self._beside |= fold.claims(group).keys() - work.claimed - set(own)
        for key in sorted({*fold.claims(group), *own}):
            reader = fold.claim(key)
            ends = paused and may_end_pause(work, key, reader)
            if ends or (key in own and _owned_by_pauser(reader)):
                self.requests.add(key)
                pauser = reader.claim.pauser
                assert pauser is not None
                me = self._named(pauser)
                sent = claiming_partition_sent(me, ConsumerState(reader, 0), key)
                self._send(key, partition, sent)

    def read(self, record: Record, changes: list[ClaimChange]) -> None:
        """Read the next record of these coordinating partitions, and its changes."""
        message = record.message
        if message.client_id != self._name or isinstance(message, ReleaseGroup):
            return
        [change] = changes
        reader, key = change.after, change.key
        self.requests.discard(key)
        won = reader.known and reader.claim.epoch == record.offset
        if isinstance(message, ClaimingPartition) and won:
            # Its winner releases it: the group may have another pauser since the request.
            me = self._named(message.instance_id)
            consumer = ConsumerState(reader, record.offset + 1)
            sent = releasing_partition_sent(me, consumer, key)
            work = self._folds[record.partition].work(key.group)
            if work.set and key in self._beside and reader.claim.position_set:
                # Without the header it would look like a position that should be set, and was not.
                sent = position_sent(me, consumer, key, reader.claim.position)
            self._send(key, record.partition, sent)
        else:
            self._under_way.pop(key, None)

    @property
    def over(self) -> bool:
        """Whether all records were read back, or `failed`."""
        self.failed |= {key for key, (_, sent) in self._under_way.items() if _error(sent)}
        return self.failed >= self._under_way.keys()

    @property
    def not_read_back(self) -> list[Sent]:
        """The records that were sent and not read back."""
        return list(self._under_way.values())

    @property
    def partitions(self) -> set[int]:
        """Coordinating partitions with records that were not read back."""
        return {partition for partition, _ in self._under_way.values()}

    def _named(self, pauser: str) -> InstanceConfig:
        """The instance that may end this pauser's pause, under our name."""
        return InstanceConfig(pauser, self._name, Mode.AT_MOST_ONCE, admin=True)

    def _send(self, key: ClaimKey, partition: int, sent: Send) -> None:
        self._under_way[key] = partition, self._log.append(partition, sent.message, sent.headers)


def may_end_pause(work: PauseWork, key: ClaimKey, reader: Reader) -> bool:
    """Whether it is paused, with a known pauser and position: the pauser's release sets both.

    A claim that its pauser owns is not paused any more, and only the pauser may release it.
    """
    needed = Field.OWNER | Field.PAUSER | Field.POSITION
    known = reader.claim.paused_until_ms is not None and needed in reader.certain
    return known and not _left_over(work, key, reader)


def _left_over(work: PauseWork, key: ClaimKey, reader: Reader) -> bool:
    """Whether positions were set under this pause, but never one of this claim.

    So it was not a target. Released without a position it would look like one, and it must not get
    a position.
    """
    return bool(work.set) and key not in work.claimed and not reader.claim.position_set


def _owned_by_pauser(reader: Reader) -> bool:
    claim = reader.claim
    needed = Field.OWNER | Field.PAUSER | Field.POSITION
    return needed in reader.certain and claim.owned and claim.owner_instance == claim.pauser


def _ended(view: View, partition: int, group: str) -> GroupRelease:
    fold = view.folds[partition]
    return GroupRelease(partition, (), paused_until_ms(fold, group), fold.last_ms(group) or 0)


def release(
    view: View, log: LogWriter, group: str, named: list[tuple[str, int | None]], hold_ms: int = 0
) -> list[GroupRelease]:
    """End the ownership of these claims, and of all others of the group on their partitions.

    With `hold_ms` they stay paused for that long. A current pause stays. Returns an empty list if
    none of the named claims has an owner.

    Raises:
        InvalidOption: the group has no such claim.
    """
    partitions = {coordinating_partition(topic, view.partitions) for topic, _ in named}
    if not any(owned_of(view, group, topic, partition) for topic, partition in named):
        return []
    kept_s = {n: kept_expiry_s(view.folds[n], group) for n in sorted(partitions)}
    if hold_ms:
        return _pause_for(view, log, group, hold_ms, kept_s)
    return release_group(view, log, group, kept_s)


def owned_of(view: View, group: str, topic: str, partition: int | None) -> list[ClaimKey]:
    """The claims of a topic, or of one partition, that have an owner.

    Raises:
        InvalidOption: the group has no such claim.
    """
    claims = view.folds[coordinating_partition(topic, view.partitions)].claims(group)
    found = [
        key for key in claims if key.topic == topic and partition in (None, key.topic_partition)
    ]
    if not found:
        there = ", ".join(sorted({key.topic for _, key in view.claims(group)})) or "none"
        name = topic if partition is None else f"{topic}:{partition}"
        raise InvalidOption(f"group {group} has no claim of {name}; it has claims of: {there}")
    return sorted(key for key in found if claims[key].claim.owned)


def kept_expiry_s(fold: ClaimsFold, group: str) -> int:
    """The expiry with which another ReleaseGroup leaves a pause unchanged.

    A pause that was ended claim by claim is over, although claims without a record are paused.
    """
    until_ms, work, claims = paused_until_ms(fold, group), fold.work(group), fold.claims(group)
    in_force = not claims or any(
        reader.claim.paused_until_ms is not None and not _left_over(work, key, reader)
        for key, reader in claims.items()
    )
    return EXPIRED if until_ms is None or not in_force else -(-until_ms // 1000)


# --- sending and reading back ---------------------------------------------------------------------


def release_group(
    view: View,
    log: LogWriter,
    group: str,
    expires_unix_s: Mapping[int, int],
    me: InstanceConfig | None = None,
) -> list[GroupRelease]:
    """Send a ReleaseGroup to these coordinating partitions, and read back their effects.

    Raises:
        PartlyReleased: not all were read back.
        BrokerFailed: none was.
    """
    sender = me or new_administrator(view.rules, view.settings.environment)
    sent: dict[int, Future[RecordMetadata]] = {}
    for partition, expires_s in expires_unix_s.items():
        send = release_group_sent(sender, group, expires_s)
        sent[partition] = log.append(partition, send.message, send.headers)
    done: dict[int, GroupRelease] = {}
    deadline = log.settings.environment.deadline(READ_BACK_S)

    def over() -> bool:
        left = (outcome for partition, outcome in sent.items() if partition not in done)
        return all(map(_error, left)) or not deadline.left_s

    for batch in view.changes(None, over):
        for record, changes in batch:
            message = record.message
            own = message.instance_id == sender.instance_id
            if own and isinstance(message, ReleaseGroup) and message.group_id == group:
                done[record.partition] = _released(view, record.partition, group, changes)
    left = [(partition, outcome) for partition, outcome in sent.items() if partition not in done]
    _unless_read_back(tuple(done.values()), left)
    return [done[partition] for partition in sorted(done)]


def _released(view: View, partition: int, group: str, changes: list[ClaimChange]) -> GroupRelease:
    freed = tuple(
        FreedClaim(
            change.key,
            owner.owner_client or "",
            owner.owner_instance or "",
            None
            if (shared := view.folds[partition].shared(change.key)) is None
            else shared.instances,
        )
        for change in changes
        if (owner := change.before.claim).owned
    )
    claim = view.folds[partition].newborn(group).claim
    claims = {change.key: change.after.claim for change in changes}
    free = [key for key, one in claims.items() if one.paused_until_ms is None]
    ahead = tuple(sorted(free)) if claim.paused_until_ms is not None else ()
    above_ms = max((claims[key].clock_ms for key in ahead), default=None)
    return GroupRelease(partition, freed, claim.paused_until_ms, claim.clock_ms, ahead, above_ms)

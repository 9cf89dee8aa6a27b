"""Pauses a group, ends a pause, and ends ownership: sends ReleaseGroups and reads them back.

A ReleaseGroup ends every claim of its group on one coordinating partition, and pauses those claims
until it expires; a second one replaces the first. So it frees a claim together with all others of
the group on the same coordinating partition: the protocol has nothing smaller that needs no consent
of the owner. A pause is ended claim by claim, which frees nobody.
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
"""An expiry, in unix seconds, that has passed by everybody's clock."""


@frozen
class FreedClaim:
    """A claim that had an owner."""

    key: ClaimKey
    owner_client: str
    owner_instance: str
    """Of a shared claim both are its anchor's."""
    shared_by: tuple[str, ...] | None = None
    """The instances that share it, whose ranges sleep now; empty if they are not known, and None
    if nothing shows that it is shared."""


@frozen
class GroupRelease:
    """What a ReleaseGroup did to one coordinating partition, as its log says."""

    coordinating_partition: int
    freed: tuple[FreedClaim, ...]
    paused_until_ms: int | None
    """None if it pauses nothing."""
    at_ms: int
    """When it was appended, by the broker's clock."""
    not_held: tuple[ClaimKey, ...] = ()
    """Claims whose clock is at the expiry or past it, so that it paused everything but these. It
    was ahead for a while: a broker's clock was."""
    holds_above_ms: int | None = None
    """A pause that ends after this holds on those claims, too, unix ms."""


class PartlyReleased(BrokerFailed):
    """It took effect on some coordinating partitions; `reason` names what is known of others."""

    def __init__(self, done: tuple[GroupRelease, ...], reason: str) -> None:
        partitions = "1 coordinating partition" if len(done) == 1 else f"{len(done)} others"
        super().__init__(f"{reason}; it took effect on {partitions}")
        self.done = done
        self.reason = reason


def _unless_read_back(done: tuple[GroupRelease, ...], sent: Collection[Sent]) -> None:
    """Say what became of these records, which were not read back.

    Raises:
        PartlyReleased: something else was done.
        BrokerFailed: nothing was.
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
    """Somebody new: an id is of one operation, since what is in flight belongs to that one."""
    name = f"marshal-admin-{environment.new_id()[:8]}" + ("" if number is None else f"-{number}")
    return InstanceConfig(name, name, Mode.AT_MOST_ONCE, admin=True, rules=rules)


def paused_until_ms(fold: ClaimsFold, group: str) -> int | None:
    """Until when the log says that the group is paused; None if it is not, as far as it goes."""
    until_ms = fold.newborn(group).claim.paused_until_ms
    return until_ms if until_ms is not None and log_ms(fold, group) < until_ms else None


def log_ms(fold: ClaimsFold, group: str) -> int:
    """How far the clocks of the group's claims have come, unix ms."""
    readers = (fold.newborn(group), *fold.claims(group).values())
    return max(reader.claim.clock_ms for reader in readers)


# --- what an operator asks for --------------------------------------------------------------------


def pause(view: View, log: LogWriter, group: str, for_ms: int) -> list[GroupRelease]:
    """Pause the group on every coordinating partition, so also for topics that come later.

    The clock of each log measures `for_ms` and judges when the pause is over; this machine's clock
    plays no part.

    Raises:
        InvalidOption: longer than the longest pause.
        PartlyReleased: not on all of them, or nobody knows.
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
    """Pause these coordinating partitions, and none for less than to this expiry.

    What time a log has now only a new record of it says. So the first ReleaseGroup counts from the
    group's last record, and where that was wrong by more than a second another one replaces it.
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
    """The expiry of a pause that begins when the log's clock shows this, in whole unix seconds."""
    return -(-(log_ms + for_ms) // 1000)


def shared_of(view: View, group: str) -> dict[ClaimKey, FoldedSharedClaim]:
    """The claims of a group that several consumers share, or may."""
    found = {key: view.folds[number].shared(key) for number, key in view.claims(group)}
    return {key: shared for key, shared in found.items() if shared is not None}


def resume(view: View, log: LogWriter, group: str) -> list[GroupRelease]:
    """End the pause of every claim that the log knows and says to be paused; an empty list if none.

    Nobody who has won since loses a claim by it, however old the view is. Only the pauser's own win
    ends the pause of one claim (R8a), so each is claimed under the pauser's instance id and given
    back where it was found. If somebody else owns it by then, that request is refused. A
    ReleaseGroup would end their ownership. `paused_until_ms` says until when claims stay paused
    that nobody knows yet. The pauser's win ends the ranges of a shared claim, which sleep through a
    pause that runs out.

    Raises:
        PartlyReleased: not all were read back.
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
    """Ends the pauses of single claims: each is won by its pauser (R8a), and given back.

    Where somebody else owns a claim by the time its request lands, the request is refused. Spec:
    MCResume, from any view; MCEndPause, after positions were set.
    """

    def __init__(self, log: LogWriter, name: str) -> None:
        """`name` is a client id that nothing else was sent under: what has it was sent here."""
        self.failed: set[ClaimKey] = set()
        """Claims of which a record could not be appended, or nobody knows."""
        self._log, self._name = log, name
        self._under_way: dict[ClaimKey, tuple[int, Future[RecordMetadata]]] = {}
        self._folds: dict[int, ClaimsFold] = {}
        self._beside: set[ClaimKey] = set()
        self.requests: set[ClaimKey] = set()
        """Claims of which the request was not read back."""

    def begin(
        self, fold: ClaimsFold, partition: int, group: str, own: Collection[ClaimKey] = ()
    ) -> None:
        """Claim what is paused there, and of `own` also what its pauser owns still.

        That settles what was sent under an earlier win: the log has it by then, or it is void.
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
        """The next record of these coordinating partitions, and what it did."""
        message = record.message
        if message.client_id != self._name or isinstance(message, ReleaseGroup):
            return
        [change] = changes
        reader, key = change.after, change.key
        self.requests.discard(key)
        won = reader.known and reader.claim.epoch == record.offset
        if isinstance(message, ClaimingPartition) and won:
            # Given back by who won it: the group may have another pauser since the request.
            me = self._named(message.instance_id)
            consumer = ConsumerState(reader, record.offset + 1)
            sent = releasing_partition_sent(me, consumer, key)
            work = self._folds[record.partition].work(key.group)
            if work.set and key in self._beside and reader.claim.position_set:
                # Without the header it would look like one that was to be set, and was not.
                sent = position_sent(me, consumer, key, reader.claim.position)
            self._send(key, record.partition, sent)
        else:
            self._under_way.pop(key, None)

    @property
    def over(self) -> bool:
        """Everything was read back, or `failed`."""
        self.failed |= {key for key, (_, sent) in self._under_way.items() if _error(sent)}
        return self.failed >= self._under_way.keys()

    @property
    def not_read_back(self) -> list[Sent]:
        """What was sent and not read back."""
        return list(self._under_way.values())

    @property
    def partitions(self) -> set[int]:
        """Coordinating partitions where something was not read back."""
        return {partition for partition, _ in self._under_way.values()}

    def _named(self, pauser: str) -> InstanceConfig:
        """Who may end this one's pause, under our name."""
        return InstanceConfig(pauser, self._name, Mode.AT_MOST_ONCE, admin=True)

    def _send(self, key: ClaimKey, partition: int, sent: Send) -> None:
        self._under_way[key] = partition, self._log.append(partition, sent.message, sent.headers)


def may_end_pause(work: PauseWork, key: ClaimKey, reader: Reader) -> bool:
    """It is paused, and it is known by whom and where it is: a pauser's release sets the position.

    One that its pauser owns is not paused any more, and is the pauser's to give back.
    """
    needed = Field.OWNER | Field.PAUSER | Field.POSITION
    known = reader.claim.paused_until_ms is not None and needed in reader.certain
    return known and not _left_over(work, key, reader)


def _left_over(work: PauseWork, key: ClaimKey, reader: Reader) -> bool:
    """Positions were set under this pause, and nobody ever set one of this claim.

    So it was not among the targets. Given back without a position it would look like one of them,
    and it must not be given one.
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
    """End the ownership of these claims, and of all others of the group beside them.

    With `hold_ms` nobody claims them for that long. A pause that is in force stays in force. An
    empty list if nobody owns one of those that were named.

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
    """Which claims of a topic, or of one partition, somebody owns.

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
    """The expiry that a further ReleaseGroup needs, to leave a pause as it is.

    A pause that was ended claim by claim is over, although claims that nobody knows are paused.
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
    """Send a ReleaseGroup to these coordinating partitions and read what each of them did.

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

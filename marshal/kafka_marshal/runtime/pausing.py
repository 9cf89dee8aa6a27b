"""Pausing a group, ending a pause, and ending ownership: ReleaseGroups, sent and read back.

A ReleaseGroup ends every claim of its group on one coordinating partition, and pauses those claims
until it expires; a second one replaces the first. So a claim is freed by one, together with all
others of the group on the same coordinating partition: the protocol has nothing smaller that needs
no consent of the owner. A pause is ended claim by claim, which frees nobody.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Final

from attrs import frozen

from kafka_marshal.client.consumer import (
    Consumer,
    Me,
    Mode,
    claiming_partition_sent,
    release_group_sent,
    releasing_partition_sent,
)
from kafka_marshal.codec import coordinating_partition
from kafka_marshal.core.knowledge import Field, Reader
from kafka_marshal.core.messages import ClaimingPartition, ReleaseGroup
from kafka_marshal.core.state import ClaimKey, Rules
from kafka_marshal.runtime.errors import BrokerFailed, InvalidOption
from kafka_marshal.runtime.fold import Change, Fold
from kafka_marshal.runtime.log import Appended, Log
from kafka_marshal.runtime.reader import now_ms
from kafka_marshal.runtime.view import View

EXPIRED: Final = 0
"""An expiry, in unix seconds, that has passed by everybody's clock."""
READ_BACK_S: Final = 40.0
"""So long it is waited until what was sent is read; sending gives up after 30."""


@frozen
class Freed:
    """A claim that had an owner."""

    key: ClaimKey
    owner_client: str
    owner_instance: str


@frozen
class Released:
    """What a ReleaseGroup did to one coordinating partition, as its log says."""

    place: int
    freed: tuple[Freed, ...]
    paused_until_ms: int | None
    """None if it pauses nothing."""
    at_ms: int
    """When it was appended, by the broker's clock."""
    not_held: tuple[ClaimKey, ...] = ()
    """Claims whose clock is at the expiry or past it, so that it paused everything but these. It
    was ahead for a while: a broker's clock was."""
    holds_above_ms: int | None = None
    """A pause that ends after this holds on those claims, too, unix ms."""


class Half(BrokerFailed):
    """Some coordinating partitions were reached, and of the others nobody knows."""

    def __init__(self, done: tuple[Released, ...], in_doubt: tuple[int, ...], reason: str) -> None:
        places = ", ".join(map(str, in_doubt))
        super().__init__(
            f"{reason}; {len(done)} coordinating partitions have it, and nobody knows of {places}"
        )
        self.done = done
        self.in_doubt = in_doubt


def new_administrator(rules: Rules, *, number: int | None = None) -> Me:
    """Somebody new: an id is of one operation, since what is in flight belongs to that one."""
    name = f"marshal-admin-{uuid.uuid4().hex[:8]}" + ("" if number is None else f"-{number}")
    return Me(name, name, Mode.AT_MOST_ONCE, admin=True, rules=rules)


def paused_until_ms(fold: Fold, group: str) -> int | None:
    """Until when the log says that the group is paused; None if it is not, as far as it goes."""
    claim = fold.newborn(group).claim
    clocks = [claim.clock_ms, *(reader.claim.clock_ms for reader in fold.claims(group).values())]
    until_ms = claim.paused_until_ms
    return until_ms if until_ms is not None and max(clocks) < until_ms else None


# --- what an operator asks for --------------------------------------------------------------------


def pause(view: View, log: Log, group: str, for_ms: int) -> list[Released]:
    """Pause the group on every coordinating partition, so also for topics that come later.

    Raises:
        InvalidOption: longer than the longest pause.
        Half: not on all of them, or nobody knows.
    """
    if for_ms > view.rules.pause_max_ms:
        raise InvalidOption(
            f"--for: the longest pause is {view.rules.pause_max_ms // 1000} s; every reader cuts a "
            "longer one to that"
        )
    expires_unix_s = -(-(now_ms() + for_ms) // 1000)
    return release_group(view, log, group, dict.fromkeys(view.folds, expires_unix_s))


def resume(view: View, log: Log, group: str) -> list[Released]:
    """End the pause of every claim that the log knows and says to be paused; an empty list if none.

    Nobody who has won since loses a claim by it, however old the view is. Only the pauser's own win
    ends the pause of one claim (R8a), so each is claimed under its instance id and given back where
    it was found; where somebody else owns it by then, that request is refused. A ReleaseGroup would
    end their ownership. `paused_until_ms` says until when claims stay paused that nobody knows yet.

    Raises:
        Half: not all were read back.
        BrokerFailed: none was.
    """
    name = new_administrator(view.rules).client_id
    under_way: dict[ClaimKey, Future[Appended]] = {}
    for place, fold in view.folds.items():
        for key, reader in fold.claims(group).items():
            if paused_until_ms(fold, group) is not None and _may_end_pause(reader):
                me = _pauser(reader, name)
                sent = claiming_partition_sent(me, Consumer(reader, view.next[place]), key)
                under_way[key] = log.append(place, sent.message, sent.headers)
    asked = {key: coordinating_partition(key.topic, view.partitions) for key in under_way}
    failed: dict[ClaimKey, str] = {}
    deadline = time.monotonic() + READ_BACK_S

    def over() -> bool:
        for key, future in under_way.items():
            if future.done() and (error := future.exception()):
                failed[key] = str(error)
        return failed.keys() >= under_way.keys() or time.monotonic() > deadline

    for batch in view.changes(None, over) if under_way else ():
        for record, changes in batch:
            if record.message.client_id != name:
                continue
            [change] = changes
            reader, won = change.after, change.after.claim.epoch == record.offset
            if isinstance(record.message, ClaimingPartition) and won and reader.known:
                me, consumer = _pauser(reader, name), Consumer(reader, record.offset + 1)
                sent = releasing_partition_sent(me, consumer, change.key)
                future = log.append(record.partition, sent.message, sent.headers)
                under_way[change.key] = future
            else:
                under_way.pop(change.key, None)
    missing = {asked[key] for key in under_way}
    done = tuple(
        _ended(view, place, group) for place in sorted(set(asked.values())) if place not in missing
    )
    if missing:
        reason = next(iter(failed.values()), "it was not read back in time")
        raise Half(done, tuple(sorted(missing)), reason) if done else BrokerFailed(reason)
    return list(done)


def _may_end_pause(reader: Reader) -> bool:
    """It is paused, and it is known by whom and where it is: a pauser's release sets the position.

    One that its pauser owns is not paused any more, and is the pauser's to give back.
    """
    needed = Field.OWNER | Field.PAUSER | Field.POSITION
    return reader.claim.paused_until_ms is not None and needed in reader.certain


def _pauser(reader: Reader, name: str) -> Me:
    """Who may end the pause, under our name."""
    pauser = reader.claim.pauser
    assert pauser is not None
    return Me(pauser, name, Mode.AT_MOST_ONCE, admin=True, certifies=False)


def _ended(view: View, place: int, group: str) -> Released:
    fold = view.folds[place]
    return Released(place, (), paused_until_ms(fold, group), fold.last_ms(group) or 0)


def release(
    view: View, log: Log, group: str, named: list[tuple[str, int | None]], hold_ms: int = 0
) -> list[Released]:
    """End the ownership of these claims, and of all others of the group beside them.

    With `hold_ms` nobody claims them for that long. A pause that is in force stays in force. An
    empty list if nobody owns one of those that were named.

    Raises:
        InvalidOption: the group has no such claim.
    """
    places = {coordinating_partition(topic, view.partitions) for topic, _ in named}
    if not any(owned_of(view, group, topic, partition) for topic, partition in named):
        return []
    until_s = -(-(now_ms() + hold_ms) // 1000) if hold_ms else EXPIRED
    expires = {n: max(until_s, kept_expiry_s(view.folds[n], group)) for n in sorted(places)}
    return release_group(view, log, group, expires)


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


def kept_expiry_s(fold: Fold, group: str) -> int:
    """The expiry that a further ReleaseGroup needs, to leave a pause as it is."""
    until_ms = paused_until_ms(fold, group)
    return EXPIRED if until_ms is None else -(-until_ms // 1000)


# --- sending and reading back ---------------------------------------------------------------------


def release_group(
    view: View, log: Log, group: str, expires_unix_s: Mapping[int, int], me: Me | None = None
) -> list[Released]:
    """Send a ReleaseGroup to these coordinating partitions and read what each of them did.

    Raises:
        Half: not all were read back.
        BrokerFailed: none was.
    """
    sender = me or new_administrator(view.rules)
    sent: dict[int, Future[Appended]] = {}
    for place, expires_s in expires_unix_s.items():
        send = release_group_sent(sender, group, expires_s)
        sent[place] = log.append(place, send.message, send.headers)
    done: dict[int, Released] = {}
    deadline = time.monotonic() + READ_BACK_S
    failed: dict[int, str] = {}

    def over() -> bool:
        for place, future in sent.items():
            if place not in failed and future.done() and (error := future.exception()):
                failed[place] = str(error)
        return len(done) + len(set(failed) - set(done)) == len(sent) or time.monotonic() > deadline

    for batch in view.changes(None, over):
        for record, changes in batch:
            message = record.message
            own = message.instance_id == sender.instance_id
            if own and isinstance(message, ReleaseGroup) and message.group_id == group:
                done[record.partition] = _released(view, record.partition, group, changes)
    if len(done) < len(sent):
        missing = tuple(sorted(set(sent) - set(done)))
        reason = next(iter(failed.values()), "it was not read back in time")
        if not done:
            raise BrokerFailed(reason)
        raise Half(tuple(done.values()), missing, reason)
    return [done[place] for place in sorted(done)]


def _released(view: View, place: int, group: str, changes: list[Change]) -> Released:
    freed = tuple(
        Freed(change.key, owner.owner_client or "", owner.owner_instance or "")
        for change in changes
        if (owner := change.before.claim).owned
    )
    claim = view.folds[place].newborn(group).claim
    claims = {change.key: change.after.claim for change in changes}
    free = [key for key, one in claims.items() if one.paused_until_ms is None]
    ahead = tuple(sorted(free)) if claim.paused_until_ms is not None else ()
    above_ms = max((claims[key].clock_ms for key in ahead), default=None)
    return Released(place, freed, claim.paused_until_ms, claim.clock_ms, ahead, above_ms)

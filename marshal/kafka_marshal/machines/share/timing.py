"""The timing of fair share: when a member asks for more claims, and when it gives some back.

`rules` defines what to do, given what was read; this module adds delays. It knows when a request is
old, when a free claim was offered for long enough, and when others had time to announce themselves.
It does not know drivers, records or effects: the state of the log comes in as a value, and the
decision goes out as one. All times are of one clock, the member's; timestamps of the log are
converted before (`log_clock`).

>>> key = ClaimKey("g", "events", 0)
>>> share = FairShare(Sharer("a1", "a", frozenset({key})))
>>> share.look(GroupView({}, {}, frozenset(), frozenset()), now_ms=0).ask
(ClaimKey(group='g', topic='events', topic_partition=0),)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import field, frozen

from kafka_marshal.core.messages import ClaimingPartition, Message, ReleaseGroup, ReleasingPartition
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.core.validators import not_negative, positive
from kafka_marshal.machines.share import rules
from kafka_marshal.machines.share.rules import ShareMemory, Sharer, ShareView

# --- what is asked and answered -------------------------------------------------------------------


@frozen
class Owner:
    """The owner of a claim, according to the log."""

    instance_id: str
    client_id: str
    alive_ms: int
    """When its last record was accepted: `Claim.last_heartbeat_ms`, by the clock of the member."""


@frozen
class Request:
    """A ClaimingPartition that was refused, and was not followed by a win of the same client."""

    key: ClaimKey
    at_ms: int
    """By the log's clock in stored requests, by the member's in `GroupView`."""


@frozen
class GroupView:
    """The state of a group in the log, and the member's pending requests and releases."""

    owners: Mapping[ClaimKey, Owner]
    """For the sharer's keys, without free claims. May include stale owners."""
    requests: Mapping[str, Request]
    """By client id; `requests_after` maintains them. May include old ones."""
    asked: frozenset[ClaimKey]
    """Claims that this instance has requested and not read back (`Consumer.asked`)."""
    giving: frozenset[ClaimKey]
    """Claims that it owns and has begun to give back, or whose release it has sent."""


@frozen
class Decision:
    """What to do now. The log may refuse all of it; the next decision takes that into account."""

    ask: tuple[ClaimKey, ...] = ()
    """Ask for these, in this order: they are free, stale, or of another instance of its own client.
    """
    request: ClaimKey | None = None
    """Ask for this one although it has an owner, so that every member reads who wants more. Do not
    wait until the owner is stale: the log refuses the request, or it wins a claim that has
    become free."""
    give: ClaimKey | None = None
    """Begin to give this one back: finish the messages in flight, then release. Decide again at
    once."""
    look_again_ms: int | None = None
    """Decide again at this time, if no record comes before; None: never."""


@frozen
class ShareTiming:
    """The delays of fair share."""

    stale_after_ms: int = field(default=120_000, validator=positive)
    """Owners and requests older than this do not count: twice the heartbeat interval."""
    renew_ms: int = field(default=60_000, validator=positive)
    """When a request without an answer is repeated for another owner. It must be below
    stale_after_ms, or the others forget a member that owns nothing from time to time."""
    settle_ms: int = field(default=1_000, validator=not_negative)
    """The time between the first claim or request and the next, to read of members that start at
    the same moment."""
    grace_ms: int = field(default=5_000, validator=positive)
    """A free claim is offered to the next member if no claim was taken for this long."""


def requests_after(
    requests: Mapping[str, Request], message: Message, at_ms: int, owner_instance: str | None
) -> Mapping[str, Request]:
    """The requests after one more record of the group; the same mapping if nothing changed.

    A ClaimingPartition that did not make its sender the owner is its client's request. One that did
    answers the request, so one request moves one claim. A client that releases wants nothing.

    Args:
        message: of any claim of the group that the sharer reads.
        at_ms: the record's timestamp.
        owner_instance: the owner of the claim after the record, according to its reader.
    """
    if isinstance(message, ReleaseGroup):
        return requests
    client = message.client_id
    if isinstance(message, ClaimingPartition) and message.instance_id != owner_instance:
        key = message.key
        return {**requests, client: Request(key, at_ms)}
    if isinstance(message, ClaimingPartition | ReleasingPartition) and client in requests:
        return {other: request for other, request in requests.items() if other != client}
    return requests


# --- and when -------------------------------------------------------------------------------------


class FairShare:
    """The rules with delays: what one member does now, given the state of the log."""

    def __init__(self, me: Sharer, patience: ShareTiming | None = None) -> None:
        """Begin without knowledge.

        Raises:
            ValueError: `renew_ms` is not below `stale_after_ms`.
        """
        self.me = me
        """May be replaced when topics are added or grow."""
        self.patience = patience or ShareTiming()
        if self.patience.renew_ms >= self.patience.stale_after_ms:
            raise ValueError(
                f"renew_ms is {self.patience.renew_ms}, not less than "
                f"stale_after_ms, {self.patience.stale_after_ms}"
            )
        self._announced_ms: int | None = None
        self._free_since_ms: dict[ClaimKey, int] = {}
        self._passed_over: frozenset[ClaimKey] = frozenset()

    def look(self, view: GroupView, now_ms: int) -> Decision:
        """Decide what to do, given the state of the log and what is pending.

        Call it when every partition was read to its end, and once after a batch of records rather
        than for each, since it costs some steps per claim. `now_ms` is a steady clock, which never
        goes back.
        """
        seen, memory = self._seen(view, now_ms), self._memory(view)
        self._notice(seen, now_ms)
        offered = rules.offered_to_me(seen, self._overdue(now_ms))
        settling = self._settles_at_ms is not None and now_ms < self._settles_at_ms
        ask = self._predecessors(view, seen)
        if not settling:
            ask += rules.claims_to_ask(seen, memory, offered)
        # What an earlier instance owns is not ours to release before we have taken it over.
        give = min(
            (
                key
                for key in rules.claims_to_give(seen, memory)
                if view.owners[key].instance_id == self.me.instance_id
            ),
            default=None,
        )
        request = None
        if not ask:
            request = self._request(view, seen, memory, offered, now_ms)
        return Decision(ask, request, give, self._look_again_ms(view, now_ms))

    def _seen(self, view: GroupView, now_ms: int) -> ShareView:
        fresh_ms = now_ms - self.patience.stale_after_ms
        return ShareView(
            self.me,
            {
                key: owner.client_id
                for key, owner in view.owners.items()
                if owner.alive_ms >= fresh_ms and key in self.me.keys
            },
            {
                client: request.key
                for client, request in view.requests.items()
                if request.at_ms >= fresh_ms
            },
        )

    def _memory(self, view: GroupView) -> ShareMemory:
        return ShareMemory(view.asked, view.giving, self._passed_over)

    def _notice(self, seen: ShareView, now_ms: int) -> None:
        """Note since when the others know it, and since when claims are free."""
        if not rules.is_announced(seen):
            self._announced_ms = None
        elif self._announced_ms is None:
            self._announced_ms = now_ms
        # While claims are being taken nobody is too slow.
        since, free = self._free_since_ms, set(seen.free)
        since = since if since.keys() <= free else {}
        self._free_since_ms = {key: since.get(key, now_ms) for key in free}

    @property
    def _settles_at_ms(self) -> int | None:
        """Until when it waits for others to announce themselves; None before it did so itself."""
        if self._announced_ms is None:
            return None
        return self._announced_ms + self.patience.settle_ms

    def _overdue(self, now_ms: int) -> dict[ClaimKey, int]:
        grace_ms = self.patience.grace_ms
        return {key: (now_ms - since) // grace_ms for key, since in self._free_since_ms.items()}

    def _predecessors(self, view: GroupView, seen: ShareView) -> tuple[ClaimKey, ...]:
        """Claims of an earlier instance of its own client: taken over at once (R1b)."""
        me = self.me
        mine = [key for key, owner in seen.owners.items() if owner == me.client_id]
        others = sorted(key for key in mine if view.owners[key].instance_id != me.instance_id)
        own = len(mine) - len(others) + len(view.asked.intersection(others))
        most = len(others) if me.limit is None else max(0, me.limit - own)
        return tuple(key for key in others if key not in view.asked)[:most]

    def _request(
        self,
        view: GroupView,
        seen: ShareView,
        memory: ShareMemory,
        offered: Iterable[ClaimKey],
        now_ms: int,
    ) -> ClaimKey | None:
        if rules.wants_to_name(seen, memory, offered):
            return rules.claim_to_name(seen, self._passed_over)
        own = view.requests.get(self.me.client_id)
        if own is None or memory.asked or now_ms < own.at_ms + self.patience.renew_ms:
            return None
        if rules.is_hungry(seen) and rules.is_waiting(seen):
            self._passed_over = rules.passed_over_after(seen, memory)
            return rules.claim_to_name(seen, self._passed_over)
        if seen.mine == 0 and seen.owners:
            return rules.claim_to_name(seen, self._passed_over)
        return None

    def _look_again_ms(self, view: GroupView, now_ms: int) -> int | None:
        patience, overdue = self.patience, self._overdue(now_ms)
        due = [
            since + (overdue[key] + 1) * patience.grace_ms
            for key, since in self._free_since_ms.items()
        ]
        if self._settles_at_ms is not None:
            due.append(self._settles_at_ms)
        if (own := view.requests.get(self.me.client_id)) is not None:
            due.append(own.at_ms + patience.renew_ms)
        stale_after_ms = patience.stale_after_ms
        due += [owner.alive_ms + stale_after_ms + 1 for owner in view.owners.values()]
        due += [request.at_ms + stale_after_ms + 1 for request in view.requests.values()]
        return min((at for at in due if at > now_ms), default=None)

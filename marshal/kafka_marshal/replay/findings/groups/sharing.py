"""How a group shares its claims: who has how many, who has none, how often they move.

A client here is one client id, whatever its instances. Only wins, losses and ends of tenures matter
here, not heartbeats.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

import numpy as np
from attrs import define, evolve, field, frozen

from kafka_marshal.core.claims.verdicts import Refused
from kafka_marshal.core.messages import ClaimingPartition
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.replay.findings.cases import Case
from kafka_marshal.replay.findings.observer import FindingObserver, LogEnd
from kafka_marshal.replay.model.chunk_items import Ints
from kafka_marshal.replay.model.events import Event, JudgedRecord
from kafka_marshal.replay.model.phrasing import claim_name, clock, span, times
from kafka_marshal.replay.model.published import FindingRow

LOST: Final = frozenset({Refused.LIVE_OWNER, Refused.DOES_NOT_SUPERSEDE})
"""The guards that mean that another consumer was first."""
ASKED_MIN: Final = 3
"""A client that has asked this often without winning is starved."""
MANY: Final = 2
"""An owner of this many claims could give one away."""
UNFAIR: Final = 2.0
"""The ratio of the largest share to the smallest from which on a group is out of balance."""
UNFAIR_INTERVALS: Final = 10
CHURN_TENURES: Final = 10
CHURN_INTERVALS: Final = 60
"""The number of heartbeat intervals (an hour, with the original's) in which CHURN_TENURES tenures
are churn."""
_FEW: Final = 8
"""Up to this many wins are weighed one by one."""
_CELLS_MAX: Final = 1 << 18
"""The most counts to add up at once: wins times clients."""


@define
class _Races:
    asked: int = 0
    lost: Counter[str] = field(factory=Counter)
    at_once: int = 0
    case: Case | None = None


class LostRaces(FindingObserver):
    """Requests that came after another consumer's."""

    passes_over_releases = True

    def __init__(self) -> None:
        super().__init__()
        self._groups: defaultdict[str, _Races] = defaultdict(_Races)

    def observe(self, event: Event) -> None:
        """Count requests and lost races."""
        message = event.message
        if not isinstance(message, ClaimingPartition):
            return
        races = self._groups[event.key.group]
        races.asked += 1
        if event.verdict not in LOST:
            return
        if races.case is None:
            sentence = partial(_lost, races)
            races.case = Case("lost_races", event.key.group, None, None, None, None, sentence)
        races.case.add(event.sighting)
        races.lost[message.client_id] += 1
        owner = event.tenure
        if owner is not None:
            since_ms = event.clock_ms - owner.won_by.clock_ms
            races.at_once += since_ms <= event.rules.heartbeat_interval_ms

    def won(self, group: str, count: int) -> None:
        """Count requests that won."""
        self._groups[group].asked += count

    def at_the_end(self, end: LogEnd) -> Iterator[FindingRow]:
        """One finding for every group that lost any."""
        for races in self._groups.values():
            if races.case is not None:
                yield races.case.row()


def _lost(races: _Races, case: Case) -> str:
    client, most = max(races.lost.items(), key=lambda item: (item[1], item[0]))
    return (
        f"{case.count:,} of {times(races.asked, 'request')} for claims of group {case.group} "
        f"({100 * case.count / races.asked:.0f} %) found a live owner, {races.at_once:,} of them "
        f"within a heartbeat interval of its win (lost races), the others later. "
        f"{times(len(races.lost), 'client')} lost, most often {client or 'a client without id'} "
        f"({most:,})."
    )


class GroupShares:
    """The current number of claims of each client of a group."""

    def __init__(self) -> None:
        self._owned: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def of(self, group: str) -> Counter[str]:
        """Claims by client id; a client without any is missing."""
        return self._owned[group]

    def observe(self, event: Event) -> None:
        """Follow one event."""
        if not (event.began or event.ended):
            return
        owned = self.of(event.key.group)
        if event.ended and event.tenure is not None:
            owned[event.tenure.client] -= 1
            if not owned[event.tenure.client]:
                del owned[event.tenure.client]
        if event.began and event.tenure_after is not None:
            owned[event.tenure_after.client] += 1

    def won(self, wins: Wins) -> list[str]:
        """Apply wins of claims without an owner."""
        counts = np.bincount(wins.client, minlength=len(wins.clients)).tolist()
        owned = self.of(wins.group)
        won = [each for each in zip(wins.clients, counts, strict=True) if each[1]]
        for client, count in won:
            owned[client] += count
        return [client for client, _ in won]


@frozen(eq=False)
class Wins:
    """Wins of claims of one group that had no owner, in the order of the log."""

    group: str
    clients: Sequence[str]
    """The winners, each once."""
    client: Ints
    """The winner of each."""
    clocks_ms: Ints
    sighting: Callable[[int], JudgedRecord]
    """A win by its number."""

    def __len__(self) -> int:
        return len(self.client)

    def part(self, begin: int, end: int) -> Wins:
        """Those from one index to before another."""
        return evolve(
            self,
            client=self.client[begin:end],
            clocks_ms=self.clocks_ms[begin:end],
            sighting=lambda number: self.sighting(begin + number),
        )


class Starvation(FindingObserver):
    """Clients that ask without winning, while others have more than one claim."""

    passes_over_releases = True

    def __init__(self) -> None:
        super().__init__()
        self._shares = GroupShares()
        self._hungry: dict[tuple[str, str], Case] = {}

    def observe(self, event: Event) -> None:
        """Count the requests of a client without any claim."""
        self._shares.observe(event)
        group = event.key.group
        if event.began and event.tenure_after is not None:
            self._hungry.pop((group, event.tenure_after.client), None)
        message = event.message
        if not isinstance(message, ClaimingPartition) or not isinstance(event.verdict, Refused):
            return
        owned = self._shares.of(group)
        if message.client_id in owned or max(owned.values(), default=0) < MANY:
            return
        name = group, message.client_id
        case = self._hungry.get(name)
        if case is None:
            richest = max(owned, key=lambda client: (owned[client], client))
            sentence = partial(_starved, richest, owned[richest])
            sender = message.instance_id, message.client_id
            case = Case("starvation", group, None, None, *sender, sentence)
            self._hungry[name] = case
        case.add(event.sighting)

    def won(self, wins: Wins) -> None:
        """Apply wins of claims without an owner."""
        for client in self._shares.won(wins):
            self._hungry.pop((wins.group, client), None)

    def at_the_end(self, end: LogEnd) -> Iterator[FindingRow]:
        """Clients that asked often and for long, if the interval fits."""
        for case in self._hungry.values():
            lasted_ms = case.last_seen.clock_ms - case.first_seen.clock_ms
            assert case.group is not None
            enough_ms = end.rules_of(case.group).stale_after_ms
            if case.count >= ASKED_MIN and lasted_ms > enough_ms and end.fits(case.group):
                yield case.row()


def _starved(richest: str, owned: int, case: Case) -> str:
    first, last = case.first_seen, case.last_seen
    return (
        f"{case.client or 'A client without id'} of group {case.group} asked "
        f"{times(case.count, 'time')} for a claim, from offset {first.offset} "
        f"({clock(first.clock_ms)}) to {last.offset}, and won none, while others had several: "
        f"{richest or 'a client without id'} owned {times(owned, 'claim')} when it began."
    )


@define
class _Balance:
    since_ms: int
    weighed_ms: int = 0
    sum: float = 0.0
    worst: tuple[float, str, int, str, int] = (1.0, "", 0, "", 0)
    case: Case | None = None


class Imbalance(FindingObserver):
    """Groups in which some clients own far more than others, for most of the time.

    Counted while at least two clients own claims. A difference of one claim is as even as possible.
    """

    only_changes = True

    def __init__(self) -> None:
        super().__init__()
        self._shares = GroupShares()
        self._groups: dict[str, _Balance] = {}

    def observe(self, event: Event) -> None:
        """Weigh the shares until now, and apply the change."""
        if not (event.began or event.ended):
            return
        group = event.key.group
        balance = self._balance_of(group, event.clock_ms)
        self._weigh(group, balance, event.clock_ms, lambda: event.sighting)
        self._shares.observe(event)

    def won(self, wins: Wins) -> None:
        """Do the same with wins of claims without an owner."""
        balance = self._balance_of(wins.group, int(wins.clocks_ms[0]))
        clients = len(self._shares.of(wins.group)) + len(wins.clients)
        step = max(1, _CELLS_MAX // clients)
        for begin in range(0, len(wins), step):
            some = wins.part(begin, begin + step)
            if len(some) < _FEW:
                self._weigh_each(balance, some)
            else:
                self._weigh_all(balance, some)
                self._shares.won(some)

    def _weigh_each(self, balance: _Balance, wins: Wins) -> None:
        owned = self._shares.of(wins.group)
        for number, clock_ms in enumerate(wins.clocks_ms.tolist()):
            self._weigh(wins.group, balance, clock_ms, partial(wins.sighting, number))
            owned[wins.clients[int(wins.client[number])]] += 1

    def _weigh_all(self, balance: _Balance, wins: Wins) -> None:
        """Weigh the shares before each of them, as `_weigh` does one by one."""
        lasted_ms = np.diff(wins.clocks_ms, prepend=balance.since_ms)
        rows = np.flatnonzero(lasted_ms > 0)
        if not rows.size:
            return
        balance.since_ms = int(wins.clocks_ms[-1])
        owned = self._shares.of(wins.group)
        names = list(dict.fromkeys([*wins.clients, *owned]))
        counts = np.zeros((len(wins), len(names)), np.int64)
        counts[0] = [owned.get(name, 0) for name in names]
        counts[np.arange(1, len(wins)), wins.client[:-1]] = 1
        counts = np.cumsum(counts, axis=0)[rows]
        several = (counts > 0).sum(axis=1) > 1
        rows, counts = rows[several], counts[several]
        if not rows.size:
            return
        most = counts.max(axis=1)
        least = np.where(counts > 0, counts, most[:, np.newaxis]).min(axis=1)
        uneven = np.flatnonzero(most - least > 1)
        ratios = np.ones(len(rows))
        ratios[uneven] = most[uneven] / least[uneven]
        balance.weighed_ms += int(lasted_ms[rows].sum())
        # One after the other: another order would round otherwise.
        balance.sum = float(np.cumsum(np.append(balance.sum, ratios * lasted_ms[rows]))[-1])
        if not uneven.size or balance.case is None:
            return
        balance.case.add_many(len(uneven), lambda number: wins.sighting(int(rows[uneven[number]])))
        worst = int(uneven[np.argmax(ratios[uneven])])
        if ratios[worst] > balance.worst[0]:
            shares = [
                (many, name)
                for many, name in zip(counts[worst].tolist(), names, strict=True)
                if many
            ]
            (many, richest), (few, poorest) = max(shares), min(shares)
            balance.worst = float(ratios[worst]), richest, many, poorest, few

    def _balance_of(self, group: str, now_ms: int) -> _Balance:
        balance = self._groups.get(group)
        if balance is None:
            balance = self._groups[group] = _Balance(now_ms)
            sentence = partial(_unfair, balance)
            balance.case = Case("imbalance", group, None, None, None, None, sentence)
        return balance

    def _weigh(
        self, group: str, balance: _Balance, now_ms: int, last: Callable[[], JudgedRecord]
    ) -> None:
        lasted_ms = now_ms - balance.since_ms
        if lasted_ms <= 0:
            return
        balance.since_ms = now_ms
        owned = self._shares.of(group)
        if len(owned) < 2:
            return
        most = max(owned, key=lambda client: (owned[client], client))
        least = min(owned, key=lambda client: (owned[client], client))
        even = owned[most] - owned[least] <= 1
        ratio = 1.0 if even else owned[most] / owned[least]
        balance.weighed_ms += lasted_ms
        balance.sum += ratio * lasted_ms
        if not even and balance.case is not None:
            balance.case.add(last())
            if ratio > balance.worst[0]:
                balance.worst = ratio, most, owned[most], least, owned[least]

    def at_the_end(self, end: LogEnd) -> Iterator[FindingRow]:
        """The groups whose time-weighted ratio is unfair."""
        for group, balance in self._groups.items():
            self._weigh(group, balance, end.clock_ms, lambda: end.last)
            enough_ms = UNFAIR_INTERVALS * end.rules_of(group).heartbeat_interval_ms
            if balance.weighed_ms < enough_ms or balance.sum < UNFAIR * balance.weighed_ms:
                continue
            if balance.case is not None:
                yield balance.case.row()


def _unfair(balance: _Balance, case: Case) -> str:
    _, most, many, least, few = balance.worst
    return (
        f"The claims of group {case.group} were shared unevenly: over "
        f"{span(balance.weighed_ms)} in which at least two clients owned, the largest share was "
        f"{balance.sum / balance.weighed_ms:.1f} times the smallest; at worst "
        f"{most or 'a client without id'} owned {many:,} and {least or 'a client without id'} "
        f"{few:,}."
    )


@define
class _Turns:
    began: deque[JudgedRecord] = field(factory=lambda: deque(maxlen=CHURN_TENURES))
    case: Case | None = None


class Churn(FindingObserver):
    """Claims that change hands all the time."""

    only_changes = True

    def __init__(self) -> None:
        super().__init__()
        self._claims: dict[ClaimKey, _Turns] = {}

    def observe(self, event: Event) -> None:
        """Check the last few tenures of a claim; a second win of the same owner is not a change."""
        owner = event.tenure_after
        if not event.began or owner is None:
            return
        if event.tenure is not None and event.tenure.instance == owner.instance:
            return
        turns = self._claims.setdefault(event.key, _Turns())
        turns.began.append(event.sighting)
        lasted_ms = event.clock_ms - turns.began[0].clock_ms
        within_ms = CHURN_INTERVALS * event.rules.heartbeat_interval_ms
        if len(turns.began) < CHURN_TENURES or lasted_ms > within_ms:
            return
        if turns.case is None:
            key = event.key
            where = key.group, key.topic, key.topic_partition
            sentence = partial(_churned, key, turns.began[0], lasted_ms)
            turns.case = Case("churn", *where, None, None, sentence, [turns.began[0]])
        turns.case.add(event.sighting)

    def take_up(self, key: ClaimKey, won_by: JudgedRecord) -> None:
        """A claim is won for the first time."""
        self._claims[key] = _Turns(deque([won_by], CHURN_TENURES))

    def at_the_end(self, end: LogEnd) -> Iterator[FindingRow]:
        """One finding per claim."""
        for turns in self._claims.values():
            if turns.case is not None:
                yield turns.case.row()


def _churned(key: ClaimKey, first: JudgedRecord, lasted_ms: int, case: Case) -> str:
    a_hour = (CHURN_TENURES - 1) * 3_600_000 / max(lasted_ms, 1)
    more = (
        f" It went on so for {times(case.count - 1, 'more tenure')}, until offset "
        f"{case.last_seen.offset}."
        if case.count > 1
        else ""
    )
    return (
        f"{claim_name(key)} changed hands again and again: {CHURN_TENURES} tenures began within "
        f"{span(lasted_ms)} from offset {first.offset} ({clock(first.clock_ms)}) on, a rate of "
        f"{a_hour:,.0f} an hour.{more}"
    )

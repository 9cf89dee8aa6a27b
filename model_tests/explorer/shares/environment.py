"""`FairShare.tla`, action by action, over the rules of `machines.share.rules`.

As in `claims.environment`, an action yields a state for every way to take it. What a member decides
is the package's; what the log says, what lands and who comes and goes is here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from attrs import frozen

from kafka_marshal import ClaimKey
from kafka_marshal.machines.share import rules as fairness
from kafka_marshal.machines.share.rules import ShareMemory, Sharer, ShareView
from kafka_marshal.modelcheck.models import Model
from model_tests.explorer import configuration
from model_tests.explorer.claims import world


@frozen
class WorldOfShares:
    """Who takes part and how much of it there is. Spec: World; fields are the specification's."""

    keys_of: Mapping[str, frozenset[ClaimKey]]
    static_of: Mapping[str, frozenset[ClaimKey]]
    limit_of: Mapping[str, int]
    topic_of: Mapping[ClaimKey, str]
    owners: Mapping[ClaimKey, str]
    up: frozenset[str]
    joins_max: int
    crashes_max: int
    overdue_max: int
    patient: bool
    moves_max: int


def member(number: int) -> str:
    """A client's id; in the order of the numbers."""
    return f"m{number}"


def claims_of(given: Mapping[str, Any]) -> Mapping[int, ClaimKey]:
    """The claims of a world, by their numbers and in their order."""
    topics = dict(_items(given["topic_of"]))
    return {number: ClaimKey("g", f"t{topic}", number) for number, topic in topics.items()}


def _items(function: Any) -> Iterator[tuple[int, Any]]:
    """A function of 1 to n: TLC writes it as a tuple, or as pairs."""
    pairs = function.items() if isinstance(function, Mapping) else enumerate(function, 1)
    return ((int(number), value) for number, value in pairs)


def world_of(given: Mapping[str, Any]) -> WorldOfShares:
    """The record of TLC; fails if a field is missing or new."""
    keys = claims_of(given)

    def sets(name: str) -> Mapping[str, frozenset[ClaimKey]]:
        return {member(m): frozenset(map(keys.__getitem__, of)) for m, of in _items(given[name])}

    named = {
        "keys_of": sets("keys_of"),
        "static_of": sets("static_of"),
        "limit_of": {member(m): limit for m, limit in _items(given["limit_of"])},
        "topic_of": {key: key.topic for key in keys.values()},
        "owners": {keys[n]: member(m) for n, m in _items(given["owners"]) if m},
        "up": frozenset(map(member, given["up"])),
    }
    return WorldOfShares(**{**given, **named})


class Remembered(NamedTuple):
    """What a member remembers; of what it asked for also the order, in which it lands."""

    asked: tuple[ClaimKey, ...] = ()
    giving: frozenset[ClaimKey] = frozenset()
    passed_over: frozenset[ClaimKey] = frozenset()

    def memory(self) -> ShareMemory:
        """As the rules know it."""
        return ShareMemory(frozenset(self.asked), self.giving, self.passed_over)


class ShareState(NamedTuple):
    """Spec: vars. What nobody owns, and who does not ask, is left out."""

    owners: frozenset[tuple[ClaimKey, str]]
    requests: frozenset[tuple[str, ClaimKey]]
    up: frozenset[str]
    memories: tuple[Remembered, ...]
    moved: frozenset[tuple[str, ClaimKey]]
    moves: int
    joins: int
    crashes: int


class EnvironmentOfShares:
    """The actions of one world."""

    def __init__(self, world: WorldOfShares) -> None:
        self.world = world
        self.names = tuple(sorted(world.keys_of))
        self.steps_broken: dict[ShareState, set[str]] = {}
        """States that a step reached which breaks a property of steps, and which."""
        self._sharers = {
            name: Sharer(
                f"{name}.1",
                *(name, world.keys_of[name], world.static_of[name], world.limit_of[name]),
            )
            for name in self.names
        }

    def initial(self) -> ShareState:
        """Spec: Init."""
        owners = frozenset(self.world.owners.items())
        memories = tuple(Remembered() for _ in self.names)
        return ShareState(owners, frozenset(), self.world.up, memories, frozenset(), 0, 0, 0)

    def successors(self, state: ShareState) -> list[ShareState]:
        """Every state that can follow, once for each way. Spec: Next."""
        found: list[ShareState] = []
        for i, name in enumerate(self.names):
            if name in state.up:
                seen = self.seen(state, name)
                found += self.ask_for_free(state, i, seen)
                found += self.ask_for_share(state, i, seen)
                found += self.ask_again(state, i, seen)
                found += self.give_back(state, i, seen)
                found += self.land_release(state, i)
            found += self.land_ask(state, i)
            found += self.comes_or_goes(state, i)
        return found

    def seen(self, state: ShareState, name: str) -> ShareView:
        """What a member reads. Spec: Seen."""
        me = self._sharers[name]
        owners = {key: owner for key, owner in state.owners if key in me.keys}
        return ShareView(me, owners, dict(state.requests))

    # --- what a member does -----------------------------------------------------------------------

    def ask_for_free(self, state: ShareState, i: int, seen: ShareView) -> Iterator[ShareState]:
        """Spec: AskForFree."""
        now = state.memories[i]
        for level in range(self.world.overdue_max + 1):
            offered = fairness.offered_to_me(seen, _overdue(seen, level))
            asks = fairness.claims_to_ask(seen, now.memory(), offered)
            if asks and self._is_time(state, seen, level, offered):
                yield _becomes(state, i, now._replace(asked=now.asked + asks))

    def _is_time(
        self, state: ShareState, seen: ShareView, level: int, offered: tuple[ClaimKey, ...]
    ) -> bool:
        """Spec: IsTime."""
        if not self.world.patient:
            return True
        if _known(state, seen.me.client_id) and not all(_known(state, m) for m in state.up):
            return False
        return all(
            key not in offered or self._is_unwilling(state, taker)
            for earlier in range(level)
            for key, taker in fairness.offers(seen, _overdue(seen, earlier)).items()
        )

    def _is_unwilling(self, state: ShareState, name: str) -> bool:
        """Spec: IsUnwilling."""
        owned = sum(owner == name for _, owner in state.owners)
        return name not in state.up or owned >= self.world.limit_of[name]

    def ask_for_share(self, state: ShareState, i: int, seen: ShareView) -> Iterator[ShareState]:
        """Spec: AskForShare."""
        now = state.memories[i]
        if fairness.wants_to_name(seen, now.memory(), fairness.offered_to_me(seen, {})):
            yield self._name(state, i, seen, now.passed_over)

    def ask_again(self, state: ShareState, i: int, seen: ShareView) -> Iterator[ShareState]:
        """Spec: AskAgain."""
        now = state.memories[i]
        waits = fairness.is_hungry(seen) and fairness.is_waiting(seen)
        offered = fairness.offered_to_me(seen, {})
        if now.asked or not waits or fairness.claims_to_ask(seen, now.memory(), offered):
            return
        if not self.world.patient or self._nobody_will_give(state, seen):
            yield self._name(state, i, seen, fairness.passed_over_after(seen, now.memory()))

    def _nobody_will_give(self, state: ShareState, seen: ShareView) -> bool:
        """Spec: NobodyWillGive."""
        key = seen.requests[seen.me.client_id]
        owner = seen.owners[key]
        return owner not in state.up or key in self.world.static_of[owner]

    def _name(
        self, state: ShareState, i: int, seen: ShareView, passed_over: frozenset[ClaimKey]
    ) -> ShareState:
        """Spec: Name."""
        key = fairness.claim_to_name(seen, passed_over)
        return _becomes(state, i, state.memories[i]._replace(asked=(key,), passed_over=passed_over))

    def give_back(self, state: ShareState, i: int, seen: ShareView) -> Iterator[ShareState]:
        """Spec: GiveBack."""
        name, now = self.names[i], state.memories[i]
        for key in fairness.claims_to_give(seen, now.memory()):
            after = _becomes(state, i, now._replace(giving=now.giving | {key}))
            after = after._replace(moved=state.moved | {(name, key)}, moves=state.moves + 1)
            broken = self._broken(state, seen, now, key)
            if broken:
                self.steps_broken.setdefault(after, set()).update(broken)
            yield after

    def _broken(
        self, state: ShareState, seen: ShareView, now: Remembered, key: ClaimKey
    ) -> list[str]:
        """Spec: MovesStepwise, GivesStepwise."""
        name = seen.me.client_id
        broken = ["NoPingPong"] if (name, key) in state.moved else []
        askers = [asker for asker, asked in state.requests if asked == key and asker != name]
        if not any(seen.mine - len(now.giving) >= seen.counts[asker] + 2 for asker in askers):
            broken.append("GivesToThePoorer")
        return broken

    # --- what lands -------------------------------------------------------------------------------

    def land_ask(self, state: ShareState, i: int) -> Iterator[ShareState]:
        """Spec: LandAsk, Counted."""
        name, now = self.names[i], state.memories[i]
        if not now.asked:
            return
        key, owners, requests = now.asked[0], dict(state.owners), dict(state.requests)
        if owners.get(key, name) == name:
            owners[key] = name
            requests.pop(name, None)
        else:
            requests[name] = key
        after = _becomes(state, i, now._replace(asked=now.asked[1:]))
        after = after if _known(state, name) else _forgotten(after)
        yield after._replace(owners=frozenset(owners.items()), requests=frozenset(requests.items()))

    def land_release(self, state: ShareState, i: int) -> Iterator[ShareState]:
        """Spec: LandRelease."""
        name, now = self.names[i], state.memories[i]
        for key in now.giving:
            yield _becomes(state, i, now._replace(giving=now.giving - {key}))._replace(
                owners=frozenset(each for each in state.owners if each[0] != key),
                requests=frozenset(each for each in state.requests if each[0] != name),
            )

    # --- members come and go ----------------------------------------------------------------------

    def comes_or_goes(self, state: ShareState, i: int) -> Iterator[ShareState]:
        """Spec: Join, Crash, Expire."""
        name, now = self.names[i], state.memories[i]
        if name in state.up:
            if state.crashes < self.world.crashes_max:
                gone = _forgotten(_becomes(state, i, Remembered(asked=now.asked)))
                yield gone._replace(up=state.up - {name}, crashes=state.crashes + 1)
            return
        if not now.asked and state.joins < self.world.joins_max:
            yield state._replace(up=state.up | {name}, joins=state.joins + 1)
        if _known(state, name):
            yield _forgotten(state)._replace(
                owners=frozenset(each for each in state.owners if each[1] != name),
                requests=frozenset(each for each in state.requests if each[0] != name),
            )


def bounds(model: Model) -> WorldOfShares:
    """The world of a model; TLC runs once for the module."""
    cfg = configuration.read(model.cfg)
    return world_of(world.values(model.module)[cfg.substituted["World"]])


class JudgesOfShares:
    """The properties of one model that can be judged without the future."""

    def __init__(self, environment: EnvironmentOfShares, names: tuple[str, ...]) -> None:
        self._environment = environment
        self._names = names

    def broken(self, state: ShareState) -> Iterator[str]:
        """The names of the properties that this state, or the step to it, breaks."""
        broken = set(self._environment.steps_broken.get(state, ()))
        if state.moves > self._environment.world.moves_max:
            broken.add("FewMoves")
        return (name for name in self._names if name in broken)


JUDGED = {"FewMoves", "GivesToThePoorer", "NoPingPong"}


def _overdue(seen: ShareView, level: int) -> Mapping[ClaimKey, int]:
    return dict.fromkeys(seen.free, level)


def _known(state: ShareState, name: str) -> bool:
    """Spec: Known."""
    return any(asker == name for asker, _ in state.requests) or any(
        owner == name for _, owner in state.owners
    )


def _forgotten(state: ShareState) -> ShareState:
    """Spec: Forgotten."""
    return state._replace(moved=frozenset(), moves=0)


def _becomes(state: ShareState, i: int, remembered: Remembered) -> ShareState:
    memories = (*state.memories[:i], remembered, *state.memories[i + 1 :])
    return state._replace(memories=memories)

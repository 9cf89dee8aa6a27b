"""Hypothesis chooses the moves: rules draw small numbers, the world says what they mean.

What is chosen are the actions of `Marshal.tla`, among what the machines allow now, so that a walk
gets far; sometimes anything at all, also what must be refused. In every walk only some of the
troubles happen, each a few times, so that a walk is not drowned in them.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from kafka_marshal.core.claims.invariants import Property
from model_tests.walks import strangers
from model_tests.walks.moves import ADMIN, RULES, Move, Setting
from model_tests.walks.properties import WALKED, Broken, Watch
from model_tests.walks.refusals import Refusals
from model_tests.walks.simulation import ACTIONS, LATE, Simulation, against_it

PICK = st.integers(0, 99)
SOON = st.sampled_from((3, 1, 0, 2))
"""What becomes of a record at once. 0: it waits; 1: it is appended; 2: its sender reads it, too;
3: everybody does."""

SETTINGS = st.builds(
    Setting,
    claims=st.sampled_from((("g/t/0",), ("g/t/0", "g/t/1"), ("g/t/0", "g/events/0", "h/t/0"))),
    at_most_once=st.sampled_from(((), ("g",))),
    window=st.integers(1, 2),
    batch=st.integers(1, 2),
)

ORDINARY = (
    *("SendClaimingPartition",) * 3,
    *("Process", "ProcessGrant", "SendClaimingMessages") * 3,
    *("SendHeartbeat", "Read", "Append") * 3,
    *("Tick",) * 3,
    *("SendReleasingPartition", "SendReleasingPartition", "GiveUp"),
)
"""What goes on, as often as it should."""

TICKS_MS = (1, 2_001, 1_000, 500, 2_000, 3_000, 61_000, 70_000)


class Trouble(enum.Enum):
    """What goes wrong in a walk: some of these, each a few times."""

    CRASH = enum.auto()
    STALL = enum.auto()
    LOSS = enum.auto()
    COPY = enum.auto()
    DISORDER = enum.auto()
    PAUSE = enum.auto()
    TWIN = enum.auto()
    LATE = enum.auto()
    STEP_BACK = enum.auto()
    STRANGER = enum.auto()
    LIAR = enum.auto()


TIMES_MAX = 4
"""How often each of a walk's troubles happens at most."""


class Walk(RuleBasedStateMachine):
    """One walk. A subclass with other `only` looks for those properties alone."""

    only: ClassVar[frozenset[Property]] = WALKED
    guards: ClassVar[bool] = False
    """Whether the machines' answers are compared too."""
    taken: ClassVar[int] = 0
    """How many walks were begun, those of shrinking too."""
    sure: ClassVar[tuple[Trouble, ...]] = ()
    """Troubles that every walk has, beside those that are drawn."""
    broken_at: ClassVar[int] = 0
    """The walk that first broke something."""

    simulation: Simulation

    @initialize(setting=SETTINGS, troubles=st.lists(st.sampled_from(Trouble), max_size=4))
    def begin(self, setting: Setting, troubles: list[Trouble]) -> None:
        type(self).taken += 1
        self.simulation = watched(setting, self.only, self.guards)
        self.troubles = dict.fromkeys((*self.sure, *troubles), TIMES_MAX)

    def take(self, move: Move) -> bool:
        """Make the move; what breaks is raised with all that led there."""
        try:
            return self.simulation.take(move) is True
        except Broken as problem:
            problem.simulation = self.simulation
            type(self).broken_at = self.broken_at or self.taken
            raise

    # --- what goes on -----------------------------------------------------------------------------

    @rule(what=st.integers(0, 9), kind=PICK, pick=PICK, soon=SOON, number=st.integers(0, 7))
    def happens(self, what: int, kind: int, pick: int, soon: int, number: int) -> None:
        """One rule and not three: Hypothesis leaves out rules of a walk, and a walk in which
        nothing goes on would be wasted."""
        if what > 7 and any(self.troubles.values()):
            self._goes_wrong(kind, pick, number, soon)
        elif what == 7:
            self._try_anything(ACTIONS[kind % len(ACTIONS)], pick, number)
        else:
            self._goes_on(kind % len(ORDINARY), pick, soon, number)

    def _goes_on(self, kind: int, pick: int, soon: int, number: int) -> None:
        """One ordinary thing; where it cannot happen, the next that can."""
        for action in (*ORDINARY[kind:], *ORDINARY[:kind]):
            options = self._options(action, number)
            if options:
                move = options[pick % len(options)]
                self._chosen(move, soon)
                if action == "Process":
                    for _ in range(number % 4):
                        self.take(move)
                return

    def _options(self, action: str, number: int) -> list[Move]:
        """What can be done of an action."""
        world = self.simulation
        if action == "Tick":
            return [Move(action, number=TICKS_MS[number])]
        if action == "Append":
            return [Move(action, name) for name, who in world.instances.items() if who.outbox]
        found = []
        for name, who in world.instances.items():
            if who.status != "up":
                continue
            for claim, consumer in who.consumers.items():
                if action == "Read":
                    unread = world.unread(who, claim)
                    if unread:
                        some = unread if number > 3 else min(unread, 1 + number)
                        found.append(Move(action, name, claim, some))
                    continue
                offset = 0
                if action == "SendClaimingMessages":
                    offset = consumer.known.position + 1 + number % 2
                elif action == "SendReleasingPartition" and who.me.admin:
                    offset = number % 4
                move = Move(action, name, claim, offset)
                if action == "SendClaimingPartition" and number > 1:
                    known = consumer.known
                    alive_ms = world.now_ms - (known.last_heartbeat_ms or 0)
                    if known.owned and alive_ms <= RULES.stale_after_ms:
                        continue
                if against_it(who.me, consumer, move) is None:
                    found.append(move)
        return found

    def _chosen(self, move: Move, soon: int) -> None:
        """Do it, and what follows at once."""
        if not self.take(move) or not move.action.startswith("Send") or not soon:
            return
        last = len(self.simulation.instances[move.who].outbox) - 1
        if not self.take(Move("Append", move.who, number=last)):
            return
        for name, who in self.simulation.instances.items():
            if soon == 3 or (soon == 2 and name == move.who):
                unread = self.simulation.unread(who, move.claim)
                self.take(Move("Read", name, move.claim, unread))

    def _try_anything(self, action: str, pick: int, number: int) -> None:
        """Also what must be refused, and is not done then."""
        people, claims = list(self.simulation.instances), self.simulation.setting.claims
        if action == "SendReleaseGroup" and not self._has(Trouble.PAUSE):
            return
        claim = claims[pick // len(people) % len(claims)]
        self.take(Move(action, people[pick % len(people)], claim, number % 4))

    # --- what goes wrong --------------------------------------------------------------------------

    def _has(self, trouble: Trouble) -> bool:
        """Whether it is one of this walk's troubles, and may happen once more."""
        left = self.troubles.get(trouble, 0)
        self.troubles[trouble] = max(0, left - 1)
        return left > 0

    def _goes_wrong(self, pick: int, who: int, number: int, soon: int) -> None:
        """One of the walk's troubles, not those of strangers."""
        left = [trouble for trouble, times in self.troubles.items() if times]
        trouble = left[pick % len(left)]
        claim = self.simulation.setting.claims[number % len(self.simulation.setting.claims)]
        for move in self._moves(trouble, who, number, soon):
            if self._has(trouble):
                self._chosen(move, soon)
            if move.action == "Join" and soon:
                self._chosen(Move("Read", list(self.simulation.instances)[-1], claim, soon), 0)

    def _moves(self, trouble: Trouble, who: int, number: int, soon: int) -> list[Move]:
        world = self.simulation
        people = list(world.instances)
        name = people[who % len(people)]
        clients = [client for client in world.setting.clients if client != ADMIN]
        client, claim = (
            clients[who % len(clients)],
            world.setting.claims[number % len(world.setting.claims)],
        )
        waiting = [each for each, person in world.instances.items() if person.outbox]
        sender = waiting[who % len(waiting)] if waiting else name
        place = number % max(1, len(world.instances[sender].outbox))
        match trouble:
            case Trouble.CRASH:
                ended = {each.me.client_id for each in world.instances.values()}
                ended -= {each.me.client_id for each in world.living()}
                if ended and soon:
                    return [Move("Restart", sorted(ended)[who % len(ended)])]
                return [Move("Crash", sender if number > 2 else name)]
            case Trouble.STALL:
                stalled = world.instances[name].status == "stalled"
                return [Move("Resume" if stalled else "Stall", name)]
            case Trouble.LOSS:
                return [Move("Lose", sender, number=place)]
            case Trouble.COPY:
                return [Move("AppendCopy", sender, number=place)]
            case Trouble.DISORDER:
                return [Move("Append", sender, number=place)]
            case Trouble.PAUSE:
                admins = [each for each in people if each.startswith(ADMIN)]
                return [Move("SendReleaseGroup", admins[-1], claim, (1, 0, 60, 3)[number % 4])]
            case Trouble.TWIN:
                return [Move("Join", client)]
            case Trouble.LATE:
                length = len(world.logs[world.partition_of(claim)])
                return [Move("Join", client, number=max(1, length - number))]
            case Trouble.STEP_BACK:
                return [Move("StepBack", claim=claim, number=(1, 500, 1_000)[number % 3])]
            case Trouble.STRANGER | Trouble.LIAR:
                return []

    @precondition(lambda self: self.troubles.get(Trouble.STRANGER))
    @rule(sent=strangers.bare(), claim=PICK)
    def send_anything(self, sent: strangers.Drawn, claim: int) -> None:
        if self._has(Trouble.STRANGER):
            self._stranger(sent, claim)

    @precondition(lambda self: self.troubles.get(Trouble.LIAR) and LATE not in self.simulation.seen)
    @rule(sent=strangers.lying(), claim=PICK)
    def send_lies(self, sent: strangers.Drawn, claim: int) -> None:
        if self._has(Trouble.LIAR):
            self._stranger(sent, claim)

    def _stranger(self, drawn: strangers.Drawn, pick: int) -> None:
        claims = self.simulation.setting.claims
        claim = claims[pick % len(claims)]
        self.take(Move("SendAnything", claim=claim, sent=drawn.about(self.simulation, claim)))


def watched(
    setting: Setting, only: Iterable[Property] = WALKED, guards: bool = False
) -> Simulation:
    """A world and those who watch it."""
    simulation = Simulation(setting)
    simulation.watchers.append(Watch(simulation, only))
    if guards:
        simulation.watchers.append(Refusals(simulation))
    return simulation


def walk(
    setting: Setting,
    moves: Iterable[Move],
    only: Iterable[Property] = WALKED,
    guards: bool = False,
) -> Simulation:
    """Play these moves once more; raises `Broken` if a promise is not kept."""
    simulation = watched(setting, only, guards)
    try:
        simulation.play(moves)
    except Broken as problem:
        problem.simulation = simulation
        raise
    return simulation

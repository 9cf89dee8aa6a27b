"""Any record that is appended to any log keeps what is always true, by the shipped reducer.

Three kinds of steps are enough for any number of clients. The instance that is looked at takes one.
A record is appended, of anybody: it was in flight, so its sender's promise holds, and it stays in
flight, so it may arrive again. Or another instance takes a step: then nothing changes that is
looked at, but for what it sends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import attrs
from attrs import define, field, frozen

from kafka_marshal import Accepted, Claim
from kafka_marshal.core.claims.reducer import step
from kafka_marshal.core.messages import ClaimingMessages, ReleasingPartition
from kafka_marshal.machines.consumer.consumer import InstanceConfig, Mode
from proof.inputs import Case
from proof.machine.actions import APPEND
from proof.machine.inputs import (
    flying,
    seen,
    situation,
)
from proof.machine.invariant import LOG, OWNER, PROMISE, TENURE, is_prefix
from proof.machine.logic import assume, choose, every, false_of, implies, no, some
from proof.machine.situation import Seen, Sent, Situation, choose_sets, tenure_after
from proof.machine.stories import appended
from proof.properties import INVARIANT
from proof.prove import beginning
from proof.smt.solver import Smt
from proof.symbols import Explorer
from proof.table import story

HYPOTHESES: Final[Mapping[str, str]] = {
    "OwnIdentity": "nobody else sends records under an instance's id",
    "OneRunPerIdentity": "an instance id names one run of one process",
    "LogIsKept": "the log never loses what somebody has read",
    "KnowsThePosition": "a tenure begins where the position is certain",
    "AdministratorsStartAtZero": "an administrator has no start policy",
    "AtLeastOnce": "the instance is not one at most once",
}
"""What is assumed. Each is needed: without it a step breaks what `COUNTERMODELS` of the tests name.
The last three are only of NoneSkipped, ReprocessingBound and ReleaseRepeatsNothing."""


@frozen
class Broken:
    """A step that breaks something."""

    property: str
    action: str
    lines: tuple[tuple[str, str], ...]

    def story(self) -> str:
        """Who did what, and what was so before."""
        return story(f"{self.property} is broken by {self.action}", self.lines)


@define
class Outcome:
    """What came of one job."""

    job: str
    paths: Counter[str] = field(factory=Counter)
    """By action: how many paths it has."""
    examined: Counter[str] = field(factory=Counter)
    """By property: of how many paths it was asked."""
    asked: int = 0
    seconds: float = 0.0
    reached: set[tuple[str, str]] = field(factory=set)
    """Each action, with how it came out."""
    repeated: int = 0
    """How many paths plain Python took with the solver's values, and came to the same."""
    broken: list[Broken] = field(factory=list)


@define(eq=False)
class Prover:
    """One job: the solver, what is left out, and what came of it."""

    smt: Smt
    outcome: Outcome
    without: frozenset[str] = frozenset()
    """Conjuncts, promises and hypotheses that are not assumed."""
    until: frozenset[str] = frozenset()
    """Stop where one of these is broken."""

    def assumed(self, explorer: Explorer, of: Mapping[str, Any], *to: Any) -> None:
        """Assume all of these that are not left out."""
        for name, holds_of in of.items():
            if name not in self.without:
                assume(explorer, holds_of(*to))

    def ask(
        self, explorer: Explorer, action: str, goals: Mapping[str, Any], lines: Any, end: Any
    ) -> bool:
        """Note which of these do not hold on this path. Returns whether to go on."""
        self.outcome.paths[action] += 1
        self.outcome.asked = explorer.checks
        self.outcome.examined.update(list(goals))
        for name in false_of(explorer, goals):
            self.outcome.broken.append(Broken(name, action, tuple(lines(end))))
        return not any(each.property in self.until for each in self.outcome.broken)


def epoch_has_one_owner(earlier: Seen, later: Seen) -> Any:
    """Epochs never fall, and one that is free is never owned again: of any two prefixes."""
    same = every(later.has_epoch, earlier.has_epoch, later.epoch == earlier.epoch)
    return every(
        implies(earlier.has_epoch, every(later.has_epoch, earlier.epoch <= later.epoch)),
        implies(same, later.owned, every(earlier.owned, earlier.owner == later.owner)),
    )


def one_step(before: Claim, record: Any, after: Claim, granted: bool) -> Any:
    """What who reads a record needs of what it does to the claim."""
    was, becomes = Seen.of(before), Seen.of(after)
    wins = every(becomes.has_epoch, some(no(was.has_epoch), becomes.epoch > was.epoch))
    grants: Any = not granted
    if granted:
        asks = isinstance(record.message, ClaimingMessages)
        grants = every(
            asks,
            asks and after.position == record.message.offset,
            after.position > before.position,
            after.owned,
        )
    return every(
        epoch_has_one_owner(was, becomes),
        implies(wins, every(becomes.epoch == record.offset, becomes.owned)),
        some(after.position >= before.position, not after.owned),
        implies(before.position_set, after.position_set),
        grants,
    )


def passed_once(position: Any, passes: Any, set_backs: Any, message: Any) -> Any:
    """A message is passed once, and once more each time that an administrator sets back over it."""
    return passes + choose(position <= message, 1, 0) <= set_backs + 1


@frozen
class Prefix:
    """Any prefix of the log, and what it said of the claim."""

    seen: Seen
    upto: Any
    """Its last offset, or -1."""

    def stays(self, now: Situation) -> Any:
        """It is one of this log: what it says of a tenure is so, and epochs have one owner."""
        assert now.log is not None
        one_owner = epoch_has_one_owner(self.seen, Seen.of(now.log))
        known = implies(self.seen.has_epoch, self.seen.epoch <= self.upto)
        within = every(self.upto >= -1, self.upto <= now.last)
        return every(one_owner, known, within, is_prefix(now, self.seen, self.upto))


@frozen
class Granted:
    """Any earlier grant, of any tenure."""

    stop: Any
    """The first message after it."""
    set_since: Any
    """Somebody has set the position since."""

    def is_passed(self, position: Any) -> Any:
        """Nobody goes back into it, but for who sets the position."""
        return some(self.set_since, self.stop <= position)

    def apart(self, before: Claim, after: Claim, *, granted: bool, sets: Any) -> Any:
        """A grant begins at its end or beyond."""
        later = attrs.evolve(self, set_since=some(self.set_since, sets))
        begins = some(self.set_since, self.stop <= before.position)
        return every(implies(granted, begins), later.is_passed(after.position))


# --- a record is appended -------------------------------------------------------------------------


def append(prover: Prover, case: Case) -> None:
    """A record of anybody is appended to any log."""
    with beginning(case, prover.smt, INVARIANT) as (inputs, explorer):
        config = InstanceConfig(
            *(inputs.an_id("me"), inputs.an_id("my client"), Mode.AT_LEAST_ONCE),
            window=inputs.number("window"),
            batch=inputs.number("batch"),
            start=inputs.number("start"),
            admin=inputs.truth("admin"),
        )
        bare = situation(inputs, config)
        read_upto = inputs.number("read")
        now = attrs.evolve(
            bare,
            me=attrs.evolve(bare.me, at_least_once=inputs.truth("at least once")),
            log=inputs.claim,
            last=inputs.last,
            memory=attrs.evolve(bare.memory, read=read_upto),
        )
        other = flying(inputs, "flying")
        anybody = Prefix(seen(inputs, "somebody's"), inputs.number("somebody's last"))
        earlier = Granted(inputs.number("granted up to"), inputs.truth("set since"))
        passes, set_backs = inputs.number("passes"), inputs.number("set backs")
        for each in inputs.assumed:
            explorer.assume(each)
        known, record = now.memory.known, inputs.record
        sent = Sent.of(record.message, record.headers, now.me.instance)
        assume(explorer, every(read_upto >= -1, read_upto <= inputs.last))
        assume(explorer, implies(known.has_epoch, known.epoch <= read_upto))
        hypotheses(prover, explorer, now)
        for of in (LOG, TENURE, OWNER):
            prover.assumed(explorer, of, now)
        prover.assumed(explorer, PROMISE, now, other)
        if "OwnIdentity" not in prover.without:
            prover.assumed(explorer, PROMISE, now, sent)
        assume(explorer, anybody.stays(now))
        assume(explorer, earlier.is_passed(inputs.claim.position))
        assume(explorer, passed_once(inputs.claim.position, passes, set_backs, now.message))
        for after, verdict in explorer.explore(lambda: step(inputs.claim, record, inputs.rules)):
            later = attrs.evolve(
                now, log=after, last=record.offset, tenure=tenure_after(now, record, after)
            )
            goals = {
                **{name: each(later) for of in (LOG, TENURE, OWNER) for name, each in of.items()},
                **{name: each(later, other) for name, each in PROMISE.items()},
                "OneStep": one_step(inputs.claim, record, after, verdict is Accepted.GRANTED),
                "EachPrefixIsOne": is_prefix(later, Seen.of(after), record.offset),
                "EpochHasOneOwner": epoch_has_one_owner(anybody.seen, Seen.of(after)),
                "EachPrefixStaysOne": anybody.stays(later),
                "GrantsAreApart": earlier.apart(
                    *(inputs.claim, after),
                    granted=verdict is Accepted.GRANTED,
                    sets=sets_at(now, record, after),
                ),
                **_passing(now, record, after, passes, set_backs, later),
            }
            lines = partial(appended, inputs, explorer, now, later)
            if not prover.ask(explorer, APPEND, goals, lines, after):
                return


def hypotheses(prover: Prover, explorer: Explorer, now: Situation) -> None:
    """Those that are about an instance."""
    if "AdministratorsStartAtZero" not in prover.without:
        assume(explorer, implies(now.me.admin, now.me.start == 0))


def sets_at(now: Situation, record: Any, after: Claim) -> Any:
    """The record is a release that sets the position."""
    before = now.log
    assert before is not None
    releases = isinstance(record.message, ReleasingPartition)
    return every(releases, before.owned, not after.owned, choose_sets(before, record))


def _passing(
    now: Situation, record: Any, after: Claim, passes: Any, set_backs: Any, later: Situation
) -> dict[str, Any]:
    """PassedOnce, and NoneSkipped as it is written in the specification."""
    before, message = now.log, now.message
    assert before is not None
    sets = sets_at(now, record, after)
    forward = every(before.position <= message, message < after.position, no(sets))
    back = every(after.position <= message, message < before.position, sets)
    start = record.headers.__dict__["_fields"]["start"]
    left_out = every(no(before.position_set), start[0], message < start[1])
    ours = every(now.counts, now.tenure.begun, no(now.tenure.over))
    return {
        "PassedOnce": passed_once(
            after.position,
            passes + choose(forward, 1, 0),
            set_backs + choose(back, 1, 0),
            message,
        ),
        "NoneSkipped": implies(ours, forward, some(now.done, left_out)),
        "KeepsWhatItReached": implies(
            now.tenure.begun, now.tenure.position <= later.tenure.position
        ),
    }

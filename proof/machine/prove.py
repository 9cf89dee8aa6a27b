"""Every step of the shipped machine and of the shipped reducer keeps what is always true.

Three kinds of steps are enough for any number of clients. The instance that is looked at takes one.
A record is appended, of anybody: it was in flight, so its sender's promise holds, and it stays in
flight, so it may arrive again. Or another instance takes a step: then nothing changes that is
looked at, but for what it sends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import attrs
from attrs import define, field, frozen

from kafka_marshal import Accepted, Claim
from kafka_marshal.core.claims.reducer import step
from kafka_marshal.core.messages import ClaimingMessages
from kafka_marshal.machines.consumer import consumer as machine
from kafka_marshal.machines.consumer.consumer import ConsumerState, InstanceConfig, Mode
from proof.inputs import Case, Inputs, cases
from proof.machine.actions import ACTIONS, APPEND, READ, START, Took
from proof.machine.inputs import (
    Machine,
    Held,
    MachineCase,
    Ranges,
    SymbolicRange,
    doings,
    flying,
    holds,
    machine_merged,
    readings,
    seen,
    situation,
    united,
)
from proof.machine.invariant import LOG, OWNER, PROMISE, TENURE, is_prefix
from proof.machine.logic import choose, every, implies, no, some
from proof.machine.situation import Memory, Seen, Sent, Situation, choose_sets, tenure_after
from proof.properties import INVARIANT
from proof.prove import beginning
from proof.machine.stories import appended, told, two_told
from proof.symbols import Escaped, Explorer, Smt, Truth, formula_of

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
        return f"{self.property} is broken by {self.action}\n" + "\n".join(
            f"  {name:8} {line}" for name, line in self.lines
        )


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
        """Whether to go on, where these must hold on this path; what does not is told."""
        self.outcome.paths[action] += 1
        self.outcome.asked = explorer.checks
        wanted = {name: each for name, each in goals.items() if each is not True}
        self.outcome.examined.update(list(goals))
        with explorer.within():
            assume(explorer, no(every(*wanted.values())))
            if not explorer.feasible:
                return True
        for name, each in wanted.items():
            with explorer.within():
                assume(explorer, no(each))
                if explorer.feasible:
                    self.outcome.broken.append(Broken(name, action, tuple(lines(end))))
        return not any(each.property in self.until for each in self.outcome.broken)


def assume(explorer: Explorer, truth: Any) -> None:
    """Look only at what this is true of."""
    if isinstance(truth, bool):
        truth = explorer.smt.api.BoolVal(truth)
    explorer.assume(truth.formula if isinstance(truth, Truth) else truth)


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
    wins = every(
        becomes.has_epoch, some(no(was.has_epoch), becomes.epoch > was.epoch)
    )
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
        other, anybody = flying(inputs, "flying"), seen(inputs, "somebody's")
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
        assume(explorer, epoch_has_one_owner(anybody, Seen.of(inputs.claim)))
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
                "EpochHasOneOwner": epoch_has_one_owner(anybody, Seen.of(after)),
                **_passing(now, record, after, passes, set_backs, later),
            }
            lines = partial(appended, inputs, explorer, now, later)
            if not prover.ask(explorer, APPEND, goals, lines, after):
                return


def hypotheses(prover: Prover, explorer: Explorer, now: Situation) -> None:
    """Those that are about an instance."""
    if "AdministratorsStartAtZero" not in prover.without:
        assume(explorer, implies(now.me.admin, now.me.start == 0))


def _passing(
    now: Situation, record: Any, after: Claim, passes: Any, set_backs: Any, later: Situation
) -> dict[str, Any]:
    """PassedOnce, and NoneSkipped as it is written in the specification."""
    before, message = now.log, now.message
    assert before is not None
    releases = isinstance(record.message, machine.ReleasingPartition)
    sets = every(releases, before.owned, not after.owned, choose_sets(before, record))
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


# --- the instance takes a step --------------------------------------------------------------------


@define(eq=False)
class _Instance:
    """A machine with everything assumed of it."""

    prover: Prover
    explorer: Explorer
    of: Machine

    def __attrs_post_init__(self) -> None:
        of, prover, explorer = self.of, self.prover, self.explorer
        if "KnowsThePosition" in prover.without:
            certain = machine.Field.OWNER | machine.Field.EPOCH | machine.Field.CLOCK
            reader = attrs.evolve(of.consumer.reader, certain=certain, head_ms=0)
            of.consumer = attrs.evolve(of.consumer, reader=reader)
        of.now = attrs.evolve(of.now, memory=Memory.of(of.consumer))
        if "AtLeastOnce" in prover.without:
            of.now = attrs.evolve(of.now, me=attrs.evolve(of.now.me, at_least_once=True))
        for each in of.inputs.assumed:
            explorer.assume(each)
        hypotheses(prover, explorer, of.now)
        for group in (TENURE, OWNER):
            prover.assumed(explorer, group, of.now)
        prover.assumed(explorer, PROMISE, of.now, of.flying)
        assume(explorer, self.granted(of.given, of.taken, of.consumer))

    def granted(self, given: Any, taken: Any, consumer: ConsumerState) -> Any:
        """It takes a message no more often than the log granted it. Spec: AtMostOnce."""
        return taken + choose(holds(consumer.granted, self.of.now.message), 1, 0) <= given

    def goals(self, later: Situation, given: Any, taken: Any, took: Took) -> dict[str, Any]:
        """What must be true after the step."""
        goals = {
            **{name: each(later) for of in (TENURE, OWNER) for name, each in of.items()},
            **{name: each(later, self.of.flying) for name, each in PROMISE.items()},
            "ProcessesWhatItWasGranted": self.granted(given, taken, took.consumer),
        }
        if took.sent is None:
            return goals
        sent = Sent.of(took.sent.message, took.sent.headers, self.of.now.me.instance)
        promised = {name: each(later, sent) for name, each in PROMISE.items()}
        return goals | {name: every(goals[name], each) for name, each in promised.items()}


@contextmanager
def instance(prover: Prover, case: MachineCase) -> Iterator[_Instance]:
    """Any instance of this case."""
    with beginning(case.claim, prover.smt, INVARIANT) as (inputs, explorer):
        of = Machine(inputs, case)
        with machine_merged(prover.smt):
            yield _Instance(prover, explorer, of)


def reads(prover: Prover, case: MachineCase) -> None:
    """The instance reads the next record of the log, of anybody.

    What the record does to the claim is any `one_step`, which `append` proves of the reducer.
    """
    with instance(prover, case) as now:
        of, explorer = now.of, now.explorer
        record, before, after = of.inputs.record, of.consumer.known, of.after
        sent = Sent.of(record.message, record.headers, of.me.instance_id)
        verdict = Accepted.GRANTED if case.granted else Accepted.IGNORED
        reader = attrs.evolve(of.consumer.reader, claim=after)
        if "OwnIdentity" not in prover.without:
            prover.assumed(explorer, PROMISE, of.now, sent)
        for each in INVARIANT.values():
            assume(explorer, formula_of(prover.smt, partial(each, after, record.offset)))
        assume(explorer, one_step(before, record, after, case.granted))
        if "LogIsKept" not in prover.without:
            assume(explorer, is_prefix(of.now, Seen.of(after), record.offset))
        grants = every(
            sent.asks,
            sent.own,
            before.position <= of.now.message,
            of.now.message < after.position,
        )

        def run(me: Any, consumer: Any, _: Any, record: Any, reader: Any) -> Took:
            return Took(None, machine.after_fold(me, consumer, record, reader, verdict))

        for took in explorer.explore(lambda: run(of.me, of.consumer, None, record, reader)):
            later = attrs.evolve(of.now, memory=Memory.of(took.consumer))
            given = of.given + choose(grants, 1, 0)
            goals = now.goals(later, given, of.taken, took)
            lines = partial(told, of, explorer, reads=True)
            goes_on = prover.ask(explorer, READ, goals, lines, took)
            _repeat(now, took, partial(run, reader=of.values(explorer, reader)))
            prover.outcome.reached.add((READ, type(record.message).__name__))
            if not goes_on:
                return


def does(prover: Prover, case: MachineCase) -> None:
    """The instance does anything else that it may do."""
    with instance(prover, case) as now:
        of, explorer = now.of, now.explorer
        for name, action in ACTIONS.items():

            def run(action: Any = action) -> Any:
                return action(of.me, of.consumer, of.target)

            for took in explorer.explore(run):
                prover.outcome.reached.add(
                    (name, "happens" if took.against is None else took.against.value)
                )
                _repeat(now, took, lambda me, consumer, target, _: action(me, consumer, target))
                later, taken = of.now, of.taken
                next_one = every(of.now.holds(of.now.memory.known), took.processed)
                next_one = every(next_one, of.now.message == of.consumer.next)
                if name == "ProcessGrant" and took.against is None:
                    taken = taken + choose(holds(of.consumer.granted, of.now.message), 1, 0)
                later = attrs.evolve(
                    of.now, memory=Memory.of(took.consumer), done=some(of.now.done, next_one)
                )
                goals = now.goals(later, of.given, taken, took)
                goals["ProcessedOnceATenure"] = implies(
                    of.now.counts, next_one, no(of.now.done)
                )
                lines = partial(told, of, explorer)
                goes_on = prover.ask(explorer, name, goals, lines, took)
                if not goes_on:
                    return


def _repeat(now: _Instance, took: Took, run: Callable[..., Took]) -> None:
    """Plain Python takes the same path with the solver's values, and comes to the same."""
    of, explorer = now.of, now.explorer
    if explorer.smt.name != "z3":
        return
    me, consumer, target, message = (
        of.values(explorer, each) for each in (of.me, of.consumer, of.target, of.now.message)
    )
    record = of.inputs.concrete(explorer)[1]
    found, wanted = run(me, consumer, target, record), of.values(explorer, took)
    if _flat(found, message) != _flat(wanted, message):
        raise Escaped(f"{me}, {consumer}, {record}: {found}, not {wanted}")
    now.prover.outcome.repeated += 1


def _flat(took: Took, message: int) -> tuple[Any, ...]:
    """What two ways to write the same union have in common."""
    granted = took.consumer.granted
    last = granted[-1].stop if granted else None
    rest = attrs.evolve(took.consumer, granted=())
    return took.against, rest, took.sent, took.processed, last, holds(granted, message)


# --- where nothing happens ------------------------------------------------------------------------


def starts(prover: Prover) -> None:
    """A new instance begins, at any log: a restart, or one that was not there before."""
    case = next(each for each in doings() if not each.claim.known and not each.resigned)
    inputs, explorer = Inputs(prover.smt, case.claim), Explorer(prover.smt)
    of = Machine(inputs, case)
    consumer = ConsumerState()
    now = attrs.evolve(of.now, memory=Memory.of(consumer), log=inputs.claim, last=inputs.last)
    for each in inputs.assumed:
        explorer.assume(each)
    taken: Any = 0
    for group in (LOG, TENURE):
        prover.assumed(explorer, group, now)
    if "OneRunPerIdentity" in prover.without:
        taken = of.taken
    else:
        # It has sent nothing and processed nothing: nobody had its id.
        now = attrs.evolve(now, done=False, tenure=attrs.evolve(now.tenure, begun=False))
        assume(explorer, no(of.flying.own))
        assume(explorer, no(every(inputs.claim.owned, inputs.claim.owner_instance == now.me.instance)))
        prover.assumed(explorer, {**LOG, **TENURE}, now)
    goals = {
        **{name: each(now) for name, each in OWNER.items()},
        **{name: each(now, of.flying) for name, each in PROMISE.items()},
        "ProcessesWhatItWasGranted": taken + choose(holds((), now.message), 1, 0) <= 0,
    }
    prover.ask(explorer, START, goals, partial(told, of, explorer), Took(None, consumer))
    prover.outcome.reached.add((START, "happens"))


def two_act(prover: Prover) -> None:
    """Any two instances act. Spec: Mutex."""
    case = next(each for each in readings() if len(each.claim.known) == 4)
    with instance(prover, case) as now:
        a, of, explorer = now.of.inputs, now.of, now.explorer
        mine = of.consumer.known
        theirs = attrs.evolve(
            mine,
            owner_instance=a.an_id("their owner"),
            owner_client=a.an_id("their client"),
            epoch=a.number("their epoch"),
            position=a.number("their position"),
        )
        they = InstanceConfig(a.an_id("they"), a.an_id("client of them"), Mode.AT_LEAST_ONCE)
        reader = attrs.evolve(of.consumer.reader, claim=theirs)
        other = attrs.evolve(of.consumer, reader=reader, resigned=a.number("they resigned"))
        one, two = Seen.of(mine), Seen.of(theirs)
        if "LogIsKept" not in prover.without:
            assume(explorer, some(epoch_has_one_owner(one, two), epoch_has_one_owner(two, one)))
        assume(explorer, no(of.me.instance_id == they.instance_id))
        for both in explorer.explore(
            lambda: bool(machine.acts(of.me, of.consumer)) and bool(machine.acts(they, other))
        ):
            goal = implies(both, no(mine.epoch == theirs.epoch))
            lines = partial(two_told, of, explorer, they, other)
            prover.ask(explorer, "(two act)", {"Mutex": goal}, lines, None)


def follows(prover: Prover) -> None:
    """ReprocessingBound and ReleaseRepeatsNothing of one message, from what is always true."""
    case = doings()[0]
    inputs, explorer = Inputs(prover.smt, case.claim), Explorer(prover.smt)
    of = Machine(inputs, case)
    now, tenure = of.now, of.now.tenure
    now = attrs.evolve(now, memory=attrs.evolve(now.memory, read=inputs.last))
    for each in inputs.assumed:
        explorer.assume(each)
    for group in (TENURE, OWNER):
        prover.assumed(explorer, group, now)
    end = choose(
        some(tenure.position_set, tenure.position >= now.me.start), tenure.position, now.me.start
    )
    passed = every(tenure.base <= now.message, now.message < tenure.position)
    overhang = every(end <= now.message, now.message < end + now.me.window)
    goals = {
        "ReprocessingBound": implies(now.counts, now.done, some(passed, overhang)),
        "ReleaseRepeatsNothing": implies(now.counts, now.done, tenure.released, passed),
    }
    prover.ask(explorer, "(follows)", goals, partial(told, of, explorer), None)


def unites(prover: Prover) -> None:
    """The union of ranges is what `united` says, by induction over how many there are."""
    a, explorer = Inputs(prover.smt, doings()[0].claim), Explorer(prover.smt)
    message = a.number("m")
    one, more = (
        SymbolicRange(a.number(f"{name} start"), a.number(f"{name} stop")) for name in "ab"
    )
    before = Held(a.truth("filled"), a.number("before"), a.truth("before has it"), message)
    assume(explorer, every(one.start < one.stop, implies(before.filled, before.stop < one.start)))
    assume(explorer, implies(before.holds, every(before.filled, message < before.stop)))
    nothing = Held(False, 0, False, message)
    whole = Held(True, one.stop, some(before.holds, one.has(message)), message)
    shipped = machine._together
    cases: tuple[tuple[Any, Held], ...] = ((), nothing), (Ranges(before, one), whole)
    with machine_merged(prover.smt):
        for granted, all_of_it in cases:
            for union in explorer.explore(partial(shipped, granted, more)):
                wanted, found = united(all_of_it, more), tuple(union)
                same = every(
                    *(
                        every(implies(one, other), implies(other, one))
                        for one, other in ((wanted.holds, holds(found, message)),)
                    ),
                    implies(wanted.filled, found[-1].stop == wanted.stop) if found else True,
                )
                prover.ask(
                    explorer, "(union)", {"GrantsAreUnited": same}, lambda _: (), None
                )

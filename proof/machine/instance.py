"""Every step of the shipped machine keeps what is always true, and what follows from that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import attrs
from attrs import define

from kafka_marshal import Accepted, Claim, Record, Rules, Verdict
from kafka_marshal.core.claims import suffix_reader
from kafka_marshal.core.claims.suffix_reader import Field
from kafka_marshal.machines.consumer import consumer as machine
from kafka_marshal.machines.consumer.consumer import ConsumerState, InstanceConfig, Mode
from proof.inputs import Inputs
from proof.machine.actions import ACTIONS, READ, START, Action, Took
from proof.machine.inputs import (
    NO_GRANT,
    PAUSE,
    Machine,
    MachineCase,
    doings,
    machine_merged,
    readings,
)
from proof.machine.invariant import LOG, OWNER, PROMISE, TENURE, is_prefix
from proof.machine.logic import assume, choose, every, implies, no, some
from proof.machine.prove import Prover, epoch_has_one_owner, hypotheses, one_step
from proof.machine.ranges import Held, Ranges, SymbolicRange, holds, united
from proof.machine.situation import Memory, Seen, Sent, Situation
from proof.machine.stories import told, two_told
from proof.properties import INVARIANT
from proof.prove import beginning
from proof.symbols import Escaped, Explorer, formula_of


@define(eq=False)
class _Instance:
    """A machine with everything assumed of it."""

    prover: Prover
    explorer: Explorer
    of: Machine

    def __attrs_post_init__(self) -> None:
        of, prover, explorer = self.of, self.prover, self.explorer
        if "KnowsThePosition" in prover.without:
            certain = Field.OWNER | Field.EPOCH | Field.CLOCK
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


@contextmanager
def stepping(
    claim: Claim, record: Record, rules: Rules, taken: tuple[Claim, Verdict]
) -> Iterator[None]:
    """Meanwhile readers find that `step` makes this of this record."""

    def step(*of: object) -> tuple[Claim, Verdict]:
        if not all(one is other for one, other in zip(of, (claim, record, rules), strict=True)):
            raise Escaped("a reader folds another record than the one that it is given")
        return taken

    shipped = vars(suffix_reader)["step"]
    setattr(suffix_reader, "step", step)  # noqa: B010
    try:
        yield
    finally:
        setattr(suffix_reader, "step", shipped)  # noqa: B010


def reads(prover: Prover, case: MachineCase) -> None:
    """The instance reads the next record of the log, of anybody, by the shipped `after_read`.

    What `step` makes of the record is any `one_step`, which `append` proves of the reducer.
    """
    with instance(prover, case) as now:
        of, explorer = now.of, now.explorer
        record, before, after = of.inputs.record, of.consumer.known, of.after
        reader = attrs.evolve(of.consumer.reader, claim=_paused(before))
        consumer, becomes = attrs.evolve(of.consumer, reader=reader), _paused(after)
        sent = Sent.of(record.message, record.headers, of.me.instance_id)
        verdict: Any = Accepted.GRANTED if case.granted else NO_GRANT
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

        def run(me: Any, consumer: Any, _: Any, record: Any, becomes: Claim) -> Took:
            with stepping(consumer.known, record, me.rules, (becomes, verdict)):
                return Took(None, machine.after_read(me, consumer, record))

        for took in explorer.explore(lambda: run(of.me, consumer, None, record, becomes)):
            later = attrs.evolve(of.now, memory=Memory.of(took.consumer))
            given = of.given + choose(grants, 1, 0)
            goals = now.goals(later, given, of.taken, took)
            lines = partial(told, of, explorer, reads=True)
            goes_on = prover.ask(explorer, READ, goals, lines, took)
            _repeat(now, took, partial(run, becomes=of.values(explorer, becomes)))
            prover.outcome.reached.add((READ, type(record.message).__name__))
            if not goes_on:
                return


def _paused(claim: Claim) -> Claim:
    """Whoever looks for a pause in it escapes."""
    return attrs.evolve(claim, pauser=PAUSE, paused_until_ms=PAUSE)


def does(prover: Prover, case: MachineCase) -> None:
    """The instance does anything else that it may do."""
    with instance(prover, case) as now:
        of, explorer = now.of, now.explorer
        for name, action in ACTIONS.items():
            run = partial(action, of.me, of.consumer, of.target)
            for took in explorer.explore(run):
                prover.outcome.reached.add(
                    (name, "happens" if took.against is None else took.against.value)
                )
                _repeat(now, took, partial(_without_record, action))
                later, taken = of.now, of.taken
                next_one = every(of.now.holds(of.now.memory.known), took.processed)
                next_one = every(next_one, of.now.message == of.target)
                if name == "ProcessGrant" and took.against is None:
                    taken = taken + choose(holds(of.consumer.granted, of.now.message), 1, 0)
                later = attrs.evolve(
                    of.now, memory=Memory.of(took.consumer), done=some(of.now.done, next_one)
                )
                goals = now.goals(later, of.given, taken, took)
                goals["ProcessedOnceATenure"] = implies(of.now.counts, next_one, no(of.now.done))
                lines = partial(told, of, explorer)
                goes_on = prover.ask(explorer, name, goals, lines, took)
                if not goes_on:
                    return


def _without_record(action: Action, me: Any, consumer: Any, target: Any, _: Any) -> Took:
    return action(me, consumer, target)


def _repeat(now: _Instance, took: Took, run: Callable[..., Took]) -> None:
    """Plain Python takes the same path with the solver's values, and comes to the same."""
    of, explorer = now.of, now.explorer
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
        assume(
            explorer, no(every(inputs.claim.owned, inputs.claim.owner_instance == now.me.instance))
        )
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
    shipped: Any = machine._together
    cases: Any = ((), nothing), (Ranges(before, one), whole)
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
                prover.ask(explorer, "(union)", {"GrantsAreUnited": same}, lambda _: (), None)

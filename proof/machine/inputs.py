"""An instance, its state and what surrounds it, as symbols; and their values in a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import attrs
from attrs import define, field, frozen

from kafka_marshal import Claim
from kafka_marshal.core.claims.suffix_reader import EVERYTHING, Reader
from kafka_marshal.core.messages import ClaimingMessages, Heartbeat
from kafka_marshal.machines.consumer import consumer as machine
from kafka_marshal.machines.consumer.consumer import ConsumerState, InstanceConfig, Mode
from proof.inputs import MESSAGES, Case, Inputs, cases, unread
from proof.machine.logic import every, implies
from proof.machine.ranges import Held, SymbolicRange, a_range, united
from proof.machine.situation import Identity, Memory, Seen, Sent, Situation, Tenure
from proof.smt.solver import Smt
from proof.symbols import Explorer, Id, Number, Truth, exploring, formula_of

GUARDS: Final = ("owns", "has_resigned", "acts_on", "acts", "never_set", "lost_to_own_client")
"""Functions of the machine without effect that answer yes or no."""


@frozen
class MachineCase:
    """What cannot be a symbol: which of its fields are None, and how it consumes."""

    claim: Case
    resigned: bool
    mode: Mode = Mode.AT_LEAST_ONCE
    becomes: frozenset[str] = frozenset()
    """Where it reads a record: which fields the claim then has."""
    granted: bool = False
    """Where it reads a record: that it was granted."""


OWNERS: Final = (
    frozenset[str](),
    frozenset({"epoch"}),
    frozenset({"epoch", "owner_instance", "owner_client", "last_heartbeat_ms"}),
)
"""Which fields of a claim are known, but for pauses, of which who reads does nothing."""


NO_STEP: Final = OWNERS[0], OWNERS[1]
"""Who brings the first epoch owns: no record leads from the first of these to the second."""


def readings() -> list[MachineCase]:
    """For each message, claim before and after it, memory and mode."""
    return [
        MachineCase(Case(message, before), resigned, mode, becomes=after, granted=granted)
        for message in MESSAGES
        for mode in Mode
        for before in OWNERS
        for after in OWNERS
        for resigned in (False, True)
        for granted in (False, True)
        if not resigned or "epoch" in before
        if not granted or (message is ClaimingMessages and after == OWNERS[2])
        if not before or after
        if (before, after) != NO_STEP
    ]


def doings() -> list[MachineCase]:
    """The same without a record, for either mode."""
    return [
        MachineCase(case, resigned, mode)
        for case in cases()
        if case.message is Heartbeat
        for resigned in (False, True)
        for mode in Mode
        if not resigned or "epoch" in case.known
    ]


INTERVAL: Final = unread("interval_ms")
"""What a header says of an interval: whoever looks at it escapes, so nothing is decided by it."""
PAUSE: Final = unread("a pause")
"""Whose it is and when it ends, to who reads: likewise."""
NO_GRANT: Final = unread("a verdict that is no grant")
"""Likewise."""


def an_int(of: Any) -> Any:
    """As `int`, of an interval."""
    return INTERVAL if isinstance(of, Number) else int(of)


@define(eq=False)
class Machine:
    """The symbols of one instance, and of what is in flight."""

    inputs: Inputs
    case: MachineCase
    me: InstanceConfig = field(init=False)
    consumer: ConsumerState = field(init=False)
    now: Situation = field(init=False)
    flying: Sent = field(init=False)
    """Any record in flight, or in the log."""
    given: Any = field(init=False)
    """How often the log granted it the message, as far as it has read."""
    taken: Any = field(init=False)
    """How often it has processed the message, of what it was granted."""
    target: Any = field(init=False)
    after: Claim = field(init=False)
    """The claim after the record that it reads."""

    def __attrs_post_init__(self) -> None:
        a, case = self.inputs, self.case
        self.me = InstanceConfig(
            a.an_id("me"),
            a.an_id("my client"),
            case.mode,
            window=a.number("window"),
            batch=a.number("batch"),
            start=a.number("start"),
            admin=a.truth("admin"),
            certifies=a.truth("certifies"),
            says_interval=a.truth("says interval"),
            rules=a.rules,
        )
        self.now = situation(a, self.me)
        held = Held(
            a.truth("holds some"), a.number("held up to"), a.truth("held"), self.now.message
        )
        self.consumer = ConsumerState(
            Reader(a.claim, EVERYTHING),
            a.number("view"),
            a.number("resigned") if case.resigned else None,
            a.truth("asked"),
            a.truth("stopped"),
            a.number("next"),
            held,  # type: ignore[arg-type]
        )
        self.given, self.taken, self.target = (
            a.number("given"),
            a.number("taken"),
            a.number("target"),
        )
        self.flying = flying(a, "flying")
        self.after = Claim(
            **{
                name: (a.an_id if "owner" in name else a.number)(f"after {name}")
                for name in case.becomes
            },
            position=a.number("after position"),
            clock_ms=a.number("after clock"),
            position_set=a.truth("after position_set"),
        )
        message = self.now.message
        last_held = held.stop - 1
        self.assume(
            self.consumer.view == a.last + 1,
            a.record.offset == self.consumer.view,
            implies(held.holds, every(held.filled, message < held.stop)),
            implies(held.filled, last_held == message, held.holds),
            implies(held.filled, held.stop > 0),
            self.given >= 0,
            self.taken >= 0,
        )
        if case.resigned:
            self.assume(self.consumer.resigned >= 0)  # type: ignore[operator]

    def assume(self, *of: Any) -> None:
        """What values its types have."""
        self.inputs.assumed += [each.formula for each in of if each is not True]

    def values(self, explorer: Explorer, found: Any) -> Any:
        """What something made of symbols is in a model of all that is assumed."""
        match found:
            case Held():
                return self._ranges(explorer, found)
            case _ if found is PAUSE:
                return None
            case _ if found is INTERVAL:
                return int(self.inputs.concrete(explorer)[2].heartbeat_interval_ms)
            case SymbolicRange():
                return range(*(self.values(explorer, each) for each in (found.start, found.stop)))
            case Id() | Number() | Truth():
                return self.inputs.valued(found, explorer)
            case InstanceConfig():
                return attrs.evolve(
                    found,
                    rules=self.inputs.concrete(explorer)[2],
                    **{
                        each.name: self.values(explorer, getattr(found, each.name))
                        for each in attrs.fields(InstanceConfig)
                        if each.name != "rules"
                    },
                )
            case tuple():
                return tuple(self.values(explorer, each) for each in found)
            case _:
                pass
        if attrs.has(type(found)):
            return type(found)(
                **{
                    each.name: self.values(explorer, getattr(found, each.name))
                    for each in attrs.fields(type(found))
                }
            )
        return found

    def _ranges(self, explorer: Explorer, held: Held) -> tuple[range, ...]:
        filled, stop, has = (
            self.values(explorer, each) for each in (held.filled, held.stop, held.holds)
        )
        message = self.values(explorer, self.now.message)
        if not filled:
            return ()
        return (range(message if has else stop - 1, stop),)


def situation(a: Inputs, me: InstanceConfig) -> Situation:
    """Any tenure of this instance, and any message; what it knows is not said."""
    identity = Identity(
        me.instance_id, me.admin, me.mode is Mode.AT_LEAST_ONCE, me.window, me.start
    )
    tenure = Tenure(
        a.truth("tenure begun"),
        a.truth("tenure over"),
        a.truth("tenure released"),
        a.number("tenure base"),
        a.truth("tenure base set"),
        a.number("tenure position"),
        a.truth("tenure position set"),
    )
    memory = Memory(
        a.truth("memory has resigned"),
        a.number("memory resigned"),
        a.number("memory next"),
        seen(a, "known"),
        None,
        a.truth("memory granted"),
    )
    epoch, message = a.number("e"), a.number("m")
    window, start, batch = (a.terms[name] for name in ("window", "start", "batch"))
    a.assumed += [epoch.formula >= 0, message.formula >= 0]
    a.assumed += [window >= 0, start >= 0, batch > 0]
    return Situation(identity, epoch, message, a.truth("done"), tenure, memory)


def seen(a: Inputs, name: str) -> Seen:
    """Any claim."""
    found = Seen(
        a.truth(f"{name} has epoch"),
        a.number(f"{name} epoch"),
        a.truth(f"{name} owned"),
        a.an_id(f"{name} owner"),
        a.number(f"{name} position"),
        a.truth(f"{name} position set"),
    )
    a.assumed += [(found.epoch >= 0).formula, (found.position >= 0).formula]
    return found


def flying(a: Inputs, name: str) -> Sent:
    """Any record."""
    kinds = [a.truth(f"{name} {each}") for each in ("beats", "claims", "releases", "asks", "rg")]
    api = a.smt.api
    a.assumed.append(api.Or(*(each.formula for each in kinds)))
    a.assumed += [
        api.Not(api.And(one.formula, other.formula))
        for number, one in enumerate(kinds)
        for other in kinds[:number]
    ]
    beats, claims, releases, asks, pauses = kinds
    return Sent(
        own=a.truth(f"{name} own"),
        heartbeat=beats,
        claims=claims,
        releases=releases,
        asks=asks,
        pauses=pauses,
        present=a.truth(f"{name} present"),
        has_epoch=a.truth(f"{name} has epoch"),
        epoch=a.number(f"{name} epoch"),
        offset=a.number(f"{name} offset"),
        has_start=a.truth(f"{name} has start"),
        start=a.number(f"{name} start"),
        sets=a.truth(f"{name} sets"),
    )


@contextmanager
def machine_merged(solver: Smt) -> Iterator[None]:
    """Meanwhile each guard is one question, ranges may be symbols, and their union is its contract.

    The contract is proved of the shipped function, for any number of ranges (`ranges`).
    """

    def guard(right: Callable[..., Any]) -> Callable[..., Any]:
        def ask(*of: Any) -> Any:
            if not exploring():
                return right(*of)
            return Truth(solver, formula_of(solver, partial(right, *of)))

        return ask

    right = machine._together

    def together(granted: Any, more: Any) -> Any:
        if not isinstance(granted, Held):
            return right(granted, more)
        return granted if isinstance(more, range) else united(granted, more)

    shipped = {name: getattr(machine, name) for name in GUARDS}
    for name, each in shipped.items():
        setattr(machine, name, guard(each))
    setattr(machine, "_together", together)  # noqa: B010
    setattr(machine, "range", a_range)  # noqa: B010
    setattr(machine, "int", an_int)  # noqa: B010
    try:
        yield
    finally:
        for name, each in shipped.items():
            setattr(machine, name, each)
        setattr(machine, "_together", right)  # noqa: B010
        delattr(machine, "range")
        delattr(machine, "int")

"""What must be so after a record: the relation, the promise, and what those rely on who act."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from attrs import define, evolve, field, frozen

from kafka_marshal import Accepted, Claim, Record, Verdict
from kafka_marshal.core.claims.suffix_reader import Field, Reader
from kafka_marshal.core.claims.verdicts import RELEASES, Refused
from kafka_marshal.core.messages import ReleasingPartition
from kafka_marshal.machines.consumer import consumer
from proof.late import relation
from proof.late.inputs import LateInputs
from proof.late.promise import PROMISE, Certificate
from proof.late.relation import RELATION, State
from proof.late.symbols import LAZY, Flags, Maybe, SymbolicReader
from proof.symbols import Id, Number, Truth, formula_of


@frozen(eq=False)
class Taken:
    """A record, and what both made of it."""

    before: State
    record: Record
    after: State
    verdict: Verdict
    read: Verdict | None
    sent: Certificate


def verdict_exact(taken: Taken) -> Any:
    """What a reader says that a record did is what it did.

    It may name another guard of a record that is refused; and whether a request was granted, and a
    release set the position, only who knows the position and the pauser knows.
    """
    full, read, reader = taken.verdict, taken.read, taken.before.reader
    if read is None or read is full or (isinstance(read, Refused) and isinstance(full, Refused)):
        return True
    if {full, read} <= {Accepted.GRANTED, Refused.NOT_AHEAD}:
        return not relation.certain(reader, Field.POSITION)
    if {full, read} <= RELEASES:
        return not relation.certain(reader, Field.PAUSER)
    return False


def acts_on_facts(taken: Taken) -> Any:
    """Whoever takes itself for the owner is the owner. Spec: Owns."""
    me: Any = consumer.InstanceConfig(taken.sent.instance, "", consumer.Mode.AT_MOST_ONCE)
    if not consumer.owns(me, taken.after.reader):
        return True
    full = taken.after.full
    return full.owner_instance is not None and full.owner_instance == me.instance_id


def grants_are_facts(taken: Taken) -> Any:
    """Whoever takes a range for granted was granted it, from where the position was."""
    me: Any = consumer.InstanceConfig(taken.sent.instance, "", consumer.Mode.AT_MOST_ONCE)
    found: Any = consumer.grant_read(me, taken.before.reader, taken.record, taken.read)
    if isinstance(found, range):  # an empty one
        return True
    granted = taken.verdict is Accepted.GRANTED
    return granted and found.start == taken.before.full.position


def never_set_is_a_fact(taken: Taken) -> Any:
    """Where a reader is certain that nobody ever set the position, nobody did."""
    return not consumer.never_set(taken.after.reader) or not taken.after.full.position_set


def own_tenure_has_headers(taken: Taken) -> Any:
    """What an instance owns it won with headers, under its own client id.

    Assumed: all that it sends has headers and this client id. Nobody writes in its name.
    """
    sent, message, record = taken.sent, taken.record.message, taken.record

    def holds(full: Claim) -> Any:
        if full.last_heartbeat_ms is None or full.owner_instance is None:
            return True
        own = full.owner_client == sent.client and full.won_with_headers
        return full.owner_instance != sent.instance or own

    own = message.instance_id == sent.instance
    if own and not (record.headers.present and message.client_id == sent.client):
        return True
    return not holds(taken.before.full) or holds(taken.after.full)


def still_certifies(taken: Taken) -> Any:
    """Who could say what it saw can while its tenure lasts, so its release does.

    Assumed: it releases at no negative offset.
    """
    sent, message = taken.sent, taken.record.message
    if isinstance(message, ReleasingPartition) and message.offset < 0:
        return True

    def holds(state: State) -> Any:
        full = state.full
        if full.last_heartbeat_ms is None or full.epoch is None or full.epoch != sent.epoch:
            return True
        return relation.certain(state.reader, Field.OWNER | Field.POSITION | Field.CLOCK)

    return not holds(taken.before) or holds(taken.after)


def only_doubt_remembers(taken: Taken) -> Any:
    """Where the owner is certain a reader remembers nothing that was undecided.

    So a reader that knows the owner begins each record without, as this proof assumes.
    """
    reader = taken.after.reader
    if not relation.certain(reader, Field.OWNER):
        return True
    return reader.undecided is None and reader.reached is None and reader.alive_ms is None


def doubt_is_of_the_log(taken: Taken) -> Any:
    """What is undecided is an offset of the log; it was reached under an epoch, at a past time."""
    offset, before, after = taken.record.offset, taken.before.reader, taken.after.reader
    return not doubts_what_was_read(before, offset - 1) or doubts_what_was_read(after, offset)


def doubts_what_was_read(reader: Reader, last: Any) -> Any:
    """Of a reader after the record at this offset."""
    if reader.undecided is not None and not reader.undecided <= last:
        return False
    if reader.reached is not None and reader.claim.epoch is None:
        return False
    return reader.alive_ms is None or reader.alive_ms <= reader.claim.clock_ms


CONSEQUENCES: Final[Mapping[str, Callable[[Taken], Any]]] = {
    "VerdictExact": verdict_exact,
    "ActsOnFacts": acts_on_facts,
    "GrantsAreFacts": grants_are_facts,
    "NeverSetIsAFact": never_set_is_a_fact,
    "OwnTenureHasHeaders": own_tenure_has_headers,
    "StillCertifies": still_certifies,
    "OnlyDoubtRemembers": only_doubt_remembers,
    "DoubtIsOfTheLog": doubt_is_of_the_log,
}
"""What those rely on who act on a reader."""
PROVED: Final = (*RELATION, *PROMISE, *CONSEQUENCES)
"""Names of all that is proved of a record."""


@define(eq=False)
class Conclusions:
    """The relation and the promise as formulas over any state, made once and then substituted.

    To run their code anew on each path would take most of the time.
    """

    inputs: LateInputs
    formulas: dict[str, Any] = field(factory=dict)
    _state: State = field(init=False)
    _follows: dict[tuple[Any, ...], Any] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        inputs = self.inputs
        flags = {each: inputs.truth(f"then certain {each.name}").formula for each in Field}
        numbers = ("undecided", "reached", "alive_ms", "head_ms")
        reader = SymbolicReader(
            claim=inputs.a_claim("then reader's"),
            certain=Flags(inputs.smt, flags),
            **{name: inputs.maybe(f"then {name}") for name in numbers},
        )
        self._state = State(inputs.a_claim("then full"), reader, inputs.rules)
        of = {name: partial(each, self._state) for name, each in RELATION.items()}
        of |= {name: partial(each, self._state, inputs.sent) for name, each in PROMISE.items()}
        self.formulas = {name: formula_of(inputs.smt, run) for name, run in of.items()}

    def of(self, taken: Taken, name: str) -> Any:
        """The formula of this name, of a record to which the verdicts are these."""
        if name in self.formulas:
            return self.formulas[name]
        key = name, taken.verdict, taken.read
        if key not in self._follows:
            any_ = evolve(taken, before=self.inputs.state, after=self._state)
            run = partial(CONSEQUENCES[name], any_)
            self._follows[key] = formula_of(self.inputs.smt, run)
        return self._follows[key]

    def after(self, taken: Taken) -> list[Any]:
        """That the state is what is after the record."""
        api = self.inputs.smt.api
        equal: list[Any] = []
        for any_, one in (
            (self._state.full, taken.after.full),
            (self._state.reader.claim, taken.after.reader.claim),
            (self._state.reader, taken.after.reader),
        ):
            for name, symbol in any_.__dict__.items():
                found = one.__dict__[name] if isinstance(one, LAZY) else getattr(one, name)
                for left, right in self._pairs(symbol, found):
                    if isinstance(right, bool):
                        equal.append(left if right else api.Not(left))
                    else:
                        equal.append(left == right)
        return equal

    def _pairs(self, symbol: Any, found: Any) -> Iterator[tuple[Any, Any]]:
        match symbol:
            case Maybe():
                if isinstance(found, Maybe):
                    yield symbol.present.formula, found.present.formula
                    found = found.value
                else:
                    yield symbol.present.formula, found is not None
                if found is not None:
                    yield from self._pairs(symbol.value, found)
            case Flags():
                others = symbol.of(found)
                yield from ((formula, others[each]) for each, formula in symbol.formulas.items())
            case Truth():
                yield symbol.formula, getattr(found, "formula", found)
            case Number() | Id():
                yield symbol.formula, getattr(found, "formula", found)
            case _:
                pass  # No symbol: it is None before and after.

"""Where the relation begins, where a promise begins, and how the shipped consumer comes to it.

Each is one run of shipped code over symbols with something assumed and something to show. This
room takes no step: `prove` does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any, Final

from attrs import define, field, frozen

from kafka_marshal import Claim, ClaimKey, Record
from kafka_marshal.core.claims.suffix_reader import Reader
from kafka_marshal.core.messages import Heartbeat
from kafka_marshal.machines.consumer import consumer
from kafka_marshal.machines.consumer.consumer import ConsumerState, InstanceConfig, Mode
from kafka_marshal.machines.consumer.effects import Send
from proof.inputs import Case
from proof.late import relation
from proof.late.consequences import doubts_what_was_read
from proof.late.inputs import Knows, LateInputs
from proof.late.promise import PROMISE, Certificate, is_true_at_seen, names_its_win
from proof.late.relation import RELATION, State
from proof.late.symbols import copied, followed, valued
from proof.properties import INVARIANT
from proof.prove import merged, unchecked
from proof.smt.solver import Smt
from proof.symbols import Escaped, Explorer, formula_of

KEY: Final = ClaimKey("g", "t", 0)
OF_THE_LOG: Final = ("TenureWasItsOwn", "ReleasesNoNegative", "ClockWasPast")
"""Parts of the promise that no reader has to do with."""
SENDS: Final[dict[str, Callable[..., tuple[Any, Send]]]] = {
    "heartbeat": lambda me, of, _: (
        consumer.may_heartbeat(me, of),
        consumer.heartbeat_sent(me, of, KEY),
    ),
    "release": lambda me, of, _: (
        consumer.may_release(me, of),
        consumer.releasing_partition_sent(me, of, KEY),
    ),
    "set": lambda me, of, target: (
        consumer.may_release(me, of),
        consumer.position_sent(me, of, KEY, target),
    ),
    "request": lambda me, of, target: (
        consumer.may_claim_messages(me, of, target),
        consumer.claiming_messages_sent(me, of, KEY, target),
    ),
}
"""What an owner sends, and whether it may."""


@define
class LemmaResult:
    """What came of one lemma."""

    name: str
    paths: int = 0
    seconds: float = 0.0
    refuted: list[str] = field(factory=list)
    """Stories."""
    reached: int = 0
    """Paths on which there was something to show."""


def _related(inputs: LateInputs, without: Sequence[str] = ()) -> list[Callable[[], Any]]:
    found: list[Callable[[], Any]] = [
        partial(each, inputs.claim, inputs.last) for each in INVARIANT.values()
    ]
    return found + [
        partial(each, inputs.state) for name, each in RELATION.items() if name not in without
    ]


def begins_anywhere(inputs: LateInputs) -> tuple[list[Callable[[], Any]], Callable[[], Any]]:
    """A reader that begins anywhere is tied to the full fold, and every promise holds of it."""
    full, sent, first = inputs.claim, inputs.sent, inputs.last + 1
    state = State(full, Reader(), inputs.rules)
    assumed: list[Callable[[], Any]] = [
        partial(each, full, inputs.last) for each in INVARIANT.values()
    ]
    assumed.append(partial(relation.pause_is_cut, state))
    assumed += [partial(PROMISE[name], state, sent) for name in OF_THE_LOG]
    assumed.append(lambda: sent.seen < inputs.last)

    def run() -> Any:
        reader = Reader.beginning_at(first)
        of = Claim() if reader.known else copied(full)  # Before offset 0 there is nothing.
        now = State(of, reader, inputs.rules)
        if not all(each(now) for each in RELATION.values()):
            return False
        if not doubts_what_was_read(reader, inputs.last):
            return False
        return reader.known or all(each(now, sent) for each in PROMISE.values())

    return assumed, run


def is_promised_at_seen(inputs: LateInputs) -> tuple[list[Callable[[], Any]], Callable[[], Any]]:
    """What is true where the log ends at `seen` is the promise, to whichever reader."""
    sent = inputs.sent
    assumed = _related(inputs)
    assumed.append(lambda: sent.seen == inputs.last)
    assumed.append(partial(is_true_at_seen, inputs.claim, sent))

    def run() -> Any:
        state = inputs.state
        return all(each(state, sent) for each in PROMISE.values())

    return assumed, run


def honest_by(
    kind: str, mode: Mode, admin: bool, granted: bool, inputs: LateInputs
) -> tuple[list[Callable[[], Any]], Callable[[], Any]]:
    """What the shipped consumer writes is true of the log that it has read.

    Assumed of it: its offset is not below the position that it knows, and no target is negative.
    """
    me: Any = InstanceConfig(
        inputs.an_id("me"),
        inputs.an_id("my client"),
        mode,
        start=inputs.number("start"),
        batch=inputs.number("batch"),
        admin=admin,
    )
    target, after = inputs.number("target"), inputs.number("next")
    end = inputs.number("granted until")
    resigned = inputs.maybe("resigned")

    def own() -> Any:
        full = inputs.claim
        if full.owner_instance is None or full.owner_instance != me.instance_id:
            return True
        return full.owner_client == me.client_id and full.won_with_headers

    assumed = [
        *_related(inputs),
        own,
        lambda: after >= inputs.reader.claim.position,
        lambda: me.start >= 0,
        lambda: target >= 0,
    ]

    def run() -> Any:
        state = inputs.state
        granted_ = (_Until(end),) if granted else ()
        of = ConsumerState(
            state.reader,
            inputs.last + 1,
            resigned.value if resigned.present else None,
            next=after,
            granted=granted_,  # type: ignore[arg-type]
        )
        against, send = SENDS[kind](me, of, target)
        if against is not None:
            return None
        message, headers = send.message, send.headers
        record = Record(0, 0, 0, message, headers)
        if not (headers.present and message.client_id == me.client_id):
            return False
        if not names_its_win(state, record) or headers.epoch is None:
            return False
        if headers.seen is None or headers.clock is None:
            return True
        said = Certificate.of(message, headers)
        return headers.seen == inputs.last and is_true_at_seen(state.full, said)

    return assumed, run


@frozen(eq=False)
class _Until:
    stop: Any


def lemmas() -> list[tuple[str, Knows]]:
    """Their names, with how much the reader knows."""
    found = [("BeginsAnywhere", Knows.NOT_THE_OWNER)]
    found += [("IsPromisedAtSeen", knows) for knows in Knows]
    return found + [("SendersAreHonest", knows) for knows in Knows]


def _runs(name: str) -> Iterator[Callable[[LateInputs], Any]]:
    if name == "BeginsAnywhere":
        yield begins_anywhere
    elif name == "IsPromisedAtSeen":
        yield is_promised_at_seen
    else:
        for kind, mode, granted in product(SENDS, Mode, (False, True)):
            admin = kind == "set"
            if granted and (mode is Mode.AT_LEAST_ONCE or kind in ("set", "request")):
                continue
            yield partial(honest_by, kind, mode, admin, granted)


def prove_lemma(name: str, knows: Knows, solver: Smt) -> LemmaResult:
    """Show it, or find values of which it is not so."""
    result, began_s = LemmaResult(name), time.perf_counter()
    for of in _runs(name):
        inputs = LateInputs(solver, Case(Heartbeat, frozenset()), knows=knows)
        explorer = Explorer(solver)
        for each in inputs.assumed:
            explorer.assume(each)
        assumed, run = of(inputs)
        with merged(solver), followed(solver), unchecked():
            for assume in assumed:
                explorer.assume(formula_of(solver, assume))
            if not explorer.feasible:
                raise Escaped(f"{name}: nothing is left of it under what is assumed")
            for holds in explorer.explore(run):
                result.paths += 1
                result.reached += holds is not None
                if holds is None or holds is True:
                    continue
                with explorer.within():
                    if holds is not False:
                        explorer.assume(solver.api.Not(holds.formula))
                    if explorer.feasible:
                        state = valued(inputs.claim, explorer), valued(inputs.reader, explorer)
                        result.refuted.append(f"{name} is broken\n  {state[0]}\n  {state[1]}")
    result.seconds = time.perf_counter() - began_s
    return result

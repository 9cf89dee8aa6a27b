"""What a controller does in worlds of `MCGroupWorld.tla`, in Python's words.

The model's module is extended by an export of its controllers. In each state it says how each takes
every request that is on its way, and what it would answer to each that waits. It also says what the
controller remembers of the next record. A sample is kept as TLC printed it (`controllers.tsv.gz`),
so it is held against the Python also where there is no Java.
`python -m model_tests.groups.controllers` writes it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import attrs

from kafka_marshal.core.groups.events import At
from kafka_marshal.core.groups.reducer import step
from kafka_marshal.core.groups.state import Controllership, TopicPartition
from kafka_marshal.core.groups.verdicts import Verdict
from kafka_marshal.machines.groups import controller
from kafka_marshal.machines.groups.control.bodies import register_answer
from kafka_marshal.machines.groups.control.holdings import holdings_of
from kafka_marshal.machines.groups.controller import ControllerState, MemberKey, Registration
from kafka_marshal.modelcheck import models
from kafka_marshal.modelcheck.models import Model
from kafka_marshal.modelcheck.tlc.values import Value
from kafka_marshal.rpc.codec import BY_NAME, RpcRequest
from kafka_marshal.scratch import Scratch
from model_tests import from_tla as words
from model_tests.from_tla import NONE
from model_tests.groups import exports, from_tla
from model_tests.transitions.sample import covering

SAMPLE: Final = Path(__file__).parent / "controllers.tsv.gz"
GROUP: Final = "g"
MODULE: Final = """---- MODULE ControllersOfGroupWorld ----
EXTENDS MCGroupWorld, Export
Of(c) == [epoch |-> c.epoch, starts |-> c.starts, pending |-> c.pending, newest |-> c.newest]
Received(c, view, group, request) ==
    LET events  == EventsOfRequest(group, request)
        records == [k \\in DOMAIN events |-> Sending(c, view, events[k])]
        after   == Of(Sent(Taken(c, view, request, events), records))
    IN  FirstTime(<<"Receive", Of(c), view, request>>) =>
            Export(<<"Receive", Of(c), view, request,
                     <<IsVoid(c, request), Needs(c, view, events), after>> >>)
Answered(c, view, wait) ==
    FirstTime(<<"Answer", Of(c), view, wait>>) =>
        Export(<<"Answer", Of(c), view, wait,
                 <<HasLanded(c, view, wait),
                   AnswerTo(TheGroup(view), wait.member, wait.connection, wait.sent)>> >>)
WasRead(me, c, view, record, verdict) ==
    FirstTime(<<"Read", me, Of(c), record, verdict>>) =>
        Export(<<"Read", Of(c), view, <<me, record, verdict>>,
                 <<Of(AfterReading(me, c, record, verdict))>> >>)
ExportControllers ==
    \\A c \\in Controllers :
        /\\ Serves(c) =>
              /\\ \\A request \\in requests :
                     Received(controllers[c], View(c), Foreseen(c), request)
              /\\ \\A wait \\in controllers[c].waiting : Answered(controllers[c], View(c), wait)
        /\\ (Reads(c) /\\ controllers[c].read < Length(appended)) =>
              LET next == appended[controllers[c].read + 1]
              IN  WasRead(c, controllers[c], View(c), next.record, next.verdict)
====
"""


@attrs.frozen
class Deed:
    """One thing that a controller does."""

    kind: str
    before: ControllerState
    view: Controllership
    what: Any
    said: tuple[object, ...]
    """What the specification makes of it."""

    def taken(self) -> tuple[object, ...]:
        """What the Python makes of it, now."""
        ahead = self.view
        for record in self.before.pending:
            ahead = step(ahead, record).controllership
        c = attrs.evolve(self.before, ahead=ahead)
        match self.kind:
            case "Receive":
                return self._received(c, self.what)
            case "Answer":
                number, member = self.what
                return controller.has_landed(self.view, number), self._answer(member)
            case _:
                me, record, verdict = self.what
                return (remembered(controller.after_reading(me, c, record, verdict)),)

    def _received(self, c: ControllerState, request: Registration) -> tuple[object, ...]:
        key, is_fresh = MemberKey(GROUP, request.member), controller.is_fresh(request)
        is_void = is_fresh and controller.is_void(c, key, request.connection)
        group = controller.speculative(c, self.view).groups[GROUP]
        if is_fresh:
            c = controller.taken(c, key, request.connection)
        for event in controller.events_of_request(group, request):
            record = controller.sending(c, self.view, 0, GROUP, event)
            c, _ = controller.sent(c, self.view, record)
        return is_void, controller.needs(c, self.view), remembered(c)

    def _answer(self, member: str) -> object:
        group = self.view.groups[GROUP]
        own = holdings_of(group).to_own.get(member, [])
        request = RpcRequest(BY_NAME["RegisterConsumer"], 1, 1, "c", {"ConsumerGroup": GROUP})
        body: Any = register_answer(request, group, own).body
        told = {
            TopicPartition(row["Topic"], row["Partition"]): At(row["Tenure"], row["Offset"])
            for row in body["PartitionsToOwnV1"]
        }
        return body["Generation"], member not in group.members, told


def remembered(c: ControllerState) -> ControllerState:
    """What the specification has of it, too: times are not in a record, nor is what follows."""
    pending = tuple(attrs.evolve(record, timestamp_ms=0) for record in c.pending)
    newest = {key: number for key, number in c.newest.items() if number}
    return attrs.evolve(c, pending=pending, newest=newest, ahead=Controllership())


def exported(model: Model, folder: Path) -> Path:
    """The export of a world, run by TLC."""
    return exports.exported("Controllers", MODULE, model, folder)


# --- TLA+ to Python -------------------------------------------------------------------------------


def deed(value: Value) -> Deed:
    """One row, its columns as `MODULE` writes them."""
    assert isinstance(value, tuple)
    kind, before, view, what, said = value
    assert isinstance(said, tuple)
    known = from_tla.controllership(view)
    match kind:
        case "Receive":
            is_void, needs, after = said
            given = words.fields(what)
            is_fresh = given["as_of"] == NONE
            request = Registration(
                given["member"],
                given["connection"],
                None if is_fresh else given["as_of"],
                from_tla.READS["held"](given["held"]),  # type: ignore[arg-type]
                from_tla.positions(given["positions"]),
                "c",
                frozenset({"t"}) if is_fresh else None,
            )
            return Deed("Receive", state(before), known, request, (is_void, needs, state(after)))
        case "Answer":
            wait, (landed, answer) = words.fields(what), said
            told = words.fields(answer)
            own = from_tla.positions(told["own"])
            return Deed(
                "Answer",
                state(before),
                known,
                (wait["needs"], wait["member"]),
                (landed, (told["generation"], told["unknown"], own)),
            )
        case _:
            assert isinstance(what, tuple)
            me, record, verdict = what
            read = me, from_tla.record(record), from_tla.verdict(verdict)
            return Deed("Read", state(before), known, read, (state(said[0]),))


def state(value: Value) -> ControllerState:
    """What a controller remembers."""
    given: Any = words.fields(value)
    newest = given["newest"] or {}
    return ControllerState(
        epoch=None if given["epoch"] == NONE else given["epoch"],
        starts=given["starts"],
        pending=tuple(map(from_tla.record, given["pending"])),
        newest={MemberKey(GROUP, member): at for member, at in newest.items() if at},
    )


# --- the sample -----------------------------------------------------------------------------------


def answers(each: Deed) -> tuple[Hashable, ...]:
    """What a rule asks of a controller, and the effect."""
    c, said = each.before, each.said
    verdict: Verdict | None = each.what[2] if each.kind == "Read" else None
    request = each.what if isinstance(each.what, Registration) else None
    after = said[-1]
    return (
        (c.epoch is None, c.starts, len(c.pending), len(c.newest)),
        verdict,
        None if verdict is None else type(each.what[1].event).__name__,
        None if request is None else (request.as_of is None, bool(request.held)),
        None if each.kind == "Read" else said[0],
        len(after.pending) if isinstance(after, ControllerState) else after[1],  # type: ignore[index]
    )


def deeds(path: Path) -> Iterator[tuple[str, Deed]]:
    """Each line of an export, and what it is."""
    return ((line, deed(value)) for line, value in exports.lines_of(path))


def chosen(lines: Iterable[tuple[str, Deed]]) -> list[str]:
    """Lines that together show every two answers that occur in some kind of deed."""
    kept = covering(
        iter(lines), lambda each: each[1].kind, lambda each: answers(each[1]), lambda each: each[0]
    )
    return [line for line, _ in kept]


@cache
def sample() -> tuple[Deed, ...]:
    """The rows that are kept."""
    return tuple(map(deed, exports.values_of(SAMPLE)))


def main() -> None:
    """Write the sample anew."""
    found: dict[str, Deed] = {}
    with Scratch("controller-edges") as folder:
        for model in models.read():
            if exports.of_timeless_worlds(model):
                found.update(deeds(exported(model, folder)))
    partings = [each for each in found.values() if each.taken() != each.said]
    kept = chosen(found.items())
    exports.write(kept, SAMPLE)
    print(f"{len(kept):,} of {len(found):,} rows in {SAMPLE.name}; {len(partings)} differ")


if __name__ == "__main__":
    main()

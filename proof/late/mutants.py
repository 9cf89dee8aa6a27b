"""Mistakes of a late reader, and of who acts on it: each is refuted, with a story.

A mistake is an edit of the shipped text. Names are those of the configurations in `spec/` where the
same mistake is made there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Final

from attrs import frozen

from kafka_marshal import ClaimingMessages, ClaimingPartition, Heartbeat, ReleasingPartition
from kafka_marshal.core.claims import suffix_reader
from kafka_marshal.core.messages import ReleaseGroup
from kafka_marshal.machines.consumer import consumer
from proof.late.inputs import Knows, LateCase
from proof.late.lemmas import prove_lemma
from proof.late.prove import prove_late
from proof.smt.solver import smt

OWNER, NOT_OWNER = Knows.THE_OWNER, Knows.NOT_THE_OWNER


@frozen
class Mistake:
    """A mistake, and the case that refutes it."""

    name: str
    message: type | None
    """None: a lemma about senders refutes it."""
    knows: Knows
    edits: tuple[tuple[str, str], ...]
    module: ModuleType = suffix_reader

    def text(self) -> str:
        """The module's text with the mistake in it."""
        text = Path(str(self.module.__file__)).read_text(encoding="utf-8")
        for was, becomes in self.edits:
            if was not in text:
                raise ValueError(f"{self.name}: {was} is not in {self.module.__name__}")
            text = text.replace(was, becomes)
        return text

    @contextmanager
    def made(self) -> Iterator[None]:
        """The functions that it changes, for as long as the block lasts."""
        shipped = ast.parse(Path(str(self.module.__file__)).read_text(encoding="utf-8"))
        same = {ast.dump(each) for each in shipped.body}
        changed = ast.parse(self.text())
        changed.body = [each for each in changed.body if ast.dump(each) not in same]
        names = [each.name for each in changed.body if isinstance(each, ast.FunctionDef)]
        right = {name: getattr(self.module, name) for name in names}
        future = ast.parse("from __future__ import annotations").body
        changed.body = [*future, *changed.body]
        exec(compile(changed, "mutated", "exec"), self.module.__dict__)  # noqa: S102  # our own
        try:
            yield
        finally:
            for name, each in right.items():
                setattr(self.module, name, each)


def _one(
    name: str,
    message: type | None,
    knows: Knows,
    was: str,
    becomes: str,
    *,
    of: ModuleType = suffix_reader,
) -> Mistake:
    return Mistake(name, message, knows, ((was, becomes),), of)


MISTAKES: Final = (
    Mistake(
        "ClockIgnored",
        Heartbeat,
        NOT_OWNER,
        (
            ("_highest(claim.clock_ms, headers.clock)", "claim.clock_ms"),
            ("_not_before(claim, _highest(record.headers.clock))", "claim"),
        ),
    ),
    _one(
        "ClockIgnoredByTheKnowing",
        Heartbeat,
        OWNER,
        "_not_before(claim, _highest(record.headers.clock))",
        "claim",
    ),
    _one("StalenessDecided", ClaimingPartition, OWNER, "(pause and staleness)", "pause"),
    _one("PauseDecided", ClaimingPartition, OWNER, "(pause and staleness)", "staleness"),
    _one(
        "PassedHead",
        Heartbeat,
        OWNER,
        "alive and reader.head_ms is not None and clock_ms > reader.head_ms",
        "alive",
    ),
    _one(
        "BareIsNoSignOfLife",
        Heartbeat,
        NOT_OWNER,
        "claim=guess, alive_ms=claim.clock_ms",
        "claim=guess",
    ),
    _one(
        "DoubtfulIsNoSignOfLife",
        ClaimingPartition,
        NOT_OWNER,
        "undecided=record.offset, alive_ms=claim.clock_ms",
        "undecided=record.offset",
    ),
    _one(
        "DoubtIsNoSignOfLife",
        ClaimingPartition,
        OWNER,
        "alive_ms=advanced.clock_ms",
        "alive_ms=None",
    ),
    _one(
        "RequestDisplacesNobody",
        ClaimingPartition,
        NOT_OWNER,
        "undecided=record.offset, alive_ms",
        "alive_ms",
    ),
    _one(
        "WinsWithoutPause",
        ClaimingPartition,
        NOT_OWNER,
        "and claim.clock_ms > reader.head_ms + rules.pause_max_ms",
        "",
    ),
    _one(
        "WinsInAPauseRead",
        ClaimingPartition,
        NOT_OWNER,
        "(claim.paused_until_ms is None or claim.clock_ms >= claim.paused_until_ms)",
        "True",
    ),
    _one(
        "WinsAtTwoIntervals",
        ClaimingPartition,
        NOT_OWNER,
        "reader.alive_ms) > rules",
        "reader.alive_ms) >= rules",
    ),
    _one(
        "WinsOverRequests",
        ClaimingPartition,
        NOT_OWNER,
        "_highest(reader.head_ms, reader.alive_ms)",
        "reader.head_ms",
    ),
    _one(
        "SeenAnything",
        Heartbeat,
        NOT_OWNER,
        "seen is not None and seen >= _highest(reader.undecided)",
        "seen is not None",
    ),
    _one(
        "SeenAlmostAll",
        Heartbeat,
        NOT_OWNER,
        "seen >= _highest(reader.undecided)",
        "seen >= _highest(reader.undecided) - 1",
    ),
    _one("KeepsGuess", ReleaseGroup, NOT_OWNER, "attrs.evolve(claim, position=0)", "claim"),
    _one(
        "SetOrNot",
        Heartbeat,
        NOT_OWNER,
        "return Field.POSITION_SET if claim.position_set else NOTHING",
        "return Field.POSITION_SET",
    ),
    _one(
        "HigherPositionKept",
        ReleasingPartition,
        NOT_OWNER,
        "        sets = True  #",
        "        sets = sets  #",
    ),
    _one("PositionNeverLost", ReleasingPartition, OWNER, "verdict in RELEASES\n", "False\n"),
    _one("RequestIsLife", ClaimingMessages, OWNER, "if not vague:", "if True:"),
    _one(
        "OldRequestIsLife",
        ClaimingMessages,
        NOT_OWNER,
        "if not granted or offset > reached:",
        "if True:",
    ),
    _one(
        "ReachedNothing",
        Heartbeat,
        NOT_OWNER,
        "reached = _highest(reader.reached) if epoch == claim.epoch else -1",
        "reached = -1",
    ),
    _one(
        "ReachedUnderAnyEpoch",
        Heartbeat,
        NOT_OWNER,
        "reached = _highest(reader.reached) if epoch == claim.epoch else -1",
        "reached = _highest(reader.reached)",
    ),
    _one(
        "ActsOnAGuess",
        Heartbeat,
        NOT_OWNER,
        "claim.owned and reader.known",
        "claim.owned",
        of=consumer,
    ),
    _one(
        "TakesALowerBoundForAGrant",
        ClaimingMessages,
        OWNER,
        "and before.known\n        and Field.POSITION in before.certain",
        "and before.known",
        of=consumer,
    ),
    _one(
        "NeverSetAsFarAsKnown",
        Heartbeat,
        OWNER,
        "not reader.claim.position_set and Field.POSITION_SET in reader.certain",
        "not reader.claim.position_set",
        of=consumer,
    ),
    _one(
        "CertifiesWithoutPosition",
        None,
        OWNER,
        "needed = Field.POSITION | Field.CLOCK",
        "needed = Field.CLOCK",
        of=consumer,
    ),
    _one(
        "CertifiesWithoutClock",
        None,
        OWNER,
        "needed = Field.POSITION | Field.CLOCK",
        "needed = Field.POSITION",
        of=consumer,
    ),
    _one(
        "SaysItSawOneMore",
        None,
        OWNER,
        "seen=consumer.view - 1 if",
        "seen=consumer.view if",
        of=consumer,
    ),
)
"""Names as `model_tests.mutants` would have them."""


def judge(name: str, solver: str = "z3") -> tuple[str, str, str]:
    """The mistake's name, what it breaks, and the story; twice nothing if it breaks nothing."""
    mistake = next(each for each in MISTAKES if each.name == name)
    with mistake.made():
        if mistake.message is None:
            found = prove_lemma("SendersAreHonest", mistake.knows, smt(solver)).refuted
            return name, "SendersAreHonest" if found else "", found[0] if found else ""
        case = LateCase(mistake.message, mistake.knows)
        refuted = prove_late(case, smt(solver), until_refuted=True).refuted
    return (name, refuted[0].property, refuted[0].story()) if refuted else (name, "", "")

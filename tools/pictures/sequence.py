"""Who writes what when, at most once: two of the shipped machines, one log, and one that dies.

The steps are what `kafka_marshal.machines.consumer.driver` and `kafka_marshal.core.claims.world` do
when a script of events is played to them. This module holds the script: who reads when, and which
record is slow. It decides no verdict.
"""

from __future__ import annotations

import re
from typing import Final

import attrs

from kafka_marshal import FENCED, ClaimKey, Record, World
from kafka_marshal.core.claims.verdicts import Accepted, Refused
from kafka_marshal.core.messages import Headers
from kafka_marshal.counterexample import LOG, Counterexample, Participant, Step, StepKind, words
from kafka_marshal.counterexample.model import spec_name
from kafka_marshal.machines.consumer.consumer import InstanceConfig, Mode
from kafka_marshal.machines.consumer.driver import Driver, Timing
from kafka_marshal.machines.consumer.effects import Effect, Process, Send, Won

KEY: Final = ClaimKey("billing", "orders", 3)
BATCH: Final = 100
ENDS: Final = (
    f"Messages 0 to {BATCH - 1} were a1's alone, and it died with them in hand: "
    "marshal receipts lists them."
)


class Script:
    """Plays events to machines, and writes down a step for each."""

    def __init__(self, *clients: str) -> None:
        """Begin with an empty log, one instance a client."""
        self.drivers = {
            f"{client}1": Driver(
                InstanceConfig(f"{client}1", client, Mode.AT_MOST_ONCE, batch=BATCH),
                KEY,
                Timing(heartbeat_every_ms=int(FENCED.heartbeat_interval_ms)),
            )
            for client in clients
        }
        self.world = World(FENCED)
        self.log: list[Record] = []
        self.steps = [Step(0)]
        self.now_ms = 0

    def _step(self, step: Step) -> int:
        number = len(self.steps)
        time = f"{self.now_ms // 1000} s"
        self.steps.append(attrs.evolve(step, number=number, sentence=step.label, time=time))
        return number

    def caught_up(self, who: str) -> list[tuple[Send, int]]:
        """It has read all there is; return what it sends, and at which step."""
        return self._carried_out(who, self.drivers[who].caught_up(self.now_ms))

    def timer(self, who: str) -> list[tuple[Send, int]]:
        """Its timer is due."""
        return self._carried_out(who, self.drivers[who].timer(self.now_ms))

    def available(self, who: str, end: int) -> list[tuple[Send, int]]:
        """The data topic holds messages below `end`."""
        return self._carried_out(who, self.drivers[who].messages_available(end, self.now_ms))

    def lands(self, sent: tuple[Send, int]) -> None:
        """A record is appended, and judged by the fold of the log."""
        send, since = sent
        record = Record(0, len(self.log), self.now_ms, send.message, send.headers)
        self.log.append(record)
        verdict = self.world.apply(record).verdict
        assert isinstance(verdict, Accepted | Refused), verdict
        who = send.message.instance_id
        self._step(
            Step(
                0,
                kind=StepKind.APPENDED,
                who=who,
                source=who,
                target=LOG,
                since=since,
                offset=record.offset,
                label=_described(send),
                verdict=spec_name(verdict),
            )
        )

    def reads(self, who: str, *, shown: bool = True) -> list[tuple[Send, int]]:
        """It reads the next record; return what it sends."""
        driver = self.drivers[who]
        record = self.log[driver.consumer.view]
        effects = driver.read(record, self.now_ms)
        if shown:
            won = ", owns" if any(isinstance(each, Won) for each in effects) else ""
            offset = record.offset
            label = f"reads offset {offset}{won}"
            self._step(
                Step(
                    0,
                    kind=StepKind.READ,
                    who=who,
                    source=LOG,
                    target=who,
                    offset=offset,
                    label=label,
                )
            )
        return self._carried_out(who, effects)

    def crashes(self, who: str) -> None:
        """It is gone."""
        self._step(Step(0, kind=StepKind.CRASHED, who=who, label="crashes"))

    def passes(self, seconds: int) -> None:
        """Time passes."""
        self.now_ms += seconds * 1000
        self._step(Step(0, kind=StepKind.TIME, label=f"{seconds} s pass"))

    def _carried_out(self, who: str, effects: list[Effect]) -> list[tuple[Send, int]]:
        sent = []
        for effect in effects:
            if isinstance(effect, Send):
                label = _described(effect)
                step = Step(0, kind=StepKind.SENT, who=who, source=who, target=LOG, label=label)
                sent.append((effect, self._step(step)))
            elif isinstance(effect, Process):
                label = f"hands over {effect.offsets.start} to {effect.offsets.stop - 1}"
                self._step(Step(0, kind=StepKind.PROCESSED, who=who, label=label))
        return sent

    def counterexample(self) -> Counterexample:
        """Return the steps in the form that is drawn."""
        participants = [Participant(who, f"client {who[:-1]}") for who in self.drivers]
        everybody = (*participants, Participant(LOG))
        return Counterexample(None, "a script", everybody, tuple(self.steps), wrong=ENDS)


def _described(send: Send) -> str:
    record = Record(0, 0, 0, send.message, Headers(True, epoch=send.headers.epoch))
    return re.sub(r" \((epoch \d+)\)", r", \1", words.described(record)).replace(" up to ", " to ")


def at_most_once() -> Counterexample:
    """Return the story: a batch is granted, its owner dies, another goes on behind it."""
    play = Script("a", "b")
    [request] = play.caught_up("a1")
    play.lands(request)
    [heartbeat] = play.reads("a1")
    play.lands(heartbeat)
    play.reads("a1", shown=False)
    [grant] = play.available("a1", BATCH)
    play.lands(grant)
    [late] = play.reads("a1")
    for _ in play.log:
        play.reads("b1", shown=False)
    assert play.caught_up("b1") == []  # an owner lives
    play.crashes("a1")
    play.passes(121)
    [request] = play.timer("b1")
    play.lands(request)
    [heartbeat] = play.reads("b1")
    play.lands(late)
    play.lands(heartbeat)
    play.reads("b1", shown=False)
    play.reads("b1", shown=False)
    [grant] = play.available("b1", 2 * BATCH)
    play.lands(grant)
    [heartbeat] = play.reads("b1")
    play.lands(heartbeat)
    return play.counterexample()

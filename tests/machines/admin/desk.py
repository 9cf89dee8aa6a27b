"""A coordinating partition and administrators at it, a story line by line.

What an administrator sends waits in its outbox until the test appends it, loses it, or leaves it
there. `go` is for the ordinary case, in which everything arrives and is read.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from attrs import define, field

from kafka_marshal import FENCED, ClaimKey, Refused, World, decode, decode_headers
from kafka_marshal.core.claims.pause_work import PauseWork, left_undone
from kafka_marshal.core.messages import NO_HEADERS, Headers, Message, ReleaseGroup
from kafka_marshal.machines.admin.administrator import (
    AdminEffect,
    Administrator,
    AdministratorTiming,
    UnfinishedWork,
    WorkDone,
)
from kafka_marshal.machines.admin.operation import AllSet, NoneSet, PartlySet, Result
from kafka_marshal.machines.consumer.consumer import InstanceConfig, Mode
from kafka_marshal.machines.consumer.effects import Send
from tests.memory_log import MemoryLog

RULES = attrs.evolve(FENCED, heartbeat_interval_ms=1000, pause_max_ms=60_000)
PATIENCE = AdministratorTiming(pause_ms=5000, heartbeat_every_ms=1000, ask_again_after_ms=500)
ONE, TWO = ClaimKey("g", "t", 1), ClaimKey("g", "t", 2)
BOTH: Mapping[ClaimKey, int] = {ONE: 3, TWO: 3}


def administrator(name: str, first: int = 0) -> Administrator:
    """Instance x1 is of client x."""
    me = InstanceConfig(name, name[0], Mode.AT_MOST_ONCE, admin=True, rules=RULES)
    return Administrator(me, "g", PATIENCE, first=first)


@define
class Desk:
    """One log, and who is at it."""

    now_ms: int = 0
    log: MemoryLog = field(factory=lambda: MemoryLog(world=World(RULES)))
    administrators: dict[str, Administrator] = field(factory=dict)
    views: dict[str, int] = field(factory=dict)
    outbox: dict[str, list[Send]] = field(factory=dict)
    told: dict[str, Result] = field(factory=dict)
    lines: list[str] = field(factory=list)

    @property
    def world(self) -> World:
        return self.log.world

    def sit(self, name: str, first: int = 0) -> Administrator:
        """An administrator sits down."""
        self.administrators[name] = administrator(name, first)
        self.views[name], self.outbox[name] = first, []
        return self.administrators[name]

    def begin(self, name: str, targets: Mapping[ClaimKey, int] = BOTH) -> None:
        """It is asked to set positions."""
        self.do(name, self.administrators[name].begin(targets, self.now_ms))

    def do(self, name: str, effects: list[AdminEffect]) -> None:
        """Carry out what an administrator asks for; what it sends waits."""
        for effect in effects:
            if isinstance(effect, Send):
                self.outbox[name].append(effect)
            elif isinstance(effect, WorkDone):
                self.told[name] = effect.result
                self.lines.append(f"{name} tells: {described(effect.result)}")
            elif isinstance(effect, UnfinishedWork):
                self.lines.append(f"{name} warns: {left(effect.work)}")

    def append(self, name: str) -> None:
        """Its oldest record arrives."""
        sent = self.outbox[name].pop(0)
        self._append(sent.message, sent.headers)

    def lose(self, name: str) -> Send:
        """Its oldest record is gone; what became of it nobody knows."""
        return self.outbox[name].pop(0)

    def say(self, text: str, **headers: int) -> None:
        """A consumer's record, as text."""
        pairs = [(f"marshal-{name}", str(number)) for name, number in headers.items()]
        self._append(decode(text.encode()), decode_headers(pairs) if pairs else NO_HEADERS)

    def _append(self, message: Message, headers: Headers) -> None:
        record = self.log.append(message, headers, at_ms=self.now_ms)
        verdict = self.log.verdict
        assert verdict is not None
        refused = "refused, " if isinstance(verdict, Refused) else ""
        self.lines.append(
            f"@{record.offset} {self.now_ms} ms {message.instance_id} {_words(message, headers)}: "
            f"{refused}{verdict.value.replace('_', ' ')}"
        )

    def read(self, name: str) -> None:
        """It reads to the end."""
        while self.views[name] < len(self.log):
            record = self.log[self.views[name]]
            self.views[name] += 1
            self.do(name, self.administrators[name].record(record, self.now_ms))

    def go(self, name: str) -> None:
        """Everything that it sends arrives and is read."""
        self.read(name)
        while self.outbox[name]:
            self.append(name)
            self.read(name)

    def wait(self, until_ms: int) -> None:
        """Time passes, and everybody's timer goes off when it should, never twice for nothing."""
        self.now_ms = until_ms
        for name, one in self.administrators.items():
            due_ms = one.next_timer_ms
            if due_ms is not None and due_ms <= until_ms:
                effects = one.timer(until_ms)
                again_ms = one.next_timer_ms
                assert effects or again_ms is None or again_ms > until_ms, f"{name} is kept busy"
                self.do(name, effects)

    def timer_of(self, name: str) -> int | None:
        """When its timer goes off next."""
        return self.administrators[name].next_timer_ms

    def position(self, key: ClaimKey) -> int:
        """Where the log has it."""
        return self.world.claim(key).position

    def story(self) -> str:
        """What happened, a line each."""
        return "\n".join(self.lines)


def _words(message: Message, headers: Headers) -> str:
    kind = type(message).__name__
    if isinstance(message, ReleaseGroup):
        return f"{kind} until {message.expires_unix_s * 1000} ms"
    offset = getattr(message, "offset", None)
    sets = ", sets it" if headers.set_position is not None else ""
    return f"{kind} {_name(message)}" + (f" at {offset}{sets}" if offset is not None else "")


def _name(message: Message) -> str:
    return f"{message.topic}/{message.partition}"


def names(keys: frozenset[ClaimKey]) -> str:
    """Sorted, or `none`."""
    return ", ".join(f"{key.topic}/{key.topic_partition}" for key in sorted(keys)) or "none"


def described(result: Result) -> str:
    """A result in words."""
    match result:
        case AllSet(done):
            return f"all set: {names(done)}"
        case NoneSet(_, reason):
            return f"none set, {reason.value.replace('_', ' ')}"
        case PartlySet(done, not_set, in_doubt, reason):
            return (
                f"set: {names(done)}; not set: {names(not_set)}; in doubt: {names(in_doubt)}; "
                f"{reason.value.replace('_', ' ')}"
            )


def left(work: PauseWork) -> str:
    """What was left undone, in words."""
    return f"{work.by} set {names(work.set)} and left {names(left_undone(work))}"

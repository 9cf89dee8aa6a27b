"""A small world that is played by hand: logs, consumers, an administrator, and what goes wrong.

Deterministic: there is no chance in it and no clock but its own. Every move goes through the guards
of the machines; what they refuse does not happen. A move that the world does not offer (a crashed
instance cannot read) does not happen either. So any list of moves can be played, also one of which
some were left out. It does not judge: watchers do (`properties`, `refusals`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, Protocol

import attrs
from tests.memory_log import MemoryLog

from kafka_marshal import Record, World
from kafka_marshal.core.claims.verdicts import Accepted, Refused
from kafka_marshal.core.messages import ReleaseGroup
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.counterexample.model import spec_name
from kafka_marshal.counterexample.records import RecordOutcome
from kafka_marshal.machines.consumer import consumer as machine
from kafka_marshal.machines.consumer.consumer import ConsumerState, Forbidden, InstanceConfig
from kafka_marshal.machines.consumer.effects import Send
from model_tests.walks.history import History
from model_tests.walks.moves import ADMIN, RULES, STRANGERS, Move, Setting, key_of

START_MS: Final = 1_000
SKEW_S: Final = {"a": 0, "b": 7, "c": -5, "d": 3_600}
"""How far a client's clock is ahead. Nobody may care."""

LATE, LIES, STRANGE, OVERTAKEN, STEPPED_BACK, OVERLAPPING = (
    *("late", "lies", "strange", "overtaken", "stepped_back", "overlapping"),
)
"""What a world can have seen, after which fewer properties are promised.

Somebody began late. A stranger lied in headers or took an id that is not its own. A stranger sent
anything at all. Records of one sender were reordered. A broker's clock stepped back. Two instances
of a client ran at once.
"""


ACTIONS: Final = (
    *("SendClaimingPartition", "SendHeartbeat", "SendReleasingPartition", "SendClaimingMessages"),
    *("SendReleaseGroup", "GiveUp", "Process", "ProcessGrant"),
)
"""What a machine is asked for."""


@attrs.frozen
class Produced:
    """What waits in an outbox, and for which coordinating partition."""

    partition: int
    send: Send


@attrs.define(eq=False)
class Instance:
    """One process: a machine a claim, and what it has produced."""

    me: InstanceConfig
    consumers: dict[str, ConsumerState]
    offsets: list[int]
    """The next offset to read of every coordinating partition."""
    late: bool
    """It began in the middle of some log."""
    status: str = "up"
    outbox: list[Produced] = attrs.field(factory=list)


@attrs.define(eq=False)
class ClockedLog(MemoryLog):
    """A log, and its broker's clock."""

    behind_ms: int = 0
    """How far its broker's clock is behind the world's."""
    latest_ms: int = -1
    """The latest timestamp that it gave out."""


@attrs.frozen
class Happened:
    """A move that was made, and the record that it appended or produced."""

    move: Move
    appended: Record | None = None
    produced: Send | None = None


class Watcher(Protocol):
    """Hears what happens, as it happens."""

    def asked(self, who: Instance, move: Move, against: Forbidden | None) -> None:
        """A machine was asked whether it may; nothing has happened yet."""

    def appended(self, claim: str, judged: RecordOutcome) -> None:
        """A record landed in the log of a claim."""

    def has_read(self, who: Instance, claim: str, record: Record) -> None:
        """An instance folded one more record of a claim."""

    def processed(self, who: Instance, claim: str, messages: Iterable[int]) -> None:
        """An instance processed messages."""


class Simulation:
    """The world. `play` moves in it, and read what it holds."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.now_ms = START_MS
        self.seen: set[str] = set()
        self.logs = [
            ClockedLog(partition, world=World(RULES)) for partition in range(setting.partitions)
        ]
        self.histories = {claim: History() for claim in setting.claims}
        self.keys = {claim: key_of(claim) for claim in setting.claims}
        self.instances: dict[str, Instance] = {}
        self.refused: set[str] = set()
        self.watchers: list[Watcher] = []
        self.happened: list[Happened] = []
        self._partition_of = {claim: setting.partition_of(claim) for claim in setting.claims}
        for client_id in setting.clients:
            self._start(client_id, 0)

    @property
    def moves(self) -> list[Move]:
        """The moves that were made; of the last one perhaps only a part."""
        return [happened.move for happened in self.happened]

    def play(self, moves: Iterable[Move]) -> None:
        """Make these moves, as far as they can be made."""
        for move in moves:
            self.take(move)

    def take(self, move: Move) -> Forbidden | bool:
        """Make one move. Why it was refused, or whether the world offered it."""
        self.happened.append(Happened(move))
        result = self._taken(move)
        if result is not True:
            self.happened.pop()
        return result

    def living(self) -> Iterator[Instance]:
        """Everybody that has not crashed."""
        return (who for who in self.instances.values() if who.status != "crashed")

    def reached(self) -> set[str]:
        """The actions that were made, what records did, and why machines refused, by name."""
        verdicts = {
            spec_name(step.verdict) for log in self.histories.values() for step in log.steps
        }
        return verdicts | {move.action for move in self.moves} | self.refused

    def partition_of(self, claim: str) -> int:
        """The coordinating partition of one of the setting's claims."""
        return self._partition_of[claim]

    def unread(self, who: Instance, claim: str) -> int:
        """How many records of a claim's coordinating partition an instance has not read."""
        partition = self.partition_of(claim)
        return len(self.logs[partition]) - who.offsets[partition]

    # --- moves ------------------------------------------------------------------------------------

    def _taken(self, move: Move) -> Forbidden | bool:
        match move.action:
            case "Tick":
                self.now_ms += move.number
                return True
            case "StepBack":
                return self._step_back(move)
            case "SendAnything":
                return self._send_anything(move)
            case "Restart" | "Join":
                return self._begin(move)
            case _:
                pass
        who = self.instances.get(move.who)
        if who is None:
            return False
        match move.action:
            case "Append" | "AppendCopy" | "Lose":
                return self._delivered(who, move)
            case "Crash" if who.status != "crashed":
                who.status = "crashed"
                return True
            case "Resume" if who.status == "stalled":
                who.status = "up"
                return True
            case "Stall" if who.status == "up":
                who.status = "stalled"
                return True
            case _:
                pass
        if who.status != "up" or move.claim not in who.consumers:
            return False
        if move.action == "Read":
            return self._read(who, move)
        return move.action in ACTIONS and self._act(who, move)

    def _act(self, who: Instance, move: Move) -> Forbidden | bool:
        """Ask the machine, and do what it says."""
        me, key, unix_s = who.me, self.keys[move.claim], self._unix_s(who)
        consumer = who.consumers[move.claim]
        if move.action == "Process" and consumer.next >= self.setting.messages:
            return False
        if move.action == "SendReleasingPartition" and not me.admin and move.number:
            return False
        against = against_it(me, consumer, move)
        for watcher in self.watchers:
            watcher.asked(who, move, against)
        if against is not None:
            self.refused.add(against.value)
            return against
        send: Send | None = None
        match move.action:
            case "SendClaimingPartition":
                send = machine.claiming_partition_sent(me, consumer, key, unix_s)
                after = machine.after_claiming_partition(me, consumer)
            case "SendHeartbeat":
                send, after = machine.heartbeat_sent(me, consumer, key, unix_s), consumer
            case "SendReleasingPartition":
                send = (
                    machine.position_sent(me, consumer, key, move.number, unix_s)
                    if me.admin
                    else machine.releasing_partition_sent(me, consumer, key, unix_s)
                )
                after = machine.after_release(me, consumer)
            case "SendClaimingMessages":
                send = machine.claiming_messages_sent(me, consumer, key, move.number, unix_s)
                after = machine.after_claiming_messages(me, consumer, move.number)
            case "SendReleaseGroup":
                expires_unix_s = self.now_ms // 1000 + move.number
                send = machine.release_group_sent(me, key.group, expires_unix_s, unix_s)
                after = consumer
            case "GiveUp":
                after = machine.after_giving_up(me, consumer)
            case "Process":
                after = machine.after_process(me, consumer)
            case "ProcessGrant":
                after = machine.after_process_grant(me, consumer)
            case _:
                raise ValueError(f"there is no action {move.action}")
        who.consumers[move.claim] = after
        if send is not None:
            who.outbox.append(Produced(self.partition_of(move.claim), send))
            self.happened[-1] = Happened(move, produced=send)
        messages = work_of(consumer, move)
        if messages:
            for watcher in self.watchers:
                watcher.processed(who, move.claim, messages)
        return True

    def _unix_s(self, who: Instance) -> int:
        return self.now_ms // 1000 + SKEW_S.get(who.me.client_id, 0)

    def _delivered(self, who: Instance, move: Move) -> bool:
        """The broker appends what was produced, keeps a copy waiting, or never sees it."""
        if not 0 <= move.number < len(who.outbox):
            return False
        if move.action == "AppendCopy":
            produced = who.outbox[move.number]
        else:
            produced = who.outbox.pop(move.number)
        if move.number:
            self.seen.add(OVERTAKEN)
        if move.action != "Lose":
            self._append(produced.partition, produced.send)
        return True

    def _send_anything(self, move: Move) -> bool:
        """A stranger's record lands, as it is. With lies nobody may have begun late."""
        if move.sent is None or move.claim not in self.keys:
            return False
        message = move.sent.message
        lies = move.sent.headers.present or message.instance_id not in STRANGERS
        if lies and LATE in self.seen:
            return False
        self.seen.add(STRANGE)
        if lies:
            self.seen.add(LIES)
        self._append(self.partition_of(move.claim), move.sent)
        return True

    def _step_back(self, move: Move) -> bool:
        """A new leader's clock is behind the old one's, by no more than the rules say."""
        log = self.logs[self.partition_of(move.claim)]
        now_ms = self.now_ms - log.behind_ms - move.number
        if now_ms < max(0, log.latest_ms - RULES.clock_rewind_max_ms):
            return False
        log.behind_ms += move.number
        self.seen.add(STEPPED_BACK)
        return True

    def _append(self, partition: int, send: Send) -> None:
        log = self.logs[partition]
        timestamp_ms = self.now_ms - log.behind_ms
        log.latest_ms = max(log.latest_ms, timestamp_ms)
        before = {
            claim: log.world.claim(key)
            for claim, key in self.keys.items()
            if self.partition_of(claim) == partition and reaches(send, key)
        }
        record = log.append(send.message, send.headers, at_ms=timestamp_ms)
        self.happened[-1] = attrs.evolve(self.happened[-1], appended=record)
        verdict = log.verdict
        assert isinstance(verdict, Accepted | Refused)
        for claim in before:
            after = log.world.claim(self.keys[claim])
            judged = RecordOutcome(record, before[claim], after, verdict)
            self.histories[claim].append(judged)
            for watcher in self.watchers:
                watcher.appended(claim, judged)

    def _read(self, who: Instance, move: Move) -> bool:
        """It polls: records of one coordinating partition, each for the claims that it reaches."""
        partition = self.partition_of(move.claim)
        records = self.logs[partition]
        begin = who.offsets[partition]
        if begin >= len(records) or move.number <= 0:
            return False
        for record in records[begin : begin + move.number]:
            who.offsets[partition] = record.offset + 1
            for claim in who.consumers:
                if self.partition_of(claim) == partition and reaches(record, self.keys[claim]):
                    who.consumers[claim] = machine.after_read(who.me, who.consumers[claim], record)
                    for watcher in self.watchers:
                        watcher.has_read(who, claim, record)
        return True

    def _begin(self, move: Move) -> bool:
        """A new instance of a client: after a crash, or beside one that still runs."""
        client_id = move.who
        if client_id not in self.setting.clients or move.number < 0:
            return False
        alive = [who for who in self.living() if who.me.client_id == client_id]
        if (move.action == "Restart") == bool(alive):
            return False
        if move.number and (LIES in self.seen or client_id == ADMIN):
            return False
        if alive:
            self.seen.add(OVERLAPPING)
        self._start(client_id, move.number)
        return True

    def _start(self, client_id: str, missing: int) -> None:
        group = self.setting.clients[client_id]
        number = 1 + sum(who.me.client_id == client_id for who in self.instances.values())
        me = InstanceConfig(
            instance_id=f"{client_id}{number}",
            client_id=client_id,
            mode=self.setting.mode(group),
            window=self.setting.window,
            batch=self.setting.batch,
            admin=client_id == ADMIN,
            rules=RULES,
        )
        offsets = [min(missing, len(log)) for log in self.logs]
        consumers = {
            claim: ConsumerState.beginning_at(offsets[self.partition_of(claim)])
            for claim in self.setting.wanted_by(client_id)
        }
        if any(offsets):
            self.seen.add(LATE)
        self.instances[me.instance_id] = Instance(me, consumers, offsets, late=any(offsets))


def reaches(record: Record | Send, key: ClaimKey) -> bool:
    """The record is, or will be, in the claim's log: its own, or a ReleaseGroup of its group."""
    message = record.message
    if isinstance(message, ReleaseGroup):
        return message.group_id == key.group
    return message.key == key


def against_it(me: InstanceConfig, consumer: ConsumerState, move: Move) -> Forbidden | None:
    """What the machine says against an action."""
    guards: dict[str, Any] = {
        "SendClaimingPartition": machine.may_claim,
        "SendHeartbeat": machine.may_heartbeat,
        "SendReleasingPartition": machine.may_release,
        "SendReleaseGroup": machine.may_release_group,
        "GiveUp": machine.may_give_up,
        "ProcessGrant": machine.may_process_grant,
    }
    if move.action == "SendClaimingMessages":
        return machine.may_claim_messages(me, consumer, move.number)
    if move.action == "Process":
        return machine.may_process(me, consumer, consumer.next)
    against: Forbidden | None = guards[move.action](me, consumer)
    return against


def work_of(consumer: ConsumerState, move: Move) -> tuple[int, ...]:
    """The messages that an action processes."""
    if move.action == "Process":
        return (consumer.next,)
    if move.action == "ProcessGrant":
        return tuple(message for granted in consumer.granted for message in granted)
    return ()

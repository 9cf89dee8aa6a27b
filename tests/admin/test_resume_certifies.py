"""Marshal promises that who ends a pause in the pauser's name misleads no late reader."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kafka_marshal import Claim, ClaimKey, Record
from kafka_marshal.admin.pause import PauseEnding
from kafka_marshal.core.claims.reducer import step
from kafka_marshal.core.claims.suffix_reader import Reader, read_record
from kafka_marshal.core.messages import Headers, Message, ReleaseGroup
from kafka_marshal.machines.admin.administrator import Administrator
from kafka_marshal.machines.consumer import consumer as moves
from kafka_marshal.machines.consumer.consumer import ConsumerState, InstanceConfig, Mode
from kafka_marshal.machines.consumer.effects import Send

KEY = ClaimKey("g", "t", 0)


class Log:
    """A log, and the claim that a fold of all of it gives."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.claim = Claim()

    def append(self, partition: int, message: Message, headers: Headers) -> None:
        """As a `LogWriter` does it."""
        self.lands(Send(message, headers))

    def lands(self, sent: Send) -> Record:
        at = len(self.records)
        record = Record(0, at, 1000 * at, sent.message, sent.headers)
        self.records.append(record)
        self.claim, _ = step(self.claim, record)
        return record


def test_a_late_reader_knows_where_a_pause_that_was_ended_left_the_position() -> None:
    log = Log()
    owner = InstanceConfig("x", "X", Mode.AT_MOST_ONCE, batch=5)
    consumer = ConsumerState()
    won = log.lands(moves.claiming_partition_sent(owner, consumer, KEY))
    consumer = moves.after_read(owner, consumer, won)
    log.lands(moves.claiming_messages_sent(owner, consumer, KEY, 5))
    assert log.claim.position == 5

    admin = Administrator(InstanceConfig("a", "admin", Mode.AT_LEAST_ONCE, admin=True), "g")
    for record in log.records:
        admin.record(record, 0)
    [pause] = admin.begin({KEY: 0}, 2000)
    assert isinstance(pause, Send)
    assert isinstance(pause.message, ReleaseGroup)
    admin.record(log.lands(pause), 2000)  # its own request is under way

    work = SimpleNamespace(work=lambda group: SimpleNamespace(set=()))
    ending = PauseEnding(log, "resume-1")  # type: ignore[arg-type]
    ending._folds = {0: work}  # type: ignore[dict-item]
    reader = Reader(log.claim)
    me = ending._named("a")
    won = log.lands(moves.claiming_partition_sent(me, ConsumerState(reader, 0), KEY))
    [set_by_admin, *_] = [each for each in admin.record(won, 3000) if isinstance(each, Send)]
    reader, _ = read_record(reader, won)
    change: Any = SimpleNamespace(after=reader, key=KEY)
    ending.read(won, [change])  # it releases, and then the administrator's own release lands
    log.lands(set_by_admin)

    late = Reader.beginning_at(4)
    for record in log.records[4:]:
        late, _ = read_record(late, record)
    assert log.claim.position == 5
    assert not late.known or late.claim.position == 5

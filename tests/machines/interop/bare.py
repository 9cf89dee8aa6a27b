"""A claim's log with and without headers, record by record, and how ours joins a mixed fleet."""

from __future__ import annotations

from kafka_marshal.core.claims.verdicts import ReadTwice, Verdict
from kafka_marshal.core.messages import (
    NO_HEADERS,
    ClaimingMessages,
    ClaimingPartition,
    Headers,
    Heartbeat,
    Message,
    Offset,
    Partition,
    ReleaseGroup,
    ReleasingPartition,
)
from kafka_marshal.machines.consumer.claiming import Claiming
from kafka_marshal.machines.consumer.consumer import Mode
from kafka_marshal.machines.consumer.member import Member
from tests.machines.interop.originals import Mixed
from tests.machines.town import key
from tests.memory_log import MemoryLog

ALONE = Claiming(fair_share=False)
OURS = Headers(True)
STALE_MS = 120_001
EVENTS = key("events", 0)
Kind = type[Heartbeat] | type[ClaimingMessages] | type[ReleasingPartition]


def start(town: Mixed, name: str, mode: Mode = Mode.AT_LEAST_ONCE) -> Member:
    """One of ours that takes whatever it may have."""
    member = town.join(name, ALONE, mode)
    town.do(name, member.add_topic("events", 3, town.now_ms))
    return member


class Log:
    """One claim's log, a record after another, and what the fenced rules say to each."""

    def __init__(self) -> None:
        self.log = MemoryLog(1)
        self.now_ms = 1_000_000

    def claims(self, sender: str, headers: Headers = NO_HEADERS) -> Verdict | ReadTwice:
        return self._say(ClaimingPartition(*self._by(sender)), headers)

    def says(
        self, kind: Kind, sender: str, offset: int, headers: Headers = NO_HEADERS
    ) -> Verdict | ReadTwice:
        return self._say(kind(*self._by(sender), Offset(offset)), headers)

    def beats(self, sender: str, offset: int) -> Verdict | ReadTwice:
        return self.says(Heartbeat, sender, offset)

    def pauses(self, sender: str, for_s: int) -> Verdict | ReadTwice:
        unix_s = self.now_ms // 1000
        group = ReleaseGroup(0, unix_s, sender, sender[0], "g", "", Partition(0), unix_s + for_s)
        return self._say(group, NO_HEADERS)

    @property
    def owner(self) -> str | None:
        return self.log.world.claim(EVENTS).owner_instance

    @property
    def position(self) -> int:
        return self.log.world.claim(EVENTS).position

    @property
    def epoch(self) -> int | None:
        return self.log.world.claim(EVENTS).epoch

    def _by(self, sender: str) -> tuple[int, int, str, str, str, str, Partition]:
        return (1, self.now_ms // 1000, sender, sender[0], "g", "events", Partition(0))

    def _say(self, message: Message, headers: Headers) -> Verdict | ReadTwice:
        self.log.append(message, headers, at_ms=self.now_ms)
        assert self.log.verdict is not None
        return self.log.verdict

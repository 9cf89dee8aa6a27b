"""Members that speak RPC, as `GroupMember.tla` has them, with the clock of G5."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import define, field

from kafka_marshal.core.groups.events import At
from kafka_marshal.core.groups.state import TopicPartition
from kafka_marshal.rpc.codec import BY_NAME, RpcAnswer, RpcRequest
from kafka_marshal.rpc.error_codes import ErrorCode

if TYPE_CHECKING:
    from tests.machines.groups.world import Link, World

SESSION_MS = 3_000
LEASE_SHARE = 0.9
ELSEWHERE = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.REQUEST_TIMED_OUT,
}
PROLONGING = {"RegisterConsumer", "Heartbeat", "CommitOffsets"}


@define(eq=False)
class Member:
    """One member: asks, one request at a time, and obeys."""

    world: World
    name: str
    topics: tuple[str, ...] = ("t",)
    static: tuple[TopicPartition, ...] = ()
    is_alive: bool = True
    generation: int = 0
    fresh: bool = True
    holds: frozenset[TopicPartition] = frozenset()
    at: dict[TopicPartition, At] = field(factory=dict)
    lease_until_ms: int = 0
    link: Link | None = None
    links: dict[int, Link] = field(factory=dict)
    keeps: bool = False
    """It never lets go: the rebalance timeout is for it."""
    commits: bool = True
    codes: list[ErrorCode] = field(factory=list)
    committing: dict[int, Mapping[TopicPartition, At]] = field(factory=dict)
    must_register: bool = True
    left: bool = False
    asleep_until: int = 0
    _asked: int = 0
    _under_way: tuple[int, str, int] | None = None
    """CorrelationId, api, when it was sent."""

    def begin(self) -> Member:
        """It lives from now on."""
        self.world.members.append(self)
        self.act()
        return self

    def restart(self) -> None:
        """Its process is a new one, without memory, under the same id."""
        if self.link is not None:
            self.world.close(self.link)
        self.generation, self.fresh, self.holds, self.at = 0, True, frozenset(), {}
        self.must_register, self.lease_until_ms = True, 0

    def die(self) -> None:
        """Its process is gone."""
        self.is_alive = False
        self.holds = frozenset()
        if self.link is not None:
            self.world.close(self.link)

    def act(self) -> None:
        """Ask, if nothing is under way."""
        if not self.is_alive:
            return
        self.world.after(self.world.chance.randrange(20, 200), self.act)
        if self.world.now_ms < self.asleep_until:
            return
        if self._under_way is not None:
            if self.world.now_ms - self._under_way[2] > 2_500 and self.link is not None:
                self.world.close(self.link)
            return
        if self.link is None:
            self.link = self.world.connect(self)
            if self.link is None:
                return
        if self.fresh or self.must_register:
            self.register()
        else:
            self.process()
            kind = self.world.chance.random()
            if kind < 0.5:
                self.heartbeat()
            elif kind < 0.8 and self.commits:
                self.commit()

    def process(self) -> None:
        """Get further in what it holds, while it may."""
        if self.world.now_ms < self.lease_until_ms:
            for tp in self.holds:
                self.at[tp] = At(self.at[tp].tenure, self.at[tp].offset + 1)

    def ask(self, name: str, **body: Any) -> int:
        """Send a request of version 1."""
        assert self.link is not None
        self._asked += 1
        self._under_way = self._asked, name, self.world.now_ms
        body = {"ConsumerGroup": "g", "ConsumerId": self.name, **body}
        self.world.send(self.link, RpcRequest(BY_NAME[name], 1, self._asked, self.name, body))
        return self._asked

    def register(self) -> None:
        """Spec: RequestOf."""
        held = self.holds
        self.ask(
            "RegisterConsumer",
            Generation=-1 if self.fresh else self.generation,
            Topics=list(self.topics),
            Static=[{"Topic": tp.topic, "Partition": tp.partition} for tp in self.static],
            Held=[{"Topic": tp.topic, "Partition": tp.partition} for tp in sorted(held)],
            Positions=[] if self.fresh else self.says(),
        )

    def says(self) -> list[dict[str, Any]]:
        """What it commits."""
        return [
            {"Topic": tp.topic, "Partition": tp.partition, "Offset": at.offset, "Tenure": at.tenure}
            for tp, at in sorted(self.at.items())
        ]

    def heartbeat(self) -> None:
        """Ask whether something has changed."""
        wait_ms = self.world.chance.choice((0, 500, 5_000))
        generation = self.generation
        self.ask("Heartbeat", SessionTimeout=0, Generation=generation, MaxWaitMs=wait_ms)

    def commit(self) -> None:
        """Commit what it holds."""
        at = dict(self.at)
        number = self.ask("CommitOffsets", Positions=[], PositionsV1=self.says())
        self.committing[number] = at

    def leave(self) -> None:
        """It lets go of everything and says so, if it can."""
        self.holds = frozenset()
        if self.link is not None and self._under_way is None:
            self.ask("DeregisterConsumer", Positions=self.says())
            self.left = True
        else:
            self.die()

    def lost(self, link: Link) -> None:
        """The connection is closed."""
        if link is self.link:
            self.link = None
            self._under_way = None

    def heard(self, link: Link, answer: RpcAnswer) -> None:
        """An answer came. Spec: Hear."""
        if not self.is_alive or link is not self.link or self._under_way is None:
            return
        number, name, sent_ms = self._under_way
        if answer.correlation_id != number:
            return
        if self.world.now_ms < self.asleep_until:
            self.world.at(self.asleep_until, lambda: self.heard(link, answer))
            return
        self._under_way = None
        code = answer.code
        self.codes.append(code)
        if self.left:
            self.die()
        elif code in ELSEWHERE:
            self.world.close(link)
        elif code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND):
            self.fresh, self.holds = True, frozenset()
        elif code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS) and name in PROLONGING:
            self.must_register = self.must_register or code is ErrorCode.REBALANCE_IN_PROGRESS
            lease_ms = sent_ms + int(SESSION_MS * LEASE_SHARE)
            if name == "RegisterConsumer":
                self.obey(answer)
            self.lease_until_ms = max(self.lease_until_ms, lease_ms)

    def obey(self, answer: RpcAnswer) -> None:
        """Spec: AfterAnswer."""
        generation: Any = answer.body["Generation"]
        if generation < self.generation:
            return  # G9
        rows: Any = answer.body["PartitionsToOwnV1"]
        own = {
            TopicPartition(row["Topic"], row["Partition"]): At(row["Tenure"], max(row["Offset"], 0))
            for row in rows
        }
        for tp, at in own.items():
            if tp not in self.holds or self.at[tp].tenure != at.tenure:
                self.at[tp] = at
        before = self.holds
        self.holds = frozenset(own) | (self.holds if self.keeps else frozenset())
        self.must_register = bool(before - own.keys())
        self.generation, self.fresh = generation, False

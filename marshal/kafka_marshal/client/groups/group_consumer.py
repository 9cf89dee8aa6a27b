"""A consumer of a group with a controller: everything happens in the thread that calls it.

It has the names of `Consumer`, so one import chooses. `membership` decides what is asked, owned and
handed out, and for how long; this room gives it answers, clocks and connections, and carries out
what it asks for. Between two calls nothing is asked, so an application that works for long on its
messages calls `keep_alive` meanwhile.

    with GroupConsumer("localhost:9092", controllers=["localhost:9300"], group_id="billing",
                       client_id="worker-1") as consumer:
        consumer.add_topic("events")
        while True:
            for message in consumer.poll():
                handle(message)
            consumer.commit()
"""

from __future__ import annotations

import logging
import ssl
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self, cast

from kafka_marshal.client.api.callbacks import refuse_async
from kafka_marshal.client.connect.environment import Deadline
from kafka_marshal.client.connect.log_writer import OutcomeUnknown
from kafka_marshal.client.connect.settings import Settings, TokenCallback, connection
from kafka_marshal.client.coordinate.configuration import StartPolicy, refuse_no_start_policy
from kafka_marshal.client.fetch.buffers import BufferLimits
from kafka_marshal.client.groups.assigned_fetch import AssignedFetch
from kafka_marshal.client.groups.connection import Address as ServerAddress
from kafka_marshal.client.groups.connection import (
    RequestRefused,
    ServerConnection,
    ServerUnreachable,
    addresses_of,
)
from kafka_marshal.client.message import Claim, Message
from kafka_marshal.core.groups.assignment import STRATEGIES
from kafka_marshal.core.groups.state import Rebalance, TopicPartition
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.core.validators import is_text
from kafka_marshal.errors import ConsumerClosed, Fenced, InvalidOption
from kafka_marshal.machines.consumer.effects import Lost
from kafka_marshal.machines.groups.membership import (
    ConnectTo,
    MemberEffect,
    Membership,
    MembershipSettings,
    PartitionStarted,
    PartitionStopped,
    QuestionAnswered,
    SendRequest,
)
from kafka_marshal.rpc.codec import RpcAnswer
from kafka_marshal.rpc.error_codes import ErrorCode

logger: Final = logging.getLogger("kafka_marshal")
POLL_MAX: Final = 500
"""The most messages that `poll` returns."""
LOOK_S: Final = 0.05
"""How long it waits for messages before it looks at the controller, in seconds."""
CONNECT_S: Final = 1.0
"""How long one controller may take to accept a connection, in seconds."""
COMMIT_S: Final = 30.0
UNSERVED_AGAIN_S: Final = 60.0
"""How often it logs that no controller serves it, in seconds."""
CLOSE_S: Final = 5.0
"""How long the goodbye may take, in seconds. A member that cannot say it is given up later."""

Claims = Sequence[Claim]
_SERVED: Final = frozenset({ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS})
"""Codes that refuse nothing."""
_OF_COMMITS: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.FENCED_INSTANCE_ID,
    }
)
"""Codes of a CommitOffsets that was judged."""


class GroupConsumer:
    """A member of a group whose members read no log; a context manager.

    It shares topics with the other members, under a controller (`marshal controller`). Under at
    least once: what a member has not committed when it dies is handed out again, to the next owner.
    `Message.tenure` is a fencing token for what is written outside of Kafka.

    One thread uses it, and that thread does all of its work.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str] | None = None,
        *,
        controllers: str | Sequence[str],
        group_id: str,
        client_id: str,
        session_timeout_s: float = 30.0,
        strategy: str = "sticky",
        rebalance: str = "incremental",
        auto_offset_reset: StartPolicy = "earliest",
        on_assigned: Callable[[Claims], None] | None = None,
        on_revoked: Callable[[Claims], None] | None = None,
        bounds: BufferLimits | None = None,
        settings: Settings | Mapping[str, str] | None = None,
        oauth_cb: TokenCallback | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Connect to nothing yet: `poll` joins the group.

        Args:
            bootstrap: the addresses of brokers, `host:port,...` or a list of `host:port`. Without
                it, `settings` must name them.
            controllers: addresses of controllers, in the same form. Any of them will do to find
                the others.
            group_id: the name of the group. Where there is none it is made, with the topics that
                were added and the next three options; a group that exists keeps its own.
            client_id: names this consumer in logs. Its member id is a new one in each run.
            session_timeout_s: a member that is silent for this long is given up, in seconds. It
                stops by its own clock after 0.9 of it.
            strategy: `sticky`, `range` or `round_robin`.
            rebalance: `incremental`: a member lets go of what moves. `eager`: of everything.
            auto_offset_reset: where to begin in a partition that nobody has committed. With
                `latest`, what a member was given there and has not committed when it dies is
                handed out to nobody: the next owner begins at the end.
            on_assigned: called with claims whose partitions are this member's from now on.
            on_revoked: called with claims that are over. Before a partition moves to another
                member, `commit` still counts here; where this member was given up it raises Fenced.
            bounds: how much is fetched ahead: `messages` of each partition, and `bytes_in_all`.
            settings: any settings of librdkafka.
            oauth_cb: gets a token for SASL/OAUTHBEARER.
            tls: how to speak TLS with controllers; by default nothing is encrypted.

        Both callbacks run inside of `poll` and `close`.

        Raises:
            InvalidOption: an option has an invalid value.
            BrokerFailed: the settings are refused.
        """
        refuse_no_start_policy(auto_offset_reset)
        if not group_id:
            raise InvalidOption("group_id is a name, not ''")
        if strategy not in STRATEGIES:
            raise InvalidOption(f"strategy is one of {', '.join(STRATEGIES)}, not {strategy!r}")
        if rebalance not in {each.value for each in Rebalance}:
            raise InvalidOption(f"rebalance is incremental or eager, not {rebalance!r}")
        if not 1.0 <= session_timeout_s <= 30 * 60:
            raise InvalidOption(
                f"session_timeout_s is from 1 s to 30 minutes, not {session_timeout_s!r}"
            )
        _expect_text(group_id=group_id, client_id=client_id)
        servers = addresses_of(controllers, "controllers")
        made_of = connection(bootstrap, settings, oauth_cb)
        self._environment = made_of.environment
        self._group_id, self._client_id, self._tls = group_id, client_id, tls
        self._member_id = f"{client_id}-{self._environment.new_id()[:12]}"
        refuse_async(on_assigned=on_assigned, on_revoked=on_revoked)
        self._on_assigned, self._on_revoked = on_assigned, on_revoked
        self._session_ms = int(session_timeout_s * 1000)
        self._membership = Membership(
            MembershipSettings(
                group_id,
                self._member_id,
                tuple((each.host, each.port) for each in servers),
                self._session_ms,
                Rebalance(rebalance),
                strategy,
            )
        )
        self._fetch = AssignedFetch(made_of, group_id, auto_offset_reset, bounds or BufferLimits())
        self._connection: ServerConnection | None = None
        self._trouble = "no controller has answered yet"
        """Why no controller serves it, as far as is known."""
        self._was_refused = False
        """That came over the connection that there is, or was last."""
        self._unserved_ms: int | None = None
        """Since when it asks, and no controller serves it; None while one does."""
        self._warn_at_ms = 0
        """When to log that, while it lasts."""
        self._topics: set[str] = set()
        self._static: set[TopicPartition] = set()
        self._claims: dict[TopicPartition, Claim] = {}
        self._buffered: deque[Message] = deque()
        """Fetched while nothing might be handed out."""
        self._in_hand: list[Message] = []
        """What the last `poll` returned. The next one says that it is done."""
        self._uncommitted: dict[tuple[TopicPartition, int], int] = {}
        """Of a partition and a tenure, up to where it is done; what is committed is not in it."""
        self._revoked: list[Claim] = []
        """Whose end the application does not know yet; `_assigned` likewise."""
        self._assigned: list[Claim] = []
        self._fenced: set[TopicPartition] = set()
        self._told: list[RpcAnswer] = []
        """The answer to what the application asked, when it came."""
        self._is_closed = self._is_closing = self._calls_back = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # --- what an application asks -----------------------------------------------------------------

    @property
    def claims(self) -> Claims:
        """The partitions that are this member's, as far as it knows. Their epoch is the tenure."""
        return [*self._claims.values()]

    @property
    def is_current(self) -> bool:
        """Whether it is a member, and its controller has answered lately enough."""
        return self._membership.may_hand_out(self._now_ms())

    def add_topic(self, topic: str, partition: int | None = None) -> None:
        """Consume a share of a topic, or this partition of it: `poll` asks for it.

        A partition that is asked for by its number is given to the member that asked first, as long
        as that lives.

        Raises:
            InvalidOption: the topic's name is no text.
            ConsumerClosed: the consumer was closed before.
        """
        self._raise_if_closed()
        _expect_text(topic=topic)
        if partition is None:
            self._topics.add(topic)
        else:
            self._static.add(TopicPartition(topic, partition))
        self._membership.wants(self._topics, self._static)

    def poll(self, timeout_s: float = 1.0, *, max_messages: int = POLL_MAX) -> list[Message]:
        """The next messages, of any partitions; none if none came in time.

        It says that the messages which the call before returned are done, so a later commit counts
        them. It joins the group, and follows the controller: the callbacks run here.

        Raises:
            ConsumerClosed: the consumer was closed before.
            RequestRefused: the controller will never let it in; the message says why.
            BrokerFailed: the cluster lets nobody in with these settings.
        """
        self._raise_if_closed()
        self._in_hand_is_done()
        deadline = self._environment.deadline(timeout_s)
        while True:
            self._follow()
            messages = self._taken(max_messages, min(LOOK_S, deadline.left_s))
            if messages or not deadline.left_s:
                self._in_hand = messages
                return messages

    def keep_alive(self) -> bool:
        """Ask the controller what is due, in the middle of long work; nothing is let go meanwhile.

        Call it at least once in a tenth of the session timeout. Returns whether this member is
        still one, as far as it knows: False means that others may have its partitions.

        Raises:
            ConsumerClosed: the consumer was closed before.
        """
        self._raise_if_closed()
        self._step(may_let_go=False)
        return self.is_current

    def commit(
        self,
        topic: str | None = None,
        partition: int | None = None,
        *,
        timeout_s: float = COMMIT_S,
    ) -> None:
        """Commit everything that `poll` returned, or that of a topic, or of a partition.

        When it returns, the controller's log has the positions.

        Raises:
            Fenced: some of it is not this member's any more; the message names the partitions. The
                rest is committed. The member goes on with what is its own.
            OutcomeUnknown: no controller answered in time. Commit again.
            ConsumerClosed: the consumer was closed before.
        """
        self._raise_if_closed()
        self._in_hand_is_done()
        self._commit(
            lambda tp: topic in (None, tp.topic) and partition in (None, tp.partition), timeout_s
        )

    def rewind(
        self, offsets: Mapping[tuple[str, int], int], *, timeout_s: float = COMMIT_S
    ) -> dict[tuple[str, int], int]:
        """Set positions of the group, of any of its partitions; -1 for its end, -2 for its start.

        Their owners start anew from there. Returns the offsets that were set.

        Raises:
            RequestRefused: no such partition or offset.
            OutcomeUnknown: no controller answered in time.
            ConsumerClosed: the consumer was closed before.
        """
        self._raise_if_closed()
        wide = [
            {"Topic": topic, "Partition": number, "Offset": offset}
            for (topic, number), offset in offsets.items()
        ]
        body = {"ConsumerGroup": self._group_id, "NewOffsets": [], "NewOffsetsV1": wide}
        answer = self._ask("RewindConsumer", body, self._environment.deadline(timeout_s))
        if answer.code is not ErrorCode.NONE:
            raise self._refused("RewindConsumer", answer.code)
        actual = cast("list[dict[str, Any]]", answer.body["ActualOffsetsV1"])
        return {(each["Topic"], each["Partition"]): each["Offset"] for each in actual}

    def close(self) -> None:
        """Commit what is done, leave the group, and disconnect.

        What the last `poll` returned counts as done only if `commit` was called since. A member
        that reaches no controller within `CLOSE_S` is given up after the session timeout.
        """
        if self._is_closing:
            return
        self._is_closing = True
        deadline = self._environment.deadline(CLOSE_S)
        try:
            self._in_hand = []
            self._leave(deadline)
        finally:
            self._is_closed = True
            self._disconnect()
            self._fetch.close()

    # --- the group --------------------------------------------------------------------------------

    def _leave(self, deadline: Deadline) -> None:
        for tp in [*self._claims]:
            self._stop(tp)
        self._run_callbacks()
        membership = self._membership
        if membership.member.connection == 0 or membership.failure is not None:
            return
        body = {
            "ConsumerGroup": self._group_id,
            "ConsumerId": self._member_id,
            "Positions": membership.positions(),
        }
        try:
            self._ask("DeregisterConsumer", body, deadline)
        except (OutcomeUnknown, RequestRefused) as error:
            logger.warning("member %s does not know whether it left: %s", self._member_id, error)

    def _follow(self) -> None:
        """Do what the controller asks for, and tell the application."""
        self._receive()
        self._run_callbacks()
        self._raise_if_closed()  # by a callback
        self._step(may_let_go=True)
        self._run_callbacks()  # what begins now is assigned before anything of it is handed out
        self._raise_if_closed()
        failure = self._membership.failure
        if failure is not None:
            raise self._refused("RegisterConsumer", failure)

    def _refused(self, api: str, code: ErrorCode) -> RequestRefused:
        where = self._membership.controller
        server = "the controllers" if where is None else ServerAddress(*where)
        return RequestRefused(server, api, f"of group {self._group_id}", code)

    def _step(self, *, may_let_go: bool) -> None:
        """Hear what came, then do what is due."""
        self._receive()
        # What the application does not know of yet it may still be at work with.
        may_let_go = may_let_go and not self._revoked
        self._carry_out(self._membership.tick(self._now_ms(), may_let_go=may_let_go))
        self._see_whether_served()

    def _receive(self) -> None:
        while self._connection is not None:
            try:
                answer = self._connection.receive(0)
            except ServerUnreachable as error:
                self._lost(error)
                return
            if answer is None:
                return
            if answer.code not in _SERVED:
                self._was_refused = True
                self._trouble = str(
                    RequestRefused(
                        self._connection.address,
                        answer.api.name,
                        f"of group {self._group_id}",
                        answer.code,
                    )
                )
            self._carry_out(self._membership.answered(answer, self._now_ms()))

    def _see_whether_served(self) -> None:
        """Log it where no controller has served it for a session timeout: `poll` returns nothing.

        What passed between two calls is the application's own time.
        """
        now_ms = self._now_ms()
        if self.is_current:
            self._unserved_ms = None
        elif self._unserved_ms is None:
            self._unserved_ms, self._warn_at_ms = now_ms, now_ms + self._session_ms
        elif now_ms >= self._warn_at_ms:
            self._warn_at_ms = now_ms + int(UNSERVED_AGAIN_S * 1000)
            logger.warning(
                "group %s serves member %s no messages for %.0f s: %s",
                *(self._group_id, self._member_id, (now_ms - self._unserved_ms) / 1000),
                self._trouble,
                extra={"event": "unserved"},
            )

    def _lost(self, error: ServerUnreachable) -> None:
        if not self._was_refused:  # else it was hung up on since it was
            self._trouble = str(error)
        self._disconnect()
        self._membership.connection_lost(self._now_ms())

    @property
    def _has_trouble(self) -> bool:
        return self._connection is None or self._was_refused

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _carry_out(self, effects: Iterable[MemberEffect]) -> None:
        for effect in effects:
            match effect:
                case ConnectTo():
                    self._connect(ServerAddress(effect.host, effect.port))
                case SendRequest() if self._connection is not None:
                    try:
                        self._connection.send(effect.api, effect.body)
                    except ServerUnreachable as error:
                        self._lost(error)
                case SendRequest():
                    pass  # an effect before this one lost the connection
                case PartitionStopped():
                    self._stop(effect.tp)
                case PartitionStarted():
                    self._begin(effect)
                case QuestionAnswered():
                    self._told.append(effect.answer)

    def _connect(self, address: ServerAddress) -> None:
        self._disconnect()
        self._was_refused = False
        try:
            self._connection = ServerConnection(
                address, self._client_id, CONNECT_S, self._tls, self._environment
            )
        except ServerUnreachable as error:
            self._lost(error)
        else:
            self._membership.connected()
            # It asks at once. What could take a partition away waits for the next step.
            self._carry_out(self._membership.tick(self._now_ms(), may_let_go=False))

    def _begin(self, begun: PartitionStarted) -> None:
        topic, partition = begun.tp
        key = ClaimKey(self._group_id, topic, partition)
        claim = Claim(key, topic, partition, begun.at.tenure, begun.at.offset)
        self._claims[begun.tp] = claim
        self._assigned.append(claim)
        self._fetch.begin(claim)

    def _stop(self, tp: TopicPartition) -> None:
        """Nothing more of it is handed out, whatever was fetched."""
        claim = self._claims.pop(tp, None)
        if claim is None:
            return  # closing
        claim.lost = Lost.TAKEN
        self._fetch.stop(tp.topic, tp.partition)
        self._buffered = deque(one for one in self._buffered if one.claim is not claim)
        if claim in self._assigned:
            self._assigned.remove(claim)  # the application never knew
        else:
            self._revoked.append(claim)

    def _run_callbacks(self) -> None:
        """Tell the application, and commit what it has done of partitions that move.

        A callback that calls `poll` or `close` is called for nothing more before it returns.
        """
        if self._calls_back:
            return
        self._calls_back = True
        try:
            self._call_back()
        finally:
            self._calls_back = False

    def _call_back(self) -> None:
        while self._revoked or self._assigned:
            self._call_of_revoked()
            assigned = [claim for claim in self._assigned if claim.owned]
            self._assigned.clear()
            if assigned:
                _call(self._on_assigned, assigned)

    def _call_of_revoked(self) -> None:
        while self._revoked:
            revoked = [*self._revoked]
            _call(self._on_revoked, revoked)
            del self._revoked[: len(revoked)]
            if self._is_closed:
                continue
            tps = {TopicPartition(claim.topic, claim.partition) for claim in revoked}
            try:
                self._commit(tps.__contains__, CLOSE_S)
            except Fenced as error:
                self._fenced |= {TopicPartition(*each) for each in error.partitions}
            except (OutcomeUnknown, RequestRefused) as error:
                logger.warning("%s: a later commit tries again", error)

    # --- messages ---------------------------------------------------------------------------------

    def _taken(self, maximum: int, timeout_s: float) -> list[Message]:
        if not self.is_current or not self._claims:
            self._wait(timeout_s)
            return []
        if not self._buffered:
            self._buffered.extend(self._fetch.fetched(maximum, timeout_s))
            # Perhaps this process slept in between.
            if not self._membership.may_hand_out(self._now_ms()):
                return []
        return [self._buffered.popleft() for _ in range(min(maximum, len(self._buffered)))]

    def _wait(self, timeout_s: float) -> None:
        """Wait for the controller, at most for this time."""
        if self._connection is None:
            self._environment.threads.sleep(min(timeout_s, LOOK_S))
            return
        self._connection.wait(timeout_s)

    def _in_hand_is_done(self) -> None:
        for message in self._in_hand:
            tp = TopicPartition(message.topic, message.partition)
            self._uncommitted[tp, message.tenure] = message.offset + 1
        for (tp, tenure), offset in self._uncommitted.items():
            self._membership.processed(tp, tenure, offset)
        self._in_hand = []

    def _commit(self, wanted: Callable[[TopicPartition], bool], timeout_s: float) -> None:
        asked = {
            (tp, tenure): offset for (tp, tenure), offset in self._uncommitted.items() if wanted(tp)
        }
        fenced = {tp for tp in self._fenced if wanted(tp)}
        if asked:
            fenced |= self._fenced_of(asked, self._environment.deadline(timeout_s))
        self._fenced -= fenced
        if fenced:
            raise Fenced(sorted(fenced))

    def _fenced_of(
        self, asked: Mapping[tuple[TopicPartition, int], int], deadline: Deadline
    ) -> set[TopicPartition]:
        """Commit; returns the partitions that are another's, or have another tenure."""
        newest = dict(sorted(asked))  # of each partition the last tenure stays
        over = {tp for tp, tenure in asked if tenure != newest[tp]}
        body = {
            "ConsumerGroup": self._group_id,
            "Positions": [],
            "ConsumerId": self._member_id,
            "PositionsV1": [
                {
                    "Topic": tp.topic,
                    "Partition": tp.partition,
                    "Offset": asked[tp, tenure],
                    "Tenure": tenure,
                }
                for tp, tenure in newest.items()
            ],
        }
        answer = self._ask("CommitOffsets", body, deadline)
        if answer.code not in _OF_COMMITS:
            raise self._refused("CommitOffsets", answer.code)
        rows = cast("list[dict[str, Any]]", answer.body["PositionsV1"])
        committed = {
            TopicPartition(each["Topic"], each["Partition"])
            for each in rows
            if each["ErrorCode"] == ErrorCode.NONE
        }
        for one in asked:
            self._uncommitted.pop(one, None)
        return over | newest.keys() - committed

    def _ask(self, api: str, body: Mapping[str, Any], deadline: Deadline) -> RpcAnswer:
        """The controller's answer; what it asks for meanwhile waits for `poll`.

        Raises:
            OutcomeUnknown: there was none in time.
            RequestRefused: the controller will never let it in.
        """
        self._told.clear()
        self._membership.ask(api, body)
        try:
            while not self._told:
                if self._membership.failure is not None:
                    raise self._refused(api, self._membership.failure)
                if not deadline.left_s:
                    raise OutcomeUnknown(
                        f"group {self._group_id}: it is not known whether {api} was carried out"
                        f"{f' ({self._trouble})' if self._has_trouble else ''}"
                    )
                self._step(may_let_go=False)
                if not self._told:
                    self._wait(min(LOOK_S, deadline.left_s))
                    self._receive()
            return self._told.pop()
        finally:
            self._membership.withdraw()

    def _raise_if_closed(self) -> None:
        if self._is_closed:
            raise ConsumerClosed("the consumer was closed before; make another one")

    def _now_ms(self) -> int:
        return self._environment.steady_ms()


def _expect_text(**names: str) -> None:
    """Refuse what no request can hold.

    Raises:
        InvalidOption: one is no text.
    """
    for option, name in names.items():
        if not is_text(name):
            raise InvalidOption(f"{option} is text, not {name!r}")


def _call(callback: Callable[[Claims], None] | None, claims: Claims) -> None:
    if callback is None:
        return
    try:
        callback(claims)
    except Exception:
        logger.exception("a callback of the consumer failed")

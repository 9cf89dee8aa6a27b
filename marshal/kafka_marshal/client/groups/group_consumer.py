"""A consumer of a group with a controller, without threads of its own.

Its methods have the names of `Consumer`'s, so an application can switch by one import. `membership`
decides what is requested, owned and delivered, and for how long. This module gives it answers, the
time and connections, and carries out its effects. It sends nothing between two calls, so an
application that processes messages for long calls `keep_alive` meanwhile.

    with GroupConsumer("localhost:9092", controllers=["localhost:9300"], group_id="billing",
                       client_id="worker-1") as consumer:
        consumer.add_topic("events")
        while True:
            for message in consumer.poll():
                handle(message)
            consumer.commit()
"""

from __future__ import annotations

import ssl
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self, cast

from kafka_marshal.client.api.callbacks import refuse_async
from kafka_marshal.client.connect.environment import Deadline
from kafka_marshal.client.connect.log_writer import OutcomeUnknown
from kafka_marshal.client.connect.settings import Settings, TokenCallback, connection
from kafka_marshal.client.connect.threads import ForkGuard
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
from kafka_marshal.client.numbers import number_of_seconds, seconds_to_wait, whole_number
from kafka_marshal.client.observe.logger import logger
from kafka_marshal.codec import PARTITION_MAX
from kafka_marshal.core.groups.assignment import STRATEGIES
from kafka_marshal.core.groups.state import Rebalance, TopicPartition
from kafka_marshal.core.ranges.state import OFFSET_MAX
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

POLL_MESSAGES: Final = 500
"""The default of `max_messages` of a `poll`."""
POLL_MAX: Final = 1_000_000
"""The most messages that a `poll` may ask for, as Kafka's client."""
LOOK_S: Final = 0.05
"""How long it waits for messages before it looks at the controller, in seconds."""
CONNECT_S: Final = 1.0
"""The timeout for connecting to one controller, in seconds."""
COMMIT_S: Final = 30.0
UNSERVED_AGAIN_S: Final = 60.0
"""How often it logs that no controller serves it, in seconds."""
CLOSE_S: Final = 5.0
"""The timeout for leaving the group, in seconds. Otherwise the session timeout ends the
membership."""

Claims = Sequence[Claim]
_SERVED: Final = frozenset({ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS})
"""Codes that refuse nothing."""
_SERVES: Final = frozenset({"RegisterConsumer", "Heartbeat"})
"""Requests that only the group's controller answers, and only to a member that it serves."""
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
    """A member of a group with a controller (`marshal controller`); a context manager.

    A controller divides the topics' partitions among the members, which read no log themselves.
    Delivery is at least once: messages that a member has not committed when it dies are delivered
    again, to the next owner. `Message.tenure` is a fencing token for writes outside of Kafka.

    Only one thread may use it, and that thread does all of its work. In a fork of the process its
    calls raise MarshalError.
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
        """Check the options; `poll` connects and joins the group.

        Args:
            bootstrap: the addresses of brokers, `host:port,...` or a list of `host:port`. Without
                it, `settings` must name them.
            controllers: addresses of controllers, in the same form. One of them is enough to find
                the others.
            group_id: the group. If it does not exist, it is created with the added topics and the
                next three options; an existing group keeps its own.
            client_id: names this consumer in logs. Its member id is new in each run.
            session_timeout_s: the controller removes a member that is silent for this long, in
                seconds. The member itself stops after 0.9 of it, by its own clock.
            strategy: `sticky`, `range` or `round_robin`.
            rebalance: `incremental` revokes only partitions that move, `eager` all of them.
            auto_offset_reset: where to begin in a partition without a committed offset. With
                `latest`, messages that a member has there and has not committed when it dies are
                not delivered again: the next owner begins at the end.
            on_assigned: called with the claims of newly assigned partitions.
            on_revoked: called with claims that are over. Before a partition moves to another
                member, a `commit` in it still counts. After this member was removed, it raises
                Fenced.
            bounds: the limits of prefetching: `messages` of each partition, and `bytes_in_all`.
            settings: any settings of librdkafka.
            oauth_cb: returns a token for SASL/OAUTHBEARER.
            tls: TLS settings for controllers; by default connections are not encrypted.

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
        session_timeout_s = number_of_seconds("session_timeout_s", session_timeout_s)
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
        """Whether `_trouble` was reported over the current connection, or the last one."""
        self._unserved_ms: int | None = None
        """Since when no controller answers its requests; None while one does."""
        self._warn_at_ms = 0
        """When to log that, while it lasts."""
        self._topics: set[str] = set()
        self._static: set[TopicPartition] = set()
        self._claims: dict[TopicPartition, Claim] = {}
        self._buffered: deque[Message] = deque()
        """Messages that were fetched while none could be delivered."""
        self._in_hand: list[Message] = []
        """The messages that the last `poll` returned. The next one marks them as done."""
        self._is_taking = False
        """Messages are on their way to the application. If it is set when a call begins, a signal's
        handler raised in the call before, and the application did not receive them."""
        self._is_stepping = False
        """The membership or the connection is changing. If it is set when a step begins, a signal's
        handler raised in the step before, so not all effects were carried out."""
        self._uncommitted: dict[tuple[TopicPartition, int], int] = {}
        """The next offset after done messages, by partition and tenure; without committed ones."""
        self._revoked: list[Claim] = []
        """Claims whose end was not reported to the application yet; `_assigned` likewise."""
        self._assigned: list[Claim] = []
        self._fenced: set[TopicPartition] = set()
        self._answered: list[RpcAnswer] = []
        """The answer to the application's current request, once it arrived."""
        self._is_closed = self._is_closing = self._calls_back = False
        self._fork = ForkGuard()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # --- public -----------------------------------------------------------------------------------

    @property
    def claims(self) -> Claims:
        """The partitions that are this member's, as far as it knows. Their epoch is the tenure."""
        return [*self._claims.values()]

    @property
    def is_current(self) -> bool:
        """Whether it is a member, and its controller has answered lately enough."""
        return not self._fork.forked and self._membership.may_hand_out(self._now_ms())

    def add_topic(self, topic: str, partition: int | None = None) -> None:
        """Consume a share of a topic, or this partition of it: `poll` asks for it.

        A partition that is asked for by its number is given to the member that asked first, as long
        as that lives.

        Raises:
            InvalidOption: the topic's name is no text, or `partition` is no partition's number.
            ConsumerClosed: the consumer was closed before.
        """
        self._raise_if_closed()
        _expect_text(topic=topic)
        if partition is None:
            self._topics.add(topic)
        else:
            partition = whole_number("partition", partition, 0, PARTITION_MAX)
            self._static.add(TopicPartition(topic, partition))
        self._membership.wants(self._topics, self._static)

    def poll(self, timeout_s: float = 1.0, *, max_messages: int = POLL_MESSAGES) -> list[Message]:
        """The next messages, of any partitions; an empty list if none came in time.

        It marks the messages of the previous call as done, so the next commit includes them. It
        joins the group, follows the controller, and runs the callbacks.

        Raises:
            InvalidOption: `timeout_s` is no number, or `max_messages` not from 1 to a million.
            ConsumerClosed: the consumer was closed before.
            RequestRefused: the controller refuses this member for good; the message gives the
                reason.
            BrokerFailed: the cluster refuses this client.
        """
        self._raise_if_closed()
        deadline = self._environment.deadline(seconds_to_wait("timeout_s", timeout_s))
        max_messages = whole_number("max_messages", max_messages, 1, POLL_MAX)
        self._in_hand_is_done()
        while True:
            self._follow()
            if self._is_taking:
                self._buffered.clear()
                self._fetch.begin_anew()
            self._is_taking = True
            messages = self._taken(max_messages, min(LOOK_S, deadline.left_s))
            if messages or not deadline.left_s:
                self._in_hand = messages
                # A call after this one could be interrupted.
                self._is_taking = False
                return messages
            self._is_taking = False

    def keep_alive(self) -> bool:
        """Send what is due to the controller, during long work; no partition is revoked meanwhile.

        Call it at least once in a tenth of the session timeout. Returns False if other members may
        own its partitions by now.

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

        When it returns, the controller's log holds the positions.

        Raises:
            Fenced: some partitions are not this member's any more; the message names them. The
                others are committed. The member continues with its own partitions.
            OutcomeUnknown: no controller answered in time. Commit again.
            ConsumerClosed: the consumer was closed before.
        """
        self._raise_if_closed()
        timeout_s = seconds_to_wait("timeout_s", timeout_s)
        self._in_hand_is_done()
        self._commit(
            lambda tp: topic in (None, tp.topic) and partition in (None, tp.partition), timeout_s
        )

    def rewind(
        self, offsets: Mapping[tuple[str, int], int], *, timeout_s: float = COMMIT_S
    ) -> dict[tuple[str, int], int]:
        """Set the group's positions in any partitions; -1 stands for the end, -2 for the start.

        The owners restart from there. Returns the offsets that were set.

        Raises:
            InvalidOption: a key or an offset cannot be one.
            RequestRefused: there is no such partition or offset.
            OutcomeUnknown: no controller answered in time.
            ConsumerClosed: the consumer was closed before.
        """
        self._raise_if_closed()
        deadline = self._environment.deadline(seconds_to_wait("timeout_s", timeout_s))
        wide = []
        for (topic, partition), given in offsets.items():
            _expect_text(topic=topic)
            number = whole_number("partition", partition, 0, PARTITION_MAX)
            offset = whole_number("offset", given, -2, OFFSET_MAX)
            wide.append({"Topic": topic, "Partition": number, "Offset": offset})
        body = {"ConsumerGroup": self._group_id, "NewOffsets": [], "NewOffsetsV1": wide}
        answer = self._ask("RewindConsumer", body, deadline)
        if answer.code is not ErrorCode.NONE:
            raise self._refused("RewindConsumer", answer.code)
        actual = cast("list[dict[str, Any]]", answer.body["ActualOffsetsV1"])
        return {(each["Topic"], each["Partition"]): each["Offset"] for each in actual}

    def close(self) -> None:
        """Commit what is done, leave the group, and disconnect.

        Messages of the last `poll` count as done only if `commit` was called since. If the member
        reaches no controller within `CLOSE_S`, it is removed after the session timeout.
        In a fork of the process that made the consumer it does nothing.
        """
        if self._is_closing or self._fork.forked:
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
        self._recover()
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
        """Follow the controller, and run the application's callbacks."""
        self._receive()
        self._run_callbacks()
        self._raise_if_closed()  # by a callback
        self._step(may_let_go=True)
        self._run_callbacks()  # a claim is assigned before its first message is delivered
        self._raise_if_closed()
        failure = self._membership.failure
        if failure is not None:
            raise self._refused("RegisterConsumer", failure)

    def _refused(self, api: str, code: ErrorCode) -> RequestRefused:
        where = self._membership.controller
        server = "the controllers" if where is None else ServerAddress(*where)
        return RequestRefused(server, api, f"of group {self._group_id}", code)

    def _step(self, *, may_let_go: bool) -> None:
        """Receive answers, then send what is due."""
        self._recover()
        self._is_stepping = True
        self._take_answers()
        # The application may still process messages of claims that were revoked meanwhile.
        may_let_go = may_let_go and not self._revoked
        self._carry_out(self._membership.tick(self._now_ms(), may_let_go=may_let_go))
        self._is_stepping = False
        self._see_whether_served()

    def _receive(self) -> None:
        self._recover()
        self._is_stepping = True
        self._take_answers()
        self._is_stepping = False

    def _recover(self) -> None:
        """Make good for a step that a signal's handler interrupted; may be interrupted as well.

        Answers or requests may be lost, so it connects again. The membership knows what this member
        holds.
        """
        if not self._is_stepping:
            return
        self._disconnect()
        self._membership.connection_lost(self._now_ms())
        member = self._membership.member
        held = {tp: at for tp, at in member.at.items() if tp in member.holds}
        for tp, claim in [*self._claims.items()]:
            if tp not in held or held[tp].tenure != claim.epoch:
                self._stop(tp)
        for tp in sorted(held.keys() - self._claims.keys()):
            self._begin(PartitionStarted(tp, held[tp]))
        self._is_stepping = False

    def _take_answers(self) -> None:
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
            elif answer.api.name in _SERVES:  # what was reported before is over
                self._was_refused, self._trouble = False, "its controller does not answer any more"
            self._carry_out(self._membership.answered(answer, self._now_ms()))

    def _see_whether_served(self) -> None:
        """Log that no controller has served it for a session timeout, so `poll` returns nothing.

        The time between two calls does not count.
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
                    self._answered.append(effect.answer)

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
            # It sends requests at once. Answers that may revoke a partition wait for the next step.
            self._carry_out(self._membership.tick(self._now_ms(), may_let_go=False))

    def _begin(self, begun: PartitionStarted) -> None:
        topic, partition = begun.tp
        key = ClaimKey(self._group_id, topic, partition)
        claim = Claim(key, topic, partition, begun.at.tenure, begun.at.offset)
        self._fetch.begin(claim)
        # No call comes between these, so no signal's handler does.
        assigned, claims = [*self._assigned, claim], {**self._claims, begun.tp: claim}
        self._assigned, self._claims = assigned, claims

    def _stop(self, tp: TopicPartition) -> None:
        """Deliver nothing more of it, even if it was fetched."""
        claim = self._claims.get(tp)
        if claim is None:
            return  # closing
        claim.lost = Lost.TAKEN
        self._fetch.stop(tp.topic, tp.partition)
        self._buffered = deque(one for one in self._buffered if one.claim is not claim)
        claims, assigned, revoked = {**self._claims}, [*self._assigned], [*self._revoked]
        del claims[tp]
        if claim in assigned:
            assigned.remove(claim)  # the application never knew
        else:
            revoked.append(claim)
        # No call comes between these, so no signal's handler does.
        self._claims, self._assigned, self._revoked = claims, assigned, revoked

    def _run_callbacks(self) -> None:
        """Run the callbacks, and commit what is done of partitions that move.

        While a callback is inside `poll` or `close`, no other one runs.
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
            if not self._is_closed:
                self._commit_revoked(revoked)
            # Last: if a signal's handler interrupts it, the release waits until it is repeated.
            del self._revoked[: len(revoked)]

    def _commit_revoked(self, revoked: Claims) -> None:
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
        if self._is_taking:
            self._in_hand = []
        self._fetch.delivered(self._in_hand)
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
        """The controller's answer; changes of the assignment meanwhile wait for `poll`.

        Raises:
            OutcomeUnknown: there was no answer in time.
            RequestRefused: the controller refuses this member for good.
        """
        self._answered.clear()
        self._membership.withdraw()  # what an interrupted call asked
        try:
            self._membership.ask(api, body)
            while not self._answered:
                if self._membership.failure is not None:
                    raise self._refused(api, self._membership.failure)
                if not deadline.left_s:
                    raise OutcomeUnknown(
                        f"group {self._group_id}: it is not known whether {api} was carried out"
                        f"{f' ({self._trouble})' if self._has_trouble else ''}"
                    )
                self._step(may_let_go=False)
                if not self._answered:
                    self._wait(min(LOOK_S, deadline.left_s))
                    self._receive()
            return self._answered.pop()
        finally:
            self._membership.withdraw()

    def _raise_if_closed(self) -> None:
        self._fork.refuse("consumer")
        if self._is_closed:
            raise ConsumerClosed("the consumer was closed before; make another one")

    def _now_ms(self) -> int:
        return self._environment.steady_ms()


def _expect_text(**names: object) -> None:
    """Refuse values that a request cannot hold.

    Raises:
        InvalidOption: a value is not text.
    """
    for option, name in names.items():
        if not isinstance(name, str) or not is_text(name):
            raise InvalidOption(f"{option} is text, not {name!r}")


def _call(callback: Callable[[Claims], None] | None, claims: Claims) -> None:
    if callback is None:
        return
    try:
        callback(claims)
    except Exception:
        logger.exception("a callback of the consumer failed")

"""Runs a controller of groups: feeds the machine, and executes its effects.

One event loop runs the port, the machine and the timers. Threads read the log, append to it, keep
the claims and query the cluster; they pass their results to the loop. This module decides nothing:
the machine decides what is appended and answered.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, assert_never

from attrs import field, frozen

from kafka_marshal.client.connect.metadata import ClusterMetadata
from kafka_marshal.client.connect.settings import Settings
from kafka_marshal.client.groups.claims import Claims
from kafka_marshal.client.groups.connection import Address
from kafka_marshal.client.groups.event_log import (
    GROUPS_TOPIC,
    PARTITIONS,
    EventLog,
    PartitionBegun,
    Reached,
    Read,
    ensure_groups_topic,
)
from kafka_marshal.client.groups.permissions import Permissions, may_ask, without_others
from kafka_marshal.client.groups.port import Port, PortLimits
from kafka_marshal.client.groups.questions import Questions
from kafka_marshal.client.observe.controller_observers import (
    ControllerObserver,
    ControllerObservers,
    HungUp,
    LoggingControllerObserver,
)
from kafka_marshal.client.observe.logger import logger
from kafka_marshal.client.observe.observers import Observer
from kafka_marshal.core.groups.events import EventRecord
from kafka_marshal.core.groups.state import TopicPartition
from kafka_marshal.errors import COORDINATION_TOPIC, BrokerFailed, MarshalError, ThreadFailed
from kafka_marshal.machines.groups.effects import (
    AppendEvent,
    AskEnd,
    CloseConnection,
    CountPartitions,
    Effect,
    ForwardRequest,
    MovePosition,
    ReportTooLarge,
    ResolveOffsets,
    SendAnswer,
)
from kafka_marshal.machines.groups.server import GroupServer, ServerSettings
from kafka_marshal.rpc.codec import (
    ANSWER_BYTES_MAX,
    Frames,
    Malformed,
    RpcAnswer,
    RpcRequest,
    decode_answer,
    encode_request,
    refusal,
)
from kafka_marshal.rpc.error_codes import ErrorCode

PORT: Final = 9393
"""The default port of a controller."""
TICK_S: Final = 0.05
FORWARD_S: Final = 10.0
"""The timeout of a forwarded request, in seconds."""
DRAIN_S: Final = 2.0
"""How long a stop waits for answers whose events are on their way, in seconds."""
RELEASE_S: Final = 10.0
"""How long a stop waits until the claims are released, in seconds."""
_ID_BITS: Final = 31
_TOO_LARGE_MAX: Final = 1_000
"""Of how many groups and kinds of events it is reported at most that they are too large."""
_PARKED: Final = "Heartbeat"
"""Its answer may wait for a change, so a stop does not wait for it."""


@frozen
class ControllerOptions:
    """The address, the name and the limits of a controller."""

    host: str = "127.0.0.1"
    port: int = PORT
    """0: any that is free."""
    advertised: Address | None = None
    """The address for clients; None: the listening address."""
    client_id: str = ""
    """Names this controller across restarts, which makes them quicker; empty: its address does."""
    topic: str = GROUPS_TOPIC
    coordination_topic: str = COORDINATION_TOPIC
    limits: PortLimits = field(factory=PortLimits)
    tls: ssl.SSLContext | None = None
    """For those that connect; None: no TLS."""
    permissions: Permissions | None = None
    """Which clients may use which groups; None: all may use all."""
    tls_to_others: ssl.SSLContext | None = None
    """For connections to other controllers."""
    forget: bool = False
    """Serve also partitions whose head is cut and holds no snapshot, as if they were new."""


class ControllerService:
    """One controller. It is a `Receiver` of its port."""

    def __init__(
        self,
        settings: Settings,
        options: ControllerOptions | None = None,
        observers: Sequence[ControllerObserver] = (),
        claim_observers: Sequence[Observer] = (),
    ) -> None:
        """Connect, and create the log if it does not exist.

        Raises:
            BrokerFailed: the cluster cannot be reached, or the log has another number of
                partitions.
        """
        self._options = options = options or ControllerOptions()
        self._settings = settings
        self._environment = settings.environment
        self._claim_observers = claim_observers
        logs = LoggingControllerObserver(self._environment.monotonic)
        self._observers = ControllerObservers([logs, *observers])
        self._cluster = ClusterMetadata(settings)
        self._topic = ensure_groups_topic(self._cluster, options.topic)
        self._may_use: dict[int, tuple[str, ...]] = {}
        """The groups that the client of each connection may use, if there are permissions."""
        self._too_large: set[tuple[str, str]] = set()
        self._failure: BaseException | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._served: set[int] = set()
        self._since_s: dict[int, float] = {}
        """Since when the claim of each partition is won; once it is served, since when that is."""
        self._loop: asyncio.AbstractEventLoop
        self._server: GroupServer
        self._port: Port
        self._log: EventLog
        self._claims: Claims
        self._questions: Questions

    def run(
        self, stopped: Callable[[], bool], listening: Callable[[str, int], None] = lambda *_: None
    ) -> None:
        """Serve until `stopped`; `listening` is called with the address once clients may connect.

        At the end it answers the requests whose events have landed, and releases the claims.

        Raises:
            InvalidOption: it cannot listen at that address.
            MarshalError: it cannot continue; another controller takes over.
        """
        self._environment.run_loop(self._serve(stopped, listening))
        if isinstance(self._failure, MarshalError):
            raise self._failure
        if self._failure is not None:
            name = type(self._failure).__name__
            raise ThreadFailed(
                f"the controller ended, since it met {name}: {self._failure}"
            ) from self._failure

    # --- its life ---------------------------------------------------------------------------------

    async def _serve(
        self, stopped: Callable[[], bool], listening: Callable[[str, int], None]
    ) -> None:
        options, environment = self._options, self._environment
        self._loop = asyncio.get_running_loop()
        self._log = EventLog(
            self._settings, options.topic, self._note, self._fail, self._topic.batch_bytes_max
        )
        self._questions = Questions(self._cluster, options.topic, self._fail)
        self._port = Port(self, self._observers, environment.monotonic, options.limits, options.tls)
        host, port = await self._port.listen(options.host, options.port)
        advertised = options.advertised or Address(host, port)
        self._server = GroupServer(
            ServerSettings(
                environment.random_bits(_ID_BITS),
                advertised.host,
                advertised.port,
                partitions=PARTITIONS,
                snapshot_interval_ms=self._topic.snapshot_interval_ms,
                event_bytes_max=self._topic.event_bytes_max,
                forget=options.forget,
            )
        )
        blocking = self._loop.run_in_executor
        try:
            self._claims = await blocking(None, self._claiming, advertised)

            def ended() -> bool:
                return self._failure is not None or stopped()

            self._log.read(
                partial(self._claims.positions, ended),
                lambda read: self._soon(partial(self._take, read)),
            )
            listening(host, port)
            while not ended():
                self._tick()
                await asyncio.sleep(TICK_S)
            await self._stop()
        finally:
            await self._port.close()
            self._questions.close()
            await blocking(None, self._log.close)

    def _claiming(self, advertised: Address) -> Claims:
        """Start claiming. The callbacks run in a thread."""

        def changed(happens: Callable[[int], None], partition: int) -> None:
            self._soon(partial(happens, partition))

        return Claims(
            self._settings,
            self._options.client_id or str(advertised),
            self._options.topic,
            self._options.coordination_topic,
            partial(changed, self._claimed),
            partial(changed, self._unclaimed),
            self._claim_observers,
        )

    async def _stop(self) -> None:
        """Answer requests whose events have landed, and release the claims in the meantime."""
        self._port.stop_listening()
        if self._failure is None:
            deadline = self._environment.deadline(DRAIN_S)
            while deadline.left_s and self._port.owed.keys() - {_PARKED}:
                self._tick()
                await asyncio.sleep(TICK_S)
        released = self._loop.run_in_executor(None, self._claims.close, RELEASE_S)
        while not released.done():
            if self._failure is None:
                self._tick()
            await asyncio.sleep(TICK_S)
        await asyncio.sleep(0)  # runs what the last callbacks scheduled
        if self._failure is None:
            # Also if the log did not confirm the release in time.
            for partition in range(PARTITIONS):
                self._unclaimed(partition)
            self._see_what_is_served()

    def _tick(self) -> None:
        try:
            if self._log.failed is not None:
                raise BrokerFailed(self._log.failed)
            self._claims.raise_failure()
            self._carry_out(self._server.tick(self._now_ms))
            self._see_what_is_served()
        except Exception as error:
            self._fail(error)

    def _see_what_is_served(self) -> None:
        now = {number for number in range(PARTITIONS) if self._server.serves(number)}
        for number in sorted(now ^ self._served):
            now_s = self._environment.monotonic()
            after_s = now_s - self._since_s.get(number, now_s)
            self._since_s[number] = now_s
            self._observers.serving(number, serves=number in now, after_s=after_s)
        self._served = now

    @property
    def _now_ms(self) -> int:
        return self._environment.steady_ms()

    def _soon(self, happens: Callable[[], None]) -> None:
        """Have this happen in the loop. Any thread may call; after the end nothing happens."""

        def guarded() -> None:
            try:
                happens()
            except Exception as error:
                self._fail(error)

        try:
            self._loop.call_soon_threadsafe(guarded)
        except RuntimeError:
            logger.debug("the controller has ended")

    def _fail(self, error: BaseException) -> None:
        """It cannot continue. Others take its claims, and the log protects the groups."""
        if self._failure is None:
            self._failure = error
            if not isinstance(error, MarshalError):
                logger.error("the controller failed", exc_info=error)

    def _note(self, sentence: str) -> None:
        self._soon(partial(self._observers.note, sentence))

    # --- inputs -----------------------------------------------------------------------------------

    def connected(self, connection: int, host: str) -> None:
        """A client has connected."""
        if (permissions := self._options.permissions) is not None:
            self._may_use[connection] = permissions.of(self._port.certificate(connection))
        self._carry_out(self._server.connected(connection, self._now_ms))

    def disconnected(self, connection: int) -> None:
        """It is gone."""
        self._may_use.pop(connection, None)
        self._carry_out(self._server.disconnected(connection, self._now_ms))

    def requested(self, connection: int, request: RpcRequest) -> None:
        """A connection sent a request.

        A request on which the machine fails must not end one controller after the other. It is
        answered with UNKNOWN_SERVER_ERROR, and logged with a traceback.
        """
        groups = self._may_use.get(connection)
        if groups is not None and not may_ask(groups, request):
            self._port.answer(connection, _refused(request, ErrorCode.GROUP_AUTHORIZATION_FAILED))
            return
        try:
            self._carry_out(self._server.requested(connection, request, self._now_ms))
        except Exception:
            logger.exception("%s failed", request.api.name)
            self._port.answer(connection, _refused(request, ErrorCode.UNKNOWN_SERVER_ERROR))
            self._port.hang_up(connection, HungUp.FAILED, f"{request.api.name} failed")

    def _take(self, read: Sequence[Read]) -> None:
        """The log was read further."""
        self._log.taken()
        server, now_ms = self._server, self._now_ms
        for each in read:
            match each:
                case PartitionBegun(partition, offset, at_position):
                    begins = server.begins(partition, offset, now_ms, at_position=at_position)
                    self._carry_out(begins)
                case Reached(partition, offset, malformed):
                    if malformed is not None:
                        self._observers.folded(partition, "malformed", accepted=False)
                    self._carry_out(server.reached(partition, offset, now_ms))
                case EventRecord():
                    before = server.view(each.partition).number
                    self._carry_out(server.read(each, now_ms))
                    accepted = server.view(each.partition).number != before
                    name = type(each.event).__name__
                    self._observers.folded(each.partition, name, accepted=accepted)

    def _claimed(self, partition: int) -> None:
        if partition < PARTITIONS:
            self._since_s[partition] = self._environment.monotonic()
            self._carry_out(self._server.claimed(partition, self._now_ms))

    def _unclaimed(self, partition: int) -> None:
        if partition < PARTITIONS:
            self._carry_out(self._server.unclaimed(partition, self._now_ms))

    # --- effects ----------------------------------------------------------------------------------

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case AppendEvent(record):
                    self._log.append(record, self._not_appended)
                case ReportTooLarge(record, size_bytes):
                    self._report(record, size_bytes)
                case SendAnswer(connection, answer):
                    groups = self._may_use.get(connection)
                    told = answer if groups is None else without_others(groups, answer)
                    self._port.answer(connection, told)
                case CloseConnection(connection, why):
                    self._port.hang_up(connection, HungUp.CONTROLLER, why)
                case AskEnd(number, token):
                    self._questions.end(number, partial(self._end_is, number, token))
                case CountPartitions(number, topics):
                    for topic in sorted(topics):
                        self._questions.count(topic, partial(self._counted, number, topic))
                case ResolveOffsets(number, token, offsets):
                    self._questions.offsets(offsets, partial(self._resolved, number, token))
                case ForwardRequest(connection, request, host, port):
                    to = Address(host, port)
                    task = self._loop.create_task(self._forward(connection, request, to))
                    self._tasks.add(task)  # the loop itself keeps no task alive
                    task.add_done_callback(self._tasks.discard)
                case MovePosition(number, offset):
                    self._questions.do(partial(self._claims.move, number, offset))
                case _:
                    assert_never(effect)

    def _report(self, record: EventRecord, size_bytes: int) -> None:
        """Report it once for each group and kind of event, since clients repeat their requests."""
        kind = (record.group, type(record.event).__name__)
        if kind in self._too_large or len(self._too_large) >= _TOO_LARGE_MAX:
            return
        self._too_large.add(kind)
        self._observers.note(
            f"group {record.group}: {kind[1]} takes {size_bytes:,} bytes, now or later, and "
            f"{self._options.topic} has room for {self._topic.event_bytes_max:,}: it is not "
            "appended. Make the group smaller, or raise max.message.bytes of the topic and "
            "message.max.bytes of the controllers, and start them again"
        )

    def _answered(self, ask: Callable[[], list[Effect]]) -> None:
        self._soon(lambda: self._carry_out(ask()))

    def _not_appended(self, record: EventRecord) -> None:
        self._answered(lambda: self._server.append_failed(record, self._now_ms))

    def _end_is(self, number: int, token: int, end: int) -> None:
        self._answered(lambda: self._server.end_is(number, token, end, self._now_ms))

    def _counted(self, number: int, topic: str, topic_id: str, count: int) -> None:
        self._answered(lambda: self._server.counted(number, topic, topic_id, count, self._now_ms))

    def _resolved(self, number: int, token: int, found: Mapping[TopicPartition, int]) -> None:
        self._answered(lambda: self._server.resolved(number, token, found, self._now_ms))

    async def _forward(self, connection: int, request: RpcRequest, to: Address) -> None:
        """Forward a request to another server, and return its answer."""
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        try:
            async with asyncio.timeout(FORWARD_S):
                reader, writer = await asyncio.open_connection(
                    to.host, to.port, ssl=self._options.tls_to_others
                )
                try:
                    code = ErrorCode.REQUEST_TIMED_OUT
                    writer.write(encode_request(request))
                    answer = decode_answer(request.api, await _message(reader))
                finally:
                    writer.close()
        except (OSError, EOFError, Malformed, TimeoutError) as error:
            self._observers.note(f"{request.api.name}, forwarded to {to}, failed: {error}")
            answer = _refused(request, code)
        self._port.answer(connection, answer)


async def _message(reader: asyncio.StreamReader) -> bytes:
    """The content of the next frame."""
    frames = Frames(ANSWER_BYTES_MAX)
    while data := await reader.read(2**16):
        for message in frames.fed(data):
            return message
    raise EOFError("the connection was closed")


def _refused(request: RpcRequest, code: ErrorCode) -> RpcAnswer:
    return refusal(request.api, request.version, request.correlation_id, code)

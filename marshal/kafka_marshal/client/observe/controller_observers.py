"""The observer interface of a controller: one method for each event.

This module does not know the observers. It also writes the log, which every controller needs;
metrics are in `controller_metrics`, spans in `controller_tracing`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final

from attrs import define, frozen

from kafka_marshal.client.connect.environment import REAL
from kafka_marshal.client.observe.logger import logger
from kafka_marshal.client.observe.logging_observer import ConsumerIdentity, LoggingObserver
from kafka_marshal.rpc.error_codes import ErrorCode

QUIET_S: Final = 60.0
"""The minimum time between two log lines about closed connections of one host, in seconds."""
HOSTS_MAX: Final = 1_000
"""The most hosts to remember for that."""


_NO_CONSUMER: Final = ConsumerIdentity("", "", "")
"""A controller's lines are of no consumer."""


class HungUp(StrEnum):
    """Why the server ended a connection."""

    MALFORMED = "malformed"
    HALF_FRAME = "half_frame"
    """Part of a request arrived, and the rest did not."""
    IDLE = "idle"
    UNREAD = "unread"
    """The client does not read its answers."""
    TOO_MANY = "too_many"
    """Connections: of this host, or at all."""
    TLS = "tls"
    """The client does not speak TLS, or has no certificate that is trusted."""
    CONTROLLER = "controller"
    """A rule of groups demands it."""
    FAILED = "failed"
    STOPPED = "stopped"


@frozen
class AnsweredRequest:
    """A request that a controller has answered."""

    api: str
    code: ErrorCode
    seconds: float
    """The time since its arrival. A Heartbeat may wait for a change."""
    host: str
    """The client's host."""
    client_id: str = ""
    group: str = ""
    """Empty: it is about none, or about several."""


class ControllerObserver:
    """The events of a controller. Override the methods that you need.

    They are called in the controller's thread, so they must be fast and not wait.
    """

    def connected(self, host: str) -> None:
        """A client connected."""

    def disconnected(self, host: str) -> None:
        """A connection has ended, on either side."""

    def hung_up(self, host: str, why: HungUp, detail: str) -> None:
        """The server ends a connection."""

    def answered(self, request: AnsweredRequest) -> None:
        """A request was answered."""

    def folded(self, partition: int, event: str, *, accepted: bool) -> None:
        """An event of the log was accepted or refused; `malformed` is a record that is none."""

    def serving(self, partition: int, *, serves: bool, after_s: float) -> None:
        """This process has become controller of a partition of the log, or is it no more.

        `after_s`: how long after its claim was won, or how long after it began to serve.
        """

    def note(self, sentence: str) -> None:
        """A temporary problem, or one that an operator must fix."""


class ControllerObservers(ControllerObserver):
    """Several, one after the other. None of them can stop the controller."""

    def __init__(self, observers: Sequence[ControllerObserver]) -> None:
        self._observers = tuple(observers)

    def _notify(self, notify: Callable[[ControllerObserver], None]) -> None:
        for one in self._observers:
            try:
                notify(one)
            except Exception:
                logger.exception("an observer of the controller failed")

    def connected(self, host: str) -> None:  # noqa: D102
        self._notify(lambda one: one.connected(host))

    def disconnected(self, host: str) -> None:  # noqa: D102
        self._notify(lambda one: one.disconnected(host))

    def hung_up(self, host: str, why: HungUp, detail: str) -> None:  # noqa: D102
        self._notify(lambda one: one.hung_up(host, why, detail))

    def answered(self, request: AnsweredRequest) -> None:  # noqa: D102
        self._notify(lambda one: one.answered(request))

    def folded(self, partition: int, event: str, *, accepted: bool) -> None:  # noqa: D102
        self._notify(lambda one: one.folded(partition, event, accepted=accepted))

    def serving(self, partition: int, *, serves: bool, after_s: float) -> None:  # noqa: D102
        self._notify(lambda one: one.serving(partition, serves=serves, after_s=after_s))

    def note(self, sentence: str) -> None:  # noqa: D102
        self._notify(lambda one: one.note(sentence))


@define
class _Silenced:
    """Hang-ups of one host that were not written since the last line."""

    since_s: float
    times: int = 0


class LoggingControllerObserver(ControllerObserver):
    """Logs the events of a controller, with the logger `kafka_marshal`."""

    def __init__(self, monotonic: Callable[[], float] = REAL.monotonic) -> None:
        self._monotonic = monotonic
        self._silenced: dict[str, _Silenced] = {}
        self._cluster = LoggingObserver(lambda: _NO_CONSUMER, monotonic)
        """Knows which problems with the cluster last."""

    def hung_up(self, host: str, why: HungUp, detail: str) -> None:
        """One line a minute and host, with how many were not written before it."""
        if why in (HungUp.STOPPED, HungUp.CONTROLLER):
            logger.debug("%s: hung up: %s", host, detail)
            return
        now_s = self._monotonic()
        last = self._silenced.get(host)
        if last is not None and now_s - last.since_s < QUIET_S:
            last.times += 1
            return
        more = f" (and {last.times:,} more since the last line)" if last and last.times else ""
        if len(self._silenced) >= HOSTS_MAX:
            self._silenced.clear()
        self._silenced[host] = _Silenced(now_s)
        fields = {"event": "hung_up", "reason": why.value}
        logger.warning("%s: hung up: %s%s", host, detail, more, extra=fields)

    def serving(self, partition: int, *, serves: bool, after_s: float) -> None:
        """A line."""
        fields = {"event": "serving" if serves else "not_serving", "partition": partition}
        if serves:
            what = f"this process is its controller, {after_s:.1f} s after it won the claim"
        else:
            what = "this process controls it no more"
        logger.info("groups of partition %d: %s", partition, what, extra=fields)

    def answered(self, request: AnsweredRequest) -> None:
        """A line for each problem with the cluster that is over by now."""
        self._cluster.look()

    def note(self, sentence: str) -> None:
        """A line when a problem begins; see `LoggingObserver.note`."""
        self._cluster.look()
        self._cluster.note(sentence)

"""Marshal promises that simulated members and controllers run as they ship, over bytes in memory.

The network in memory does to bytes what TCP does: it keeps their order, or resets the connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

import attrs
import pytest

from kafka_marshal import GroupConsumer
from kafka_marshal.client.connect.log_writer import OutcomeUnknown
from kafka_marshal.client.groups.controller import ControllerOptions, ControllerService
from kafka_marshal.client.groups.port import PortLimits
from kafka_marshal.client.message import Claim
from kafka_marshal.testing.in_memory import (
    InMemoryKafka,
    InMemoryNetwork,
    ScheduledEventLoop,
    Scheduler,
    Wire,
)

CUT = Wire(flows=False)


def echoing(network: InMemoryNetwork, sent: list[bytes]) -> None:
    """A loop that listens at a:1, answers what comes, and ends when the other side does."""
    over = asyncio.Event()

    class Echo(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            self.transport = transport

        def data_received(self, data: bytes) -> None:
            sent.append(data)
            self.transport.write(data)

        def connection_lost(self, exc: Exception | None) -> None:
            sent.append(b"" if exc is None else b"reset")
            over.set()

    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(Echo, "a", 1)
        await over.wait()
        server.close()

    ScheduledEventLoop(network.scheduler, network).run_to_end(main())


def with_an_echo(use: Callable[[Scheduler, InMemoryNetwork], None]) -> list[bytes]:
    """What the echo got, while this was done."""
    with Scheduler(1) as scheduler:
        network, sent = InMemoryNetwork(scheduler), list[bytes]()
        server = scheduler.begin("server", partial(echoing, network, sent))
        scheduler.sleep(0.1)
        use(scheduler, network)
        server.join(1.0)
        assert not server.is_alive()
        assert network.ends == []
        assert network.servers == {}
        return sent


def test_bytes_arrive_in_their_order_and_in_pieces() -> None:
    def use(scheduler: Scheduler, network: InMemoryNetwork) -> None:
        network.wires = lambda *_: Wire(latency_s=0.1, jitter_s=0.1)
        stream, got = network.connect("a", 1, 1.0), b""
        for number in range(20):
            stream.send(b"%03d" % number, 1.0)
        while len(got) < 60:
            got += stream.receive(1.0)
        assert got == b"".join(b"%03d" % number for number in range(20))
        stream.close()

    sent = with_an_echo(use)
    assert sent[-1] == b""
    assert any(0 < len(piece) < 3 for piece in sent)


def test_what_is_cut_off_arrives_when_the_wire_is_mended() -> None:
    def use(scheduler: Scheduler, network: InMemoryNetwork) -> None:
        stream = network.connect("a", 1, 1.0)
        network.wires = lambda *_: CUT
        stream.send(b"late", 1.0)
        with pytest.raises(TimeoutError):
            stream.receive(5.0)
        with pytest.raises(TimeoutError):
            network.connect("a", 1, 5.0)
        network.wires = lambda *_: Wire()
        network.rewired()
        assert stream.receive(1.0) == b"late"
        stream.close()

    assert with_an_echo(use) == [b"late", b""]


def test_what_is_lost_is_sent_again_and_holds_up_its_own_connection_alone() -> None:
    def use(scheduler: Scheduler, network: InMemoryNetwork) -> None:
        stream, other = network.connect("a", 1, 1.0), network.connect("a", 1, 1.0)
        network.wires = lambda *_: Wire(lost=1.0, again_s=5.0)
        stream.send(b"lost", 1.0)
        network.wires = lambda *_: Wire()
        stream.send(b"behind", 1.0)
        other.send(b"new", 1.0)
        assert other.receive(1.0) == b"new"
        with pytest.raises(TimeoutError):
            stream.receive(3.0)
        assert stream.receive(3.0) == b"lost"
        assert stream.receive(0.1) == b"behind"
        for each in (other, stream):
            each.close()

    assert with_an_echo(use)[:3] == [b"new", b"lost", b"behind"]


def test_a_reset_loses_what_had_not_arrived() -> None:
    def use(scheduler: Scheduler, network: InMemoryNetwork) -> None:
        stream = network.connect("a", 1, 1.0)
        network.wires = lambda *_: Wire(latency_s=1.0)
        stream.send(b"lost", 1.0)
        network.reset(stream)
        with pytest.raises(ConnectionResetError):
            stream.receive(1.0)
        stream.close()

    assert with_an_echo(use) == [b"reset"]


def test_nobody_accepts_where_a_process_has_died() -> None:
    def use(scheduler: Scheduler, network: InMemoryNetwork) -> None:
        stream = network.connect("a", 1, 1.0)
        scheduler.kill("server")
        network.died("server")
        with pytest.raises(ConnectionRefusedError):
            network.connect("a", 1, 1.0)
        with pytest.raises(ConnectionResetError):
            stream.receive(1.0)
        stream.close()

    assert with_an_echo(use) == []


@pytest.mark.night
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_commit_is_answered_soon_after_another_controller_took_over(seed: int) -> None:
    """By the run's own clock: 2 s until the claim is free, and a tenth of a second or two.

    That is one ask of 0.1 s, and one look of `commit` of 0.05 s. Processors need more.
    """
    with Scheduler(seed) as scheduler:
        kafka = InMemoryKafka(1, scheduler)
        kafka.create("orders")
        services = {}
        for name in ("a", "b"):
            options = ControllerOptions(host=name, port=1)
            services[name] = service = ControllerService(kafka.settings(), options)
            scheduler.begin(name, partial(service.run, lambda: False))
        with GroupConsumer(
            settings=kafka.settings(), controllers=["a:1", "b:1"], group_id="g", client_id="m"
        ) as consumer:
            consumer.add_topic("orders")
            while not consumer.claims:
                consumer.poll(0.1)
            scheduler.sleep(10.0)
            kafka.append("orders", 0, b"")
            while not consumer.poll(0.1):
                pass
            where = consumer._membership.controller
            assert where is not None
            scheduler.kill(where[0])
            kafka.network.died(where[0])
            killed_s = scheduler.clock.monotonic()
            consumer.commit()
            assert scheduler.clock.monotonic() - killed_s < 2.2


def test_a_member_that_finds_no_room_logs_why_and_is_served_when_there_is_some(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """`poll` returns no messages, as where there are none."""
    with Scheduler(1) as scheduler:
        kafka = InMemoryKafka(1, scheduler)
        kafka.create("orders")
        options = ControllerOptions(host="a", port=1, limits=PortLimits(connections_max=1))
        service = ControllerService(kafka.settings(), options)
        scheduler.begin("controller", lambda: service.run(lambda: False))

        def member() -> GroupConsumer:
            consumer = GroupConsumer(
                settings=kafka.settings(),
                controllers="a:1",
                group_id="g",
                client_id="m",
                session_timeout_s=6.0,
            )
            consumer.add_topic("orders")
            return consumer

        with member() as second:
            with member() as first:
                while not first.claims:
                    first.poll(0.1)
                for _ in range(140):
                    second.poll(0.1)
                    first.poll(0.0)
                assert not second.is_current
                lines = [one for one in caplog.records if getattr(one, "event", "") == "unserved"]
                assert [one.getMessage() for one in lines] == [
                    f"group g serves member {second._member_id} no messages for 6 s: a:1: "
                    "ListGroups of group g: There are too many connections: wait. "
                    "(THROTTLING_QUOTA_EXCEEDED, 89)"
                ]
                with pytest.raises(OutcomeUnknown, match="THROTTLING_QUOTA_EXCEEDED"):
                    second.rewind({("orders", 0): 0}, timeout_s=1.0)
            while not second.claims:
                second.poll(0.1)


class Silent:
    """A connection to a server that stands still: the operating system accepts, and none reads."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def send(self, data: bytes, timeout_s: float) -> None:
        """It goes into a buffer."""

    def receive(self, timeout_s: float) -> bytes:
        self._scheduler.sleep(timeout_s)
        raise TimeoutError

    def wait(self, timeout_s: float) -> None:
        self._scheduler.sleep(timeout_s)

    def close(self) -> None:
        """There is nothing to close."""


def test_a_member_that_was_served_logs_no_reason_of_before(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """There was no such group before this member created it."""
    with Scheduler(1) as scheduler:
        kafka = InMemoryKafka(1, scheduler)
        kafka.create("orders")
        service = ControllerService(kafka.settings(), ControllerOptions(host="a", port=1))
        scheduler.begin("controller", lambda: service.run(lambda: False))
        with GroupConsumer(
            settings=kafka.settings(),
            controllers="a:1",
            group_id="g",
            client_id="m",
            session_timeout_s=6.0,
        ) as consumer:
            consumer.add_topic("orders")
            while not consumer.claims:
                consumer.poll(0.1)
            assert consumer._connection is not None
            consumer._connection.close()
            consumer._environment = attrs.evolve(
                consumer._environment, connect=lambda *_: Silent(scheduler)
            )
            consumer._connection._stream = Silent(scheduler)
            for _ in range(140):
                consumer.poll(0.1)
            lines = [one for one in caplog.records if getattr(one, "event", "") == "unserved"]
            assert [one.getMessage() for one in lines] == [
                f"group g serves member {consumer._member_id} no messages for 6 s: "
                "its controller does not answer any more"
            ]


def test_a_claim_that_was_never_assigned_is_not_revoked() -> None:
    """`keep_alive` calls nothing back, so the application does not know what was answered then."""
    with Scheduler(1) as scheduler:
        kafka = InMemoryKafka(1, scheduler)
        kafka.create("orders")
        stop, told = list[bool](), list[str]()
        service = ControllerService(kafka.settings(), ControllerOptions(host="a", port=1))
        controller = scheduler.begin("controller", lambda: service.run(lambda: bool(stop)))

        def notes(kind: str, claims: Sequence[Claim]) -> None:
            told.append(kind)

        with GroupConsumer(
            settings=kafka.settings(),
            controllers="a:1",
            group_id="g",
            client_id="m",
            on_assigned=partial(notes, "assigned"),
            on_revoked=partial(notes, "revoked"),
        ) as consumer:
            consumer.add_topic("orders")
            while consumer._connection is None:
                scheduler.sleep(0.2)
                consumer.keep_alive()
            assert "ListGroups" in consumer._membership._sent  # at once
            for _ in range(100):
                if not consumer.claims:
                    consumer.poll(0.0)  # asks
                    scheduler.sleep(0.2)
                    consumer.keep_alive()  # is answered
            assert len(consumer.claims) == 1
        assert told == []
        stop.append(True)
        controller.join()
        scheduler.sleep(1.0)
        assert [one.name for one in scheduler.threads] == ["main"]

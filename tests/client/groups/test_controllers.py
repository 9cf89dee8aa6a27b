"""Marshal promises that another controller goes on where one died, with all that it knew."""

from __future__ import annotations

import signal
import socket
import ssl
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
import trustme

from kafka_marshal.admin.view import ListedClaim, View
from kafka_marshal.client.connect.settings import settings_of
from kafka_marshal.client.groups.claims import CONTROLLERS
from kafka_marshal.client.groups.connection import (
    Controllers,
    RequestRefused,
    ServerUnreachable,
)
from kafka_marshal.client.groups.permissions import permissions_of
from kafka_marshal.client.groups.tls import server_context
from kafka_marshal.client.observe.controller_observers import AnsweredRequest, ControllerObserver
from kafka_marshal.codec import coordinating_partition
from kafka_marshal.errors import BrokerFailed
from kafka_marshal.machines.groups.server import ServerSettings
from kafka_marshal.rpc.error_codes import ErrorCode
from kafka_marshal.testing import Broker
from tests.client.crew import RULES, until
from tests.client.groups.controllers import Fleet, Scripted, create, patiently


class Counted(ControllerObserver):
    def __init__(self) -> None:
        self.events: Counter[str] = Counter()
        self.requests: Counter[str] = Counter()
        self.served: set[int] = set()
        self.notes: list[str] = []

    def note(self, sentence: str) -> None:
        self.notes.append(sentence)

    def folded(self, partition: int, event: str, *, accepted: bool) -> None:
        self.events[f"{event} {accepted}"] += 1

    def answered(self, request: AnsweredRequest) -> None:
        self.requests[f"{request.api} {request.code.name}"] += 1

    def serving(self, partition: int, *, serves: bool, after_s: float) -> None:
        assert after_s >= 0
        (self.served.add if serves else self.served.remove)(partition)


def test_a_killed_controller_is_followed_by_one_that_knows_all(kafka_broker: Broker) -> None:
    fleet = Fleet(kafka_broker)
    with fleet.process() as first, fleet.process() as second:
        processes = {address: process for process, address in (first, second)}
        with Controllers(list(processes), "test") as controllers:
            create(controllers, "g", fleet.topic)
            member = Scripted(controllers, "g", "m1", fleet.topic)
            member.registers()
            assert len(member.own) == 4
            assert member.commits(7) == {0}
            before = controllers.controller_of("g", patiently())

            processes[str(before)].kill()
            assert member.beats() == 0
            after = controllers.controller_of("g", patiently())
            assert after != before
            [found] = controllers.described(["g"], patiently())
            assert found["Generation"] == member.generation
            assert found["Owners"] == [
                {**one, "ConsumerId": "m1", "Offset": 7} for one in member.own
            ]
            assert member.commits(8) == {0}
            member.leaves()
            with pytest.raises(RequestRefused, match=r":\d+: ListGroups group h: .* 69"):
                controllers.controller_of("h", patiently())

        survivor = processes[str(after)]
        survivor.send_signal(signal.SIGTERM)
        assert survivor.wait(30) == 0


def test_any_bytes_leave_a_controller_at_work(kafka_broker: Broker) -> None:
    fleet, counted = Fleet(kafka_broker), Counted()
    with fleet.controller(counted) as address, Controllers(address, "test") as controllers:
        create(controllers, "g", fleet.topic)
        host, _, port = address.rpartition(":")
        for odd in (b"\xff" * 64, b"\0\0\0\x0e\0\x03\0\1" + b"\0" * 10, b"GET / HTTP/1.1\r\n\r\n"):
            with socket.create_connection((host, int(port)), 10) as client:
                client.sendall(odd)
                while client.recv(1000):
                    pass
        member = Scripted(controllers, "g", "m1", fleet.topic)
        member.registers()
        member.leaves()
        assert counted.requests["RegisterConsumer INVALID_REQUEST"] == 1
        assert counted.requests["CreateGroup NONE"] == 1
        assert counted.events["GroupCreated True"] == 1
        until(lambda: len(counted.served) == 16)
    assert not counted.served


@pytest.mark.night
def test_a_record_too_large_for_the_log_is_refused_and_reported_once(kafka_broker: Broker) -> None:
    fleet, counted = Fleet(kafka_broker), Counted()
    fleet.cluster.create_topic(fleet.groups_topic, 16, 1, {"max.message.bytes": "4000"})
    wishes = {"ConsumerGroup": "g", "ConsumerId": "m1", "Generation": -1, "Static": []}
    wishes |= {"Topics": [f"topic-{number}" for number in range(400)], "Held": [], "Positions": []}
    with fleet.controller(counted) as address, Controllers(address, "test") as controllers:
        create(controllers, "g", fleet.topic)
        for _ in range(2):
            answer, _ = controllers.asked("RegisterConsumer", "g", wishes, patiently())
            assert answer.code is ErrorCode.MESSAGE_TOO_LARGE
        Scripted(controllers, "g", "m2", fleet.topic).registers()
    [sentence] = counted.notes
    assert sentence.startswith("group g: MemberRegistered has ")
    assert f"{fleet.groups_topic} takes 2,976: it is not appended" in sentence
    assert counted.events["ControllerStarted True"] == 16


@pytest.mark.night
def test_a_client_uses_the_groups_of_its_certificate_and_no_other(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    ours, fleet = trustme.CA(), Fleet(kafka_broker)
    ours.cert_pem.write_to_path(str(tmp_path / "ca"))
    server = ours.issue_cert("localhost")
    server.private_key_pem.write_to_path(str(tmp_path / "key"))
    server.cert_chain_pems[0].write_to_path(str(tmp_path / "cert"))
    table = tmp_path / "table.toml"
    table.write_text('[[client]]\nsubject = {CN = "worker"}\ngroups = ["g*"]\n')
    client = ssl.create_default_context()
    ours.configure_trust(client)
    ours.issue_cert("member", common_name="worker").configure_cert(client)
    tls = server_context(tmp_path / "cert", tmp_path / "key", tmp_path / "ca")
    with (
        fleet.controller(tls=tls, host="localhost", permissions=permissions_of(table)) as address,
        Controllers(f"localhost:{address.rpartition(':')[2]}", "test", tls=client) as controllers,
    ):
        create(controllers, "g", fleet.topic)
        body = {"ConsumerGroups": ["other"], "Describe": 0}
        answer, _ = controllers.asked_any("ListGroups", body, patiently())
        assert answer.code is ErrorCode.GROUP_AUTHORIZATION_FAILED
        [listed] = controllers.described([], patiently())
        assert listed["GroupName"] == "g"


def claims(fleet: Fleet) -> list[ListedClaim]:
    """Those of the controllers, as `marshal ls` shows them."""
    with View(settings_of(fleet.bootstrap), fleet.coordination, RULES, group=CONTROLLERS) as view:
        for _ in view.changes(view.ends):
            pass
        return view.rows(0, CONTROLLERS, {})


def test_a_stop_gives_the_claims_back(kafka_broker: Broker) -> None:
    fleet, counted = Fleet(kafka_broker), Counted()
    with fleet.controller() as first, Controllers(first, "test") as controllers:
        create(controllers, "g", fleet.topic)
    assert Counter(row.state for row in claims(fleet)) == {"free": 16}
    with fleet.controller(counted) as second, Controllers(second, "test") as controllers:
        Scripted(controllers, "g", "m1", fleet.topic).registers()
        assert counted.events["GroupCreated True"] == 1


def test_a_controller_begins_to_read_at_the_last_snapshots(
    kafka_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    often = partial(ServerSettings, snapshot_events=5)
    monkeypatch.setattr("kafka_marshal.client.groups.controller.ServerSettings", often)
    fleet, counted = Fleet(kafka_broker), Counted()
    with fleet.controller() as first, Controllers(first, "test") as controllers:
        create(controllers, "g", fleet.topic)
        member = Scripted(controllers, "g", "m1", fleet.topic)
        member.registers()
        for offset in range(12):
            assert member.commits(offset) == {0}
        until(lambda: any(row.position for row in claims(fleet)))
    with fleet.controller(counted) as second, Controllers(second, "test") as controllers:
        member.controllers = controllers
        assert member.commits(99) == {0}
    assert counted.events["GroupSnapshot True"]
    assert not counted.events["GroupCreated True"]


def test_any_controller_takes_a_new_group_and_has_the_right_one_create_it(
    kafka_broker: Broker,
) -> None:
    fleet, here, there = Fleet(kafka_broker), Counted(), Counted()
    with fleet.controller(here) as first, fleet.controller(there) as second:
        until(lambda: here.served and there.served and len(here.served | there.served) == 16)
        partition = min(there.served)
        names = (f"g{number}" for number in range(1_000))
        name = next(one for one in names if coordinating_partition(one, 16) == partition)
        with Controllers(first, "test") as controllers:
            create(controllers, name, fleet.topic)
            assert str(controllers.controller_of(name, patiently())) == second
    assert here.requests["CreateGroup NONE"] == there.requests["CreateGroup NONE"] == 1


def test_a_log_with_another_number_of_partitions_is_refused(kafka_broker: Broker) -> None:
    fleet = Fleet(kafka_broker)
    fleet.cluster.create_topic(fleet.groups_topic, 3, 1, {})
    with pytest.raises(BrokerFailed, match=f"topic {fleet.groups_topic} has 3 partitions"):
        fleet.controller().__enter__()


def test_nobody_there_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with Controllers(f"127.0.0.1:{port}", "test") as controllers:
            deadline = controllers.environment.deadline(0.2)
            with pytest.raises(ServerUnreachable, match=f"127.0.0.1:{port}: Connection refused"):
                controllers.controller_of("g", deadline)

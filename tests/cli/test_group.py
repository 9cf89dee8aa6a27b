"""Marshal promises that a person sees and changes groups by commands that say what is wrong."""

from __future__ import annotations

import json
import socket
import ssl
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from subprocess import PIPE, Popen
from threading import Thread

import pytest
import trustme

from kafka_marshal.client.groups.connection import Controllers
from kafka_marshal.testing import Broker
from tests.cli.run import marshal
from tests.client.groups.controllers import Fleet, Scripted


@pytest.fixture(scope="module")
def fleet(kafka_broker: Broker) -> Fleet:
    return Fleet(kafka_broker, partitions=2)


@pytest.fixture(scope="module")
def at(fleet: Fleet) -> Iterator[str]:
    with fleet.controller() as address:
        yield address


def group(at: str, *arguments: str) -> tuple[int, str]:
    """Exit code, and what it printed."""
    ran = marshal("group", *arguments, MARSHAL_CONTROLLERS=at)
    return ran.returncode, ran.stdout + ran.stderr


def test_a_group_is_created_described_rewound_and_deleted(fleet: Fleet, at: str) -> None:
    topic = fleet.topic
    is_there = f"group bills is there; its controller is {at}\n"
    assert group(at, "create", "bills", topic) == (0, is_there)
    assert group(at, "create", "bills", topic) == (0, is_there)
    code, said = group(at, "create", "bills", topic, "--strategy", "range")
    assert (code, said) == (
        2,
        f"marshal: {at}: CreateGroup group bills of {topic}: The group exists with other "
        "settings. (INCONSISTENT_GROUP_PROTOCOL, 23)\n",
    )
    with Controllers(at, "test") as controllers:
        member = Scripted(controllers, "bills", "m1", topic)
        member.registers()
        code, said = group(at, "members", "bills")
        assert code == 0
        assert said.splitlines()[0] == "bills: stable"
        assert said.splitlines()[-1].split() == ["m1", "2", f"{topic}:", "0,", "1"]
        code, said = group(at, "delete", "bills", "nobodys")
        assert code == 1
        assert "DeleteGroup group bills: The group has members. (NON_EMPTY_GROUP, 68)" in said
        assert "group nobodys: There is no such group. (GROUP_ID_NOT_FOUND, 69)" in said
        code, said = group(at, "rewind", "bills", f"{topic}:1=5")
        assert (code, said.splitlines()[1].split()) == (0, [f"{topic}:1", "5"])
        member.leaves()
    code, said = group(at, "describe", "bills")
    assert code == 0
    assert said.splitlines()[1] == "0 members, 2 partitions, 2 without an owner"
    assert [line.split()[::3] for line in said.splitlines()[4:]] == [
        [f"{topic}:0", "none"],
        [f"{topic}:1", "5"],
    ]
    code, said = group(at, "list", "--json")
    [found] = map(json.loads, said.splitlines())
    assert (code, found["GroupName"], found["State"]) == (0, "bills", "Empty")
    assert group(at, "list")[1].splitlines()[2].split()[:5] == ["bills", "empty", "0", "0", "of"]
    assert group(at, "delete", "bills") == (0, "group bills is deleted\n")
    assert group(at, "list") == (0, "0 groups\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("describe", "nix"), "{at}: ListGroups group nix: There is no such group."),
        (("create", "g", "t", "--strategy", "x"), "--strategy must be one of range, round_robin"),
        (("create", "g", "no-such-topic"), "{at}: CreateGroup group g of no-such-topic: There is"),
        (("rewind", "g", "t"), "'t' must be TOPIC[:PARTITION]=WHERE; WHERE is an offset, earliest"),
        (("list", "--controller", "x"), "--controller must be host:port, not 'x'"),
        (
            ("list", "--controller", "127.0.0.1:1", "--timeout", "0.05"),
            "no controller can be reached: 127.0.0.1:1: Connection refused",
        ),
        (("list", "--tls-ca", "nowhere"), "--tls-ca nowhere: No such file or directory"),
    ],
)
def test_a_mistake_is_one_sentence(at: str, arguments: tuple[str, ...], said: str) -> None:
    code, found = group(at, *arguments)
    assert code == 2
    assert found.startswith("marshal: " + said.format(at=at))
    assert found.count("\n") == 1


@pytest.mark.parametrize("arguments", [("describe", "g"), ("create", "g", "t")])
def test_a_port_of_kafka_is_named_at_once(kafka_broker: Broker, arguments: tuple[str, ...]) -> None:
    at = kafka_broker.bootstrap
    assert group(at, *arguments, "--timeout", "1h") == (
        2,
        f"marshal: {at} is a broker of Kafka: name the address at which `marshal controller` "
        "listens\n",
    )


def test_that_nobody_listens_is_noted_while_it_is_tried_again() -> None:
    begins = [sys.executable, "-m", "kafka_marshal.cli", "group", "list", "--timeout", "1h"]
    with Popen([*begins, "--controller", "127.0.0.1:1"], stderr=PIPE, text=True) as command:
        assert command.stderr is not None
        assert command.stderr.readline() == (
            "Note: no controller can be reached: 127.0.0.1:1: Connection refused; trying again "
            "for 1h\n"
        )
        command.terminate()


@contextmanager
def serving(serve: Callable[[socket.socket], object]) -> Iterator[str]:
    """A server that does this with each connection; its address."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accepts() -> None:
            with suppress(OSError):  # it is closed
                while True:
                    accepted, _ = server.accept()
                    with accepted, suppress(OSError):
                        serve(accepted)

        Thread(target=accepts, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"


def page(accepted: socket.socket) -> None:
    accepted.recv(100)
    accepted.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def test_what_else_listens_there_is_named() -> None:
    its = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("localhost").configure_cert(its)
    hides = partial(its.wrap_socket, server_side=True)
    for serve, said in ((page, "speaks HTTP, as metrics do: "), (hides, "expects TLS: add --tls")):
        with serving(serve) as at, Controllers(at, "test") as controllers:
            assert (controllers.strangers() or "").startswith(f"{at} {said}")
    with serving(lambda accepted: accepted.recv(1)) as at, Controllers(at, "test") as controllers:
        assert controllers.strangers() is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--listen", "x"), "--listen must be host:port, not 'x'"),
        (
            ("--listen", "0.0.0.0:1", "--bootstrap", "127.0.0.1:1"),
            "--listen 0.0.0.0:1 is no address that clients can connect to: add --advertise",
        ),
        (("--tls-cert", "c"), "--tls-cert and --tls-key must be given together"),
        (("--tls-cert", "c", "--tls-key", "k"), "--tls-cert c: there is no such file"),
        (("--tls-client-ca", "c"), "--tls-client-ca and --tls-ca need --tls-cert and --tls-key"),
        (("--tls-permissions", "p"), "--tls-permissions needs --tls-client-ca: otherwise"),
        ((), "no cluster given: use --bootstrap HOST:PORT or MARSHAL_BOOTSTRAP, or set"),
        (("--metrics", "x"), "--metrics must be PORT or HOST:PORT, not 'x'"),
    ],
)
def test_a_controller_that_cannot_start_says_why(
    arguments: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    at = {"MARSHAL_BOOTSTRAP": "127.0.0.1:1"} if "--metrics" in arguments else {}
    ran = marshal("controller", *arguments, cwd=tmp_path, **at)
    assert ran.returncode == 2
    assert ran.stderr.startswith("marshal: " + said)
    assert ran.stderr.count("\n") == 1

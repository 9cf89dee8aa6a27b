"""Marshal promises that the links of a chaos run fail as commanded."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tools.chaos.proxy import Direction, LinkFault, Proxy

SOON_S = 0.2
"""Longer than a byte needs on this machine."""
LATE_S = 20.0
TO, FROM = ((one,) for one in Direction)


class Echo:
    """A server that answers what it gets."""

    def __init__(self) -> None:
        self.got = b""
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            connection, _ = self._socket.accept()
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        try:
            while data := connection.recv(65536):
                self.got += data
                connection.sendall(data)
        except OSError:
            pass


@pytest.fixture
def echo() -> Echo:
    return Echo()


@contextmanager
def in_front(echo: Echo) -> Iterator[Proxy]:
    with Proxy([1, 2], lambda _: echo.port, {"me": os.getpid()}) as proxy:
        yield proxy


def connect(proxy: Proxy, broker: int = 1) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.ports[broker]), timeout=LATE_S)


def says(link: socket.socket, data: bytes = b"hello") -> float:
    """The answer comes; after how many seconds."""
    began = time.monotonic()
    link.sendall(data)
    got = b""
    while len(got) < len(data):
        got += link.recv(65536)
    assert got == data
    return time.monotonic() - began


def silent(link: socket.socket) -> bool:
    """Nothing comes, and the connection stays open."""
    link.settimeout(SOON_S)
    try:
        return link.recv(1) == b"never"
    except TimeoutError:
        return True
    finally:
        link.settimeout(LATE_S)


def closed(link: socket.socket) -> bool:
    """It is, in order or not."""
    try:
        return link.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("directions", [TO, FROM, tuple(Direction)])
def test_what_is_cut_passes_when_the_link_is_mended(
    echo: Echo, directions: tuple[Direction, ...]
) -> None:
    fault = LinkFault(broker=1, directions=directions, cut=True)
    with in_front(echo) as proxy, connect(proxy) as link, connect(proxy, 2) as other:
        says(link)
        proxy.begin(fault)
        echo.got = b""
        link.sendall(b"lost?")
        assert silent(link)
        assert echo.got == (b"lost?" if directions == FROM else b"")
        says(other)
        proxy.end(fault)
        assert link.recv(5) == b"lost?"
        says(link)


def test_a_connection_that_is_made_while_the_link_is_cut_waits(echo: Echo) -> None:
    fault = LinkFault(cut=True)
    with in_front(echo) as proxy:
        proxy.begin(fault)
        with connect(proxy) as link:
            link.sendall(b"hello")
            assert silent(link)
            proxy.end(fault)
            assert link.recv(5) == b"hello"


def test_a_delay_is_as_long_as_it_says_and_does_not_add_up(echo: Echo) -> None:
    with in_front(echo) as proxy, connect(proxy) as link:
        proxy.begin(LinkFault(directions=TO, delay_s=0.3))
        began = time.monotonic()
        for _ in range(5):
            link.sendall(b"x")
            time.sleep(0.01)
        got = b""
        while len(got) < 5:
            got += link.recv(5)
        assert 0.3 <= time.monotonic() - began < 5 * 0.3


def test_a_slow_link_takes_its_time(echo: Echo) -> None:
    with in_front(echo) as proxy, connect(proxy) as link:
        assert says(link, b"x" * 20_000) < 0.4
        proxy.begin(LinkFault(directions=FROM, bytes_per_s=50_000))
        assert says(link, b"x" * 20_000) >= 0.4


def test_a_reset_is_one(echo: Echo) -> None:
    with in_front(echo) as proxy, connect(proxy) as link, connect(proxy, 2) as other:
        says(link)
        says(other)
        assert proxy.reset(broker=1) == 1
        with pytest.raises(ConnectionResetError):
            link.recv(1)
        says(other)
        with connect(proxy) as again:
            says(again)


def test_a_broker_that_is_gone_closes_the_connection(echo: Echo) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = taken.getsockname()[1]
    with Proxy([1], lambda _: nobody, {}) as proxy:
        try:
            link = connect(proxy)
        except ConnectionResetError:
            return  # it was closed before `connect` had looked
        with link:
            assert closed(link)


CHILD = """
import socket, sys
family, host = ((socket.AF_INET, ""), (socket.AF_INET6, "::ffff:"))[int(sys.argv[2])]
link = socket.socket(family)
link.settimeout(20)
link.connect((f"{host}127.0.0.1", int(sys.argv[1])))
link.sendall(b"hello")
print(link.recv(5).decode(), flush=True)
link.sendall(b"again")
print(link.recv(5).decode(), flush=True)
"""


@pytest.mark.parametrize("ipv6", [0, 1])
def test_one_process_is_cut_off_and_others_are_not(echo: Echo, ipv6: int) -> None:
    """Java connects from a socket of IPv6."""
    known = {"me": os.getpid()}
    fault = LinkFault(peer="child", cut=True)
    with Proxy([1], lambda _: echo.port, known) as proxy, connect(proxy) as mine:
        says(mine)
        proxy.begin(fault)
        with subprocess.Popen(
            [sys.executable, "-c", f"input();{CHILD}", str(proxy.ports[1]), str(ipv6)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as child:
            assert child.stdin is not None
            assert child.stdout is not None
            known["child"] = child.pid
            child.stdin.write("\n")
            child.stdin.flush()
            deadline = time.monotonic() + LATE_S
            while "child" not in proxy.peers():
                assert time.monotonic() < deadline
                time.sleep(0.01)
            says(mine)
            proxy.end(fault)
            assert child.stdout.read().split() == ["hello", "again"]

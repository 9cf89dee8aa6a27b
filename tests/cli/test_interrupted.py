"""Ctrl-C: what was not sent is not done, and the command says which of the two it is.

The signal comes from within the process, at a place that is chosen: so no test waits for a moment.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools.runs.by_day import sampled

from kafka_marshal.admin.view import View
from kafka_marshal.testing import Broker
from tests.cli.run import CAPTURES
from tests.client.hands import Hands

READING = """
import os, signal
from kafka_marshal.cli import main
from kafka_marshal.admin.view import View

changes = View.changes

def interrupted(self, *arguments):
    for number, batch in enumerate(changes(self, *arguments)):
        for _ in range({signals} if number == 0 else 0):
            os.kill(os.getpid(), signal.{kind})
        yield batch

View.changes = interrupted
main()
"""
SENDING = """
import os, signal
from kafka_marshal.cli import main
from kafka_marshal.client.connect import log_writer as log

append = log.LogWriter.append

def interrupted(self, *arguments):
    log.LogWriter.append = append  # the first time alone
    sent = append(self, *arguments)
    sent.result(30)
    for _ in range({signals}):
        os.kill(os.getpid(), signal.{kind})
    return sent

log.LogWriter.append = interrupted
main()
"""


@pytest.fixture
def hands(kafka_broker: Broker) -> Iterator[Hands]:
    with Hands(kafka_broker) as hands:
        yield hands


def run(
    script: str, *arguments: str, signals: int = 1, kind: str = "SIGINT"
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script.format(signals=signals, kind=kind), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def look(hands: Hands) -> View:
    with View(hands.settings, hands.topic) as view:
        return view.read()


# By day one of both signals: a process ends of either in the same way.
BY_DAY_SIGINT = pytest.mark.parametrize("kind", sampled(["SIGINT", "SIGTERM"], 2))
BY_DAY_SIGTERM = pytest.mark.parametrize("kind", sampled(["SIGTERM", "SIGINT"], 2))


@BY_DAY_SIGTERM
def test_a_set_position_that_is_called_off_while_it_reads_sends_nothing(
    hands: Hands, kind: str
) -> None:
    topic = hands.data(messages=10)
    hands.wins("g", topic, 0)
    ran = run(READING, "set-position", "g", f"{topic}=5", *hands.options, kind=kind)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.splitlines() == [
        "marshal: calling off; a second Ctrl-C does not wait for the log",
        "marshal: cancelled; nothing was sent",
    ]
    assert look(hands).records == 1


def test_a_second_interrupt_ends_a_set_position_at_once(hands: Hands) -> None:
    topic = hands.data(messages=10)
    hands.wins("g", topic, 0)
    ran = run(READING, "set-position", "g", f"{topic}=5", *hands.options, signals=2)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.splitlines()[1:] == [
        "marshal: nothing more is sent; marshal ls and marshal groups show the state",
        "marshal: interrupted",
    ]
    assert look(hands).records == 1


def test_a_set_position_that_has_paused_the_group_ends_the_pause(hands: Hands) -> None:
    topic = hands.data(messages=10)
    hands.wins("g", topic, 0)
    ran = run(SENDING, "set-position", "g", f"{topic}=5", *hands.options)
    assert ran.returncode == 1, ran.stderr
    assert "set: 0 of 1: it was called off" in ran.stdout
    [row] = look(hands).rows(time.time_ns() // 1_000_000, "g")
    assert (row.position, row.state) == (0, "free")


def test_a_pause_that_is_interrupted_while_it_reads_sends_nothing(hands: Hands) -> None:
    hands.wins("g", hands.data(), 0)
    ran = run(READING, "pause", "g", "--for", "10m", *hands.options)
    assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", "marshal: interrupted\n")
    assert look(hands).records == 1


def test_a_pause_that_is_interrupted_after_sending_says_where_to_look(hands: Hands) -> None:
    hands.wins("g", hands.data(), 0)
    ran = run(SENDING, "pause", "g", "--for", "10m", *hands.options)
    assert (ran.returncode, ran.stdout) == (2, "")
    said = "interrupted; records that were sent may take effect: marshal groups shows the state"
    assert ran.stderr == f"marshal: {said}\n"


def test_whoever_only_looks_stops_in_order(hands: Hands) -> None:
    hands.wins("g", hands.data(), 0)
    ran = run(READING, "ls", "g", *hands.options)
    assert (ran.returncode, ran.stderr) == (2, "marshal: interrupted\n")


SILENT = """
import os, signal, threading
from kafka_marshal.admin.view import View
from kafka_marshal.cli import main
from kafka_marshal.errors import BrokerFailed

def asked(*_):  # a call in C keeps its thread from signal handlers
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.{kind}])
    os.kill(os.getpid(), signal.{kind})
    threading.Event().wait(3)
    raise BrokerFailed("no answer")

View.data_ends = asked
main()
"""


@pytest.mark.parametrize(("json", "kind"), [((), "SIGINT"), (("--json",), "SIGTERM")])
def test_a_live_view_ends_well_at_once_while_a_broker_is_silent(
    hands: Hands, json: tuple[str, ...], kind: str
) -> None:
    hands.wins("g", hands.data(), 0)
    ran = run(SILENT, "ls", "g", *hands.options, "--watch", *json, kind=kind)
    assert (ran.returncode, ran.stderr) == (0, "")
    ran = run(SILENT, "ls", "g", *hands.options, *json, kind=kind)
    assert (ran.returncode, ran.stderr) == (2, "marshal: interrupted\n")


@pytest.mark.parametrize(
    ("command", "number", "code"),
    [
        (("list",), signal.SIGINT, 2),
        (("list", "--watch"), signal.SIGTERM, 0),
        (("describe", "g", "--watch", "--json"), signal.SIGINT, 0),
    ],
)
def test_a_live_view_of_groups_ends_well_at_once_while_a_controller_is_silent(
    command: tuple[str, ...], number: signal.Signals, code: int
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as controller:
        at = f"127.0.0.1:{controller.getsockname()[1]}"
        asks = [sys.executable, "-m", "kafka_marshal.cli", "group", *command, "--controller", at]
        with subprocess.Popen(asks, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
            asked, _ = controller.accept()
            with asked:
                asked.recv(1)  # it waits for the answer now
                running.send_signal(number)
                try:
                    _, complaint = running.communicate(timeout=10)  # before it gives up by itself
                finally:
                    running.kill()
    assert (running.returncode, complaint) == (code, b"marshal: interrupted\n" if code else b"")


IMPORTING = """
import kafka_marshal.cli.app
from kafka_marshal.cli import main

def imports(arguments):
    exec("import os, signal; os.kill(os.getpid(), signal.SIGINT)")

kafka_marshal.cli.app.app_of = imports
main()
"""


def test_an_interrupt_while_text_is_executed_ends_a_command_as_everywhere(tmp_path: Path) -> None:
    """Dataclasses and named tuples execute text whenever the module that has them is imported.

    `python -m` then ended by the signal itself, though the interrupt had been caught.
    """
    (tmp_path / "importing.py").write_text(IMPORTING)
    ended = subprocess.run(
        [sys.executable, "-m", "importing"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (2, "marshal: interrupted\n")


STARTING = """
import os, signal, sys
from kafka_marshal.cli import main

class Finder:
    def find_spec(self, name, *_):
        if name == "typer":
            os.kill(os.getpid(), signal.{kind})

sys.meta_path.insert(0, Finder())
main()
"""


@pytest.mark.parametrize("kind", ["SIGINT", "SIGTERM"])
def test_an_interrupt_while_a_command_is_still_imported_ends_it_as_everywhere(kind: str) -> None:
    ran = run(STARTING, "replay", "nowhere", kind=kind)
    assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", "marshal: interrupted\n")


REPLAYING = """
import os, signal
from kafka_marshal.cli import main
from kafka_marshal.replay import api

def interrupted(*_):  # the log is folded, and the output is not there yet
    os.kill(os.getpid(), signal.{kind})

api.check_protocol = interrupted
main()
"""


@BY_DAY_SIGINT
def test_a_replay_that_is_interrupted_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    capture = CAPTURES / "d3_late_heartbeat_theft.jsonl"
    ran = run(REPLAYING, "replay", str(capture), "--out", str(tmp_path / "out"), kind=kind)
    assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", "marshal: interrupted\n")
    assert list(tmp_path.iterdir()) == []


CONTROLLING = """
import asyncio, os, signal, threading
from kafka_marshal.cli import main
from kafka_marshal.client.groups.controller import ControllerService

def interrupt():
    os.kill(os.getpid(), signal.{kind})

def connects(self, *arguments):
    if {signals} == 1:
        interrupt()
        raise SystemExit(7)

def serves(self, stopped, listening):
    async def stops():
        loop = asyncio.get_running_loop()
        assert not stopped()
        interrupt()
        assert stopped()
        closes = loop.run_in_executor(None, threading.Event().wait, 40)
        loop.call_soon(interrupt)
        await closes
    asyncio.run(stops())

ControllerService.__init__, ControllerService.run = connects, serves
main()
"""
NO_BROKER = ("--bootstrap", "127.0.0.1:1")


@BY_DAY_SIGINT
def test_a_controller_that_is_interrupted_while_it_connects_ends_at_once(kind: str) -> None:
    ran = run(CONTROLLING, "controller", *NO_BROKER, kind=kind)
    assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", "marshal: interrupted\n")


@BY_DAY_SIGTERM
def test_a_second_interrupt_ends_a_controller_though_a_thread_gives_claims_back(kind: str) -> None:
    began_s = time.monotonic()
    ran = run(CONTROLLING, "controller", *NO_BROKER, signals=2, kind=kind)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.splitlines() == [
        "marshal: stopping: giving the claims back; a second Ctrl-C ends it at once",
        "marshal: its claims become stale, and others take over after 2 s",
        "marshal: interrupted",
    ]
    assert time.monotonic() - began_s < 30

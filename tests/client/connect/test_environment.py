"""Everything from outside comes through `client.connect.environment`; no thread dies in silence."""

from __future__ import annotations

import ast
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import kafka_marshal.client
from kafka_marshal.client.connect.environment import REAL

PACKAGE = Path(kafka_marshal.client.__file__).parent.parent
FILES = sorted(path for room in ("client", "admin") for path in (PACKAGE / room).rglob("*.py"))
OURSELVES = (
    "client/connect/environment.py",
    "client/connect/threads.py",
    "client/observe/metrics.py",  # the application makes it, and a server of its own reads it
    "admin/doctor/broker_clocks.py",
    "admin/trial.py",
)
CLOCKS = {
    *(f"time.{name}" for name in ("monotonic", "perf_counter", "sleep", "time")),
    *(f"time.{name}_ns" for name in ("monotonic", "perf_counter", "time")),
    *(f"datetime.{name}" for name in ("now", "today", "utcnow")),
}
"""Also where they are not called, but given on."""
THREADING = ("Thread", "Timer", "Lock", "RLock", "Condition", "Event", "Semaphore", "Barrier")
KAFKA = ("Consumer", "Producer", "AdminClient")
QUEUES = ("SimpleQueue", "Queue", "LifoQueue", "PriorityQueue")
OUTSIDE = {
    *(f"{module}{name}" for name in THREADING for module in ("threading.", "")),
    *(f"{module}{name}" for name in QUEUES for module in ("queue.", "")),
    *KAFKA,
}


def calls(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)


def imported_from_kafka(tree: ast.AST) -> set[str]:
    return {
        name.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("confluent_kafka")
        for name in node.names
    }


def reaches_outside(text: str) -> list[str]:
    """What of a module starts a thread, makes a client of Kafka or looks at a clock by itself."""
    tree = ast.parse(text)
    clients = imported_from_kafka(tree)
    found = set(calls(tree)) & OUTSIDE
    clocks = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    threads = {each for each in found if each not in KAFKA or each in clients}
    return sorted(threads | clocks & CLOCKS | clocks_imported(tree))


def clocks_imported(tree: ast.AST) -> set[str]:
    return {
        f"time.{name.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "time"
        for name in node.names
    }


def test_threads_clients_of_kafka_and_clocks_come_from_the_environment() -> None:
    # No consumer calls the doctor's probe, which measures this machine's own clock, nor what makes
    # a topic to try with.
    for path in FILES:
        if str(path.relative_to(PACKAGE)) not in OURSELVES:
            assert reaches_outside(path.read_text(encoding="utf-8")) == [], path


LOOP = [PACKAGE / "client" / "coordinate" / f"{name}.py" for name in ("consumer_loop", "ownership")]


def waits_or_asks(text: str) -> list[str]:
    """What of a module is not the same whenever it is called: clocks, threads, queues, chance."""
    names = {node.attr for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute)}
    imported = {
        name.name.split(".")[0]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import)
        for name in node.names
    } | {str(node.module) for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)}
    asks = {"environment", "monotonic", "steady_ms", "unix_ms", "sleep", "join", "acquire"}
    return sorted(names & asks | imported & {"threading", "time", "queue", "random", "uuid"})


@pytest.mark.parametrize("path", LOOP, ids=lambda path: path.stem)
def test_the_loop_asks_no_clock_and_waits_for_nothing(path: Path) -> None:
    assert waits_or_asks(path.read_text(encoding="utf-8")) == []


def test_a_loop_that_asks_a_clock_is_found() -> None:
    assert waits_or_asks("now = self._log.settings.environment.steady_ms()") == [
        "environment",
        "steady_ms",
    ]
    assert waits_or_asks("import queue") == ["queue"]


def test_every_room_is_looked_at() -> None:
    rooms = {path.parent.name for path in FILES}
    found = {path.name for room in ("client", "admin") for path in (PACKAGE / room).iterdir()}
    assert rooms - {"client", "admin"} == {name for name in found if "." not in name} - {
        "__pycache__"
    }
    assert {str(path.relative_to(PACKAGE)) for path in FILES} >= set(OURSELVES)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("time.sleep(1)", "time.sleep"),
        ("Pace(time.monotonic)", "time.monotonic"),
        ("from time import monotonic as now", "time.monotonic"),
        ("at = datetime.now(UTC)", "datetime.now"),
    ],
)
def test_a_module_that_looks_at_a_clock_by_itself_is_found(text: str, found: str) -> None:
    assert reaches_outside(text) == [found]


def test_a_module_that_starts_a_thread_by_itself_is_found() -> None:
    assert reaches_outside("threading.Thread(target=run).start()") == ["threading.Thread"]
    text = "from confluent_kafka import Producer\nProducer({})"
    assert reaches_outside(text) == ["Producer"]


def test_what_ends_a_thread_is_heard() -> None:
    heard: list[BaseException] = []
    said = threading.Event()

    def failed(error: BaseException) -> None:
        heard.append(error)
        said.set()

    def dies() -> None:
        raise ZeroDivisionError

    REAL.start("marshal-test", dies, failed)
    assert said.wait(10)
    assert isinstance(heard[0], ZeroDivisionError)

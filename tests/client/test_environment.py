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
OURSELVES = ("client/connect/environment.py", "admin/doctor/broker_clocks.py", "admin/trial.py")
OUTSIDE = {
    "threading.Thread",
    "threading.Timer",
    "Thread",
    "Timer",
    "Consumer",
    "Producer",
    "AdminClient",
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
    """What of a module's calls starts a thread or makes a client of Kafka by itself."""
    tree = ast.parse(text)
    clients = imported_from_kafka(tree)
    found = set(calls(tree)) & OUTSIDE
    return sorted(each for each in found if "Thread" in each or "Timer" in each or each in clients)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_threads_and_clients_of_kafka_come_from_the_environment(path: Path) -> None:
    # No consumer calls the doctor's probe, which measures this machine's own clock, nor what makes
    # a topic to try with.
    if str(path.relative_to(PACKAGE)) not in OURSELVES:
        assert reaches_outside(path.read_text(encoding="utf-8")) == []


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

    REAL.start("marshal-test", lambda: 1 / 0, failed)  # type: ignore[arg-type]
    assert said.wait(10)
    assert isinstance(heard[0], ZeroDivisionError)

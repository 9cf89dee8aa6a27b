"""Everything from outside comes through `runtime.environment`; no thread dies in silence."""

from __future__ import annotations

import ast
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import kafka_marshal.runtime
from kafka_marshal.runtime.environment import REAL

ROOM = Path(kafka_marshal.runtime.__file__).parent
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


@pytest.mark.parametrize("path", sorted(ROOM.rglob("*.py")), ids=lambda path: path.name)
def test_threads_and_clients_of_kafka_come_from_the_environment(path: Path) -> None:
    # The doctor's probe measures this machine's own clock; no consumer calls it.
    if path not in (ROOM / "environment.py", ROOM / "clocks.py"):
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

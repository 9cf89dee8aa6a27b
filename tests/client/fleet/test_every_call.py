"""Simulated applications make every public call of a consumer, or here is the reason why not.

A call that is new to the client fails here until a simulated application makes it, too.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from kafka_marshal import AsyncConsumer, Consumer

SIMULATE: Final = Path(__file__).parents[3] / "tools" / "simulate"
CALLERS: Final = ("applications.py", "process.py", "world.py", "faults/processes.py")
"""Where applications are, and what makes them call."""

LOOKS: Final = "It looks, and changes nothing; tests/client/api compares it with the log."
IN_A_THREAD: Final = "It makes the same call of the `Consumer` behind it, in a thread."
AT_ONCE: Final = "It makes the same call of the `Consumer` behind it."

NEVER: Final[dict[type, dict[str, str]]] = {
    Consumer: {
        "assignment": LOOKS,
        "lag": LOOKS,
        "position": LOOKS,
        "processing": "`run` calls what it calls, for every message.",
        "remove_topic": "`unsubscribe` removes topics by the same `_remove`.",
        "seek_to_time": "It looks an offset up, and moves there as `seek` does.",
        "redeliver": "Not for applications: `run` calls it.",
        "handling": "Not for applications: `run` calls it.",
        "positions_of": "Not for applications: a controller of groups calls it.",
        "move": "Not for applications: `seek` and a controller of groups call it.",
    },
    AsyncConsumer: {
        **dict.fromkeys(("assignment", "claims", "committed", "lag", "position"), LOOKS),
        **dict.fromkeys(
            (
                "add_topic",
                "pause",
                "release",
                "remove_topic",
                "resume",
                "seek",
                "seek_to_time",
                "unsubscribe",
            ),
            IN_A_THREAD,
        ),
        **dict.fromkeys(("instance_id", "processing", "stop"), AT_ONCE),
        "batches": "A loop takes chunks by the same `_hand`, and ends in the same way.",
        "close": "Leaving the block calls it.",
        "poll": "`consume` waits by the same `_given`, and is cancelled in the same way.",
    },
}
"""By class: the public calls that no simulated application makes, and why."""


def public(of: type) -> set[str]:
    """What applications may call: methods, properties and loops."""
    return {name for name in vars(of) if not name.startswith("_")} | (
        {"__iter__", "__aiter__"} & vars(of).keys()
    )


class Calls(ast.NodeVisitor):
    """The calls of everything that is named `consumer`, by its declared class."""

    def __init__(self) -> None:
        self.found: dict[str, set[str]] = defaultdict(set)
        self._classes: list[set[str]] = [{"Consumer"}]

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        said = [arg.annotation for arg in node.args.args if arg.arg == "consumer"]
        self._classes.append(classes(said[0]) if said and said[0] else self._classes[-1])
        self.generic_visit(node)
        self._classes.pop()

    visit_FunctionDef = visit_AsyncFunctionDef = _function  # noqa: N815

    def _with(self, node: ast.With | ast.AsyncWith) -> None:
        made = [each.context_expr for each in node.items if is_consumer(each.optional_vars)]
        self._classes.append(classes(made[0]) if made else self._classes[-1])
        self.generic_visit(node)
        self._classes.pop()

    visit_With = visit_AsyncWith = _with  # noqa: N815

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if is_consumer(node.value):
            self._note(node.attr)
        self.generic_visit(node)

    def visit_For(self, node: ast.For) -> None:
        if is_consumer(node.iter):
            self._note("__iter__")
        self.generic_visit(node)

    def visit_AsyncFor(self, node: ast.AsyncFor) -> None:
        if is_consumer(node.iter):
            self._note("__aiter__")
        self.generic_visit(node)

    def _note(self, name: str) -> None:
        for each in self._classes[-1]:
            self.found[each].add(name)


def is_consumer(node: ast.AST | None) -> bool:
    """`consumer`, or `process.consumer`."""
    named = isinstance(node, ast.Name) and node.id == "consumer"
    return named or (isinstance(node, ast.Attribute) and node.attr == "consumer")


def classes(node: ast.AST) -> set[str]:
    """The classes that an annotation names, or the one that is made."""
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return names & {"Consumer", "AsyncConsumer"} or {"Consumer"}


def calls(texts: Iterator[str]) -> dict[str, set[str]]:
    found = Calls()
    for text in texts:
        found.visit(ast.parse(text))
    return found.found


@pytest.fixture(scope="module")
def called() -> dict[str, set[str]]:
    return calls((SIMULATE / name).read_text(encoding="utf-8") for name in CALLERS)


@pytest.mark.parametrize("of", NEVER)
def test_simulated_applications_make_every_public_call(
    of: type, called: dict[str, set[str]]
) -> None:
    made = called[of.__name__] & public(of)
    assert sorted(public(of) - made - NEVER[of].keys()) == [], "simulate it, or give the reason"
    assert sorted(made & NEVER[of].keys()) == [], "it is simulated by now"
    assert sorted(NEVER[of].keys() - public(of)) == [], "there is no such call any more"


def test_a_call_counts_for_the_class_that_it_is_made_of() -> None:
    text = """
def loop(consumer: Consumer) -> None:
    for message in consumer:
        consumer.ack(message)

async def both(consumer: Consumer | AsyncConsumer) -> None:
    consumer.stop()

async def main() -> None:
    async with AsyncConsumer(**options) as consumer:
        async for message in consumer:
            await consumer.commit(message)
    process.consumer.pause("orders")
"""
    assert calls(iter([text])) == {
        "Consumer": {"__iter__", "ack", "stop", "pause"},
        "AsyncConsumer": {"__aiter__", "commit", "stop"},
    }

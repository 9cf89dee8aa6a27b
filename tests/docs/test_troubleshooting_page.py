"""docs/troubleshooting.md holds every warning, error class and cause that a user can meet."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from kafka_marshal import Observer
from kafka_marshal.client.observe.health import LateCause, WedgedCause
from kafka_marshal.machines.consumer.effects import Lost

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "marshal" / "kafka_marshal"
PAGE = " ".join((ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8").split())
LOUD = {"logging.WARNING", "logging.ERROR", "level"}
SAYS = {"said", "_on_error", "_say"}
"""Methods that write their argument as a WARNING."""
LOGS = {"warning", "error", "exception"}
"""Methods of a logger."""
AT_A_LEVEL = {"_of", "_write", "_message"}
"""Methods whose first argument is the level."""


@cache
def modules() -> Mapping[str, ast.Module]:
    """Every module of the package. Not read where the tests are collected: six processes do."""
    return {
        str(path.relative_to(PACKAGE)): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def lines() -> Iterator[tuple[str, str]]:
    """Yield where each warning is written, and a stable part of it: up to five words in a row."""
    for name, tree in modules().items():
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef):
                for call in ast.walk(function):
                    if isinstance(call, ast.Call) and (written := sentence(call)) is not None:
                        for text in constants(written, function):
                            yield name, text


def sentence(call: ast.Call) -> ast.expr | None:
    """Return the argument that holds the sentence, if the call writes a warning."""
    if not isinstance(call.func, ast.Attribute):
        return None
    method = call.func.attr
    if method in SAYS:
        expected = any(word.arg == "expected" for word in call.keywords)
        return None if expected or not call.args else call.args[0]
    if method in LOGS and ast.unparse(call.func.value) == "logger":
        return call.args[0]
    if method in AT_A_LEVEL and call.args and ast.unparse(call.args[0]) in LOUD:
        return call.args[2 if method == "_write" else 3]
    return None


def constants(written: ast.expr, function: ast.FunctionDef) -> Iterator[str]:
    """Yield the first words of each form that the sentence may take."""
    if isinstance(written, ast.Name):
        for node in ast.walk(function):
            if isinstance(node, ast.Assign):
                for target, value in assigned(node):
                    if ast.unparse(target) == written.id:
                        yield from constants(value, function)
        return
    parts = [written] if isinstance(written, ast.Constant) else getattr(written, "values", [])
    texts = [str(part.value) for part in parts if isinstance(part, ast.Constant)]
    for text in "%s".join(texts).split("%s"):
        if len(re.findall(r"[a-z]{2,}", text)) > 1:
            yield " ".join(text.strip(" :;,)(").split()[:5])
            return


def assigned(node: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    for target in node.targets:
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            yield from zip(target.elts, node.value.elts, strict=True)
        else:
            yield target, node.value


def errors() -> Mapping[str, str]:
    """Where each exception of the package is defined."""
    found: dict[str, str] = {"Exception": "", "ValueError": ""}
    classes = [
        (node.name, [ast.unparse(base) for base in node.bases], name)
        for name, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    before = -1
    while len(found) > before:
        before = len(found)
        for error, bases, name in classes:
            if any(base in found for base in bases):
                found.setdefault(error, name)
    return {name: where for name, where in found.items() if where}


def checks() -> set[str]:
    """Return the name of each check of `marshal doctor`, where it is written as a constant."""
    found = set()
    for name, tree in modules().items():
        if "admin/doctor/" in name:
            for node in ast.walk(tree):
                if isinstance(node, ast.Call) and ast.unparse(node.func) == "CheckFinding":
                    check = node.args[1]
                    if isinstance(check, ast.Constant):
                        found.add(str(check.value))
    return found


def events() -> set[str]:
    """Return the field `event` of every line of the client that is written as a constant."""
    found: set[ast.expr] = set()
    for name, tree in modules().items():
        for node in ast.walk(tree) if name.startswith("client/") else ():
            if isinstance(node, ast.Dict):
                pairs = zip(node.keys, node.values, strict=True)
                found |= {v for k, v in pairs if k is not None and ast.unparse(k) == "'event'"}
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                found |= set(node.args[1:2]) if node.func.attr in AT_A_LEVEL else set()
    return {str(each.value) for each in found if isinstance(each, ast.Constant)}


def test_every_event_of_a_consumer_is_on_its_page() -> None:
    page = (ROOT / "docs" / "client.md").read_text(encoding="utf-8")
    methods = {name for name in dir(Observer) if not name.startswith("_")}
    observers = page.split("## Observers")[1].split("## Metrics")[0]
    assert methods - set(re.findall(r"`(\w+)\(", observers)) == set()
    listed = methods | set(re.findall(r"`(\w+)`", page.split("## Logs")[1]))
    of_controllers = {"hung_up"}
    assert events() - listed == of_controllers


def test_every_warning_is_on_the_page() -> None:
    every = set(lines())
    assert len(every) > 20
    assert {(where, text) for where, text in every if text not in PAGE} == set()


def test_every_error_is_on_the_page() -> None:
    every = errors()
    assert len(every) > 30
    assert {name: where for name, where in every.items() if f"`{name}`" not in PAGE} == {}


@pytest.mark.parametrize("cause", [*Lost, *WedgedCause, *LateCause])
def test_every_cause_is_on_the_page(cause: Lost | WedgedCause | LateCause) -> None:
    assert f"`{cause.value}`" in PAGE


def test_every_check_of_the_doctor_is_on_the_administrators_page() -> None:
    page = (ROOT / "docs" / "admin.md").read_text(encoding="utf-8")
    assert len(checks()) > 10
    assert {check for check in checks() if f"`{check}`" not in page} == set()

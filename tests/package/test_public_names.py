"""What a user needs is in `kafka_marshal`, and importing it brings what the core needs."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import textwrap
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest

import kafka_marshal

ROOT = Path(__file__).parent.parent.parent
SOURCE = Path(kafka_marshal.__file__).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(kafka_marshal._LATER))
def test_a_name_that_is_imported_later_is_there(name: str) -> None:
    module = import_module(f"kafka_marshal.{kafka_marshal._LATER[name]}")
    assert getattr(kafka_marshal, name) is getattr(module, name)
    assert name in dir(kafka_marshal)


def test_examples_in_the_docstrings_of_public_modules_are_python() -> None:
    examples = {
        name: textwrap.dedent("\n".join(re.findall(r"^    .*", doc, re.MULTILINE)))
        for name in sorted(set(kafka_marshal._LATER.values()))
        if (doc := import_module(f"kafka_marshal.{name}").__doc__ or "")
    }
    given = {name: code for name, code in examples.items() if code and ">>>" not in code}
    assert {"client.api.aio", "client.api.consumer", "client.produce.producer"} <= given.keys()
    for name, code in given.items():
        compile(code, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_every_error_of_the_top_level_is_a_marshal_error() -> None:
    found = {name: getattr(kafka_marshal, name) for name in kafka_marshal._LATER}
    errors = {
        name: one
        for name, one in found.items()
        if isinstance(one, type) and issubclass(one, Exception)
    }
    assert {"HandlerFailed", "LogLost", "ReplayError"} < errors.keys()
    assert [n for n, one in errors.items() if not issubclass(one, kafka_marshal.MarshalError)] == []
    assert (
        import_module("kafka_marshal.client.api.consumer").HandlerFailed is errors["HandlerFailed"]
    )


def test_types_are_checked_against_the_same_modules() -> None:
    [checked] = [node for node in ast.parse(SOURCE).body if isinstance(node, ast.If)]
    seen = {
        name.asname: str(node.module).removeprefix("kafka_marshal.")
        for node in checked.body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    assert seen == kafka_marshal._LATER


def test_the_core_is_imported_without_what_it_does_not_need() -> None:
    asks = "import sys, kafka_marshal; print(*sys.modules, sep='\\n')"
    said = subprocess.run([sys.executable, "-c", asks], capture_output=True, text=True, check=True)
    brought = {name.partition(".")[0] for name in said.stdout.split()}
    assert not brought & {"confluent_kafka", "pyspark", "pyarrow", "numpy", "asyncio"}


def test_the_examples_import_consumers_from_the_top() -> None:
    pages = [ROOT / "README.md", *(ROOT / "examples").glob("*.py"), ROOT / "docs" / "client.md"]
    deep = re.compile(r"from kafka_marshal\.(\S+) import (.*)")
    missed = {
        (page.name, name)
        for page in pages
        for _, names in deep.findall(page.read_text(encoding="utf-8"))
        for name in names.split(", ")
        if name in kafka_marshal._LATER
    }
    assert missed == set()


def test_the_version_is_that_of_the_distribution() -> None:
    assert kafka_marshal.__version__ == version("kafka-marshal")

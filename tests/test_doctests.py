"""Every example in a docstring runs."""

import doctest
import importlib
import pkgutil

import pytest

import kafka_marshal

MODULES = [
    found.name
    for found in pkgutil.walk_packages(kafka_marshal.__path__, "kafka_marshal.")
    if not found.name.endswith("__main__")
]


@pytest.mark.parametrize("name", ["kafka_marshal", *MODULES])
def test_examples_in_docstrings_run(name: str) -> None:
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0


def test_there_are_examples() -> None:
    found = sum(
        len(test.examples)
        for name in ("kafka_marshal", "kafka_marshal.codec", "kafka_marshal.core.reducer")
        for test in doctest.DocTestFinder().find(importlib.import_module(name))
    )
    assert found >= 5

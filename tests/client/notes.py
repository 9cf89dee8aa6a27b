"""An observer that notes what it hears, and a handler of the log that fails."""

from __future__ import annotations

import logging
from typing import Any

from kafka_marshal.client.observe.observers import Observer


def _noting(name: str) -> Any:
    def note(self: Notes, *heard: Any) -> None:
        self.heard.append((name, heard))

    return note


class Notes(Observer):
    """Notes everything but what is processed."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, tuple[Any, ...]]] = []

    def of(self, name: str) -> list[tuple[Any, ...]]:
        """What was heard under this name."""
        return [heard for each, heard in list(self.heard) if each == name]


class FullDisk(logging.Handler):
    """A handler that lets its exceptions through; those of `logging` print them."""

    def emit(self, record: logging.LogRecord) -> None:
        raise OSError(f"no space for {record.getMessage()}")


for _name in vars(Observer):
    if not _name.startswith("_") and _name != "processing":
        setattr(Notes, _name, _noting(_name))

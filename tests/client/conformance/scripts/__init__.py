"""Scripts of calls: functions of a side, each named as what it shows."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from types import ModuleType
from typing import Final

from kafka_marshal.client.connect import admin_client, environment
from tests.client.conformance.scripts import appends, cleaning, failures, fetches, questions, topics
from tests.client.conformance.side import Side

Script = Callable[[Side], None]

ROOMS: Final = (appends, fetches, questions, topics)
ROOMS_ALONE: Final = (cleaning, failures)


def _scripts(*rooms: ModuleType) -> dict[str, Script]:
    return {
        name: script
        for room in rooms
        for name, script in vars(room).items()
        if inspect.isfunction(script)
        and not name.startswith("_")
        and script.__module__ == room.__name__
        and list(inspect.signature(script).parameters) == ["side"]
    }


SCRIPTS: Final = _scripts(*ROOMS)
"""Every script that shares a broker with others, by its name."""
ALONE: Final = _scripts(*ROOMS_ALONE)
"""Scripts that break their broker, or take long."""


def methods_of_the_seam() -> set[tuple[str, str]]:
    """Client and method of all that the shipped client and admin call."""
    found = {
        (protocol.__name__, name)
        for protocol in (environment.FetchClient, environment.LogReader, environment.Appender)
        for name, method in vars(protocol).items()
        if inspect.isfunction(method) and (not name.startswith("_") or name == "__len__")
    }
    called = re.findall(r"self\._admin\.(\w+)\(", inspect.getsource(admin_client))
    return found | {("Admin", name) for name in called}

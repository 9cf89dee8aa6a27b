"""Modules under the names that they had in 0.1.0. Each warns; the next release leaves them out.

A module is resolved when it is imported, so this room costs nothing and knows no other.
"""

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

MOVED: Final = {
    "client.claiming": "machines.consumer.claiming",
    "client.consumer": "machines.consumer.consumer",
    "client.driver": "machines.consumer.driver",
    "client.effects": "machines.consumer.effects",
    "client.member": "machines.consumer.member",
    "replay.account": "replay.fold.partition_fold",
    "replay.live.desk": "replay.live.watch_context",
    "runtime.aio": "client.api.aio",
    "runtime.consumer": "client.api.consumer",
    "runtime.errors": "errors",
    "runtime.logs": "client.observe.logging_observer",
    "runtime.message": "client.message",
    "runtime.metrics": "client.observe.metrics",
    "runtime.observing": "client.observe.observers",
    "runtime.recording": "client.coordinate.recording",
    "runtime.settings": "client.connect.settings",
    "runtime.topic": "client.connect.coordination_topic",
    "runtime.tracing": "client.observe.tracing",
}
"""The names that README and docs gave to users, and where each is now; without `kafka_marshal.`."""

_ROOT: Final = __name__.partition(".")[0]


class _Moved(MetaPathFinder, Loader):
    """Finds what nobody else found: asked last."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        known = name.removeprefix(f"{_ROOT}.") in MOVED and name.startswith(f"{_ROOT}.")
        return ModuleSpec(name, self) if known else None

    def exec_module(self, module: ModuleType) -> None:
        old = module.__name__
        new = f"{_ROOT}.{MOVED[old.removeprefix(f'{_ROOT}.')]}"
        warnings.warn(
            f"{old} is {new} now, and what users need is in {_ROOT} itself; "
            "the old name goes with the next release",
            DeprecationWarning,
            stacklevel=2,
        )
        sys.modules[old] = import_module(new)


sys.meta_path.append(_Moved())

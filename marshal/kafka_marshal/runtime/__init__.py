"""The module and class names of 0.1.0. Importing one warns; the next release removes them.

A module is resolved when it is imported, so this room costs nothing and knows no other.
"""

import sys
import warnings
from collections.abc import Mapping, Sequence
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

RENAMED: Final = {
    "client.consumer": {"Consumer": "ConsumerState", "Me": "InstanceConfig"},
    "client.effects": {"Released": "ReleaseReason"},
    "client.member": {"For": "ClaimEffect", "Me": "InstanceConfig"},
    "replay.account": {"Account": "PartitionFold", "Judging": "JudgingOptions"},
    "replay.live.desk": {
        "Desk": "WatchContext",
        "Watched": "WatchResult",
        "Watching": "WatchOptions",
    },
    "runtime.consumer": {"Counted": "HandlingCounts"},
    "runtime.logs": {"Logs": "LoggingObserver", "Who": "ConsumerIdentity"},
    "runtime.observing": {
        "Late": "LateHeartbeat",
        "Standing": "ClaimProgress",
        "Taken": "Takeover",
    },
    "runtime.topic": {
        "Difference": "TopicDifference",
        "Made": "EnsuredTopic",
        "Wanted": "TopicSpec",
    },
}
"""Classes of these modules that have another name now. The old one is found in the old module."""

_ROOT: Final = __name__.partition(".")[0]


class _Moved(MetaPathFinder, Loader):
    """Finds what nobody else found: asked last."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        root, _, old = name.partition(".")
        return ModuleSpec(name, self) if root == _ROOT and old in MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        old = name.removeprefix(f"{_ROOT}.")
        new = f"{_ROOT}.{MOVED[old]}"
        warnings.warn(
            f"{name} is {new} now, and what users need is in {_ROOT} itself; "
            "the old name goes with the next release",
            DeprecationWarning,
            stacklevel=2,
        )
        found = import_module(new)
        renamed = RENAMED.get(old)
        sys.modules[name] = found if renamed is None else _under_old_names(name, found, renamed)


def _under_old_names(name: str, found: ModuleType, renamed: Mapping[str, str]) -> ModuleType:
    """A module that finds what `found` has, and some of it under its old name."""
    module = ModuleType(name, found.__doc__)
    vars(module)["__getattr__"] = lambda asked: getattr(found, renamed.get(asked, asked))
    return module


sys.meta_path.append(_Moved())

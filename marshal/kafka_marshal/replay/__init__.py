"""Production logs through the reducer: the only package that imports pyspark.

`run` reads recorded logs of a coordination topic, folds them in this process or on Spark, and
writes tables, a summary and a page.

From the inside out: `account` folds one coordinating partition and knows no Spark; `book`,
`tenures`, `divergences`, `lanes` and `findings` watch; `tables` says what a row holds; `sources`
and `reading` say what a record is. `jobs` says what is done to them, and `engines` chooses what
runs it: `local`, or `pipeline` on Spark. What either holds then answers the questions in `fold`,
from which `summary` and `present` are made; `output` moves things into place.

Names that need Spark are imported when they are asked for, so whoever needs no Spark (`sources`,
`marshal shrink`, `marshal watch`) does not wait for it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from kafka_marshal.capture import UnreadableSource
from kafka_marshal.java import JavaNotFoundError
from kafka_marshal.replay.errors import InvalidOption, OutputExists, ReplayError, SparkFailed

if TYPE_CHECKING:
    from kafka_marshal.replay.checkpoint import CheckpointRefused
    from kafka_marshal.replay.exports import Exports
    from kafka_marshal.replay.options import RULES
    from kafka_marshal.replay.replaying import run
    from kafka_marshal.replay.summary import FindingCount, Summary
    from kafka_marshal.replay.whatif import Change, WhatIf

__all__ = [
    "RULES",
    "Change",
    "CheckpointRefused",
    "Exports",
    "FindingCount",
    "InvalidOption",
    "JavaNotFoundError",
    "OutputExists",
    "ReplayError",
    "SparkFailed",
    "Summary",
    "UnreadableSource",
    "WhatIf",
    "run",
]
_LATER: Final = {
    "Change": "whatif",
    "CheckpointRefused": "checkpoint",
    "Exports": "exports",
    "FindingCount": "summary",
    "RULES": "options",
    "Summary": "summary",
    "WhatIf": "whatif",
    "run": "replaying",
}
"""Where a name is that is imported when it is asked for."""


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    globals()[name] = found
    return found

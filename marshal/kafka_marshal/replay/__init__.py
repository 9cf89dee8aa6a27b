"""Replays production logs through the reducer. The only package that imports pyspark.

`run` reads recorded logs of a coordination topic, folds them on this machine or on Spark, and
writes tables, a summary and a page.

In order of dependency: `model` holds the values, `sources` reads records, and `findings` observes
them. `fold` folds one coordinating partition with all of these; it does not know Spark. `groups`
does the same for groups with a controller. `state` saves a fold. `engines` chooses what runs it,
this process or `spark`, and `report_data` selects from the folded log what `report` draws. `live`,
`exports` and `shrink` are other uses of the same fold. `protocols` defines the summary and page of
each protocol, and `api` runs one replay from beginning to end.

Names that need Spark are imported on demand, so programs that need no Spark (`sources`, `marshal
shrink`, `marshal watch`) do not wait for it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import kafka_marshal.runtime  # noqa: F401  # old names of modules
from kafka_marshal.capture import UnreadableSource
from kafka_marshal.java.finder import JavaNotFoundError
from kafka_marshal.replay.errors import (
    CheckpointRefused,
    InvalidOption,
    OutputExists,
    ReplayError,
    SparkFailed,
)

if TYPE_CHECKING:
    from kafka_marshal.replay.api import run, run_groups
    from kafka_marshal.replay.exports.files import Exports
    from kafka_marshal.replay.options import RULES, SparkMaster
    from kafka_marshal.replay.report_data.groups_summary import GroupsSummary
    from kafka_marshal.replay.report_data.summary import FindingCount, ReplaySummary, Summary
    from kafka_marshal.replay.report_data.whatif import Change, WhatIf
__all__ = [
    "RULES",
    "Change",
    "CheckpointRefused",
    "Exports",
    "FindingCount",
    "GroupsSummary",
    "InvalidOption",
    "JavaNotFoundError",
    "OutputExists",
    "ReplayError",
    "ReplaySummary",
    "SparkFailed",
    "SparkMaster",
    "Summary",
    "UnreadableSource",
    "WhatIf",
    "run",
    "run_groups",
]
_LATER: Final = {
    "Change": "report_data.whatif",
    "Exports": "exports.files",
    "FindingCount": "report_data.summary",
    "GroupsSummary": "report_data.groups_summary",
    "RULES": "options",
    "ReplaySummary": "report_data.summary",
    "SparkMaster": "options",
    "Summary": "report_data.summary",
    "WhatIf": "report_data.whatif",
    "run": "api",
    "run_groups": "api",
}
"""The modules of names that are imported on demand."""


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    globals()[name] = found
    return found

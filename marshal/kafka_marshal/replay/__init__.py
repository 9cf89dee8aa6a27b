"""Production logs through the reducer: the only room that imports pyspark.

`run` reads recorded logs of a coordination topic, folds them on Spark, and writes tables, a
summary and a page.

From the inside out: `account` folds one coordinating partition and knows no Spark; `book`,
`tenures`, `divergences`, `lanes` and `findings` watch; `tables` says what a row holds; `sources`
and `reading` say what a record is; `pipeline` is the Spark job; `output` moves things into place.
"""

from kafka_marshal.capture import UnreadableSource
from kafka_marshal.java import JavaNotFoundError
from kafka_marshal.replay.checkpoint import CheckpointRefused
from kafka_marshal.replay.errors import InvalidOption, OutputExists, ReplayError, SparkFailed
from kafka_marshal.replay.exports import Exports
from kafka_marshal.replay.run import RULES, run
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

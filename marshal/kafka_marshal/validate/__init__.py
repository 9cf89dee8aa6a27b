"""Checks recorded runs: whether some behaviour of the specification explains every event.

This package drives the machines of `kafka_marshal.machines` through the events of a run. It knows
neither TLC (`kafka_marshal.modelcheck.runs` checks the same run with it) nor the terminal.
"""

from kafka_marshal.validate.explain import Impossible, Unexplained
from kafka_marshal.validate.folder import read_folder
from kafka_marshal.validate.log_only import LogJudgement, validate_log
from kafka_marshal.validate.reading import is_run, read_run, run_of
from kafka_marshal.validate.run import Run, Setting
from kafka_marshal.validate.slices import Slice, slice_of
from kafka_marshal.validate.story import story_of, story_of_log
from kafka_marshal.validate.validator import Judgement, Validator, validate

__all__ = [
    "Impossible",
    "Judgement",
    "LogJudgement",
    "Run",
    "Setting",
    "Slice",
    "Unexplained",
    "Validator",
    "is_run",
    "read_folder",
    "read_run",
    "run_of",
    "slice_of",
    "story_of",
    "story_of_log",
    "validate",
    "validate_log",
]

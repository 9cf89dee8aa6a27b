"""By what a replay judges, from options as they are given.

This room knows the options' names and not who gives them: a command, a notebook, a test.
"""

from __future__ import annotations

import math
from typing import Final

from kafka_marshal.core.state import FENCED, RuleSet, milliseconds
from kafka_marshal.replay.errors import InvalidOption
from kafka_marshal.replay.fold.partition_fold import JudgingOptions

RULES: Final = ("fenced", "original", "both")
"""What `rules` may be."""


def judging_of(
    rules: str,
    interval_s: float | None,
    pause_max_s: float,
    coordination_partitions: int | None,
    *,
    force_interval: bool = False,
) -> JudgingOptions:
    """By what to judge, from options as they are given.

    Without an interval groups are judged by the one that the log says, or by 60 s. With one a log
    that says another is refused while it is folded, unless the interval is forced.

    Raises:
        InvalidOption: a value makes no sense; the message names the option.
    """
    if rules not in RULES:
        raise InvalidOption(f"--rules must be one of {', '.join(RULES)}, not {rules!r}")
    given, forced = interval_s is not None, force_interval
    if forced and not given:
        raise InvalidOption("--force-interval needs --heartbeat-interval: which one to judge by")
    if interval_s is None:
        interval_s = FENCED.heartbeat_interval_ms / 1000
    for option, value in (("--heartbeat-interval", interval_s), ("--pause-max", pause_max_s)):
        if not (value > 0 and math.isfinite(value)):
            raise InvalidOption(f"{option} must be a number of seconds greater than 0, not {value}")
    if coordination_partitions is not None and coordination_partitions <= 0:
        raise InvalidOption(
            f"--coordination-partitions must be greater than 0, not {coordination_partitions}"
        )
    chosen = tuple(RuleSet) if rules == "both" else (RuleSet(rules),)
    return JudgingOptions(
        chosen,
        milliseconds(interval_s),
        int(milliseconds(pause_max_s)),
        coordination_partitions,
        forced=forced,
        given=given,
    )

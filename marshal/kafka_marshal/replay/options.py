"""By what a replay judges, from options as they are given.

This room knows the options' names and not who gives them: a command, a notebook, a test.
"""

from __future__ import annotations

import math
from typing import Final

from kafka_marshal.core.state import RuleSet, milliseconds
from kafka_marshal.replay.account import Judging
from kafka_marshal.replay.errors import InvalidOption

RULES: Final = ("fenced", "original", "both")
"""What `rules` may be."""


def judging_of(
    rules: str, interval_s: float, pause_max_s: float, coordination_partitions: int | None
) -> Judging:
    """By what to judge, from options as they are given.

    Raises:
        InvalidOption: a value makes no sense; the message names the option.
    """
    if rules not in RULES:
        raise InvalidOption(f"--rules must be one of {', '.join(RULES)}, not {rules!r}")
    for option, value in (("--heartbeat-interval", interval_s), ("--pause-max", pause_max_s)):
        if not (value > 0 and math.isfinite(value)):
            raise InvalidOption(f"{option} must be a number of seconds greater than 0, not {value}")
    if coordination_partitions is not None and coordination_partitions <= 0:
        raise InvalidOption(
            f"--coordination-partitions must be greater than 0, not {coordination_partitions}"
        )
    chosen = tuple(RuleSet) if rules == "both" else (RuleSet(rules),)
    return Judging(
        chosen, milliseconds(interval_s), int(milliseconds(pause_max_s)), coordination_partitions
    )

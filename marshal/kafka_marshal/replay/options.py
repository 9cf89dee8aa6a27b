"""The options of a replay: how it judges the log, and where Spark runs.

This room knows the options' names and not who gives them: a command, a notebook, a test.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from attrs import field, frozen

from kafka_marshal.core.state import FENCED, RuleSet, milliseconds
from kafka_marshal.replay.errors import InvalidOption
from kafka_marshal.replay.fold.partition_fold import JudgingOptions

RULES: Final = ("fenced", "original", "both")
"""What `rules` may be."""
_MASTERS: Final = re.compile(r"local(\[.+\])?|spark://.+:\d+.*|k8s://.+|yarn")


class TableFormat(StrEnum):
    """What `--table-format` may be: how tables are written."""

    parquet = "parquet"
    delta = "delta"
    iceberg = "iceberg"

    @classmethod
    def parsed(cls, name: str) -> TableFormat:
        """The format of that name.

        Raises:
            InvalidOption: there is none.
        """
        if name not in set(cls):
            raise InvalidOption(f"--table-format must be one of {', '.join(cls)}, not {name!r}")
        return cls(name)


@frozen
class SparkMaster:
    """The master of a Spark, and settings of the session that a replay opens there."""

    url: str
    settings: Mapping[str, str] = field(factory=dict)
    """Spark's own, such as `spark.executor.memory`. They win over what a replay sets."""

    @classmethod
    def parsed(cls, url: str, settings: Sequence[str] = ()) -> SparkMaster:
        """As `--master URL --spark-conf KEY=VALUE ...` say it.

        Raises:
            InvalidOption: the URL is no master's, or a setting is not `spark.KEY=VALUE`.
        """
        if url.startswith("sc://"):
            raise InvalidOption(
                f"--master {url} is Spark Connect, which runs no function outside of a query; "
                "name the master itself"
            )
        if not _MASTERS.fullmatch(url):
            raise InvalidOption(
                f"--master must be local[N], spark://HOST:PORT, yarn or k8s://URL, not {url!r}"
            )
        pairs = [(each, *each.partition("=")[::2]) for each in settings]
        for each, key, value in pairs:
            if not key.startswith("spark.") or not value:
                raise InvalidOption(f"--spark-conf must be spark.KEY=VALUE, not {each!r}")
        return cls(url, {key: value for _, key, value in pairs})

    @property
    def is_local(self) -> bool:
        """Whether all of it runs on this machine, in children of this process."""
        return self.url.startswith("local")

    def __str__(self) -> str:
        return f"--master {self.url}"


def check_partitions(coordination_partitions: int | None) -> None:
    """Check the partition count of a log; None: it was not given.

    Raises:
        InvalidOption: it is below 1.
    """
    if coordination_partitions is not None and coordination_partitions <= 0:
        raise InvalidOption(
            f"--coordination-partitions must be greater than 0, not {coordination_partitions}"
        )


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
        InvalidOption: a value is invalid; the message names the option.
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
    check_partitions(coordination_partitions)
    chosen = tuple(RuleSet) if rules == "both" else (RuleSet(rules),)
    return JudgingOptions(
        chosen,
        milliseconds(interval_s),
        int(milliseconds(pause_max_s)),
        coordination_partitions,
        forced=forced,
        given=given,
    )

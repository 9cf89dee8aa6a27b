"""The options of a replay: how it judges the log, and where Spark runs.

This module knows the options' names; it does not know where they come from: a command, a notebook,
a test.
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
"""The values of `rules`."""
_MASTERS: Final = re.compile(r"local(\[.+\])?|spark://.+:\d+.*|k8s://.+|yarn")


class TableFormat(StrEnum):
    """The values of `--table-format`: how tables are written."""

    parquet = "parquet"
    delta = "delta"
    iceberg = "iceberg"

    @classmethod
    def parsed(cls, name: str) -> TableFormat:
        """The format with that name.

        Raises:
            InvalidOption: there is no such format.
        """
        if name not in set(cls):
            raise InvalidOption(f"--table-format must be one of {', '.join(cls)}, not {name!r}")
        return cls(name)


@frozen
class SparkMaster:
    """The master of a Spark cluster, and settings of the session that a replay opens there."""

    url: str
    settings: Mapping[str, str] = field(factory=dict)
    """Spark's settings, such as `spark.executor.memory`. They override those of a replay."""

    @classmethod
    def parsed(cls, url: str, settings: Sequence[str] = ()) -> SparkMaster:
        """Parse `--master URL --spark-conf KEY=VALUE ...`.

        Raises:
            InvalidOption: the URL is not a master's, or a setting is not `spark.KEY=VALUE`.
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
        """Whether it runs on this machine only, in children of this process."""
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
    """The settings of a fold, from the given options.

    Without an interval, each group has the one in its log, or 60 s. With one, a log that states
    another is refused while it is folded, unless the interval is forced.

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

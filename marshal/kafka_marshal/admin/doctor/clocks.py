"""Checks of time: the brokers' timestamps in the log, and their clocks against each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kafka_marshal.admin.clock_ahead import ahead
from kafka_marshal.admin.doctor.broker_clocks import BrokerClock
from kafka_marshal.admin.doctor.finding import CheckFinding, CheckSeverity, numbers
from kafka_marshal.admin.doctor.topic_sample import TopicSample
from kafka_marshal.core.state import Rules

CLOCKS_APART_MS: Final = 1000
"""Clocks that differ by more are worth a word."""


def in_log(sample: TopicSample, rules: Rules, at_ms: int) -> Iterator[CheckFinding]:
    """Yield findings about the brokers' clocks, from their timestamps."""
    if sample.stepped_back_ms > rules.clock_rewind_max_ms:
        yield CheckFinding(
            CheckSeverity.ERROR,
            "clocks",
            f"timestamps of partition {sample.stepped_back_at} step back by "
            f"{sample.stepped_back_ms:,} ms",
            "a reader that began in the middle may take an owner that lives for gone",
            "let the brokers keep time together (NTP)",
        )
    elif sample.stepped_back_ms > 0:
        yield CheckFinding(
            CheckSeverity.NOTE,
            "clocks",
            f"timestamps of partition {sample.stepped_back_at} step back by "
            f"{sample.stepped_back_ms:,} ms",
            f"nothing, below {int(rules.clock_rewind_max_ms):,} ms",
            "leave it",
        )
    late = ahead([sample.highest_ms], at_ms, rules) if sample.records else None
    if late is not None:
        yield CheckFinding(
            CheckSeverity.WARNING,
            "clocks",
            late,
            "the claims of an owner that dies stand still until then, and a pause that ends before "
            "does not hold",
            "let all keep time together (NTP); free the claims of who is dead: "
            "marshal release GROUP TOPIC",
        )
    ahead_ms = sample.last_ms - at_ms
    if late is None and ahead_ms > CLOCKS_APART_MS:
        yield CheckFinding(
            CheckSeverity.WARNING,
            "clocks",
            f"the newest record is {ahead_ms:,} ms ahead of this machine's clock",
            "pauses end later, and consumers on this machine ask for claims too late",
            "let all keep time together (NTP)",
        )


def between_brokers(found: list[BrokerClock], rules: Rules) -> Iterator[CheckFinding]:
    """Brokers' clocks against each other, from one append to each."""
    silent = [one for one in found if one.ahead_ms is None]
    if silent:
        reasons = sorted({one.reason for one in silent if one.reason})
        yield CheckFinding(
            CheckSeverity.UNCHECKED,
            "clocks now",
            ": ".join(
                [
                    f"broker {numbers([one.broker for one in silent])} did not stamp a record",
                    *reasons,
                ]
            ),
            "what is wrong there stays unseen",
            "examine it as a user who has WRITE on topics marshal-doctor-*, or look at the broker",
        )
    ahead = {one.broker: one.ahead_ms for one in found if one.ahead_ms is not None}
    if len(ahead) < 2:
        return
    apart_ms = max(ahead.values()) - min(ahead.values())
    doubt_ms = max(one.doubt_ms for one in found)
    if apart_ms - doubt_ms > CLOCKS_APART_MS:
        fastest, slowest = max(ahead, key=ahead.__getitem__), min(ahead, key=ahead.__getitem__)
        yield CheckFinding(
            CheckSeverity.ERROR if apart_ms > rules.clock_rewind_max_ms else CheckSeverity.WARNING,
            "clocks now",
            f"broker {fastest} is {apart_ms:,} ms ahead of broker {slowest} (± {doubt_ms:,})",
            "when a partition changes its leader, owners look stale too early, or stay too long",
            "let the brokers keep time together (NTP)",
        )


def not_compared() -> CheckFinding:
    """The finding that the comparison was not requested."""
    return CheckFinding(
        CheckSeverity.UNCHECKED,
        "clocks now",
        "brokers' clocks were not compared: it takes an append to each",
        "with clocks apart an owner looks stale too early when a partition changes its leader",
        "`marshal doctor --probe` appends to a topic that it creates and deletes",
    )


def left_behind(topic: str, reason: str) -> CheckFinding:
    """The topic of a comparison could not be deleted."""
    return CheckFinding(
        CheckSeverity.NOTE,
        "clocks now",
        f"topic {topic}, which was made to compare clocks, is still there: {reason}",
        "nothing",
        "delete it, as a user who has DELETE on it",
    )

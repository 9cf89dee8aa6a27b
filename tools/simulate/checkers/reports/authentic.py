"""A consumer that requires signatures stops at a record that no key signed."""

from __future__ import annotations

from collections.abc import Iterator

from tools.simulate.judged.claims import Judged

from kafka_marshal.errors import COORDINATION_TOPIC


def check(judged: Judged) -> Iterator[str]:
    """What is wrong."""
    history = judged.history
    gone = history.cuts or any(topic == COORDINATION_TOPIC for topic, _ in history.removed)
    for process in () if gone else history.trusting:  # else it may not have read the record
        yield f"{process} went on after a record that no key signed"

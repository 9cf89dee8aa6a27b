"""Marshal promises that a controller hears where the log ends, and offsets of partitions."""

from __future__ import annotations

import queue
from collections.abc import Sequence
from typing import Any, cast

from kafka_marshal.client.connect.environment import REAL
from kafka_marshal.client.connect.metadata import ClusterMetadata
from kafka_marshal.client.connect.reader import Watermarks
from kafka_marshal.client.connect.settings import Settings
from kafka_marshal.client.groups.questions import LATEST, Questions
from kafka_marshal.core.groups.state import TopicPartition
from tests.client.crew import until


class Silent:
    """A cluster that does not answer the first question."""

    settings = Settings({}, environment=REAL)

    def __init__(self) -> None:
        self.asked = 0

    def ends(self, partitions: Sequence[Any], within_s: float) -> dict[Any, int]:
        self.asked += 1
        return dict.fromkeys(partitions, 7) if self.asked > 1 else {}

    def extents(self, partitions: Sequence[Any]) -> dict[Any, Watermarks]:
        return {one: Watermarks(3, 7) for one in partitions if one.partition < 2}


def test_what_nobody_answers_has_no_answer() -> None:
    cluster, failed, ends = Silent(), list[BaseException](), queue.SimpleQueue[int]()
    questions = Questions(cast("ClusterMetadata", cluster), "log", failed.append)
    questions.end(2, ends.put)  # the machine asks again
    until(lambda: cluster.asked)
    questions.end(2, ends.put)
    assert ends.get(timeout=30) == 7
    assert ends.empty()
    offsets = queue.SimpleQueue[Any]()
    one, two, three = (TopicPartition("t", number) for number in range(3))
    questions.offsets({one: LATEST, two: -2, three: LATEST}, offsets.put)
    assert offsets.get(timeout=30) == {one: 7, two: 3}
    questions.close()
    assert not failed

"""Marshal promises that a controller hears where the log ends, also after its brokers restarted."""

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


class Restarted:
    """A cluster whose leaders are not asked before somebody looked who they are."""

    settings = Settings({}, environment=REAL)

    def __init__(self) -> None:
        self.looked = False

    def brokers(self) -> tuple[int, ...]:
        self.looked = True
        return (1,)

    def ends(self, partitions: Sequence[Any], within_s: float) -> dict[Any, int]:
        return dict.fromkeys(partitions, 7) if self.looked else {}

    def extents(self, partitions: Sequence[Any]) -> dict[Any, Watermarks]:
        return {one: Watermarks(3, 7) for one in partitions if self.looked}


def test_leaders_that_do_not_answer_are_looked_for() -> None:
    cluster, failed, ends = Restarted(), list[BaseException](), queue.SimpleQueue[int]()
    questions = Questions(cast("ClusterMetadata", cluster), "log", failed.append)
    questions.end(2, ends.put)  # has no answer: the machine asks again
    until(lambda: cluster.looked)
    questions.end(2, ends.put)
    assert ends.get(timeout=30) == 7
    cluster.looked = False
    offsets = queue.SimpleQueue[Any]()
    one, two = TopicPartition("t", 0), TopicPartition("t", 1)
    questions.offsets({one: LATEST, two: -2}, offsets.put)
    assert offsets.get(timeout=30) == {one: 7, two: 3}
    questions.close()
    assert not failed

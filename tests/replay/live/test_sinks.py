"""Outputs of a watch that cannot be written, without a broker."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import Any

import attrs
import pytest
from confluent_kafka import KafkaError, KafkaException

from kafka_marshal.errors import BrokerFailed
from kafka_marshal.replay.errors import ReplayError
from kafka_marshal.replay.live.live_findings import BEGUN, LiveEvent
from kafka_marshal.replay.live.sinks import JsonFile, ToTopic
from kafka_marshal.replay.model.published import FindingRow
from kafka_marshal.testing.in_memory import InMemoryKafka

EVENT = LiveEvent(BEGUN, FindingRow(code="forged", severity="error", sentence="it is"))


class Refused:
    """A producer whose user may not write: the chosen call raises."""

    raises: str

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def produce(self, *_: Any, **__: Any) -> None:
        if self.raises == "produce":
            text = "Unable to produce message: Broker: Topic authorization failed"
            raise KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, text))

    def poll(self, _: float) -> int:
        if self.raises == "poll":
            text = "no producer id for pa55word: Broker: Cluster authorization failed"
            error = KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED, text, fatal=True)
            raise KafkaException(error)
        return 0

    def purge(self) -> None: ...


REFUSED: Any = Refused
TOPIC_REFUSED = "Broker: Topic authorization failed; the user needs WRITE on it"
CLUSTER_REFUSED = "Broker: Cluster authorization failed: see whether the user may WRITE topic told"


@pytest.mark.parametrize(
    ("call", "raises", "reason"),
    [
        ("emit", "produce", f"Unable to produce message: {TOPIC_REFUSED}"),
        ("flush", "poll", f"no producer id for ***: {CLUSTER_REFUSED}"),
        ("settle", "poll", f"no producer id for ***: {CLUSTER_REFUSED}"),
    ],
)
def test_a_topic_that_may_not_be_written_is_named_with_the_right_that_is_missing(
    monkeypatch: pytest.MonkeyPatch, call: str, raises: str, reason: str
) -> None:
    """It was a traceback, with the exit code of a watch that found something."""
    monkeypatch.setattr(Refused, "raises", raises, raising=False)
    settings = InMemoryKafka().settings({"sasl.password": "pa55word"})
    environment = attrs.evolve(settings.environment, appender=REFUSED)
    topic = ToTopic(attrs.evolve(settings, environment=environment), "told")
    calls = {"emit": lambda: topic.emit(EVENT), "flush": topic.flush, "settle": topic.settle}
    if call != "emit":
        topic.emit(EVENT)
    with pytest.raises(BrokerFailed) as raised:
        calls[call]()
    topic.close()
    assert str(raised.value) == f"--to-topic told: {reason}"


@pytest.mark.parametrize("length", [None, 0])
def test_a_file_that_another_watch_writes_is_refused(tmp_path: Path, length: int | None) -> None:
    """Two that began together wrote each line twice."""
    out, other = tmp_path / "out.jsonl", "another watch writes to it; give another --out$"
    with closing(JsonFile(out, None)) as first:
        with pytest.raises(ReplayError, match=f"^{out}: {other}"):
            JsonFile(out, length)
        first.emit(EVENT)
    assert out.read_bytes() == EVENT.json().encode() + b"\n"
    JsonFile(out, first.length).close()


def test_a_file_that_cannot_be_cut_is_refused_before_it_is_opened(tmp_path: Path) -> None:
    """To open a pipe waits for a reader, and a device was refused without its name."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    why = "is not a regular file, and --out needs one; --json prints the same lines"
    for out in (Path(os.devnull), pipe):
        with pytest.raises(ReplayError, match=f"^{out}: {why}$"):
            JsonFile(out, None)

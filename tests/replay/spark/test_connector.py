"""The official connector's DataFrame, from a real broker, is replayed as the log's file is."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import attrs
import pytest
from pyspark.sql import DataFrame, SparkSession

from kafka_marshal.capture import RawRecord, TimestampType, capture_line, read_capture
from kafka_marshal.replay import Summary, run
from kafka_marshal.replay.notebook import run_frame
from kafka_marshal.testing import Broker
from tests.replay.fleets import fleet
from tests.replay.live.feeding import append, make_topic

CAPTURE = Path(__file__).parents[2] / "data/captures/original/d3_late_heartbeat_theft.jsonl"
PARTITIONS = 4
TOPIC = "marshal-by-connector"
COLUMNS = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]


def as_a_topic_keeps_it(records: list[RawRecord]) -> list[RawRecord]:
    """Every partition from offset 0 without a gap, stamped by its producers."""
    offsets: Counter[int] = Counter()
    told = []
    for raw in sorted(records, key=lambda raw: (raw.partition, raw.offset)):
        offset = offsets[raw.partition]
        offsets[raw.partition] += 1
        told.append(attrs.evolve(raw, offset=offset, timestamp_type=TimestampType.CREATE_TIME))
    return told


def by_connector(spark: SparkSession, broker: Broker, topic: str, headers: bool) -> DataFrame:
    return (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .option("subscribe", topic)
        .option("includeHeaders", str(headers).lower())
        .load()
    )


def told(summary: Summary) -> list[object]:
    """The findings; what the logs are called is where the two differ."""
    return [attrs.evolve(finding, logs=()) for finding in summary.findings]


@pytest.mark.night  # It compares with a connector of others, whose version changes rarely.
def test_the_official_connectors_frame_is_replayed_as_the_file_is(
    spark: SparkSession, kafka_broker: Broker, tmp_path: Path
) -> None:
    ours = as_a_topic_keeps_it(fleet(7, 4_000))
    theirs = [attrs.evolve(raw, partition=2) for raw in read_capture(CAPTURE)]
    records = ours + as_a_topic_keeps_it(theirs)
    make_topic(kafka_broker, TOPIC, PARTITIONS)
    append(kafka_broker, TOPIC, records)
    capture = tmp_path / "log.jsonl"
    capture.write_text("\n".join(map(capture_line, records)), encoding="utf-8")

    by_file = run(
        [str(capture)], out=tmp_path / "file", heartbeat_interval_s=4, rules="both", spark=spark
    )
    frame = by_connector(spark, kafka_broker, TOPIC, headers=True)
    assert frame.columns == [*COLUMNS, "headers"]
    by_frame = run_frame(frame, out=tmp_path / "frame", heartbeat_interval_s=4, rules="both")
    assert told(by_frame) == told(by_file)
    assert len({finding.code for finding in by_file.findings}) > 5

    # Without headers it is another log: what the epochs proved is gone.
    bare = by_connector(spark, kafka_broker, TOPIC, headers=False)
    assert bare.columns == COLUMNS
    by_bare = run_frame(bare, out=tmp_path / "bare", heartbeat_interval_s=4, rules="both")
    assert told(by_bare) != told(by_file)

"""Rows for notebooks: decoded files, a decoded topic as a stream, and replays of DataFrames."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
from pyspark.sql import SparkSession

from kafka_marshal.capture import RawRecord, read_capture
from kafka_marshal.codec import MalformedRecord
from kafka_marshal.core.messages import NOT_DECIMAL, ReleaseGroup
from kafka_marshal.replay import InvalidOption, run
from kafka_marshal.replay.model.decoded import decoded
from kafka_marshal.replay.notebook import MarshalDataSource, run_frame
from kafka_marshal.replay.sources.columns import batch_of, cells_of
from kafka_marshal.testing import Broker
from tests.kernel import hostile
from tests.replay import dumps
from tests.replay.live.feeding import append, make_topic

CAPTURE = Path(__file__).parents[1] / "data/captures/original/d3_late_heartbeat_theft.jsonl"


def expected(raw: RawRecord) -> dict[str, object]:
    """What the codec says of a record, by the names of the columns."""
    try:
        record = raw.decoded()
    except MalformedRecord as error:
        return {"type": None, "malformed": str(error), "client": None, "position": None}
    message, headers = record.message, record.headers
    group = isinstance(message, ReleaseGroup)
    return {
        "type": type(message).__name__,
        "malformed": None,
        "version": message.version,
        "unix_s": message.unix_s,
        "instance": message.instance_id,
        "client": message.client_id,
        "group": message.group_id,
        "topic": None if group else message.topic,
        "topic_partition": None if group else message.partition,
        "position": getattr(message, "offset", None),
        "expires_unix_s": getattr(message, "expires_unix_s", None),
        "has_headers": headers.present,
        "header_epoch": headers.epoch,
        "header_supersedes": headers.supersedes,
        "header_interval_ms": headers.interval_ms,
        "header_start": headers.start,
        "header_done": headers.done,
    }


def test_a_decoded_row_says_what_the_codec_says() -> None:
    raws = [raw for raw in hostile.log(3, 4_000) if b"\xff" not in (raw.value or b"")]
    fits = [raw for raw in raws if all(len(v or b"") < 19 for _, v in raw.headers)]
    rows = decoded(batch_of("log", 0, [cells_of(raw) for raw in fits])).to_pylist()
    for raw, row in zip(fits, rows, strict=True):
        said = expected(raw)
        assert {name: row[name] for name in said} == said, raw
    assert any(row["header_epoch"] == NOT_DECIMAL for row in rows)
    assert {row["type"] for row in rows} >= {None, "ReleaseGroup", "Heartbeat"}


@pytest.fixture
def registered(spark: SparkSession) -> SparkSession:
    spark.dataSource.register(MarshalDataSource)
    return spark


@pytest.mark.night
def test_a_topic_is_a_stream(
    registered: SparkSession, kafka_broker: Broker, tmp_path: Path
) -> None:
    """What is there; then, with the same checkpoint, what came since."""
    raws = [attrs.evolve(raw, partition=0) for raw in read_capture(CAPTURE)]
    make_topic(kafka_broker, "streamed")

    def streamed() -> int:
        stream = (
            registered.readStream.format("marshal")
            .options(bootstrap=kafka_broker.bootstrap, topic="streamed")
            .load()
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .option("path", str(tmp_path / "rows"))
            .start()
        )
        stream.processAllAvailable()
        stream.stop()
        return registered.read.parquet(str(tmp_path / "rows")).count()

    append(kafka_broker, "streamed", raws[:100])
    assert streamed() == 100
    append(kafka_broker, "streamed", raws[100:130])
    assert streamed() == 130
    rows = registered.read.parquet(str(tmp_path / "rows")).orderBy("offset").collect()
    assert [bytes(row.value) for row in rows] == [raw.value for raw in raws[:130]]


def test_files_are_a_table(registered: SparkSession) -> None:
    rows = (
        registered.read.format("marshal")
        .load(str(CAPTURE))
        .orderBy("coordinating_partition", "offset")
    )
    raws = sorted(read_capture(CAPTURE), key=lambda raw: (raw.partition, raw.offset))
    told = [(row.offset, row.client, row.type) for row in rows.collect()]
    assert told == [
        (raw.offset, raw.decoded().message.client_id, type(raw.decoded().message).__name__)
        for raw in raws
    ]


def test_a_wrong_option_or_path_is_told(registered: SparkSession) -> None:
    with pytest.raises(Exception, match="option 'pth' is unknown here"):
        registered.read.format("marshal").option("pth", "x").load(str(CAPTURE)).count()
    with pytest.raises(Exception, match="no such file or folder"):
        registered.read.format("marshal").load("nowhere.jsonl").count()


def test_a_frame_is_replayed_as_its_file_is(spark: SparkSession, tmp_path: Path) -> None:
    dumps.write(tmp_path / "log.parquet", dumps.table(read_capture(CAPTURE)))
    frame = spark.read.parquet(str(tmp_path / "log.parquet"))
    by_file = run(
        [str(CAPTURE)], out=tmp_path / "a", heartbeat_interval_s=4, rules="both", spark=spark
    )
    by_frame = run_frame(frame, out=tmp_path / "b", heartbeat_interval_s=4, rules="both")
    assert [attrs.evolve(f, logs=()) for f in by_frame.findings] == [
        attrs.evolve(f, logs=()) for f in by_file.findings
    ]
    with pytest.raises(InvalidOption, match="no column 'offset'"):
        run_frame(frame.drop("offset"), out=tmp_path / "c", heartbeat_interval_s=4)

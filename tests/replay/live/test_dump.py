from __future__ import annotations

import tempfile
from pathlib import Path

import attrs
import pytest
from typer.testing import CliRunner

from kafka_marshal import replay
from kafka_marshal.capture import RawRecord, TimestampType
from kafka_marshal.cli.app import app
from kafka_marshal.client.connect import reader
from kafka_marshal.client.connect.settings import settings_of
from kafka_marshal.errors import BrokerFailed
from kafka_marshal.replay.errors import InvalidOption, ReplayError
from kafka_marshal.replay.fold.reading import read_chunk, records_of
from kafka_marshal.replay.live.dump import RequestedRange, dump, of_address
from kafka_marshal.replay.sources import find
from kafka_marshal.testing import Broker
from tests.cli.run import marshal
from tests.replay.live.feeding import append, make_topic, many_nights


def read_back(folder: Path) -> list[RawRecord]:
    return [
        raw
        for number, chunk in enumerate(find([str(folder)], keys=True).chunks)
        for batch in read_chunk(number, chunk)
        for _, raw in records_of(batch)
    ]


def at_offsets(records: list[RawRecord]) -> list[RawRecord]:
    """The records with the offsets that a topic gives them, partition by partition."""
    ends: dict[int, int] = {}
    placed = []
    for raw in sorted(records, key=lambda raw: raw.partition):
        offset = ends.get(raw.partition, 0)
        ends[raw.partition] = offset + 1
        placed.append(attrs.evolve(raw, offset=offset, timestamp_type=TimestampType.CREATE_TIME))
    return placed


def test_what_lies_in_a_topic_is_replayed_record_for_record(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    make_topic(kafka_broker, "dumped", 3)
    night = list(many_nights(1, 2))
    odd = [
        RawRecord(0, 0, night[0].timestamp_ms, None, key=b"g"),
        RawRecord(0, 0, night[0].timestamp_ms, b"\xff\x00", (("k", None), ("k", b"\xfe"))),
    ]
    append(kafka_broker, "dumped", [*night, *odd])
    settings = settings_of(kafka_broker.bootstrap)
    found = read_back(dump(settings, "dumped", tmp_path))
    assert found == at_offsets([*night, *odd])


def test_a_range_of_offsets_or_of_times_is_read_and_nothing_else(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    make_topic(kafka_broker, "ranges")
    append(
        kafka_broker,
        "ranges",
        [RawRecord(0, 0, 1_700_000_000_000 + 1000 * n, b"%d" % n) for n in range(10)],
    )
    settings = settings_of(kafka_broker.bootstrap)

    def read(begin: str | None, end: str | None) -> list[int]:
        folder = tmp_path / f"{begin}-{end}".replace(":", "")
        folder.mkdir()
        return [
            raw.offset
            for raw in read_back(dump(settings, "ranges", folder, RequestedRange(begin, end)))
        ]

    assert read("3", "7") == [3, 4, 5, 6]
    assert read("8", None) == [8, 9]
    assert read("2023-11-14T22:13:22", "2023-11-14T23:13:25+01:00") == [2, 3, 4]
    with pytest.raises(InvalidOption, match="--from must be an offset or a time"):
        read("yesterday", None)
    with pytest.raises(InvalidOption, match="ranges holds no record in that range"):
        read("2024-01-01", None)


def test_control_records_at_the_end_do_not_keep_it_waiting(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    from confluent_kafka import Producer

    make_topic(kafka_broker, "control")
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap, "transactional.id": "one"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("control", b"in a transaction")
    producer.commit_transaction(30)
    found = read_back(dump(settings_of(kafka_broker.bootstrap), "control", tmp_path))
    assert [raw.value for raw in found] == [b"in a transaction"]


def test_a_topic_is_a_source_that_leaves_nothing_behind(
    kafka_broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(kafka_broker, "source")
    append(kafka_broker, "source", list(many_nights(1, 1)))
    address = f"kafka://{kafka_broker.bootstrap}/source"
    asked: list[tuple[list[str], list[str], int]] = []

    def run(sources: list[str], *, named: list[str], **_: object) -> None:
        asked.append((sources, named, len(read_back(Path(sources[0])))))
        raise ReplayError("enough")

    monkeypatch.setattr(replay, "run", run)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    options = ["--heartbeat-interval", "4", "--out", str(tmp_path / "out")]
    for given in ([address], ["--bootstrap", kafka_broker.bootstrap, "--topic", "source"]):
        assert CliRunner().invoke(app, ["replay", *given, *options]).exit_code == 2
    for sources, named, count in asked:
        assert named == [address]
        assert Path(sources[0]).name == "source.parquet"
        assert count == len(list(many_nights(1, 1)))
    assert len(asked) == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "a replay needs a SOURCE, and no cluster given: use --bootstrap HOST:PORT"),
        (
            ("--bootstrap", "127.0.0.1:9", "-X", "sasl.pasword=hunter2"),
            'No such configuration property: "sasl.pasword"',
        ),
    ],
)
def test_what_cannot_be_read_is_one_sentence_without_secrets(
    tmp_path: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    out = tmp_path / "out"
    ran = marshal("replay", *arguments, "--heartbeat-interval", "4", "--out", out)
    assert ran.returncode == 2
    assert sentence in ran.stderr
    assert ran.stderr.startswith("marshal: ")
    assert len(ran.stderr.splitlines()) == 1
    assert "hunter2" not in ran.stderr
    assert not out.exists()


def test_a_value_that_the_client_refuses_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "CONNECT_S", 1)
    settings = settings_of("127.0.0.1:9", None, ["ssl.key.pem=hunter2"])
    with pytest.raises(BrokerFailed) as told:
        dump(settings, "any", tmp_path)
    assert "hunter2" not in str(told.value)


def test_nobody_who_answers_is_told_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "CONNECT_S", 1)
    with pytest.raises(BrokerFailed, match=r"^127\.0\.0\.1:9: .*(refused|down)"):
        dump(settings_of("127.0.0.1:9"), "any", tmp_path)


def test_a_topic_that_is_not_there_is_named(kafka_broker: Broker, tmp_path: Path) -> None:
    with pytest.raises(BrokerFailed, match="there is no topic nowhere; make it with"):
        dump(settings_of(kafka_broker.bootstrap), "nowhere", tmp_path)


def test_settings_come_from_a_file_and_options_and_never_show(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("# ours\nbootstrap.servers=one:9092\nsasl.password = p=ss\n\n")
    settings = settings_of(None, file, ["sasl.username=me"])
    assert settings.values == {
        "bootstrap.servers": "one:9092",
        "sasl.password": "p=ss",
        "sasl.username": "me",
    }
    assert "p=ss" not in f"{settings!r} {settings}"
    assert settings.without_secrets("not p=ss at one:9092") == "not *** at one:9092"
    numbers = settings_of("one:9092", None, ["retries=1", "enable.x=true", "ssl.key.password=9"])
    assert numbers.without_secrets("true: 1 of 9 at one:9092") == "true: 1 of *** at one:***0***2"
    assert settings_of("two:9092", file).bootstrap == "two:9092"
    file.write_text("hunter2")
    with pytest.raises(InvalidOption, match=r"client\.properties:1: a setting is written") as told:
        settings_of(None, file)
    assert "hunter2" not in str(told.value)
    with pytest.raises(InvalidOption, match="--bootstrap HOST:PORT"):
        settings_of(None)


def test_an_address_names_brokers_and_a_topic() -> None:
    assert of_address("kafka://one:9092") == ("one:9092", "__marshal")
    for wrong in ("kafka://one:9092/t/u", "kafka:///t", "http://one/t"):
        with pytest.raises(InvalidOption, match="a topic is written kafka://HOST:PORT/TOPIC"):
            of_address(wrong)

"""Marshal promises that a full disk ends at most what cannot be recorded, and leaves no half file.

The file behind each that a consumer opens is `/dev/full`: what is written to it fails as it does on
a full disk.
"""

from __future__ import annotations

import errno
import io
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TextIO, cast

import attrs
import pytest

from kafka_marshal import Consumer
from kafka_marshal.client.connect.settings import Settings
from kafka_marshal.client.coordinate import recording
from kafka_marshal.errors import COORDINATION_TOPIC, InvalidOption, ThreadFailed
from kafka_marshal.testing.in_memory import InMemoryKafka, Scheduler
from tests.client.notes import FullDisk


def full(path: Path, mode: str) -> TextIO:
    path.open(mode).close()
    return cast("TextIO", Path("/dev/full").open("w", encoding="utf-8"))


def on_a_full_disk(kafka: InMemoryKafka) -> Settings:
    settings = kafka.settings()
    return attrs.evolve(settings, environment=attrs.evolve(settings.environment, open_file=full))


def test_a_recording_that_cannot_begin_is_refused_and_leaves_no_file(tmp_path: Path) -> None:
    settings = on_a_full_disk(InMemoryKafka(scheduler=Scheduler(seed=1)))
    with pytest.raises(InvalidOption, match="No space left on device"):
        Consumer(settings=settings, group_id="g", client_id="c1", record_to=tmp_path)
    assert not list(tmp_path.iterdir()), "validate would refuse the folder"


def test_a_recording_of_another_is_left_as_it_is(tmp_path: Path) -> None:
    settings = InMemoryKafka(scheduler=Scheduler(seed=1)).settings()
    environment = attrs.evolve(settings.environment, random_bits=lambda _: 7)  # the same id twice
    settings = attrs.evolve(settings, environment=environment)

    def record() -> None:
        Consumer(settings=settings, group_id="g", client_id="c1", record_to=tmp_path).close()

    record()
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(InvalidOption, match="File exists"):
        record()
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before != {}


def test_without_room_for_a_snapshot_a_consumer_goes_on_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = Scheduler(seed=1)
    kafka = InMemoryKafka(scheduler=scheduler)
    kafka.create("orders", messages=5)
    snapshot = tmp_path / "snapshot"
    with (
        caplog.at_level(logging.WARNING, logger="kafka_marshal"),
        Consumer(
            settings=on_a_full_disk(kafka), group_id="g", client_id="c1", snapshot=snapshot
        ) as consumer,
    ):
        consumer.add_topic("orders")
        assert [consumer.poll(10.0) is not None for _ in range(5)] == [True] * 5
        consumer.ack()
        scheduler.sleep(150.0)
    said = [record.getMessage() for record in caplog.records]
    assert said == [f"snapshot {snapshot}: cannot be written: No space left on device"]
    assert not list(tmp_path.iterdir())


class Disk(io.StringIO):
    """A file on a disk that may become full."""

    has_room = True

    def writelines(self, lines: Iterable[Any]) -> None:
        if not self.has_room:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().writelines(lines)


def test_a_call_that_cannot_be_recorded_ends_the_consumer(tmp_path: Path) -> None:
    """It raised an OSError, and the consumer went on, with a release that was never sent."""
    scheduler, disk = Scheduler(seed=1), Disk()
    kafka = InMemoryKafka(scheduler=scheduler)
    kafka.create("orders", messages=5)
    settings = kafka.settings()
    environment = attrs.evolve(settings.environment, open_file=lambda *_: disk)
    settings = attrs.evolve(settings, environment=environment)
    with Consumer(settings=settings, group_id="g", client_id="c1", record_to=tmp_path) as consumer:
        consumer.add_topic("orders")
        assert consumer.poll(10.0) is not None
        consumer.ack()
        disk.has_room = False
        with pytest.raises(ThreadFailed, match=r"No space left on device: '.*\.jsonl'"):
            consumer.release("orders", 0)
        with pytest.raises(ThreadFailed, match=r"No space left on device: '.*\.jsonl'"):
            consumer.poll(10.0)


@pytest.mark.parametrize("handler", [logging.NullHandler(), FullDisk()])
def test_a_consumer_whose_recording_cannot_end_is_closed_and_says_so(
    tmp_path: Path,
    handler: logging.Handler,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Also if the log is on the same disk."""
    monkeypatch.setattr(logging.getLogger("kafka_marshal"), "handlers", [handler])
    disk = Disk()
    kafka = InMemoryKafka(scheduler=Scheduler(seed=1))
    settings = kafka.settings()
    environment = attrs.evolve(settings.environment, open_file=lambda *_: disk)
    settings = attrs.evolve(settings, environment=environment)
    with caplog.at_level(logging.WARNING, logger="kafka_marshal"):
        consumer = Consumer(settings=settings, group_id="g", client_id="c1", record_to=tmp_path)
        disk.has_room = False
        consumer.close()
    told = capsys.readouterr().err if isinstance(handler, FullDisk) else caplog.text
    assert "its end cannot be written: No space left on device" in told
    assert disk.closed
    assert all(reading.closed for reading in kafka.readings)


@pytest.mark.parametrize(
    "broken", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()]
)
def test_a_log_that_was_copied_in_part_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: BaseException
) -> None:
    """It was taken for the whole log later, and a correct consumer was accused."""
    kafka = InMemoryKafka(scheduler=Scheduler(seed=1))
    for _ in range(3):
        kafka.append(COORDINATION_TOPIC, 0, b"Nothing/of/ours")
    lines = iter(["one", "two"])

    def breaks_off(_: object) -> str:
        if line := next(lines, None):
            return line
        raise broken

    with monkeypatch.context() as patched:
        patched.setattr(recording, "capture_line", breaks_off)
        with pytest.raises(type(broken)) as raised:
            recording.write_log(kafka.settings(), COORDINATION_TOPIC, tmp_path)
    assert not list(tmp_path.iterdir())
    if isinstance(raised.value, OSError):
        assert raised.value.filename == str(tmp_path / "log.jsonl")
    assert recording.write_log(kafka.settings(), COORDINATION_TOPIC, tmp_path) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["log.jsonl"]

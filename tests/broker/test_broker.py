from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kafka_marshal.client.connect.admin_client import ClusterClient
from kafka_marshal.client.connect.settings import settings_of
from kafka_marshal.testing import QUICK, Broker, BrokerError, Guard, server

MARSHAL = [sys.executable, "-m", "kafka_marshal.cli"]


def make_topic(broker: Broker, name: str, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, partitions)])[name].result(30)


def append(broker: Broker, topic: str, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(30) == 0


def read(broker: Broker, topic: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "test"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        return [m.value() or b"" for m in consumer.consume(count, 30)]
    finally:
        consumer.close()


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def thread_states(pid: int) -> set[str]:
    threads = Path(f"/proc/{pid}/task").glob("*/stat")
    return {thread.read_text().rpartition(")")[2].split()[0] for thread in threads}


def wait_until_gone(pid: int, folder: Path) -> None:
    deadline = time.monotonic() + 60
    while (alive(pid) or folder.exists()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(pid)
    assert not folder.exists()


def test_what_is_appended_is_read_and_seen_by_kafkas_own_tools(kafka_broker: Broker) -> None:
    make_topic(kafka_broker, "tools")
    append(kafka_broker, "tools", b"first", b"second")
    assert read(kafka_broker, "tools", 2) == [b"first", b"second"]
    segment = kafka_broker.data / "tools-0" / f"{0:020}.log"
    dumped = kafka_broker.tool(
        "kafka.tools.DumpLogSegments", "--print-data-log", "--files", str(segment)
    )
    assert "payload: second" in dumped
    printed = kafka_broker.tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", kafka_broker.bootstrap, "--topic", "tools"),
        *("--from-beginning", "--max-messages", "2"),
    )
    assert printed.splitlines() == ["first", "second"]


def test_a_tool_that_fails_says_why(kafka_broker: Broker) -> None:
    with pytest.raises(
        BrokerError, match=r"DumpLogSegments ended with exit code 1: .*\n.*no-such-option"
    ):
        kafka_broker.tool("kafka.tools.DumpLogSegments", "--no-such-option")


def test_a_broker_keeps_its_log_and_address_over_a_kill_and_stands_still_while_paused() -> None:
    with Broker(java_options=QUICK) as broker:
        folder, bootstrap = broker.folder, broker.bootstrap
        make_topic(broker, "kept")
        append(broker, "kept", b"before")
        broker.kill()
        assert not broker.running
        broker.start()
        assert broker.bootstrap == bootstrap
        append(broker, "kept", b"after")
        assert read(broker, "kept", 2) == [b"before", b"after"]
        for _ in range(20):
            broker.pause()
            assert thread_states(broker.pid) == {"T"}
            broker.resume()
        broker.pause()
        admin = AdminClient({"bootstrap.servers": bootstrap, "socket.timeout.ms": 1000})
        with pytest.raises(KafkaException):
            admin.list_topics(timeout=1)
        broker.resume()
        assert "kept" in admin.list_topics(timeout=30).topics
        pid = broker.pid
    assert not alive(pid)
    assert not folder.exists()


def test_a_broker_that_does_not_start_says_why_and_leaves_nothing_behind(tmp_path: Path) -> None:
    broker = Broker(settings={"num.io.threads": "none"})
    with pytest.raises(BrokerError, match=r"(?s)num\.io\.threads"):
        broker.__enter__()
    assert not broker.running


def test_a_command_serves_until_ctrl_c_and_leaves_only_the_folder_that_it_was_given(
    tmp_path: Path,
) -> None:
    temporary, given = tmp_path / "temporary", tmp_path / "given"
    temporary.mkdir()
    with subprocess.Popen(
        [*MARSHAL, "broker", "--folder", str(given)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
    ) as command:
        try:
            assert command.stdout is not None
            assert command.stdout.readline().startswith("127.0.0.1:")
            command.send_signal(signal.SIGINT)
            _, said = command.communicate(timeout=30)
        finally:
            command.kill()
    assert command.returncode == 0
    assert "Ctrl-C ends it" in said
    assert (given / "data" / "meta.properties").exists()
    assert list(temporary.iterdir()) == []


@pytest.mark.night  # By day the tutorial starts with this command.
def test_a_command_says_at_once_what_it_does_and_makes_topics_to_try_with() -> None:
    with subprocess.Popen(
        [*MARSHAL, "broker", "--topic", "orders:4", "--messages", "1000", "--topic", "audit"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as command:
        try:
            assert command.stdout is not None
            assert command.stderr is not None
            assert command.stderr.readline().startswith("starting Kafka 4.")
            assert select.select([command.stdout], [], [], 0) == ([], [], [])
            bootstrap = command.stdout.readline().strip()
            cluster = ClusterClient(settings_of(bootstrap))
            ends = cluster.ends([("orders", number) for number in range(4)])
            topics = cluster.topics()
            command.send_signal(signal.SIGINT)
            _, said = command.communicate(timeout=30)
        finally:
            command.kill()
    assert command.returncode == 0
    assert ends == {("orders", number): 250 for number in range(4)}
    assert (topics["__marshal"], topics["audit"]) == (10, 1)
    assert said.splitlines()[:3] == [
        "__marshal: coordination topic",
        "orders: partitions: 4, messages: 1,000",
        "audit: partitions: 1, messages: 1,000",
    ]


def test_no_cluster_id_looks_like_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    """One in 64 would: Kafka's StorageTool then fails."""
    drawn = iter([uuid.UUID(bytes=bytes([first]) + bytes(15)) for first in (0xF8, 0xFB, 0x00)])
    monkeypatch.setattr(uuid, "uuid4", lambda: next(drawn))
    assert server.new_id() == "A" * 22


def test_kafka_chooses_the_versions_of_features_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for users, whom it writes beside them, and where it may choose unstable ones."""
    monkeypatch.setenv("KAFKA_MARSHAL_CACHE", str(tmp_path / "cache"))
    chosen: list[str] = []

    def chooses(*words: str) -> str:
        chosen.append(" ".join(words))
        data = Path(words[words.index("-c") + 1]).parent / "data"
        data.mkdir()
        (data / "bootstrap.checkpoint").write_bytes(b"%d" % len(chosen))
        return ""

    monkeypatch.setattr(server, "run_tool", chooses)
    monkeypatch.setattr(server, "command_line", lambda *_, **__: ["true"])
    nobody, users = Guard(), Guard({"ada": "secret"})
    unstable = {"unstable.api.versions.enable": "true"}
    found: list[bytes] = []
    for guard, settings in ((nobody, {}), (nobody, {}), (users, {}), (nobody, unstable)):
        one = server.Server(tmp_path / str(len(found)), (), 1.0, guard)
        one.launch("the-cluster", {"node.id": "1", **settings})
        one.kill()
        found.append((one.data / "bootstrap.checkpoint").read_bytes())
    assert found == [b"1", b"1", b"2", b"3"]
    assert len(chosen) == 3
    assert "--add-scram" in chosen[1]
    written = (tmp_path / "1" / "data" / "meta.properties").read_text().splitlines()
    assert written[:3] == ["version=1", "cluster.id=the-cluster", "node.id=1"]
    assert len(written[3]) == len("directory.id=") + 22


STARTER = """
import subprocess, sys, time
from pathlib import Path
from kafka_marshal.reaper import Reaper
sweeper = Reaper(Path(sys.argv[1]))
started = subprocess.Popen(["sleep", "600"], start_new_session=True, stdout=subprocess.DEVNULL)
sweeper.watch(started.pid)
print(started.pid, flush=True)
time.sleep(600)
"""


def test_what_a_killed_process_left_running_is_ended(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", STARTER, str(folder)], stdout=subprocess.PIPE, text=True
    ) as starter:
        assert starter.stdout is not None
        pid = int(starter.stdout.readline())
        assert alive(pid)
        starter.kill()
    wait_until_gone(pid, folder)

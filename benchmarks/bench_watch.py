"""How long from the append of a record to the finding it makes: `make bench-watch`.

A real broker on this machine, a coordination topic of four partitions that the broker stamps, and
1,000 owned claims of 50 topics. One process appends 10,000 records a second, nearly all of them
heartbeats of owners; one in a hundred is a heartbeat of somebody who owns nothing, and makes a
finding. `marshal watch --json` runs as a user runs it. A delay is from the broker's time stamp,
which is in whole milliseconds, to the moment when this process has read the line.

Broker, writer, watch and reader share the machine with each other and with whatever else runs. What
that alone costs is seen in the first line: a bare consumer that folds nothing and prints the same
records. CPU is of the watch, in seconds a second, its start included, which of Spark's is much.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kafka_marshal import ClaimingPartition, Heartbeat, coordinating_partition, encode
from kafka_marshal.core.messages import Offset, Partition
from kafka_marshal.scratch import Scratch
from kafka_marshal.testing import Broker

TOPICS, EACH, PARTITIONS, CLIENTS = 50, 20, 4, 10
STRANGER_EVERY = 100
COORDINATION = "__marshal"


def records() -> Iterator[tuple[int, bytes]]:
    """Coordinating partition and value, for ever."""
    claims = [
        (f"topic-{number // EACH}", Partition(number % EACH)) for number in range(TOPICS * EACH)
    ]
    places = {topic: coordinating_partition(topic, PARTITIONS) for topic, _ in claims}
    for number, (topic, partition) in enumerate(claims):
        client = f"c{number % CLIENTS}"
        claim = ClaimingPartition(0, int(time.time()), f"i-{client}", client, "g", topic, partition)
        yield places[topic], encode(claim)
    written = 0
    while True:
        for number, (topic, partition) in enumerate(claims):
            client = f"c{number % CLIENTS}"
            instance = f"i-{client}"
            if written % STRANGER_EVERY == 0:
                client, instance = "stranger", f"stranger-{written}"
            now_s, position = int(time.time()), Offset(written)
            beat = Heartbeat(0, now_s, instance, client, "g", topic, partition, position)
            yield places[topic], encode(beat)
            written += 1


def feed(bootstrap: str, rate: int, count: int) -> None:
    """Append at the rate, and say at the end what was appended."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 1})
    source = records()
    began = time.monotonic()
    for number in range(count):
        place, value = next(source)
        producer.produce(COORDINATION, value, partition=place)
        if number % 50 == 0:
            producer.poll(0)
            ahead_s = began + number / rate - time.monotonic()
            if ahead_s > 0:
                time.sleep(ahead_s)
    unsent = producer.flush(30)
    print(json.dumps({"seconds": time.monotonic() - began, "unsent": unsent}))


def read(bootstrap: str) -> None:
    """Print the strangers' records, in the words of a watch, for ever."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bare"})
    consumer.assign([TopicPartition(COORDINATION, place, 0) for place in range(PARTITIONS)])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    while True:
        first = consumer.poll(0.2)
        for message in () if first is None else (first, *consumer.consume(1000, 0)):
            if b"/stranger/" in (message.value() or b""):
                row = {"code": "acts_without_owning", "timestamp_ms": message.timestamp()[1]}
                print(json.dumps({"event": "finding", **row}))
        sys.stdout.flush()


def warm_up(bootstrap: str) -> None:
    """Append one heartbeat of a stranger, which is reported when the watch listens."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    now_s, zero = int(time.time()), Partition(0)
    place = coordinating_partition("warm-up", PARTITIONS)
    beat = Heartbeat(0, now_s, "stranger", "stranger", "g", "warm-up", zero, Offset(0))
    producer.produce(COORDINATION, encode(beat), partition=place)
    assert producer.flush(30) == 0


def measured(
    broker: Broker, command: list[str], rate: int, count: int
) -> tuple[float, list[int], float]:
    """Records/s appended, delays in ms, and the CPU seconds a second of what was started."""
    findings = count // STRANGER_EVERY - TOPICS * EACH // STRANGER_EVERY
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    config = {"message.timestamp.type": "LogAppendTime"}
    topic = NewTopic(COORDINATION, PARTITIONS, config=config)
    admin.create_topics([topic])[COORDINATION].result(30)
    cpu_before = _children_s()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as watch:
        assert watch.stdout is not None
        warm_up(broker.bootstrap)
        watch.stdout.readline()  # it is up
        feeder = subprocess.Popen(
            [sys.executable, __file__, "feed", broker.bootstrap, str(rate), str(count)],
            stdout=subprocess.PIPE,
        )
        delays: list[int] = []
        while len(delays) < findings:
            line = watch.stdout.readline()
            now_ms = time.time_ns() // 1_000_000
            row = json.loads(line)
            if row["event"] == "finding" and row["code"] == "acts_without_owning":
                delays.append(now_ms - row["timestamp_ms"])
        said, _ = feeder.communicate()
        feeder_s = _children_s() - cpu_before
        watch.terminate()
        watch.stdout.read()
    watch_s = _children_s() - cpu_before - feeder_s
    admin.delete_topics([COORDINATION])[COORDINATION].result(30)
    time.sleep(2)
    appended = json.loads(said)
    assert appended["unsent"] == 0
    return count / appended["seconds"], delays, watch_s / appended["seconds"]


def _children_s() -> float:
    times = os.times()
    return times.children_user + times.children_system


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="make bench-watch")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--rate", type=int, default=10_000, help="records a second")
    parser.add_argument("--only", nargs="+", metavar="LINE", help="the lines to measure")
    asked = parser.parse_args(arguments)
    count = asked.rate * asked.seconds
    if count // STRANGER_EVERY <= TOPICS * EACH // STRANGER_EVERY:
        parser.error(f"that appends {count:,} records; the first {TOPICS * EACH:,} are claims")
    print(f"CPython {sys.version.split()[0]}, {os.cpu_count()} cores, all on one machine")
    head = f"{'':16}{'records/s':>10}{'findings':>10}{'p50 ms':>8}{'p99 ms':>8}{'max ms':>8}"
    print(f"{head}{'CPU':>7}{'load':>7}")
    with Broker() as broker, Scratch("desk") as desk:
        watch = [sys.executable, "-m", "kafka_marshal.cli", "watch", "--json"]
        watch += ["--bootstrap", broker.bootstrap, "--heartbeat-interval", "60"]
        for name, command in (
            ("bare consumer", [sys.executable, __file__, "read", broker.bootstrap]),
            ("watch", watch),
            ("with checkpoint", [*watch, "--checkpoint", str(desk / "state")]),
            ("on Spark", [*watch, "--spark", "--trigger", "1"]),
        ):
            if name not in (asked.only or [name]):
                continue
            rate, delays, cpu = measured(broker, command, asked.rate, count)
            delays.sort()
            p50, p99 = (delays[int(len(delays) * q)] for q in (0.5, 0.99))
            print(
                f"{name:16}{rate:10,.0f}{len(delays):10,}{p50:8}{p99:8}{delays[-1]:8}"
                f"{cpu:7.2f}{os.getloadavg()[0]:7.1f}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["feed", where, rate, count]:
            feed(where, int(rate), int(count))
        case ["read", where]:
            read(where)
        case _:
            sys.exit(main())

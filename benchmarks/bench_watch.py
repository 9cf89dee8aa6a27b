"""How long from the append of a record to the finding it makes: `make bench-watch`.

A real broker on this machine, a coordination topic of four partitions that the broker stamps, and
1,000 owned claims of 50 topics. One process appends 10,000 records a second, nearly all of them
heartbeats of owners; one in a hundred is a heartbeat of somebody who owns nothing, and makes a
finding. `marshal watch --json` runs as a user runs it. A delay is from the broker's time stamp,
which is in whole milliseconds, to the moment when this process has read the line.

Broker, writer, watch and reader share the machine with each other and with whatever else runs. What
that alone costs is what the peer shows: a bare consumer that folds nothing and prints the same
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
from statistics import fmean
from typing import NamedTuple

from benchmarks.suite.figures import Better, Report, Target
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
WAYS = ("watch", "checkpoint", "spark")
THIS = [sys.executable, "-m", "benchmarks.bench_watch"]
PEER = "bare consumer"


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


class Watched(NamedTuple):
    """What came of one way of watching."""

    per_s: float
    """Records that were appended."""
    mean: float
    """Time stamps are whole milliseconds, so of a median of 1 or 2 no ratio is worth much."""
    p50: int
    p99: int
    most: int
    """Delays, in ms."""
    cores: float
    """CPU seconds a second."""


def measured(broker: Broker, command: list[str], rate: int, count: int) -> Watched:
    """Start the command, append, and wait for each finding."""
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
            [*THIS, "feed", broker.bootstrap, str(rate), str(count)],
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
    delays.sort()
    p50, p99 = (delays[int(len(delays) * q)] for q in (0.5, 0.99))
    per_s, cores = (each / appended["seconds"] for each in (count, watch_s))
    return Watched(per_s, fmean(delays), p50, p99, delays[-1], cores)


def _children_s() -> float:
    times = os.times()
    return times.children_user + times.children_system


def main(arguments: Sequence[str] | None = None) -> int:
    """Report delays and processor time, beside the bare consumer's."""
    parser = argparse.ArgumentParser(prog="make bench-watch")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--rate", type=int, default=10_000, help="records a second")
    parser.add_argument(
        "--only", nargs="+", choices=WAYS, default=WAYS, help="the ways of watching to measure"
    )
    Report.add_option(parser)
    asked = parser.parse_args(arguments)
    count = asked.rate * asked.seconds
    if count // STRANGER_EVERY <= TOPICS * EACH // STRANGER_EVERY:
        parser.error(f"that appends {count:,} records; the first {TOPICS * EACH:,} are claims")
    report = Report(asked.figures)
    given = f"{asked.rate:,} records/s for {asked.seconds} s, 1,000 claims, one finding in 100"
    with Broker() as broker, Scratch("desk") as desk:
        watch = [sys.executable, "-m", "kafka_marshal.cli", "watch", "--json"]
        watch += ["--bootstrap", broker.bootstrap, "--heartbeat-interval", "60"]
        more = {
            "watch": [],
            "checkpoint": ["--checkpoint", str(desk / "state")],
            "spark": ["--spark", "--trigger", "1"],
        }
        bare = measured(broker, [*THIS, "read", broker.bootstrap], asked.rate, count)
        for name in asked.only:
            found = measured(broker, [*watch, *more[name]], asked.rate, count)
            note = f"median {found.p50} ms, most {found.most} ms"
            for what, target in (("mean", None), ("p99", Target(50.0))):
                ours, theirs = getattr(found, what), {PEER: getattr(bare, what)}
                report.add(
                    f"watch.{name}.{what}", "ms", Better.LOWER, ours, given, theirs, target, note
                )
            report.add(
                f"watch.{name}.cpu",
                "cores",
                Better.LOWER,
                found.cores,
                given,
                {PEER: bare.cores},
                note=f"{found.per_s:,.0f} records/s were appended; the start is included",
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

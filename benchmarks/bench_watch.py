"""How long from the append of a record to the finding it makes: `make bench-watch`.

A real broker on this machine, a coordination topic of four partitions that the broker stamps, and
1,000 owned claims of 50 topics. One process appends 10,000 records a second, nearly all of them
heartbeats of owners; one in a hundred is a heartbeat of somebody who owns nothing, and makes a
finding. `marshal watch --json` runs as a user runs it. A delay is from the broker's time stamp,
which is in whole milliseconds, to the moment when this process has read the line.

Broker, writer, watch and reader share the machine with each other and with whatever else runs. What
that alone costs is what the peer shows: a bare consumer that folds nothing and prints the same
records. CPU is of the watch, in seconds a second, its start included, which of Spark's is much.

Two figures are of a watch that catches up with what was appended before. They show how many
records a second it takes, from its first finding to its last, and its memory after each fifth of
them. In the first the records have no headers, as the original's; in the second they have those of
our own consumers.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import NamedTuple, TypeAlias

from attrs import frozen
from benchmarks.meter import cpu_s
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
WAYS = ("watch", "checkpoint", "spark", "catch_up", "catch_up_with_headers")
THIS = [sys.executable, "-m", "benchmarks.bench_watch"]
PEER = "bare consumer"
Pairs: TypeAlias = list[tuple[str, str | bytes | None]]


def records(stranger_every: int, headers: bool = False) -> Iterator[tuple[int, bytes, Pairs]]:
    """Coordinating partition, value and headers, for ever.

    With headers, owners write those that our own consumer writes.
    """
    claims = [
        (f"topic-{number // EACH}", Partition(number % EACH)) for number in range(TOPICS * EACH)
    ]
    places = {topic: coordinating_partition(topic, PARTITIONS) for topic, _ in claims}
    appended = [0] * PARTITIONS
    interval = ("marshal-interval", b"60000")
    owners = []
    for number, (topic, partition) in enumerate(claims):
        client, place = f"c{number % CLIENTS}", places[topic]
        claim = ClaimingPartition(0, int(time.time()), f"i-{client}", client, "g", topic, partition)
        address = f"i-{client}/{client}/g/{topic}/{partition}".encode()
        owners.append(
            (place, topic, partition, address, ("marshal-epoch", b"%d" % appended[place]))
        )
        appended[place] += 1
        yield place, encode(claim), [interval] if headers else []
    written = 0
    while True:
        for place, topic, partition, address, epoch in owners:
            now_s, position = int(time.time()), Offset(written)
            said: Pairs = []
            if written % stranger_every == 0:
                name = f"stranger-{written}"
                beat = Heartbeat(0, now_s, name, "stranger", "g", topic, partition, position)
                value = encode(beat)
            else:
                value = b"Heartbeat/0/%d/%s/%d" % (now_s, address, position)
                if headers:
                    seen = b"%d" % (appended[place] - 1)
                    clock = b"%d000" % now_s
                    said = [epoch, ("marshal-seen", seen), ("marshal-clock", clock), interval]
            yield place, value, said
            appended[place] += 1
            written += 1


def feed(bootstrap: str, rate: int, count: int, stranger_every: int, headers: bool) -> None:
    """Append at the rate (0: as fast as it goes), and say at the end what was appended."""
    # Without idempotence batches may change places, and what the watch then finds is no heartbeat.
    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 1}
    )
    producer.list_topics(COORDINATION, timeout=30)
    began = time.monotonic()
    source = itertools.islice(records(stranger_every, headers), count)
    for number, (place, value, said) in enumerate(source):
        while True:
            try:
                producer.produce(COORDINATION, value, partition=place, headers=said or None)
                break
            except BufferError:
                producer.poll(0.1)
        if rate and number % 50 == 0:
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


@contextmanager
def coordination_topic(broker: Broker) -> Iterator[None]:
    """A new one, as long as it is needed."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    config = {"message.timestamp.type": "LogAppendTime"}
    topic = NewTopic(COORDINATION, PARTITIONS, config=config)
    admin.create_topics([topic])[COORDINATION].result(30)
    yield
    admin.delete_topics([COORDINATION])[COORDINATION].result(30)
    time.sleep(2)


@frozen
class Appended:
    """What is appended: how many records, which are strangers', and if owners have headers."""

    count: int
    stranger_every: int
    headers: bool = False

    def feeding(self, broker: Broker, rate: int) -> list[str]:
        """The command that appends it."""
        numbers = (rate, self.count, self.stranger_every, int(self.headers))
        return [*THIS, "feed", broker.bootstrap, *map(str, numbers)]

    @property
    def findings(self) -> int:
        """How many strangers speak."""
        return -(-(self.count - TOPICS * EACH) // self.stranger_every)


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


def measured(broker: Broker, command: list[str], rate: int, appended: Appended) -> Watched:
    """Start the command, append, and wait for each finding."""
    cpu_before = _children_s()
    with (
        coordination_topic(broker),
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as watch,
    ):
        assert watch.stdout is not None
        warm_up(broker.bootstrap)
        watch.stdout.readline()  # it is up
        feeder = subprocess.Popen(appended.feeding(broker, rate), stdout=subprocess.PIPE)
        delays: list[int] = []
        while len(delays) < appended.findings:
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
    fed = json.loads(said)
    assert fed["unsent"] == 0
    delays.sort()
    p50, p99 = (delays[int(len(delays) * q)] for q in (0.5, 0.99))
    per_s, cores = (each / fed["seconds"] for each in (appended.count, watch_s))
    return Watched(per_s, fmean(delays), p50, p99, delays[-1], cores)


@frozen
class CaughtUp:
    """How a watch read what was there when it began."""

    seconds: float
    cpu_s: float
    resident_mb: tuple[int, ...]
    """After each fifth of the records."""


def caught_up(broker: Broker, command: list[str], appended: Appended) -> CaughtUp:
    """Append records, then watch them from the beginning: from the first finding to the last."""
    with coordination_topic(broker):
        fed = subprocess.run(appended.feeding(broker, 0), capture_output=True, check=True)
        assert json.loads(fed.stdout)["unsent"] == 0
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as watch:
            assert watch.stdout is not None
            found, last = 0, appended.findings
            resident_mb: list[int] = []
            began = cpu_began = 0.0
            for line in watch.stdout:
                if b'"acts_without_owning"' not in line:
                    assert not _is_finding(line), f"the log is not as it was written: {line!r}"
                    continue
                if not found:
                    began, cpu_began = time.monotonic(), cpu_s(watch.pid)
                found += 1
                if found * 5 // last > len(resident_mb):
                    resident_mb.append(_resident_mb(watch.pid))
                if found == last:
                    break
            taken = time.monotonic() - began, cpu_s(watch.pid) - cpu_began
            watch.terminate()
            watch.stdout.read()
    return CaughtUp(*taken, tuple(resident_mb))


def _is_finding(line: bytes) -> bool:
    return bool(json.loads(line).get("event") == "finding")


def _resident_mb(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1_000_000


def _children_s() -> float:
    times = os.times()
    return times.children_user + times.children_system


def main(arguments: Sequence[str] | None = None) -> int:
    """Report delays and processor time beside the bare consumer's, and how fast it catches up."""
    parser = argparse.ArgumentParser(prog="make bench-watch")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--rate", type=int, default=10_000, help="records a second")
    parser.add_argument("--only", nargs="+", choices=WAYS, default=WAYS, help="what to measure")
    parser.add_argument("--stranger-every", type=int, default=STRANGER_EVERY, metavar="RECORDS")
    parser.add_argument("--catch-up", type=int, default=1_000_000, help="records to catch up with")
    Report.add_option(parser)
    asked = parser.parse_args(arguments)
    appended = Appended(asked.rate * asked.seconds, asked.stranger_every)
    if appended.count <= TOPICS * EACH + asked.stranger_every:
        parser.error(f"that appends {appended.count:,} records; {TOPICS * EACH:,} are claims")
    report = Report(asked.figures)
    given = f"1,000 claims, one finding in {asked.stranger_every} records"
    at_rate = f"{asked.rate:,} records/s for {asked.seconds} s, {given}"
    with Broker() as broker, Scratch("desk") as desk:
        watch = [sys.executable, "-m", "kafka_marshal.cli", "watch", "--json"]
        watch += ["--bootstrap", broker.bootstrap, "--heartbeat-interval", "60"]
        more = {
            "watch": [],
            "checkpoint": ["--checkpoint", str(desk / "state")],
            "spark": ["--spark", "--trigger", "1"],
        }
        live = [name for name in more if name in asked.only]
        if live:
            bare = measured(broker, [*THIS, "read", broker.bootstrap], asked.rate, appended)
            for name in live:
                found = measured(broker, [*watch, *more[name]], asked.rate, appended)
                report_delays(report, name, at_rate, found, bare)
        for name, headers in (("catch_up", False), ("catch_up_with_headers", True)):
            if name in asked.only:
                taken = caught_up(
                    broker, watch, Appended(asked.catch_up, asked.stranger_every, headers)
                )
                report.add(
                    f"watch.{name}",
                    "records/s",
                    Better.HIGHER,
                    asked.catch_up / taken.seconds,
                    f"{asked.catch_up:,} records that were there before, {given}",
                    target=Target(200_000.0),
                    note=(
                        f"{taken.cpu_s / asked.catch_up * 1e6:.1f} us of CPU a record, resident "
                        f"{', '.join(map(str, taken.resident_mb))} MB after each fifth"
                    ),
                )
    return 0


def report_delays(report: Report, name: str, given: str, found: Watched, bare: Watched) -> None:
    """Report a way of watching beside the bare consumer."""
    note = f"median {found.p50} ms, most {found.most} ms"
    for what, target in (("mean", None), ("p99", Target(50.0))):
        ours, theirs = getattr(found, what), {PEER: getattr(bare, what)}
        report.add(f"watch.{name}.{what}", "ms", Better.LOWER, ours, given, theirs, target, note)
    note = f"{found.per_s:,.0f} records/s were appended; the start is included"
    report.add(
        f"watch.{name}.cpu",
        "cores",
        Better.LOWER,
        found.cores,
        given,
        {PEER: bare.cores},
        note=note,
    )


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["feed", where, *numbers]:
            rate, count, stranger_every, headers = map(int, numbers)
            feed(where, rate, count, stranger_every, headers == 1)
        case ["read", where]:
            read(where)
        case _:
            sys.exit(main())

"""The client beside its peers, on one real broker of this machine: `make bench-client`.

Each ratio is of two things that were measured in this run, on the same topic. Broker and
clients share the machine. `ARGS="noop amo"` runs some of it only; `--scale 0.1` takes a tenth.

- noop: at least once, a loop that does nothing, beside confluent-kafka's `consume` and `poll` loops
  without a group, and beside Kafka's consumer group. One by one and as lists, of which each message
  is covered (`Message`), or left as Kafka's client gave it.
- pool: at least once, a handler that takes 0 to 5 ms, 1,000 keys, beside one thread.
- amo: at most once, beside Kafka's transactions (consume, transform, produce) of equal size, and
  beside the same copy without any grant. Each batch is granted by itself, or is a part of a larger
  grant or of a range that was claimed ahead.
- claims: from the first request to the last win of 256 partitions.
- idle: processor time and memory of a consumer with 1,000 claims and no messages.
- failover: from kill -9 of a consumer until another one owns its claims.
- catch_up: until a coordination topic of a million records is folded, and from a snapshot, beside
  a bare consumer that reads the same, asks for headers, and folds nothing.
"""

from __future__ import annotations

import argparse
import functools
import math
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import confluent_kafka as kafka
from benchmarks.suite.figures import Better, Report, Target, chosen
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kafka_marshal import ClaimingPartition, Heartbeat, coordinating_partition, encode
from kafka_marshal.client.api.consumer import Consumer, Messages
from kafka_marshal.client.api.delivery import CHUNK
from kafka_marshal.client.message import headers_of_all
from kafka_marshal.codec import encode_headers
from kafka_marshal.core.messages import Headers, Offset, Partition
from kafka_marshal.machines.consumer.claiming import Claiming
from kafka_marshal.scratch import Scratch
from kafka_marshal.testing import Broker

COORDINATION = "__marshal"
PARTITIONS = 8
SIZE = 200
"""Bytes of a message."""
ROUNDS = 3
ALONE = Claiming(greedy=True)


class Place:
    """The broker, and what is on it."""

    def __init__(self, bootstrap: str, scale: float, report: Report) -> None:
        self.bootstrap, self._scale = bootstrap, scale
        self.report = report
        self.admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self._names = 0

    def scaled(self, number: int) -> int:
        """A part of it, where it must be quick."""
        return max(1, round(number * self._scale))

    def name(self, what: str) -> str:
        """A new one."""
        self._names += 1
        return f"{what}-{self._names}"

    def topic(self, name: str, partitions: int, **config: str) -> str:
        """Create a topic."""
        made = NewTopic(name, partitions, 1, config=config)
        for future in self.admin.create_topics([made]).values():
            future.result(30)
        while name not in self.admin.list_topics(timeout=10).topics:
            time.sleep(0.05)
        time.sleep(0.5)  # the broker itself hears of it last
        return name

    def coordination(self) -> str:
        """A coordination topic."""
        return self.topic(self.name(COORDINATION), 4, **{"message.timestamp.type": "LogAppendTime"})

    def fill(self, topic: str, count: int, partitions: int, keys: int = 1000) -> None:
        """Produce messages, evenly over partitions, each with one of `keys` keys."""
        producer = kafka.Producer(
            {"bootstrap.servers": self.bootstrap, "linger.ms": 50, "compression.type": "lz4"}
        )
        value = b"x" * SIZE
        for number in range(count):
            while True:
                try:
                    producer.produce(
                        topic, value, b"%d" % (number % keys), partition=number % partitions
                    )
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.flush(120)

    def bare(self, topic: str, partitions: int) -> kafka.Consumer:
        """A consumer of Kafka without a group, at the beginning of every partition."""
        consumer = kafka.Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.name("bare"),
                "enable.auto.commit": False,
            }
        )
        consumer.assign([kafka.TopicPartition(topic, number, 0) for number in range(partitions)])
        return consumer

    def ours(self, coordination: str, client: str = "c1", **options: object) -> Consumer:
        """A consumer of ours in a group of its own, unless `options` name one."""
        given = {"group_id": self.name("group"), "claiming": ALONE, **options}
        return Consumer(self.bootstrap, client_id=client, coordination_topic=coordination, **given)  # type: ignore[arg-type]


def timed(do: Callable[[], None]) -> float:
    """Seconds."""
    began = time.perf_counter()
    do()
    return time.perf_counter() - began


def best(runs: dict[str, Callable[[], float]]) -> dict[str, float]:
    """Each several times in turns; the best of each."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            seconds[name].append(run())
    return {name: min(each) for name, each in seconds.items()}


# --- at least once --------------------------------------------------------------------------------


def noop(place: Place) -> None:
    """Messages a second of a loop that does nothing, from the first message to the last."""
    count = place.scaled(1_000_000)
    topic = place.topic(place.name("noop"), PARTITIONS)
    place.fill(topic, count, PARTITIONS)
    coordination = place.coordination()

    def by_consume() -> float:
        consumer, seen, began = place.bare(topic, PARTITIONS), 0, 0.0
        while seen < count:
            for message in consumer.consume(1000, 1.0):
                began = began or time.perf_counter()
                if message.error() is None:
                    seen += 1
        consumer.close()
        return time.perf_counter() - began

    def by_poll(consumer: kafka.Consumer) -> float:
        seen, began = 0, 0.0
        while seen < count:
            message = consumer.poll(1.0)
            if message is not None and message.error() is None:
                began = began or time.perf_counter()
                seen += 1
        took = time.perf_counter() - began
        consumer.close()
        return took

    def grouped() -> float:
        consumer = kafka.Consumer(
            {
                "bootstrap.servers": place.bootstrap,
                "group.id": place.name("kafka"),
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe([topic])
        return by_poll(consumer)

    def iterated() -> float:
        seen, began, took = 0, 0.0, math.nan
        with place.ours(coordination) as consumer:
            consumer.add_topic(topic)
            for _ in consumer:
                began = began or time.perf_counter()
                seen += 1
                if seen == count:
                    took = time.perf_counter() - began
                    break
        return took

    def listed(of: Callable[[Messages], Iterable[object]]) -> float:
        seen, began = 0, 0.0
        with place.ours(coordination) as consumer:
            consumer.add_topic(topic)
            while seen < count:
                for _ in of(consumer.consume(1000, 1.0)):
                    began = began or time.perf_counter()
                    seen += 1
            return time.perf_counter() - began

    took = best(
        {
            "consume(1000)": by_consume,
            "fetched": lambda: listed(lambda messages: messages.fetched),
            "consume": lambda: listed(iter),
            "poll()": lambda: by_poll(place.bare(topic, PARTITIONS)),
            "iterated": iterated,
            "consumer group": grouped,
        }
    )
    per_s = {name: count / seconds for name, seconds in took.items()}
    given = f"{count:,} messages of {SIZE} bytes, {PARTITIONS} partitions, best of {ROUNDS}"
    for name, target in (
        ("fetched", Target(0.95, "consume(1000)")),
        ("consume", None),
        ("iterated", Target(1.2, "poll()")),
    ):
        peers = {peer: per_s[peer] for peer in ("consume(1000)", "poll()", "consumer group")}
        ours, unit = per_s[name], "messages/s"
        place.report.add(f"client.noop.{name}", unit, Better.HIGHER, ours, given, peers, target)


def handle(message: object) -> None:
    """0 to 5 ms, by the message's offset: the same for everybody."""
    offset = message.offset() if callable(message.offset) else message.offset  # type: ignore[attr-defined]
    time.sleep((offset * 7919 % 5001) / 1_000_000)


def pool(place: Place) -> None:
    """Seconds for messages whose handler takes 0 to 5 ms."""
    count = place.scaled(10_000)
    topic = place.topic(place.name("pool"), PARTITIONS)
    place.fill(topic, count, PARTITIONS)
    coordination = place.coordination()

    def one_thread() -> float:
        consumer, seen, began = place.bare(topic, PARTITIONS), 0, 0.0
        while seen < count:
            message = consumer.poll(1.0)
            if message is not None and message.error() is None:
                began = began or time.perf_counter()
                handle(message)
                seen += 1
        consumer.close()
        return time.perf_counter() - began

    def workers(order: str) -> float:
        lock, seen, ends = threading.Lock(), 0, [0.0, 0.0]
        with place.ours(coordination) as consumer:

            def handler(message: object) -> None:
                nonlocal seen
                ends[0] = ends[0] or time.perf_counter()
                handle(message)
                with lock:
                    seen += 1
                    if seen == count:
                        ends[1] = time.perf_counter()
                        consumer.stop()

            consumer.add_topic(topic)
            consumer.run(handler, workers=32, order=order)  # type: ignore[arg-type]
        return ends[1] - ends[0]

    peers = {"one thread": count / one_thread()}
    given = f"{count:,} messages of 0 to 5 ms, 1,000 keys, {PARTITIONS} partitions, 32 workers"
    for order in ("partition", "key", "none"):
        per_s = count / workers(order)
        place.report.add(
            f"client.pool.order_{order}", "messages/s", Better.HIGHER, per_s, given, peers
        )


# --- at most once ---------------------------------------------------------------------------------


def amo(place: Place) -> None:
    """Messages a second where each batch is granted, or committed in a transaction, and copied."""
    count = place.scaled(300_000)
    topic = place.topic(place.name("amo"), 1)
    place.fill(topic, count, 1)
    out = place.topic(place.name("amo-out"), 1)
    coordination = place.coordination()

    def transactions(size: int) -> float:
        group = place.name("eos")
        consumer = kafka.Consumer(
            {
                "bootstrap.servers": place.bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe([topic])
        producer = kafka.Producer(
            {
                "bootstrap.servers": place.bootstrap,
                "transactional.id": group,
                # A transaction that begins while the last one's markers are written is tried again.
                "retry.backoff.ms": 5,
            }
        )
        producer.init_transactions(30)
        seen, began = 0, 0.0
        while seen < count:
            messages = [m for m in consumer.consume(size, 1.0) if m.error() is None]
            if not messages:
                continue
            began = began or time.perf_counter()
            producer.begin_transaction()
            for message in messages:
                producer.produce(out, message.value(), message.key())
            producer.send_offsets_to_transaction(
                consumer.position(consumer.assignment()), consumer.consumer_group_metadata()
            )
            producer.commit_transaction(30)
            seen += len(messages)
        consumer.close()
        return time.perf_counter() - began

    def copied(batches: Iterable[Sequence[kafka.Message]]) -> float:
        producer = kafka.Producer(
            {"bootstrap.servers": place.bootstrap, "enable.idempotence": True}
        )
        seen, began = 0, 0.0
        for messages in batches:
            began = began or time.perf_counter()
            for message in messages:
                producer.produce(out, message.value(), message.key())
            producer.flush(30)
            seen += len(messages)
            if seen >= count:
                return time.perf_counter() - began
        return math.nan

    def no_grants(size: int) -> float:
        """What is left without any promise: nothing that grants batches one by one is faster."""
        consumer = place.bare(topic, 1)
        batches = iter(functools.partial(consumer.consume, size, 1.0), None)
        took = copied([m for m in batch if m.error() is None] for batch in batches if batch)
        consumer.close()
        return took

    def fetched(consumer: Consumer) -> Iterator[Sequence[kafka.Message]]:
        return (batch.messages.fetched for batch in consumer.batches())

    claiming = Claiming(greedy=True, transactions_per_s=100_000)

    def granted(most: int) -> float:
        """A grant has at most `most` messages, and is handed over in lists of `CHUNK`."""
        with place.ours(
            coordination, semantics="at_most_once", batch=most, claiming=claiming
        ) as consumer:
            consumer.add_topic(topic)
            return copied(fetched(consumer))

    def ranges() -> float:
        """Batches are parts of ranges that are claimed ahead, of as many messages at most."""
        with place.ours(coordination, semantics="at_most_once") as consumer:
            consumer.add_topic(topic, share="ranges")
            return copied(fetched(consumer))

    for size in (100, CHUNK):
        ways: dict[str, Callable[[], float]] = {
            "transactions": functools.partial(transactions, size),
            "no grants": functools.partial(no_grants, size),
            "batches": functools.partial(granted, size),
        }
        if size == CHUNK:
            ways["grants_of_4"] = functools.partial(granted, 4 * CHUNK)
            ways["ranges"] = ranges
        took = best(ways)
        peers = {name: count / took.pop(name) for name in ("transactions", "no grants")}
        given = f"{count:,} messages of {SIZE} bytes, one partition, batches of {size:,} copied"
        for way, seconds in took.items():
            place.report.add(
                f"client.amo.{way}_{size}",
                "messages/s",
                Better.HIGHER,
                count / seconds,
                f"{given} to a topic, best of {ROUNDS}",
                peers,
                Target(3.0, "transactions") if size == CHUNK else None,
            )


# --- claims ---------------------------------------------------------------------------------------


def claims(place: Place) -> None:
    """From `add_topic` to the last of 256 claims; the original takes half a second for each."""
    topic = place.topic(place.name("claims"), 256)
    coordination = place.coordination()
    for name, claiming in (("greedy", Claiming(greedy=True)), ("fair_share", Claiming())):
        done = threading.Event()
        left = 256

        def count(_: object, done: threading.Event = done) -> None:
            nonlocal left
            left -= 1
            if not left:
                done.set()

        with place.ours(coordination, claiming=claiming, on_claimed=count) as consumer:
            began = time.perf_counter()
            consumer.add_topic(topic)
            if not done.wait(60):
                raise SystemExit(f"claims: {left} of 256 partitions were not claimed within 60 s")
            took = time.perf_counter() - began
        place.report.add(
            f"client.claims.{name}",
            "s",
            Better.LOWER,
            took,
            "from add_topic to the last of 256 claims; the original takes half a second for each",
            {"the original": 128.0},
        )


def idle(place: Place) -> None:
    """Of this process, for half a minute: in it each claim has one of its two heartbeats."""
    count = left = place.scaled(1_000)
    topic = place.topic(place.name("idle"), count)
    done = threading.Event()

    def count_down(_: object) -> None:
        nonlocal left
        left -= 1
        if not left:
            done.set()

    with place.ours(place.coordination(), on_claimed=count_down) as consumer:
        before = _resident_bytes()
        consumer.add_topic(topic)
        taking = threading.Thread(target=lambda: [None for _ in consumer])
        taking.start()
        if not done.wait(60):
            raise SystemExit(f"idle: {left} of {count} partitions were not claimed within 60 s")
        time.sleep(place.scaled(5))
        claim_kb = (_resident_bytes() - before) / count / 1000
        began, used = time.perf_counter(), time.process_time()
        time.sleep(place.scaled(30))
        share = (time.process_time() - used) / (time.perf_counter() - began)
        consumer.stop()
        taking.join()
    given = f"{count:,} claims, no messages, {place.scaled(30)} s"
    cpu = 100 * share
    place.report.add("client.idle.cpu", "% of a core", Better.LOWER, cpu, given, target=Target(2.0))
    place.report.add("client.idle.memory", "kB a claim", Better.LOWER, claim_kb, given)


def _resident_bytes() -> int:
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


CHILD = """
import sys
from kafka_marshal.client.api.consumer import Consumer
bootstrap, coordination, group, topic = sys.argv[1:]
with Consumer(bootstrap, group_id=group, client_id="victim", coordination_topic=coordination,
              heartbeat_interval_s=1.0,
              on_claimed=lambda claim: print("claimed", flush=True)) as consumer:
    consumer.add_topic(topic)
    for _ in consumer:
        pass
"""


def failover(place: Place) -> None:
    """From kill -9 until another consumer has read that it owns the claim; the interval is 1 s."""
    topic = place.topic(place.name("failover"), 1)
    coordination = place.coordination()
    delays: list[float] = []
    for _ in range(place.scaled(20)):
        group, claimed = place.name("failover"), threading.Event()
        command = [sys.executable, "-c", CHILD, place.bootstrap, coordination, group, topic]
        child = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        with place.ours(
            coordination,
            "heir",
            group_id=group,
            heartbeat_interval_s=1.0,
            on_claimed=lambda claim, claimed=claimed: claimed.set(),
        ) as consumer:
            consumer.add_topic(topic)
            time.sleep(1 + 0.37 * len(delays) % 1)
            os.kill(child.pid, signal.SIGKILL)
            began = time.perf_counter()
            if not claimed.wait(30):
                raise SystemExit("failover: nobody took over within 30 s")
            delays.append(time.perf_counter() - began)
        child.wait()
    delays.sort()
    place.report.add(
        "client.failover",
        "s",
        Better.LOWER,
        statistics.median(delays),
        f"median of {len(delays)} times kill -9; heartbeat interval 1 s, limit 2 s and one read",
        target=Target(2.0),
        note=f"least {delays[0]:.2f}, most {delays[-1]:.2f}",
    )


# --- catching up ----------------------------------------------------------------------------------


def _log_of(
    group: str, count: int, of: int, certified: bool
) -> Iterator[tuple[int, bytes, list[tuple[str, str | bytes | None]]]]:
    """A log of owners' heartbeats; every `of`th claim is of the group, the others of others.

    It is as the original writes it, or `certified`: with the headers that our owners send.
    """
    owned = [(f"topic-{n % 40}", Partition(n // 40)) for n in range(1000)]
    epochs, ends = list[int](), dict[int, int]()
    for number in range(count):
        topic, partition = owned[number % 1000]
        name = group if number % 1000 % of == 0 else f"{group}-other-{number % 7}"
        now_s, client = 1_795_000_000 + number // 1000, f"c{number % 10}"
        place = coordinating_partition(topic, 4)
        if number < 1000:
            claim = ClaimingPartition(0, now_s, f"i-{client}", client, name, topic, partition)
            headers = Headers(certified)
            epochs.append(ends.get(place, 0))
            ends[place] = epochs[-1] + 1
            yield place, encode(claim), [*encode_headers(headers)]
        else:
            epoch = epochs[number % 1000]
            said = {"epoch": epoch, "seen": epoch, "clock": now_s * 1000} if certified else {}
            headers = Headers(certified, **said)
            beat = Heartbeat(
                0, now_s, f"i-{client}", client, name, topic, partition, Offset(number)
            )
            yield place, encode(beat), [*encode_headers(headers)]


def catch_up(place: Place) -> None:
    """From the first byte asked for until the end was read and folded."""
    count = place.scaled(1_000_000)
    for of, certified in ((1, False), (1, True), (10, False)):
        coordination, group = place.coordination(), place.name("catch-up")
        # Without idempotence batches may change places: another log, and a slower one.
        in_order = {"enable.idempotence": True, "linger.ms": 50}
        producer = kafka.Producer({"bootstrap.servers": place.bootstrap, **in_order})
        for where, value, headers in _log_of(group, count, of, certified):
            while True:
                try:
                    producer.produce(coordination, value, partition=where, headers=headers)
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.flush(120)
        known, names = place.admin.list_topics(timeout=10).topics, dict[int, str]()
        for name in [f"catch-{n}" for n in range(40)]:
            names.setdefault(coordinating_partition(name, 4), name)
        for name in names.values():
            if name not in known:
                place.topic(name, 1)
        part = "all of our group" if of == 1 else f"one in {of} of our group"
        how = "with" if certified else "without"
        given = f"{count:,} records, 1,000 claims, {part}, {how} headers"
        name = f"client.catch_up.{'all' if of == 1 else 'tenth'}_{how}_headers"
        add = functools.partial(place.report.add, unit="s", better=Better.LOWER, given=given)
        with Scratch("desk") as folder:
            caught_up = functools.partial(
                _caught_up, place, coordination, group, names, folder / "snapshot"
            )
            bare_s, bare_cpu_s = _read_alone(place, coordination, count)
            took_s, cpu_s = caught_up()
            peers = {"bare consumer that asks for headers": bare_s}
            note = f"{cpu_s:.2f} s of CPU, {bare_cpu_s:.2f} s to fetch and to ask for headers"
            add(name, ours=took_s, peers=peers, target=Target(1.5), note=note)
            again_s, cpu_s = caught_up()
            peers, note = {"the whole log": took_s}, f"{cpu_s:.2f} s of CPU"
            add(f"{name}.snapshot", ours=again_s, peers=peers, note=note)


def _read_alone(place: Place, coordination: str, count: int) -> tuple[float, float]:
    """Until a bare consumer has read all of it, headers too: seconds, and of this process."""
    began, before, seen = time.perf_counter(), time.process_time(), 0
    consumer = place.bare(coordination, 4)
    while seen < count:
        messages = [each for each in consumer.consume(1000, 1.0) if each.error() is None]
        headers_of_all(messages)
        seen += len(messages)
    took = time.perf_counter() - began, time.process_time() - before
    consumer.close()
    return took


def _caught_up(
    place: Place, coordination: str, group: str, names: dict[int, str], snapshot: Path
) -> tuple[float, float]:
    """Until a topic of each coordinating partition is claimed: seconds, and of this process."""
    done, left = threading.Event(), len(names)

    def count_down(_: object) -> None:
        nonlocal left
        left -= 1
        if not left:
            done.set()

    with place.ours(
        coordination, group_id=group, on_claimed=count_down, snapshot=snapshot
    ) as consumer:
        began, before = time.perf_counter(), time.process_time()
        for name in names.values():
            consumer.add_topic(name)
        if not done.wait(120):
            raise SystemExit(f"catch_up: {left} topics were not claimed within 120 s")
        return time.perf_counter() - began, time.process_time() - before


ALL = {
    "noop": noop,
    "pool": pool,
    "amo": amo,
    "claims": claims,
    "idle": idle,
    "failover": failover,
    "catch_up": catch_up,
}


def main() -> None:
    """Run what was named, or all."""
    parser = argparse.ArgumentParser(prog="make bench-client")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(ALL)}; all")
    parser.add_argument("--scale", type=float, default=1.0, help="so much of each size")
    Report.add_option(parser)
    asked = parser.parse_args()
    try:
        names = chosen(asked.parts, list(ALL))
    except LookupError as error:
        parser.error(str(error))
    with Scratch("desk") as folder, Broker(folder=folder, heap="1g") as broker:
        place = Place(broker.bootstrap, asked.scale, Report(asked.figures))
        for name in names:
            ALL[name](place)


if __name__ == "__main__":
    main()

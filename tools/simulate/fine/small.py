"""Worlds around one consumer: its end, its failures, its topics, its log, its recording.

Each is aimed at one thing that threads share, beside messages.
"""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from prometheus_client import CollectorRegistry
from tools.simulate.fine.locks import NoLock
from tools.simulate.fine.world import FineWorld, judged

from kafka_marshal import Consumer, Producer, ProducerClosed, ProducerRecord
from kafka_marshal.client.connect.log_writer import LogWriter
from kafka_marshal.client.coordinate.recording import RecordedMember, write_log
from kafka_marshal.client.message import Claim
from kafka_marshal.client.observe.health import ClaimProgress
from kafka_marshal.client.observe.metrics import PrometheusObserver
from kafka_marshal.client.produce.response import SendResponse
from kafka_marshal.core.messages import ClaimingPartition, Headers
from kafka_marshal.core.messages import Partition as Number
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.errors import COORDINATION_TOPIC, MarshalError
from kafka_marshal.machines.consumer.consumer import InstanceConfig, Mode
from kafka_marshal.machines.consumer.effects import Send
from kafka_marshal.scratch import Scratch
from kafka_marshal.testing.in_memory import Partition
from kafka_marshal.validate import read_folder, validate

INTERVAL_S: Final = 2.0
ENDS_S: Final = 60.0
"""Within which a consumer that was closed, or failed, has ended."""


def _consumes(world: FineWorld, made: list[Consumer], **options: Any) -> None:
    """An application that processes messages until its consumer ends; `failing` raises in it."""
    with (
        suppress(MemoryError),
        Consumer(
            settings=world.settings,
            group_id="g",
            client_id="a",
            heartbeat_interval_s=INTERVAL_S,
            on_claimed=lambda _: None,
            **options,
        ) as consumer,
    ):
        made.append(consumer)
        with suppress(MarshalError):
            consumer.add_topic("orders")
            for _ in consumer:
                world.scheduler.sleep(0.001)


def _waits_for(world: FineWorld, made: list[Consumer]) -> Consumer:
    while not made:
        world.scheduler.sleep(0.05)
    return made[0]


def closing(world: FineWorld) -> list[str]:
    """A recorded consumer that two threads close at once, sometimes where its log lost records."""
    scheduler, made = world.scheduler, list[Consumer]()
    world.kafka.create("orders", 3, 500)

    leaving: list[str] = []

    def closes() -> None:
        consumer, chance = _waits_for(world, made), scheduler.chance
        consumer.close(chance.random() < 0.3, timeout_s=chance.choice((0.0, 0.01, 5.0)))

    def run(folder: Path) -> None:
        world.begin(
            "a", "application", partial(_consumes, world, made, record_to=folder, window=10)
        )
        consumer = _waits_for(world, made)
        scheduler.sleep(scheduler.chance.uniform(0.1, 3.0))
        if scheduler.chance.random() < 0.5:
            world.kafka.topics[COORDINATION_TOPIC] = [Partition(), Partition()]
            with world.kafka.changed:
                world.kafka.wake()
            scheduler.sleep(scheduler.chance.choice((0.5, 2.0, 5.0)))
            lost = True
        else:
            lost = False
        leave = consumer._coordinator.leave

        def leaves() -> None:
            leaving.append(scheduler.current_name)
            leave()

        consumer._coordinator.leave = leaves  # type: ignore[method-assign]
        for _ in range(4):
            world.begin("a", "closes", closes)
        scheduler.sleep(ENDS_S)
        if len(leaving) > 1:
            world.wrong.append("two threads closed one consumer")
        if any(thread.process == "a" for thread in scheduler.threads):
            world.wrong.append("a thread of a closed consumer does not end")
        if world.wrong:
            return
        for path in folder.glob("*.jsonl"):
            lines = path.read_text(encoding="utf-8").splitlines()
            if [at for at, line in enumerate(lines) if '"crashed"' in line] != [len(lines) - 1]:
                world.wrong.append("a recording does not end once")
        if not lost and not consumer.delivery.in_flight:
            write_log(world.kafka.settings(), COORDINATION_TOPIC, folder)
            unexplained = validate(read_folder(folder)).unexplained
            if unexplained is not None:
                world.wrong.append(f"what was recorded is not explained: {unexplained}")

    with Scratch("fine") as folder:
        return judged(world, partial(run, folder / "recorded"))


def failing(world: FineWorld) -> list[str]:
    """A consumer whose calls of Kafka raise, all at once, what ends its threads."""
    scheduler, made = world.scheduler, list[Consumer]()
    world.kafka.create("orders", 3, 50)

    def speaks() -> None:
        raise MemoryError(scheduler.current.name)

    def run() -> None:
        world.begin("a", "application", partial(_consumes, world, made))
        consumer = _waits_for(world, made)
        scheduler.sleep(scheduler.chance.uniform(0.1, 3.0))
        world.kafka.speaks = speaks
        scheduler.sleep(1.0)
        scheduler.sleep(ENDS_S)
        if consumer._coordinator.failure is None:
            world.wrong.append("a consumer did not fail")
        reasons = [line for line in world.lines if getattr(line, "event", "") == "stopped"]
        if len(reasons) > 1:
            world.wrong.append("why a consumer stops was reported more than once")
        if any(thread.process == "a" for thread in scheduler.threads):
            world.wrong.append("a thread of a failed consumer does not end")

    return judged(world, run)


def subscribing(world: FineWorld) -> list[str]:
    """A consumer whose subscription changes while topics are made that match it."""
    scheduler, made = world.scheduler, list[Consumer]()
    world.kafka.create("orders", 1, 5)

    def run() -> None:
        options = {"metadata_refresh_s": 0.05}
        world.begin("a", "application", partial(_consumes, world, made, **options))
        consumer = _waits_for(world, made)
        wanted: list[set[str]] = []
        for number in range(6):
            world.kafka.create(f"a{number}", 1, 1)
            world.kafka.create(f"b{number}", 1, 1)
            pattern = scheduler.chance.choice(("^a", "^b", None))
            consumer.subscribe(pattern or ())
            wanted = [{f"{pattern[1]}{each}" for each in range(number + 1)} if pattern else set()]
            scheduler.sleep(scheduler.chance.expovariate(10.0))
        scheduler.interrupts = False
        scheduler.sleep(2.0)
        there = consumer._coordinator.loop.topics
        if there != wanted[-1] | {"orders"} or consumer._subscribed != wanted[-1]:
            world.wrong.append("what is consumed is not what was subscribed last")
        consumer.close()

    return judged(world, run)


def appending(world: FineWorld) -> list[str]:
    """A `LogWriter` that several threads append by, while it is closed or its thread dies."""
    scheduler, chance = world.scheduler, world.scheduler.chance
    futures: list[Future[Any]] = []

    def speaks() -> None:
        if scheduler.current.name.startswith("marshal-log"):
            raise MemoryError

    def appends(log: LogWriter) -> None:
        for number in range(50):
            message = ClaimingPartition(1, 0, "i", "c", "g", "orders", Number(number))
            futures.append(log.append(0, message, Headers()))
            scheduler.sleep(chance.choice((0.0, 0.001)))

    def run() -> None:
        log = LogWriter(world.settings, COORDINATION_TOPIC)
        for number in range(3):
            world.begin("a", f"appends {number}", partial(appends, log))
        scheduler.sleep(chance.uniform(0.0, 0.1))
        if chance.random() < 0.5:
            world.kafka.speaks = speaks
        log.close(timeout_s=chance.choice((0.0, 0.01, 5.0)))
        scheduler.sleep(ENDS_S)
        outcomes = Counter(future.done() for future in futures)
        if outcomes[False]:
            world.wrong.append("an append has no outcome")

    return judged(world, run)


def recording(world: FineWorld) -> list[str]:
    """An instance that is recorded, and ends while it is at work."""
    scheduler, chance = world.scheduler, world.scheduler.chance
    left_out = world.without is not None and world.without.text.startswith("lock=config")
    lock = NoLock(scheduler) if left_out else scheduler.lock()
    sent = Counter[bool]()

    def run(folder: Path) -> None:
        me = InstanceConfig("i", "c", Mode.AT_LEAST_ONCE)
        member = RecordedMember(me, "g", 1, firsts={0: 0}, folder=folder, lock=lock)

        def works() -> None:
            for number in range(40):
                effects = member.add_topic(f"t{number}", 1, 1_000 * number, start=lambda _: 7)
                effects += member.caught_up(0, 1_000 * number)
                effects += member.timer(1_000 * number)
                sent.update(isinstance(each.effect, Send) for each in effects)

        world.begin("a", "works", works)
        for _ in range(2):
            scheduler.sleep(chance.choice((0.0, 0.001, 0.05)))
            world.begin("a", "ends", member.end)
        scheduler.sleep(ENDS_S)
        kinds = [json.loads(line) for line in member.path.read_text("utf-8").splitlines()[1:]]
        recorded = sum(kind.get("event") == "sent" for kind in kinds)
        if recorded != sent[True]:
            world.wrong.append("a record was sent and not recorded")
        if [each for each in kinds if each.get("event") == "crashed"] != kinds[-1:]:
            world.wrong.append("a recording does not end once")

    with Scratch("fine") as folder:
        return judged(world, partial(run, folder / "recorded"))


def observing(world: FineWorld) -> list[str]:
    """Metrics of two consumers in one process, which own one partition in turn."""
    scheduler, chance = world.scheduler, world.scheduler.chance
    registry = CollectorRegistry()
    metrics = PrometheusObserver(registry)
    # It comes from no environment, since several consumers share it.
    left_out = world.without is not None and world.without.module == "observe/metrics"
    lock = NoLock(scheduler) if left_out else scheduler.lock()
    metrics._lock = lock  # type: ignore[assignment]
    key, owned = ClaimKey("g", "orders", 0), list[Claim]()

    def owns(first: int) -> None:
        for epoch in range(first, 20, 2):
            claim = Claim(key, "orders", 0, epoch, 100 * epoch)
            owned.append(claim)
            metrics.claimed(claim)
            for further in range(chance.randrange(4)):
                metrics.standing(claim, ClaimProgress(100 * epoch + further, 100 * epoch + 50))
                scheduler.sleep(chance.choice((0.0, 0.001)))
            if epoch < 18:
                metrics.left(claim)

    def run() -> None:
        for first in (0, 1):
            world.begin("a", f"consumer {first}", partial(owns, first))
        scheduler.sleep(ENDS_S)
        labels = {"group": "g", "topic": "orders", "partition": "0"}
        shown = registry.get_sample_value("marshal_consumer_position", labels)
        if shown is None or shown < 1800:
            world.wrong.append("metrics show a claim that is over")

    return judged(world, run)


def producing(world: FineWorld) -> list[str]:
    """A `Producer` with a small buffer that several threads send by, while it is closed."""
    scheduler, chance = world.scheduler, world.scheduler.chance
    world.kafka.create("orders", 1)
    responses: list[SendResponse] = []

    def sends(producer: Producer) -> None:
        with suppress(ProducerClosed):
            for number in range(30):
                responses.append(
                    producer.send(ProducerRecord("orders", b"x", partition=number % 2))
                )

    def run() -> None:
        producer = Producer(settings=world.settings, buffer_bytes=chance.choice((8_000, 80_000)))
        for number in range(3):
            world.begin("a", f"sends {number}", partial(sends, producer))
        scheduler.sleep(chance.uniform(0.0, 0.5))
        producer.flush(chance.choice((0.0, 0.01)))
        producer.close(timeout_s=chance.choice((0.0, 0.01, 5.0)))
        scheduler.sleep(ENDS_S)
        if not all(response.done() for response in responses):
            world.wrong.append("a record has no outcome")
        if producer.buffered_bytes:
            world.wrong.append(f"{producer.buffered_bytes} bytes are counted that nobody waits for")

    return judged(world, run)

"""A crowd: two consumers, whose claims and messages come and go while others ask and disturb.

It is aimed at what threads share of messages: fetched, buffered, in hand, handled.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from attrs import define, field
from tools.simulate.fine.world import FineWorld, judged

from kafka_marshal import Consumer, Observer
from kafka_marshal.client.coordinate.configuration import Semantics
from kafka_marshal.client.fetch.buffers import BufferLimits
from kafka_marshal.client.message import Claim, Message
from kafka_marshal.errors import ConsumerClosed, MarshalError, ThreadFailed

INTERVAL_S: Final = 2.0
PARTITIONS: Final = 3
STORM_S: Final = 4.0
CALM_S: Final = 60.0
"""Within which what was produced has been processed, once nobody disturbs."""
HANDLED_S: Final = (0.0, 0.0, 0.0, 0.001, 0.01)


@define(eq=False)
class Application(Observer):
    """A consumer, what its application was given and has finished, and what was reported to it."""

    world: FineWorld
    name: str
    semantics: Semantics
    way: str
    consumer: Consumer | None = None
    given: dict[Claim, list[int]] = field(factory=lambda: defaultdict(list))
    finished: dict[Claim, set[int]] = field(factory=lambda: defaultdict(set))
    reported: dict[Claim, int] = field(factory=dict)
    """Below this everything was reported as done."""
    last: Message | None = None
    """The message that was finished last."""
    handled: int = 0
    process: str = ""

    def run(self) -> None:
        """Consume until somebody stops or closes the consumer."""
        with Consumer(
            settings=self.world.settings,
            group_id="g",
            client_id=self.name,
            semantics=self.semantics,
            heartbeat_interval_s=INTERVAL_S,
            window=40,
            batch=20,
            bounds=BufferLimits(messages=50),
            observers=[self],
            on_claimed=lambda _: None,
        ) as consumer:
            self.consumer = consumer
            with suppress(ConsumerClosed):
                consumer.add_topic("orders")
                getattr(self, self.way)(consumer)
            consumer._coordinator.raise_failure()
        self._check_buffers(consumer)

    def take(self, message: Message) -> None:
        """The application is given a message, and is done with it after a while."""
        given, at = self.given[message.claim], message.offset
        if at in self.finished[message.claim]:
            self.world.wrong.append("a message was given twice in a tenure")
        elif given and at > given[-1] + 1:
            self.world.wrong.append("a message was skipped in a tenure")
        elif given and at < given[-1]:
            self.world.wrong.append("a message was given out of order")
        given.append(at)
        chance = self.world.scheduler.chance
        self.world.scheduler.sleep(chance.choice(HANDLED_S))
        if self.way == "runs" and chance.random() < 0.05:
            raise RuntimeError("it is to be tried again")
        self.finished[message.claim].add(at)
        self.last = message

    def done(self, claim: Claim, position: int, offsets: int) -> None:
        """The consumer takes everything below the position as done."""
        begin = self.reported.get(claim, claim.position)
        self.reported[claim] = position
        if any(at not in self.finished[claim] for at in range(begin, position)):
            self.world.wrong.append("a message counts as done that was not finished")

    def loops(self, consumer: Consumer) -> None:
        """Iterate over the consumer."""
        for message in consumer:
            self.take(message)

    def polls(self, consumer: Consumer) -> None:
        """Poll, and acknowledge each message."""
        while not consumer.delivery.ended:
            message = consumer.poll(timeout_s=0.05)
            if message is not None:
                self.take(message)
                consumer.ack(message)

    def consumes(self, consumer: Consumer) -> None:
        """Take lists."""
        while not consumer.delivery.ended:
            for message in consumer.consume(self.world.scheduler.chance.choice((1, 7, 100)), 0.05):
                self.take(message)

    def batches(self, consumer: Consumer) -> None:
        """Take batches."""
        for batch in consumer.batches():
            for message in batch.messages:
                self.take(message)

    def mixed(self, consumer: Consumer) -> None:
        """Take messages in one way after the other."""
        while not consumer.delivery.ended:
            way = self.world.scheduler.chance.choice(("poll", "list", "loop"))
            if way == "poll":
                message = consumer.poll(timeout_s=0.05)
                if message is not None:
                    self.take(message)
                    consumer.ack(message)
            elif way == "list":
                for message in consumer.consume(5, 0.05):
                    self.take(message)
            elif not consumer.delivery.stopped and consumer.delivery.in_flight is not None:
                for message in consumer:
                    self.take(message)
                    if self.world.scheduler.chance.random() < 0.3:
                        break

    def runs(self, consumer: Consumer) -> None:
        """Have workers handle messages, and fail now and then."""

        def handle(message: Message) -> None:
            self.take(message)
            self.handled += 1

        counts = consumer.run(handle, workers=3, order="partition", retries=99, backoff_s=0.001)
        lost = any(claim.lost is not None for claim in self.given)
        if not lost and counts.handled != self.handled:
            self.world.wrong.append("`run` counted wrongly")

    def _check_buffers(self, consumer: Consumer) -> None:
        fetcher = consumer._fetcher
        with fetcher._lock:
            buffers = fetcher._buffers
            each = [*buffers._buffers.values()]
            sums = sum(one.messages for one in each), sum(one.bytes for one in each)
            turns = Counter(buffers._turns) == Counter([*buffers._ready])
            if (buffers._messages, buffers._bytes) != sums or not turns:
                self.world.wrong.append("the buffers' sums are wrong")


WAYS: Final = {
    "at_least_once": ("loops", "polls", "consumes", "batches", "mixed", "runs", "runs"),
    "at_most_once": ("loops", "polls", "consumes", "batches", "mixed"),
}


@define
class Crowd:
    """Two consumers, whose claims, messages and ends come while operators ask and disturb."""

    world: FineWorld
    semantics: Semantics
    storm_s: float = STORM_S
    kills: bool = True
    applications: list[Application] = field(factory=list)
    calm: bool = False

    def start(self, client_id: str) -> Application:
        """Start a process: an application and an operator."""
        way = self.world.scheduler.chance.choice(WAYS[self.semantics])
        made = Application(self.world, client_id, self.semantics, way)
        self.applications.append(made)
        process = f"{client_id}, {len(self.applications)}"
        self.world.begin(process, f"{way} of {client_id}", made.run)
        self.world.begin(process, f"operator of {client_id}", partial(self.operates, made))
        made.process = process
        return made

    def operates(self, of: Application) -> None:
        """Ask and disturb, from a thread of its own."""
        scheduler = self.world.scheduler
        chance = scheduler.chance
        while of.consumer is None:
            scheduler.sleep(0.05)
        consumer = of.consumer
        while not self.calm and not consumer.delivery.closed:
            scheduler.sleep(chance.expovariate(1 / 0.02))
            partition, last = chance.randrange(PARTITIONS), of.last
            calls: list[Callable[[], object]] = [
                lambda: consumer.claims,
                consumer.assignment,
                lambda: repr(consumer),
                partial(consumer.position, "orders", partition),
                partial(consumer.committed, "orders", partition),
                partial(consumer.lag, "orders", partition),
                partial(consumer.pause, "orders", partition),
                partial(consumer.resume, "orders", partition),
                partial(consumer.resume, "orders"),
            ]
            if chance.random() < 0.02:
                calls = [partial(consumer.release, "orders", partition)]
            if last is not None:
                calls += [
                    partial(consumer.ack, last),
                    partial(consumer.commit, last, asynchronous=True),
                    partial(consumer.commit, last, timeout_s=0.2),
                ]
            try:
                chance.choice(calls)()
            except ThreadFailed:
                raise
            except MarshalError:
                pass  # nothing is claimed, or it was closed
        with suppress(MarshalError):
            consumer.resume("orders")

    def produces(self) -> None:
        """Append messages while there is a storm."""
        chance = self.world.scheduler.chance
        while not self.calm:
            self.world.scheduler.sleep(chance.expovariate(1 / 0.05))
            self.world.kafka.produce("orders", chance.randrange(12), chance.randrange(PARTITIONS))

    def goes(self) -> None:
        """Run until everything was processed, and check it."""
        scheduler = self.world.scheduler
        chance = scheduler.chance
        self.world.kafka.create("orders", PARTITIONS, 10)
        left = [self.start("a"), self.start("b")]
        self.world.begin("producer", "producer", self.produces)
        until_s = scheduler.clock.monotonic() + self.storm_s
        while scheduler.clock.monotonic() < until_s:
            scheduler.sleep(chance.expovariate(1.0))
            one = left.pop(0)
            if self.kills and chance.random() < 0.3:
                scheduler.kill(one.process)
            else:
                self.ends(one)
            left.append(self.start(one.name))
        self.calm, scheduler.interrupts = True, False
        until_s = scheduler.clock.monotonic() + CALM_S
        while not self.is_done(left):
            if self.world.wrong or scheduler.clock.monotonic() > until_s:
                break
            scheduler.sleep(0.5)
            for one in left:
                if one.consumer is not None:
                    with suppress(MarshalError):
                        one.consumer.resume("orders")
        else:
            self.check_all()
        if not self.is_done(left):
            self.world.wrong.append("messages were not processed in time")
        for one in left:
            self.ends(one)

    def ends(self, one: Application) -> None:
        """End it in one of the ways in which others may."""
        scheduler = self.world.scheduler
        until_s = scheduler.clock.monotonic() + CALM_S
        while one.consumer is None and scheduler.clock.monotonic() < until_s:
            scheduler.sleep(0.1)
        if one.consumer is None:
            self.world.wrong.append("a consumer was not made in time")
            return
        chance = scheduler.chance
        if chance.random() < 0.7:
            one.consumer.stop()
            scheduler.sleep(chance.choice((0.0, 0.1, 5.0)))
        one.consumer.close(timeout_s=5.0)
        scheduler.sleep(5.0)
        if any(thread.process == one.process for thread in scheduler.threads):
            self.world.wrong.append("a thread of a closed consumer does not end")

    def end_of(self, partition: int) -> int:
        """Where a partition ends."""
        return self.world.kafka.topics["orders"][partition].high

    def is_done(self, of: list[Application]) -> bool:
        """Whether the log has everything as processed, or granted."""
        claims = [claim for one in of if one.consumer for claim in one.consumer.claims]
        committed = {claim.partition: claim.committed for claim in claims}
        return all(committed.get(each) == self.end_of(each) for each in range(PARTITIONS))

    def check_all(self) -> None:
        """Check what all applications were given together."""
        given = Counter(
            (claim.partition, at)
            for one in self.applications
            for claim, each in one.given.items()
            for at in each
        )
        there = {(number, at) for number in range(PARTITIONS) for at in range(self.end_of(number))}
        if self.semantics == "at_most_once":
            if max(given.values(), default=1) > 1:
                self.world.wrong.append("a message was given twice")
        elif there - given.keys():
            self.world.wrong.append("a message was given to nobody")


def crowd(world: FineWorld, semantics: Semantics) -> list[str]:
    """Two consumers, and others who ask and disturb."""
    return judged(world, Crowd(world, semantics).goes)

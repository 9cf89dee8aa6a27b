"""Random schedules of everything that can happen to consumers of one group, checked as a whole.

At least once, no message is passed over. At most once, none is given out twice, and `marshal
receipts` lists each that was granted and not processed. A walk that fails prints the seed that
replays its choices; what threads do between two choices is theirs.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from contextlib import suppress
from typing import Final, Literal

import pytest
from confluent_kafka import Message as Fetched

from kafka_marshal.admin.fold import ClaimsFold
from kafka_marshal.client.api.consumer import (
    Claiming,
    ClaimLost,
    Consumer,
    Message,
    OutcomeUnknown,
)
from kafka_marshal.client.api.delivery import DeliveryMode
from kafka_marshal.codec import decode, decode_headers
from kafka_marshal.core.messages import ClaimingMessages, Partition, Record, ReleaseGroup
from kafka_marshal.core.messages import Message as Said
from kafka_marshal.errors import ConsumerClosed, InvalidOption
from tests.client import doubles
from tests.client.api.test_at_most_once import receipts
from tests.client.doubles import LANDS, LANDS_SOMEWHERE, LANDS_UNKNOWN, LOST, Append, Kafka, until

ALO: Final = "at_least_once"
AMO: Final = "at_most_once"
MESSAGES: Final = 30
"""Of each partition."""
STEPS: Final = 40
DAY_S: Final = 1.5
NIGHT_S: Final = 60.0
"""How long each semantics walks; MARSHAL_WALKS_S sets another time."""

Semantics = Literal["at_least_once", "at_most_once"]


class Walk:
    """Two clients of one group, and a random hand."""

    def __init__(self, semantics: Semantics, seed: int) -> None:
        self.semantics: Semantics = semantics
        self.random = random.Random(seed)
        self.kafka = Kafka()
        self.partitions = self.random.choice((1, 2))
        self.kafka.create("events", self.partitions)
        self.given: Counter[tuple[int, int]] = Counter()
        """How often each message was given out, by partition and offset."""
        self.done: set[tuple[int, int]] = set()
        self.consumers: dict[str, Consumer] = {}
        self.in_hand: dict[str, list[tuple[str, Message]]] = {"a": [], "b": []}
        """What was given out and is not done, and in which way."""
        self.acked: dict[str, list[Message]] = {"a": [], "b": []}
        """What was acknowledged, until a commit answers that the log has it."""
        self.closed: list[Consumer] = []

    # --- what the cluster does --------------------------------------------------------------------

    def appends(self, message: Said) -> Append:
        return self.random.choices((LANDS, LANDS_SOMEWHERE, LANDS_UNKNOWN, LOST), (20, 1, 1, 1))[0]

    def fetching(self, batch: list[Fetched]) -> None:
        if self.random.random() < 0.2:
            time.sleep(0.01)

    # --- what happens -----------------------------------------------------------------------------

    def start(self, client: str) -> None:
        consumer = self.kafka.new_consumer(
            client,
            semantics=self.semantics,
            heartbeat_interval_s=1.0,
            batch=self.random.choice((2, 5, 100)),
            window=self.random.choice((4, 10, 1000)),
            claiming=Claiming(transactions_per_s=2_000),
        )
        self.consumers[client] = consumer
        consumer.add_topic("events")

    def step(self) -> None:
        client = self.random.choice("ab")
        consumer = self.consumers.get(client)
        if consumer is None:
            self.start(client)
            return
        act = self.random.choices(
            (
                self.poll,
                self.consume,
                self.loop,
                self.run_handlers,
                self.commit,
                self.pause,
                self.poll_meanwhile,
                self.pause_for_long,
                self.resume,
                self.seek,
                self.release,
                self.remove_topic,
                self.close,
            ),
            (12, 4, 3, 1, 4, 4, 3, 1, 4, 1, 1, 0.5, 1),
        )[0]
        act(client, consumer)
        for chance, happens in (
            (0.3, self.produce),
            (0.1, self.release_group),
            (0.1, self.hold_log),
            (0.2, self.kafka.flow),
            (0.03, self.lose_head),
        ):
            if self.random.random() < chance:
                happens()

    def got(self, client: str, way: str, messages: list[Message]) -> None:
        for message in messages:
            self.given[message.partition, message.offset] += 1
        self.in_hand[client] += [(way, message) for message in messages]

    def finished(self, client: str, *ways: str) -> None:
        """What was given out before in these ways is done."""
        held = self.in_hand[client]
        self.done |= {(one.partition, one.offset) for way, one in held if way in ways}
        self.in_hand[client] = [(way, one) for way, one in held if way not in ways]

    def poll(self, client: str, consumer: Consumer) -> None:
        self.finished(client, "loop")
        message = consumer.poll(0.05)
        self.got(client, "poll", [] if message is None else [message])

    def consume(self, client: str, consumer: Consumer) -> None:
        self.finished(client, "loop", "list")
        self.got(client, "list", list(consumer.consume(self.random.choice((1, 3, 10)), 0.02)))

    def loop(self, client: str, consumer: Consumer) -> None:
        """What a loop does, but it does not wait for ever."""
        self.finished(client, "loop", "list")
        for _ in range(self.random.choice((1, 2, 5))):
            in_flight = consumer.delivery.take(0.02, DeliveryMode.LOOP)
            self.finished(client, "loop")
            if in_flight is None:
                break
            message = next(in_flight.taking, None)
            if message is None:
                consumer.delivery.finish(in_flight)
            else:
                self.got(client, "loop", [message])

    def run_handlers(self, client: str, consumer: Consumer) -> None:
        """What a `run` does that fails after some messages."""
        if self.semantics == AMO:
            return
        self.finished(client, "loop", "list")
        handling = consumer.handling("partition", 0, 0.1, None)
        in_flight = consumer.delivery.take(0.02, DeliveryMode.LIST, 10)
        consumer.delivery.pop()
        if in_flight is not None:
            handling.feed(in_flight)
        for _ in range(self.random.choice((0, 2, 20))):
            begun = handling.begin()
            if begun is None:
                break
            self.done.add((begun.message.partition, begun.message.offset))
            handling.finish(begun)
            handling.done(begun)
        consumer.redeliver(handling)

    def commit(self, client: str, consumer: Consumer) -> None:
        # Also the message that a loop is at. At most once it is done from here on, whatever becomes
        # of the commit.
        self.acked[client] += [one for _, one in self.in_hand[client]]
        self.finished(client, "poll", "list", "loop")
        how = self.random.random()
        if how < 0.4:
            consumer.ack()
        elif how < 0.7:
            consumer.commit(asynchronous=True)
        else:
            self.commit_and_wait(client, consumer)

    def commit_and_wait(self, client: str, consumer: Consumer) -> None:
        """Where it returns the log has all that was done before."""
        try:
            consumer.commit(timeout_s=0.2)
        except OutcomeUnknown:
            return
        except ClaimLost:
            self.acked[client] = []
            return
        for message in self.acked[client]:
            has = self.position(message.partition)
            assert has > message.offset, f"{message} was committed, and the log has {has}"
        self.acked[client] = []

    def pause(self, client: str, consumer: Consumer) -> None:
        with suppress(InvalidOption):  # nothing is claimed
            consumer.pause("events")
            self.poll(client, consumer)
            consumer.resume("events")

    def poll_meanwhile(self, client: str, consumer: Consumer) -> None:
        """Something is done while another thread polls."""
        self.finished(client, "loop")
        found: list[Message | None] = []

        def polls() -> None:
            with suppress(ConsumerClosed):
                found.append(consumer.poll(0.05))

        thread = threading.Thread(target=polls)
        thread.start()
        time.sleep(self.random.choice((0, 0.001, 0.01)))
        act = self.random.choice((self.pause_for_long, self.resume, self.seek, self.release))
        act(client, consumer)
        thread.join()
        self.got(client, "poll", [message for message in found if message is not None])

    def pause_for_long(self, client: str, consumer: Consumer) -> None:
        with suppress(InvalidOption):
            consumer.pause("events", self.random.randrange(self.partitions))

    def resume(self, client: str, consumer: Consumer) -> None:
        with suppress(InvalidOption):
            consumer.resume("events")

    def release(self, client: str, consumer: Consumer) -> None:
        with suppress(InvalidOption):
            consumer.release("events", self.random.randrange(self.partitions))
        self.kafka.clock.ahead_s += 1.0  # so that it is asked for again soon

    def remove_topic(self, client: str, consumer: Consumer) -> None:
        consumer.remove_topic("events")
        self.poll(client, consumer)
        consumer.add_topic("events")

    def lose_head(self) -> None:
        """Retention takes what is old, whether somebody had it or not."""
        number = self.random.randrange(self.partitions)
        partition = self.kafka.topics["events"][number]
        with self.kafka.changed:
            partition.low = self.random.randint(partition.low, partition.high)

    def seek(self, client: str, consumer: Consumer) -> None:
        if self.semantics == AMO:
            return
        with suppress(InvalidOption):  # nobody may go back
            consumer.seek("events", 0, 0)
            # What is in hand is given out again.
            self.in_hand[client] = [each for each in self.in_hand[client] if each[1].partition]

    def close(self, client: str, consumer: Consumer) -> None:
        self.kafka.flow()
        consumer.close(release=self.random.random() < 0.5, timeout_s=5.0)
        self.in_hand[client], self.acked[client] = [], []
        self.closed.append(self.consumers.pop(client))

    def produce(self) -> None:
        for partition in range(self.partitions):
            room = MESSAGES - self.kafka.topics["events"][partition].high
            self.kafka.produce("events", min(room, self.random.choice((1, 5))), partition)

    def release_group(self) -> None:
        self.kafka.says(ReleaseGroup(0, 0, "admin", "admin", "g", "", Partition(0), 1))

    def hold_log(self) -> None:
        self.kafka.hold_log()

    # --- how it ends ------------------------------------------------------------------------------

    def run(self) -> None:
        self.kafka.appends, self.kafka.fetching = self.appends, self.fetching
        self.produce()
        self.start("a")
        try:
            for _ in range(STEPS):
                self.step()
            self.kafka.appends, self.kafka.fetching = (lambda _: LANDS), (lambda _: None)
            self.kafka.flow()
            self.kafka.deliver()
            for client in list(self.consumers):
                self.close(client, self.consumers[client])
            if self.semantics == ALO:
                self.finish()
        finally:
            for consumer in self.consumers.values():
                consumer.close(timeout_s=5.0)
        until(lambda: not any(thread.is_alive() for thread in self.kafka.threads))
        assert all(one._coordinator.failure is None for one in self.closed)
        if self.semantics == AMO:
            self.check_receipts()

    def finish(self) -> None:
        """Somebody processes the rest: then every message was done."""
        for partition in range(self.partitions):
            room = MESSAGES - self.kafka.topics["events"][partition].high
            self.kafka.produce("events", room, partition)
        self.start("a")
        lows = [each.low for each in self.kafka.topics["events"]]
        all_ = {(p, n) for p in range(self.partitions) for n in range(lows[p], MESSAGES)}
        consumer, deadline = self.consumers["a"], time.monotonic() + doubles.WITHIN_S
        # What is given out now again was not in the log before its claim was lost.
        while not all_ <= self.done and time.monotonic() < deadline:
            self.poll("a", consumer)
            self.commit("a", consumer)
        assert self.done >= all_, f"passed over: {sorted(all_ - self.done)}"
        self.close("a", consumer)

    def check_receipts(self) -> None:
        twice = [place for place, times in self.given.items() if times > 1]
        assert not twice, f"given out twice: {twice}"
        listed = {
            (one.topic_partition, offset)
            for one in receipts(self.kafka)
            for offset in range(one.start or 0, one.end)
        }
        granted = {
            (int(one.partition), offset)
            for one in self.kafka.said(ClaimingMessages)
            for offset in range(one.offset)
        }
        granted &= {(p, n) for p in range(self.partitions) for n in range(self.position(p))}
        lows = [each.low for each in self.kafka.topics["events"]]
        gone = {(p, n) for p, low in enumerate(lows) for n in range(low)} - set(self.given)
        missing = granted - self.done - listed - gone
        assert not missing, f"neither processed nor listed: {sorted(missing)}"

    def position(self, partition: int) -> int:
        """Up to where the log has granted."""
        fold, position = ClaimsFold(0), 0
        for offset, one in enumerate(self.kafka.records()):
            record = Record(
                0, offset, one.timestamp_ms, decode(one.value), decode_headers(one.headers)
            )
            for change in fold.apply(record):
                if change.key.topic_partition == partition:
                    position = change.after.claim.position
        return position


@pytest.mark.parametrize("semantics", [ALO, AMO])
def test_no_walk_loses_or_repeats(semantics: Semantics, pytestconfig: pytest.Config) -> None:
    usual_s = NIGHT_S if pytestconfig.getoption("all") else DAY_S
    walk_for(semantics, float(os.environ.get("MARSHAL_WALKS_S", usual_s)))


def walk_for(semantics: Semantics, seconds: float) -> None:
    """Walk by one seed after the other until the time is over, at least once."""
    deadline, seed = time.monotonic() + seconds, int(os.environ.get("MARSHAL_WALKS_SEED", "0"))
    while time.monotonic() < deadline:
        try:
            Walk(semantics, seed).run()
        except BaseException as error:
            raise AssertionError(f"Walk({semantics!r}, {seed}).run() ends by {error!r}") from error
        seed += 1

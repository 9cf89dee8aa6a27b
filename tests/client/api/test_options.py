"""Marshal promises to refuse options that make no sense, and to name what it does not heed."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from kafka_marshal.client.api.aio import AsyncConsumer
from kafka_marshal.client.api.consumer import Consumer
from kafka_marshal.client.fetch.buffers import BufferLimits
from kafka_marshal.client.message import Message
from kafka_marshal.errors import ConsumerClosed, InvalidOption
from kafka_marshal.machines.consumer.claiming import Claiming
from tests.client.doubles import LOG, WITHIN_S, Kafka, until


@pytest.fixture
def kafka() -> Kafka:
    kafka = Kafka()
    kafka.create("orders", partitions=1, messages=5000)
    return kafka


async def promises(_: Message) -> None:
    """Does nothing unless it is awaited."""


# --- options --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("window", {"window": 0}),
        ("batch", {"batch": 0, "semantics": "at_most_once"}),
        ("batch", {"batch": -1}),
        ("window", {"window": 1e5}),
        ("batch", {"batch": float("nan")}),
        ("coordination_read_max", {"coordination_read_max": 1.5}),
        ("metadata_refresh_s", {"metadata_refresh_s": float("inf")}),
        ("record_to", {"record_to": ""}),
        ("snapshot", {"snapshot": ""}),
        ("keyring", {"keyring": "secret"}),
        ("claiming", {"claiming": "greedy"}),
        ("bounds", {"bounds": 1_000}),
        ("on_claimed", {"on_claimed": "print"}),
        ("heartbeat_interval_s", {"heartbeat_interval_s": 0.01}),
        ("heartbeat_interval_s", {"heartbeat_interval_s": 0}),
        ("heartbeat_interval_s", {"heartbeat_interval_s": float("nan")}),
        ("heartbeat_interval_s", {"heartbeat_interval_s": float("inf")}),
        ("heartbeat_interval_s", {"heartbeat_interval_s": 1.0001}),
        ("heartbeat_every_s", {"heartbeat_every_s": 0}),
        ("heartbeat_every_s", {"heartbeat_every_s": -1}),
        ("heartbeat_every_s", {"heartbeat_every_s": 2, "heartbeat_interval_s": 1.5}),
        ("coordination_read_max", {"coordination_read_max": 0}),
        ("wedged_after_beats", {"wedged_after_beats": 0}),
        ("metadata_refresh_s", {"metadata_refresh_s": 0}),
        ("client_id", {"client_id": "worker\0one"}),
        ("on_lost", {"on_lost": promises}),
        ("coordination_topic", {"coordination_topic": "a/b"}),
    ],
)
def test_an_option_that_makes_no_sense_is_named(
    kafka: Kafka, name: str, options: dict[str, Any]
) -> None:
    with pytest.raises(InvalidOption, match=f"^{name} must be "), kafka.consumer(**options):
        pass
    assert kafka.threads == []


NO_SECONDS: Sequence[Any] = (float("nan"), Decimal("nan"), timedelta(seconds=1), "1", None, 1j)
"""No numbers. Of `batches` and `result`, None means for ever."""
SOME_SECONDS: Sequence[Any] = (Decimal("0.01"), Fraction(1, 100), True, -1, 0)


def calls_with_a_timeout(consumer: Consumer, kafka: Kafka) -> dict[str, Callable[[Any], object]]:
    """A call each that takes its argument for a number of seconds, by the name of that."""
    return {
        "timeout_s of poll": consumer.poll,
        "timeout_s of consume": lambda given: consumer.consume(1, given),
        "timeout_s of commit": lambda given: consumer.commit(timeout_s=given),
        "timeout_s of run": lambda given: consumer.run(print, timeout_s=given),
        "timeout_s of close": lambda given: consumer.close(timeout_s=given),
        "backoff_s": lambda given: consumer.run(print, backoff_s=given),
        "heartbeat_interval_s": lambda given: made(kafka, heartbeat_interval_s=given),
        "heartbeat_every_s": lambda given: made(kafka, heartbeat_every_s=given),
        "metadata_refresh_s": lambda given: made(kafka, metadata_refresh_s=given),
    }


def made(kafka: Kafka, **options: Any) -> None:
    with kafka.consumer("another", **options):
        pass


def test_what_is_no_number_of_seconds_is_named_and_ends_nothing(kafka: Kafka) -> None:
    """Some ended the consumer, or a call in its midst; nan of `batches` waited for ever."""
    with kafka.consumer() as consumer:
        consumer.add_topic("orders")
        calls = calls_with_a_timeout(consumer, kafka)
        calls["timeout_s of batches"] = lambda given: next(consumer.batches(given))
        for name, call in calls.items():
            for given in NO_SECONDS:
                if given is None and name in ("timeout_s of batches", "heartbeat_every_s"):
                    continue
                option = name.partition(" ")[0]
                with pytest.raises(InvalidOption, match=f"^{option} must be a number of seconds"):
                    call(given)
        assert consumer.poll(WITHIN_S) is not None


def test_any_number_of_seconds_is_one(kafka: Kafka) -> None:
    """A Decimal of `metadata_refresh_s` ended the consumer, and one of `poll` was a TypeError."""
    with kafka.consumer() as consumer:
        consumer.add_topic("orders")
        for given in SOME_SECONDS:
            consumer.poll(given)
            consumer.consume(1, given)
            next(consumer.batches(given), None)
        long: Sequence[Any] = (Decimal(10), Fraction(10), math.inf, 10**400)
        for given in long:
            assert consumer.poll(given) is not None
            consumer.commit(timeout_s=given)
        stopping = threading.Timer(WITHIN_S, consumer.stop)
        stopping.start()
        assert consumer.run(lambda _: consumer.stop(), timeout_s=math.inf).handled
        stopping.cancel()
    every: dict[str, Any] = {
        "heartbeat_interval_s": Decimal("1.001"),
        "heartbeat_every_s": Fraction(1, 2),
        "metadata_refresh_s": Decimal("0.01"),
    }
    with kafka.consumer("c2", **every) as consumer:
        consumer.add_topic("orders")
        assert consumer.poll(WITHIN_S) is not None
        consumer.close(timeout_s=Decimal(10))  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [1.5, math.nan, "1", None, timedelta(1), 0])
def test_what_is_no_count_is_named(kafka: Kafka, given: Any) -> None:
    with kafka.consumer() as consumer:
        calls: dict[str, Callable[[], object]] = {
            "num_messages": lambda: consumer.consume(given, 0.0),
            "workers": lambda: consumer.run(print, workers=given),
        }
        if given is not None:
            calls["partition"] = lambda: consumer.add_topic("orders", given or -1)
            calls["retries"] = lambda: consumer.run(print, retries=given or -1)
            calls["offset"] = lambda: consumer.seek("orders", 0, given or -1)
            calls["max_deliveries"] = lambda: consumer.run(
                print, max_deliveries=given, dead_letter_topic="dead"
            )
        for name, call in calls.items():
            with pytest.raises(InvalidOption, match=f"^{name} must be a whole number of "):
                call()


@pytest.mark.parametrize("given", [math.nan, "1", timedelta(1), 0])
@pytest.mark.parametrize(
    ("kind", "name"),
    [(BufferLimits, "messages"), (Claiming, "claims_max"), (Claiming, "transactions_per_s")],
)
def test_a_limit_that_limits_nothing_is_named(kind: type, name: str, given: Any) -> None:
    """Nothing is greater than nan, so no buffer was ever full."""
    with pytest.raises(ValueError, match=f"^{name} must be greater than 0, not "):
        kind(**{name: given})


def test_options_at_their_edges_are_taken(kafka: Kafka) -> None:
    edges: dict[str, Any] = {"window": 1, "heartbeat_interval_s": 0.1, "heartbeat_every_s": 0.1}
    with kafka.consumer(**edges) as consumer:
        consumer.add_topic("orders")
        assert consumer.poll(WITHIN_S) is not None


def test_nobody_consumes_the_coordination_topic(kafka: Kafka) -> None:
    refused = pytest.raises(InvalidOption, match="__marshal is the coordination topic")
    with kafka.consumer() as consumer, refused:
        consumer.add_topic(LOG)


def test_settings_that_do_not_hold_are_named_once(
    kafka: Kafka, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.more_settings = {
        "enable.auto.commit": "true",
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "acks": "1",
        "group.id": "another",
        "enable.idempotence": "TRUE",
        "linger.ms": "5",
        "sasl.password": "hidden",
    }
    with kafka.consumer() as consumer:
        consumer.add_topic("orders")
        assert consumer.poll(WITHIN_S) is not None
    [said] = [one.getMessage() for one in caplog.records if "do not hold" in one.getMessage()]
    assert said.endswith(
        ": acks (it is all), auto.offset.reset (it is error), enable.auto.commit (it is false), "
        "group.id (it is g), isolation.level (it is read_uncommitted, of the coordination topic)"
    )


def test_settings_that_mean_the_same_are_not_named(
    kafka: Kafka, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.more_settings = {"enable.auto.commit": "False", "acks": "-1"}
    with kafka.consumer():
        pass
    assert "do not hold" not in caplog.text


# --- stop -----------------------------------------------------------------------------------------


def iterated(consumer: Consumer) -> list[int]:
    seen = []
    for message in consumer:
        seen.append(message.offset)
        if len(seen) == 5:
            consumer.stop()
    return seen


def polled(consumer: Consumer) -> list[int]:
    seen: list[int] = []
    while (message := consumer.poll(WITHIN_S if len(seen) < 5 else 0.5)) is not None:
        seen.append(message.offset)
        consumer.ack()
        if len(seen) == 5:
            consumer.stop()
    return seen


def listed(consumer: Consumer) -> list[int]:
    seen = [message.offset for message in consumer.consume(5, WITHIN_S)]
    consumer.stop()
    return seen + [message.offset for message in consumer.consume(5, 0.5)]


def yields(_: Message) -> Iterator[int]:
    """Does nothing unless somebody iterates."""
    yield 1


@pytest.mark.parametrize("handler", [promises, yields])
def test_what_a_handler_only_promises_is_not_done(
    kafka: Kafka, handler: Callable[[Message], object]
) -> None:
    """All messages counted as handled, and none was."""
    with kafka.consumer() as consumer:
        consumer.add_topic("orders")
        with pytest.raises(InvalidOption, match=r"^handler returned a (coroutine|generator)"):
            consumer.run(handler, order="none")
        message = consumer.poll(WITHIN_S)
        assert message is not None
        assert message.offset == 0


def test_what_is_no_handler_fails_no_message(kafka: Kafka) -> None:
    """Each message was tried four times, and then became a dead letter."""
    handler: Any = "print"

    async def main() -> None:
        async with AsyncConsumer(settings=kafka.settings(), group_id="g", client_id="c") as other:
            await other.run(handler)

    with pytest.raises(InvalidOption, match="handler must be a function"):
        asyncio.run(main())
    with kafka.consumer() as consumer, pytest.raises(InvalidOption, match="handler must be"):
        consumer.run(handler)


def test_a_handler_that_cannot_be_awaited_is_no_failure_of_its_message(kafka: Kafka) -> None:
    """Each message was tried four times, and then became a dead letter, though it was processed."""
    tried: list[int] = []

    async def main() -> None:
        consumer = AsyncConsumer(settings=kafka.settings(), group_id="g", client_id="c1")
        async with consumer:
            await consumer.add_topic("orders")
            handler: Any = lambda message: tried.append(message.offset)  # noqa: E731
            with pytest.raises(InvalidOption, match="None, which cannot be awaited"):
                await consumer.run(handler, concurrency=1, dead_letter_topic="dead")

    asyncio.run(main())
    assert tried == [0]


@pytest.mark.parametrize("take", [iterated, polled, listed])
def test_after_stop_nothing_more_is_given_out(
    kafka: Kafka, take: Callable[[Consumer], list[int]]
) -> None:
    with kafka.consumer() as consumer:
        consumer.add_topic("orders")
        seen = take(consumer)
        assert seen == list(range(len(seen)))
        assert len(seen) == 5
        until(lambda: not consumer.claims)
    assert kafka.committed["g", "orders", 0] == 5


def test_at_most_once_what_was_granted_is_given_out_after_a_stop(kafka: Kafka) -> None:
    with kafka.consumer(semantics="at_most_once", batch=100) as consumer:
        consumer.add_topic("orders")
        seen = iterated(consumer)
        assert len(seen) >= 100
        until(lambda: not consumer.claims)
    assert kafka.committed["g", "orders", 0] == len(seen)


# --- after close ----------------------------------------------------------------------------------

AFTER: dict[str, Callable[[Consumer], object]] = {
    "iteration": list,
    "poll": lambda consumer: consumer.poll(0.01),
    "consume": lambda consumer: consumer.consume(1, 0.01),
    "batches": lambda consumer: list(consumer.batches(0.01)),
    "run": lambda consumer: consumer.run(lambda _: None),
    "ack": lambda consumer: consumer.ack(),
    "commit": lambda consumer: consumer.commit(),
    "add_topic": lambda consumer: consumer.add_topic("orders"),
}


@pytest.mark.parametrize("asked", AFTER)
def test_a_consumer_that_was_closed_says_so(kafka: Kafka, asked: str) -> None:
    with kafka.consumer() as consumer:
        consumer.add_topic("orders")
        assert consumer.poll(WITHIN_S) is not None
    with pytest.raises(ConsumerClosed):
        AFTER[asked](consumer)


def test_a_loop_that_runs_while_another_thread_closes_ends(kafka: Kafka) -> None:
    ended: dict[str, BaseException | None] = {}

    def take(name: str, consumer: Consumer) -> None:
        try:
            for _ in consumer if name == "iteration" else consumer.batches():
                pass
        except BaseException as error:
            ended[name] = error
        else:
            ended[name] = None

    for name in ("iteration", "batches"):
        with kafka.consumer() as consumer:
            consumer.add_topic("orders")
            thread = threading.Thread(target=take, args=(name, consumer))
            thread.start()
            until(lambda: consumer.claims)
        thread.join(WITHIN_S)
    assert ended == {"iteration": None, "batches": None}


def test_an_asynchronous_consumer_that_was_closed_says_so(kafka: Kafka) -> None:
    async def asks() -> None:
        consumer = AsyncConsumer(settings=kafka.settings(), group_id="g", client_id="c1")
        async with consumer:
            await consumer.add_topic("orders")
            assert await consumer.poll(WITHIN_S) is not None
        with pytest.raises(ConsumerClosed):
            await consumer.poll(0.01)
        with pytest.raises(ConsumerClosed):
            await consumer.consume(1, 0.01)
        with pytest.raises(ConsumerClosed):
            async for _ in consumer:
                pass

    asyncio.run(asks())

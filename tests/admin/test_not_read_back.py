"""An administrator reports of each record that it did not read back whether the log has it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import pytest

from kafka_marshal import Consumer
from kafka_marshal.admin import pause as pausing
from kafka_marshal.admin.position_targets import plan, wish
from kafka_marshal.admin.set_positions import SetPositionsOperation, SetPositionsResult
from kafka_marshal.admin.view import View
from kafka_marshal.client.connect.admin_client import ClusterClient
from kafka_marshal.client.connect.log_writer import LogWriter
from kafka_marshal.core.messages import Message, ReleasingPartition
from kafka_marshal.core.state import FENCED
from kafka_marshal.errors import COORDINATION_TOPIC as LOG
from kafka_marshal.errors import BrokerFailed
from kafka_marshal.testing.in_memory import (
    LANDS,
    LANDS_SOMEWHERE,
    LANDS_UNHEARD,
    LOST,
    Append,
    InMemoryKafka,
    Scheduler,
)

OPERATIONS: Final[dict[str, Callable[[View, LogWriter], object]]] = {
    "pause": lambda view, log: pausing.pause(view, log, "g", 60_000),
    "resume": lambda view, log: pausing.resume(view, log, "g"),
    "release": lambda view, log: pausing.release(view, log, "g", [("orders", 0)]),
}
SENTENCES: Final[list[tuple[Append, str]]] = [
    (
        LANDS,
        r"^appended to coordinating partition 0 at offset \d+, but not read back within 40 s; "
        r"marshal groups shows what holds$",
    ),
    (
        LANDS_SOMEWHERE,
        r"confirmed without an offset: appended before, or never: nobody knows whether coordinat",
    ),
    (
        LANDS_UNHEARD,
        r"^the broker has not answered: nobody knows whether coordinating partition 0 has the",
    ),
    (LOST, r"Message timed out: nobody knows whether coordinating partition 0 has the record; "),
]


@pytest.fixture
def kafka() -> InMemoryKafka:
    kafka = InMemoryKafka(1, Scheduler(seed=1))
    kafka.create("orders", messages=10)
    return kafka


@pytest.fixture
def view(kafka: InMemoryKafka) -> Iterator[View]:
    with View(kafka.settings(), LOG, FENCED) as view:
        yield view


@pytest.fixture
def log(kafka: InMemoryKafka) -> Iterator[LogWriter]:
    with LogWriter(kafka.settings(), LOG) as log:
        yield log


@pytest.mark.parametrize(("append", "sentence"), SENTENCES)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_what_was_not_read_back_is_reported_with_its_offset_or_as_unknown(
    operation: str, append: Append, sentence: str, kafka: InMemoryKafka, view: View, log: LogWriter
) -> None:
    set_position(kafka, view, log)
    if operation == "resume":
        pausing.pause(view, log, "g", 60_000)
    if operation == "release":
        owned(kafka)
    with View(kafka.settings(), LOG, FENCED) as later:
        later.read()
        kafka.hold_log()
        kafka.appends = lambda _: append
        with pytest.raises(BrokerFailed, match=sentence):
            OPERATIONS[operation](later, log)


def owned(kafka: InMemoryKafka) -> None:
    """A consumer owns the claim, and is gone without a release."""
    consumer = Consumer(settings=kafka.settings(), group_id="g", client_id="c1")
    consumer.add_topic("orders")
    assert consumer.poll(10.0) is not None
    consumer.close(release=False)


def test_a_part_that_took_effect_is_named_beside_it() -> None:
    kafka = InMemoryKafka(2, Scheduler(seed=1))
    lost = iter([LOST])
    kafka.appends = lambda _: next(lost, LANDS)
    with View(kafka.settings(), LOG, FENCED) as view, LogWriter(kafka.settings(), LOG) as log:
        view.read()
        with pytest.raises(
            pausing.PartlyReleased,
            match=r"nobody knows whether coordinating partition 0 has .* it took effect on 1 coord",
        ):
            pausing.pause(view, log, "g", 60_000)


# Where nobody knows, it claims anew, and that claim is what was not read back.
@pytest.mark.parametrize(("append", "sentence"), [SENTENCES[0], SENTENCES[2]])
def test_a_position_that_is_in_doubt_is_reported_so_too(
    append: Append, sentence: str, kafka: InMemoryKafka, view: View, log: LogWriter
) -> None:
    def appends(message: Message) -> Append:
        if isinstance(message, ReleasingPartition):
            kafka.hold_log()
            return append
        return LANDS

    kafka.appends = appends
    found = set_position(kafka, view, log)
    assert [key.topic for key in found.in_doubt] == ["orders"]
    assert found.not_read_back is not None
    assert found.not_read_back.startswith(sentence[1:25])


def set_position(kafka: InMemoryKafka, view: View, log: LogWriter) -> SetPositionsResult:
    operation = SetPositionsOperation(view, "g", ["orders"], 15_000)
    for batch in view.changes(view.ends):
        operation.read(batch)
    cluster = ClusterClient(kafka.settings())
    planned = plan([wish("orders:0=5")], "g", cluster, view)
    [found] = operation.set_positions(cluster, log, planned)
    return found

"""Marshal promises that positions are set also where the first pause lands late and unconfirmed."""

from __future__ import annotations

import attrs
import pytest

from kafka_marshal.admin.position_targets import plan, wish
from kafka_marshal.admin.set_positions import SetPositionsOperation
from kafka_marshal.admin.view import View
from kafka_marshal.client.connect.admin_client import ClusterClient
from kafka_marshal.client.connect.log_writer import LogWriter
from kafka_marshal.core.state import FENCED
from kafka_marshal.errors import COORDINATION_TOPIC
from kafka_marshal.testing.in_memory import LANDS, LANDS_UNKNOWN, InMemoryKafka, Scheduler


@pytest.mark.parametrize("seed", range(3))
def test_a_pause_of_unknown_outcome_that_is_read_late_ends_nothing(seed: int) -> None:
    scheduler = Scheduler(seed)
    kafka = InMemoryKafka(1, scheduler)
    kafka.create("orders", 1, messages=100)
    outcomes = iter([attrs.evolve(LANDS_UNKNOWN, after_s=0.5)])
    kafka.appends = lambda _: next(outcomes, LANDS)
    settings = kafka.settings()
    with (
        LogWriter(settings, COORDINATION_TOPIC) as log,
        View(settings, COORDINATION_TOPIC, FENCED) as view,
    ):
        operation = SetPositionsOperation(view, "g", ["orders"], 15_000)
        for batch in view.changes(view.ends):
            operation.read(batch)
        cluster = ClusterClient(settings)
        planned = plan([wish("orders:0=50")], "g", cluster, view)
        kafka.hold_log()

        def flow() -> None:
            scheduler.sleep(3.0)  # until the outcome is known to be unknown, and a pause is sent
            kafka.flow()

        scheduler.start(flow, "flow")
        [result] = operation.set_positions(cluster, log, planned)
    assert [key.topic for key in result.set] == ["orders"]
    assert not result.still_paused

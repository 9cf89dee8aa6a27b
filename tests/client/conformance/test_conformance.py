"""The Kafka in memory promises what the real one does: the same scripts of calls see the same."""

from __future__ import annotations

import pytest

from kafka_marshal.client.connect import environment
from kafka_marshal.testing import Broker
from kafka_marshal.testing.in_memory.consumer import InMemoryConsumer
from tests.client.conformance import generated, real
from tests.client.conformance.compare import compared
from tests.client.conformance.generated import Move, differing, drawn, script_of, shrunk
from tests.client.conformance.page import PAGE, calls_of, page
from tests.client.conformance.scripts import SCRIPTS, methods_of_the_seam

SEEDS = range(16)


def test_every_script_sees_the_same_in_memory(kafka_broker: Broker) -> None:
    """They mostly wait, so all run at once."""
    for each in compared(SCRIPTS, kafka_broker.bootstrap):
        assert each.difference is None, f"{each.name}:\n{each.difference}"


def test_moves_that_a_seed_has_drawn_see_the_same_in_memory(kafka_broker: Broker) -> None:
    for each in differing(SEEDS, kafka_broker.bootstrap):
        pytest.fail(f"seed {each.name}:\n{each.difference}")


def test_every_method_of_the_seam_is_in_a_script() -> None:
    called = set.union(*map(calls_of, SCRIPTS))
    assert methods_of_the_seam() - called == set()


def test_a_method_without_a_script_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment.FetchClient, "seek", lambda *_: None, raising=False)
    assert ("FetchClient", "seek") in methods_of_the_seam()


def test_the_page_lists_every_script() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "make docs writes it"


def test_a_difference_is_found_and_becomes_a_short_story(
    kafka_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(InMemoryConsumer, "_reset_to", lambda _, partition, __: partition.low)
    monkeypatch.setattr(generated, "LATE_S", 0.0)
    monkeypatch.setattr(real, "REST_S", 0.5)
    moves = (Move("produce", 1, 2), Move("time", 0, 1), Move("assign", 0, 50), Move("pause", 1, 0))
    shorter = shrunk(moves, 0, kafka_broker.bootstrap)
    assert [each.what for each in shorter] == ["assign"]
    [found] = compared({"0": script_of(shorter, 0)}, kafka_broker.bootstrap)
    assert found.difference is not None
    assert found.difference.splitlines()[-2:] == [
        "  real:      logreader reads orders[0] -> [orders[0]@50 _AUTO_OFFSET_RESET]",
        "  simulated: logreader reads orders[0] -> [orders[0]@0 _PARTITION_EOF]",
    ]


def test_a_seed_repeats_its_moves() -> None:
    assert [drawn(seed) for seed in SEEDS] == [drawn(seed) for seed in SEEDS]
    assert len({drawn(seed) for seed in SEEDS}) == len(SEEDS)

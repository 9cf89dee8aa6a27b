"""Records from anybody: the original's, which have no headers, and those that lie.

A stranger's record is drawn without knowing the world and fitted to it afterwards (`about`), so
that lies are near the truth: the claim's own epoch, the owner's own id. That somebody lies in what
it saw (`seen`, `clock`) makes readers that began in the middle wrong by design, since certificates
are believed; `simulation` keeps the two apart.
"""

from __future__ import annotations

import attrs
from hypothesis import strategies as st

from kafka_marshal.core import wire
from kafka_marshal.core.messages import (
    NO_HEADERS,
    NOT_DECIMAL,
    Headers,
    Message,
)
from kafka_marshal.machines.consumer.effects import Send
from model_tests.walks.moves import STRANGERS
from model_tests.walks.simulation import Simulation

TYPES = tuple(each.message for each in wire.MESSAGES)

HEADER = st.sampled_from((None, "epoch", "end", 0, 3, NOT_DECIMAL, 10**12))
"""Absent, the claim's epoch, the log's last offset, or a number."""


@attrs.frozen
class Drawn:
    """A stranger's record, before it is known what world it lands in."""

    type: type[Message]
    version: int
    sender: int
    client: int
    offset: int
    seconds: int
    headers: tuple[str | int | None, ...] = ()
    forges: bool = False
    """It uses the ids of others."""

    def about(self, simulation: Simulation, claim: str) -> Send:
        """The record as it lands."""
        key, partition = simulation.keys[claim], simulation.partition_of(claim)
        people = list(simulation.instances) if self.forges else list(STRANGERS)
        clients = [*simulation.setting.clients, "x"]
        ids = (
            self.version,
            simulation.now_ms // 1000,
            people[self.sender % len(people)],
            clients[self.client % len(clients)],
            key.group,
        )
        layout = wire.BY_CLASS[self.type]
        about = (key.topic, key.topic_partition) if layout.keyed else ("", 0)
        expires_unix_s = simulation.now_ms // 1000 + self.seconds
        numbers = {None: (), "offset": (self.offset,), "expires_unix_s": (expires_unix_s,)}
        message = self.type(*ids, *about, *numbers[layout.number])  # type: ignore[arg-type]
        if not self.headers:
            return Send(message, NO_HEADERS)
        means = {
            "epoch": simulation.logs[partition].world.claim(key).epoch,
            "end": len(simulation.logs[partition]) - 1,
        }
        said = [means[each] if isinstance(each, str) else each for each in self.headers]
        return Send(message, Headers(True, *(None if each == -1 else each for each in said)))


def bare() -> st.SearchStrategy[Drawn]:
    """The original's, under an instance id of its own; its client id may be one of ours."""
    return st.builds(
        Drawn,
        type=st.sampled_from(TYPES),
        version=st.sampled_from((1, 0, 1, 7)),
        sender=st.integers(0, 1),
        client=st.sampled_from((-1, 0)),
        offset=st.integers(-1, 6),
        seconds=st.sampled_from((-1, 1, 3, 90)),
    )


def lying() -> st.SearchStrategy[Drawn]:
    """Any header in any place, any id."""
    return st.builds(
        Drawn,
        type=st.sampled_from(TYPES),
        version=st.just(1),
        sender=st.integers(0, 9),
        client=st.integers(0, 5),
        offset=st.integers(-1, 6),
        seconds=st.sampled_from((-1, 1, 3, 90)),
        headers=st.tuples(HEADER, HEADER, HEADER, HEADER, HEADER),
        forges=st.booleans(),
    )

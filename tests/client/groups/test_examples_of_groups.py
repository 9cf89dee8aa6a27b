"""Marshal promises that a member in Python and one in Java share a group, by its requests alone."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kafka_marshal.java.compiler import compiled
from kafka_marshal.testing import Broker
from kafka_marshal.testing.kafka import command_line, fetched_jars
from tests.client.crew import until
from tests.client.groups.controllers import Fleet
from tests.client.hands import new_name

EXAMPLES = Path(__file__).parents[3] / "examples"
PARTITIONS = 4


@contextmanager
def running(words: Sequence[str | Path], said: Path) -> Iterator[None]:
    """An example, until SIGTERM ends it in order."""
    with said.open("wb") as out:
        process = subprocess.Popen(words, stdout=out)
    try:
        yield
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) in (0, 143)
    finally:
        process.kill()
        process.wait()


def printed(said: Path) -> list[tuple[int, int, int]]:
    """Partition, offset and tenure of each whole line."""
    lines = said.read_text("utf-8").rpartition("\n")[0].splitlines()
    return [(int(a), int(b), int(c)) for a, b, c, _ in (line.split(maxsplit=3) for line in lines)]


@pytest.mark.night
def test_a_member_in_java_shares_a_group_with_one_in_python(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    fleet, group = Fleet(kafka_broker, PARTITIONS), new_name("g")
    classes = compiled(EXAMPLES / "GroupMember.java", fetched_jars())
    producer = Producer({"bootstrap.servers": fleet.bootstrap})
    produced = 0

    def more() -> bool:
        nonlocal produced
        for partition in range(PARTITIONS):
            producer.produce(fleet.topic, b"%d" % produced, partition=partition)
        produced += 1
        return producer.flush(30) == 0

    java, python = tmp_path / "java", tmp_path / "python"
    with ExitStack() as stack:
        where = stack.enter_context(fleet.controller())
        words = [fleet.bootstrap, where, group]
        in_java = stack.enter_context(ExitStack())
        in_java.enter_context(
            running(
                command_line((), "GroupMember", *words, "java", fleet.topic, classes=[classes]),
                java,
            )
        )
        until(lambda: more() and len({place[0] for place in printed(java)}) == PARTITIONS)
        stack.enter_context(
            running(
                [
                    *(sys.executable, "-u", EXAMPLES / "group_member.py"),
                    *(*words, "python", fleet.topic),
                ],
                python,
            )
        )
        # What moved has another tenure.
        until(lambda: more() and len({place[0] for place in printed(python)}) >= 2)
        assert min(t for _, _, t in printed(python)) > min(t for _, _, t in printed(java))
        # The one in Java leaves, and the other has everything.
        in_java.close()
        until(lambda: more() and len({place[0] for place in printed(python)}) == PARTITIONS)
        wanted = {(p, offset) for p in range(PARTITIONS) for offset in range(produced)}
        until(lambda: {(p, o) for p, o, _ in printed(java) + printed(python)} >= wanted)
    owners = [{(p, tenure) for p, _, tenure in printed(each)} for each in (java, python)]
    assert owners[0] & owners[1] == set()

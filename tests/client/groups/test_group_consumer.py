"""Marshal promises that members of a group share it, and that each stops when it must."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest
from attrs import define

from kafka_marshal import ConsumerClosed, Fenced, GroupConsumer, InvalidOption
from kafka_marshal.client.fetch.buffers import BufferLimits
from kafka_marshal.client.message import Claim, Message
from kafka_marshal.testing import Broker
from tests.client import forks
from tests.client.appender import Appender
from tests.client.crew import until
from tests.client.groups import member_process
from tests.client.groups.controllers import Fleet
from tests.client.hands import new_name

PARTITIONS, MESSAGES, MEMBERS = 4, 40, 6
SESSION_S = 2.0


def produce(fleet: Fleet, numbers: range, partitions: int = PARTITIONS) -> None:
    """One message for each number."""
    with Appender(fleet.bootstrap, linger_ms=5) as appender:
        for number in numbers:
            appender.produce(fleet.topic, b"%d" % number, partition=number % partitions)


@define
class Told:
    """A member, and what its callbacks got."""

    consumer: GroupConsumer
    assigned: list[Claim]
    revoked: list[Claim]

    @property
    def partitions(self) -> set[int]:
        return {claim.partition for claim in self.consumer.claims}

    def gets(self, count: int) -> list[Message]:
        """Poll for this many messages."""
        got: list[Message] = []

        def enough() -> bool:
            got.extend(self.consumer.poll(0.1))
            return len(got) >= count

        until(enough)
        assert len(got) == count
        return got


@contextmanager
def joined(fleet: Fleet, controllers: str, name: str, **options: Any) -> Iterator[Told]:
    assigned: list[Claim] = []
    revoked: list[Claim] = []
    with GroupConsumer(
        fleet.bootstrap,
        controllers=controllers,
        group_id="g",
        client_id=name,
        **{
            "on_assigned": assigned.extend,
            "on_revoked": revoked.extend,
            "session_timeout_s": SESSION_S,
            **options,
        },
    ) as consumer:
        consumer.add_topic(fleet.topic)
        yield Told(consumer, assigned, revoked)


def numbers(messages: list[Message]) -> list[int]:
    return [int(message.value or b"") for message in messages]


def test_a_member_that_slept_too_long_is_fenced_and_comes_back(kafka_broker: Broker) -> None:
    fleet = Fleet(kafka_broker, PARTITIONS)
    produce(fleet, range(MESSAGES))
    with (
        fleet.controller() as where,
        joined(fleet, where, "a") as a,
        joined(fleet, where, "b") as b,
    ):
        assert sorted(numbers(a.gets(MESSAGES))) == [*range(MESSAGES)]
        a.consumer.commit()

        # A second member takes its share, and what was committed is not handed out again.
        until(
            lambda: (
                not a.consumer.poll(0.05) and not b.consumer.poll(0.05) and len(b.partitions) == 2
            )
        )
        assert a.partitions | b.partitions == {*range(PARTITIONS)}
        assert {claim.partition for claim in a.revoked} == b.partitions
        assert min(claim.epoch for claim in b.assigned) > max(claim.epoch for claim in a.assigned)

        # It gets one more message, and sleeps with it until the other has everything.
        produce(fleet, range(MESSAGES, MESSAGES + PARTITIONS))
        in_hand = a.gets(2)
        again = b.gets(PARTITIONS)
        b.consumer.commit()
        assert {*numbers(in_hand)} < {*numbers(again)}
        assert not a.consumer.is_current
        with pytest.raises(Fenced) as fenced:
            a.consumer.commit()
        assert {number for _, number in fenced.value.partitions} == {m.partition for m in in_hand}
        tenure = {message.partition: message.tenure for message in again}
        assert all(tenure[message.partition] > message.tenure for message in in_hand)

        # It is a member again, and what the other committed is not repeated.
        until(
            lambda: (
                not a.consumer.poll(0.05) and not b.consumer.poll(0.05) and len(a.partitions) == 2
            )
        )
        a.consumer.commit()

        # A rewind reaches both, and gives other tenures.
        assert a.consumer.rewind({(fleet.topic, 0): 3, (fleet.topic, 1): -2}) == {
            (fleet.topic, 0): 3,
            (fleet.topic, 1): 0,
        }
        rewound: Counter[int] = Counter()

        def enough() -> bool:
            both = [*a.consumer.poll(0.05), *b.consumer.poll(0.05)]
            rewound.update(message.partition for message in both)
            return rewound.total() >= 8 + 11

        until(enough)
        assert rewound == {0: 8, 1: 11}


def test_a_member_whose_controller_is_gone_stops_by_its_own_clock(kafka_broker: Broker) -> None:
    fleet = Fleet(kafka_broker, PARTITIONS)
    with ExitStack() as stack:
        leaving = stack.enter_context(ExitStack())
        where = leaving.enter_context(fleet.controller())
        a = stack.enter_context(joined(fleet, where, "a"))
        until(
            lambda: not a.consumer.poll(0.05) and a.consumer.is_current and len(a.partitions) == 4
        )
        leaving.close()
        until(lambda: not a.consumer.keep_alive())
        produce(fleet, range(MESSAGES))
        assert a.consumer.poll(0.3) == []
        assert a.revoked == []
        with fleet.controller(port=int(where.rpartition(":")[2])):
            a.gets(MESSAGES)
            a.consumer.close()


def test_a_callback_that_closes_ends_the_poll_and_leaves_no_member(kafka_broker: Broker) -> None:
    fleet = Fleet(kafka_broker, PARTITIONS)
    calls: list[int] = []

    def close(claims: Sequence[Claim]) -> None:
        calls.append(len(claims))
        a.consumer.close()

    with fleet.controller() as where, joined(fleet, where, "a", on_revoked=close) as a:
        until(lambda: not a.consumer.poll(0.1) and len(a.partitions) == PARTITIONS)
        a.consumer.rewind({(fleet.topic, 0): 0})
        with pytest.raises(ConsumerClosed):
            a.consumer.poll(30)
        # Its tenure anew after the rewind was never assigned.
        assert calls == [1, PARTITIONS - 1]
        with joined(fleet, where, "b") as b:
            until(lambda: not b.consumer.poll(0.1) and len(b.partitions) == PARTITIONS)


def test_a_number_that_makes_no_sense_is_named(kafka_broker: Broker) -> None:
    """A partition of another type was taken, and then each `poll` raised an OverflowError."""
    fleet = Fleet(kafka_broker, 1)
    produce(fleet, range(2), 1)
    with fleet.controller() as where, joined(fleet, where, "a") as a:
        for partition in (1.5, "0", -1, 2**31, 10**400):
            with pytest.raises(InvalidOption, match=r"^partition must be a whole number of 0 "):
                a.consumer.add_topic(fleet.topic, partition)  # type: ignore[arg-type]
            with pytest.raises(InvalidOption, match=r"^partition must be a whole number of 0 "):
                a.consumer.rewind({(fleet.topic, partition): 0})  # type: ignore[dict-item]
        for offset in (1.5, "0", -3, 2**63):
            with pytest.raises(InvalidOption, match=r"^offset must be a whole number of -2 "):
                a.consumer.rewind({(fleet.topic, 0): offset})  # type: ignore[dict-item]
        with pytest.raises(InvalidOption, match=r"^topic is text"):
            a.consumer.rewind({(1, 0): 0})  # type: ignore[dict-item]
        for count in (0, -1, 1.5, 10**400):
            with pytest.raises(InvalidOption, match=r"^max_messages must be a whole number of 1 "):
                a.consumer.poll(max_messages=count)  # type: ignore[arg-type]
        for seconds in (float("nan"), "1", None):
            refused = pytest.raises(InvalidOption, match=r"^timeout_s must be a number of seconds")
            with refused:
                a.consumer.poll(seconds)  # type: ignore[arg-type]
            with refused:
                a.consumer.commit(timeout_s=seconds)  # type: ignore[arg-type]
            with refused:
                a.consumer.rewind({}, timeout_s=seconds)  # type: ignore[arg-type]
        assert len(a.gets(2)) == 2
        a.consumer.commit(timeout_s=float("inf"))


def test_limits_of_buffers_beyond_those_of_kafkas_client_are_taken() -> None:
    """A Consumer took them, and a member was refused them in words of `queued.min.messages`."""
    bounds = BufferLimits(messages=50_000_000, bytes_in_all=8 * 2**30)
    with GroupConsumer(
        "127.0.0.1:1", controllers="127.0.0.1:1", group_id="g", client_id="c", bounds=bounds
    ) as consumer:
        assert not consumer.is_current


FORKS: Final = """
import os, signal, sys
from kafka_marshal import GroupConsumer, MarshalError

bootstrap, controllers, topic = sys.argv[1:]
with GroupConsumer(
    bootstrap, controllers=controllers, group_id="g", client_id="a", session_timeout_s=30.0
) as consumer:
    consumer.add_topic(topic)
    got = []
    while not got:
        got = consumer.poll(1.0, max_messages=1)
    child = os.fork()
    if not child:
        signal.alarm(60)  # what hangs here is nobody's child
        calls = {
            "poll": lambda: consumer.poll(1.0),
            "keep_alive": consumer.keep_alive,
            "commit": consumer.commit,
            "rewind": lambda: consumer.rewind({(topic, 0): 0}),
            "add_topic": lambda: consumer.add_topic("more"),
        }
        for name, call in calls.items():
            try:
                call()
            except MarshalError as error:
                print(name, "forked from" in str(error), flush=True)
        print("is_current", consumer.is_current, flush=True)
        consumer.close()
        os._exit(0)
    os.waitpid(child, 0)
    print(consumer.is_current)
    while len(got) < 5:
        got += consumer.poll(1.0)
    consumer.commit()
    print(*(message.offset for message in got))
"""


def test_a_fork_has_no_member(kafka_broker: Broker) -> None:
    """The fork got messages, and committed them; its parent never did."""
    fleet = Fleet(kafka_broker, 1)
    produce(fleet, range(5), 1)
    with fleet.controller() as where:
        ran = forks.ran(FORKS, fleet.bootstrap, where, fleet.topic)
    refused = [f"{call} True" for call in ("poll", "keep_alive", "commit", "rewind", "add_topic")]
    wanted = [*refused, "is_current False", "True", "0 1 2 3 4"]
    assert (ran.stdout.splitlines(), ran.stderr) == (wanted, "")


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"strategy": "best"}, "strategy is one of"),
        ({"rebalance": "never"}, "rebalance is incremental or eager"),
        ({"session_timeout_s": 0.5}, "session_timeout_s is from 1 s"),
        ({"session_timeout_s": "9"}, "session_timeout_s must be a number of seconds, not '9'"),
        ({"group_id": ""}, "group_id is a name"),
        ({"controllers": "nowhere"}, "controllers must be host:port"),
        ({"auto_offset_reset": "none"}, "auto_offset_reset must be earliest or latest"),
        ({"group_id": "g\udcff"}, r"group_id is text, not 'g\\udcff'"),
        ({"client_id": "c\udcff"}, r"client_id is text, not 'c\\udcff'"),
    ],
)
def test_an_option_that_makes_no_sense_is_named(option: dict[str, Any], words: str) -> None:
    given = {"controllers": "a:1", "group_id": "g", "client_id": "c", **option}
    with pytest.raises(InvalidOption, match=words):
        GroupConsumer("localhost:1", **given)


# --- everybody is killed once ---------------------------------------------------------------------


@define
class Process:
    """A member in a process of its own, and what it wrote."""

    process: subprocess.Popen[bytes]
    path: Path

    def lines(self) -> list[dict[str, Any]]:
        whole = self.path.read_bytes().rpartition(b"\n")[0]
        return [json.loads(line) for line in whole.splitlines()]

    def handed(self) -> int:
        return sum(len(line.get("handed", ())) for line in self.lines())


@pytest.mark.night
def test_nothing_is_lost_and_nobody_owns_with_another_whoever_is_killed(
    kafka_broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet = Fleet(kafka_broker, MEMBERS)
    group, produced = new_name("g"), 0
    started: list[Process] = []
    with ExitStack() as stack:
        controllers = [stack.enter_context(fleet.process()) for _ in range(2)]

        def start(name: str) -> Process:
            path = tmp_path / f"{len(started)}-{name}"
            where = ",".join(address for _, address in controllers)
            words = [fleet.bootstrap, where, group, name, fleet.topic]
            with path.open("wb") as out:
                process = subprocess.Popen(
                    [sys.executable, "-m", "tests.client.groups.member_process", *words], stdout=out
                )
            stack.callback(process.wait)
            stack.callback(process.kill)
            started.append(Process(process, path))
            return started[-1]

        def produces() -> bool:
            nonlocal produced
            produce(fleet, range(produced, produced + MESSAGES), MEMBERS)
            produced += MESSAGES
            return True

        def die_in_hand(process: subprocess.Popen[bytes]) -> None:
            process.send_signal(signal.SIGUSR1)
            until(lambda: produces() and process.poll() is not None)

        def all_work(alive: list[Process]) -> None:
            """Until each of them was handed something new."""
            before = [each.handed() for each in alive]

            def have_worked() -> bool:
                return all(each.handed() > old for each, old in zip(alive, before, strict=True))

            until(lambda: produces() and have_worked())

        alive = [start(f"m{number}") for number in range(MEMBERS)]
        all_work(alive)
        for number in range(MEMBERS):
            die_in_hand(alive[number].process)
            alive[number] = start(f"m{number}")
            all_work(alive)
            if number < 2:
                process, address = controllers[number]
                process.kill()
                process.wait()
                controllers[number] = stack.enter_context(fleet.process(address))
                all_work(alive)
        wanted = {(number % MEMBERS, number // MEMBERS) for number in range(produced)}
        until(lambda: places(started) >= wanted)
        for each in alive:
            each.process.terminate()
            assert each.process.wait(30) == 0
    repeats, killed = judged(started, wanted)
    with capsys.disabled():
        print(
            f"\n  {produced} messages, {MEMBERS + 2} processes killed: 0 lost, {repeats} repeated"
        )
    assert killed == MEMBERS


# What two members print of partition 0, in good order. The first is killed with offset 1 in hand,
# and the second one repeats it under a tenure of its own.
FIRST: Final = ({"handed": [[0, 5, 0]]}, {"committed": [[0, 5, 0]]}, {"handed": [[0, 5, 1]]})
SECOND: Final = ({"handed": [[0, 9, 1], [0, 9, 2]]}, {"committed": [[0, 9, 1], [0, 9, 2]]})


def accounted(
    folder: Path, first: Sequence[dict[str, Any]], second: Sequence[dict[str, Any]]
) -> tuple[int, int]:
    """What the accounting makes of these lines, of which offsets 0 to 2 are wanted."""
    members = []
    for number, (lines, code) in enumerate(((first, -9), (second, 0))):
        path = folder / str(number)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        members.append(Process(cast("Any", SimpleNamespace(returncode=code)), path))
    return judged(members, {(0, offset) for offset in range(3)})


def test_the_accounting_of_who_is_killed_accepts_a_message_in_hand(tmp_path: Path) -> None:
    assert accounted(tmp_path, FIRST, SECOND) == (1, 1)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(FIRST, ({"handed": [[0, 9, 1]]},), id="a message is lost"),
        pytest.param(FIRST, (*SECOND, {"handed": [[0, 9, 3]]}), id="a message was never produced"),
        pytest.param(
            FIRST, ({"handed": [[0, 5, 1], [0, 9, 2]]},), id="two members own under one tenure"
        ),
        pytest.param(
            FIRST, (*SECOND, {"handed": [[0, 9, 0]]}), id="a committed message is repeated"
        ),
        pytest.param(
            FIRST,
            ({"handed": [[0, 9, offset] for offset in (1, 2)] * 12},),
            id="more is repeated than was in hand",
        ),
    ],
)
def test_the_accounting_of_who_is_killed_sees(
    first: Sequence[dict[str, Any]], second: Sequence[dict[str, Any]], tmp_path: Path
) -> None:
    with pytest.raises(AssertionError):
        accounted(tmp_path, first, second)


def places(members: list[Process]) -> set[tuple[int, int]]:
    return {
        (partition, offset)
        for member in members
        for line in member.lines()
        for partition, _, offset in line.get("handed", ())
    }


def judged(members: list[Process], wanted: set[tuple[int, int]]) -> tuple[int, int]:
    """How many were repeated, and how many members did not end in order."""
    assert places(members) == wanted
    owners: dict[tuple[int, int], int] = {}
    committed: dict[tuple[int, int], int] = {}
    times: Counter[tuple[int, int]] = Counter()
    tenures: dict[tuple[int, int], list[int]] = {}
    for index, member in enumerate(members):
        for line in member.lines():
            for partition, tenure, offset in line.get("handed", ()):
                assert owners.setdefault((partition, tenure), index) == index
                times[partition, offset] += 1
                tenures.setdefault((partition, offset), []).append(tenure)
            for partition, tenure, offset in line.get("committed", ()):
                committed[partition, offset] = tenure
    for place, tenure in committed.items():
        assert all(other <= tenure for other in tenures[place]), "a committed one was repeated"
    killed = sum(member.process.returncode != 0 for member in members)
    repeats = sum(times.values()) - len(times)
    refused = sum("refused" in line for member in members for line in member.lines())
    assert 0 < repeats <= (killed + refused) * member_process.IN_HAND
    return repeats, killed

"""Groups with a controller beside Kafka's own: `make bench-groups`.

All is measured in one run, on one real broker that starts here. Controllers, members and broker
share the machine, so look at the ratios, and at the load beside each figure. `ARGS="start death"`
runs some parts only, `--brief` takes less of everything, `--quick` few members and partitions.

- start: from the first join of 10 consumers until each owns its share of 900 partitions.
- death: a member dies by kill -9. Until others own its partitions, minus the session timeout.
- controller: one of two controllers dies by kill -9, while all members commit. Whether an owner, a
  tenure or the generation changed, and until every member's commits are answered again.
- heartbeats: 1,000 members of one controller, a heartbeat a second each; then it dies by kill -9.
- restart: 10 consumers are restarted one after the other: how long partitions had no owner, and
  which messages were handed out twice. *With two* counts assignments of a partition whose owner had
  not been called back. A member that was given up, and so hands nothing out, counts there, too:
  only the log of groups tells which it was. *Not in time* are messages that nobody had 15 s after
  the last restart.
- assignment: what `python -m benchmarks.groups.assignment --kafka` reports, without the broker.

The peers are groups of confluent-kafka on the same broker: the classic protocol with
`cooperative-sticky`, and `group.protocol=consumer` (KIP-848). Each runs with its own interval of
heartbeats (3 s and 5 s), and with the one of ours, 1 s. Session timeouts are the same for all; the
broker's least for KIP-848 is lowered for that (45 s). The broker waits for 3 s for more members of
a classic group that begins, Kafka's default. `controller` has no peer, since a single broker
coordinates the groups of Kafka, and `heartbeats` has none, since a thousand of Kafka's clients do
not fit on a machine.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import attrs
import confluent_kafka as kafka
import numpy as np
from benchmarks.groups import assignment
from benchmarks.groups.heartbeats import Crowd
from benchmarks.groups.members import Group, Membership
from benchmarks.groups.ownership import Kind, Rows, changes, gaps, handed, standstill_ns
from benchmarks.meter import cpu_s
from benchmarks.suite.figures import Better, Report, Target, chosen, say
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kafka_marshal.client.connect.environment import REAL
from kafka_marshal.client.groups.connection import Address, Controllers
from kafka_marshal.codec import coordinating_partition
from kafka_marshal.reaper import Reaper
from kafka_marshal.rpc.error_codes import ErrorCode
from kafka_marshal.scratch import Scratch
from kafka_marshal.testing import Broker, version

WAIT_S: Final = 60.0
"""What takes longer is given up, and the table says so."""
GROUPS_PARTITIONS: Final = 16


@attrs.frozen
class Scale:
    """How much of everything."""

    members: int = 10
    partitions: int = 900
    session_s: float = 10.0
    crowd: int = 1_000
    beats_s: float = 20.0
    rate: int = 300
    """Messages a second, over all partitions."""
    settles_s: float = 5.0
    peers: tuple[str, ...] = ("ours", "classic", "classic, 1 s", "KIP-848", "KIP-848, 1 s")


BRIEF: Final = Scale(5, 300, 6.0, 500, 10.0, 300, 3.0, ("ours", "classic, 1 s", "KIP-848, 1 s"))
"""For `make bench`, which runs much else."""
QUICK: Final = Scale(3, 12, 6.0, 20, 2.0, 100, 1.0, ("ours", "classic, 1 s", "KIP-848, 1 s"))


@attrs.frozen
class Peer:
    """A protocol, and how often its members send heartbeats; None: its default."""

    protocol: str
    heartbeat_s: float | None = None


PEERS: Final = {
    "ours": Peer("ours"),
    "classic": Peer("classic"),
    "classic, 1 s": Peer("classic", 1.0),
    "KIP-848": Peer("consumer"),
    "KIP-848, 1 s": Peer("consumer", 1.0),
}


def broker_settings(scale: Scale) -> dict[str, str]:
    """Those of Kafka's groups; see the text of this room."""
    session_ms = str(int(scale.session_s * 1000))
    return {
        "group.initial.rebalance.delay.ms": "3000",
        "group.consumer.min.session.timeout.ms": session_ms,
        "group.consumer.session.timeout.ms": session_ms,
        "group.consumer.min.heartbeat.interval.ms": "1000",
    }


class Place:
    """The broker, and what is on it."""

    def __init__(self, broker: Broker, folder: Path, scale: Scale, report: Report) -> None:
        self.broker, self.folder, self.scale, self.report = broker, folder, scale, report
        self._names = itertools.count(1)
        self._admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        self._topic = ""

    @property
    def topic(self) -> str:
        """The one that all groups consume."""
        if not self._topic:
            made = self._admin.create_topics([NewTopic("orders", self.scale.partitions, 1)])
            made["orders"].result(60)
            while "orders" not in self._admin.list_topics(timeout=10).topics:
                time.sleep(0.05)
            self._topic = "orders"
        return self._topic

    @contextmanager
    def controllers(self, count: int, group: str) -> Iterator[dict[str, subprocess.Popen[str]]]:
        """Processes with a log of their own, by their addresses; they serve the group's partition.

        `group` is not made by this.
        """
        number = next(self._names)
        with ExitStack() as stack:
            found, reaper = {}, Reaper(None)
            stack.callback(reaper.leave)
            for each in range(count):
                log = self.folder / f"controller-{number}-{each}"
                process = subprocess.Popen(
                    [
                        *(sys.executable, "-m", "kafka_marshal.cli", "controller"),
                        *("--bootstrap", self.broker.bootstrap, "--listen", "127.0.0.1:0"),
                        *("--topic", f"groups-{number}", "--coordination-topic", f"of-{number}"),
                    ],
                    stdout=subprocess.PIPE,
                    stderr=stack.enter_context(log.open("wb")),
                    env=os.environ | {"MARSHAL_CONFIG": os.devnull},
                    text=True,
                    process_group=0,
                )
                stack.callback(_end, process, log)
                assert process.stdout is not None
                found[process.stdout.readline().strip()] = process
                reaper.watch(*(one.pid for one in found.values()))
            self._wait_until_served(list(found), group)
            yield found

    def _wait_until_served(self, addresses: Sequence[str], group: str) -> None:
        partition = coordinating_partition(group, GROUPS_PARTITIONS)
        names = (f"warm-{number}" for number in itertools.count())
        warm = next(
            one for one in names if coordinating_partition(one, GROUPS_PARTITIONS) == partition
        )
        self.create(addresses, warm, self.scale.session_s)

    def create(self, addresses: Sequence[str], group: str, session_s: float) -> None:
        """Create a group of ours, and wait until it has a controller."""
        body = {
            "ConsumerGroup": group,
            "SessionTimeout": int(session_s * 1000),
            "Topics": [self.topic],
            "Ephemeral": 0,
            "Rebalance": "incremental",
            "Strategy": "sticky",
        }
        deadline = REAL.deadline(WAIT_S)
        with Controllers(addresses, "bench") as controllers:
            answer, _ = controllers.asked_any("CreateGroup", body, deadline)
            if answer.code is not ErrorCode.NONE:
                raise RuntimeError(f"group {group} was not created: {answer.code.name}")
            controllers.controller_of(group, deadline)

    @contextmanager
    def group(self, name: str) -> Iterator[Group]:
        """As many members as the scale says, ready to join."""
        peer, number = PEERS[name], next(self._names)
        group, controllers = f"group-{number}", ""
        with ExitStack() as stack:
            if peer.protocol == "ours":
                controllers = ",".join(stack.enter_context(self.controllers(1, group)))
            elif peer.protocol == "consumer" and peer.heartbeat_s is not None:
                interval_ms = int(peer.heartbeat_s * 1000)
                words = ["--alter", "--entity-type", "groups", "--entity-name", group]
                words += ["--add-config", f"consumer.heartbeat.interval.ms={interval_ms}"]
                bootstrap = ("--bootstrap-server", self.broker.bootstrap)
                self.broker.tool("kafka.admin.ConfigCommand", *bootstrap, *words)
            yield stack.enter_context(self.members(peer, group, controllers))

    @contextmanager
    def members(self, peer: Peer, group: str, controllers: str) -> Iterator[Group]:
        """The members alone."""
        scale, bootstrap = self.scale, self.broker.bootstrap
        membership = Membership(
            *(peer.protocol, bootstrap, controllers, group, self.topic),
            *(scale.session_s, peer.heartbeat_s),
        )
        with Group(membership, self.folder) as members:
            members.start(scale.members)
            time.sleep(1.0)  # until the fork server has them all
            yield members

    @contextmanager
    def messages(self) -> Iterator[set[tuple[int, int]]]:
        """Append at the scale's rate meanwhile; partition and offset of what was appended."""
        appended, stop = set[tuple[int, int]](), threading.Event()

        def landed(error: kafka.KafkaError | None, message: kafka.Message) -> None:
            partition, offset = message.partition(), message.offset()
            if error is None and partition is not None and offset is not None:
                appended.add((partition, offset))

        def append() -> None:
            producer = kafka.Producer({"bootstrap.servers": self.broker.bootstrap})
            began_s = time.monotonic()
            for number in itertools.count():
                partition = number * 7 % self.scale.partitions
                producer.produce(topic, b"x" * 100, partition=partition, on_delivery=landed)
                producer.poll(0)
                early_s = began_s + number / self.scale.rate - time.monotonic()
                if stop.wait(max(0.0, early_s)):
                    break
            producer.flush(30)

        topic, thread = self.topic, threading.Thread(target=append)
        thread.start()
        try:
            yield appended
        finally:
            stop.set()
            thread.join()


def _end(process: subprocess.Popen[str], log: Path) -> None:
    """Kill a controller. If it has ended by itself, what was measured is not worth much."""
    if process.poll() not in (None, -signal.SIGKILL):
        last = log.read_text(encoding="utf-8", errors="replace").splitlines()[-1:]
        say(f"a controller ended by itself: {''.join(last)}")
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def _seconds(number_ns: int | None, since_ns: int = 0) -> float | None:
    return None if number_ns is None else (number_ns - since_ns) / 1e9


def _given(place: Place, what: str) -> str:
    scale = place.scale
    return f"{scale.members} members, {scale.partitions} partitions, {what}"


# --- the parts ------------------------------------------------------------------------------------


def start(place: Place) -> None:
    """From the first join to a balanced group."""
    found_s: dict[str, float | None] = {}
    for name in place.scale.peers:
        with place.group(name) as group:
            found_s[name] = _started(place, group)
    _add(place, "start", found_s, "from the first join until each owns its share", Target(2.0))


def _add(
    place: Place,
    name: str,
    found: dict[str, float | None],
    what: str,
    target: Target | None = None,
    note: str = "",
    unit: str = "s",
) -> None:
    """Report ours beside the peers. A peer that did not finish is named, ours fails."""
    ours = found.pop("ours")
    late = [peer for peer, value in found.items() if value is None]
    if late:
        note = "; ".join([*([note] if note else []), f"not within {WAIT_S:.0f} s: {late}"])
    if ours is None:
        raise SystemExit(f"{name}: ours did not finish within {WAIT_S:.0f} s")
    given = _given(place, what)
    place.report.add(f"groups.{name}", unit, Better.LOWER, ours, given, found, target, note)


def _started(place: Place, group: Group) -> float | None:
    group.go()
    balanced_ns = group.wait_until_covered(place.scale.partitions, WAIT_S)
    rows = group.rows()
    joined = rows[rows["kind"] == Kind.JOINED]["at_ns"]
    return _seconds(balanced_ns, int(joined.min())) if len(joined) else None


def death(place: Place) -> None:
    """A member is killed."""
    scale = place.scale
    found_s: dict[str, float | None] = {}
    for name in scale.peers:
        found_s[name] = None
        with place.group(name) as group:
            if _started(place, group) is None:
                continue
            time.sleep(scale.settles_s)
            killed_ns = group.kill(group.members[0])
            covered_ns = group.wait_until_covered(scale.partitions, WAIT_S, evenly=False)
        found_s[name] = _seconds(covered_ns, killed_ns)
    what = f"one killed, until others own its share, session timeout {scale.session_s:.0f} s"
    _add(place, "death", found_s, what, Target(scale.session_s + 1))


def controller(place: Place) -> None:
    """A controller is killed."""
    scale = place.scale
    with place.controllers(2, "killed") as processes, Controllers([*processes], "bench") as asked:
        addresses = ",".join(processes)
        with place.members(PEERS["ours"], "killed", addresses) as group, place.messages():
            if _started(place, group) is None:
                raise SystemExit(f"controller: the group was not balanced within {WAIT_S:.0f} s")
            time.sleep(scale.settles_s)
            before, changed = _described(asked, "killed"), len(changes(group.rows()))
            victim = processes[str(asked.controller_of("killed", REAL.deadline(WAIT_S)))]
            killed_ns = time.monotonic_ns()
            victim.kill()
            victim.wait()
            members = group.members

            def all_again(rows: Rows) -> int | None:
                found = [standstill_ns(rows, member, killed_ns) for member in members]
                each = [one for one in found if one is not None]
                calm_s = (time.monotonic_ns() - killed_ns - max(each, default=0)) / 1e9
                return max(each) if len(each) == len(found) and calm_s > WAIT_S / 12 else None

            group.wait_for(all_again, WAIT_S)
            rows = group.rows()
            after = _described(asked, "killed")
    found = [standstill_ns(rows, member, killed_ns) for member in members]
    first_s = min((one for one in found if one is not None), default=0) / 1e9
    last_s = _seconds(None if None in found else max(one or 0 for one in found))
    same = [
        f"{what} {'as before' if one == other else 'CHANGED'}"
        for what, one, other in zip(("generation", "tenures"), before, after, strict=True)
    ]
    refused = np.count_nonzero(rows["kind"] == Kind.REFUSED)
    moved = len(changes(rows)) - changed
    note = (
        f"the first one after {first_s:.2f} s, owners changed {moved} times, {', '.join(same)}, "
        f"{refused} commits refused"
    )
    what = "one of 2 controllers killed, until all commit again"
    _add(place, "controller", {"ours": last_s}, what, Target(3.0), note)


def _described(asked: Controllers, group: str) -> tuple[object, object]:
    """The group's generation, and the owner and tenure of each partition."""
    [found] = asked.described([group], REAL.deadline(WAIT_S))
    owners = found["Owners"]
    assert isinstance(owners, list)
    each = {(one["Topic"], one["Partition"]): (one["ConsumerId"], one["Tenure"]) for one in owners}
    return found["Generation"], each


def heartbeats(place: Place) -> None:
    """A thousand members, whose controller dies in the end."""
    scale, topic = place.scale, place.topic
    with place.controllers(2, "crowd") as processes:
        place.create([*processes], "crowd", 4 * WAIT_S)
        with Controllers([*processes], "bench") as asked:
            at = asked.controller_of("crowd", REAL.deadline(WAIT_S))
        process = processes.pop(str(at))
        [other] = processes
        before_s = cpu_s(process.pid)
        with Crowd(at, "crowd", topic, scale.crowd) as crowd:
            found = crowd.settle(2 * WAIT_S)
            settled_s, began_s = cpu_s(process.pid), time.monotonic()
            crowd.measure(scale.beats_s)
            took_s = time.monotonic() - began_s
            share = (cpu_s(process.pid) - settled_s) / took_s
            process.kill()
            process.wait()
            failover_s = crowd.fail_over(Address.parsed(other, "--controller"), WAIT_S)
    p50, p99, most = np.quantile(found.answers_ms or [0.0], (0.5, 0.99, 1.0))
    note = (
        f"{found.settled:,} settled after {found.settles_s:.1f} s, "
        f"{settled_s - before_s:.1f} s of the controller's CPU; "
        f"{len(found.answers_ms) / took_s:,.0f} answers/s, median {p50:.1f} ms, "
        f"most {most:.1f} ms, {found.changes} changes"
    )
    given = f"{scale.crowd:,} members of one controller, a heartbeat a second each"
    add = functools.partial(place.report.add, better=Better.LOWER, given=given)
    add("groups.heartbeats.p99", "ms", ours=float(p99), target=Target(50.0), note=note)
    add("groups.heartbeats.cpu", "cores", ours=share, target=Target(1.0))
    what = f"controller of {scale.crowd:,} members killed, until all heartbeats are answered"
    place.report.add(
        "groups.heartbeats.failover", "s", Better.LOWER, failover_s, what, target=Target(3.0)
    )


def restart(place: Place) -> None:
    """All members are restarted, one after the other."""
    scale = place.scale
    found_ms: dict[str, float | None] = {}
    counted = []
    for name in scale.peers:
        found_ms[name] = None
        with place.group(name) as group, place.messages() as appended:
            if _started(place, group) is None:
                continue
            time.sleep(scale.settles_s)
            began_ns, trouble = time.monotonic_ns(), []
            for member in group.members:
                if not group.stop(member):
                    trouble.append(f"member {member} did not end well")
                group.start(1)
                if group.wait_until_covered(scale.partitions, WAIT_S) is None:
                    trouble.append(f"not balanced within {WAIT_S:.0f} s after member {member}")
            took_s = (time.monotonic_ns() - began_ns) / 1e9
            sent = {*appended}
            rows = _handed_all(group, sent)
        found, (count, which) = gaps(rows, began_ns), handed(rows)
        p50, p99, most = np.quantile(np.array(found.ns or [0]) / 1e6, (0.5, 0.99, 1.0))
        found_ms[name] = float(p99)
        counted.append(
            f"{name}: {len(found.ns):,} times without an owner, median {p50:.0f} ms, most "
            f"{most:.0f} ms, {found.shared} with two; {count:,} handed out, {count - len(which)} "
            f"again, {len(sent - which)} not in time; took {took_s:.0f} s"
        )
        for each in trouble:
            say(f"{name}: {each}")
    what = f"restarted one by one, {scale.rate} messages/s; without an owner, p99"
    _add(place, "restart", found_ms, what, Target(500.0), "; ".join(counted), "ms")


def _handed_all(group: Group, sent: set[tuple[int, int]]) -> Rows:
    """Wait until everything that was appended was handed out, but not for ever."""
    group.wait_for(lambda rows: None if sent - handed(rows)[1] else 1, WAIT_S / 4)
    return group.rows()


def assignments(place: Place) -> None:
    """The strategies alone."""
    times, scale = {QUICK: (1, 0.01), BRIEF: (7, 0.3)}.get(place.scale, (9, 1.0))
    few = place.scale in (BRIEF, QUICK)
    assignment.report_all(place.report, times, scale, kafka=True, compared_only=few)


ALL: Final = {
    "assignment": assignments,
    "start": start,
    "death": death,
    "controller": controller,
    "heartbeats": heartbeats,
    "restart": restart,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was named, or all."""
    parser = argparse.ArgumentParser(prog="make bench-groups")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(ALL)}; all")
    parser.add_argument("--brief", action="store_true", help="less of everything")
    parser.add_argument("--quick", action="store_true", help="few members and partitions")
    Report.add_option(parser)
    asked = parser.parse_args(arguments)
    try:
        names = chosen(asked.parts, list(ALL))
    except LookupError as error:
        parser.error(str(error))
    scale = QUICK if asked.quick else BRIEF if asked.brief else Scale()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 65_536)), hard))
    say(
        f"CPython {sys.version.split()[0]}, confluent-kafka {kafka.version()}, librdkafka "
        f"{kafka.libversion()[0]}, Kafka {version()}"
    )
    with (
        Scratch("desk") as folder,
        Broker(folder=folder / "broker", settings=broker_settings(scale), heap="1g") as broker,
    ):
        place = Place(broker, folder, scale, Report(asked.figures))
        for name in names:
            ALL[name](place)
    return 0


if __name__ == "__main__":
    sys.exit(main())

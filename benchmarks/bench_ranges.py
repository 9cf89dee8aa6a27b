"""Shared partitions beside one process, a plain consumer and share groups: `make bench-ranges`.

All is measured in one run, on one topic of one partition each, and on one real broker that starts
here. Broker and clients share the machine, so look at the ratios. `ARGS="slow kill"` runs some
parts only, `--brief` takes less of everything, and `--quick` runs each for a few seconds.

- slow: a handler sleeps for 5 ms. Many processes beside one, and beside share groups.
- fast: a handler that does nothing: messages a second, beside share groups.
- late: from append to handler at a steady rate, beside share groups, which get the same messages.
- once: the same at most once, one consumer whose ranges are open, beside a plain consumer.
- records: records a second on the coordination topic, by simulation.
- kill: a third of the processes dies by kill -9. What was handled twice, and what not at all.

Messages of a range are in order, and those of a key are not: a share group has neither.

The peer is `ShareConsumer` of confluent-kafka, with its defaults and tuned. The broker lets a share
group lock 10,000 records of a partition, its most. It hands out whole batches of a producer, so
batches are small here: that is tuning for the peer, too.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import attrs
import confluent_kafka as kafka
import numpy as np
from benchmarks.meter import cpu_s
from benchmarks.ranges.records import Setting, records
from benchmarks.ranges.workers import Fleet, Job, Rows
from benchmarks.suite.figures import Better, Report, chosen, say
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kafka_marshal.scratch import Scratch
from kafka_marshal.testing import Broker, version

SHARE_GROUPS: Final = {
    "group.coordinator.rebalance.protocols": "classic,consumer,share",
    "group.share.partition.max.record.locks": "10000",
}
"""What lets Kafka 4.1.0 serve share groups, with the feature `share.version`."""
TUNED: Final = {"max.poll.records": "250"}
"""With its 500 all consumers together would lock more than the broker lets them."""
APPEND_TIME: Final = {"message.timestamp.type": "LogAppendTime"}
COORDINATION: Final = "__marshal"
BATCH: Final = 50
"""The most messages in a producer's batch."""
SIZE: Final = 100
"""Bytes of a message."""
HANDLER_S: Final = 0.005
ONE: Final = "one process"
STARTS_S: Final = 60.0


@attrs.frozen
class Scale:
    """How much of everything."""

    processes: int = 32
    settles_s: float = 4.0
    lasts_s: float = 10.0
    """How long `slow` measures."""
    fast: int = 200_000
    """Messages."""
    latency_s: float = 10.0
    latency_per_s: int = 1_000
    peers: int = 4
    """Processes of each group in `fast` and `late`."""
    killed_of: int = 12
    kill_s: float = 20.0
    """As many seconds of work."""
    records_s: int = 10
    simulated: int = 16
    """Consumers in `records`, of 10,000 messages a second each."""
    simulated_settles_s: int = 3
    rounds: int = 3


BRIEF: Final = Scale(
    processes=16,
    settles_s=2.0,
    lasts_s=5.0,
    fast=60_000,
    latency_s=5.0,
    records_s=5,
    rounds=1,
)
"""For `make bench`, which runs much else."""
QUICK: Final = Scale(
    processes=2,
    settles_s=1.0,
    lasts_s=1.0,
    fast=2_000,
    latency_s=2.0,
    latency_per_s=100,
    peers=2,
    killed_of=3,
    kill_s=3.0,
    records_s=1,
    simulated=2,
    simulated_settles_s=1,
    rounds=1,
)


@attrs.frozen
class Peer:
    """What is compared."""

    kind: str
    """As of a `Job`."""
    settings: Mapping[str, str] = attrs.Factory(dict)


class Place:
    """The broker, and what is on it."""

    def __init__(self, broker: Broker, folder: Path, scale: Scale, report: Report) -> None:
        self.broker, self.folder, self.scale, self.report = broker, folder, scale, report
        self._names = itertools.count(1)
        self._admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        self._create(COORDINATION, 4)

    def _create(self, name: str, partitions: int) -> None:
        made = self._admin.create_topics([NewTopic(name, partitions, 1, config=APPEND_TIME)])
        made[name].result(30)
        while name not in self._admin.list_topics(timeout=10).topics:
            time.sleep(0.05)
        time.sleep(0.5)  # the broker itself hears of it last

    def topic(self) -> str:
        """A new one, of one partition."""
        name = f"orders-{next(self._names)}"
        self._create(name, 1)
        return name

    def fill(self, topic: str, count: int, per_s: float = 0.0) -> None:
        """Append messages: at once, or at a rate and each as soon as it is there."""
        settings = {"linger.ms": "0" if per_s else "20", "batch.num.messages": str(BATCH)}
        producer = kafka.Producer({"bootstrap.servers": self.broker.bootstrap, **settings})
        began_s = time.monotonic()
        for number in range(count):
            if per_s:
                while (early_s := began_s + number / per_s - time.monotonic()) > 0:
                    producer.poll(0)
                    time.sleep(early_s)
            while True:
                try:
                    producer.produce(topic, b"x" * SIZE, partition=0)
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.flush(120)

    @contextmanager
    def fleet(
        self,
        peer: Peer,
        topic: str,
        processes: int,
        rows_max: int,
        *,
        handler_s: float = 0.0,
        heartbeat_interval_s: float = 10.0,
    ) -> Iterator[Fleet]:
        """Processes in a group of their own, all of them at work."""
        group = f"{peer.kind}-{next(self._names)}"
        if peer.kind == "share":
            # It has no such setting in the client: a new share group begins at the end.
            words = ["--alter", "--entity-type", "groups", "--entity-name", group]
            words += ["--add-config", "share.auto.offset.reset=earliest"]
            self._tool("kafka.admin.ConfigCommand", *words)
        job = Job(
            peer.kind,
            self.broker.bootstrap,
            topic,
            group,
            self.folder,
            rows_max,
            handler_s,
            COORDINATION,
            heartbeat_interval_s,
            peer.settings,
        )
        with Fleet(job, processes) as fleet:
            yield fleet

    def allow_share_groups(self) -> None:
        """Kafka 4.1.0 has them, but a new cluster does not use them."""
        feature = ["upgrade", "--feature", "share.version=1"]
        self._tool("org.apache.kafka.tools.FeatureCommand", *feature)

    def _tool(self, main_class: str, *words: str) -> None:
        self.broker.tool(main_class, "--bootstrap-server", self.broker.bootstrap, *words)


PLAIN: Final = Peer("plain")
AT_LEAST_ONCE: Final = Peer("at_least_once")
AT_MOST_ONCE: Final = Peer("at_most_once")
SHARE: Final = {"share group": Peer("share"), "tuned share group": Peer("share", TUNED)}
WITH_OURS: Final = {"ours": AT_LEAST_ONCE, **SHARE}


# --- a slow handler -------------------------------------------------------------------------------


def slow(place: Place) -> None:
    """Messages a second of handlers that sleep, in a while in which all processes work.

    In a few rounds, each with all in turns; the median, the least and the most. Beside it, the
    processor time of the clients for a message.
    """
    scale = place.scale
    many = {"at_least_once": AT_LEAST_ONCE, "at_most_once": AT_MOST_ONCE, **SHARE}
    runs = [(ONE, AT_LEAST_ONCE, 1)]
    runs += [(name, peer, scale.processes) for name, peer in many.items()]
    topic, each = place.topic(), int((scale.settles_s + scale.lasts_s + STARTS_S / 2) / HANDLER_S)
    place.fill(topic, each * scale.processes)
    found: dict[str, list[tuple[int, float, float, float]]] = {name: [] for name, _, _ in runs}
    for _ in range(scale.rounds):
        for name, peer, processes in runs:
            found[name].append(_slow(place, peer, topic, processes))
    given = f"a handler of 5 ms, {scale.processes} processes, {_rounds(scale)}"
    per_s = {name: _median([per_s for _, per_s, *_ in each]) for name, each in found.items()}
    cpu_ms = {
        name: _median([1e3 * clients / per_s for _, per_s, clients, _ in each if per_s])
        for name, each in found.items()
    }
    for name in ("at_least_once", "at_most_once"):
        working, each_s, clients, of_broker = np.transpose(found[name])
        note = (
            f"{_spread(each_s, 0)} messages/s, {int(working.min())} processes at work, cores: "
            f"clients {np.median(clients):.2f}, broker {np.median(of_broker):.2f}"
        )
        peers = {peer: per_s[peer] for peer in (ONE, *SHARE)}
        ours = per_s[name]
        place.report.add(
            f"ranges.slow.{name}", "messages/s", Better.HIGHER, ours, given, peers, note=note
        )
        peers = {peer: cpu_ms[peer] for peer in (ONE, *SHARE)}
        ours = cpu_ms[name]
        place.report.add(
            f"ranges.slow.{name}.cpu", "ms a message", Better.LOWER, ours, given, peers
        )


def _slow(place: Place, peer: Peer, topic: str, processes: int) -> tuple[int, float, float, float]:
    """Processes at work, messages a second, and cores of clients and broker."""
    scale = place.scale
    rows_max = 2 * int((STARTS_S + scale.settles_s + scale.lasts_s) / HANDLER_S)
    with place.fleet(peer, topic, processes, rows_max, handler_s=HANDLER_S) as fleet:
        fleet.wait_until_all_work(STARTS_S / 2)
        time.sleep(scale.settles_s)
        began_ns = time.time_ns()
        clients, broker = fleet.cpu_s(), cpu_s(place.broker.pid)
        time.sleep(scale.lasts_s)
        ended_ns = time.time_ns()
        clients, broker = fleet.cpu_s() - clients, cpu_s(place.broker.pid) - broker
        done_ns, working = fleet.all_rows()["done_ns"], fleet.working
    seconds = (ended_ns - began_ns) / 1e9
    done = np.count_nonzero((began_ns <= done_ns) & (done_ns < ended_ns))
    return working, done / seconds, clients / seconds, broker / seconds


# --- a handler that does nothing ------------------------------------------------------------------


def fast(place: Place) -> None:
    """Messages a second of handlers that do nothing; the best of a few rounds."""
    scale, topic = place.scale, place.topic()
    place.fill(topic, scale.fast)
    found: dict[str, list[float]] = {name: [] for name in WITH_OURS}
    for _ in range(scale.rounds):
        for name, peer in WITH_OURS.items():
            with place.fleet(peer, topic, scale.peers, scale.fast) as fleet:
                rows = fleet.wait_for(scale.fast, STARTS_S)
            found[name].append(_per_s(rows, scale.fast))
    peers = {name: max(each) for name, each in found.items()}
    ours = peers.pop("ours")
    given = f"{scale.fast:,} messages, {scale.peers} processes, best of {scale.rounds}"
    place.report.add("ranges.fast", "messages/s", Better.HIGHER, ours, given, peers)


def _per_s(rows: Rows, count: int) -> float:
    """Of the middle: without the first tenth, in which some have not begun, and the last one."""
    done_ns = np.sort(rows["done_ns"])
    first, last = count // 10, count * 9 // 10
    if len(done_ns) <= last:
        return 0.0
    return (last - first) * 1e9 / max(1, int(done_ns[last] - done_ns[first]))


# --- latency --------------------------------------------------------------------------------------


def late(place: Place) -> None:
    """From append to handler, of groups that get the same messages at the same time."""
    peers = place.scale.peers
    _latencies(place, "late", {name: (peer, peers) for name, peer in WITH_OURS.items()})


def once(place: Place) -> None:
    """From append to handler, of two consumers that get the same messages at the same time."""
    runs = {"plain consumer": (PLAIN, 1), "ours": (AT_MOST_ONCE, 1)}
    _latencies(place, "once", runs)


def _latencies(place: Place, what: str, runs: Mapping[str, tuple[Peer, int]]) -> None:
    scale = place.scale
    rate, count = scale.latency_per_s, int(scale.latency_s * scale.latency_per_s)
    first = 2 * rate  # a part that warms up
    found: dict[str, list[Rows]] = {name: [] for name in runs}
    for _ in range(scale.rounds):
        topic = place.topic()
        with ExitStack() as stack:
            fleets = {
                name: stack.enter_context(place.fleet(peer, topic, processes, first + count))
                for name, (peer, processes) in runs.items()
            }
            time.sleep(scale.settles_s)
            place.fill(topic, first + count, rate)
            for name, fleet in fleets.items():
                rows = fleet.wait_for(first + count, 10.0)
                rows = rows[rows["place"] > first]
                late_ms = rows["begun_ns"] / 1e6 - rows["appended_ms"]
                found[name].append(np.quantile(late_ms, (0.5, 0.99)))
    processes = runs["ours"][1]
    given = f"{rate:,} messages/s, processes of each: {processes}, {_rounds(scale)}"
    for at, quantile in enumerate(("p50", "p99")):
        peers = {name: _median([both[at] for both in each]) for name, each in found.items()}
        note = f"{_spread(np.array(found['ours'])[:, at], 1)} ms" if scale.rounds > 1 else ""
        ours = peers.pop("ours")
        place.report.add(
            f"ranges.{what}.{quantile}", "ms", Better.LOWER, ours, given, peers, note=note
        )


def _rounds(scale: Scale) -> str:
    return "once" if scale.rounds == 1 else f"median of {scale.rounds}"


def _median(of_rounds: Sequence[float]) -> float:
    return float(np.median(of_rounds)) if of_rounds else 0.0


def _spread(of_rounds: Rows, digits: int) -> str:
    """The median of rounds; the least and the most, where there are several."""
    middle = f"{np.median(of_rounds):,.{digits}f}"
    if len(of_rounds) == 1:
        return middle
    return f"{middle} ({of_rounds.min():,.{digits}f} to {of_rounds.max():,.{digits}f})"


# --- records --------------------------------------------------------------------------------------


def simulated(place: Place) -> None:
    """Records a second of the shipped machine, on virtual time."""
    scale = place.scale
    many, per_s = scale.simulated, 10_000 * scale.simulated
    for name, window in (("at_least_once", 100_000), ("at_most_once", 0)):
        found = records(
            Setting(
                window, many, per_s, settles_s=scale.simulated_settles_s, lasts_s=scale.records_s
            )
        )
        kinds = (f"{each:.0f} {kind}" for kind, each in found.per_s.items())
        place.report.add(
            f"ranges.records.{name}",
            "records/s",
            Better.LOWER,
            sum(found.per_s.values()),
            f"simulated: {many} consumers of {10_000 * many:,} messages/s",
            note=", ".join(kinds),
        )


# --- a crash --------------------------------------------------------------------------------------


def kill(place: Place) -> None:
    """Kill a third of the processes in the middle, and count what each message came to."""
    scale = place.scale
    count, dies = int(scale.killed_of * scale.kill_s / HANDLER_S), scale.killed_of // 3
    given = f"{count:,} messages, kill -9 of {dies} of {scale.killed_of} processes"
    for peer in (AT_LEAST_ONCE, AT_MOST_ONCE):
        topic = place.topic()
        place.fill(topic, count)
        with place.fleet(
            peer, topic, scale.killed_of, count, handler_s=HANDLER_S, heartbeat_interval_s=1.0
        ) as fleet:
            fleet.wait_until_all_work(STARTS_S)
            time.sleep(scale.kill_s / 4)
            killed_ns = time.time_ns()
            fleet.kill(range(dies))
            rows = fleet.wait_for(count, 15.0)
            dead = np.concatenate([fleet.rows(number) for number in range(dies)])
        handled = rows if peer is AT_MOST_ONCE else rows[rows["done_ns"] > 0]
        distinct = len(np.unique(handled["place"]))
        last = np.count_nonzero(dead["begun_ns"] > killed_ns - 1e9)
        twice, lost = len(rows) - len(np.unique(rows["place"])), count - distinct
        note = f"the dead began {last} in their last second"
        add = partial(place.report.add, unit="messages", better=Better.LOWER, given=given)
        add(f"ranges.kill.{peer.kind}.twice", ours=twice, note=note)
        add(f"ranges.kill.{peer.kind}.not_handled", ours=lost)


ALL: Final = {
    "slow": slow,
    "fast": fast,
    "late": late,
    "once": once,
    "records": simulated,
    "kill": kill,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was named, or all."""
    parser = argparse.ArgumentParser(prog="make bench-ranges")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(ALL)}; all")
    parser.add_argument("--brief", action="store_true", help="less of everything")
    parser.add_argument("--quick", action="store_true", help="each for a few seconds")
    parser.add_argument("--processes", type=int, help="how many work in `slow`; 32")
    Report.add_option(parser)
    asked = parser.parse_args(arguments)
    try:
        names = chosen(asked.parts, list(ALL))
    except LookupError as error:
        parser.error(str(error))
    scale = QUICK if asked.quick else BRIEF if asked.brief else Scale()
    if asked.processes:
        scale = attrs.evolve(scale, processes=asked.processes)
    say(
        f"CPython {sys.version.split()[0]}, confluent-kafka {kafka.version()}, librdkafka "
        f"{kafka.libversion()[0]}, Kafka {version()}; batches of {BATCH} messages of {SIZE} bytes"
    )
    with (
        Scratch("desk") as folder,
        Broker(folder=folder / "broker", settings=SHARE_GROUPS, heap="1g") as broker,
    ):
        place = Place(broker, folder, scale, Report(asked.figures))
        place.allow_share_groups()
        for name in names:
            ALL[name](place)
    return 0


if __name__ == "__main__":
    sys.exit(main())

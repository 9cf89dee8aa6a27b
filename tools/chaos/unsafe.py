"""Unsafe settings, shown unsafe: `python -m tools.chaos.unsafe`, on three real brokers.

Each story runs twice, with a setting as it must be and with it unsafe, and counts what the setting
protects. Before the unsafe run `marshal doctor` must name the setting. After it the replay of the
log, or `marshal validate` of what consumers recorded, must find what it does not find in the safe
one. Exit code 1 if one of these is not so.

The shipped client decides `acks` and `enable.idempotence` itself. Those stories therefore replace
what it makes its producer of, as a client in another language would.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

import attrs
import pyarrow.parquet as pq
from attrs import define, field, frozen
from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public, not listed in __all__
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from tests.cli.run import marshal
from tests.client.crew import until
from tests.client.hands import new_name
from tools.chaos.proxy import Direction, LinkFault, Proxy

from kafka_marshal import Consumer, MarshalError
from kafka_marshal.capture import RawRecord, UnreadableSource, read_capture
from kafka_marshal.client.connect.coordination_topic import TopicSpec, settings_for
from kafka_marshal.client.connect.environment import REAL
from kafka_marshal.client.connect.settings import Settings
from kafka_marshal.client.coordinate.recording import write_log
from kafka_marshal.replay import run as replay
from kafka_marshal.testing import QUICK, Cluster
from kafka_marshal.validate import read_folder, validate
from kafka_marshal.validate.reading import LOG_FILE

INTERVAL_S: Final = 2.0
LONG_S: Final = 60.0
SEGMENTS: Final = 4
"""Records of the log in files of their own, which may be compacted."""
WAIT_S: Final = 90.0
"""On a busy machine everything comes in the end."""
MESSAGES: Final = 20
"""Of each half of a story."""
LEADER, FOLLOWER, THIRD = 1, 2, 3
"""The log lies on the first two; the messages, and the majority of controllers, need the third."""
SETTINGS: Final = {"log.cleaner.backoff.ms": "500", "log.initial.task.delay.ms": "500"}
RED: Final = {"error", "warning"}


@define
class Reader:
    """A consumer that counts what it was given, in a thread."""

    consumer: Consumer
    got: list[int] = field(factory=list)
    failed: list[str] = field(factory=list)
    thread: threading.Thread = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            for message in self.consumer:
                self.got.append(message.offset)
        except MarshalError as error:
            self.failed.append(str(error))

    def end(self) -> None:
        """In order."""
        self.consumer.stop()
        self.thread.join(WAIT_S)
        self.consumer.close()


@define
class Stage:
    """The brokers, and the topics of one run of one story."""

    cluster: Cluster
    proxy: Proxy
    folder: Path
    log: str = field(factory=lambda: new_name("marshal"))
    data: str = field(factory=lambda: new_name("events"))
    group: str = field(factory=lambda: new_name("g"))
    readers: list[Reader] = field(factory=list)
    named: set[str] = field(factory=set)
    """What `marshal doctor` warned of, by the name of the check, before anything was lost."""

    @property
    def admin(self) -> AdminClient:
        """A new client, which has not met a broker that is dead by now."""
        return AdminClient({"bootstrap.servers": self.cluster.bootstrap, "log_level": 0})

    def make(self, **settings: str) -> None:
        """The log on two brokers, with these settings beside those of `marshal init`."""
        right = settings_for(TopicSpec(self.log), 2)
        config = {**right, **{name.replace("_", "."): value for name, value in settings.items()}}
        topics = [
            NewTopic(self.log, 1, replica_assignment=[[LEADER, FOLLOWER]], config=config),
            NewTopic(
                self.data, 1, replica_assignment=[[THIRD]], config={"min.insync.replicas": "1"}
            ),
        ]
        admin = self.admin  # held until all is done
        for made in admin.create_topics(topics).values():
            made.result(WAIT_S)
        until(lambda: self.leader() == (LEADER, 2), WAIT_S)

    def leader(self) -> tuple[int, int]:
        """The leader of the log's only partition, and how many are in sync; -1, 0: unknown yet."""
        admin = self.admin
        partitions = admin.list_topics(self.log, timeout=WAIT_S).topics[self.log].partitions
        return (partitions[0].leader, len(partitions[0].isrs)) if partitions else (-1, 0)

    def alter(self, **settings: str) -> None:
        """Set settings of the log."""
        entries = [
            ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
            for name, value in settings.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, self.log, incremental_configs=entries)
        admin = self.admin
        for done in admin.incremental_alter_configs([resource]).values():
            done.result(WAIT_S)

    def produce(self, messages: int = MESSAGES) -> None:
        """Messages to consume."""
        producer = Producer({"bootstrap.servers": self.cluster.bootstrap, "log_level": 0})
        for number in range(messages):
            producer.produce(self.data, b"%d" % number, partition=0)
        assert producer.flush(WAIT_S) == 0

    def reader(self, client: str, producer: Mapping[str, str] | None = None, **more: Any) -> Reader:
        """A consumer of the shipped client; with `producer` it appends by these settings."""
        environment = REAL
        if producer:
            environment = attrs.evolve(
                REAL,
                appender=lambda made_of, **extra: Producer({**made_of, **producer}, **extra),
            )
        consumer = Consumer(
            settings=Settings(
                {"bootstrap.servers": self.cluster.bootstrap, "log_level": "0"},
                environment=environment,
            ),
            group_id=self.group,
            client_id=client,
            coordination_topic=self.log,
            record_to=self.folder / "recorded",
            **{"heartbeat_interval_s": INTERVAL_S, **more},
        )
        consumer.add_topic(self.data, 0)
        self.readers.append(Reader(consumer))
        return self.readers[-1]

    def examine(self, *options: str) -> None:
        """Ask `marshal doctor`."""
        words = ("--bootstrap", self.cluster.bootstrap, "--topic", self.log, "--json", *options)
        findings = json.loads(marshal("doctor", *words).stdout)["findings"]
        self.named = {one["check"] for one in findings if one["severity"] in RED}

    def records(self) -> list[RawRecord]:
        """What the log holds."""
        settings = Settings({"bootstrap.servers": self.cluster.bootstrap})
        write_log(settings, self.log, self.folder)
        return list(read_capture(self.folder / LOG_FILE))

    def grants(self) -> int:
        """How many requests for messages the leader has in its file, readable or not."""
        files = (self.cluster.server(LEADER).data / f"{self.log}-0").glob("*.log")
        return sum(file.read_bytes().count(b"ClaimingMessages/") for file in files)

    def judged(self) -> set[str]:
        """What a replay finds, the guards that refused records, and what validate says."""
        self.end()  # what is recorded must be in the log by then
        self.records()
        out = self.folder / "replay"
        replay([str(self.folder / LOG_FILE)], out=out, engine="local")
        findings = pq.read_table(out / "findings").to_pylist()
        refusals = pq.read_table(out / "refusals").to_pylist()
        found = {row["code"] for row in findings}
        found |= {f"refused: {row['guard']}" for row in refusals}
        recorded = self.folder / "recorded"
        shutil.copy(self.folder / LOG_FILE, recorded / LOG_FILE)
        try:
            explained = validate(read_folder(recorded)).unexplained is None
        except UnreadableSource:  # it lacks what was read
            explained = False
        return found if explained else found | {"validate: not explained"}

    def end(self) -> None:
        """End all consumers in order."""
        while self.readers:
            with suppress(MarshalError):
                self.readers.pop().end()

    def close(self) -> None:
        """End everybody, and have all brokers again."""
        self.cluster.start()
        self.end()


@frozen
class Story:
    """One setting."""

    setting: str
    check: str
    """Of `marshal doctor`."""
    lost: str
    """What is counted."""
    finding: str
    """Of the replay, a guard that refused records, or of validate."""
    run: Callable[[Stage, bool], int]
    """Returns how much was lost."""


def acks(stage: Stage, unsafe: bool) -> int:
    """The leader alone has the release of a consumer that ended in order, and dies."""
    stage.make()
    stage.examine(*("-X", "acks=1") if unsafe else ())
    first = stage.reader("a", {"acks": "1", "enable.idempotence": "false"} if unsafe else None)
    stage.produce()
    until(lambda: len(first.got) == MESSAGES, WAIT_S)
    until(lambda: first.consumer.committed(stage.data, 0) == MESSAGES, WAIT_S)
    # The follower stays in sync for replica.lag.time.max.ms, 30 s.
    cut = LinkFault(LEADER, f"broker {FOLLOWER}", cut=True)
    stage.proxy.begin(cut)
    stage.produce()
    until(lambda: len(first.got) == 2 * MESSAGES, WAIT_S)
    ending = threading.Thread(target=first.end, daemon=True)
    ending.start()
    ending.join(3.0)  # with acks=1 that is enough; else it waits for the follower
    stage.cluster.kill(LEADER)
    stage.proxy.end(cut)
    until(lambda: stage.leader()[0] == FOLLOWER, WAIT_S)
    stage.cluster.start(LEADER)  # it gives up what the follower never had
    ending.join(WAIT_S)
    second = stage.reader("b")
    stage.produce(1)
    until(lambda: 2 * MESSAGES in second.got, WAIT_S)
    return len(set(second.got) & set(first.got))


def unclean(stage: Stage, unsafe: bool) -> int:
    """A follower that has missed grants becomes the leader."""
    stage.make(
        min_insync_replicas="1",  # so that a leader alone goes on
        unclean_leader_election_enable="true" if unsafe else "false",
    )
    stage.examine()
    first = stage.reader("a", semantics="at_most_once")
    stage.produce()
    until(lambda: len(first.got) == MESSAGES, WAIT_S)
    stage.cluster.kill(FOLLOWER)
    until(lambda: stage.leader()[1] == 1, WAIT_S)
    stage.produce()
    until(lambda: len(first.got) == 2 * MESSAGES, WAIT_S)
    stage.cluster.kill(LEADER)
    stage.cluster.start(FOLLOWER)
    if unsafe:
        until(lambda: stage.leader()[0] == FOLLOWER, WAIT_S)
        until(lambda: first.failed, WAIT_S)  # it notices, and leaves the rest to an operator
    else:
        assert stage.leader()[0] != FOLLOWER
        stage.cluster.start(LEADER)
    second = stage.reader("b", semantics="at_most_once")
    stage.produce(1)
    until(lambda: 2 * MESSAGES in {*first.got, *second.got}, WAIT_S)
    return len({*first.got} & {*second.got})


def idempotence(stage: Stage, unsafe: bool) -> int:
    """The answer to a grant is lost on its way, and the producer sends it again."""
    stage.make()
    stage.examine(*("-X", "enable.idempotence=false") if unsafe else ())
    producer = {"enable.idempotence": "false" if unsafe else "true"}
    # It is to ask for more although it reads nothing back meanwhile.
    how = {"semantics": "at_most_once", "batch": MESSAGES, "heartbeat_interval_s": LONG_S}
    reader = stage.reader("a", producer, **how)
    stage.produce()
    until(lambda: len(reader.got) == MESSAGES, WAIT_S)
    before = stage.grants()
    cut = LinkFault(LEADER, "me", (Direction.FROM_BROKER,), cut=True)
    stage.proxy.begin(cut)
    stage.produce()
    until(lambda: stage.grants() > before, WAIT_S)
    stage.proxy.reset(LEADER, "me")
    stage.proxy.end(cut)
    until(lambda: len(reader.got) == 2 * MESSAGES, WAIT_S)
    reader.end()
    copies = Counter((raw.value, tuple(raw.headers)) for raw in stage.records())
    return sum(number - 1 for number in copies.values())


def compaction(stage: Stage, unsafe: bool) -> int:
    """The win of an owner that lives is compacted away; a new reader leaves it its claim.

    The broker refuses records without a key, so an owner that sends a heartbeat meanwhile stops.
    This one sends none for a minute, and then one while the topic is compacted again.
    """
    stage.make(segment_ms="1", min_cleanable_dirty_ratio="0.0")
    first = stage.reader("a", heartbeat_interval_s=LONG_S)
    for number in range(SEGMENTS):
        stage.produce(1)
        until(lambda: len(first.got) == number + 1, WAIT_S)  # noqa: B023  # asked at once
        first.consumer.commit(timeout_s=WAIT_S)
    if unsafe:
        stage.alter(cleanup_policy="compact")
    stage.examine()
    if unsafe:
        until(lambda: stage.records()[0].offset > 0, WAIT_S)
        stage.alter(cleanup_policy="delete")
    second = stage.reader("b", heartbeat_interval_s=LONG_S)
    with suppress(AssertionError):  # it never owns
        until(lambda: second.consumer.claims, 5 * INTERVAL_S)
    stage.produce()
    end = SEGMENTS + MESSAGES
    until(lambda: len({*first.got, *second.got}) == end, WAIT_S)
    with suppress(AssertionError):
        until(lambda: {*first.got} & {*second.got}, 5 * INTERVAL_S)
    both = len({*first.got} & {*second.got})
    if both:
        raise SystemExit(f"{both} messages of a compacted log are processed by two owners at once")
    if unsafe:
        stage.alter(cleanup_policy="compact")
    with suppress(MarshalError):
        first.consumer.commit(timeout_s=WAIT_S)
    if unsafe:
        until(lambda: first.failed, WAIT_S)
        stage.alter(cleanup_policy="delete")
    return sum(bool(reader.failed) for reader in stage.readers)


STORIES: Final = (
    Story(
        "acks=1",
        "acks",
        "messages that come again after their consumer ended in order",
        "failover_times",
        acks,
    ),
    Story(
        "enable.idempotence=false",
        "enable.idempotence",
        "records that lie in the log twice",
        "refused: not_ahead",
        idempotence,
    ),
    Story(
        "cleanup.policy=compact",
        "cleanup.policy",
        "consumers that stop, since the broker refuses their heartbeat",
        "head_missing",
        compaction,
    ),
    Story(
        "unclean.leader.election.enable=true",
        "unclean.leader.election.enable",
        "messages that are processed twice, at most once",
        "validate: not explained",
        unclean,
    ),
)


@frozen
class Told:
    """What came of a story."""

    story: Story
    safe: int
    unsafe: int
    named: set[str]
    """What `marshal doctor` named in the unsafe run, and not in the safe one."""
    found: set[str]
    """What replay and validate found in the unsafe run, and not in the safe one."""

    def wrong(self) -> list[str]:
        """What is not as the table says."""
        story = self.story
        checks = (
            (not self.safe, f"{self.safe} {story.lost} with the safe setting"),
            (self.unsafe, f"no {story.lost} with the unsafe setting"),
            (story.check in self.named, "marshal doctor does not name it"),
            (story.finding in self.found, f"nothing finds it: {story.finding}"),
        )
        return [f"{story.setting}: {sentence}" for true, sentence in checks if not true]

    def row(self) -> str:
        """Its row of the table, in Markdown."""
        story, found = self.story, ", ".join(f"`{one}`" for one in sorted(self.found))
        lost = f"{self.unsafe} {story.lost} (safe: {self.safe})"
        return f"| `{story.setting}` | {lost} | `{story.check}` | {found} |"


def tell(story: Story, cluster: Cluster, proxy: Proxy, pids: dict[str, int], folder: Path) -> Told:
    """Run it with the safe setting and with the unsafe one."""
    harm: list[int] = []
    named: list[set[str]] = []
    found: list[set[str]] = []
    for unsafe in (False, True):
        # A broker that was started again is another process.
        pids.update((f"broker {number}", cluster.server(number).pid) for number in cluster.numbers)
        stage = Stage(cluster, proxy, folder / f"{story.run.__name__}-{unsafe}")
        with closing(stage):
            harm.append(story.run(stage, unsafe))
            named.append(stage.named)
            found.append(stage.judged())
    return Told(story, harm[0], harm[1], named[1] - named[0], found[1] - found[0])


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.chaos.unsafe", description=__doc__)
    names = [story.run.__name__ for story in STORIES]
    parser.add_argument("--only", nargs="*", choices=names, default=names, help="some of them")
    parser.add_argument("--folder", type=Path, default=Path("build/unsafe"), help="logs stay there")
    parser.add_argument("--list", action="store_true", help="name the settings, and end")
    asked = parser.parse_args()
    if asked.list:
        print("\n".join(f"{story.run.__name__:12} {story.setting}" for story in STORIES))
        return 0
    logging.getLogger("kafka_marshal").setLevel(logging.CRITICAL)
    shutil.rmtree(asked.folder, ignore_errors=True)
    pids = {"me": os.getpid()}
    told = []
    with (
        Proxy((LEADER, FOLLOWER, THIRD), lambda number: cluster.port(number), pids) as proxy,
        Cluster(java_options=QUICK, settings=SETTINGS, advertised=proxy.ports) as cluster,
    ):
        for story in STORIES:
            if story.run.__name__ in asked.only:
                told.append(tell(story, cluster, proxy, pids, asked.folder))
                print(told[-1].row(), flush=True)
    wrong = [sentence for one in told for sentence in one.wrong()]
    for sentence in wrong:
        print(f"WRONG {sentence}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

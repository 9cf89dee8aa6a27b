"""Marshal promises that a chaos run sees what goes wrong with a topic that is shared by ranges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from attrs import define, field, frozen
from tools.chaos.judges.agree import Did, Recorded, processed_by, replay
from tools.chaos.judges.compare import Written, compare
from tools.chaos.judges.shared import RangesOfLog, SharedJudges, ranges_of, replayed_ranges

from kafka_marshal import Consumer
from kafka_marshal.capture import RawRecord, capture_line
from kafka_marshal.client.message import Claim
from kafka_marshal.client.observe.observers import Observer
from kafka_marshal.codec import coordinating_partition
from kafka_marshal.machines.ranges import participant
from kafka_marshal.testing.in_memory import InMemoryKafka, Scheduler
from kafka_marshal.validate import read_folder, validate
from tests.client.broken import RANGE_MISTAKES
from tests.client.crew import INTERVAL_S

MESSAGES = 200
HANDLER_S = 0.02
SEMANTICS = ("at_least_once", "at_most_once")


@define(eq=False)
class Worker(Observer):
    """A process that shares the topic, and what it wrote down."""

    name: str
    semantics: Any
    scheduler: Scheduler
    kafka: InMemoryKafka
    recorded: Path
    handed: Counter[tuple[int, int]] = field(factory=Counter)
    processed: set[tuple[int, int]] = field(factory=set)
    won: set[tuple[int, int]] = field(factory=set)
    under: set[tuple[int, int, int]] = field(factory=set)
    consumer: Consumer | None = None
    ended: bool = False

    def range_granted(self, claim: Claim) -> None:
        self.won.add((claim.partition, claim.epoch))

    def run(self) -> None:
        with Consumer(
            settings=self.kafka.settings(),
            group_id="g",
            client_id=self.name,
            heartbeat_interval_s=INTERVAL_S,
            semantics=self.semantics,
            observers=[self],
            record_to=self.recorded,
        ) as self.consumer:
            self.consumer.add_topic("orders", share="ranges")
            for message in self.consumer:
                self.handed[message.partition, message.offset] += 1
                self.under.add((message.partition, message.offset, message.epoch))
                self.scheduler.sleep(HANDLER_S)
                self.processed.add((message.partition, message.offset))
        self.ended = True

    @property
    def did(self) -> Did:
        return Did(1, self.won, self.handed, self.processed, self.under)


@frozen
class Run:
    """What came of three workers of which one was killed."""

    written: Written
    judges: SharedJudges
    unexplained: object

    @property
    def wrong(self) -> list[str]:
        return compare(self.written).wrong + self.judges.disagreements()

    def with_did(self, client: str, **changes: Any) -> list[str]:
        """What is wrong if one had written down something else."""
        did = {**self.judges.did, client: attrs.evolve(self.judges.did[client], **changes)}
        written = attrs.evolve(
            self.written,
            handed=sum((one.handed for one in did.values()), Counter()),
            done=set().union(*(one.done for one in did.values())),
        )
        judges = attrs.evolve(self.judges, did=did)
        return attrs.evolve(self, written=written, judges=judges).wrong


def until(scheduler: Scheduler, true: Callable[[], object]) -> None:
    end_s = scheduler.clock.monotonic() + 600
    while not true():
        assert scheduler.clock.monotonic() < end_s
        scheduler.sleep(0.05)


def lived(semantics: Any, folder: Path) -> dict[str, Did]:
    """What three workers wrote down of which w0 was killed; the log lies with the recordings."""
    scheduler = Scheduler(1)
    kafka = InMemoryKafka(1, scheduler)
    kafka.create("orders", messages=MESSAGES)
    workers = [Worker(f"w{n}", semantics, scheduler, kafka, folder / "recorded") for n in range(3)]
    killed, *others = workers
    with scheduler:
        for each in workers:
            scheduler.begin(each.name, each.run)
        until(scheduler, lambda: killed.processed and all(len(o.processed) > 15 for o in others))
        scheduler.kill(killed.name)
        # Of virtual time: by then what the dead one held is taken, and all is processed.
        scheduler.sleep(MESSAGES * HANDLER_S + 10 * INTERVAL_S)
        for each in others:
            assert each.consumer is not None
            each.consumer.stop()
        until(scheduler, lambda: all(each.ended for each in others))
    number = coordinating_partition("orders", 1)
    lines = [
        capture_line(RawRecord(number, offset, one.timestamp_ms, one.value, one.headers))
        for offset, one in enumerate(kafka.records(number))
    ]
    log = folder / "recorded" / "log.jsonl"
    log.write_text("".join(f"{line}\n" for line in lines))
    return {each.name: each.did for each in workers}


def judged(semantics: str, folder: Path, did: dict[str, Did]) -> Run:
    at_most_once = semantics == "at_most_once"
    log, recorded = folder / "recorded" / "log.jsonl", folder / "recorded"
    replayed = replay(log, folder / "replay", "orders")["g"]
    of_log = ranges_of(log, "g", "orders")
    written = Written(
        {0: MESSAGES},
        sum((one.handed for one in did.values()), Counter()),
        set().union(*(one.done for one in did.values())),
        Counter(),
        set(of_log.again) if at_most_once else None,
        of_log.again,
    )
    judgement = validate(read_folder(recorded))
    judges = SharedJudges(
        *(at_most_once, 1, {0: MESSAGES}, did, replayed),
        Recorded(processed_by(recorded, "begun" if at_most_once else "finished")),
        log=of_log,
        ranges=replayed_ranges(folder / "replay", "g", "orders"),
    )
    return Run(written, judges, judgement.unexplained)


def of_w0(broken: Callable[..., Any], right: Callable[..., Any]) -> Callable[..., Any]:
    """The mistake is that of one worker."""
    return lambda me, *rest: (broken if me.client_id == "w0" else right)(me, *rest)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    folders = {each: tmp_path_factory.mktemp(each) for each in SEMANTICS}
    return {each: judged(each, into, lived(each, into)) for each, into in folders.items()}


@pytest.mark.parametrize("semantics", SEMANTICS)
def test_a_run_in_which_somebody_was_killed_is_well(runs: dict[str, Run], semantics: str) -> None:
    well = runs[semantics]
    log = well.judges.log
    assert well.wrong == []
    assert well.unexplained is None
    assert log.taken, "the killed one held something"
    lost = len(log.taken) if well.judges.at_most_once else 0
    assert well.judges.ranges.lost.total() == lost
    assert {each.client for each in log.granted.values()} == {"w0", "w1", "w2"}


@pytest.mark.parametrize("semantics", SEMANTICS)
def test_a_range_that_the_log_granted_to_another_is_seen(
    runs: dict[str, Run], semantics: str
) -> None:
    did = runs[semantics].judges.did
    id_ = min(did["w1"].won)[1]
    what = "partition 0: w2 had ranges that the log did not grant to it"
    assert runs[semantics].with_did("w2", won={*did["w2"].won, (0, id_)}) == [f"{what}: {id_}"]
    offset, id_ = next((at, id_) for _, at, id_ in sorted(did["w1"].under))
    what = "partition 0: w2 had messages of no range that the log granted to it"
    wrong = runs[semantics].with_did("w2", under={*did["w2"].under, (0, offset, id_)})
    assert wrong == [f"{what}: {offset}"]


def test_at_least_once_a_message_that_comes_again_for_no_reason_is_seen(
    runs: dict[str, Run],
) -> None:
    well = runs["at_least_once"]
    taken, handed = well.judges.log.again, well.judges.did["w1"].handed
    offset = next(at for partition, at in sorted(handed) if not taken[partition, at])
    assert well.with_did("w1", handed=handed + Counter([(0, offset)])) == [
        f"partition 0: 1 came again, and no holder was silent: {offset}"
    ]


def test_at_least_once_a_message_that_nobody_processed_is_seen(runs: dict[str, Run]) -> None:
    well = runs["at_least_once"]
    done = well.judges.did["w1"].done
    offset = min(at for _, at in done if well.written.handed[0, at] == 1)
    assert well.with_did("w1", done=done - {(0, offset)}) == [
        f"partition 0: lost 1: {offset}",
        f"partition 0: recorded as processed and never done: {offset}",
    ]


def test_at_most_once_a_message_that_comes_twice_is_seen(runs: dict[str, Run]) -> None:
    well = runs["at_most_once"]
    handed = well.judges.did["w1"].handed
    offset = min(handed)[1]
    wrong = well.with_did("w1", handed=handed + Counter([(0, offset)]))
    assert wrong[0] == f"partition 0: twice 1: {offset}"


def test_at_most_once_a_message_that_was_lost_with_nobody_is_seen(runs: dict[str, Run]) -> None:
    well = runs["at_most_once"]
    done = well.judges.did["w1"].done
    offset, lost = min(done)[1], len(well.written.lost(0))
    assert lost > 0
    what = f"1 of {lost + 1} lost are in no range whose holder was silent"
    assert well.with_did("w1", done=done - {(0, offset)}) == [f"partition 0: {what}: {offset}"]


def test_a_range_that_only_one_of_replay_and_log_has_as_lost_is_seen(
    runs: dict[str, Run],
) -> None:
    well = runs["at_most_once"]
    judges, first = well.judges, well.judges.log.taken[0]
    fewer = attrs.evolve(judges.log, taken=judges.log.taken[1:])
    assert attrs.evolve(judges, log=fewer).disagreements() == [
        f"only the replay finds range_lost: 0 {first.instance}, at {first.by}"
    ]
    none = attrs.evolve(judges.ranges, lost=Counter(), odd=["window_changed: 0 w1"])
    wrong = attrs.evolve(judges, ranges=none).disagreements()
    assert f"partition 0: at {first.by} a range of {first.instance} was lost, and no" in wrong[0]
    assert wrong[-1] == "only the replay finds window_changed: 0 w1"


@pytest.mark.parametrize("semantics", SEMANTICS)
def test_messages_that_the_log_has_not_as_done_are_seen(
    runs: dict[str, Run], semantics: str
) -> None:
    well = runs[semantics]
    judges = attrs.evolve(well.judges, ends={0: 10**4, 1: 1})
    assert [sentence.split(":")[1] for sentence in judges.messages()] == [
        " not done, by the log",
        " nobody shared it, by the log",
    ]
    [stands] = well.judges.ranges.stands.values()
    other = attrs.evolve(well.judges.ranges, stands={0: (0, *stands[1:])})
    [wrong] = attrs.evolve(well.judges, ranges=other).disagreements()
    assert wrong.endswith(f"and to the replay {(0, *stands[1:])}")


def log_of(folder: Path, *records: tuple[bytes, dict[str, int]]) -> RangesOfLog:
    """What a log means whose records come 5 s apart: who was heard before is silent."""
    lines = [
        RawRecord(
            *(0, offset, 1_700_000_000_000 + 5_000 * offset, value),
            tuple((f"marshal-{name}", b"%d" % number) for name, number in headers.items()),
        )
        for offset, (value, headers) in enumerate(records)
    ]
    path = folder / "log.jsonl"
    path.write_text("".join(f"{capture_line(line)}\n" for line in lines))
    return ranges_of(path, "g", "orders")


ASKS = (b"ClaimingRange/1/0/i1/c1/g/orders/0/10", {"seen": 0})
RESERVES = (b"ClaimingMessages/1/0/ranges/ranges/g/orders/0/30", {"epoch": 0, "seen": 0})
PAUSES = (b"ReleaseGroup/1/0/a1/admin/g//0/1700000600", {"seen": 1})
CLAIMS = (b"ClaimingPartition/1/0/a1/admin/g/orders/0", {"seen": 1})


@pytest.mark.parametrize(("window", "given_anew"), [(0, range(30)), (100, range(10))])
def test_what_an_administrator_ends_may_be_lost_or_come_again(
    tmp_path: Path, window: int, given_anew: range
) -> None:
    shares = (b"ClaimingPartition/1/0/ranges/ranges/g/orders/0", {"ranges": window})
    reserved = [RESERVES] if window == 0 else []
    log = log_of(tmp_path, shares, *reserved, ASKS, PAUSES, CLAIMS)
    assert (log.ended, log.taken, log.broken) == (1, [], [])
    assert log.again == Counter((0, at) for at in given_anew)
    log = log_of(tmp_path, shares, *reserved, ASKS, CLAIMS)
    assert (log.ended, len(log.broken)) == (1, 1)
    assert log.broken[0].endswith("ends all ranges, and is no administrator's")


def test_what_a_silent_holder_has_in_the_end_may_be_lost(tmp_path: Path) -> None:
    shares = (b"ClaimingPartition/1/0/ranges/ranges/g/orders/0", {"ranges": 0})
    lives = (b"Heartbeat/1/0/ranges/ranges/g/orders/0/30", {"epoch": 0, "seen": 2})
    assert log_of(tmp_path, shares, RESERVES, ASKS).silent_at_the_end() == set()
    silent = log_of(tmp_path, shares, RESERVES, ASKS, lives).silent_at_the_end()
    assert silent == {(0, at) for at in range(10)}


@pytest.mark.parametrize(
    ("mistake", "semantics", "sentence"),
    [
        ("takes_what_others_are_granted", "at_least_once", "w0 had ranges that the log did not"),
        ("takes_what_others_are_granted", "at_most_once", "twice"),
        ("calls_begun_done", "at_least_once", "lost"),
    ],
)
def test_a_consumer_with_a_mistake_is_seen(
    tmp_path: Path, mistake: str, semantics: str, sentence: str
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        right = {name: getattr(participant, name) for name in ("grant_read", "done_to_send")}
        for name, function in right.items():
            patch.setattr(participant, name, function)  # so that it is right again afterwards
        RANGE_MISTAKES[mistake]()
        for name, function in right.items():
            patch.setattr(participant, name, of_w0(getattr(participant, name), function))
        did = lived(semantics, tmp_path)
    found = judged(semantics, tmp_path, did)
    assert any(sentence in each for each in found.wrong)
    assert found.unexplained is not None

"""Marshal promises the same of consumers whose every step a seed has chosen, and the seed repeats.

The shipped consumers run against a Kafka in memory and a clock that only the run moves: see
`tools.simulate`. Each checker is seen to find a mistake.
"""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from tools.pages.simulation import page
from tools.runs.by_day import sampled
from tools.simulate.__main__ import main
from tools.simulate.applications import WAYS
from tools.simulate.checkers import CHECKERS
from tools.simulate.faults import FAULTS, planned
from tools.simulate.faults.originals import Noted
from tools.simulate.mutants import worlds
from tools.simulate.process import Process
from tools.simulate.runs import Report, settings, shrunk, simulate
from tools.simulate.setting import SHARED, SMALL, Setting, limited

from kafka_marshal import AsyncConsumer, Consumer
from kafka_marshal.admin.receipts import Receipts
from kafka_marshal.client.api.callbacks import Callbacks
from kafka_marshal.client.api.delivery import Delivery
from kafka_marshal.client.connect.authentic_log import AuthenticLog
from kafka_marshal.client.connect.log_filter import LogFilter
from kafka_marshal.client.coordinate.configuration import Semantics
from kafka_marshal.client.coordinate.consumer_loop import ConsumerLoop
from kafka_marshal.client.coordinate.coordinator import Coordinator
from kafka_marshal.client.coordinate.owned_partition import OwnedPartition
from kafka_marshal.client.fetch.buffers import Buffers
from kafka_marshal.client.fetch.fetcher import Fetcher
from kafka_marshal.client.fetch.in_flight import InFlight
from kafka_marshal.client.process.work_queues import WorkQueues
from kafka_marshal.core.claims import fenced
from kafka_marshal.core.claims.verdicts import Refused, Verdict
from kafka_marshal.core.messages import Record
from kafka_marshal.core.ranges import claiming_range
from kafka_marshal.core.ranges.verdicts import RangeAccepted
from kafka_marshal.core.state import Claim
from kafka_marshal.machines.consumer.driver import Driver
from kafka_marshal.machines.ranges import participant
from kafka_marshal.machines.ranges.driver import ParticipantDriver
from kafka_marshal.replay.findings.claims.failovers import Failovers
from kafka_marshal.testing.in_memory import InMemoryKafka, ScheduledEventLoop, Scheduler
from tests.client.fleet.test_mutants import (
    counts_waiting_for_a_turn,
    gives_out_whole_chunks,
    releases_without_a_word,
)

ROOT = Path(__file__).parents[3]
SHORT = attrs.evolve(SMALL, messages_per_s=20.0, simulated_s=40.0, fault_every_s=1.3)
SHORTER = attrs.evolve(SHORT, simulated_s=20.0)
CALLS = attrs.evolve(worlds.CALLS, simulated_s=40.0)
SEEDS = (20, 26, 34, 52, 56)
"""The cheapest that meet every fault and every way of consuming, and one more."""


@pytest.fixture(scope="module")
def reports() -> list[Report]:
    return [simulate(seed, settings(seed, SHORT)) for seed in SEEDS]


def test_every_promise_holds_under_faults(reports: list[Report]) -> None:
    assert [(one.seed, one.violations) for one in reports if one.violations] == []


def test_runs_meet_every_fault_and_every_way_of_consuming(reports: list[Report]) -> None:
    met: Counter[str] = sum((one.faults for one in reports), Counter())
    ways: Counter[str] = sum((one.ways for one in reports), Counter())
    assert met.keys() == FAULTS.keys()
    assert ways.keys() == set(WAYS)


def test_a_seed_repeats_a_run_whatever_the_process_hashes_with_and_did_before(
    reports: list[Report],
) -> None:
    code = (
        "from tests.client.fleet.test_by_seed import *;"
        "print(simulate(SEEDS[-1], settings(SEEDS[-1], SHORT)).digest)"
    )
    number = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": number},
        check=True,
        capture_output=True,
        text=True,
    )
    assert ran.stdout.strip() == reports[-1].digest
    assert len({one.digest for one in reports}) == len(reports)


def test_a_seed_repeats_the_places_at_which_calls_are_interrupted() -> None:
    setting = attrs.evolve(SHORTER, faults=("interrupt",), ways=("poll", "mixed"))
    one, again = (simulate(5, settings(5, setting)) for _ in range(2))
    assert one.digest == again.digest
    assert one.digest != simulate(5, settings(5, setting), ()).digest
    assert not one.violations


def test_what_an_interrupted_call_skips_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgets(delivery: Delivery) -> None:
        delivery.unlock()
        delivery.calling = False

    monkeypatch.setattr(Delivery, "_recover", forgets)
    setting = attrs.evolve(SHORTER, faults=("interrupt",), ways=("poll",), messages_per_s=60.0)
    wanted, found = {"in_order", "none_skipped"}, set[str]()
    for seed in range(20):
        found |= {each.partition(":")[0] for each in simulate(seed, setting).violations}
        if found >= wanted:
            return
    pytest.fail(f"only {found}")


@pytest.mark.night
@pytest.mark.parametrize("base", [SMALL, SHARED], ids=["claims", "ranges"])
def test_every_promise_holds_where_limits_are_near(base: Setting) -> None:
    reports = [simulate(seed, limited(seed, settings(seed, base))) for seed in range(12)]
    assert [(each.seed, each.violations) for each in reports if each.violations] == []
    assert len({each.setting.bounds for each in reports}) > 3


def test_a_fault_chooses_the_same_whichever_others_are_left_out() -> None:
    plan = planned(3, SHORT)
    assert planned(3, SHORT) == plan
    assert planned(4, SHORT) != plan
    report = simulate(3, SHORT, plan[::2])
    assert sum(report.faults.values()) == len(plan[::2])


def test_the_page_lists_the_faults_and_the_checkers() -> None:
    text = (ROOT / "docs" / "simulation.md").read_text(encoding="utf-8")
    assert text == page(), "make docs writes it"


# --- each checker finds a mistake -----------------------------------------------------------------

Patch = pytest.MonkeyPatch


def grants_some_ranges_twice(patch: Patch) -> None:
    claiming_messages = fenced.claiming_messages

    def kept(claim: Claim, record: Record, *of: Any) -> tuple[Claim, Verdict]:
        after, verdict = claiming_messages(claim, record, *of)
        if record.offset % 5 == 0:
            after = attrs.evolve(after, position=claim.position)
        return after, verdict

    patch.setattr(fenced, "claiming_messages", kept)


def counts_as_done_what_is_in_hand(patch: Patch) -> None:
    reached = OwnedPartition.reached
    patch.setattr(
        OwnedPartition,
        "reached",
        lambda owned: max([reached(owned), *[chunk.end for chunk in owned.chunks]]),
    )


def drops_the_first_of_what_is_fetched(patch: Patch) -> None:
    add = Buffers.add
    patch.setattr(
        Buffers,
        "add",
        lambda buffers, key, messages: add(
            buffers, key, messages[1:] if len(messages) > 2 else messages
        ),
    )


def begins_too_late(patch: Patch) -> None:
    begin = Fetcher.open
    patch.setattr(
        Fetcher, "open", lambda fetcher, claim, position: begin(fetcher, claim, position + 1)
    )


def lists_nothing(patch: Patch) -> None:
    patch.setattr(Receipts, "receipts", lambda *_: [])


def commits_nothing_after_the_first(patch: Patch) -> None:
    commit = ConsumerLoop.commit_positions

    def once(loop: ConsumerLoop) -> None:
        if not getattr(loop, "committed_once", False) and loop.ownership.to_commit:
            loop.committed_once = True  # type: ignore[attr-defined]
            commit(loop)

    patch.setattr(ConsumerLoop, "commit_positions", once)


def asks_twice(patch: Patch) -> None:
    request = Driver._request_claim
    patch.setattr(Driver, "_request_claim", lambda driver: 2 * request(driver))


def stands_still(patch: Patch) -> None:
    patch.setattr(Consumer, "subscribe", lambda *_: None)


def calls_twice(patch: Patch) -> None:
    claimed = Callbacks.claimed

    def twice(callbacks: Callbacks, claim: Any) -> None:
        claimed(callbacks, claim)
        claimed(callbacks, claim)

    patch.setattr(Callbacks, "claimed", twice)


def dies(patch: Patch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("a wire is loose")

    patch.setattr(ConsumerLoop, "commit_positions", broken)


def starts_threads(patch: Patch) -> None:
    runs = Process.runs

    def many(process: Process) -> None:
        for number in range(20):
            process.scheduler.start(lambda: process.scheduler.sleep(50.0), f"more {number}")
        runs(process)

    patch.setattr(Process, "runs", many)


def another_tells_its_instance(patch: Patch) -> None:
    patch.setattr(Consumer, "instance_id", property(lambda _: "somebody"))


def forgets_takeovers(patch: Patch) -> None:
    patch.setattr(Failovers, "observe", lambda *_: None)


def takes_a_larger_window(patch: Patch) -> None:
    options = Process._options
    patch.setattr(Process, "_options", lambda process: {**options(process), "window": 10_000})


def commits_in_vain(patch: Patch) -> None:
    def unwritten(consumer: Consumer, message: Any = None, **_: Any) -> None:
        consumer.ack(message)

    patch.setattr(Consumer, "commit", unwritten)


def calls_what_is_lost_drained(patch: Patch) -> None:
    lost = Callbacks.lost

    def both(callbacks: Callbacks, claim: Any, reason: Any) -> None:
        lost(callbacks, claim, reason)
        callbacks.drained(claim)

    patch.setattr(Callbacks, "lost", both)


def begins_side_by_side(patch: Patch) -> None:
    patch.setattr(WorkQueues, "_lane_of", lambda *_: object())


def never_ends(patch: Patch) -> None:
    patch.setattr(Coordinator, "stop", lambda _: None)


def gives_out_the_rest(patch: Patch) -> None:
    patch.setattr(InFlight, "cut", lambda hand, within_s=-1: hand.end)


def waits_longer(patch: Patch) -> None:
    take = Fetcher.take

    def late(fetcher: Fetcher, maximum: int, timeout_s: float | None) -> Any:
        return take(fetcher, maximum, None if timeout_s is None else timeout_s + 10.0)

    patch.setattr(Fetcher, "take", late)


def trusts_everybody(patch: Patch) -> None:
    patch.setattr(AuthenticLog, "check", lambda *_: None)


def the_pool_gives_twice(patch: Patch) -> None:
    from_pool = claiming_range.from_pool

    def twice(ranges: Any, record: Any) -> Any:
        once = any(each.from_ == ranges.pool[0].from_ for each in ranges.open)
        given = from_pool(ranges, record)
        return given if once else attrs.evolve(given, pool=ranges.pool)

    patch.setattr(claiming_range, "from_pool", twice)


def takes_what_was_granted_to_others(patch: Patch) -> None:
    grant_read = participant.grant_read

    def anybodys(me: Any, record: Any, ranges: Any, verdict: Any) -> Any:
        sender = attrs.evolve(me, instance_id=record.message.instance_id)
        return grant_read(sender, record, ranges, verdict)

    patch.setattr(participant, "grant_read", anybodys)


def leaves_at_once(patch: Patch) -> None:
    patch.setattr(ParticipantDriver, "_has_left", lambda driver, _: driver.participant.leaving)


MISTAKES: dict[str, tuple[Callable[[Patch], None], Semantics]] = {
    "at_most_once": (grants_some_ranges_twice, "at_most_once"),
    "none_skipped": (counts_as_done_what_is_in_hand, "at_least_once"),
    "in_order": (drops_the_first_of_what_is_fetched, "at_most_once"),
    "begins_at_position": (begins_too_late, "at_least_once"),
    "receipts": (lists_nothing, "at_most_once"),
    "group_offsets": (commits_nothing_after_the_first, "at_least_once"),
    "explained": (asks_twice, "at_most_once"),
    "progress": (stands_still, "at_least_once"),
    "callbacks": (calls_twice, "at_least_once"),
    "ended": (dies, "at_least_once"),
    "bounded": (starts_threads, "at_least_once"),
    "findings": (forgets_takeovers, "at_least_once"),
    "released": (releases_without_a_word, "at_most_once"),
    "reprocessing": (takes_a_larger_window, "at_least_once"),
    "committed": (commits_in_vain, "at_least_once"),
    "drained": (calls_what_is_lost_drained, "at_least_once"),
    "lanes": (begins_side_by_side, "at_least_once"),
    "stops": (never_ends, "at_most_once"),
    "withheld": (gives_out_the_rest, "at_least_once"),
    "one_process_an_epoch": (another_tells_its_instance, "at_least_once"),
    "in_time": (waits_longer, "at_most_once"),
    "turns": (gives_out_whole_chunks, "at_least_once"),
    "wedged": (counts_waiting_for_a_turn, "at_least_once"),
    "authentic": (trusts_everybody, "at_least_once"),
    "range_leases": (the_pool_gives_twice, "at_least_once"),
    "range_messages": (drops_the_first_of_what_is_fetched, "at_least_once"),
    "ranges_done": (counts_as_done_what_is_in_hand, "at_least_once"),
    "ranges_explained": (drops_the_first_of_what_is_fetched, "at_most_once"),
    "ranges_left": (leaves_at_once, "at_least_once"),
    "ranges_once": (takes_what_was_granted_to_others, "at_most_once"),
}
"""By checker: a mistake, and under which semantics it shows."""
SLOW = attrs.evolve(
    worlds.ONE_BY_ONE, clients=1, simulated_s=30.0, ways=("iterator", "poll"), faults=("slow",)
)
SHARING = attrs.evolve(SHARED, simulated_s=15.0, fault_every_s=1.0, messages_per_s=40.0)
WORLDS = {
    "drained": CALLS,
    "withheld": CALLS,
    "in_time": attrs.evolve(SHORTER, ways=("poll", "lists"), faults=("kill",)),
    "turns": SLOW,
    "wedged": SLOW,
    "authentic": attrs.evolve(SHORTER, signing="required", faults=("forge", "kill")),
    **{checker: SHARING for checker in MISTAKES if checker.startswith("range")},
    "ranges_left": attrs.evolve(SHARING, faults=("stop",)),
}
"""By checker: the world in which its mistake shows soon, where it is not `SHORTER`."""
FIRST = {
    "at_most_once": 7,
    "authentic": 4,
    "drained": 1,
    "ended": 1,
    "explained": 3,
    "findings": 1,
    "in_order": 3,
    "ranges_left": 3,
    "ranges_once": 7,
    "receipts": 3,
    "released": 1,
    "stops": 1,
    "wedged": 3,
    "withheld": 2,
}
"""By checker: the seed that shows its mistake, where it is not 0 or soonest. It is tried first."""


# By day every second one is seen to find, and all of them judge every run.
@pytest.mark.parametrize("checker", sampled(CHECKERS, 2))
def test_a_checker_finds_its_mistake(checker: str, monkeypatch: Patch) -> None:
    mistake, semantics = MISTAKES[checker]
    mistake(monkeypatch)
    setting = attrs.evolve(
        WORLDS.get(checker, SHORTER),
        semantics=semantics,
        recorded=checker == "explained",
        replayed=checker == "findings",
    )
    first = FIRST.get(checker, 0)
    for seed in (*range(first, 12), *range(first)):
        found = simulate(seed, setting).violations
        if any(one.startswith(f"{checker}:") for one in found):
            return
    pytest.fail(f"{checker} found nothing")


COMPACTED = attrs.evolve(
    SMALL,
    topics=("orders",),
    log_partitions=1,
    messages_per_s=20.0,
    simulated_s=30.0,
    fault_every_s=0.6,
    recorded=False,
    faults=("compact_log", "stall", "kill"),
)


@pytest.mark.parametrize("semantics", ["at_least_once", "at_most_once"])
def test_a_compacted_log_that_is_taken_for_whole_is_found(
    semantics: Semantics, monkeypatch: Patch
) -> None:
    setting = attrs.evolve(COMPACTED, semantics=semantics)
    assert simulate(12, setting).violations == ()
    monkeypatch.setattr(LogFilter, "begin", lambda *_: None)
    assert simulate(12, setting).violations


@pytest.mark.night
def test_a_run_that_fails_is_told_with_as_few_faults_as_it_takes(
    monkeypatch: Patch, capsys: pytest.CaptureFixture[str]
) -> None:
    lists_nothing(monkeypatch)
    setting = attrs.evolve(SHORT, semantics="at_most_once")
    report = next(one for seed in SEEDS if (one := simulate(seed, setting)).violations)
    fewer = shrunk(report, tries=6)
    assert fewer.violations
    assert len(fewer.plan) < len(report.plan)
    options = ["--simulated-s", "30", "--fault-every-s", "2", "--clients", "2", "--partitions", "1"]
    assert any(main(["--one", str(seed), *options]) == 1 for seed in (1, 3, 5, 7))
    told = capsys.readouterr().out
    assert "WRONG  receipts: " in told
    assert "ClaimingMessages at " in told, "what led to it is told, too"
    assert ": granted; position " in told


def test_what_asyncio_begins_while_its_process_is_killed_is_not_left_behind(
    recwarn: pytest.WarningsRecorder,
) -> None:
    asyncio.set_event_loop(None)  # as where nobody has run asyncio before
    scheduler = Scheduler(1)
    kafka = InMemoryKafka(scheduler=scheduler)
    kafka.create("orders")

    def run() -> None:
        async def main() -> None:
            settings = kafka.settings()
            async with AsyncConsumer(settings=settings, group_id="g", client_id="c") as consumer:
                await consumer.add_topic("orders")
                await consumer.poll(1000.0)

        ScheduledEventLoop(scheduler).run_until_complete(main())

    scheduler.begin("process", run)
    scheduler.sleep(20.0)
    scheduler.kill("process")
    scheduler.close()
    gc.collect()
    assert [str(one.message) for one in recwarn if one.category is RuntimeWarning] == []


def test_a_callback_of_asyncio_that_is_killed_is_no_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scheduler = Scheduler(1)

    def run() -> None:
        loop = ScheduledEventLoop(scheduler)
        loop.call_soon(scheduler.sleep, 60.0)
        loop.run_forever()

    scheduler.begin("process", run)
    scheduler.sleep(20.0)
    scheduler.kill("process")
    scheduler.close()
    assert caplog.text == ""


@pytest.mark.parametrize("semantics", ["at_least_once", "at_most_once"])
def test_every_promise_of_shared_topics_holds_under_faults(semantics: Semantics) -> None:
    """Half of the runs are recorded, and the specification explains them."""
    setting = attrs.evolve(SHARING, semantics=semantics)
    reports = [simulate(seed, attrs.evolve(setting, recorded=seed < 1)) for seed in range(2)]
    assert [each.violations for each in reports] == [()] * 2
    actions = sum((each.actions for each in reports), Counter())
    assert {"Share", "AskRange", "Begin", "Finish", "GiveBack", "BeatAnchor"} <= actions.keys()
    verdicts = sum((each.verdicts for each in reports), Counter())
    assert verdicts[str(RangeAccepted.RANGE_GRANTED)] > 50


def test_a_call_that_waits_lets_only_the_clock_of_the_run_go_on() -> None:
    scheduler = Scheduler(1)
    kafka = InMemoryKafka(scheduler=scheduler)
    kafka.create("orders", partitions=2, messages=5)
    with Consumer(settings=kafka.settings(), group_id="g", client_id="c1") as consumer:
        consumer.add_topic("orders")
        polled = [consumer.poll(timeout_s=10.0) for _ in range(10)]
        assert [one and one.offset for one in polled] == [*range(5), *range(5)]
        consumer.commit()
        began_s = scheduler.clock.monotonic()
        assert consumer.poll(timeout_s=60.0) is None
        assert scheduler.clock.monotonic() >= began_s + 60.0
        kafka.produce("orders", 3)
        for number, message in enumerate(consumer, start=5):
            assert message.offset == number
            if number == 7:
                consumer.stop()
    assert [kafka.committed["g", "orders", number] for number in range(2)] == [8, 5]


MIXED = attrs.evolve(SHORT, mixed=True, faults=("original", "kill", "stall"))


def test_what_an_original_processes_counts_and_what_it_does_not_is_found_skipped(
    monkeypatch: Patch,
) -> None:
    reports = [simulate(seed, MIXED) for seed in range(2)]
    assert [each.violations for each in reports] == [()] * 2
    verdicts = sum((each.verdicts for each in reports), Counter())
    assert str(Refused.EPOCH_MISSING) in verdicts

    process = Noted.__iadd__
    monkeypatch.setattr(Noted, "__iadd__", lambda noted, done: process(noted, [*done][:1]))
    skipped = [found for seed in range(2) for found in simulate(seed, MIXED).violations]
    assert {each.partition(":")[0] for each in skipped} == {"none_skipped"}


def test_what_is_written_in_a_members_name_is_refused_by_every_guard() -> None:
    setting = attrs.evolve(SHORT, faults=("impersonate",), fault_every_s=0.5, mixed=True)
    reports = [simulate(0, setting)]
    reports.append(simulate(3, attrs.evolve(setting, recorded=True, mixed=False)))
    assert [each.violations for each in reports] == [()] * 2
    refused = sum((each.verdicts for each in reports), Counter())
    assert refused.keys() >= {
        str(Refused.FORGED),
        str(Refused.LOG_LOST_RECORDS),
        str(Refused.HEADER_NOT_DECIMAL),
        str(Refused.HEADER_FROM_THE_FUTURE),
        str(Refused.EPOCH_MISSING),
        str(Refused.NEGATIVE_POSITION),
        str(Refused.DOES_NOT_SUPERSEDE),
    }

"""Consumers that do not share beside some that do (`share="ranges"`), in one group, on one topic.

Those that do not are 0.1.0, the present version, and the original as its handlers were recorded.
Each side is killed, stopped and put to sleep, and the other takes over. Who was given what is read
off the log. What 0.1.0 makes of each record is asked of 0.1.0.

By night: by day `test_rolling` has both versions at work, and `tests/machines` those that share
beside those that do not.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

from kafka_marshal import ClaimKey, RuleSet
from kafka_marshal.capture import RawRecord, read_capture
from kafka_marshal.client.coordinate.recording import write_log
from kafka_marshal.machines.ranges.participant import ANCHOR
from kafka_marshal.replay.model.tables import FINDINGS
from kafka_marshal.testing import Broker
from kafka_marshal.validate.reading import LOG_FILE
from tests.cli.run import marshal
from tests.client.crew import INTERVAL_S, RULES, Stage, until
from tests.replay.told import replayed
from tests.upgrade.fleet import Fleet, Member, Past, fleet
from tests.upgrade.leases import Account, account
from tests.upgrade.originals import GROUP, OriginalAtWork
from tests.upgrade.versions import PRESENT, Folds, differences

pytestmark = pytest.mark.night

WINDOW = 200
BATCH = 50
BOTH = ("at_least_once", "at_most_once")
ORDINARY = {"failover_times", "lost_races", "missed_heartbeat", "unowned_too_long"}
"""Findings of takeovers, and of a busy machine."""


class Scene:
    """A fleet at one topic of a partition or more."""

    def __init__(self, stage: Stage, running: Fleet, semantics: str, folder: Path) -> None:
        self.stage, self.fleet, self.semantics = stage, running, semantics
        self.strangers: list[OriginalAtWork] = []
        self._folder = folder

    def share(self, *client_ids: str) -> list[Member]:
        """Start consumers that share, until each of them works."""
        sharing = [self.fleet.start(each, PRESENT, share="ranges") for each in client_ids]
        until(lambda: all(len(each.got) > 30 for each in sharing))
        return sharing

    def wait_beside(self, client_id: str, version: Path, **options: Any) -> Member:
        """Start one while others work; it gets nothing."""
        waiting = self.fleet.start(client_id, version, **options)
        until(lambda: waiting.told("instance"))
        self.goes_on()
        assert waiting.got == []
        return waiting

    def goes_on(self) -> None:
        """Somebody processes what is produced from now on."""
        self.fleet.processes(self.fleet.load.produced)

    def nothing_is_left(self) -> None:
        """What has been produced until now is processed, all of it."""
        wanted = set(range(self.fleet.load.produced))
        ever: list[Member | OriginalAtWork] = [*self.fleet.ever, *self.strangers]
        until(lambda: wanted.issubset(number for each in ever for number in each.got))

    def ends(self) -> None:
        """All that is produced is processed, and all who live end in order."""
        load = self.fleet.load
        load.end()
        if self.semantics == "at_least_once":
            self.nothing_is_left()
        self.fleet.processes(load.produced - load.partitions)
        self.fleet.end(*self.fleet.members)

    @property
    def pasts(self) -> list[Past]:
        return [each.past for each in self.fleet.ever]

    def log(self) -> list[RawRecord]:
        write_log(self.stage.cluster.settings, self.stage.coordination, self._folder)
        return list(read_capture(self._folder / LOG_FILE))

    def accounts(self, log: list[RawRecord]) -> list[Account]:
        """One for each partition."""
        keys = (
            ClaimKey(self.stage.group, self.fleet.topic, number)
            for number in range(self.fleet.load.partitions)
        )
        return [account(log, key, RULES) for key in keys]

    def told(self, *arguments: str) -> list[dict[str, Any]]:
        """What a command of `marshal` prints."""
        told = marshal(
            *arguments,
            *("--json", "--heartbeat-interval", f"{INTERVAL_S}s"),
            *("--bootstrap", self.stage.bootstrap, "--topic", self.stage.coordination),
        )
        assert told.returncode != 2, told.stderr
        return [json.loads(line) for line in told.stdout.splitlines()]


@contextmanager
def scene(
    broker: Broker, folder: Path, semantics: str, partitions: int = 1, group: str | None = None
) -> Iterator[Scene]:
    stage = Stage(broker)
    stage.group = group or stage.group
    with fleet(
        stage,
        folder,
        partitions=partitions,
        per_tick=5 if partitions == 1 else 3 * partitions,
        semantics=semantics,
        heartbeat_interval_s=INTERVAL_S,
        window=WINDOW,
        batch=BATCH,
        pause_s=0.004 if partitions == 1 else 0.001,
    ) as running:
        yield Scene(stage, running, semantics, folder)


def none_skipped(pasts: Sequence[Past], produced: int, repeated_max: int) -> None:
    """At least once: everything was processed, and no more than this again."""
    times = Counter(number for each in pasts for number in each.got)
    assert times.keys() == set(range(produced))
    assert sum(times.values()) - len(times) <= repeated_max


def none_twice(pasts: Sequence[Past], produced: int, accounts: Sequence[Account]) -> None:
    """At most once: lost is what was passed over, or given to one that was killed.

    What nobody has taken yet is not lost.
    """
    times = Counter(number for each in pasts for number in each.got)
    assert [number for number, count in times.items() if count > 1] == []
    lost = set(range(produced)) - times.keys()
    for partition, of in enumerate(accounts):
        killed = (of.leased(each.instance) for each in pasts if each.killed)
        gone = (of.passed_over | of.free).union(*killed)
        lost -= {offset * len(accounts) + partition for offset in gone}
    assert lost == set()


def judge(one: Scene, log: list[RawRecord], repeated_max: int) -> None:
    """What each semantics promises; and the judge is seen to notice."""
    pasts, accounts = one.pasts, one.accounts(log)
    produced = one.fleet.load.produced

    def hold(pasts: Sequence[Past]) -> None:
        if one.semantics == "at_least_once":
            none_skipped(pasts, produced, repeated_max)
        else:
            none_twice(pasts, produced, accounts)

    hold(pasts)
    [*_, last] = (each for each in pasts if not each.killed)
    of_others = {number for each in pasts if each is not last for number in each.got}
    *_, alone = (number for number in last.got if number not in of_others)
    less = tuple(number for number in last.got if number != alone)
    for wrong in (less, last.got + (alone,) * (repeated_max + 1)):
        with pytest.raises(AssertionError):
            hold([attrs.evolve(each, got=wrong) if each is last else each for each in pasts])


def found(log: list[RawRecord]) -> dict[str, list[str]]:
    """What a replay finds that takeovers alone do not explain: sentences by code."""
    interval_ms = RULES.heartbeat_interval_ms
    rows = replayed(log, rule_sets=(RuleSet.FENCED,), interval_ms=interval_ms)[FINDINGS]
    codes = {row.code for row in rows} - ORDINARY
    return {code: [str(row.sentence) for row in rows if row.code == code] for code in codes}


def names_what_was_passed_over(one: Scene, log: list[RawRecord]) -> None:
    """At most once a replay finds just that, with its offsets; at least once nothing."""
    told = found(log)
    passed_over = set[int]().union(*(each.passed_over for each in one.accounts(log)))
    if one.semantics == "at_least_once":
        assert (told, passed_over) == ({}, set())
        return
    [[sentence]] = [told.pop("ranges_passed_over")]
    low, high = min(passed_over), max(passed_over)
    assert f"{len(passed_over)} offsets from {low} to {high} had been reserved" in sentence
    assert told == {}


def both_versions_agree(log: list[RawRecord], old_folds: Folds, new_folds: Folds) -> None:
    """No record of those who share did to a claim anything else in 0.1.0."""
    interval_ms = int(RULES.heartbeat_interval_ms)
    old, new = (folds.fold(log, interval_ms) for folds in (old_folds, new_folds))
    assert differences(old, new) == []
    assert any("ClaimingRange" in str(raw.value) for raw in log)


@pytest.mark.parametrize("semantics", BOTH)
def test_one_of_0_1_0_takes_over_when_all_who_share_are_killed_and_they_when_it_is(
    semantics: str,
    kafka_broker: Broker,
    old_version: Path,
    old_folds: Folds,
    new_folds: Folds,
    tmp_path: Path,
) -> None:
    with scene(kafka_broker, tmp_path, semantics) as one:
        one.share("s1", "s2")
        old = one.wait_beside("old", old_version)
        one.fleet.kill("s1")
        one.goes_on()
        assert old.got == [], "s2 is alive"
        one.fleet.kill("s2")
        until(lambda: old.got)
        one.goes_on()
        one.wait_beside("s3", PRESENT, share="ranges")
        one.fleet.kill("old")
        one.goes_on()
        one.ends()
    log = one.log()
    [of] = one.accounts(log)
    assert of.owners == [ANCHOR, old.past.instance, ANCHOR]
    assert [turn.from_stale for turn in of.turns] == [False, True, True]
    judge(one, log, repeated_max=2 * WINDOW)
    names_what_was_passed_over(one, log)
    both_versions_agree(log, old_folds, new_folds)
    if semantics == "at_most_once":
        [receipt] = one.told("receipts", one.stage.group, one.fleet.topic)
        assert receipt["instance"] == old.past.instance
        lost = of.leased(old.past.instance) - set(old.got)
        assert lost <= set(range(receipt["start"], receipt["end"]))


@pytest.mark.parametrize(
    ("semantics", "together"), [(BOTH[0], False), (BOTH[0], True), (BOTH[1], True)]
)
def test_who_ends_in_order_hands_over_and_repeats_only_what_lies_above_something_not_done(
    semantics: str, together: bool, kafka_broker: Broker, old_version: Path, tmp_path: Path
) -> None:
    version = old_version if semantics == "at_least_once" else PRESENT
    recorded = tmp_path / "recorded"
    recorded.mkdir()
    with scene(kafka_broker, tmp_path, semantics) as one:
        one.share("s1", "s2")
        whole = one.wait_beside("whole", version, record_to=str(recorded))
        if together:
            one.fleet.end("s1", "s2")
        else:
            one.fleet.end("s1")
            one.nothing_is_left()
            one.fleet.end("s2")
        until(lambda: whole.got)
        one.goes_on()
        one.wait_beside("s3", PRESENT, share="ranges")
        one.fleet.end("whole")
        one.goes_on()
        one.ends()
    log = one.log()
    [of] = one.accounts(log)
    assert of.owners == [ANCHOR, whole.past.instance, ANCHOR]
    # Those who share release nothing, so the other waits until they are stale.
    assert [turn.from_stale for turn in of.turns] == [False, True, False]
    # The one that is left takes what the other gave back, and leaves nothing between.
    judge(one, log, repeated_max=WINDOW if together else 0)
    names_what_was_passed_over(one, log)
    write_log(one.stage.cluster.settings, one.stage.coordination, recorded)
    told = marshal("validate", recorded)
    assert told.returncode == 0, told.stdout


def test_at_most_once_an_administrator_hands_over_what_was_given_back(
    kafka_broker: Broker, old_version: Path, tmp_path: Path
) -> None:
    with scene(kafka_broker, tmp_path, "at_most_once") as one:
        one.share("s1", "s2")
        one.fleet.end("s1")
        one.nothing_is_left()
        one.fleet.end("s2")
        [row] = one.told("ls", one.stage.group)
        ranges = row["ranges"]
        assert ranges["open"] == []
        starts = [each["start"] for each in ranges["pool"]]
        free = [*starts, ranges["frontier"]]
        assert [each["end"] for each in ranges["pool"]] == free[1:], "the pool has no gap"
        assert row["position"] > free[0], "what was reserved lies between"
        one.told("set-position", one.stage.group, f"{one.fleet.topic}:0={free[0]}")
        one.fleet.start("old", old_version)
        one.fleet.load.end()
        one.nothing_is_left()
        one.fleet.end("old")
    assert Counter(number for each in one.pasts for number in each.got) == Counter(
        range(one.fleet.load.produced)
    )


@pytest.mark.parametrize("semantics", BOTH)
def test_one_of_0_1_0_that_slept_too_long_goes_no_further_than_it_was_allowed(
    semantics: str, kafka_broker: Broker, old_version: Path, tmp_path: Path
) -> None:
    with scene(kafka_broker, tmp_path, semantics) as one:
        old = one.fleet.start("old", old_version)
        until(lambda: old.got)
        sharing = [one.wait_beside(each, PRESENT, share="ranges") for each in ("s1", "s2")]
        old.sleep()
        until(lambda: all(each.got for each in sharing))
        one.goes_on()
        slept_at = len(old.got)
        old.wake()
        until(lambda: old.told("lost"))
        one.goes_on()
        one.ends()
    log = one.log()
    [of] = one.accounts(log)
    assert of.owners == [old.past.instance, ANCHOR]
    judge(one, log, repeated_max=WINDOW)
    awake = old.got[slept_at:]
    if semantics == "at_least_once":
        assert len(awake) <= WINDOW
    else:
        assert of.leased(old.past.instance).issuperset(awake)
    assert found(log).keys() <= {"late_heartbeat_refused"}


@pytest.mark.parametrize("semantics", BOTH)
def test_those_who_share_and_slept_too_long_take_no_more_until_the_other_has_gone(
    semantics: str, kafka_broker: Broker, old_version: Path, tmp_path: Path
) -> None:
    with scene(kafka_broker, tmp_path, semantics) as one:
        sharing = one.share("s1", "s2")
        old = one.wait_beside("old", old_version)
        for each in sharing:
            each.sleep()
        until(lambda: old.got)
        one.goes_on()
        slept_at = max(number for each in sharing for number in each.got)
        for each in sharing:
            each.wake()
        one.goes_on()
        one.goes_on()
        began = min(old.got)
        assert max(number for each in sharing for number in each.got) < began + WINDOW
        assert slept_at < began + WINDOW
        one.fleet.end("old")
        one.goes_on()
        one.ends()
    log = one.log()
    [of] = one.accounts(log)
    assert of.owners == [ANCHOR, old.past.instance, ANCHOR]
    judge(one, log, repeated_max=WINDOW)


@pytest.mark.parametrize("semantics", BOTH)
def test_a_fleet_of_0_1_0_is_replaced_by_one_that_shares_under_load(
    semantics: str,
    kafka_broker: Broker,
    old_version: Path,
    old_folds: Folds,
    new_folds: Folds,
    tmp_path: Path,
) -> None:
    with scene(kafka_broker, tmp_path, semantics, partitions=3) as one:
        for client_id in ("ann", "bob", "cid"):
            one.fleet.start(client_id, old_version)
        one.fleet.works()
        for client_id in ("ann", "bob", "cid"):
            leave = one.fleet.kill if client_id == "bob" else one.fleet.end
            leave(client_id)
            one.fleet.start(client_id, PRESENT, share="ranges")
            one.goes_on()
        until(lambda: all(each.got for each in one.fleet.members.values()))
        one.ends()
    log = one.log()
    for of in one.accounts(log):
        assert of.owners[0] != ANCHOR
        assert of.owners[-1] == ANCHOR
        assert of.passed_over == set()
    judge(one, log, repeated_max=one.fleet.load.partitions * WINDOW)
    both_versions_agree(log, old_folds, new_folds)


@pytest.mark.parametrize("semantics", BOTH)
def test_an_original_takes_over_when_all_who_share_are_dead_and_they_when_it_has_gone(
    semantics: str, kafka_broker: Broker, tmp_path: Path
) -> None:
    with scene(kafka_broker, tmp_path, semantics, group=GROUP) as one:
        load = one.fleet.load
        one.share("s1", "s2")
        original = OriginalAtWork(one.stage, one.fleet.topic, lambda: load.produced, INTERVAL_S)
        one.strangers.append(original)
        one.goes_on()
        assert original.got == []
        one.fleet.kill("s1")
        one.fleet.kill("s2")
        until(lambda: original.got)
        third = one.fleet.start("s3", PRESENT, share="ranges")
        until(lambda: third.told("instance"))
        worked = len(original.got)
        until(lambda: len(original.got) > worked + 100)
        assert third.got == []
        original.end()
        one.goes_on()
        one.ends()
    log = one.log()
    [of] = one.accounts(log)
    assert of.owners == [ANCHOR, "o1", ANCHOR]
    assert [turn.from_stale for turn in of.turns] == [False, True, False]
    assert {value.partition(b"/")[0] for value in original.dropped} == {b"ClaimingRange"}
    theirs = Past("o1", present=False, killed=False, got=tuple(original.got))
    if semantics == "at_least_once":
        none_skipped([*one.pasts, theirs], load.produced, WINDOW)
        return
    # An original knows no at most once, but among ours nothing is processed twice.
    none_twice(one.pasts, 0, [])
    lost = set(range(load.produced)) - {number for each in one.pasts for number in each.got}
    killed = (of.leased(each.instance) for each in one.pasts if each.killed)
    assert lost <= of.passed_over.union(original.got, *killed)

"""A group goes from 0.1.0 to the present version and back under load, one consumer at a time.

In either direction one of them is killed with -9 in the middle of a batch. On the way up the next
one takes its id, so it takes its claims over at once. On the way down it has another id, so they
must become stale.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from kafka_marshal.capture import read_capture
from kafka_marshal.client.coordinate.recording import write_log
from kafka_marshal.testing import Broker
from kafka_marshal.validate.reading import LOG_FILE
from tests.client.crew import Stage
from tests.upgrade.fleet import Fleet, Past, fleet
from tests.upgrade.folding import NOBODY_IS_STALE
from tests.upgrade.versions import PRESENT, Folds, Row, differences

PARTITIONS = 6
INTERVAL_S = 2.0
"""So an owner is stale after 4 s."""
WINDOW = 200
BATCH = 50


def up_and_down(running: Fleet, old: Path) -> None:
    """Three of 0.1.0, then three of the present version, then three of 0.1.0; all end in order."""
    for client_id in ("ann", "bob", "cid"):
        running.start(client_id, old)
    running.works()
    running.end("ann")
    running.start("ann", PRESENT)
    running.works()
    running.kill("bob")
    running.start("bob", PRESENT)
    running.works()
    running.end("cid")
    running.start("cid", PRESENT)
    running.works()
    running.end("ann")
    running.start("ann", old)
    running.works()
    running.kill("bob")
    running.start("bert", old)
    running.works()
    running.end("cid")
    running.start("cid", old)
    running.works()
    running.load.end()
    running.processes(running.load.produced - PARTITIONS)
    running.end(*running.members)


def owners(rows: list[Row]) -> dict[str, list[str]]:
    """The instances that owned each claim, one after the other."""
    found: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        for name, claim in row["claims"].items():
            instance = claim["owner_instance"]
            if instance is not None and found[name][-1:] != [instance]:
                found[name].append(instance)
    return found


def granted(rows: list[Row]) -> dict[str, list[set[int]]]:
    """The numbers that each instance was granted, by batch."""
    found: dict[str, list[set[int]]] = defaultdict(list)
    positions: Counter[str] = Counter()
    for row in rows:
        for name, claim in row["claims"].items():
            if row["verdict"] == "granted":
                partition = int(name.rpartition("/")[2])
                offsets = range(positions[name], claim["position"])
                numbers = {offset * PARTITIONS + partition for offset in offsets}
                found[claim["owner_instance"]].append(numbers)
            positions[name] = claim["position"]
    return found


def moved(pasts: list[Past], rows: list[Row]) -> None:
    """Every claim went from 0.1.0 to the present version and back."""
    present = {each.instance for each in pasts if each.present}
    found = owners(rows)
    assert len(found) == PARTITIONS
    for name, instances in found.items():
        versions = ["new" if each in present else "old" for each in instances]
        assert versions[0] == versions[-1] == "old", f"{name}: {versions}"
        assert "new" in versions, f"{name}: {versions}"


def none_lost(pasts: list[Past], produced: int) -> None:
    """Everything was processed; again only what was in the window of one that was killed."""
    ended = Counter(number for each in pasts if not each.killed for number in each.got)
    assert [number for number, times in ended.items() if times > 1] == []
    times = Counter(number for each in pasts for number in each.got)
    assert set(range(produced)) == times.keys()
    for each in pasts:
        again = [number for number in each.got if times[number] > 1]
        if each.killed:
            assert again, "what it had in hand was not done"
            assert max(Counter(number % PARTITIONS for number in again).values()) <= WINDOW


def none_twice(pasts: list[Past], produced: int, batches: dict[str, list[set[int]]]) -> None:
    """Nothing was processed twice; each one that was killed lost a part of one batch a claim."""
    times = Counter(number for each in pasts for number in each.got)
    assert [number for number, count in times.items() if count > 1] == []
    lost = set(range(produced)) - times.keys()
    for each in pasts:
        theirs = [missing for batch in batches[each.instance] if (missing := batch & lost)]
        assert bool(theirs) is each.killed, f"{each.instance}: {theirs}"
        partitions = [min(missing) % PARTITIONS for missing in theirs]
        assert len(set(partitions)) == len(partitions), f"two batches of one claim: {theirs}"
        lost -= set().union(*theirs)
    assert lost == set(), "never granted, and passed over"


def doctored(pasts: list[Past], change: Callable[[tuple[int, ...]], tuple[int, ...]]) -> list[Past]:
    """The last that was not killed did something else."""
    [*_, wrong] = (each for each in pasts if not each.killed)
    changed = attrs.evolve(wrong, got=change(wrong.got))
    return [changed if each is wrong else each for each in pasts]


@pytest.mark.parametrize(
    "semantics", ["at_least_once", pytest.param("at_most_once", marks=pytest.mark.night)]
)
def test_a_group_is_upgraded_and_rolled_back_under_load(
    semantics: str,
    kafka_broker: Broker,
    old_version: Path,
    old_folds: Folds,
    new_folds: Folds,
    tmp_path: Path,
) -> None:
    stage = Stage(kafka_broker)
    with fleet(
        stage,
        tmp_path,
        partitions=PARTITIONS,
        per_tick=2 * PARTITIONS,
        semantics=semantics,
        heartbeat_interval_s=INTERVAL_S,
        window=WINDOW,
        batch=BATCH,
    ) as running:
        up_and_down(running, old_version)
    for each in running.ever:
        [version] = each.told("version")
        assert version.startswith("0.1.0 ") or each.version == PRESENT, version
        assert version.endswith(f" {each.version / 'kafka_marshal' / '__init__.py'}"), version
    write_log(stage.cluster.settings, stage.coordination, tmp_path)
    log = list(read_capture(tmp_path / LOG_FILE))
    interval_ms = int(INTERVAL_S * 1_000)
    rows = old_folds.fold(log, interval_ms)
    pasts = [each.past for each in running.ever]

    def judge(pasts: list[Past]) -> None:
        if semantics == "at_least_once":
            none_lost(pasts, running.load.produced)
        else:
            none_twice(pasts, running.load.produced, granted(rows))

    judge(pasts)
    moved(pasts, rows)
    assert differences(rows, new_folds.fold(log, interval_ms)) == []

    # Each check is seen to fail.
    for change in (lambda got: got[:-1], lambda got: (*got, got[-1])):
        with pytest.raises(AssertionError):
            judge(doctored(pasts, change))
    with pytest.raises(AssertionError):
        moved([attrs.evolve(each, present=False) for each in pasts], rows)
    broken = differences(rows, new_folds.fold(log, interval_ms, NOBODY_IS_STALE))
    assert any("took_over is live_owner now" in each for each in broken), broken[:3]

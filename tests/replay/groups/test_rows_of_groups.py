"""Marshal promises that the tables of a group's log hold who owned what, and why it moved."""

from __future__ import annotations

import pickle

import attrs
import pytest

from kafka_marshal.capture import RawRecord, TimestampType
from kafka_marshal.core.claims.world import OutOfOrder
from kafka_marshal.core.groups.events import At, MemberLeft, MemberRegistered, PartitionsCounted
from kafka_marshal.core.groups.state import Rebalance
from kafka_marshal.replay.findings.catalogue import ERROR
from kafka_marshal.replay.groups.groups_fold import GroupsFold, GroupsJudging
from kafka_marshal.replay.model.events import LogPartition
from kafka_marshal.replay.model.groups.rows import PartitionTenureRow, RebalanceRow
from kafka_marshal.replay.model.groups.tables import (
    CONTROLLERSHIPS,
    GROUP_STATES,
    OF_GROUPS,
    PARTITION_TENURES,
    REBALANCES,
    REFUSED_EVENTS,
)
from kafka_marshal.replay.model.rows import arrow_rows
from kafka_marshal.replay.model.tables import FINDINGS, MALFORMED, PARTITIONS, Rows
from tests.core.groups.walking import Walk, folded
from tests.machines.membership.group_town import GroupTown
from tests.replay.groups import logs
from tests.replay.groups.stories import START_MS, GroupLog, shared, tp

SEEDS = range(8)
RECORDS = 250


def tenures(log: GroupLog, number: int, topic: str = "orders") -> list[PartitionTenureRow]:
    found = [
        row
        for row in log.rows()[PARTITION_TENURES]
        if (row.topic, row.topic_partition) == (topic, number)
    ]
    return sorted(found, key=lambda row: row.from_offset)


def history(log: GroupLog, number: int) -> list[tuple[str, str, str]]:
    """Of a partition who owned it, why that began, and why it ended."""
    return [(row.member, row.began, row.ended) for row in tenures(log, number)]


def test_a_partition_that_moves_was_released_and_is_owned() -> None:
    log = shared().at(4).commits("m2", 3, 25)
    assert history(log, 0) == [("m1", "rebalanced", "open")]
    first, second = tenures(log, 3)
    assert (first.ended, first.to_ms, first.revoked_ms) == (
        "released",
        START_MS + 3_000,
        START_MS + 2_000,
    )
    assert (second.member, second.client, second.began) == ("m2", "client-m2", "released")
    assert (second.tenure, second.position_from, second.position_to) == (7, -1, 25)
    assert (second.commits, second.last_commit_ms) == (1, START_MS + 4_000)


def test_a_member_that_expires_ends_its_tenures_with_its_silence() -> None:
    log = shared().at(20).expires("m2").at(21).target(*["m1"] * 4)
    assert history(log, 3)[1:] == [("m2", "released", "expired"), ("m1", "rebalanced", "open")]
    row = tenures(log, 3)[1]
    assert (row.reason, row.silent_ms) == ("silent", 10_300)


def test_a_member_that_goes_while_it_must_let_go_grants_what_it_had() -> None:
    log = GroupLog().joins("m1").target(*["m1"] * 4).joins("m2").target("m2", "m1", "m1", "m1")
    assert history(log.leaves("m1"), 0) == [("m1", "rebalanced", "left"), ("m2", "left", "open")]


def test_renewals_rewinds_and_topics_that_go_end_tenures() -> None:
    log = shared().joins("m1").rewinds(0, 3)
    log.writes(PartitionsCounted("orders", 0, "id-1")).lets_go("m1")
    assert history(log, 0) == [
        ("m1", "rebalanced", "renewed"),
        ("m1", "renewed", "rewound"),
        ("m1", "rewound", "topic_gone"),
    ]


def test_the_last_word_of_one_that_lets_go_counts() -> None:
    log = GroupLog().joins("m1").target(*["m1"] * 4).joins("m2").target("m2", "m1", "m1", "m1")
    log.lets_go("m1", {tp(0): At(log.group.partitions[tp(0)].tenure, 30)})
    first = tenures(log, 0)[0]
    assert (first.ended, first.position_to, first.commits) == ("released", 30, 1)


def last_rebalance(log: GroupLog) -> RebalanceRow:
    return sorted(log.rows()[REBALANCES], key=lambda row: row.offset)[-1]


def test_a_rebalance_says_what_made_it_due_what_moved_and_when_it_was_settled() -> None:
    row = last_rebalance(shared())
    assert (row.due_by, row.due_member, row.due_ms) == ("joined", "m2", START_MS + 2_000)
    assert (row.state, row.settled_ms) == ("settled", START_MS + 3_000)
    assert (row.moves, row.revoked, row.granted, row.members) == (2, 2, 0, 2)
    assert (row.held_up_by, row.held_up_ms, row.held_up_how) == ("m1", 1_000, "released")


def test_every_event_that_made_it_due_is_a_cause() -> None:
    log = shared().at(5).joins("m3").at(6).leaves("m2").at(7)
    log.writes(PartitionsCounted("orders", 5, "id-1")).target("m1", "m1", "m3", "m3", "m3")
    row = last_rebalance(log)
    assert [(each.what, each.member, each.topic) for each in row.causes] == [
        ("joined", "m3", None),
        ("left", "m2", None),
        ("counted", None, "orders"),
    ]
    assert (row.unowned, row.unowned_longest_ms) == (3, 1_000)


@pytest.mark.parametrize(
    ("topics", "static", "what"),
    [(("orders", "other"), (), "wish"), (("orders",), (3,), "static")],
)
def test_a_changed_wish_makes_one_due(
    topics: tuple[str, ...], static: tuple[int, ...], what: str
) -> None:
    log = shared()
    wish = MemberRegistered("m2", "c", frozenset(topics), frozenset(map(tp, static)), False)
    log.writes(wish).target("m1", "m1", "m2", "m2")
    assert last_rebalance(log).due_by == what


def test_a_wish_that_is_taken_back_makes_none_due() -> None:
    log = shared().joins("m2", "other").joins("m2").leaves("m1").target(*["m2"] * 4)
    assert [each.what for each in last_rebalance(log).causes] == ["left"]


def test_a_rebalance_that_another_one_overtakes_is_superseded() -> None:
    log = GroupLog().joins("m1").target(*["m1"] * 4).joins("m2").target("m1", "m1", "m2", "m2")
    log.joins("m3").target("m1", "m1", "m2", "m3")
    states = [row.state for row in sorted(log.rows()[REBALANCES], key=lambda row: row.offset)]
    assert states == ["settled", "superseded", "open"]
    assert last_rebalance(log).held_up_how == "holds"


def test_time_without_an_owner_counts_for_the_rebalance_that_ends_it() -> None:
    log = GroupLog().joins("m1").target(*["m1"] * 4).joins("m2").at(1)
    log.target("m1", "m1", "m2", "m2").at(2).leaves("m2").leaves("m1").at(5).joins("m3")
    log.at(6).target(*["m3"] * 4)
    rows = sorted(log.rows()[REBALANCES], key=lambda row: row.offset)
    assert [(row.state, row.unowned) for row in rows[1:]] == [("superseded", 0), ("settled", 4)]
    assert rows[-1].unowned_longest_ms == 1_000


def test_a_rewind_lets_nothing_go() -> None:
    log = GroupLog().joins("m1").target(*["m1"] * 4).joins("m2").at(1)
    log.target("m1", "m1", "m1", "m2").at(2).rewinds(3, 9).at(4).lets_go("m1")
    [release] = last_rebalance(log).releases
    assert (release.how, release.took_ms) == ("released", 3_000)


def test_under_eager_everything_is_revoked_and_little_moves() -> None:
    log = GroupLog(how=Rebalance.EAGER).joins("m1").target(*["m1"] * 4)
    log.joins("m2").target("m1", "m1", "m1", "m2").lets_go("m1")
    row = last_rebalance(log)
    assert (row.revoked, row.moves, row.state) == (4, 1, "settled")


def test_a_controller_is_known_from_its_start_to_the_next_with_what_came_too_late() -> None:
    log = shared()
    old = log.now.epoch
    log.at(9).starts(2).at(9.5).writes(MemberLeft("m1", ""), epoch=old)
    rows = log.rows()
    first, second = rows[CONTROLLERSHIPS]
    assert (first.controller, first.ended, first.to_ms) == (1, "deposed", START_MS + 9_000)
    assert (first.events, first.refused, first.refused_late) == (7, 1, 1)
    assert (second.controller, second.ended, second.events) == (2, "open", 1)
    [refused] = rows[REFUSED_EVENTS]
    assert (refused.verdict, refused.controller, refused.member) == ("deposed", 1, "m1")


def test_a_refused_position_says_who_owned_it_under_which_tenure() -> None:
    [row] = shared().commits("m1", 0, 9, tenure=1).rows()[REFUSED_EVENTS]
    assert (row.verdict, row.topic_partition, row.position, row.tenure) == ("other_tenure", 0, 9, 1)
    assert (row.owner, row.owner_tenure) == ("m1", 4)


def test_a_group_is_told_in_numbers() -> None:
    [row] = shared().joins("m3").rows()[GROUP_STATES]
    assert (row.members, row.partitions, row.owned) == (("m1", "m2", "m3"), 4, 4)
    assert (row.joined, row.rebalances, row.moves, row.rebalance_due) == (3, 2, 2, True)


def test_what_is_no_event_is_malformed() -> None:
    raws = [*map(logs.raw_of, shared().records)]
    rows = logs.folded([*raws, RawRecord(0, len(raws), START_MS, b"nonsense")])
    [row] = rows[MALFORMED]
    assert (row.offset, row.value) == (len(raws), "nonsense")
    assert [row.code for row in rows[FINDINGS]] == ["malformed_record"]


def test_a_record_that_the_input_holds_twice_is_folded_once() -> None:
    raws = [*map(logs.raw_of, shared().records)]
    twice = logs.folded(sorted([*raws, *raws], key=lambda raw: raw.offset))
    assert twice[PARTITION_TENURES] == logs.folded(raws)[PARTITION_TENURES]
    assert twice[REFUSED_EVENTS] == []
    assert [row.code for row in twice[FINDINGS]] == ["duplicate_record"]


def test_producers_clocks_are_a_caveat() -> None:
    raws = [*map(logs.raw_of, shared().records)]
    by_producers = attrs.evolve(raws[2], timestamp_type=TimestampType.CREATE_TIME)
    [row] = logs.folded([*raws[:2], by_producers, *raws[3:]])[FINDINGS]
    assert (row.code, row.count) == ("create_time", 1)


def test_records_out_of_order_are_an_error() -> None:
    raws = [*map(logs.raw_of, shared().records)]
    with pytest.raises(OutOfOrder, match="offset 3 after 4"):
        logs.folded([raws[4], raws[3]])


def test_an_empty_log_has_no_row() -> None:
    assert len(logs.folded([])) == 0


# --- a log whose head is missing ------------------------------------------------------------------


def cut() -> tuple[GroupLog, int]:
    """A log, and where its snapshots begin."""
    log = shared()
    first = len(log.records)
    log.at(10).snapshots()
    return log.at(11).expires("m2").target(*["m1"] * 4), first


def test_without_a_snapshot_nothing_is_known() -> None:
    rows = shared().rows(first=3)
    assert (rows[PARTITION_TENURES], rows[REBALANCES], rows[GROUP_STATES]) == ([], [], [])
    [row] = rows[FINDINGS]
    assert row.code == "state_not_known"
    assert "begins at offset 3. 4 events could not be judged." in row.sentence
    assert "nothing of its groups is known" in row.sentence


def test_a_snapshot_that_nobody_vouches_for_makes_no_row_certain() -> None:
    log, first = cut()
    rows = log.rows(first=first - 2)
    assert {row.certain for row in rows[PARTITION_TENURES]} == {False}
    [row] = [row for row in rows[FINDINGS] if row.code == "state_not_known"]
    assert f"the snapshot at offset {first} " in row.sentence
    assert "the log alone does not prove" in row.sentence
    assert "2 events could not be judged" in row.sentence


def test_the_snapshot_that_the_controllers_claim_names_is_certain() -> None:
    log, first = cut()
    rows = log.rows(GroupsJudging(certain_from={0: first}), first=first - 2)
    assert {row.certain for row in rows[PARTITION_TENURES]} == {True}
    known = {(row.topic_partition, row.began) for row in rows[PARTITION_TENURES]}
    assert {(n, "snapshot") for n in range(4)} <= known
    [group] = rows[GROUP_STATES]
    assert (group.members, group.generation) == (("m1",), log.group.generation)


def test_a_head_that_was_left_out_on_purpose_is_no_missing_head() -> None:
    rows = shared().rows(GroupsJudging(log_begins=0), first=0)
    assert rows[FINDINGS] == []
    assert [row.code for row in shared().rows(GroupsJudging(log_begins=5))[FINDINGS]] == [
        "state_not_known"
    ]


def test_an_epoch_that_never_began_shows_that_the_snapshot_was_not_believed() -> None:
    log, first = cut()
    log.writes(MemberLeft("m1", ""), epoch=log.now.epoch + 1)
    rows = log.rows(first=first)
    assert {row.ended for row in rows[PARTITION_TENURES]} == {"expired", "unknown"}
    [row] = [row for row in rows[FINDINGS] if row.code == "state_not_known"]
    assert row.sentence.endswith("When the log ends, nothing is known any more.")


# --- whatever the log -----------------------------------------------------------------------------


def walked(seed: int, *, honest: bool) -> Walk:
    walk = Walk(seed, honest=honest)
    for _ in range(RECORDS):
        walk.step()
    return walk


@pytest.mark.parametrize("seed", SEEDS)
def test_what_lasts_is_what_the_reducer_says_and_nothing_overlaps(seed: int) -> None:
    walk = walked(seed, honest=seed % 2 == 0)
    fold = GroupsFold(LogPartition("log", 0))
    for record in walk.records:
        fold.feed(logs.raw_of(record))
    state, is_certain = fold.state, fold.is_certain
    fold.close()
    rows = fold.drain()
    if state is not None and is_certain:
        assert state == folded(walk.records)
        owned = {
            (name, each, partition.owner, partition.tenure)
            for name, group in state.groups.items()
            for each, partition in group.partitions.items()
            if partition.owner is not None
        }
        assert owned == {
            (row.group, tp(row.topic_partition, row.topic), row.member, row.tenure)
            for row in rows[PARTITION_TENURES]
            if row.ended == "open"
        }
    ends: dict[tuple[str, str, int], int] = {}
    for row in sorted(rows[PARTITION_TENURES], key=lambda row: row.from_offset):
        place = row.group, row.topic, row.topic_partition
        assert ends.get(place, 0) <= row.from_offset
        ends[place] = RECORDS if row.to_offset is None else row.to_offset
    [counted] = rows[PARTITIONS]
    assert counted.records == RECORDS
    for rebalance in rows[REBALANCES]:
        assert all(cause.offset < rebalance.offset for cause in rebalance.causes)
        assert sum(each.partitions for each in rebalance.releases) == rebalance.revoked
        if rebalance.state == "settled":
            assert "holds" not in {each.how for each in rebalance.releases}


@pytest.mark.parametrize("seed", range(2))
def test_it_may_be_drained_and_put_aside_at_any_record(seed: int) -> None:
    raws = [*map(logs.raw_of, walked(seed, honest=seed % 2 == 0).records)]
    whole = logs.folded(raws)
    pieces = Rows()
    fold = GroupsFold(LogPartition("log", 0))
    for number, raw in enumerate(raws):
        fold.feed(raw)
        if number % 50 == seed:
            pieces.extend(fold.drain())
            fold = pickle.loads(pickle.dumps(fold))
    fold.close()
    pieces.extend(fold.drain())
    assert pieces == whole


@pytest.mark.parametrize("seed", [0, 2, 4])
def test_a_log_that_begins_at_an_accepted_snapshot_comes_to_the_same(seed: int) -> None:
    walk = walked(seed, honest=True)
    begins = walk.snapshots[0]
    raws = [*map(logs.raw_of, walk.records)]
    fold = GroupsFold(LogPartition("log", 0), GroupsJudging(certain_from={0: begins}))
    for raw in raws[begins:]:
        fold.feed(raw)
    assert fold.state == walk.now
    fold.close()
    later = {row.offset: row for row in fold.drain()[REBALANCES]}
    whole = {row.offset: row for row in logs.folded(raws)[REBALANCES]}
    assert {*later} == {offset for offset in whole if offset > begins}
    known = [offset for offset, row in later.items() if row.due_offset is not None]
    assert known
    earlier = {whole[offset].due_offset for offset in later.keys() - {*known}}
    assert all(offset is not None and offset < begins for offset in earlier)
    for offset in known:
        assert later[offset].causes == whole[offset].causes
        assert later[offset].releases == whole[offset].releases
        assert later[offset].settled_offset == whole[offset].settled_offset


@pytest.mark.parametrize("seed", range(3))
def test_of_shipped_controllers_in_trouble_no_log_has_an_error(seed: int) -> None:
    town = GroupTown(seed)
    town.run(60_000)
    rows = logs.folded(map(logs.raw_of, town.log))
    assert rows[REBALANCES]
    assert [row for row in rows[FINDINGS] if row.severity == ERROR] == []


def test_every_row_can_be_stored_and_read_again() -> None:
    rows = logs.folded(map(logs.raw_of, walked(1, honest=False).records))
    rows.extend(logs.folded(map(logs.raw_of, walked(2, honest=True).records)))
    stored = 0
    for table in OF_GROUPS:
        arrow = arrow_rows(table, rows[table])
        assert table.rows(arrow.to_pylist()) == rows[table]
        stored += bool(rows[table])
    assert stored == len(OF_GROUPS.by_name) - 1  # a walk writes nothing malformed

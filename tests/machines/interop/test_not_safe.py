"""A fleet of originals and of ours: what is not safe, and is seen to happen.

Our rules bind those who read by them. An original goes on by its own, so wherever the two readings
part, it works on messages that the log says are another's. In each of these the log has one owner,
which no reader of ours doubts; each names what goes wrong. docs/interop.md says what to do.
"""

from __future__ import annotations

import pytest

from kafka_marshal import World
from kafka_marshal.core.claims import original
from kafka_marshal.core.claims.verdicts import Accepted, Refused
from kafka_marshal.core.messages import (
    NO_HEADERS,
    ClaimingPartition,
    Headers,
    Partition,
    Record,
    ReleaseGroup,
    ReleasingPartition,
)
from kafka_marshal.core.state import ORIGINAL
from kafka_marshal.machines.consumer import consumer as moves
from kafka_marshal.machines.consumer.consumer import InstanceConfig, Mode
from tests.machines.interop.bare import EVENTS, OURS, STALE_MS, Log, start
from tests.machines.interop.originals import Mixed, Original, twice

BOTH = [frozenset({"a1", "o1"})]


def owners(town: Mixed) -> set[str | None]:
    return set(town.owners("events").values())


def refused(town: Mixed, sender: str) -> set[object]:
    """The guards that refused this sender's records."""
    return {said for said in town.by(sender) if isinstance(said, Refused)}


def taken_over_from_a_slow_original(mode: Mode = Mode.AT_LEAST_ONCE) -> tuple[Mixed, Original]:
    """Its heartbeats are held on the wire, ours takes over when it is stale, and then they land."""
    town = Mixed()
    slow = town.original("o1", partitions=1)
    town.pass_time(30_000)
    start(town, "a1", mode)
    slow.wire = []
    town.pass_time(80_000)
    assert owners(town) == {"a1", "o1"}
    town.pass_time(15_000)
    assert owners(town) == {"a1"}
    assert not town.crowded
    slow.land()
    town.settle()
    return town, slow


@pytest.mark.parametrize("mode", Mode)
def test_an_original_that_is_late_works_beside_its_successor_until_that_ones_heartbeat(
    mode: Mode,
) -> None:
    """Fault (a), as far as originals read it. At most once, it takes what was granted to ours.

    Spec: MCFaults_Limit_AtMostOnce_OriginalTakes.
    """
    town, slow = taken_over_from_a_slow_original(mode)
    town.pass_time(10_000)
    assert set(town.crowded) == {0}
    assert set(town.crowded[0]) == set(BOTH)
    assert owners(town) == {"a1"}
    ours = set(town.processed["a1"])
    assert len(ours & set(slow.processed)) >= 10
    town.pass_time(61_000)
    assert not slow.at_work
    assert refused(town, "o1") == {Refused.EPOCH_MISSING, Refused.LIVE_OWNER}
    assert not twice(town.processed["a1"])


def test_an_original_whose_clock_is_ahead_works_beside_ours() -> None:
    """Fault (h): it judges what others wrote by its own clock. The log refuses all that it says."""
    town = Mixed()
    ours = start(town, "a1")
    town.original("o1", clock_ahead_ms=150_000)
    town.pass_time(300_000)
    assert set(town.crowded[0]) == set(BOTH)
    assert owners(town) == {"a1"}
    assert len(ours.owned) == 3
    assert set(town.by("o1")) == {Refused.LIVE_OWNER, Refused.EPOCH_MISSING}


def test_at_twice_the_interval_an_original_takes_what_ours_still_owns() -> None:
    """It counts whole seconds, and exactly twice is too late there; here it is not."""
    for sent_ms, asked_ms in ((1_000_000, 1_120_000), (1_000_999, 1_120_000)):
        log = Log()
        log.now_ms = sent_ms
        log.claims("a1", OURS)
        log.now_ms = asked_ms
        assert log.claims("o1") is Refused.LIVE_OWNER
        world = World(ORIGINAL)
        for offset, (sender, at_ms) in enumerate((("a1", sent_ms), ("o1", asked_ms))):
            address = (1, at_ms // 1000, sender, sender[0], "g", "events", Partition(0))
            world.apply(Record(1, offset, at_ms, ClaimingPartition(*address)))
        assert world.claim(EVENTS).owner_instance == "o1"
        assert original.claimed(world.claim(EVENTS), asked_ms, ORIGINAL)


@pytest.mark.parametrize("releases", [False, True])
def test_an_original_that_took_over_a_moment_too_soon_has_all_its_work_repeated(
    releases: bool,
) -> None:
    """In the log it never owned, so all that it says is refused, its release too.

    Where one of ours is waiting, that one takes over at once. Here none is, for a long time.
    """
    town = Mixed()
    start(town, "a1")
    town.pass_time(10_000)
    town.deaf.add("a1")
    early = town.original("o1")
    town.pass_time(1_000_000)
    assert len(early.at_work) == 3
    assert owners(town) == {"a1"}
    assert set(town.by("o1")) == {Refused.LIVE_OWNER, Refused.EPOCH_MISSING}
    if releases:
        early.release()
    start(town, "b1")
    town.pass_time(1_000)
    assert owners(town) == {"b1"}
    town.pass_time(100_000)
    assert not early.at_work
    assert len(twice(town.everything())) > 3 * 800


def test_an_original_that_waits_less_long_works_beside_ours() -> None:
    """Its heartbeat interval is the shorter one, so an idle one of ours looks dead to it."""
    town = Mixed(per_s=0)
    start(town, "a1")
    town.original("o1", interval_ms=10_000)
    town.pass_time(200_000)
    assert set(town.crowded[0]) == set(BOTH)
    assert owners(town) == {"a1"}


def test_ours_that_wait_less_long_take_from_a_living_original() -> None:
    """Its heartbeat interval is the longer one, so it is stale here before it says a word."""
    town = Mixed()
    town.original("o1", interval_ms=200_000)
    town.pass_time(10_000)
    start(town, "a1")
    town.pass_time(200_000)
    assert owners(town) == {"a1"}
    assert len(twice(town.everything())) > 3 * 100


def test_an_original_that_starts_under_a_client_id_of_ours_works_beside_it() -> None:
    """Its fast reclaim is refused (R9), and it does not know."""
    town = Mixed()
    start(town, "a1")
    town.pass_time(30_000)
    twin = town.original("a2")
    twin.fast_reclaim()
    town.pass_time(10_000)
    assert set(town.crowded[0]) == {frozenset({"a1", "a2"})}
    assert owners(town) == {"a1"}
    town.pass_time(60_000)
    assert not twin.at_work
    assert refused(town, "a2") == {Refused.EPOCH_MISSING}


def test_ours_that_starts_under_a_living_originals_client_id_displaces_it() -> None:
    """It is taken for a restart (R1b). What the original did since its heartbeat is repeated."""
    town = Mixed()
    living = town.original("o1")
    town.pass_time(50_000)
    assert len(start(town, "o2").owned) == 3
    town.pass_time(10_000)
    assert not living.at_work
    assert len(twice(town.everything())) >= 3 * 40


def test_who_goes_back_without_a_release_has_its_work_repeated() -> None:
    """The log still names our dead instance, refuses what the original says, and forgets it."""
    town = Mixed()
    start(town, "a1")
    town.pass_time(30_000)
    town.deaf.add("a1")
    back = town.original("a2")
    back.fast_reclaim()
    town.pass_time(60_000)
    assert len(back.at_work) == 3
    assert owners(town) == {"a1"}
    start(town, "b1")
    town.pass_time(80_000)
    assert owners(town) == {"b1"}
    assert not back.at_work
    assert len(twice(town.everything())) > 3 * 60


def test_an_original_of_before_the_administrator_works_on_in_a_pause() -> None:
    """80cc6d1 does not read ReleaseGroup. The pause and the position hold, for all who do."""
    town = Mixed()
    deaf = town.original("o1", partitions=1, knows_groups=False)
    knows = town.original("p1", partitions=3)
    town.pass_time(30_000)
    me = InstanceConfig("x1", "x", Mode.AT_LEAST_ONCE, admin=True)
    until_s = town.now_ms // 1000 + 300
    town.append(moves.release_group_sent(me, "g", until_s), town.place)
    town.pass_time(30_000)
    assert town.owners("events")[0] is None
    assert (len(deaf.at_work), len(knows.at_work)) == (1, 0)
    before = len(deaf.processed)

    seen = moves.ConsumerState()
    for record in town.logs[town.place]:
        if record.message.partition == 0 or isinstance(record.message, ReleaseGroup):
            seen = moves.after_read(me, seen, record)
    town.append(moves.claiming_partition_sent(me, seen, EVENTS))
    seen = moves.after_read(me, seen, town.logs[town.place][-1])
    town.append(moves.position_sent(me, seen, EVENTS, 5))
    town.pass_time(60_000)
    assert town.worlds[town.place].claim(EVENTS).position == 5
    assert len(deaf.processed) == before + 60
    assert refused(town, "o1") == {Refused.NOBODY_OWNS}


def test_an_originals_win_after_a_release_group_begins_at_0_whatever_was_set() -> None:
    """e79661b forgets the position. In the log it stays, so nothing of ours goes back."""
    town = Mixed()
    ours = start(town, "a1")
    town.pass_time(100_000)
    unix_s = town.now_ms // 1000
    town.send(ReleaseGroup(0, unix_s, "x1", "x", "g", "", Partition(0), unix_s))
    town.pass_time(10_000)
    town.do("a1", ours.stop(town.now_ms))
    position = town.worlds[town.place].claim(EVENTS).position
    assert position > 90
    next_one = town.original("o1")
    town.pass_time(10_000)
    assert next_one.processed[0] == (0, 0)
    assert len(twice(town.everything())) > 3 * 90
    assert town.worlds[town.place].claim(EVENTS).position >= position


def test_an_original_that_owns_passes_what_nobody_processed() -> None:
    """Nobody checks what it says. Spec: MCFaults_Limit_NoneSkipped_Stranger."""
    log = Log()
    log.claims("o1")
    assert log.beats("o1", 500) is Accepted.REFRESHED
    log.now_ms += STALE_MS
    assert log.claims("a1", OURS) is Accepted.TOOK_OVER
    assert log.position == 500


def test_a_late_fast_reclaim_undoes_a_position_that_was_set() -> None:
    """Only where the claim was won bare, before and after.

    Spec: MCFenced_Gap_SetPositionSticks_FastReclaim, MCFaults_Gap_NoneSkipped_FastReclaim.
    """
    for headers, position in ((NO_HEADERS, 9), (Headers(True), 2)):
        log = Log()
        log.claims("o1")
        log.beats("o1", 9)
        log.pauses("x1", 60)
        log.claims("x1")
        assert log.says(ReleasingPartition, "x1", 2) is Accepted.POSITION_SET
        log.claims("o1", headers)
        assert log.position == 2
        log.beats("o2", 9)  # it was built before the pause, and lands now
        assert log.position == position


def test_a_dead_originals_late_claim_takes_over_from_its_successor() -> None:
    """R1c lets the original restart. Spec: MCFaults_Limit_PredecessorStaysOut_BareRestart."""
    log = Log()
    log.claims("o1")
    assert log.claims("o2") is Accepted.RESTARTED
    assert log.claims("o1") is Accepted.RESTARTED
    assert log.owner == "o1"
    ours = Log()
    ours.claims("o1")
    ours.claims("o2", Headers(True, supersedes=0))
    assert ours.claims("o1") is Refused.DOES_NOT_SUPERSEDE


def test_an_overtaken_release_of_an_older_tenure_ends_a_newer_one() -> None:
    """Spec: MCFaults_Limit_ReleaseRepeatsNothing_BareUnordered, and ..._BareUnorderedAdmin."""
    log = Log()
    log.claims("o1")
    log.says(ReleasingPartition, "o1", 3)
    log.claims("o1")
    assert log.says(ReleasingPartition, "o1", 3) is Accepted.RELEASED  # doubled
    ours = Log()
    ours.claims("a1", OURS)
    ours.says(ReleasingPartition, "a1", 3, Headers(True, epoch=0))
    ours.claims("a1", OURS)
    again = ours.says(ReleasingPartition, "a1", 3, Headers(True, epoch=0))
    assert again is Refused.SUPERSEDED


def test_with_producers_clocks_an_original_that_is_ahead_takes_from_a_fresh_owner_of_ours() -> None:
    """The topic says CreateTime. With LogAppendTime it is refused."""
    by_producer, by_broker = Log(), Log()
    for log, ahead_ms in ((by_producer, STALE_MS), (by_broker, 0)):
        log.claims("a1", OURS)
        log.now_ms += ahead_ms
        log.claims("o1")
    assert (by_producer.owner, by_broker.owner) == ("o1", "a1")


def test_without_timestamps_ours_takes_from_a_living_original() -> None:
    """Old message formats have none, and the topic adds none: the first real time is too late."""
    log = Log()
    log.now_ms = -1
    log.claims("o1")
    log.beats("o1", 7)
    log.now_ms = 1_000_000
    assert log.claims("a1", OURS) is Accepted.TOOK_OVER


def test_two_originals_of_one_client_take_turns_by_our_rules_too() -> None:
    """R9 lets each heartbeat of the other win, as it did in theirs (fault b)."""
    log = Log()
    log.claims("o1")
    assert log.beats("o2", 5) is Accepted.FAST_RECLAIMED
    assert log.beats("o1", 9) is Accepted.FAST_RECLAIMED
    assert log.beats("o2", 6) is Accepted.FAST_RECLAIMED
    assert (log.owner, log.position) == ("o2", 9)

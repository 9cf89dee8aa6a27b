"""A fleet of originals and of ours: what is promised of records without headers.

An original is a script that follows the rules that its own handlers were recorded to follow
(`originals.Original`). Here is what is safe; what is not is in `test_not_safe`.
"""

from __future__ import annotations

import pytest

from kafka_marshal.codec import decode_headers, encode_headers
from kafka_marshal.core.claims.verdicts import Accepted, Refused
from kafka_marshal.core.messages import (
    ClaimingMessages,
    Headers,
    Heartbeat,
    Partition,
    ReleaseGroup,
    ReleasingPartition,
)
from kafka_marshal.machines.consumer import consumer as moves
from kafka_marshal.machines.consumer.claiming import Claiming
from kafka_marshal.machines.consumer.consumer import InstanceConfig, Mode
from kafka_marshal.machines.consumer.effects import Lost
from kafka_marshal.machines.consumer.member import Member
from tests.machines.interop.bare import ALONE, EVENTS, OURS, STALE_MS, Kind, Log, start
from tests.machines.interop.originals import Mixed, Original, twice
from tests.machines.town import PLACES, TIMING, key

# --- a fleet --------------------------------------------------------------------------------------


def all_agree(town: Mixed) -> bool:
    """Each living original takes for the owner whom the log, by the fenced rules, says."""
    owners = town.owners("events")
    return all(
        one.owner(number) == owners.get(number)
        for one in town.originals.values()
        if one.alive
        for number in range(3)
    )


def test_a_timely_fleet_never_has_two_at_work_and_misses_nothing() -> None:
    """Client ids of their own, one interval, clocks that agree: deaths, releases, newcomers."""
    town = Mixed()
    first = town.original("o1")
    town.pass_time(100_000)
    ours = start(town, "a1")
    town.pass_time(100_000)
    assert not ours.owned

    first.alive = False
    town.pass_time(200_000)
    assert len(ours.owned) == 3

    second = town.original("p1")
    second.fast_reclaim()
    town.pass_time(200_000)
    assert all_agree(town)
    assert not second.at_work

    town.do("a1", ours.stop(town.now_ms))
    town.pass_time(100_000)
    assert all_agree(town)
    assert len(second.at_work) == 3

    other = start(town, "b1")
    town.pass_time(100_000)
    second.release()
    town.pass_time(100_000)
    assert len(other.owned) == 3
    assert not town.crowded
    everything = town.everything()
    assert set(everything) == {(number, n) for number in range(3) for n in range(town.end)}
    # Only what came after the last heartbeat of the one that died was processed again.
    assert len(twice(everything)) <= 3 * 60


def test_a_share_is_not_taken_from_an_original() -> None:
    """It gives nothing back, so an asker is refused, by its rules as by ours."""
    town = Mixed()
    first = town.original("o1")
    town.pass_time(10_000)
    ours = town.join("a1", Claiming())
    town.do("a1", ours.add_topic("events", 3, town.now_ms))
    town.pass_time(600_000)
    assert set(town.by("a1")) == {Refused.LIVE_OWNER}
    assert len(first.at_work) == 3
    assert not town.crowded
    assert all_agree(town)


def test_an_administrators_pause_holds_for_both() -> None:
    town = Mixed()
    first, ours = town.original("o1", partitions=1), start(town, "a1")
    town.pass_time(5_000)
    assert (len(ours.owned), len(first.at_work)) == (3, 0)
    unix_s = town.now_ms // 1000
    town.send(ReleaseGroup(0, unix_s, "x1", "x", "g", "", Partition(0), unix_s + 60))
    town.settle()
    town.pass_time(59_000)
    assert not ours.owned
    assert not first.at_work
    town.pass_time(100_000)
    assert set(town.owners("events").values()) <= {"a1", "o1"}
    assert not town.crowded


def test_a_client_moves_to_ours_at_once_and_its_dead_original_stays_out() -> None:
    """Spec: MCFaults_AloMoved. The request names the tenure that it ends (R1b)."""
    town = Mixed()
    dead = town.original("o1")
    town.pass_time(90_000)
    dead.wire = []
    for number in range(3):
        dead.beat(number)
    dead.alive = False
    ours = start(town, "o2")
    town.pass_time(1_000)
    assert len(ours.owned) == 3
    dead.land()
    town.settle()
    assert town.by("o1")[-3:] == [Refused.EPOCH_MISSING] * 3
    town.pass_time(100_000)
    assert len(ours.owned) == 3
    assert len(twice(town.everything())) <= 3 * 90


def test_a_client_moves_back_by_a_release_and_nothing_is_repeated() -> None:
    town = Mixed()
    ours = start(town, "a1")
    town.pass_time(100_000)
    town.do("a1", ours.stop(town.now_ms))
    back = town.original("a2")
    back.fast_reclaim()
    town.pass_time(300_000)
    assert len(back.at_work) == 3
    assert set(town.by("a2")) == {Accepted.CLAIMED, Accepted.REFRESHED}
    assert not twice(town.everything())


def test_where_one_of_ours_waits_a_takeover_that_comes_too_soon_lasts_a_moment() -> None:
    """An original counts whole seconds, so it may be the first; nothing that it says counts."""
    town = Mixed()
    start(town, "a1")
    start(town, "b1")
    town.pass_time(10_000)
    town.deaf.add("a1")
    early = town.original("o1")
    town.pass_time(130_000)
    assert Refused.LIVE_OWNER in town.by("o1")
    assert set(town.owners("events").values()) == {"b1"}
    assert not early.at_work
    assert len(early.processed) <= 3  # a turn of work, at most


def test_an_original_that_is_restarted_is_the_owner_for_both_again() -> None:
    """Where the readings had parted because it took over a moment too soon."""
    town = Mixed()
    start(town, "a1")
    town.pass_time(10_000)
    town.deaf.add("a1")
    early = town.original("o1")
    town.pass_time(300_000)
    assert len(early.at_work) == 3
    assert set(town.owners("events").values()) == {"a1"}
    early.release()
    again = town.original("o2")
    town.pass_time(10_000)
    assert len(again.at_work) == 3
    assert set(town.owners("events").values()) == {"o2"}
    again.release()
    town.pass_time(10_000)
    repeated = len(twice(town.everything()))
    start(town, "b1")
    town.pass_time(10_000)
    assert set(town.owners("events").values()) == {"b1"}
    assert len(twice(town.everything())) == repeated


# --- R1c: claims ----------------------------------------------------------------------------------


def test_a_bare_claim_gets_no_restart_takeover_from_ours() -> None:
    """Only when ours is stale, like anybody's."""
    log = Log()
    log.claims("a1", OURS)
    log.now_ms += STALE_MS - 1
    assert log.claims("a2") is Refused.DOES_NOT_SUPERSEDE
    log.now_ms += 1
    assert log.claims("a2") is Accepted.TOOK_OVER


def test_against_a_bare_claim_the_originals_restart_takes_over_at_once() -> None:
    log = Log()
    log.claims("a1")
    assert log.claims("b1") is Refused.LIVE_OWNER
    assert log.claims("a2") is Accepted.RESTARTED
    assert (log.owner, log.epoch) == ("a2", 2)


def test_against_a_bare_claim_ours_has_to_name_the_tenure_that_it_ends() -> None:
    log = Log()
    log.claims("a1")
    assert log.claims("a2", OURS) is Refused.DOES_NOT_SUPERSEDE
    assert log.claims("a2", Headers(True, supersedes=0)) is Accepted.RESTARTED


def test_a_claim_of_ours_counts_as_won_with_headers_though_it_has_nothing_to_say() -> None:
    """Else it would be the original's to reclaim. It carries `marshal-version`."""
    town = Mixed()
    start(town, "a1")
    claim = town.worlds[town.place].claim(EVENTS)
    first = next(one for one in town.logs[town.place] if one.offset == claim.epoch)
    assert first.headers == Headers(True)
    assert claim.won_with_headers
    assert decode_headers(encode_headers(first.headers)).present


def test_after_an_original_took_over_from_ours_what_ours_had_in_flight_is_refused() -> None:
    """Spec: MCFaults_AloMovedBack. And when it wakes it reads that it lost."""
    town = Mixed()
    ours = start(town, "a1")
    town.pass_time(10_000)
    late = moves.heartbeat_sent(ours.me, ours.driver(EVENTS).consumer, EVENTS)
    town.deaf.add("a1")
    town.pass_time(130_000)
    next_one = town.original("o1")
    town.pass_time(20_000)
    assert len(next_one.at_work) == 3
    town.append(late)
    assert town.by("a1")[-1] is Refused.SUPERSEDED
    town.deaf.clear()
    town.settle()
    town.pass_time(100_000)
    assert [one.effect for one in town.told["a1"]][-3:] == [Lost.TAKEN] * 3
    assert len(next_one.at_work) == 3
    assert not town.crowded


# --- R2: heartbeats, grants, releases -------------------------------------------------------------

BARE = {
    ("a1", Heartbeat): Accepted.REFRESHED,
    ("a1", ClaimingMessages): Accepted.GRANTED,
    ("a1", ReleasingPartition): Accepted.RELEASED,
    ("a2", Heartbeat): Accepted.FAST_RECLAIMED,
    ("a2", ClaimingMessages): Refused.NOT_OWNER,
    ("a2", ReleasingPartition): Refused.NOT_OWNER,
    ("b1", Heartbeat): Refused.NOT_OWNER,
    ("b1", ClaimingMessages): Refused.NOT_OWNER,
    ("b1", ReleasingPartition): Refused.NOT_OWNER,
}


@pytest.mark.parametrize(("sender", "kind"), BARE)
def test_a_bare_record_is_the_owners_iff_the_claim_was_won_bare_and_the_instance_matches(
    sender: str, kind: Kind
) -> None:
    bare = Log()
    bare.claims("a1")
    assert bare.says(kind, sender, 7) is BARE[sender, kind]
    ours = Log()
    ours.claims("a1", OURS)
    assert ours.says(kind, sender, 7) is Refused.EPOCH_MISSING
    assert (ours.owner, ours.position) == ("a1", 0)


def test_bare_records_refresh_their_owner_and_never_move_the_position_back() -> None:
    """R3. And what is refused refreshes nothing."""
    log = Log()
    log.claims("a1")
    log.beats("a1", 9)
    log.now_ms += STALE_MS - 1
    assert log.beats("a1", 4) is Accepted.REFRESHED
    assert log.position == 9
    log.now_ms += STALE_MS - 1
    assert log.claims("b1") is Refused.LIVE_OWNER
    assert log.beats("b1", 99) is Refused.NOT_OWNER
    log.now_ms += 1
    assert log.claims("b1") is Accepted.TOOK_OVER
    assert log.position == 9


# --- R9: the original's fast reclaim --------------------------------------------------------------


def test_a_bare_heartbeat_of_a_new_instance_reclaims_what_its_client_won_bare() -> None:
    log = Log()
    log.claims("a1")
    log.beats("a1", 9)
    assert log.beats("a2", 5) is Accepted.FAST_RECLAIMED
    assert (log.owner, log.epoch, log.position) == ("a2", 2, 9)
    assert log.beats("a1", 20) is Accepted.FAST_RECLAIMED  # its clients take turns, as they did


def test_a_bare_heartbeat_reclaims_nothing_that_was_won_with_headers() -> None:
    log = Log()
    log.claims("a1", OURS)
    log.now_ms += 10 * STALE_MS
    assert log.beats("a2", 5) is Refused.EPOCH_MISSING
    assert log.owner == "a1"


def test_an_original_that_restarts_is_not_displaced_by_ours() -> None:
    """Spec: MCFaults_ClockOriginal. That is what R9 is for."""
    town = Mixed()
    dead = town.original("o1")
    ours = start(town, "a1")
    town.do("a1", ours.stop(town.now_ms))
    town.pass_time(70_000)
    start(town, "b1")
    dead.alive = False
    town.pass_time(60_000)
    again = town.original("o2")
    again.fast_reclaim()
    assert town.by("o2") == [Accepted.FAST_RECLAIMED] * 3
    town.pass_time(600_000)
    assert set(town.owners("events").values()) == {"o2"}
    assert not town.crowded


# --- readers that begin in the middle -------------------------------------------------------------


@pytest.mark.parametrize("mode", Mode)
def test_records_without_headers_tell_a_reader_that_began_later_nothing_certain(
    mode: Mode,
) -> None:
    """The same suffix fits a live owner and a zombie. Ours it knows by their first heartbeat."""
    town = Mixed()
    ours = town.join("a1", ALONE)
    town.do("a1", ours.add_topic("events", 3, town.now_ms, only=[1]))
    town.original("o1", partitions=1)
    town.pass_time(10_000)
    log = town.logs[town.place]
    first = len(log)
    town.pass_time(1_000_000)
    late = Member(
        InstanceConfig("z1", "z", mode), "g", PLACES, ALONE, TIMING, firsts={town.place: first}
    )
    late.add_topic("events", 2, town.now_ms)
    asked = []
    for record in log[first:]:
        asked += late.record(record, town.now_ms)
    asked += late.caught_up(town.place, town.now_ms)
    assert {record.message.instance_id for record in log[first:]} == {"o1", "a1"}
    assert late.driver(key("events", 1)).consumer.reader.known
    assert not late.driver(key("events", 0)).consumer.reader.known
    assert not asked
    if mode is Mode.AT_MOST_ONCE:
        assert late.driver(key("events", 0)).claimable_at_ms is None


# --- the topic's timestamps -----------------------------------------------------------------------


def test_the_topic_may_get_the_brokers_time_while_originals_run() -> None:
    """Records before had none. After one heartbeat of each owner it is as if it had always been."""
    log = Log()
    log.now_ms = -1
    log.claims("o1")
    log.beats("o1", 3)
    log.now_ms = 1_000_000
    log.beats("o1", 4)
    log.now_ms += STALE_MS - 1
    assert log.claims("a1", OURS) is Refused.LIVE_OWNER
    log.now_ms += 1
    assert log.claims("a1", OURS) is Accepted.TOOK_OVER


def test_after_stamps_that_were_ahead_a_dead_owner_is_replaced_later_and_never_sooner() -> None:
    log = Log()
    log.now_ms += 500_000
    log.claims("o1")
    log.now_ms -= 500_000
    log.beats("o1", 4)
    log.now_ms += 500_000 + STALE_MS - 1
    assert log.claims("a1", OURS) is Refused.LIVE_OWNER
    log.now_ms += 1
    assert log.claims("a1", OURS) is Accepted.TOOK_OVER


def test_the_script_of_an_original_does_what_originals_did() -> None:
    """By its own rules, alone: it claims, beats, is taken over from when stale, and reclaims."""
    town = Mixed()
    first, second = town.original("o1"), town.original("p1")
    town.pass_time(200_000)
    assert (len(first.at_work), len(second.at_work)) == (3, 0)
    first.alive = False
    town.pass_time(90_000)
    assert not second.at_work
    town.pass_time(30_000)
    assert len(second.at_work) == 3
    second.alive = False
    again: Original = town.original("p2")
    again.fast_reclaim()
    town.pass_time(1_000)
    assert len(again.at_work) == 3

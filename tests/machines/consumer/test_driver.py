from collections.abc import Callable

import attrs
import pytest

from kafka_marshal import (
    FENCED,
    ClaimingMessages,
    ClaimingPartition,
    ClaimKey,
    Headers,
    Heartbeat,
    Record,
    ReleaseGroup,
    ReleasingPartition,
    World,
)
from kafka_marshal.core.messages import Offset, Partition
from kafka_marshal.machines.consumer.consumer import (
    ConsumerState,
    InstanceConfig,
    Mode,
    claiming_partition_sent,
    release_group_sent,
)
from kafka_marshal.machines.consumer.driver import Driver, Timing
from kafka_marshal.machines.consumer.effects import Lost, Process, ReleaseReason, Send, Won
from tests.machines.consumer.fleet import Fleet
from tests.memory_log import MemoryLog

KEY = ClaimKey("g", "events", 0)
MINUTE = 60_000
HOUR = 60 * MINUTE


def alo(instance: str, client: str | None = None, start: int = 0) -> Driver:
    return Driver(
        InstanceConfig(instance, client or instance[0], Mode.AT_LEAST_ONCE, window=3, start=start),
        KEY,
    )


def amo(instance: str, client: str | None = None) -> Driver:
    return Driver(InstanceConfig(instance, client or instance[0], Mode.AT_MOST_ONCE, batch=2), KEY)


def kinds(fleet: Fleet) -> list[str]:
    return [type(record.message).__name__ for record in fleet.log]


def test_a_driver_asks_only_after_it_has_read_the_log_to_its_end() -> None:
    driver = alo("a1")
    assert driver.timer(0) == []
    [sent] = driver.caught_up(0)
    assert isinstance(sent, Send)
    assert isinstance(sent.message, ClaimingPartition)


def test_the_first_to_ask_owns_and_the_other_waits_until_it_is_silent() -> None:
    fleet = Fleet()
    fleet.start(alo("a1"))
    fleet.start(alo("b1"))
    assert fleet.owner() == "a1"
    fleet.pass_time(30 * MINUTE)
    assert fleet.owner() == "a1"
    assert fleet.told["b1"] == []
    fleet.crash("a1")
    fleet.pass_time(2 * MINUTE - 1)
    assert fleet.owner() == "a1"
    fleet.pass_time(2 * MINUTE)
    assert fleet.owner() == "b1"
    [won] = fleet.told["b1"]
    assert isinstance(won, Won)


def test_heartbeats_come_every_interval_and_one_at_once_for_readers_that_came_later() -> None:
    fleet = Fleet()
    fleet.start(alo("a1"))
    assert kinds(fleet) == ["ClaimingPartition", "Heartbeat"]
    fleet.pass_time(3 * MINUTE)
    assert kinds(fleet)[2:] == ["Heartbeat"] * 3


def test_at_least_once_no_more_than_a_window_is_in_hand() -> None:
    fleet = Fleet()
    driver = fleet.start(alo("a1"))
    fleet.do("a1", driver.messages_available(10, 0))
    assert fleet.processed["a1"] == [0, 1, 2]
    fleet.do("a1", driver.done(1, 0))
    assert fleet.processed["a1"] == [0, 1, 2]
    fleet.do("a1", driver.done(2, 0))
    assert fleet.processed["a1"] == [0, 1, 2, 3, 4]
    fleet.do("a1", driver.done(4, 0))
    assert fleet.processed["a1"] == [0, 1, 2, 3, 4, 5, 6]
    assert fleet.world.claim(KEY).position == 4


def test_what_is_done_after_the_claim_was_lost_does_not_count() -> None:
    fleet = Fleet()
    driver = fleet.start(alo("a1"))
    fleet.do("a1", driver.messages_available(3, 0))
    fleet.append(release_group_sent(admin(), "g", 60))
    fleet.settle()
    assert fleet.told["a1"][-1] is Lost.PAUSED
    fleet.do("a1", driver.done(3, 0))
    assert driver.consumer.next == 0
    assert not any(
        isinstance(record.message, Heartbeat) and record.message.offset for record in fleet.log
    )


def admin() -> InstanceConfig:
    return InstanceConfig("admin", "admin", Mode.AT_LEAST_ONCE, admin=True)


def test_in_a_pause_nobody_asks_and_after_it_somebody_does() -> None:
    fleet = Fleet()
    fleet.start(alo("a1"))
    fleet.append(release_group_sent(admin(), "g", 300))
    fleet.settle()
    fleet.pass_time(299_000)
    assert fleet.owner() is None
    assert not any(isinstance(r.message, ClaimingPartition) for r in fleet.log[3:])
    fleet.pass_time(2_000)
    assert fleet.owner() == "a1"


def test_at_most_once_processes_exactly_what_was_granted() -> None:
    fleet = Fleet()
    driver = fleet.start(amo("a1"))
    fleet.do("a1", driver.messages_available(5, 0))
    assert fleet.processed["a1"] == [0, 1, 2, 3, 4]
    asked = [r.message.offset for r in fleet.log if isinstance(r.message, ClaimingMessages)]
    assert asked == [2, 4, 5]


def test_at_most_once_hands_nothing_over_before_the_grant_was_read() -> None:
    fleet = Fleet()
    driver = fleet.start(amo("a1"))
    fleet.held["a1"] = []
    fleet.do("a1", driver.messages_available(5, 0))
    assert fleet.processed["a1"] == []
    [asked] = fleet.held.pop("a1")
    fleet.append(asked)
    fleet.settle()
    assert fleet.processed["a1"][:2] == [0, 1]


def test_a_request_for_messages_that_lands_twice_grants_them_once() -> None:
    fleet = Fleet()
    driver = fleet.start(amo("a1"))
    fleet.held["a1"] = []
    fleet.do("a1", driver.messages_available(2, 0))
    [asked] = fleet.held["a1"]
    fleet.do("a1", driver.outcome_unknown(asked, 0))
    assert len(fleet.held["a1"]) == 2
    again = fleet.held.pop("a1")[-1]
    assert again.message == asked.message
    fleet.append(asked)
    fleet.append(again)
    fleet.settle()
    assert fleet.processed["a1"] == [0, 1]


def test_a_restart_comes_back_at_once_and_its_predecessor_stops() -> None:
    fleet = Fleet()
    first = fleet.start(alo("a1"))
    fleet.start(alo("a2", "a"))
    assert fleet.owner() == "a2"
    assert fleet.told["a1"][-1] is Lost.ID_USED_TWICE
    assert first.next_timer_ms is None
    fleet.pass_time(30 * MINUTE)
    assert fleet.owner() == "a2"


def test_a_claim_that_is_taken_is_asked_for_again_only_when_its_owner_is_silent() -> None:
    fleet = Fleet()
    sleeper = fleet.start(alo("a1"))
    fleet.start(alo("b1"))
    del fleet.drivers["a1"]
    fleet.pass_time(5 * MINUTE)
    assert fleet.owner() == "b1"
    fleet.drivers["a1"] = sleeper
    fleet.settle()
    assert fleet.told["a1"][-1] is Lost.TAKEN
    fleet.pass_time(30 * MINUTE)
    assert fleet.owner() == "b1"


def test_stopping_waits_for_what_is_in_hand_and_then_releases_at_its_end() -> None:
    fleet = Fleet()
    driver = fleet.start(alo("a1"))
    fleet.do("a1", driver.messages_available(2, 0))
    fleet.do("a1", driver.stop(0))
    assert fleet.owner() == "a1"
    fleet.do("a1", driver.done(2, 0))
    assert fleet.owner() is None
    last = fleet.log[-1].message
    assert isinstance(last, ReleasingPartition)
    assert last.offset == 2
    assert fleet.told["a1"][-1] is Lost.RELEASED
    fleet.pass_time(10 * MINUTE)
    assert fleet.owner() is None


def test_a_release_whose_outcome_is_unknown_is_not_sent_again() -> None:
    fleet = Fleet()
    driver = fleet.start(alo("a1"))
    fleet.held["a1"] = []
    fleet.do("a1", driver.stop(0))
    [sent] = fleet.held["a1"]
    fleet.do("a1", driver.outcome_unknown(sent, 0))
    fleet.pass_time(10 * MINUTE)
    assert fleet.held["a1"] == [sent]


def test_a_request_whose_outcome_is_unknown_is_asked_again_after_a_while() -> None:
    fleet = Fleet()
    fleet.held["a1"] = []
    driver = fleet.start(alo("a1"))
    [asked] = fleet.held["a1"]
    fleet.do("a1", driver.outcome_unknown(asked, 0))
    fleet.pass_time(4_999)
    assert len(fleet.held["a1"]) == 1
    fleet.pass_time(1)
    assert len(fleet.held["a1"]) == 2
    requests = fleet.held.pop("a1")
    for sent in requests:
        fleet.append(sent)
    fleet.settle()
    assert fleet.owner() == "a1"


def test_at_most_once_never_asks_for_a_claim_that_it_does_not_know() -> None:
    fleet = Fleet()
    fleet.start(amo("a1"))
    fleet.crash("a1")
    late = Driver(InstanceConfig("b1", "b", Mode.AT_MOST_ONCE), KEY, first=len(fleet.log))
    fleet.start(late, first=len(fleet.log))
    fleet.pass_time(60 * MINUTE)
    assert fleet.owner() == "a1"
    assert fleet.log[-1].message.instance_id == "a1"


def test_at_least_once_a_late_reader_wins_by_silence_and_starts_where_its_policy_says() -> None:
    fleet = Fleet()
    fleet.start(alo("a1"))
    fleet.crash("a1")
    me = InstanceConfig("b1", "b", Mode.AT_LEAST_ONCE, window=3, start=7, rules=FENCED)
    late = Driver(me, KEY, first=len(fleet.log))
    fleet.start(late, first=len(fleet.log))
    # A day must pass before it is certain that no pause is in force.
    fleet.pass_time(24 * 60 * MINUTE)
    assert fleet.told["b1"] == []
    fleet.pass_time(2 * MINUTE)
    assert fleet.owner() == "b1"
    requests = [r for r in fleet.log if isinstance(r.message, ClaimingPartition)]
    assert len(requests) == 3, "a1's, one that says what time it is, one that wins"
    [won] = [each for each in fleet.told["b1"] if isinstance(each, Won)]
    assert not won.position_known
    assert won.position == 7
    fleet.do("b1", late.messages_available(9, fleet.now_ms))
    assert fleet.processed["b1"] == [7, 8]


def test_a_late_reader_waits_for_the_end_of_a_pause_and_then_knows_that_it_won() -> None:
    """Read long after every pause of the head, and after a request that it cannot judge."""
    rules = attrs.evolve(
        FENCED, heartbeat_interval_ms=1_000, pause_max_ms=60_000, clock_rewind_max_ms=0
    )
    fleet = Fleet(log=MemoryLog(world=World(rules)))
    admin, other = (
        InstanceConfig(name, name[0], Mode.AT_LEAST_ONCE, admin=name == "x1", rules=rules)
        for name in ("x1", "c1")
    )
    fleet.append(claiming_partition_sent(other, ConsumerState(), KEY))
    fleet.append(claiming_partition_sent(other, ConsumerState(), KEY))
    fleet.now_ms = 100_000
    fleet.append(release_group_sent(admin, "g", 150))
    fleet.append(claiming_partition_sent(other, ConsumerState(), KEY))
    me = InstanceConfig("b1", "b", Mode.AT_LEAST_ONCE, rules=rules)
    late = fleet.start(Driver(me, KEY, first=1), first=1)
    assert not late.consumer.reader.known
    assert late.next_timer_ms == 150_000
    fleet.pass_time(60_000)
    assert fleet.owner() == "b1"
    assert [type(each) for each in fleet.told["b1"]] == [Won]
    assert len([r for r in fleet.log if r.message.instance_id == "b1"]) > 2, "it heartbeats"


@pytest.mark.parametrize("zero_ms", [-(10**15), -HOUR, 0, HOUR, 10**15])
def test_a_dead_owner_is_replaced_in_time_wherever_the_survivors_clock_begins(zero_ms: int) -> None:
    """Time to take over is by the log's clock: the own one only measures since it was read."""
    owner, survivor = alo("a1"), alo("b1")
    fleet = Fleet(now_ms=30 * HOUR)
    fleet.start(owner)
    for record in fleet.log:
        survivor.read(record, zero_ms)
    assert survivor.caught_up(zero_ms) == []
    assert survivor.next_timer_ms == zero_ms + 2 * MINUTE + 1
    assert survivor.timer(zero_ms + 2 * MINUTE) == []
    assert len(survivor.timer(zero_ms + 2 * MINUTE + 1)) == 1


def test_a_pause_is_over_by_the_logs_clock() -> None:
    fleet = Fleet(now_ms=30 * HOUR)
    fleet.append(release_group_sent(admin(), "g", 30 * 3600 + 300))
    driver = alo("a1")
    driver.read(fleet.log[0], -7)
    assert driver.caught_up(-7) == []
    assert driver.next_timer_ms == 300 * SECOND - 7


def test_who_reads_an_old_log_alone_waits_no_longer_than_an_owner_may_be_silent() -> None:
    """The last record may have lain there for a year; the own request would tell."""
    fleet = Fleet()
    fleet.start(alo("a1"))
    fleet.crash("a1")
    fleet.now_ms = 9 * HOUR
    fleet.start(alo("b1"))
    fleet.pass_time(2 * MINUTE)
    assert fleet.owner() == "a1"
    fleet.pass_time(1)
    assert fleet.owner() == "b1"


def test_a_brokers_clock_that_was_put_back_makes_nobody_look_dead() -> None:
    """The last record says what time it is, and not the one with the latest stamp."""
    fleet = Fleet(now_ms=2 * HOUR)
    fleet.start(alo("a1"))
    waiting = alo("b1")
    own_ms = 5
    for record in fleet.log:
        waiting.read(record, own_ms)
    beat = fleet.log[-1]
    for offset in range(2, 62):
        own_ms += MINUTE
        stamp_ms = HOUR + offset * MINUTE
        waiting.read(Record(0, offset, stamp_ms, beat.message, beat.headers), own_ms)
        assert waiting.caught_up(own_ms) == []
        assert waiting.next_timer_ms is not None
        assert waiting.next_timer_ms > own_ms + 2 * MINUTE


def test_a_log_that_lost_its_end_ends_the_driver() -> None:
    fleet = Fleet()
    driver = fleet.start(alo("a1"))
    assert driver.truncated() == [Lost.LOG_LOST_RECORDS]
    assert driver.next_timer_ms is None
    assert driver.caught_up(0) == []


def test_heartbeats_rarer_than_the_interval_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="heartbeat_every_ms is 60001"):
        Driver(alo("a1").me, KEY, Timing(heartbeat_every_ms=60_001))


def test_a_position_that_nobody_set_begins_where_the_policy_says() -> None:
    fleet = Fleet()
    driver = fleet.start(alo("a1", start=5))
    fleet.do("a1", driver.messages_available(6, 0))
    assert fleet.processed["a1"] == [5]


def test_effects_are_values() -> None:
    assert Process(range(2)) == Process(range(2))
    assert isinstance(release_group_sent(admin(), "g", 1).message, ReleaseGroup)


SECOND = 1000


def test_a_machine_does_not_know_the_time_of_day_and_leaves_the_stamp_to_who_sends() -> None:
    fleet = Fleet(now_ms=1999 * SECOND + 999)
    driver = fleet.start(amo("a1"))
    fleet.do("a1", driver.messages_available(1, fleet.now_ms))
    fleet.do("a1", driver.stop(fleet.now_ms))
    assert [(type(r.message).__name__, r.message.unix_s) for r in fleet.log] == [
        ("ClaimingPartition", 0),
        ("Heartbeat", 0),
        ("ClaimingMessages", 0),
        ("Heartbeat", 0),
        ("ReleasingPartition", 0),
    ]


def test_a_win_says_under_which_epoch_and_from_where() -> None:
    fleet = Fleet()
    driver = fleet.start(alo("a1"))
    fleet.do("a1", driver.messages_available(2, 0))
    fleet.do("a1", driver.done(2, 0))
    fleet.do("a1", driver.stop(0))
    fleet.start(alo("b1"))
    assert fleet.told["a1"][0] == Won(0, 0, True)
    assert fleet.told["b1"] == [Won(4, 2, True)]


def test_before_it_owns_anything_nothing_counts_as_done() -> None:
    driver = alo("a1")
    assert driver.drained
    assert driver.done(5, 0) == []
    assert driver.consumer.next == 0
    assert driver.messages_available(5, 0) == []


def test_nothing_beyond_what_was_handed_over_counts_as_done() -> None:
    fleet = Fleet()
    driver = fleet.start(alo("a1"))
    fleet.do("a1", driver.messages_available(2, 0))
    fleet.do("a1", driver.done(99, 0))
    assert driver.consumer.next == 2


def test_what_was_done_may_be_said_twice_and_late() -> None:
    fleet = Fleet()
    driver = fleet.start(alo("a1"))
    fleet.do("a1", driver.messages_available(3, 0))
    fleet.do("a1", driver.done(2, 0))
    fleet.do("a1", driver.done(1, 0))
    assert driver.consumer.next == 2


def test_the_log_is_told_once_that_half_a_window_is_finished() -> None:
    fleet = Fleet()
    driver = fleet.start(alo("a1"))
    fleet.held["a1"] = []
    fleet.do("a1", driver.messages_available(3, 0))
    fleet.do("a1", driver.done(1, 0))
    assert fleet.held["a1"] == []
    fleet.do("a1", driver.done(2, 0))
    fleet.do("a1", driver.done(2, 0))
    fleet.do("a1", driver.timer(1))
    assert [s.message.offset for s in fleet.held["a1"] if isinstance(s.message, Heartbeat)] == [2]


def committing(done: int = 3) -> tuple[Fleet, Driver]:
    """One that owns a claim, has done so much of it, and whose records do not arrive any more."""
    fleet = Fleet()
    driver = fleet.start(
        Driver(InstanceConfig("a1", "a", Mode.AT_LEAST_ONCE, window=100, start=1), KEY)
    )
    fleet.do("a1", driver.messages_available(20, 0))
    fleet.do("a1", driver.done(done, 0))
    fleet.held["a1"] = []
    return fleet, driver


def told(fleet: Fleet) -> list[int]:
    """The positions that heartbeats have stated since nothing arrives."""
    messages = [sent.message for sent in fleet.held["a1"]]
    assert all(isinstance(each, Heartbeat) for each in messages)
    return [each.offset for each in messages if isinstance(each, Heartbeat)]


def test_a_commit_tells_the_log_at_once_what_is_done() -> None:
    fleet, driver = committing()
    assert told(fleet) == []
    fleet.do("a1", driver.commit(0))
    assert told(fleet) == [3]
    assert driver.next_timer_ms == MINUTE


def test_commits_share_the_heartbeat_after_the_one_that_is_under_way() -> None:
    fleet, driver = committing()
    for done in (3, 4, 5, 6):
        fleet.do("a1", driver.done(done, 0))
        fleet.do("a1", driver.commit(0))
    fleet.do("a1", driver.done(7, 0))
    assert told(fleet) == [3]
    assert driver.next_timer_ms == MINUTE
    fleet.append(fleet.held["a1"].pop())
    fleet.settle()
    assert told(fleet) == [7]
    fleet.append(fleet.held["a1"].pop())
    fleet.settle()
    assert told(fleet) == []


@pytest.mark.parametrize("done", [1, 3])
def test_a_commit_of_what_the_log_has_tells_nothing(done: int) -> None:
    fleet, driver = committing(done)
    if done == 3:
        fleet.do("a1", driver.commit(0))
        fleet.append(fleet.held["a1"].pop())
        fleet.settle()
    fleet.do("a1", driver.commit(0))
    assert told(fleet) == []


def test_a_commit_whose_heartbeat_is_of_unknown_outcome_is_told_again() -> None:
    fleet, driver = committing()
    fleet.do("a1", driver.commit(0))
    [sent] = fleet.held["a1"]
    fleet.do("a1", driver.outcome_unknown(sent, 30_000))
    assert told(fleet) == [3]
    assert driver.next_timer_ms == 5_000
    fleet.do("a1", driver.timer(30_000))
    assert told(fleet) == [3, 3]
    fleet.append(sent)
    fleet.settle()
    fleet.do("a1", driver.outcome_unknown(sent, 30_000))
    assert driver.next_timer_ms == 30_000 + MINUTE


def test_a_commit_of_what_a_heartbeat_of_unknown_outcome_told_is_told_again() -> None:
    fleet, driver = committing()
    fleet.do("a1", driver.timer(MINUTE))
    [sent] = fleet.held["a1"]
    fleet.do("a1", driver.outcome_unknown(sent, MINUTE + 30_000))
    assert driver.next_timer_ms == 2 * MINUTE
    fleet.do("a1", driver.commit(MINUTE + 30_000))
    fleet.do("a1", driver.timer(MINUTE + 30_000))
    assert told(fleet) == [3, 3]


def test_commits_send_no_more_heartbeats_where_none_arrives() -> None:
    fleet, driver = committing()
    for now_ms in range(0, 20_000, 100):
        fleet.do("a1", driver.commit(now_ms))
        fleet.do("a1", driver.outcome_unknown(fleet.held["a1"][0], now_ms))
        fleet.do("a1", driver.timer(now_ms))
    assert told(fleet) == [3] * 4


def test_a_heartbeat_of_unknown_outcome_is_not_told_again_where_nobody_commits() -> None:
    fleet, driver = committing()
    fleet.do("a1", driver.timer(MINUTE))
    [sent] = fleet.held["a1"]
    fleet.do("a1", driver.outcome_unknown(sent, MINUTE))
    assert told(fleet) == [3]
    assert driver.next_timer_ms == 2 * MINUTE


def test_the_outcome_of_an_older_heartbeat_does_not_count() -> None:
    fleet, driver = committing()
    fleet.do("a1", driver.timer(MINUTE))
    [older] = fleet.held["a1"]
    fleet.do("a1", driver.done(5, MINUTE))
    fleet.do("a1", driver.timer(2 * MINUTE))
    fleet.do("a1", driver.commit(2 * MINUTE))
    fleet.do("a1", driver.outcome_unknown(older, 2 * MINUTE))
    assert told(fleet) == [3, 5]
    assert driver.next_timer_ms == 3 * MINUTE


def test_what_is_given_up_is_committed_while_something_is_in_hand_and_then_released() -> None:
    fleet, driver = committing()
    fleet.do("a1", driver.stop(0))
    fleet.do("a1", driver.commit(0))
    assert told(fleet) == [3]
    fleet.do("a1", driver.done(20, 0))
    assert isinstance(fleet.held["a1"][-1].message, ReleasingPartition)


def test_a_release_that_is_sent_at_once_says_what_is_committed() -> None:
    fleet, driver = committing(20)
    driver.wants = False
    fleet.do("a1", driver.commit(0))
    [sent] = fleet.held["a1"]
    assert isinstance(sent.message, ReleasingPartition)
    assert sent.message.offset == 20


def test_at_most_once_a_commit_tells_nothing() -> None:
    fleet = Fleet(slow={"a1"})
    driver = fleet.start(amo("a1"))
    fleet.do("a1", driver.messages_available(2, 0))
    records = len(fleet.log)
    fleet.do("a1", driver.commit(0))
    assert len(fleet.log) == records


def test_what_was_committed_before_a_claim_was_lost_is_not_told_under_the_next_epoch() -> None:
    fleet, driver = committing()
    fleet.do("a1", driver.commit(0))
    del fleet.held["a1"]
    fleet.do(
        "a1", [release_group_sent(InstanceConfig("x", "x", Mode.AT_LEAST_ONCE, admin=True), "g", 1)]
    )
    assert not driver.acts
    assert driver.commit(0) == []


def test_who_is_not_eager_asks_only_when_told_to_and_then_also_who_lives() -> None:
    fleet = Fleet()
    fleet.start(alo("a1"))
    late = alo("b1")
    late.eager = False
    fleet.start(late)
    fleet.pass_time(200_000)
    assert not any(isinstance(r.message, ClaimingPartition) for r in fleet.log if r.offset)
    fleet.do("b1", late.request(fleet.now_ms))
    asked = [r for r in fleet.log if isinstance(r.message, ClaimingPartition)]
    assert [r.message.instance_id for r in asked] == ["a1", "b1"]
    assert fleet.world.claim(KEY).owner_instance == "a1"
    fleet.do("a1", fleet.drivers["a1"].stop(fleet.now_ms))
    assert fleet.world.claim(KEY).owner_instance is None
    fleet.do("b1", late.request(fleet.now_ms))
    assert late.acts


def test_a_request_that_a_live_owner_refused_does_not_delay_the_takeover() -> None:
    fleet = Fleet()
    fleet.start(alo("a1"))
    late = fleet.start(alo("b1"))
    fleet.pass_time(10 * MINUTE)
    fleet.crash("a1")
    last_ms = fleet.world.claim(KEY).last_heartbeat_ms
    assert last_ms is not None
    fleet.now_ms = last_ms + 2 * MINUTE - 1
    fleet.do("b1", late.request(fleet.now_ms))  # a moment before it is stale
    assert fleet.owner() == "a1"
    assert late.next_timer_ms == last_ms + 2 * MINUTE + 1


def test_who_gave_a_claim_up_may_want_it_again() -> None:
    fleet = Fleet()
    driver = fleet.start(alo("a1"))
    fleet.do("a1", driver.stop(0))
    assert fleet.world.claim(KEY).owner_instance is None
    fleet.do("a1", driver.start_claiming(0))
    assert fleet.world.claim(KEY).owner_instance == "a1"


def test_what_is_gone_is_passed_over_in_one_step_and_no_more_is_handed_over_than_a_window() -> None:
    fleet = Fleet()
    driver = fleet.start(alo("a1"))
    fleet.do("a1", driver.log_start_moved(1000, 0))
    assert fleet.processed["a1"] == list(range(1000))  # of which the data topic has none
    fleet.do("a1", driver.messages_available(2000, 0))
    assert len(fleet.processed["a1"]) == 1000
    fleet.do("a1", driver.done(1000, 0))
    assert fleet.processed["a1"][1000:] == [1000, 1001, 1002]
    assert driver.log_start_moved(500, 0) == []


def test_what_is_gone_is_passed_over_where_the_log_has_not_heard_of_the_window_before() -> None:
    fleet = Fleet()
    driver = fleet.start(alo("a1"))
    fleet.held["a1"] = []
    fleet.do("a1", driver.messages_available(3, 0))
    fleet.do("a1", driver.done(3, 0))
    fleet.do("a1", driver.log_start_moved(1000, 0))
    fleet.do("a1", driver.done(1000, 0))
    assert driver.consumer.next == 1000
    fleet.do("a1", driver.messages_available(2000, 0))
    assert fleet.processed["a1"][-1] == 999, "the window counts from what the log has heard"
    for sent in fleet.held.pop("a1"):
        fleet.append(sent)
    fleet.settle()
    assert fleet.world.claim(KEY).position == 1000
    assert fleet.processed["a1"][1000:] == [1000, 1001, 1002]


def test_at_most_once_what_is_gone_waits_for_the_answer_to_the_request_before() -> None:
    fleet = Fleet()
    driver = fleet.start(amo("a1"))
    fleet.held["a1"] = []
    fleet.do("a1", driver.messages_available(2, 0))
    fleet.do("a1", driver.log_start_moved(1000, 0))
    [asked] = fleet.held.pop("a1")
    fleet.append(asked)
    fleet.settle()
    fleet.do("a1", driver.messages_available(1002, 0))
    grants = [r.message.offset for r in fleet.log if isinstance(r.message, ClaimingMessages)]
    assert grants == [2, 1000, 1002]


def test_at_most_once_what_is_gone_is_passed_over_in_one_grant() -> None:
    fleet = Fleet()
    driver = fleet.start(amo("a1"))
    fleet.do("a1", driver.log_start_moved(1000, 0))
    assert fleet.processed["a1"] == list(range(1000))
    fleet.do("a1", driver.messages_available(2000, 0))
    assert fleet.world.claim(KEY).position == 2000
    grants = [r.message.offset for r in fleet.log if isinstance(r.message, ClaimingMessages)]
    assert grants[:3] == [1000, 1002, 1004]


def test_nothing_more_is_handed_over_once_it_is_to_stop() -> None:
    fleet = Fleet()
    driver = fleet.start(alo("a1"))
    fleet.do("a1", driver.messages_available(1, 0))
    fleet.do("a1", driver.stop(0))
    fleet.do("a1", driver.messages_available(3, 0))
    assert fleet.processed["a1"] == [0]
    assert driver.wants is False


def test_at_most_once_a_release_waits_for_the_answer_to_a_request() -> None:
    fleet = Fleet()
    driver = fleet.start(amo("a1"))
    fleet.held["a1"] = []
    fleet.do("a1", driver.messages_available(1, 0))
    assert driver.drained is False
    fleet.do("a1", driver.stop(0))
    [asked] = fleet.held.pop("a1")
    fleet.append(asked)
    fleet.settle()
    assert fleet.processed["a1"] == [0]
    assert kinds(fleet)[-1] == "ReleasingPartition"


def released(fleet: Fleet) -> Record:
    [release] = [each for each in fleet.log if isinstance(each.message, ReleasingPartition)]
    return release


def test_at_most_once_the_next_batch_is_asked_for_when_this_one_is_done() -> None:
    """What came between a request and its grant was asked for beside the batch in hand."""
    fleet = Fleet(slow={"a1"})
    driver = fleet.start(amo("a1"))
    fleet.held["a1"] = []
    fleet.do("a1", driver.messages_available(1, 0))
    [asked] = fleet.held.pop("a1")
    fleet.do("a1", driver.messages_available(3, 0))
    fleet.append(asked)
    fleet.settle()
    assert fleet.processed["a1"] == [0]
    assert driver.busy
    fleet.do("a1", driver.done(1, 0))
    assert fleet.processed["a1"] == [0, 1, 2]


def test_at_most_once_a_release_waits_for_the_batch_and_says_that_all_is_done() -> None:
    fleet = Fleet(slow={"a1"})
    driver = fleet.start(amo("a1"))
    fleet.do("a1", driver.messages_available(2, 0))
    fleet.do("a1", driver.stop(0))
    assert driver.acts
    fleet.do("a1", driver.done(2, 0))
    assert released(fleet).headers.done == fleet.world.claim(KEY).position == 2


def test_at_most_once_a_release_says_from_where_on_a_batch_was_abandoned() -> None:
    """The claim is free at once, whatever is asked for and not granted yet."""
    fleet = Fleet(slow={"a1"})
    driver = fleet.start(amo("a1"))
    fleet.do("a1", driver.messages_available(2, 0))
    fleet.do("a1", driver.stop(0))
    fleet.do("a1", driver.hand_back(1, 0))
    assert released(fleet).headers.done == 1
    assert fleet.owner() is None

    waits = Fleet(slow={"a1"})
    driver = waits.start(amo("a1"))
    waits.held["a1"] = []
    waits.do("a1", driver.messages_available(2, 0))
    [asked] = waits.held.pop("a1")
    waits.append(asked)
    waits.do("a1", driver.stop(0) + driver.hand_back(0, 0))
    assert (released(waits).headers.done, waits.world.claim(KEY).position) == (0, 2)


def test_one_request_for_messages_at_a_time() -> None:
    fleet = Fleet()
    driver = fleet.start(amo("a1"))
    fleet.held["a1"] = []
    fleet.do("a1", driver.messages_available(2, 0))
    fleet.do("a1", driver.messages_available(4, 0))
    fleet.do("a1", driver.timer(1))
    assert len(fleet.held["a1"]) == 1
    beat = Send(Heartbeat(1, 0, "x1", "x", "g", "events", Partition(0), Offset(9)), Headers())
    fleet.append(beat)
    fleet.settle()
    assert len(fleet.held["a1"]) == 1, "another's record is no answer"


def test_a_claim_of_ours_that_is_won_anew_goes_on_under_the_new_epoch() -> None:
    fleet = Fleet()
    driver = fleet.start(alo("a1"))
    first = fleet.log[0]
    fleet.append(Send(first.message, first.headers))
    fleet.settle()
    assert fleet.told["a1"] == [Won(0, 0, True), Won(2, 0, True)]
    assert driver.consumer.known.epoch == 2


def test_a_request_that_was_refused_is_not_repeated_at_once() -> None:
    fleet = Fleet()
    fleet.start(alo("a1"))
    late = alo("b1")
    fleet.held["b1"] = []
    fleet.start(late)
    assert fleet.held["b1"] == []
    fleet.pass_time(10 * MINUTE)
    assert fleet.held["b1"] == []
    fleet.crash("a1")
    fleet.pass_time(2 * MINUTE + 1)
    [asked] = fleet.held["b1"]
    # Before it lands, a1's last heartbeat does.
    last = next(r for r in reversed(fleet.log) if isinstance(r.message, Heartbeat))
    fleet.append(Send(last.message, last.headers))
    fleet.append(asked)
    fleet.settle()
    assert fleet.owner() == "a1"
    at_ms = fleet.now_ms
    assert late.next_timer_ms == at_ms + 2 * MINUTE + 1, "it is fresh again"
    assert len(fleet.held["b1"]) == 1
    # It is given up, so there is no reason to wait any longer.
    released = ReleasingPartition(1, 0, "a1", "a", "g", "events", Partition(0), Offset(0))
    fleet.append(Send(released, Headers(True, epoch=0)))
    fleet.settle()
    assert fleet.owner() is None
    assert len(fleet.held["b1"]) == 2


def test_it_wakes_as_soon_as_more_than_two_intervals_have_passed() -> None:
    fleet = Fleet()
    fleet.start(alo("a1"))
    fleet.crash("a1")
    late = fleet.start(alo("b1"))
    assert late.next_timer_ms == 2 * MINUTE + 1
    assert late.timer(2 * MINUTE) == []
    [asked] = late.timer(2 * MINUTE + 1)
    assert isinstance(asked, Send)


def test_one_that_waited_and_was_stopped_needs_no_timer() -> None:
    fleet = Fleet()
    fleet.start(alo("a1"))
    waiting = fleet.start(alo("b1"))
    fleet.do("b1", waiting.stop(1))
    assert waiting.next_timer_ms is None
    assert waiting.timer(2 * MINUTE + 1) == []


def test_one_that_awaits_its_request_needs_no_timer_until_it_gives_up() -> None:
    fleet = Fleet()
    fleet.start(alo("a1"))
    fleet.crash("a1")
    late = fleet.start(alo("b1"))
    [asked] = late.timer(2 * MINUTE + 1)
    other = claiming_partition_sent(
        InstanceConfig("c1", "c", Mode.AT_LEAST_ONCE), ConsumerState(), KEY
    )
    read_ms = 2 * MINUTE + 1
    assert late.read(Record(0, 2, read_ms - 1, other.message, other.headers), read_ms) == []
    assert late.caught_up(2 * MINUTE + 1) == []
    assert late.next_timer_ms is None
    assert isinstance(asked, Send)
    assert late.outcome_unknown(asked, 3 * MINUTE) == []
    assert late.next_timer_ms == 3 * MINUTE + 5 * SECOND


def test_one_that_reads_old_records_needs_no_timer_until_it_has_caught_up() -> None:
    fleet = Fleet()
    fleet.start(alo("a1"))
    late = fleet.start(alo("b1"))
    beat = fleet.log[1]
    assert late.read(Record(0, 2, 1, beat.message, beat.headers), 3 * MINUTE) == []
    assert late.next_timer_ms is None
    assert late.timer(3 * MINUTE) == []
    assert late.caught_up(3 * MINUTE) == []
    # Nothing says yet how long that record has lain there.
    assert late.timer(5 * MINUTE) == []
    assert len(late.timer(5 * MINUTE + 1)) == 1


def test_at_most_once_one_that_cannot_know_the_owner_needs_no_timer() -> None:
    fleet = Fleet()
    fleet.start(amo("a1"))
    late = Driver(amo("b1").me, KEY, first=1)
    fleet.start(late, first=2)
    beat = Send(Heartbeat(7, 0, "x1", "x", "g", "events", Partition(0), Offset(9)), Headers())
    fleet.append(beat)
    fleet.settle()
    assert not late.consumer.reader.known
    assert late.next_timer_ms is None


def test_a_claim_that_is_given_up_is_asked_for_at_once_by_whoever_waits() -> None:
    fleet = Fleet()
    owner = fleet.start(alo("a1"))
    fleet.start(alo("b1"))
    fleet.pass_time(SECOND)
    fleet.do("a1", owner.stop(fleet.now_ms))
    assert fleet.owner() == "b1"
    assert fleet.now_ms == SECOND


def test_after_it_lost_its_claim_it_knows_when_to_look_again() -> None:
    fleet = Fleet()
    sleeper = fleet.start(alo("a1"))
    fleet.start(alo("b1"))
    del fleet.drivers["a1"]
    fleet.pass_time(5 * MINUTE)
    fleet.drivers["a1"] = sleeper
    fleet.settle()
    claim = fleet.world.claim(KEY)
    assert claim.clock_ms == claim.last_heartbeat_ms
    assert sleeper.next_timer_ms == fleet.now_ms + 2 * MINUTE + 1, "since it was read"


def test_in_a_pause_it_wakes_when_the_pause_runs_out() -> None:
    fleet = Fleet()
    driver = fleet.start(alo("a1"))
    fleet.append(release_group_sent(admin(), "g", 300))
    fleet.settle()
    assert fleet.told["a1"][-1] is Lost.PAUSED
    assert driver.next_timer_ms == 300 * SECOND
    assert driver.timer(300 * SECOND - 1) == []
    assert len(driver.timer(300 * SECOND)) == 1


def test_a_pause_that_was_over_when_it_came_only_ends_the_tenure() -> None:
    fleet = Fleet(now_ms=400 * SECOND)
    fleet.start(alo("a1"))
    fleet.append(release_group_sent(admin(), "g", 300))
    fleet.settle()
    assert fleet.told["a1"][-2:] == [Lost.RELEASED, Won(3, 0, True)]


def test_one_whose_id_is_used_twice_wants_nothing_any_more() -> None:
    fleet = Fleet()
    first = fleet.start(alo("a1"))
    fleet.start(alo("a2", "a"))
    assert first.wants is False
    assert first.consumer.stopped


def test_a_log_that_lost_its_end_leaves_nothing_to_go_on_with() -> None:
    fleet = Fleet()
    driver = fleet.start(alo("a1"))
    driver.truncated()
    assert driver.wants is False
    assert driver.consumer.stopped is True
    assert driver.consumer.view == 0


def test_a_heartbeat_whose_outcome_is_unknown_changes_nothing() -> None:
    fleet = Fleet()
    driver = fleet.start(amo("a1"))
    fleet.held["a1"] = []
    fleet.do("a1", driver.messages_available(1, 0))
    beat = fleet.log[1]
    fleet.do("a1", driver.outcome_unknown(Send(beat.message, beat.headers), 0))
    assert len(fleet.held["a1"]) == 1


def test_a_release_under_way_keeps_no_heartbeat_going() -> None:
    fleet = Fleet()
    driver = fleet.start(alo("a1"))
    fleet.held["a1"] = []
    fleet.do("a1", driver.stop(0))
    assert driver.next_timer_ms is None
    assert driver.timer(5 * MINUTE) == []


def test_a_late_reader_waits_from_the_last_request_that_may_have_won() -> None:
    first = 3
    late = Driver(InstanceConfig("b1", "b", Mode.AT_LEAST_ONCE), KEY, first=first)
    [asked] = late.caught_up(0)
    day = 24 * 60 * MINUTE
    rewind = FENCED.clock_rewind_max_ms
    assert isinstance(asked, Send)
    assert late.read(Record(0, first, 0, asked.message, asked.headers), 0) == []
    assert late.caught_up(5 * SECOND) == []
    assert late.next_timer_ms == day + rewind + 1
    rival = InstanceConfig("c1", "c", Mode.AT_LEAST_ONCE)
    request = claiming_partition_sent(rival, ConsumerState(), KEY)
    at_ms = day + rewind
    assert late.read(Record(0, first + 1, at_ms, request.message, request.headers), at_ms) == []
    assert late.caught_up(at_ms + 1) == []
    assert late.next_timer_ms == at_ms + 2 * MINUTE + 1


def test_a_late_reader_of_something_else_waits_from_where_it_began() -> None:
    late = Driver(InstanceConfig("b1", "b", Mode.AT_LEAST_ONCE), KEY, first=3)
    odd = Send(Heartbeat(7, 0, "x1", "x", "g", "events", Partition(0), Offset(1)), Headers())
    assert late.read(Record(0, 3, 1000, odd.message, odd.headers), 0) == []
    assert late.caught_up(0) == []
    day = 24 * 60 * MINUTE
    assert late.next_timer_ms == FENCED.clock_rewind_max_ms + day + 1, (
        "from 1000 by the log's clock"
    )


def test_an_administrator_does_not_consume() -> None:
    with pytest.raises(ValueError, match="admin is an administrator"):
        Driver(admin(), KEY)


def test_why_a_claim_is_given_back_is_what_was_said_first() -> None:
    driver = Fleet().start(alo("a1"))
    driver.stop(0, ReleaseReason.SHARED)
    driver.stop(0)
    assert driver.released is ReleaseReason.SHARED


def test_a_claim_is_claimable_once_its_driver_is_not_held_back_any_more() -> None:
    driver = Driver(alo("a1").me, KEY)
    driver.held_back_until_ms = lambda: 5_000
    assert driver.caught_up(0) == []
    assert driver.claimable_at_ms == driver.next_timer_ms == 5_000
    assert driver.timer(4_999) == []
    assert driver.timer(5_000) != []


def test_an_interval_that_is_said_is_whole_milliseconds() -> None:
    rules = attrs.evolve(FENCED, heartbeat_interval_ms=1000.5)
    me = InstanceConfig("a1", "a", Mode.AT_LEAST_ONCE, rules=rules, says_interval=True)
    message = r"^heartbeat_interval_ms is 1000\.5, and the log says it in whole milliseconds$"
    with pytest.raises(ValueError, match=message):
        Driver(me, KEY)
    assert Driver(attrs.evolve(me, says_interval=False), KEY).released is None


@pytest.mark.parametrize("field", ["heartbeat_every_ms", "ask_again_after_ms"])
def test_patience_is_more_than_nothing(field: str) -> None:
    with pytest.raises(ValueError, match=f"{field} must be greater than 0, not 0"):
        Timing(**{field: 0})
    assert getattr(Timing(**{field: 1}), field) == 1


def test_heartbeats_are_as_frequent_as_the_rules_say_unless_told_otherwise() -> None:
    rules = attrs.evolve(FENCED, heartbeat_interval_ms=0.5)
    assert (
        Driver(InstanceConfig("a1", "a", Mode.AT_LEAST_ONCE, rules=FENCED), KEY).timing == Timing()
    )
    with pytest.raises(ValueError, match=r"is 1, more than the heartbeat interval of 0\.5 ms"):
        Driver(InstanceConfig("a1", "a", Mode.AT_LEAST_ONCE, rules=rules), KEY)
    quick = Driver(alo("a1").me, KEY, Timing(heartbeat_every_ms=20_000))
    fleet = Fleet()
    fleet.start(quick)
    assert quick.next_timer_ms == 20_000


@pytest.mark.parametrize("make", [alo, amo])
def test_what_was_there_before_the_claim_was_won_is_not_counted_on(
    make: Callable[[str], Driver],
) -> None:
    """The topic may have been made anew since, and the position set."""
    fleet = Fleet()
    driver = make("a1")
    driver.messages_available(2, 0)
    fleet.start(driver)
    assert fleet.processed["a1"] == []
    fleet.do("a1", driver.messages_available(1, 0))
    assert fleet.processed["a1"] == [0]


def test_what_is_handed_back_is_not_waited_for() -> None:
    fleet = Fleet()
    driver = fleet.start(alo("a1"))
    fleet.do("a1", driver.messages_available(3, 0))
    fleet.do("a1", driver.done(1, 0))
    fleet.do("a1", driver.hand_back(1, 0))
    assert fleet.owner() == "a1"  # it still wants the claim
    fleet.do("a1", driver.stop(0))
    assert fleet.owner() == "a1"  # two messages are in hand
    fleet.do("a1", driver.hand_back(2, 0))
    assert fleet.owner() == "a1"  # one of them was begun
    fleet.do("a1", driver.done(2, 0))
    assert fleet.owner() is None
    assert fleet.world.claim(KEY).position == 2


def test_only_the_answer_to_the_last_request_ends_the_wait_for_it() -> None:
    """A copy of an older request that landed late did, and two batches were granted at once."""
    fleet = Fleet(slow={"a1"})
    driver = fleet.start(amo("a1"))
    fleet.held["a1"] = []

    def asked() -> list[Send]:
        return [one for one in fleet.held["a1"] if isinstance(one.message, ClaimingMessages)]

    fleet.do("a1", driver.messages_available(2, 0))
    fleet.do("a1", driver.outcome_unknown(asked()[0], 0))
    first, copy = asked()
    fleet.append(first)
    fleet.settle()
    assert fleet.processed["a1"] == [0, 1]
    fleet.do("a1", driver.done(2, 0))
    fleet.do("a1", driver.messages_available(3, 0))
    assert len(asked()) == 3
    fleet.append(copy)
    fleet.settle()
    fleet.do("a1", driver.outcome_unknown(copy, 0))
    fleet.do("a1", driver.messages_available(4, 0))
    assert len(asked()) == 3
    fleet.append(asked()[2])
    fleet.settle()
    assert fleet.processed["a1"] == [0, 1, 2]


def test_a_request_that_came_too_late_to_restart_is_made_again_after_a_while() -> None:
    """Its own client owns the claim, so it looks claimable: only patience keeps it from asking."""
    fleet = Fleet()
    fleet.start(alo("a1"))
    fleet.held["a2"] = []
    second = fleet.start(alo("a2", "a"))
    [asked] = fleet.held["a2"]
    third = fleet.start(alo("a3", "a"))
    assert fleet.owner() == "a3"
    beat = fleet.log[-1]
    fleet.now_ms = 7 * SECOND
    fleet.append(asked)
    fleet.settle()
    assert fleet.owner() == "a3"
    assert second.next_timer_ms == 12 * SECOND
    fleet.now_ms = 8 * SECOND
    fleet.append(Send(beat.message, beat.headers))
    fleet.settle()
    assert second.next_timer_ms == 12 * SECOND, "its owner lives"
    assert len(fleet.held["a2"]) == 1
    fleet.do("a3", third.stop(fleet.now_ms))
    assert fleet.owner() is None
    assert len(fleet.held["a2"]) == 2, "what is free is not waited for"


def test_a_tenure_that_somebody_else_ends_is_released_by_others() -> None:
    fleet = Fleet()
    driver = fleet.start(alo("a1"))
    assert driver.released is None
    fleet.append(release_group_sent(admin(), "g", 60))
    fleet.settle()
    assert fleet.told["a1"][-1] is Lost.PAUSED
    assert driver.released is ReleaseReason.BY_OTHERS


def test_what_was_gone_in_one_tenure_is_not_counted_on_in_the_next() -> None:
    """The topic may have been made anew."""
    for make, handed_over in (alo, [0, 1, 2]), (amo, [0, 1]):
        fleet = Fleet(slow={"a1"})
        driver = make("a1")
        driver.log_start_moved(1000, 0)
        fleet.start(driver)
        fleet.do("a1", driver.messages_available(2000, 0))
        assert fleet.processed["a1"] == handed_over


def test_a_record_after_the_end_was_read_says_what_time_it_is() -> None:
    driver = alo("a1")
    [asked] = driver.caught_up(0)
    assert isinstance(asked, Send)
    driver.read(Record(0, 0, 5, asked.message, asked.headers), 0)
    assert driver.clock.current


def test_at_most_once_a_batch_that_is_done_after_the_claim_was_lost_does_no_harm() -> None:
    fleet = Fleet(slow={"a1"})
    driver = fleet.start(amo("a1"))
    fleet.do("a1", driver.messages_available(2, 0))
    fleet.append(release_group_sent(admin(), "g", 60))
    fleet.settle()
    assert fleet.told["a1"][-1] is Lost.PAUSED
    assert driver.done(2, MINUTE - 1) == []
    [asked] = driver.done(2, MINUTE)
    assert isinstance(asked, Send)
    assert isinstance(asked.message, ClaimingPartition)


def test_asking_for_it_does_nothing_where_it_is_not_allowed() -> None:
    driver = alo("a1")
    assert driver.request(0) == [], "from so old a view"
    driver.held_back_until_ms = lambda: 5_000
    assert driver.caught_up(0) == []
    assert driver.request(4_999) == []
    [asked] = driver.request(5_000)
    assert driver.request(5_000) == [], "its request is under way"
    assert isinstance(asked, Send)
    driver.read(Record(0, 0, 5, asked.message, asked.headers), 5_000)
    driver.caught_up(5_000)
    assert driver.acts
    assert driver.request(5_000) == []


def test_what_is_gone_or_handed_back_while_another_owns_it_changes_nothing() -> None:
    fleet = Fleet()
    fleet.start(alo("a1"))
    waiting = fleet.start(alo("b1"))
    assert waiting.log_start_moved(3, MINUTE) == []
    assert waiting.hand_back(3, MINUTE) == []
    assert waiting.consumer.next == 0
    assert waiting.next_timer_ms == 2 * MINUTE + 1


@pytest.mark.parametrize(("window", "half"), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3)])
def test_the_log_hears_of_half_a_window_and_not_of_less(window: int, half: int) -> None:
    fleet = Fleet()
    driver = fleet.start(Driver(attrs.evolve(alo("a1").me, window=window), KEY))
    fleet.do("a1", driver.messages_available(window, 0))
    for done in range(1, half + 1):
        assert fleet.world.claim(KEY).position == 0
        fleet.do("a1", driver.done(done, 0))
    assert fleet.world.claim(KEY).position == half


def test_who_is_to_stop_and_is_wanted_again_goes_on_and_says_how_far_it_is() -> None:
    fleet = Fleet()
    driver = fleet.start(Driver(attrs.evolve(alo("a1").me, window=4), KEY))
    fleet.do("a1", driver.messages_available(3, 0))
    fleet.do("a1", driver.stop(0))
    fleet.do("a1", driver.messages_available(4, 0))
    fleet.do("a1", driver.done(2, 0))
    assert fleet.processed["a1"] == [0, 1, 2]
    fleet.do("a1", driver.start_claiming(SECOND))
    assert fleet.processed["a1"] == [0, 1, 2, 3]
    assert fleet.world.claim(KEY).position == 2


def test_at_most_once_a_release_says_no_more_is_done_than_was_granted() -> None:
    fleet = Fleet(slow={"a1"})
    driver = fleet.start(amo("a1"))
    fleet.do("a1", driver.messages_available(2, 0))
    fleet.do("a1", driver.done(99, 0))
    fleet.do("a1", driver.stop(0))
    assert released(fleet).headers.done == 2

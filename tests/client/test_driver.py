import pytest

from kafka_marshal import (
    FENCED,
    ClaimingMessages,
    ClaimingPartition,
    ClaimKey,
    Heartbeat,
    ReleaseGroup,
    ReleasingPartition,
)
from kafka_marshal.client.consumer import Me, Mode, release_group_sent
from kafka_marshal.client.driver import Driver, Timing
from kafka_marshal.client.effects import Lost, Process, Send, Won
from tests.client.fleet import Fleet

KEY = ClaimKey("g", "events", 0)
MINUTE = 60_000


def alo(instance: str, client: str | None = None, start: int = 0) -> Driver:
    return Driver(
        Me(instance, client or instance[0], Mode.AT_LEAST_ONCE, window=3, start=start), KEY
    )


def amo(instance: str, client: str | None = None) -> Driver:
    return Driver(Me(instance, client or instance[0], Mode.AT_MOST_ONCE, batch=2), KEY)


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
    fleet.do("a1", driver.available(10, 0))
    assert fleet.processed["a1"] == [0, 1, 2]
    fleet.do("a1", driver.done(2, 0))
    assert fleet.processed["a1"] == [0, 1, 2]
    fleet.do("a1", driver.done(3, 0))
    assert fleet.processed["a1"] == [0, 1, 2, 3, 4, 5]
    assert fleet.world.claim(KEY).position == 3


def test_what_is_done_after_the_claim_was_lost_does_not_count() -> None:
    fleet = Fleet()
    driver = fleet.start(alo("a1"))
    fleet.do("a1", driver.available(3, 0))
    fleet.append(release_group_sent(admin(), "g", 60))
    fleet.settle()
    assert fleet.told["a1"][-1] is Lost.PAUSED
    fleet.do("a1", driver.done(3, 0))
    assert driver.consumer.next == 0
    assert not any(
        isinstance(record.message, Heartbeat) and record.message.offset for record in fleet.log
    )


def admin() -> Me:
    return Me("admin", "admin", Mode.AT_LEAST_ONCE, admin=True)


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
    fleet.do("a1", driver.available(5, 0))
    assert fleet.processed["a1"] == [0, 1, 2, 3, 4]
    asked = [r.message.offset for r in fleet.log if isinstance(r.message, ClaimingMessages)]
    assert asked == [2, 4, 5]


def test_at_most_once_hands_nothing_over_before_the_grant_was_read() -> None:
    fleet = Fleet()
    driver = fleet.start(amo("a1"))
    fleet.held["a1"] = []
    fleet.do("a1", driver.available(5, 0))
    assert fleet.processed["a1"] == []
    [asked] = fleet.held.pop("a1")
    fleet.append(asked)
    fleet.settle()
    assert fleet.processed["a1"][:2] == [0, 1]


def test_a_request_for_messages_that_lands_twice_grants_them_once() -> None:
    fleet = Fleet()
    driver = fleet.start(amo("a1"))
    fleet.held["a1"] = []
    fleet.do("a1", driver.available(2, 0))
    [asked] = fleet.held["a1"]
    fleet.do("a1", driver.unknown(asked, 0))
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
    fleet.do("a1", driver.available(2, 0))
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
    fleet.do("a1", driver.unknown(sent, 0))
    fleet.pass_time(10 * MINUTE)
    assert fleet.held["a1"] == [sent]


def test_a_request_whose_outcome_is_unknown_is_asked_again_after_a_while() -> None:
    fleet = Fleet()
    fleet.held["a1"] = []
    driver = fleet.start(alo("a1"))
    [asked] = fleet.held["a1"]
    fleet.do("a1", driver.unknown(asked, 0))
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
    late = Driver(Me("b1", "b", Mode.AT_MOST_ONCE), KEY, first=len(fleet.log))
    fleet.start(late, first=len(fleet.log))
    fleet.pass_time(60 * MINUTE)
    assert fleet.owner() == "a1"
    assert fleet.log[-1].message.instance_id == "a1"


def test_at_least_once_a_late_reader_wins_by_silence_and_starts_where_its_policy_says() -> None:
    fleet = Fleet()
    fleet.start(alo("a1"))
    fleet.crash("a1")
    me = Me("b1", "b", Mode.AT_LEAST_ONCE, window=3, start=7, rules=FENCED)
    late = Driver(me, KEY, first=len(fleet.log))
    fleet.start(late, first=len(fleet.log))
    fleet.do("b1", late.available(9, fleet.now_ms))
    assert fleet.processed["b1"] == []
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
    assert fleet.processed["b1"] == [7, 8]


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
    fleet.do("a1", driver.available(6, 0))
    assert fleet.processed["a1"] == [5]


def test_effects_are_values() -> None:
    assert Process(range(2)) == Process(range(2))
    assert isinstance(release_group_sent(admin(), "g", 1).message, ReleaseGroup)

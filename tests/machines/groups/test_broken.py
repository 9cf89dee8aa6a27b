"""Marshal promises that a controller which is broken on purpose is noticed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import pytest

from tests.machines.groups import mutants
from tests.machines.groups import test_requests as requests
from tests.machines.groups import test_serving as serving
from tests.machines.groups.mutants import MUTANTS
from tests.machines.groups.running import everything_happens
from tests.machines.groups.world import Violated

NOTICED_BY: Final[Mapping[Callable[[pytest.MonkeyPatch], None], Callable[[], None]]] = {
    mutants.answers_from_the_speculative: (
        serving.test_nothing_is_answered_before_it_has_landed_and_was_read
    ),
    mutants.answers_before_it_landed: (
        serving.test_nothing_is_answered_before_it_has_landed_and_was_read
    ),
    mutants.judges_by_the_view: (
        serving.test_who_lives_and_lets_nothing_go_is_answered_no_more_and_then_given_up
    ),
    mutants.answers_unconfirmed: serving.test_a_deposed_controller_answers_no_heartbeat,
    mutants.confirms_without_folding: serving.test_a_deposed_controller_answers_no_heartbeat,
    mutants.takes_an_earlier_end: (
        serving.test_an_answer_is_confirmed_by_an_end_that_was_asked_for_after_the_request
    ),
    mutants.answers_while_it_expires: (
        serving.test_a_member_whose_end_is_on_its_way_is_not_answered
    ),
    mutants.serves_on: serving.test_a_deposed_controller_answers_no_heartbeat,
    mutants.takes_any_start_for_its_own: (
        serving.test_of_two_that_compete_the_first_in_the_log_serves
    ),
    mutants.competes_at_once: serving.test_a_server_folds_up_to_the_end_before_it_competes,
    mutants.expires_at_once: serving.test_a_failover_is_no_rebalance,
    mutants.session_too_short: serving.test_a_pause_of_the_controller_is_nobodys_silence,
    mutants.counts_its_sleep: serving.test_a_pause_of_the_controller_is_nobodys_silence,
    mutants.forgets_what_it_sent: (
        serving.test_a_controller_that_does_not_know_what_landed_begins_anew
    ),
    mutants.gives_up_the_living: (
        serving.test_who_lives_and_lets_nothing_go_is_answered_no_more_and_then_given_up
    ),
    mutants.counts_nothing_of_the_muted: (
        serving.test_who_need_not_let_go_any_more_is_answered_and_stays
    ),
    mutants.keeps_connections: (
        serving.test_a_connection_from_before_the_start_says_nothing_of_what_is_held
    ),
    mutants.hears_the_old_connection: (
        serving.test_what_comes_over_an_older_connection_of_a_member_is_void
    ),
    mutants.only_joins_rebalance: (
        serving.test_who_lives_and_lets_nothing_go_is_answered_no_more_and_then_given_up
    ),
    mutants.never_counts: (
        serving.test_a_topic_that_was_made_anew_begins_anew_once_nobody_owns_the_old_one
    ),
    mutants.owner_hears_of_no_rewind: requests.test_a_rewind_looks_up_the_latest_and_sticks,
    mutants.asks_only_for_news: (
        serving.test_a_partition_that_moved_on_before_its_owner_heard_of_it_is_let_go
    ),
    mutants.never_gives_up: (
        serving.test_who_lives_and_lets_nothing_go_is_answered_no_more_and_then_given_up
    ),
    mutants.moves_too_early: (
        serving.test_snapshots_are_of_what_will_be_and_nothing_lies_between_them
    ),
    mutants.snapshots_what_was_read: (
        serving.test_snapshots_are_of_what_will_be_and_nothing_lies_between_them
    ),
}
BY_CHANCE: Final = [
    (mutants.answers_from_the_speculative, "AnswersHold", 0),
    (mutants.serves_on, "LeaseOver", 1),
    (mutants.gives_up_the_living, "LeaseOver", 0),
    (mutants.never_counts, "NewPartitionOwned", 0),
    (mutants.moves_too_early, "BeginsInTheMiddle", 0),
    (mutants.expires_at_once, "LeaseOver", 0),
    (mutants.never_gives_up, "RebalanceEnds", 0),
]
"""Which property notices it in which random run: the first that does."""


def test_each_broken_controller_has_a_story() -> None:
    assert {each.__name__ for each in NOTICED_BY} == MUTANTS.keys()


@pytest.mark.parametrize("name", [*MUTANTS])
def test_a_story_notices(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = MUTANTS[name]
    broken(monkeypatch)
    with pytest.raises((AssertionError, KeyError, ValueError)):
        NOTICED_BY[broken]()


@pytest.mark.parametrize(("broken", "noticed_by", "seed"), BY_CHANCE)
def test_a_random_run_notices(
    broken: Callable[[pytest.MonkeyPatch], None],
    noticed_by: str,
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken(monkeypatch)
    with pytest.raises(Violated, match=noticed_by):
        everything_happens(seed)

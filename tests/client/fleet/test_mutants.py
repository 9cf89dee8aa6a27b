"""The mistakes that were made once, each kept, and the story that notices it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from attrs import evolve

from kafka_marshal.client.api.consumer import Consumer
from kafka_marshal.client.api.delivery import Delivery
from kafka_marshal.client.coordinate import owned_partition
from kafka_marshal.client.coordinate.commits import Commit
from kafka_marshal.client.coordinate.inputs import AppendFinished
from kafka_marshal.client.coordinate.owned_partition import OwnedPartition
from kafka_marshal.client.coordinate.ownership import Ownership
from kafka_marshal.client.fetch.buffers import Buffers
from kafka_marshal.client.fetch.fetched_partition import FetchedPartition
from kafka_marshal.client.fetch.fetcher import Fetcher
from kafka_marshal.client.message import Claim
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.errors import MarshalError
from kafka_marshal.machines.consumer import consumer as moves
from kafka_marshal.machines.consumer.driver import Driver
from kafka_marshal.machines.consumer.member import ClaimEffect, Member
from tests.client import doubles
from tests.client.api import test_at_most_once as receipts
from tests.client.api import test_cancelled_calls as cancelled
from tests.client.api import test_commit as commit
from tests.client.api import test_delivery as taking
from tests.client.api import test_mixed_deliveries as mixed
from tests.client.api import test_pause_and_seek as pausing
from tests.client.coordinate import test_ending as ending
from tests.client.coordinate import test_lost_claims as beginning
from tests.client.coordinate import test_owned_partition as tenures
from tests.client.coordinate import test_positions as positions
from tests.client.doubles import Kafka
from tests.client.fetch import test_turns as turns
from tests.client.fleet import test_random_schedules as walks
from tests.client.process import test_left_handlers as left_handlers

Patch = pytest.MonkeyPatch


def adds_to_the_newest_tenure(patch: Patch) -> None:
    """What was fetched goes to the tenure that owns the partition now."""
    add = Fetcher._add

    def newest(fetcher: Fetcher, run: list[Any]) -> None:
        partition = (run[0].topic(), run[0].partition())
        fetched, opened = fetcher._assigned.get(partition), fetcher._of_partition.get(partition)
        if fetched is not None and opened:
            fetcher._assigned[partition] = opened[-1]
        add(fetcher, run)
        if fetched is not None:
            fetcher._assigned[partition] = fetched

    patch.setattr(Fetcher, "_add", newest)


def fetches_tenures_side_by_side(patch: Patch) -> None:
    """The next tenure of a partition does not wait for the one before."""
    settle = Fetcher._settle

    def newest(fetcher: Fetcher, partition: tuple[str, int]) -> None:
        opened = fetcher._of_partition[partition]
        older, fetcher._of_partition[partition] = opened[:-1], opened[-1:]
        fetched = fetcher._assigned.get(partition)
        if fetched in older:
            del fetcher._assigned[partition]
        settle(fetcher, partition)
        fetcher._of_partition[partition] = opened

    patch.setattr(Fetcher, "_settle", newest)


def forgets_what_was_granted(patch: Patch) -> None:
    """A tenure that is over is fetched no more, whatever was granted to it."""
    wanted = property(lambda one: not one.paused and one.until is None)
    patch.setattr(FetchedPartition, "wanted", wanted)


def shares_what_is_in_hand(patch: Patch) -> None:
    """Two threads go over one deque."""
    patch.setattr(OwnedPartition, "chunks", property(lambda tenure: tenure._chunks))


def asks_with_a_batch_in_hand(patch: Patch) -> None:
    """What was fetched meanwhile is asked for as soon as a batch was granted."""
    available = Member.messages_available

    def told_at_once(member: Member, key: ClaimKey, end: int, now_ms: int) -> list[ClaimEffect]:
        effects = available(member, key, end, now_ms)
        return effects + member._did(
            key, member.driver(key).messages_available(end, now_ms), now_ms
        )

    patch.setattr(Member, "messages_available", told_at_once)
    patch.setattr(Driver, "busy", property(lambda driver: driver._request is not None))


def releases_without_a_word(patch: Patch) -> None:
    """Its release does not say how far it got."""
    sent = moves.releasing_partition_sent

    def silent(*args: Any, **_: Any) -> Any:
        return sent(*args)

    patch.setattr(moves, "releasing_partition_sent", silent)


def gives_out_whole_chunks(patch: Patch) -> None:
    """A turn lasts for a chunk, however long that takes."""
    patch.setattr(Ownership, "_end_turn", lambda *_: None)


def forgets_what_is_given_back(patch: Patch) -> None:
    """A turn ends, and what was not given out is nowhere."""
    patch.setattr(Buffers, "put_back", lambda *_: None)


def counts_waiting_for_a_turn(patch: Patch) -> None:
    """A claim does not move while it waits for its turn, and is called wedged."""
    progress = OwnedPartition.progress

    def alone(tenure: OwnedPartition, *seen: Any, others_busy: bool) -> Any:
        return progress(tenure, *seen, others_busy=False)

    patch.setattr(OwnedPartition, "progress", alone)


def polled() -> None:
    """The story of what is polled: nothing that is missing is waited for without end."""
    turns.test_partitions_take_turns_within_a_second_and_nothing_is_passed_over(
        turns.polling, turns.AMO
    )


def forgets_what_a_pause_took_back(patch: Patch) -> None:
    """Only what was allowed and not handed over before is handed over after it."""
    anew = Fetcher._anew

    def without(
        fetcher: Fetcher, one: FetchedPartition, position: int | None = None, **options: Any
    ) -> None:
        allowed, one.allowed = one.allowed, []
        anew(fetcher, one, position, **options)
        one.allowed = allowed

    patch.setattr(Fetcher, "_anew", without)


def remembers_what_was_fetched_before(patch: Patch) -> None:
    """A tenure asks for what the one before it had fetched."""
    begin = Driver._begin

    def remembering(driver: Driver, now_ms: int) -> Any:
        end = driver._end
        effects = begin(driver, now_ms)
        driver._end = end
        return effects

    patch.setattr(Driver, "_begin", remembering)


def keeps_whatever_was_taken(patch: Patch) -> None:
    """What was decided while a chunk was taken does not hold for it."""
    patch.setattr(Fetcher, "keeps", lambda *_: True)


def taken_when_paused() -> None:
    """The story of a chunk that is taken while its claim is paused."""
    with Patch.context() as patch:
        taking.test_what_was_taken_when_its_claim_was_paused_is_given_out_after_that(
            taking.AMO, patch
        )


def mixes_ways_in_one_chunk(patch: Patch) -> None:
    """A chunk goes on in whichever way it is asked for."""
    patch.setattr(Delivery, "_split", lambda *_: None)


def keeps_what_a_run_left(patch: Patch) -> None:
    """What a run had not done when it ended is nobody's before the consumer is closed."""
    patch.setattr(Ownership, "redeliver", lambda *_: None)


def gives_again_what_is_being_handled(patch: Patch) -> None:
    """What a run had not done is given out again while its handlers have it in hand."""
    left = Ownership.handlers_left

    def at_once(held: Ownership, claim: Claim, *, at_work: bool) -> None:
        left(held, claim, at_work=at_work)
        left(held, claim, at_work=False)

    patch.setattr(Ownership, "handlers_left", at_once)


def claims_after_a_stop(patch: Patch) -> None:
    """A consumer that stops wants what is added later."""
    add_topic = Member.add_topic

    def adds(member: Member, *args: Any, **options: Any) -> Any:
        stopping, member._stopping = member._stopping, False
        effects = add_topic(member, *args, **options)
        member._stopping = stopping
        return effects

    patch.setattr(Member, "add_topic", adds)


def is_closed_once_it_stopped(patch: Patch) -> None:
    """A call after a stop that has ended is one after `close`."""
    patch.setattr(Consumer, "_unless_stopped", lambda self, what: self._coordinator.call(what))


def commits_without_waiting(patch: Patch) -> None:
    """A commit returns when the heartbeat is sent, whatever becomes of it."""
    patch.setattr(Commit, "settled", lambda it, *_: it.answer.set_result(None) is None)


def commits_one_by_one(patch: Patch) -> None:
    """Each commit has a heartbeat of its own."""
    patch.setattr(Driver, "_commits", property(lambda it: it._told_offset < it._commit_upto))


def forgets_what_was_lost(patch: Patch) -> None:
    """What was done of a lost claim, and is not in the log, is nobody's business any more."""
    patch.setattr(owned_partition, "has", lambda claim, end: True)


def begins_whatever_waits(patch: Patch) -> None:
    """Workers begin what they were fed, whatever became of its claim."""
    patch.setattr(Delivery, "may_begin", lambda *_: True)


def takes_any_release_for_the_last(patch: Patch) -> None:
    """What becomes of a release is looked up by partition."""
    appended = Ownership.appended

    def by_key(held: Ownership, given: AppendFinished) -> None:
        tenure = held._tenures.newest(given.key)
        assert tenure is not None
        appended(held, evolve(given, release=tenure.release))

    patch.setattr(Ownership, "appended", by_key)


def polls_after_a_run() -> None:
    left = left_handlers.Left("partition")
    with left.consumer:
        left_handlers.test_nor_does_a_poll(left)


MUTANTS: Final[list[tuple[Callable[[Patch], None], Callable[[], None]]]] = [
    (
        adds_to_the_newest_tenure,
        lambda: tenures.test_a_fetch_for_a_lost_tenure_never_enters_the_next_one(tenures.ALO),
    ),
    (
        fetches_tenures_side_by_side,
        tenures.test_at_most_once_a_batch_in_hand_outlives_its_tenure,
    ),
    (
        forgets_what_was_granted,
        tenures.test_at_most_once_what_was_granted_to_a_paused_partition_is_handed_over_later,
    ),
    (
        asks_with_a_batch_in_hand,
        receipts.test_one_batch_of_a_partition_is_outstanding_whatever_is_fetched_meanwhile,
    ),
    (releases_without_a_word, receipts.test_what_was_committed_is_not_reported),
    (gives_out_whole_chunks, polled),
    (forgets_what_is_given_back, polled),
    (
        counts_waiting_for_a_turn,
        turns.test_a_claim_that_waits_for_its_turn_is_not_wedged_and_one_that_is_stuck_is,
    ),
    (
        forgets_what_a_pause_took_back,
        pausing.test_what_a_pause_took_back_is_given_out_after_it,
    ),
    (
        remembers_what_was_fetched_before,
        positions.test_at_most_once_a_remade_topic_is_asked_for_what_it_holds,
    ),
    (keeps_whatever_was_taken, taken_when_paused),
    (
        mixes_ways_in_one_chunk,
        lambda: mixed.test_a_message_is_done_when_the_way_it_was_given_out_says_so(
            "poll poll list", mixed.ALO
        ),
    ),
    (
        keeps_what_a_run_left,
        cancelled.test_what_a_run_that_failed_had_not_done_is_given_to_the_next,
    ),
    (gives_again_what_is_being_handled, polls_after_a_run),
    (claims_after_a_stop, lambda: ending.adds_a_topic_after_a_stop(Kafka(), True)),
    (is_closed_once_it_stopped, lambda: ending.adds_a_topic_after_a_stop(Kafka(), False)),
    (commits_without_waiting, lambda: commit.returns_when_the_log_has_it(commit.orders())),
    (forgets_what_was_lost, lambda: commit.commits_what_was_lost_before(commit.orders())),
    (begins_whatever_waits, lambda: beginning.begins_nothing(beginning.is_lost)),
    (begins_whatever_waits, lambda: beginning.begins_nothing(beginning.is_paused)),
    (begins_whatever_waits, lambda: beginning.begins_nothing(beginning.is_stopped)),
    (begins_whatever_waits, lambda: beginning.begins_nothing(beginning.is_released)),
    (takes_any_release_for_the_last, lambda: commit.outlives_a_late_word(commit.orders())),
    (commits_one_by_one, lambda: commit.shares_heartbeats(commit.orders())),
    (asks_with_a_batch_in_hand, lambda: walks.walk_for(walks.AMO, 60.0)),
    (fetches_tenures_side_by_side, lambda: walks.walk_for(walks.AMO, 60.0)),
]


@pytest.mark.parametrize(("mutant", "story"), MUTANTS, ids=lambda each: each.__name__)
def test_a_story_notices(
    mutant: Callable[[Patch], None], story: Callable[[], None], monkeypatch: Patch
) -> None:
    mutant(monkeypatch)
    monkeypatch.setattr(doubles, "WITHIN_S", 3.0)
    with pytest.raises(Exception):  # noqa: B017, PT011  # however it ends, it does not go well
        story()


def test_two_threads_on_one_deque_are_noticed(monkeypatch: Patch) -> None:
    shares_what_is_in_hand(monkeypatch)
    with pytest.raises(MarshalError, match="deque mutated during iteration"):
        tenures.test_what_is_taken_while_the_engine_looks_ends_nothing(monkeypatch)

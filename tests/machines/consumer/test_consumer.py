"""What one instance may do, what it then sends, and what it remembers: promise by promise.

The specification's own answers, situation by situation, are in `test_transitions.py`.
"""

from __future__ import annotations

import attrs
import pytest

from kafka_marshal import (
    FENCED,
    ClaimingMessages,
    ClaimingPartition,
    ClaimKey,
    Headers,
    Record,
    ReleaseGroup,
    ReleasingPartition,
)
from kafka_marshal.core.claims.suffix_reader import Field, Reader
from kafka_marshal.core.messages import Heartbeat, KeyedMessage, Offset
from kafka_marshal.machines.consumer import consumer as machine
from kafka_marshal.machines.consumer.consumer import ConsumerState, Forbidden, InstanceConfig, Mode
from kafka_marshal.machines.consumer.effects import Send
from tests.memory_log import MemoryLog

KEY = ClaimKey("group", "topic", 3)
RULES = attrs.evolve(FENCED, heartbeat_interval_ms=1000, pause_max_ms=5000)
ALO = InstanceConfig("a1", "a", Mode.AT_LEAST_ONCE, window=2, rules=RULES)
AMO = InstanceConfig("a1", "a", Mode.AT_MOST_ONCE, batch=3, rules=RULES)
OTHER = InstanceConfig("b1", "b", Mode.AT_MOST_ONCE, batch=3, rules=RULES)
TWIN = InstanceConfig("a2", "a", Mode.AT_LEAST_ONCE, rules=RULES)
ADMIN = InstanceConfig("admin", "admin", Mode.AT_LEAST_ONCE, admin=True, rules=RULES)


class Log:
    """A log, and one machine that reads all of it as it is written."""

    def __init__(self, me: InstanceConfig, first: int = 0) -> None:
        self.me = me
        self.log = MemoryLog(first=first)
        self.consumer = ConsumerState.beginning_at(first)
        self.now_ms = 1000

    def append(self, sent: Send) -> ConsumerState:
        record = self.log.append(sent.message, sent.headers, at_ms=self.now_ms)
        self.consumer = machine.after_read(self.me, self.consumer, record)
        return self.consumer

    def won(self) -> Log:
        """The machine asked and won."""
        self.append(machine.claiming_partition_sent(self.me, self.consumer, KEY))
        assert machine.acts(self.me, self.consumer)
        return self

    def won_by(self, me: InstanceConfig) -> Log:
        """Another machine, that knows as much, asked and won."""
        self.append(machine.claiming_partition_sent(me, self.consumer, KEY))
        assert self.consumer.known.owner_instance == me.instance_id
        return self

    def heartbeat(self) -> ConsumerState:
        return self.append(machine.heartbeat_sent(self.me, self.consumer, KEY))

    def granted(self, offset: int) -> ConsumerState:
        """It asked for everything below the offset, and read that it is its own."""
        assert machine.may_claim_messages(self.me, self.consumer, offset) is None
        return self.append(machine.claiming_messages_sent(self.me, self.consumer, KEY, offset))

    def paused(self, expires_unix_s: int = 0) -> Log:
        self.append(machine.release_group_sent(ADMIN, KEY.group, expires_unix_s))
        return self

    def process(self) -> None:
        assert machine.may_process(self.me, self.consumer, self.consumer.next) is None
        self.consumer = machine.after_process(self.me, self.consumer)


def knowing(consumer: ConsumerState, certain: Field) -> ConsumerState:
    """The same, with only so much certain."""
    return attrs.evolve(consumer, reader=attrs.evolve(consumer.reader, certain=certain))


# --- beginning ------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [0, 7])
def test_a_consumer_begins_to_read_where_it_is_told(first: int) -> None:
    consumer = ConsumerState.beginning_at(first)
    assert consumer == ConsumerState(reader=Reader.beginning_at(first), view=first)
    assert consumer.reader.known is (first == 0)


# --- asking for the claim: R6 ---------------------------------------------------------------------


def test_a_request_waits_until_the_last_one_was_read_back() -> None:
    log = Log(ALO)
    assert machine.may_claim(ALO, log.consumer) is None
    sent = machine.claiming_partition_sent(ALO, log.consumer, KEY)
    log.consumer = machine.after_claiming_partition(ALO, log.consumer)
    assert machine.may_claim(ALO, log.consumer) is Forbidden.AWAITS_READ_BACK
    log.won_by(OTHER)
    assert machine.may_claim(ALO, log.consumer) is Forbidden.AWAITS_READ_BACK
    log.append(sent)
    assert machine.may_claim(ALO, log.consumer) is None


def test_only_a_request_reads_back_a_request() -> None:
    log = Log(ALO).won()
    log.consumer = machine.after_claiming_partition(ALO, log.consumer)
    assert log.heartbeat().asked


def test_who_gives_up_waiting_may_ask_again() -> None:
    assert machine.may_give_up(ALO, ConsumerState()) is Forbidden.NOTHING_ASKED
    asked = machine.after_claiming_partition(ALO, ConsumerState())
    assert machine.may_give_up(ALO, asked) is None
    assert machine.may_claim(ALO, machine.after_giving_up(ALO, asked)) is None


def test_an_owner_does_not_ask() -> None:
    assert machine.may_claim(ALO, Log(ALO).won().consumer) is Forbidden.ALREADY_OWNER


def test_an_administrator_asks_only_in_its_own_pause() -> None:
    log = Log(ADMIN)
    assert machine.may_claim(ADMIN, log.consumer) is Forbidden.NOTHING_PAUSED
    assert machine.may_claim(ADMIN, log.paused(9).consumer) is None


def test_at_most_once_nobody_asks_for_a_claim_whose_position_it_cannot_know() -> None:
    late = ConsumerState.beginning_at(7)
    assert machine.may_claim(AMO, late) is Forbidden.CLAIM_UNKNOWN
    assert machine.may_claim(AMO, knowing(late, Field.OWNER)) is Forbidden.POSITION_UNKNOWN
    assert machine.may_claim(AMO, knowing(late, Field.OWNER | Field.POSITION)) is None
    assert machine.may_claim(ALO, late) is None


def test_a_request_names_the_tenure_that_a_restart_means_to_end() -> None:
    log = Log(ALO).won_by(TWIN)
    sent = machine.claiming_partition_sent(ALO, log.consumer, KEY, unix_s=9)
    assert sent.headers == Headers(present=True, supersedes=0)
    assert sent.message == ClaimingPartition(1, 9, "a1", "a", "group", "topic", 3)  # type: ignore[arg-type]
    assert machine.supersedes_of(OTHER, log.consumer) is None
    assert machine.supersedes_of(ALO, ConsumerState()) is None


# --- who acts: R2, R7 -----------------------------------------------------------------------------


def test_only_the_instance_that_won_acts_and_not_its_client() -> None:
    log = Log(TWIN).won_by(ALO)
    for guard in (machine.may_heartbeat, machine.may_release, machine.may_act_as_owner):
        assert guard(TWIN, log.consumer) is Forbidden.NOT_OWNER
        assert guard(ALO, log.consumer) is None


def test_nobody_acts_on_a_guess() -> None:
    log = Log(ALO).won()
    assert machine.may_heartbeat(ALO, knowing(log.consumer, Field.EPOCH)) is Forbidden.NOT_OWNER


def test_who_sent_its_release_never_acts_under_that_epoch_again() -> None:
    log = Log(ALO).won()
    log.consumer = machine.after_release(ALO, log.consumer)
    assert machine.owns(ALO, log.consumer.reader), "the release may be lost"
    assert machine.may_heartbeat(ALO, log.consumer) is Forbidden.RESIGNED
    assert machine.may_process(ALO, log.consumer, 0) is Forbidden.RESIGNED
    assert machine.may_claim(ALO, log.consumer) is None
    assert machine.may_heartbeat(ALO, log.won().consumer) is None


def test_two_processes_under_one_client_id_do_not_take_turns() -> None:
    log = Log(ALO).won().won_by(TWIN)
    consumer = log.consumer
    assert consumer.stopped
    for guard in (machine.may_claim, machine.may_heartbeat, machine.may_release):
        assert guard(ALO, consumer) is Forbidden.STOPPED
    assert machine.may_process(ALO, consumer, consumer.next) is Forbidden.STOPPED


def test_who_lost_to_another_client_goes_on() -> None:
    log = Log(ALO).won()
    log.now_ms += 2001
    assert not log.won_by(OTHER).consumer.stopped


def test_who_resigned_before_its_successor_won_goes_on() -> None:
    log = Log(ALO).won()
    log.consumer = machine.after_release(ALO, log.consumer)
    assert not log.won_by(TWIN).consumer.stopped


# --- at least once: R5 ----------------------------------------------------------------------------


def test_at_least_once_messages_are_processed_in_order_and_not_beyond_the_window() -> None:
    log = Log(ALO).won()
    assert machine.may_process(ALO, log.consumer, 1) is Forbidden.NOT_NEXT
    log.process()
    log.process()
    assert machine.may_process(ALO, log.consumer, 2) is Forbidden.BEYOND_WINDOW
    assert machine.heartbeat_sent(ALO, log.consumer, KEY).message.offset == 2  # type: ignore[union-attr]
    log.heartbeat()
    assert log.consumer.known.position == 2
    assert machine.may_process(ALO, log.consumer, 2) is None


def test_a_tenure_begins_where_the_log_is() -> None:
    log = Log(ALO).won()
    log.process()
    log.process()
    log.paused().won()
    assert log.consumer.next == 0, "what was not committed is processed again"


def test_where_nobody_set_a_position_the_start_policy_counts() -> None:
    both = Field.POSITION | Field.POSITION_SET
    for start, position, is_set, certain, begins in [
        (9, 0, False, both, 9),
        (9, 0, True, both, 0),
        (9, 4, True, both, 4),
        (9, 4, True, Field.POSITION_SET, 9),
        (2, 4, True, Field.POSITION_SET, 4),
        (9, 0, False, Field.POSITION, 0),
        (9, 0, False, Field.OWNER, 9),
    ]:
        me = attrs.evolve(ALO, start=start)
        claim = attrs.evolve(Reader().claim, position=position, position_set=is_set)
        assert machine.floor(me, Reader(claim, certain)) == begins


@pytest.mark.parametrize("mode", Mode)
def test_a_position_of_0_that_was_set_is_where_everybody_begins(mode: Mode) -> None:
    """Kafka's committed offset was 50; the operator set the position to 0."""
    me = attrs.evolve(ALO, mode=mode, start=50)
    log = Log(me).paused().won_by(ADMIN)
    log.append(machine.position_sent(ADMIN, log.consumer, KEY, 0))
    assert log.consumer.known.position_set
    log.won()
    sent = machine.heartbeat_sent(me, log.consumer, KEY)
    assert getattr(sent.message, "offset", None) == 0
    assert sent.headers.start is None, "an offset below its start says nothing about where to begin"
    if mode is Mode.AT_LEAST_ONCE:
        assert log.consumer.next == 0


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("start", [0, 50])
def test_the_first_heartbeat_says_where_its_sender_began(mode: Mode, start: int) -> None:
    me = attrs.evolve(ALO, mode=mode, start=start)
    log = Log(me).won()
    released = machine.releasing_partition_sent(me, log.consumer, KEY)
    beat = machine.heartbeat_sent(me, log.consumer, KEY)
    for sent in (released, beat):
        assert getattr(sent.message, "offset", None) == start
        assert sent.headers.start == start
    log.append(sent)
    assert (log.consumer.known.position, log.consumer.known.position_set) == (start, True)


def test_an_administrator_does_not_say_where_it_began() -> None:
    sent = machine.heartbeat_sent(ADMIN, Log(ALO).won().consumer, KEY)
    assert sent.headers.start is None


def test_only_at_least_once_processes_one_by_one_and_only_at_most_once_asks() -> None:
    log = Log(AMO).won()
    assert machine.may_process(AMO, log.consumer, 0) is Forbidden.NOT_AT_LEAST_ONCE
    assert machine.may_process(ADMIN, log.consumer, 0) is Forbidden.NOT_AT_LEAST_ONCE
    assert machine.may_claim_messages(ALO, log.consumer, 1) is Forbidden.NOT_AT_MOST_ONCE
    admin = attrs.evolve(AMO, admin=True)
    assert machine.may_claim_messages(admin, log.consumer, 1) is Forbidden.NOT_AT_MOST_ONCE


# --- at most once: R4 -----------------------------------------------------------------------------


def test_asking_for_messages_grants_nothing_and_reading_it_back_does() -> None:
    log = Log(AMO).won()
    asked = machine.after_claiming_messages(AMO, log.consumer, 2)
    assert machine.may_process_grant(AMO, asked) is Forbidden.NOT_GRANTED
    granted = log.granted(2)
    assert granted.granted == (range(0, 2),)
    assert machine.may_process_grant(AMO, granted) is None
    assert machine.after_process_grant(AMO, granted).granted == ()


def test_a_request_for_messages_is_ahead_and_within_a_batch() -> None:
    log = Log(AMO).won()
    log.granted(2)
    answers = {n: machine.may_claim_messages(AMO, log.consumer, n) for n in (2, 3, 5, 6)}
    assert answers == {2: Forbidden.NOTHING_AHEAD, 3: None, 5: None, 6: Forbidden.BEYOND_BATCH}


def test_nobody_asks_for_messages_of_a_position_that_it_does_not_know() -> None:
    consumer = knowing(Log(AMO).won().consumer, Field.OWNER | Field.EPOCH)
    assert machine.may_claim_messages(AMO, consumer, 1) is Forbidden.POSITION_UNKNOWN
    not_owner = Log(AMO).won_by(OTHER).consumer
    assert machine.may_claim_messages(AMO, not_owner, 1) is Forbidden.NOT_OWNER


def test_grants_that_touch_are_one_and_those_apart_are_two() -> None:
    log = Log(AMO).won()
    log.granted(1)
    assert log.granted(2).granted == (range(0, 2),)
    log.now_ms += 2001
    log.won_by(OTHER)
    log.append(machine.claiming_messages_sent(OTHER, log.consumer, KEY, 4))
    assert log.consumer.granted == (range(0, 2),), "what another was granted is not ours"
    log.now_ms += 2001
    assert log.won().granted(5).granted == (range(0, 2), range(4, 5))
    assert machine.offset_to_send(AMO, log.consumer) == 5


def test_what_was_processed_is_granted_no_more() -> None:
    log = Log(AMO).won()
    log.consumer = machine.after_process_grant(AMO, log.granted(1))
    log.granted(2)
    assert log.granted(3).granted == (range(1, 3),)


def test_what_was_granted_may_be_processed_after_the_claim_was_lost() -> None:
    log = Log(AMO).won()
    log.granted(2)
    log.paused()
    assert machine.may_heartbeat(AMO, log.consumer) is Forbidden.NOT_OWNER
    assert machine.may_process_grant(AMO, log.consumer) is None


def test_a_grant_after_the_position_was_set_back_is_one_with_what_it_overlaps() -> None:
    log = Log(AMO).won()
    log.granted(3)
    log.paused(9).won_by(ADMIN)
    log.append(machine.position_sent(ADMIN, log.consumer, KEY, 1))
    assert log.consumer.known.position == 1
    assert log.won().granted(2).granted == (range(0, 3),)
    assert log.granted(4).granted == (range(0, 4),)


def test_a_refused_request_for_messages_grants_nothing() -> None:
    log = Log(AMO).won()
    late = machine.claiming_messages_sent(AMO, log.consumer, KEY, 2)
    log.paused()
    assert log.append(late).granted == ()


# --- what is sent ---------------------------------------------------------------------------------


def test_an_owner_says_under_which_epoch_and_what_it_saw() -> None:
    log = Log(AMO).won()
    log.now_ms = 1500
    log.granted(2)
    headers = Headers(present=True, epoch=0, seen=1, clock=1500)
    address = (1, 9, "a1", "a", "group", "topic", 3)
    began = attrs.evolve(headers, start=0)
    assert machine.heartbeat_sent(AMO, log.consumer, KEY, unix_s=9) == Send(
        Heartbeat(*address, 2),  # type: ignore[arg-type]
        began,
    )
    assert machine.releasing_partition_sent(AMO, log.consumer, KEY, unix_s=9) == Send(
        ReleasingPartition(*address, 2),  # type: ignore[arg-type]
        began,
    )
    assert machine.claiming_messages_sent(AMO, log.consumer, KEY, 4, unix_s=9) == Send(
        ClaimingMessages(*address, 4),  # type: ignore[arg-type]
        headers,
    )
    assert machine.position_sent(AMO, log.consumer, KEY, 7, unix_s=9) == Send(
        ReleasingPartition(*address, Offset(7)),  # type: ignore[arg-type]
        attrs.evolve(headers, set_position=7),
    )


@pytest.mark.parametrize("uncertain", [Field.POSITION, Field.CLOCK])
def test_who_does_not_know_position_and_clock_does_not_make_others_certain(
    uncertain: Field,
) -> None:
    consumer = Log(ALO).won().consumer
    assert machine.can_certify(ALO, consumer)
    unsure = knowing(consumer, consumer.reader.certain & ~uncertain)
    expected = Headers(present=True, epoch=0, start=0)
    assert machine.heartbeat_sent(ALO, unsure, KEY).headers == expected
    assert not machine.can_certify(attrs.evolve(ALO, certifies=False), consumer)


def test_an_administrator_pauses_as_the_original_does() -> None:
    assert machine.may_release_group(ADMIN, ConsumerState()) is None
    assert machine.may_release_group(ALO, ConsumerState()) is Forbidden.NOT_ADMIN
    assert machine.release_group_sent(ADMIN, "group", 60, unix_s=9) == Send(
        ReleaseGroup(0, 9, "admin", "admin", "group", "", 0, 60),  # type: ignore[arg-type]
        Headers(),
    )


def test_a_message_of_any_kind_is_judged_and_said_and_remembered_as_one_of_its_kind() -> None:
    owner, stranger = Log(AMO).won().granted(2), Log(OTHER).won_by(AMO).consumer
    administrator = Log(ADMIN).paused().won().consumer
    beat = machine.heartbeat_sent(AMO, owner, KEY, 9)
    asks = machine.claiming_partition_sent(OTHER, stranger, KEY, 9)
    wants = machine.claiming_messages_sent(AMO, owner, KEY, 9, 9)
    release = machine.releasing_partition_sent(AMO, owner, KEY, 9)
    done = machine.releasing_partition_sent(AMO, owner, KEY, 9, 1)
    sets = machine.position_sent(ADMIN, administrator, KEY, 7, 9)

    def would(
        me: InstanceConfig, consumer: ConsumerState, sent: Send
    ) -> tuple[Forbidden | None, Send, ConsumerState]:
        assert isinstance(sent.message, KeyedMessage)
        return machine.would_send(me, consumer, sent.message, sent.headers.done)

    resigned = attrs.evolve(owner, resigned=0)
    set_by = attrs.evolve(administrator, resigned=1)
    assert would(AMO, owner, beat) == (None, beat, owner)
    assert would(AMO, resigned, beat) == (Forbidden.RESIGNED, beat, resigned)
    assert would(OTHER, stranger, asks) == (None, asks, attrs.evolve(stranger, asked=True))
    assert would(AMO, owner, asks)[0] is Forbidden.ALREADY_OWNER
    assert would(AMO, owner, wants) == (Forbidden.BEYOND_BATCH, wants, owner)
    assert would(AMO, owner, release) == (None, release, resigned)
    assert would(AMO, owner, done) == (None, done, resigned)
    assert would(AMO, resigned, done) == (Forbidden.RESIGNED, done, resigned)
    assert would(ADMIN, administrator, sets) == (None, sets, set_by)
    assert release.message == done.message
    assert isinstance(release.message, ReleasingPartition)
    assert machine.would_send(AMO, owner, release.message) == (None, release, resigned)


# --- reading --------------------------------------------------------------------------------------


def test_what_is_read_moves_the_view_past_the_record() -> None:
    consumer = ConsumerState.beginning_at(4)
    sent = machine.claiming_partition_sent(OTHER, consumer, KEY)
    after = machine.after_read(ALO, consumer, Record(0, 9, 1000, sent.message, sent.headers))
    assert after.view == 10


def test_after_a_gap_it_waits_for_no_answer_and_keeps_what_it_was_granted() -> None:
    before = ConsumerState(
        Reader(), 5, resigned=2, asked=True, stopped=True, next=7, granted=(range(3, 5),)
    )
    after = machine.after_gap(AMO, before, 9)
    assert after == ConsumerState(
        Reader.beginning_at(9), 9, resigned=2, stopped=True, next=7, granted=(range(3, 5),)
    )

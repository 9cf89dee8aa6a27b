"""What a reader that began in the middle may call certain, rule by rule.

The log begins at offset 10 for everybody here; its head is gone. Times are in units of the
heartbeat interval, so an owner is stale after more than two, and a pause lasts at most five.
"""

from __future__ import annotations

import attrs
import pytest

from kafka_marshal import (
    FENCED,
    Accepted,
    Claim,
    ClaimingMessages,
    ClaimingPartition,
    Headers,
    Heartbeat,
    Message,
    Record,
    Refused,
    ReleaseGroup,
    ReleasingPartition,
    step,
)
from kafka_marshal.core.claims.suffix_reader import (
    EVERYTHING,
    NOTHING,
    Field,
    Knowledge,
    Reader,
    read_record,
)
from kafka_marshal.core.messages import NO_HEADERS, NOT_DECIMAL, Offset, Partition
from kafka_marshal.core.state import Rules

INTERVAL_MS = 1000
PAUSE_MAX_MS = 5000
REWIND_MS = 1000
RULES = attrs.evolve(
    FENCED,
    heartbeat_interval_ms=INTERVAL_MS,
    pause_max_ms=PAUSE_MAX_MS,
    clock_rewind_max_ms=REWIND_MS,
)
FIRST = 10
T0 = 100_000
"""The timestamp of the first record that is read."""
PRESENT = Headers(present=True)
KEY = ("g", "t", Partition(0))
MISSED_EPOCH = 4
"""Won in the head, where nobody here has read it."""


def who(instance: str) -> tuple[int, int, str, str]:
    return 1, 0, instance, "admin" if instance == "admin" else instance[0]


def asks(instance: str) -> ClaimingPartition:
    return ClaimingPartition(*who(instance), *KEY)


def beats(instance: str, offset: int = 5) -> Heartbeat:
    return Heartbeat(*who(instance), *KEY, Offset(offset))


def wants(instance: str, offset: int = 5) -> ClaimingMessages:
    return ClaimingMessages(*who(instance), *KEY, Offset(offset))


def frees(instance: str, offset: int = 5) -> ReleasingPartition:
    return ReleasingPartition(*who(instance), *KEY, Offset(offset))


def pauses(instance: str = "admin", expires_ms: int = 0) -> ReleaseGroup:
    return ReleaseGroup(*who(instance), "g", "", Partition(0), expires_ms // 1000)


def under(epoch: int) -> Headers:
    return Headers(present=True, epoch=epoch)


def saw(seen: int, epoch: int = MISSED_EPOCH, clock: int = T0) -> Headers:
    return Headers(present=True, epoch=epoch, seen=seen, clock=clock)


@attrs.define
class Reading:
    """A reader and the log that it reads."""

    reader: Reader = attrs.field(factory=lambda: Reader.beginning_at(FIRST))
    next: int = FIRST
    rules: Rules = RULES
    verdict: object = None

    def read(self, message: Message, headers: Headers = NO_HEADERS, at_ms: int = T0) -> Reader:
        """The next record."""
        record = Record(0, self.next, at_ms, message, headers)
        self.reader, self.verdict = read_record(self.reader, record, self.rules)
        self.next += 1
        return self.reader


KNOWN_BUT_PAUSER = EVERYTHING & ~Field.PAUSER


def certified(epoch: int = MISSED_EPOCH, position: int = 5) -> Reading:
    """Everything is certain but the pauser: a1 owns."""
    log = Reading()
    log.read(beats("a1", position), saw(FIRST - 1, epoch))
    assert log.reader.certain == KNOWN_BUT_PAUSER
    return log


# --- who began at the beginning -------------------------------------------------------------------


def test_whoever_begins_at_offset_0_knows_everything_for_ever() -> None:
    log = Reading(Reader.beginning_at(0), 0)
    claim = Claim()
    records: list[tuple[Message, Headers]] = [
        (asks("a1"), PRESENT),
        (beats("a1"), saw(0, 0)),
        (asks("b1"), PRESENT),
        (pauses(), NO_HEADERS),
        (frees("a1"), under(0)),
    ]
    for message, headers in records:
        claim, verdict = step(claim, Record(0, log.next, T0, message, headers), RULES)
        reader = log.read(message, headers)
        assert (reader.claim, log.verdict) == (claim, verdict)
        assert reader.certain == EVERYTHING
        assert reader == Reader(claim=claim)


def test_whoever_begins_later_knows_nothing_and_says_so() -> None:
    reader = Reader.beginning_at(FIRST)
    assert reader.certain == NOTHING
    assert reader.undecided == FIRST - 1
    assert reader.knowledge is Knowledge.UNKNOWN


def test_fields_are_called_as_in_the_specification() -> None:
    names = {"owner", "epoch", "position", "clock", "pauser", "position_set"}
    assert EVERYTHING.names == names
    assert NOTHING.names == frozenset()


# --- certificates ---------------------------------------------------------------------------------


def test_an_owner_that_saw_all_that_is_missing_makes_its_claim_known() -> None:
    log = Reading()
    reader = log.read(beats("a1", 5), saw(FIRST - 1, clock=T0 + 7))
    assert reader.knowledge is Knowledge.KNOWN
    assert reader.certain == KNOWN_BUT_PAUSER
    assert reader.claim == Claim(
        *("a1", "a", MISSED_EPOCH, 5, T0 + 7, T0 + 7), won_with_headers=True, position_set=True
    )
    assert (reader.undecided, reader.reached, reader.alive_ms) == (None, None, None)


def test_one_record_too_few_makes_a_guess_and_no_more() -> None:
    log = Reading()
    reader = log.read(beats("a1", 5), saw(FIRST - 2))
    assert reader.knowledge is Knowledge.PROVISIONAL
    assert reader.certain == NOTHING
    assert (reader.claim.owner_instance, reader.claim.epoch) == ("a1", MISSED_EPOCH)


def test_a_request_that_may_have_won_must_be_seen_too() -> None:
    log = Reading()
    log.read(asks("b1"), PRESENT)
    assert log.reader.undecided == FIRST
    assert log.read(beats("a1"), saw(FIRST - 1)).knowledge is Knowledge.PROVISIONAL
    assert log.read(beats("a1"), saw(FIRST)).knowledge is Knowledge.KNOWN


@pytest.mark.parametrize("left_out", ["seen", "clock", "epoch"])
def test_a_record_that_does_not_say_all_certifies_nothing(left_out: str) -> None:
    log = Reading()
    says = attrs.evolve(saw(FIRST - 1), **{left_out: None})  # type: ignore[arg-type]
    assert not log.read(beats("a1"), says).known


def test_a_request_certifies_nothing_whatever_it_says() -> None:
    log = Reading()
    assert not log.read(asks("a1"), saw(FIRST - 1)).known


def test_the_clock_of_a_certificate_is_a_lower_bound_of_the_claims() -> None:
    later = Reading().read(beats("a1"), saw(FIRST - 1, clock=T0 + 1))
    earlier = Reading().read(beats("a1"), saw(FIRST - 1, clock=T0 - 1))
    assert later.claim.clock_ms == later.claim.last_heartbeat_ms == T0 + 1
    assert earlier.claim.clock_ms == earlier.claim.last_heartbeat_ms == T0


def test_a_certificate_keeps_what_was_reached_under_its_own_epoch_only() -> None:
    for epoch, position in [(MISSED_EPOCH, 9), (MISSED_EPOCH + 1, 6)]:
        log = Reading()
        log.read(beats("a1", 9), under(MISSED_EPOCH))
        reader = log.read(beats("a1", 6), saw(FIRST - 1, epoch))
        assert reader.claim.position == position
        assert Field.POSITION in reader.certain


def test_a_request_for_messages_that_is_not_ahead_is_no_sign_of_life() -> None:
    for offset, is_sign in [(9, False), (10, True)]:
        log = Reading()
        log.read(beats("a1", 9), under(MISSED_EPOCH))
        reader = log.read(wants("a1", offset), saw(FIRST - 1))
        assert reader.knowledge is Knowledge.KNOWN
        assert (Field.CLOCK in reader.certain) is is_sign


def test_a_certified_release_frees_the_claim() -> None:
    reader = Reading().read(frees("a1", 6), saw(FIRST - 1))
    assert reader.knowledge is Knowledge.KNOWN
    assert reader.claim == Claim(None, None, MISSED_EPOCH, 6, None, T0, position_set=True)
    assert reader.certain == KNOWN_BUT_PAUSER


def test_a_certified_release_behind_what_was_reached_leaves_the_position_open() -> None:
    """The sender may be the pauser; then it moved back, and what is left is a lower bound."""
    for offset, headers, is_certain, position in [
        (8, saw(FIRST - 1), False, 8),
        (9, saw(FIRST - 1), True, 9),
        (8, attrs.evolve(saw(FIRST - 1), set_position=8), True, 8),
    ]:
        log = Reading()
        log.read(beats("a1", 9), under(MISSED_EPOCH))
        reader = log.read(frees("a1", offset), headers)
        assert (Field.POSITION in reader.certain) is is_certain
        assert reader.claim.position == position


# --- whether the position was ever set ------------------------------------------------------------


BEGAN = attrs.evolve(saw(FIRST - 1), start=0)


@pytest.mark.parametrize(
    ("message", "headers", "is_set"),
    [
        (beats("a1", 0), saw(FIRST - 1), False),
        (beats("a1", 0), BEGAN, True),
        (beats("a1", 1), saw(FIRST - 1), True),
        (wants("a1", 0), BEGAN, False),
        (wants("a1", 1), saw(FIRST - 1), True),
        (frees("a1", 0), saw(FIRST - 1), False),
        (frees("a1", 0), BEGAN, True),
        (frees("a1", 0), attrs.evolve(saw(FIRST - 1), set_position=0), True),
    ],
)
def test_who_began_late_knows_that_the_position_was_set_and_never_that_it_was_not(
    message: Message, headers: Headers, is_set: bool
) -> None:
    log = Reading()
    assert Field.POSITION_SET not in log.reader.certain
    reader = log.read(message, headers)
    assert reader.known
    assert reader.claim.position_set is is_set
    assert (Field.POSITION_SET in reader.certain) is is_set
    for later in (pauses(), asks("b1")):
        lasting = log.read(later, PRESENT, T0 + 9)
        assert (Field.POSITION_SET in lasting.certain) is is_set


def test_a_guess_sets_no_position() -> None:
    log = Reading()
    for message, headers in [(beats("a1", 7), under(2)), (beats("a1", 7), NO_HEADERS)]:
        assert not log.read(message, headers).claim.position_set
    assert log.reader.certain == NOTHING


# --- guesses --------------------------------------------------------------------------------------


def test_the_newest_epoch_is_the_best_guess() -> None:
    log = Reading()
    log.read(beats("a1", 3), under(2))
    reader = log.read(beats("b1", 1), under(3))
    assert (reader.claim.owner_instance, reader.claim.epoch, reader.reached) == ("b1", 3, 1)
    older = log.read(beats("a1", 9), under(2))
    assert older.claim == reader.claim
    assert older.reached == 1


def test_a_guess_remembers_how_far_its_owner_got() -> None:
    log = Reading()
    log.read(beats("a1", 3), under(2))
    assert log.read(beats("a1", 7), under(2)).reached == 7
    assert log.read(beats("a1", 5), under(2)).reached == 7
    assert log.reader.claim.position == 7


def test_a_guessed_release_is_a_guess_that_nobody_owns() -> None:
    log = Reading()
    reader = log.read(frees("a1", 3), under(2))
    assert reader.knowledge is Knowledge.PROVISIONAL
    assert not reader.claim.owned
    assert (reader.claim.position, reader.claim.epoch) == (3, 2)


def test_a_bare_heartbeat_is_a_guess_until_somebody_names_an_epoch() -> None:
    log = Reading()
    reader = log.read(beats("a1", 3))
    assert reader.knowledge is Knowledge.PROVISIONAL
    assert (reader.claim.owner_instance, reader.claim.position) == ("a1", 3)
    assert reader.certain == NOTHING
    log.read(beats("b1", 1), under(2))
    later = log.read(beats("a1", 9), at_ms=T0 + 5)
    assert later.claim.owner_instance == "b1"
    assert later.alive_ms == T0 + 5, "an owner that we do not know may be alive"


def test_a_bare_release_ends_a_bare_guess() -> None:
    log = Reading()
    log.read(beats("a1", 3))
    reader = log.read(frees("a1", 4))
    assert not reader.claim.owned
    assert reader.claim.position == 3
    assert reader.knowledge is Knowledge.UNKNOWN


# --- a pause --------------------------------------------------------------------------------------


def test_after_a_release_group_nobody_owns_for_certain() -> None:
    log = Reading()
    log.read(beats("a1", 9), under(2))
    reader = log.read(pauses(), at_ms=T0 + 1)
    assert reader.knowledge is Knowledge.KNOWN
    assert reader.certain == Field.OWNER | Field.PAUSER
    assert not reader.claim.owned
    assert (reader.claim.pauser, reader.claim.position) == ("admin", 0)


@pytest.mark.parametrize("version", [2, 7])
def test_a_release_group_of_a_later_version_says_nothing(version: int) -> None:
    log = Reading()
    message = attrs.evolve(pauses(), version=version)
    assert not log.read(message).known
    assert log.reader.claim.clock_ms == T0


def test_a_release_group_counts_whatever_its_headers_say() -> None:
    assert Reading().read(pauses(), under(NOT_DECIMAL)).known


# --- silence --------------------------------------------------------------------------------------


HEAD_MS = T0 + REWIND_MS
PAUSE_OVER_MS = HEAD_MS + PAUSE_MAX_MS


def first_then_request(request_ms: int, alive_ms: int | None = None) -> Reading:
    """A record of no meaning, perhaps a heartbeat of somebody, and b1's request."""
    log = Reading()
    log.read(beats("x1"), under(FIRST), T0)  # From the future: it moves the clock only.
    if alive_ms is not None:
        log.read(beats("a1"), NO_HEADERS, alive_ms)
    log.read(asks("b1"), PRESENT, request_ms)
    return log


def test_a_request_wins_once_no_pause_of_the_head_can_hold() -> None:
    at, after = first_then_request(PAUSE_OVER_MS), first_then_request(PAUSE_OVER_MS + 1)
    assert not at.reader.known
    assert after.reader.knowledge is Knowledge.KNOWN
    assert after.reader.certain == Field.OWNER | Field.EPOCH | Field.CLOCK
    assert after.reader.claim == Claim(
        *("b1", "b", FIRST + 1, 0, PAUSE_OVER_MS + 1, PAUSE_OVER_MS + 1, True)
    )


def test_a_request_wins_once_everybody_was_silent_for_more_than_two_intervals() -> None:
    alive_ms = PAUSE_OVER_MS
    twice = alive_ms + 2 * INTERVAL_MS
    assert not first_then_request(twice, alive_ms).reader.known
    won = first_then_request(twice + 1, alive_ms).reader
    assert won.knowledge is Knowledge.KNOWN
    assert won.claim.position == 0, "what was guessed is no lower bound"


def test_an_owner_of_the_head_may_have_been_alive_at_its_end() -> None:
    """Where a pause is over sooner than an owner is stale."""
    for silent_ms, wins in [(2 * INTERVAL_MS, False), (2 * INTERVAL_MS + 1, True)]:
        log = Reading(rules=attrs.evolve(RULES, pause_max_ms=1))
        log.read(beats("x1"), under(FIRST))
        assert log.read(asks("b1"), PRESENT, HEAD_MS + silent_ms).known is wins


READ_MS = PAUSE_OVER_MS - PAUSE_OVER_MS % 1000 + 1000
"""When a pause is read of, if that is long after the head."""


def paused_then_requests(read_ms: int, until_ms: int, *requests_ms: int) -> Reading:
    """A record of no meaning, a pause, and b1's requests."""
    log = Reading()
    log.read(beats("x1"), under(FIRST), T0)
    log.read(pauses(expires_ms=until_ms), at_ms=read_ms)
    for request_ms in requests_ms:
        log.read(asks("b1"), PRESENT, request_ms)
    return log


def test_whoever_read_of_a_pause_knows_its_own_win_once_it_is_over() -> None:
    until_ms = READ_MS + PAUSE_MAX_MS
    doubtful = paused_then_requests(READ_MS, until_ms, until_ms)
    assert doubtful.reader.undecided == FIRST + 2, "it may have won"
    won = paused_then_requests(READ_MS, until_ms, until_ms, until_ms + 2 * INTERVAL_MS + 1).reader
    assert won.knowledge is Knowledge.KNOWN
    assert won.certain == Field.OWNER | Field.EPOCH | Field.CLOCK | Field.PAUSER
    assert (won.claim.owner_instance, won.claim.epoch) == ("b1", FIRST + 3)
    assert not won.claim.paused, "the pause that is remembered is over"


def test_a_request_in_a_pause_that_was_read_wins_nothing() -> None:
    """However long ago every pause of the head was over."""
    until_ms = READ_MS + PAUSE_MAX_MS
    before, at = (
        paused_then_requests(READ_MS, until_ms, READ_MS, ask_ms).reader
        for ask_ms in (until_ms - 1, until_ms)
    )
    assert not before.known
    assert at.claim.owner_instance == "b1"


def test_a_pause_that_was_read_may_last_as_long_as_one_of_the_head() -> None:
    """Where the true clock was ahead of ours it was cut later than for us."""
    ours_ms = T0 + PAUSE_MAX_MS
    log = paused_then_requests(T0, T0 + 2 * PAUSE_MAX_MS, T0, ours_ms)
    assert log.reader.claim.paused_until_ms == ours_ms
    assert not log.reader.known
    for request_ms, is_known in [(PAUSE_OVER_MS, False), (PAUSE_OVER_MS + 1, True)]:
        log = paused_then_requests(T0, T0 + 2 * PAUSE_MAX_MS, T0, request_ms)
        assert log.reader.known is is_known


@pytest.mark.parametrize(("instance", "ends"), [("admin", True), ("b1", False)])
def test_a_win_by_silence_ends_the_pause_of_its_own_sender_alone(instance: str, ends: bool) -> None:
    log = paused_then_requests(T0, T0 + PAUSE_MAX_MS, T0)
    won = log.read(asks(instance), PRESENT, PAUSE_OVER_MS + 1)
    assert won.claim.owner_instance == instance
    assert (won.claim.paused_until_ms is None) is ends


def test_a_request_that_may_have_won_counts_as_alive() -> None:
    log = first_then_request(PAUSE_OVER_MS)
    assert log.reader.undecided == FIRST + 1
    log.read(asks("c1"), PRESENT, PAUSE_OVER_MS + 2 * INTERVAL_MS)
    assert not log.reader.known
    assert log.reader.alive_ms == PAUSE_OVER_MS + 2 * INTERVAL_MS


def test_without_headers_a_win_is_one_without_headers() -> None:
    log = Reading()
    log.read(beats("x1"), under(FIRST))
    log.read(asks("b1"), NO_HEADERS, PAUSE_OVER_MS + 1)
    assert log.reader.known
    assert not log.reader.claim.won_with_headers


@pytest.mark.parametrize("odd", [under(NOT_DECIMAL), under(FIRST + 1), saw(FIRST + 1)])
def test_a_record_with_odd_headers_only_moves_the_clock(odd: Headers) -> None:
    log = Reading()
    before = log.read(beats("x1"), under(FIRST))
    for message in (asks("b1"), beats("a1"), frees("a1"), wants("a1")):
        log.next = FIRST + 1
        log.reader = before
        after = log.read(message, odd, PAUSE_OVER_MS + 1)
        expected = attrs.evolve(before.claim, clock_ms=PAUSE_OVER_MS + 1)
        assert after == attrs.evolve(before, claim=expected)


# --- the owner is certain -------------------------------------------------------------------------


def test_a_known_claim_is_judged_as_by_those_who_read_all_of_it() -> None:
    log = certified()
    records: list[tuple[Message, Headers, int, object]] = [
        (beats("a1", 6), under(MISSED_EPOCH), 1, Accepted.REFRESHED),
        (beats("b1", 9), under(MISSED_EPOCH), 2, Refused.FORGED),
        (asks("b1"), PRESENT, 1 + 2 * INTERVAL_MS, Refused.LIVE_OWNER),
        (asks("b1"), PRESENT, 2 + 2 * INTERVAL_MS, Accepted.TOOK_OVER),
    ]
    for message, headers, later_ms, verdict in records:
        log.read(message, headers, T0 + later_ms)
        assert log.verdict is verdict
    reader = log.reader
    assert reader.certain == KNOWN_BUT_PAUSER
    assert reader.claim.position == 6


def without_clock() -> Reading:
    """a1 owns for certain, won within what the head's clock may reach, so its time is not."""
    log = Reading()
    log.read(pauses(expires_ms=0))
    log.read(asks("a1"), NO_HEADERS, HEAD_MS)
    assert log.reader.certain == Field.OWNER | Field.EPOCH | Field.PAUSER
    return log


def test_a_win_later_than_the_head_can_be_makes_the_clock_certain() -> None:
    log = Reading()
    log.read(pauses(expires_ms=0))
    assert Field.CLOCK in log.read(asks("a1"), PRESENT, HEAD_MS + 1).certain


def test_without_the_clock_a_request_of_another_leaves_the_owner_open() -> None:
    for instance, headers in [("b1", NO_HEADERS), ("b1", Headers(True, supersedes=FIRST + 1))]:
        log = without_clock()
        reader = log.read(asks(instance), headers, HEAD_MS + 1)
        assert log.verdict is None
        assert reader.certain == Field.PAUSER
        assert (reader.undecided, reader.alive_ms) == (FIRST + 2, HEAD_MS + 1)
        assert reader.claim.owner_instance == "a1"


def test_without_the_clock_a_restart_and_the_owner_itself_are_decided() -> None:
    for instance, verdict in [("a1", Accepted.RECLAIMED), ("a2", Accepted.RESTARTED)]:
        log = without_clock()
        assert log.read(asks(instance), NO_HEADERS, HEAD_MS).known
        assert log.verdict is verdict


def test_without_the_clock_a_pause_may_be_over_and_only_the_pauser_is_decided() -> None:
    for instance, is_known in [("admin", True), ("b1", False)]:
        log = Reading()
        log.read(pauses(expires_ms=T0 + PAUSE_MAX_MS))
        assert log.read(asks(instance), PRESENT).known is is_known


def test_a_certificate_of_a_known_owner_makes_position_and_clock_certain() -> None:
    log = without_clock()
    headers = Headers(True, epoch=FIRST + 1, seen=FIRST + 1, clock=T0 + 3000)
    reader = log.read(beats("a1", 8), headers, HEAD_MS)
    assert reader.certain == EVERYTHING
    assert reader.claim.clock_ms == reader.claim.last_heartbeat_ms == T0 + 3000
    assert reader.claim.position == 8


def test_a_record_that_says_half_of_what_it_saw_certifies_no_more() -> None:
    log = without_clock()
    reader = log.read(beats("a1", 8), Headers(True, epoch=FIRST + 1, seen=FIRST + 1), HEAD_MS)
    assert log.verdict is Accepted.REFRESHED
    assert Field.POSITION not in reader.certain
    assert reader.claim.position == 8, "a lower bound"


def test_a_grant_or_not_depends_on_the_position_and_so_does_the_clock() -> None:
    for offset, verdict in [(8, Accepted.GRANTED), (0, Refused.NOT_AHEAD)]:
        log = Reading()
        log.read(pauses(expires_ms=0))
        log.read(asks("a1"), NO_HEADERS, HEAD_MS + 1)
        assert Field.CLOCK in log.reader.certain
        reader = log.read(wants("a1", offset), NO_HEADERS, HEAD_MS + 2)
        assert log.verdict is verdict
        assert Field.CLOCK not in reader.certain


def test_a_release_of_an_owner_that_may_be_the_pauser_makes_the_position_a_lower_bound() -> None:
    log = certified(position=7)
    reader = log.read(frees("a1", 5), under(MISSED_EPOCH))
    assert log.verdict is Accepted.RELEASED
    assert reader.claim.position == 5
    assert Field.POSITION not in reader.certain
    assert {Field.OWNER, Field.EPOCH} <= set(reader.certain)
    ahead = certified(position=7)
    assert Field.POSITION in ahead.read(frees("a1", 7), under(MISSED_EPOCH)).certain


def test_a_release_that_says_where_it_sets_the_position_is_certain() -> None:
    log = certified(position=7)
    headers = attrs.evolve(under(MISSED_EPOCH), set_position=5)
    reader = log.read(frees("a1", 5), headers)
    assert log.verdict is Accepted.POSITION_SET
    assert reader.claim.position == 5
    assert Field.POSITION in reader.certain


def test_a_negative_release_of_who_may_be_the_pauser_is_undecided() -> None:
    log = certified()
    assert not log.read(frees("a1", -1), under(MISSED_EPOCH)).known
    assert log.verdict is None
    other = certified()
    assert other.read(frees("b1", -1), under(MISSED_EPOCH)).known
    assert other.verdict is Refused.FORGED


def test_a_release_group_makes_the_pauser_certain_and_leaves_the_rest() -> None:
    log = certified(position=7)
    reader = log.read(pauses())
    assert reader.certain == EVERYTHING
    assert (reader.claim.owned, reader.claim.position) == (False, 7)

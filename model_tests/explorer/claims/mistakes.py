"""Mistakes of a machine or a reader: rules that it forgets, and slips of the pen.

Those of `AS_SPECIFIED` and `READERS` are the mistakes that configurations in `spec/` make: the
explorer finds the same property broken after as many states as TLC. `SLIPS` are seen in the edges
that TLC exports: the machine does something else there. Those of administrators are in
`admins.mistakes`. A mistake that walks notice too is made by `mutants.walked`.
"""

from __future__ import annotations

import attrs

from kafka_marshal import ClaimingMessages, Record, Rules, Verdict
from kafka_marshal.core.claims import suffix_reader as knowledge
from kafka_marshal.core.claims.suffix_reader import Field, Reader
from kafka_marshal.core.messages import Offset
from kafka_marshal.core.state import Claim
from kafka_marshal.machines.consumer import consumer as machine
from kafka_marshal.machines.consumer.consumer import ConsumerState, Forbidden, InstanceConfig
from model_tests.mutants import walked
from model_tests.mutants.hand_made import HandMade


def grants_what_was_asked(
    me: InstanceConfig, before: Reader, record: Record, verdict: Verdict | None
) -> range:
    """Spec: GrantsWhatWasAsked."""
    message = record.message
    if isinstance(message, ClaimingMessages) and message.instance_id == me.instance_id:
        return range(message.offset - 1, message.offset)
    return range(0)


def commits_ahead(me: InstanceConfig, consumer: ConsumerState) -> Offset:
    """Spec: CommitsAhead, of worlds with two messages."""
    return Offset(min(consumer.next + 1, 2))


def never_set_at_zero(reader: Reader) -> bool:
    """Spec: NeverSetAtZero."""
    return reader.claim.position == 0


def never_set_as_far_as_known(reader: Reader) -> bool:
    """Spec: NeverSetAsFarAsKnown."""
    return not reader.claim.position_set


def set_or_not(claim: Claim) -> Field:
    """Spec: SetOrNot."""
    return Field.POSITION_SET


def gap_passed_over(me: InstanceConfig, consumer: ConsumerState, first: int) -> ConsumerState:
    """Spec: GapPassedOver."""
    return attrs.evolve(consumer, view=first)


def gap_before_seen(me: InstanceConfig, consumer: ConsumerState, first: int) -> ConsumerState:
    """Spec: GapBeforeSeen."""
    reader = attrs.evolve(consumer.reader, certain=knowledge.NOTHING)
    return attrs.evolve(consumer, reader=reader, view=first, asked=False)


AS_SPECIFIED: tuple[HandMade, ...] = (
    HandMade("GapPassedOver", "a gap is passed over", machine, "after_gap", gap_passed_over),
    HandMade(
        "GapBeforeSeen",
        "what an owner saw before a gap certifies after it",
        machine,
        "after_gap",
        gap_before_seen,
    ),
    HandMade(
        "NeverSetAtZero",
        "position 0 is taken for never set",
        machine,
        "never_set",
        never_set_at_zero,
    ),
    HandMade(
        "NeverSetAsFarAsKnown",
        "what a late reader has not read of is taken for never set",
        machine,
        "never_set",
        never_set_as_far_as_known,
    ),
    HandMade(
        "GrantsItself",
        "R4: asking is taken for being granted",
        machine,
        "after_claiming_messages",
        walked.grants_itself,
    ),
    HandMade(
        "GrantsWhatWasAsked",
        "R4: what it asked for, and not what was granted",
        machine,
        "grant_read",
        grants_what_was_asked,
    ),
    HandMade(
        "ByClientId",
        "R2: it believes by its client id",
        machine,
        "owns",
        walked.believes_by_client,
    ),
    HandMade(
        "CommitsAhead",
        "it commits before it processed",
        machine,
        "offset_to_send",
        commits_ahead,
    ),
    HandMade(
        "ActsAfterRelease",
        "R7: it acts on after its release was sent",
        machine,
        "has_resigned",
        walked.never_resigned,
    ),
    HandMade("NoWindow", "R5: no window", machine, "in_window", walked.in_any_window),
    HandMade(
        "CertifiesAlways",
        "it certifies a position that it does not know",
        machine,
        "can_certify",
        walked.certifies_always,
    ),
)
"""Mistakes that break a property, as the specification says."""


_may_claim = machine.may_claim
_after_read = machine.after_read


def asks_again(me: InstanceConfig, consumer: ConsumerState) -> Forbidden | None:
    """R6 left out."""
    return _may_claim(me, attrs.evolve(consumer, asked=False))


def never_read_back(me: InstanceConfig, consumer: ConsumerState, record: Record) -> ConsumerState:
    """R6: what it asked is never read back."""
    after = _after_read(me, consumer, record)
    return attrs.evolve(after, asked=consumer.asked)


def one_too_far(me: InstanceConfig, consumer: ConsumerState) -> bool:
    """R5: the window is one message too long."""
    return consumer.next <= machine.floor(me, consumer.reader) + me.window


def only_the_position(me: InstanceConfig, consumer: ConsumerState) -> Offset:
    """The end of what was granted is forgotten, and so is what ALO processed."""
    return Offset(consumer.known.position)


def position_at_any_price(me: InstanceConfig, consumer: ConsumerState) -> Forbidden | None:
    """At most once it claims where it does not know the position."""
    certain = consumer.reader.certain | Field.POSITION
    return _may_claim(
        me, attrs.evolve(consumer, reader=attrs.evolve(consumer.reader, certain=certain))
    )


def remembers_nothing(me: InstanceConfig, consumer: ConsumerState) -> ConsumerState:
    """What was granted is processed again and again."""
    return consumer


SLIPS: tuple[HandMade, ...] = (
    HandMade("AsksAgain", "R6: it asks while it waits", machine, "may_claim", asks_again),
    HandMade("NeverReadBack", "R6: it waits for ever", machine, "after_read", never_read_back),
    HandMade("OneTooFar", "R5: a window of one more", machine, "in_window", one_too_far),
    HandMade(
        "OnlyThePosition",
        "the position in the place of how far it got",
        machine,
        "offset_to_send",
        only_the_position,
    ),
    HandMade(
        "SeesTooMuch", "`seen` is one too high", machine, "_owner_headers", walked.sees_too_much
    ),
    HandMade(
        "PositionAtAnyPrice",
        "AMO: it claims without the position",
        machine,
        "may_claim",
        position_at_any_price,
    ),
    HandMade(
        "NeverStops",
        "it takes turns with its own client id",
        machine,
        "lost_to_own_client",
        walked.never_lost,
    ),
    HandMade(
        "NamesNobody",
        "R1b: a restart that names no tenure",
        machine,
        "supersedes_of",
        walked.supersedes_nothing,
    ),
    HandMade(
        "ProcessesForEver",
        "a grant is processed and kept",
        machine,
        "after_process_grant",
        remembers_nothing,
    ),
)
"""Mistakes that only somebody notices who knows what the machine must do."""

MACHINES = AS_SPECIFIED + SLIPS


# --- readers -------------------------------------------------------------------------------------


def epoch_certifies(reader: Reader, record: Record) -> bool:
    """Spec: EpochCertifies."""
    return True


def epoch_and_a_while(reader: Reader, record: Record) -> bool:
    """Spec: EpochAndAWhile."""
    return reader.reached is not None


def _silent_ms(reader: Reader, claim: Claim) -> int:
    assert reader.head_ms is not None
    return claim.clock_ms - knowledge._highest(reader.head_ms, reader.alive_ms)


def _no_pause_left(reader: Reader, claim: Claim, rules: Rules) -> bool:
    assert reader.head_ms is not None
    read_is_over = claim.paused_until_ms is None or claim.clock_ms >= claim.paused_until_ms
    return read_is_over and claim.clock_ms > reader.head_ms + rules.pause_max_ms


def wins_after_pause_read(reader: Reader, claim: Claim, rules: Rules) -> bool:
    """Spec: WinsAfterPauseRead."""
    assert reader.head_ms is not None
    if claim.paused_until_ms is None:
        over = claim.clock_ms > reader.head_ms + rules.pause_max_ms
    else:
        over = claim.clock_ms >= claim.paused_until_ms
    return over and _silent_ms(reader, claim) > rules.stale_after_ms


def wins_over_requests(reader: Reader, claim: Claim, rules: Rules) -> bool:
    """Spec: WinsOverRequests."""
    assert reader.head_ms is not None
    silent = claim.clock_ms - reader.head_ms > rules.stale_after_ms
    return silent and _no_pause_left(reader, claim, rules)


def wins_at_two_intervals(reader: Reader, claim: Claim, rules: Rules) -> bool:
    """Spec: WinsAtTwoIntervals."""
    silent = _silent_ms(reader, claim) >= rules.stale_after_ms
    return silent and _no_pause_left(reader, claim, rules)


CERTIFIES = knowledge, "_certifies"
DEFINITE_WIN = knowledge, "_definite_win"

READERS: tuple[HandMade, ...] = (
    HandMade(
        "SetOrNot",
        "who knows the owner knows that nobody set the position",
        knowledge,
        "_certain_if_set",
        set_or_not,
    ),
    HandMade("EpochOnly", "the epoch certifies", *CERTIFIES, epoch_certifies),
    HandMade("EpochAndAWhile", "the epoch certifies, twice", *CERTIFIES, epoch_and_a_while),
    HandMade(
        "SeenAnything", "`seen` certifies, whatever came after", *CERTIFIES, walked.seen_anything
    ),
    HandMade("SeenAlmostAll", "`seen` one record too early", *CERTIFIES, walked.seen_almost_all),
    HandMade(
        "WinsWithoutPause", "silence wins, pause or not", *DEFINITE_WIN, walked.wins_without_pause
    ),
    HandMade("WinsAfterPauseRead", "a pause's end is exact", *DEFINITE_WIN, wins_after_pause_read),
    HandMade("WinsOverRequests", "requests are no signs", *DEFINITE_WIN, wins_over_requests),
    HandMade("WinsAtTwoIntervals", "exactly twice is silent", *DEFINITE_WIN, wins_at_two_intervals),
)

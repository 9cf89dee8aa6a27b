"""Hand-made mutants that take a whole walk to notice: of machines, of late readers, of the reducer.

No single step shows them. Names are those of the configurations in `spec/` where the same mistake
is made there (`Spec:` names its operator); the explorer makes those mistakes by the same functions.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from kafka_marshal import Claim, Record, Verdict, step
from kafka_marshal.core.claims import fenced
from kafka_marshal.core.claims import suffix_reader as knowledge
from kafka_marshal.core.claims.invariants import Property
from kafka_marshal.core.claims.suffix_reader import Field, Reader
from kafka_marshal.core.messages import Headers, Offset
from kafka_marshal.core.state import Rules
from kafka_marshal.machines.consumer import consumer as machine
from kafka_marshal.machines.consumer.consumer import ConsumerState, InstanceConfig
from model_tests.mutants.hand_made import HandMade, validated, walk

P = Property

# The right ones, from before any mistake is made.
_after_fold = machine.after_fold
_after_read = machine.after_read
_owner_headers = machine._owner_headers
_offset_to_send = machine.offset_to_send
_grant_read = machine.grant_read
_certified = knowledge._certified
_grant: Callable[..., tuple[Claim, Verdict]] = fenced.claiming_messages


def grants_itself(me: InstanceConfig, consumer: ConsumerState, offset: int) -> ConsumerState:
    """Spec: GrantsItself."""
    more = range(consumer.known.position, offset)
    return attrs.evolve(consumer, granted=machine._together(consumer.granted, more))


def takes_any_grant(
    me: InstanceConfig, before: Reader, record: Record, verdict: Verdict | None
) -> range:
    other = attrs.evolve(me, instance_id=record.message.instance_id)
    return _grant_read(other, before, record, verdict)


def takes_doubtful_grants(
    me: InstanceConfig, before: Reader, record: Record, verdict: Verdict | None
) -> range:
    sure = attrs.evolve(before, certain=before.certain | Field.POSITION)
    return _grant_read(me, sure, record, verdict)


def believes_by_client(me: InstanceConfig, reader: Reader) -> bool:
    """Spec: BelievesByClient."""
    return reader.known and reader.claim.owned and reader.claim.owner_client == me.client_id


def never_resigned(me: InstanceConfig, consumer: ConsumerState, claim: Claim) -> bool:
    """Spec: NeverResigned."""
    return False


def in_any_window(me: InstanceConfig, consumer: ConsumerState) -> bool:
    """Spec: InAnyWindow."""
    return True


def starts_where_it_was(
    me: InstanceConfig,
    consumer: ConsumerState,
    record: Record,
    after: Reader,
    verdict: Verdict | None,
) -> ConsumerState:
    read = _after_fold(me, consumer, record, after, verdict)
    return attrs.evolve(read, next=consumer.next)


def by_a_clock_of_its_own(
    me: InstanceConfig, consumer: ConsumerState, record: Record
) -> ConsumerState:
    twice = 2 if me.client_id == "b" else 1
    record = attrs.evolve(record, timestamp_ms=twice * record.timestamp_ms)
    return _after_read(me, consumer, record)


def commits_ahead(me: InstanceConfig, consumer: ConsumerState) -> Offset:
    return Offset(_offset_to_send(me, consumer) + 1)


def certifies_always(me: InstanceConfig, consumer: ConsumerState) -> bool:
    """Spec: CertifiesAlways."""
    return me.certifies


def sees_too_much(me: InstanceConfig, consumer: ConsumerState, **said: int | None) -> Headers:
    headers = _owner_headers(me, consumer, **said)
    return attrs.evolve(headers, seen=None if headers.seen is None else headers.seen + 1)


def another_clock(me: InstanceConfig, consumer: ConsumerState, **said: int | None) -> Headers:
    headers = _owner_headers(me, consumer, **said)
    return attrs.evolve(headers, clock=None if headers.clock is None else headers.clock + 1)


def no_epoch(me: InstanceConfig, consumer: ConsumerState, **said: int | None) -> Headers:
    return attrs.evolve(_owner_headers(me, consumer, **said), epoch=None)


def forgets_that_it_asked(me: InstanceConfig, consumer: ConsumerState) -> ConsumerState:
    return consumer


def supersedes_nothing(me: InstanceConfig, consumer: ConsumerState) -> int | None:
    return None


def never_lost(me: InstanceConfig, acted_before: bool, after: Reader) -> bool:
    return False


def grant_is_no_sign_of_life(claim: Claim, *rest: object) -> tuple[Claim, Verdict]:
    after, verdict = _grant(claim, *rest)
    return attrs.evolve(after, last_heartbeat_ms=claim.last_heartbeat_ms), verdict


def seen_anything(reader: Reader, record: Record) -> bool:
    """Spec: SeenAnything."""
    return knowledge._says_what_it_saw(record)


def seen_almost_all(reader: Reader, record: Record) -> bool:
    """Spec: SeenAlmostAll."""
    last, seen = knowledge._highest(reader.undecided), record.headers.seen
    return seen_anything(reader, record) and seen is not None and seen >= last - 1


def never_certified(reader: Reader, record: Record) -> bool:
    return False


def wins_without_pause(reader: Reader, claim: Claim, rules: Rules) -> bool:
    """Spec: WinsWithoutPause."""
    alive_ms = knowledge._highest(reader.head_ms, reader.alive_ms)
    return claim.clock_ms - alive_ms > rules.stale_after_ms


def forgets_what_was_reached(reader: Reader, *rest: object) -> Reader:
    certified: Callable[..., Reader] = _certified
    return certified(attrs.evolve(reader, reached=None), *rest)


def no_guess(reader: Reader, *_: object) -> Reader:
    return reader


def keeps_guess(reader: Reader, record: Record, rules: Rules) -> Reader:
    claim, _ = step(reader.claim, record, rules)
    return knowledge._known(reader, claim, Field.OWNER | Field.PAUSER)


def always_decided(*_: object) -> bool:
    return True


MACHINE: tuple[HandMade, ...] = (
    HandMade(
        "GrantNotAwaited",
        "R4: it processes what it asked for when it asks",
        machine,
        "after_claiming_messages",
        grants_itself,
        walk(P.AT_MOST_ONCE) + validated(P.AT_MOST_ONCE),
    ),
    HandMade(
        "TakesAnyGrant",
        "R4: it processes what others were granted",
        machine,
        "grant_read",
        takes_any_grant,
        walk(P.AT_MOST_ONCE) + validated(P.AT_MOST_ONCE),
    ),
    HandMade(
        "BelievesByClient",
        "R2: it acts by its client id",
        machine,
        "owns",
        believes_by_client,
        walk(P.MUTEX) + validated(P.MUTEX),
    ),
    HandMade(
        "OwnClocks",
        "each judges by a clock of its own",
        machine,
        "after_read",
        by_a_clock_of_its_own,
        walk(P.READERS_AGREE),
    ),
    HandMade(
        "ResignedIgnored",
        "R7: it acts on after it sent its release",
        machine,
        "has_resigned",
        never_resigned,
        walk(P.RELEASE_REPEATS_NOTHING) + validated(P.RELEASE_REPEATS_NOTHING),
    ),
    HandMade(
        "WindowIgnored",
        "R5: no window",
        machine,
        "in_window",
        in_any_window,
        walk(P.REPROCESSING_BOUND) + validated(P.REPROCESSING_BOUND),
    ),
    HandMade(
        "StartsWhereItWas",
        "a tenure begins where its owner was, not where the log is",
        machine,
        "after_fold",
        starts_where_it_was,
        walk(P.REPROCESSING_BOUND) + validated(P.NONE_SKIPPED),
    ),
    HandMade(
        "CommitsOneAhead",
        "it commits a message that it has not processed",
        machine,
        "offset_to_send",
        commits_ahead,
        walk(P.NONE_SKIPPED) + validated(P.FENCED),
    ),
    HandMade(
        "CertifiesWithoutPosition",
        "it certifies a position that it does not know",
        machine,
        "can_certify",
        certifies_always,
        walk(P.SUFFIX_EXACT),
    ),
    HandMade(
        "SeenOffByOne",
        "`seen` is one too high",
        machine,
        "_owner_headers",
        sees_too_much,
        walk(P.SUFFIX_EXACT) + validated(P.FENCED),
    ),
    HandMade(
        "AnotherClock",
        "`clock` is not the claim's",
        machine,
        "_owner_headers",
        another_clock,
        walk(P.SUFFIX_EXACT) + validated(P.FENCED),
    ),
)
"""Mistakes of a consumer that break a promise."""

LATE: tuple[HandMade, ...] = (
    HandMade(
        "SeenAnything",
        "whatever came after what the sender saw",
        knowledge,
        "_certifies",
        seen_anything,
        walk(P.SUFFIX_EXACT),
    ),
    HandMade(
        "SeenAlmostAll",
        "certified by one record too few",
        knowledge,
        "_certifies",
        seen_almost_all,
        walk(P.SUFFIX_EXACT),
    ),
    HandMade(
        "NeverCertified",
        "nothing is ever certified",
        knowledge,
        "_certifies",
        never_certified,
        walk(P.SUFFIX_BECOMES_KNOWN),
    ),
    HandMade(
        "WinsWithoutPause",
        "silence alone makes a win definite",
        knowledge,
        "_definite_win",
        wins_without_pause,
        walk(P.SUFFIX_EXACT),
    ),
    HandMade(
        "ForgetsWhatWasReached",
        "the position of one record, when another was ahead",
        knowledge,
        "_certified",
        forgets_what_was_reached,
        walk(P.SUFFIX_EXACT),
    ),
    HandMade(
        "NoGuess",
        "nobody guesses",
        knowledge,
        "_guessed",
        no_guess,
        walk(P.SUFFIX_GUESS_RIGHT),
    ),
    HandMade(
        "KeepsGuess",
        "a guessed position outlives the guess",
        knowledge,
        "_release_group",
        keeps_guess,
        walk(P.SUFFIX_LOWER_BOUND),
    ),
    HandMade(
        "AlwaysDecided",
        "a late reader takes its clock for the claim's",
        knowledge,
        "_decided",
        always_decided,
        walk(P.SUFFIX_EXACT),
    ),
)
"""Mistakes of readers that began in the middle."""

REDUCER: tuple[HandMade, ...] = (
    HandMade(
        "GrantIsNoSignOfLife",
        "a grant does not refresh its owner",
        fenced,
        "claiming_messages",
        grant_is_no_sign_of_life,
        walk(P.LIVE_OWNER_KEPT),
    ),
)
"""Of the reducer: right by every step, and wrong by what the owner did before."""

HARMLESS: tuple[HandMade, ...] = (
    HandMade(
        "AskedIgnored",
        "R6: it asks again while it waits",
        machine,
        "after_claiming_partition",
        forgets_that_it_asked,
    ),
    HandMade(
        "EpochNotSent",
        "an owner's records name no epoch",
        machine,
        "_owner_headers",
        no_epoch,
    ),
    HandMade(
        "SupersedesNothing",
        "R1b: a restart names no tenure",
        machine,
        "supersedes_of",
        supersedes_nothing,
    ),
    HandMade(
        "NeverLost",
        "two instances of one client id take turns",
        machine,
        "lost_to_own_client",
        never_lost,
    ),
    HandMade(
        "DoubtfulGrants",
        "R4: granted while it did not know the position",
        machine,
        "grant_read",
        takes_doubtful_grants,
    ),
)
"""Mistakes that no property forbids. R6 keeps a consumer from winning a claim that it no longer
wants and nothing else (spec/NOTES.md). Who names no epoch is refused (EpochMissing), and who names
no tenure waits until its predecessor is stale: both cost time and no promise. Two that take turns
never act under one epoch. Without a known position nothing may be asked, so there is no
such grant. The machine's answers (`walks.refusals`) and the edges of TLC tell them from the right
ones."""

MUTANTS: tuple[HandMade, ...] = (*MACHINE, *LATE, *REDUCER)

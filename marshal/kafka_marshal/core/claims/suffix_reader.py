"""What a reader knows of a claim if it began to read in the middle of the log.

Retention deletes the head of a log, and some readers skip most of a long log. A reader that missed
the winning record never takes a guess for a fact: every field that it considers certain equals that
of the full fold (SuffixExact). This module folds records into such knowledge, by the fenced rules.
It does not know who reads or why. If everything is certain, it is the same as `step`.

Spec: module Reader. Two headers of an owner's record make this possible without any notion of time.
They state: "I had folded the log through `seen`, where the claim's clock stood at `clock`, and I
was the owner under `epoch`." A reader that knows every record after `seen`, none of which could
have changed the owner, knows the claim.
"""

from __future__ import annotations

import enum
from typing import Final, assert_never

import attrs
from attrs import field, frozen

from kafka_marshal.core.claims import fenced
from kafka_marshal.core.claims.reducer import step
from kafka_marshal.core.claims.verdicts import (
    OWNER_STAYS,
    RELEASES,
    SIGNS_OF_LIFE,
    Accepted,
    Refused,
    Verdict,
)
from kafka_marshal.core.messages import (
    ClaimingMessages,
    ClaimingPartition,
    Heartbeat,
    OwnersMessage,
    Record,
    ReleaseGroup,
    ReleasingPartition,
)
from kafka_marshal.core.state import FENCED, Claim, Rules


class Knowledge(enum.Enum):
    """How well a reader knows who owns a claim. Spec: Knowledge."""

    UNKNOWN = "unknown"
    """Nothing is known."""
    PROVISIONAL = "provisional"
    """A guess: the claim's owner and epoch may be wrong."""
    KNOWN = "known"
    """The owner is certain; `Reader.certain` lists what else is."""


class Field(enum.Flag):
    """A field of a claim that can be certain. Spec: Fields."""

    OWNER = enum.auto()
    """Both ids of the owner, or that there is none, and whether it won with headers."""
    EPOCH = enum.auto()
    POSITION = enum.auto()
    """If it is uncertain, the claim holds a lower bound (Known) or a guess."""
    CLOCK = enum.auto()
    """The clock, the owner's last sign of life, and whether a pause is in force."""
    PAUSER = enum.auto()
    POSITION_SET = enum.auto()
    """Whether the position was ever set. A reader that does not know the head of the log can know
    that it was, but never that it was not."""

    @property
    def names(self) -> frozenset[str]:
        """The specification's names of these fields."""
        return frozenset(str(field.name).lower() for field in self)


NOTHING: Final = Field(0)
LASTING: Final = Field.PAUSER | Field.POSITION_SET
"""Fields that no later record makes uncertain. Spec: Lasting."""
EVERYTHING: Final = ~NOTHING
"""Each flag value is a single object, so `is` works like `==`, and is faster."""


@frozen
class Reader:
    """One claim as known to a reader that began at some offset. Spec: NewReader.

    >>> Reader.beginning_at(0).knowledge, Reader.beginning_at(7).knowledge
    (<Knowledge.KNOWN: 'known'>, <Knowledge.UNKNOWN: 'unknown'>)
    """

    claim: Claim = field(factory=Claim)
    """The fold of the records read; if the owner is uncertain, the best guess."""
    certain: Field = EVERYTHING
    """The fields of `claim` that equal the full fold's."""
    undecided: int | None = None
    """The last offset whose record may have changed the owner; None when the owner is certain."""
    reached: int | None = None
    """The largest offset that was sent under the guessed epoch."""
    alive_ms: int | None = None
    """The clock when an unknown owner may last have been alive, unix ms."""
    head_ms: int | None = None
    """An upper bound of the clock before the first record that was read, unix ms."""

    @classmethod
    def beginning_at(cls, first: int) -> Reader:
        """A reader whose first record is the one at `first`, or the first after it."""
        return cls() if first == 0 else cls(certain=NOTHING, undecided=first - 1)

    @property
    def known(self) -> bool:
        """Whether the owner is certain. Spec: IsKnown."""
        return Field.OWNER in self.certain

    @property
    def knowledge(self) -> Knowledge:
        """Unknown, Provisional or Known. Spec: Knowledge."""
        if self.known:
            return Knowledge.KNOWN
        guessed = self.claim.epoch is not None or self.claim.owned
        return Knowledge.PROVISIONAL if guessed else Knowledge.UNKNOWN


_SAID: Final = Field.EPOCH | Field.POSITION | Field.CLOCK
"""What becomes certain by an owner that states what it has seen, besides the ownership."""


def read_record(
    reader: Reader, record: Record, rules: Rules = FENCED
) -> tuple[Reader, Verdict | None]:
    """Fold one more record; return what it did, or None if that cannot be known.

    Spec: ReadRecord. Keeps: SuffixExact. Never raises.
    """
    if reader.certain is EVERYTHING:
        claim, verdict = step(reader.claim, record, rules)
        # By position, as in `fenced`: this is what nearly every reader of a log does all the time.
        return Reader(claim, EVERYTHING, None, None, None, reader.head_ms), verdict
    if reader.head_ms is None:
        head_ms = record.timestamp_ms + rules.clock_rewind_max_ms
        reader = attrs.evolve(reader, head_ms=head_ms)
    if reader.known:
        return _read_known(reader, record, rules)
    return _read_unknown(reader, record, rules), None


def _highest(*numbers: int | None) -> int:
    return max(-1 if number is None else number for number in numbers)


def _says_what_it_saw(record: Record) -> bool:
    """An honest sender states it while it knows position and clock. Spec: SaysWhatItSaw."""
    return record.headers.seen is not None and record.headers.clock is not None


def _certifies(reader: Reader, record: Record) -> bool:
    """The sender knew, and nothing after what it saw can have changed the owner.

    Spec: Certifies. For records of owners, with an epoch.
    """
    seen = record.headers.seen
    return _says_what_it_saw(record) and seen is not None and seen >= _highest(reader.undecided)


def _advanced(claim: Claim, record: Record) -> Claim:
    return attrs.evolve(claim, clock_ms=fenced.clock_advanced(claim, record))


# --- the owner is certain -------------------------------------------------------------------------


def _read_known(reader: Reader, record: Record, rules: Rules) -> tuple[Reader, Verdict | None]:
    """Judge by `step`, if every field that it uses is certain, too. Spec: ReadKnown."""
    # Of an owner's heartbeat, which nearly every record is, there is never a doubt.
    if not isinstance(record.message, Heartbeat):
        advanced = _advanced(reader.claim, record)
        if not _decided(reader, advanced, record):
            doubtful = attrs.evolve(
                reader,
                claim=advanced,
                certain=reader.certain & LASTING,
                undecided=record.offset,
                alive_ms=advanced.clock_ms,
            )
            return doubtful, None
    claim, verdict = step(reader.claim, record, rules)
    certified = verdict in OWNER_STAYS and _says_what_it_saw(record)
    if certified:
        claim = _not_before(claim, _highest(record.headers.clock))
    elif _position_lost(reader, record, verdict):
        assert isinstance(record.message, ReleasingPartition)
        claim = attrs.evolve(claim, position=record.message.offset)
    certain = _certain_after(reader, record, verdict, certified)
    if Field.POSITION_SET not in certain:
        certain |= _certain_if_set(claim)
    return Reader(claim, certain, None, None, None, reader.head_ms), verdict


def _certain_if_set(claim: Claim) -> Field:
    """If the owner is certain, a claim that states that its position was set is right.

    It follows from records that were accepted, or refused as not ahead of a position above 0. Spec:
    CertainIfSet.
    """
    return Field.POSITION_SET if claim.position_set else NOTHING


def _not_before(claim: Claim, clock_ms: int) -> Claim:
    """The claim of an owner that has just shown that it is alive, and was at `clock_ms`."""
    if clock_ms <= claim.clock_ms:
        return claim
    return attrs.evolve(claim, clock_ms=clock_ms, last_heartbeat_ms=clock_ms)


def _decided(reader: Reader, advanced: Claim, record: Record) -> bool:
    """Whether the effect of the record is certain. Spec: Decided."""
    if fenced.has_bad_headers(record):
        return True
    message = record.message
    match message:
        case ClaimingPartition():
            clock = Field.CLOCK in reader.certain
            # A pause computed from too early a clock can be too long: "not paused" is always right.
            pause = advanced.paused_until_ms is None or message.instance_id == advanced.pauser
            staleness = (
                not advanced.owned
                or message.instance_id == advanced.owner_instance
                or (
                    message.client_id == advanced.owner_client
                    and fenced.restart_takeover(advanced, record)
                )
            )
            return clock or (pause and staleness)
        case ReleasingPartition():
            return (
                _setting_decided(reader, record)
                or message.offset >= 0
                or fenced.refuse_unless_owner(advanced, record) is not None
            )
        case Heartbeat() | ClaimingMessages() | ReleaseGroup():
            return True
        case _:
            assert_never(message)


def _setting_decided(reader: Reader, record: Record) -> bool:
    """Without the header, a release sets the position only in the pauser's tenure.

    Spec: SettingDecided.
    """
    return Field.PAUSER in reader.certain or record.headers.set_position is not None


def _position_lost(reader: Reader, record: Record, verdict: Verdict) -> bool:
    """The position moved back, or it did not. Spec: PositionLost."""
    return (
        verdict in RELEASES
        and isinstance(record.message, ReleasingPartition)
        and not _setting_decided(reader, record)
        and record.message.offset < reader.claim.position
    )


def _certain_after(reader: Reader, record: Record, verdict: Verdict, certified: bool) -> Field:
    """What is certain after a record whose effect was certain. Spec: CertainAfter."""
    had = reader.certain
    if certified:
        # To ask is five times as fast as to add.
        return had if _SAID in had else had | _SAID
    alive = verdict in SIGNS_OF_LIFE
    # A grant or not: it depends on the position.
    vague = Field.POSITION not in had and (
        verdict is Refused.NOT_AHEAD or verdict is Accepted.GRANTED
    )
    certain = Field.OWNER | (had & (Field.EPOCH | LASTING))
    if alive and verdict not in OWNER_STAYS:
        certain |= Field.EPOCH
    if not _position_lost(reader, record, verdict):
        certain |= had & Field.POSITION
    if verdict is Accepted.POSITION_SET and _setting_decided(reader, record):
        certain |= Field.POSITION
    if not vague:
        certain |= had & Field.CLOCK
        clock_ms = max(reader.claim.clock_ms, record.timestamp_ms)
        if alive and reader.head_ms is not None and clock_ms > reader.head_ms:
            certain |= Field.CLOCK
    if verdict is Accepted.GROUP_RELEASED:
        certain |= Field.PAUSER
    return certain


# --- the owner is not certain ---------------------------------------------------------------------


def _read_unknown(reader: Reader, record: Record, rules: Rules) -> Reader:
    """Collect evidence for an owner. Spec: ReadUnknown."""
    claim = _advanced(reader.claim, record)
    message = record.message
    if message.version not in fenced.KNOWN_VERSIONS:
        return attrs.evolve(reader, claim=claim)
    if isinstance(message, ReleaseGroup):
        return _release_group(reader, record, rules)
    if fenced.has_bad_headers(record):
        return attrs.evolve(reader, claim=claim)
    if isinstance(message, ClaimingPartition):
        return _claiming_partition(reader, claim, record, rules)
    epoch = record.headers.epoch
    if epoch is None:
        return _vague(reader, claim, message)
    if claim.epoch is not None and epoch < claim.epoch:
        # An epoch that somebody names was won, so an older one is over.
        return attrs.evolve(reader, claim=claim)
    if _certifies(reader, record):
        return _certified(reader, claim, record, message, epoch)
    return _guessed(reader, claim, message, epoch)


def _known(reader: Reader, claim: Claim, certain: Field) -> Reader:
    return attrs.evolve(
        reader,
        claim=claim,
        certain=certain | (reader.certain & LASTING),
        undecided=None,
        reached=None,
        alive_ms=None,
    )


def _release_group(reader: Reader, record: Record, rules: Rules) -> Reader:
    """Always accepted: whatever the head contains, there is no owner now.

    Spec: ReadUnknownReleaseGroup.
    """
    claim, _ = step(reader.claim, record, rules)
    return _known(reader, attrs.evolve(claim, position=0), Field.OWNER | Field.PAUSER)


def _claiming_partition(reader: Reader, claim: Claim, record: Record, rules: Rules) -> Reader:
    """Spec: ReadUnknownClaimingPartition."""
    if _definite_win(reader, claim, rules):
        by_pauser = record.message.instance_id == claim.pauser
        won = attrs.evolve(
            claim,
            owner_instance=record.message.instance_id,
            owner_client=record.message.client_id,
            epoch=record.offset,
            position=0,
            last_heartbeat_ms=claim.clock_ms,
            won_with_headers=record.headers.present,
            paused_until_ms=None if by_pauser else claim.paused_until_ms,
        )
        return _known(reader, won, Field.OWNER | Field.EPOCH | Field.CLOCK)
    return attrs.evolve(reader, claim=claim, undecided=record.offset, alive_ms=claim.clock_ms)


def _definite_win(reader: Reader, claim: Claim, rules: Rules) -> bool:
    """Whether the former owner has been silent too long and no pause can still be in force.

    Spec: DefiniteWin. If our clock was the true one, the end of a pause that was read is exact. If
    not, the true clock was at most `head_ms`, and that pause is over when a pause from the unread
    head is. This is the only judgement that rests on time. It assumes two things of the log.
    ClockBounded: when a partition gets a new leader, the broker's clock steps back by at most
    `rules.clock_rewind_max_ms`. PausesEnd: no pause is longer than `rules.pause_max_ms`.
    """
    assert reader.head_ms is not None
    return (
        (claim.paused_until_ms is None or claim.clock_ms >= claim.paused_until_ms)
        and claim.clock_ms > reader.head_ms + rules.pause_max_ms
        and claim.clock_ms - _highest(reader.head_ms, reader.alive_ms) > rules.stale_after_ms
    )


def _certified(
    reader: Reader, claim: Claim, record: Record, message: OwnersMessage, epoch: int
) -> Reader:
    """The claim as the owner saw it, with everything since. Spec: Certified."""
    reached = _highest(reader.reached) if epoch == claim.epoch else -1
    headers, offset = record.headers, message.offset
    clock_ms = _highest(claim.clock_ms, headers.clock)
    release = isinstance(message, ReleasingPartition)
    granted = isinstance(message, ClaimingMessages)
    owned = attrs.evolve(
        claim,
        owner_instance=message.instance_id,
        owner_client=message.client_id,
        epoch=epoch,
        position=max(reached, offset),
        last_heartbeat_ms=clock_ms,
        clock_ms=clock_ms,
        won_with_headers=True,
        paused_until_ms=None,
        position_set=claim.position_set
        or max(reached, offset) > 0
        or (not granted and fenced.says_position(headers, offset))
        or (release and fenced.says_it_sets(record)),
    )
    certain = Field.OWNER | Field.EPOCH | _certain_if_set(owned)
    # An older request for messages changes nothing, so it is no sign of life.
    if not granted or offset > reached:
        certain |= Field.CLOCK
    if not release:
        return _known(reader, owned, certain | Field.POSITION)
    sets = owned.pauser == message.instance_id or headers.set_position is not None
    if offset >= reached or _setting_decided(reader, record):
        certain |= Field.POSITION
    else:
        sets = True  # It moved back, or it did not: what is left is a lower bound.
    return _known(reader, _freed(owned, offset if sets else owned.position), certain)


def _freed(claim: Claim, position: int) -> Claim:
    return attrs.evolve(
        claim,
        owner_instance=None,
        owner_client=None,
        position=position,
        last_heartbeat_ms=None,
        won_with_headers=False,
    )


def _guessed(reader: Reader, claim: Claim, message: OwnersMessage, epoch: int) -> Reader:
    """A guess: the newest epoch under which any sender claimed ownership. Spec: Guessed.

    A release cannot contradict what its own sender stated earlier: it has seen no less since.
    """
    newer = claim.epoch is None or epoch > claim.epoch
    guess = attrs.evolve(
        claim,
        owner_instance=message.instance_id,
        owner_client=message.client_id,
        epoch=epoch,
        position=max(claim.position, message.offset),
        last_heartbeat_ms=claim.clock_ms,
        won_with_headers=True,
    )
    release = isinstance(message, ReleasingPartition)
    return attrs.evolve(
        reader,
        claim=_freed(guess, guess.position) if release else guess,
        reached=message.offset if newer else _highest(reader.reached, message.offset),
        alive_ms=claim.clock_ms,
    )


def _vague(reader: Reader, claim: Claim, message: OwnersMessage) -> Reader:
    """A record without an epoch cannot be certified. Spec: Vague.

    The same suffix fits a live owner and one that was replaced long ago. It cannot invalidate what
    an owner with headers saw: it has no effect on a claim that was won with headers.
    """
    guess = claim
    if claim.epoch is None and isinstance(message, ReleasingPartition):
        guess = _freed(claim, claim.position)
    elif claim.epoch is None:
        guess = attrs.evolve(
            claim,
            owner_instance=message.instance_id,
            owner_client=message.client_id,
            position=max(claim.position, message.offset),
            last_heartbeat_ms=claim.clock_ms,
        )
    return attrs.evolve(reader, claim=guess, alive_ms=claim.clock_ms)

"""What is always true of a log, a tenure, its owner and its records, with any number of clients.

Each is a formula over a `Situation`. The specification has the same ones under the same names
(`spec/lemmas/Invariant.tla`), and TLC checks them. Who may do what between records is the shipped
machine's; what a record does is the shipped reducer's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from proof.machine.logic import every, implies, no, some
from proof.machine.situation import Seen, Sent, Situation

Conjunct: TypeAlias = Callable[[Situation], Any]
Promise: TypeAlias = Callable[[Situation, Sent], Any]

# --- the log --------------------------------------------------------------------------------------


def tenure_is_in_log(now: Situation) -> Any:
    """A tenure that has begun was won at an offset of the log, and epochs never fall."""
    assert now.log is not None
    log = Seen.of(now.log)
    return implies(
        now.tenure.begun, every(log.has_epoch, log.epoch >= now.epoch, now.epoch <= now.last)
    )


def tenure_keeps_its_owner(now: Situation) -> Any:
    """While it lasts its winner owns the claim, with headers; before it begins, and after, not."""
    assert now.log is not None
    log, tenure = Seen.of(now.log), now.tenure
    lasts = every(tenure.begun, no(tenure.over))
    same = every(
        now.holds(log),
        now.log.won_with_headers,
        tenure.position == log.position,
        tenure.position_set == log.position_set,
    )
    return every(implies(lasts, same), implies(no(lasts), no(now.holds(log))))


def tenure_ends_once(now: Situation) -> Any:
    """What is over had begun, and never comes back; what was released is over."""
    assert now.log is not None
    log, tenure = Seen.of(now.log), now.tenure
    gone = every(tenure.begun, some(log.epoch > now.epoch, no(log.owned)))
    return every(implies(tenure.over, gone), implies(tenure.released, tenure.over))


# --- the tenure -----------------------------------------------------------------------------------


def tenure_begins_below(now: Situation) -> Any:
    """The position never falls below where the tenure began; what was set stays set."""
    tenure = now.tenure
    return implies(
        tenure.begun,
        every(
            tenure.base >= 0,
            tenure.base <= tenure.position,
            implies(tenure.base_set, tenure.position_set),
            implies(tenure.base > 0, tenure.base_set),
            implies(tenure.position > 0, tenure.position_set),
        ),
    )


def set_is_beyond_start(now: Situation) -> Any:
    """Where nobody had set the position, its first setter is beyond its own start."""
    tenure = now.tenure
    first = every(tenure.begun, tenure.position_set, no(tenure.base_set))
    return implies(now.counts, first, tenure.position >= now.me.start)


def passes_what_it_processed(now: Situation) -> Any:
    """What a tenure passed it processed, or its start policy left it out. Spec: NoneSkipped."""
    tenure, message = now.tenure, now.message
    passed = every(tenure.begun, tenure.base <= message, message < tenure.position)
    left_out = every(no(tenure.base_set), message < now.me.start)
    return implies(now.counts, passed, some(now.done, left_out))


def overhang_in_window(now: Situation) -> Any:
    """What it processed is less than a window after what it reached. Spec: ReprocessingBound."""
    tenure, me, message = now.tenure, now.me, now.message
    near = some(
        message < tenure.position + me.window,
        every(no(tenure.position_set), message < me.start + me.window),
    )
    return implies(now.counts, now.done, every(now.at_or_after_begin(message), near))


def released_tenure_passed_all(now: Situation) -> Any:
    """A tenure that ended in its release passed all it processed. Spec: ReleaseRepeatsNothing."""
    tenure = now.tenure
    return implies(now.counts, tenure.released, now.done, now.message < tenure.position)


# --- the owner ------------------------------------------------------------------------------------


def knows_a_prefix(now: Situation) -> Any:
    """What it knows of the tenure is what the log said of it once."""
    return is_prefix(now, now.memory.known, now.memory.read)


def is_prefix(now: Situation, known: Seen, read: Any) -> Any:
    """The same of anybody who has read up to this offset."""
    tenure = now.tenure
    begins = every(
        tenure.base == known.position,
        implies(tenure.base_set, known.position_set),
        implies(known.position_set, tenure.base_set),
    )
    within = every(
        tenure.begun,
        tenure.base <= known.position,
        known.position <= tenure.position,
        implies(tenure.base_set, known.position_set),
        implies(known.position_set, tenure.position_set),
        implies(
            now.counts,
            known.position_set,
            no(tenure.base_set),
            known.position >= now.me.start,
        ),
    )
    owned = every(known.has_epoch, known.epoch == now.epoch, known.owned)
    return every(
        implies(now.holds(known), within),
        implies(now.holds(known), read == now.epoch, begins),
        implies(tenure.begun, owned, known.owner == now.me.instance),
    )


def resigned_from_what_it_won(now: Situation) -> Any:
    """It resigned from a tenure that it has read."""
    memory = now.memory
    return implies(
        memory.has_resigned,
        every(memory.known.has_epoch, memory.resigned <= memory.known.epoch),
    )


def released_has_resigned(now: Situation) -> Any:
    """Whose release ended its tenure has stopped for good. Rules: R7."""
    return implies(now.tenure.released, has_stopped(now))


def has_stopped(now: Situation) -> Any:
    """It never acts in this tenure again, as far as it knows."""
    return some(now.has_resigned, every(now.has_read_it, no(now.memory.known.epoch == now.epoch)))


def processed_in_tenure(now: Situation) -> Any:
    """It processes only once it has read that it won; an administrator processes nothing."""
    return implies(now.counts, now.done, every(now.tenure.begun, now.has_read_it, no(now.me.admin)))


def administrators_hold_no_grants(now: Situation) -> Any:
    """What an administrator sends names no grant of its own."""
    return implies(now.me.admin, no(now.memory.granted))


def processed_is_prefix(now: Situation) -> Any:
    """Acting, it has processed all from where its tenure began to its next one, and no more."""
    upto = every(now.at_or_after_begin(now.message), now.message < now.memory.next)
    same = every(implies(now.done, upto), implies(upto, now.done))
    return implies(now.counts, now.acts, every(same, now.at_or_after_begin(now.memory.next)))


def next_in_window(now: Situation) -> Any:
    """Acting, it is at most a window after the position that it knows. Rules: R5."""
    known, me, upto = now.memory.known, now.me, now.memory.next
    near = some(
        upto <= known.position + me.window,
        every(no(known.position_set), upto <= me.start + me.window),
    )
    return implies(now.counts, now.acts, near)


# --- its records ----------------------------------------------------------------------------------


def _in_tenure(now: Situation, sent: Sent) -> Any:
    return every(sent.own, sent.owners, sent.has_epoch, sent.epoch == now.epoch)


def writes_its_headers(now: Situation, sent: Sent) -> Any:
    """It writes headers, except in a ReleaseGroup."""
    return implies(sent.own, no(sent.pauses), sent.present)


def names_its_epoch(now: Situation, sent: Sent) -> Any:
    """What only an owner sends names an epoch."""
    return implies(sent.own, sent.owners, every(sent.present, sent.has_epoch))


def names_a_won_epoch(now: Situation, sent: Sent) -> Any:
    """An epoch that it names it won, and has read so."""
    return implies(_in_tenure(now, sent), every(now.tenure.begun, now.has_read_it))


def asks_no_grants(now: Situation, sent: Sent) -> Any:
    """At least once, and of an administrator: it asks for no messages."""
    return implies(now.counts, sent.own, no(sent.asks))


def only_administrators_set(now: Situation, sent: Sent) -> Any:
    """Who says that it sets the position is an administrator."""
    return implies(sent.own, sent.releases, sent.sets, now.me.admin)


def processed_below_offset(now: Situation, sent: Sent) -> Any:
    """It processed all from where its tenure began to the offset that it names."""
    message = now.message
    below = every(now.at_or_after_begin(message), message < sent.offset)
    promise = every(now.at_or_after_begin(sent.offset), implies(below, now.done))
    return implies(now.counts, _in_tenure(now, sent), sent.progress, promise)


def start_is_said(now: Situation, sent: Sent) -> Any:
    """It says where its start policy begins, wherever that is not ahead."""
    said = every(sent.has_start, sent.start == now.me.start)
    consumer = every(now.counts, no(now.me.admin), now.me.start <= sent.offset)
    return implies(consumer, _in_tenure(now, sent), sent.progress, said)


def nothing_after_release(now: Situation, sent: Sent) -> Any:
    """Its release is its last word: it has stopped, and processed nothing beyond. Rules: R7."""
    beyond = implies(now.counts, now.done, now.message < sent.offset)
    return implies(_in_tenure(now, sent), sent.releases, every(has_stopped(now), beyond))


def offsets_rise(now: Situation, sent: Sent) -> Any:
    """One sender's offsets rise within an epoch: what it will send is not below what it sent."""
    consumer = every(now.me.at_least_once, now.acts)
    return implies(consumer, _in_tenure(now, sent), sent.progress, sent.offset <= now.memory.next)


LOG: Final[Mapping[str, Conjunct]] = {
    "TenureIsInLog": tenure_is_in_log,
    "TenureKeepsItsOwner": tenure_keeps_its_owner,
    "TenureEndsOnce": tenure_ends_once,
}
"""Of a log and a tenure in it."""
TENURE: Final[Mapping[str, Conjunct]] = {
    "TenureBeginsBelow": tenure_begins_below,
    "SetIsBeyondStart": set_is_beyond_start,
    "PassesWhatItProcessed": passes_what_it_processed,
    "OverhangInWindow": overhang_in_window,
    "ReleasedTenurePassedAll": released_tenure_passed_all,
}
"""Of a tenure, and of what was processed in it."""
OWNER: Final[Mapping[str, Conjunct]] = {
    "KnowsAPrefix": knows_a_prefix,
    "ResignedFromWhatItWon": resigned_from_what_it_won,
    "ReleasedHasResigned": released_has_resigned,
    "ProcessedInTenure": processed_in_tenure,
    "AdministratorsHoldNoGrants": administrators_hold_no_grants,
    "ProcessedIsPrefix": processed_is_prefix,
    "NextInWindow": next_in_window,
}
"""Of the instance that won it."""
PROMISE: Final[Mapping[str, Promise]] = {
    "WritesItsHeaders": writes_its_headers,
    "NamesItsEpoch": names_its_epoch,
    "NamesAWonEpoch": names_a_won_epoch,
    "AsksNoGrants": asks_no_grants,
    "OnlyAdministratorsSet": only_administrators_set,
    "ProcessedBelowOffset": processed_below_offset,
    "StartIsSaid": start_is_said,
    "NothingAfterRelease": nothing_after_release,
    "OffsetsRise": offsets_rise,
}
"""Of each of its records, in flight for ever: what is appended late, twice or never keeps it."""

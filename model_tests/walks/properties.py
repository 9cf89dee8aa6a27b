"""The specification's properties over a walk, by their names, checked as it goes.

Each is what `Properties.tla` and `MCSuffix.tla` say, computed incrementally: what a record, a read
or a processed message can break is looked at when it happens. Some promises need a world in which
something never happened (`NEEDS`); the others hold in every world.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import attrs
from tests.triples import Triple

from kafka_marshal import Accepted, Claim, Record
from kafka_marshal.core.claims import suffix_reader as knowledge
from kafka_marshal.core.claims.invariants import Property, sets_position
from kafka_marshal.core.claims.suffix_reader import EVERYTHING, LASTING, Field, Reader
from kafka_marshal.core.claims.verdicts import ENDS, OWNER_STAYS, RELEASES, WINS
from kafka_marshal.core.messages import OwnersMessage, ReleaseGroup
from kafka_marshal.counterexample.records import RecordOutcome
from kafka_marshal.machines.consumer import consumer as machine
from model_tests.mutants import judges
from model_tests.walks.moves import RULES, Move
from model_tests.walks.simulation import (
    LATE,
    LIES,
    OVERLAPPING,
    STEPPED_BACK,
    STRANGE,
    Instance,
    Simulation,
)

P = Property

NEEDS: Final[Mapping[Property, frozenset[str]]] = {
    # A stranger that owns passes messages that nobody of ours processed.
    P.NONE_SKIPPED: frozenset({STRANGE}),
    # Who begins late may begin at a lower bound. A release in another's name was not its own.
    P.REPROCESSING_BOUND: frozenset({LATE}),
    P.RELEASE_REPEATS_NOTHING: frozenset({LATE, LIES}),
    # R9: the fast reclaim of an original moves the position (spec/NOTES.md). What a stranger sends
    # in its own tenure says nothing about an older one of it.
    P.SET_POSITION_STICKS: frozenset({STRANGE}),
    # It compares timestamps as they are, and a claim's clock is their running maximum.
    P.LIVE_OWNER_KEPT: frozenset({STEPPED_BACK}),
    P.PREDECESSOR_STAYS_OUT: frozenset({OVERLAPPING, STRANGE}),
    # Certificates are believed: only honest headers are promised to be exact.
    P.SUFFIX_EXACT: frozenset({LIES}),
    P.SUFFIX_LOWER_BOUND: frozenset({LIES}),
    P.SUFFIX_GUESS_RIGHT: frozenset({LIES}),
    P.SUFFIX_BECOMES_KNOWN: frozenset({LIES}),
}
"""What must not have been seen for a property to be promised."""

WALKED: Final = frozenset(
    {
        *(P.MUTEX, P.FENCED, P.MONOTONE_POSITION, P.MONOTONE_EPOCH, P.AT_MOST_ONCE),
        *(P.NONE_SKIPPED, P.REPROCESSING_BOUND, P.RELEASE_REPEATS_NOTHING),
        *(P.SET_POSITION_STICKS, P.PAUSE_HOLDS, P.READERS_AGREE, P.FRESH_OWNER_KEPT),
        *(P.HEADERS_OUTRANK, P.LIVE_OWNER_KEPT, P.PREDECESSOR_STAYS_OUT),
        *(P.RELEASED_BY_WINNER, P.WIN_KEEPS_POSITION, P.REFUSED_CHANGES_NOTHING),
        *(P.SUFFIX_EXACT, P.SUFFIX_LOWER_BOUND, P.SUFFIX_GUESS_RIGHT, P.SUFFIX_BECOMES_KNOWN),
    }
)
"""The properties that a walk is judged by."""


class Broken(Exception):
    """A promise was not kept. There is a class for each name, so that a shrinker keeps to it."""

    def __init__(self, name: str, claim: str, why: str) -> None:
        super().__init__(f"{name} does not hold for {claim}: {why}")
        self.name = name
        """The property, or the guard that should have refused."""
        self.claim = claim
        self.why = why
        self.simulation: Simulation | None = None
        """Where it happened."""


_KINDS: dict[str, type[Broken]] = {}


def broken(name: str, claim: str, why: str) -> Broken:
    """The exception of that name."""
    kind = _KINDS.setdefault(name, type(name, (Broken,), {"__doc__": Broken.__doc__}))
    return kind(name, claim, why)


@attrs.define(eq=False)
class _Set:
    """A position that an administrator set, until somebody may move it."""

    at: int
    position: int
    won_since: dict[str, set[int]] = attrs.field(factory=dict)


@attrs.define(eq=False)
class _Pause:
    """The last ReleaseGroup. Spec: PausedAt."""

    pauser: str
    end_ms: int
    over: bool = False


@attrs.define(eq=False)
class _Ledger:
    """What the promises have to remember of one claim."""

    owner_of: dict[int, str] = attrs.field(factory=dict)
    """Epoch -> who owned under it."""
    owner_read: dict[int, tuple[str, str | None]] = attrs.field(factory=dict)
    """The number of records read -> who read as many, and the owner it then saw."""
    alive_ms: dict[str, int] = attrs.field(factory=dict)
    """Instance -> timestamp of its last record that was obeyed."""
    processed: Counter[int] = attrs.field(factory=Counter)
    passed: Counter[int] = attrs.field(factory=Counter)
    set_back_over: Counter[int] = attrs.field(factory=Counter)
    repeats: int = 0
    asked_again: int = 0
    wins: int = 0
    wins_not_after_release: int = 0
    last_winner: str | None = None
    last_end: Accepted | None = None
    pause: _Pause | None = None
    sets: list[_Set] = attrs.field(factory=list)
    readers: list[Reader] = attrs.field(factory=list)
    """Those that began at the first, second, third ... record that is not the log's first."""


class Watch:
    """Watches a simulation, and raises `Broken` when a property does not hold."""

    def __init__(self, simulation: Simulation, only: Iterable[Property] = WALKED) -> None:
        self.simulation = simulation
        self.only = frozenset(only)
        self._ledgers = {claim: _Ledger() for claim in simulation.setting.claims}
        self._suffixes = any(prop.value.startswith("Suffix") for prop in self.only)

    def asked(self, who: Instance, move: Move, against: object) -> None:
        """What a machine says is for `refusals` to judge."""

    def _must(self, prop: Property, claim: str, holds: bool, why: str) -> None:
        if holds or prop not in self.only:
            return
        if not (NEEDS.get(prop, frozenset()) & self.simulation.seen):
            raise broken(prop.value, claim, why)

    # --- a record ---------------------------------------------------------------------------------

    def appended(self, claim: str, judged: RecordOutcome) -> None:
        """What one record can break."""
        ledger = self._ledgers[claim]
        record, before, after, verdict = attrs.astuple(judged, recurse=False)
        offset = f"offset {record.offset}"
        for prop in judges.broken(Triple(RULES, before, record, after, verdict)):
            self._must(prop, claim, False, f"{offset}, {verdict.value}")
        self._owner(ledger, claim, judged)
        self._displaced(ledger, claim, judged)
        self._paused(ledger, claim, judged)
        self._position(ledger, claim, judged)
        if isinstance(verdict, Accepted):
            ledger.alive_ms[record.message.instance_id] = record.timestamp_ms
            if verdict in WINS:
                ledger.wins += 1
                released = verdict is Accepted.CLAIMED and (
                    ledger.last_end is not Accepted.GROUP_RELEASED
                )
                ledger.wins_not_after_release += not released
                ledger.last_winner = record.message.instance_id
            elif verdict in ENDS:
                ledger.last_end = verdict
        if self._suffixes:
            self._suffix_readers(ledger, claim, record, verdict)

    def _owner(self, ledger: _Ledger, claim: str, judged: RecordOutcome) -> None:
        """Spec: Mutex, the part about the log; ReleasedByWinner."""
        after, message = judged.after, judged.record.message
        if after.owned and after.epoch is not None and after.owner_instance is not None:
            owner = ledger.owner_of.setdefault(after.epoch, after.owner_instance)
            why = f"{owner} and {after.owner_instance} own under epoch {after.epoch}"
            self._must(P.MUTEX, claim, owner == after.owner_instance, why)
        if judged.verdict in RELEASES:
            won = ledger.last_winner == message.instance_id
            self._must(P.RELEASED_BY_WINNER, claim, won, f"{message.instance_id} released")

    def _displaced(self, ledger: _Ledger, claim: str, judged: RecordOutcome) -> None:
        """Spec: FreshOwnerKept, LiveOwnerKept, HeadersOutrank, PredecessorStaysOut."""
        record, before, after, verdict = attrs.astuple(judged, recurse=False)
        sender, owner = record.message.instance_id, before.owner_instance
        if verdict not in WINS or owner is None or sender == owner:
            return
        silent_ms = after.clock_ms - before.last_heartbeat_ms
        stale = silent_ms > RULES.stale_after_ms
        why = f"offset {record.offset} displaces {owner}, heard of {silent_ms} ms before"
        if record.message.client_id != before.owner_client:
            self._must(P.FRESH_OWNER_KEPT, claim, stale, why)
            alive_ms = record.timestamp_ms - ledger.alive_ms[owner]
            self._must(P.LIVE_OWNER_KEPT, claim, alive_ms > RULES.stale_after_ms, why)
        elif not stale:
            people = self.simulation.instances
            dead = sender in people and people[sender].status == "crashed"
            back = dead and owner in people and people[owner].status != "crashed"
            self._must(P.PREDECESSOR_STAYS_OUT, claim, not back, why)
        outranks = stale or record.headers.present or not before.won_with_headers
        self._must(P.HEADERS_OUTRANK, claim, outranks, why)

    def _paused(self, ledger: _Ledger, claim: str, judged: RecordOutcome) -> None:
        """Spec: PauseHolds, judged from the log alone."""
        record, after, verdict = judged.record, judged.after, judged.verdict
        message, pause = record.message, ledger.pause
        obeyed = isinstance(verdict, Accepted)
        if isinstance(message, ReleaseGroup) and obeyed:
            end_ms = min(message.expires_unix_s * 1000, after.clock_ms + RULES.pause_max_ms)
            ledger.pause = _Pause(message.instance_id, end_ms)
        elif pause is not None:
            pause.over |= after.clock_ms >= pause.end_ms
            pause.over |= verdict in WINS and message.instance_id == pause.pauser
            if not pause.over and message.instance_id != pause.pauser:
                why = f"offset {record.offset}, {verdict.value}, in the pause of {pause.pauser}"
                self._must(P.PAUSE_HOLDS, claim, not obeyed and not after.owned, why)

    def _position(self, ledger: _Ledger, claim: str, judged: RecordOutcome) -> None:
        """Spec: SetPositionSticks, NoneSkipped, and what AtMostOnce has to know."""
        record, before, after, verdict = attrs.astuple(judged, recurse=False)
        if isinstance(verdict, Accepted):
            self._moved_since(ledger, record, verdict)
        if isinstance(verdict, Accepted) and sets_position(before, record):
            ledger.sets.append(_Set(record.offset, after.position))
            ledger.set_back_over.update(range(after.position, before.position))
            ledger.asked_again += max(0, before.position - after.position)
        else:
            ledger.passed.update(range(before.position, after.position))
        for each in ledger.sets:
            why = f"offset {each.at} set {each.position}, offset {record.offset} made it "
            stays = after.position == each.position
            self._must(P.SET_POSITION_STICKS, claim, stays, why + str(after.position))
        if claim.split("/")[0] not in self.simulation.setting.at_most_once:
            for message in range(before.position, after.position):
                done = ledger.processed[message] >= ledger.passed[message]
                why = f"offset {record.offset} passed message {message}, which nobody processed"
                self._must(P.NONE_SKIPPED, claim, done, why)

    @staticmethod
    def _moved_since(ledger: _Ledger, record: Record, verdict: Accepted) -> None:
        """Forget what was set before a tenure that moves the position. Spec: SentSince."""
        sender, epoch = record.message.instance_id, record.headers.epoch
        if isinstance(record.message, OwnersMessage):
            ledger.sets = [
                each
                for each in ledger.sets
                if not (
                    bool(each.won_since.get(sender))
                    if epoch is None
                    else epoch in each.won_since.get(sender, ())
                )
            ]
        if verdict in WINS:
            for each in ledger.sets:
                each.won_since.setdefault(sender, set()).add(record.offset)

    # --- a read -----------------------------------------------------------------------------------

    def has_read(self, who: Instance, claim: str, record: Record) -> None:
        """What an instance that has read one more record can break."""
        ledger, consumer = self._ledgers[claim], who.consumers[claim]
        history = self.simulation.histories[claim]
        if machine.acts(who.me, consumer):
            tenure = history.tenure_at(consumer.view)
            for other in self.simulation.living():
                if other is who or claim not in other.consumers:
                    continue
                theirs = other.consumers[claim]
                same = machine.acts(other.me, theirs) and (history.tenure_at(theirs.view) == tenure)
                why = f"{who.me.instance_id} and {other.me.instance_id} act under {tenure}"
                self._must(P.MUTEX, claim, not same, why)
        if consumer.reader.known:
            mine = (who.me.instance_id, consumer.known.owner_instance)
            first, owner = ledger.owner_read.setdefault(consumer.view, mine)
            why = f"below offset {consumer.view} {first} reads {owner}, and {mine[0]} {mine[1]}"
            self._must(P.READERS_AGREE, claim, owner == mine[1], why)
        if who.late and self._suffixes:
            judged = history.judged(record.offset)
            self._suffix(claim, consumer.reader, judged, who.me.instance_id)

    # --- work -------------------------------------------------------------------------------------

    def processed(self, who: Instance, claim: str, messages: Iterable[int]) -> None:
        """What processing can break."""
        ledger = self._ledgers[claim]
        for message in messages:
            ledger.repeats += ledger.processed[message] > 0
            ledger.processed[message] += 1
            if claim.split("/")[0] in self.simulation.setting.at_most_once:
                times = ledger.processed[message]
                why = f"{who.me.instance_id} processed message {message}, now {times} times"
                asked = 1 + ledger.set_back_over[message]
                self._must(P.AT_MOST_ONCE, claim, times <= asked, why)
                continue
            why = f"{who.me.instance_id} processed {message}: {ledger.repeats} again"
            window, again = who.me.window, ledger.asked_again
            bound = window * max(ledger.wins - 1, 0) + again
            self._must(P.REPROCESSING_BOUND, claim, ledger.repeats <= bound, f"{why}, {bound} may")
            bound = window * ledger.wins_not_after_release + again
            why = f"{why}, {bound} may"
            self._must(P.RELEASE_REPEATS_NOTHING, claim, ledger.repeats <= bound, why)

    # --- readers that began in the middle ---------------------------------------------------------

    def _suffix_readers(self, ledger: _Ledger, claim: str, record: Record, verdict: object) -> None:
        """One begins at every record; one that knows everything is like the rest from then on."""
        if LIES in self.simulation.seen:
            ledger.readers.clear()
            return
        judged = self.simulation.histories[claim].steps[-1]
        if record.offset:
            ledger.readers.append(Reader.beginning_at(record.offset))
        after = []
        for reader in ledger.readers:
            now, _ = knowledge.read_record(reader, record, RULES)
            self._suffix(claim, now, judged, f"one that undecided {reader.undecided}")
            if now.certain != EVERYTHING:
                after.append(now)
        ledger.readers = after

    def _suffix(self, claim: str, reader: Reader, judged: RecordOutcome, who: str) -> None:
        """Spec: SuffixExact, SuffixLowerBound, SuffixGuessRight, SuffixBecomesKnown."""
        truth, says, certain = judged.after, reader.claim, reader.certain
        at = f"offset {judged.record.offset}, {who}"
        wrong = inexact(reader, truth)
        self._must(P.SUFFIX_EXACT, claim, not wrong, f"{at} is certain of a wrong {wrong}")
        low = not reader.known or says.position <= truth.position
        self._must(P.SUFFIX_LOWER_BOUND, claim, low, f"{at}: {says.position}")
        headers = judged.record.headers
        if judged.verdict in OWNER_STAYS and headers.epoch is not None:
            right = (says.owner_instance, says.epoch) == (truth.owner_instance, truth.epoch)
            self._must(P.SUFFIX_GUESS_RIGHT, claim, right, f"{at} guesses {says.owner_instance}")
        honest = headers.seen is not None and headers.seen >= _or_none(reader.undecided)
        if judged.verdict is Accepted.REFRESHED and honest:
            knows = certain | LASTING == EVERYTHING
            self._must(P.SUFFIX_BECOMES_KNOWN, claim, knows, f"{at} knows {certain}")


def _or_none(offset: int | None) -> int:
    return -1 if offset is None else offset


def _paused(claim: Claim) -> bool:
    """Spec: SaysPaused, and PausedAfter of the truth."""
    return claim.paused_until_ms is not None and claim.clock_ms < claim.paused_until_ms


def inexact(reader: Reader, truth: Claim) -> list[str]:
    """The fields that a reader calls certain and that are not so. Spec: ExactAfter."""
    says, certain = reader.claim, reader.certain
    owner = ("owner_instance", "owner_client", "won_with_headers")
    fields: list[str] = []
    if Field.OWNER in certain:
        fields += owner
    if Field.EPOCH in certain:
        fields.append("epoch")
    if Field.POSITION in certain:
        fields.append("position")
    if Field.POSITION_SET in certain:
        fields.append("position_set")
    if Field.PAUSER in certain:
        fields.append("pauser")
    if Field.CLOCK in certain:
        fields += ("clock_ms", "last_heartbeat_ms")
    wrong = [field for field in fields if getattr(says, field) != getattr(truth, field)]
    if Field.CLOCK in certain and _paused(says) != _paused(truth):
        wrong.append("pause")
    return wrong

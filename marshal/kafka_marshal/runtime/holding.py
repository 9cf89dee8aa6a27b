"""Our claims, from the win until nothing of them is in hand.

What the machine asks for is done here: records are sent, claims fetched from where they were won,
messages handed over when that is allowed; and the machine hears what the application does with
them. It does not know how the log is read, nor when it is time for anything. Where nothing else is
said only one thread calls (`engine`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Final

from kafka_marshal.client.consumer import Me, Mode
from kafka_marshal.client.effects import Lost, Process, Send, Won
from kafka_marshal.client.member import For
from kafka_marshal.codec import coordinating_partition
from kafka_marshal.core.messages import Heartbeat, ReleasingPartition
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.runtime.data import Data
from kafka_marshal.runtime.errors import InvalidOption, MarshalError
from kafka_marshal.runtime.hand import Hand
from kafka_marshal.runtime.log import Appended, Log, NotAppended
from kafka_marshal.runtime.message import Claim, Message
from kafka_marshal.runtime.reader import now_ms
from kafka_marshal.runtime.session import Session
from kafka_marshal.runtime.tenure import Tenure
from kafka_marshal.runtime.vigil import Vigil

WAKE_PARTS: Final = 16
"""When so small a part of the window is done, the engine is told before it looks by itself."""


class IdUsedTwice(MarshalError):
    """Two live processes use one client id in one group: they would take turns for ever."""


class Holding:
    """The claims of one consumer, whatever instance of it won them."""

    def __init__(
        self,
        me: Me,
        group: str,
        session: Session,
        data: Data,
        log: Log,
        vigil: Vigil,
        post: Callable[[Callable[[], None]], None],
    ) -> None:
        """What is posted is called later by the one thread."""
        self._me, self._group = me, group
        self._data, self._log, self._vigil, self._post = data, log, vigil, post
        self._monotonic = log.settings.environment.monotonic
        self._observers = vigil.observers
        self._wake_after = max(1, me.window // WAKE_PARTS)
        self._places: dict[str, int] = {}
        self.session = session
        """Whose machine is asked."""
        self.log_lost = False
        """What this session has sent says no more how far it is."""
        self.tenures: dict[ClaimKey, Tenure] = {}
        self.to_commit: dict[ClaimKey, int] = {}
        """Positions that the log has, and Kafka's group offsets have not."""
        self.under_way = 0
        """Records that were sent, and nobody knows yet what became of them."""
        self.stopping = False
        self.high: Mapping[ClaimKey, int] = {}
        """Where partitions end, when it was last looked."""
        self.buffered: Mapping[ClaimKey, tuple[int, int]] = {}

    @property
    def claims(self) -> list[Claim]:
        """What is ours now, as far as was read. Any thread may ask."""
        return [tenure.claim for tenure in list(self.tenures.values()) if tenure.claim.owned]

    # --- the log loses records --------------------------------------------------------------------

    def truncated(self) -> None:
        """At least once: what this session was told does not hold any more."""
        # Whoever owns it next, if nobody set a position, goes on from Kafka's.
        for tenure in list(self.tenures.values()):
            if tenure.claim.lost is None:
                self._progressed(tenure)
                self.to_commit[tenure.claim.key] = tenure.next
        self.log_lost = True
        self.carry_out(self.session.member.truncated())

    def begin_anew(self, session: Session) -> None:
        """Another instance goes on."""
        for tenure in list(self.tenures.values()):
            self.lost(tenure, Lost.LOG_LOST_RECORDS)
        self.session, self.log_lost = session, False
        self._places.clear()  # the topic may have another number of partitions

    # --- what is handed over ----------------------------------------------------------------------

    def in_hand(self, hand: Hand) -> None:
        """The application has taken a chunk; if its claim is lost already, nothing of it counts.

        Any thread may say so.
        """
        tenure = self.tenures.get(hand.claim.key)
        if tenure is not None and tenure.claim is hand.claim:
            tenure.hands.append(hand)
            if tenure.withdrawn:
                hand.cut()
                self._post(partial(self._progressed, tenure))
        if hand.claim.lost is not None and self._me.mode is Mode.AT_LEAST_ONCE:
            hand.cut()
        if not hand.finished:
            self._observers.handed_over(hand.claim, hand.total)

    def progressed(self, hand: Hand) -> None:
        """The application got further with this. Any thread may say so.

        As long as nobody waits for it the engine finds out when it looks: it is woken when that
        much of the window is done.
        """
        tenure = self.tenures.get(hand.claim.key)
        if tenure is None or tenure.claim is not hand.claim or tenure.told:
            return
        waits = hand.claim.lost is not None or tenure.withdrawn or self.stopping
        much = hand.end - tenure.next >= self._wake_after
        if waits or much or self._me.mode is Mode.AT_MOST_ONCE:
            tenure.told = True
            self._post(partial(self._progressed, tenure))

    # --- carrying out -----------------------------------------------------------------------------

    def carry_out(self, effects: list[For]) -> None:
        """What the machine asks for, in its order."""
        for each in effects:
            match each.effect:
                case Send() as send:
                    self._send(each.key, send)
                case Process(offsets=offsets):
                    self._process(each.key, offsets)
                case Won() as won:
                    self._won(each.key, won)
                case Lost() as reason:
                    tenure = self.tenures.get(each.key)
                    if tenure is not None:
                        self.lost(tenure, reason)

    def _send(self, key: ClaimKey, send: Send) -> None:
        place = self._places.get(key.topic)
        if place is None:
            place = coordinating_partition(key.topic, self.session.member.partitions)
            self._places[key.topic] = place
        self.under_way += 1
        tenure = self.tenures.get(key)
        if tenure is not None:
            self._vigil.sent(key, send, tenure.standing(self.high, self.buffered), now_ms())
        began = time.monotonic()
        future = self._log.append(place, send.message, send.headers)
        session = self.session
        future.add_done_callback(
            lambda done: self._post(
                partial(self._sent, session, key, send, done, time.monotonic() - began)
            )
        )

    def _sent(
        self, session: Session, key: ClaimKey, send: Send, done: Future[Appended], seconds: float
    ) -> None:
        self.under_way -= 1
        error = done.exception()
        message = send.message
        if error is None:
            self._observers.appended(key, type(message).__name__, seconds)
            if isinstance(message, Heartbeat | ReleasingPartition) and not self.log_lost:
                self.to_commit[key] = message.offset
            return
        if isinstance(error, NotAppended):
            raise error
        self._observers.unknown(key, type(message).__name__, str(error))
        if session is self.session:
            self.carry_out(session.member.unknown(send, now_ms()))

    def _won(self, key: ClaimKey, won: Won) -> None:
        old = self.tenures.get(key)
        if old is not None:
            self.lost(old, Lost.UNCERTAIN)
        claim = Claim(key, key.topic, key.topic_partition, won.epoch, won.position)
        heard_s = self._monotonic()
        self.tenures[key] = Tenure(
            claim, next=won.position, allowed_end=won.position, heard_s=heard_s
        )
        self._data.open(claim, won.position)
        self._vigil.won(claim, now_ms())

    def _process(self, key: ClaimKey, offsets: range) -> None:
        tenure = self.tenures.get(key)
        if tenure is None:
            self._vigil.said(
                f"{key.topic}/{key.topic_partition}: {len(offsets)} messages were granted after "
                f"the claim was lost, and are not processed"
            )
            return
        tenure.allowed_end = offsets.stop
        self._data.allow(tenure.claim, offsets)

    def lost(self, tenure: Tenure, reason: Lost) -> None:
        """A claim is not ours any more."""
        claim = tenure.claim
        if claim.lost is None:
            driver = self.session.member.driver(claim.key)
            if reason is Lost.RELEASED:
                claim.released = driver.released
            claim.lost = reason
            self._vigil.lost(claim, reason, tenure.next, driver.consumer.known, now_ms())
        granted = self._me.mode is Mode.AT_MOST_ONCE and tenure.next < tenure.allowed_end
        if not granted or reason is Lost.LOG_LOST_RECORDS:
            dropped = self._data.drop(claim)
            if dropped:
                self._observers.dropped(claim, dropped)
            for hand in list(tenure.hands):
                hand.cut()
        self._forget_if_drained(tenure)
        if reason is Lost.ID_USED_TWICE:
            raise IdUsedTwice(
                f"client id {self._me.client_id} of group {self._group} is used by another "
                f"process that lives: it took {claim.topic}/{claim.partition} from us; give every "
                f"process an id of its own"
            )

    def _forget_if_drained(self, tenure: Tenure) -> None:
        claim = tenure.claim
        if claim.lost is None or tenure.in_hand:
            return
        if self._me.mode is Mode.AT_MOST_ONCE and tenure.next < tenure.allowed_end:
            return
        self._data.drop(claim)
        if self.tenures.get(claim.key) is tenure:
            del self.tenures[claim.key]
        self._observers.drained(claim)

    # --- what the application has done ------------------------------------------------------------

    def fetched(self, claim: Claim, end: int) -> None:
        """A claim's messages below this were fetched."""
        if claim.lost is None:
            self.carry_out(self.session.member.available(claim.key, end, now_ms()))

    def gone(self, claim: Claim, low: int, high: int) -> None:
        """A claim's next messages are gone from the topic: it holds those from `low` on."""
        tenure = self.tenures.get(claim.key)
        if claim.lost is not None or tenure is None or tenure.claim is not claim:
            return
        if tenure.next < low:
            self._vigil.said(
                f"{claim.topic}/{claim.partition}: messages {tenure.next} to {low - 1} are gone "
                f"from the topic and cannot be consumed any more"
            )
        self.carry_out(self.session.member.extent(claim.key, low, high, now_ms()))
        self._data.seek(claim, low)
        self._done(tenure, low)

    def _progressed(self, tenure: Tenure) -> None:
        tenure.told = False  # before it is looked at, so nothing that comes later is missed
        self._done(tenure, tenure.reached())
        if tenure.claim.lost is not None:
            self._forget_if_drained(tenure)

    def _done(self, tenure: Tenure, offset: int) -> None:
        if offset <= tenure.next:
            return
        further, tenure.next = offset - tenure.next, offset
        key = tenure.claim.key
        if tenure.claim.lost is not None or self.tenures.get(key) is not tenure:
            return
        self._observers.done(tenure.claim, offset, further)
        if self._me.mode is Mode.AT_MOST_ONCE and offset < tenure.allowed_end:
            return
        self.carry_out(self.session.member.done(key, offset, now_ms()))

    def ends(self, ends: Mapping[ClaimKey, int]) -> None:
        """Partitions of ours end here."""
        for key, high in ends.items():
            self.carry_out(self.session.member.extent(key, 0, high, now_ms()))

    # --- giving up --------------------------------------------------------------------------------

    def stop(self) -> None:
        """Begin to give everything up."""
        if not self.stopping:
            self.stopping = True
            self.carry_out(self.session.member.stop(now_ms()))
            self.withdraw_unwanted()

    def withdraw_unwanted(self) -> None:
        """At least once: what is given up and was not begun is not waited for."""
        if self._me.mode is Mode.AT_MOST_ONCE:
            return
        member = self.session.member
        for tenure in list(self.tenures.values()):
            key = tenure.claim.key
            if tenure.withdrawn or tenure.claim.lost is not None or member.driver(key).wants:
                continue
            tenure.withdrawn = True
            self._data.drop(tenure.claim)
            end = max([tenure.next, *(hand.cut() for hand in list(tenure.hands))])
            self._progressed(tenure)
            self.carry_out(member.hand_back(key, end, now_ms()))

    def abandon(self, hand: Hand) -> None:
        """The application will not finish what it has in hand."""
        hand.abandon()
        tenure = self.tenures.get(hand.claim.key)
        if tenure is None or tenure.claim is not hand.claim:
            return
        self._progressed(tenure)
        if hand.claim.lost is None and tenure.withdrawn:
            member = self.session.member
            self.carry_out(member.hand_back(hand.claim.key, tenure.next, now_ms()))

    def abandon_rest(self) -> None:
        """The application will finish nothing of what it has in hand."""
        for tenure in list(self.tenures.values()):
            for hand in list(tenure.hands):
                if not hand.finished:
                    self.abandon(hand)

    def committed(self, upto: Message | None) -> None:
        """What was given out one by one is done, up to this message."""
        for tenure in list(self.tenures.values()):
            if upto is None or tenure.claim is upto.claim:
                for hand in tenure.hands:
                    hand.commit(None if upto is None else upto.offset)
                self._progressed(tenure)

    def pause(self, claim: Claim) -> None:
        """Give out nothing more of it; what was given out stays in hand."""
        tenure = self.tenures.get(claim.key)
        if tenure is not None and tenure.claim is claim:
            tenure.paused = True
            ends = [hand.cut() for hand in list(tenure.hands) if not hand.finished]
            self._data.pause(claim, max(ends, default=None))

    def resume(self, claim: Claim) -> None:
        """Go on with it."""
        tenure = self.tenures.get(claim.key)
        if tenure is not None and tenure.claim is claim:
            tenure.paused = False
        if not claim.silent:
            self._data.resume(claim)

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Pass over what lies before this offset."""
        tenure = self.tenures.get(ClaimKey(self._group, topic, partition))
        if tenure is None or tenure.claim.lost is not None:
            raise InvalidOption(f"{topic}/{partition} is not claimed")
        if self._me.mode is Mode.AT_MOST_ONCE:
            raise InvalidOption("at most once a consumer takes what was granted to it")
        for hand in list(tenure.hands):
            self.abandon(hand)
        tenure.hands.clear()
        if offset < tenure.next:
            raise InvalidOption(
                f"{topic}/{partition}: everything below {tenure.next} is done; marshal "
                f"set-position goes back"
            )
        key = tenure.claim.key
        self.carry_out(
            self.session.member.extent(key, offset, max(offset, tenure.allowed_end), now_ms())
        )
        self._data.seek(tenure.claim, offset)
        self._done(tenure, offset)

    def look(self) -> None:
        """See how far the application got with everything."""
        for tenure in list(self.tenures.values()):
            self._progressed(tenure)
        self._hold_back_what_is_silent()
        self.withdraw_unwanted()

    def _hold_back_what_is_silent(self) -> None:
        """At least once: begin nothing of what others may take, and would process again.

        At most once nobody else is granted the same, so nothing is held back.
        """
        stale_s, now_s = self._me.rules.stale_after_ms / 1000, self._monotonic()
        if self._me.mode is Mode.AT_MOST_ONCE:
            return
        found = []
        for tenure in list(self.tenures.values()):
            claim = tenure.claim
            if claim.owned and not claim.silent and now_s - tenure.heard_s > stale_s:
                ends = [hand.cut() for hand in list(tenure.hands) if not hand.finished]
                self._data.pause(claim, max(ends, default=None))
                claim.silent = True
                found.append(claim)
        self._vigil.silent(found, stale_s)

    def heard(self, key: ClaimKey) -> None:
        """A heartbeat of ours was read back, and the claim is still ours."""
        tenure = self.tenures.get(key)
        if tenure is None or not tenure.claim.owned:
            return
        tenure.heard_s = self._monotonic()
        if tenure.claim.silent:
            tenure.claim.silent = False
            self._vigil.heard_again(tenure.claim)
            if not tenure.paused:
                self._data.resume(tenure.claim)

    def drop(self) -> None:
        """It ends by a failure: give out nothing more."""
        for tenure in list(self.tenures.values()):
            self._data.drop(tenure.claim)
            tenure.cut()

    def stand(self, ends: Mapping[ClaimKey, int]) -> None:
        """Tell how all claims stand, given where partitions end."""
        self.high, self.buffered = ends, self._data.buffered()
        for tenure in self.tenures.values():
            if tenure.claim.lost is None:
                self._observers.standing(tenure.claim, tenure.standing(self.high, self.buffered))

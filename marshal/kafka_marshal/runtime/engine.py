"""The thread that feeds an instance's machine, and carries out what it asks for.

Whatever happens (a record was read, an append has an outcome, messages were fetched, the
application is done with some, time has passed) comes into one queue, and is told to the `Member`
in that order by one thread. It decides nothing: what is sent, won, handed over or lost is the
machine's word. When the log lost records it begins anew, as a new instance.
"""

from __future__ import annotations

import queue
import threading
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import attrs
from attrs import define

from kafka_marshal.client.claiming import Claiming
from kafka_marshal.client.consumer import Me, Mode
from kafka_marshal.client.driver import Timing
from kafka_marshal.client.effects import Lost, Process, Send, Won
from kafka_marshal.client.member import For
from kafka_marshal.client.symptoms import Symptoms
from kafka_marshal.codec import MalformedRecord, coordinating_partition
from kafka_marshal.core.messages import Heartbeat, ReleasingPartition
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.runtime.cluster import Cluster
from kafka_marshal.runtime.data import Data
from kafka_marshal.runtime.errors import BrokerFailed, InvalidOption, MarshalError
from kafka_marshal.runtime.growth import Growth
from kafka_marshal.runtime.hand import Hand
from kafka_marshal.runtime.log import Appended, Log, NotAppended
from kafka_marshal.runtime.logs import Who
from kafka_marshal.runtime.message import Claim, Message
from kafka_marshal.runtime.observing import Observer
from kafka_marshal.runtime.reader import Heard, now_ms
from kafka_marshal.runtime.session import Session, open_session
from kafka_marshal.runtime.settings import Settings
from kafka_marshal.runtime.tenure import Tenure
from kafka_marshal.runtime.vigil import Vigil

T = TypeVar("T")

COMMIT_EVERY_S: Final = 1.0
"""So often Kafka's group offsets follow the positions in the log, and it is told how claims
stand."""
LOOK_EVERY_S: Final = 0.25
"""So often it is looked how far the application got within what it has in hand."""
WAKE_PARTS: Final = 16
"""When so small a part of the window is done, the engine is told before it looks by itself."""
ANEW_AFTER_S: Final = 1.0


class IdUsedTwice(MarshalError):
    """Two live processes use one client id in one group: they would take turns for ever."""


class LogLost(MarshalError):
    """At most once: grants may be gone with what the log of claims lost, so nobody goes on."""


class Fenced(MarshalError):
    """The message's claim was lost in the meantime: somebody else goes on from the position."""


@define
class _Topic:
    partitions: int
    only: set[int] | None
    starts: dict[int, int]


class Engine:
    """One consumer's claims, kept by a thread. Its methods may be called by any other."""

    def __init__(
        self,
        settings: Settings,
        topic: str,
        me: Me,
        group: str,
        *,
        data: Callable[[Engine], Data],
        claiming: Claiming,
        timing: Timing,
        observers: Sequence[Observer],
        symptoms: Symptoms,
        read_max: int,
        look_for_partitions_every_s: float,
        commit_to_kafka: bool,
        record_to: Path | None,
        snapshot: Path | None = None,
    ) -> None:
        """Connect; `me` says who it is but for its instance id, which is made anew.

        Raises:
            BrokerFailed: the cluster cannot be reached, or has no such coordination topic.
        """
        self._settings, self._topic, self._group = settings, topic, group
        self._me, self._claiming, self._timing = me, claiming, timing
        self._record_to, self._snapshot = record_to, snapshot
        self._read_max, self._to_kafka = read_max, commit_to_kafka
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.failure: BaseException | None = None
        """Why it stopped by itself; None while all is well."""
        self.ended = threading.Event()
        self.stopping = False
        self._tenures: dict[ClaimKey, Tenure] = {}
        self._topics: dict[str, _Topic] = {}
        self._places: dict[str, int] = {}
        self._to_commit: dict[ClaimKey, int] = {}
        self._under_way = 0
        self._look_at = self._commit_at = 0.0
        self._wake_after = max(1, me.window // WAKE_PARTS)
        self._anew_at: float | None = None
        self._session = self._new_session()
        self._vigil = Vigil(self._who, observers, symptoms, int(me.rules.stale_after_ms))
        self.observers = self._vigil.observers
        """What happens is told to them."""
        self._high: Mapping[ClaimKey, int] = {}
        """Where partitions end, when it was last looked."""
        self._buffered: Mapping[ClaimKey, tuple[int, int]] = {}
        self.cluster = Cluster(settings)
        self.data = data(self)
        self.log = Log(settings, topic, self.said, self.statistics_of("log"))
        self._growth = Growth(
            self.cluster, look_for_partitions_every_s, self._partitions, self._has_grown
        )
        self._thread = threading.Thread(target=self._run, name="marshal-engine", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._begin_reading(self._session)
        self.data.start()
        self._thread.start()
        self._growth.start()

    # --- what the application's threads say -------------------------------------------------------

    @property
    def claims(self) -> list[Claim]:
        """What is ours now, as far as was read."""
        return [tenure.claim for tenure in list(self._tenures.values()) if tenure.claim.owned]

    @property
    def instance_id(self) -> str:
        """Names this run; made anew when the log lost records."""
        return self._session.member.me.instance_id

    def call(self, what: Callable[[], T]) -> T:
        """Do this in the engine's thread, and wait until it is done.

        Raises:
            BrokerFailed: the engine has ended.
        """
        future: Future[T] = Future()

        def called() -> None:
            try:
                future.set_result(what())
            except BaseException as error:
                future.set_exception(error)

        self.post(called)
        while True:
            try:
                return future.result(0.2)
            except TimeoutError:
                if future.done():
                    raise
                if self.ended.is_set():
                    raise self.failure or BrokerFailed("the consumer is closed") from None

    def post(self, event: Callable[[], None]) -> None:
        """Something has happened."""
        self._inbox.put(event)

    def said(self, sentence: str) -> None:
        """Something about the cluster that passes, or that somebody else must mend."""
        self._vigil.said(sentence)

    def statistics_of(self, client: str) -> Callable[[str], None] | None:
        """Who takes what librdkafka says of this client; None where nobody wants to know."""
        if not self.observers.wants_statistics:
            return None
        return partial(self.observers.told, self._group, client)

    def _who(self) -> Who:
        return Who(self._group, self._me.client_id, self.instance_id)

    def add_topic(
        self, topic: str, partitions: int, only: Collection[int] | None, starts: Mapping[int, int]
    ) -> None:
        """Take part in consuming a topic, or claim these partitions of it."""
        known = self._topics.get(topic)
        if known is None:
            chosen = None if only is None else set(only)
            known = self._topics[topic] = _Topic(partitions, chosen, dict(starts))
        else:
            known.partitions = max(known.partitions, partitions)
            known.only = None if only is None or known.only is None else known.only | set(only)
            known.starts.update(starts)
        self._tell_topic(topic, known)

    def in_hand(self, hand: Hand) -> None:
        """The application has taken a chunk; if its claim is lost already, nothing of it counts."""
        tenure = self._tenures.get(hand.claim.key)
        if tenure is not None and tenure.claim is hand.claim:
            tenure.hands.append(hand)
            if tenure.withdrawn:
                hand.cut()
                self.post(partial(self._progressed, tenure))
        if hand.claim.lost is not None and self._me.mode is Mode.AT_LEAST_ONCE:
            hand.cut()
        if not hand.finished:
            self.observers.handed_over(hand.claim, hand.total)

    def progressed(self, hand: Hand) -> None:
        """The application got further with this.

        As long as nobody waits for it the engine finds out when it looks: it is woken when that
        much of the window is done.
        """
        tenure = self._tenures.get(hand.claim.key)
        if tenure is None or tenure.claim is not hand.claim or tenure.told:
            return
        waits = hand.claim.lost is not None or tenure.withdrawn or self.stopping
        much = hand.end - tenure.next >= self._wake_after
        if waits or much or self._me.mode is Mode.AT_MOST_ONCE:
            tenure.told = True
            self.post(partial(self._progressed, tenure))

    def stop(self) -> None:
        """Begin to give everything up; `ended` is set when that is done."""
        self.post(self._stop)

    def leave(self) -> None:
        """End at once; what is owned becomes stale by itself."""
        self.post(self.ended.set)

    def close(self) -> None:
        """Let go of the cluster. `stop` or `leave` comes before."""
        self.ended.set()
        self.post(lambda: None)
        # The engine says last how far the group is, so the data consumer outlives it.
        self._growth.close()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(10)
        self._vigil.ended()
        self.data.close()
        self._session.end()
        self.log.close()

    # --- the thread -------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self.ended.is_set():
                self._wait()
                self._on_time()
            self._commit_positions()
            self._session.put_aside(at_once=True)
        except BaseException as error:
            self._fail(error)
        self.data.wake()

    def _wait(self) -> None:
        """Let happen what has happened, or else wait for it."""
        try:
            self._inbox.get(timeout=self._timeout_s())()
            # What has come together is told together, but time does not stand still meanwhile.
            for _ in range(100):
                self._inbox.get_nowait()()
        except queue.Empty:
            pass

    def _timeout_s(self) -> float:
        due_ms = self._session.member.next_timer_ms
        look_s = max(0.0, min(self._look_at, self._commit_at) - time.monotonic())
        if due_ms is None:
            return min(look_s, LOOK_EVERY_S)
        return max(0.0, min(look_s, LOOK_EVERY_S, (due_ms - now_ms()) / 1000))

    def _on_time(self) -> None:
        session, now = self._session, time.monotonic()
        if now >= self._look_at:
            self._look_at = now + LOOK_EVERY_S
            self._vigil.look(now_ms())
            for tenure in list(self._tenures.values()):
                self._progressed(tenure)
            self._withdraw_unwanted()
            if self._claiming.release_when_behind:
                self.data.ends(lambda ends: self.post(partial(self._ends, ends)))
        due_ms = session.member.next_timer_ms
        if due_ms is not None and now_ms() >= due_ms:
            self._carry_out(session.member.timer(now_ms()))
        if now >= self._commit_at:
            self._commit_at = now + COMMIT_EVERY_S
            self._commit_positions()
            session.put_aside()
            self.data.ends(lambda ends: self.post(partial(self._stand, ends)))
        if self._anew_at is not None and now >= self._anew_at:
            self._begin_anew()
        if self.log.failed is not None and self._anew_at is None:
            raise BrokerFailed(self.log.failed)
        if self.stopping and session.member.drained and not self._under_way:
            self.ended.set()

    def _fail(self, error: BaseException) -> None:
        if self.failure is None:
            self.failure = error
        self._vigil.stopped(error)
        self.ended.set()
        for tenure in list(self._tenures.values()):
            self.data.drop(tenure.claim)
            for hand in list(tenure.hands):
                hand.cut()
        self.data.wake()

    def failed(self, error: BaseException) -> None:
        """Another of the consumer's threads ended by this."""
        self.post(partial(self._fail, error))

    # --- the coordination topic -------------------------------------------------------------------

    def _new_session(self) -> Session:
        me = attrs.evolve(self._me, instance_id=uuid.uuid4().hex)
        return open_session(
            self._settings,
            self._topic,
            me,
            self._group,
            self._claiming,
            self._timing,
            self._read_max,
            self._record_to,
            self._snapshot,
        )

    def _begin_reading(self, session: Session) -> None:
        session.begin(
            lambda heard: self.post(partial(self._heard, session, heard)),
            lambda reason: self.post(partial(self._truncated, session, reason)),
            self.failed,
        )

    def _heard(self, session: Session, heard: Heard) -> None:
        session.folded(heard)
        if session is not self._session:
            return
        member = session.member
        for raw in heard.records:
            try:
                record = raw.decoded()
            except MalformedRecord:
                continue
            self._carry_out(member.record(record, now_ms()))
            message = record.message
            if isinstance(message, Heartbeat) and message.instance_id == member.me.instance_id:
                key = ClaimKey(message.group_id, message.topic, message.partition)
                self._vigil.heard(key, now_ms())
        for place in heard.ended:
            self._carry_out(member.caught_up(place, now_ms()))

    def _truncated(self, session: Session, reason: str) -> None:
        if session is not self._session:
            return
        session.forget()
        if self._me.mode is Mode.AT_MOST_ONCE:
            # Whoever began anew would be granted once more what it has processed.
            raise LogLost(
                f"{reason}; what was granted at most once may be gone with it, so nobody goes on "
                f"by itself: set the positions of group {self._group} (marshal set-position), and "
                f"start again"
            )
        self.said(f"{reason}; beginning anew as a new instance")
        # Whoever owns it next, if nobody set a position, goes on from Kafka's.
        for tenure in list(self._tenures.values()):
            if tenure.claim.lost is None:
                self._progressed(tenure)
                self._to_commit[tenure.claim.key] = tenure.next
        self._commit_positions()
        self._carry_out(session.member.truncated())
        self._anew_at = time.monotonic() + ANEW_AFTER_S

    def _begin_anew(self) -> None:
        self._anew_at = None
        self._session.end()
        for tenure in list(self._tenures.values()):
            self._lost(tenure, Lost.LOG_LOST_RECORDS)
        self._session = self._new_session()
        self._places.clear()  # it may have another number of partitions
        for topic, known in self._topics.items():
            with suppress(BrokerFailed):  # where nobody set a position, Kafka's is the best we have
                asked = [(topic, number) for number in range(known.partitions)]
                found = self.cluster.committed(self._group, asked)
                known.starts.update({number: offset for (_, number), offset in found.items()})
            self._tell_topic(topic, known)
        self._begin_reading(self._session)

    def _tell_topic(self, topic: str, known: _Topic) -> None:
        session = self._session
        self._carry_out(
            session.member.add_topic(
                topic,
                known.partitions,
                now_ms(),
                only=None if known.only is None else sorted(known.only),
                start=lambda partition: known.starts.get(partition, 0),
            )
        )
        session.want(session.member.places)

    # --- carrying out -----------------------------------------------------------------------------

    def _carry_out(self, effects: list[For]) -> None:
        for each in effects:
            match each.effect:
                case Send() as send:
                    self._send(each.key, send)
                case Process(offsets=offsets):
                    self._process(each.key, offsets)
                case Won() as won:
                    self._won(each.key, won)
                case Lost() as reason:
                    tenure = self._tenures.get(each.key)
                    if tenure is not None:
                        self._lost(tenure, reason)

    def _send(self, key: ClaimKey, send: Send) -> None:
        place = self._places.get(key.topic)
        if place is None:
            place = coordinating_partition(key.topic, self._session.member.partitions)
            self._places[key.topic] = place
        self._under_way += 1
        tenure = self._tenures.get(key)
        if tenure is not None:
            self._vigil.sent(key, send, tenure.standing(self._high, self._buffered), now_ms())
        began = time.monotonic()
        future = self.log.append(place, send.message, send.headers)
        session = self._session
        future.add_done_callback(
            lambda done: self.post(
                partial(self._sent, session, key, send, done, time.monotonic() - began)
            )
        )

    def _sent(
        self, session: Session, key: ClaimKey, send: Send, done: Future[Appended], seconds: float
    ) -> None:
        self._under_way -= 1
        error = done.exception()
        message = send.message
        if error is None:
            self.observers.appended(key, type(message).__name__, seconds)
            if isinstance(message, Heartbeat | ReleasingPartition) and self._anew_at is None:
                self._to_commit[key] = message.offset
            return
        if isinstance(error, NotAppended):
            raise error
        self.observers.unknown(key, type(message).__name__, str(error))
        if session is self._session:
            self._carry_out(session.member.unknown(send, now_ms()))

    def _won(self, key: ClaimKey, won: Won) -> None:
        old = self._tenures.get(key)
        if old is not None:
            self._lost(old, Lost.UNCERTAIN)
        claim = Claim(key, key.topic, key.topic_partition, won.epoch, won.position)
        self._tenures[key] = Tenure(claim, next=won.position, allowed_end=won.position)
        self.data.open(claim, won.position)
        self._vigil.won(claim, now_ms())

    def _process(self, key: ClaimKey, offsets: range) -> None:
        tenure = self._tenures.get(key)
        if tenure is None:
            self.said(
                f"{key.topic}/{key.topic_partition}: {len(offsets)} messages were granted after "
                f"the claim was lost, and are not processed"
            )
            return
        tenure.allowed_end = offsets.stop
        self.data.allow(tenure.claim, offsets)

    def _lost(self, tenure: Tenure, reason: Lost) -> None:
        claim = tenure.claim
        if claim.lost is None:
            claim.lost = reason
            known = self._session.member.driver(claim.key).consumer.known
            self._vigil.lost(claim, reason, tenure.next, known, now_ms())
        granted = self._me.mode is Mode.AT_MOST_ONCE and tenure.next < tenure.allowed_end
        if not granted or reason is Lost.LOG_LOST_RECORDS:
            dropped = self.data.drop(claim)
            if dropped:
                self.observers.dropped(claim, dropped)
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
        self.data.drop(claim)
        if self._tenures.get(claim.key) is tenure:
            del self._tenures[claim.key]
        self.observers.drained(claim)

    # --- what the application has done ------------------------------------------------------------

    def fetched(self, claim: Claim, end: int) -> None:
        """A claim's messages below this were fetched."""
        self.post(partial(self._fetched, claim, end))

    def _fetched(self, claim: Claim, end: int) -> None:
        if claim.lost is None:
            self._carry_out(self._session.member.available(claim.key, end, now_ms()))

    def gone(self, claim: Claim, low: int, high: int) -> None:
        """A claim's next messages are gone from the topic."""
        self.post(partial(self._gone, claim, low, high))

    def _gone(self, claim: Claim, low: int, high: int) -> None:
        tenure = self._tenures.get(claim.key)
        if claim.lost is not None or tenure is None or tenure.claim is not claim:
            return
        if tenure.next < low:
            self.said(
                f"{claim.topic}/{claim.partition}: messages {tenure.next} to {low - 1} are gone "
                f"from the topic and cannot be consumed any more"
            )
        self._carry_out(self._session.member.extent(claim.key, low, high, now_ms()))
        self.data.seek(claim, low)
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
        if tenure.claim.lost is not None or self._tenures.get(key) is not tenure:
            return
        self.observers.done(tenure.claim, offset, further)
        if self._me.mode is Mode.AT_MOST_ONCE and offset < tenure.allowed_end:
            return
        self._carry_out(self._session.member.done(key, offset, now_ms()))

    def _ends(self, ends: Mapping[ClaimKey, int]) -> None:
        for key, high in ends.items():
            self._carry_out(self._session.member.extent(key, 0, high, now_ms()))

    # --- giving up --------------------------------------------------------------------------------

    def _stop(self) -> None:
        if not self.stopping:
            self.stopping = True
            self._carry_out(self._session.member.stop(now_ms()))
            self._withdraw_unwanted()

    def _withdraw_unwanted(self) -> None:
        """At least once: what is given up and was not begun is not waited for."""
        if self._me.mode is Mode.AT_MOST_ONCE:
            return
        member = self._session.member
        for tenure in list(self._tenures.values()):
            key = tenure.claim.key
            if tenure.withdrawn or tenure.claim.lost is not None or member.driver(key).wants:
                continue
            tenure.withdrawn = True
            self.data.drop(tenure.claim)
            end = max([tenure.next, *(hand.cut() for hand in list(tenure.hands))])
            self._progressed(tenure)
            self._carry_out(member.hand_back(key, end, now_ms()))

    def abandon(self, hand: Hand) -> None:
        """The application will not finish what it has in hand."""
        hand.abandon()
        tenure = self._tenures.get(hand.claim.key)
        if tenure is None or tenure.claim is not hand.claim:
            return
        self._progressed(tenure)
        if hand.claim.lost is None and tenure.withdrawn:
            member = self._session.member
            self._carry_out(member.hand_back(hand.claim.key, tenure.next, now_ms()))

    def abandon_rest(self) -> None:
        """The application will finish nothing of what it has in hand."""
        for tenure in list(self._tenures.values()):
            for hand in list(tenure.hands):
                if not hand.finished:
                    self.abandon(hand)

    def committed(self, upto: Message | None) -> None:
        """What was given out one by one is done, up to this message."""
        for tenure in list(self._tenures.values()):
            if upto is None or tenure.claim is upto.claim:
                for hand in tenure.hands:
                    hand.commit(None if upto is None else upto.offset)
                self._progressed(tenure)

    def pause(self, claim: Claim) -> None:
        """Give out nothing more of it; what was given out stays in hand."""
        tenure = self._tenures.get(claim.key)
        if tenure is not None and tenure.claim is claim:
            tenure.paused = True
            ends = [hand.cut() for hand in list(tenure.hands) if not hand.finished]
            self.data.pause(claim, max(ends, default=None))

    def resume(self, claim: Claim) -> None:
        """Go on with it."""
        tenure = self._tenures.get(claim.key)
        if tenure is not None and tenure.claim is claim:
            tenure.paused = False
        self.data.resume(claim)

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Pass over what lies before this offset."""
        tenure = self._tenures.get(ClaimKey(self._group, topic, partition))
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
        self._carry_out(
            self._session.member.extent(key, offset, max(offset, tenure.allowed_end), now_ms())
        )
        self.data.seek(tenure.claim, offset)
        self._done(tenure, offset)

    # --- how it stands ----------------------------------------------------------------------------

    def _stand(self, ends: Mapping[ClaimKey, int]) -> None:
        self._high, self._buffered = ends, self.data.buffered()
        for tenure in self._tenures.values():
            if tenure.claim.lost is None:
                self.observers.standing(tenure.claim, tenure.standing(self._high, self._buffered))
        member = self._session.member
        keys = [
            ClaimKey(self._group, topic, number)
            for topic, known in self._topics.items()
            for number in (known.only or range(known.partitions))
        ]
        self._vigil.crowded((member.driver(key) for key in keys), now_ms())

    # --- beside the machine -----------------------------------------------------------------------

    def _commit_positions(self) -> None:
        if self._to_commit:
            offsets, self._to_commit = self._to_commit, {}
            if self._to_kafka:
                self.data.commit(offsets)

    def _partitions(self) -> dict[str, int]:
        known = {topic: each.partitions for topic, each in list(self._topics.items())}
        return {self._topic: self._session.member.partitions, **known}

    def _has_grown(self, topic: str, partitions: int) -> None:
        if topic != self._topic:
            self.post(partial(self._grown, topic, partitions))
            return
        before = self._session.member.partitions
        if partitions != before:
            self.failed(
                BrokerFailed(
                    f"{self._settings.bootstrap}: topic {topic} had {before} partitions and has "
                    f"{partitions} now: claims lie elsewhere from now on, so consumers would not "
                    f"see each other's; stop all of them, and start them again"
                )
            )

    def _grown(self, topic: str, partitions: int) -> None:
        known = self._topics[topic]
        if partitions <= known.partitions:
            return
        known.partitions = partitions
        if known.only is None:
            # What is in a new partition came after us, so it is consumed from its beginning.
            self._tell_topic(topic, known)

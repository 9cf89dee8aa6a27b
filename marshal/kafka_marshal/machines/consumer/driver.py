"""Decides when one instance acts for one claim: timers, batches, and outcomes of the producer.

`consumer` defines what is allowed; this module only decides when to do it. So a mistake here can
cost time, but not safety. Every input is a method call with `now_ms`, a steady clock: it never
steps, may start anywhere, and only measures waiting times. The current time comes from the records
(`log_clock`). The output is a list of effects. There are no threads here, no Kafka and no clock;
the runtime stamps each record that it sends with unix time.

>>> from kafka_marshal.machines.consumer.consumer import InstanceConfig, Mode
>>> from kafka_marshal.core.messages import Record
>>> driver = Driver(InstanceConfig("i1", "c1", Mode.AT_LEAST_ONCE), ClaimKey("g", "events", 0))
>>> [asked] = driver.caught_up(now_ms=0)
>>> asked.message.client_id, driver.caught_up(now_ms=1)
('c1', [])
>>> won, heartbeat = driver.read(Record(7, 0, 5, asked.message, asked.headers), now_ms=5)
>>> won
Won(epoch=0, position=0, position_known=True)
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
from attrs import field, frozen

from kafka_marshal.core.claims.suffix_reader import Field
from kafka_marshal.core.messages import (
    ClaimingMessages,
    ClaimingPartition,
    Headers,
    Heartbeat,
    Message,
    Record,
)
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.core.validators import positive
from kafka_marshal.deprecated import old_method
from kafka_marshal.machines.consumer import consumer as moves
from kafka_marshal.machines.consumer.consumer import ConsumerState, InstanceConfig, Mode
from kafka_marshal.machines.consumer.effects import Effect, Lost, Process, ReleaseReason, Send, Won
from kafka_marshal.machines.consumer.log_clock import AT_ONCE, LogClock


@frozen
class Timing:
    """The waiting times of an instance, in milliseconds of its steady clock."""

    heartbeat_every_ms: int = field(default=60_000, validator=positive)
    """The time between two heartbeats; at most the rules' heartbeat interval, or the claim is
    lost."""
    ask_again_after_ms: int = field(default=5_000, validator=positive)
    """The time from a request that was refused, or has an unknown outcome, to the next one."""


def timing_of(me: InstanceConfig, timing: Timing | None = None) -> Timing:
    """The timing of this consumer: by default one heartbeat in each of its intervals.

    Raises:
        ValueError: the time between heartbeats exceeds the rules' interval; the interval goes
            into the log and is not whole milliseconds; or `me` is an administrator, who does not
            consume.
    """
    if me.admin:
        raise ValueError(f"{me.instance_id} is an administrator and does not consume")
    interval_ms = me.rules.heartbeat_interval_ms
    if me.says_interval and interval_ms != int(interval_ms):
        raise ValueError(
            f"heartbeat_interval_ms is {interval_ms!r}, and the log says it in whole milliseconds"
        )
    timing = timing or Timing(heartbeat_every_ms=max(1, int(interval_ms)))
    if timing.heartbeat_every_ms > interval_ms:
        raise ValueError(
            f"heartbeat_every_ms is {timing.heartbeat_every_ms}, "
            f"more than the heartbeat interval of {interval_ms:g} ms"
        )
    return timing


class Driver:
    """One instance's dealings with one claim. Methods that return effects return them in order."""

    def __init__(
        self,
        me: InstanceConfig,
        key: ClaimKey,
        timing: Timing | None = None,
        *,
        first: int = 0,
    ) -> None:
        """Begin with nothing read; `first` is the first coordinating offset to read.

        Raises:
            ValueError: what `timing_of` raises.
        """
        self.timing = timing_of(me, timing)
        self.me = me
        self.key = key
        self.consumer = ConsumerState.beginning_at(first)
        self.clock = LogClock()
        """The log's clock; drivers of one coordinating partition may share it."""
        self.held_back_until_ms: Callable[[], int] = lambda: AT_ONCE
        """The earliest time to ask for the claim, by the steady clock: later than now while owners
        with another heartbeat interval may be alive."""
        self.wants = True
        """Whether it wants the claim; False after `stop`, until `start_claiming`."""
        self.eager = True
        """Whether it asks by itself as soon as the claim looks claimable; otherwise only by
        `request`."""
        self.released: ReleaseReason | None = None
        """The reason of the last release, or of the pending one; None if there was none."""
        self._reads_live = False
        self._end = 0
        """The end offset of the data topic's partition, as far as this tenure knows."""
        self._gone_below = 0
        """The first offset of the data topic's partition, as far as this tenure knows."""
        self._handed_over = 0
        self._finished = 0
        """At most once: every message below this is finished, or abandoned, as the release then
        states."""
        self._abandoned = False
        """At most once: no message from `_finished` on was begun, and none will be."""
        self._told_offset = 0
        self._told_in_vain = False
        """Whether the last heartbeat has an unknown outcome."""
        self._commit_upto = 0
        """Every message below this is finished, and a heartbeat shall report that at once."""
        self._heartbeat_sent_ms = AT_ONCE
        self._heartbeat_at_ms: int | None = None
        self._patient_until_ms = AT_ONCE
        """It does not ask for the claim before this, after a refused request."""
        self._request: int | None = None
        """At most once: the offset of its request that was not read back yet."""
        self._settled: tuple[ConsumerState, InstanceConfig, bool] | None = None
        """In this state there was nothing to do that is independent of the time; None if there may
        be."""
        self._settled_as_owner = False
        """The value of `acts` in that state."""

    @property
    def next_timer_ms(self) -> int | None:
        """When to call `timer` next, by the steady clock; None while nothing is due."""
        heartbeat_ms, ask_ms = self._heartbeat_at_ms, self._ask_at_ms
        if heartbeat_ms is None or ask_ms is None:
            return ask_ms if heartbeat_ms is None else heartbeat_ms
        return min(heartbeat_ms, ask_ms)

    @property
    def acts(self) -> bool:
        """Whether it owns the claim, by what it has read, and has not released it."""
        return moves.acts(self.me, self.consumer)

    @property
    def asks(self) -> bool:
        """Whether it awaits its own request. Rules: R6."""
        return self.consumer.asked

    @property
    def rests(self) -> bool:
        """Whether `caught_up` has nothing to do: it owns the claim, and nothing has changed."""
        return self._reads_live and self._settled_as_owner and self._is_settled

    @property
    def claimable_at_ms(self) -> int | None:
        """When the claim becomes claimable, by the steady clock: only a hint.

        None while it may not ask for the claim. Before the log's clock is current, this may be too
        late, by at most the time after which an owner is stale.
        """
        if not self.wants or not self._reads_live:
            return None
        if moves.may_claim(self.me, self.consumer) is not None:
            return None
        return max(self._patient_until_ms, self._claimable_at_ms, self.held_back_until_ms())

    @property
    def drained(self) -> bool:
        """Whether every delivered message is finished, and no grant is left."""
        if self.me.mode is Mode.AT_MOST_ONCE:
            return self._abandoned or not self.busy
        return self.consumer.next >= self._handed_over

    @property
    def busy(self) -> bool:
        """At most once: whether this tenure has a batch requested or delivered, and unfinished."""
        return self._request is not None or self._handed_over > self._finished

    # --- what happens -----------------------------------------------------------------------------

    def caught_up(self, now_ms: int) -> list[Effect]:
        """The log was read to its end; call this every time.

        Only then does it ask for a claim. At other times, such as the start or after a sleep, its
        view may be old.
        """
        self._reads_live = True
        self.clock.caught_up()
        return self._time_passed(now_ms)

    def read(self, record: Record, now_ms: int) -> list[Effect]:
        """Read the next record of the claim: one with its key, or a ReleaseGroup of its group."""
        self._reads_live = False
        self.clock.read(record.timestamp_ms, now_ms)
        before = self.consumer
        acted = moves.acts(self.me, before)
        self.consumer = moves.after_read(self.me, before, record)
        acting = moves.acts(self.me, self.consumer)
        own = record.message.instance_id == self.me.instance_id
        if own and self._is_last_request(record.message, record.headers):
            self._request = None
        if own and isinstance(record.message, ClaimingPartition) and not acting:
            # If the claim has a live owner, ask again as soon as that one is stale.
            if self._claimable_at_ms <= now_ms:
                self._patient_until_ms = now_ms + self.timing.ask_again_after_ms
        elif before.known.owned and not self.consumer.known.owned:
            self._patient_until_ms = AT_ONCE
        if acting and (not acted or before.known.epoch != self.consumer.known.epoch):
            return self._begin(now_ms) + self._go_on(now_ms)
        if acted and not acting:
            return self._end_tenure()
        return self._go_on(now_ms)

    def pass_gap(self, first: int) -> list[Effect]:
        """Records before `first` are gone, and it has not read them. Spec: PassGap."""
        self._reads_live = False
        acted = self.acts
        self.consumer = moves.after_gap(self.me, self.consumer, first)
        self._request = None
        return self._end_tenure() if acted else []

    def outcome_unknown(self, sent: Send, now_ms: int) -> list[Effect]:
        """The outcome of sending this record is unknown; it may still land later.

        A release is not sent again (R7). The next heartbeat replaces a lost one. A lost request for
        messages is repeated; if both land, the second one grants nothing.
        """
        if isinstance(sent.message, ClaimingPartition):
            if moves.may_give_up(self.me, self.consumer) is None:
                self.consumer = moves.after_giving_up(self.me, self.consumer)
                self._patient_until_ms = now_ms + self.timing.ask_again_after_ms
        elif self._is_last_request(sent.message, sent.headers):
            self._request = None
        elif isinstance(sent.message, Heartbeat) and sent.message.offset == self._told_offset:
            self._told_in_vain = True
            self._tell_again()
        return self._go_on(now_ms)

    def timer(self, now_ms: int) -> list[Effect]:
        """Time has passed. Early calls do no harm."""
        if self._heartbeat_at_ms is not None and now_ms >= self._heartbeat_at_ms:
            return self._heartbeat(now_ms)
        return self._time_passed(now_ms)

    def messages_available(self, end: int, now_ms: int) -> list[Effect]:
        """The end offset of the data topic's partition is `end`; call this again in each tenure."""
        self._end = max(self._end, end)
        return self._go_on(now_ms)

    def done(self, offset_next: int, now_ms: int) -> list[Effect]:
        """Every delivered message below `offset_next` is finished.

        At least once, messages that finish after the claim was lost do not count: the next owner
        repeats them. At most once, the next batch is requested when all of this one is finished.
        """
        if self.me.mode is Mode.AT_MOST_ONCE:
            self._finished = max(self._finished, offset_next)
            return self._go_on(now_ms)
        # `after_process` for all of them at once. The window was checked when they were delivered.
        # A message beyond it was only delivered if the data topic had lost the ones before it.
        if moves.may_act_as_owner(self.me, self.consumer) is None:
            end = min(offset_next, self._handed_over)
            self.consumer = attrs.evolve(self.consumer, next=max(self.consumer.next, end))
        return self._go_on(now_ms)

    def commit(self, now_ms: int) -> list[Effect]:
        """Send the position now, and not with the next heartbeat. Spec: SendHeartbeat.

        Only one heartbeat is in flight at a time. Calls in the meantime wait for it, and share the
        next one. At most once there is nothing to do: the log granted every message before it was
        delivered.
        """
        self._commit_upto = self.consumer.next
        self._tell_again()
        return self._go_on(now_ms)

    def _tell_again(self) -> None:
        """Send the next heartbeat early, if a commit waits for one whose outcome is unknown.

        If none arrives, commits still send no more than one per `ask_again_after_ms`.
        """
        waits = self.consumer.known.position < self._commit_upto
        if waits and self._told_in_vain and self._heartbeat_at_ms is not None:
            again_ms = self._heartbeat_sent_ms + self.timing.ask_again_after_ms
            self._heartbeat_at_ms = min(self._heartbeat_at_ms, again_ms)

    def stop(self, now_ms: int, why: ReleaseReason = ReleaseReason.STOPPED) -> list[Effect]:
        """Release the claim as soon as every delivered message is finished."""
        if self.wants and (self.acts or self.asks):
            self.released = why
        self.wants = False
        return self._go_on(now_ms)

    def hand_back(self, offset_next: int, now_ms: int) -> list[Effect]:
        """After `stop`: no delivered message from `offset_next` on was begun, and none will be.

        The release does not wait for these messages. At most once, nobody else will process them
        either. The release states that (`marshal-done`), also for a batch that was requested and is
        not granted yet.
        """
        if not self.wants and self.me.mode is Mode.AT_MOST_ONCE:
            self._finished, self._abandoned = offset_next, True
        elif not self.wants:
            self._handed_over = max(self.consumer.next, min(self._handed_over, offset_next))
        return self._go_on(now_ms)

    def start_claiming(self, now_ms: int, *, eager: bool = True) -> list[Effect]:
        """Want the claim again; `eager`: ask for it as soon as it looks claimable."""
        self.wants, self.eager = True, eager
        return self._go_on(now_ms)

    def request(self, now_ms: int) -> list[Effect]:
        """Ask for the claim now, even if it has a live owner.

        Such a request is refused, but every member reads that it was made. Nothing happens if
        asking is not allowed, or the view is too old for it.
        """
        if self.claimable_at_ms is None or now_ms < self.held_back_until_ms():
            return []
        return self._request_claim()

    def log_start_moved(self, low: int, now_ms: int) -> list[Effect]:
        """The first offset of the data topic's partition is now `low`.

        The window and the batch limit how many messages may be processed twice, or lost. There are
        no messages below `low`, so both reach at least to `low` until the log has a position there.
        """
        self._gone_below = max(self._gone_below, low)
        return self.messages_available(low, now_ms)

    def truncated(self) -> list[Effect]:
        """The log's end moved back: all knowledge is void. Begin again, under a new id."""
        self.wants = False
        self.consumer = ConsumerState(stopped=True)
        self._heartbeat_at_ms = None
        return [Lost.LOG_LOST_RECORDS]

    unknown = old_method("unknown", outcome_unknown)
    available = old_method("available", messages_available)
    want = old_method("want", start_claiming)
    ask = old_method("ask", request)
    gone = old_method("gone", log_start_moved)

    # --- what follows -----------------------------------------------------------------------------

    def _begin(self, now_ms: int) -> list[Effect]:
        consumer = self.consumer
        self._handed_over = self._told_offset = self._commit_upto = consumer.next
        self._finished, self._abandoned = consumer.next, False
        # The position may have been set, or the topic created again: fetch its offsets again.
        self._end = self._gone_below = 0
        self._request = None
        assert consumer.known.epoch is not None
        known = Field.POSITION in consumer.reader.certain
        position = moves.floor(self.me, consumer.reader)
        # The first heartbeat tells readers that began in the middle who owns the claim.
        return [Won(consumer.known.epoch, position, known), *self._heartbeat(now_ms)]

    def _end_tenure(self) -> list[Effect]:
        self._heartbeat_at_ms = None
        if self.consumer.stopped:
            self.wants = False
            return [Lost.ID_USED_TWICE]
        if not self.consumer.reader.known:
            return [Lost.UNCERTAIN]
        known = self.consumer.known
        if known.owned:
            return [Lost.TAKEN]
        self.released = ReleaseReason.BY_OTHERS
        return [Lost.PAUSED if known.paused_until_ms is not None else Lost.RELEASED]

    def _heartbeat(self, now_ms: int) -> list[Effect]:
        if moves.may_heartbeat(self.me, self.consumer) is not None:
            return []
        self._settled = None
        self._heartbeat_sent_ms = now_ms
        self._heartbeat_at_ms = now_ms + self.timing.heartbeat_every_ms
        self._told_offset, self._told_in_vain = self.consumer.next, False
        return [moves.heartbeat_sent(self.me, self.consumer, self.key)]

    def _go_on(self, now_ms: int) -> list[Effect]:
        """Do everything that is due and allowed."""
        effects = [
            *self._process_grant(now_ms),
            *self._hand_over(now_ms),
            *self._tell_progress(now_ms),
            *self._release(now_ms),
            *self._claim(now_ms),
            *self._claim_messages(now_ms),
        ]
        # An effect may allow further ones; without effects, nothing has changed.
        self._settled = None if effects else (self.consumer, self.me, self.wants)
        self._settled_as_owner = self.acts
        return effects

    def _time_passed(self, now_ms: int) -> list[Effect]:
        """Do what is due if only the time has changed, or how recent the view is.

        Only asking for the claim depends on these.
        """
        if not self._is_settled:
            return self._go_on(now_ms)
        return self._claim(now_ms) if self.eager else []

    @property
    def _is_settled(self) -> bool:
        settled = self._settled
        return (
            settled is not None
            and settled[0] is self.consumer
            and settled[1] is self.me
            and settled[2] is self.wants
        )

    def _claim(self, now_ms: int) -> list[Effect]:
        ask_at_ms = self._ask_at_ms
        if ask_at_ms is None or now_ms < ask_at_ms:
            return []
        return self._request_claim()

    def _request_claim(self) -> list[Effect]:
        sent = moves.claiming_partition_sent(self.me, self.consumer, self.key)
        self.consumer = moves.after_claiming_partition(self.me, self.consumer)
        return [sent]

    @property
    def _ask_at_ms(self) -> int | None:
        """When it will ask by itself, from the current state; None if it will not.

        Only its own waiting time is stored: a released claim is asked for at once, however recent
        its owner's last heartbeat was.
        """
        return self.claimable_at_ms if self.eager else None

    @property
    def _claimable_at_ms(self) -> int:
        log_ms = self._claimable_at_log_ms
        return AT_ONCE if log_ms is None else self.clock.own_ms(log_ms)

    @property
    def _claimable_at_log_ms(self) -> int | None:
        """When the claim becomes claimable, by the log's clock; None: at any time.

        Spec: LooksClaimable. Only a hint: the log decides. A claim of its own client id is asked
        for at once, as after a restart.
        """
        if not self.consumer.reader.known:
            return self._won_by_silence_at_log_ms
        known = self.consumer.known
        pause_over_ms = known.paused_until_ms
        if known.last_heartbeat_ms is None or known.owner_client == self.me.client_id:
            return pause_over_ms
        # The owner won the claim outside of any pause, or ended it, so there is no pause to wait
        # for.
        return known.last_heartbeat_ms + int(self.me.rules.stale_after_ms) + 1

    @property
    def _won_by_silence_at_log_ms(self) -> int | None:
        """If the owner is unknown, the time from which a request has a certain answer.

        Spec: DefiniteWin. Any request may have won, including its own, so each request starts the
        wait again. In a silent log, the first request shows the current time.
        """
        reader, rules = self.consumer.reader, self.me.rules
        if reader.head_ms is None:
            return None
        alive_ms = max(reader.head_ms, reader.alive_ms or reader.head_ms)
        head_over_ms = max(
            reader.head_ms + rules.pause_max_ms, alive_ms + int(rules.stale_after_ms)
        )
        return max(head_over_ms + 1, reader.claim.paused_until_ms or reader.head_ms)

    def _is_last_request(self, message: Message, headers: Headers) -> bool:
        """Whether it is the awaited request, and not a late copy of an older one."""
        return (
            isinstance(message, ClaimingMessages)
            and message.offset == self._request
            and headers.epoch == self.consumer.known.epoch
        )

    def _claim_messages(self, now_ms: int) -> list[Effect]:
        """At most once: request the available messages, if no other batch is pending.

        So a crash loses at most one batch: the last one that the log granted to this tenure.
        """
        if not self.wants or self.busy:
            return []
        position = self.consumer.known.position
        batch = max(self.me.batch, self._gone_below - position)
        offset = min(self._end, position + batch)
        me = self.me if batch == self.me.batch else attrs.evolve(self.me, batch=batch)
        if moves.may_claim_messages(me, self.consumer, offset) is not None:
            return []
        sent = moves.claiming_messages_sent(self.me, self.consumer, self.key, offset)
        self.consumer = moves.after_claiming_messages(self.me, self.consumer, offset)
        self._request = offset
        return [sent]

    def _process_grant(self, now_ms: int) -> list[Effect]:
        """At most once: deliver exactly the grants that were read. Rules: R4."""
        if moves.may_process_grant(self.me, self.consumer) is not None:
            return []
        granted = self.consumer.granted
        self.consumer = moves.after_process_grant(self.me, self.consumer)
        self._handed_over = granted[-1].stop
        # The original's readers see the position only in a heartbeat.
        return [*map(Process, granted), *self._heartbeat(now_ms)]

    def _hand_over(self, now_ms: int) -> list[Effect]:
        """At least once: deliver what the window allows. Rules: R5.

        The window counts from the last accepted position. So at most one window of messages is
        delivered and unfinished, and at most one window is processed again.
        """
        me, consumer = self.me, self.consumer
        if me.mode is not Mode.AT_LEAST_ONCE or not self.wants:
            return []
        if moves.may_act_as_owner(me, consumer) is not None:
            return []
        allowed = moves.floor(me, consumer.reader) + me.window
        end = min(self._end, max(allowed, self._gone_below))
        if end > self._handed_over:
            handed_over, self._handed_over = self._handed_over, end
            return [Process(range(handed_over, end))]
        return []

    def _tell_progress(self, now_ms: int) -> list[Effect]:
        """At least once: send a heartbeat early, if its position is awaited."""
        me, consumer = self.me, self.consumer
        if me.mode is not Mode.AT_LEAST_ONCE:
            return []
        # Half of the window is finished: the other half need not wait if the log has this position
        # by then.
        half = self.wants and consumer.next - self._told_offset >= (me.window + 1) // 2
        # A release reports the position too.
        commits = self._commits and not (self.drained and not self.wants)
        return self._heartbeat(now_ms) if half or commits else []

    @property
    def _commits(self) -> bool:
        """Whether to send a position at once; not while a heartbeat with one is in flight."""
        if self._told_offset >= self._commit_upto:
            return False
        return self._told_offset <= moves.floor(self.me, self.consumer.reader)

    def _release(self, now_ms: int) -> list[Effect]:
        if self.wants or not self.drained:
            return []
        if moves.may_release(self.me, self.consumer) is not None:
            return []
        done = None
        if self.me.mode is Mode.AT_MOST_ONCE:
            position = moves.offset_to_send(self.me, self.consumer)
            done = self._finished if self._abandoned else position
        sent = moves.releasing_partition_sent(self.me, self.consumer, self.key, done=done)
        self.consumer = moves.after_release(self.me, self.consumer)
        self._heartbeat_at_ms = None
        return [sent, Lost.RELEASED]

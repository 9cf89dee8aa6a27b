"""The state of the compiled judge in growing arrays, and its conversion to a `Validator`.

It makes room, assigns codes and drops records that no instance will read. `kernel.judge` decides.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from kafka_marshal.capture import UnreadableSource, fields_of
from kafka_marshal.codec import coordinating_partition
from kafka_marshal.core.claims.suffix_reader import Reader
from kafka_marshal.core.partition_states import PartitionStates
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.kernel import steps
from kafka_marshal.kernel.columns import HEADER_COLUMNS, NameCodes
from kafka_marshal.kernel.judge import consumers, events, lines
from kafka_marshal.kernel.judge.events import RunColumns
from kafka_marshal.kernel.judge.lines import EventColumns, EventLines
from kafka_marshal.machines.consumer.consumer import ConsumerState, Mode
from kafka_marshal.machines.consumer.effects import Send
from kafka_marshal.machines.ranges.participant import ANCHOR
from kafka_marshal.validate.compiled.words import Words
from kafka_marshal.validate.instances import Instance, InstancePartition
from kafka_marshal.validate.log import PartitionLog
from kafka_marshal.validate.reading import event_of
from kafka_marshal.validate.run import Setting, Started
from kafka_marshal.validate.validator import Judgement, Validator, lowest_of

_KIND_NAMES: Final = {
    lines.READ: "Read",
    lines.SENT: "Sent",
    lines.APPENDED: "Appended",
    lines.PROCESSED: "Processed",
    lines.STARTED: "Started",
    lines.CRASHED: "Crashed",
    lines.GAVE_UP: "GaveUp",
}
ROWS_KEPT_MIN: Final = 1 << 16
"""The log is only searched for droppable rows once it has this many."""
_T = TypeVar("_T", bound=np.generic)


def _longer(array: npt.NDArray[_T], count: int, fill: int, axis: int = 0) -> npt.NDArray[_T]:
    """The same array with room for `count` along an axis."""
    if array.shape[axis] >= count:
        return array
    shape = list(array.shape)
    shape[axis] = max(count, 2 * shape[axis]) - shape[axis]
    return np.concatenate([array, np.full(shape, fill, array.dtype)], axis)


class CompiledJudge:
    """The compiled judge's state of a run."""

    def __init__(self, setting: Setting, starts: Sequence[Mapping[int, int]]) -> None:
        self._setting = setting
        self._lowest = lowest_of(starts, setting.partitions)
        self._names = names = NameCodes()
        self._members = {name: place for place, name in enumerate(setting.members)}
        rules = setting.rules
        self._rules = (
            int(np.floor(rules.stale_after_ms)),
            int(rules.pause_max_ms),
            int(rules.clock_rewind_max_ms),
        )
        places, members = setting.partitions, len(setting.members)
        self.lines = EventLines(list(setting.members), names, never=[ANCHOR])
        self._homes: list[int] = []
        self._claims = np.full((1, 1), -1, np.int32)
        self._topics = 0
        self._run = RunColumns(
            members=np.zeros((members, consumers.MEMBER_FIELDS), np.int64),
            places=np.full((members, places, events.PLACE_FIELDS), -1, np.int64),
            consumers=np.zeros((256, consumers.CONSUMER_FIELDS), np.int64),
            next_row=np.full(256, -1, np.int32),
            consumer_rows=np.full((members, 1), -1, np.int32),
            log=np.zeros((256, events.LOG_FIELDS), np.int64),
            log_headers=np.zeros((256, len(HEADER_COLUMNS)), np.int64),
            log_places=np.full((places, events.LOG_PLACE_FIELDS), -1, np.int64),
            log_rows=np.full((places, 1), -1, np.int32),
            log_newborns=np.full((places, 1), -1, np.int32),
            log_firsts=np.full((places, 1), -1, np.int32),
            sends=np.full((1, events.SEND_FIELDS), -1, np.int64),
            send_headers=np.zeros((1, len(HEADER_COLUMNS)), np.int64),
            counts=np.zeros(events.COUNTS, np.int64),
            kinds=np.zeros(lines.KINDS, np.int64),
            table=names.table,
            homes=np.zeros(1, np.int32),
            recorded=np.full(1, -1, np.int32),
        )
        self._run.log_places[:, events.BEGINS] = steps.NONE
        self._run.log_places[:, events.END] = self._run.log_places[:, events.HAS_GAPS] = 0
        self._rows_kept = 0
        for place, member in enumerate(setting.members.values()):
            me = member.me
            self._run.members[place] = (
                names.instances.code(me.instance_id),
                names.clients.code(me.client_id),
                names.groups.code(member.group),
                me.mode is Mode.AT_MOST_ONCE,
                me.window,
                me.batch,
                me.start,
                me.admin,
                me.certifies,
                int(me.rules.heartbeat_interval_ms),
                False,
                False,
            )

    def go_on(self, columns: EventColumns, row: int) -> int:
        """Judge the lines from a row on; return the first that is not ordinary, or their number."""
        count = len(columns.kind)
        self._make_room(count - row)
        return int(events.judge(self._run, self._rules, columns, self._claims, row, count))

    def starts(self, line: str, where: str) -> bool:
        """`Validator._start`; False if it has started before."""
        event = event_of(fields_of(line, where), where, self._setting)
        assert isinstance(event, Started)
        self._make_room_for_rows(self._setting.partitions)
        member, run = self._members[event.instance], self._run
        me = run.members[member]
        if me[consumers.STARTED]:
            return False
        me[consumers.STARTED] = me[consumers.RUNNING] = True
        lowest = self._lowest.pop() if self._lowest and self._lowest[-1] else None
        for partition in range(self._setting.partitions):
            first = event.first.get(partition, 0)
            place = run.places[member, partition]
            if self._dropped(partition) and (lowest is None or first < lowest[partition]):
                raise UnreadableSource(f"{where}: the file has changed while it was read")
            before = events.row_before(run, partition, first)
            place[events.LAST] = before
            place[events.NEXT_INDEX] = (
                self._dropped(partition) if before < 0 else run.log[before, events.INDEX] + 1
            )
            newborn = run.counts[events.CONSUMER_ROWS]
            run.counts[events.CONSUMER_ROWS] += 1
            events.begin_row(run.consumers, newborn, first)
            place[events.NEWBORN], place[events.FIRST] = newborn, first
        run.kinds[lines.STARTED] += 1
        return True

    def _dropped(self, partition: int) -> int:
        """The number of dropped records of a partition."""
        head = self._run.log_places[partition, events.HEAD_ROW]
        return 0 if head < 0 else int(self._run.log[head, events.INDEX])

    def _make_room(self, lines_to_come: int) -> None:
        """Make room for everything that the next lines can add."""
        if self._run.counts[events.LOG_ROWS] >= 2 * self._rows_kept + ROWS_KEPT_MIN:
            self._drop_rows()
        run, names = self._run, self._names
        self._know_topics()
        table, claims, groups = names.table, len(self._homes), len(names.groups)
        homes = _longer(run.homes, claims, -1)
        homes[:claims] = self._homes
        instances = len(run.recorded)
        recorded = _longer(run.recorded, len(names.instances), -1)
        if len(recorded) > instances:
            for name, member in self._members.items():
                recorded[names.instances.code(name)] = member
        logged = int(run.counts[events.LOG_ROWS]) + lines_to_come
        self._run = run._replace(
            consumer_rows=_longer(run.consumer_rows, claims, -1, axis=1),
            log=_longer(run.log, logged, 0),
            log_headers=_longer(run.log_headers, logged, 0),
            log_rows=_longer(run.log_rows, claims, -1, axis=1),
            log_newborns=_longer(run.log_newborns, groups, -1, axis=1),
            log_firsts=_longer(run.log_firsts, groups, -1, axis=1),
            table=table,
            homes=homes,
            recorded=recorded,
        )
        # A line adds a row of its instance, or the log's row of a claim and the group's newborn.
        self._make_room_for_rows(2 * lines_to_come)
        self._make_room_for_sends(lines_to_come)

    def _make_room_for_rows(self, more: int) -> None:
        run = self._run
        rows = int(run.counts[events.CONSUMER_ROWS]) + more
        self._run = run._replace(
            consumers=_longer(run.consumers, rows, 0), next_row=_longer(run.next_row, rows, -1)
        )

    def _make_room_for_sends(self, more: int) -> None:
        run = self._run
        known = len(run.sends)
        if known >= int(run.counts[events.UNDER_WAY]) + more + 1:
            return
        sends = _longer(run.sends, known + more + 1, -1)
        # New rows are free: linked one after the other, before the earlier free ones.
        sends[known:, events.S_AFTER] = np.arange(known + 1, len(sends) + 1)
        sends[-1, events.S_AFTER] = run.counts[events.FREE_SEND] if known > 1 else -1
        run.counts[events.FREE_SEND] = known
        headers = _longer(run.send_headers, len(sends), 0)
        self._run = run._replace(sends=sends, send_headers=headers)

    def _know_topics(self) -> None:
        """Set the claim of each topic in an event, by the group of its instance."""
        names, topics = self._names, self.lines.topics
        groups = [each.group for each in self._setting.members.values()]
        for code in range(self._topics, len(topics)):
            topic, partition = self.lines.topic(code)
            for group in dict.fromkeys(groups):
                claim = names.claim(ClaimKey(group, topic, partition))
                at = names.groups.code(group)
                claims = _longer(self._claims, len(names.groups), -1)
                self._claims = _longer(claims, code + 1, -1, axis=1)
                self._claims[at, code] = claim
        self._topics = len(topics)
        for key in names.claim_keys()[len(self._homes) :]:
            self._homes.append(coordinating_partition(key.topic, self._setting.partitions))

    def _drop_rows(self) -> None:
        """Drop rows that no running instance will read, and where none will begin."""
        run = self._run
        kept = int(run.counts[events.LOG_ROWS])
        running = run.members[:, consumers.RUNNING] == 1
        for partition in range(self._setting.partitions):
            log = run.log_places[partition]
            if log[events.HEAD_ROW] < 0:
                continue
            lasts = run.places[running, partition, events.LAST]
            if self._lowest and self._lowest[-1]:
                lowest = self._lowest[-1][partition]
                lasts = np.append(lasts, events.row_before(run, partition, lowest))
            if not len(lasts):
                continue
            first = int(lasts.min())
            kept = min(kept, first if first >= 0 else int(log[events.HEAD_ROW]))
        events.drop_rows(run, kept)
        self._rows_kept = int(run.counts[events.LOG_ROWS])

    def judgement(self) -> Judgement:
        """The judgement: every event so far is explained."""
        kinds = self._explained()
        return Judgement(None, sum(kinds.values()), kinds, int(self._run.counts[events.STRANGERS]))

    def _explained(self) -> Counter[str]:
        kinds = enumerate(self._run.kinds)
        return Counter({_KIND_NAMES[kind]: int(count) for kind, count in kinds if count})

    # --- as objects ---------------------------------------------------------------------------

    def validator(self) -> Validator:
        """A validator with the same state."""
        self._drop_rows()
        run, setting = self._run, self._setting
        validator = Validator(setting)
        validator.resume(
            self._lowest,
            self._explained(),
            int(run.counts[events.STRANGERS]),
        )
        words = Words(self._names)
        for partition in range(setting.partitions):
            if run.log_places[partition, events.END] or run.members[:, consumers.STARTED].any():
                validator.logs[partition] = self._log(words, partition)
        for member, name in enumerate(setting.members):
            if run.members[member, consumers.STARTED]:
                self._put_instance(words, member, validator.instances[name])
        return validator

    def _log(self, words: Words, partition: int) -> PartitionLog:
        run, place = self._run, self._run.log_places[partition]
        log = PartitionLog(self._setting.rules)
        begins = int(place[events.BEGINS])
        beginning = Reader.beginning_at(begins) if begins > 0 else Reader()
        states = PartitionStates[ClaimKey, Reader](beginning)
        for code, group in enumerate(self._names.groups.names()):
            at = -1 if code >= run.log_newborns.shape[1] else run.log_newborns[partition, code]
            if at >= 0 and (newborn := words.reader(run.consumers[at])) != beginning:
                states.put_newborn(group, newborn)
        for code, key in enumerate(self._names.claim_keys()):
            if code < run.log_rows.shape[1] and (at := run.log_rows[partition, code]) >= 0:
                states.put(key, words.reader(run.consumers[at]))
        entries, row = [], int(place[events.HEAD_ROW])
        while row >= 0:
            entries.append(words.entry(run.log[row], run.log_headers[row]))
            row = int(run.log[row, events.AFTER])
        log.resume(entries, states, self._dropped(partition), bool(place[events.HAS_GAPS]))
        return log

    def _put_instance(self, words: Words, member: int, instance: Instance) -> None:
        run = self._run
        instance.started = True
        instance.running = bool(run.members[member, consumers.RUNNING])
        for partition in range(self._setting.partitions):
            place = run.places[member, partition]
            first = int(place[events.FIRST])
            beginning = ConsumerState.beginning_at(first)
            states = PartitionStates[ClaimKey, ConsumerState](beginning)
            newborn = words.consumer(run.consumers[place[events.NEWBORN]])
            if newborn != beginning:
                states.put_newborn(instance.group, newborn)
            outbox, at = deque[Send](), int(place[events.OUT_HEAD])
            while at >= 0:
                outbox.append(words.send(run.sends[at], run.send_headers[at]))
                at = int(run.sends[at, events.S_AFTER])
            instance.partitions[partition] = InstancePartition(
                states, int(place[events.NEXT_INDEX]), outbox, first=first
            )
        for code, key in enumerate(self._names.claim_keys()):
            at = run.consumer_rows[member, code] if code < run.consumer_rows.shape[1] else -1
            if at >= 0:
                states = instance.partitions[int(run.homes[code])].consumers
                states.put(key, words.consumer(run.consumers[at]))

"""Judges the events of a run one after another: `validate.validator`, compiled.

It stops at the first event that is not ordinary, or cannot be explained, without having changed
anything for it. The original decides which of the two it is, and gives the reason.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from kafka_marshal.kernel.columns import Codes, Ints
from kafka_marshal.kernel.judge.consumers import (
    ADMIN,
    ASKED,
    CLIENT,
    GRANTS,
    GROUP,
    INSTANCE,
    NEXT,
    RUNNING,
    STARTED,
    STOPPED,
    VIEW,
    has_room,
    processes,
    reads,
    sends,
)
from kafka_marshal.kernel.judge.lines import (
    APPENDED,
    CRASHED,
    GAVE_UP,
    PROCESSED,
    READ,
    SENT,
)
from kafka_marshal.kernel.judge.readers import (
    CERTAIN,
    EVERYTHING,
    UNDECIDED,
    read_record,
)
from kafka_marshal.kernel.steps import NEW_CLAIM, NONE, RELEASE_GROUP

(LAST, NEXT_INDEX, NEWBORN, FIRST_ROW, OUT_HEAD, OUT_TAIL, FIRST, PLACE_FIELDS) = range(8)
"""The state of an instance in a coordinating partition. The log row that it read last, or -1. The
index of the next record. Consumer rows: that of a claim without records, and the first of the
others. Send rows: those in flight. The offset at which it began to read."""
(
    OFFSET, TIMESTAMP, KIND, VERSION, NUMBER, UNIX_S, ADDRESS, PRESENT, PARTITION, INDEX,
    AFTER, BEFORE, LOG_FIELDS,
) = range(13)  # fmt: skip
"""A record; its index in the partition; the rows before and after it there, or -1."""
(S_KIND, S_VERSION, S_NUMBER, S_ADDRESS, S_PRESENT, S_AFTER, SEND_FIELDS) = range(7)
(BEGINS, END_OFFSET, HEAD_ROW, TAIL_ROW, END, HAS_GAPS, LOG_PLACE_FIELDS) = range(7)
"""The state of a coordinating partition. The offset at which its log began, or NONE; that of the
last record, or -1. Its first and last row, or -1; its number of records; whether offsets are
missing."""
(LOG_ROWS, CONSUMER_ROWS, FREE_SEND, UNDER_WAY, STRANGERS, COUNTS) = range(6)
"""The number of rows used for the log and for consumers. The first free row of sends, and the
number of those in use. The number of records by senders that were not recorded."""

_compiled = numba.njit(cache=True, nogil=True)


class RunColumns(NamedTuple):
    """The state of a run, as arrays. Ids, claims and addresses are codes."""

    members: Ints
    """By recorded instance."""
    places: Ints
    """By recorded instance and coordinating partition."""
    consumers: Ints
    """The consumers of instances, and those of the log itself, which is a reader too."""
    next_row: Codes
    """The next consumer row of the same instance and partition, or of the same group."""
    consumer_rows: Codes
    """By recorded instance and claim: its row, or -1."""
    log: Ints
    log_headers: Ints
    log_places: Ints
    log_rows: Codes
    """By coordinating partition and claim: the row of the log's own reader, or -1."""
    log_newborns: Codes
    """By coordinating partition and group, like `PLACE_FIELDS` of an instance."""
    log_firsts: Codes
    sends: Ints
    send_headers: Ints
    counts: Ints
    kinds: Ints
    """The number of explained events of each kind."""
    table: Codes
    """By address: instance, client, group, claim."""
    homes: Codes
    """By claim: its coordinating partition."""
    recorded: Codes
    """By instance id: the index of the member, or -1."""


@_compiled
def begin_row(consumers, at, first):  # type: ignore[no-untyped-def]
    """`ConsumerState.beginning_at`."""
    row = consumers[at]
    row[:] = NONE
    for field, number in enumerate(NEW_CLAIM):
        row[field] = number
    if first == 0:
        row[CERTAIN] = EVERYTHING
    else:
        row[CERTAIN] = 0
        row[UNDECIDED] = first - 1
    row[VIEW] = first
    row[ASKED] = row[STOPPED] = row[NEXT] = row[GRANTS] = 0


@_compiled
def _new_row(run):  # type: ignore[no-untyped-def]
    at = run.counts[CONSUMER_ROWS]
    run.counts[CONSUMER_ROWS] += 1
    run.next_row[at] = -1
    return at


@_compiled
def consumer_row(run, member, claim, place):  # type: ignore[no-untyped-def]
    """The row of a claim's machine; a new one starts as the newborn."""
    at = run.consumer_rows[member, claim]
    if at < 0:
        at = _new_row(run)
        at_place = run.places[member, place]
        run.consumers[at] = run.consumers[at_place[NEWBORN]]
        run.next_row[at] = at_place[FIRST_ROW]
        at_place[FIRST_ROW] = at
        run.consumer_rows[member, claim] = at
    return at


@_compiled
def _fold(run, rules, at, row):  # type: ignore[no-untyped-def]
    """The log's own reader of a claim folds a record."""
    record = run.log[row]
    address = run.table[record[ADDRESS]]
    read_record(
        run.consumers, at, record[KIND], record[VERSION], record[NUMBER], record[PRESENT],
        run.log_headers, row, record[OFFSET], record[TIMESTAMP], np.int64(address[0]),
        np.int64(address[1]), rules[0], rules[1], rules[2],
    )  # fmt: skip


@_compiled
def _log_newborn(run, place, group):  # type: ignore[no-untyped-def]
    """The log's reader of a claim of the group without records."""
    at = run.log_newborns[place, group]
    if at < 0:
        at = _new_row(run)
        begin_row(run.consumers, at, run.log_places[place, BEGINS])
        run.log_newborns[place, group] = at
    return at


@_compiled
def _append(run, rules, row):  # type: ignore[no-untyped-def]
    """`PartitionLog.append`, for a row that exists."""
    record = run.log[row]
    place = record[PARTITION]
    log = run.log_places[place]
    if record[OFFSET] != log[END_OFFSET] + 1:
        log[HAS_GAPS] = 1
    if log[BEGINS] == NONE:
        log[BEGINS] = record[OFFSET]
    record[INDEX], record[AFTER], record[BEFORE] = log[END], -1, log[TAIL_ROW]
    log[END_OFFSET] = record[OFFSET]
    log[END] += 1
    if log[TAIL_ROW] >= 0:
        run.log[log[TAIL_ROW], AFTER] = row
    else:
        log[HEAD_ROW] = row
    log[TAIL_ROW] = row
    address = run.table[record[ADDRESS]]
    group = address[2]
    newborn = _log_newborn(run, place, group)
    if record[KIND] == RELEASE_GROUP:
        _fold(run, rules, newborn, row)
        at = run.log_firsts[place, group]
        while at >= 0:
            _fold(run, rules, at, row)
            at = run.next_row[at]
        return
    claim = address[3]
    at = run.log_rows[place, claim]
    if at < 0:
        at = _new_row(run)
        run.consumers[at] = run.consumers[newborn]
        run.next_row[at] = run.log_firsts[place, group]
        run.log_firsts[place, group] = at
        run.log_rows[place, claim] = at
    _fold(run, rules, at, row)


@_compiled
def _reads(run, rules, me, at, row):  # type: ignore[no-untyped-def]
    record = run.log[row]
    address = run.table[record[ADDRESS]]
    reads(
        me, run.consumers, at, record[KIND], record[VERSION], record[NUMBER], record[PRESENT],
        run.log_headers, row, record[OFFSET], record[TIMESTAMP], np.int64(address[0]),
        np.int64(address[1]), rules[0], rules[1], rules[2],
    )  # fmt: skip


@_compiled
def _read(run, rules, member, place, offset):  # type: ignore[no-untyped-def]
    """`Validator._read`, and `Instance.read`."""
    me, at_place = run.members[member], run.places[member, place]
    last = at_place[LAST]
    row = run.log_places[place, HEAD_ROW] if last < 0 else run.log[last, AFTER]
    if row < 0 or run.log[row, OFFSET] != offset:
        return False
    address = run.table[run.log[row, ADDRESS]]
    if address[2] == me[GROUP]:
        kind = run.log[row, KIND]
        if kind == RELEASE_GROUP:
            _reads(run, rules, me, at_place[NEWBORN], row)
            at = at_place[FIRST_ROW]
            while at >= 0:
                _reads(run, rules, me, at, row)
                at = run.next_row[at]
        elif run.homes[address[3]] == place:
            at = consumer_row(run, member, address[3], place)
            if not has_room(me, run.consumers[at], kind, address[0]):
                return False
            _reads(run, rules, me, at, row)
    at_place[LAST] = row
    at_place[NEXT_INDEX] += 1
    return True


@_compiled
def _send(run, events, member, place, value):  # type: ignore[no-untyped-def]
    """`Instance.send`."""
    me = run.members[member]
    address = run.table[events.address[value]]
    if address[0] != me[INSTANCE] or address[1] != me[CLIENT] or address[2] != me[GROUP]:
        return False
    kind, number = events.message[value], events.number[value]
    version, present = events.version[value], events.present[value]
    if kind == RELEASE_GROUP:
        if version != 0 or present or not me[ADMIN]:
            return False
    else:
        if run.homes[address[3]] != place:
            return False
        at = consumer_row(run, member, address[3], place)
        if not sends(me, run.consumers[at], kind, version, number, present, events.headers[value]):
            return False
    free = run.counts[FREE_SEND]
    send = run.sends[free]
    run.counts[FREE_SEND] = send[S_AFTER]
    run.counts[UNDER_WAY] += 1
    send[S_KIND], send[S_VERSION], send[S_NUMBER] = kind, version, number
    send[S_ADDRESS], send[S_PRESENT], send[S_AFTER] = events.address[value], present, -1
    run.send_headers[free] = events.headers[value]
    at_place = run.places[member, place]
    if at_place[OUT_HEAD] < 0:
        at_place[OUT_HEAD] = free
    else:
        run.sends[at_place[OUT_TAIL], S_AFTER] = free
    at_place[OUT_TAIL] = free
    return True


@_compiled
def _is_same(send, headers, events, value):  # type: ignore[no-untyped-def]
    if (
        send[S_KIND] != events.message[value]
        or send[S_VERSION] != events.version[value]
        or send[S_NUMBER] != events.number[value]
        or send[S_ADDRESS] != events.address[value]
        or send[S_PRESENT] != events.present[value]
    ):
        return False
    for column in range(len(headers)):  # noqa: SIM110  (numba knows no generators)
        if headers[column] != events.headers[value, column]:
            return False
    return True


@_compiled
def _lands(run, events, member, place, value):  # type: ignore[no-untyped-def]
    """`Instance.lands`, with an idempotent producer."""
    if not run.members[member, STARTED]:
        return False
    at_place = run.places[member, place]
    at, passed = at_place[OUT_HEAD], 1
    while at >= 0 and not _is_same(run.sends[at], run.send_headers[at], events, value):
        at = run.sends[at, S_AFTER]
        passed += 1
    if at < 0:
        return False
    run.counts[UNDER_WAY] -= passed
    head, after = at_place[OUT_HEAD], run.sends[at, S_AFTER]
    run.sends[at, S_AFTER] = run.counts[FREE_SEND]
    run.counts[FREE_SEND] = head
    at_place[OUT_HEAD] = after
    if after < 0:
        at_place[OUT_TAIL] = -1
    return True


@_compiled
def _land(run, rules, events, place, offset, timestamp_ms, value):  # type: ignore[no-untyped-def]
    """`Validator._append`."""
    if offset <= run.log_places[place, END_OFFSET]:
        return False
    member = run.recorded[run.table[events.address[value], 0]]
    if member < 0:
        run.counts[STRANGERS] += 1
    elif not _lands(run, events, member, place, value):
        return False
    row = run.counts[LOG_ROWS]
    run.counts[LOG_ROWS] += 1
    record = run.log[row]
    record[OFFSET], record[TIMESTAMP], record[PARTITION] = offset, timestamp_ms, place
    record[KIND], record[VERSION] = events.message[value], events.version[value]
    record[NUMBER], record[UNIX_S] = events.number[value], events.unix_s[value]
    record[ADDRESS], record[PRESENT] = events.address[value], events.present[value]
    run.log_headers[row] = events.headers[value]
    _append(run, rules, row)
    return True


@_compiled
def judge(run, rules, events, claims, begin, end):  # type: ignore[no-untyped-def]
    """Apply the events from `begin` on; return the first that is not ordinary, or `end`.

    `rules`: stale_after_ms, pause_max_ms, clock_rewind_max_ms. `claims`: the code of a claim, by
    group and by the claim's code in an event.
    """
    places = len(run.log_places)
    for row in range(begin, end):
        kind, who, place = events.kind[row], events.who[row], events.place[row]
        if kind == READ:
            if place >= places or not run.members[who, RUNNING]:
                return row
            if not _read(run, rules, who, place, events.first[row]):
                return row
        elif kind == SENT:
            if place >= places or not run.members[who, RUNNING]:
                return row
            if not _send(run, events, who, place, events.value[row]):
                return row
        elif kind == APPENDED:
            offset, timestamp_ms = events.first[row], events.second[row]
            if place >= places:
                return row
            if not _land(run, rules, events, place, offset, timestamp_ms, events.value[row]):
                return row
        elif kind in (PROCESSED, GAVE_UP):
            if not run.members[who, RUNNING]:
                return row
            claim = claims[run.members[who, GROUP], place]
            at = consumer_row(run, who, claim, run.homes[claim])
            if kind == GAVE_UP:
                if not run.consumers[at, ASKED]:
                    return row
                run.consumers[at, ASKED] = 0
            elif not processes(
                run.members[who], run.consumers[at], events.first[row], events.second[row]
            ):
                return row
        elif kind == CRASHED:
            if not run.members[who, RUNNING]:
                return row
            run.members[who, RUNNING] = 0
        else:
            return row
        run.kinds[kind] += 1
    return end


@_compiled
def row_before(run, place, first):  # type: ignore[no-untyped-def]
    """The last row of a partition whose offset is below `first`, or -1."""
    row = run.log_places[place, TAIL_ROW]
    while row >= 0 and run.log[row, OFFSET] >= first:
        row = run.log[row, BEFORE]
    return row


@_compiled
def drop_rows(run, kept):  # type: ignore[no-untyped-def]
    """Drop the first rows of the log, except the last one of a partition.

    `kept` is the first row that may still be read or named.
    """
    count = run.counts[LOG_ROWS]
    moved = np.full(count, -1, np.int64)
    to = 0
    for row in range(count):
        place = run.log[row, PARTITION]
        if row >= kept or row == run.log_places[place, TAIL_ROW]:
            moved[row] = to
            if to != row:
                run.log[to] = run.log[row]
                run.log_headers[to] = run.log_headers[row]
            to += 1
    run.counts[LOG_ROWS] = to
    for row in range(to):
        for link in (AFTER, BEFORE):
            if run.log[row, link] >= 0:
                run.log[row, link] = moved[run.log[row, link]]
    for place in range(len(run.log_places)):
        log = run.log_places[place]
        if log[TAIL_ROW] >= 0:
            log[TAIL_ROW] = moved[log[TAIL_ROW]]
            row = log[TAIL_ROW]
            while run.log[row, BEFORE] >= 0:
                row = run.log[row, BEFORE]
            log[HEAD_ROW] = row
    for member in range(len(run.places)):
        for place in range(len(run.log_places)):
            if run.places[member, place, LAST] >= 0:
                run.places[member, place, LAST] = moved[run.places[member, place, LAST]]

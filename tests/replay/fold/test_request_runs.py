"""Requests that are folded in runs come to what they come to one by one, for any senders."""

from __future__ import annotations

import functools
import inspect
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from random import Random
from typing import Any, TypeAlias

import attrs
import pytest
from tools.runs.by_day import sampled, seeds

from kafka_marshal.capture import HeaderPairs, RawRecord, TimestampType
from kafka_marshal.codec import HEADER_FIELDS
from kafka_marshal.core import wire
from kafka_marshal.core.messages import (
    NOT_DECIMAL,
    ClaimingMessages,
    ClaimingPartition,
    ClaimingRange,
    Headers,
    Heartbeat,
    Offset,
    Partition,
    ReleaseGroup,
)
from kafka_marshal.core.ranges.messages import RangeHeaders, RangesMessage, RangesRecord
from kafka_marshal.core.ranges.reader import FoldedState, after
from kafka_marshal.core.ranges.state import Ranges
from kafka_marshal.core.state import Claim
from kafka_marshal.kernel import requests
from kafka_marshal.range_codec import RANGE_HEADER_FIELDS, encode_checkpoint, encode_range
from kafka_marshal.replay.fold.collapsed import request_runs
from kafka_marshal.replay.model.chunk_items import RequestRun, SingleRecord
from kafka_marshal.replay.model.published import FindingRow
from kafka_marshal.replay.model.rows import Row
from tests.core.ranges.walking import RULES, walk
from tests.replay.fold.test_run_length import Chunked, alike, fed, in_order, judging

INTERVAL_MS = RULES.heartbeat_interval_ms
CLAIMS = 3
UNBOUNDED = 100_000


Entries: TypeAlias = list[tuple[RangesRecord, FoldedState | None]]
"""Records, and the checkpoints that they hold."""


def interleaved(logs: Iterator[Entries], chance: Random) -> list[RawRecord]:
    """Logs of one claim each as the log of one coordinating partition.

    Now and then a record says a heartbeat interval, or is not written the ordinary way.
    """
    raws = [
        _raw(record, checkpoint, number, chance)
        for number, entries in enumerate(logs)
        for record, checkpoint in entries
    ]
    return sorted(raws, key=lambda raw: raw.offset)


def _raw(
    record: RangesRecord, checkpoint: FoldedState | None, number: int, chance: Random
) -> RawRecord:
    """The record as one of the `number`th claim."""
    message = attrs.evolve(record.message, group_id="h" if number == CLAIMS - 1 else "g")
    if not isinstance(message, ReleaseGroup):
        message = attrs.evolve(message, partition=Partition(number))
    value = encode_range(message)
    if chance.random() < 0.01:
        value = value.replace(b"/1/", b"/+1/", 1)
    parts = ((record.headers, HEADER_FIELDS), (record.range_headers, RANGE_HEADER_FIELDS))
    said = {
        name: getattr(part, field)
        for part, fields in parts
        for name, field in fields.items()
        if getattr(part, field) is not None
    }
    for name in ("marshal-epoch", "marshal-seen"):
        if said.get(name, NOT_DECIMAL) >= 0:
            said[name] = CLAIMS * said[name] + number
    if chance.random() < 0.01:
        said["marshal-interval"] = chance.choice((0, 500, 1000))
    if record.headers.present and not said:
        said["marshal-version"] = 1
    headers: HeaderPairs = tuple(
        (name, b"x" if each == NOT_DECIMAL else b"%d" % each) for name, each in said.items()
    )
    if checkpoint is not None:
        held = _with_offsets_of(checkpoint, number)
        headers = (*headers, (wire.CHECKPOINT_HEADER, encode_checkpoint(held)))
    stamp = TimestampType.LOG_APPEND_TIME
    offset = CLAIMS * record.offset + number
    return RawRecord(2, offset, record.timestamp_ms, value, headers, stamp)


def _with_offsets_of(state: FoldedState, number: int) -> FoldedState:
    claim, ranges = state.claim, state.ranges
    epoch = None if claim.epoch is None else CLAIMS * claim.epoch + number
    held = tuple(attrs.evolve(each, id=CLAIMS * each.id + number) for each in ranges.open)
    return FoldedState(attrs.evolve(claim, epoch=epoch), attrs.evolve(ranges, open=held))


def walks(seed: int, *, honest: bool) -> list[RawRecord]:
    """Three claims, each shared by random participants; and some records are there twice."""
    chance = Random(seed)

    def logs() -> Iterator[Entries]:
        for number, window in enumerate((0, 12, 400)):
            walked = walk(seed * CLAIMS + number, window, honest=honest)
            for _ in walked.steps(250):
                pass
            yield [(record, None) for record in walked.log]

    mixed = interleaved(logs(), chance)
    return [*mixed, *(raw for raw in mixed if chance.random() < 0.01)]


def shared(
    chance: Random, window: int, records: int
) -> Iterator[tuple[RangesRecord, FoldedState | None]]:
    """A claim at work: nearly all records are requests, and few of them are not ordinary.

    By turns everybody works, or one does not report, nobody asks, few say anything, or seldom.
    """
    state, recent = FoldedState(Claim(), Ranges()), deque[FoldedState](maxlen=9)
    who = [f"p{number}" for number in range(chance.choice((3, 11)))]
    where, now_ms, phase = ("g", "t", Partition(0)), 10_000, "work"
    for offset in range(records):
        if offset % 90 == 0:
            phase = chance.choice(("work", "stuck", "nobody asks", "silent", "slow"))
        now_ms += 1_200 if phase == "slow" else chance.choice((0, 20, 50, 90, 300, -70))
        known = recent[-1 - chance.randrange(len(recent))] if recent else state
        seen = None if not recent else offset - 1 - list(recent)[::-1].index(known)
        more, headers = RangeHeaders(), Headers(present=True, seen=seen)
        message: RangesMessage
        checkpoint = None
        anchor = (1, now_ms // 1000, "anchor", "ranges", *where)
        if window == UNBOUNDED and chance.random() < 0.005:
            until_s = now_ms // 1000
            message = ReleaseGroup(1, until_s, "x", "x", "g", "", Partition(0), until_s)
        elif not (state.claim.owned and state.ranges.has_begun) and chance.random() < 0.3:
            message = ClaimingPartition(*anchor)
            more = RangeHeaders(window=window)
        elif offset % 25 == 1 and state.claim.owned:
            headers = Headers(present=True, epoch=state.claim.epoch, seen=seen)
            message = Heartbeat(*anchor, Offset(known.ranges.low if window else 0))
            if seen is not None and chance.random() < 0.5:
                checkpoint = known
                if chance.random() < 0.1:
                    checkpoint = attrs.evolve(known, ranges=attrs.evolve(known.ranges, frontier=3))
            if window == 0 and chance.random() < 0.7:
                message = ClaimingMessages(*anchor, Offset(state.claim.position + 90))
        else:
            number = chance.randrange(2 if phase in ("silent", "slow") else len(who))
            me = who[number]
            held = known.ranges.open_of(me)
            count = 0 if phase == "nobody asks" else chance.choice((0, 1, 7, 30, 20_000))
            if held and (number or phase in ("work", "silent") or chance.random() < 0.05):
                some = chance.choice(held)
                last = held[-1].to
                done = chance.choice((some.from_ + 1, some.to, last, last + 9))
                more = RangeHeaders(done=done)
                if chance.random() < 0.03:
                    more = RangeHeaders(keep=some.from_ + 1)
            if chance.random() < 0.01:
                headers = attrs.evolve(headers, seen=chance.choice((None, offset, offset + 9)))
            version = 2 if chance.random() < 0.005 else 1
            message = ClaimingRange(version, now_ms // 1000, me, f"c{number}", *where, count)
        record = RangesRecord(0, offset, now_ms, message, headers, more)
        state = after(state, record, RULES)
        recent.append(state)
        yield record, checkpoint


def at_work(seed: int, records: int) -> list[RawRecord]:
    """Claims with windows of all kinds at work, in one coordinating partition."""
    chance = Random(seed)
    windows = (0, 60, UNBOUNDED)
    return interleaved((list(shared(chance, each, records)) for each in windows), chance)


@pytest.mark.parametrize(("honest", "size"), sampled(product((True, False), (200, 2_000)), 3))
@pytest.mark.parametrize("seed", seeds(1, 4))
def test_walks_are_told_the_same_from_runs(
    seed: int, honest: bool, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_runs, "SHORTEST", 1)
    chunked = alike(walks(seed, honest=honest), judging(interval=INTERVAL_MS), size)
    assert chunked.kinds[RequestRun] > 50


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_shared_claims_at_work_are_told_the_same_from_runs(seed: int) -> None:
    raws = at_work(seed, 1_500)
    chunked = alike(raws, judging(interval=INTERVAL_MS), 1_000)
    assert chunked.kinds[SingleRecord] < len(raws) / 3
    found = {
        row.code
        for row in chunked.told(judging(interval=INTERVAL_MS))
        if isinstance(row, FindingRow)
    }
    assert "checkpoint_differs" in found


MISTAKES = (
    # What a run is.
    ("if breaks[row]:", "if False:"),
    ("of_group[group] += 1\n            continue", "continue"),
    ("of_claim[claim] += 1\n            states", "states"),
    ("of_claim[claim] += 1\n            continue\n        stirred", "continue\n        stirred"),
    ("or not plain[row]", ""),
    ("headers[before, _INTERVAL] == headers[row, _INTERVAL]", "True"),
    # What a request does.
    ("table[at, VERSION] > _KNOWN_VERSIONS\n            or ", ""),
    ("or seen >= offset", ""),
    ("or (seen < 0 and done >= 0)", ""),
    ("or table[at, EPOCH] >= offset", ""),
    ("or (watched and position > low)", ""),
    ("max(heads[_NOW], claim_clock_ms, table[at, TIMESTAMP])", "table[at, TIMESTAMP]"),
    ("> stale_ms", "> 2 * stale_ms"),
    ("if silent:", "if False:"),
    ("<= seen and", "< seen and"),
    ("open_[index, _ID] <= seen and ", ""),
    ("standing[REACHED] = max(standing[REACHED], min(done, open_[index, _TO]))", "pass"),
    ("done >= open_[index, _TO]", "done > open_[index, _TO]"),
    ("heads[_POOL] += 1", "pass"),
    ("heads[_FRONTIER] = end", "pass"),
    ("min(count, messages_max, frontier_max - begin)", "min(count, frontier_max - begin)"),
    ("min(count, messages_max, frontier_max - begin)", "min(count, messages_max)"),
    # Whether the lowest range stands still.
    ("open_[index, _FROM] < low:", "open_[index, _FROM] > low:"),
    ("standing[REACHED] <= low", "standing[REACHED] < low"),
    ("or standing[PIECE_FROM] != low", ""),
    ("piece < 0 or open_[piece, _HOLDER] == me", "True"),
    ("standing[WORDS] < rest_words or ", ""),
    ("or rested_ms < rest_ms", ""),
    ("full and position == low", "True"),
    ("full = heads[_FRONTIER] >= frontier_max", "pass"),
)


@functools.cache
def told(number: int) -> tuple[list[RawRecord], int, Counter[Row]]:
    """A log, the shortest run that is looked for, and what it comes to one by one."""
    raws = at_work(number, 500) if number else walks(1, honest=False)
    return raws, 4 if number else 1, fed(raws, judging(interval=INTERVAL_MS))


@pytest.mark.night
@pytest.mark.parametrize(("right", "wrong"), MISTAKES)
def test_the_comparison_notices_a_mistake(
    right: str, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled, plain = "numba.njit(cache=True, nogil=True)", "lambda function: function"
    source = inspect.getsource(requests).replace(compiled, plain)
    assert source.count(right) == 1
    mistaken: dict[str, Any] = {"__name__": requests.__name__}
    exec(compile(source.replace(right, wrong), "<mistaken>", "exec"), mistaken)
    for name in ("_find", "_fold"):
        monkeypatch.setattr(requests, name, mistaken[name])
    how = judging(interval=INTERVAL_MS)
    with suppress(TypeError):  # that is noticed, too
        for number in range(6):
            raws, shortest, expected = told(number)
            monkeypatch.setattr(request_runs, "SHORTEST", shortest)
            if Chunked(in_order(raws), 700, INTERVAL_MS).told(how) != expected:
                return
        pytest.fail(f"nobody noticed {wrong!r} for {right!r}")

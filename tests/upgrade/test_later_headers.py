"""Headers that came after 0.1.0 decide nothing: neither in 0.1.0, nor in what it shares with us.

Older versions stay in a fleet for a while, so a record with such a header must do in each reader
what it does without.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_marshal import Message, encode
from kafka_marshal.capture import HeaderPairs, RawRecord
from kafka_marshal.core.wire import MAC_HEADER
from tests.core.claims.test_properties import messages
from tests.upgrade.folding import DONE_IS_THE_POSITION, EVERY_HEADER_COUNTS, THE_INTERVAL_COUNTS
from tests.upgrade.versions import Folds, differences

INTERVAL_MS = 1000
LATER: list[tuple[str, bytes | None]] = [
    ("marshal-interval", b"4000"),
    ("marshal-interval", b"abc"),
    ("marshal-interval", None),
    ("marshal-start", b"0"),
    ("marshal-done", b"17"),
    ("marshal-of-a-later-day", b""),
]
EPOCH: HeaderPairs = (("marshal-epoch", b"0"),)
OURS: HeaderPairs = (("marshal-version", b"1"),)
"""How 0.1.0 says that a record is of ours, where it has nothing else to say."""
STORY: list[tuple[bytes, HeaderPairs]] = [
    (b"ClaimingPartition/1/1/i1/c1/g/t/0", OURS),
    (b"Heartbeat/1/1/i1/c1/g/t/0/5", EPOCH),
    (b"ClaimingMessages/1/1/i1/c1/g/t/0/9", EPOCH),
    (b"ReleasingPartition/1/1/i1/c1/g/t/0/9", EPOCH),
    (b"ReleaseGroup/0/1/a1/admin/g//0/9", ()),
]
"""One message of each type, all of them obeyed."""
OBEYED = ["claimed", "refreshed", "granted", "released", "group_released"]


def story(later: HeaderPairs = (), on: int | None = None) -> list[RawRecord]:
    return [
        RawRecord(0, offset, 1000 + offset, value, headers + (later if offset == on else ()))
        for offset, (value, headers) in enumerate(STORY)
    ]


@pytest.mark.parametrize("on", range(len(STORY)), ids=OBEYED)
@pytest.mark.parametrize("header", LATER, ids=lambda header: f"{header[0]}={header[1]!r}")
def test_a_message_of_each_type_is_obeyed_with_a_later_header(
    on: int, header: tuple[str, bytes | None], old_folds: Folds, new_folds: Folds
) -> None:
    plain = old_folds.fold(story(), INTERVAL_MS)
    assert [row["verdict"] for row in plain] == OBEYED
    log = story((header,), on)
    assert old_folds.fold(log, INTERVAL_MS) == plain
    assert differences(plain, new_folds.fold(log, INTERVAL_MS)) == []


MISTAKES = [
    (EVERY_HEADER_COUNTS, ("marshal-interval", b"abc"), 1, "refreshed is header_not_decimal now"),
    (THE_INTERVAL_COUNTS, ("marshal-interval", b"4000"), 0, "claimed is header_not_decimal now"),
    (DONE_IS_THE_POSITION, ("marshal-done", b"17"), 3, "position of 0/g/t/0: 9 is 17 now"),
]


@pytest.mark.parametrize(("mistake", "header", "on", "noticed"), MISTAKES)
def test_a_fold_that_lets_a_later_header_decide_is_noticed(
    mistake: str, header: tuple[str, bytes], on: int, noticed: str, new_folds: Folds
) -> None:
    log = story((header,), on)
    right = new_folds.fold(log, INTERVAL_MS)
    broken = differences(right, new_folds.fold(log, INTERVAL_MS, mistake))
    assert f"record {on}: {noticed}" in broken


Drawn: TypeAlias = tuple[Message, HeaderPairs, HeaderPairs, int]
NUMBERS = st.one_of(st.integers(0, 9).map(lambda number: b"%d" % number), st.just(b"abc"))
EARLIER = st.dictionaries(
    st.sampled_from(["epoch", "seen", "clock", "supersedes", "set-position"]), NUMBERS, max_size=2
).map(lambda headers: tuple((f"marshal-{name}", value) for name, value in headers.items()))
SOME_LATER = st.lists(st.sampled_from(LATER), max_size=3).map(tuple)
LOGS: st.SearchStrategy[list[Drawn]] = st.lists(
    st.tuples(messages(), EARLIER, SOME_LATER, st.integers(0, 9000)), max_size=14
)


def log_of(drawn: Sequence[Drawn], later: bool) -> list[RawRecord]:
    """With the later headers, or with nothing in their place but that the record is of ours."""
    log = []
    for offset, (message, earlier, some, at_ms) in enumerate(drawn):
        headers = earlier + (some if later else OURS * bool(some))
        log.append(RawRecord(0, offset, at_ms, encode(message), headers))
    return log


@settings(max_examples=150, deadline=None)
@given(drawn=LOGS)
def test_in_any_log_later_headers_decide_nothing(
    drawn: list[Drawn], old_folds: Folds, new_folds: Folds
) -> None:
    log = log_of(drawn, later=True)
    rows = old_folds.fold(log, INTERVAL_MS)
    assert rows == old_folds.fold(log_of(drawn, later=False), INTERVAL_MS)
    assert differences(rows, new_folds.fold(log, INTERVAL_MS)) == []


MACS: list[HeaderPairs] = [
    (),
    ((MAC_HEADER, b"k1:" + b"0" * 64),),
    ((MAC_HEADER, b"x"), (MAC_HEADER, None)),
]


@settings(max_examples=60, deadline=None)
@given(drawn=LOGS, macs=st.lists(st.sampled_from(MACS), min_size=14, max_size=14))
def test_in_any_log_a_mac_decides_nothing_where_there_is_no_other_header_either(
    drawn: list[Drawn], macs: list[HeaderPairs], old_folds: Folds, new_folds: Folds
) -> None:
    plain = log_of(drawn, later=True)
    signed = [evolve(raw, headers=raw.headers + mac) for raw, mac in zip(plain, macs, strict=False)]
    for folds in (old_folds, new_folds):
        assert folds.fold(signed, INTERVAL_MS) == folds.fold(plain, INTERVAL_MS)

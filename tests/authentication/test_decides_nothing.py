"""A MAC decides nothing: without it, with a valid one and with a wrong one, readers know the same.

In version 0.1.0, too: `tests/upgrade/test_later_headers.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Final

import attrs
import pytest

from kafka_marshal import FENCED, ORIGINAL, World, decode_headers
from kafka_marshal.capture import HeaderPairs, RawRecord
from kafka_marshal.client.connect.log_filter import LogFilter
from kafka_marshal.codec import malformed_amendments
from kafka_marshal.core import wire
from kafka_marshal.kernel.columns import NameCodes
from kafka_marshal.kernel.fold import KernelFold
from kafka_marshal.validate import validate_log
from tests.authentication.signing import THEIRS, signed
from tests.client.connect.test_log_filter import MockMessage, folded, thin
from tests.kernel import hostile
from tests.kernel.test_fold import by_kernel, by_world
from tests.replay.fold.test_run_length import fed, judging


def forged(raw: RawRecord) -> RawRecord:
    return attrs.evolve(raw, headers=(*raw.headers, (wire.MAC_HEADER, b"k1:" + b"0" * 64)))


def odd(raw: RawRecord) -> RawRecord:
    """What nobody can read, twice, at any place."""
    chance = Random(f"{raw.offset} {raw.value!r} {raw.headers}")
    pairs: list[tuple[str, bytes | None]] = list(raw.headers)
    for value in (None, b"\xff", b"x"):
        if chance.random() < 0.7:
            pairs.insert(chance.randint(0, len(pairs)), (wire.MAC_HEADER, value))
    return attrs.evolve(raw, headers=tuple(pairs))


def some(raw: RawRecord) -> RawRecord:
    """Some members sign and some do not."""
    return signed(raw) if raw.offset % 2 else raw


WAYS: Final[Mapping[str, Callable[[RawRecord], RawRecord]]] = {
    "valid": signed,
    "of an unknown key": lambda raw: signed(raw, THEIRS),
    "wrong": forged,
    "odd": odd,
    "some": some,
}


def logs(seed: int, way: str, count: int = 250) -> tuple[list[RawRecord], list[RawRecord]]:
    """A hostile log, and the same one with MACs."""
    plain = list(hostile.log(seed, count))
    return plain, [WAYS[way](raw) for raw in plain]


@pytest.mark.parametrize("way", WAYS)
def test_every_fold_is_the_same(way: str) -> None:
    plain, others = logs(1, way)
    worlds = [[World(FENCED), World(ORIGINAL)] for _ in range(2)]
    assert by_world(plain, *worlds[0]) == by_world(others, *worlds[1])
    assert [world.claims for world in worlds[0]] == [world.claims for world in worlds[1]]

    names = NameCodes(), NameCodes()
    folds = [[KernelFold(rules, each) for rules in (FENCED, ORIGINAL)] for each in names]
    assert by_kernel(plain, *folds[0]) == by_kernel(others, *folds[1])
    assert [fold.claims() for fold in folds[0]] == [fold.claims() for fold in folds[1]]
    assert [fold.claims() for fold in folds[1]] == [world.claims for world in worlds[0]]


@pytest.mark.parametrize("way", WAYS)
def test_a_consumer_knows_the_same_also_of_a_log_that_is_thinned(way: str) -> None:
    plain, others = logs(3, way)
    once = {raw.offset: n for n, raw in reversed(list(enumerate(plain)))}.values()
    plain, others = ([of[n] for n in sorted(once)] for of in (plain, others))
    assert folded(plain, "g") == folded(others, "g") == folded(thin(others, "g"), "g")


@pytest.mark.parametrize("way", WAYS)
def test_the_validator_says_the_same(way: str) -> None:
    plain, others = logs(5, way)
    assert validate_log(plain, FENCED, "log") == validate_log(others, FENCED, "log")


@pytest.mark.parametrize("way", WAYS)
def test_a_replay_without_keys_finds_the_same(way: str) -> None:
    plain, others = logs(7, way, 80)
    assert fed(plain, judging()) == fed(others, judging())


def test_a_signed_log_is_thinned_as_one_that_is_not() -> None:
    """A fleet that signs does not read more."""
    beats = [
        RawRecord(0, n, n, f"Heartbeat/1/{n}/i/c/g/t/0/{n}".encode(), pairs)
        for pairs in ((), (("marshal-epoch", b"0"),), (("marshal-interval", b"4000"),))
        for n in range(1, 9)
    ]
    for begin in range(0, len(beats), 8):
        part = beats[begin : begin + 8]
        assert [raw.offset for raw in thin([*map(signed, part)], "g")] == [
            raw.offset for raw in thin(part, "g")
        ]


HEADERS: HeaderPairs = (("marshal-interval", b"x"), (wire.MAC_HEADER, b"5"))


def test_the_table_the_codec_and_the_filter_know_the_header_by_one_name() -> None:
    assert not wire.MAC_HEADER.startswith(wire.HEADER_PREFIX)
    assert wire.MAC_HEADER not in {header.name for header in wire.HEADERS}
    assert not decode_headers([(wire.MAC_HEADER, b"5")]).present
    assert malformed_amendments(HEADERS) == ("marshal-interval",)
    beat = RawRecord(0, 1, 1, b"Heartbeat/1/1/i/c/g/t/0/1", ((wire.MAC_HEADER, b"5"),))
    log_filter = LogFilter[MockMessage](b"g", {0})
    log_filter.add([MockMessage(attrs.evolve(beat, offset=n)) for n in range(5)])
    assert log_filter.held(0) == 2


@pytest.mark.parametrize("name", ["marshal-hmac", "marshal-epoch"])
def test_a_header_that_decides_something_is_noticed(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name with the other headers' prefix makes a record one of ours: R1c, R2 and R9 ask that."""
    monkeypatch.setattr(wire, "MAC_HEADER", name)
    worlds = World(FENCED), World(FENCED)
    plain, others = logs(0, "valid")
    assert by_world(plain, worlds[0]) != by_world(others, worlds[1])

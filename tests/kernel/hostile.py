"""Logs that nobody would write, by chance: every message, header, slip of the pen and pause."""

from __future__ import annotations

import random
from collections.abc import Iterator

from kafka_marshal.capture import RawRecord
from kafka_marshal.core import wire

OFTEN = {"Heartbeat": 6, "ClaimingPartition": 2}
TYPES = tuple(each.name for each in wire.MESSAGES for _ in range(OFTEN.get(each.name, 1)))
ODD_NUMBERS = ("+7", "007", "-3", "", "x", "9" * 19, "9" * 25, "-0", "٣")
ODD_VALUES = (
    None,
    b"",
    b"/",
    b"Heartbeat",
    b"Heartbeat/1/5/i/c/g/t/0",
    b"Heartbeat/1/5/i/c/g/t/0/4/9",
    b"ClaimingPartition/1/5/i/c/g/t/0/4",
    b"ReleaseGroup/1/5/i/c/g/t/0/4",
    b"ReleaseGroup/1/5/i/c/g//3/4",
    b"HeartbeatX/1/5/i/c/g/t/0/4",
    b"Heartbeat/1/5/i\xff/c/g/t/0/4",
    b"Heartbeat/1/5/i/c/g/t/2147483648/4",
    b"Heartbeat/1/5/i/c/g/t/002/4",
)


def number(chance: random.Random, likely: int) -> str:
    """Mostly what was asked for."""
    return str(likely) if chance.random() < 0.97 else chance.choice(ODD_NUMBERS)


def headers(chance: random.Random, offset: int) -> tuple[tuple[str, bytes | None], ...]:
    """Mostly an epoch and a certificate that could be."""
    dice = chance.random()
    if dice < 0.3:
        return ()
    near = [max(0, offset - chance.randrange(1, 12)) for _ in range(3)]
    pairs: list[tuple[str, bytes | None]] = [
        ("marshal-epoch", str(near[0]).encode()),
        ("marshal-seen", str(near[1]).encode()),
        ("marshal-clock", str(chance.randrange(100_000)).encode()),
        ("marshal-supersedes", str(near[2]).encode()),
        ("marshal-set-position", b"1"),
        ("marshal-version", b"1"),
        ("traceparent", b"00-ab"),
    ]
    chosen = [pair for pair in pairs if chance.random() < 0.4]
    if dice > 0.96:
        odd = chance.choice((b"x", b"", None, b"-1", b"007", b"9" * 30, b"\xff"))
        chosen.append((chance.choice(pairs)[0], odd))
    return (*chosen, *amendments(offset))


def amendments(offset: int) -> Iterator[tuple[str, bytes | None]]:
    """Headers that came later, by a chance of their own: the rest of a log stays what it was."""
    chance = random.Random(offset)
    for name in ("marshal-interval", "marshal-start", "marshal-done"):
        if chance.random() < 0.25:
            yield name, chance.choice((b"0", b"0", b"1", b"4000", b"9" * 19, b"x", None))


def log(
    seed: int, count: int, *, epochs: dict[tuple[str, str], int] | None = None
) -> Iterator[RawRecord]:
    """`count` records of one coordinating partition, in offset order, with gaps and rereads."""
    chance = random.Random(seed)
    offset, now_ms = 0, 50_000
    won: dict[tuple[str, str], int] = {} if epochs is None else epochs
    for _ in range(count):
        offset += chance.choice((1, 1, 1, 1, 2, 5)) if chance.random() > 0.02 else 0
        now_ms += chance.choice((0, 10, 500, 1000, 4000, 9001)) - chance.choice((0, 0, 0, 3000))
        kind = chance.choice(TYPES)
        if chance.random() < 0.03:
            yield RawRecord(0, offset, now_ms, chance.choice(ODD_VALUES))
            continue
        client = chance.choice(("c1", "c2", ""))
        instance = chance.choice((f"{client}a", f"{client}b", ""))
        group = chance.choice(("g", "g", "h", ""))
        topic, partition = chance.choice((("t", "0"), ("t", "1"), ("u", "0"), ("", "0")))
        if kind == "ReleaseGroup":
            if chance.random() < 0.5:
                continue
            topic, partition = "", "0"
        unix_s = number(chance, now_ms // 1000 - chance.choice((0, 0, 1, 20)))
        version = chance.choice(("1", "1", "1", "0", "0", "2", "+1"))
        said = [
            kind,
            version,
            unix_s,
            instance,
            client,
            group,
            topic,
            number(chance, int(partition)),
        ]
        if kind == "ReleaseGroup":
            said.append(number(chance, now_ms // 1000 + chance.choice((-5, 3, 9, 40))))
        elif kind != "ClaimingPartition":
            said.append(number(chance, chance.randrange(60)))
        pairs = headers(chance, offset)
        claim = f"{group}/{topic}/{partition}", instance
        if kind == "ClaimingPartition":
            won[claim] = offset
        elif claim in won and pairs and chance.random() < 0.6:
            # An epoch that may be the claim's: without it nearly everything is refused.
            pairs = (*pairs, ("marshal-epoch", str(won[claim]).encode()))
        yield RawRecord(0, offset, now_ms, "/".join(said).encode(), pairs)

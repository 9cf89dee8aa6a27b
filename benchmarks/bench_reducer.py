"""How fast plain CPython decodes and folds: `make bench-reducer`.

Input: one million records of 64 claims, as a production log looks. Every claim has a
ClaimingPartition, then heartbeats; one record in a thousand is a release, and later a new claim.
CPU time of this process, best of three passes over the same records, garbage collector as it comes.

The peer is decoding alone: value and headers of a record to a `Record`.

- step: the same, then `step` on the claim of its key.
- world: the same, through `World.apply`, which also returns what came of it.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

from benchmarks.suite.figures import Better, Report, Target

from kafka_marshal import (
    FENCED,
    ORIGINAL,
    Claim,
    Rules,
    World,
    step,
)
from kafka_marshal.capture import RawRecord

Key: TypeAlias = tuple[str, str, int]

CLAIMS = 64
START_S = 1_795_218_614


def heartbeat_heavy(count: int) -> list[RawRecord]:
    """`count` records of `CLAIMS` claims, 10 ms apart, nearly all of them heartbeats."""
    raws = []
    for offset in range(count):
        round_, topic_partition = divmod(offset, CLAIMS)
        consumer = topic_partition % 4
        now_s = START_S + offset // 100
        sender = f"1/{now_s}/8278e6{consumer:02x}/c{consumer}/g.b/events/{topic_partition}"
        if round_ == 0 or offset % 1000 == CLAIMS + 1:
            value = f"ClaimingPartition/{sender}"
        elif offset % 1000 == 1:
            value = f"ReleasingPartition/{sender}/{round_ * 10}"
        else:
            value = f"Heartbeat/{sender}/{round_ * 10}"
        raws.append(RawRecord(0, offset, START_S * 1000 + offset * 10, value.encode()))
    return raws


def decode_all(raws: list[RawRecord]) -> None:
    """Decode and forget."""
    for raw in raws:
        raw.decoded()


def decode_and_step(raws: list[RawRecord], rules: Rules) -> dict[Key, Claim]:
    """Decode, and step the claim of the record's key."""
    claims: dict[Key, Claim] = {}
    new = Claim()
    for raw in raws:
        record = raw.decoded()
        message = record.message
        key = (message.group_id, message.topic, message.partition)
        claims[key], _ = step(claims.get(key, new), record, rules)
    return claims


def decode_and_fold(raws: list[RawRecord], rules: Rules) -> World:
    """Decode, and apply to a world."""
    world = World(rules)
    for raw in raws:
        world.apply(raw.decoded())
    return world


def cpu_seconds(work: Callable[[], object]) -> float:
    """CPU time of one pass."""
    began = time.process_time()
    work()
    return time.process_time() - began


def main(arguments: Sequence[str] | None = None) -> int:
    """Report a figure for each, beside mere decoding."""
    parser = argparse.ArgumentParser(prog="make bench-reducer")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--passes", type=int, default=3)
    Report.add_option(parser)
    asked = parser.parse_args(arguments)
    report, raws = Report(asked.figures), heartbeat_heavy(asked.records)
    rows: dict[str, Callable[[], object]] = {
        "decode": lambda: decode_all(raws),
        "step_fenced": lambda: decode_and_step(raws, FENCED),
        "step_original": lambda: decode_and_step(raws, ORIGINAL),
        "world_fenced": lambda: decode_and_fold(raws, FENCED),
    }
    best = dict.fromkeys(rows, float("inf"))
    for _ in range(asked.passes):
        for name, work in rows.items():
            best[name] = min(best[name], cpu_seconds(work))
    rates = {name: asked.records / seconds for name, seconds in best.items()}
    given = f"{asked.records:,} records of {CLAIMS} claims, CPU time, best of {asked.passes}"
    decoding = {"decoding alone": rates.pop("decode")}
    for name, rate in rates.items():
        target = Target(0.5, "decoding alone") if name == "step_fenced" else None
        report.add(f"reducer.{name}", "records/s", Better.HIGHER, rate, given, decoding, target)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What records of others cost who shares: `python -m benchmarks.ranges.foreign_records`.

Each consumer of a shared partition reads the records of all. A fleet in memory writes a log. One
of its participants then reads it as the shipped client does, record by record, from bytes on. What
it would send is not sent. Kafka's client is not part of it. Printed is CPU time of this process,
the best of some passes over the same log. Seeded: all but the times is the same each time.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

import attrs
from tests.machines.ranges.fleet import LOG_AHEAD_MS, Setting, World

from kafka_marshal import FENCED, Claim
from kafka_marshal.capture import RawRecord
from kafka_marshal.client.ranges.shared_claims import SharedClaims
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.machines.consumer.consumer import InstanceConfig, Mode
from kafka_marshal.machines.ranges.driver import RangesTiming
from kafka_marshal.range_codec import (
    CLAIMING_RANGE,
    encode_range,
    encode_range_headers,
)

INTERVAL_MS = 5_000
ME = "p0007"


def log_of(participants: int, messages: int, window: int, seed: int) -> list[RawRecord]:
    """The log of a fleet whose handlers take 5 ms, and that is never without work."""
    setting = Setting(
        window=window,
        participants=participants,
        messages=messages,
        per_second=participants * 200,
        handler_ms=5,
        interval_ms=INTERVAL_MS,
        lives_ms=messages * 5 // participants + 4_000,
    )
    raws = []
    for record, checkpoint in World(setting, seed).run().log:
        headers = encode_range_headers(record.headers, record.range_headers, checkpoint)
        value = encode_range(record.message)
        raws.append(RawRecord(0, record.offset, record.timestamp_ms, value, tuple(headers)))
    return raws


def read(raws: Sequence[RawRecord], window: int) -> tuple[float, int]:
    """Read them as one participant; the seconds of CPU, and how many records it would send."""
    mode = Mode.AT_LEAST_ONCE if window else Mode.AT_MOST_ONCE
    rules = attrs.evolve(FENCED, heartbeat_interval_ms=INTERVAL_MS)
    me = InstanceConfig(ME, f"client of {ME}", mode, window or 100, 100, 0, rules=rules)
    timing = RangesTiming(heartbeat_every_ms=INTERVAL_MS, ask_again_after_ms=1_000)
    shared = SharedClaims(me, "g", 1, timing, {})
    shared.add("events", 1, lambda _: 0, lambda _: Claim(), 0)
    effects = 0
    began = time.process_time()
    for raw in raws:
        now_ms = raw.timestamp_ms - LOG_AHEAD_MS
        effects += len(shared.record(raw, now_ms, _no_claim))
        if not _asks_range(raw):
            raw.decoded()
        effects += len(shared.caught_up(0, now_ms))
        _ = shared.next_timer_ms
    return time.process_time() - began, effects


def _asks_range(raw: RawRecord) -> bool:
    return raw.value is not None and raw.value.startswith(CLAIMING_RANGE)


def _no_claim(key: ClaimKey) -> Claim:
    raise AssertionError(f"{key} is shared")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each size of a fleet; the exit code."""
    parser = argparse.ArgumentParser(prog="benchmarks.ranges.foreign_records", description=__doc__)
    parser.add_argument("--participants", type=int, nargs="+", default=[4, 32])
    parser.add_argument("--messages", type=int, default=60_000)
    parser.add_argument("--window", type=int, default=20_000, help="0: at most once")
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(arguments)
    print("participants   records    ranges   effects  us of CPU a record")
    for participants in asked.participants:
        raws = log_of(participants, asked.messages, asked.window, asked.seed)
        passes = [read(raws, asked.window) for _ in range(asked.passes)]
        best, effects = min(passes)
        ranges = sum(map(_asks_range, raws))
        print(
            f"{participants:12}{len(raws):10}{ranges:10}{effects:10}{best / len(raws) * 1e6:20.0f}",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Folds logs, in a process of its own: a line of JSON is a log, the answer is what each record did.

It runs under the version of the package that PYTHONPATH names, so it uses nothing that 0.1.0 does
not have. A log may name a mistake, which the fold then makes.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from typing import Any

import attrs

from kafka_marshal import (
    FENCED,
    ClaimingMessages,
    Heartbeat,
    MalformedRecord,
    Record,
    ReleasingPartition,
    World,
)
from kafka_marshal.capture import RawRecord, parse_line
from kafka_marshal.core.messages import NOT_DECIMAL, Offset

HEADERS_OF_0_1_0 = ("epoch", "seen", "clock", "supersedes", "set-position", "version")
"""After `marshal-`."""
NOBODY_IS_STALE = "nobody is stale"
"""A takeover after kill -9 is refused."""
EVERY_HEADER_COUNTS = "every header counts"
"""A record is refused if a header that came after 0.1.0 is not decimal."""
THE_INTERVAL_COUNTS = "the interval counts"
"""A record of another heartbeat interval is refused."""
DONE_IS_THE_POSITION = "done is the position"
"""A message's offset is what its header says to be done."""


def folded(log: dict[str, Any]) -> list[dict[str, Any]]:
    """What each record did: its verdict, and each claim that it reached, by name, afterwards."""
    mistake = log["mistake"]
    interval_ms = log["interval_ms"] * (1_000_000 if mistake == NOBODY_IS_STALE else 1)
    rules = attrs.evolve(FENCED, heartbeat_interval_ms=interval_ms)
    worlds: dict[int, World] = defaultdict(lambda: World(rules))
    rows: list[dict[str, Any]] = []
    for line in log["records"]:
        raw = parse_line(line, "a log")
        try:
            record = raw.decoded()
        except MalformedRecord as error:
            rows.append({"verdict": str(error), "claims": {}})
            continue
        record = _mistaken(record, raw, mistake, interval_ms)
        outcome = worlds[raw.partition].apply(record)
        claims = {
            f"{raw.partition}/{'/'.join(map(str, each.key))}": attrs.asdict(each.after)
            for each in outcome.transitions
        }
        rows.append({"verdict": outcome.verdict.value, "claims": claims})
    return rows


def _mistaken(record: Record, raw: RawRecord, mistake: str | None, interval_ms: int) -> Record:
    """What a fold takes the record for that makes this mistake."""
    for name, value in raw.headers:
        decimal = (value or b"").isdigit()
        odd = (
            mistake == EVERY_HEADER_COUNTS
            and name.removeprefix("marshal-") not in HEADERS_OF_0_1_0
            and not decimal
        )
        if mistake == THE_INTERVAL_COUNTS and name == "marshal-interval" and decimal:
            odd = int(value or b"") != interval_ms
        if odd:
            return attrs.evolve(record, headers=attrs.evolve(record.headers, epoch=NOT_DECIMAL))
        if mistake == DONE_IS_THE_POSITION and name == "marshal-done":
            done = Offset(int(value or b""))
            match record.message:
                case Heartbeat() | ClaimingMessages() | ReleasingPartition() as message:
                    return attrs.evolve(record, message=attrs.evolve(message, offset=done))
                case _:
                    pass
    return record


def main() -> None:
    """Fold each log of the standard input."""
    for line in sys.stdin:
        print(json.dumps(folded(json.loads(line)), default=str), flush=True)


if __name__ == "__main__":
    main()

"""Whiteboard stories: records typed by hand, outcomes written by the reducer.

A story is a text file. `#` lines are prose. `rules:` chooses the rule set and the interval, and
`limits:` how many ranges there may be: of a claim, of an instance, and how long one is. A line that
begins with `@` is a record: offset, milliseconds, value, then headers as `name=value`. The indented
lines below it are what came of it, and `make golden` rewrites them.
"""

from __future__ import annotations

from pathlib import Path

import attrs

from kafka_marshal import FENCED, ORIGINAL, Accepted, MalformedRecord, ReadTwice, Rules, World
from kafka_marshal.capture import RawRecord
from kafka_marshal.core.claims.verdicts import Refused
from kafka_marshal.core.messages import ClaimingRange
from kafka_marshal.core.ranges.state import LIMITS, Limits, Ranges
from kafka_marshal.core.ranges.verdicts import RangeAccepted, RangeRefused, Unmet
from kafka_marshal.core.ranges.world import RangesWorld
from kafka_marshal.core.state import Claim, ClaimKey

RULES = {"fenced": FENCED, "original": ORIGINAL}


@attrs.frozen
class Told:
    """A story as it should read, and the verdicts that occur in it."""

    text: str
    verdicts: frozenset[Accepted | Refused | ReadTwice | RangeAccepted | RangeRefused | Unmet]
    rules: Rules


class _Board:
    """The claims of a story and, under the fenced rules, their ranges."""

    def __init__(self, rules: Rules, limits: Limits) -> None:
        self.world = World(rules)
        self.limits = limits
        self.ranges = RangesWorld(self.world, limits) if rules.fenced else None
        self.verdicts: set[
            Accepted | Refused | ReadTwice | RangeAccepted | RangeRefused | Unmet
        ] = set()

    def outcome(self, raw: RawRecord) -> list[str]:
        """What came of a record, a line each."""
        try:
            record = raw.decoded() if self.ranges is None else raw.decoded_with_ranges()
        except MalformedRecord as error:
            return [f"malformed {error.field}: {error.reason}"]
        message = record.message
        if isinstance(message, ClaimingRange):
            return self._range(raw, message)
        outcome = self.world.apply(raw.decoded())
        self.verdicts.add(outcome.verdict)
        kind = "accepted" if isinstance(outcome.verdict, Accepted) else "refused"
        lines = [f"{kind} {outcome.verdict.value}"]
        for each in outcome.transitions:
            if self.ranges is not None:
                self.ranges.observe(raw.decoded_with_ranges(), each.key, outcome.verdict)
            lines.append(_claim(each.key, each.after, self.world.rules, raw.timestamp_ms))
            lines += self._ranges_of(each.key)
        return lines

    def _range(self, raw: RawRecord, message: ClaimingRange) -> list[str]:
        assert self.ranges is not None
        outcome = self.ranges.apply(raw.decoded_with_ranges(), message)
        if isinstance(outcome, ReadTwice):
            self.verdicts.add(outcome)
            return [f"refused {outcome.value}"]
        verdict = outcome.verdict
        assert isinstance(verdict, RangeAccepted | RangeRefused)
        self.verdicts |= {verdict} | ({outcome.guard} if outcome.guard else set())
        kind = "accepted" if isinstance(verdict, RangeAccepted) else "refused"
        why = f" ({outcome.guard.value})" if outcome.guard else ""
        return [f"{kind} {verdict.value}{why}", *self._ranges_of(message.key)]

    def _ranges_of(self, key: ClaimKey) -> list[str]:
        ranges = None if self.ranges is None else self.ranges.of(key)
        return [] if ranges is None else [_ranges(ranges)]


def tell(path: Path) -> Told:
    """The story in a file with every outcome computed anew."""
    return retold(path.read_text(encoding="utf-8"), str(path))


def retold(text: str, where: str) -> Told:
    """A story with every outcome computed anew; `where` is its name in errors."""
    board = _Board(FENCED, LIMITS)
    lines: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("    "):
            continue
        lines.append(line)
        if line.startswith("rules:"):
            board = _Board(_rules(line), board.limits)
        elif line.startswith("limits:"):
            board = _Board(board.world.rules, Limits(*map(int, line.split()[1:])))
        elif line.startswith("@"):
            outcome = board.outcome(_record(line, f"{where}:{number}"))
            lines += [f"    {each}" for each in outcome]
        elif line and not line.startswith("#"):
            raise ValueError(
                f"{where}:{number}: neither prose, rules, record nor outcome: {line!r}"
            )
    return Told("\n".join(lines) + "\n", frozenset(board.verdicts), board.world.rules)


def _rules(line: str) -> Rules:
    name, interval = line.removeprefix("rules:").split()
    interval_ms = int(interval.removesuffix("ms"))
    return attrs.evolve(RULES[name], heartbeat_interval_ms=interval_ms, pause_max_ms=60_000)


def _record(line: str, where: str) -> RawRecord:
    offset, time, value, *headers = line.removeprefix("@").split()
    if not time.endswith("ms"):
        raise ValueError(f"{where}: time needs its unit, ms: {time!r}")
    pairs = [header.partition("=") for header in headers]
    return RawRecord(
        partition=0,
        offset=int(offset),
        timestamp_ms=int(time.removesuffix("ms")),
        value=None if value == "null" else value.encode("utf-8"),
        headers=tuple((name, text.encode()) for name, _, text in pairs),
    )


def _claim(key: ClaimKey, claim: Claim, rules: Rules, now_ms: int) -> str:
    owner = "nobody" if not claim.owned else f"{claim.owner_instance} ({claim.owner_client})"
    parts = [f"{key.topic}/{key.topic_partition}: {owner}"]
    if claim.epoch is not None:
        parts.append(f"epoch {claim.epoch}")
    parts.append(f"position {claim.position}")
    if claim.last_heartbeat_ms is not None:
        parts.append(f"last heartbeat {claim.last_heartbeat_ms} ms")
    if claim.paused_until_ms is not None and now_ms < claim.paused_until_ms:
        parts.append(f"paused by {claim.pauser} until {claim.paused_until_ms} ms")
    return ", ".join(parts)


def _ranges(ranges: Ranges) -> str:
    window = "no window" if ranges.window is None else f"window {ranges.window}"
    held = [f"{each.instance} {each.id}: [{each.from_}, {each.to})" for each in ranges.open]
    parts = {
        "open": held,
        "pool": [f"[{each.from_}, {each.to})" for each in ranges.pool],
        "alive": [f"{each.instance} {each.ms} ms" for each in ranges.alive],
    }
    told = [f"; {name} {', '.join(each)}" for name, each in parts.items() if each]
    return f"ranges: {window}, frontier {ranges.frontier}{''.join(told)}"

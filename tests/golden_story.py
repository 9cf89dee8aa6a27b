"""Whiteboard stories: records typed by hand, outcomes written by the reducer.

A story is a text file. `#` lines are prose. `rules:` chooses the rule set and the interval. A line
that begins with `@` is a record: offset, milliseconds, value, then headers as `name=value`. The
indented lines below it are what came of it, and `make golden` rewrites them.
"""

from pathlib import Path

import attrs

from kafka_marshal import FENCED, ORIGINAL, Accepted, MalformedRecord, ReadTwice, Rules, World
from kafka_marshal.capture import RawRecord
from kafka_marshal.core.claims.verdicts import Refused
from kafka_marshal.core.state import Claim, ClaimKey

RULES = {"fenced": FENCED, "original": ORIGINAL}


@attrs.frozen
class Told:
    """A story as it should read, and the verdicts that occur in it."""

    text: str
    verdicts: frozenset[Accepted | Refused | ReadTwice]
    rules: Rules


def tell(path: Path) -> Told:
    """The story in a file with every outcome computed anew."""
    return retold(path.read_text(encoding="utf-8"), str(path))


def retold(text: str, where: str) -> Told:
    """A story with every outcome computed anew; `where` is its name in errors."""
    world = World(FENCED)
    lines: list[str] = []
    verdicts: set[Accepted | Refused | ReadTwice] = set()
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("    "):
            continue
        lines.append(line)
        if line.startswith("rules:"):
            world = World(_rules(line))
        elif line.startswith("@"):
            raw = _record(line, f"{where}:{number}")
            try:
                outcome = world.apply(raw.decoded())
            except MalformedRecord as error:
                lines.append(f"    malformed {error.field}: {error.reason}")
                continue
            verdicts.add(outcome.verdict)
            kind = "accepted" if isinstance(outcome.verdict, Accepted) else "refused"
            lines.append(f"    {kind} {outcome.verdict.value}")
            lines += [
                f"    {_claim(t.key, t.after, world.rules, raw.timestamp_ms)}"
                for t in outcome.transitions
            ]
        elif line and not line.startswith("#"):
            raise ValueError(
                f"{where}:{number}: neither prose, rules, record nor outcome: {line!r}"
            )
    return Told("\n".join(lines) + "\n", frozenset(verdicts), world.rules)


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

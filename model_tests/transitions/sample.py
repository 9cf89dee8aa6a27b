"""A few thousand of TLC's transitions, so that a record meets a claim in every way that matters.

TLC exports some 200,000 triples, most of which differ in nothing that a rule asks for. This room
says what a rule can ask (who sent it, which side of each edge a number is on). It keeps triples
until every two answers that occur together in the export, with some verdict, are in the sample.
`make triples` writes it to `tests/data/triples.jsonl.gz`, and `test_triples.py` holds that file
against the export.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

import attrs
from tests import machine_samples as machines
from tests import triples
from tests.triples import Triple

from kafka_marshal import Claim, Headers, ReleaseGroup
from kafka_marshal.core.messages import NOT_DECIMAL
from kafka_marshal.scratch import Scratch
from model_tests.transitions.exports import Exported, export_all

CLAIM_FIELDS = tuple(field.name for field in attrs.fields(Claim))


def side(value: float | None, edge: float | None) -> str:
    """On which side of an edge a number is; `none` if there is no number or no edge."""
    if value is None or edge is None:
        return "none"
    return "below" if value < edge else "at" if value == edge else "above"


def kind(header: int | None) -> str:
    """What a header can be, before anybody looks at its number."""
    return "absent" if header is None else "odd" if header == NOT_DECIMAL else "given"


@cache
def kinds(headers: Headers) -> tuple[str, ...]:
    """What each header can be."""
    return tuple(map(kind, attrs.astuple(headers, recurse=False)))


def named(header: int | None, claim: Claim, offset: int) -> tuple[str, ...]:
    """What a header that names a log offset can be: the current epoch, an old one, the future."""
    if header is None or header == NOT_DECIMAL:
        return (kind(header),)
    return (side(header, claim.epoch), side(header, offset))


def situation(triple: Triple) -> Hashable:
    """What was asked and what came of it: the sample has every two answers in every situation."""
    return triple.rules.rule_set, type(triple.record.message), triple.verdict


def answers(triple: Triple) -> tuple[Hashable, ...]:
    """Everything that a rule asks about a claim and a record, and the effect."""
    claim, record, rules = triple.before, triple.record, triple.rules
    message, headers = record.message, record.headers
    clock_ms = max(claim.clock_ms, record.timestamp_ms)
    until_ms = message.expires_unix_s * 1000 if isinstance(message, ReleaseGroup) else None
    offset = getattr(message, "offset", None)
    since = claim.last_heartbeat_ms
    return (
        message.version,
        # Who.
        (message.instance_id == claim.owner_instance, message.client_id == claim.owner_client),
        (message.instance_id == claim.pauser, claim.owner_instance == claim.pauser),
        # The claim.
        (claim.owned, claim.won_with_headers, claim.pauser is None, claim.position_set),
        # Headers.
        headers.present,
        kinds(headers),
        named(headers.epoch, claim, record.offset),
        named(headers.seen, claim, record.offset),
        named(headers.supersedes, claim, record.offset),
        # Numbers.
        (side(offset, claim.position), side(offset, 0)),
        side(record.timestamp_ms, claim.clock_ms),
        side(None if since is None else clock_ms - since, rules.stale_after_ms),
        side(clock_ms, claim.paused_until_ms),
        (side(until_ms, clock_ms), side(until_ms, clock_ms + rules.pause_max_ms)),
        # The effect.
        tuple(
            [name for name in CLAIM_FIELDS if getattr(triple.after, name) != getattr(claim, name)]
        ),
    )


def chosen(exports: Mapping[str, Exported]) -> list[Triple]:
    """The same triples for the same export, in whatever order its rows are."""
    every = (triple for exported in exports.values() for triple in exported.triples)
    return covering(every, situation, answers, triples.line)


Row = TypeVar("Row")


def covering(
    rows: Iterable[Row],
    situation: Callable[[Row], Hashable],
    answers: Callable[[Row], Sequence[Hashable]],
    line: Callable[[Row], str],
) -> list[Row]:
    """Rows that together show every two answers that any of `rows` gives in its situation.

    In the order of their lines, a row is kept if it shows two answers that none before it does.
    """
    first: dict[tuple[Hashable, Sequence[Hashable]], tuple[str, Row]] = {}
    for row in rows:
        key, text = (situation(row), answers(row)), line(row)
        before = first.get(key)
        if before is None or text < before[0]:
            first[key] = text, row
    # An answer is nested tuples of enums, dear to hash; its number is not.
    numbers: dict[Hashable, int] = {}
    beside: defaultdict[int, set[int]] = defaultdict(set)
    """With each answer, the answers of the rows that are kept."""
    kept = []
    for (asked, given), (_, row) in sorted(first.items(), key=lambda each: each[1][0]):
        shown = {
            numbers.setdefault((asked, place, answer), len(numbers))
            for place, answer in enumerate(given)
        }
        if not all(shown <= beside[answer] for answer in shown):
            kept.append(row)
            for answer in shown:
                beside[answer] |= shown
    return kept


def main(arguments: Sequence[str] | None = None) -> None:
    """Write both samples: `make triples`."""
    from model_tests.transitions import machines as rows  # it asks this room what a number is

    parser = argparse.ArgumentParser(prog="make triples", description=main.__doc__)
    parser.add_argument("--into", type=Path, help="a folder to write to, not tests/data")
    parser.add_argument("--only", nargs="+", metavar="MODEL", help="export these; needs --into")
    asked = parser.parse_args(arguments)
    if asked.only and not asked.into:
        parser.error("a sample of some models is not the one of tests/data: --only needs --into")
    into = asked.into or triples.PATH.parent
    with Scratch("desk") as folder:
        exports = export_all(folder, asked.only)
        of_machines = rows.export_all(folder, asked.only)
    kept = chosen(exports)
    triples.write(kept, into / triples.PATH.name)
    of = sum(len(exported.triples) for exported in exports.values())
    print(f"{len(kept):,} of {of:,} triples in {triples.PATH.name}")
    kept_rows = rows.chosen(of_machines)
    machines.write(kept_rows, into / machines.PATH.name)
    of = sum(len(each) for each in of_machines.values())
    print(f"{len(kept_rows):,} of {of:,} rows of machines in {machines.PATH.name}")


if __name__ == "__main__":
    main()

"""The two final tables: where the rule sets differ, and the groups side by side."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from kafka_marshal.markup import Html, el, join, name, visible
from kafka_marshal.replay.model.internal import GroupCountsRow
from kafka_marshal.replay.report.base import pieces
from kafka_marshal.replay.report.base.clock import duration
from kafka_marshal.replay.report.base.data import (
    ORIGINAL,
    ClaimId,
    Divergence,
    ReportData,
)
from kafka_marshal.replay.report.sections.causes import worst_groups
from kafka_marshal.replay.report.sections.timeline import Drawn

GROUPS_MAX: Final = 40
"""The most groups of a large replay to show, the worst first."""


def divergences(data: ReportData, drawn: Drawn) -> Html | None:
    """All divergences: where the two rule sets have different results."""
    if len(data.rules) < 2:
        return None

    def order(numbered: tuple[int, Divergence]) -> tuple[object, ...]:
        claim = numbered[1].claim
        key = (claim.coordinating_partition, claim.group, claim.topic, claim.topic_partition)
        return (claim.log, *key, numbered[1].offset)

    rows: list[Html] = []
    previous: ClaimId | None = None
    for index, row in sorted(enumerate(data.divergences), key=order):
        again = row.claim == previous
        previous = row.claim
        rows.append(
            el(
                "tr",
                {"class": None if again else "first"},
                el("td", None, None if again else _where(row.claim)),
                el(
                    "td",
                    {"class": "n"},
                    pieces.link(drawn.divergence_anchors.get(index), str(row.offset)),
                ),
                pieces.time(row.at_ms),
                el("td", {"class": "n"}, _lasted(row)),
                _cell(row.original_client, row.original_instance, row.original_position, row),
                _cell(row.fenced_client, row.fenced_instance, row.fenced_position, row),
                el("td", {"class": "text"}, el("code", None, visible(row.text, 200))),
            )
        )
    heads = ["claim", "offset", "time, UTC", "for", "original says", "fenced says", "record"]
    return el(
        "section",
        {"id": "divergences"},
        el("h2", None, "Where the rule sets part"),
        el(
            "p",
            {"class": "note"},
            "Each line is a stretch of one claim’s log, from the record that parted the rule sets "
            "to the next at which they agree, or differ in another way.",
        ),
        pieces.table("divergences", heads, rows, text_columns=len(heads))
        if rows
        else el("p", {"class": "none"}, "They agree on every owner and position."),
    )


def _lasted(row: Divergence) -> str:
    return "to the end" if row.until_ms is None else duration(row.until_ms - row.at_ms)


def _where(claim: ClaimId) -> Html:
    return join(
        [
            el("bdi", None, pieces.topic(claim.topic, claim.topic_partition)),
            el(
                "small",
                None,
                el("bdi", None, name(claim.log, 60)),
                " · ",
                el("bdi", None, name(claim.group)),
            ),
        ]
    )


def _cell(client: str | None, instance: str | None, position: int | None, row: Divergence) -> Html:
    if client is None and instance is None:
        owner = el("span", {"class": "nobody-owns"}, "nobody")
    else:
        owner = pieces.sender(client or "", instance or "")
    at = "position unknown" if position is None else f"position {position}"
    emphasis = "owner" if row.owners_differ else "position"
    return el("td", {"class": f"said {emphasis}"}, owner, el("small", None, at))


def groups(data: ReportData) -> Html | None:
    """One line per group and rule set, the worst group first."""
    if not data.groups:
        return None
    ranks = worst_groups(data)

    def order(g: GroupCountsRow) -> tuple[object, ...]:
        return (g.log, g.coordinating_partition, g.group, g.rules != ORIGINAL, g.rules)

    def key(g: GroupCountsRow) -> tuple[object, ...]:
        return (g.log, g.coordinating_partition, g.group)

    rows = []
    blocks = [list(members) for _, members in groupby(sorted(data.groups, key=order), key=key)]
    in_all = len(blocks)
    blocks.sort(key=lambda members: (ranks[members[0].log, members[0].group], *_how_bad(members)))
    if data.scale is not None:
        blocks = blocks[:GROUPS_MAX]
    for members in blocks:
        for n, g in enumerate(members):
            shared = [
                el(
                    "th",
                    {"scope": "row", "data-group": name(g.group, 160) if data.scale else None},
                    el("bdi", None, name(g.group)),
                    el(
                        "small",
                        None,
                        el("bdi", None, name(g.log, 60)),
                        f" · {g.coordinating_partition}",
                    ),
                ),
                pieces.number(g.records),
                pieces.number(g.claims),
                pieces.number(g.clients),
                pieces.number(g.instances),
            ]
            repeated = [el("td"), *(el("td") for _ in range(4))]
            unowned = "–" if g.unowned_longest_ms is None else duration(g.unowned_longest_ms)
            rows.append(
                el(
                    "tr",
                    {"class": "first" if not n else None},
                    *(shared if not n else repeated),
                    el("td", {"class": "rules"}, name(g.rules)),
                    pieces.number(g.tenures),
                    pieces.number(g.takeovers),
                    pieces.number(g.refusals),
                    pieces.number(g.thefts, "error"),
                    el("td", {"class": "n"}, unowned),
                )
            )
    heads = ["group", "records", "claims", "clients", "instances", "rules", "tenures"]
    heads += ["takeovers", "refusals", "thefts", "longest unowned"]
    return el(
        "section",
        {"id": "groups"},
        el("h2", None, "Groups"),
        el(
            "p",
            {"class": "note"},
            f"The {len(blocks):,} of {in_all:,} with most errors and warnings; "
            f"summary.json has all.",
        )
        if len(blocks) < in_all
        else None,
        pieces.table("groups", heads, rows, text_columns=1),
    )


def _how_bad(members: Sequence[GroupCountsRow]) -> tuple[int, ...]:
    return tuple(
        -sum(counts)
        for counts in zip(*((g.thefts, g.takeovers, g.refusals) for g in members), strict=True)
    )

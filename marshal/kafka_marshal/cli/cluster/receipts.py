"""`marshal receipts`: lists the messages that at-most-once consumers may have lost."""

from __future__ import annotations

import json as json_text
import sys
import time
from typing import TYPE_CHECKING, Annotated

import attrs
import typer
from rich.table import Table
from rich.text import Text

from kafka_marshal.cli import COULD_NOT_RUN, FINE, FOUND_SOMETHING
from kafka_marshal.cli.cluster.opened import Batch, opened, read_to_end
from kafka_marshal.cli.common import (
    Bootstrap,
    LogsInterval,
    Options,
    Properties,
    Topic,
    errors,
    fleet_rules,
    for_tables,
    needs,
)
from kafka_marshal.cli.durations import at
from kafka_marshal.core.state import ClaimKey

if TYPE_CHECKING:
    from kafka_marshal.admin.fold import ClaimsFold
    from kafka_marshal.admin.receipts import Receipt

_ENDED = {
    "took_over": "another client took over",
    "restarted": "its client restarted",
    "fast_reclaimed": "its client restarted",
    "reclaimed": "it claimed anew",
    "group_released": "an administrator released the group",
    "released": "it released the claim and had not processed this",
    "released_unsaid": "it released the claim and does not say what it processed (version 0.1.0)",
    "silent": "still its own, but silent",
    "not_known": "another one has it, and the log does not say since when",
}


def receipts(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The consumer group.")],
    data_topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The data topic.")],
    *,
    bootstrap: Bootstrap = None,
    topic: Topic = "__marshal",
    heartbeat_interval: LogsInterval = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print JSON lines, one for each receipt.")
    ] = False,
    properties: Properties = None,
    options: Options = None,
) -> None:
    """List messages that at-most-once consumers may have lost.

    A range is granted before it is processed, and its owner may have died in between. So this lists
    the last range of each tenure, unless its owner is still alive, or its release stated that the
    range was processed. The log contains no more than that: an instance that sent records later is
    alive, and has probably processed its range. Ranges that the anchor of a shared claim reserved
    are not listed, since its consumers hold ranges one by one.

    Exits 1 if there are any, 0 if not, 2 if it could not run. It also exits with 2 if there are
    none, but consumers share a partition at most once: what they may have lost is not known here.
    """
    rules = fleet_rules(heartbeat_interval)
    with needs("kafka"):
        from kafka_marshal.admin.receipts import Receipts
        from kafka_marshal.codec import coordinating_partition
    watched = Receipts(group, data_topic)

    def watch(batch: Batch) -> None:
        for record, changes in batch:
            watched.read(record, changes)

    with opened(bootstrap, topic, properties, options, rules, group=group) as view:
        read_to_end(view, watch, interval_given=heartbeat_interval is not None)
        view.check_group(group)
        view.check_topic(group, data_topic)
    home = coordinating_partition(data_topic, view.partitions)
    first = view.folds[home].first
    if first:
        errors.print(f"Note: the log begins at offset {first:,}; what was granted before is gone")
    stale_after_ms = view.rules_of(group, home).stale_after_ms
    every = watched.receipts(time.time_ns() // 1_000_000, stale_after_ms)
    fold = view.folds[home]
    found = [one for one in every if not _of_anchor(one, fold)]
    # Also while the anchor lives, and has no receipt.
    shared = {key.topic_partition for key, at in watched.granted if fold.may_be_of_anchor(key, at)}
    if shared:
        names = ", ".join(f"{data_topic}:{number}" for number in sorted(shared))
        errors.print(
            f"Note: consumers share {names}, or did: their ranges are not listed here; marshal "
            "replay reports those that were lost (range_lost, ranges_passed_over)"
        )
    if json:
        for one in found:
            sys.stdout.write(json_text.dumps(attrs.asdict(one)) + "\n")
    else:
        _print(found, watched.grants, watched.in_hand, shared=bool(shared))
    if found:
        raise typer.Exit(FOUND_SOMETHING)
    raise typer.Exit(COULD_NOT_RUN if shared else FINE)


def _of_anchor(one: Receipt, fold: ClaimsFold) -> bool:
    """It was granted to an anchor: a reserve of ranges, which consumers hold one by one."""
    key = ClaimKey(one.group, one.topic, one.topic_partition)
    return one.epoch is not None and fold.may_be_of_anchor(key, one.epoch)


def _print(found: list[Receipt], grants: int, in_hand: int, *, shared: bool) -> None:
    shown = for_tables()
    messages = sum(one.end - one.start for one in found if one.start is not None)
    begun = sum(one.start is None for one in found)
    more = f", and those of {begun:,} whose beginning is not known" if begun else ""
    if found:
        what = f"{len(found)} of {grants:,} grants may have been lost, {messages:,} messages{more}"
    elif shared:
        what = f"not known: some of {grants:,} grants are of shared partitions"
    else:
        what = f"nothing may have been lost of {grants:,} grants"
    shown.print(what)
    if in_hand:
        owners = "an owner that lives" if in_hand == 1 else f"{in_hand:,} owners that live"
        shown.print(f"not counted: the last grants of {owners}, which may still be in hand")
    if not found:
        return
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    table.add_column("PARTITION", justify="right", no_wrap=True)
    for name in ("FROM", "TO", "EPOCH"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("GRANTED TO", overflow="fold")
    table.add_column("GRANTED AT (UTC)", overflow="fold")
    table.add_column("HOW IT ENDED", overflow="fold")
    for one in found:
        how = _ENDED.get(one.ended_by, one.ended_by)
        table.add_row(
            str(one.topic_partition),
            "?" if one.start is None else f"{one.start:,}",
            f"{one.end - 1:,}",
            "?" if one.epoch is None else f"{one.epoch:,}",
            Text.assemble(one.client, (f" {one.instance}", "dim")),
            at(one.granted_ms),
            Text(how + (", and it was heard of later" if one.heard_later else "")),
        )
    shown.print(table)

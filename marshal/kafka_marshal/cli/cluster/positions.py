"""`marshal set-position`: sets the offsets from which a group continues."""

from __future__ import annotations

import json as json_text
import sys
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from kafka_marshal.cli import FINE, FOUND_SOMETHING
from kafka_marshal.cli.cluster import shared_claims
from kafka_marshal.cli.cluster.opened import check_signing, opened, read_to_end, unauthentic
from kafka_marshal.cli.common import (
    Bootstrap,
    Keys,
    LogsInterval,
    Options,
    Properties,
    Stop,
    Topic,
    console,
    duration,
    errors,
    fail,
    fleet_rules,
    needs,
    one_sentence,
)
from kafka_marshal.cli.durations import at
from kafka_marshal.errors import MarshalError

if TYPE_CHECKING:
    from kafka_marshal.admin.position_targets import PlannedPosition
    from kafka_marshal.admin.set_positions import SetPositionsResult

_REASONS = {
    "paused_by_another": "another administrator paused the group, and the later pause wins",
    "claim_taken": "another client owns one of the claims",
    "pause_expired": "the pause ran out before all claims were won; try a longer --pause",
    "called_off": "it was called off",
}


def set_position(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The consumer group.")],
    positions: Annotated[
        list[str],
        typer.Argument(
            metavar="TOPIC[:PARTITION]=WHERE",
            help="WHERE is an offset, +N or -N from the current position, earliest, latest, or "
            "a time like 2026-01-31T22:00 (UTC).",
        ),
    ],
    *,
    bootstrap: Bootstrap = None,
    topic: Topic = "__marshal",
    pause: Annotated[
        str,
        typer.Option(metavar="DURATION", help="The maximum time that the group is paused."),
    ] = "60s",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be set, and change nothing.")
    ] = False,
    anyway: Annotated[
        bool,
        typer.Option(
            "--anyway",
            help="Set them even if another administrator has set only some of its positions.",
        ),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    heartbeat_interval: LogsInterval = None,
    keys: Keys = None,
    properties: Properties = None,
    options: Options = None,
) -> None:
    """Set the positions from which a group continues: all of them, or none, or it reports which.

    The group is paused on the coordinating partitions of these topics meanwhile, usually for less
    than a second, and its consumers then claim again. "All or none" holds for each coordinating
    partition; topics on different ones are listed separately. The new positions are then also
    committed as the group's offsets in Kafka, for Kafka's own tools.

    +N and -N count from the current position in the log; the table shows the result. This also
    works for a group that has not started yet. For a shared claim it ends all ranges.

    With --keys, if the file has sign-with, the records are signed, too. Records that are not
    authentic are reported, but not ignored.

    Ctrl-C cancels it, and reports what was set. Exits 0 if all positions are set, 1 if not, 2 if it
    could not run and sent nothing.
    """
    rules = fleet_rules(heartbeat_interval)
    pause_ms = duration(pause, "--pause", longest_ms=rules.pause_max_ms)
    with needs("kafka"):
        from kafka_marshal.admin import set_positions as administer
        from kafka_marshal.admin.position_targets import plan, wish
        from kafka_marshal.client.connect.admin_client import ClusterClient
        from kafka_marshal.client.connect.log_writer import LogWriter
        from kafka_marshal.client.connect.settings import refuse_no_names
    with one_sentence(MarshalError):
        wishes = [wish(text) for text in positions]
    stop = Stop(
        first="calling off; a second Ctrl-C does not wait for the log",
        second="nothing more is sent; marshal ls and marshal groups show the state",
    )
    where = (bootstrap, topic, properties, options)
    with opened(*where, rules, group=group, keys=keys, verify=True) as view:
        cluster = ClusterClient(view.settings)
        operators = administer.SetPositionsOperation(
            view, group, {one.topic for one in wishes}, pause_ms
        )
        read_to_end(view, operators.read, stop, interval_given=heartbeat_interval is not None)
        _check_called_off(stop)
        if group not in view.groups:
            refuse_no_names(GROUP=group)
            errors.print(
                f"Note: no record of {topic} is of group {group} yet; its consumers will begin "
                "at the position that this sets."
            )
        planned = plan(wishes, group, cluster, view)
        left = administer.left_by_others(view, group)
        beside = administer.beside(view, planned)
        if not json:
            _print_plan(planned, len(beside))
        for key, shared in administer.ranges_that_end(view, planned).items():
            named = any(one.key == key for one in planned)
            errors.print(f"Note: {shared_claims.will_end(key, shared, named=named)}", markup=False)
        for sentence in unauthentic(view):
            errors.print(f"Warning: {sentence}")
        for work in left:
            errors.print(f"Warning: {administer.work_left(work)}.")
        if any(one.target == 0 for one in planned):
            errors.print(
                "Note: consumers of version 0.1.0 take position 0 for one that nobody has set: "
                "they begin at Kafka's committed offset, or where start= says."
            )
        if dry_run:
            if json:
                _print_json(planned, (), "planned", None)
            raise typer.Exit(FINE)
        if left and not anyway:
            errors.print("marshal: nothing was done; --anyway sets the positions all the same")
            raise typer.Exit(FOUND_SOMETHING)
        check_signing(view, group)
        _check_called_off(stop)
        with LogWriter(view.settings, topic) as log, errors.status("setting positions"):
            ended = operators.set_positions(
                cluster, log, planned, stop, lambda note: errors.print(f"Note: {note}.")
            )
        failed = administer.commit(cluster, group, ended, planned)
    if json:
        _print_json(planned, ended, "ended", failed)
    else:
        _print_ended(planned, ended)
    if failed is not None:
        errors.print(f"Note: the group's committed offsets were not changed: {failed}")
    whole = all(one.reason is None for one in ended) and failed is None
    raise typer.Exit(FINE if whole else FOUND_SOMETHING)


def _check_called_off(stop: Stop) -> None:
    """Stop where nothing was sent yet."""
    if stop():
        fail("cancelled; nothing was sent")


def _print_plan(planned: list[PlannedPosition], beside: int) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    table.add_column("CLAIM", overflow="fold")
    for name in ("POSITION", "TO", "MOVES BY", "HOLDS"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in planned:
        moves = None if one.position is None else one.target - one.position
        table.add_row(
            Text(f"{one.key.topic}:{one.key.topic_partition}"),
            "?" if one.position is None else f"{one.position:,}",
            f"{one.target:,}",
            "" if moves is None else f"{moves:+,}",
            f"{one.low:,} to {one.end - 1:,}" if one.end > one.low else "nothing",
        )
    console.print(table)
    if beside:
        claims = "1 more claim" if beside == 1 else f"{beside} more claims"
        console.print(f"{claims} of the group: interrupted, their positions stay")


def _print_ended(planned: list[PlannedPosition], ended: list[SetPositionsResult]) -> None:
    for one in ended:
        of = f" of {len(one.set) + len(one.not_set) + len(one.in_doubt)}"
        if one.reason is None:
            line = Text(f"set: {len(one.set)}{of}", "bold green")
        else:
            reason = _REASONS.get(one.reason, one.reason)
            line = Text(f"set: {len(one.set)}{of}: {reason}", "bold red")
        console.print(
            line,
            Text(f"(coordinating partition {one.coordinating_partition})", "dim"),
            soft_wrap=True,
        )
        for word, keys in (("set", one.set), ("not set", one.not_set), ("in doubt", one.in_doubt)):
            if keys and one.reason is not None:
                names = ", ".join(f"{key.topic}:{key.topic_partition}" for key in keys)
                console.print(f"  {word}: {names}", markup=False, soft_wrap=True)
        if one.not_read_back is not None:
            console.print(f"  {one.not_read_back}", markup=False, soft_wrap=True)
        if one.still_paused:
            console.print("  the group may still be paused: marshal resume", markup=False)
        elif one.new_paused_until_ms is not None:
            until = f"until {at(one.new_paused_until_ms)} UTC"
            console.print(
                f"  topics and partitions new to the group stay paused {until}",
                markup=False,
                soft_wrap=True,
            )


def _print_json(
    planned: list[PlannedPosition],
    ended: list[SetPositionsResult] | tuple[()],
    state: str,
    failed: str | None,
) -> None:
    """One object each: the claim, where it was, where it is to be, and what became of it."""
    became = {
        key: (word, one.reason)
        for one in ended
        for word, keys in (("set", one.set), ("not_set", one.not_set), ("in_doubt", one.in_doubt))
        for key in keys
    }
    for one in planned:
        word, reason = became.get(one.key, (state, None))
        values = {
            **one.key._asdict(),
            "coordinating_partition": one.coordinating_partition,
            "position": one.position,
            "target": one.target,
            "state": word,
            "reason": None if word == "set" else reason,
            "committed": word == "set" and failed is None,
        }
        sys.stdout.write(json_text.dumps(values) + "\n")

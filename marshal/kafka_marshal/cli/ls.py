"""`marshal ls` and `marshal groups`: the coordination topic as it stands."""

from __future__ import annotations

import json as json_text
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final

import attrs
import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kafka_marshal.cli.common import (
    Bootstrap,
    HeartbeatInterval,
    Options,
    Properties,
    Stop,
    Topic,
    console,
    errors,
    fleet_rules,
    for_tables,
)
from kafka_marshal.cli.durations import duration, told
from kafka_marshal.cli.opened import opened, read_to_end

if TYPE_CHECKING:
    from kafka_marshal.runtime.controls import ClusterClient
    from kafka_marshal.runtime.view import ClaimRow, GroupRow, View

_STATES: Final = {
    "owned": "green",
    "stale": "bold red",
    "free": "yellow",
    "paused": "cyan",
    "unknown": "magenta",
}
_WIDE: Final = 110
"""On a narrower terminal the owner's instance is left out."""
_REFRESH_S: Final = 1.0
_LOOK_FOR_GROWTH_S: Final = 10.0

Watch = Annotated[bool, typer.Option("--watch", help="Go on, a look each second, until Ctrl-C.")]
Json = Annotated[bool, typer.Option("--json", help="JSON lines, one each.")]
Last = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        show_default="all there is",
        help="Read so much of the log only, like 10m; what then is a guess is marked.",
    ),
]


def ls(
    group: Annotated[
        str | None,
        typer.Argument(metavar="GROUP", show_default="all", help="The claims of this group."),
    ] = None,
    *,
    bootstrap: Bootstrap = None,
    topic: Topic = "__marshal",
    heartbeat_interval: HeartbeatInterval = 60.0,
    last: Last = None,
    watch: Watch = False,
    json: Json = False,
    properties: Properties = None,
    options: Options = None,
) -> None:
    """List claims: who owns them since when, how far behind, when last heard of.

    The epoch is the log offset at which the owner won. Lag is against the end of the data topic.
    What is not certain, because the log's head is gone, is marked with a question mark.
    """
    with _viewed(bootstrap, topic, heartbeat_interval, last, properties, options, group) as (
        view,
        cluster,
    ):
        if group is not None:
            view.check_group(group)

        def rows() -> list[ClaimRow]:
            return view.rows(_now_ms(), group, view.data_ends(cluster, group))

        if json:
            _print_json(rows, view, watch)
        else:
            _show(lambda: _claims(rows(), view, all_groups=group is None), view, watch)


def groups(
    *,
    bootstrap: Bootstrap = None,
    topic: Topic = "__marshal",
    heartbeat_interval: HeartbeatInterval = 60.0,
    last: Last = None,
    watch: Watch = False,
    json: Json = False,
    properties: Properties = None,
    options: Options = None,
) -> None:
    """List groups: how many of their claims are owned, stale or free, and by how many."""
    with _viewed(bootstrap, topic, heartbeat_interval, last, properties, options) as (
        view,
        cluster,
    ):

        def rows() -> list[GroupRow]:
            return view.group_rows(_now_ms(), view.data_ends(cluster))

        if json:
            _print_json(rows, view, watch)
        else:
            _show(lambda: _groups(rows(), view), view, watch)


@contextmanager
def _viewed(
    bootstrap: str | None,
    topic: str,
    heartbeat_interval: float,
    last: str | None,
    properties: Properties,
    options: Options,
    group: str | None = None,
) -> Iterator[tuple[View, ClusterClient]]:
    """The topic, folded to its end."""
    rules = fleet_rules(heartbeat_interval)
    since_ms = None if last is None else _now_ms() - duration(last, "--last")
    where = (bootstrap, topic, properties, options)
    with opened(*where, rules, since_ms=since_ms, group=group) as view:
        from kafka_marshal.runtime.controls import ClusterClient

        read_to_end(view)
        for sentence in view.interval_mismatches():
            errors.print(f"Warning: {sentence}", markup=False)
        if view.malformed:
            errors.print(f"Note: {view.malformed} records hold no message; see marshal replay")
        yield view, ClusterClient(view.settings)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


# --- shown once, or again and again ---------------------------------------------------------------


def _each_second(view: View) -> Iterator[None]:
    """Follow the log; once a second give way, to show how it stands."""
    show_at = grown_at = time.monotonic()
    for _ in view.follow(Stop()):
        now = time.monotonic()
        if now >= grown_at + _LOOK_FOR_GROWTH_S:
            view.check_partitions()
            grown_at = now
        if now >= show_at:
            yield
            show_at = time.monotonic() + _REFRESH_S


def _show(table: Callable[[], RenderableType], view: View, watch: bool) -> None:
    if not watch:
        for_tables().print(table())
        return
    with Live(console=console, auto_refresh=False, screen=console.is_terminal) as live:
        for _ in _each_second(view):
            live.update(table(), refresh=True)


def _print_json(
    rows: Callable[[], list[ClaimRow] | list[GroupRow]], view: View, watch: bool
) -> None:
    """A line each; of those that are watched a line each when it has changed."""
    told_before: dict[object, object] = {}
    for _ in _each_second(view) if watch else (None,):
        for row in rows():
            values = attrs.asdict(row)
            name = tuple(values.get(part) for part in ("group", "topic", "topic_partition"))
            steady = {key: value for key, value in values.items() if key != "age_ms"}
            if told_before.get(name) != steady:
                told_before[name] = steady
                sys.stdout.write(json_text.dumps(values) + "\n")
        sys.stdout.flush()


# --- tables ---------------------------------------------------------------------------------------


def _claims(rows: list[ClaimRow], view: View, *, all_groups: bool) -> RenderableType:
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    if all_groups:
        table.add_column("GROUP", overflow="fold")
    longest = max((len(row.topic) for row in rows), default=0) + 4
    table.add_column("CLAIM", overflow="fold", min_width=min(longest, 16))
    table.add_column("STATE", no_wrap=True)
    table.add_column("OWNER", overflow="fold")
    for name in ("EPOCH", "POSITION", "END", "LAG", "HEARD"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        doubt = "" if row.knowledge in ("known", "unknown") else "?"
        cells: list[Text | str] = [
            Text(f"{row.topic}:{row.topic_partition}"),
            Text(_state(row) + doubt, _STATES[row.state]),
            _owner(row, doubt),
            f"{_number(row.epoch)}{doubt if row.epoch is not None else ''}",
            f"{row.position:,}{'' if row.position_certain else '?'}",
            _number(row.end),
            _number(row.lag),
            "" if row.age_ms is None else told(row.age_ms),
        ]
        table.add_row(*([Text(row.group), *cells] if all_groups else cells))
    count = {state: sum(row.state == state for row in rows) for state in _STATES}
    words = ", ".join(f"{number} {state}" for state, number in count.items() if number)
    summary = f"{len(rows)} claim{'' if len(rows) == 1 else 's'}" + (f": {words}" if words else "")
    return Group(Text(summary, "bold"), *_doubts(view, rows), table)


def _groups(rows: list[GroupRow], view: View) -> RenderableType:
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    table.add_column("GROUP", overflow="fold")
    table.add_column("TOPICS", overflow="fold")
    for name in ("CLAIMS", "OWNED", "STALE", "FREE", "OWNERS", "LAG"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("NOTE", overflow="fold")
    for row in rows:
        numbers = (row.claims, row.owned, row.stale, row.free, row.owners)
        table.add_row(
            Text(row.group),
            Text(", ".join(row.topics)),
            *(
                Text(f"{number:,}", "bold red" if at == 2 and number else "")
                for at, number in enumerate(numbers)
            ),
            _number(row.lag),
            Text("; ".join(_notes(row))),
        )
    return Group(
        Text(f"{len(rows)} group{'' if len(rows) == 1 else 's'} in {view.topic}", "bold"), table
    )


def _notes(row: GroupRow) -> Iterator[str]:
    if row.paused_until_ms is not None:
        yield f"paused for {told(row.paused_until_ms - _now_ms())} more"
    if row.left_undone:
        yield f"an administrator has left {row.left_undone} positions, or is at it"
    if row.not_certain:
        yield f"{row.not_certain} owners are guesses"


def _state(row: ClaimRow) -> str:
    if row.paused_until_ms is None:
        return row.state
    return f"paused {told(row.paused_until_ms - _now_ms())}"


def _owner(row: ClaimRow, doubt: str) -> Text:
    if row.owner_client is None:
        return Text(f"by {row.pauser}", "dim") if row.pauser else Text("")
    if row.owner_client == row.owner_instance or (console.is_terminal and console.width < _WIDE):
        return Text(row.owner_client + doubt)
    return Text.assemble(row.owner_client + doubt, (f" {row.owner_instance}", "dim"))


def _number(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def _doubts(view: View, rows: list[ClaimRow]) -> Iterator[Text]:
    unsure = sum(row.knowledge != "known" or not row.position_certain for row in rows)
    if unsure:
        yield Text(
            f"{unsure} of them are not certain (?): the log is read from offset "
            f"{_firsts(view)} on, and nobody has said since how they stand",
            "yellow",
        )


def _firsts(view: View) -> str:
    return ", ".join(f"{view.folds[number].first:,} of {number}" for number in view.headless[:4])

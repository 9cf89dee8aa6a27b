"""`marshal ls` and `marshal groups`: show the current state of the coordination topic."""

from __future__ import annotations

import json as json_text
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from threading import Thread
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import attrs
import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from kafka_marshal.cli.cluster import shared_claims
from kafka_marshal.cli.cluster.opened import opened, read_to_end, unauthentic
from kafka_marshal.cli.common import (
    Bootstrap,
    Keys,
    LogsInterval,
    Options,
    Properties,
    Topic,
    console,
    duration,
    errors,
    fleet_rules,
    for_tables,
    until_interrupted,
)
from kafka_marshal.cli.durations import duration_text

if TYPE_CHECKING:
    from kafka_marshal.admin.view import ListedClaim, ListedGroup, View
    from kafka_marshal.client.connect.admin_client import ClusterClient

T = TypeVar("T")
_STATES: Final = {
    "owned": "green",
    "stale": "bold red",
    "free": "yellow",
    "paused": "cyan",
    "unknown": "magenta",
}
_WIDE: Final = 110
"""On a narrower terminal the owner's instance is left out."""
_NUMBERS: Final = ("EPOCH", "POSITION", "END", "LAG", "HEARD", "INTERVAL")
_LEFT_OUT: Final = (
    frozenset[str](),
    frozenset({"INTERVAL"}),
    frozenset({"INTERVAL", "END"}),
    frozenset({"INTERVAL", "END", "EPOCH"}),
)
"""Columns that a table of claims leaves out where it does not fit: a line above it gives the
intervals, position and lag give the end."""
_REFRESH_S: Final = 1.0
_LOOK_FOR_GROWTH_S: Final = 10.0

Watch = Annotated[bool, typer.Option("--watch", help="Refresh every second, until Ctrl-C.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON lines, one for each entry.")]
Last = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        show_default="the whole log",
        help="Read only the newest part of the log, like 10m. Uncertain values are marked.",
    ),
]


def ls(
    group: Annotated[
        str | None,
        typer.Argument(metavar="GROUP", show_default="all", help="List the claims of this group."),
    ] = None,
    *,
    bootstrap: Bootstrap = None,
    topic: Topic = "__marshal",
    heartbeat_interval: LogsInterval = None,
    last: Last = None,
    watch: Watch = False,
    json: Json = False,
    keys: Keys = None,
    properties: Properties = None,
    options: Options = None,
) -> None:
    """List claims: their owners and since when, their lag, and the time of their last heartbeat.

    The epoch is the log offset at which the owner won. The lag is relative to the end of the data
    topic. For a claim that several consumers share, `ls GROUP` also shows who holds which offsets.
    With --watch it waits for a group that has no record yet. A question mark means that a value is
    uncertain, because the log's head is gone. With --keys it reports records that are not
    authentic, but does not ignore them.
    """
    where = (bootstrap, topic, heartbeat_interval, last, properties, options)
    with _viewed(*where, group, keys, verify=True) as (view, cluster):
        if group is not None and not watch:
            view.check_group(group)
        if group is not None and json and group not in view.groups:
            errors.print(f"Note: {_no_record_yet(view, group)}")

        def rows() -> list[ListedClaim]:
            ends = _answer(lambda: view.data_ends(cluster, group))
            return view.rows(_now_ms(), group, ends)

        if json:
            for sentence in unauthentic(view):
                errors.print(f"Warning: {sentence}")
            _print_json(rows, view, watch)
        else:
            _show(lambda: _claims(rows(), view, group), view, watch)


def groups(
    *,
    bootstrap: Bootstrap = None,
    topic: Topic = "__marshal",
    heartbeat_interval: LogsInterval = None,
    last: Last = None,
    watch: Watch = False,
    json: Json = False,
    properties: Properties = None,
    options: Options = None,
) -> None:
    """List groups: how many of their claims are owned, stale or free, and by how many owners."""
    where = (bootstrap, topic, heartbeat_interval, last, properties, options)
    with _viewed(*where) as (view, cluster):

        def rows() -> list[ListedGroup]:
            ends = _answer(lambda: view.data_ends(cluster))
            return view.group_rows(_now_ms(), ends)

        if json:
            _print_json(rows, view, watch)
        else:
            _show(lambda: _groups(rows(), view), view, watch)


@contextmanager
def _viewed(
    bootstrap: str | None,
    topic: str,
    heartbeat_interval: float | None,
    last: str | None,
    properties: Properties,
    options: Options,
    group: str | None = None,
    keys: Keys = None,
    verify: bool = False,
) -> Iterator[tuple[View, ClusterClient]]:
    """The topic, folded to its end."""
    rules = fleet_rules(heartbeat_interval)
    since_ms = None if last is None else _now_ms() - duration(last, "--last")
    where = (bootstrap, topic, properties, options)

    with opened(*where, rules, since_ms=since_ms, group=group, keys=keys, verify=verify) as view:
        from kafka_marshal.client.connect.admin_client import ClusterClient

        read_to_end(view, interval_given=heartbeat_interval is not None)
        if view.malformed:
            errors.print(f"Note: {view.malformed} records hold no message; see marshal replay")
        yield view, ClusterClient(view.settings)


def _answer(ask: Callable[[], T]) -> T:
    """What a broker answers. Another thread waits for it, so that Ctrl-C ends the wait.

    librdkafka waits in C, for 15 s if a broker is silent, and Python then runs no signal handler.
    """
    answer: Future[T] = Future()

    def asked() -> None:
        try:
            answer.set_result(ask())
        except Exception as error:
            answer.set_exception(error)

    Thread(target=asked, daemon=True).start()
    return answer.result()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _each_second(view: View) -> Iterator[None]:
    """Follow the log; once a second give way, to show how it stands."""
    show_at = grown_at = time.monotonic()
    for _ in view.follow(lambda: False):
        now = time.monotonic()
        if now >= grown_at + _LOOK_FOR_GROWTH_S:
            _answer(view.check_partitions)
            grown_at = now
        if now >= show_at:
            yield
            show_at = time.monotonic() + _REFRESH_S


def _show(table: Callable[[], RenderableType], view: View, watch: bool) -> None:
    if not watch:
        for_tables().print(table())
        return
    live = Live(console=console, auto_refresh=False, screen=console.is_terminal)
    with until_interrupted(), live:
        for _ in _each_second(view):
            live.update(table(), refresh=True)


def _print_json(
    rows: Callable[[], list[ListedClaim] | list[ListedGroup]], view: View, watch: bool
) -> None:
    """A line each; of those that are watched a line each when it has changed."""
    told_before: dict[object, object] = {}
    with until_interrupted() if watch else nullcontext():
        for _ in _each_second(view) if watch else (None,):
            for row in rows():
                values = attrs.asdict(row)
                name = tuple(values.get(part) for part in ("group", "topic", "topic_partition"))
                steady = {key: value for key, value in values.items() if key != "age_ms"}
                if told_before.get(name) != steady:
                    told_before[name] = steady
                    sys.stdout.write(json_text.dumps(values) + "\n")
            sys.stdout.flush()


def _claims(rows: list[ListedClaim], view: View, group: str | None) -> RenderableType:
    count = {state: sum(row.state == state for row in rows) for state in _STATES}
    words = ", ".join(f"{number} {state}" for state, number in count.items() if number)
    summary = f"{_counted(len(rows), 'claim')}" + (f": {words}" if words else "")
    lines = (
        Text(summary, "bold"),
        *_intervals(rows, group),
        *_doubts(view, rows),
        *(Text(sentence, "bold red") for sentence in unauthentic(view)),
        *_waits(view, group),
        *_replaced_late(view, rows),
    )
    return Group(*lines, *_claim_tables(rows, group), *_shared(rows, group))


def _shared(rows: list[ListedClaim], group: str | None) -> Iterator[Text]:
    """The ranges of shared claims, where the table is of one group."""
    shared = [row for row in rows if row.ranges is not None]
    if shared and group is None:
        names = sorted({row.group for row in shared})
        yield Text(
            f"{_counted(len(shared), 'claim')} shared by several consumers: marshal ls "
            f"{names[0] if len(names) == 1 else 'GROUP'} shows their ranges",
            "yellow",
        )
        return
    now_ms = _now_ms()
    for row in shared:
        yield Text("")
        yield from shared_claims.lines_of(row, now_ms)


def _intervals(rows: list[ListedClaim], group: str | None) -> Iterator[Text]:
    """Under which heartbeat interval a group is judged, where the table is of one group."""
    if group is not None and rows:
        yield Text(f"heartbeat interval: {', '.join(sorted({_interval(row) for row in rows}))}")


def _interval(row: ListedClaim | ListedGroup) -> str:
    """By which it is judged; and the others that the group's owners say."""
    ours_ms = row.heartbeat_interval_ms
    others = [_exact(each) for each in row.intervals_ms if each != ours_ms]
    return " and ".join((_exact(ours_ms), *others))


def _exact(interval_ms: float) -> str:
    """As the option takes it."""
    return f"{interval_ms / 1000:g}s"


def _replaced_late(view: View, rows: list[ListedClaim]) -> Iterator[Text]:
    from kafka_marshal.admin.clock_ahead import ahead

    heard = [
        (row.last_heartbeat_ms or 0, view.rules_of(row.group, row.coordinating_partition))
        for row in rows
    ]
    if not heard:
        return
    heard_ms, rules = max(heard, key=lambda each: each[0] + each[1].stale_after_ms)
    if (late := ahead([heard_ms], _now_ms(), rules)) is not None:
        yield Text(f"{late}; marshal release frees its claims before", "bold yellow")


def _waits(view: View, group: str | None) -> Iterator[Text]:
    if group is not None and group not in view.groups:
        yield Text(_no_record_yet(view, group), "yellow")


def _no_record_yet(view: View, group: str) -> str:
    return f"no record of {view.topic} is of group {group} yet; waiting for the first"


def _claim_tables(rows: list[ListedClaim], group: str | None) -> list[RenderableType]:
    """One table if it fits; else one for each group, without what other columns imply."""
    whole = _claim_table(rows, with_group=group is None)
    if _fits(whole):
        return [whole]
    if group is None:
        tables = []
        for name in sorted({row.group for row in rows}):
            of_group = [row for row in rows if row.group == name]
            tables += [Text(name, "bold cyan"), *_claim_tables(of_group, name)]
        return tables
    variants = [_claim_table(rows, left_out=left_out) for left_out in _LEFT_OUT]
    return [next(filter(_fits, variants), variants[-1])]


def _claim_table(
    rows: list[ListedClaim], *, with_group: bool = False, left_out: frozenset[str] = frozenset()
) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    if with_group:
        table.add_column("GROUP", overflow="fold")
    longest = max((len(row.topic) for row in rows), default=0) + 4
    table.add_column("CLAIM", overflow="fold", min_width=min(longest, 16))
    table.add_column("STATE", no_wrap=True)
    table.add_column("OWNER", overflow="fold")
    for name in _NUMBERS:
        if name not in left_out:
            table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        doubt = "" if row.knowledge in ("known", "unknown") else "?"
        numbers = {
            "EPOCH": f"{_number(row.epoch)}{doubt if row.epoch is not None else ''}",
            "POSITION": f"{row.position:,}{'' if row.position_certain else '?'}",
            "END": _number(row.end),
            "LAG": _number(row.lag),
            "HEARD": "" if row.age_ms is None else duration_text(row.age_ms),
            "INTERVAL": _interval(row),
        }
        table.add_row(
            *([Text(row.group)] if with_group else []),
            Text(f"{row.topic}:{row.topic_partition}"),
            Text(_state(row) + doubt, _STATES[row.state]),
            _owner(row, doubt),
            *(shown for name, shown in numbers.items() if name not in left_out),
        )
    return table


def _groups(rows: list[ListedGroup], view: View) -> RenderableType:
    head = Text(f"{_counted(len(rows), 'group')} in {view.topic}", "bold")
    whole = _group_table(rows, narrow=False)
    if _fits(whole):
        return Group(head, whole)
    notes = [Text(f"{row.group}: {note}") for row in rows for note in _notes(row)]
    return Group(head, _group_table(rows, narrow=True), *notes)


def _group_table(rows: list[ListedGroup], *, narrow: bool) -> Table:
    """Narrow: topics are counted, and notes are left to lines of their own."""
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    table.add_column("GROUP", overflow="fold")
    if narrow:
        table.add_column("TOPICS", justify="right", no_wrap=True)
    else:
        table.add_column("TOPICS", overflow="fold")
    for name in ("CLAIMS", "OWNED", "STALE", "FREE", "OWNERS", "LAG"):
        table.add_column(name, justify="right", no_wrap=True)
    if not narrow:
        table.add_column("INTERVAL", justify="right", no_wrap=True)
        table.add_column("NOTE", overflow="fold")
    for row in rows:
        numbers = (row.claims, row.owned, row.stale, row.free, row.owners)
        table.add_row(
            Text(row.group),
            Text(f"{len(row.topics):,}" if narrow else ", ".join(row.topics)),
            *(
                Text(f"{number:,}", "bold red" if at == 2 and number else "")
                for at, number in enumerate(numbers)
            ),
            "?" if row.lag_unknown else _number(row.lag),
            *([] if narrow else [Text(_interval(row)), Text("; ".join(_notes(row)))]),
        )
    return table


def _fits(table: Table) -> bool:
    """Whether it is shown without a line that is broken."""
    shown = for_tables()
    unbounded = shown.options.update(max_width=10_000)
    return Measurement.get(shown, unbounded, table).maximum <= shown.width


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _notes(row: ListedGroup) -> Iterator[str]:
    if row.paused_until_ms is not None:
        yield f"paused for {duration_text(row.paused_until_ms - _now_ms())} more"
    if len(row.intervals_ms) > 1:
        yield "its owners say different heartbeat intervals, and process messages twice"
    if row.lag_unknown:
        named, more = row.lag_unknown[:3], len(row.lag_unknown) - 3
        topics = ", ".join(named) + (f" and {more} more" if more > 0 else "")
        yield f"the end of {topics} is unknown: see that each exists and the user may DESCRIBE it"
    if row.left_undone:
        yield f"an administrator did not set {row.left_undone} positions, or is still setting them"
    if row.not_certain:
        yield f"{row.not_certain} owners are guesses"


def _state(row: ListedClaim) -> str:
    if row.paused_until_ms is None:
        return row.state
    return f"paused {duration_text(row.paused_until_ms - _now_ms())}"


def _owner(row: ListedClaim, doubt: str) -> Text:
    if row.ranges is not None and row.state != "paused":
        return shared_claims.shared_by(row.ranges)
    if row.owner_client is None:
        return Text(f"by {row.pauser}", "dim") if row.pauser else Text("")
    if row.owner_client == row.owner_instance or (console.is_terminal and console.width < _WIDE):
        return Text(row.owner_client + doubt)
    return Text.assemble(row.owner_client + doubt, (f" {row.owner_instance}", "dim"))


def _number(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def _doubts(view: View, rows: list[ListedClaim]) -> Iterator[Text]:
    unsure = sum(row.knowledge != "known" or not row.position_certain for row in rows)
    if unsure:
        yield Text(
            f"{unsure} of them are not certain (?): the log is read from offset "
            f"{_firsts(view)} on, and no record since shows their state",
            "yellow",
        )


def _firsts(view: View) -> str:
    return ", ".join(f"{view.folds[number].first:,} of {number}" for number in view.headless[:4])

"""`marshal group`: shows and changes groups with a controller, by asking their controllers."""

from __future__ import annotations

import json as json_text
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, cast

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kafka_marshal.cli import FINE, FOUND_SOMETHING
from kafka_marshal.cli.common import (
    Commands,
    console,
    duration,
    errors,
    fail,
    for_tables,
    needs,
    one_sentence,
    seconds,
    until_interrupted,
)
from kafka_marshal.cli.durations import duration_text
from kafka_marshal.core.groups.assignment import STRATEGIES
from kafka_marshal.core.groups.state import Rebalance
from kafka_marshal.errors import InvalidOption, MarshalError

if TYPE_CHECKING:
    from kafka_marshal.client.connect.environment import Deadline
    from kafka_marshal.client.groups.connection import Controllers
    from kafka_marshal.rpc.codec import RpcAnswer

_AT: Final = "127.0.0.1:9393"
_START: Final = "`marshal controller` starts one, and --controller names another"
_REFRESH_S: Final = 1.0
_WHERE: Final = {"latest": -1, "earliest": -2}
"""How a request writes them."""
Described: TypeAlias = dict[str, Any]
"""A group, by the names of the fields of ListGroups."""

group = Commands(no_args_is_help=True, rich_markup_mode="rich")

At = Annotated[
    str | None,
    typer.Option(
        "--controller",
        metavar="HOST:PORT,...",
        show_default=f"MARSHAL_CONTROLLERS, else {_AT}",
        help="Addresses of controllers; one is enough.",
    ),
]
Timeout = Annotated[
    float,
    typer.Option(
        metavar="DURATION",
        parser=seconds("--timeout"),
        show_default="15s",
        help="How long to try.",
    ),
]
TlsCa = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        show_default=False,
        help="Connect with TLS; the CA that signed the controllers' certificates.",
    ),
]
TlsCert = Annotated[
    Path | None,
    typer.Option(metavar="FILE", show_default=False, help="The client certificate, in PEM."),
]
TlsKey = Annotated[
    Path | None,
    typer.Option(metavar="FILE", show_default="--tls-cert", help="The certificate's key, in PEM."),
]
Watch = Annotated[bool, typer.Option("--watch", help="Refresh every second, until Ctrl-C.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON lines, one for each entry.")]
Name = Annotated[str, typer.Argument(metavar="GROUP", help="The group.")]


class _Asking:
    """A connection to controllers, and how long one answer may take."""

    def __init__(self, controllers: Controllers, timeout_s: float) -> None:
        self.controllers = controllers
        self._timeout_s = timeout_s

    @property
    def deadline(self) -> Deadline:
        """For one question, from now on."""
        return self.controllers.environment.deadline(self._timeout_s)

    def described(self, *names: str) -> list[Described]:
        """These groups, or all of them.

        Raises:
            RequestRefused: one does not exist, or no controller has read the log yet.
        """
        return self.controllers.described(names, self.deadline)

    def of_group(self, api: str, name: str, body: Mapping[str, object]) -> RpcAnswer:
        """What the group's controller answers.

        Raises:
            RequestRefused: an error code.
        """
        answer, server = self.controllers.asked(api, name, body, self.deadline)
        _expect(answer, server, f"group {name}")
        return answer


def _expect(answer: RpcAnswer, server: object, about: str) -> None:
    from kafka_marshal.client.groups.connection import RequestRefused

    if answer.code:
        raise RequestRefused(server, answer.api.name, about, answer.code)


@contextmanager
def _asking(
    controller: str | None,
    timeout_s: float,
    tls_ca: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
) -> Iterator[_Asking]:
    with needs("kafka"):
        from kafka_marshal.client.groups.connection import (
            AnswerMissing,
            Controllers,
            ServerUnreachable,
        )
        from kafka_marshal.client.groups.tls import client_context
    with one_sentence(MarshalError):
        tls = None
        if tls_ca is not None or tls_cert is not None:
            tls = client_context(tls_ca, tls_cert, tls_key)
        servers = controller or os.environ.get("MARSHAL_CONTROLLERS") or _AT
        seen = list[ServerUnreachable]()

        def unreachable(error: ServerUnreachable) -> None:
            """Report it at once, and end if another server listens there: that will not pass."""
            if not seen:
                seen.append(error)
                if (found := controllers.strangers()) is not None:
                    fail(found)
                errors.print(f"Note: {error}; trying again for {duration_text(timeout_s * 1000)}")

        with Controllers(
            servers, "marshal-cli", tls=tls, option="--controller", on_unreachable=unreachable
        ) as controllers:
            try:
                yield _Asking(controllers, timeout_s)
            except ServerUnreachable as error:
                found = controllers.strangers()
                if isinstance(error, AnswerMissing):  # it may say what is not known
                    fail(f"{error}; {found}" if found else str(error))
                fail(found or f"{error}; {_START}")


# --- what there is --------------------------------------------------------------------------------


@group.command("list")
def list_groups(
    *,
    controller: At = None,
    watch: Watch = False,
    json: Json = False,
    timeout: Timeout = 15.0,
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
) -> None:
    """List groups: state, members, and how many partitions have an owner.

    Exits 0, or 2 if no controller answers.
    """
    with _asking(controller, timeout, tls_ca, tls_cert, tls_key) as asking:

        def shown(found: list[Described]) -> RenderableType:
            table = _table(
                "GROUP", "STATE", "MEMBERS", "OWNED", "GENERATION", "TOPICS", "CONTROLLER"
            )
            for each in found:
                owned = sum(bool(one["ConsumerId"]) for one in each["Owners"])
                table.add_row(
                    Text(each["GroupName"]),
                    _state(each),
                    str(len(each["GroupMembers"])),
                    f"{owned} of {len(each['Owners'])}",
                    str(each["Generation"]),
                    Text(", ".join(each["Topics"])),
                    Text(_controller(each)),
                )
            number = len(found)
            head = Text(f"{number} group{'' if number == 1 else 's'}", "bold")
            return Group(head, table) if found else head

        _show(lambda: asking.described(), shown, watch=watch, json=json)


@group.command()
def describe(
    name: Name,
    *,
    controller: At = None,
    watch: Watch = False,
    json: Json = False,
    timeout: Timeout = 15.0,
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
) -> None:
    """Describe a group: the owner of each partition, since which event, and its position.

    The tenure is the number of the event that granted or rewound the partition; a commit under an
    earlier tenure is refused. Exits 0, or 2 if there is no such group, or no controller answers.
    """
    with _asking(controller, timeout, tls_ca, tls_cert, tls_key) as asking:

        def shown(found: list[Described]) -> RenderableType:
            [each] = found
            table = _table("PARTITION", "OWNER", "TENURE", "POSITION")
            for one in each["Owners"]:
                table.add_row(
                    Text(f"{one['Topic']}:{one['Partition']}"),
                    Text(one["ConsumerId"] or "nobody", "" if one["ConsumerId"] else "yellow"),
                    str(one["Tenure"]),
                    "none" if one["Offset"] < 0 else f"{one['Offset']:,}",
                )
            return Group(*_head(each), table)

        _show(lambda: asking.described(name), shown, watch=watch, json=json)


@group.command()
def members(
    name: Name,
    *,
    controller: At = None,
    watch: Watch = False,
    json: Json = False,
    timeout: Timeout = 15.0,
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
) -> None:
    """List the members of a group, and what each owns.

    Exits 0, or 2 if there is no such group, or no controller answers.
    """
    with _asking(controller, timeout, tls_ca, tls_cert, tls_key) as asking:

        def shown(found: list[Described]) -> RenderableType:
            [each] = found
            table = _table("MEMBER", "OWNS", "PARTITIONS")
            for member in each["GroupMembers"]:
                owned = [one for one in each["Owners"] if one["ConsumerId"] == member]
                table.add_row(Text(member), str(len(owned)), Text(_partitions(owned)))
            return Group(*_head(each), table) if each["GroupMembers"] else Group(*_head(each))

        _show(lambda: asking.described(name), shown, watch=watch, json=json)


def _head(each: Described) -> list[RenderableType]:
    free = sum(not one["ConsumerId"] for one in each["Owners"])
    number = len(each["GroupMembers"])
    words = f"{number} member{'' if number == 1 else 's'}, {len(each['Owners'])} partitions"
    return [
        Text.assemble((each["GroupName"], "bold"), ": ", _state(each)),
        Text(words + (f", {free} without an owner" if free else "")),
        Text(
            f"generation {each['Generation']}, session timeout "
            f"{duration_text(each['SessionTimeout'])}, controller {_controller(each)}"
        ),
    ]


def _state(each: Described) -> Text:
    if each["ErrorCode"]:
        return Text("no controller", "bold red")
    colour = {"Stable": "green", "Empty": "dim"}.get(each["State"], "yellow")
    return Text(each["State"].lower(), colour)


def _controller(each: Described) -> str:
    from kafka_marshal.client.groups.connection import Address

    return str(Address(each["Host"], each["Port"])) if each["Host"] else "none"


def _partitions(owned: Sequence[Described]) -> str:
    topics: dict[str, list[int]] = {}
    for one in owned:
        topics.setdefault(one["Topic"], []).append(one["Partition"])
    return "; ".join(
        f"{topic}: {', '.join(map(str, sorted(numbers)))}" for topic, numbers in topics.items()
    )


def _table(*names: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for name in names:
        is_number = name in ("MEMBERS", "OWNED", "GENERATION", "TENURE", "POSITION", "OWNS")
        table.add_column(
            name, justify="right" if is_number else "left", overflow="fold", no_wrap=is_number
        )
    return table


def _show(
    ask: Callable[[], list[Described]],
    shown: Callable[[list[Described]], RenderableType],
    *,
    watch: bool,
    json: bool,
) -> None:
    if not watch:
        found = ask()
        _print_json(found, {}) if json else for_tables().print(shown(found))
        return
    told = dict[str, Described]()
    with until_interrupted():
        if json:
            while True:
                _print_json(ask(), told)
                time.sleep(_REFRESH_S)
        with Live(console=console, auto_refresh=False, screen=console.is_terminal) as live:
            while True:
                live.update(shown(ask()), refresh=True)
                time.sleep(_REFRESH_S)


def _print_json(found: list[Described], told: dict[str, Described]) -> None:
    """A line each; of those that are watched a line each when it has changed."""
    for each in found:
        name = each["GroupName"]
        if told.get(name) != each:
            told[name] = each
            sys.stdout.write(json_text.dumps(each) + "\n")
    sys.stdout.flush()


# --- what is changed ------------------------------------------------------------------------------


@group.command()
def create(
    name: Name,
    topics: Annotated[
        list[str], typer.Argument(metavar="TOPIC", help="Topics that its members consume.")
    ],
    *,
    session_timeout: Annotated[
        str,
        typer.Option(
            metavar="DURATION",
            help="A member that is silent for this long loses its partitions; 1s to 30m.",
        ),
    ] = "30s",
    rebalance: Annotated[
        Rebalance,
        typer.Option(
            help="incremental: a member releases only partitions that move. eager: it releases "
            "all, so one rebalance grants all partitions."
        ),
    ] = Rebalance.INCREMENTAL,
    strategy: Annotated[
        str,
        typer.Option(metavar="|".join(sorted(STRATEGIES)), help="How partitions are assigned."),
    ] = "sticky",
    ephemeral: Annotated[
        bool, typer.Option("--ephemeral", help="Delete it with its last member.")
    ] = False,
    controller: At = None,
    timeout: Timeout = 15.0,
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
) -> None:
    """Create a group. If it exists with the same settings, this changes nothing.

    Exits 0 if the group exists with these settings, 2 if not.
    """
    if strategy not in STRATEGIES:
        fail(f"--strategy must be one of {', '.join(sorted(STRATEGIES))}, not {strategy!r}")
    body = {
        "ConsumerGroup": name,
        "SessionTimeout": duration(session_timeout, "--session-timeout"),
        "Topics": topics,
        "Ephemeral": int(ephemeral),
        "Rebalance": rebalance.value,
        "Strategy": strategy,
    }
    with _asking(controller, timeout, tls_ca, tls_cert, tls_key) as asking:
        answer, server = asking.controllers.asked_any("CreateGroup", body, asking.deadline)
        _expect(answer, server, f"group {name} of {', '.join(topics)}")
        broker = cast("Described", answer.body["ControllerBroker"])
        where = _controller(broker)
    for_tables().print(Text(f"group {name} is there; its controller is {where}"))


@group.command()
def delete(
    names: Annotated[list[str], typer.Argument(metavar="GROUP", help="Groups without members.")],
    *,
    controller: At = None,
    timeout: Timeout = 15.0,
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
) -> None:
    """Delete groups that have no members, and their positions.

    Exits 0 if all are deleted, 1 if one is not, 2 if no controller answers.
    """
    with _asking(controller, timeout, tls_ca, tls_cert, tls_key) as asking:
        from kafka_marshal.client.groups.connection import RequestRefused, ServerUnreachable

        failed = 0
        for name in dict.fromkeys(names):
            try:
                asking.of_group("DeleteGroup", name, {"ConsumerGroup": [name]})
            except RequestRefused as error:
                errors.print(f"marshal: {error}")
                failed += 1
            except ServerUnreachable:
                if failed:
                    errors.print(f"marshal: not deleted: {failed} groups before {name}")
                raise
            else:
                for_tables().print(Text(f"group {name} is deleted"))
    raise typer.Exit(FOUND_SOMETHING if failed else FINE)


@group.command()
def rewind(
    name: Name,
    positions: Annotated[
        list[str],
        typer.Argument(
            metavar="TOPIC[:PARTITION]=WHERE", help="WHERE is an offset, earliest or latest."
        ),
    ],
    *,
    controller: At = None,
    timeout: Timeout = 15.0,
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
) -> None:
    """Set positions while members consume: all of them, or none.

    Each of these partitions gets a new tenure. Its owner continues at the new position, and commits
    of its earlier work are refused.

    Exits 0 if all are set, 2 if not, or if the outcome is not known; the message says which.
    """
    with _asking(controller, timeout, tls_ca, tls_cert, tls_key) as asking:
        wishes = [_wish(text) for text in positions]
        [found] = asking.described(name)
        there = [(one["Topic"], one["Partition"]) for one in found["Owners"]]
        offsets = [
            {"Topic": topic, "Partition": number, "Offset": offset}
            for topic, partition, offset in wishes
            for number in _numbers(topic, partition, there, name)
        ]
        twice = [
            at for at, n in Counter((o["Topic"], o["Partition"]) for o in offsets).items() if n > 1
        ]
        if twice:
            fail(f"{twice[0][0]}:{twice[0][1]} is named twice")
        answer = asking.of_group(
            "RewindConsumer",
            name,
            {"ConsumerGroup": name, "NewOffsets": [], "NewOffsetsV1": offsets},
        )
    table = _table("PARTITION", "POSITION")
    for one in cast("list[Described]", answer.body["ActualOffsetsV1"]):
        table.add_row(Text(f"{one['Topic']}:{one['Partition']}"), f"{one['Offset']:,}")
    for_tables().print(table)


def _wish(text: str) -> tuple[str, int | None, int]:
    """Topic, partition (None: all of them) and offset of `TOPIC[:PARTITION]=WHERE`.

    >>> _wish("orders:3=earliest"), _wish("orders=12")
    (('orders', 3, -2), ('orders', None, 12))
    """
    from kafka_marshal.admin.position_targets import claim_named, is_offset

    claim, equals, where = text.partition("=")
    if not equals or not (is_offset(where) or where in _WHERE):
        raise InvalidOption(
            f"{text!r} must be TOPIC[:PARTITION]=WHERE; WHERE is an offset, earliest or latest"
        )
    return *claim_named(claim), _WHERE[where] if where in _WHERE else int(where)


def _numbers(
    topic: str, partition: int | None, there: Sequence[tuple[str, int]], name: str
) -> list[int]:
    of_topic = [number for each, number in there if each == topic]
    if not of_topic or (partition is not None and partition not in of_topic):
        at = topic if partition is None else f"{topic}:{partition}"
        fail(f"group {name} has no {at}; marshal group describe {name} lists its partitions")
    return of_topic if partition is None else [partition]

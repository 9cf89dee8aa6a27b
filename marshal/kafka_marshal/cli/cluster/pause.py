"""`marshal pause`, `resume` and `release`: end the ownership of a whole group's claims."""

from __future__ import annotations

import json as json_text
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import attrs
import typer

from kafka_marshal.cli import FINE, FOUND_SOMETHING
from kafka_marshal.cli.cluster import shared_claims
from kafka_marshal.cli.cluster.opened import check_signing, opened, read_to_end
from kafka_marshal.cli.common import (
    PAUSE_MAX_S,
    Bootstrap,
    Options,
    PauseMax,
    Properties,
    Topic,
    console,
    duration,
    errors,
    fail,
    fleet_rules,
)
from kafka_marshal.cli.durations import at, duration_text
from kafka_marshal.core.state import FENCED, ClaimKey, Rules

if TYPE_CHECKING:
    from kafka_marshal.admin.pause import GroupRelease
    from kafka_marshal.admin.view import View
    from kafka_marshal.client.connect.log_writer import LogWriter

Group = Annotated[str, typer.Argument(metavar="GROUP", help="The consumer group.")]
Json = Annotated[
    bool, typer.Option("--json", help="Print JSON lines, one for each coordinating partition.")
]
Anyway = Annotated[
    bool, typer.Option("--anyway", help="Do it even if the log does not know the group.")
]


def pause(
    group: Group,
    *,
    how_long: Annotated[
        str, typer.Option("--for", metavar="DURATION", help="Like 90s, 10m or 1h30m.")
    ],
    bootstrap: Bootstrap = None,
    topic: Topic = "__marshal",
    anyway: Anyway = False,
    pause_max: PauseMax = PAUSE_MAX_S,
    json: Json = False,
    properties: Properties = None,
    options: Options = None,
) -> None:
    """Pause a group: it loses all its claims, and nobody can claim them until the pause is over.

    The pause covers every coordinating partition, so it also applies to topics that the group
    consumes later. Each partition is paused by its own record, so not all at the same instant. If
    only some could be paused, the command reports this. A second pause replaces the first.

    If a broker's clock was ahead, a pause that ends before that time has no effect; the command
    reports this, too.

    Exits 0 if all are paused, 1 if only some are, 2 if it could not run.
    """
    rules = fleet_rules(pause_max_s=pause_max)
    for_ms = duration(how_long, "--for", longest_ms=rules.pause_max_ms)
    with _at_hand(group, bootstrap, topic, properties, options, rules) as (view, open_log):
        from kafka_marshal.admin import pause as pausing

        if not anyway:
            view.check_group(group)
        with open_log() as log:
            done = _done(lambda: pausing.pause(view, log, group, for_ms), json)
    held_ms = [one.paused_until_ms for one in done if one.paused_until_ms is not None]
    if not json:
        if held_ms:
            console.print(f"{group} is paused until {at(max(held_ms))} UTC", markup=False)
        _print_not_held(done)
        _print_freed(done)
        if any(freed.shared_by for one in done for freed in one.freed):
            console.print(
                "ranges sleep until the pause has run out; marshal resume would end them",
                markup=False,
                soft_wrap=True,
            )
    if len(held_ms) < len(done) or any(one.not_held for one in done):
        raise typer.Exit(FOUND_SOMETHING)


def resume(
    group: Group,
    *,
    bootstrap: Bootstrap = None,
    topic: Topic = "__marshal",
    json: Json = False,
    properties: Properties = None,
    options: Options = None,
) -> None:
    """End the pause of a group, no matter who started it.

    It resumes claim by claim, so a consumer that has won a claim since keeps it. Claims that were
    never requested stay paused: topics and partitions that are new to the group. Ranges of shared
    claims end; if the pause ran out instead, they would continue.

    Exits 0 if the group is not paused any more, or was not paused; 1 if it is still paused in part;
    2 if it could not run.
    """
    with _at_hand(group, bootstrap, topic, properties, options) as (view, open_log):
        from kafka_marshal.admin import pause as pausing

        view.check_group(group)
        before = pausing.shared_of(view, group)
        with open_log() as log:
            done = _done(lambda: pausing.resume(view, log, group), json)
        after = pausing.shared_of(view, group)
        left = [pausing.paused_until_ms(fold, group) for fold in view.folds.values()]
    if json:
        return
    console.print(f"{group} is not paused{' any more' if done else ''}", markup=False)
    for key, shared in before.items():
        if key not in after:
            line = shared_claims.have_ended(key, shared)
            console.print(f"  {line}", markup=False, soft_wrap=True)
    until_ms = max((each for each in left if each is not None), default=None)
    if until_ms is not None:
        console.print(
            f"  but for topics and partitions that are new to it: until {at(until_ms)} UTC",
            markup=False,
        )


def release(
    group: Group,
    claims: Annotated[
        list[str], typer.Argument(metavar="TOPIC[:PARTITION]", help="The claims to free.")
    ],
    *,
    bootstrap: Bootstrap = None,
    topic: Topic = "__marshal",
    hold: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", show_default="no time", help="How long no consumer can claim them."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be released, and change nothing.")
    ] = False,
    json: Json = False,
    properties: Properties = None,
    options: Options = None,
) -> None:
    """End the ownership of claims, so that other consumers can take them.

    The protocol frees a group as a whole: all its claims on the same coordinating partition lose
    their owners, which then claim again. The consumer that you want to remove may claim again as
    well: stop it first, or use --hold and stop it in the meantime. Positions stay where they are.

    Exits 0 if claims were released, 1 if none of them had an owner, 2 if it could not run.
    """
    hold_ms = 0 if hold is None else duration(hold, "--hold", longest_ms=FENCED.pause_max_ms)
    with _at_hand(group, bootstrap, topic, properties, options) as (view, open_log):
        from kafka_marshal.admin import pause as pausing
        from kafka_marshal.admin.position_targets import claim_named

        view.check_group(group)
        named = [claim_named(text) for text in claims]
        wanted = {key for one in named for key in pausing.owned_of(view, group, *one)}
        if dry_run:
            _print_would_free(view, group, wanted)
            raise typer.Exit(FINE if wanted else FOUND_SOMETHING)
        with open_log() as log:
            done = _done(lambda: pausing.release(view, log, group, named, hold_ms), json)
    if not done:
        errors.print("marshal: none of them has an owner; nothing was done")
        raise typer.Exit(FOUND_SOMETHING)
    if not json:
        _print_freed(done, wanted)
        if hold_ms:
            _print_not_held(done)


@contextmanager
def _at_hand(
    group: str,
    bootstrap: str | None,
    topic: str,
    properties: Properties,
    options: Options,
    rules: Rules = FENCED,
) -> Iterator[tuple[View, Callable[[], LogWriter]]]:
    """The topic, folded to its end, and what appends to it."""
    with opened(bootstrap, topic, properties, options, rules, group=group) as view:
        from kafka_marshal.client.connect.log_writer import LogWriter

        read_to_end(view)
        check_signing(view, group)
        yield view, lambda: LogWriter(view.settings, topic)


def _done(do: Callable[[], list[GroupRelease]], json: bool) -> list[GroupRelease]:
    """Do it. Exits 1, after printing what was done, if that is only a part; 2 if nobody knows."""
    from kafka_marshal.admin.pause import PartlyReleased

    try:
        done = do()
    except PartlyReleased as half:
        _print_freed(list(half.done))
        errors.print(f"marshal: {half}")
        raise typer.Exit(FOUND_SOMETHING) from None
    except KeyboardInterrupt:
        fail("interrupted; records that were sent may take effect: marshal groups shows the state")
    if json:
        for one in done:
            sys.stdout.write(json_text.dumps(attrs.asdict(one)) + "\n")
    return done


def _print_freed(done: list[GroupRelease], wanted: set[ClaimKey] | None = None) -> None:
    for one in done:
        for freed in one.freed:
            beside = wanted is not None and freed.key not in wanted
            owner = f"was owned by {freed.owner_client} ({freed.owner_instance})"
            if freed.shared_by == ():
                owner += ", perhaps for others that share it"
            elif freed.shared_by is not None:
                owner = f"was shared by {shared_claims.names(freed.shared_by)}; its ranges sleep"
            console.print(
                f"  {freed.key.topic}:{freed.key.topic_partition} {owner}"
                + ("; not named, but on the same coordinating partition" if beside else ""),
                markup=False,
                soft_wrap=True,
            )
    held = max((one.paused_until_ms - one.at_ms for one in done if one.paused_until_ms), default=0)
    if held and wanted is not None:
        console.print(f"nobody can claim them for {duration_text(held)}", markup=False)


def _print_not_held(done: list[GroupRelease]) -> None:
    """Where the log's clock is past the end of the pause already, nothing is paused by it."""
    for one in done:
        if one.paused_until_ms is None:
            console.print(
                f"  but on coordinating partition {one.coordinating_partition} nothing is: the "
                f"clock of its broker says {at(one.at_ms)} UTC, when the pause is over",
                markup=False,
                soft_wrap=True,
            )
        elif one.not_held and one.holds_above_ms is not None:
            names = ", ".join(f"{key.topic}:{key.topic_partition}" for key in one.not_held)
            console.print(
                f"  but {names} {'is' if len(one.not_held) == 1 else 'are'} free, and anybody may "
                f"claim: a broker's clock was ahead, and their clock is at "
                f"{at(one.holds_above_ms)} UTC; a pause that ends after that holds",
                markup=False,
                soft_wrap=True,
            )


def _print_would_free(view: View, group: str, wanted: set[ClaimKey]) -> None:
    partitions = {number for (number, key) in view.claims(group) if key in wanted}
    for (number, key), reader in view.claims(group).items():
        if number in partitions and reader.claim.owned:
            owner = f"owned by {reader.claim.owner_client} ({reader.claim.owner_instance})"
            shared = view.folds[number].shared(key)
            if shared is not None and not shared.instances:
                owner += ", perhaps for others that share it"
            elif shared is not None:
                owner = f"shared by {shared_claims.names(shared.instances)}; its ranges would sleep"
            console.print(
                f"  {key.topic}:{key.topic_partition} is {owner}"
                + ("" if key in wanted else "; not named, but on the same coordinating partition"),
                markup=False,
                soft_wrap=True,
            )
    if not partitions:
        console.print("none of them has an owner", markup=False)

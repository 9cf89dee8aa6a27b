"""Opens a coordination topic for a command, and reads it to its end.

Here options become settings and rules a view. What is looked for in it, the commands know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import attrs

from kafka_marshal.cli.common import connection, errors, fail, keyring_of, needs, one_sentence
from kafka_marshal.core.messages import Record
from kafka_marshal.core.state import Rules
from kafka_marshal.errors import MarshalError

if TYPE_CHECKING:
    from kafka_marshal.admin.fold import ClaimChange
    from kafka_marshal.admin.view import View

Batch: TypeAlias = "list[tuple[Record, list[ClaimChange]]]"
"""Records, and what each did."""


@contextmanager
def opened(
    bootstrap: str | None,
    topic: str,
    properties: Path | None,
    options: list[str] | None,
    rules: Rules,
    *,
    since_ms: int | None = None,
    group: str | None = None,
    keys: Path | None = None,
    verify: bool = False,
) -> Iterator[View]:
    """The topic, or one group of it, of which nothing is read yet.

    Records are signed, and verified if asked, with the keys in that file, else in the environment.
    Whatever a user can mend ends the command.
    """
    with needs("kafka"):
        from kafka_marshal.admin.view import View
    with one_sentence(MarshalError):
        settings = attrs.evolve(
            connection(bootstrap, properties, options), keyring=keyring_of(keys)
        )
        with View(settings, topic, rules, since_ms=since_ms, group=group, verify=verify) as view:
            yield view


def read_to_end(
    view: View,
    each: Callable[[Batch], None] = lambda _: None,
    stopped: Callable[[], bool] = lambda: False,
    *,
    interval_given: bool = False,
) -> View:
    """Fold all that there was when it was opened; on a terminal say how far that is.

    Stops the command if a heartbeat interval was given and the log contradicts it, and warns of
    groups that live under two.
    """
    total = sum(view.ends[number] - start for number, start in view.next.items())
    with errors.status(f"reading {view.topic}") as status:
        for batch in view.changes(view.ends, stopped):
            each(batch)
            status.update(f"reading {view.topic}: {view.records:,} of {total:,}")
    if interval_given:
        view.check_interval()
    for sentence in view.interval_mismatches():
        errors.print(f"Warning: {sentence}")
    return view


def unauthentic(view: View) -> list[str]:
    """A sentence for each sender of records that are not authentic."""
    return [f"not authentic: {one.sentence}" for one in view.unauthentic or ()]


def check_signing(view: View, group: str) -> None:
    """Stop a command that would write unsigned records into a group that signs its own.

    Consumers that require authentic records would stop at the first one.
    """
    keyring = view.settings.keyring
    if group in view.signed_groups and (keyring is None or keyring.sign_with is None):
        fail(
            f"records of group {group} are signed, and what this writes would not be: name a file "
            "of keys with sign-with in MARSHAL_KEYS_FILE"
        )

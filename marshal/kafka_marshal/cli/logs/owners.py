"""The output of `marshal watch` for groups: current owners, and finished rebalances.

This room knows a terminal and the state of groups. It does not know how a log is folded.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, Self

from rich.live import Live
from rich.table import Table
from rich.text import Text

from kafka_marshal.cli.common import console, for_tables
from kafka_marshal.cli.durations import duration_text
from kafka_marshal.core.groups.state import Group, TopicPartition, is_due, wanted

if TYPE_CHECKING:
    from kafka_marshal.replay.fold.judging import LiveAccount
    from kafka_marshal.replay.model.groups.rows import RebalanceRow

REFRESH_S: Final = 1.0
_LINES_BESIDE: Final = 8
"""Of a terminal's height that are left to findings."""


class OwnersTable:
    """The table below the findings; where there is no terminal it is printed once, at the end."""

    def __init__(self) -> None:
        self._live = Live(console=console, auto_refresh=False)
        self._next_s = 0.0

    def __enter__(self) -> Self:
        if console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, accounts: Mapping[int, LiveAccount], at_the_end: bool) -> None:
        """Draw the accounts as they stand, at most once a second, and at the end."""
        now_s = time.monotonic()
        if not console.is_terminal:
            if at_the_end:
                for_tables().print(_table(accounts, None))
        elif at_the_end or now_s >= self._next_s:
            self._next_s = now_s + REFRESH_S
            lines_max = max(5, console.height - _LINES_BESIDE)
            self._live.update(_table(accounts, lines_max), refresh=True)


def _table(accounts: Mapping[int, LiveAccount], lines_max: int | None) -> Table:
    from kafka_marshal.replay.groups.groups_fold import GroupsFold

    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for name in ("GROUP", "STATE", "OWNER", "PARTITIONS"):
        table.add_column(name, overflow="fold")
    lines = 0
    for account in accounts.values():
        assert isinstance(account, GroupsFold)
        for name, group in sorted(({} if account.state is None else account.state.groups).items()):
            for number, (owner, partitions) in enumerate(_owners(group)):
                lines += 1
                if lines_max is None or lines <= lines_max:
                    first = (Text(name), _state(group)) if number == 0 else (Text(), Text())
                    table.add_row(*first, owner, partitions)
    if lines_max is not None and lines > lines_max:
        table.add_row("", "", Text(f"and {lines - lines_max} more lines", "dim"), "")
    if not lines:
        table.add_row(Text("no group", "dim"), "", "", "")
    return table


def _state(group: Group) -> Text:
    if not group.members:
        return Text("empty", "dim")
    if is_due(group):
        return Text("rebalance due", "yellow")
    if any(each.owner != each.target for each in group.partitions.values()):
        return Text("rebalancing", "yellow")
    return Text("stable", "green")


def _owners(group: Group) -> Iterator[tuple[Text, Text]]:
    """Who owns what, each member in a line; then what nobody owns although it is wanted."""
    of: dict[str | None, list[TopicPartition]] = defaultdict(list)
    is_wanted = {*wanted(group)}
    for tp, each in sorted(group.partitions.items()):
        if each.owner is not None or tp in is_wanted:
            of[each.owner].append(tp)
    for member, known in sorted(group.members.items(), key=lambda item: item[1].client_id):
        revoking = [tp for tp in of.get(member, []) if group.partitions[tp].revoking]
        words = Text(_named(of.get(member, [])) or "nothing")
        if revoking:
            words.append(f"; lets go of {_named(revoking)}", "yellow")
        yield Text(f"{known.client_id} ({member})"), words
    if of[None]:
        yield Text("nobody", "yellow"), Text(_named(of[None]))
    if not group.members and not of[None]:
        yield Text(), Text()


def _named(partitions: list[TopicPartition]) -> str:
    topics: dict[str, list[int]] = {}
    for tp in partitions:
        topics.setdefault(tp.topic, []).append(tp.partition)
    return "; ".join(f"{topic}: {_ranges(numbers)}" for topic, numbers in topics.items())


def _ranges(numbers: list[int]) -> str:
    """Numbers in order, neighbours together.

    >>> _ranges([0, 1, 2, 5, 7, 8])
    '0-2, 5, 7-8'
    """
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] == number - 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(f"{p[0]}-{p[-1]}" if len(p) > 1 else str(p[0]) for p in parts)


_BECAUSE: Final = {
    "joined": "{who} joined",
    "left": "{who} left",
    "expired": "{who} was expired",
    "wish": "{who} wants other topics",
    "static": "{who} asks for other partitions",
    "counted": "a topic was counted",
}
"""By `due_by` of a rebalance."""


def rebalance_sentence(row: RebalanceRow) -> str:
    """What a rebalance came to, in a sentence."""
    who = row.due_client or row.due_member or "a member"
    why = f" ({_BECAUSE[row.due_by].format(who=who)})" if row.due_by in _BECAUSE else ""
    is_settled = row.state == "settled" and row.settled_ms is not None
    verb = "moved" if is_settled else "were to move"
    moved = f"{row.moves:,} of {row.partitions:,} partitions {verb}"
    head = f"Group {row.group}, target at offset {row.offset}{why}: {moved}"
    if not is_settled or row.settled_ms is None:
        return f"{head}, and it was never settled."
    if row.settled_offset == row.offset:
        return f"{head}, settled at once."
    took = f"settled after {duration_text(row.settled_ms - row.timestamp_ms)}"
    if row.held_up_client is None or row.held_up_ms is None:
        return f"{head}, {took}."
    last_ms = duration_text(row.held_up_ms)
    return f"{head}, {took}; {row.held_up_client} let go last, after {last_ms}."

"""Draws a shared claim for `marshal ls`: a map of its partition, and a line for each holder.

In the map each character stands for equally many offsets, and shows what most of them are. Letters
are holders: a capital where messages exist, a small letter beyond the end of the data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from rich.text import Text

from kafka_marshal.cli.durations import at, duration_text
from kafka_marshal.core.state import ClaimKey

if TYPE_CHECKING:
    from kafka_marshal.admin.listed_ranges import ListedHolder, ListedRanges
    from kafka_marshal.admin.shared_claims import FoldedSharedClaim
    from kafka_marshal.admin.view import ListedClaim

DONE, POOL, POOL_AHEAD, RESERVED, NOBODYS, OTHERS = "#", "+", "-", "r", ".", "*"
_WIDTH: Final = 60
_LETTERS: Final = "ABCDEFGHIJKLMNOPQSTUVWXYZ"
"""Without R, whose small letter would look like what is reserved."""
_NAMED_MAX: Final = len(_LETTERS)
_STYLES: Final = {DONE: "dim", POOL: "yellow", POOL_AHEAD: "yellow", RESERVED: "cyan"}
_HOLDER_STYLES: Final = ("green", "blue", "magenta", "cyan")


def shared_by(ranges: ListedRanges) -> Text:
    """What stands in the place of an owner."""
    if ranges.knowledge == "unknown":
        return Text("shared? ranges unknown", "magenta")
    silent = sum(one.silent for one in ranges.holders)
    count = len(ranges.holders)
    words = f"shared by {count}" if count else "shared, nobody heard of"
    return Text.assemble(words, (f" ({silent} silent)", "bold red") if silent else "")


def names(instances: Sequence[str], most: int = 5) -> str:
    """Who shares a claim; of very many the first ones.

    >>> names(()), names(("p", "q")), names(("p", "q"), 1)
    ('nobody heard of', 'p, q', 'p and 1 more')
    """
    if not instances:
        return "nobody heard of"
    more = len(instances) - most
    return ", ".join(instances[:most]) + (f" and {more} more" if more > 0 else "")


def will_end(key: ClaimKey, shared: FoldedSharedClaim, *, named: bool) -> str:
    """Before positions are set: what becomes of the ranges of a claim, which is named or beside."""
    claim = f"{key.topic}:{key.topic_partition}"
    if shared.ranges is None:
        return f"{claim} is shared, or was: its ranges are unknown, and end."
    how = "setting its position" if named else "ending the pause, which claims it,"
    words = f"{claim} is shared by {names(shared.instances)}: {how} ends their ranges."
    if shared.held:
        words += f" What they have in hand of {_offsets(shared.held)} they may still process."
    if not named and shared.skipped:
        words += f" At most once, nobody gets {_offsets(shared.skipped)} that nobody holds."
    return words


def have_ended(key: ClaimKey, shared: FoldedSharedClaim) -> str:
    """After a pause was ended: what became of the ranges of a claim."""
    claim = f"{key.topic}:{key.topic_partition}"
    if shared.ranges is None:
        return f"{claim} was shared, or had been: its ranges have ended"
    words = f"{claim} was shared by {names(shared.instances)}: their ranges have ended"
    if shared.skipped:
        words += f"; at most once, nobody gets {_offsets(shared.skipped)} that nobody held"
    return f"{words}; ranges begin anew at position {shared.claim.position:,}"


def lines_of(row: ListedClaim, now_ms: int) -> Iterator[Text]:
    """A shared claim, below the table."""
    ranges = row.ranges
    assert ranges is not None
    name = f"{row.topic}:{row.topic_partition}"
    if ranges.knowledge == "unknown":
        yield Text.assemble(
            (name, "bold"),
            " is shared, or was: its ranges are unknown, since the log's head was not read and no "
            "checkpoint since counts",
        )
        return
    yield Text.assemble((name, "bold"), f": {_headline(ranges)}")
    letters = _letters(ranges)
    yield from _map(row, ranges, letters)
    for one in ranges.holders:
        yield _holder(one, ranges, letters, now_ms)
    if ranges.pool:
        offsets = sum(one.end - one.start for one in ranges.pool)
        spans = _spans([(one.start, one.end) for one in ranges.pool])
        yield Text(
            f"  {POOL} pool: {_offsets(offsets)} for whoever asks next, lowest first: {spans}",
            "yellow",
        )


def _headline(ranges: ListedRanges) -> str:
    if ranges.window == 0:
        words = "at most once, window 0"
    else:
        words = f"at least once, window {ranges.window:,}"
    words += f", frontier {ranges.frontier:,}"
    if ranges.reserved:
        words += f", {ranges.reserved:,} reserved and not granted"
    if ranges.undone is not None:
        words += f"; not done: {ranges.undone:,} {'message' if ranges.undone == 1 else 'messages'}"
    if ranges.ahead:
        words += f"; granted beyond the data's end: {ranges.ahead:,}"
    if ranges.asleep:
        words += "; asleep: nothing is granted until a consumer claims it for all"
    return words


def _holder(one: ListedHolder, ranges: ListedRanges, letters: dict[str, str], now_ms: int) -> Text:
    client = f" ({one.client})" if one.client not in (None, one.instance) else ""
    heard = duration_text(max(0, now_ms - one.heard_ms))
    letter = letters.get(one.instance, OTHERS) if one.ranges else " "
    line = Text.assemble("  ", (letter, _style(letter)), f" {one.instance}{client}: ")
    if one.ranges:
        mine = [(each.start, each.end) for each in ranges.open if each.instance == one.instance]
        line.append(f"{_offsets(one.messages)}: {_spans(mine)}; ")
    else:
        line.append("holds nothing; ")
    if not one.silent:
        return line.append(f"heard {heard} ago")
    line.append(f"silent since {at(one.heard_ms)} UTC", "bold red")
    if one.to_pool:
        line.append(f"; {_goes(one, ranges)}")
    if one.to_forget:
        line.append(f"; below the position, nobody else gets: {_offsets(one.to_forget)}")
    return line


def _goes(one: ListedHolder, ranges: ListedRanges) -> str:
    if ranges.asleep:
        return "keeps them while ranges sleep"
    return f"whoever asks next gets: {_offsets(one.to_pool)}"


def _letters(ranges: ListedRanges) -> dict[str, str]:
    """A letter for each holder; of very many holders only the first ones have one."""
    holding = sorted({one.instance for one in ranges.open})
    return dict(zip(holding, _LETTERS, strict=False))


def _style(letter: str) -> str:
    if letter.upper() in _LETTERS:
        return _HOLDER_STYLES[_LETTERS.index(letter.upper()) % len(_HOLDER_STYLES)]
    return _STYLES.get(letter, "")


def _map(row: ListedClaim, ranges: ListedRanges, letters: dict[str, str]) -> Iterator[Text]:
    """One line, and what its characters mean."""
    cells, first, each = partition_map(row, ranges, letters)
    if not cells:
        return
    line = Text("  ")
    for cell in cells:
        line.append(cell, _style(cell))
    yield line
    scale = f"from {first:,} on, {_offsets(each)} a character"
    if row.end is not None:
        scale += f", the data end at {row.end:,}"
    done = "done or forgotten" if ranges.window == 0 else "done"
    meanings = {
        DONE: done,
        RESERVED: "reserved",
        NOBODYS: "nobody's yet",
        OTHERS: "other holders",
        POOL_AHEAD: "pool beyond the data's end",
    }
    shown = [f"{cell} {meaning}" for cell, meaning in meanings.items() if cell in cells]
    if any(cell.islower() and cell != RESERVED for cell in cells):
        shown.append("small letters: beyond the data's end")
    yield Text(f"  {'; '.join([scale, *shown])}", "dim")


def partition_map(
    row: ListedClaim, ranges: ListedRanges, letters: dict[str, str], width: int = _WIDTH
) -> tuple[str, int, int]:
    """The characters, the first offset, and how many offsets each character stands for.

    It begins a little below the lowest offset that is not done. It ends behind the frontier, what
    is reserved and the end of the data; a long backlog is cut off.
    """
    assert ranges.frontier is not None
    pieces = [(one.start, one.end, letters.get(one.instance, OTHERS)) for one in ranges.open]
    pieces += [(one.start, one.end, POOL) for one in ranges.pool]
    low = min([ranges.frontier, *(start for start, _, _ in pieces)])
    head = max(ranges.frontier, row.position if ranges.window == 0 else low)
    span = max(1, head - low)
    end = head if row.end is None else min(max(head, row.end), head + span)
    first = max(0, low - max(1, (end - low) // 8))
    each = max(1, -(-(end - first) // width))
    reserved = row.position if ranges.window == 0 else ranges.frontier
    pieces.append((ranges.frontier, reserved, RESERVED))
    pieces.append((max(ranges.frontier, reserved), end, NOBODYS))
    cells = "".join(
        _cell(start, min(start + each, end), pieces, row.end) for start in range(first, end, each)
    )
    return cells, first, each


def _cell(start: int, end: int, pieces: list[tuple[int, int, str]], data_end: int | None) -> str:
    """What most of these offsets are. What is in no piece is done."""
    sizes: dict[str, int] = {}
    for from_, to, kind in pieces:
        common = min(to, end) - max(from_, start)
        if common > 0:
            sizes[kind] = sizes.get(kind, 0) + common
    sizes[DONE] = end - start - sum(sizes.values())
    kind = max(sizes, key=sizes.__getitem__)
    beyond = data_end is not None and start >= data_end
    if beyond and kind == POOL:
        return POOL_AHEAD
    return kind.lower() if beyond else kind


def _offsets(count: int) -> str:
    return f"{count:,} offset" + ("" if count == 1 else "s")


def _spans(pieces: list[tuple[int, int]], most: int = 4) -> str:
    """Each as its first and last offset; of very many the first ones."""
    shown = ", ".join(
        f"{start:,}" if end - start == 1 else f"{start:,} to {end - 1:,}"
        for start, end in sorted(pieces)[:most]
    )
    more = len(pieces) - most
    return shown if more <= 0 else f"{shown} and {more} more"

"""Prints what was proved: a row for each property or case."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen


@frozen
class Row:
    """A property, or a case."""

    name: str
    paths: int
    asked: int | None = None
    """How many questions to the solver."""
    seconds: float | None = None


def story(title: str, lines: Iterable[tuple[str, str]]) -> str:
    """A step that breaks something: a line for each thing that was, came, or became of it."""
    return f"{title}\n" + "\n".join(f"  {name:8} {line}" for name, line in lines)


def show(title: str, rows: Iterable[Row], solver: str) -> None:
    """Print a table."""
    print(f"\n{title:36} {'paths':>7} {'questions':>10} {'seconds':>8}  solver")
    for row in rows:
        asked = "" if row.asked is None else f"{row.asked:,}"
        seconds = "" if row.seconds is None else f"{row.seconds:.1f}"
        print(f"{row.name:36} {row.paths:7,} {asked:>10} {seconds:>8}  {solver}")

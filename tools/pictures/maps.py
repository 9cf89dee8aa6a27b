"""Two maps: how the parts hang together, and which package imports which.

The rooms of the first are paths that must exist. The second is drawn from import-linter's layers in
`pyproject.toml` and from the imports in the source.
"""

from __future__ import annotations

import ast
import functools
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import wrap
from typing import Final

from attrs import frozen
from tools.pictures.svg import box, line, svg, text

ROOT: Final = Path(__file__).parent.parent.parent
PACKAGE: Final = ROOT / "marshal" / "kafka_marshal"


@frozen
class Part:
    """A part of the overview: where its middle is, in pixels, and where it lives in the tree."""

    x: int
    y: int
    width: int
    note: str
    paths: tuple[str, ...]

    def drawn(self, name: str) -> list[str]:
        """Return the box with its words.

        Raises:
            FileNotFoundError: a path of it is gone.
        """
        for path in self.paths:
            if not (ROOT / path).exists():
                raise FileNotFoundError(f"{path}, of {name} in tools/pictures/maps.py")
        named = "  ".join(path.removeprefix("marshal/kafka_marshal/") for path in self.paths)
        return [
            box(self.x, self.y, self.width, 92),
            text("room", self.x, self.y - 16, name),
            text("note", self.x, self.y + 5, self.note),
            text("code", self.x, self.y + 29, named),
        ]


def _room(*names: str) -> tuple[str, ...]:
    return tuple(f"marshal/kafka_marshal/{name}" for name in names)


PARTS: Final[Mapping[str, Part]] = {
    "specification": Part(480, 66, 260, "the protocol in TLA+, explored by TLC", ("spec",)),
    "reducer": Part(480, 290, 260, "a claim, a record: the next claim", _room("core", "machines")),
    "client": Part(140, 290, 240, "consumers, administrators", _room("client", "admin")),
    "replay": Part(820, 290, 240, "last night, or now", _room("replay", "kernel")),
}


def overview() -> str:
    """Return how log, reducer, specification, client and replay hang together."""
    shapes = [shape for name, part in PARTS.items() for shape in part.drawn(name)]
    shapes += [
        line("M480 118 V240", "line both"),
        text("message left", 492, 174, "every transition that TLC explores:"),
        text("message left", 492, 192, "the same claim, field for field"),
        line("M264 290 H346"),
        text("note", 304, 281, "decides by"),
        line("M696 290 H614"),
        text("note", 652, 281, "folds with"),
        line("M140 240 C140 120 230 66 346 66"),
        text("message right", 176, 112, "recorded runs:"),
        text("message right", 156, 130, "validate"),
        line("M820 240 V140"),
        text("message", 820, 108, "who owned what,"),
        text("message", 820, 126, "findings, report.html"),
        line("M60 340 V446"),
        text("note left", 70, 390, "claims, heartbeats,"),
        text("note left", 70, 406, "grants, releases"),
        line("M216 446 V340"),
        text("note left", 226, 398, "every record, in order"),
        line("M480 446 V340"),
        text("note left", 490, 398, "the same fold for every reader"),
        line("M820 446 V340"),
        text("note left", 830, 398, "a dump, or live"),
        box(480, 486, 920, 76),
        text("room left", 40, 493, "the log"),
        text("code left", 40, 512, "__marshal"),
    ]
    messages = (
        "Claiming",
        "Heartbeat",
        "Heartbeat",
        "Claiming",
        "Release",
        "Heartbeat",
        "Claiming",
    )
    for offset, name in enumerate(messages):
        x = 195 + offset * 114
        shapes += [
            box(x, 486, 106, 44, "record"),
            text("message", x, 482, name),
            text("note", x, 499, f"offset {offset}"),
        ]
    return svg(960, 540, "One log, one reducer, and what reads and writes", shapes)


def layers() -> list[list[str]]:
    """Return the layers that import-linter checks, the highest first: names below the package."""
    text_ = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    contracts = tomllib.loads(text_)["tool"]["importlinter"]["contracts"]
    [ordered] = [each["layers"] for each in contracts if each["name"] == "Imports go one way"]
    return [
        [name.strip().removeprefix("kafka_marshal.") for name in layer.split("|")]
        for layer in ordered
    ]


@functools.cache
def imports() -> dict[str, tuple[set[str], set[str]]]:
    """Return what each room of the layers imports: other rooms, and packages of others."""
    rooms = {room for layer in layers() for room in layer}
    found: dict[str, tuple[set[str], set[str]]] = {room: (set(), set()) for room in rooms}
    for path in PACKAGE.rglob("*.py"):
        room = path.relative_to(PACKAGE).with_suffix("").parts[0]
        if room not in rooms:
            continue
        ours, others = found[room]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for name in _imported(node):
                top, *rest = name.split(".")
                if top == "kafka_marshal":
                    # `from kafka_marshal import X` is of the core, whatever X is.
                    target = rest[0] if rest and rest[0] in rooms else "core"
                    ours |= {target} - {room}
                elif top not in sys.stdlib_module_names:
                    others.add(top)
    return found


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module:
        if node.module == "kafka_marshal":
            return [f"kafka_marshal.{alias.name}" for alias in node.names]
        return [node.module]
    return []


CELL: Final = 26
LEFT: Final = 150
TOP: Final = 130
EVERYWHERE: Final = {"attrs"}
"""What every room may import."""


def packages() -> str:
    """Return the map of packages: a row and a column for each, and a mark for each import."""
    known, ordered = imports(), layers()
    names = [room for layer in ordered for room in layer]
    side = CELL * len(names)
    shapes = list(_bands(ordered, side))
    for row, room in enumerate(names):
        x, y = LEFT + CELL * row, TOP + CELL * row
        shapes += [
            text("right", LEFT - 10, y + 18, room),
            f'<text transform="translate({x + 18} {TOP - 10}) rotate(-60)">{room}</text>',
            f'<rect class="diagonal" x="{x}" y="{y}" width="{CELL}" height="{CELL}"/>',
        ]
        ours, others = known[room]
        for column, other in enumerate(names):
            if other in ours:
                middle = f'cx="{LEFT + CELL * (column + 0.5):g}" cy="{y + CELL / 2:g}"'
                shapes.append(f'<circle class="mark" {middle} r="6"/>')
        lines = wrap(", ".join(sorted(others - EVERYWHERE)), 52)
        for number, words in enumerate(lines):
            baseline = y + 18 + (number - (len(lines) - 1) / 2) * 13
            shapes.append(text("note left", LEFT + side + 12, baseline, words))
    below = TOP + side + 30
    shapes += [
        text("left", LEFT, below, "A mark: the room of its row imports the room of its column."),
        text("left", LEFT, below + 22, "All marks lie right of the diagonal: imports go one way."),
        text(
            "note left",
            LEFT + side + 12,
            TOP - 10,
            "imports besides the standard library and attrs",
        ),
    ]
    return svg(1210, below + 40, "The packages, and which imports which", shapes)


def _bands(ordered: list[list[str]], side: int) -> Iterator[str]:
    """Yield a band for each layer, whose rooms do not import each other."""
    done = 0
    for layer in ordered:
        at, size = CELL * done, CELL * len(layer)
        yield f'<rect class="band" x="{LEFT}" y="{TOP + at}" width="{side}" height="{size}"/>'
        yield (
            f'<rect class="box square" x="{LEFT + at}" y="{TOP + at}" '
            f'width="{size}" height="{size}"/>'
        )
        done += len(layer)

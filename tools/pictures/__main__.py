"""The pictures of the documentation, drawn from what TLC explored: `make docs`.

A picture is SVG without fonts or scripts of its own, for light and dark. This module lays out by
hand where the states of a claim stand. What leads where, and under which verdict, it reads from the
kept transitions of the specification. A transition without a line is an error, so the picture
cannot fall behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from attrs import frozen
from tests.triples import Triple, read
from tools.pictures.group import joins_and_failover
from tools.pictures.maps import overview, packages
from tools.pictures.sequence import at_most_once
from tools.pictures.svg import box, line, svg, text

from kafka_marshal import Accepted, Claim
from kafka_marshal.core.state import RuleSet
from kafka_marshal.counterexample import Counterexample
from kafka_marshal.counterexample import diagram as diagram_module
from kafka_marshal.counterexample.diagram import diagram
from kafka_marshal.modelcheck.models import find, spec_folder
from kafka_marshal.modelcheck.models import read as models
from kafka_marshal.modelcheck.stories.counterexamples import of_trace
from kafka_marshal.modelcheck.traces import stored

FOLDER: Final = Path(__file__).parent.parent.parent / "docs" / "pictures"
Edge = tuple[str, str]


@frozen
class Box:
    """A state of a claim: where it stands, in pixels, and what it means."""

    x: int
    y: int
    note: str

    def drawn(self, name: str) -> str:
        """The box with its name."""
        return (
            box(self.x, self.y, 210, 76)
            + text("state", self.x, self.y - 2, name)
            + text("note", self.x, self.y + 20, self.note)
        )


@frozen
class Line:
    """Where an arrow runs, and where its words begin."""

    path: str
    x: int
    y: int


BOXES: Final[Mapping[str, Box]] = {
    "free": Box(150, 190, "nobody owns it"),
    "owned": Box(790, 190, "one instance, under one epoch"),
    "paused": Box(470, 470, "only the pauser can claim it"),
}
LINES: Final[dict[Edge, Line]] = {
    ("free", "owned"): Line("M255 172 H685", 470, 144),
    ("owned", "free"): Line("M685 208 H255", 470, 232),
    ("free", "paused"): Line("M150 228 C150 330 260 440 365 462", 150, 392),
    ("paused", "free"): Line("M400 432 C330 380 240 290 200 228", 385, 346),
    ("owned", "paused"): Line("M790 228 C790 330 680 440 575 462", 800, 392),
    ("paused", "owned"): Line("M540 432 C610 380 700 290 740 228", 555, 346),
    ("owned", "owned"): Line("M750 152 C710 70 870 70 830 152", 790, -44),
    ("free", "free"): Line("M110 152 C70 70 230 70 190 152", 150, 56),
    ("paused", "paused"): Line("M430 508 C390 590 550 590 510 508", 470, 590),
}


def state(claim: Claim) -> str:
    """The box in which a claim is."""
    return "owned" if claim.owned else "paused" if claim.paused else "free"


def edges(triples: Iterable[Triple]) -> dict[Edge, dict[str, set[str]]]:
    """What leads from state to state: the messages, and their verdicts."""
    found: dict[Edge, dict[str, set[str]]] = {}
    for each in triples:
        if each.rules.rule_set is not RuleSet.FENCED or not isinstance(each.verdict, Accepted):
            continue
        messages = found.setdefault((state(each.before), state(each.after)), {})
        name = type(each.record.message).__name__
        messages.setdefault(name, set()).add(each.verdict.value)
    return found


def claim_picture(triples: Iterable[Triple]) -> str:
    """The state machine of a claim under the fenced rules."""
    shapes = [box.drawn(name) for name, box in BOXES.items()]
    for edge, messages in sorted(edges(triples).items()):
        shapes.append(line(LINES[edge].path))
        shapes.extend(_words(LINES[edge], messages))
    return svg(960, 660, "The states of a claim, and what leads from one to another", shapes, -70)


def _words(at: Line, messages: Mapping[str, set[str]]) -> Iterator[str]:
    y = at.y
    for name, verdicts in sorted(messages.items()):
        yield text("message", at.x, y, name)
        for verdict in sorted(verdicts):
            y += 15
            yield text("message verdict", at.x, y, verdict)
        y += 18


def story_picture(name: str) -> str:
    """A kept counterexample as a sequence diagram, with the styles of its page."""
    folder = spec_folder()
    model = find(name, models(folder))
    trace = stored(folder, model)
    assert trace is not None, name
    return _sequence(of_trace(trace, model.violates, model.name))


def script_picture(story: Counterexample) -> str:
    """Who writes what when; nothing is wrong in it."""
    first = story.wrong.split()[0]
    drawn = _sequence(story).replace('<text class="end"', '<text class="note"')
    return drawn.replace(f"✗ {first}", first)


def _sequence(counterexample: Counterexample) -> str:
    drawn = diagram(counterexample)
    assert drawn is not None, counterexample.source
    room = Path(diagram_module.__file__).parent
    styles = "".join(
        path.read_text(encoding="utf-8") for path in (room.parent / "base.css", room / "style.css")
    )
    style = f"<style>{styles}svg {{ background: var(--paper); font: 14px var(--sans); }}</style>"
    return (
        str(drawn)
        .replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
        .replace(">", f">{style}", 1)
        + "\n"
    )


def pictures() -> dict[str, str]:
    """Every picture, by the name of its file."""
    return {
        "overview.svg": overview(),
        "packages.svg": packages(),
        "claim.svg": claim_picture(read()),
        "late-heartbeat.svg": story_picture("MCOriginal_a_LateHeartbeat"),
        "at-most-once.svg": script_picture(at_most_once()),
        "group.svg": script_picture(joins_and_failover()),
    }


def main() -> None:
    """Write those that have changed."""
    FOLDER.mkdir(exist_ok=True)
    for name, picture in pictures().items():
        path = FOLDER / name
        if not path.exists() or path.read_text(encoding="utf-8") != picture:
            path.write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()

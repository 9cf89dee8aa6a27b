"""The sequence diagram: one lifeline per participant, time downwards, one row per step.

A record's arrow starts in the row in which it was sent and ends in the row in which it landed, so
delays are visible. Arrows are between the lifelines, and words beside them: the description of a
step on the left of all lifelines, its record's outcome on the right. So no arrow crosses a word.
All measures here are in pixels; the colours are in `style.css`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from html import unescape
from typing import Final
from unicodedata import east_asian_width

import attrs

from kafka_marshal.counterexample.model import LOG, Counterexample, Participant, Step, StepKind
from kafka_marshal.counterexample.story import timed, wrong
from kafka_marshal.markup import Html, el, escape, join, name

COLUMN: Final = 176
ROW: Final = 32
TIMES_AT: Final = 38
"""The position of the times, right of the numbers; the words follow."""
LOST_AFTER: Final = 0.3 * COLUMN
"""The length of a lost record's arrow."""
LOOP: Final = 44
"""The space for the line back to the beginning of a loop, on the far right."""
HEAD: Final = 64
"""Height of the names above the first row."""
HEAD_HALF: Final = 62
"""Half the width of a name's box."""
HUES: Final = 8
LABEL_MAX: Final = 38
TIME_MAX: Final = 23
NAME_MAX: Final = 14
MARK: Final = 5
"""Half the size of a mark on a lifeline."""
BOX: Final = 15
"""Half the width of a record in the log, unless its offset is long."""
DIGIT: Final = 6.5
"""Width of a digit in a time or an offset."""
LETTER: Final = 7.2
"""Width of an average letter in words, in a wide font."""


def diagram(counterexample: Counterexample) -> Html | None:
    """The drawing; None without participants."""
    return _Diagram(counterexample).drawn() if counterexample.participants else None


@attrs.frozen
class _Point:
    x: float
    y: float


class _Diagram:
    def __init__(self, counterexample: Counterexample) -> None:
        self._counterexample = counterexample
        self._columns = _in_columns(counterexample.participants)
        self._rows = [step for step in counterexample.steps if step.sentence]
        self._instances = [who.name for who in self._columns if who.name != LOG]
        self._sent = {step.number for step in self._rows if step.kind is StepKind.SENT}
        offsets = [len(str(step.offset)) for step in self._rows if step.offset is not None]
        self._box = max(BOX, 7 + DIGIT * max(offsets, default=0) / 2)
        times = [_cut(step.time, TIME_MAX) for step in self._rows if step.time]
        self._words_x = TIMES_AT + DIGIT * _longest(times) + (12 if times else 0)
        words_end = self._words_x + LETTER * _longest(map(self._words, self._rows))
        self._left = max(words_end + self._box + 14, HEAD_HALF + 2)
        self._x = {who.name: self._left + n * COLUMN for n, who in enumerate(self._columns)}
        last = self._left + COLUMN * (len(self._columns) - 1)
        self._verdict_x = last + max(self._box, LOST_AFTER) + 14
        self._right = max(
            self._verdict_x + LETTER * _longest(map(_verdict, self._rows)), last + HEAD_HALF
        )
        self._y = self._heights()
        self._bottom = HEAD + ROW * (len(self._rows) + 1)
        self._hues = _hues(counterexample.participants)
        self._arrived = {step.since for step in counterexample.steps}

    def drawn(self) -> Html:
        width = round(self._right + LOOP)
        height = self._bottom + 46
        return el(
            "svg",
            {
                "class": "diagram",
                "role": "group",
                "aria-label": "Sequence diagram",
                "width": width,
                "height": height,
                "viewBox": f"0 0 {width} {height}",
            },
            join(self._bands(width)),
            join(self._lifelines()),
            join(self._heads()),
            # Words are drawn over arrows, in any order of steps.
            join(self._arrows(step) for step in self._rows),
            join(self._row(step, width) for step in self._rows),
            self._loop(width),
            self._end(),
        )

    def _heights(self) -> Mapping[int, float]:
        """The position of each step; one without a row of its own has that of the next one."""
        heights: dict[int, float] = {}
        row = len(self._rows)
        for step in reversed(self._counterexample.steps):
            if step.sentence:
                row -= 1
            heights[step.number] = HEAD + ROW * (max(row, 0) + 0.75)
        return heights

    def _bands(self, width: float) -> Iterator[Html]:
        at = self._counterexample.violated_at
        if at is not None:
            yield el("rect", {"class": "band wrong", **_of_row(self._y[at], width)})

    def _lifelines(self) -> Iterator[Html]:
        for who in self._columns:
            x, top, style = self._x[who.name], float(HEAD - 14), "life"
            ended = False
            for step in self._rows:
                if step.who != who.name or step.kind not in _LIFE:
                    continue
                y = self._y[step.number]
                if step.kind is not StepKind.STARTED and not ended:
                    yield self._life(who, style, x, top, y)
                ended = step.kind is StepKind.CRASHED
                style = "life stalled" if step.kind is StepKind.STALLED else "life"
                top = y
            if not ended:
                yield self._life(who, style, x, top, self._bottom)

    def _life(self, who: Participant, style: str, x: float, top: float, end: float) -> Html:
        return _line(f"{style} {self._hue(who.name)}", _Point(x, top), _Point(x, end))

    def _heads(self) -> Iterator[Html]:
        for who in self._columns:
            x, half = self._x[who.name], HEAD_HALF
            box = {"x": x - half, "y": 6, "width": 2 * half, "height": HEAD - 20, "rx": 5}
            yield el(
                "g",
                {"class": f"head {self._hue(who.name)}"},
                el("title", None, f"{name(who.name)} {who.about}".strip()),
                el("rect", box),
                _text("name", _Point(x, 25 if who.about else 32), _id(who.name)),
                _text("about", _Point(x, 41), _cut(who.about, NAME_MAX)) if who.about else None,
            )

    def _arrows(self, step: Step) -> Html | None:
        arrows = list(self._arrows_of(step, self._y[step.number]))
        if not arrows:
            return None
        return el(
            "g", {"class": self._classes(step, "way"), "data-step": step.number}, join(arrows)
        )

    def _arrows_of(self, step: Step, y: float) -> Iterator[Html]:
        if step.kind is StepKind.SENT:
            if step.number not in self._arrived and step.who is not None:
                x = self._x[step.who]
                end = _Point(x + self._towards_log(step.who) * LOST_AFTER, y + 11)
                yield _line("open", _Point(x, y), end)
        elif step.source is None:
            return
        elif step.target is None:
            end = self._lost_at(step.source, y)
            yield _line("open", self._start(step, step.source), end)
        elif step.kind is StepKind.APPENDED:
            start = self._start(step, step.source)
            sign = math.copysign(1, self._x[step.target] - start.x)
            is_late = any(start.y < self._y[other.number] < y for other in self._rows)
            end = _Point(self._x[step.target] - sign * (self._box + 1), y)
            yield _arrow("late" if is_late else "", start, end)
        else:
            sign = math.copysign(1, self._x[step.target] - self._x[step.source])
            start = _Point(self._x[step.source] + sign * MARK, y)
            yield _arrow("reads", start, _Point(self._x[step.target] - sign * 2, y))

    def _start(self, step: Step, source: str) -> _Point:
        """The start of an arrow: after that step, if its sending is not a separate step."""
        if step.since is None:
            return _Point(self._x[source], self._y[step.number])
        after = 0 if step.since in self._sent else ROW / 2
        return _Point(self._x[source], self._y[step.since] + after)

    def _lost_at(self, source: str, y: float) -> _Point:
        return _Point(self._x[source] + self._towards_log(source) * LOST_AFTER, y)

    def _towards_log(self, who: str) -> int:
        return -1 if self._x[who] > self._x.get(LOG, math.inf) else 1

    def _classes(self, step: Step, layer: str) -> str:
        is_wrong = step.number == self._counterexample.violated_at
        words = [layer, step.kind.value, self._hue(step.who)]
        words += [word for word, so in (("wrong", is_wrong), ("refused", step.refused)) if so]
        return " ".join(filter(None, words))

    def _row(self, step: Step, width: float) -> Html:
        y = self._y[step.number]
        return el(
            "a",
            {
                "href": f"#step-{step.number}",
                "id": f"at-{step.number}",
                "class": self._classes(step, "row"),
                "data-step": step.number,
            },
            el("title", None, f"{step.number}  {timed(step)}"),
            el("rect", {"class": "hit", **_of_row(y, width)}),
            _text("number", _Point(26, y + 4), str(step.number)),
            self._clock(step, y),
            _text("label", _Point(self._words_x, y + 4), self._words(step), "start"),
            _text("verdict", _Point(self._verdict_x, y + 4), _verdict(step), "start")
            if _verdict(step)
            else None,
            join(self._marks(step, y)),
        )

    def _clock(self, step: Step, y: float) -> Html | None:
        """The time, if it differs from the row above."""
        above = self._rows[max(0, self._rows.index(step) - 1)]
        if step.time is None or (above is not step and above.time == step.time):
            return None
        return _text("clock", _Point(TIMES_AT, y + 4), _cut(step.time, TIME_MAX))

    def _words(self, step: Step) -> str:
        """The description of the step, in a few words after the name of its instance."""
        words = _cut(step.label or (step.sentence if step.who is None else step.action))
        if step.kind is StepKind.APPENDED and step.since in self._sent:
            words += " lands"
        return f"{_id(step.who)}: {words}" if step.who in self._instances else words

    def _marks(self, step: Step, y: float) -> Iterator[Html]:
        if step.kind is StepKind.APPENDED and step.source is not None and step.target is not None:
            yield from self._arrival(step, step.source, step.target, y)
        elif step.kind is StepKind.LOST and step.source is not None:
            yield _cross(self._lost_at(step.source, y))
        elif step.source is not None and step.target is not None and step.kind is not StepKind.SENT:
            return
        elif step.who is None:
            # A step without a participant, such as time.
            left, right = min(self._x.values()), max(self._x.values())
            yield _line("across", _Point(left, y), _Point(right, y))
        else:
            yield _MARKS.get(step.kind, _square)(_Point(self._x[step.who], y))

    def _arrival(self, step: Step, source: str, target: str, y: float) -> Iterator[Html]:
        if step.since not in self._sent:
            # Its sending is not a step of its own, so it is drawn here.
            yield _disc(self._start(step, source))
        x = self._x[target]
        corner = {"x": x - self._box, "y": y - 9, "rx": 3}
        size = {"width": 2 * self._box, "height": 18}
        yield el("rect", {"class": "record", **corner, **size})
        if step.offset is not None:
            yield _text("offset", _Point(x, y + 4), str(step.offset))

    def _loop(self, width: float) -> Html | None:
        back_to, last = self._counterexample.loop_back_to, self._counterexample.steps[-1].number
        if back_to is None or back_to == last:
            return None
        x, top, end = width - 18, self._y[back_to + 1], self._y[last]
        path = f"M {x - 12} {end} H {x} V {top} H {x - 8}"
        return el(
            "g",
            {"class": "loop"},
            el("title", None, f"steps {back_to + 1} to {last} again, for ever"),
            el("path", {"d": path}),
            _head(_Point(x - 12, top), math.pi),
        )

    def _end(self) -> Html:
        counterexample = self._counterexample
        back_to, last = counterexample.loop_back_to, counterexample.steps[-1].number
        at = counterexample.violated_at
        words = wrong(counterexample)
        if back_to == last:
            words = f"Nothing happens any more. {words}"
        elif back_to is not None:
            words = f"Steps {back_to + 1} to {last} again, for ever. {words}"
        elif at is not None and at != last:
            words = f"Step {at}: {words}"
        return _text("end", _Point(10, self._bottom + 28), f"✗ {words}", "start")

    def _hue(self, who: str | None) -> str:
        return self._hues.get(who or "", "")


_LIFE = (StepKind.CRASHED, StepKind.STARTED, StepKind.STALLED, StepKind.RESUMED)


def _in_columns(participants: tuple[Participant, ...]) -> list[Participant]:
    """The log is in the middle, so that few arrows cross a lifeline."""
    others = [who for who in participants if who.name != LOG]
    logs = [who for who in participants if who.name == LOG]
    middle = (len(others) + 1) // 2
    return [*others[:middle], *logs, *others[middle:]]


def _hues(participants: tuple[Participant, ...]) -> dict[str, str]:
    """A hue for each client, or for each instance whose client is unknown."""
    clients = list(dict.fromkeys(w.about or w.name for w in participants if w.name != LOG))
    hues = {client: f"h{n % HUES}" for n, client in enumerate(clients)}
    return {who.name: hues.get(who.about or who.name, "log") for who in participants}


def _verdict(step: Step) -> str:
    """The outcome of the step's record."""
    if step.kind is not StepKind.APPENDED or step.verdict is None:
        return ""
    return f"✗ {step.verdict}" if step.refused else step.verdict


def _longest(texts: Iterable[str]) -> int:
    """The width in letters of the longest text with escapes; a Chinese letter counts twice."""
    shown = (unescape(escape(text)) for text in texts)
    letters = (sum(2 if east_asian_width(c) in "WF" else 1 for c in text) for text in shown)
    return max(letters, default=0)


def _id(text: str) -> str:
    """An id in a head: beginning and end, since ids made by one program often share one of them."""
    shown = name(text)
    return shown if len(shown) <= NAME_MAX else f"{shown[:8]}…{shown[-4:]}"


def _cut(words: str, characters_max: int = LABEL_MAX) -> str:
    """The beginning of a text: the rest is in the story."""
    return words if len(words) <= characters_max else words[: characters_max - 1].rstrip() + "…"


def _of_row(y: float, width: float) -> dict[str, float]:
    return {"x": 0, "y": y - ROW / 2, "width": width, "height": ROW}


def _text(kind: str, at: _Point, words: str, anchor: str | None = None) -> Html:
    return el("text", {"class": kind, "x": at.x, "y": at.y, "text-anchor": anchor}, words)


def _line(kind: str, start: _Point, end: _Point) -> Html:
    ends = {"x1": start.x, "y1": start.y, "x2": round(end.x, 1), "y2": end.y}
    return el("line", {"class": kind, **ends})


def _arrow(kind: str, start: _Point, end: _Point) -> Html:
    angle = math.atan2(end.y - start.y, end.x - start.x)
    shaft_end = _Point(end.x - 6 * math.cos(angle), round(end.y - 6 * math.sin(angle), 1))
    return el("g", {"class": f"arrow {kind}"}, _line("", start, shaft_end), _head(end, angle))


def _head(at: _Point, angle: float) -> Html:
    turned = f"translate({at.x:.1f} {at.y:.1f}) rotate({math.degrees(angle):.1f})"
    return el("path", {"class": "tip", "d": "M 0 0 L -9 -4 L -9 4 Z", "transform": turned})


def _disc(at: _Point) -> Html:
    return el("circle", {"class": "mark", "cx": at.x, "cy": at.y, "r": 4})


def _square(at: _Point) -> Html:
    corner = {"x": at.x - MARK, "y": at.y - MARK}
    return el("rect", {"class": "mark", **corner, "width": 2 * MARK, "height": 2 * MARK})


def _diamond(at: _Point) -> Html:
    return _shape(at, "M 0 -7 L 7 0 L 0 7 L -7 0 Z")


def _cross(at: _Point) -> Html:
    return _shape(at, "M -5 -5 L 5 5 M -5 5 L 5 -5")


def _bars(at: _Point) -> Html:
    return _shape(at, "M -6 -6 H -2 V 6 H -6 Z M 2 -6 H 6 V 6 H 2 Z")


def _triangle(at: _Point) -> Html:
    return _shape(at, "M -5 -6 L 7 0 L -5 6 Z")


def _shape(at: _Point, path: str) -> Html:
    return el("path", {"class": "mark", "d": path, "transform": f"translate({at.x} {at.y})"})


_MARKS = {
    StepKind.SENT: _disc,
    StepKind.PROCESSED: _diamond,
    StepKind.CRASHED: _cross,
    StepKind.STALLED: _bars,
    StepKind.STARTED: _triangle,
    StepKind.RESUMED: _triangle,
}

"""Parses TLC's output in tool mode into the result of a run.

It knows TLC's message codes, but no processes: it receives lines from any source. In tool mode
every message is between two lines with its code. So nothing is guessed from English except the
numbers within a sentence and a violated property's name.
"""

import enum
import re
from collections.abc import Callable, Mapping

import attrs

from kafka_marshal.modelcheck.errors import ModelCheckError
from kafka_marshal.modelcheck.tlc.values import MalformedValueError, Value, parse, parse_conjuncts


class TlcOutcome(enum.StrEnum):
    """How a finished run ended."""

    OK = "ok"
    INVARIANT = "invariant"
    """A state, or a step (`[][A]_v`), that a property forbids."""
    PROPERTY = "property"
    """A behaviour that a property forbids: a step, an initial state, or an infinite suffix."""
    DEADLOCK = "deadlock"


@attrs.frozen
class TlcState:
    """One state of a counterexample and the action that led to it."""

    action: str
    """The action's name in the specification; empty in the first state. TLC 2.18 does not print its
    parameters."""
    variables: Mapping[str, Value]


@attrs.frozen
class Trace:
    """A counterexample: its states in order, and the continuation after the last one."""

    states: tuple[TlcState, ...]
    back_to: int | None = None
    """The index of the state that follows the last one, for ever; its own index if it stutters.
    None if the states alone are the counterexample."""


@attrs.frozen
class Progress:
    """The progress of a run."""

    depth: int
    generated: int
    distinct: int
    queued: int
    """States that were found and whose successors were not."""


@attrs.frozen
class ActionCoverage:
    """The number of times an action was taken."""

    distinct: int
    """Times that it found a new state."""
    generated: int


@attrs.frozen
class TlcResult:
    """The result of one run of TLC."""

    outcome: TlcOutcome
    violated: str | None
    """The name of the violated invariant or property; None also if TLC does not report which of
    several properties in a cfg it was."""
    trace: Trace | None
    states: int
    """Distinct states found."""
    edges: int
    """Transitions found: states generated, without the initial ones."""
    depth: int | None
    """The number of states on the longest shortest path; None if a violated liveness property ended
    the run. With more than one worker it may be higher by chance."""
    seconds: float
    coverage: Mapping[str, ActionCoverage] = attrs.field(factory=dict)
    """By action, if requested."""
    printed: tuple[Value, ...] = ()
    """The sequences that the specification printed."""


_START = re.compile(r"@!@!@STARTMSG (\d+):(\d+) @!@!@")
_END = re.compile(r"@!@!@ENDMSG (\d+) @!@!@")
_ERROR_SEVERITIES = (1, 2)

_FINISHED = 2186
_FINISHED_WELL = 2193
_VIOLATED = {
    2107: TlcOutcome.INVARIANT,  # by the initial state, which is in the message
    2108: TlcOutcome.PROPERTY,  # by the initial state
    2110: TlcOutcome.INVARIANT,
    2112: TlcOutcome.PROPERTY,  # an action property
    2114: TlcOutcome.DEADLOCK,
    2116: TlcOutcome.PROPERTY,  # TLC 2.18 does not name it
}
_TRACE_FOLLOWS = (2121, 2264)
_STATE = (2216, 2217)
_STUTTERING = 2218
_BACK_TO = 2122
_INITIAL_STATES = (2190, 2191)
_PROGRESS = (2200, 2206, 2209)
_STATISTICS = 2199
_DEPTH = 2194
_ACTION_COVERAGE = 2772


class OutputReader:
    """Pass it every line that TLC prints, then ask for the result.

    `named_properties` are those of the cfg: if TLC reports a violated property without its name,
    the only one there is used.
    """

    def __init__(
        self,
        named_properties: tuple[str, ...] = (),
        on_progress: Callable[[Progress], None] | None = None,
    ) -> None:
        """Start before the first line."""
        self._named_properties = named_properties
        self._on_progress = on_progress
        self._code: int | None = None
        self._severity = 0
        self._body: list[str] = []
        self._outside: list[str] = []
        self._errors: list[str] = []
        self._outcome: TlcOutcome | None = None
        self._violated: str | None = None
        self._states: list[TlcState] = []
        self._back_to: int | None = None
        self._initial = 0
        self._finished = False
        self._generated = 0
        self._distinct = 0
        self._depth: int | None = None
        self._coverage: dict[str, ActionCoverage] = {}

    def feed(self, line: str) -> None:
        """Read the next line, without its line end."""
        if started := _START.fullmatch(line):
            self._code, self._severity = int(started[1]), int(started[2])
            self._body = []
        elif _END.fullmatch(line) and self._code is not None:
            self._message(self._code, "\n".join(self._body))
            self._code = None
        elif self._code is None:
            self._outside.append(line)
        else:
            self._body.append(line)

    def result(self, seconds: float) -> TlcResult:
        """Return the result of the run.

        Raises ModelCheckError, in TLC's own words, if it did not finish.
        """
        if self._errors or self._outcome is None or not self._finished:
            raise ModelCheckError(self._complaint())
        trace = Trace(tuple(self._states), self._back_to) if self._states else None
        return TlcResult(
            outcome=self._outcome,
            violated=self._violated,
            trace=trace,
            # TLC prints no statistics if an initial state already violates an invariant.
            states=self._distinct or len(self._states),
            edges=max(0, self._generated - self._initial),
            depth=self._depth,
            seconds=seconds,
            coverage=self._coverage,
            printed=tuple(parse(line) for line in self._outside if line.startswith("<<")),
        )

    def _message(self, code: int, body: str) -> None:
        if code in _VIOLATED:
            self._violation(_VIOLATED[code], body)
        elif code in _STATE:
            head, _, variables = body.partition("\n")
            self._states.append(TlcState(_action(head), _variables(variables)))
        elif code == _STUTTERING:
            self._back_to = len(self._states) - 1
        elif code == _BACK_TO:
            self._back_to = int(body.strip().partition(":")[0]) - 1
        elif code == _FINISHED_WELL:
            self._outcome = self._outcome or TlcOutcome.OK
        elif code == _FINISHED:
            self._finished = True
        elif code in _INITIAL_STATES:
            self._initial = _numbers(body)[0]
        elif code == _STATISTICS:
            self._generated, self._distinct = _numbers(body)[:2]
        elif code == _DEPTH:
            self._depth = _numbers(body)[0]
        elif code in _PROGRESS:
            self._progress(body)
        elif code == _ACTION_COVERAGE:
            self._covered(body)
        elif self._severity in _ERROR_SEVERITIES and code not in _TRACE_FOLLOWS:
            self._errors.append(body.strip())

    def _violation(self, outcome: TlcOutcome, body: str) -> None:
        self._outcome = outcome
        head, _, rest = body.partition("\n")
        named = re.match(r"(?:Invariant|Action property|Property) (\w+) is violated", head)
        if named:
            self._violated = named[1]
        elif outcome is not TlcOutcome.DEADLOCK and len(self._named_properties) == 1:
            self._violated = self._named_properties[0]
        if rest.strip().startswith(("/\\", "\\/")) or " = " in rest:
            self._states.append(TlcState("", _variables(rest)))

    def _progress(self, body: str) -> None:
        depth = re.match(r"Progress\((\d+)\)", body)
        counts = re.search(
            r"([\d,]+) states generated.*?([\d,]+) distinct states found.*?([\d,]+) states left",
            body,
        )
        if self._on_progress and depth and counts:
            self._on_progress(Progress(int(depth[1]), *(map(_number, counts.groups()))))

    def _covered(self, body: str) -> None:
        found = re.fullmatch(r"<(\w+) .*>: (\d+):(\d+)", body.strip())
        if found:
            before = self._coverage.get(found[1], ActionCoverage(0, 0))
            self._coverage[found[1]] = ActionCoverage(
                before.distinct + int(found[2]), before.generated + int(found[3])
            )

    def _complaint(self) -> str:
        errors = [error for error in self._errors if error]
        # Errors of the TLA+ parser are outside all messages.
        noise = ("Parsing file ", "Semantic processing of module ", "Loading ")
        outside = [line for line in self._outside if line.strip() and not line.startswith(noise)]
        if not errors or "Parsing or semantic analysis failed." in errors:
            errors += outside
        if self._states:
            errors.append(f"It happened after {len(self._states)} states of a behaviour.")
        return "TLC did not finish: " + ("\n".join(errors) or "it printed nothing")


def properties_of(cfg: str) -> tuple[str, ...]:
    r"""Return the names under PROPERTY and PROPERTIES in the text of a cfg.

    >>> properties_of("SPECIFICATION Spec \\* all\nPROPERTIES\n  A B\nINVARIANT C")
    ('A', 'B')
    """
    text = re.sub(r"\\\*.*", "", re.sub(r"(?s)\(\*.*?\*\)", "", cfg))
    names: list[str] = []
    section = ""
    for word in text.split():
        if word in _CFG_SECTIONS:
            section = word
        elif section in ("PROPERTY", "PROPERTIES"):
            names.append(word)
    return tuple(names)


_CFG_SECTIONS = frozenset(
    """
    SPECIFICATION INIT NEXT CONSTANT CONSTANTS INVARIANT INVARIANTS PROPERTY PROPERTIES SYMMETRY
    CONSTRAINT CONSTRAINTS ACTION_CONSTRAINT ACTION_CONSTRAINTS VIEW ALIAS POSTCONDITION
    CHECK_DEADLOCK TYPE TYPE_CONSTRAINT
    """.split()  # noqa: SIM905
)


def _action(head: str) -> str:
    """Return `Up` of `2: <Up line 5, col 7 to line 5, col 40 of module T>`."""
    found = re.match(r"\d+: <(\w+) line ", head)
    return found[1] if found else ""


def _variables(text: str) -> dict[str, Value]:
    try:
        return parse_conjuncts(text)
    except MalformedValueError as error:
        raise ModelCheckError(f"a state printed by TLC could not be read: {error}") from error


def _numbers(text: str) -> list[int]:
    return [_number(found) for found in re.findall(r"\d[\d,]*", text)]


def _number(text: str) -> int:
    return int(text.replace(",", ""))

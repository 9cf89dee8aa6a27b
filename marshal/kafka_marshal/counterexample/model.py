"""The common form: the participants, and the steps that lead to a violation.

It does not know how a counterexample was found or how it is shown.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import attrs

from kafka_marshal.core.claims.verdicts import Accepted, Refused

Expression: TypeAlias = "bool | int | str | list[Expression] | dict[str, Expression]"
"""A TLA+ value as the Informal Trace Format writes it in JSON; see `itf`."""

LOG: Final = "the log"
"""The participant that every record goes to."""


def spec_name(verdict: enum.Enum) -> str:
    """The name that the specification has for a verdict.

    >>> spec_name(Refused.LIVE_OWNER)
    'LiveOwner'
    """
    return verdict.name.title().replace("_", "")


ACCEPTED: Final = frozenset(map(spec_name, Accepted))
REFUSED: Final = frozenset(map(spec_name, Refused))


class StepKind(enum.StrEnum):
    """The kind of a step, so that a drawing needs no list of actions."""

    SENT = "sent"
    """A record set out for the log."""
    APPENDED = "appended"
    """A record landed in the log, with its verdict."""
    LOST = "lost"
    """A record that was under way will not arrive. It has a `source` and no `target`."""
    READ = "read"
    """An instance folded a record."""
    PROCESSED = "processed"
    CRASHED = "crashed"
    STARTED = "started"
    STALLED = "stalled"
    RESUMED = "resumed"
    TIME = "time"
    """Nothing but time passed."""
    OTHER = "other"


@attrs.frozen
class Participant:
    """One lifeline."""

    name: str
    """An instance id, or LOG."""
    about: str = ""
    """Additional information, such as its client id; empty if there is none."""


@attrs.frozen
class Step:
    """One step, and the state after it. Step 0 is the beginning."""

    number: int
    action: str = ""
    """Name of the action, as the specification has it; empty in step 0."""
    kind: StepKind = StepKind.OTHER
    sentence: str = ""
    """Empty if there is nothing to report, as in the first of several steps of time. Ids in it must
    be escaped already; names of participants are as they are in the log."""
    who: str | None = None
    """The participant that acted, or whose record it is."""
    source: str | None = None
    """The participant at which an arrow starts; None if there is no arrow."""
    target: str | None = None
    since: int | None = None
    """The number of the step at which the arriving record was sent: the later it lands, the longer
    the arrow. None if it was just sent, or this is unknown."""
    offset: int | None = None
    """Log offset of the record that landed or was read."""
    label: str = ""
    """A few words for a drawing."""
    verdict: str | None = None
    """The specification's name of the record's verdict, or of the guard that refused it."""
    time: str | None = None
    """The time of the step, in display form; None if time is free."""
    state: Mapping[str, Expression] | None = None
    """Every variable after the step; nothing if no state is known."""

    @property
    def refused(self) -> bool:
        """A guard refused the record."""
        return self.verdict in REFUSED


def _numbered(_: object, attribute: attrs.Attribute[Any], steps: tuple[Step, ...]) -> None:
    if not steps or [step.number for step in steps] != list(range(len(steps))):
        raise ValueError(f"{attribute.name} must be numbered 0, 1, 2 and so on")


@attrs.frozen
class Counterexample:
    """A violated property, with the shortest known steps to the violation.

    Raises ValueError if a step names a participant or a step that does not exist.
    """

    violated: str | None
    """The name of the violated property, or of the guard that refused a record; None if the finder
    could not determine which of several it was."""
    source: str
    """Where it was found: a model by name, the seed of a walk, the log of a replay."""
    participants: tuple[Participant, ...]
    """In drawing order. Empty if only the model itself acts."""
    steps: tuple[Step, ...] = attrs.field(validator=_numbered)
    violated_at: int | None = None
    """The step that breaks it; nothing if no single step does, as in a loop."""
    loop_back_to: int | None = None
    """The step whose state follows the last one, for ever; the last itself if nothing happens any
    more. None if the behaviour is finite."""
    about: str = ""
    """The goal of the search, in a sentence."""
    wrong: str = ""
    """What is wrong, in a sentence, if it is more than that a property does not hold."""

    def __attrs_post_init__(self) -> None:
        names = [participant.name for participant in self.participants]
        if len(set(names)) < len(names):
            raise ValueError("two participants of one name")
        for step in self.steps:
            for name in (step.who, step.source, step.target):
                if name is not None and name not in names:
                    raise ValueError(f"step {step.number}: {name!r} does not take part")
            if step.since is not None and not 0 <= step.since < step.number:
                raise ValueError(
                    f"step {step.number}: set out at {step.since}, which is not before"
                )
        for number in (self.violated_at, self.loop_back_to):
            if number is not None and not 0 <= number < len(self.steps):
                raise ValueError(f"there is no step {number}")

    @property
    def steps_shown(self) -> tuple[Step, ...]:
        """The steps that have a sentence."""
        return tuple(step for step in self.steps if step.sentence)

"""A counterexample as plain text: one line per step, and the violation at the end.

It only knows the content of a `Counterexample`; the finder writes the sentences.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafka_marshal.core.claims.invariants import Property
from kafka_marshal.counterexample.model import REFUSED, Counterexample, Step


def story_text(counterexample: Counterexample) -> str:
    """The story, numbered as the steps are."""
    width = len(str(counterexample.steps[-1].number))
    lines = [f"{step.number:>{width}}  {timed(step)}" for step in counterexample.steps_shown]
    lines += [f"{'':{width}}  {line}" for line in ending(counterexample)]
    return "\n".join(lines)


def timed(step: Step) -> str:
    """A step's sentence, behind its time if it has one."""
    return step.sentence if step.time is None else f"{step.time}  {step.sentence}"


def ending(counterexample: Counterexample) -> Iterator[str]:
    """The continuation after the last step, and what is wrong."""
    back_to, last = counterexample.loop_back_to, counterexample.steps[-1].number
    if back_to == last:
        yield "From here on nothing happens any more."
    elif back_to is not None:
        again = f"step {last}" if back_to + 1 == last else f"steps {back_to + 1} to {last}"
        yield f"From here on {again} again, for ever."
    if counterexample.violated is not None or counterexample.wrong:
        yield wrong(counterexample)


def wrong(counterexample: Counterexample) -> str:
    """What is wrong, in a sentence."""
    violated = counterexample.violated
    if counterexample.wrong:
        return counterexample.wrong
    if violated is None:
        return "Something that must hold does not."
    if violated in REFUSED:
        return f"{violated} refused a record."
    return f"{violated} does not hold."


def promise(counterexample: Counterexample) -> str | None:
    """The promise of the violated property, in a sentence; None if it has none."""
    return next((p.sentence for p in Property if p.value == counterexample.violated), None)

"""Counterexamples in one form, whether from the model checker, a random walk or a replay.

A finder makes a `Counterexample` (`model`), directly or from its records (`records`). `story`
formats it as text, `itf` writes it for other tools, `page` draws it. This package knows the reducer
and the protocol's words. It does not know TLC, Spark or any terminal.
"""

from kafka_marshal.counterexample.files import write
from kafka_marshal.counterexample.model import LOG, Counterexample, Participant, Step, StepKind
from kafka_marshal.counterexample.story import story_text

__all__ = ["LOG", "Counterexample", "Participant", "Step", "StepKind", "story_text", "write"]

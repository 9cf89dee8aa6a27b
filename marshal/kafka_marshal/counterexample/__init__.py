"""Counterexamples in one form, whether from the model checker, a random walk or a replay.

A finder makes a `Counterexample` (`model`), or has one made of the records it holds (`records`);
`story` tells it as text, `itf` writes it for other tools, `page` draws it. This room knows the
reducer and the protocol's words. It does not know TLC, Spark or any terminal.
"""

from kafka_marshal.counterexample.files import write
from kafka_marshal.counterexample.model import LOG, Counterexample, Participant, Step, StepKind
from kafka_marshal.counterexample.story import story_text

__all__ = ["LOG", "Counterexample", "Participant", "Step", "StepKind", "story_text", "write"]

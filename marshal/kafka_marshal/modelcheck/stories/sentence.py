"""One step of a counterexample in words, in the parts that a diagram needs separately."""

from __future__ import annotations

from attrs import frozen


@frozen
class Sentence:
    """One step. A drawing shows `lead` by the position of the step, and the time beside it."""

    lead: str
    """The actor, and for a landed record its offset: "b1 sends ", "offset 5: b1's ", or empty."""
    what: str
    result: str = ""
    """The outcome: a landed record's verdict; for an unknown module, the changes."""
    time: str | None = None
    """The time of the step, if its model has time."""
    offset: int | None = None
    """The record that the step reads."""

    @property
    def text(self) -> str:
        """The whole sentence."""
        return self.lead + self.what + self.result

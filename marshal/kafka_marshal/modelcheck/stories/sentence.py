"""One step of a counterexample in words, in the parts that a diagram needs separately."""

from __future__ import annotations

from attrs import frozen


@frozen
class Sentence:
    """One step. A drawing shows `lead` by where the step stands, and the time beside it."""

    lead: str
    """Who acts, and for a record that landed where: "b1 sends ", "offset 5: b1's ", or nothing."""
    what: str
    result: str = ""
    """The outcome: of a record that landed its verdict, of an unknown module what changed."""
    time: str | None = None
    """The time of the step, where time passes in its model."""
    offset: int | None = None
    """The record that the step reads."""

    @property
    def text(self) -> str:
        """The whole sentence."""
        return self.lead + self.what + self.result

"""Every reader, full fold, record and set of rules, and a certificate in flight, as symbols."""

from __future__ import annotations

import enum
from typing import Any, Final

import attrs
from attrs import define, field, frozen

from kafka_marshal import Claim, Record, Rules
from kafka_marshal.core.claims.suffix_reader import EVERYTHING, Field, Reader
from kafka_marshal.core.state import RuleSet
from proof.inputs import MESSAGES, OPTIONAL, Inputs
from proof.late.promise import Certificate
from proof.late.relation import State
from proof.late.symbols import (
    Flags,
    Maybe,
    SymbolicClaim,
    SymbolicReader,
    copied,
    valued,
)
from proof.symbols import Explorer

_IDS: Final = ("owner_instance", "owner_client", "pauser")


class Knows(enum.Enum):
    """How much a reader knows before a record."""

    EVERYTHING = "everything"
    THE_OWNER = "the owner"
    NOT_THE_OWNER = "not the owner"


@frozen
class LateCase:
    """A message, and how much its reader knows."""

    message: type
    knows: Knows


def late_cases() -> list[LateCase]:
    """All of them, the longest first."""
    order = (Knows.THE_OWNER, Knows.NOT_THE_OWNER, Knows.EVERYTHING)
    return [LateCase(message, knows) for knows in order for message in MESSAGES]


@define(eq=False)
class LateInputs(Inputs):
    """The symbols of one case: the full fold, a reader, a record, and a certificate in flight."""

    knows: Knows = field(kw_only=True)
    reader: Any = field(init=False)
    sent: Certificate = field(init=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.claim = self.a_claim("full")
        self.rules = self._rules()
        self.reader = self.a_reader("")
        self.assumed.append((self.record.offset == self.last + 1).formula)
        self.sent = self.a_certificate()
        self.assumed += [(self.sent.seen <= self.last).formula, (self.sent.epoch >= 0).formula]
        api = self.smt.api
        both = api.And(self.sent.is_request.formula, self.sent.is_release.formula)
        self.assumed.append(api.Not(both))

    def _rules(self) -> Any:
        rewind = self.number("clock_rewind_max_ms")
        self.assumed.append((rewind >= 0).formula)
        attrs.validators.set_disabled(True)
        try:
            return Rules(
                RuleSet.FENCED, self.rules.heartbeat_interval_ms, self.rules.pause_max_ms, rewind
            )
        finally:
            attrs.validators.set_disabled(False)

    def maybe(self, name: str) -> Maybe:
        """A field that may be None."""
        make = self.an_id if name.split()[-1] in _IDS else self.number
        return Maybe(self.truth(f"has {name}"), make(name))

    def a_claim(self, of: str) -> Any:
        """Any claim."""
        return SymbolicClaim(
            **{name: self.maybe(f"{of} {name}") for name in OPTIONAL},
            position=self.number(f"{of} position"),
            clock_ms=self.number(f"{of} clock_ms"),
            won_with_headers=self.truth(f"{of} won_with_headers"),
            last_release_ms=None,
            position_set=self.truth(f"{of} position_set"),
        )

    def a_reader(self, of: str) -> Any:
        """Any reader that knows so much."""
        api = self.smt.api
        flags = {each: self.truth(f"{of}certain {each.name}").formula for each in Field}
        owner = Knows.NOT_THE_OWNER is not self.knows
        flags[Field.OWNER] = api.BoolVal(owner)
        numbers = ("undecided", "reached", "alive_ms")
        late = {name: None if owner else self.maybe(f"{of}{name}") for name in numbers}
        if self.knows is Knows.EVERYTHING:
            certain: Any = EVERYTHING
        else:
            certain = Flags(self.smt, flags)
            self.assumed.append(api.Not(api.And(*flags.values())))
        return SymbolicReader(
            claim=self.a_claim(f"{of}reader's"),
            certain=certain,
            **late,
            head_ms=self.maybe(f"{of}head_ms"),
        )

    def a_certificate(self) -> Certificate:
        """Any record of an owner that says what it saw."""
        ids = {name: self.an_id(f"sent {name}") for name in ("instance", "client")}
        numbers = ("epoch", "seen", "clock", "offset")
        truths = ("is_request", "is_release", "says_it_sets")
        return Certificate(
            **ids,
            **{name: self.number(f"sent {name}") for name in numbers},
            **{name: self.truth(f"sent {name}") for name in truths},
        )

    def values(self, explorer: Explorer) -> tuple[Claim, Reader, Record, Rules]:
        """Values for which everything is true that is assumed now."""
        self.claim, kept = Claim(), self.claim
        try:
            _, record, rules = self.concrete(explorer)
        finally:
            self.claim = kept
        rewind = valued(self.rules.clock_rewind_max_ms, explorer)
        rules = Rules(RuleSet.FENCED, rules.heartbeat_interval_ms, rules.pause_max_ms, rewind)
        return valued(self.claim, explorer), valued(self.reader, explorer), record, rules

    @property
    def state(self) -> State:
        """Before the record, for one path."""
        return State(copied(self.claim), copied(self.reader), self.rules)

"""Every claim, record and set of rules, as symbols.

What `is None` or `match` asks cannot be a symbol. So there is one case for each message and for
each choice of the claim's fields that are None. A header's absence is asked when it is read. What
no verdict may depend on has no value at all: whoever reads it escapes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any, Final

import attrs
from attrs import define, field, frozen

from kafka_marshal import Claim, Record, Rules
from kafka_marshal.core.messages import (
    NOT_DECIMAL,
    UNSPECIFIED,
    ClaimingMessages,
    ClaimingPartition,
    Headers,
    Heartbeat,
    ReleaseGroup,
    ReleasingPartition,
)
from kafka_marshal.core.state import RuleSet
from proof.smt.solver import Smt
from proof.smt.terms import Term
from proof.symbols import Escaped, Explorer, Formula, Id, Number, Truth

MESSAGES: Final = (Heartbeat, ClaimingPartition, ReleasingPartition, ClaimingMessages, ReleaseGroup)
HEADERS: Final = ("epoch", "seen", "clock", "supersedes", "set_position", "start")
"""The headers that a verdict may depend on."""
OPTIONAL: Final = (
    "owner_instance",
    "owner_client",
    "epoch",
    "last_heartbeat_ms",
    "pauser",
    "paused_until_ms",
)
"""The claim's fields that may be None."""
_IDS: Final = ("owner_instance", "owner_client", "pauser")


@frozen
class Case:
    """A message, and which of the claim's optional fields are known."""

    message: type
    known: frozenset[str]


def cases() -> list[Case]:
    """All of them, by the parts of the invariant that say what is known together."""
    owner = {"owner_instance", "owner_client", "last_heartbeat_ms", "epoch"}
    owners: tuple[set[str], ...] = (set(), {"epoch"}, owner)
    pauses: tuple[set[str], ...] = (set(), {"pauser"}, {"pauser", "paused_until_ms"})
    return [
        Case(message, frozenset(one | other))
        for message, one, other in product(MESSAGES, owners, pauses)
    ]


class SymbolicHeaders(Headers):
    """Headers whose absence is asked when they are read. Who reads another one escapes."""

    def __init__(self, present: Truth, fields: Mapping[str, tuple[Truth, Number]]) -> None:
        self.__dict__.update(_present=present, _fields=fields)

    @property
    def present(self) -> Any:
        """Whether there is any."""
        return self.__dict__["_present"]

    def _refuse(self, *_: object) -> Any:
        raise Escaped("headers are compared as a whole")

    __eq__ = __ne__ = __hash__ = _refuse


def symbolic_header(name: str) -> property:
    """The property that asks for a header when it is read."""

    def read(headers: object) -> Any:
        fields = headers.__dict__["_fields"]
        if name not in fields:
            raise Escaped(f"a verdict depends on the header {name}")
        there, value = fields[name]
        return value if there else None

    return property(read, doc="As in `Headers`.")


for _name in (*HEADERS, *UNSPECIFIED):
    setattr(SymbolicHeaders, _name, symbolic_header(_name))


@define(eq=False)
class Inputs:
    """The symbols of one case."""

    smt: Smt
    case: Case
    assumed: list[Formula] = field(factory=list)
    """What values their types have, and nothing more."""
    terms: dict[str, Term] = field(factory=dict)
    """Each symbol, by its name."""
    claim: Claim = field(init=False)
    record: Record = field(init=False)
    rules: Rules = field(init=False)
    last: Any = field(init=False)
    """The offset of the last record before this one, or -1."""

    def __attrs_post_init__(self) -> None:
        known = self.case.known
        claim = {
            name: (self.an_id if name in _IDS else self.number)(name) if name in known else None
            for name in OPTIONAL
        }
        self.claim = Claim(
            **claim,
            position=self.number("position"),
            clock_ms=self.number("clock_ms"),
            won_with_headers=self.truth("won_with_headers"),
            position_set=self.truth("position_set"),
        )
        self.last = self.number("last")
        offset = self.number("offset")
        self.assumed += [(self.last >= -1).formula, (offset > self.last).formula]
        timestamp_ms = self.number("timestamp_ms")
        self.assumed.append((timestamp_ms >= -1).formula)  # Kafka's "no timestamp"
        self.record = Record(
            unread("partition"), offset, timestamp_ms, self._message(), self._headers()
        )
        interval, pause_max = (
            self.number("heartbeat_interval_ms", real=True),
            self.number("pause_max_ms"),
        )
        self.assumed += [(interval > 0).formula, (pause_max > 0).formula]
        attrs.validators.set_disabled(True)
        try:  # twice a float is exact, so a real stands for each
            self.rules = Rules(RuleSet.FENCED, interval, pause_max, unread("clock_rewind_max_ms"))
        finally:
            attrs.validators.set_disabled(False)

    def number(self, name: str, *, real: bool = False) -> Any:
        """A number."""
        return Number(self.smt, self._made(self.smt.api.Real if real else self.smt.api.Int, name))

    def an_id(self, name: str) -> Any:
        """An id: there are as many as numbers."""
        return Id(self.smt, self._made(self.smt.api.Int, name))

    def truth(self, name: str) -> Any:
        """A truth value."""
        return Truth(self.smt, self._made(self.smt.api.Bool, name))

    def _made(self, kind: Callable[[str], Term], name: str) -> Term:
        if name in self.terms:  # Two that are one would always be equal.
            raise ValueError(f"there is a symbol {name} already")
        made = self.terms[name] = kind(name)
        return made

    def _message(self) -> Any:
        fields = {
            "version": self.number("version"),
            "unix_s": _Unread("unix_s"),
            "instance_id": self.an_id("instance_id"),
            "client_id": self.an_id("client_id"),
            "group_id": _Unread("group_id"),
            "topic": _Unread("topic"),
            "partition": _Unread("partition"),
        }
        kind = self.case.message
        if kind is ReleaseGroup:
            fields["expires_unix_s"] = self.number("expires_unix_s")
        elif kind is not ClaimingPartition:
            fields["offset"] = self.number("message offset")
        return kind(**fields)

    def _headers(self) -> SymbolicHeaders:
        present = self.truth("present")
        fields = {name: self.header(name, present, decimal=name == "start") for name in HEADERS}
        return SymbolicHeaders(present, fields)

    def header(self, name: str, *needs: Truth, decimal: bool = False) -> tuple[Truth, Number]:
        """Whether a header is there, and its value; `decimal` if it counts as absent otherwise.

        Where it is there, all that it `needs` is true.
        """
        api, there, value = self.smt.api, self.truth(f"has {name}"), self.number(f"header {name}")
        least = api.Or(value.formula >= 0, value.formula == NOT_DECIMAL)
        values = value.formula >= 0 if decimal else least
        needed = api.And(*(each.formula for each in needs), values) if needs else values
        self.assumed.append(api.Implies(there.formula, needed))
        return there, value

    def valued(self, found: Any, explorer: Explorer) -> Any:
        """Values for a claim, or for one of its fields, in a model of all that is assumed."""
        if isinstance(found, Claim):
            fields = [each.name for each in attrs.fields(Claim)]
            return Claim(**{name: self.valued(getattr(found, name), explorer) for name in fields})
        if isinstance(found, Id):
            return f"id{explorer.value(found.formula)}"
        return explorer.value(found.formula) if isinstance(found, Number | Truth) else found

    def concrete(self, explorer: Explorer) -> tuple[Claim, Record, Rules]:
        """Values for which everything is true that is assumed now."""
        asked, headers = self.record.message, self.record.headers.__dict__["_fields"]
        message = {
            each.name: _UNREAD.get(each.name, self.valued(getattr(asked, each.name), explorer))
            for each in attrs.fields(type(asked))
        }
        there = {
            name: self.valued(value, explorer)
            for name, (has, value) in headers.items()
            if self.valued(has, explorer)
        }
        if isinstance(asked, ReleaseGroup):
            message |= {"topic": "", "partition": 0}
        record = Record(
            0,
            self.valued(self.record.offset, explorer),
            self.valued(self.record.timestamp_ms, explorer),
            type(asked)(**message),
            Headers(present=self.valued(self.record.headers.present, explorer), **there),
        )
        rules = Rules(
            RuleSet.FENCED,
            self.valued(self.rules.heartbeat_interval_ms, explorer),
            self.valued(self.rules.pause_max_ms, explorer),
        )
        return self.valued(self.claim, explorer), record, rules


_UNREAD: Final[dict[str, Any]] = {
    "unix_s": 0,
    "group_id": "g",
    "topic": "t",
    "partition": 0,
}


def unread(name: str) -> Any:
    """What no verdict may depend on: whoever looks at it escapes."""
    return _Unread(name)


class _Unread:
    """What no verdict may depend on."""

    def __init__(self, name: str) -> None:
        self.name = name

    def _read(self, *_: object) -> Any:
        raise Escaped(f"a verdict depends on {self.name}")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = _read
    __bool__ = __add__ = __sub__ = __mul__ = __index__ = __str__ = _read

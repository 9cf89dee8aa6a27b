"""Every claim, record and rule, as symbols for the reducer and as columns for the kernel."""

from __future__ import annotations

from itertools import product
from typing import Any, Final

import attrs
import numpy as np
from attrs import frozen

from kafka_marshal import Claim, Rules
from kafka_marshal.core.messages import ReleaseGroup
from kafka_marshal.core.state import RuleSet
from kafka_marshal.core.wire import number_of
from kafka_marshal.kernel import steps
from kafka_marshal.kernel.columns import ABSENT, HEADER_COLUMNS
from proof.inputs import HEADERS, MESSAGES, Case, Inputs, cases, unread
from proof.kernel.arrays import Column, Int64, Name, Row, plain
from proof.prove import unchecked
from proof.symbols import Explorer

FIELDS: Final = tuple(each.name for each in attrs.fields(Claim))
"""Of a claim, in the order of `steps`' columns."""


@frozen
class KernelCase(Case):
    """A case of the reducer's, and what the kernel knows beside it."""

    rule_set: RuleSet
    born: bool
    """The claim had a record of its own; otherwise it begins as its group's ReleaseGroups say."""


def kernel_cases() -> list[KernelCase]:
    """All of them; of the original's rules with every choice of fields that it ever sets."""
    found = [KernelCase(each.message, each.known, RuleSet.FENCED, born=True) for each in cases()]
    fields: tuple[tuple[str, ...], ...] = (
        ("owner_instance", "owner_client"),
        ("last_heartbeat_ms",),
        ("pauser", "paused_until_ms"),
        ("last_release_ms",),
    )
    for message, chosen in product(MESSAGES, product((True, False), repeat=len(fields))):
        known = {name for names, has in zip(fields, chosen, strict=True) if has for name in names}
        found.append(KernelCase(message, frozenset(known), RuleSet.ORIGINAL, born=True))
    newborn = [each for each in found if each.known <= {"pauser", "paused_until_ms"}]
    return found + [attrs.evolve(each, born=False) for each in newborn]


class KernelInputs(Inputs):
    """The symbols of one case, and what the kernel has in the place of each."""

    case: KernelCase

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if "last_release_ms" in self.case.known:
            self.claim = attrs.evolve(self.claim, last_release_ms=self.number("last_release_ms"))
        with unchecked():
            self.rules = attrs.evolve(self.rules, rule_set=self.case.rule_set)
        self.floor_ms, self.ceil_ms = self.number("floor"), self.number("ceil")
        self.other_of_group = plain(self.number("other of group"))
        stale_ms: Any = self.rules.stale_after_ms
        for each in (
            *(self.floor_ms <= stale_ms, stale_ms < self.floor_ms + 1),
            *(self.ceil_ms - 1 < stale_ms, stale_ms <= self.ceil_ms),
        ):
            self.assumed.append(each.formula)

    def an_id(self, name: str) -> Any:
        """An id, which may be empty."""
        return Name(self.smt, super().an_id(name).formula)

    def _message(self) -> Any:
        message = super()._message()
        group = self.an_id("group_id")
        return attrs.evolve(message, unix_s=self.number("unix_s"), group_id=group)

    def valued(self, found: Any, explorer: Explorer) -> Any:
        """As in `Inputs`; an empty id is empty."""
        if isinstance(found, Name):
            code = explorer.value(found.formula)
            return f"id{code}" if code else ""
        return super().valued(found, explorer)

    def concrete(self, explorer: Explorer) -> tuple[Claim, Any, Rules]:
        """As in `Inputs`, with all that the original reads."""
        claim, record, rules = super().concrete(explorer)
        message = self.record.message
        named = {
            name: self.valued(getattr(message, name), explorer) for name in ("unix_s", "group_id")
        }
        record = attrs.evolve(record, message=attrs.evolve(record.message, **named))
        return claim, record, attrs.evolve(rules, rule_set=self.case.rule_set)

    def headers(self) -> list[Any]:
        """The columns of headers; those that decide nothing cannot be read."""
        fields = self.record.headers.__dict__["_fields"]
        api = self.smt.api
        return [
            Int64(self.smt, api.If(fields[name][0].formula, fields[name][1].formula, ABSENT))
            if name in HEADERS
            else unread(name)
            for name in HEADER_COLUMNS
        ]

    def number_of_message(self) -> Any:
        """The number that the message carries beside its address; 0 if none."""
        message = self.record.message
        return getattr(message, "offset", getattr(message, "expires_unix_s", 0))

    def first_of_group(self) -> Any:
        """The claim at the head of its group's list: this one, any other, or none."""
        if self.case.born:
            return 0
        return -1 if self.case.message is ReleaseGroup else self.other_of_group

    def arguments(self) -> dict[str, Any]:
        """What `steps.fold` is given, but for claims and verdicts."""
        record, message = self.record, self.record.message
        return {
            "fenced": self.rules.fenced,
            "stale_ms": plain(self.floor_ms),
            "original_stale_ms": plain(self.ceil_ms),
            "pause_max_ms": plain(self.rules.pause_max_ms),
            "last_offset": plain(self.last),
            "rows": [0],
            "offsets": plain(record.offset),
            "timestamps_ms": plain(record.timestamp_ms),
            "kinds": number_of(type(message)),
            "versions": plain(message.version),
            "unix_s": plain(message.unix_s),
            "numbers": plain(self.number_of_message()),
            "addresses": 0,
            "present": record.headers.present,
            "headers": self.headers(),
            "table": [*map(plain, (message.instance_id, message.client_id, message.group_id)), 0],
            "claims": [plain(getattr(self.claim, name)) for name in FIELDS]
            if self.case.born
            else [unread(name) for name in FIELDS],
            "born": self.case.born,
            "newborn": [plain(getattr(self.claim, name)) for name in FIELDS],
            "first_of_group": self.first_of_group(),
            "next_in_group": -1,
            "verdicts": steps.NO_MESSAGE,
        }


_ROWS: Final = ("headers", "table", "claims", "newborn")
_SINGLE: Final = ("fenced", "stale_ms", "original_stale_ms", "pause_max_ms", "last_offset", "rows")


def columns(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `steps.fold`, for symbols."""
    return {
        name: value if name in _SINGLE else Row(list(value)) if name in _ROWS else Column(value)
        for name, value in arguments.items()
    }


_TYPES: Final = {
    "kinds": np.int8, "addresses": np.int32, "present": np.bool_, "born": np.bool_,
    "verdicts": np.int8, "table": np.int32,
}  # fmt: skip


def arrays(arguments: dict[str, Any]) -> dict[str, Any]:
    """The same, for what is compiled."""
    return {
        name: np.array([0], np.intp) if name == "rows" else value if name in _SINGLE
        else np.array([value, value], _TYPES.get(name, np.int64))
        for name, value in arguments.items()
    }  # fmt: skip

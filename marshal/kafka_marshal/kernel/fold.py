"""Folds claims over columns of records, compiled: `World` for logs of millions of records.

`steps` defines the effect of a record; this module holds the claims. It computes in 64 bits. Input
that does not fit is refused before anything is folded (`BeyondKernel`), and must be folded by
`World`.
"""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from kafka_marshal.core.claims.world import OutOfOrder
from kafka_marshal.core.state import FENCED, Claim, ClaimKey, Rules, RuleSet
from kafka_marshal.kernel.columns import Ints, NameCodes, RecordColumns, Small, TextCodes
from kafka_marshal.kernel.steps import (
    CLOCK,
    EPOCH,
    FIELDS,
    LAST_HEARTBEAT,
    LAST_RELEASE,
    NEW_CLAIM,
    NONE,
    OWNER_CLIENT,
    OWNER_INSTANCE,
    PAUSED_UNTIL,
    PAUSER,
    POSITION,
    SET,
    WITH_HEADERS,
    first_wrong,
    fold,
    rules_fit,
)


class BeyondKernel(ValueError):
    """A time is further from 1970 than 2^53 ms, or a duration is longer: use `World`."""


class KernelFold:
    """Folds the records of one coordinating partition, like `World`."""

    def __init__(self, rules: Rules = FENCED, names: NameCodes | None = None) -> None:
        self.rules = rules
        self.names = names or NameCodes()
        self._claims = np.empty((0, FIELDS), np.int64)
        self._born = np.empty(0, np.bool_)
        self._order: list[int] = []
        self._newborn = np.empty((0, FIELDS), np.int64)
        self._first_of_group = np.empty(0, np.int64)
        self._next_in_group = np.empty(0, np.int64)
        self._last_offset = -1

    def apply(
        self,
        offsets: Ints,
        timestamps_ms: Ints,
        columns: RecordColumns,
        rows: npt.NDArray[np.intp] | None = None,
    ) -> Small:
        """Fold records in offset order; return the effect of each as a number.

        The number is an index in `steps.VERDICTS`, NO_MESSAGE, or READ_TWICE. If a batch has
        several coordinating partitions, `rows` holds the rows of this one, in offset order.

        Raises:
            OutOfOrder: an offset is lower than one already folded. Nothing of the batch was folded.
            BeyondKernel: a time does not fit. Nothing of the batch was folded.
        """
        if rows is None:
            rows = np.arange(len(offsets), dtype=np.intp)
        self._check(rows, offsets, timestamps_ms, columns)
        self._make_room()
        verdicts = np.empty(len(rows), np.int8)
        born, self._last_offset = fold(
            self.rules.rule_set is RuleSet.FENCED,
            math.floor(self.rules.stale_after_ms),
            math.ceil(self.rules.stale_after_ms),
            int(self.rules.pause_max_ms),
            self._last_offset,
            rows,
            offsets,
            timestamps_ms,
            columns.kind,
            columns.version,
            columns.unix_s,
            columns.number,
            columns.address,
            columns.present,
            columns.headers,
            self.names.table,
            self._claims,
            self._born,
            self._newborn,
            self._first_of_group,
            self._next_in_group,
            verdicts,
        )
        self._order += [int(claim) for claim in born]
        return verdicts

    def claims(self) -> dict[ClaimKey, Claim]:
        """Every claim that had a record of its own, in order of occurrence."""
        keys = self.names.claim_keys()
        instances, clients = self.names.instances.names(), self.names.clients.names()
        return {keys[code]: _claim(self._claims[code], instances, clients) for code in self._order}

    def put(self, key: ClaimKey, claim: Claim) -> None:
        """Set the state of a claim, as if its records had been folded here."""
        names = self.names
        code = names.claim(key)
        self._make_room()
        row = [
            _code(claim.owner_instance, names.instances),
            _code(claim.owner_client, names.clients),
            _number(claim.epoch),
            claim.position,
            _number(claim.last_heartbeat_ms),
            claim.clock_ms,
            int(claim.won_with_headers),
            _code(claim.pauser, names.instances),
            _number(claim.paused_until_ms),
            _number(claim.last_release_ms),
            int(claim.position_set),
        ]
        if not self._born[code]:
            self._born[code] = True
            self._order.append(code)
            group = names.group_of(code)
            self._next_in_group[code] = self._first_of_group[group]
            self._first_of_group[group] = code
        self._claims[code] = row

    def _make_room(self) -> None:
        claims, groups = len(self.names.claims), len(self.names.groups)
        self._claims = _longer(self._claims, claims, NEW_CLAIM)
        self._born = _longer(self._born, claims, False)
        self._next_in_group = _longer(self._next_in_group, claims, -1)
        self._newborn = _longer(self._newborn, groups, NEW_CLAIM)
        self._first_of_group = _longer(self._first_of_group, groups, -1)

    def _check(
        self,
        rows: npt.NDArray[np.intp],
        offsets: Ints,
        timestamps_ms: Ints,
        columns: RecordColumns,
    ) -> None:
        rules = self.rules
        if not rules_fit(rules.stale_after_ms, rules.pause_max_ms):
            raise BeyondKernel(f"{rules}: a duration is longer than 2^53 ms")
        before, wrong = first_wrong(
            self._last_offset,
            rows,
            offsets,
            timestamps_ms,
            columns.kind,
            columns.unix_s,
            columns.number,
        )
        if wrong < 0:
            return
        if offsets[wrong] < before:
            raise OutOfOrder(f"offset {offsets[wrong]} came after offset {before}")
        raise BeyondKernel(f"offset {offsets[wrong]}: a time is not within 2^53 ms of 1970")


_Array = TypeVar("_Array", npt.NDArray[np.int64], npt.NDArray[np.bool_])


def _longer(array: _Array, length: int, fill: int | tuple[int | None, ...]) -> _Array:
    if len(array) >= length:
        return array
    longer = np.empty((max(length, 2 * len(array)), *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    longer[len(array) :] = fill
    return longer


def _number(value: int | None) -> int:
    return NONE if value is None else value


def _code(name: str | None, codes: TextCodes) -> int:
    return NONE if name is None else codes.code(name)


def _claim(row: npt.NDArray[np.int64], instances: list[str], clients: list[str]) -> Claim:
    numbers = [None if number == NONE else int(number) for number in row]

    def name(field: int, known: list[str]) -> str | None:
        code = numbers[field]
        return None if code is None else known[code]

    return Claim(
        owner_instance=name(OWNER_INSTANCE, instances),
        owner_client=name(OWNER_CLIENT, clients),
        epoch=numbers[EPOCH],
        position=int(row[POSITION]),
        last_heartbeat_ms=numbers[LAST_HEARTBEAT],
        clock_ms=int(row[CLOCK]),
        won_with_headers=bool(row[WITH_HEADERS]),
        pauser=name(PAUSER, instances),
        paused_until_ms=numbers[PAUSED_UNTIL],
        last_release_ms=numbers[LAST_RELEASE],
        position_set=bool(row[SET]),
    )

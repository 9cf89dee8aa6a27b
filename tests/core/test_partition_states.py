"""How far a record reaches, of three uses: claims, claims with a second storey, groups."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import NamedTuple

import attrs
import pytest

from kafka_marshal import ClaimKey
from kafka_marshal.core.partition_states import PartitionStates, Stepped

ONE, TWO, OTHER = ClaimKey("g", "t", 1), ClaimKey("g", "t", 2), ClaimKey("h", "t", 1)


# --- claims: a number, which a record adds to -----------------------------------------------------


def added(before: int, number: int) -> tuple[int, str]:
    return before + number, f"+{number}"


def test_a_record_about_a_key_changes_that_key_alone() -> None:
    states = PartitionStates[ClaimKey, int](100)
    assert states.step(ONE, added, 1) == (100, 101, "+1")
    assert states.step(ONE, added, 2) == (101, 103, "+2")
    assert (states[ONE], states[TWO]) == (103, 100)
    assert states.all() == {ONE: 103}


def test_a_record_about_a_group_reaches_its_keys_and_those_that_come_later() -> None:
    states = PartitionStates[ClaimKey, int](100)
    states.step(ONE, added, 1)
    states.step(OTHER, added, 7)
    verdict, reached = states.step_group("g", added, 20)
    assert (verdict, reached) == ("+20", [Stepped(ONE, 101, 121, "+20")])
    assert (states[TWO], states.newborn("g"), states.newborn("h")) == (120, 120, 100)
    assert TWO not in states.all()
    assert states.step(TWO, added, 3) == (120, 123, "+3")
    assert states.group("g") == {ONE: 121, TWO: 123}
    assert states.group("h") == {OTHER: 107}


def test_what_is_put_goes_on_and_what_is_forgotten_begins_anew() -> None:
    states = PartitionStates[ClaimKey, int](0)
    states.put(ONE, 5)
    assert states.step(ONE, added, 1) == (5, 6, "+1")
    states.forget(ONE)
    assert ONE not in states.all()
    assert states[ONE] == 0
    with pytest.raises(KeyError):
        states.forget(ONE)


def test_a_pickle_holds_states_and_no_type_arguments() -> None:
    """What a checkpoint reads is on a list of what accounts are made of."""
    states = PartitionStates[ClaimKey, int](100)
    states.step(ONE, added, 1)
    states.step_group("g", added, 2)
    written = pickle.dumps(states, protocol=5)
    assert b"getitem" not in written
    read = pickle.loads(written)
    assert (read.all(), read.newborn("g"), read.beginning) == ({ONE: 103}, 102, 100)
    assert read == states


def test_a_copy_is_equal_until_one_of_them_goes_on() -> None:
    states = PartitionStates[ClaimKey, int](100)
    states.step(ONE, added, 1)
    states.step_group("g", added, 2)
    ways: list[Callable[[PartitionStates[ClaimKey, int]], object]] = [
        lambda copied: copied.step(ONE, added, 1),
        lambda copied: copied.put(TWO, 5),
        lambda copied: copied.step_group("g", added, 3),
        lambda copied: copied.forget(ONE),
    ]
    for go_on in ways:
        copied = states.copy()
        assert copied == states
        go_on(copied)
        assert copied != states
    assert (states.all(), states.newborn("g")) == ({ONE: 103}, 102)
    assert states != PartitionStates[ClaimKey, int](99)


# --- ranges: a second storey with a clock of its own, which makes no claim ------------------------


class Said(NamedTuple):
    """A record: an old one, or one that only the second storey knows."""

    at_ms: int
    old: bool


@attrs.frozen
class Storeys:
    """A claim and its ranges."""

    claim_clock_ms: int | None = None
    """None: no old record yet, so there is no claim."""
    ranges_clock_ms: int = -1


def folded(before: Storeys, record: Said) -> tuple[Storeys, None]:
    below = record.at_ms if record.old else before.claim_clock_ms
    return Storeys(below, max(before.ranges_clock_ms, record.at_ms)), None


def test_a_second_storey_has_a_clock_of_its_own_and_makes_no_claim() -> None:
    states = PartitionStates[ClaimKey, Storeys](Storeys())
    states.step(ONE, folded, Said(5, old=False))
    states.step(TWO, folded, Said(6, old=True))
    states.step(TWO, folded, Said(9, old=False))
    claims = {key: each for key, each in states.all().items() if each.claim_clock_ms is not None}
    assert claims == {TWO: Storeys(6, 9)}
    assert states[ONE] == Storeys(None, 5)  # known upstairs, and to no older reader
    states.step(ONE, folded, Said(7, old=True))
    assert states[ONE] == Storeys(7, 7)


# --- groups: a state of the partition judges first ------------------------------------------------


class GroupId(NamedTuple):
    """A key that is its own group: no record reaches two."""

    group: str


@attrs.define
class Controllership:
    """The groups of a partition, behind the epoch under which events count."""

    epoch: int = -1
    groups: PartitionStates[GroupId, int] = attrs.field(
        factory=lambda: PartitionStates[GroupId, int](0)
    )

    def apply(self, offset: int, epoch: int | None, group: str) -> str:
        """A new controller (no epoch), or an event of one."""
        if epoch is None:
            self.epoch = offset
            return "started"
        if epoch != self.epoch:
            return "deposed"
        if group.startswith("-"):
            self.groups.forget(GroupId(group[1:]))
            return "deleted"
        _, _, verdict = self.groups.step(GroupId(group), added, 1)
        return verdict


def test_after_a_gap_every_group_begins_anew_and_no_key_is_forgotten() -> None:
    states = PartitionStates[GroupId, int](0)
    states.step(GroupId("a"), added, 1)
    states.step_group("b", added, 5)
    states.step(GroupId("b"), added, 1)
    states.step_group("c", added, 7)
    anew = states.begun_anew(100, lambda state: state + 200)
    assert anew.all() == {GroupId("a"): 201, GroupId("b"): 206}
    assert [anew.newborn(group) for group in "abc"] == [100] * 3, "what a group's records did"
    assert anew[GroupId("d")] == 100
    anew.step(GroupId("a"), added, 1)
    assert states.all() == {GroupId("a"): 1, GroupId("b"): 6}


def test_a_state_of_the_partition_can_judge_before_any_key_is_reached() -> None:
    partition = Controllership()
    events = [(0, None, ""), (1, 0, "a"), (2, None, ""), (3, 0, "a"), (4, 2, "a"), (5, 2, "b")]
    told = [partition.apply(*event) for event in events]
    assert told == ["started", "+1", "started", "deposed", "+1", "+1"]
    assert partition.groups.all() == {GroupId("a"): 2, GroupId("b"): 1}
    assert partition.apply(6, 2, "-a") == "deleted"
    assert partition.groups.all() == {GroupId("b"): 1}

"""Marshal promises when a count of a topic is believed, and what is written down of it."""

from __future__ import annotations

import attrs
import pytest

from kafka_marshal.core.groups.events import PartitionsCounted
from kafka_marshal.core.groups.state import Group, GroupMember, Topic, TopicPartition
from kafka_marshal.machines.groups.control.topics import DOUBT_MS, TopicCounts, topics_of
from tests.machines.groups.desk import Desk

NOW_MS = 1_000
FIRST, SECOND, THIRD = Topic(2, "first"), Topic(2, "second"), Topic(2, "third")
GONE = Topic(0, "")


@pytest.fixture(scope="module")
def group() -> Group:
    """It has two partitions of the topic t."""
    made = Desk().serve().create().group
    assert made.topics == {"t": FIRST}
    return made


def believed(group: Group, *looks: Topic) -> Topic | None:
    """What is believed of t after these looks."""
    counts = TopicCounts()
    for look in looks:
        counts.saw("t", look, NOW_MS, [group])
    return counts.counted.get("t")


@pytest.mark.parametrize("look", [FIRST, Topic(3, "first"), Topic(1, "first")])
def test_what_costs_no_position_is_believed_at_once(group: Group, look: Topic) -> None:
    assert believed(group, look) == look


@pytest.mark.parametrize("look", [SECOND, GONE])
def test_that_a_topic_is_gone_or_made_anew_is_believed_when_two_looks_agree(
    group: Group, look: Topic
) -> None:
    assert believed(group, look) is None
    assert believed(group, look, look) == look
    assert believed(group, look, THIRD) is None
    assert believed(group, look, FIRST, look) == FIRST


def test_a_topic_that_no_group_has_is_believed_at_once(group: Group) -> None:
    counts = TopicCounts()
    counts.saw("u", GONE, NOW_MS, [group])
    assert counts.counted == {"u": GONE}


@pytest.mark.parametrize(
    ("look_at_ms", "then_ms"),
    [
        (None, NOW_MS + DOUBT_MS),
        (NOW_MS + DOUBT_MS + 1, NOW_MS + DOUBT_MS),
        (NOW_MS + 1, NOW_MS + 1),
    ],
)
def test_a_topic_in_doubt_is_looked_at_again_soon(
    group: Group, look_at_ms: int | None, then_ms: int
) -> None:
    counts = TopicCounts(look_at_ms=look_at_ms)
    counts.saw("t", GONE, NOW_MS, [group])
    assert counts.look_at_ms == then_ms
    assert [counts.is_due(at_ms) for at_ms in (then_ms - 1, then_ms)] == [False, True]


def test_it_is_looked_at_all_topics_that_a_group_has_or_its_members_want(group: Group) -> None:
    wishes = {"m1": GroupMember("c", frozenset({"u"}), {TopicPartition("v", 1): 4}, 3)}
    assert topics_of(attrs.evolve(group, members=wishes)) == {"t", "u", "v"}


def due(group: Group, **counted: Topic) -> list[PartitionsCounted]:
    """What is written down of a group where these are the counts; its members want all of them."""
    wishes = {"m1": GroupMember("c", frozenset(counted), {}, 3)}
    return [*TopicCounts(counted={**counted}).due(attrs.evolve(group, members=wishes))]


def test_a_topic_that_was_made_anew_is_gone_first(group: Group) -> None:
    assert due(group, t=SECOND) == [PartitionsCounted("t", 0, "first")]
    assert due(group, t=FIRST) == []
    assert due(group, t=Topic(1, "first")) == []
    assert due(group, t=Topic(3, "first")) == [PartitionsCounted("t", 3, "first")]
    assert due(group, t=GONE) == [PartitionsCounted("t", 0, "")]


def test_a_group_grows_as_far_as_its_target_fits_into_a_record(group: Group) -> None:
    most, more = Topic(4_000, "first"), Topic(4_001, "first")
    assert due(group, t=most) == [PartitionsCounted("t", 4_000, "first")]
    assert due(group, t=more) == []
    fits, not_both = Topic(3_998, "u"), Topic(3_999, "u")
    assert due(group, u=fits) == [PartitionsCounted("u", 3_998, "u")]
    assert due(group, u=not_both) == []
    grown, beside = Topic(3_999, "first"), Topic(2, "u")
    assert due(group, t=grown, u=beside) == [PartitionsCounted("t", 3_999, "first")]

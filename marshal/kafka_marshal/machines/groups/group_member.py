"""One member of a group: what it knows, what it holds, and what it sends.

Spec: module GroupMember. A member reads no log. It knows what controllers answered, and that an
answer may be old. This room does not know how answers travel, nor when to ask: that is
`membership`. Every function gives a value.

>>> told = MemberAnswer(1, 4, unknown=False, own={TopicPartition("t", 0): At(4, 17)})
>>> member = after_answer(after_asking(GroupMemberState()), told)
>>> request_of(processed(member, TopicPartition("t", 0), 18)).positions
{TopicPartition(topic='t', partition=0): At(tenure=4, offset=18)}
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field

from kafka_marshal.core.groups.events import At
from kafka_marshal.core.groups.state import TopicPartition
from kafka_marshal.core.values import evolved, value

NO_CONNECTION = 0
"""The connection of a request of a member with memory: it does not matter."""


@value
class GroupMemberState:
    """What a member remembers. The default value is a new member. Spec: NewMember."""

    generation: int = 0
    """The latest that an answer named."""
    fresh: bool = True
    """No answer has called it a member yet."""
    holds: frozenset[TopicPartition] = frozenset()
    at: Mapping[TopicPartition, At] = field(factory=dict)
    """How far it got in what it holds or held, since it may say so after it let go. The offset is
    NO_POSITION where nothing was committed and nothing processed."""
    connection: int = 0
    """The latest one on which it asked; they are numbered from 1."""


@value
class MemberRequest:
    """What a member says of itself. Spec: RequestOf."""

    connection: int
    """The connection without which it does not count, or NO_CONNECTION."""
    as_of: int | None
    """The generation that it knows; None of a member without memory."""
    held: frozenset[TopicPartition]
    positions: Mapping[TopicPartition, At]


@value
class MemberAnswer:
    """What a controller answers to a member. Spec: AnswerTo."""

    connection: int
    """The one of the request that it answers, or NO_CONNECTION."""
    generation: int
    unknown: bool
    """It is no member of the group: it begins without memory."""
    own: Mapping[TopicPartition, At] = field(factory=dict)
    """What it owns and need not let go."""


def says(member: GroupMemberState) -> Mapping[TopicPartition, At]:
    """What it commits: where it knows no position, nothing. Spec: Says."""
    return {tp: at for tp, at in member.at.items() if at.offset >= 0}


def request_of(member: GroupMemberState) -> MemberRequest:
    """The request that it may send. Spec: RequestOf."""
    if member.fresh:
        return MemberRequest(member.connection + 1, None, member.holds, {})
    return MemberRequest(NO_CONNECTION, member.generation, member.holds, says(member))


def after_asking(member: GroupMemberState) -> GroupMemberState:
    """It asked. Spec: AfterAsking."""
    return evolved(member, connection=member.connection + 1)


def is_old(member: GroupMemberState, answer: MemberAnswer) -> bool:
    """G9: the answer is older than what it knows. Spec: IsOld. Keeps: NoTwoOwners."""
    return answer.generation < member.generation


def is_closed(member: GroupMemberState, answer: MemberAnswer) -> bool:
    """The answer came over a connection that it has closed since.

    Spec: IsClosed. Keeps: NoTwoOwners.

    A member that connects again says that it holds nothing. If it heard more over the connection
    before, it would hold something.
    """
    return answer.connection not in (NO_CONNECTION, member.connection)


def goes_on(member: GroupMemberState, answer: MemberAnswer, tp: TopicPartition) -> bool:
    """It holds the partition under that tenure, so it goes on where it is. Spec: GoesOn."""
    return tp in member.holds and member.at[tp].tenure == answer.own[tp].tenure


def after_answer(member: GroupMemberState, answer: MemberAnswer) -> GroupMemberState:
    """It obeys an answer that is neither old nor of a closed connection.

    Spec: AfterAnswer. Keeps: NoTwoOwners, RewindSticks.
    """
    if answer.unknown:
        return evolved(member, generation=answer.generation, fresh=True, holds=frozenset())
    told = {tp: at for tp, at in answer.own.items() if not goes_on(member, answer, tp)}
    return evolved(
        member,
        generation=answer.generation,
        fresh=False,
        holds=frozenset(answer.own),
        at={**member.at, **told},
    )


def goes_on_until(until_ms: float, sent_ms: float, lease_ms: float) -> float:
    """G5: until when a member goes on, from when it sent what was answered.

    Spec: GoesOnUntil. An answer that comes late does not take back what one before it gave.
    """
    return max(until_ms, sent_ms + lease_ms)


def processed(member: GroupMemberState, tp: TopicPartition, offset: int) -> GroupMemberState:
    """It processed everything below an offset of a partition that it holds. Spec: Processed."""
    return evolved(member, at={**member.at, tp: At(member.at[tp].tenure, offset)})

"""One member of a group: its knowledge, its partitions and its requests.

Spec: module GroupMember. A member reads no log. It knows the controllers' answers, and that an
answer may be outdated. This module does not know how answers travel, nor when to send requests (see
`membership`). Every function returns a value.

>>> answer = MemberAnswer(1, 4, unknown=False, own={TopicPartition("t", 0): At(4, 17)})
>>> member = after_answer(after_asking(GroupMemberState()), answer)
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
"""The connection of a request by a member with memory: any."""


@value
class GroupMemberState:
    """The state of a member. The default value is a new member. Spec: NewMember."""

    generation: int = 0
    """The latest generation in an answer."""
    fresh: bool = True
    """No answer has confirmed it as a member yet."""
    holds: frozenset[TopicPartition] = frozenset()
    at: Mapping[TopicPartition, At] = field(factory=dict)
    """Its progress in the partitions that it holds or held, which it may report after releasing
    them. The offset is NO_POSITION if nothing was committed or processed."""
    connection: int = 0
    """The latest connection on which it sent a request; they are numbered from 1."""


@value
class MemberRequest:
    """A member's report about itself. Spec: RequestOf."""

    connection: int
    """The connection on which it is valid, or NO_CONNECTION."""
    as_of: int | None
    """The generation that it knows; None for a member without memory."""
    held: frozenset[TopicPartition]
    positions: Mapping[TopicPartition, At]


@value
class MemberAnswer:
    """A controller's answer to a member. Spec: AnswerTo."""

    connection: int
    """The connection of the request that it answers, or NO_CONNECTION."""
    generation: int
    unknown: bool
    """It is not a member of the group: it starts over without memory."""
    own: Mapping[TopicPartition, At] = field(factory=dict)
    """The partitions that it owns and need not release."""


def says(member: GroupMemberState) -> Mapping[TopicPartition, At]:
    """The positions that it commits; none that it does not know. Spec: Says."""
    return {tp: at for tp, at in member.at.items() if at.offset >= 0}


def request_of(member: GroupMemberState) -> MemberRequest:
    """The request that it may send. Spec: RequestOf."""
    if member.fresh:
        return MemberRequest(member.connection + 1, None, member.holds, {})
    return MemberRequest(NO_CONNECTION, member.generation, member.holds, says(member))


def after_asking(member: GroupMemberState) -> GroupMemberState:
    """It sent a request. Spec: AfterAsking."""
    return evolved(member, connection=member.connection + 1)


def is_old(member: GroupMemberState, answer: MemberAnswer) -> bool:
    """G9: whether the answer is older than what it knows. Spec: IsOld. Keeps: NoTwoOwners."""
    return answer.generation < member.generation


def is_closed(member: GroupMemberState, answer: MemberAnswer) -> bool:
    """Whether the answer came on a connection that it has closed since.

    Spec: IsClosed. Keeps: NoTwoOwners.

    A member that connects again reports that it holds nothing. This would be wrong if it accepted
    later answers on the connection before.
    """
    return answer.connection not in (NO_CONNECTION, member.connection)


def goes_on(member: GroupMemberState, answer: MemberAnswer, tp: TopicPartition) -> bool:
    """Whether it holds the partition under that tenure, and so continues. Spec: GoesOn."""
    return tp in member.holds and member.at[tp].tenure == answer.own[tp].tenure


def after_answer(member: GroupMemberState, answer: MemberAnswer) -> GroupMemberState:
    """It obeys an answer, unless it is old or came on a closed connection.

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
    """G5: until when a member may continue, given when it sent the answered request.

    Spec: GoesOnUntil. A late answer does not reduce what an earlier one allowed.
    """
    return max(until_ms, sent_ms + lease_ms)


def processed(member: GroupMemberState, tp: TopicPartition, offset: int) -> GroupMemberState:
    """It processed everything below an offset of a partition that it holds. Spec: Processed."""
    return evolved(member, at={**member.at, tp: At(member.at[tp].tenure, offset)})

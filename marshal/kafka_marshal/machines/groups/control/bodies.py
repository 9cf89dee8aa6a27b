"""Translates the bodies of requests and answers to and from the types of the core.

`kafka_marshal.rpc` knows their bytes and fields, and that every field is there. This room judges
numbers and lists that no event could hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from kafka_marshal.core.groups.assignment import STRATEGIES
from kafka_marshal.core.groups.events import At, GroupCreated
from kafka_marshal.core.groups.state import (
    PARTITIONS_MAX,
    Controllership,
    Group,
    Rebalance,
    Topic,
    TopicPartition,
    is_due,
)
from kafka_marshal.machines.groups.controller import Registration
from kafka_marshal.rpc.codec import RpcAnswer, RpcRequest
from kafka_marshal.rpc.error_codes import ErrorCode
from kafka_marshal.rpc.fields import Body, Value

NAME_BYTES_MAX: Final = 249
"""The longest name of a topic, as Kafka's; also that of a group, a member and a client here."""
WISHES_MAX: Final = 1_000
"""How many topics, and how many static partitions, a member may name: they go into one record."""
SESSION_TIMEOUT_MIN_MS: Final = 1_000
SESSION_TIMEOUT_MAX_MS: Final = 30 * 60_000
NEW_MEMBER: Final = -1
"""The Generation of a member without memory."""
NARROW_MAX: Final = 2**15 - 1
"""The last partition that version 0 can name."""


class BadRequest(Exception):
    """A request that no event can follow from; `code` is its answer."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


Rows = list[dict[str, Any]]


def rows(request: RpcRequest, name: str) -> Rows:
    """The structs of a list."""
    return cast("Rows", request.body[name])


def text(request: RpcRequest, name: str) -> str:
    """A string."""
    return cast("str", request.body[name])


def texts(request: RpcRequest, name: str) -> list[str]:
    """The strings of a list."""
    return cast("list[str]", request.body[name])


def number(request: RpcRequest, name: str) -> int:
    """A number."""
    return cast("int", request.body[name])


def expect(condition: bool, code: ErrorCode = ErrorCode.INVALID_REQUEST) -> None:
    """Refuse a request of which this is not so.

    Raises:
        BadRequest: it is not.
    """
    if not condition:
        raise BadRequest(code)


def is_name(name: str) -> bool:
    """Something may have this name."""
    return 0 < len(name.encode()) <= NAME_BYTES_MAX


def expect_names(names: Iterable[str]) -> None:
    """Refuse invalid names.

    Raises:
        BadRequest: a name is not valid.
    """
    expect(all(map(is_name, names)))


def place(row: Mapping[str, Any]) -> TopicPartition:
    """The partition that a struct names.

    Raises:
        BadRequest: nothing can be called so.
    """
    expect(is_name(row["Topic"]) and row["Partition"] >= 0)
    return TopicPartition(row["Topic"], row["Partition"])


def places(given: Rows) -> frozenset[TopicPartition]:
    """Partitions.

    Raises:
        BadRequest: one is named twice, or there are more than a group has.
    """
    found = frozenset(map(place, given))
    expect(len(found) == len(given) <= PARTITIONS_MAX)
    return found


def offsets(given: Rows) -> dict[TopicPartition, int]:
    """An Offset of each partition.

    Raises:
        BadRequest: as of `places`.
    """
    found = {place(row): cast("int", row["Offset"]) for row in given}
    expect(len(found) == len(given) <= PARTITIONS_MAX)
    return found


def positions(given: Rows) -> dict[TopicPartition, At]:
    """The positions that a member commits, each with its tenure.

    Raises:
        BadRequest: as of `places`, or a number is negative.
    """
    found = offsets(given)
    expect(all(row["Offset"] >= 0 and row["Tenure"] >= 0 for row in given))
    return {place(row): At(row["Tenure"], found[place(row)]) for row in given}


def register_request(request: RpcRequest, connection: int) -> Registration:
    """The registration in a Register request of version 1.

    Raises:
        BadRequest: it holds partitions without a generation, or a field is not valid.
    """
    generation = number(request, "Generation")
    topics, static = texts(request, "Topics"), places(rows(request, "Static"))
    held = places(rows(request, "Held"))
    expect(generation >= NEW_MEMBER and not (held and generation == NEW_MEMBER))
    expect_names(topics)
    expect(max(len(topics), len(static)) <= WISHES_MAX, ErrorCode.GROUP_MAX_SIZE_REACHED)
    return Registration(
        text(request, "ConsumerId"),
        connection,
        None if generation == NEW_MEMBER else generation,
        held,
        positions(rows(request, "Positions")),
        client_id(request),
        frozenset(topics),
        static,
    )


def expect_settings(request: RpcRequest) -> None:
    """Refuse a CreateGroup whose settings no group can have.

    Raises:
        BadRequest: one of them is none.
    """
    is_allowed = number(request, "SessionTimeout") >= SESSION_TIMEOUT_MIN_MS
    is_allowed = is_allowed and number(request, "SessionTimeout") <= SESSION_TIMEOUT_MAX_MS
    expect(is_allowed, ErrorCode.INVALID_SESSION_TIMEOUT)
    topics = texts(request, "Topics")
    expect_names(topics)
    expect(len(topics) <= WISHES_MAX, ErrorCode.GROUP_MAX_SIZE_REACHED)
    if request.version > 0:
        expect(text(request, "Rebalance") in {each.value for each in Rebalance})
        expect(text(request, "Strategy") in STRATEGIES)


def created(request: RpcRequest, counts: Mapping[str, Topic]) -> GroupCreated:
    """The group that a CreateGroup asks for. Version 0 is incremental, sticky, not ephemeral.

    Raises:
        BadRequest: one of its topics does not exist, or they have too many partitions.
    """
    topics = {name: counts[name] for name in sorted(set(texts(request, "Topics")))}
    is_there = all(topic.count > 0 for topic in topics.values())
    expect(is_there, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    total = sum(topic.count for topic in topics.values())
    expect(total <= PARTITIONS_MAX, ErrorCode.GROUP_MAX_SIZE_REACHED)
    is_wide = request.version > 0
    return GroupCreated(
        number(request, "SessionTimeout"),
        topics,
        Rebalance(text(request, "Rebalance")) if is_wide else Rebalance.INCREMENTAL,
        text(request, "Strategy") if is_wide else "sticky",
        bool(number(request, "Ephemeral")) if is_wide else False,
    )


def is_same(request: RpcRequest, group: Group) -> bool:
    """A group has the settings that a CreateGroup asks for, as far as its version names them."""
    named: tuple[object, ...] = number(request, "SessionTimeout"), {*texts(request, "Topics")}
    has: tuple[object, ...] = group.session_timeout_ms, {*group.topics}
    if request.version > 0:
        named += text(request, "Rebalance"), text(request, "Strategy")
        named += (bool(number(request, "Ephemeral")),)
        has += group.rebalance.value, group.strategy, group.ephemeral
    return named == has


def client_id(request: RpcRequest) -> str:
    """The ClientId, cut where it is too long for a record."""
    return request.client_id[:NAME_BYTES_MAX]


# --- answers --------------------------------------------------------------------------------------


def answered(request: RpcRequest, **body: Value) -> RpcAnswer:
    """An answer; fields that the version does not have are left out."""
    fields = {each.name for each in request.api.answer if each.since <= request.version}
    mine: Body = {name: value for name, value in body.items() if name in fields}
    return RpcAnswer(request.api, request.version, request.correlation_id, mine)


def narrow(given: Rows) -> list[Value]:
    """These partitions in the form of version 0."""
    return [
        {name: row[name] for name in ("Topic", "Partition", "Offset", "ErrorCode") if name in row}
        for row in given
        if row["Partition"] <= NARROW_MAX
    ]


def register_answer(request: RpcRequest, group: Group, own: list[TopicPartition]) -> RpcAnswer:
    """The partitions that a member shall own. Spec: AnswerTo."""
    wide: Rows = [
        {
            "Topic": tp.topic,
            "Partition": tp.partition,
            "Offset": group.partitions[tp].position,
            "Tenure": group.partitions[tp].tenure,
        }
        for tp in own
    ]
    return answered(
        request,
        ClientId=request.client_id,
        ConsumerGroup=text(request, "ConsumerGroup"),
        PartitionsToOwn=narrow(wide),
        ErrorCode=ErrorCode.NONE,
        Generation=group.generation,
        SessionTimeout=group.session_timeout_ms,
        PartitionsToOwnV1=cast("Value", wide),
    )


def heartbeat_answer(request: RpcRequest, group: Group, code: ErrorCode) -> RpcAnswer:
    """Whether something has changed."""
    return answered(request, ControllerGeneration=group.generation, ErrorCode=code)


def commit_answer(
    request: RpcRequest, group: Group, codes: Mapping[TopicPartition, ErrorCode]
) -> RpcAnswer:
    """The result for each position, and the partition's current one."""
    wide: Rows = []
    for tp, code in codes.items():
        partition = group.partitions.get(tp)
        offset = -1 if partition is None else partition.position
        row = {"Topic": tp.topic, "Partition": tp.partition, "Offset": offset, "ErrorCode": code}
        wide.append(row)
    return answered(
        request,
        Positions=narrow(wide),
        ErrorCode=ErrorCode.NONE,
        PositionsV1=cast("Value", wide),
    )


def rewind_answer(request: RpcRequest, to: Mapping[TopicPartition, int]) -> RpcAnswer:
    """Where partitions were set to."""
    wide: Rows = [
        {"Topic": tp.topic, "Partition": tp.partition, "Offset": offset}
        for tp, offset in to.items()
    ]
    return answered(
        request,
        ConsumerGroup=text(request, "ConsumerGroup"),
        ActualOffsets=narrow(wide),
        ErrorCode=ErrorCode.NONE,
        ActualOffsetsV1=cast("Value", wide),
    )


def delete_answer(request: RpcRequest, codes: Mapping[str, ErrorCode]) -> RpcAnswer:
    """Which groups were deleted, and of the others why not."""
    failed = [(name, code) for name, code in codes.items() if code is not ErrorCode.NONE]
    errors: Rows = [{"ConsumerGroup": name, "ErrorCode": code} for name, code in failed]
    deleted = [name for name, code in codes.items() if code is ErrorCode.NONE]
    return answered(
        request,
        DeletedConsumerGroups=cast("Value", deleted),
        ErrorCode=failed[0][1] if failed else ErrorCode.NONE,
        Errors=cast("Value", errors),
    )


def create_answer(request: RpcRequest, view: Controllership) -> RpcAnswer:
    """The group exists; the answer names its controller."""
    return answered(
        request,
        ConsumerGroup=text(request, "ConsumerGroup"),
        ErrorCode=ErrorCode.NONE,
        ControllerBroker=broker(view),
    )


def broker(view: Controllership) -> Body:
    """The controller of a partition; -1, '' and 0 before the first start."""
    if view.controller_id is None or view.host is None:
        return {"BrokerId": -1, "Host": "", "Port": 0}
    return {"BrokerId": view.controller_id, "Host": view.host, "Port": view.port}


def state_of(group: Group) -> str:
    """The state of a group, by Kafka's names."""
    if not group.members:
        return "Empty"
    if is_due(group):
        return "Assigning"
    is_moving = any(each.revoking for each in group.partitions.values())
    return "Reconciling" if is_moving else "Stable"


def list_answer(
    request: RpcRequest,
    groups: Iterable[tuple[str, Group, Controllership, ErrorCode]],
    code: ErrorCode,
) -> RpcAnswer:
    """Describe groups: of each its name, itself, its partition of the log, and a code.

    Members look for their controller all at once when it dies, so that answer must cost little.
    """
    described: list[Value] = []
    in_detail: list[Value] = []
    describes = request.version == 0 or bool(number(request, "Describe"))
    for name, group, view, own_code in groups:
        described.append(
            {
                "GroupName": name,
                "GroupMembers": cast("Value", sorted(group.members) if describes else []),
                "Topics": cast("Value", sorted(group.topics)),
                "ControllerBroker": broker(view),
                "SessionTimeout": group.session_timeout_ms,
            }
        )
        owners: list[Value] = [
            {
                "Topic": tp.topic,
                "Partition": tp.partition,
                "ConsumerId": each.owner or "",
                "Tenure": each.tenure,
                "Offset": each.position,
            }
            for tp, each in sorted(group.partitions.items() if describes else ())
        ]
        in_detail.append(
            {
                "Generation": group.generation,
                "State": state_of(group) if describes else "",
                "ErrorCode": own_code,
                "Owners": owners,
                "Port": view.port,
            }
        )
    return answered(
        request,
        ClientId=request.client_id,
        GroupsInfo=described,
        ErrorCode=code,
        GroupsInfoV1=in_detail,
    )

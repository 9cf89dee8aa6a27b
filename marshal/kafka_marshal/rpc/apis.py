"""The table of requests and answers: the fields of each, by version.

Version 0 is Kafka's document "Client Rewrite Design" (the re-design for 0.9) to the byte. Version 1
keeps every byte of version 0 and adds fields at the end. A list with more content in version 1 is
repeated there, with its name and `V1`. The document has neither CommitOffsets nor
DeregisterConsumer: they are ours.

This module does not know how bytes are decoded, nor what a controller does.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from attrs import frozen

from kafka_marshal.rpc.fields import (
    BOOLEAN,
    ERROR_CODE,
    INT16,
    INT32,
    INT64,
    PORT,
    STRING,
    Array,
    RpcField,
    struct,
)


@frozen
class Api:
    """One kind of request, and its answer."""

    key: int
    name: str
    server: str
    """The server that accepts it."""
    about: str
    request: tuple[RpcField, ...]
    """The fields after Version, CorrelationId and ClientId."""
    answer: tuple[RpcField, ...]
    """The fields after Version and CorrelationId."""
    versions: range = range(2)

    @property
    def newest(self) -> int:
        """The highest version."""
        return self.versions[-1]


_CLIENT: Final = RpcField("ClientId", STRING, "the one of the request")
_GROUP: Final = RpcField("ConsumerGroup", STRING)
_CODE: Final = RpcField("ErrorCode", ERROR_CODE)
_TOPIC: Final = RpcField("Topic", STRING)
_NARROW: Final = RpcField("Partition", INT16)
_WIDE: Final = RpcField("Partition", INT32)
_OFFSET: Final = RpcField("Offset", INT64)
_TENURE: Final = RpcField("Tenure", INT64)
_CONSUMER: Final = RpcField("ConsumerId", STRING)
_PLACES: Final = Array(struct(_TOPIC, _WIDE))
_NARROW_OFFSETS: Final = Array(struct(_TOPIC, _NARROW, _OFFSET))
_WIDE_OFFSETS: Final = Array(struct(_TOPIC, _WIDE, _OFFSET))
_POSITIONS: Final = Array(struct(_TOPIC, _WIDE, _OFFSET, _TENURE))
_BROKER: Final = (RpcField("BrokerId", INT32, empty=-1), RpcField("Host", STRING))

APIS: Final = (
    Api(
        0,
        "ListGroups",
        "any",
        "Describe groups, and name the controller of each.",
        request=(
            RpcField("ConsumerGroups", Array(STRING), "which groups; an empty list for all"),
            RpcField(
                "Describe",
                BOOLEAN,
                "0: GroupMembers, State and Owners are empty; enough to find a controller",
                since=1,
            ),
        ),
        answer=(
            _CLIENT,
            RpcField(
                "GroupsInfo",
                Array(
                    struct(
                        RpcField("GroupName", STRING),
                        RpcField("GroupMembers", Array(STRING)),
                        RpcField("Topics", Array(STRING)),
                        RpcField("ControllerBroker", struct(*_BROKER, RpcField("Port", PORT))),
                        RpcField("SessionTimeout", INT64),
                    )
                ),
                "a group without a controller has the broker -1, '', 0; SessionTimeout is in ms",
            ),
            _CODE,
            RpcField(
                "GroupsInfoV1",
                Array(
                    struct(
                        RpcField("Generation", INT64),
                        RpcField("State", STRING),
                        RpcField("ErrorCode", ERROR_CODE),
                        RpcField(
                            "Owners",
                            Array(struct(_TOPIC, _WIDE, _CONSUMER, _TENURE, _OFFSET)),
                        ),
                        RpcField("Port", INT32),
                    )
                ),
                "one for each of GroupsInfo, in the same order",
                since=1,
            ),
        ),
    ),
    Api(
        1,
        "CreateGroup",
        "any",
        "Create a group. The same settings once again change nothing.",
        request=(
            _GROUP,
            RpcField("SessionTimeout", INT64, "in ms, from 1 s to 30 min"),
            RpcField("Topics", Array(STRING)),
            RpcField("Ephemeral", BOOLEAN, "whether it is deleted with its last member", since=1),
            RpcField("Rebalance", STRING, "`incremental` or `eager`", since=1),
            RpcField("Strategy", STRING, "`range`, `round_robin` or `sticky`", since=1),
        ),
        answer=(
            _GROUP,
            _CODE,
            RpcField(
                "ControllerBroker",
                struct(*_BROKER, RpcField("Port", INT32)),
                "the document's text has it, its table has not",
                since=1,
            ),
        ),
    ),
    Api(
        2,
        "DeleteGroup",
        "controller",
        "Delete groups that have no members.",
        request=(RpcField("ConsumerGroup", Array(STRING), "a list, under this name"),),
        answer=(
            RpcField("DeletedConsumerGroups", Array(STRING)),
            RpcField("ErrorCode", ERROR_CODE, "of the first that was not deleted"),
            RpcField("Errors", Array(struct(_GROUP, _CODE)), "those that were not", since=1),
        ),
    ),
    Api(
        3,
        "RegisterConsumer",
        "controller",
        "Join a group, change wishes, or let go of partitions.",
        request=(
            _GROUP,
            _CONSUMER,
            RpcField("Generation", INT64, "of the last answer; -1 for a new member", since=1),
            RpcField("Topics", Array(STRING), "topics whose partitions it shares", since=1),
            RpcField("Static", _PLACES, "partitions that it asks for by name", since=1),
            RpcField("Held", _PLACES, "partitions that it has not let go", since=1),
            RpcField("Positions", _POSITIONS, "what it commits", since=1),
        ),
        answer=(
            _CLIENT,
            _GROUP,
            RpcField("PartitionsToOwn", _NARROW_OFFSETS, "Offset -1 where nothing is committed"),
            _CODE,
            RpcField("Generation", INT64, since=1, empty=-1),
            RpcField("SessionTimeout", INT64, "in ms", since=1),
            RpcField("PartitionsToOwnV1", _POSITIONS, since=1),
        ),
    ),
    Api(
        4,
        "Heartbeat",
        "controller",
        "Prolong the session, and ask whether something has changed.",
        request=(
            RpcField("SessionTimeout", INT64, "not used"),
            RpcField("ConsumerGroup", STRING, since=1),
            RpcField("ConsumerId", STRING, since=1),
            RpcField("Generation", INT64, "of the last answer to RegisterConsumer", since=1),
            RpcField(
                "MaxWaitMs",
                INT32,
                "how long its answer may wait for a change; the first over a connection never does",
                since=1,
            ),
        ),
        answer=(
            RpcField("ControllerGeneration", INT64, "the group's generation", empty=-1),
            RpcField("ErrorCode", ERROR_CODE, "27 asks the member to register"),
        ),
    ),
    Api(
        5,
        "RewindConsumer",
        "controller",
        "Set positions, while members consume.",
        request=(
            _GROUP,
            RpcField("NewOffsets", _NARROW_OFFSETS),
            RpcField(
                "NewOffsetsV1", _WIDE_OFFSETS, "Offset -1 for latest, -2 for earliest", since=1
            ),
        ),
        answer=(
            _GROUP,
            RpcField("ActualOffsets", _NARROW_OFFSETS),
            _CODE,
            RpcField("ActualOffsetsV1", _WIDE_OFFSETS, since=1),
        ),
    ),
    Api(
        6,
        "CommitOffsets",
        "controller",
        "Commit positions of partitions that a member owns.",
        request=(
            _GROUP,
            RpcField("Positions", _NARROW_OFFSETS, "of the tenures last named on this connection"),
            RpcField("ConsumerId", STRING, since=1),
            RpcField("PositionsV1", _POSITIONS, since=1),
        ),
        answer=(
            RpcField("Positions", Array(struct(_TOPIC, _NARROW, _OFFSET, _CODE))),
            _CODE,
            RpcField("PositionsV1", Array(struct(_TOPIC, _WIDE, _OFFSET, _CODE)), since=1),
        ),
    ),
    Api(
        7,
        "DeregisterConsumer",
        "controller",
        "Leave a group, with a last commit.",
        request=(
            RpcField("ConsumerGroup", STRING, since=1),
            RpcField("ConsumerId", STRING, since=1),
            RpcField("Positions", _POSITIONS, since=1),
        ),
        answer=(RpcField("ErrorCode", ERROR_CODE, since=1),),
        versions=range(1, 2),
    ),
)
"""Every api, by its key."""

BY_KEY: Final[Mapping[int, Api]] = MappingProxyType({api.key: api for api in APIS})
BY_NAME: Final[Mapping[str, Api]] = MappingProxyType({api.name: api for api in APIS})


def fields_of(fields: tuple[RpcField, ...], version: int) -> tuple[RpcField, ...]:
    """Those of the fields that a version has."""
    return tuple(each for each in fields if each.since <= version)

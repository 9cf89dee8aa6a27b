"""The error codes of answers: Kafka's numbers under Kafka's names (kafka-clients 4.1.0).

This module does not know which request gets which code.
"""

from __future__ import annotations

from enum import IntEnum


class ErrorCode(IntEnum):
    """Why a request was not carried out, or that it was."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    UNKNOWN_TOPIC_OR_PARTITION = 3
    REQUEST_TIMED_OUT = 7
    MESSAGE_TOO_LARGE = 10
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    GROUP_AUTHORIZATION_FAILED = 30
    UNSUPPORTED_VERSION = 35
    INVALID_REQUEST = 42
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    THROTTLING_QUOTA_EXCEEDED = 89


MEANINGS = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "The controller failed; its log says how.",
    ErrorCode.NONE: "It was carried out.",
    ErrorCode.OFFSET_OUT_OF_RANGE: "The partition does not hold this offset.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "There is no such topic or partition.",
    ErrorCode.REQUEST_TIMED_OUT: "It is not known whether it was carried out.",
    ErrorCode.MESSAGE_TOO_LARGE: "It is larger than the log takes.",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "The controller still reads the log: ask again.",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The group has no controller now: ask again.",
    ErrorCode.NOT_COORDINATOR: "This server is not the group's controller: ask ListGroups.",
    ErrorCode.ILLEGAL_GENERATION: "The partition is another member's, or of a later tenure.",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "The group exists with other settings.",
    ErrorCode.INVALID_GROUP_ID: "This is no name of a group.",
    ErrorCode.UNKNOWN_MEMBER_ID: "This is no member of the group: register.",
    ErrorCode.INVALID_SESSION_TIMEOUT: "The session timeout is not between 1 s and 30 min.",
    ErrorCode.REBALANCE_IN_PROGRESS: "Something that concerns this member has changed: register.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "This client may not use the group.",
    ErrorCode.UNSUPPORTED_VERSION: "The version is unknown, or cannot express the answer.",
    ErrorCode.INVALID_REQUEST: "The request is malformed.",
    ErrorCode.NON_EMPTY_GROUP: "The group has members.",
    ErrorCode.GROUP_ID_NOT_FOUND: "There is no such group.",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "The group has as many members or partitions as it can.",
    ErrorCode.FENCED_INSTANCE_ID: "This member has registered over another connection.",
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: "There are too many connections: wait.",
}
"""The meaning of each for a client."""

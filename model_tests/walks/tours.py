"""Walks written by hand that go everywhere, so that it does not depend on chance who was where.

What random walks draw depends on more than their seed: Hypothesis looks at the modules that the
process has loaded. A tour says of every move what comes of it: the guard of the machine that
refuses, what the record did, or nothing but the action itself. Together they get to every guard of
the reducer and of the machines. One is left out, because walks never ask it (`NotNext`: a walk
processes the next message and no other).
"""

from __future__ import annotations

from typing import Final

import attrs

from kafka_marshal.core.messages import (
    NO_HEADERS,
    NOT_DECIMAL,
    ClaimingMessages,
    ClaimingPartition,
    Headers,
    Heartbeat,
    Offset,
    Partition,
    ReleasingPartition,
)
from kafka_marshal.machines.consumer.effects import Send
from model_tests.walks.moves import Move, Setting

CLAIM: Final = "g/t/0"


@attrs.frozen
class Tour:
    """One walk: its setting, and each move with what comes of it."""

    name: str
    setting: Setting
    moves: tuple[tuple[Move, str], ...]


def _does(action: str, who: str = "", number: int = 0) -> Move:
    """A move about the one claim of all tours."""
    return Move(action, who, "" if action == "Tick" else CLAIM, number)


def _asked(who: str) -> tuple[tuple[Move, str], ...]:
    """It asks for the claim, and the record lands."""
    request = "SendClaimingPartition"
    return (_does(request, who), request), (_does("Append", who), "Claimed")


def _beat(who: str, client: str, offset: int, headers: Headers = NO_HEADERS) -> Move:
    message = Heartbeat(1, 0, who, client, "g", "t", Partition(0), Offset(offset))
    return Move("SendAnything", claim=CLAIM, sent=Send(message, headers))


def _said(
    kind: type[ClaimingMessages | ReleasingPartition], who: str, offset: int, headers: Headers
) -> Move:
    message = kind(1, 0, who, "a", "g", "t", Partition(0), Offset(offset))
    return Move("SendAnything", claim=CLAIM, sent=Send(message, headers))


def _request(who: str, client: str, version: int = 1) -> Move:
    message = ClaimingPartition(version, 0, who, client, "g", "t", Partition(0))
    return Move("SendAnything", claim=CLAIM, sent=Send(message, NO_HEADERS))


AT_MOST_ONCE: Final = Setting(at_most_once=("g",), batch=2)
AT_LEAST_ONCE: Final = Setting(window=1)

TOURS: Final = (
    Tour(
        "what one that consumes at most once is refused",
        AT_MOST_ONCE,
        (
            (_does("SendReleaseGroup", "a1", 1), "not_admin"),
            (_does("SendClaimingPartition", "admin1"), "nothing_paused"),
            (_does("GiveUp", "a1"), "nothing_asked"),
            (_does("SendHeartbeat", "a1"), "not_owner"),
            (_does("ProcessGrant", "a1"), "not_granted"),
            (_does("SendClaimingPartition", "a1"), "SendClaimingPartition"),
            (_does("SendClaimingPartition", "a1"), "awaits_read_back"),
            (_does("AppendCopy", "a1"), "Claimed"),
            (_does("Append", "a1"), "Reclaimed"),
            (_does("Read", "a1", 2), "Read"),
            (_does("SendClaimingPartition", "a1"), "already_owner"),
            (_does("Process", "a1"), "not_at_least_once"),
            (_does("SendClaimingMessages", "a1", 0), "nothing_ahead"),
            (_does("SendClaimingMessages", "a1", 3), "beyond_batch"),
            (_does("SendClaimingMessages", "a1", 2), "SendClaimingMessages"),
            (_does("AppendCopy", "a1"), "Granted"),
            (_does("Append", "a1"), "NotAhead"),
            (_does("Read", "a1", 2), "Read"),
            (_does("ProcessGrant", "a1"), "ProcessGrant"),
            (_does("SendHeartbeat", "a1"), "SendHeartbeat"),
            (_does("Lose", "a1"), "Lose"),
            (_does("SendReleasingPartition", "a1"), "SendReleasingPartition"),
            (_does("SendHeartbeat", "a1"), "resigned"),
            (_does("Append", "a1"), "Released"),
            (_does("SendReleaseGroup", "admin1", 60), "SendReleaseGroup"),
            (_does("Append", "admin1"), "GroupReleased"),
            (_does("SendClaimingPartition", "b1"), "SendClaimingPartition"),
            (_does("Append", "b1"), "IsPaused"),
            (_does("Read", "admin1", 9), "Read"),
            *_asked("admin1"),
            (_does("Read", "admin1", 9), "Read"),
            (_does("SendReleasingPartition", "admin1", 1), "SendReleasingPartition"),
            (_does("Append", "admin1"), "PositionSet"),
            (_does("GiveUp", "b1"), "GiveUp"),
        ),
    ),
    Tour(
        "what one that begins late cannot know",
        AT_MOST_ONCE,
        (
            *_asked("a1"),
            (_does("Join", "b", 1), "Join"),
            (Move("SendClaimingPartition", "b2", CLAIM), "claim_unknown"),
            (_does("SendClaimingPartition", "b1"), "SendClaimingPartition"),
            (_does("Append", "b1"), "LiveOwner"),
            (_does("Tick", number=70_000), "Tick"),
            (_does("Read", "b1", 2), "Read"),
            (_does("SendClaimingPartition", "b1"), "SendClaimingPartition"),
            (_does("Append", "b1"), "TookOver"),
            (_does("Read", "b2", 2), "Read"),
            (_does("SendClaimingPartition", "b2"), "position_unknown"),
        ),
    ),
    Tour(
        "two of one client, at least once",
        AT_LEAST_ONCE,
        (
            *_asked("a1"),
            (_does("Read", "a1", 1), "Read"),
            (_does("SendClaimingMessages", "a1", 1), "not_at_most_once"),
            (_does("Process", "a1"), "Process"),
            (_does("Process", "a1"), "beyond_window"),
            (_does("SendHeartbeat", "a1"), "SendHeartbeat"),
            (_does("Append", "a1"), "Refreshed"),
            (_does("Stall", "a1"), "Stall"),
            (_does("Join", "a"), "Join"),
            (_does("SendClaimingPartition", "a2"), "SendClaimingPartition"),
            (_does("Append", "a2"), "DoesNotSupersede"),
            (_does("Read", "a2", 9), "Read"),
            (_does("SendClaimingPartition", "a2"), "SendClaimingPartition"),
            (_does("Append", "a2"), "Restarted"),
            (_does("Resume", "a1"), "Resume"),
            (_does("SendHeartbeat", "a1"), "SendHeartbeat"),
            (_does("Append", "a1"), "Superseded"),
            (_does("Read", "a1", 9), "Read"),
            (_does("SendHeartbeat", "a1"), "stopped"),
            (_does("StepBack", number=1), "StepBack"),
            (_does("Crash", "a1"), "Crash"),
            (_does("Crash", "a2"), "Crash"),
            (_does("Restart", "a"), "Restart"),
        ),
    ),
    Tour(
        "originals and liars",
        AT_LEAST_ONCE,
        (
            (_request("x1", "a", version=7), "UnknownVersion"),
            (_beat("x1", "a", 0), "NobodyOwns"),
            (_request("x1", "a"), "Claimed"),
            (_beat("x2", "b", 1), "NotOwner"),
            (_beat("x2", "a", 1), "FastReclaimed"),
            (_beat("x2", "a", 1, Headers(True, epoch=99)), "HeaderFromTheFuture"),
            (_beat("x2", "a", 1, Headers(True, epoch=NOT_DECIMAL)), "HeaderNotDecimal"),
            (_beat("x2", "a", 1, Headers(True, epoch=5)), "LogLostRecords"),
            (_beat("x1", "a", 1, Headers(True, epoch=4)), "Forged"),
            (_beat("x1", "a", 1, Headers(True, epoch=2)), "Superseded"),
            (
                _said(ReleasingPartition, "x2", -1, Headers(True, epoch=4, set_position=-1)),
                "NegativePosition",
            ),
            (_said(ReleasingPartition, "x2", 1, NO_HEADERS), "Released"),
            *_asked("a1"),
            (_said(ClaimingMessages, "a1", 2, NO_HEADERS), "EpochMissing"),
        ),
    ),
)

"""What a walk is made of: a setting and a list of moves, both plain data.

They are written as Python, so that what Hypothesis found can be pasted into a test. A move says
everything about itself: the same list played twice is the same walk. This room does not know what a
move does (`simulation` does).
"""

from __future__ import annotations

import functools
import re
from typing import Final

import attrs

from kafka_marshal import FENCED, Rules
from kafka_marshal.codec import coordinating_partition
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.machines.consumer.consumer import Mode
from kafka_marshal.machines.consumer.effects import Send

RULES: Final[Rules] = attrs.evolve(
    FENCED, heartbeat_interval_ms=1_000, pause_max_ms=60_000, clock_rewind_max_ms=1_000
)
"""Those of the whiteboard stories, so that a walk's story can be put beside them."""

ADMIN: Final = "admin"
"""The client id of the administrator, of every group."""
STRANGERS: Final = ("x1", "x2")
"""Instance ids that only strangers use."""


def key_of(claim: str) -> ClaimKey:
    """`g/t/0` as the claim that it names."""
    group, topic, partition = claim.split("/")
    return ClaimKey(group, topic, int(partition))


@attrs.frozen(repr=False)
class Setting:
    """What is there before the first move: claims, and the consumers that want them."""

    claims: tuple[str, ...] = ("g/t/0",)
    """Group, topic, topic partition."""
    at_most_once: tuple[str, ...] = ()
    """Groups that consume at most once; the others at least once."""
    window: int = 1
    batch: int = 2
    partitions: int = 2
    """Coordinating partitions."""
    messages: int = 6
    """Of every topic partition, 0 .. messages - 1 can be consumed."""

    @functools.cached_property
    def clients(self) -> dict[str, str | None]:
        """Client id -> its group; two to a group. The administrator belongs to none."""
        groups = dict.fromkeys(key_of(claim).group for claim in self.claims)
        letters = iter("abcdefgh")
        return {next(letters): group for group in groups for _ in range(2)} | {ADMIN: None}

    def mode(self, group: str | None) -> Mode:
        """How a group consumes."""
        return Mode.AT_MOST_ONCE if group in self.at_most_once else Mode.AT_LEAST_ONCE

    def wanted_by(self, client_id: str) -> tuple[str, ...]:
        """The claims that a client has to do with."""
        group = self.clients[client_id]
        return tuple(c for c in self.claims if group is None or key_of(c).group == group)

    def partition_of(self, claim: str) -> int:
        """The coordinating partition of a claim."""
        return coordinating_partition(key_of(claim).topic, self.partitions)

    def __repr__(self) -> str:
        return _literal(self)


@attrs.frozen(repr=False)
class Move:
    """One action of the environment. Names are those of `Marshal.tla`, but for `StepBack`."""

    action: str
    who: str = ""
    """An instance id; for Restart and Join a client id; nobody for Tick, StepBack, SendAnything."""
    claim: str = ""
    """For Read and StepBack: whose coordinating partition."""
    number: int = 0
    """ClaimingMessages: everything below. An administrator's release: the position. ReleaseGroup:
    seconds. Append, AppendCopy, Lose: the place in the outbox. Read: how many records. Restart,
    Join: how many records of the head are missing. Tick, StepBack: milliseconds."""
    sent: Send | None = None
    """What SendAnything appends."""

    def __repr__(self) -> str:
        return _literal(self, positional=("action", "who", "claim", "number"))


def _literal(value: attrs.AttrsInstance, positional: tuple[str, ...] = ()) -> str:
    """As it would be typed: defaults are left out, names once one was."""
    parts, gap = [], False
    for field in attrs.fields(type(value)):
        given = getattr(value, field.name)
        if given == field.default:
            gap = True
        elif field.name in positional and not gap:
            parts.append(repr(given))
        else:
            parts.append(f"{field.name}={_typed(repr(given))}")
    return f"{type(value).__name__}({', '.join(parts)})"


def _typed(text: str) -> str:
    """The distinct integers of a message by their types, as they must be typed."""
    return re.sub(r"\b(offset|partition)=(-?\d+)", lambda m: f"{m[1]}={m[1].title()}({m[2]})", text)

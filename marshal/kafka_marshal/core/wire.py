"""The wire format as a table: how each message and each header is written, field by field.

    TYPE/version/unix_s/instance_id/client_id/group_id/topic/partition[/number]

The codec reads and writes by this table, the kernel's parser compiles it, and the filter of long
logs uses it to find the claim that a value is about. This module knows neither bytes nor the effect
of a message.
"""

from __future__ import annotations

from typing import Final, get_args

from attrs import fields

from kafka_marshal.core.messages import AMENDMENTS, Message
from kafka_marshal.core.values import value

TIME: Final = ("version", "unix_s")
"""The first fields after the type."""
ADDRESS: Final = ("instance_id", "client_id", "group_id", "topic", "partition")
"""The fields after those: the sender, and the claim."""


@value
class Layout:
    """The layout of one message."""

    message: type[Message]
    """Its class, whose name is the type."""
    number: str | None
    """The field after the address: a 64-bit number. None if there is none."""
    keyed: bool
    """Whether it names a claim. If not, topic and partition are written as "" and 0."""

    @property
    def name(self) -> str:
        """The first field."""
        return self.message.__name__


def _layout(message: type[Message]) -> Layout:
    """The layout from the fields of its class, after those that every message has."""
    names = [field.name for field in fields(message)]
    [number] = names[len(TIME) + len(ADDRESS) :] or [None]
    return Layout(message, number, keyed=hasattr(message, "key"))


MESSAGES: Final = tuple(map(_layout, get_args(Message)))
"""Every message; its index is its number in the kernel. Nearly all records are of the first type.
"""

BY_NAME: Final = {layout.name: layout for layout in MESSAGES}
BY_CLASS: Final = {layout.message: layout for layout in MESSAGES}


def number_of(message: type[Message]) -> int:
    """The index of a message in `MESSAGES`."""
    return MESSAGES.index(BY_CLASS[message])


HEADER_PREFIX: Final = "marshal-"
MAC_HEADER: Final = "kafka-marshal-hmac"
"""The header that authenticates a record, as `key id:MAC`.

Its prefix differs on purpose. R1c, R2 and R9 ask whether a record has a header with
`HEADER_PREFIX`, in every version. So a reader that does not know this header does not count it."""


LEAST_INTERVAL_MS: Final = 1
"""With a shorter heartbeat interval, an owner would be stale at once."""


@value
class Header:
    """The layout of one header, whose value is decimal."""

    field: str
    """The field of `Headers`."""
    name: str
    least: int = 0
    """The lowest valid number."""

    @property
    def amends(self) -> bool:
        """Whether it was added after the first version that wrote headers: see `AMENDMENTS`."""
        return self.field in AMENDMENTS


HEADERS: Final = (
    Header("epoch", "marshal-epoch"),
    Header("seen", "marshal-seen"),
    Header("clock", "marshal-clock"),
    Header("supersedes", "marshal-supersedes"),
    Header("set_position", "marshal-set-position"),
    Header("interval_ms", "marshal-interval", least=LEAST_INTERVAL_MS),
    Header("start", "marshal-start"),
    Header("done", "marshal-done"),
)
"""Every header with a value, in the order of the fields of `Headers` after `present`."""

RANGE_HEADERS: Final = (
    Header("window", "marshal-ranges"),
    Header("done", "marshal-done"),
    Header("keep", "marshal-keep"),
)
"""The headers of ranges, in the order of the fields of `RangeHeaders`.

They have their own table, because `Headers` is what every version reads from a record.
`marshal-done` is in both: on any message, everything below it is processed."""
CHECKPOINT_HEADER: Final = "marshal-ranges-at"
"""On the anchor's heartbeat: the claim and its ranges as of `marshal-seen`. It is not decimal, and
no version refuses a record because of it."""
OF_RANGES: Final = frozenset({"marshal-ranges", "marshal-keep", CHECKPOINT_HEADER})
"""Headers that only a reader of ranges reads."""

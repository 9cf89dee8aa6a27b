"""The wire format as a table: how each message and each header is written, field by field.

    TYPE/version/unix_s/instance_id/client_id/group_id/topic/partition[/number]

The codec reads and writes by it, the kernel's parser compiles it, and the filter of long logs knows
by it which claim a value is about. It knows no bytes, and not what a message does.
"""

from __future__ import annotations

from typing import Final, get_args

from attrs import fields

from kafka_marshal.core.messages import AMENDMENTS, Message
from kafka_marshal.core.values import value

TIME: Final = ("version", "unix_s")
"""The fields after the type."""
ADDRESS: Final = ("instance_id", "client_id", "group_id", "topic", "partition")
"""The fields after those: who speaks, of which claim."""


@value
class Layout:
    """How one message is written."""

    message: type[Message]
    """Its class, whose name is its type."""
    number: str | None
    """The field after the address: a number of 64 bits. None: it has none."""
    keyed: bool
    """It names a claim. If not, topic and partition are written as "" and 0, and nothing else."""

    @property
    def name(self) -> str:
        """The first field."""
        return self.message.__name__


def _layout(message: type[Message]) -> Layout:
    """As the fields of its class stand, after those that every message has."""
    names = [field.name for field in fields(message)]
    [number] = names[len(TIME) + len(ADDRESS) :] or [None]
    return Layout(message, number, keyed=hasattr(message, "key"))


MESSAGES: Final = tuple(map(_layout, get_args(Message)))
"""Every message; its place is its number in the kernel. Nearly all records are of the first."""

BY_NAME: Final = {layout.name: layout for layout in MESSAGES}
BY_CLASS: Final = {layout.message: layout for layout in MESSAGES}


def number_of(message: type[Message]) -> int:
    """The place of a message in `MESSAGES`."""
    return MESSAGES.index(BY_CLASS[message])


HEADER_PREFIX: Final = "marshal-"
MAC_HEADER: Final = "kafka-marshal-hmac"
"""The header that authenticates a record, as `key id:MAC`.

It has another prefix on purpose. R1c, R2 and R9 ask whether a record has a header with
`HEADER_PREFIX`, in every version. So a reader that does not know this one sees none.
"""


LEAST_INTERVAL_MS: Final = 1
"""An owner of a shorter heartbeat interval would be stale at once."""


@value
class Header:
    """How one header is written: its value is decimal."""

    field: str
    """The field of `Headers`."""
    name: str
    least: int = 0
    """A lower number is malformed."""

    @property
    def amends(self) -> bool:
        """It came later than the first version that wrote headers: see `AMENDMENTS`."""
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
"""Every header that says something, in the order of the fields of `Headers` after `present`."""

RANGE_HEADERS: Final = (
    Header("window", "marshal-ranges"),
    Header("done", "marshal-done"),
    Header("keep", "marshal-keep"),
)
"""The headers of ranges, in the order of the fields of `RangeHeaders`.

They stand in a table of their own, because `Headers` is what every version reads of a record.
`marshal-done` is in both: everything below it is processed, wherever it stands.
"""
CHECKPOINT_HEADER: Final = "marshal-ranges-at"
"""On the anchor's heartbeat: the claim and its ranges as of `marshal-seen`. It is not decimal, and
no version refuses a record for it."""
OF_RANGES: Final = frozenset({"marshal-ranges", "marshal-keep", CHECKPOINT_HEADER})
"""Only a reader of ranges reads these."""

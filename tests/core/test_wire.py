"""The wire format as a table, which is made of the messages' classes."""

from kafka_marshal.core import wire
from kafka_marshal.core.messages import AMENDMENTS, ClaimingPartition, Heartbeat, ReleaseGroup


def test_each_message_is_written_with_its_number_and_the_claim_that_it_names() -> None:
    assert wire._layout(Heartbeat) == wire.Layout(Heartbeat, "offset", keyed=True)
    assert wire._layout(ClaimingPartition) == wire.Layout(ClaimingPartition, None, keyed=True)
    assert wire._layout(ReleaseGroup) == wire.Layout(ReleaseGroup, "expires_unix_s", keyed=False)
    assert [*map(wire._layout, wire.BY_CLASS)] == [*wire.MESSAGES]
    assert wire.number_of(Heartbeat) == 0


def test_a_header_says_whether_it_came_later() -> None:
    assert tuple(header.field for header in wire.HEADERS if header.amends) == AMENDMENTS

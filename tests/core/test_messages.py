"""Every message of the protocol: whether it is about one claim or about a group."""

import typing

import attrs
import pytest

from kafka_marshal import ClaimKey, ReleaseGroup
from kafka_marshal.core.messages import KeyedMessage, Message


@pytest.mark.parametrize("kind", typing.get_args(KeyedMessage))
def test_a_message_about_one_claim_names_it(kind: type[KeyedMessage]) -> None:
    address = [1, 0, "i1", "c1", "g", "t", 3]
    numbers = [0] * (len(attrs.fields(kind)) - len(address))
    message = typing.cast("typing.Any", kind)(*address, *numbers)
    assert message.key == ClaimKey("g", "t", 3)


def test_a_message_of_a_group_has_no_key() -> None:
    assert {*typing.get_args(Message)} - {*typing.get_args(KeyedMessage)} == {ReleaseGroup}
    assert not hasattr(ReleaseGroup, "key")

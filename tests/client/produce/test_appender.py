"""A test that appends fails where the broker does not take a record."""

import pytest

from tests.client.appender import Appender


def test_what_the_broker_did_not_take_fails_the_test() -> None:
    appender = Appender("127.0.0.1:1", message_timeout_ms=100)
    appender.produce("events", b"7", partition=0)
    with pytest.raises(AssertionError, match="events:0 did not take b'7': "):
        appender.append_all()

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_marshal.testing import Guard


def test_a_guard_is_as_strict_as_what_it_is_given() -> None:
    pem = Path("broker.pem")
    assert Guard({"alice": "secret"}).protocol == "SASL_PLAINTEXT"
    assert Guard(certificate=pem).protocol == "SSL"
    assert Guard({"alice": "secret"}, pem).protocol == "SASL_SSL"
    assert Guard().protocol == "PLAINTEXT"


def test_a_guard_shows_no_password() -> None:
    assert repr(Guard({"alice": "secret"})).startswith("Guard(users=alice,")


@pytest.mark.parametrize("password", ["", "a,b", "a]b", 'a"b', "a=b", "a[b", "a\\b"])
def test_a_password_that_kafkas_tool_would_read_as_something_else_is_refused(password: str) -> None:
    with pytest.raises(ValueError, match="user 'alice'") as refused:
        Guard({"alice": password})
    assert not password or password not in str(refused.value)


def test_clients_certificates_need_one_of_the_brokers() -> None:
    with pytest.raises(ValueError, match="clients_ca needs a certificate"):
        Guard(clients_ca=Path("ca.pem"))

from __future__ import annotations

from typing import Any

import pytest

from kafka_marshal.runtime.consumer import Consumer
from kafka_marshal.runtime.errors import InvalidOption
from kafka_marshal.runtime.settings import addresses


def consumer(bootstrap: Any) -> Consumer:
    return Consumer(bootstrap, group="g", client_id="c")


@pytest.mark.parametrize("brokers", ["a:1,b:2", ["a:1", "b:2"], ("a:1", "b:2")])
def test_a_list_of_brokers_is_a_bootstrap(brokers: object) -> None:
    assert addresses(brokers) == "a:1,b:2"


@pytest.mark.parametrize(
    ("brokers", "kind"), [({"sasl.password": "geheim"}, "dict"), ([1], "list"), (9092, "int")]
)
def test_what_is_no_bootstrap_is_refused_at_once_and_not_shown(brokers: object, kind: str) -> None:
    with pytest.raises(InvalidOption, match=f"not of type {kind}") as refused:
        consumer(brokers)
    assert "geheim" not in str(refused.value)

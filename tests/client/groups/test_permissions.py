"""Marshal promises that a client's certificate decides which groups it may use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafka_marshal.client.groups.permissions import (
    may_ask,
    permissions_of,
    without_others,
)
from kafka_marshal.errors import InvalidOption
from kafka_marshal.rpc.apis import BY_NAME
from kafka_marshal.rpc.codec import RpcAnswer, RpcRequest

TABLE = """
[[client]]
subject = {CN = "worker"}
groups = ["billing", "orders-*"]

[[client]]
subject = {O = "Example", OU = "Operations"}
groups = ["audit"]
"""


def certificate(**subject: str) -> dict[str, Any]:
    """As `ssl` gives it."""
    return {"subject": tuple(((name, text),) for name, text in subject.items())}


def request(api: str, **body: Any) -> RpcRequest:
    return RpcRequest(BY_NAME[api], 1, 1, "c", body)


def test_a_certificate_may_use_the_groups_of_every_client_that_it_is(tmp_path: Path) -> None:
    path = tmp_path / "table.toml"
    path.write_text(TABLE)
    permissions = permissions_of(path)
    both = certificate(
        commonName="worker", organizationName="Example", organizationalUnitName="Operations"
    )
    assert permissions.of(certificate(commonName="worker")) == ("billing", "orders-*")
    assert permissions.of(both) == ("billing", "orders-*", "audit")
    assert permissions.of(certificate(organizationName="Example")) == ()
    assert permissions.of({}) == ()


def test_a_request_may_name_no_group_of_others() -> None:
    groups = ("billing", "orders-*")
    assert may_ask(groups, request("RegisterConsumer", ConsumerGroup="orders-eu"))
    assert may_ask(groups, request("DeleteGroup", ConsumerGroup=["billing", "orders-"]))
    assert may_ask(groups, request("ListGroups", ConsumerGroups=[]))
    assert may_ask(groups, request("Heartbeat"))  # version 0: its Register was asked before
    assert not may_ask(groups, request("RegisterConsumer", ConsumerGroup="billing-2"))
    assert not may_ask(groups, request("DeleteGroup", ConsumerGroup=["billing", "audit"]))
    assert not may_ask(groups, request("ListGroups", ConsumerGroups=["audit"]))


def test_a_list_leaves_the_groups_of_others_out() -> None:
    infos = [{"GroupName": name} for name in ("audit", "billing")]
    body: Any = {"GroupsInfo": infos, "GroupsInfoV1": [{"State": "a"}, {"State": "b"}]}
    listed = without_others(("billing",), RpcAnswer(BY_NAME["ListGroups"], 1, 1, body)).body
    assert listed == {"GroupsInfo": [{"GroupName": "billing"}], "GroupsInfoV1": [{"State": "b"}]}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[client", "no TOML: "),
        ("", "it must hold tables [[client]], and nothing else"),
        ("clients = []", "it must hold tables [[client]], and nothing else"),
        ("[[client]]\ngroups = []", "client 1: it must have subject and groups, and nothing else"),
        ("[[client]]\nsubject = {}\ngroups = []", "client 1: subject must be like {CN = "),
        (
            '[[client]]\nsubject = {XN = "a"}\ngroups = []',
            "client 1: subject has XN, which is none of CN, O, OU, C, ST, L, DC, UID",
        ),
        (TABLE + '[[client]]\nsubject = {CN = "a"}\ngroups = "b"', "client 3: groups must be like"),
    ],
)
def test_a_table_that_says_something_else_is_refused(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "table.toml"
    path.write_text(text)
    with pytest.raises(InvalidOption) as caught:
        permissions_of(path)
    assert str(caught.value).startswith(f"--tls-permissions {path}: {said}")


def test_a_table_that_is_not_there_is_named() -> None:
    with pytest.raises(InvalidOption, match="--tls-permissions nowhere: No such file"):
        permissions_of(Path("nowhere"))

"""Which groups a client may use, by the subject of its certificate.

The table is a file. This module knows neither connections nor requests.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from pathlib import Path
from typing import Any, Final, cast

from attrs import evolve, frozen

from kafka_marshal.errors import InvalidOption
from kafka_marshal.rpc.codec import RpcAnswer, RpcRequest

Certificate = Mapping[str, Any]
"""A result of `ssl.SSLSocket.getpeercert`; empty without a certificate."""

ATTRIBUTES: Final[Mapping[str, str]] = {
    "CN": "commonName",
    "O": "organizationName",
    "OU": "organizationalUnitName",
    "C": "countryName",
    "ST": "stateOrProvinceName",
    "L": "localityName",
    "DC": "domainComponent",
    "UID": "userId",
}
"""Those of a subject that the table may name."""


@frozen
class Permission:
    """One client of the table."""

    subject: frozenset[tuple[str, str]]
    """Fields that the certificate's subject must have, by OpenSSL's names; others are ignored."""
    groups: tuple[str, ...]
    """Names of groups; a name that ends with * matches all with that prefix."""


@frozen
class Permissions:
    """The table."""

    clients: tuple[Permission, ...]

    def of(self, certificate: Certificate) -> tuple[str, ...]:
        """The groups that the holder of a certificate may use: all that its clients may."""
        held = {attribute for rdn in certificate.get("subject", ()) for attribute in rdn}
        return tuple(name for one in self.clients if one.subject <= held for name in one.groups)


def permissions_of(path: Path) -> Permissions:
    """Read the table.

    Raises:
        InvalidOption: it cannot be read, or is not valid; the message names the client.
    """
    where = f"--tls-permissions {path}"
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidOption(f"{where}: {error.strerror}") from None
    except ValueError as error:
        raise InvalidOption(f"{where}: no TOML: {error}") from None
    clients = table.pop("client", [])
    if table or not isinstance(clients, list) or not clients:
        raise InvalidOption(f"{where}: it must hold tables [[client]], and nothing else")
    return Permissions(
        tuple(_client(f"{where}: client {n}", one) for n, one in enumerate(clients, 1))
    )


def _client(where: str, given: object) -> Permission:
    if not isinstance(given, dict) or given.keys() != {"subject", "groups"}:
        raise InvalidOption(f"{where}: it must have subject and groups, and nothing else")
    subject, groups = given["subject"], given["groups"]
    if not isinstance(subject, dict) or not subject or not _are_texts(subject.values()):
        raise InvalidOption(f'{where}: subject must be like {{CN = "billing-1"}}')
    for name in subject.keys() - ATTRIBUTES.keys():
        raise InvalidOption(
            f"{where}: subject has {name}, which is none of {', '.join(ATTRIBUTES)}"
        )
    if not isinstance(groups, list) or not _are_texts(groups):
        raise InvalidOption(f'{where}: groups must be like ["billing", "orders-*"]')
    held = frozenset((ATTRIBUTES[name], text) for name, text in subject.items())
    return Permission(held, tuple(groups))


def _are_texts(values: Iterable[object]) -> bool:
    return all(isinstance(one, str) and one for one in values)


def may_use(groups: Sequence[str], group: str) -> bool:
    """Whether a group is among these.

    >>> may_use(["billing", "orders-*"], "orders-eu"), may_use(["billing"], "billing-2")
    (True, False)
    """
    return any(
        group.startswith(each[:-1]) if each.endswith("*") else group == each for each in groups
    )


def may_ask(groups: Sequence[str], request: RpcRequest) -> bool:
    """Whether all groups of a request are among these; a request without groups is allowed."""
    for field in ("ConsumerGroup", "ConsumerGroups"):
        named = cast("str | list[str]", request.body.get(field, []))
        names = [named] if isinstance(named, str) else named
        if not all(may_use(groups, name) for name in names):
            return False
    return True


def without_others(groups: Sequence[str], answer: RpcAnswer) -> RpcAnswer:
    """A list of groups without those that are not among these; any other answer as it is."""
    if answer.api.name != "ListGroups":
        return answer
    infos = cast("list[dict[str, Any]]", answer.body["GroupsInfo"])
    kept = [may_use(groups, info["GroupName"]) for info in infos]
    lists: dict[str, Any] = {
        name: list(compress(cast("list[Any]", answer.body[name]), kept))
        for name in ("GroupsInfo", "GroupsInfoV1")
        if name in answer.body
    }
    return evolve(answer, body={**answer.body, **lists})

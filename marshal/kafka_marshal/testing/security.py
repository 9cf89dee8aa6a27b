"""Authentication for a test broker: user passwords, client certificates; and its own certificate.

This module converts them to Kafka's settings. It makes no certificate.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from attrs import field, frozen

CLIENTS: Final = "CLIENTS"
"""The listener of all clients that are not brokers."""
_LOGIN: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


@frozen
class Guard:
    """The credentials that a client needs, and the broker's certificate; PEM files.

    With users it is SASL_PLAINTEXT, with a certificate SSL, with both SASL_SSL. Brokers connect to
    each other on a separate listener without authentication.
    """

    users: Mapping[str, str] = field(factory=dict, repr=lambda users: ", ".join(sorted(users)))
    """Passwords of users, who log in by SCRAM-SHA-256. Only set when a folder is formatted."""
    certificate: Path | None = None
    """The broker's own private key, in PKCS 8 and not encrypted, and its chain of certificates;
    it has to name 127.0.0.1."""
    clients_ca: Path | None = None
    """The authority that has signed clients' certificates. Then each client has to show one."""

    def __attrs_post_init__(self) -> None:
        if self.clients_ca is not None and self.certificate is None:
            raise ValueError("clients_ca needs a certificate: TLS begins with the broker's own")
        for name, password in self.users.items():
            if not name or not password or set(name + password) & set(',[]="\\'):
                raise ValueError(f'user {name!r}: a name and a password, without , [ ] = " \\')

    @property
    def protocol(self) -> str:
        """The `security.protocol` of a client."""
        transport = "PLAINTEXT" if self.certificate is None else "SSL"
        return f"SASL_{transport}" if self.users else transport

    def listeners(self, clients: int, brokers: int, controller: int) -> dict[str, str]:
        """A broker's settings for these ports."""
        mapped = f"{CLIENTS}:{self.protocol},BROKERS:PLAINTEXT,CONTROLLER:PLAINTEXT"
        seen = f"{CLIENTS}://127.0.0.1:{clients},BROKERS://127.0.0.1:{brokers}"
        settings = {
            "listener.security.protocol.map": mapped,
            "inter.broker.listener.name": "BROKERS",
            "listeners": f"{seen},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": seen,
        }
        here = f"listener.name.{CLIENTS.lower()}"
        if self.users:
            settings[f"{here}.sasl.enabled.mechanisms"] = "SCRAM-SHA-256"
            settings[f"{here}.scram-sha-256.sasl.jaas.config"] = _LOGIN
        if self.certificate is not None:
            settings[f"{here}.ssl.keystore.type"] = "PEM"
            settings[f"{here}.ssl.keystore.location"] = str(self.certificate)
        if self.clients_ca is not None:
            settings[f"{here}.ssl.client.auth"] = "required"
            settings[f"{here}.ssl.truststore.type"] = "PEM"
            settings[f"{here}.ssl.truststore.location"] = str(self.clients_ca)
        return settings

    def format_options(self) -> list[str]:
        """Options of `kafka.tools.StorageTool format` with which the users exist from the start."""
        users = self.users.items()
        options = [f"SCRAM-SHA-256=[name={name},password={password}]" for name, password in users]
        return [word for one in options for word in ("--add-scram", one)]

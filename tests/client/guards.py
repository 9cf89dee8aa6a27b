"""Brokers that let not everybody in, and what their clients need: certificates of a CA of ours."""

from __future__ import annotations

from pathlib import Path

import trustme
from attrs import frozen
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

ALICE = "alice-knows-this"
"""Her password."""


def key_and_chain(certificate: trustme.LeafCert, path: Path) -> Path:
    """Both in one file of PEM, the key as Kafka reads it: in PKCS 8."""
    key = load_pem_private_key(certificate.private_key_pem.bytes(), password=None)
    as_kafka_reads_it = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    chain = (part.bytes() for part in certificate.cert_chain_pems)
    path.write_bytes(as_kafka_reads_it + b"".join(chain))
    return path


def encrypted(key: Path, password: str, path: Path) -> Path:
    """The same private key, behind a password."""
    loaded = load_pem_private_key(key.read_bytes(), password=None)
    encryption = BestAvailableEncryption(password.encode())
    path.write_bytes(loaded.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
    return path


@frozen
class Papers:
    """Files: a CA that a broker and a client have in common, and one that nobody knows."""

    ca: Path
    broker: Path
    client: Path
    other_ca: Path
    stranger: Path
    """A client's certificate of the other CA."""


def papers(folder: Path) -> Papers:
    """Make them."""
    ours, other = trustme.CA(), trustme.CA()
    ours.cert_pem.write_to_path(str(folder / "ca.pem"))
    other.cert_pem.write_to_path(str(folder / "other-ca.pem"))
    return Papers(
        folder / "ca.pem",
        key_and_chain(ours.issue_cert("127.0.0.1"), folder / "broker.pem"),
        key_and_chain(ours.issue_cert("worker@example.org"), folder / "client.pem"),
        folder / "other-ca.pem",
        key_and_chain(other.issue_cert("worker@example.org"), folder / "stranger.pem"),
    )


def scram(papers: Papers, bootstrap: str) -> dict[str, str]:
    """Settings of alice, who knows her password and trusts the right CA."""
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(papers.ca),
        "sasl.mechanisms": "SCRAM-SHA-256",
        "sasl.username": "alice",
        "sasl.password": ALICE,
    }


def mutual(papers: Papers, bootstrap: str) -> dict[str, str]:
    """Settings of a client that shows a certificate."""
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SSL",
        "ssl.ca.location": str(papers.ca),
        "ssl.certificate.location": str(papers.client),
        "ssl.key.location": str(papers.client),
    }


def written(values: dict[str, str], path: Path) -> Path:
    """`client.properties`, as commands take it."""
    path.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    return path

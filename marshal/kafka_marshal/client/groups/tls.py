"""TLS between controllers and their clients, from PEM files.

It knows the files, and reports what is wrong with them. It does not know the connections.
"""

from __future__ import annotations

import ssl
from pathlib import Path

from kafka_marshal.errors import InvalidOption


def server_context(cert: Path, key: Path, client_ca: Path | None = None) -> ssl.SSLContext:
    """For a port. With `client_ca`, clients need a certificate that it signed.

    Raises:
        InvalidOption: a file cannot be read or holds something else; the message names it.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    _load_pair(context, cert, key)
    if client_ca is not None:
        _trust(context, "--tls-client-ca", client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(ca: Path | None, cert: Path | None, key: Path | None) -> ssl.SSLContext:
    """For a connection to a controller whose certificate `ca` signed, else one that is public.

    Raises:
        InvalidOption: a file cannot be read or holds something else; the message names it.
    """
    context = ssl.create_default_context()
    if ca is not None:
        _trust(context, "--tls-ca", ca)
    if cert is not None:
        _load_pair(context, cert, cert if key is None else key)
    return context


def _load_pair(context: ssl.SSLContext, cert: Path, key: Path) -> None:
    for option, path in (("--tls-cert", cert), ("--tls-key", key)):
        if not path.is_file():
            raise InvalidOption(f"{option} {path}: there is no such file")
    try:
        context.load_cert_chain(cert, key, password="")  # an encrypted key must not prompt
    except (OSError, ValueError) as error:
        raise InvalidOption(f"--tls-cert {cert}, --tls-key {key}: {_why(error)}") from None


def _trust(context: ssl.SSLContext, option: str, ca: Path) -> None:
    try:
        context.load_verify_locations(ca)
    except (OSError, ValueError) as error:
        raise InvalidOption(f"{option} {ca}: {_why(error)}") from None


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return f"no certificate or key in PEM ({error.reason or error})"
    return getattr(error, "strerror", None) or str(error)

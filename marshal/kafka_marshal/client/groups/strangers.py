"""Recognises other servers at an address where no controller answers: often the port is wrong.

It connects like other protocols' clients, and knows their servers by the first bytes of an answer.
It does not know what a controller is.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Final

from kafka_marshal.client.connect.environment import Environment

ANSWER_S: Final = 2.0
"""How long each try may take, in seconds."""
_API_VERSIONS: Final = bytes.fromhex("0000000a 0012 0000 00000007 ffff")
"""Kafka's ApiVersions, version 0: the one request that every broker answers."""
_GET: Final = b"GET / HTTP/1.0\r\n\r\n"


def what_listens(
    host: str, port: int, tls: ssl.SSLContext | None, environment: Environment
) -> str | None:
    """A sentence about the server and what to do; None if it is unknown, or refuses connections.

    `tls` is the setting with which the controller was asked; None means without TLS.
    """

    def answers(request: bytes, known: Callable[[bytes], bool], by: ssl.SSLContext | None) -> bool:
        try:
            stream = environment.connect(host, port, ANSWER_S, by)
            try:
                stream.send(request, ANSWER_S)
                return known(stream.receive(ANSWER_S))
            finally:
                stream.close()
        except OSError:
            return False

    if answers(_API_VERSIONS, _is_brokers, None) or (
        tls is not None and answers(_API_VERSIONS, _is_brokers, tls)
    ):
        return "is a broker of Kafka: name the address at which `marshal controller` listens"
    if answers(_GET, lambda answer: answer.startswith(b"HTTP/"), tls):
        return "speaks HTTP, as metrics do: name the address at which `marshal controller` listens"
    if tls is None and _takes_tls(host, port, environment):
        return "expects TLS: add --tls-ca FILE"
    return None


def _is_brokers(answer: bytes) -> bool:
    """Whether it is a size, our number, no error, and as many versions as it has room for."""
    return answer[4:8] == _API_VERSIONS[8:12] and (
        int.from_bytes(answer[:4]) == 10 + 6 * int.from_bytes(answer[10:14])
    )


def _takes_tls(host: str, port: int, environment: Environment) -> bool:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # nothing is sent
    try:
        environment.connect(host, port, ANSWER_S, context).close()
    except OSError:
        return False
    return True

"""`marshal broker`: a real Kafka broker in the foreground, for tries."""

from __future__ import annotations

import signal
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from kafka_marshal.cli.common import check_folder, console, errors, fail, one_sentence
from kafka_marshal.jars import JarError
from kafka_marshal.java import JavaNotFoundError
from kafka_marshal.testing import Broker, BrokerError, version


def broker(
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65_535, show_default="a free one", help="Where it listens."),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            show_default="a temporary one",
            help="Where it keeps its logs; a later broker goes on with them.",
        ),
    ] = None,
) -> None:
    """Run one real Kafka broker on this machine, until Ctrl-C.

    It listens on 127.0.0.1 and is its own controller. Prints the bootstrap address on standard
    output as soon as it serves.
    """
    check_folder("--folder", folder)
    _check_port(port)
    signal.signal(signal.SIGTERM, _interrupt)
    kafka = Broker(port=port, folder=folder)
    with one_sentence(BrokerError, JarError, JavaNotFoundError), suppress(KeyboardInterrupt):
        try:
            with errors.status("starting Kafka"):
                kafka.start()
            errors.print(f"Kafka {version()} in {kafka.folder}; Ctrl-C ends it")
            console.print(kafka.bootstrap, markup=False)
            while kafka.running:
                time.sleep(0.2)
            raise BrokerError(f"the broker ended by itself; see {kafka.log}")
        finally:
            kafka.close()


def _check_port(port: int | None) -> None:
    """Stop if somebody listens there: Kafka would say so in its log, among much else."""
    if port is None:
        return
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            fail(f"--port {port}: {error.strerror}")


def _interrupt(number: int, _: object) -> NoReturn:
    raise KeyboardInterrupt

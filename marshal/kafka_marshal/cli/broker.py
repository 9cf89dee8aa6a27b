"""`marshal broker`: a real Kafka broker in the foreground, for tries."""

from __future__ import annotations

import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from kafka_marshal.cli.common import console, errors, fail, one_sentence
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
    if folder is not None and folder.exists() and not folder.is_dir():
        fail(f"--folder: {folder} is not a folder")
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


def _interrupt(number: int, _: object) -> NoReturn:
    raise KeyboardInterrupt

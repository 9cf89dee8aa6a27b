"""`marshal broker`: runs a real Kafka broker in the foreground, for trials."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer

from kafka_marshal.cli.common import (
    check_folder,
    console,
    errors,
    fail,
    needs,
    one_sentence,
    path_of,
)
from kafka_marshal.errors import COORDINATION_TOPIC
from kafka_marshal.java.finder import JavaNotFoundError
from kafka_marshal.java.jars import JarError
from kafka_marshal.testing import QUICK, Broker, BrokerError, version
from kafka_marshal.testing.kafka import fetched_jars, jars


def broker(
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65_535, show_default="a free port", help="The port to listen on."),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            parser=path_of("--folder"),
            show_default="a temporary folder",
            help="The folder for its logs; a later broker continues with them.",
        ),
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOPIC[:PARTITIONS]",
            show_default=False,
            help="Create this topic, and the coordination topic. Repeat for several topics.",
        ),
    ] = None,
    messages: Annotated[
        int, typer.Option(min=0, help="The number of numbered messages to append to each --topic.")
    ] = 0,
) -> None:
    """Run one real Kafka broker on this machine, until Ctrl-C.

    It listens on 127.0.0.1 and is its own controller. It prints the bootstrap address on standard
    output as soon as it accepts clients, with --topic only after the topics exist.
    """
    if messages and not topic:
        fail("--messages needs --topic")
    check_folder("--folder", folder)
    _check_port(port)
    make_topics = _topics(topic, messages) if topic else None
    kafka = Broker(port=port, folder=folder, java_options=QUICK)
    with one_sentence(BrokerError, JarError, JavaNotFoundError), suppress(KeyboardInterrupt):
        try:
            if not all(jar.path.is_file() for jar in jars()):
                with _step(f"fetching Kafka {version()}: 43 MB, once"):
                    fetched_jars()
            with _step(f"starting Kafka {version()}: 5 to 10 s"):
                kafka.start()
            if make_topics is not None:
                make_topics(kafka.bootstrap)
            errors.print(f"listening on {kafka.bootstrap}, logs in {kafka.folder}; Ctrl-C ends it")
            console.print(kafka.bootstrap, markup=False)
            while kafka.running:
                time.sleep(0.2)
            raise BrokerError(f"the broker ended by itself; see {kafka.log}")
        finally:
            kafka.close()


@contextmanager
def _step(words: str) -> Iterator[None]:
    """Print what takes a while, at once: on a terminal it moves, and goes when it is done."""
    if errors.is_terminal:
        with errors.status(words):
            yield
    else:
        errors.print(words)
        yield


def _topics(wanted: list[str], messages: int) -> Callable[[str], None]:
    """What makes the topics on the cluster with this address; stops if one is not written right."""
    with needs("kafka"):
        from kafka_marshal.admin.trial import Trial, create
        from kafka_marshal.client.connect.admin_client import ClusterClient, TopicExists
        from kafka_marshal.client.connect.coordination_topic import TopicSpec, ensure
        from kafka_marshal.client.connect.settings import settings_from
    with one_sentence():
        trials = [Trial.parsed(text) for text in wanted]

    def make(bootstrap: str) -> None:
        cluster = ClusterClient(settings_from(bootstrap))
        _, created = ensure(cluster, TopicSpec(COORDINATION_TOPIC))
        _print_made(COORDINATION_TOPIC, "coordination topic" if created else None)
        for trial in trials:
            made: str | None = f"partitions: {trial.partitions}, messages: {messages:,}"
            with errors.status(f"making {trial.topic}"):
                try:
                    create(cluster, trial, messages)
                except TopicExists:
                    made = None
            _print_made(trial.topic, made)

    return make


def _print_made(topic: str, made: str | None) -> None:
    errors.print(f"{topic}: {made or 'exists already, left as it is'}")


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

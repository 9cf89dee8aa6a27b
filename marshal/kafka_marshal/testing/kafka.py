"""The jars of Kafka, and how to run one of their classes in its own Java process.

It does not know what a broker is, nor how many there are.
"""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Final

from kafka_marshal.java import class_data
from kafka_marshal.java.finder import find_java
from kafka_marshal.java.jars import Jar, ensure_all, listed

QUICK: Final = ("-XX:TieredStopAtLevel=1",)
"""Options of Java for a broker that starts sooner and works slower: right for tests."""

_LOGGING: Final = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
    "-Dlog4j2.StatusLogger.level=off",  # log4j is there without a configuration, and nobody's log
)


class BrokerError(Exception):
    """A broker, or a tool of it, did not run; the message holds the last lines that it wrote."""


def jars() -> tuple[Jar, ...]:
    """The jars of the broker, pinned."""
    return listed((resources.files(__package__) / "broker.jars").read_text())


def version() -> str:
    """Which Kafka it is."""
    return next(jar.revision for jar in jars() if jar.module == "kafka_2.13")


@functools.cache
def fetched_jars() -> tuple[Path, ...]:
    """The jars' paths; they are fetched once, which takes half a minute.

    Raises:
        JarError: they cannot be fetched.
        JavaNotFoundError: there is no Java.
    """
    return tuple(ensure_all(jars()))


def command_line(
    java_options: tuple[str, ...],
    main_class: str,
    *arguments: str,
    classes: Sequence[Path] = (),
) -> list[str]:
    """The command for a class of the jars; `classes` are folders whose classes take precedence."""
    found, jars = find_java(), fetched_jars()
    # Java only accepts class data for the same class path.
    data = () if classes else class_data.options(found, jars)
    java = [str(found.executable), "-XX:+UseSerialGC", *data]
    class_path = os.pathsep.join(map(str, (*classes, *jars)))
    return [*java, *java_options, "-cp", class_path, *_LOGGING, main_class, *arguments]


def run_tool(main_class: str, *arguments: str, timeout_s: float = 60.0) -> str:
    """Run a class of the jars to its end and return what it printed.

    For example `kafka.tools.DumpLogSegments` and
    `org.apache.kafka.tools.consumer.ConsoleConsumer`.

    Raises:
        BrokerError: it failed, or did not end in time.
    """
    command = command_line(("-Xmx128m", *QUICK), main_class, *arguments)
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=timeout_s
        )
    except subprocess.TimeoutExpired:
        raise BrokerError(f"{main_class} did not end within {timeout_s:g} s") from None
    if ran.returncode != 0:
        output = last_lines((ran.stdout + ran.stderr).encode())
        raise BrokerError(f"{main_class} ended with exit code {ran.returncode}: {output}")
    return ran.stdout


def last_lines(output: bytes) -> str:
    """The last lines that a Java process printed, without those of its stack traces."""
    lines = output.decode("utf-8", "replace").splitlines()
    words = [line for line in lines if not line.startswith(("\tat ", "\t... "))][-15:]
    return "it printed at last\n" + "\n".join(words) if words else "it printed nothing"

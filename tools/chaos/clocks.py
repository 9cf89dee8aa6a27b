"""Brokers whose dates can be set: their Java takes `SystemTime.java` for Kafka's clock."""

from __future__ import annotations

from pathlib import Path

from kafka_marshal.java.compiler import compiled
from kafka_marshal.testing.kafka import fetched_jars


class Clocks:
    """How far each broker's date is ahead, in files of a folder, by its process.

    A broker's date is right when it starts.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True)

    @property
    def java_options(self) -> tuple[str, ...]:
        """What a broker is started with."""
        return (f"-Dchaos.clocks={self._folder.absolute()}",)

    @property
    def classes(self) -> tuple[Path, ...]:
        """The class that goes before Kafka's."""
        source = Path(__file__).with_name("SystemTime.java")
        return (compiled(source, fetched_jars()),)

    def set(self, pid: int, ahead_ms: int) -> None:
        """From now on the broker's date is ahead by as much; behind, if it is negative."""
        # Java has mapped the file: what it reads must never be half written, nor cut.
        with (self._folder / str(pid)).open("r+b", buffering=0) as file:
            file.write(ahead_ms.to_bytes(8, signed=True))

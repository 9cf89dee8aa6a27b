"""The scripted original at work on a real broker: in a thread, by its own clock, no headers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import attrs
from confluent_kafka import Producer

from kafka_marshal import ORIGINAL, World, encode
from kafka_marshal.client.connect.reader import CoordinationReader
from kafka_marshal.client.connect.settings import settings_of
from kafka_marshal.codec import coordinating_partition
from kafka_marshal.core.messages import Message, Record
from kafka_marshal.machines.consumer.effects import Send
from tests.client.crew import Stage
from tests.machines.interop.originals import READS_NO_GROUPS, Invalid, Original

GROUP = "g"
"""Of every scripted original."""
PLACES = 4
TURN_S = 0.05


class OriginalAtWork:
    """One instance of the original. It processes whatever it believes to be its own."""

    def __init__(
        self, stage: Stage, topic: str, end: Callable[[], int], interval_s: float, name: str = "o1"
    ) -> None:
        """`end` is how many messages the topic's only partition holds."""
        assert stage.group == GROUP
        self.topic, self.place = topic, coordinating_partition(topic, PLACES)
        self.logs: dict[int, list[Record]] = {self.place: []}
        self.dropped: list[bytes] = []
        """What it does not read."""
        self.failure: BaseException | None = None
        self._end, self._coordination = end, stage.coordination
        self._reader = CoordinationReader(settings_of(stage.bootstrap), stage.coordination)
        self._next = 0
        self._producer = Producer({"bootstrap.servers": stage.bootstrap, "log_level": "0"})
        interval_ms = int(1_000 * interval_s)
        # It counts whole seconds. As patient as ours it takes over a moment too soon for our rules,
        # and works in vain (docs/interop.md).
        rules = attrs.evolve(ORIGINAL, heartbeat_interval_ms=interval_ms + 500)
        self._original = Original(self, name, name[0], 1, World(rules), interval_ms)
        self._in_order, self._ended = False, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def got(self) -> list[int]:
        """The offsets that it processed, in its order."""
        return [offset for _, offset in list(self._original.processed)]

    def end(self) -> None:
        """It gives back what it has, and ends."""
        self._in_order = True
        self.kill()

    def kill(self) -> None:
        """It ends between two turns, and sends nothing more."""
        self._ended.set()
        self._thread.join(30)
        assert not self._thread.is_alive()
        assert self.failure is None

    # --- as an original sees it -------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        return int(time.time() * 1_000)

    def end_of(self, partition: int) -> int:
        return self._end()

    def send(self, message: Message) -> None:
        self._producer.produce(self._coordination, encode(message), partition=self.place)
        assert self._producer.flush(30) == 0

    def append(self, send: Send) -> None:
        self.send(send.message)

    # --- in its thread ----------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._ended.wait(TURN_S):
                self._read()
                self._original.turn()
            if self._in_order:
                self._original.release()
        except BaseException as error:
            self.failure = error
        finally:
            self._reader.close()

    def _read(self) -> None:
        high = self._reader.extents()[self.place].high
        if high == self._next:
            return
        for raws in self._reader.records({self.place: self._next}, {self.place: high}):
            for raw in raws:
                try:
                    READS_NO_GROUPS.read(raw.value or b"")
                except Invalid:
                    self.dropped.append(raw.value or b"")
                else:
                    self.logs[self.place].append(raw.decoded())
        self._next = high

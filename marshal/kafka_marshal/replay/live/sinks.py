"""Outputs of a watch: a file that is truncated to the last commit, and a Kafka topic.

A sink receives reports, and makes them durable on request. It does not know their meaning.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Final, Protocol

from confluent_kafka import KafkaError, KafkaException, Message

from kafka_marshal.client.connect.client_errors import not_taken
from kafka_marshal.client.connect.reader import MutedLogger
from kafka_marshal.client.connect.settings import APPENDS_ONCE, ONE_AT_A_TIME, Settings
from kafka_marshal.errors import BrokerFailed, naming
from kafka_marshal.replay.errors import ReplayError
from kafka_marshal.replay.live.live_findings import LiveEvent
from kafka_marshal.replay.model.published import FindingRow

FLUSH_S: Final = 30.0


class Sink(Protocol):
    """An output for reports."""

    def emit(self, event: LiveEvent) -> None:
        """Add one report."""

    def flush(self) -> None:
        """Make the reports visible to readers."""

    def settle(self) -> None:
        """Make the reports durable: after this, a checkpoint may count them as done.

        Another thread may call it while more reports are added.
        """

    def close(self) -> None:
        """No more reports follow."""


class Lines:
    """A callable that receives reports, such as the terminal. Nothing is durable."""

    def __init__(self, show: Callable[[LiveEvent], None], shown: Callable[[], None]) -> None:
        self.emit = show
        self.flush = shown

    def settle(self) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Does nothing."""


class JsonFile:
    """JSON lines in a file, each exactly once.

    With a checkpoint, the file's length is part of the commit, and a restart removes what was
    written after it.
    """

    def __init__(self, path: Path, length: int | None) -> None:
        """Open the file to continue after `length` bytes; None: it must be new or empty.

        It is locked until it is closed.

        Raises:
            ReplayError: it cannot be written or is no regular file, another watch writes to it, it
                is shorter than that, or has other content.
        """
        self.path = path
        try:
            if path.exists() and not (path.is_file() or path.is_dir()):
                why = "is not a regular file, and --out needs one; --json prints the same lines"
                raise ReplayError(f"{path}: {why}")
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("ab")
        except OSError as error:
            raise ReplayError(f"{path}: cannot write there: {error.strerror or error}") from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise ReplayError(f"{path}: another watch writes to it; give another --out") from None
        except OSError:
            pass  # a file system without locks
        size = path.stat().st_size
        if size < (length or 0):
            self._file.close()
            raise ReplayError(
                f"{path}: holds {size:,} bytes, and the checkpoint had recorded {length:,}: it is "
                f"another file, or was cut; give another --checkpoint and another --out"
            )
        if length is None and size:
            self._file.close()
            raise ReplayError(
                f"{path}: holds something already, and there is no checkpoint that says how much "
                f"of it is ours: give another --out"
            )
        with naming(path):
            self._file.truncate(length or 0)
        self.length = length or 0

    def emit(self, event: LiveEvent) -> None:
        """Write one line."""
        line = event.json().encode() + b"\n"
        with naming(self.path):
            self._file.write(line)
        self.length += len(line)

    def flush(self) -> None:
        """Make the lines visible to other processes."""
        with naming(self.path):
            self._file.flush()

    def settle(self) -> None:
        """Make the lines durable, even after a power failure."""
        with naming(self.path):
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        with naming(self.path):
            self._file.close()


class ToTopic:
    """A Kafka topic, at least once: a restart repeats reports after the last commit.

    The key identifies the subject of a record; two records with one key and one value are one
    finding.
    """

    def __init__(self, settings: Settings, topic: str) -> None:
        """Connect.

        Raises:
            BrokerFailed: the settings are refused.
        """
        self._settings, self._topic = settings, topic
        self._failed: KafkaError | None = None
        self._commit = 0
        """The number of commits."""
        self._open: Counter[int] = Counter()
        """By commit, the number of its records that are not in the topic yet."""
        self._lock = Lock()
        decided = {**APPENDS_ONCE, **ONE_AT_A_TIME, **settings.batches(), "linger_ms": "5"}
        try:
            self._producer = settings.environment.appender(
                settings.for_client(**decided), logger=MutedLogger()
            )
        except KafkaException as error:
            raise BrokerFailed(settings.without_secrets(f"--to-topic: {error}")) from None

    def emit(self, event: LiveEvent) -> None:
        """Send one record.

        Raises:
            BrokerFailed: this record or an earlier one is refused.
        """
        row = event.row
        names = ("code", "group", "topic", "topic_partition", "coordinating_partition", "offset")
        parts = [getattr(row, name, "") for name in names]
        if isinstance(row, FindingRow) and row.group is None:  # a fact of the log
            parts = ["" if part is None else part for part in parts]
        key = "/".join(map(str, parts))
        with self._lock:
            commit = self._commit
            self._open[commit] += 1
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    event.json().encode(),
                    key.encode("utf-8", "backslashreplace"),
                    on_delivery=partial(self._delivered, commit),
                )
                return
            except BufferError:
                self._poll(0.1)
            except KafkaException as error:
                self._poll(0)  # an error that ended the client before has the reason
                raise self._refused(error.args[0]) from None

    def flush(self) -> None:
        """Let the client send and receive.

        Raises:
            BrokerFailed: a record was refused.
        """
        self._poll(0)

    def settle(self) -> None:
        """Wait until all earlier reports are in the topic; later ones are not waited for.

        Raises:
            BrokerFailed: a record was refused, or they are not in the topic within `FLUSH_S`.
        """
        with self._lock:
            self._commit += 1
            settled = self._commit
        give_up_s = time.monotonic() + FLUSH_S
        while self._is_open(settled):
            if time.monotonic() > give_up_s:
                raise BrokerFailed(f"--to-topic {self._topic}: not written within {FLUSH_S:g} s")
            self._poll(0.05)
        self._poll(0)

    def close(self) -> None:
        """Close the producer; reports that were not settled may be lost."""
        self._producer.purge()

    def _is_open(self, settled: int) -> bool:
        with self._lock:
            return any(commit < settled for commit in self._open)

    def _delivered(self, commit: int, error: KafkaError | None, _: Message) -> None:
        with self._lock:
            self._failed = self._failed or error
            self._open[commit] -= 1
            if not self._open[commit]:
                del self._open[commit]

    def _poll(self, timeout_s: float) -> None:
        """Let the client send and receive; raises BrokerFailed if a record was refused."""
        try:
            self._producer.poll(timeout_s)
        except KafkaException as error:  # it can append nothing more, and reports that only here
            raise self._refused(error.args[0]) from None
        if self._failed is not None:
            raise self._refused(self._failed)

    def _refused(self, error: KafkaError) -> BrokerFailed:
        """The sentence for the first error, which is the reason for later ones."""
        with self._lock:
            self._failed = error = self._failed or error
        reason = f"--to-topic {self._topic}: {not_taken(error)}"
        if error.code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED:  # it may write no topic
            reason += f": see whether the user may WRITE topic {self._topic}"
        return BrokerFailed(self._settings.without_secrets(reason))

"""A producer for tests: what it appends is in the topic, in its order, or the test fails."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import KafkaError, Message, Producer

IN_ORDER: Final = {
    "acks": "all",
    "enable.idempotence": True,
    "max.in.flight.requests.per.connection": 1,
}
"""One batch at a time.

A broker that has only just heard of a topic may refuse the first batch and take the second. The
first one is sent again, and lies behind the second. With idempotence it is worse: the broker knows
no number of this producer, so it begins with the second batch's, takes the first for one that it
has, and librdkafka reports it as delivered.
"""


class Appender(Producer):
    """Appends records; a context manager, at whose end all of them are in their topics."""

    def __init__(self, bootstrap: str, **settings: Any) -> None:
        self._refused: list[str] = []
        options = {name.replace("_", "."): value for name, value in settings.items()}
        super().__init__(
            {
                "bootstrap.servers": bootstrap,
                **IN_ORDER,
                **options,
                "on_delivery": self._delivered,
            }
        )

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            where = f"{message.topic()}:{message.partition()}"
            self._refused.append(f"{where} did not take {message.value()!r}: {error}")

    def append_all(self) -> None:
        """Wait until the broker has everything that was produced."""
        assert self.flush(60) == 0, "the broker did not take everything within 60 s"
        assert not self._refused, "; ".join(self._refused[:3])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.append_all()
